"""`gateway bench`: its options, the rounds, the table."""

from __future__ import annotations

import os
import platform
import signal
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import FrameType

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from gateway.bench import BenchFailed, disk
from gateway.bench.figures import Figure, Verdict, figure, spread, verdicts
from gateway.bench.measuring import Sample, Terms, measure
from gateway.bench.rows import rows
from gateway.bench.scenario import Row

_WIDTH = 140
"""Columns of the table where there is no terminal to ask."""


class Report(msgspec.Struct, frozen=True):
    """All of one run, as `--json` gives it.

    disk: appends of one sector with fdatasync per second, one figure a round.
    """

    machine: str
    rounds: int
    seconds: float
    disk: list[float]
    figures: list[Figure]
    goals: list[Verdict]


def main(argv: list[str]) -> int:
    """`gateway bench ...`.  0 = measured, 1 = could not be measured, 2 = asked wrongly."""
    try:
        with _ended_by_signal():
            bench.main(argv, prog_name="gateway bench", standalone_mode=False)
    except click.ClickException as wrong:
        wrong.show()
        return wrong.exit_code
    except (BenchFailed, OSError) as failure:
        click.echo(str(failure), err=True)
        return 1
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 1
    return 0


@click.command(help="Measure the gateway against a raw Twisted echo and a plain file, all on loopback, in one run.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="How often each row is measured.")
@click.option(
    "--seconds", default=2.0, show_default=True, type=click.FloatRange(0.05), help="How long each row takes in a round."
)
@click.option("--only", multiple=True, metavar="SUBSTRING", help="Only rows with this in their name; may be repeated.")
@click.option("--list", "listing", is_flag=True, help="Say what rows there are, and measure nothing.")
@click.option("--json", "as_json", is_flag=True, help="The whole report as JSON.")
@click.option("--generators", default=1, show_default=True, type=click.IntRange(1, 8), help="Processes that send load.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    help="Where durable rows write; the system's temporary directory unless given.",
)
@click.option("--kafka", default="", metavar="HOST:PORT", help="A broker to measure on, too: `make kafka` runs one.")
@click.option("--spark", is_flag=True, help="Measure how Spark reads a topic, beside Parquet, and nothing else.")
@click.option("--records", default=1_000_000, show_default=True, type=click.IntRange(1_000), help="Of that topic.")
def bench(
    rounds: int,
    seconds: float,
    only: tuple[str, ...],
    listing: bool,
    as_json: bool,
    generators: int,
    directory: Path | None,
    kafka: str,
    spark: bool,
    records: int,
) -> None:
    """Run what was asked for."""
    if spark:
        _spark(records, rounds, seconds, directory or Path(tempfile.gettempdir()), as_json)
        return
    chosen = rows(only, bool(kafka))
    if not chosen:
        raise click.UsageError(f"no row has {' or '.join(only)} in its name; --list says which there are")
    if listing:
        _list(chosen, as_json)
        return
    report = run(chosen, rounds, Terms(directory or Path(tempfile.gettempdir()), seconds, generators, kafka))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        show(report, _console())


def _spark(records: int, rounds: int, seconds: float, directory: Path, as_json: bool) -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise click.ClickException("it runs on Spark: pip install 'polyglot-gateway[pipeline]'") from None
    from gateway.bench.spark import main as measure_spark

    measure_spark(-(-records // 1_000) * 1_000, rounds, seconds, directory, as_json)


def run(chosen: list[Row], rounds: int, terms: Terms) -> Report:
    """Measure every row once a round, so that whatever else the machine does hits all of them alike."""
    machine = _machine()
    if disk.in_memory(terms.directory):
        click.echo(f"{terms.directory} is no disk: durable figures mean nothing; give a --dir that is on one", err=True)
    samples: dict[str, list[Sample]] = {row.name: [] for row in chosen}
    syncs: list[float] = []
    for number in range(rounds):
        syncs.append(disk.sync_rate(terms.directory))
        for row in chosen:
            _progress(f"round {number + 1} of {rounds}  {row.name}")
            samples[row.name].append(_measured(row, terms))
    _progress("")
    figures = [figure(row, samples) for row in chosen]
    return Report(machine, rounds, terms.seconds, syncs, figures, verdicts(figures))


def show(report: Report, console: Console) -> None:
    """The report for a person."""
    console.print(f"{report.machine}; median of {report.rounds} rounds of {report.seconds:g} s", highlight=False)
    syncs = f"{statistics.median(report.disk):,.0f} ({min(report.disk):,.0f} to {max(report.disk):,.0f})"
    console.print(f"the disk does {syncs} fdatasync/s", highlight=False)
    console.print(_table(report.figures))
    if report.goals:
        console.print(_goals(report.goals))


def _measured(row: Row, terms: Terms) -> Sample:
    try:
        return measure(row, terms)
    except BenchFailed as failure:
        raise BenchFailed(f"{row.name}: {failure}") from failure


def _table(figures: list[Figure]) -> Table:
    """spread: of the rounds.  cpu us: of the server, for one request.  server, load: cores busy."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("row", no_wrap=True)
    for title in ("rate", "spread", "p50 us", "p99 us", ": echo", ": file", "cpu us", "server", "load"):
        table.add_column(title, justify="right", no_wrap=True)
    for one in figures:
        table.add_row(
            one.row,
            f"{one.rate:,.0f} {one.unit[:3]}/s",
            f"{spread(one.rates):.0%}",
            *(f"{latency:,.1f}" for latency in (one.p50, one.p99)),
            *("-" if ratio is None else f"{ratio:.2f}" for ratio in (one.to_echo, one.to_file)),
            *(f"{cpu:.2f}" if cpu else "-" for cpu in (one.cpu_each, one.server_cpu, one.generator_cpu)),
        )
    return table


def _goals(goals: list[Verdict]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("#", justify="right")
    table.add_column("goal")
    for title in ("measured", "floor", "aim"):
        table.add_column(title, justify="right")
    table.add_column("met")
    for one in goals:
        goal = one.goal
        table.add_row(
            str(goal.number or "-"), goal.about, f"{one.value:.2f}", f"{goal.floor:g}", f"{goal.aim:g}", one.met
        )
    return table


def _list(chosen: list[Row], as_json: bool) -> None:
    if as_json:
        listed = [{"row": row.name, "unit": row.unit, "about": row.scenario.about} for row in chosen]
        click.echo(msgspec.json.format(msgspec.json.encode(listed)).decode())
        return
    for row in chosen:
        load = f"{row.scenario.connections} x {row.scenario.depth}"
        click.echo(f"{row.name:34}{load:>8}  {row.unit:11} {row.scenario.about}")


def _machine() -> str:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    busy = os.getloadavg()[0]  # what others do costs the durable and the deep rows most; `cpu us` suffers least
    return f"{os.cpu_count()} cores, {python}, Twisted {version('twisted')}, load {busy:.1f} before"


def _console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=_WIDTH)


def _progress(line: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{line}", nl=False, err=True)


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """SIGTERM ends the bench as Ctrl-C does, so that the servers it started are stopped."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
