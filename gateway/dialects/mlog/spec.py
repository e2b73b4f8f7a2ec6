"""The mlog protocol as a grammar: slow, readable, what the fast path is tested against.  The server never loads it.

Frames, protobuf and the replication batch are construct's.  JSON is the standard library's `json`, told to keep pairs
and numbers as they are written, and then one rule after another of what Go makes of them.  How many fields of protobuf,
and how deep in groups, a server has patience for is no part of it.
Source: protocol page, sections 1 to 3.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterator

from construct import (
    Byte,
    Bytes,
    Check,
    Computed,
    Const,
    Construct,
    ConstructError,
    Container,
    Error,
    ExprValidator,
    GreedyBytes,
    GreedyRange,
    Int8ub,
    Int16ub,
    Int32sb,
    Int32ub,
    Int64sb,
    LazyBound,
    Prefixed,
    RepeatUntil,
    Struct,
    Switch,
    Terminated,
    this,
)

MAX_PAYLOAD = 4_194_304
MAX_OFFSET = 2**63 - 1
MAX_NAME = 255
MAX_VALUES = 130_000
MAX_DEPTH = 64

# -- frames and batches

FRAME = Struct(
    "type" / ExprValidator(Int16ub, lambda number, _: number <= 28),
    "payload" / Prefixed(ExprValidator(Int32ub, lambda size, _: size <= MAX_PAYLOAD), GreedyBytes),
    Terminated,
)

RECORD = Struct(
    "offset" / Int64sb,
    "value" / Prefixed(ExprValidator(Int32sb, lambda size, _: size >= 0), GreedyBytes),
)

REPLICATION_BATCH = Struct(
    "base_offset" / Int64sb,
    "length" / Int32sb,
    "leader_epoch" / Int32sb,
    "crc" / Int32ub,
    "attributes" / Const(0, Int8ub),
    "last_offset_delta" / Int32sb,
    "body" / Bytes(this.length),
    Terminated,
    Check(lambda it: zlib.crc32(it.body) == it.crc),
    "records" / Computed(lambda it: GreedyRange(RECORD).parse(it.body)),
)

# -- protobuf


def _number(octets: list[int]) -> int:
    return sum((octet & 0x7F) << 7 * place for place, octet in enumerate(octets))


VARINT = Struct(
    "octets" / RepeatUntil(lambda octet, _, __: octet < 0x80, Byte),
    "value" / Computed(lambda it: _number(it.octets)),
    Check(lambda it: len(it.octets) <= 10 and it.value < 1 << 64),
)


def _sized(subject: Construct) -> Construct:
    return Struct("size" / VARINT, "value" / subject(lambda it: it.size.value))


def _group() -> Construct:
    return GROUP


FIELD = Struct(
    "key" / VARINT,
    "number" / Computed(lambda it: it.key.value >> 3),
    "wire" / Computed(lambda it: it.key.value & 7),
    Check(lambda it: 1 <= it.number < 1 << 29),
    "content"
    / Switch(
        this.wire,
        {
            0: VARINT,
            1: Struct("value" / Bytes(8)),
            2: _sized(Bytes),
            3: LazyBound(_group),
            4: Struct(),  # the end of a group: looked at where groups are
            5: Struct("value" / Bytes(4)),
        },
        Error,
    ),
)


GROUP: Construct = Struct(
    "fields" / RepeatUntil(lambda field, _, __: field.wire == 4, FIELD),
    Check(lambda it: it.fields[-1].number == it._.number),
)
PROTOBUF = Struct(
    "fields" / GreedyRange(FIELD),
    Terminated,
    Check(lambda it: all(field.wire != 4 for field in it.fields)),
)

# -- messages: name and kind of each field, in the order of their numbers in protobuf

READ = "Topic text, Id text, Offset u64"
REQUESTS = {
    0: "Topic text, Offset u64, BatchSize u32, ReplicaNodeID text",
    2: "Topic text, Value octets, Acks i32",
    4: "Topic text, Values many, Acks i32",
    6: f"{READ}, ReplicaNodeID text",
    8: f"{READ}, MaxCount u32, ReplicaNodeID text",
    12: READ,
    14: "Topic text, Id text",
    16: "Topic text, ReplicaCount u32, DesignatedLeaderNodeID text",
    18: "Topic text",
    21: "Topic text",
    23: "",
    25: "",
    27: "Topic text, ReplicaNodeID text, Isr truth",
}
"""Those that are served.  Type 10 is not, but where it is configured."""

WIDTHS = {"u64": (0, 2**64), "u32": (0, 2**32), "i32": (-(2**31), 2**31)}
ZEROS: dict[str, object] = {"text": "", "octets": None, "many": None, "truth": False, "u64": 0, "u32": 0, "i32": 0}


def _fields(number: int) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind in (row.split() for row in REQUESTS[number].split(", ") if row)]


# -- JSON

BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
WHOLE = re.compile(r"-?[0-9]+")


class Number(str):
    """As it is written."""

    __slots__ = ()


class Pairs(list[tuple[str, object]]):
    """An object, in order and with what comes twice."""

    __slots__ = ()


def _constant(word: str) -> object:
    raise ValueError(f"{word} is not JSON")


def _document(payload: bytes) -> Pairs:
    """The object that a payload is.  Raises ValueError."""
    text = payload.decode()
    if sum(map(text.count, ",[{")) > MAX_VALUES:
        raise ValueError("too many values")
    try:
        found = json.loads(
            text, object_pairs_hook=Pairs, parse_int=Number, parse_float=Number, parse_constant=_constant
        )
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if not isinstance(found, Pairs) or any(depth > MAX_DEPTH for depth in _depths(found, 1)):
        raise ValueError("no object, or one too deep")
    return found


def _depths(value: object, depth: int) -> Iterator[int]:
    """How deep every object and array in it is; every text is looked at on the way."""
    if isinstance(value, str):
        value.encode()  # half a surrogate pair is a ValueError
    if not isinstance(value, list):
        return
    yield depth
    for item in value:
        for part in item if isinstance(value, Pairs) else (item,):
            yield from _depths(part, depth + 1)


def _folded(key: str) -> str:
    """As Go compares keys: ASCII without regard to case, and the two letters beyond it that fold to ASCII."""
    return re.sub("[A-Z]", lambda letter: letter[0].lower(), key).replace("\u017f", "s").replace("\u212a", "k")


def _of_json(payload: bytes, number: int) -> dict[str, object]:
    kinds = {_folded(name): (name, kind) for name, kind in _fields(number)}
    values = {name: ZEROS[kind] for name, kind in _fields(number)}
    for key, value in _document(payload):
        if _folded(key) not in kinds:
            continue
        name, kind = kinds[_folded(key)]
        if value is not None or kind in ("octets", "many"):
            values[name] = _typed(kind, value)
    return values


def _typed(kind: str, value: object) -> object:
    if kind == "many" and type(value) is list:
        return [_octets(item) for item in value]
    if kind == "octets" or value is None:
        return _octets(value)
    if kind == "text" and type(value) is str:
        return value
    if kind == "truth" and isinstance(value, bool):
        return value
    if isinstance(value, Number) and kind in WIDTHS and WHOLE.fullmatch(value) and len(value) < 30:
        return _ranged(value, *WIDTHS[kind])
    raise ValueError(f"{value!r} is no {kind}")


def _ranged(digits: str, low: int, high: int) -> int:
    if not low <= int(digits) < high or (low == 0 and digits[0] == "-"):
        raise ValueError(f"{digits} is out of range")
    return int(digits)


def _octets(value: object) -> bytes | None:
    """base64; or, as Go has it, an array of numbers."""
    if value is None:
        return None
    if type(value) is list:
        return bytes(0 if item is None else _octet(item) for item in value)
    if type(value) is not str:
        raise ValueError(f"{value!r} is no base64")
    text = value.replace("\r", "").replace("\n", "")
    if not BASE64.fullmatch(text):
        raise ValueError("no base64")
    return base64.b64decode(text)


def _octet(item: object) -> int:
    if not isinstance(item, Number) or not WHOLE.fullmatch(item) or len(item) > 20:
        raise ValueError(f"{item!r} is no byte")
    return _ranged(item, 0, 256)


# -- protobuf, typed


def _of_protobuf(payload: bytes, number: int) -> dict[str, object]:
    rows = _fields(number)
    values = {name: ZEROS[kind] for name, kind in rows}
    for field in PROTOBUF.parse(payload).fields:
        if field.number > len(rows):
            continue
        name, kind = rows[field.number - 1]
        if field.wire == (2 if kind in ("text", "octets", "many") else 0):
            values[name] = _narrowed(kind, field.content.value, values[name])
    return values


def _narrowed(kind: str, value: object, before: object) -> object:
    if isinstance(value, bytes):
        if kind == "many":
            return [*(before if isinstance(before, list) else []), value]
        return value.decode() if kind == "text" else value
    assert isinstance(value, int), "a number, then"
    if kind == "truth":
        return value != 0
    low, high = WIDTHS[kind]
    return (value - low) % (high - low) + low


# -- requests


def _is_json(payload: bytes) -> bool:
    """A brace; or blanks, a brace, and JSON to the end: blanks begin fields of protobuf too."""
    if payload[:1] == b"{":
        return True
    if payload[:1] not in (b" ", b"\t", b"\r", b"\n"):
        return False
    try:
        _document(payload)
    except ValueError:
        return False
    return True


def complaint(number: int, values: dict[str, object]) -> str | None:
    """Why a server refuses what it can read, None = it does not."""
    rules: list[Callable[[], bool]] = [
        lambda: number not in (23, 25, 27) and not _is_name(values["Topic"]),
        lambda: "Value" in values and not values["Value"],
        lambda: "Values" in values and not values["Values"],
        lambda: values.get("Acks", 0) not in (0, 1, 2),
        lambda: "Id" in values and values["Id"] != "" and not _is_name(values["Id"]),
        lambda: values.get("Offset", 0) > MAX_OFFSET,  # type: ignore[operator]  # it is a number
        lambda: isinstance(values.get("Values"), list) and len(values["Values"]) > 100_000,  # type: ignore[arg-type]
    ]
    broken = [place for place, rule in enumerate(rules) if rule()]
    return f"rule {broken[0]}" if broken else None


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 1 <= len(name.encode()) <= MAX_NAME


def read_request(frame: bytes) -> tuple[int, dict[str, object]]:
    """(type, field -> value) of a request that is served.  Raises ConstructError, ValueError."""
    found: Container = FRAME.parse(frame)
    if found.type not in REQUESTS:
        raise ValueError(f"type {found.type} is not served")
    read = _of_json if _is_json(found.payload) else _of_protobuf
    return found.type, read(found.payload, found.type)


def parse_request(frame: bytes) -> object | None:
    """(type, field -> value) of a frame that a server takes as it comes, None for any other."""
    try:
        number, values = read_request(frame)
    except (ConstructError, ValueError):
        return None
    return None if complaint(number, values) else (number, values)
