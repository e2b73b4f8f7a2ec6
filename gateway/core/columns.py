"""Consecutive numbers, column by column: what offsets look like in a body whose records all have one length.

In such a body the first byte of every record's offset is one slice, `body[at::size]`, the second another, and so on.
So a batch is checked or stamped with eight slices, whatever its number of records.  In a layout that is little-endian
the columns are the same, from the last byte to the first.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.core.records import MAX_RECORDS

# the lowest and the second lowest byte of 0, 1, 2, ...: MAX_RECORDS can be sliced from anywhere in the first period
_LOWEST = bytes(range(256)) * (MAX_RECORDS // (1 << 8) + 2)
_SECOND = b"".join(bytes((high,)) * 256 for high in range(256)) * (MAX_RECORDS // (1 << 16) + 2)


def columns(first: int, count: int) -> Iterator[bytes]:
    """The eight bytes of first, first + 1, ... as u64, byte by byte: most significant of all, next of all, ...

    count: 1..MAX_RECORDS; the last number must be below 2^64.
    """
    final = first + count - 1
    zeros = bytes(count)
    for shift in range(56, 8, -8):
        high = first >> shift
        if high == final >> shift:
            yield bytes((high & 255,)) * count if high & 255 else zeros
        else:
            yield _stairs(first, final, shift)
    yield _SECOND[first & 0xFFFF : (first & 0xFFFF) + count]
    yield _LOWEST[first & 0xFF : (first & 0xFF) + count]


def _stairs(first: int, final: int, shift: int) -> bytes:
    """One byte of the numbers first..final that changes among them, every 1 << shift numbers."""
    low, high = first >> shift, final >> shift
    ends = [first, *(number << shift for number in range(low + 1, high + 1)), final + 1]
    return b"".join(bytes((low + step & 255,)) * (ends[step + 1] - ends[step]) for step in range(high - low + 1))
