"""What Iggy messages are made of: each field knows how it is read and how it is written, for either role.

All numbers are little-endian.  Source: protocol page, sections 1 to 3.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import Generic, TypedDict, TypeVar

from gateway.core.commands import Balanced, ByKey, Consumer, Group, Reader
from gateway.core.faults import CommandFailed, Fault

T = TypeVar("T")

NEVER = (1 << 64) - 1
"""What u64 limits are when there is none."""

NAME = re.compile(r"[\w.\-\s]+")
"""What the server lets streams, topics and groups be called."""

MAX_SHORT = 255
"""Bytes of a text or a value whose length is one byte."""


class CutShort(ValueError):
    """The payload ends within a field."""


class Field(Generic[T]):
    """One field.

    read:  frame, place -> value and the place behind it.  Raises ValueError, struct.error or IndexError.
    write: value -> bytes.  Raises CommandFailed(UNREPRESENTABLE or UNSUPPORTED) or struct.error.
    """

    __slots__ = ("read", "write")

    def __init__(self, read: Callable[[bytes, int], tuple[T, int]], write: Callable[[T], bytes]) -> None:
        self.read = read
        self.write = write


Fields = Mapping[str, Field]  # type: ignore[type-arg]  # of many types, by name, in wire order


class Values(TypedDict, total=False):
    """What the fields of a request may be."""

    stream: int | str
    topic: int | str
    group: int | str
    id: int
    name: str
    partitions: int
    compression: int
    expiry: int
    max_size: int
    replication: int
    count: int
    reader: Reader
    partition: int | None
    kind: int
    value: int
    commit: bool
    offset: int
    to: int | Balanced | ByKey
    session: int
    user: str
    password: str
    token: str
    version: str
    context: str


def read_fields(fields: Fields, frame: bytes, at: int) -> tuple[dict[str, object], int]:
    """The values from `at` on, and the place behind them.  Raises as Field.read does."""
    values: dict[str, object] = {}
    for name, field in fields.items():
        values[name], at = field.read(frame, at)
    return values, at


def write_fields(fields: Fields, values: Mapping[str, object]) -> bytes:
    """The values as bytes; names that the fields do not have are no matter.  Raises as Field.write does."""
    return b"".join([field.write(values[name]) for name, field in fields.items()])


def unsupported(what: str) -> CommandFailed:
    """The failure of a command that this protocol, or this generation of it, has no words for."""
    return CommandFailed(Fault.UNSUPPORTED, f"Iggy has no words for {what}")


# -- numbers


def number(code: str) -> Field[int]:
    """A number; `code` is struct's."""
    layout = struct.Struct(f"<{code}")
    size, unpack, pack = layout.size, layout.unpack_from, layout.pack

    def read(frame: bytes, at: int) -> tuple[int, int]:
        return unpack(frame, at)[0], at + size

    return Field(read, pack)


def shifted(first: int) -> Field[int]:
    """A partition in an answer; `first` is what this generation calls partition 0."""

    def read(frame: bytes, at: int) -> tuple[int, int]:
        value, end = U32.read(frame, at)
        return value - first, end

    return Field(read, lambda partition: U32.write(partition + first))


