"""A command as JSON: what was asked, without secrets and without what records hold."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from gateway.core.commands import Authenticate, Command, IfEquals, MapPut
from gateway.core.records import Encoding, RecordBatch

Plain = object

SECRETS: dict[type, str] = {Authenticate: "secret"}
BODIES: dict[type, str] = {RecordBatch: "body", MapPut: "value", IfEquals: "value"}
"""The field of which only the size is told."""

_encode = msgspec.json.Encoder().encode


def details(command: Command) -> str:
    """An object of its fields that are not what they are by themselves.

    References to a topic are objects of namespace and name, bytes are text where they are UTF-8 and else `0x...`; of a
    batch its encoding, count and size are told, of a value its size.  The partition that is None, which is the one that
    a member was given last, is called `its own`.
    """
    return _encode(_fields(command)).decode("utf-8", "replace")


def _fields(value: msgspec.Struct) -> dict[str, Plain]:
    kind = type(value)
    body, secret = BODIES.get(kind), SECRETS.get(kind)
    required = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
    defaults = (msgspec.NODEFAULT,) * required + kind.__struct_defaults__
    said: dict[str, Plain] = {}
    for name, default in zip(kind.__struct_fields__, defaults, strict=True):
        field = getattr(value, name)
        if name == body:
            said["bytes"] = len(field)
        elif name != secret and field not in (default, {}, ()):
            said[name] = _plain(field)
    return said


def _plain(value: object) -> Plain:
    match value:
        case enum.Enum():
            return value.name
        case Encoding():
            return value.name
        case msgspec.Struct():
            kind = type(value).__struct_config__.tag
            return ({"kind": kind} if isinstance(kind, str) else {}) | _fields(value)
        case bytes():
            return _text(value)
        case Mapping():
            return {"its own" if key is None else str(_plain(key)): _plain(each) for key, each in value.items()}
        case tuple() | list():
            return [_plain(each) for each in value]
        case str():
            return value.encode("utf-8", "replace").decode()
    return value


def _text(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return f"0x{octets.hex()}"
