"""Records as what this wire has of them, a value each; and what of them it has no place for."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical
from gateway.dialects.dialect import Losses
from gateway.dialects.mlog.replication import Row

_DROPPED = (
    *("key", "headers", "origin_timestamp", "id", "producer", "epoch", "sequence"),
    *("event_type", "schema_version", "aggregate_version", "metadata", "expiry"),
)
_dropped = attrgetter(*_DROPPED)


def values_of(batch: RecordBatch, losses: Losses) -> list[bytes]:
    """The values of a batch, a tombstone as an empty one; what else its records have is counted in `losses`."""
    records = batch.records()
    if batch.origin != "mlog":
        count_losses(records, batch.origin or "?", losses)
    return [record.value or b"" for record in records]


def count_losses(records: list[Record], origin: str, losses: Losses) -> None:
    """Count what a reader of this wire does not get.  origin: the dialect that wrote them."""
    for field, values in zip(_DROPPED, zip(*map(_dropped, records), strict=True), strict=False):
        if lost := sum(map(bool, values)):
            losses[origin, "mlog", field] += lost
    if tombstones := sum([record.value is None for record in records]):
        losses[origin, "mlog", "value"] += tombstones


def rows_of(batches: Iterable[RecordBatch], losses: Losses) -> list[Row]:
    """(offset, value) of every record."""
    return [row for batch in batches for row in enumerate(values_of(batch, losses), batch.base)]


def batches_of(rows: Iterable[Row]) -> tuple[RecordBatch, ...]:
    """Batches of what a server sent, each without a gap.  Raises CommandFailed(MALFORMED) if offsets do not rise."""
    runs: list[tuple[int, list[Record]]] = []
    after = 0
    for offset, value in rows:
        if offset < after or offset >> 63:
            raise CommandFailed(Fault.MALFORMED, f"offset {offset} is out of place")
        if not runs or offset != after:
            runs.append((offset, []))
        runs[-1][1].append(Record(None, value))
        after = offset + 1
    return tuple(_batch(first, records) for first, records in runs)


def _batch(first: int, records: list[Record]) -> RecordBatch:
    batch = canonical(records, "mlog")
    return RecordBatch(batch.encoding, batch.body, batch.count, first, 0, "mlog")
