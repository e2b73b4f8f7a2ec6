"""The record encodings `iggy.g2b` (iggy 0.7, 0.8) and `iggy.g2c` (0.9, 0.10): bodies as places.py has them.

    message   u64 checksum (0) · u128 id · u64 offset · u64 timestamp · u64 origin timestamp · u32 bytes of headers
              · u32 bytes of payload · [8 zero bytes in g2c] · payload · user headers
    SEND      (u32 0 · u32 where the message ends, from the first on · u64 0) of each message · messages

In the body of a Publish offset and timestamp are 0.  Clients take a checksum of 0 as it is.
Source: protocol page, section 3.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial

from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import MAX_RECORDS, Encoding, Record
from gateway.dialects.iggy.headers import read_headers, weigh_all
from gateway.dialects.iggy.places import (
    KEPT,
    Layout,
    begin,
    bounded,
    cut,
    each,
    malformed,
    positions,
    runs,
    sizes,
    stride,
    zero,
)
from gateway.dialects.iggy.stamping import stamp

CHECKSUM = (0, 8)
RESERVED = (56, 64)
PLACE_IN_LOG = (24, 40)
"""Offset and timestamp."""

G2B = Layout(fixed=56, lengths=48, between=False, key_kinds=False, id=8, offset=24, timestamp=32, zeros=(CHECKSUM,))
G2C = Layout(
    fixed=64, lengths=48, between=False, key_kinds=True, id=8, offset=24, timestamp=32, zeros=(CHECKSUM, RESERVED)
)

ENTRY = 16
"""Bytes of the index for each message."""

_NO_ID = bytes(16)
_lengths = struct.Struct("<II")
_entry = struct.Struct("<4xI8x")


# -- SEND


def width(count: int, rest: bytes) -> int:
    """Bytes of a message header in what follows the messages count of a SEND: 56 (G2A, G2B), 64 (G2C), 0 = neither."""
    first = count * ENTRY
    if not count or first + G2B.fixed > len(rest):
        return 0
    headers, payload = _lengths.unpack_from(rest, first + G2B.lengths)
    found: int = _entry.unpack_from(rest)[0] - headers - payload
    return found if found in (G2B.fixed, G2C.fixed) else 0


def read_g2(encoding: Encoding, count: int, rest: bytes) -> bytes:
    """What follows the messages count of a SEND -> the messages; what a client has no say in is 0 in them.

    encoding: IGGY_G2B or IGGY_G2C.  The body of a Publish is `prefix(key) + messages`.
    What becomes 0: offset, timestamp, checksum and the eight bytes reserved.
    Raises CommandFailed: MALFORMED; TOO_LARGE with the fact status 4017, 4022 or 4023; EMPTY_BATCH with 4009 or 4024.
    """
    layout, start = _LAYOUTS[encoding], count * ENTRY
    if start > len(rest):
        raise malformed("the index is cut short")
    size, headers, payload = stride(layout, rest, start)
    if size and not headers:
        found = (len(rest) - start) // size
        table, payloads, values, begins = _table_alike(found, size), found * payload, 0, []
    else:
        places = list(each(layout, rest, start))
        table = b"".join([_entry.pack(at[5] - start) for at in places])
        payloads, values = sum([at[4] - at[3] for at in places]), weigh_all(rest, places, layout.key_kinds)
        begins = [at[0] - start for at in places]
    if len(table) != start or not rest.startswith(table):
        raise malformed("the index is not that of the messages")
    bounded(count, payloads, values)
    return _cleared(rest[start:], (*layout.zeros, PLACE_IN_LOG), size, begins)


def write_g2(encoding: Encoding, messages: bytes) -> bytes:
    """Messages in poll layout (no prefix) -> index table and messages as a client sends them."""
    layout = _LAYOUTS[encoding]
    size = stride(layout, messages, 0)[0]
    if size:
        table = _table_alike(len(messages) // size, size)
    else:
        table = b"".join(map(_entry.pack, positions(layout, messages, 0)[1:]))
    return table + cleared(layout, messages, (*layout.zeros, PLACE_IN_LOG))


def cleared(layout: Layout, messages: bytes, spans: tuple[tuple[int, int], ...]) -> bytes:
    """Messages with zeros in those places of each, (first, behind the last)."""
    size = stride(layout, messages, 0)[0]
    return _cleared(messages, spans, size, [] if size else positions(layout, messages, 0)[:-1])


def _cleared(messages: bytes, spans: tuple[tuple[int, int], ...], size: int, begins: list[int]) -> bytes:
    """size: of all messages, 0 if they differ.  begins: where they begin, if so."""
    if size:
        return _cleared_alike(messages, size, spans)
    dirty = [
        (at + first, at + last)
        for at in begins
        for first, last in spans
        if messages.count(0, at + first, at + last) < last - first
    ]
    return _blanked(messages, dirty) if dirty else messages  # as they are: so clients send them


def _blanked(messages: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    out = bytearray(messages)
    for first, last in spans:
        out[first:last] = bytes(last - first)
    return bytes(out)


def _cleared_alike(messages: bytes, size: int, spans: Iterable[tuple[int, int]]) -> bytes:
    count = len(messages) // size
    spans = [span for span in spans if not zero(messages, *span, size, count)]
    if not spans:
        return messages
    out, zeros = bytearray(messages), bytes(count)
    for at in itertools.chain.from_iterable(range(*span) for span in spans):
        out[at::size] = zeros
    return bytes(out)


def _table_alike(count: int, size: int) -> bytes:
    """The index of so many messages of that size."""
    return _kept_table(count, size) if count <= KEPT else _table(count, size)


def _table(count: int, size: int) -> bytes:
    ends = struct.pack(f"<{count}I", *range(size, size * count + 1, size))
    out = bytearray(count * ENTRY)
    for byte in range(4):
        out[4 + byte :: ENTRY] = ends[byte::4]
    return bytes(out)


_kept_table = lru_cache(64)(_table)


# -- the functions of the encodings that no other layout has


def walk(layout: Layout, body: bytes) -> int:
    """Number of messages.  Raises CommandFailed: MALFORMED unless the body is whole and exact, TOO_LARGE."""
    start = begin(body)
    size, headers, _ = stride(layout, body, start)
    if size:
        count = (len(body) - start) // size
        clear = all(zero(body, start + first, start + last, size, count) for first, last in layout.zeros)
    else:
        found = positions(layout, body, start)
        count = len(found) - 1
        clear = not any(any(body[at + first : at + last]) for at in found[:-1] for first, last in layout.zeros)
    if not clear:
        raise malformed("bytes of a message that should be zero are not")
    if headers or not size:
        weigh_all(body, each(layout, body, start), layout.key_kinds)
    if count > MAX_RECORDS:
        raise CommandFailed(Fault.TOO_LARGE, f"{count} messages in one batch, {MAX_RECORDS} is the most")
    return count


def records(layout: Layout, body: bytes) -> list[Record]:
    """Record objects; all have the one key of the body, if there is one."""
    start = 1 + body[0]
    key, kinds = body[1:start] or None, layout.key_kinds
    return [
        Record(key, value, read_headers(block, kinds) if block else (), 0, origin, b"" if id == _NO_ID else id[::-1])
        for id, origin, value, block in _rows(layout, body, start)
    ]


_Row = tuple[bytes, int, bytes, bytes]


def _rows(layout: Layout, body: bytes, start: int) -> Iterable[_Row]:
    size, headers, payload = stride(layout, body, start)
    if size:
        return _reader(layout.fixed, headers, payload).iter_unpack(memoryview(body)[start:])
    return _mixed_rows(layout, body, start)


def _mixed_rows(layout: Layout, body: bytes, start: int) -> Iterator[_Row]:
    for at, first, last, value, end, _ in each(layout, body, start):
        yield body[at + 8 : at + 24], _origin.unpack_from(body, at + 40)[0], body[value:end], body[first:last]


_origin = struct.Struct("<Q")


@lru_cache(1024)
def _reader(fixed: int, headers: int, payload: int) -> struct.Struct:
    return struct.Struct(f"<8x16s16xQ8x{fixed - G2B.fixed}x{payload}s{headers}s")


def write_messages(
    fixed: int,
    offsets: Iterable[int],
    times: Iterable[int],
    ids: Iterable[bytes],
    origins: Iterable[int],
    values: Sequence[bytes],
    blocks: Sequence[bytes],
) -> bytes:
    """Messages, column by column.  fixed: bytes of a head.  blocks: user headers.  Raises struct.error."""
    return b"".join(
        [
            _writer(fixed, len(value), len(block))(id, offset, time, origin, len(block), len(value), value, block)
            for id, offset, time, origin, value, block in zip(ids, offsets, times, origins, values, blocks, strict=True)
        ]
    )


@lru_cache(1024)
def _writer(fixed: int, payload: int, headers: int) -> Callable[..., bytes]:
    return struct.Struct(f"<8x16sQQQII{fixed - G2B.fixed}x{payload}s{headers}s").pack


def _encoding(name: str, layout: Layout) -> Encoding:
    return Encoding(
        name,
        walk=partial(walk, layout),
        stamp=partial(stamp, layout),
        cut=partial(cut, layout),
        sizes=partial(sizes, layout),
        runs=partial(runs, layout),
        records=partial(records, layout),
    )


IGGY_G2B = _encoding("iggy.g2b", G2B)
IGGY_G2C = _encoding("iggy.g2c", G2C)

_LAYOUTS = {IGGY_G2B: G2B, IGGY_G2C: G2C}
