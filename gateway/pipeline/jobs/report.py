"""Captured traffic in pictures: throughput, latency and lag over time, as PNG and as one HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.pipeline import trends
from gateway.pipeline.jobs import job, sessions
from gateway.pipeline.traffic import capture_options, commands, missing
from gateway.pipeline.trends import SECOND, Steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from gateway.pipeline.page import Report, Table
    from gateway.pipeline.plots import Commands, Lag, Latency, Plot, Throughput

COLUMNS = (
    *sessions.COLUMNS,
    *("namespace", "topic", "partition", "records", "reader", "committed", "ends"),
)
"""Of commands, that are needed."""

READERS = 7
"""Whose lag is drawn, those furthest behind; dialects likewise."""

KINDS = 12
"""Commands whose latency is drawn, those that are asked most."""

ROWS = 40
"""Of a table."""


def transform(frame: DataFrame, steps: Steps) -> tuple[DataFrame, DataFrame, DataFrame, DataFrame]:
    """Commands -> throughput, latency, latency by kind, and lag: see gateway.pipeline.trends."""
    return (
        trends.throughput(frame, steps),
        trends.latency(frame, steps),
        trends.latency_by_kind(frame),
        trends.lag(frame, steps),
    )


# -- small enough for the driver: plots and tables


def throughput(rows: Iterable[Row], steps: Steps) -> Throughput:
    """Of the rows of trends.throughput."""
    from gateway.pipeline.plots import Throughput

    seconds = steps.width / SECOND
    asked: dict[str, list[float]] = {}
    written, read = [0.0] * steps.count, [0.0] * steps.count
    for row in sorted(rows, key=lambda row: (str(row.dialect), int(row.step))):
        asked.setdefault(row.dialect or "?", [0.0] * steps.count)[row.step] += row.asked / seconds
        written[row.step] += row.written / seconds
        read[row.step] += row.read / seconds
    busiest = sorted(asked, key=lambda name: -sum(asked[name]))
    return Throughput(steps, {name: asked[name] for name in busiest}, written, read)


def latency(rows: Iterable[Row], steps: Steps) -> Latency:
    """Of the rows of trends.latency."""
    from gateway.pipeline.plots import Latency

    trend: dict[str, list[float | None]] = {name: [None] * steps.count for name in ("p50", "p95", "p99")}
    for row in rows:
        for name, values in trend.items():
            values[row.step] = max(row[f"{name}_us"], 1)
    return Latency(steps, trend)


def by_command(rows: Sequence[Row]) -> Commands:
    """Of the rows of trends.latency_by_kind."""
    from gateway.pipeline.plots import Commands

    shown = rows[:KINDS]  # what took no time at all has no place on the axis
    return Commands(
        [(f"{row.dialect} {row.kind}", *(max(row[f"p{at}_us"], 1) for at in (50, 95, 99))) for row in shown]
    )


def lag(rows: Iterable[Row], steps: Steps) -> Lag:
    """Of the rows of trends.lag; what a reader had before it did anything is not known."""
    from gateway.pipeline.plots import Lag

    readers: dict[str, list[float | None]] = {}
    for row in rows:
        place = row.topic if row.namespace in ("", "default") else f"{row.namespace}/{row.topic}"
        name = f"{place}  {row.reader.removeprefix('group:')}"
        readers.setdefault(name, [None] * steps.count)[row.step] = float(row.lag)
    furthest = sorted(readers, key=lambda name: (-max(value or 0 for value in readers[name]), name))
    return Lag(steps, {name: readers[name] for name in furthest[:READERS]})


def report(frame: DataFrame, steps: Steps, lost: str) -> Report:
    """All of it.  frame: commands, best kept in memory."""
    from gateway.pipeline.page import Report

    flow, answers, kinds, behind = (each.collect() for each in transform(frame, steps))
    drawn = throughput(flow, steps), latency(answers, steps), by_command(kinds), lag(behind, steps)
    by_client = sessions.transform(frame).where("kind <> ''").limit(ROWS).collect()
    slow = sessions.slowest(frame, 15).collect()
    numbers = _numbers(flow, by_client, drawn[3])
    plots: dict[str, Plot] = dict(zip(("Throughput", "Latency", "Commands", "Lag"), drawn, strict=True))
    return Report(_about(steps), numbers, plots, [_by_client(by_client), _slow(slow)], lost)


def _about(steps: Steps) -> str:
    first, last = (
        datetime.fromtimestamp(at / SECOND, UTC) for at in (steps.first, steps.first + steps.width * steps.count)
    )
    return f"{first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC, in steps of {steps.width / SECOND:g} s"


def _numbers(flow: Sequence[Row], by_client: Sequence[Row], behind: Lag) -> dict[str, str]:
    asked, failed = (sum(row[name] for row in flow) for name in ("asked", "failed"))
    last = [values[-1] for values in behind.readers.values()]
    return {
        "commands": f"{asked:,}",
        "failed": f"{failed:,} ({failed / max(asked, 1):.2%})",
        "records written": f"{sum(row.written for row in flow):,}",
        "records read": f"{sum(row.read for row in flow):,}",
        "received": _size(sum(row.bytes_in for row in flow)),
        "sent": _size(sum(row.bytes_out for row in flow)),
        "slowest answer": _ms(max((row.max_us for row in by_client if row.max_us is not None), default=None)),
        "lag at the end": f"{int(sum(value or 0 for value in last)):,}",
    }


def _by_client(rows: Sequence[Row]) -> Table:
    from gateway.pipeline.page import Table

    heads = ("dialect", "command", "client", "asked", "failed", "p50", "p95", "p99", "longest")
    cells = [
        [
            *(row.dialect, row.kind, row.client, f"{row.asked:,}", f"{row.failed:,}"),
            *(_ms(row[name]) for name in ("p50_us", "p95_us", "p99_us", "max_us")),
        ]
        for row in rows
    ]
    return Table("Commands by client", heads, cells, 3)


def _slow(rows: Sequence[Row]) -> Table:
    from gateway.pipeline.page import Table

    heads = ("dialect", "client", "slowest command", "connection", "since", "asked", "p95", "longest", "waited")
    cells = [
        [
            *(row.dialect, row.client, row.slowest_kind, f"{row.connection}", f"{row['first']:%H:%M:%S}"),
            *(f"{row.asked:,}", _ms(row.p95_us), _ms(row.max_us), f"{row.waited_seconds:,.2f} s"),
        ]
        for row in rows
    ]
    return Table("Slowest connections", heads, cells, 3)


def _ms(us: int | None) -> str:
    if us is None:
        return "-"
    return f"{us / SECOND:,.2f} s" if us >= SECOND else f"{us / 1000:,.2f} ms"


def _size(octets: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if octets >= size:
            return f"{octets / size:,.1f} {unit}"
    return f"{octets} B"


# -- files


def write(report: Report, directory: Path) -> list[Path]:
    """report.html, and each plot as NAME.png and NAME-dark.png.  What is there is written over."""
    from gateway.pipeline.page import page
    from gateway.pipeline.plots import DARK, LIGHT, WIDE, picture

    directory.mkdir(parents=True, exist_ok=True)
    files = {"report.html": page(report).encode()}
    for title, plot in report.plots.items():
        files[f"{title.lower()}.png"] = picture(plot, LIGHT, WIDE, "png")
        files[f"{title.lower()}-dark.png"] = picture(plot, DARK, WIDE, "png")
    for name, octets in files.items():
        (directory / name).write_bytes(octets)
    return [directory / name for name in files]


@capture_options
@click.option(
    "--to", default="report", show_default=True, metavar="DIRECTORY", help="Where the files go, on this machine."
)
def run(spark: SparkSession, *, places: tuple[str, ...], skip: bool = False, to: str = "report") -> str:
    """Plots of throughput, latency and lag, and a page with all of them."""
    frame = commands(spark, places, COLUMNS, skip=skip).persist()
    try:
        steps = trends.span(frame)
        if steps is None:
            raise ValueError("there is no traffic in this capture")
        lost = missing(frame)
        files = write(report(frame, steps, lost), Path(to))
        return f"{lost}{files[0]} and {len(files) - 1} pictures beside it"
    finally:
        frame.unpersist()


main = job(run)
