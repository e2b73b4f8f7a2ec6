"""Batches of records -> Arrow, with the columns that were asked for and no others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from gateway.core.records import CANONICAL, Encoding, Header, RecordBatch
from gateway.pipeline.buffers import Numbers, same, times
from gateway.pipeline.cells import Cells, RecordCells, canonical_cells
from gateway.pipeline.layouts import LAYOUTS
from gateway.pipeline.schema import HEADER, KINDS

FEW = 256
"""Fewer records of one layout in a row are read as objects together with what is beside them: a frame each costs more
(200 us, measured) than is won."""

MANY = 8_192
"""Records of a frame, if batches are not larger: what belongs to more does not stay in the cache of a core, which costs
a third (2 MiB of it, measured)."""

Opener = Callable[[Sequence[RecordBatch]], Cells]

OPENERS: dict[Encoding, Opener] = {**LAYOUTS, CANONICAL: canonical_cells}
"""How columns are read; from record objects in all other encodings."""


class Frames:
    """Makes Arrow batches of the records of one topic.  schema: as `check_schema` has it."""

    def __init__(self, schema: StructType, namespace: str, topic: str) -> None:
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self._namespace = namespace
        self._topic = topic

    def of(self, partition: int, batches: Sequence[RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All records of these batches, in order.  Raises CommandFailed(MALFORMED) for bodies that are not whole."""
        for open_, stretch in _stretches(batches):
            yield self._frame(partition, stretch, open_(stretch))

    def _frame(self, partition: int, batches: Sequence[RecordBatch], cells: Cells) -> pa.RecordBatch:
        count = sum(batch.count for batch in batches)
        known: dict[str, Callable[[], pa.Array | None]] = {
            "namespace": lambda: same(self._namespace, count, pa.string()),
            "topic": lambda: same(self._topic, count, pa.string()),
            "partition": lambda: same(partition, count, pa.int32()),
            "offset": lambda: pa.array(_counting([batch.base for batch in batches], batches)),
            "timestamp": lambda: _times(batches, cells),
            "headers": lambda: _headers(cells.headers(), count),
            "origin": lambda: _origins(batches),
        }
        columns = []
        for field in self.schema:
            made = known[field.name]() if field.name in known else cells.column(field.name)
            columns.append(pa.nulls(count, field.type) if made is None else _fitting(made, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _fitting(made: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array with that type, which differs from its own in what may be null at most."""
    return made if made.type == kind else made.cast(kind)


def _stretches(batches: Sequence[RecordBatch]) -> Iterator[tuple[Opener, list[RecordBatch]]]:
    """Batches that are read alike, and how."""
    plain: list[RecordBatch] = []
    for encoding, group in itertools.groupby(batches, attrgetter("encoding")):
        alike = list(group)
        opener = OPENERS.get(encoding)
        if opener is None or sum(batch.count for batch in alike) < FEW:
            plain += alike
            continue
        yield from ((RecordCells, piece) for piece in _pieces(plain))
        yield from ((opener, piece) for piece in _pieces(alike))
        plain = []
    yield from ((RecordCells, piece) for piece in _pieces(plain))


def _pieces(batches: Sequence[RecordBatch]) -> Iterator[list[RecordBatch]]:
    """As many batches as make up a frame, one behind the other."""
    piece: list[RecordBatch] = []
    count = 0
    for batch in batches:
        if piece and count + batch.count > MANY:
            yield piece
            piece, count = [], 0
        piece.append(batch)
        count += batch.count
    if piece:
        yield piece


# -- what batches know of their records


def _counts(batches: Sequence[RecordBatch]) -> Numbers:
    return np.array([batch.count for batch in batches], np.int64)


def _counting(firsts: Sequence[int], batches: Sequence[RecordBatch]) -> Numbers:
    """From the first of each batch on, one more with each record."""
    counts = _counts(batches)
    before = np.cumsum(counts) - counts
    return np.repeat(np.array(firsts, np.int64) - before, counts) + np.arange(counts.sum())


def _times(batches: Sequence[RecordBatch], cells: Cells) -> pa.Array:
    moments = _counting([batch.timestamp for batch in batches], batches)
    if not all(batch.timestamp for batch in batches):
        moments[np.repeat([not batch.timestamp for batch in batches], _counts(batches))] = 0
    own = cells.times()
    return times(moments if own is None else np.where(own == 0, moments, own))


def _origins(batches: Sequence[RecordBatch]) -> pa.Array | None:
    names = {batch.origin for batch in batches}
    if len(names) == 1:
        [name] = names
        return same(name, int(_counts(batches).sum()), pa.string()) if name else None
    said = pa.array([batch.origin or None for batch in batches], pa.string())
    return said.take(pa.array(np.repeat(np.arange(len(batches)), _counts(batches))))


# -- headers

_HEADER = to_arrow_schema(HEADER, timezone="UTC")


def _headers(found: Sequence[tuple[Header, ...]] | None, count: int) -> pa.Array:
    flat = [header for headers in found or () for header in headers]
    offsets = np.zeros(count + 1, np.int32)
    if flat:
        assert found is not None
        np.cumsum([len(headers) for headers in found], out=offsets[1:])
    keys = [_text(header.key) for header in flat]
    columns = [
        keys,
        [header.value for header in flat],
        [KINDS[header.kind] for header in flat],
        [KINDS[header.key_kind] for header in flat],
        [header.key if key is None else None for header, key in zip(flat, keys, strict=True)],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _HEADER, strict=True)]
    element = pa.StructArray.from_arrays(arrays, fields=list(_HEADER))
    return pa.ListArray.from_arrays(pa.array(offsets), element)


def _text(octets: bytes) -> str | None:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return None
