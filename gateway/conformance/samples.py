"""A record for each field of one: what is sent through a pair of dialects to see what becomes of that field."""

from __future__ import annotations

from gateway.core.records import Header, HeaderKind, Record

NOW = 1_700_000_000_000_000
"""us since the epoch; a time that is past."""

PLAIN = Record(None, b"v")

SOME: dict[str, Record] = {
    "value": PLAIN,
    "tombstone": Record(None, None),
    "key": Record(b"k", b"v"),
    "headers": Record(None, b"v", (Header(b"h", b"x"),)),
    "header_kinds": Record(None, b"v", (Header(b"h", b"\1\0\0\0", HeaderKind.INT32, HeaderKind.RAW),)),
    "timestamp": Record(None, b"v", timestamp=NOW - 5_000_000),
    "origin_timestamp": Record(None, b"v", origin_timestamp=NOW - 9),
    "id": Record(None, b"v", id=bytes(range(1, 17))),
    "producer": Record(None, b"v", producer=b"p"),
    "epoch": Record(None, b"v", epoch=3),
    "sequence": Record(None, b"v", sequence=4),
    "event_type": Record(None, b"v", event_type=b"paid"),
    "schema_version": Record(None, b"v", schema_version=2),
    "aggregate_version": Record(None, b"v", aggregate_version=11),
    "metadata": Record(None, b"v", metadata=b"m"),
    "expiry": Record(None, b"v", expiry=NOW + 1),
}
"""A record for each field that has it, and nothing else that could be lost."""


def field_of(field: str, record: Record, timestamp: int = 0) -> object:
    """A field of a record; equal to that of PLAIN if it is not set.  timestamp: of its place."""
    match field:
        case "tombstone":
            return record.value is None
        case "header_kinds":
            return {(at.kind, at.key_kind) for at in record.headers} - {(HeaderKind.RAW, HeaderKind.TEXT)}
        case "timestamp":
            return record.timestamp or timestamp
        case "value":
            return record.value or b""
    return getattr(record, field)
