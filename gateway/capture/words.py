"""Commands and replies in a few words, for people.  What clients chose cannot steer a terminal."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from gateway.core.commands import Authenticate
from gateway.core.faults import CommandFailed
from gateway.core.records import Encoding, Record, RecordBatch
from gateway.dialects import Refusal, Request

LONG = 60
"""Letters of a text, or of bytes, that are shown."""

MANY = 8
"""Elements of a list that are shown."""


def plain(text: str) -> str:
    """On one line, without anything that a terminal would obey."""
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape", "surrogatepass").decode() if letter != "\x7f" else "\\x7f"


def words(value: object) -> str:
    """Any value of the model."""
    match value:
        case Request():
            return words(value.command)
        case Refusal():
            return f"refused: {plain(str(value.failure))}"
        case CommandFailed():
            return plain(str(value))
        case Authenticate():
            return f"Authenticate({value.mechanism}, {words(value.principal)}, ...)"
        case RecordBatch():
            return f"{value.count} records from {value.base}"
        case Encoding():
            return value.name
        case Record():
            return _record(value)
        case enum.Enum():
            return value.name
        case msgspec.Struct():
            return _struct(value)
        case bytes():
            return _octets(value)
        case str():
            return repr(value) if len(value) <= LONG else f"{value[:LONG]!r}..."
        case Mapping():
            return "{" + _several([f"{words(key)}: {words(each)}" for key, each in value.items()]) + "}"
        case tuple() | list():
            return "[" + _several([words(each) for each in value[: MANY + 1]], len(value)) + "]"
    return plain(str(value))


def _struct(value: msgspec.Struct) -> str:
    """The fields that are not what they are by themselves."""
    kind = type(value)
    required = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
    defaults = (msgspec.NODEFAULT,) * required + kind.__struct_defaults__
    said = [
        f"{name}={words(getattr(value, name))}"
        for name, default in zip(kind.__struct_fields__, defaults, strict=True)
        if getattr(value, name) not in (default, {}, ())
    ]
    return f"{kind.__name__}({', '.join(said)})"


def _record(record: Record) -> str:
    key = "" if record.key is None else f"{_octets(record.key)} = "
    return f"{key}{'removed' if record.value is None else _octets(record.value)}"


def _octets(octets: bytes) -> str:
    cut = octets[:LONG]
    try:
        shown = repr(cut.decode()) if cut.decode().isprintable() else repr(cut)
    except UnicodeDecodeError:
        shown = repr(cut)
    return shown if len(octets) <= LONG else f"{shown}... of {len(octets)} bytes"


def _several(shown: list[str], count: int | None = None) -> str:
    count = len(shown) if count is None else count
    more = [f"... {count} in all"] if count > MANY else []
    return ", ".join([*shown[:MANY], *more])


def hexed(octets: bytes, most: int = 512) -> list[str]:
    """Lines of 16 bytes: offset, hex, letters."""
    lines = [
        f"{at:08x}  {octets[at : at + 16].hex(' '):47}  {''.join(map(_letter, octets[at : at + 16]))}"
        for at in range(0, min(len(octets), most), 16)
    ]
    return lines if len(octets) <= most else [*lines, f"... {len(octets)} bytes in all"]


def _letter(octet: int) -> str:
    return chr(octet) if 32 <= octet < 127 else "."
