"""What the gateway writes into messages when they are appended: offsets, times, and ids where there are none.

A server gives a random UUID to a message without id.  Here nothing is random: the upper half of an id comes from a hash
of the body, the lower half is the time of the message, which no other message of its partition has.  The result is a
UUID of version 8, the one for such inventions (RFC 9562, section 5.8).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

import xxhash

from gateway.core.columns import columns
from gateway.dialects.iggy.places import Layout, each, read_columns, slices, stride, zero

_u64 = struct.Struct("<Q").pack_into
_id = struct.Struct("<QQ").pack_into

_NO_ID = bytes(16)
_VARIANT = 0b10 << 62
_TIME = (1 << 62) - 1
_VARIANT_BYTE = bytes(_VARIANT >> 56 | byte & _TIME >> 56 for byte in range(256))  # for bytes.translate


def stamp(layout: Layout, body: bytes, base: int, timestamp: int) -> bytes:
    """The body with offsets base, base + 1, ... and times timestamp, timestamp + 1, ... and an id in each message."""
    start = 1 + body[0]
    size = stride(layout, body, start)[0]
    out = bytearray(body)
    if size:
        _stamp_alike(layout, body, out, start, size, base, timestamp)
    else:
        upper = _upper(body)
        for index, (at, *_) in enumerate(each(layout, body, start)):
            _u64(out, at + layout.offset, base + index)
            _u64(out, at + layout.timestamp, timestamp + index)
            at += layout.id
            if body[at : at + 16] == _NO_ID:
                _id(out, at, _VARIANT | timestamp + index & _TIME, upper)
    return bytes(out)


def _stamp_alike(layout: Layout, body: bytes, out: bytearray, start: int, size: int, base: int, timestamp: int) -> None:
    count = (len(body) - start) // size
    _write(out, start + layout.offset, size, [bytearray(column) for column in columns(base, count)])
    times = [bytearray(column) for column in columns(timestamp, count)]
    _write(out, start + layout.timestamp, size, times)
    at = start + layout.id
    if zero(body, at, at + 16, size, count):
        _write(out, at, size, [times[0].translate(_VARIANT_BYTE), *times[1:]])
        _write(out, at + 8, size, [bytearray((byte,)) * count for byte in _upper(body).to_bytes(8, "big")])
    else:
        upper = _upper(body)
        for index in _nameless(body, at, size, count):
            _id(out, at + index * size, _VARIANT | timestamp + index & _TIME, upper)


def _write(out: bytearray, at: int, size: int, numbers: Iterable[bytearray]) -> None:
    """Eight columns, the most significant first, from place `at` of the first message on, the least first.

    They are bytearrays because a slice takes those as they are; it copies bytes first, which doubles the price.
    """
    for place, column in zip(_falling(at, size), numbers, strict=False):
        out[place] = column


@lru_cache(1024)
def _falling(at: int, size: int) -> list[slice]:
    return slices(at, at + 8, size)[::-1]


def _nameless(body: bytes, at: int, size: int, count: int) -> list[int]:
    """Which messages have an id of 0: no bit in any of its sixteen bytes."""
    bits = 0
    for column in read_columns(at, at + 16, size)(body):
        bits |= int.from_bytes(column, "little")
    named = bits.to_bytes(count, "little")
    return [index for index, byte in enumerate(named) if not byte] if 0 in named else []


def _upper(body: bytes) -> int:
    """The upper 64 bits of the ids of a body: a hash, and 8 where a UUID has its version."""
    return xxhash.xxh64_intdigest(body) & ~(0xF << 12) | 8 << 12
