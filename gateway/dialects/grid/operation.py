"""What an operation of the grid is: four functions, two for each role.  And what many of them read and write."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar

import msgspec

from gateway.core.commands import MAX_NAME, MAX_OFFSET, Command, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Reply
from gateway.dialects.grid.layout import Frame
from gateway.dialects.grid.terms import Asked, GridTerms

T = TypeVar("T")

_i32 = struct.Struct(">i")
_i64 = struct.Struct(">q")

MAX_MILLIS = 0xFFFFFFFF * 1000
"""The longest time that there is, 136 years; a longer one is this one."""

MAX_INT = (1 << 31) - 1


class Parts(msgspec.Struct, frozen=True, gc=False):
    """The fields of a request beside its name."""

    key: bytes = b""
    value: bytes = b""


class Answer(msgspec.Struct, frozen=True):
    """How an operation is answered.

    show: command, reply -> name of the status, value.  Raises CommandFailed for what has no room.
    hear: command, name of the status, value -> reply.  Raises CommandFailed(MALFORMED).
    """

    show: Callable[[Command, Reply, GridTerms], tuple[str, bytes]]
    hear: Callable[[Command, str, bytes, GridTerms], Reply]


class Operation(msgspec.Struct, frozen=True):
    """One opcode.

    read:    frame -> command.  Raises CommandFailed.
    write:   command, how it was put -> the fields that say it.  Raises CommandFailed.
    missing: what it finds where there is no topic of that name; None = the operation makes the topic.
    changes: to do it twice is not to do it once.
    """

    read: Callable[[Frame, GridTerms], Command]
    write: Callable[[Command, Asked, GridTerms], Parts]
    answer: Answer
    missing: Reply | None = None
    changes: bool = False


def malformed(detail: str) -> CommandFailed:
    """The bytes are not those of this operation."""
    return CommandFailed(Fault.MALFORMED, detail)


def unsupported(what: str) -> CommandFailed:
    """This dialect has no words for something."""
    return CommandFailed(Fault.UNSUPPORTED, f"the grid has no words for {what}")


def sure(value: object, kind: type[T]) -> T:
    """The value, which is of that kind: an opcode's command and reply always are.

    Raises CommandFailed(INTERNAL) for one that is not, which is a defect of a backend.
    """
    if not isinstance(value, kind):
        raise CommandFailed(Fault.INTERNAL, f"{type(value).__name__} where {kind.__name__} belongs")
    return value


# -- numbers


def read_i32(octets: bytes, start: int = 0) -> int:
    """A number of four bytes.  Raises CommandFailed(MALFORMED) if there are fewer."""
    if len(octets) < start + _i32.size:
        raise malformed(f"an i32 is missing after {start} bytes")
    number: int = _i32.unpack_from(octets, start)[0]
    return number


def read_i64(octets: bytes, what: str) -> int:
    """A number of exactly eight bytes.  Raises CommandFailed(MALFORMED)."""
    if len(octets) != _i64.size:
        raise malformed(f"{what} is an i64, not {len(octets)} bytes")
    number: int = _i64.unpack(octets)[0]
    return number


def write_i32(number: int) -> bytes:
    """Four bytes; a larger number becomes the largest, as Java's Collection.size() has it."""
    if number < 0:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"{number} of something")
    return _i32.pack(min(number, MAX_INT))


def write_i64(number: int) -> bytes:
    """Eight bytes.  Raises CommandFailed(UNREPRESENTABLE)."""
    if not -MAX_OFFSET - 1 <= number <= MAX_OFFSET:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"{number} in 64 bits")
    return _i64.pack(number)


def to_millis(seconds: float) -> int:
    """0 for 0, at least 1 for more."""
    return min(max(1, round(seconds * 1000)), MAX_MILLIS) if seconds > 0 else 0


def to_seconds(millis: int) -> float:
    """0 for 0 and less."""
    return min(millis, MAX_MILLIS) / 1000 if millis > 0 else 0.0


# -- fields


def topic_of(frame: Frame, terms: GridTerms) -> Topic:
    """The thing that is named.  Raises CommandFailed(INVALID_NAME)."""
    return terms.topics[frame.name]


def write_name(topic: Topic, terms: GridTerms) -> bytes:
    """The same the other way round.  Raises CommandFailed: UNSUPPORTED, UNREPRESENTABLE."""
    if topic.namespace != terms.namespace or not isinstance(topic.name, str):
        raise unsupported(f"{topic} in the namespace {terms.namespace!r}")
    try:
        name = topic.name.encode()
    except UnicodeEncodeError as error:
        raise CommandFailed(Fault.UNREPRESENTABLE, "a name that is not Unicode") from error
    if not 0 < len(name) <= MAX_NAME:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"a name of {len(name)} bytes")
    return name


def key_of(frame: Frame, terms: GridTerms) -> bytes:
    """The key of a map.  Raises CommandFailed(MALFORMED) if there is none."""
    key = frame.key and terms.codec.taken(frame.key)
    return key or _present(key)


def element_of(frame: Frame, terms: GridTerms) -> bytes:
    """The element of a set: the key or, without one, the value.  Raises as `key_of` does."""
    octets = frame.key or frame.value
    return _present(terms.codec.taken(octets) if octets else b"")


def own_key_of(frame: Frame, terms: GridTerms) -> bytes:
    """The key of a counter or lock: the key or, without one, the name.  Raises as `key_of` does."""
    return key_of(frame, terms) if frame.key else frame.name


def _present(key: bytes) -> bytes:
    if not key:
        raise malformed("the key is missing")
    return key


def write_key(key: bytes, terms: GridTerms) -> bytes:
    """A key as the wire has it.  Raises CommandFailed(UNREPRESENTABLE) for an empty one, which is none here."""
    if not key:
        raise CommandFailed(Fault.UNREPRESENTABLE, "an empty key")
    return terms.codec.given(key)


def write_own_key(key: bytes, asked: Asked, terms: GridTerms) -> bytes:
    """The key of a counter or lock; nothing where the name said it."""
    return write_key(key, terms) if asked.keyed else b""
