"""What a run says on the terminal, and how it ends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from gateway.conformance.prompts import Asked
from gateway.conformance.reporting import PAGE, write
from gateway.conformance.results import Result, Run

COLORS = {"PASS": "green", "LENIENT": "cyan", "INFO": "blue", "UNIMPLEMENTED": "yellow", "FAIL": "red", "ERROR": "red"}


def guide(asked: Asked) -> None:
    """What a person is told before each case."""
    click.echo(f"\n{click.style(asked.case.id, bold=True)} {asked.case.name}")
    click.echo(f"  Have it dial {asked.address}: {asked.ask}")
    click.echo(f"  Awaited: {asked.waits}")


def tell(result: Result) -> None:
    """A line for a case; more for one that went wrong."""
    click.echo(f"{click.style(f'{result.verdict:13}', COLORS[result.verdict])} {result.case.id:12} {result.case.name}")
    ruling = result.ruling
    if ruling is not None and result.verdict not in ("PASS", "INFO"):
        where = f"step {ruling.step + 1}, " if ruling.step >= 0 else ""
        byte = f", byte {ruling.at}: {ruling.wanted} was wanted" if ruling.at >= 0 else ""
        click.echo(f"{'':13} {where}{ruling.way}: {ruling.why}{byte}")


def deviations(path: Path | None) -> dict[str, str]:
    """id -> why it is known to fail.  Raises click.UsageError for a line that is none, OSError."""
    found: dict[str, str] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines() if path else [], 1):
        said = line.split("#")[0].split(maxsplit=1)
        if len(said) == 1:
            raise click.UsageError(f"{path}:{number}: why is {said[0]} known to fail?")
        if said:
            found[said[0]] = said[1]
    return found


def conclude(run: Run, expected: Mapping[str, str], report: Path | None) -> int:
    """The last lines, the reports, and the exit code."""
    if report is not None:
        write(report, [run])
        click.echo(f"the report is {report / PAGE}")
    for each in run.results:
        if each.case.id in expected and not each.failed:
            click.echo(f"{each.case.id} was expected to fail, and did not")
    counted = ", ".join(f"{count} {verdict}" for verdict, count in run.counts().items())
    click.echo(f"{run.dialect} {run.role}: {counted} in {run.seconds:.1f} s")
    return 1 if any(each.failed and each.case.id not in expected for each in run.results) else 0
