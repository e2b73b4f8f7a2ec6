"""Records as Kafka's messages, both ways.  Pure: knows no client and no clock.

Key, value, headers and time are Kafka's own.  What Kafka has no place for goes in headers whose names begin with `gw.`,
each only where it says something; a header of a user with such a name is written apart, in hexadecimal.  A message
with headers of ours that do not read as we write them was written by somebody else: they are then its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, cast

import msgspec

from gateway.core.records import WIDTHS, Header, HeaderKind, Record, RecordBatch, canonical

OURS = "gw."
"""What the names of our headers begin with."""

KEY, KINDS, ORIGIN, APART = "gw.key", "gw.kinds", "gw.origin", "gw.h"
"""An empty key, which Kafka's programs would take for one; the kinds of the user's headers, a byte each; the dialect;
a header whose name is written apart: `gw.h`, the kind of the name, a dot, the name in hexadecimal."""

PLACES = 1000
"""In a millisecond.  Kafka keeps nothing finer: within one, times rise with offsets to the next multiple of this."""

UNREADABLE = "gw.unreadable"
"""Stands for the headers of a message of which one has a name that is not text."""

Headers = list[tuple[str, str | bytes | None]]
"""As confluent_kafka takes them; those that are written here are bytes."""

Content = tuple[bytes | None, bytes | None, Headers]
"""Key, value and headers of a message."""


class Message(Protocol):
    """What is asked of a message that was read; a method each, as confluent_kafka has it."""

    def key(self) -> bytes | None: ...  # noqa: D102
    def value(self) -> bytes | None: ...  # noqa: D102
    def headers(self) -> object: ...  # noqa: D102
    def offset(self) -> int | None: ...  # noqa: D102
    def timestamp(self) -> tuple[int, int]: ...  # noqa: D102


# -- the fields that Kafka has no place for


def _natural(value: bytes) -> int:
    return _number(value, 0, (1 << 63) - 1)


def _integer(value: bytes) -> int:
    return _number(value, -(1 << 63), (1 << 64) - 1)  # what msgpack can carry


def _number(value: bytes, low: int, high: int) -> int:
    number = int(value) if len(value) <= 20 else high + 1
    if not low <= number <= high or b"%d" % number != value:
        raise ValueError("not as we write a number")
    return number


def _identity(value: bytes) -> bytes:
    if len(value) != 16:
        raise ValueError("an id has 16 bytes")
    return value


def _octets(value: bytes) -> bytes:
    return value


_READ: dict[str, tuple[str, Callable[[bytes], int | bytes]]] = {
    "gw.time": ("timestamp", _natural),
    "gw.sent": ("origin_timestamp", _integer),
    "gw.id": ("id", _identity),
    "gw.pid": ("producer", _octets),
    "gw.epoch": ("epoch", _natural),
    "gw.seq": ("sequence", _natural),
    "gw.event": ("event_type", _octets),
    "gw.schema": ("schema_version", _integer),
    "gw.version": ("aggregate_version", _integer),
    "gw.meta": ("metadata", _octets),
    "gw.expiry": ("expiry", _natural),
}
"""Header -> the field of a record, and what reads it.  Numbers are decimal ASCII, so that any Kafka tool shows them."""

_NAMES = {field: name for name, (field, _) in _READ.items()}
_FIELDS = Record.__struct_fields__[3:]
_PLAIN = msgspec.structs.astuple(Record())[3:]


# -- writing


def write(record: Record, origin: str = "") -> Content:
    """The message that says all a record does, but for its time: see `milliseconds`.  origin: the dialect."""
    headers = _user_headers(record.headers) if record.headers else []
    rest = msgspec.structs.astuple(record)[3:]
    if rest != _PLAIN:
        for field, value in zip(_FIELDS, rest, strict=True):
            if value:
                headers.append((_NAMES[field], b"%d" % value if isinstance(value, int) else value))
    if origin:
        headers.append((ORIGIN, origin.encode()))
    if record.key == b"":
        headers.append((KEY, b""))
    return record.key or None, record.value, headers


def milliseconds(record: Record, now: int) -> int:
    """The time of a message.  now: us since the epoch.

    A record with a time of its own gets that one, but none to come, which brokers refuse from an hour on
    (message.timestamp.after.max.ms); and not 0, which librdkafka takes for "now".
    """
    return max(1, min(record.timestamp or now, now) // 1000)


def size(content: Content) -> int:
    """Bytes of a message on the wire, at most: 70 for lengths, offsets and what its batch begins with."""
    key, value, headers = content
    length = 70 + len(key or b"") + len(value or b"")
    return length + sum(10 + 3 * len(name) + len(octets or b"") for name, octets in headers) if headers else length


def _user_headers(headers: tuple[Header, ...]) -> Headers:
    written: Headers = [(_name(header), header.value) for header in headers]
    if any(header.kind is not HeaderKind.RAW for header in headers):
        written.append((KINDS, bytes(header.kind for header in headers)))
    return written


def _name(header: Header) -> str:
    """The name natively where Kafka can have it, which means UTF-8, and for librdkafka nothing behind a NUL."""
    if header.key_kind is HeaderKind.TEXT and b"\0" not in header.key:
        try:
            name = header.key.decode()
        except UnicodeDecodeError:
            name = OURS
        if not name.startswith(OURS):
            return name
    return f"{APART}{header.key_kind:d}.{header.key.hex()}"


# -- reading


def read(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] | None
) -> tuple[Record, str]:
    """The record that a message is, without its time unless it has one of its own, and the dialect it is from.

    Of programs that know nothing of us: an empty key is none, no value is a tombstone, a header without a value has an
    empty one, and headers are bytes.
    """
    if not headers:
        return Record(key or None, value), ""
    fields: dict[str, int | bytes] = {}
    found: list[Header] = []
    kinds, origin, empty = b"", "", False
    for name, octets in headers:
        octets = octets or b""
        if not name.startswith(OURS):
            found.append(Header(name.encode(), octets))
        elif name == ORIGIN and octets and not origin and (said := _text(octets)):
            origin = said
        elif name == KINDS and octets and not kinds:
            kinds = octets
        elif name == KEY and not octets and not key and not empty:
            empty = True
        elif not _field(name, octets, fields):
            found.append(_apart(name, octets))
    there = b"" if empty else key or None
    return Record(there, value, _kinds(found, kinds), **fields), origin  # type: ignore[arg-type]  # as _READ says


def given(message: Message) -> Sequence[tuple[str, bytes | None]] | None:
    """The headers of a message: those that were read are always a list of bytes.

    confluent_kafka gives none at all if one of the names is not UTF-8; the record then has one header that says so.
    """
    try:
        return cast("list[tuple[str, bytes | None]] | None", message.headers())
    except UnicodeDecodeError:
        return [(UNREADABLE, b"")]


def batches(messages: Iterable[Message]) -> tuple[RecordBatch, ...]:
    """Messages of one partition, in order, as batches.

    A new one begins where an offset is left out (compaction, transactions), the dialect is another, or the millisecond,
    and every PLACES offsets: so the offset of every record is its own, and its time is Kafka's millisecond and so many
    us as its offset says, the same for whoever reads it from wherever.
    """
    found: list[RecordBatch] = []
    run: list[Record] = []
    expected: tuple[int, str, int] | None = None
    base = 0
    for message in messages:
        record, origin = read(message.key(), message.value(), given(message))
        here = message.offset() or 0, origin, message.timestamp()[1]
        if here != expected or not here[0] % PLACES:
            if expected is not None:
                found.append(_batch(run, base, expected))
            base, run = here[0], []
        run.append(record)
        expected = here[0] + 1, origin, here[2]
    if expected is not None:
        found.append(_batch(run, base, expected))
    return tuple(found)


def _batch(run: list[Record], base: int, last: tuple[int, str, int]) -> RecordBatch:
    return canonical(run, last[1]).appended(base, max(0, last[2]) * 1000 + base % PLACES)


def _field(name: str, octets: bytes, fields: dict[str, int | bytes]) -> bool:
    """Read a header into the field it is of.  Whether it was one of ours."""
    field, reader = _READ.get(name, ("", _octets))
    if not field or field in fields:
        return False
    try:
        value = reader(octets)
    except ValueError:
        return False
    fields[field] = value
    return True


def _apart(name: str, octets: bytes) -> Header:
    """A header whose name was written apart, or one that only looks like ours."""
    kind, _, key = name[len(APART) :].partition(".")
    try:
        header = Header(bytes.fromhex(key), octets, HeaderKind.RAW, HeaderKind(int(kind)))
    except ValueError:
        return Header(name.encode(), octets)
    return header if _name(header) == name else Header(name.encode(), octets)


def _kinds(headers: list[Header], kinds: bytes) -> tuple[Header, ...]:
    if not kinds:
        return tuple(headers)
    try:
        typed = tuple(
            Header(header.key, header.value, _fitting(kind, header.value), header.key_kind)
            for header, kind in zip(headers, kinds, strict=True)
        )
    except ValueError:
        return (*headers, Header(KINDS.encode(), kinds))
    return typed


def _fitting(number: int, value: bytes) -> HeaderKind:
    kind = HeaderKind(number)
    if WIDTHS.get(kind, len(value)) != len(value):
        raise ValueError("that is no such value")
    return kind


def _text(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return ""
