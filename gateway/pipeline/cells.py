"""Columns of records: from record objects, in whatever encoding they are, or without any, where they say little.

What a column holds is in schema.py.  The layouts of dialects that are read without objects are in layouts.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import numpy as np
import pyarrow as pa

from gateway.core.records import Header, Record, RecordBatch, canonical
from gateway.pipeline.buffers import Flags, Numbers, longs, numbers_at, spans, times, wrapped


class Cells(Protocol):
    """The records of consecutive batches, by column."""

    def column(self, name: str) -> pa.Array | None:
        """A column of schema.py that is about records alone; None = it is null, or empty, in all of them."""

    def times(self) -> Numbers | None:
        """The time that each record gives itself, us; 0 = it gives none, None = none of them does."""

    def headers(self) -> list[tuple[Header, ...]] | None:
        """The headers of each record; None = there are none."""


class RecordCells:
    """Bodies in any encoding."""

    def __init__(self, batches: Sequence[RecordBatch]) -> None:
        self._records = list(itertools.chain.from_iterable([batch.records() for batch in batches]))

    def column(self, name: str) -> pa.Array | None:
        """See Cells."""
        return _COLUMNS[name](self._records)

    def times(self) -> Numbers | None:
        """The own times of migrated records."""
        found = [record.timestamp for record in self._records]
        return wrapped(found) if any(found) else None

    def headers(self) -> list[tuple[Header, ...]] | None:
        """See Cells."""
        found = [record.headers for record in self._records]
        return found if any(found) else None


def _octets(values: Sequence[bytes | None]) -> pa.Array | None:
    """Empty ones are none."""
    return pa.array([value or None for value in values], pa.binary()) if any(values) else None


def _longs(values: Sequence[int]) -> pa.Array | None:
    return longs(wrapped(values)) if any(values) else None


def _moments(values: Sequence[int]) -> pa.Array | None:
    return times(wrapped(values)) if any(values) else None


def _of_producer(values: Sequence[int], records: Sequence[Record]) -> pa.Array | None:
    """0 is a number like others where there is a producer."""
    if not any(values) and not any([record.producer for record in records]):
        return None
    found = wrapped(values)
    return longs(found, (found == 0) & ~np.array([bool(record.producer) for record in records]))


_COLUMNS: dict[str, Callable[[Sequence[Record]], pa.Array | None]] = {
    "key": lambda records: _octets([record.key for record in records]),
    "value": lambda records: pa.array([record.value for record in records], pa.binary()),
    "origin_timestamp": lambda records: _moments([record.origin_timestamp for record in records]),
    "id": lambda records: _octets([record.id for record in records]),
    "producer": lambda records: _octets([record.producer for record in records]),
    "epoch": lambda records: _of_producer([record.epoch for record in records], records),
    "sequence": lambda records: _of_producer([record.sequence for record in records], records),
    "event_type": lambda records: _octets([record.event_type for record in records]),
    "schema_version": lambda records: _longs([record.schema_version for record in records]),
    "aggregate_version": lambda records: _longs([record.aggregate_version for record in records]),
    "metadata": lambda records: _octets([record.metadata for record in records]),
    "expiry": lambda records: _moments([record.expiry for record in records]),
}
"""Written out: an attribute by its name is a quarter of the price of one by a variable (7 ns and 30, measured)."""


# -- msgpack.v1 whose records have a key and a value and nothing else: most of what is written without a dialect

_NOTHING = canonical([Record()]).body[5:]
"""What stands behind the value of such a record: no headers, and 0 or empty bytes for all that follows."""

_ONE, _ALL_FIELDS, _NIL, _BIN8 = 0x91, 0x9E, 0xC0, 0xC4
_LONGER = {0xC5: ">u2", 0xC6: ">u4"}
"""Words of msgpack: an array of one, of all fields of a record; no value, bytes with a length of one byte, and more."""

_raw = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


class Irregular(Exception):
    """Bodies that are read as objects."""


def canonical_cells(batches: Sequence[RecordBatch]) -> Cells:
    """Bodies in `msgpack.v1`."""
    if all([batch.body.endswith(_NOTHING) for batch in batches]):
        try:
            return PlainCells(batches)
        except (Irregular, IndexError):
            pass
    return RecordCells(batches)


class PlainCells:
    """Bodies in `msgpack.v1` of records with key and value alone.  Raises Irregular for others."""

    def __init__(self, batches: Sequence[RecordBatch]) -> None:
        sizes = [_sizes(batch) for batch in batches]
        behind = np.cumsum([len(batch.body) for batch in batches])
        end = np.concatenate([last - size.sum() + np.cumsum(size) for last, size in zip(behind, sizes, strict=True)])
        begin = end - np.concatenate(sizes)
        body = b"".join([*(batch.body for batch in batches), bytes(8)])  # so that a length is looked for at the end too
        self._octets = np.frombuffer(body, np.uint8)
        if (self._octets[begin] != _ALL_FIELDS).any():
            raise Irregular
        self._key = self._field(begin + 1)
        self._value = self._field(self._key[1])
        rest = self._value[1]
        if (end - rest != len(_NOTHING)).any() or not self._nothing(rest):
            raise Irregular

    def column(self, name: str) -> pa.Array | None:
        """See Cells."""
        if name == "value":
            return spans(self._octets, *self._value)
        if name == "key":
            begin, end, _ = self._key
            return spans(self._octets, begin, end, begin == end)
        return None

    def times(self) -> Numbers | None:
        """See Cells."""
        return None

    def headers(self) -> list[tuple[Header, ...]] | None:
        """See Cells."""
        return None

    def _nothing(self, at: Numbers) -> bool:
        wanted = np.frombuffer(_NOTHING, np.uint8)
        return bool((self._octets[at[:, None] + np.arange(len(wanted))] == wanted).all())

    def _field(self, at: Numbers) -> tuple[Numbers, Numbers, Flags | None]:
        """Of a field with bytes or nil where it begins and ends, and which are nil, None = none."""
        kind = self._octets[at]
        begin, size = at + 2, self._octets[at + 1].astype(np.int64)
        short = kind == _BIN8
        if short.all():
            return begin, begin + size, None
        nil = kind == _NIL
        begin[nil], size[nil] = at[nil] + 1, 0
        for word, width in _LONGER.items():
            of = kind == word
            size[of] = numbers_at(self._octets, at[of] + 1, width)
            begin[of] = at[of] + 1 + np.dtype(width).itemsize
        if not (short | nil | np.isin(kind, list(_LONGER))).all():
            raise Irregular
        return begin, begin + size, nil if nil.any() else None


def _sizes(batch: RecordBatch) -> Numbers:
    """Bytes of each record."""
    if batch.body[0] == _ONE:
        return np.array([len(batch.body) - 1])
    try:
        found = np.fromiter(map(len, _raw(batch.body)), np.int64)
    except msgspec.DecodeError:
        raise Irregular from None
    if len(found) != batch.count:
        raise Irregular
    return found
