"""How a process does, as tables: the node, what it was asked for and how long that took, limits that were met."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.admin.shown import count, size, span, text
from gateway.admin.tables import Column, Row, Table
from gateway.admin.view import ListenerRow
from gateway.net.meters import BOUNDS, Latency

NODE = (
    Column("version", "version"),
    Column("running_us", "running for", lambda us: span(us / 1e6) if isinstance(us, int) else text(us)),
    Column("ready", "ready"),
    Column("durability", "durability"),
    Column("namespaces", "namespaces", count),
    Column("topics", "topics", count),
    Column("partitions", "partitions", count),
    Column("records", "records", count),
    Column("bytes", "bytes", size),
    Column("groups", "groups", count),
    Column("sessions", "sessions", count),
)


def commands(rows: Sequence[ListenerRow]) -> Table:
    """One a listener and kind of command that it was asked for."""
    columns = (
        Column("listener", "LISTENER", least=6),
        Column("command", "COMMAND", least=8),
        Column("asked", "ASKED", count, right=True),
        Column("failed", "FAILED", count, right=True, rank=1),
        Column("half_within", "HALF WITHIN", _bound, right=True, rank=2),
        Column("most_within", "99 % WITHIN", _bound, right=True),
    )
    items = [
        (row, kind, asked) for row in rows for kind, asked in sorted(row.meter.asked.items(), key=lambda one: -one[1])
    ]
    return Table("commands", columns, items, _command)


def turned_away(rows: Sequence[ListenerRow]) -> Table:
    """One a listener and limit that was met."""
    columns = (
        Column("listener", "LISTENER", least=6),
        Column("limit", "LIMIT MET"),
        Column("times", "TIMES", count, right=True),
    )
    items = [(row.name, limit, times) for row in rows for limit, times in row.meter.turned_away.items()]
    keys = ("listener", "limit", "times")
    return Table("turned_away", columns, items, lambda one: dict(zip(keys, one, strict=True)))


def within(latency: Latency | None, share: float) -> float | None:
    """Seconds within which that share of them was answered, as a bound; infinity = none of the bounds."""
    total = 0 if latency is None else sum(latency.counts)
    if latency is None or not total:
        return None
    seen = 0
    for bound, times in zip((*BOUNDS, float("inf")), latency.counts, strict=True):
        seen += times
        if seen >= share * total:
            return bound
    return float("inf")


def _command(item: tuple[ListenerRow, type, int]) -> Row:
    row, kind, asked = item
    latency = row.meter.latency.get(kind)
    return {
        "listener": row.name,
        "command": kind.__name__,
        "asked": asked,
        "failed": sum(times for (failed, _), times in row.meter.faults.items() if failed is kind),
        "half_within": _finite(within(latency, 0.5)),
        "most_within": _finite(within(latency, 0.99)),
    }


def _finite(bound: float | None) -> float | str | None:
    return "longer" if bound == float("inf") else bound


def _bound(value: object) -> str:
    return f"> {span(BOUNDS[-1])}" if value == "longer" else span(value)
