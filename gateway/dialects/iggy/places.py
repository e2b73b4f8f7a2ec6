"""What the layouts of Iggy messages share: where things are, in a message and in a body.

    body       u8 length, key (none = 0), messages.  The key was a SEND's partitioning and is that of all its records
    message    a head of fixed places, payload, user headers; numbers are little-endian

Messages of one SEND mostly have one length.  Then message i begins at start + i * size, and one byte of all messages is
one slice, `body[at::size]`: such a body is checked and stamped with some dozens of slices, whatever its number of
messages.  All others, and the few for which a dozen slices do not pay, are walked one by one.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from operator import itemgetter

import msgspec

from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import MAX_RECORDS, Run

FEW = 4
"""Below so many messages the walk is quicker than slices are."""

KEPT = 1024
"""What depends on the number of messages is kept for the next batch up to so many of them."""

MAX_PAYLOADS = 10 << 20
"""Bytes of all payloads of one SEND."""

MAX_HEADERS = 100 << 10
"""Bytes of all header values of one SEND."""

_u32 = struct.Struct("<I").unpack_from


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Where things are in a message.

    fixed:     bytes of a message without payload and user headers.
    lengths:   place of the length of the headers, a u32; that of the payload, another, is the next field.
    between:   the headers stand between the two lengths and the payload behind them; else payload, then headers.
    key_kinds: a header says of what kind its key is.
    id:        place of the id, u128.
    offset, timestamp: places of those, u64.
    zeros:     places that hold nothing: the first, and the one behind the last.
    """

    fixed: int
    lengths: int
    between: bool
    key_kinds: bool
    id: int
    offset: int = -1
    timestamp: int = -1
    zeros: tuple[tuple[int, int], ...] = ()


def malformed(why: str) -> CommandFailed:
    """The failure of a body or a SEND that is not what it should be."""
    return CommandFailed(Fault.MALFORMED, why)


# -- the key before the messages


def begin(body: bytes) -> int:
    """Where the messages of a body begin.  Raises CommandFailed(MALFORMED)."""
    if not body or body[0] >= len(body):
        raise malformed("the body ends within its key")
    return 1 + body[0]


# -- messages of one length


def stride(layout: Layout, buffer: bytes, start: int) -> tuple[int, int, int]:
    """(size, headers, payload): bytes of every message from `start` to the end; (0, 0, 0) if they differ or are few."""
    if len(buffer) - start < FEW * layout.fixed:
        return 0, 0, 0
    try:
        headers = _u32(buffer, start + layout.lengths)[0]
        second = start + layout.lengths + 4 + (headers if layout.between else 0)
        payload = _u32(buffer, second)[0]
    except struct.error:
        return 0, 0, 0
    size = layout.fixed + headers + payload
    count, rest = divmod(len(buffer) - start, size)
    if rest or count < FEW:
        return 0, 0, 0
    first = start + layout.lengths
    if second == first + 4:
        same = alike(buffer, first, first + 8, size, count)
    else:
        same = alike(buffer, first, first + 4, size, count) and alike(buffer, second, second + 4, size, count)
    return (size, headers, payload) if same else (0, 0, 0)


@lru_cache(1024)
def slices(first: int, last: int, size: int) -> list[slice]:
    """Those of the columns first..last-1."""
    return [slice(at, None, size) for at in range(first, last)]


@lru_cache(1024)
def read_columns(first: int, last: int, size: int) -> Callable[[bytes], tuple[bytes, ...]]:
    """What gets columns first..last-1 of a buffer; two at least.  60 ns each, where a loop takes 150."""
    get: Callable[[bytes], tuple[bytes, ...]] = itemgetter(*slices(first, last, size))
    return get


def alike(buffer: bytes, first: int, last: int, size: int, count: int) -> bool:
    """Whether bytes first..last-1, places in the first of `count` messages of one size, are the same in all of them."""
    repeated = _kept_columns if count <= KEPT else _columns
    return read_columns(first, last, size)(buffer) == repeated(buffer[first:last], count)


