"""The grid's frames as a grammar: slow, readable, what the fast path is tested against.  The server never loads it.

For listeners with the numbers and settings as they come.  Source: protocol page, sections 1 to 3, and the docstring of
the package for what they leave open.
"""

from __future__ import annotations

import re
from typing import Any

from construct import (
    Array,
    Bytes,
    Check,
    Const,
    Construct,
    ConstructError,
    Error,
    ExprValidator,
    FixedSized,
    GreedyBytes,
    GreedyString,
    If,
    Int8ub,
    Int16ub,
    Int32sb,
    Int32ub,
    Int64sb,
    Int64ub,
    OneOf,
    Pass,
    Prefixed,
    RestreamData,
    Select,
    Struct,
    Switch,
    Terminated,
    this,
)

Body = Any
"""What construct parsed: it has no types."""

MAX_BODY = 16 * 1024 * 1024


def _is_not_negative(number: int, context: Body) -> bool:
    return number >= 0


def _is_not_empty(octets: bytes, context: Body) -> bool:
    return len(octets) > 0


Size = ExprValidator(Int32sb, _is_not_negative)
Sequence = ExprValidator(Int64sb, _is_not_negative)

HEADER = Struct(
    "magic" / Const(b"\xdc"),
    "opcode" / Int8ub,
    "correlation" / Int32ub,
    "length" / ExprValidator(Int32ub, lambda length, context: length <= MAX_BODY),
    "flags" / ExprValidator(Int8ub, lambda flags, context: not flags & 0x06),  # no compression without a hello
    "key_length" / Int16ub,
    "status" / Int8ub,
    "name_length" / Int8ub,
    "version" / OneOf(Int8ub, [2, 0, 1]),
)
BODY = Struct(
    "name" / Bytes(this._.head.name_length),
    "sender" / If(this._.head.flags & 0x01, Prefixed(Int16ub, GreedyBytes)),
    "key" / Bytes(this._.head.key_length),
    "value" / GreedyBytes,
)

# -- fields

ANYTHING = Pass
NOTHING = Terminated
NAME = ExprValidator(GreedyString("utf-8"), _is_not_empty)
KEY = ExprValidator(GreedyBytes, _is_not_empty)
TEXT = GreedyString("utf-8")
NUMBER = Struct("number" / Int64sb, Terminated)
NUMBER_OR_NOTHING = Select(Terminated, NUMBER)
TWO_NUMBERS = Struct("expected" / Int64sb, "new" / Int64sb, Terminated)
WITH_TTL = Struct("millis" / Int64sb, "value" / GreedyBytes)
ITEM = Struct("length" / Size, "octets" / Bytes(this.length))
OLD_AND_NEW = Struct("old" / ITEM, "new" / ITEM, Terminated)
LIMIT = Select(Terminated, Struct("limit" / Size, Terminated))
KEYS = Select(Terminated, Struct("count" / Size, "keys" / Array(this.count, ITEM), Terminated))
FROM = Struct("sequence" / Sequence, "most" / Size, Terminated)

# -- a hello

_UTF = re.compile(  # a character as Java's modified UTF-8 has it
    rb"(?:[\x00-\x7f]|\xc0\x80|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}"
    rb"|\xed[\x80-\x9f][\x80-\xbf]|\xed[\xa0-\xaf][\x80-\xbf]\xed[\xb0-\xbf][\x80-\xbf])*"
)
_VERSION = re.compile(rb"[0-9]{1,9}(\.[0-9]{1,9}){0,7}")


def _is_version(octets: bytes, context: Body) -> bool:
    return _UTF.fullmatch(octets) is not None and _VERSION.match(octets) is not None


def _numbers(octets: bytes) -> list[int]:
    found = _VERSION.match(octets)
    assert found is not None, "only what is a version"
    numbers = [int(part) for part in found[0].split(b".")]
    return numbers + [0] * (8 - len(numbers))


_OURS = _numbers(b"1.0.0")

Version = ExprValidator(Prefixed(Int16ub, GreedyBytes), _is_version)
HELLO = Struct(
    "release" / Version,
    "oldest" / Version,
    "protocol" / OneOf(Int32sb, [2, 0, 1]),
    "features" / Int64ub,
    Terminated,
    Check(lambda hello: _numbers(hello.release) >= _OURS >= _numbers(hello.oldest)),
)

# -- operations


