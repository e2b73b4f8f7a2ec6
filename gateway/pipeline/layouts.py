"""Columns of records straight from bodies in the layouts of `cursus` and `iggy`, without a record object.

Where a record begins is found with the dialect's own functions; from there on all records are looked at at once.  What
this says of a body is what `records()` of its encoding says; a test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding, Header, RecordBatch
from gateway.dialects.cursus import layout as cursus
from gateway.dialects.iggy import places as iggy
from gateway.dialects.iggy.headers import read_headers
from gateway.dialects.iggy.layout_g0 import G0, IGGY_G0
from gateway.dialects.iggy.layout_g2 import G2B, G2C, IGGY_G2B, IGGY_G2C
from gateway.pipeline.buffers import Numbers, fixed, longs, numbers_at, spans, times
from gateway.pipeline.cells import Cells


class CursusCells:
    """Bodies in `cursus.v1`."""

    def __init__(self, batches: Sequence[RecordBatch]) -> None:
        body = b"".join([batch.body for batch in batches])
        octets = self._octets = np.frombuffer(body, np.uint8)
        begin = self._begin = _cursus_starts(body, batches)
        key = begin + 18 + numbers_at(octets, begin + 16, ">u2")  # where its length is, and so with the others
        value = key + 10 + numbers_at(octets, key, ">u2")
        event = value + 4 + numbers_at(octets, value, ">u4")
        metadata = event + 14 + numbers_at(octets, event, ">u2")
        end = metadata + 2 + numbers_at(octets, metadata, ">u2")
        self._anonymous = key == begin + 18
        self._columns: dict[str, Callable[[], pa.Array | None]] = {
            "key": lambda: self._bytes(key + 2, value - 8),
            "value": lambda: spans(octets, value + 4, event),
            "producer": lambda: self._bytes(begin + 18, key),
            "epoch": lambda: self._by_producer(value - 8, ">i8"),
            "sequence": lambda: self._by_producer(begin + 8, ">u8"),
            "event_type": lambda: self._bytes(event + 2, metadata - 12),
            "schema_version": lambda: longs(numbers_at(octets, metadata - 12, ">u4")),
            "aggregate_version": lambda: longs(numbers_at(octets, metadata - 8, ">u8")),
            "metadata": lambda: self._bytes(metadata + 2, end),
        }

    def column(self, name: str) -> pa.Array | None:
        """See Cells."""
        column = self._columns.get(name)
        return None if column is None else column()

    def times(self) -> Numbers | None:
        """This wire carries none."""
        return None

    def headers(self) -> list[tuple[Header, ...]] | None:
        """Nor these."""
        return None

    def _bytes(self, begin: Numbers, end: Numbers) -> pa.Array | None:
        """Empty ones are none."""
        none = begin == end
        return None if none.all() else spans(self._octets, begin, end, none)

    def _by_producer(self, at: Numbers, kind: str) -> pa.Array:
        """0 is a number like others where there is a producer."""
        values = numbers_at(self._octets, at, kind)
        return longs(values, (values == 0) & self._anonymous)


def _cursus_starts(body: bytes, batches: Sequence[RecordBatch]) -> Numbers:
    count = sum(batch.count for batch in batches)
    size = cursus.stride(body)
    try:
        begin = _every(size, len(body)) if size else np.array(cursus.positions(body)[:-1], np.int64)
    except cursus.CutShort as error:
        raise CommandFailed(Fault.MALFORMED, str(error)) from error
    return _counted(begin, count)


class IggyCells:
    """Bodies in one of the layouts of Iggy."""

    def __init__(self, layout: iggy.Layout, batches: Sequence[RecordBatch]) -> None:
        self._layout = layout
        self._batches = batches
        self._buffer = b"".join([batch.body for batch in batches])
        self._octets = np.frombuffer(self._buffer, np.uint8)
        self._counts = np.array([batch.count for batch in batches], np.int64)
        self._begin = _iggy_starts(layout, batches)
        self._place(self._begin + layout.lengths)

    def _place(self, at: Numbers) -> None:
        """Where headers and payload are, by their lengths."""
        between, begin = self._layout.between, self._begin + self._layout.fixed
        headers = numbers_at(self._octets, at, "<u4")
        payload = numbers_at(self._octets, at + 4 + (headers if between else 0), "<u4")
        block = at + 4 if between else begin + payload
        value = begin + headers if between else begin
        self._block, self._value = (block, block + headers), (value, value + payload)

    def column(self, name: str) -> pa.Array | None:
        """See Cells."""
        if name == "value":
            return spans(self._octets, *self._value)
        if name == "id":
            return fixed(self._octets, self._begin + self._layout.id, range(15, -1, -1))
        if name == "origin_timestamp" and not self._layout.between:
            return times(numbers_at(self._octets, self._begin + _ORIGIN, "<u8"))
        return self._keys() if name == "key" else None

    def times(self) -> Numbers | None:
        """Those of the messages are those of the batch."""
        return None

    def headers(self) -> list[tuple[Header, ...]] | None:
        """Messages of one producer often have the same ones, which are read once."""
        first, last = self._block
        if (first == last).all():
            return None
        known: dict[bytes, tuple[Header, ...]] = {b"": ()}
        found = []
        for block in [self._buffer[at:end] for at, end in zip(first.tolist(), last.tolist(), strict=True)]:
            if block not in known:
                known[block] = read_headers(block, self._layout.key_kinds)
            found.append(known[block])
        return found

    def _keys(self) -> pa.Array | None:
        keys = [batch.body[1 : 1 + batch.body[0]] or None for batch in self._batches]
        if not any(keys):
            return None
        return pa.array(keys, pa.binary()).take(pa.array(np.repeat(np.arange(len(keys)), self._counts)))


_ORIGIN = 40
"""Place of the time of origin, in the layouts that have one."""


def _iggy_starts(layout: iggy.Layout, batches: Sequence[RecordBatch]) -> Numbers:
    found, at = [], 0
    for batch in batches:
        start = iggy.begin(batch.body)
        size = iggy.stride(layout, batch.body, start)[0]
        if size:
            begin = start + _every(size, len(batch.body) - start)
        else:
            begin = np.array(iggy.positions(layout, batch.body, start)[:-1], np.int64)
        found.append(at + _counted(begin, batch.count))
        at += len(batch.body)
    return np.concatenate(found)


def _every(size: int, length: int) -> Numbers:
    return np.arange(0, length, size, dtype=np.int64)


def _counted(begin: Numbers, count: int) -> Numbers:
    if len(begin) != count:
        raise CommandFailed(Fault.MALFORMED, f"batches of {count} records that hold {len(begin)}")
    return begin


LAYOUTS: dict[Encoding, Callable[[Sequence[RecordBatch]], Cells]] = {
    cursus.CURSUS_V1: CursusCells,
    IGGY_G0: lambda batches: IggyCells(G0, batches),
    IGGY_G2B: lambda batches: IggyCells(G2B, batches),
    IGGY_G2C: lambda batches: IggyCells(G2C, batches),
}
"""What is read without record objects; all other encodings are read by their `records()`."""
