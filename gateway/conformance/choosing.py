"""Which cases of which dialect: what judging clients and judging servers are asked alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, cast

import click
import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorCore

from gateway import dialects
from gateway.backends.wall import microseconds
from gateway.conformance import cases as scripts
from gateway.conformance.cases import Case
from gateway.conformance.results import Result, Run
from gateway.conformance.telling import conclude, deviations
from gateway.dialects.spelling import Spoken, spoken_at
from gateway.running import finished

LEVELS = ("MUST", "SHOULD", "MAY")

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
DIRECTORY = click.Path(file_okay=False, path_type=Path)
DIALECT = click.Choice([name for name in dialects.names() if name != "native"])


class Chosen(msgspec.Struct, frozen=True):
    """What both roles are asked alike: which cases, of whom, and what becomes of the results."""

    dialect: str
    ids: tuple[str, ...]
    level: str | None
    slow: bool
    settings: tuple[str, ...]
    agent: str
    known: Path | None
    report: Path | None

    def cases(self, role: scripts.Role, files: Sequence[Path] = ()) -> list[Case]:
        """Those that are meant, of files or of the dialect.  Raises click.UsageError for an id that there is not."""
        read = [case for file in files for case in scripts.parse(self.dialect, file.name, file.read_text("utf-8"))]
        of_role = [case for case in (read if files else scripts.load(self.dialect)) if case.role == role]
        if unknown := set(self.ids) - {case.id for case in of_role}:
            raise click.UsageError(f"no {role} case is called {', '.join(sorted(unknown))}")
        wanted = LEVELS[: LEVELS.index(self.level) + 1] if self.level else LEVELS
        return [case for case in of_role if (not self.ids or case.id in self.ids) and case.level in wanted]

    def spoken(self, endpoint: str) -> Spoken:
        """What is spoken there.  Raises click.UsageError."""
        return spoken(f"{self.dialect}[{','.join(self.settings)}]={endpoint}")

    def finish(self, role: scripts.Role, agent: str, work: Coroutine[Deferred[Any], Any, list[Result]]) -> int:
        """Runs the reactor until all is judged; then the last lines, the reports, and the exit code."""
        from twisted.internet import reactor

        expected = deviations(self.known)
        began, started = microseconds(), time.monotonic()
        results = finished(cast(IReactorCore, reactor), work)
        run = Run(
            dialect=self.dialect,
            role=role,
            agent=self.agent or agent,
            began=began,
            seconds=time.monotonic() - started,
            results=tuple(results),
        )
        return conclude(run, expected, self.report)


def choosing(command: Callable[..., int]) -> Callable[..., int]:
    """The options by which cases are chosen, for both roles; the command gets them as one."""

    @wraps(command)
    def packed(**said: Any) -> int:
        chosen = Chosen(**{name: said.pop(name) for name in Chosen.__struct_fields__})
        return command(chosen, **said)

    for option in (
        click.option("--dialect", type=DIALECT, required=True),
        click.option("--case", "ids", multiple=True, metavar="ID", help="Only this one; may be repeated."),
        click.option("--level", type=click.Choice(LEVELS), help="Only of this level and above."),
        click.option("--slow", is_flag=True, help="Those that take seconds, too."),
        click.option("--setting", "settings", multiple=True, metavar="NAME=VALUE", help="Of the listener, as it is."),
        click.option("--agent", default="", help="What to call the judged one in reports."),
        click.option("--expect", "known", type=FILE, help="Known deviations, a line each: ID, and why."),
        click.option("--report", type=DIRECTORY, help="Write index.html, report.json and junit.xml there."),
    ):
        packed = option(packed)
    return packed


def spoken(said: str) -> Spoken:
    """What `DIALECT[settings]=ENDPOINT` says.  Raises click.UsageError."""
    try:
        return spoken_at(said)
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from wrong
