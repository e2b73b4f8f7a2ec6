"""`gateway conformance list`, `server`, `client`, `pair` and `fuzz`: their options, and what they print."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click
import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import clientFromString
from twisted.internet.interfaces import IReactorCore, IReactorTime
from twisted.python.failure import Failure

from gateway import dialects
from gateway.backends.wall import microseconds
from gateway.conformance import cases as scripts
from gateway.conformance.cases import Case
from gateway.conformance.clients import LOOPBACK, Kind, drive_clients, judge_clients
from gateway.conformance.driving import Undriven
from gateway.conformance.pairs import Pair, PairRun, Survived
from gateway.conformance.playing import WAYS, Way
from gateway.conformance.prompts import Asked
from gateway.conformance.reporting import PAGE, write
from gateway.conformance.results import Result, Run
from gateway.conformance.servers import Judge, Subject, reach
from gateway.conformance.vectors import BadCase
from gateway.core.commands import Authenticate
from gateway.core.faults import CommandFailed
from gateway.dialects import Dialect
from gateway.dialects.spelling import Spoken, spoken_at

LEVELS = ("MUST", "SHOULD", "MAY")

COLORS = {"PASS": "green", "LENIENT": "cyan", "INFO": "blue", "UNIMPLEMENTED": "yellow", "FAIL": "red", "ERROR": "red"}

T = TypeVar("T")


class Unreachable(Exception):
    """Nobody answers there."""


def main(argv: list[str]) -> int:
    """`gateway conformance ...`.  0 = all MUST pass, 1 = some failed, 2 = asked wrongly, 3 = no connection."""
    try:
        return int(conformance.main(argv, prog_name="gateway conformance", standalone_mode=False) or 0)
    except click.ClickException as wrong:
        wrong.show()
        return 2
    except (BadCase, OSError) as wrong:
        click.echo(f"gateway conformance: {wrong}", err=True)
        return 2
    except Unreachable as failure:
        click.echo(f"gateway conformance: {failure}", err=True)
        return 3
    except click.Abort:
        click.echo("interrupted", err=True)
        return 1


@click.group(help="Judge a client or a server of a dialect, byte by byte.")
def conformance() -> None:
    """Cases are data beside the dialects; see gateway.conformance.cases."""


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_DIRECTORY = click.Path(file_okay=False, path_type=Path)
_DIALECT = click.Choice([name for name in dialects.names() if name != "native"])


# -- list


@conformance.command("list", help="The cases there are.")
@click.option("--dialect", "names", type=_DIALECT, multiple=True, help="Only of this one; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="All of them, with their steps, as JSON.")
def list_(names: tuple[str, ...], as_json: bool) -> None:
    """By dialect and id."""
    found = [case for name in names or _DIALECT.choices for case in scripts.load(str(name))]
    if as_json:
        click.echo(json.dumps([_said(case) for case in found], indent=2))
        return
    for case in found:
        click.echo(f"{case.id:14} {case.level:6} {case.role:6} {case.name}")


def _said(case: Case) -> dict[str, object]:
    """A case as JSON; bytes are hex."""
    plain: dict[str, object] = msgspec.to_builtins(case, enc_hook=repr, builtin_types=(bytes,))
    return cast(dict[str, object], json.loads(json.dumps(plain, default=lambda octets: octets.hex(" "))))


# -- server


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
        return _spoken(f"{self.dialect}[{','.join(self.settings)}]={endpoint}")

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


def _choosing(command: Callable[..., int]) -> Callable[..., int]:
    """The options by which cases are chosen, for both roles; the command gets them as one."""

    @wraps(command)
    def packed(**said: Any) -> int:
        chosen = Chosen(**{name: said.pop(name) for name in Chosen.__struct_fields__})
        return command(chosen, **said)

    for option in (
        click.option("--dialect", type=_DIALECT, required=True),
        click.option("--case", "ids", multiple=True, metavar="ID", help="Only this one; may be repeated."),
        click.option("--level", type=click.Choice(LEVELS), help="Only of this level and above."),
        click.option("--slow", is_flag=True, help="Those that take seconds, too."),
        click.option("--setting", "settings", multiple=True, metavar="NAME=VALUE", help="Of the listener, as it is."),
        click.option("--agent", default="", help="What to call the judged one in reports."),
        click.option("--expect", "known", type=_FILE, help="Known deviations, a line each: ID, and why."),
        click.option("--report", type=_DIRECTORY, help="Write index.html, report.json and junit.xml there."),
    ):
        packed = option(packed)
    return packed


@conformance.command(help="Play a client against a server.")
@_choosing
@click.option("--connect", "endpoint", required=True, metavar="ENDPOINT", help="Where it is: tcp:HOST:PORT.")
@click.option("--user", default="", help="Who makes what has to be there before.")
@click.option("--password", default="", envvar="GATEWAY_PASSWORD", help="Of that user; or GATEWAY_PASSWORD.")
@click.option("--way", "ways", type=click.Choice(WAYS), multiple=True, help="Only cut like this; may be repeated.")
@click.option("--file", "files", type=_FILE, multiple=True, help="The cases of this file instead; may be repeated.")
def server(
    chosen: Chosen, endpoint: str, user: str, password: str, ways: tuple[Way, ...], files: tuple[Path, ...]
) -> int:
    """All ways in which it is cut, many cases at a time."""
    cases, subject = chosen.cases("server", files), _subject(chosen.spoken(endpoint), user, password)
    judge = Judge(subject, ways=ways or WAYS, slow=chosen.slow, told=tell, seed=random.randrange(1 << 32))
    return chosen.finish("server", endpoint, _judged(judge, subject, cases))


async def _judged(judge: Judge, subject: Subject, chosen: Sequence[Case]) -> list[Result]:
    await _reached(subject)
    return await judge.judge(chosen)


async def _reached(subject: Subject) -> None:
    try:
        await reach(subject)
    except CommandFailed as failure:
        raise Unreachable(str(failure)) from failure


def _spoken(said: str) -> Spoken:
    try:
        return spoken_at(said)
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from wrong


def _subject(spoken: Spoken, user: str = "", password: str = "") -> Subject:
    from twisted.internet import reactor

    try:
        dialed = clientFromString(reactor, spoken.endpoint)
    except (ValueError, TypeError) as wrong:
        raise click.UsageError(str(wrong)) from wrong
    login = Authenticate("plain", user, password) if user else _development(spoken.dialect)
    return Subject(spoken.dialect, dialed, spoken.endpoint, cast(IReactorTime, reactor), spoken.settings, login)


def _development(dialect: Dialect) -> Authenticate | None:
    if dialect.development is None or dialect.upstream is None or not dialect.upstream.login:
        return None
    return Authenticate("plain", *dialect.development)


# -- client


@conformance.command(help="Play a server for a client: a person, or a driver, makes it do what each case asks for.")
@_choosing
@click.option("--listen", "endpoint", default="", metavar="ENDPOINT", help="Where the client is to dial.")
@click.option(
    "--driver", default="", metavar="NAME", help="Have this do it: cursus_client, apache_iggy, iggy_py, ours."
)
@click.option("--client-path", type=_DIRECTORY, help="Where the driver's client is installed; by default beside us.")
def client(chosen: Chosen, endpoint: str, driver: str, client_path: Path | None) -> int:
    """One case after the other for a person; several at a time for a driver."""
    from twisted.internet import reactor

    cases, spoken = chosen.cases("client"), chosen.spoken(endpoint or LOOPBACK)
    kind = Kind(spoken.dialect, spoken.settings)
    if driver or client_path:
        driven = _driven(reactor, kind, cases, driver, client_path, endpoint, chosen.slow)
        return chosen.finish("client", driver, driven)
    endpoint = endpoint or f"tcp:{spoken.dialect.port}:interface=127.0.0.1"
    click.echo(f"the client is to dial {endpoint}; {len(cases)} cases, Ctrl-C ends it")
    judged = judge_clients(reactor, kind, cases, endpoint, guide, slow=chosen.slow, told=tell)
    return chosen.finish("client", "a client", judged)


async def _driven(
    reactor: object, kind: Kind, cases: Sequence[Case], driver: str, path: Path | None, endpoint: str, slow: bool
) -> list[Result]:
    try:
        introduced, results = await drive_clients(
            reactor, kind, cases, driver=driver, client_path=path, endpoint=endpoint, slow=slow, told=tell
        )
    except Undriven as failure:
        raise click.UsageError(f"the driver does not start: {failure}") from failure
    click.echo(f"judged {introduced.name}")
    return results


def guide(asked: Asked) -> None:
    """What a person is told before each case."""
    click.echo(f"\n{click.style(asked.case.id, bold=True)} {asked.case.name}")
    click.echo(f"  Have it dial {asked.address}: {asked.ask}")
    click.echo(f"  Awaited: {asked.waits}")


# -- pair


@conformance.command(help="Write in one dialect, read in another, and compare with what is declared to be lost.")
@click.option("--write", "writer", required=True, metavar="DIALECT=ENDPOINT", help="Where it is written.")
@click.option("--read", "reader", required=True, metavar="DIALECT=ENDPOINT", help="Where it is read.")
@click.option("--report", type=_DIRECTORY, help="Write index.html, report.json and junit.xml there.")
def pair(writer: str, reader: str, report: Path | None) -> int:
    """Settings of a dialect stand in brackets: iggy[generation=g2c]=tcp:127.0.0.1:8090."""
    from twisted.internet import reactor

    ends = _subject(_spoken(writer)), _subject(_spoken(reader))
    judged = Pair(*ends, random.randrange(1 << 32))
    began, started = microseconds(), time.monotonic()
    fields = finished(cast(IReactorCore, reactor), _survived(judged, ends))
    run = PairRun(writer, reader, began, time.monotonic() - started, tuple(fields))
    if report is not None:
        write(report, pairs=[run])
        click.echo(f"the report is {report / PAGE}")
    return 1 if run.failed else 0


async def _survived(judged: Pair, ends: Sequence[Subject]) -> list[Survived]:
    for end in ends:
        await _reached(end)
    fields: list[Survived] = []
    async for each in judged.judged():
        verdict = click.style(f"{each.verdict:6}", COLORS[each.verdict])
        seen = f"{each.sent} -> {each.seen}" if each.sent else ""
        click.echo(f"{verdict} {each.field:18} {each.declared.way:8} {seen} {each.why}".rstrip())
        fields.append(each)
    return fields


# -- fuzz


@conformance.command(help="Send a server requests that are damaged field by field, and see that it does not mind.")
@click.option("--dialect", type=_DIALECT, required=True)
@click.option("--connect", "endpoint", required=True, metavar="ENDPOINT", help="Where it is: tcp:HOST:PORT.")
@click.option("--seed", type=click.IntRange(0), help="The same requests again; any by default.")
@click.option("--count", type=click.IntRange(1), help="Requests, so many as take about 20 s by default.")
@click.option("--promote", type=_DIRECTORY, help="Write each failure as a case file there.")
@click.option("--setting", "settings", multiple=True, metavar="NAME=VALUE", help="Of the listener, as it is.")
@click.option("--user", default="", help="Who logs in, where one has to.")
@click.option("--password", default="", envvar="GATEWAY_PASSWORD", help="Of that user; or GATEWAY_PASSWORD.")
def fuzz(
    dialect: str,
    endpoint: str,
    seed: int | None,
    count: int | None,
    promote: Path | None,
    settings: tuple[str, ...],
    user: str,
    password: str,
) -> int:
    """One request at a time, each on a connection of its own."""
    try:
        from gateway.conformance.fuzz import Plan, fuzzed
    except ModuleNotFoundError as missing:
        needed = "it needs hypothesis and construct, which come with polyglot-gateway[conformance]"
        raise click.UsageError(f"there is no {missing.name}; {needed}") from missing
    from twisted.internet import reactor

    subject = _subject(_spoken(f"{dialect}[{','.join(settings)}]={endpoint}"), user, password)
    plan = Plan(subject, random.randrange(1 << 16) if seed is None else seed, count, promote)
    return finished(cast(IReactorCore, reactor), _fuzzed(subject, fuzzed(plan)))


async def _fuzzed(subject: Subject, work: Coroutine[Deferred[Any], Any, int]) -> int:
    try:
        await _reached(subject)
    except Unreachable:
        work.close()
        raise
    return await work


# -- both roles


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


def finished(reactor: IReactorCore, work: Coroutine[Deferred[Any], Any, T]) -> T:
    """Run the reactor until the work is done; what it came to.  Raises what it raised."""
    outcome: list[T | Failure] = []

    def begin() -> None:
        done = Deferred.fromCoroutine(work).addBoth(outcome.append)
        done.addBoth(lambda _: reactor.stop())

    reactor.callWhenRunning(begin)
    reactor.run()
    if not outcome:
        raise click.Abort
    if isinstance(outcome[0], Failure):
        outcome[0].raiseException()
    return outcome[0]