def zero(buffer: bytes, first: int, last: int, size: int, count: int) -> bool:
    """Whether those bytes are 0 in all messages."""
    return read_columns(first, last, size)(buffer) == (bytes(count),) * (last - first)


def _columns(octets: bytes, count: int) -> tuple[bytes, ...]:
    """The columns of messages that all have these bytes."""
    return tuple([bytes((byte,)) * count for byte in octets])


_kept_columns = lru_cache(64)(_columns)  # lengths come again

# -- messages one by one

Places = tuple[int, int, int, int, int, int]


def each(layout: Layout, buffer: bytes, start: int) -> Iterator[Places]:
    """Of each message from `start` on where it begins, its headers and its payload begin and end, and where it ends.

    Raises CommandFailed(MALFORMED) unless the last ends with the buffer.
    """
    fixed, lengths, between, size, at = layout.fixed, layout.lengths, layout.between, len(buffer), start
    while at < size:
        try:
            headers = _u32(buffer, at + lengths)[0]
            payload = _u32(buffer, at + lengths + 4 + (headers if between else 0))[0]
        except struct.error:
            raise malformed("the last message has no end") from None
        end = at + fixed + headers + payload
        if end > size:
            raise malformed("the last message is cut short")
        if between:
            yield at, at + lengths + 4, end - payload - 4, end - payload, end, end
        else:
            yield at, end - headers, end, at + fixed, end - headers, end
        at = end


def positions(layout: Layout, buffer: bytes, start: int) -> list[int]:
    """Where each message begins, and where the last ends.  Raises CommandFailed(MALFORMED)."""
    return [start, *(places[5] for places in each(layout, buffer, start))]


# -- limits


def bounded(count: int, payloads: int = 1, values: int = 0) -> int:
    """The number of messages of a SEND, if it is within the limits.

    payloads: bytes of all payloads.  values: bytes of all header values.
    Raises CommandFailed: EMPTY_BATCH, TOO_LARGE, with the server's own number as the fact `status`.
    """
    if not count:
        raise CommandFailed(Fault.EMPTY_BATCH, "no message", status=4009)
    if count > MAX_RECORDS:
        raise CommandFailed(Fault.TOO_LARGE, f"{count} messages in one batch, {MAX_RECORDS} is the most", status=4023)
    if values > MAX_HEADERS:
        raise CommandFailed(Fault.TOO_LARGE, f"{values} bytes of headers, {MAX_HEADERS} is the most", status=4017)
    if payloads > MAX_PAYLOADS:
        raise CommandFailed(Fault.TOO_LARGE, f"{payloads} bytes of payload, {MAX_PAYLOADS} is the most", status=4022)
    if not payloads:
        raise CommandFailed(Fault.EMPTY_BATCH, "every payload is empty", status=4024)
    return count


# -- what does not differ between the encodings


def cut(layout: Layout, body: bytes, first: int, last: int) -> bytes:
    """Messages first..last-1, with the key."""
    start = 1 + body[0]
    size = stride(layout, body, start)[0]
    if size:
        return body[:start] + body[start + first * size : start + last * size]
    found = positions(layout, body, start)
    return body[:start] + body[found[first] : found[last]]


def sizes(layout: Layout, body: bytes) -> list[int]:
    """Bytes of each message; those of the key are in none."""
    start = 1 + body[0]
    size = stride(layout, body, start)[0]
    if size:
        return [size] * ((len(body) - start) // size)
    return [end - at for at, end in itertools.pairwise(positions(layout, body, start))]


def runs(layout: Layout, body: bytes) -> list[Run]:
    """Iggy knows no producers: one stretch without any, so the places of its messages are of no interest but for n."""
    start = 1 + body[0]
    size = stride(layout, body, start)[0]
    count = (len(body) - start) // size if size else len(positions(layout, body, start)) - 1
    return [Run(b"", 0, 0, count)]
