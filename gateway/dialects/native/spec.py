"""The native wire as a specification: msgpack in construct, and which fields make what.  Never in the serving path.

A frame is read without our Structs and without msgspec.  `MESSAGE` is the grammar, after
https://github.com/msgpack/msgpack/blob/master/spec.md; the tables of fields.py say what stands where.  Tests hold this
reading against that of wire.py, on good frames and on damaged ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from construct import (
    Array,
    Bytes,
    Computed,
    Construct,
    ConstructError,
    Container,
    Error,
    Float32b,
    Float64b,
    GreedyBytes,
    Int8sb,
    Int8ub,
    Int16sb,
    Int16ub,
    Int32sb,
    Int32ub,
    Int64sb,
    Int64ub,
    LazyBound,
    Prefixed,
    PrefixedArray,
    Struct,
    Switch,
    Terminated,
    this,
)

from gateway.dialects.native import fields

Body = Any
"""What construct parsed: it has no types."""

# -- msgpack

VALUE: Construct = LazyBound(lambda: MSGPACK)
PAIR = Array(2, VALUE)


def _extension(size: Construct) -> Construct:
    return Struct("size" / size, "type" / Int8sb, "octets" / Bytes(this.size))


HEADS: dict[int, tuple[str, Construct]] = {
    **{head: ("int", Computed(head)) for head in range(0x80)},
    **{0x80 + n: ("map", Array(n, PAIR)) for n in range(16)},
    **{0x90 + n: ("array", Array(n, VALUE)) for n in range(16)},
    **{0xA0 + n: ("text", Bytes(n)) for n in range(32)},
    0xC0: ("nil", Computed(None)),
    0xC2: ("bool", Computed(False)),
    0xC3: ("bool", Computed(True)),
    **{0xC4 + n: ("bytes", Prefixed(size, GreedyBytes)) for n, size in enumerate((Int8ub, Int16ub, Int32ub))},
    **{0xC7 + n: ("extension", _extension(size)) for n, size in enumerate((Int8ub, Int16ub, Int32ub))},
    0xCA: ("float", Float32b),
    0xCB: ("float", Float64b),
    **{0xCC + n: ("int", size) for n, size in enumerate((Int8ub, Int16ub, Int32ub, Int64ub))},
    **{0xD0 + n: ("int", size) for n, size in enumerate((Int8sb, Int16sb, Int32sb, Int64sb))},
    **{0xD4 + n: ("extension", _extension(Computed(1 << n))) for n in range(5)},
    **{0xD9 + n: ("text", Prefixed(size, GreedyBytes)) for n, size in enumerate((Int8ub, Int16ub, Int32ub))},
    **{0xDC + n: ("array", PrefixedArray(size, VALUE)) for n, size in enumerate((Int16ub, Int32ub))},
    **{0xDE + n: ("map", PrefixedArray(size, PAIR)) for n, size in enumerate((Int16ub, Int32ub))},
    **{0x100 - n: ("int", Computed(-n)) for n in range(1, 33)},
}
"""First byte of a value -> what kind of value it is, and the rest of it.  0xc1 begins none."""

MSGPACK: Construct = Struct(
    "head" / Int8ub,
    "body" / Switch(this.head, {head: rest for head, (_, rest) in HEADS.items()}, default=Error),
)
MESSAGE = Struct("value" / MSGPACK, Terminated)
FRAME = Struct("message" / Prefixed(Int32ub, GreedyBytes), Terminated)

# -- messages

Fields = dict[str, Body]
Message = tuple[int, str, Fields]


def parse_request(frame: bytes) -> Message | None:
    """Tag, kind and fields of a request, or of a hello as the kind "hello"; None = it is no request.

    Of record encodings only msgpack.v1 is known here.
    """
    message = _message(frame, {2: _command, 4: _hello})
    return None if message and len(frame) > fields.SHORT and message[1] not in fields.LONG else message


def parse_answer(frame: bytes) -> Message | None:
    """Tag, kind and fields of an answer, where the kind may be "!", ">" or "hello"; None = it is no answer."""
    return _message(frame, {2: _reply, 3: _push, 4: _hello, 5: _failure})


def _message(frame: bytes, forms: dict[int, Callable[[list[Container]], Message]]) -> Message | None:
    try:
        parts = _items(MESSAGE.parse(FRAME.parse(frame).message).value)
        return forms[len(parts)](parts) if len(parts) in forms else None
    except (ConstructError, ValueError, RecursionError):
        return None


def _command(parts: list[Container]) -> Message:
    kind, found = _choice(parts[1], fields.COMMANDS)
    if kind == "Publish":
        _check_batch(found["batch"])
    return _number(parts[0], 0, MAX_TAG), kind, found


def _reply(parts: list[Container]) -> Message:
    return _number(parts[0], 0, MAX_TAG), *_choice(parts[1], fields.REPLIES)


def _hello(parts: list[Container]) -> Message:
    found = _exactly(parts, "hello", fields.HELLO)
    if found["version"] != 1:
        raise ValueError("another version")
    return _number(parts[0], 0, 0), "hello", found


def _push(parts: list[Container]) -> Message:
    return _number(parts[0], 0, MAX_TAG), ">", _exactly(parts, ">", fields.PUSH)


def _failure(parts: list[Container]) -> Message:
    return _number(parts[0], 0, MAX_TAG), "!", _exactly(parts, "!", fields.FAILURE)


def _exactly(parts: list[Container], word: str, table: str) -> Fields:
    if _text(parts[1]) != word:
        raise ValueError(f"{word} belongs here")
    return _fields(parts[2:], table)


def _check_batch(batch: Fields) -> None:
    """Raise ValueError unless it is a batch in msgpack.v1 of as many records as it says, 1..100,000."""
    if batch["encoding"] != "msgpack.v1":
        raise ValueError("an encoding unknown here")
    records = [_fields(_items(node), fields.SHAPES["record"]) for node in _items(MESSAGE.parse(batch["body"]).value)]
    if not len(records) == batch["count"] in range(1, 100_001):
        raise ValueError("not as many records as it says")
    for record in records:
        if len(record.get("id", b"")) not in (0, 16):
            raise ValueError("an id has 16 bytes")
        for header in record.get("headers", ()):
            if len(header["value"]) != WIDTHS.get(header.get("kind"), len(header["value"])):
                raise ValueError("a header value has the width of its kind")


WIDTHS = {3: 1, 4: 1, 5: 2, 6: 4, 7: 8, 8: 16, 9: 1, 10: 2, 11: 4, 12: 8, 13: 16, 14: 4, 15: 8}
"""Kind of a header -> bytes of its value; raw and text have any."""

# -- values

MAX_TAG = 0xFFFFFFFF
MAX_NATURAL = 0x7FFFFFFFFFFFFFFF


def _body(node: Container, *kinds: str) -> Body:
    kind, _ = HEADS[node.head]
    if kind not in kinds:
        raise ValueError(f"{kind}, not {' or '.join(kinds)}")
    return node.body


def _items(node: Container) -> list[Container]:
    return list(_body(node, "array"))


def _text(node: Container) -> str:
    return str(_body(node, "text"), "utf-8")


def _number(node: Container, low: int, high: int, *kinds: str) -> Body:
    value = _body(node, "int", *kinds)
    if not low <= value <= high:
        raise ValueError(f"{value}, not {low}..{high}")
    return value


def _one_of(value: Body, allowed: Collection[object]) -> Body:
    if value not in allowed:
        raise ValueError(f"{value}, not one of {allowed}")
    return value


def _id(node: Container) -> Body:
    return _number(node, 0, MAX_TAG) if HEADS[node.head][0] == "int" else _text(node)


def _entry(node: Container) -> tuple[Body, Body]:
    key, value = _items(node)  # more or fewer are a ValueError too
    return _body(key, "bytes"), _body(value, "bytes")


SCALARS: dict[str, Callable[[Container], Body]] = {
    "text": _text,
    "bytes": lambda node: _body(node, "bytes"),
    "bool": lambda node: _body(node, "bool"),
    "nat": lambda node: _number(node, 0, MAX_NATURAL),
    "i64": lambda node: _number(node, -MAX_NATURAL - 1, MAX_NATURAL),
    "int": lambda node: _body(node, "int"),
    "u32": lambda node: _number(node, 0, MAX_TAG),
    "id": _id,
    "seconds": lambda node: _number(node, 0, MAX_TAG, "float"),
    "percent": lambda node: _body(node, "int", "float"),
    "acks": lambda node: _one_of(_body(node, "int"), (0, 1, -1)),
    "if_exists": lambda node: _one_of(_text(node), ("fail", "keep", "grow")),
    "header_kind": lambda node: _number(node, 1, 15),
    "entry": _entry,
    "fact": lambda node: _body(node, "int") if HEADS[node.head][0] == "int" else _text(node),
}


def _value(node: Container, kind: str) -> Body:
    """What a node says where a value of this kind belongs; `kind` is written as in fields.py."""
    match kind[0], kind[-1]:
        case _, "?":
            return None if HEADS[node.head][0] == "nil" else _value(node, kind[:-1])
        case "[", "]":
            return [_value(item, kind[1:-1]) for item in _items(node)]
        case "{", "}":
            of_key, of_value = kind[1:-1].split(",")
            return {_value(key, of_key): _value(value, of_value) for key, value in _body(node, "map")}
    if kind in SCALARS:
        return SCALARS[kind](node)
    if kind in fields.NUMBERED and HEADS[node.head][0] == "int":
        return _number(node, 0, MAX_NATURAL)
    if kind in fields.SHAPES:
        return _fields(_items(node), fields.SHAPES[kind])
    return _choice(node, fields.CHOICES[kind] if kind in fields.CHOICES else {kind: fields.REPLIES[kind]})


def _choice(node: Container, kinds: Mapping[str, str]) -> tuple[str, Fields]:
    """An array that begins with a word: the word and the fields that it announces."""
    first, *rest = _items(node)  # an empty array is a ValueError
    kind = _one_of(_text(first), kinds)
    return kind, _fields(rest, kinds[kind])


def _fields(nodes: list[Container], table: str) -> Fields:
    """Nodes by the names in a table.  More nodes than names are passed over, those left out have to be `=` fields."""
    found: Fields = {}
    for at, field in enumerate(table.split()):
        name, kind = field.split(":")
        if at < len(nodes):
            found[name] = _value(nodes[at], kind.removesuffix("="))
        elif not kind.endswith("="):
            raise ValueError(f"{name} is missing")
    return found
