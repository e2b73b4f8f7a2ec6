"""The record encoding `cursus.v1`: records as they stand in a BA7C batch, one after the other, without its header.

    u64 offset (0 from producers) · u64 sequence · u16+producer id · u16+key · i64 epoch · u32+payload
    · u16+event type · u32 schema version · u64 aggregate version · u16+metadata          all big-endian

Everything here turns on one observation: a producer's records mostly have the same five lengths.  Then record i begins
at i * stride, and one byte of all records is one slice, `body[at::stride]`.  Checking, stamping, reading the sequence
numbers of a batch of 100 are a dozen slices each, instead of 500 calls.  Bodies of mixed lengths take the loops.
Source: protocol page, section 3.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache

from gateway.core.columns import columns
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import MAX_RECORDS, Encoding, Record, Run, runs_of

FIXED = 48
"""Bytes of a record whose producer id, key, payload, event type and metadata are empty."""

_u64 = struct.Struct(">Q")
_u32 = struct.Struct(">I")
_i64 = struct.Struct(">q")
_head = struct.Struct(">8xQH")
_middle = struct.Struct(">qI")
_tail = struct.Struct(">IQH")


class CutShort(ValueError):
    """A body that ends within a record; says within which."""

    def __init__(self, index: int) -> None:
        super().__init__(f"failed to read message[{index}]: unexpected EOF")


# -- where records are


def stride(body: bytes, count: int = 0) -> int:
    """Bytes of every record if the first `count` have the lengths of the first, 0 if not.

    count: 0 = as many as make up the body exactly.
    """
    try:
        key = 18 + (body[16] << 8 | body[17])
        payload = key + 10 + (body[key] << 8 | body[key + 1])
        event = payload + 4 + _u32.unpack_from(body, payload)[0]
        metadata = event + 14 + (body[event] << 8 | body[event + 1])
        size: int = metadata + 2 + (body[metadata] << 8 | body[metadata + 1])
    except (IndexError, struct.error):
        return 0
    if not count:
        count, rest = divmod(len(body), size)
        if rest:
            return 0
    end = size * count
    if end > len(body):
        return 0
    if count > 1:  # 17 ns a record in batches of 100; the loop of `positions` takes 300
        zeros = bytes(count)
        lengths = (16, 17, key, key + 1, payload, payload + 1, payload + 2, payload + 3, event, event + 1)
        for at in (*lengths, metadata, metadata + 1):
            if body[at:end:size] != (body[at : at + 1] * count if body[at] else zeros):
                return 0
    return size


def positions(body: bytes, count: int = 0) -> list[int]:
    """Where each record begins, and where the last ends.  Raises CutShort.

    count: 0 = as many as there are; otherwise bytes after the last of them are not looked at.
    """
    found, at, size = [0], 0, len(body)
    payload_length = _u32.unpack_from
    try:
        while at < size if not count else len(found) <= count:
            at += 18 + (body[at + 16] << 8 | body[at + 17])
            at += 10 + (body[at] << 8 | body[at + 1])
            at += 4 + payload_length(body, at)[0]
            at += 14 + (body[at] << 8 | body[at + 1])
            at += 2 + (body[at] << 8 | body[at + 1])
            found.append(at)
    except (IndexError, struct.error):
        raise CutShort(len(found) - 1) from None
    if at > size:
        raise CutShort(len(found) - 2)
    return found


def last(body: bytes) -> int:
    """Where the last record of a body that is not empty begins."""
    size = stride(body)
    return len(body) - size if size else positions(body)[-2]


def identity(body: bytes, at: int) -> tuple[bytes, int, int]:
    """(producer id, epoch, sequence) of the record that begins at `at`."""
    key = at + 18 + (body[at + 16] << 8 | body[at + 17])
    epoch = key + 2 + (body[key] << 8 | body[key + 1])
    return body[at + 18 : key], _i64.unpack_from(body, epoch)[0], _u64.unpack_from(body, at + 8)[0]


def alone(body: bytes) -> tuple[int, bytes, int, int]:
    """(sequence, producer id, epoch, end) of the first record, for batches of one: half the price of looking twice.

    Raises IndexError or struct.error where the body ends within it; where it ends too early, so does `end`.
    """
    number, length = _head.unpack_from(body)
    key = 18 + length
    epoch_at = key + 2 + (body[key] << 8 | body[key + 1])
    epoch, length = _middle.unpack_from(body, epoch_at)
    event = epoch_at + 12 + length
    metadata = event + 14 + (body[event] << 8 | body[event + 1])
    return number, body[18:key], epoch, metadata + 2 + (body[metadata] << 8 | body[metadata + 1])


def sequence(body: bytes, at: int) -> int:
    """Sequence number of the record that begins at `at`."""
    number: int = _u64.unpack_from(body, at + 8)[0]
    return number


def offset(body: bytes, at: int) -> int:
    """Offset of the record that begins at `at`."""
    number: int = _u64.unpack_from(body, at)[0]
    return number


def rising(body: bytes, first: int) -> bool:
    """Whether the offsets of a body that is not empty are first, first + 1, ...

    For records of one shape only: False may also mean that they have different lengths.
    """
    size = stride(body)
    if not size:
        return False
    return all(body[index::size] == column for index, column in enumerate(columns(first, len(body) // size)))


# -- the six functions of an encoding


def walk(body: bytes) -> int:
    """Number of records.  Raises CommandFailed: MALFORMED unless the body is whole and exact, TOO_LARGE."""
    size = stride(body)
    try:
        count = len(body) // size if size else len(positions(body)) - 1
    except CutShort as error:
        raise CommandFailed(Fault.MALFORMED, str(error)) from error
    if count > MAX_RECORDS:
        raise CommandFailed(Fault.TOO_LARGE, f"message count too high: {count} (max: {MAX_RECORDS})")
    return count


def stamp(body: bytes, base: int, timestamp: int) -> bytes:
    """The body with offsets base, base + 1, ... written in.  This wire carries no timestamps."""
    size = stride(body)
    if size == len(body):
        return _u64.pack(base) + body[8:] if body else body
    out = bytearray(body)
    if size:
        for at, column in enumerate(columns(base, len(body) // size)):
            if body[at::size] != column:  # five or six of the eight are zero and stay so; writing costs twice as much
                out[at::size] = column
    else:
        for index, at in enumerate(positions(body)[:-1]):
            _u64.pack_into(out, at, base + index)
    return bytes(out)


def cut(body: bytes, first: int, last: int) -> bytes:
    """Records first..last-1."""
    size = stride(body)
    if size:
        return body[first * size : last * size]
    found = positions(body)
    return body[found[first] : found[last]]


def sizes(body: bytes) -> list[int]:
    """Bytes of each record."""
    size = stride(body)
    if size:
        return [size] * (len(body) // size)
    found = positions(body)
    return [end - start for start, end in itertools.pairwise(found)]


def runs(body: bytes) -> list[Run]:
    """Stretches of one producer and epoch with rising sequence numbers, as core.records.Run has them."""
    size = stride(body)
    run = _one_run(body, size) if size else None
    if run is not None:
        return [run]
    starts = range(0, len(body), size) if size else positions(body)[:-1]
    return runs_of(identity(body, at) for at in starts)


def records(body: bytes) -> list[Record]:
    """Record objects.  An empty key is none."""
    return [
        Record(key or None, value, (), 0, 0, b"", producer, epoch, number, event, schema, version, metadata)
        for number, producer, key, epoch, value, event, schema, version, metadata in _rows(body)
    ]


_Row = tuple[int, bytes, bytes, int, bytes, bytes, int, int, bytes]


def _rows(body: bytes) -> Iterable[_Row]:
    if stride(body):
        return _reader(*_lengths(body)).iter_unpack(body)
    return _mixed_rows(body)


def _mixed_rows(body: bytes) -> Iterator[_Row]:
    at, size = 0, len(body)
    while at < size:
        number, length = _head.unpack_from(body, at)
        at += 18 + length
        producer, length = body[at - length : at], body[at] << 8 | body[at + 1]
        at += 2 + length
        key = body[at - length : at]
        epoch, length = _middle.unpack_from(body, at)
        at += 12 + length
        value, length = body[at - length : at], body[at] << 8 | body[at + 1]
        at += 2 + length
        event = body[at - length : at]
        schema, version, length = _tail.unpack_from(body, at)
        at += 14 + length
        yield number, producer, key, epoch, value, event, schema, version, body[at - length : at]


def _lengths(body: bytes) -> tuple[int, int, int, int, int]:
    """Those of producer id, key, payload, event type and metadata of the first record."""
    key = 18 + (body[16] << 8 | body[17])
    payload = key + 10 + (body[key] << 8 | body[key + 1])
    event = payload + 4 + _u32.unpack_from(body, payload)[0]
    metadata = event + 14 + (body[event] << 8 | body[event + 1])
    length = body[metadata] << 8 | body[metadata + 1]
    return key - 18, payload - key - 10, event - payload - 4, metadata - event - 14, length


@lru_cache(1024)
def _reader(producer: int, key: int, value: int, event: int, metadata: int) -> struct.Struct:
    return struct.Struct(f">8xQ2x{producer}s2x{key}sq4x{value}s2x{event}sIQ2x{metadata}s")


def _one_run(body: bytes, size: int) -> Run | None:
    """The run that the whole body is, if it is one and all its records have one shape."""
    count = len(body) // size
    producer, epoch, first = identity(body, 0)
    if count == 1:
        return Run(producer, epoch, first if producer else 0, 1)
    at = 18 + len(producer)
    at += 2 + (body[at] << 8 | body[at + 1])
    for column in (*range(18, 18 + len(producer)), *range(at, at + 8)):
        if body[column::size] != body[column : column + 1] * count:
            return None
    if not producer:
        return Run(b"", epoch, 0, count)
    if not first:
        expected: Iterable[bytes] = [bytes(count)] * 8
    elif first + count <= 1 << 64:
        expected = columns(first, count)
    else:
        return None
    same = all(body[8 + index :: size] == column for index, column in enumerate(expected))
    return Run(producer, epoch, first, count) if same else None


CURSUS_V1 = Encoding("cursus.v1", walk=walk, stamp=stamp, cut=cut, sizes=sizes, runs=runs, records=records)