def expiry(field: Field[int], unit: int, unset: int, never: tuple[int, ...]) -> Field[int]:
    """An age in us, 0 = none.  unit: us of one step.  unset: how none is written.  never: what is read as none."""

    def read(frame: bytes, at: int) -> tuple[int, int]:
        value, end = field.read(frame, at)
        return 0 if value in never else value * unit, end

    return Field(read, lambda age: field.write(-(-age // unit) if age else unset))


U8 = number("B")
U16 = number("H")
U32 = number("I")
U64 = number("Q")
F32: Field[float] = number("f")  # type: ignore[assignment]


def _read_flag(frame: bytes, at: int) -> tuple[bool, int]:
    return frame[at] == 1, at + 1


FLAG: Field[bool] = Field(_read_flag, lambda said: b"\1" if said else b"\0")


# -- texts


def _cut(frame: bytes, at: int, size: int) -> tuple[bytes, int]:
    end = at + size
    if end > len(frame):
        raise CutShort
    return frame[at:end], end


def _read_short(frame: bytes, at: int) -> tuple[bytes, int]:
    return _cut(frame, at + 1, frame[at])


def write_short(octets: bytes) -> bytes:
    """Up to 255 bytes after their number.  Raises CommandFailed(UNREPRESENTABLE)."""
    if len(octets) > MAX_SHORT:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"{len(octets)} bytes where {MAX_SHORT} are the most")
    return bytes((len(octets),)) + octets


def encoded(text: str) -> bytes:
    """UTF-8.  Raises CommandFailed(UNREPRESENTABLE)."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise CommandFailed(Fault.UNREPRESENTABLE, "a text that is not Unicode") from error


def _read_text8(frame: bytes, at: int) -> tuple[str, int]:
    octets, end = _read_short(frame, at)
    return octets.decode(), end


def _read_text32(frame: bytes, at: int) -> tuple[str, int]:
    size, at = U32.read(frame, at)
    octets, end = _cut(frame, at, size)
    return octets.decode(), end


def _write_text32(text: str) -> bytes:
    octets = encoded(text)
    return U32.write(len(octets)) + octets


TEXT8: Field[str] = Field(_read_text8, lambda text: write_short(encoded(text)))
TEXT32: Field[str] = Field(_read_text32, _write_text32)


# -- who and where


def _read_identifier(frame: bytes, at: int) -> tuple[int | str, int]:
    kind = frame[at]
    octets, end = _read_short(frame, at + 1)
    if kind == 1 and len(octets) == 4:
        return int.from_bytes(octets, "little"), end
    if kind == 2 and octets:
        return octets.decode(), end
    raise ValueError(f"no identifier: kind {kind}, {len(octets)} bytes")


def _write_identifier(name: int | str) -> bytes:
    if isinstance(name, int):
        return b"\1\4" + U32.write(name)
    if not name:
        raise CommandFailed(Fault.UNREPRESENTABLE, "an empty name")
    return b"\2" + write_short(encoded(name))


IDENTIFIER: Field[int | str] = Field(_read_identifier, _write_identifier)


def reader(name: Field[int | str]) -> Field[Reader]:
    """Who reads: a kind, and a name as that generation has it."""

    def read(frame: bytes, at: int) -> tuple[Reader, int]:
        kind = frame[at]
        said, end = name.read(frame, at + 1)
        if kind not in (1, 2):
            raise ValueError(f"no kind of consumer: {kind}")
        return Consumer(said) if kind == 1 else Group(said), end

    def write(said: Reader) -> bytes:
        return (b"\1" if isinstance(said, Consumer) else b"\2") + name.write(said.name)

    return Field(read, write)


def _write_number_alone(name: int | str) -> bytes:
    if isinstance(name, str):
        raise unsupported("a name where this generation has numbers")
    return U32.write(name)


NUMBER: Field[int | str] = Field(U32.read, _write_number_alone)
"""An id that stands alone, where later generations have an identifier."""


def _read_plain_partition(frame: bytes, at: int) -> tuple[int | None, int]:
    value, end = U32.read(frame, at)
    return value - 1 if value else None, end


def _read_flagged_partition(frame: bytes, at: int) -> tuple[int | None, int]:
    value, end = U32.read(frame, at + 1)
    return value if frame[at] == 1 else None, end


def _write_partition(partition: int, first: int) -> bytes:
    """first: the number of partition 0."""
    if partition < 0:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"no partition is {partition}")
    return U32.write(partition + first)


PARTITION: Field[int | None] = Field(
    _read_plain_partition, lambda at: bytes(4) if at is None else _write_partition(at, 1)
)
"""A partition counted from 1; None = absent, written as 0."""

FLAGGED_PARTITION: Field[int | None] = Field(
    _read_flagged_partition, lambda at: bytes(5) if at is None else b"\1" + _write_partition(at, 0)
)
"""A partition counted from 0 behind a byte that says whether there is one."""


def partitioning(first: int, partitioner: str) -> Field[int | Balanced | ByKey]:
    """Which partition a batch goes to.  first: the number of partition 0; partitioner: what hashes keys."""

    def read(frame: bytes, at: int) -> tuple[int | Balanced | ByKey, int]:
        kind = frame[at]
        octets, end = _read_short(frame, at + 1)
        match kind, len(octets):
            case 1, 0:
                return Balanced(), end
            case 2, 4:
                return int.from_bytes(octets, "little") - first, end
            case 3, 0:
                raise CommandFailed(Fault.MALFORMED, "a key of no bytes", status=4028)
            case 3, _:
                return ByKey(octets, partitioner), end
        raise ValueError(f"no partitioning: kind {kind}, {len(octets)} bytes")

    def write(to: int | Balanced | ByKey) -> bytes:
        match to:
            case Balanced():
                return b"\1\0"
            case ByKey(key=key, partitioner=name) if key and name == partitioner:
                return b"\3" + write_short(key)
            case int():
                return b"\2\4" + _write_partition(to, first)
        raise unsupported("that choice of a partition")

    return Field(read, write)