def _operation(name: Construct = NAME, key: Construct = ANYTHING, value: Construct = ANYTHING) -> Construct:
    return Struct(
        "name" / RestreamData(this._.body.name, name),
        "key" / RestreamData(this._.body.key, key),
        "value" / RestreamData(this._.body.value, value),
    )


NAMED = _operation()
KEYED = _operation(key=KEY)
ELEMENT = Struct(
    "name" / RestreamData(this._.body.name, NAME),
    Check(lambda element: len(element._.body.key or element._.body.value) > 0),
)
"""The element of a set is the key or, without one, the value."""


OPERATIONS: dict[int, Construct] = {
    0x01: KEYED,  # MAP_PUT
    0x02: KEYED,  # MAP_GET
    0x03: KEYED,  # MAP_DELETE
    0x04: KEYED,  # MAP_CONTAINS
    0x05: NAMED,  # MAP_SIZE
    0x06: NAMED,  # MAP_CLEAR
    0x07: KEYED,  # MAP_PUT_IF_ABSENT
    0x08: KEYED,  # MAP_REPLACE
    0x09: _operation(key=KEY, value=OLD_AND_NEW),  # MAP_REPLACE_CAS
    0x0A: _operation(key=KEY, value=WITH_TTL),  # MAP_PUT_WITH_TTL
    0x0B: KEYED,  # MAP_GET_AND_REMOVE
    0x0C: NAMED,  # MAP_KEYS
    0x0D: NAMED,  # MAP_VALUES
    0x0E: _operation(value=LIMIT),  # MAP_SCAN
    0x0F: _operation(value=KEYS),  # MAP_GET_ALL
    0x20: NAMED,  # QUEUE_OFFER
    0x21: _operation(key=NUMBER_OR_NOTHING),  # QUEUE_POLL
    0x22: NAMED,  # QUEUE_PEEK
    0x23: NAMED,  # QUEUE_SIZE
    0x24: NAMED,  # QUEUE_CLEAR
    0x30: NAMED,  # TOPIC_PUBLISH
    0x31: _operation(value=NOTHING),  # TOPIC_SUBSCRIBE
    0x32: _operation(value=FROM),  # TOPIC_POLL
    0x33: NAMED,  # TOPIC_UNSUBSCRIBE
    0x40: ELEMENT,  # SET_ADD
    0x41: ELEMENT,  # SET_REMOVE
    0x42: ELEMENT,  # SET_CONTAINS
    0x43: NAMED,  # SET_SIZE
    0x44: NAMED,  # SET_CLEAR
    0x50: NAMED,  # COUNTER_GET
    0x51: _operation(value=NUMBER),  # COUNTER_SET
    0x52: _operation(value=NOTHING),  # COUNTER_INCREMENT
    0x53: _operation(value=NOTHING),  # COUNTER_DECREMENT
    0x54: _operation(value=NUMBER),  # COUNTER_ADD
    0x55: _operation(value=TWO_NUMBERS),  # COUNTER_CAS
    0x60: _operation(value=NUMBER_OR_NOTHING),  # LOCK_TRY
    0x61: NAMED,  # LOCK_UNLOCK
    0x62: NAMED,  # LOCK_IS_LOCKED
    0x70: _operation(name=ANYTHING, key=TEXT, value=TEXT),  # AUTH
    0x71: _operation(name=ANYTHING),  # PING
    0x72: _operation(name=ANYTHING, value=HELLO),  # PROTOCOL_HELLO
}

REQUEST = Struct(
    "head" / HEADER,
    "body" / FixedSized(this.head.length, BODY),
    Terminated,
    "operation" / Switch(this.head.opcode, OPERATIONS, default=Error),
)

ANSWERS = [0x73, 0x80, 0x81, 0x82, 0x83, 0x84, 0x90]
ANSWER = Struct(
    "head" / HEADER,
    "body" / FixedSized(this.head.length, BODY),
    Terminated,
    Check(lambda answer: answer.head.opcode in ANSWERS and answer.head.status <= 10),
)


def parse_request(frame: bytes) -> Body | None:
    """What the grammar reads in a request frame, None if it is none."""
    return _parse(REQUEST, frame)


def parse_answer(frame: bytes) -> Body | None:
    """The same for an answer or a pushed message."""
    return _parse(ANSWER, frame)


def _parse(grammar: Construct, frame: bytes) -> Body | None:
    try:
        return grammar.parse(frame)
    except (ConstructError, UnicodeDecodeError):
        return None
