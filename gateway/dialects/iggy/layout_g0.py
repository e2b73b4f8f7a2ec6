"""The record encoding `iggy.g0`, of clients up to iggy 0.6: bodies as places.py has them.

    POLL   u64 offset · u8 state (1) · u64 timestamp · u128 id · u32 CRC-32 of the payload
           · u32+user headers · u32+payload
    SEND   u128 id · u32+user headers · u32+payload

In the body of a Publish offset and timestamp are 0.  Source: protocol page, sections 1 and 2.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial

from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import MAX_RECORDS, Encoding, Record
from gateway.dialects.iggy.headers import read_headers, weigh, weigh_all
from gateway.dialects.iggy.places import (
    Layout,
    begin,
    bounded,
    cut,
    each,
    malformed,
    runs,
    sizes,
    stride,
    zero,
)
from gateway.dialects.iggy.stamping import stamp

G0 = Layout(fixed=45, lengths=37, between=True, key_kinds=False, id=17, offset=0, timestamp=9)
SENT = Layout(fixed=24, lengths=16, between=True, key_kinds=False, id=0)

_STATE, _CHECKSUM, _AVAILABLE = 8, 33, 1
_NO_ID = bytes(16)

_head = struct.Struct("<QBQ16sI")  # what SEND has not, and the id
_alike_head = struct.Struct("<QBQ16sIII")
_u32 = struct.Struct("<I")


# -- SEND


def read_g0(messages: bytes) -> tuple[int, bytes]:
    """Messages as a client sends them -> (how many, the same in poll layout with offset and timestamp 0).

    The body of a Publish is `prefix(key) + messages`.
    Raises CommandFailed: MALFORMED; TOO_LARGE with the fact status 4017, 4022 or 4023; EMPTY_BATCH with 4009 or 4024.
    """
    size, headers, payload = stride(SENT, messages, 0)
    if size and not headers:
        return _read_alike(messages, size, payload)
    out: list[bytes] = []
    count = payloads = values = 0
    for at, first, last, value, _, end in each(SENT, messages, 0):
        count += 1
        payloads += end - value
        values += weigh(messages[first:last], False) if first < last else 0
        checksum = zlib.crc32(messages[value:end])
        out += (_head.pack(0, _AVAILABLE, 0, messages[at : at + 16], checksum), messages[at + 16 : end])
    return bounded(count, payloads, values), b"".join(out)


def _read_alike(messages: bytes, size: int, payload: int) -> tuple[int, bytes]:
    """One join for all that is the same in all messages; ids, if any, and checksums byte by byte."""
    count = bounded(len(messages) // size, len(messages) // size * payload)
    payloads = list(itertools.chain.from_iterable(_payload(SENT.fixed, payload).iter_unpack(messages)))
    head = _alike_head.pack(0, _AVAILABLE, 0, _NO_ID, 0, 0, payload)
    out = bytearray(head.join([b"", *payloads]))
    grown = size + G0.fixed - SENT.fixed
    if not zero(messages, 0, 16, size, count):
        for at in range(16):
            out[G0.id + at :: grown] = messages[at::size]
    _write_checksums(out, grown, payloads)
    return count, bytes(out)


def write_g0(messages: bytes) -> bytes:
    """Messages in poll layout (no prefix) -> as a client sends them."""
    size = stride(G0, messages, 0)[0]
    if size:
        pieces = struct.Struct(f"<{G0.id}x16s4x{size - G0.lengths}s").iter_unpack(messages)
        return b"".join(itertools.chain.from_iterable(pieces))
    return b"".join(
        messages[at + G0.id : at + _CHECKSUM] + messages[at + G0.lengths : end] for at, *_, end in each(G0, messages, 0)
    )


def mended(messages: bytes) -> bytes:
    """Messages of another server's answer (no prefix) with the state and the checksums that `walk` wants to see.

    Clients look at neither.  Raises CommandFailed(MALFORMED).
    """
    out = bytearray(messages)
    size, headers, payload = stride(G0, messages, 0)
    if size:
        pieces = _payload(G0.fixed + headers, payload).iter_unpack(messages)
        out[_STATE::size] = bytes((_AVAILABLE,)) * (len(messages) // size)
        _write_checksums(out, size, list(itertools.chain.from_iterable(pieces)))
    else:
        for at, _, _, value, _, end in each(G0, messages, 0):
            out[at + _STATE] = _AVAILABLE
            _u32.pack_into(out, at + _CHECKSUM, zlib.crc32(messages[value:end]))
    return bytes(out)


def _checksums(payloads: list[bytes]) -> bytes:
    return struct.pack(f"<{len(payloads)}I", *map(zlib.crc32, payloads))


def _write_checksums(out: bytearray, size: int, payloads: list[bytes]) -> None:
    checksums = _checksums(payloads)
    for at in range(4):
        out[_CHECKSUM + at :: size] = checksums[at::4]


@lru_cache(1024)
def _payload(before: int, size: int) -> struct.Struct:
    return struct.Struct(f"<{before}x{size}s")


# -- the functions of the encoding that no other layout has


def walk(body: bytes) -> int:
    """Number of messages.  Raises CommandFailed: MALFORMED unless the body is whole and exact, TOO_LARGE."""
    start = begin(body)
    size, headers, payload = stride(G0, body, start)
    count = _walk_alike(body, start, size, payload, headers) if size else _walk_each(body, start)
    if headers or not size:
        weigh_all(body, each(G0, body, start), False)
    if count > MAX_RECORDS:
        raise CommandFailed(Fault.TOO_LARGE, f"{count} messages in one batch, {MAX_RECORDS} is the most")
    return count


def _walk_alike(body: bytes, start: int, size: int, payload: int, headers: int) -> int:
    count = (len(body) - start) // size
    pieces = _payload(G0.fixed + headers, payload).iter_unpack(memoryview(body)[start:])
    checksums = _checksums(list(itertools.chain.from_iterable(pieces)))
    at = start + _CHECKSUM
    sound = all([body[at + byte :: size] == checksums[byte::4] for byte in range(4)])
    if not sound or body[start + _STATE :: size] != bytes((_AVAILABLE,)) * count:
        raise malformed("a message that is not available, or whose checksum is wrong")
    return count


def _walk_each(body: bytes, start: int) -> int:
    count = 0
    for at, _, _, value, _, end in each(G0, body, start):
        count += 1
        if body[at + _STATE] != _AVAILABLE or _u32.unpack_from(body, at + _CHECKSUM)[0] != zlib.crc32(body[value:end]):
            raise malformed("a message that is not available, or whose checksum is wrong")
    return count


def records(body: bytes) -> list[Record]:
    """Record objects; all have the one key of the body, if there is one."""
    start = 1 + body[0]
    key = body[1:start] or None
    return [
        Record(key, value, read_headers(block, False) if block else (), 0, 0, b"" if id == _NO_ID else id[::-1])
        for id, block, value in _rows(body, start)
    ]


def _rows(body: bytes, start: int) -> Iterable[tuple[bytes, bytes, bytes]]:
    size, headers, payload = stride(G0, body, start)
    if size:
        return _reader(headers, payload).iter_unpack(memoryview(body)[start:])
    return _mixed_rows(body, start)


def _mixed_rows(body: bytes, start: int) -> Iterator[tuple[bytes, bytes, bytes]]:
    for at, first, last, value, _, end in each(G0, body, start):
        yield body[at + G0.id : at + _CHECKSUM], body[first:last], body[value:end]


@lru_cache(1024)
def _reader(headers: int, payload: int) -> struct.Struct:
    return struct.Struct(f"<{G0.id}x16s8x{headers}s4x{payload}s")


def write_messages(
    offsets: Iterable[int],
    times: Iterable[int],
    ids: Iterable[bytes],
    origins: Iterable[int],
    values: Sequence[bytes],
    blocks: Sequence[bytes],
) -> bytes:
    """Messages in poll layout, column by column; blocks: their user headers.  This layout has no times of origin.

    Raises struct.error for a number out of range.
    """
    return b"".join(
        [
            _writer(len(block), len(value))(
                offset, _AVAILABLE, time, id, zlib.crc32(value), len(block), block, len(value), value
            )
            for offset, time, id, value, block in zip(offsets, times, ids, values, blocks, strict=True)
        ]
    )


@lru_cache(1024)
def _writer(headers: int, payload: int) -> Callable[..., bytes]:
    return struct.Struct(f"<QBQ16sII{headers}sI{payload}s").pack


IGGY_G0 = Encoding(
    "iggy.g0",
    walk=walk,
    stamp=partial(stamp, G0),
    cut=partial(cut, G0),
    sizes=partial(sizes, G0),
    runs=partial(runs, G0),
    records=records,
)
