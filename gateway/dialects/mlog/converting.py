"""Records as what this wire has of them, a value each; and what of them it has no place for."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical
from gateway.dialects.losses import Losses
from gateway.dialects.mlog.fidelity import LOST
from gateway.dialects.mlog.replication import Row


def values_of(batch: RecordBatch, losses: Losses) -> list[bytes]:
    """The values of a batch, a tombstone as an empty one; what else its records have is counted in `losses`."""
    records = batch.records()
    LOST.count(records, batch.origin, losses)
    return [record.value or b"" for record in records]


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
