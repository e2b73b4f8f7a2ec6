"""`DIALECT[name=value,...]=ENDPOINT`: how people say where a server is and what it speaks."""

from __future__ import annotations

import re

import msgspec

from gateway import dialects
from gateway.dialects.dialect import Dialect, Settings

SUCH_AS = "such as cursus=tcp:127.0.0.1:9000"

_SAID = re.compile(r"(?P<dialect>\w+)(?:\[(?P<settings>[^\]]*)\])?=(?P<endpoint>.+)")


class Spoken(msgspec.Struct, frozen=True):
    """A server: its dialect, the settings that a listener of it would have, and where it is."""

    dialect: Dialect
    settings: Settings
    endpoint: str


def spoken_at(text: str) -> Spoken:
    """What was said.  Raises ValueError, with a sentence."""
    found = _SAID.fullmatch(text)
    if found is None:
        raise ValueError(f"DIALECT=ENDPOINT is wanted, {SUCH_AS}, not {text!r}")
    dialect = _dialect(found["dialect"])
    return Spoken(dialect, _settings(dialect, found["settings"] or ""), found["endpoint"])


def _dialect(name: str) -> Dialect:
    try:
        dialect = dialects.load(name)
    except KeyError:
        raise ValueError(f"there is no dialect {name!r}; there are {', '.join(dialects.names())}") from None
    if dialect.upstream is None:
        raise ValueError(f"the dialect {name} does not say what its servers can be asked, so nothing can be asked")
    return dialect


def _settings(dialect: Dialect, text: str) -> Settings:
    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    unknown = [name for name, _, _ in pairs if name not in dialect.settings.__struct_fields__]
    if unknown:
        choices = ", ".join(sorted(dialect.settings.__struct_fields__))
        raise ValueError(f"{dialect.name} has no setting {unknown[0]!r}; there are {choices}")
    try:
        return msgspec.convert({name: value for name, _, value in pairs}, dialect.settings, strict=False)
    except ValueError as error:
        raise ValueError(f"{dialect.name}[{text}]: {error}") from error
