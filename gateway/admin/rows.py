"""What the view shows as tables: which columns, and which may go where there is no room."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from gateway.admin.shown import count, octets, size, span, text, topic_name, when, word
from gateway.admin.tables import Column, Row, Table
from gateway.admin.view import GroupRow, ListenerRow, RecordRow, SessionRow
from gateway.core import replies as r
from gateway.core.records import HeaderKind
from gateway.dialects import Losses
from gateway.net.meters import FaultSeen

NEVER = "never"

ADDRESS = len("255.255.255.255:65535")
"""Cells; a longer address is cut."""


def listeners(rows: Sequence[ListenerRow]) -> Table:
    """One a listener."""
    columns = (
        Column("name", "LISTENER", least=6),
        Column("dialect", "DIALECT"),
        Column("address", "ADDRESS", least=ADDRESS),
        Column("tls", "TLS", rank=4),
        Column("auth", "AUTH", rank=3),
        Column("connections", "OPEN", count, right=True),
        Column("accepted", "EVER", count, right=True, rank=6),
        Column("commands", "COMMANDS", count, right=True, rank=1),
        Column("faults", "FAULTS", count, right=True, rank=2),
        Column("bytes_in", "IN", size, right=True, rank=5),
        Column("bytes_out", "OUT", size, right=True, rank=5),
    )
    return Table("listeners", columns, rows, _listener)


def sessions(rows: Sequence[SessionRow], now: int) -> Table:
    """One a connection.  now: us since the epoch."""
    columns = (
        Column("id", "ID", str, right=True),
        Column("dialect", "DIALECT"),
        Column("listener", "LISTENER", least=6, rank=3),
        Column("peer", "PEER", least=ADDRESS),
        Column("principal", "USER", least=6, rank=2),
        Column("opened", "OPEN FOR", lambda opened: _since(opened, now), right=True, rank=1),
        Column("running", "RUNNING", count, right=True, rank=4),
    )
    return Table("sessions", columns, rows, _session, "`sessions TEXT` shows those with it, --json all")


def topics(rows: Sequence[r.TopicDescription]) -> Table:
    """One a topic, `name` as it can be typed."""
    columns = (
        Column("name", "TOPIC", str, least=10),
        Column("partitions", "PARTITIONS", count, right=True, rank=3),
        Column("records", "RECORDS", count, right=True),
        Column("bytes", "BYTES", size, right=True, rank=1),
        Column("id", "ID", str, right=True, rank=5),
        Column("created", "CREATED (UTC)", _second, rank=4),
    )
    return Table("topics", columns, rows, _topic, "`topics PREFIX` shows those that begin so, --json all")


TOPIC = (
    Column("name", "topic", str),
    Column("id", "id", str),
    Column("created", "created", when),
    Column("records", "records", count),
    Column("bytes", "bytes", size),
    Column("cleanup", "cleanup"),
    Column("retention_us", "kept for", lambda us: span(us / 1e6) if isinstance(us, int) and us else "ever"),
    Column("retention_bytes", "kept bytes", lambda most: size(most) if most else "all"),
    Column("idempotent", "idempotent"),
    Column("partitioner", "partitioner"),
    Column("labels", "labels"),
)


def topic(found: r.TopicDescription) -> Row:
    """All that is known of a topic but its partitions."""
    settings = found.settings
    return {
        **_topic(found),
        "cleanup": settings.cleanup,
        "retention_us": settings.retention_us,
        "retention_bytes": settings.retention_bytes,
        "idempotent": settings.idempotent,
        "partitioner": settings.partitioner,
        "labels": settings.labels,
    }


def partitions(rows: Sequence[r.PartitionDescription]) -> Table:
    """One a partition."""
    columns = (
        Column("partition", "PARTITION", str, right=True),
        Column("start", "START", count, right=True),
        Column("end", "END", count, right=True),
        Column("records", "RECORDS", count, right=True, rank=1),
        Column("bytes", "BYTES", size, right=True),
    )
    return Table("partitions", columns, rows, _partition)


def groups(rows: Sequence[GroupRow]) -> Table:
    """One a group."""
    columns = (
        Column("name", "GROUP", str, least=8),
        Column("topic", "TOPIC", str, least=8),
        Column("members", "MEMBERS", count, right=True, rank=1),
        Column("partitions", "PARTITIONS", count, right=True, rank=3),
        Column("generation", "GENERATION", str, right=True, rank=2),
        Column("lag", "LAG", _lag, right=True),
    )
    return Table("groups", columns, rows, group, "`groups PREFIX` shows those that begin so, --json all")


GROUP = (
    Column("name", "group", str),
    Column("topic", "topic", str),
    Column("id", "id", str),
    Column("generation", "generation", str),
    Column("partitions", "partitions", str),
    Column("members", "members", str),
    Column("lag", "lag", lambda lag: _lag(lag) + ("" if lag is None else " records")),
)


def group(row: GroupRow) -> Row:
    """All that is known of a group but its members."""
    found = row.group
    return {
        "name": word(found.name),
        "topic": topic_name(found.namespace, found.topic),
        "group": found.name,
        "id": found.id,
        "generation": found.generation,
        "partitions": found.partitions,
        "members": len(found.members),
        "lag": row.lag,
    }


def members(rows: Sequence[r.MemberDescription], now: int) -> Table:
    """One a member of a group.  now: us since the epoch."""
    columns = (
        Column("member", "MEMBER", least=8),
        Column("assignment", "PARTITIONS", least=10),
        Column("session", "SESSION", text, right=True, rank=2),
        Column("heard", "HEARD OF", lambda heard: _ago(heard, now), right=True, rank=1),
    )
    return Table("members_now", columns, rows, lambda one: {column.key: getattr(one, column.key) for column in columns})


def records(rows: Sequence[RecordRow]) -> Table:
    """One a record."""
    columns = (
        Column("offset", "OFFSET", str, right=True),
        Column("timestamp", "TIME (UTC)", when, rank=1),
        Column("key", "KEY", least=6),
        Column("value", "VALUE", value, least=24),
        Column("headers", "HEADERS", _headers, least=10, rank=2),
    )
    return Table("records", columns, rows, _record)


def losses(found: Losses) -> Table:
    """One a place and field, most often first."""
    columns = (
        Column("from", "FROM", least=6),
        Column("to", "TO", least=6),
        Column("field", "FIELD", least=8),
        Column("times", "TIMES", count, right=True),
    )
    keys = ("from", "to", "field")
    return Table("losses", columns, found.most_common(), lambda one: dict(zip(keys, one[0], strict=True), times=one[1]))


def faults(rows: Sequence[FaultSeen]) -> Table:
    """One a command that failed, newest last."""
    columns = (
        Column("at", "TIME (UTC)", when, rank=2),
        Column("listener", "LISTENER", least=6, rank=3),
        Column("session", "SESSION", str, right=True, rank=1),
        Column("kind", "COMMAND"),
        Column("fault", "FAULT"),
        Column("detail", "DETAIL", least=10),
    )
    return Table("faults", columns, rows, lambda one: {column.key: getattr(one, column.key) for column in columns})


def value(held: object) -> str:
    """Of a record or a key; one that was removed has none."""
    return "(none)" if held is None else octets(held) if isinstance(held, bytes) else text(held)


def _listener(row: ListenerRow) -> Row:
    meter = row.meter
    return {
        **{key: getattr(row, key) for key in ("name", "dialect", "address", "tls", "auth", "connections")},
        "accepted": meter.accepted,
        "commands": meter.asked.total(),
        "faults": meter.faults.total() + meter.refused.total(),
        "bytes_in": meter.bytes_in,
        "bytes_out": meter.bytes_out,
    }


def _session(row: SessionRow) -> Row:
    return {key: getattr(row, key) for key in row.__struct_fields__}


def _topic(found: r.TopicDescription) -> dict[str, Any]:
    return {
        "name": topic_name(found.namespace, found.name),
        "namespace": found.namespace,
        "topic": found.name,
        "id": found.id,
        "created": found.created,
        "partitions": len(found.partitions),
        "records": sum(at.end - at.start for at in found.partitions),
        "bytes": sum(at.bytes for at in found.partitions),
    }


def _partition(at: r.PartitionDescription) -> Row:
    numbers = {"partition": at.index, "start": at.start, "end": at.end}
    return {**numbers, "records": at.end - at.start, "bytes": at.bytes, "created": at.created}


def _record(row: RecordRow) -> Row:
    record = row.record
    headers = [{"key": one.key, "kind": one.kind.name, "value": one.value} for one in record.headers]
    place = {"offset": row.offset, "timestamp": row.timestamp}
    return {**place, "key": record.key, "value": record.value, "headers": headers}


def _lag(lag: object) -> str:
    return NEVER if lag is None else count(lag)


def _since(then: object, now: int) -> str:
    return span(max(0, now - then) / 1e6) if isinstance(then, int) else text(then)


def _ago(then: object, now: int) -> str:
    return f"{_since(then, now)} ago" if then else text(None)


def _second(us: object) -> str:
    return when(us)[:19]


def _headers(headers: object) -> str:
    assert isinstance(headers, list)
    return " ".join(f"{octets(one['key'])}={_header(one)}" for one in headers)


def _header(one: dict[str, Any]) -> str:
    kind = HeaderKind[one["kind"]]
    if kind in (HeaderKind.RAW, HeaderKind.TEXT):
        return octets(one["value"])
    if kind is HeaderKind.BOOL:
        return text(one["value"] != b"\0")
    return str(_number(one["value"], kind))


def _number(value: bytes, kind: HeaderKind) -> float:
    if kind in (HeaderKind.FLOAT32, HeaderKind.FLOAT64):
        (found,) = struct.unpack("<f" if kind is HeaderKind.FLOAT32 else "<d", value)
        return float(found)
    return int.from_bytes(value, "little", signed=kind.name.startswith("INT"))
