"""What an operator asked for: the configuration file, the defaults, and nothing that opens a socket."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from gateway import dialects
from gateway.dialects import Dialect, Settings

DEFAULT_BACKEND = "sqlite:./gateway-data"


class TLS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files in PEM.  certificate: the server's, followed by its chain.

    plaintext: connections without TLS are served too, told apart by their first byte.  The Java and Go clients of
               Cursus need that: with TLS set they still open some of their connections without it.
    """

    certificate: str
    key: str
    plaintext: bool = False


class ListenerPlan(msgspec.Struct, frozen=True):
    """One port to open.  endpoint: a Twisted server endpoint description."""

    name: str
    dialect: Dialect
    endpoint: str
    settings: Settings
    tls: TLS | None = None


class Configuration(msgspec.Struct, frozen=True):
    """A whole process.  backend: `NAME` or `NAME:ARGUMENT`."""

    listeners: tuple[ListenerPlan, ...] = ()
    backend: str = DEFAULT_BACKEND


def default_listeners() -> tuple[ListenerPlan, ...]:
    """Every dialect on its own port of the loopback address."""
    return tuple(
        ListenerPlan(name, dialect, f"tcp:{dialect.port}:interface=127.0.0.1", dialect.settings())
        for name in dialects.names()
        for dialect in [dialects.load(name)]
    )


def parse_listen(values: list[str]) -> tuple[ListenerPlan, ...]:
    """`DIALECT=ENDPOINT` as on the command line.  Raises ValueError with a sentence."""
    plans: list[ListenerPlan] = []
    for value in values:
        name, equals, endpoint = value.partition("=")
        if not equals:
            raise ValueError(f"--listen wants DIALECT=ENDPOINT, such as cursus=tcp:9000, not {value!r}")
        dialect = find_dialect(name)
        known = [plan.name for plan in plans]
        unique = name if name not in known else f"{name}-{len(known) + 1}"
        plans.append(ListenerPlan(unique, dialect, endpoint, dialect.settings()))
    return tuple(plans)


def read_configuration(path: str) -> Configuration:
    """A TOML file.  Raises ValueError: `file key: what is wrong`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    _only(_File.__struct_fields__, table, path)
    try:
        whole = msgspec.convert(table, _File)
    except msgspec.ValidationError as error:
        raise ValueError(f"{path}: {error}") from error
    plans = tuple(_plan(path, name, section) for name, section in whole.listener.items())
    return Configuration(plans, whole.backend.spec)


def find_dialect(name: str) -> Dialect:
    """Raises ValueError, with the dialects there are."""
    try:
        return dialects.load(name)
    except KeyError:
        raise ValueError(f"there is no dialect {name!r}; there are {', '.join(dialects.names())}") from None


class _Backend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    spec: str = DEFAULT_BACKEND


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    backend: _Backend = _Backend()
    listener: dict[str, dict[str, object]] = {}


class _Listener(msgspec.Struct, frozen=True):
    """What every listener has; the other keys are its dialect's settings."""

    dialect: str
    endpoint: str = ""
    tls: TLS | None = None


def _only(keys: tuple[str, ...], table: dict[str, object], where: str) -> None:
    for key in table:
        if key not in keys:
            raise ValueError(f"{where}: there is no key {key!r}; there are {', '.join(sorted(keys))}")


def _plan(path: str, name: str, section: dict[str, object]) -> ListenerPlan:
    try:
        common = msgspec.convert(section, _Listener)
        dialect = find_dialect(common.dialect)
        shared = _Listener.__struct_fields__
        _only(shared + dialect.settings.__struct_fields__, section, dialect.name)
        own = {key: value for key, value in section.items() if key not in shared}
        settings = msgspec.convert(own, dialect.settings)
    except ValueError as error:  # msgspec.ValidationError is one
        raise ValueError(f"{path} [listener.{name}]: {error}") from error
    endpoint = common.endpoint or f"tcp:{dialect.port}:interface=127.0.0.1"
    return ListenerPlan(name, dialect, endpoint, settings, common.tls)
