"""Bodies as the rest of the dialect meets them: a key and messages, and what a poll answer makes of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gateway.core.columns import columns
from gateway.core.records import Encoding, RecordBatch
from gateway.dialects.iggy.headers import weigh_all
from gateway.dialects.iggy.layout_g0 import G0, IGGY_G0, mended
from gateway.dialects.iggy.layout_g2 import G2B, G2C, IGGY_G2B, IGGY_G2C, cleared
from gateway.dialects.iggy.places import Layout, alike, each, stride

_LAYOUTS = {IGGY_G0: G0, IGGY_G2B: G2B, IGGY_G2C: G2C}
_NO_KEY = b"\0"
_u64 = struct.Struct("<Q").unpack_from


def prefix(key: bytes) -> bytes:
    """What stands before the messages in a body: u8 length, key (b"" = none).  The key has at most 255 bytes."""
    return bytes((len(key),)) + key


def split(body: bytes) -> tuple[bytes, bytes]:
    """(key, messages in poll layout) of a body that `walk` accepts."""
    start = 1 + body[0]
    return body[1:start], body[start:]


def weights(encoding: Encoding, messages: bytes) -> tuple[int, int]:
    """(bytes of all payloads, bytes of all header values) of messages in poll layout."""
    layout = _LAYOUTS[encoding]
    size, headers, payload = stride(layout, messages, 0)
    if size and not headers:
        return len(messages) // size * payload, 0
    places = list(each(layout, messages, 0))
    return sum([at[4] - at[3] for at in places]), weigh_all(messages, places, layout.key_kinds)


def polled(encoding: Encoding, messages: bytes) -> list[RecordBatch]:
    """Messages of a poll answer -> batches, a new one wherever offsets do not rise by one, or the time changes.

    A server gives one time to all messages of a SEND; as records of a batch they are a microsecond apart, which is how
    the gateway's own times are.  Raises CommandFailed(MALFORMED).  No messages, no batches.
    """
    layout = _LAYOUTS[encoding]
    messages = mended(messages) if encoding is IGGY_G0 else cleared(layout, messages, layout.zeros)  # as ours are
    count = encoding.walk(_NO_KEY + messages)
    if not count:
        return []
    offset, timestamp = _u64(messages, layout.offset)[0], _u64(messages, layout.timestamp)[0]
    if _rising(layout, messages, offset, timestamp):
        return [RecordBatch(encoding, _NO_KEY + messages, count, offset, timestamp, "iggy")]
    return [
        RecordBatch(encoding, _NO_KEY + messages[first:last], many, offset, timestamp, "iggy")
        for offset, timestamp, first, last, many in _stretches(layout, messages)
    ]


def _rising(layout: Layout, messages: bytes, offset: int, timestamp: int) -> bool:
    """Whether that is one batch; for messages of one size only: False may also mean that they differ."""
    size = stride(layout, messages, 0)[0]
    if not size or (offset | timestamp) >> 63:
        return False
    count, time = len(messages) // size, layout.timestamp
    return _rise(messages, layout.offset, size, offset, count) and (
        alike(messages, time, time + 8, size, count) or _rise(messages, time, size, timestamp, count)
    )


def _rise(messages: bytes, place: int, size: int, first: int, count: int) -> bool:
    """Whether the numbers at `place` of messages of one size are first, first + 1, ..."""
    places = range(place + 7, place - 1, -1)
    return all(messages[at::size] == column for at, column in zip(places, columns(first, count), strict=True))


def _stretches(layout: Layout, messages: bytes) -> Iterator[tuple[int, int, int, int, int]]:
    """(offset, timestamp, first byte, behind the last byte, number) of messages that follow each other."""
    offset = timestamp = begin = many = last = 0
    for at, *_ in each(layout, messages, 0):
        place, moment = _u64(messages, at + layout.offset)[0], _u64(messages, at + layout.timestamp)[0]
        if many and (place != offset + many or moment - last not in (0, 1)):
            yield offset, timestamp, begin, at, many
            many = 0
        if not many:
            offset, timestamp, begin = place, moment, at
        many, last = many + 1, moment
    yield offset, timestamp, begin, len(messages), many
