"""Captures for tests: of rows that are made up, and of traffic without sockets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import wire
from gateway.capture.journal import Journal, Source
from gateway.capture.plan import CapturePlan
from gateway.capture.rows import ListenerSaid, Row
from gateway.core.commands import Publish
from gateway.core.replies import Published
from gateway.dialects import Request
from gateway.pipeline.capture_columns import COMMANDS
from net.peers import produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STARTED = 1_700_000_000_000_000
BEGAN = datetime.fromtimestamp(STARTED / 1e6, UTC).replace(tzinfo=None)
LISTENERS = {name: ListenerSaid(name) for name in ("pipe", "iggy", "cursus", "native")}


def write(
    directory: Path,
    pieces: Iterable[Sequence[Row]],
    *,
    started: int = STARTED,
    listeners: Mapping[str, ListenerSaid] = LISTENERS,
    opened: int = 0,
) -> Path:
    """A file as a gateway writes it, each piece handed over by itself.  Returns its path."""
    before = set(directory.glob("*"))
    plan = CapturePlan(str(directory))
    wall = count((started + opened) * 1000)
    journal = Journal(plan, Source("here", "0.1", started, listeners), lambda: next(wall), lambda: 0.0)
    journal.writer.prepare()
    journal.start()
    for piece in pieces:
        for row in piece:
            journal.add(row)
        journal.flush()
    journal.finish()
    journal.join()
    told = journal.told()
    assert (told.dropped, told.failed) == (0, 0), "the file has all of it"
    (path,) = set(directory.glob("*")) - before
    return path


def wrote(at: int) -> Publish:
    """What it asks."""
    return produce(b"k", b"v%d" % at)


def talk(connection: int = 1, lines: int = 3, *, begin: int = 0, open_: bool = True, close: bool = True) -> list[Row]:
    """What a V1 client asks, and what it is told: records of its topic, one after the other."""
    place = connection, "pipe", "pipe"
    about = {"kind": "Publish", "namespace": "default", "topic": "orders"}
    rows = [Row(STARTED, *place, "open", note=f"10.0.0.{connection}:5000")] if open_ else []
    for at in range(begin, begin + lines):
        asked = wire.request("pipe", wrote(at), at)
        told = wire.reply("pipe", Request(wrote(at), at), Published(0, at, at))
        now = STARTED + 1000 * at + 10
        rows += [
            Row(now, *place, "in", asked, at, **about),  # type: ignore[arg-type]
            Row(now + 100 + at, *place, "out", told, at, **about, outcome="Published", latency=100 + at),  # type: ignore[arg-type]
        ]
    return [*rows, *([Row(STARTED + 10**6, *place, "close")] if close else [])]


def told(pairs: Sequence[tuple[bytes, bytes]], dialect: str = "pipe", *, every: int = 1000) -> list[Row]:
    """A connection on which these are asked and answered, one after the other.  every: us between two."""
    place = 1, dialect, dialect
    rows = [Row(STARTED, *place, "open", note="10.0.0.1:5000")]
    for at, (asked, answer) in enumerate(pairs):
        now = STARTED + every * (at + 1)
        rows.append(Row(now, *place, "in", asked, at))
        rows.append(Row(now + 100, *place, "out", answer, at, outcome="Done", latency=100))
    return [*rows, Row(rows[-1].time + 100, *place, "close")]


def read(spark: SparkSession, *places: Path | str, **options: str) -> DataFrame:
    return (
        spark.read.format("gateway-capture")
        .options(**{name.strip("_"): each for name, each in options.items()})
        .load([*map(str, places)])
    )


# -- commands that are made up


def commands(spark: SparkSession, *rows: Mapping[str, Any]) -> DataFrame:
    """A row of COMMANDS each; what is not said is as of a client of V1 that says nothing."""
    from gateway.pipeline.capture_columns import schema_of

    usual = dict.fromkeys(COMMANDS) | {
        **{"node": "here", "started": BEGAN, "time": BEGAN, "connection": 1, "dialect": "pipe", "listener": "pipe"},
        **{"peer": "10.0.0.1:5000", "principal": "", "kind": "Ping", "namespace": "default", "topic": "orders"},
        **{"records": 0, "runs": [], "committed": {}, "ends": {}, "bytes_in": 10, "bytes_out": 20, "outcome": "Done"},
        **{"latency_us": 100, "note": "", "pushed": False},
    }
    return spark.createDataFrame([tuple((usual | dict(row)).values()) for row in rows], schema_of(COMMANDS))


def after(seconds: float) -> datetime:
    """So long after everything began."""
    return BEGAN + timedelta(seconds=seconds)


def run(first: int, records: int, partition: int = 0) -> dict[str, Any]:
    """The columns of a command that wrote or read those."""
    return {"records": records, "partition": partition, "runs": [(partition, first, records)]}
