"""`gateway capture show` and `gateway capture replay`: their options, and what they print."""

from __future__ import annotations

import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import click
import msgspec
from twisted.internet.endpoints import clientFromString
from twisted.internet.interfaces import IReactorCore, IReactorTime, IStreamClientEndpoint

from gateway import dialects
from gateway.capture.replaying import Index, Replay
from gateway.capture.reports import Plan, Report, Unreachable
from gateway.capture.rows import Capture, NoCapture, captures
from gateway.capture.showing import Shown, as_json, lines, shown
from gateway.capture.words import hexed, plain
from gateway.running import finished

PROGRESS_SECONDS = 2.0
"""What takes longer says how far it is, on a terminal."""


def main(argv: list[str]) -> int:
    """`gateway capture ...`.  0 = fine, 1 = an answer differs, 2 = asked wrongly, 3 = the target cannot be reached."""
    try:
        return int(capture.main(argv, prog_name="gateway capture", standalone_mode=False) or 0)
    except click.ClickException as wrong:
        wrong.show()
        return 2
    except (NoCapture, OSError) as wrong:
        click.echo(f"gateway capture: {wrong}", err=True)
        return 2
    except Unreachable as failure:
        click.echo(f"gateway capture: {failure}", err=True)
        return 3
    except click.Abort:
        click.echo("interrupted", err=True)
        return 1


@click.group(help="Look at what was captured, and play it again.")
def capture() -> None:
    """What `gateway run --capture DIR` has written."""


FILES = click.argument("files", nargs=-1, required=True, type=click.Path(exists=True), metavar="FILE...")


@capture.command(help="Print rows, decoded.  FILE may be a directory: all its files in order.")
@FILES
@click.option("--dialect", help="Only of this one.")
@click.option("--connection", type=int, help="Only of the one with this number.")
@click.option("--limit", type=click.IntRange(1), help="So many rows at the most.")
@click.option("--json", "json_", is_flag=True, help="A line of JSON for each row.")
@click.option("--hex", "octets", is_flag=True, help="With the bytes.")
def show(
    files: tuple[str, ...], dialect: str | None, connection: int | None, limit: int | None, json_: bool, octets: bool
) -> int:
    """Rows go through the decoder even if they are not shown: it has to know what a connection agreed on."""
    opened = captures(files)
    count = 0
    for one in shown(opened):
        if (dialect or one.row.dialect) != one.row.dialect or connection not in (None, one.row.connection):
            continue
        _print(one, json_=json_, octets=octets)
        count += 1
        if count == limit:
            return 0
    _tell_torn(opened)
    return 0


def _print(one: Shown, *, json_: bool, octets: bool) -> None:
    if json_:
        click.echo(as_json(one))
        return
    for line in lines(one, octets=octets):
        click.echo(line)


def _tell_torn(files: list[Capture]) -> None:
    for file in files:
        if file.torn:
            click.echo(f"{file.path}: the end is missing", err=True)


# -- replay


@capture.command(help="Ask again what was asked, of another server.  FILE may be a directory: all its files in order.")
@FILES
@click.option("--to", "targets", multiple=True, required=True, metavar="DIALECT=ENDPOINT", help="May be repeated.")
@click.option("--diff", is_flag=True, help="Compare the answers, and stop at the first that differs.")
@click.option("--speed", type=click.FloatRange(0), default=0.0, help="1 = as slow as it was; as fast as may be if 0.")
@click.option(
    "--secrets", type=click.Path(exists=True, dir_okay=False), help='TOML, USER = "password": to log in with.'
)
@click.option("--json", "json_", is_flag=True, help="The report as JSON.")
def replay(
    files: tuple[str, ...], targets: tuple[str, ...], diff: bool, speed: float, secrets: str | None, json_: bool
) -> int:
    """Runs the reactor until all is asked."""
    from twisted.internet import reactor

    opened = captures(files)
    index = Index(opened)
    plan = Plan(dict(_target(each) for each in targets), _secrets(secrets), diff, speed)
    run = Replay(plan, index, cast(IReactorTime, reactor))
    report = finished(cast(IReactorCore, reactor), run.run(opened, _progress(index.rows)))
    _tell_torn(opened)
    if json_:
        click.echo(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        for line in told(report, compared=diff):
            click.echo(line)
    return 0 if report.difference is None else 1


def _target(value: str) -> tuple[str, IStreamClientEndpoint]:
    from twisted.internet import reactor

    name, equals, description = value.partition("=")
    if not equals or name not in dialects.names():
        raise click.UsageError(f"--to wants DIALECT=ENDPOINT, such as cursus=tcp:127.0.0.1:9000, not {value!r}")
    try:
        return name, clientFromString(reactor, description)
    except (ValueError, TypeError) as error:
        raise click.UsageError(f"{description!r} is no endpoint such as tcp:127.0.0.1:9000") from error


def _secrets(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        return msgspec.convert(tomllib.loads(Path(path).read_text(encoding="utf-8")), dict[str, str])
    except ValueError:  # whose text may have a secret in it
        raise click.UsageError(f'{path} is no TOML with lines such as USER = "password"') from None


class _Progress:
    """Says how far it is, now and then, on a terminal."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._next = time.monotonic() + PROGRESS_SECONDS

    def __call__(self, row: int) -> None:
        if sys.stderr.isatty() and time.monotonic() >= self._next:
            self._next = time.monotonic() + 0.2
            click.echo(f"\r\x1b[Krow {row} of {self._rows}", nl=False, err=True)


def _progress(rows: int) -> _Progress:
    return _Progress(rows)


def told(report: Report, *, compared: bool) -> Iterator[str]:
    """A report for people."""
    yield f"{report.requests} requests on {report.connections} connections"
    if report.unsent:
        yield f"{report.unsent} requests were not sent: their frames were left out of the capture"
    if report.skipped:
        yield f"{report.skipped} rows were passed over: no --to for their dialect"
    if report.missing:
        yield f"{report.missing} rows are missing in the capture: what follows them may differ for that alone"
    if not compared:
        return
    same = report.compared - (report.difference is not None and bool(report.difference.now))
    yield f"{same} answers are the same, {report.equal} of them to the byte; {report.records} records were pushed"
    if report.difference is None:
        yield "no difference"
        return
    yield from _differing(report)


def _differing(report: Report) -> Iterator[str]:
    found = report.difference
    assert found is not None, "there is a difference"
    row = found.row
    about = " ".join(word for word in (row.kind, plain(row.place)) if word) or "no command"
    yield f"connection {row.connection} of {plain(row.listener)}, request {row.ticket}, {about}, differs:"
    yield f"  {plain(found.why)}"
    for name, octets, says in (("captured", found.captured, found.says[0]), ("now", found.now, found.says[1])):
        if says or octets:
            yield f"{name}: {says}"
            yield from (f"  {line}" for line in hexed(octets))
