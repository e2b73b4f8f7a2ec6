"""Records that other dialects wrote, in the layout of this one; and what of them it has no place for."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch
from gateway.dialects.cursus.fidelity import LOST
from gateway.dialects.cursus.layout import CURSUS_V1
from gateway.dialects.losses import Losses


def encode(rows: Iterable[tuple[int, Record]], origin: str, losses: Losses) -> list[bytes]:
    """(offset, record) -> records in this layout; what it has no place for is counted in `losses`.

    origin: the dialect that wrote them, "" = not known.
    Raises CommandFailed(UNREPRESENTABLE) for a string longer than its length field can say, or a number out of range.
    """
    rows = list(rows)
    LOST.count([record for _, record in rows], origin, losses)
    out: list[bytes] = []
    shape, pack = (0, 0, 0, 0, 0), _writer(0, 0, 0, 0, 0).pack
    for offset, record in rows:
        key, value, producer = record.key or b"", record.value or b"", record.producer
        event, metadata = record.event_type, record.metadata
        p, k, v, e, m = lengths = (len(producer), len(key), len(value), len(event), len(metadata))
        if lengths != shape:
            shape, pack = lengths, _writer(p, k, v, e, m).pack
        number, epoch, schema, version = record.sequence, record.epoch, record.schema_version, record.aggregate_version
        try:
            out.append(
                pack(offset, number, p, producer, k, key, epoch, v, value, e, event, schema, version, m, metadata)
            )
        except struct.error as error:
            raise CommandFailed(Fault.UNREPRESENTABLE, _why(record)) from error
    return out


def body_of(batch: RecordBatch, losses: Losses) -> bytes:
    """The records of a batch, with its offsets, in this layout; of its own bodies nothing is built."""
    if batch.encoding is CURSUS_V1:
        return batch.body
    return b"".join(encode(enumerate(batch.records(), batch.base), batch.origin, losses))


def _why(record: Record) -> str:
    named = {"key": record.key or b"", "producer id": record.producer, "event type": record.event_type}
    for name, value in (*named.items(), ("metadata", record.metadata)):
        if len(value) > 0xFFFF:
            return f"{name} of {len(value)} bytes; this wire carries 65535"
    return "a number that this wire has no room for"


@lru_cache(1024)
def _writer(producer: int, key: int, value: int, event: int, metadata: int) -> struct.Struct:
    return struct.Struct(f">QQH{producer}sH{key}sqI{value}sH{event}sIQH{metadata}s")
