"""Arrow arrays made of numbers and of places in a buffer, with no Python object for any value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Octets = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

TIME = pa.timestamp("us", tz="UTC")

_WORD = (1 << 64) - 1


def numbers_at(octets: Octets, at: Numbers, kind: str) -> Numbers:
    """The numbers of that numpy type that begin there, as longs; those of 64 bits keep their bits.

    Raises IndexError beyond the buffer.
    """
    width = np.dtype(kind).itemsize
    windows = max(0, len(octets) - width + 1)
    found = np.ndarray(windows, kind, octets.data, strides=(1,))[at]
    native = found.astype(found.dtype.newbyteorder("="), copy=False)
    return native.view(np.int64) if width == 8 else native.astype(np.int64)


def spans(octets: Octets, begin: Numbers, end: Numbers, null: Flags | None = None) -> pa.Array:
    """The bytes from each `begin` to its `end`, in rising order and none twice; null where it says so, None = nowhere.

    Raises ValueError for places that are not in order.
    """
    edges = np.empty(2 * len(begin), np.int64)
    edges[0::2], edges[1::2] = begin, end
    if len(edges) and (edges[0] < 0 or edges[-1] > len(octets) or (np.diff(edges) < 0).any()):
        raise ValueError("places that are not one behind the other")
    # every second value of an array over the buffer as it is; Arrow copies those in one pass
    buffers = [None, pa.py_buffer(edges.astype(np.int32)), pa.py_buffer(octets)]
    every = pa.Array.from_buffers(pa.binary(), max(0, len(edges) - 1), buffers)
    return every.take(pa.array(np.arange(0, len(edges), 2, dtype=np.int32), mask=null))


def fixed(octets: Octets, at: Numbers, order: Sequence[int]) -> pa.Array:
    """Of each place the bytes at these distances from it, in this order; null where all are 0."""
    width = len(order)
    found = np.ascontiguousarray(octets[at[:, None] + np.asarray(order, np.int64)])
    offsets = np.arange(0, (len(at) + 1) * width, width, dtype=np.int32)
    there = found.any(axis=1)
    bits = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(at), [bits, pa.py_buffer(offsets), pa.py_buffer(found)])


def longs(values: Numbers, null: Flags | None = None) -> pa.Array:
    """Numbers; null where it says so, None = where they are 0."""
    null = values == 0 if null is None else null
    return pa.array(values, mask=null if null.any() else None)


def times(values: Numbers) -> pa.Array:
    """Us since the epoch; 0 is null."""
    return longs(values).view(TIME)


def same(value: str | int | bytes, count: int, kind: pa.DataType) -> pa.Array:
    """One value again and again."""
    return pa.repeat(pa.scalar(value, kind), count)


def wrapped(values: Sequence[int]) -> Numbers:
    """Numbers -2^63..2^64-1 as longs of the same 64 bits."""
    return np.array([value & _WORD for value in values], np.uint64).view(np.int64)
