"""`gateway conformance list`, `server`, `client`, `pair` and `fuzz`: their options, and what they print."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, cast

import click
import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import clientFromString
from twisted.internet.interfaces import IReactorCore, IReactorTime

from gateway.backends.wall import microseconds
from gateway.conformance import cases as scripts
from gateway.conformance.cases import Case
from gateway.conformance.choosing import DIALECT, DIRECTORY, FILE, Chosen, choosing, spoken
from gateway.conformance.clients import LOOPBACK, Kind, drive_clients, judge_clients
from gateway.conformance.driving import Undriven
from gateway.conformance.pairs import Pair, PairRun, Survived
from gateway.conformance.playing import WAYS, Way
from gateway.conformance.reporting import PAGE, write
from gateway.conformance.results import Result
from gateway.conformance.servers import Judge, Subject, reach
from gateway.conformance.telling import COLORS, guide, tell
from gateway.conformance.vectors import BadCase
from gateway.core.commands import Authenticate
from gateway.core.faults import CommandFailed
from gateway.dialects import Dialect
from gateway.dialects.spelling import Spoken
from gateway.running import finished


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


# -- list


@conformance.command("list", help="The cases there are.")
@click.option("--dialect", "names", type=DIALECT, multiple=True, help="Only of this one; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="All of them, with their steps, as JSON.")
def list_(names: tuple[str, ...], as_json: bool) -> None:
    """By dialect and id."""
    found = [case for name in names or DIALECT.choices for case in scripts.load(str(name))]
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


@conformance.command(help="Play a client against a server.")
@choosing
@click.option("--connect", "endpoint", required=True, metavar="ENDPOINT", help="Where it is: tcp:HOST:PORT.")
@click.option("--user", default="", help="Who makes what has to be there before.")
@click.option("--password", default="", envvar="GATEWAY_PASSWORD", help="Of that user; or GATEWAY_PASSWORD.")
@click.option("--way", "ways", type=click.Choice(WAYS), multiple=True, help="Only cut like this; may be repeated.")
@click.option("--file", "files", type=FILE, multiple=True, help="The cases of this file instead; may be repeated.")
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


def _subject(spoken: Spoken, user: str = "", password: str = "") -> Subject:
    from twisted.internet import reactor

    try:
        dialed = clientFromString(reactor, spoken.endpoint)
    except (ValueError, TypeError) as wrong:
        raise click.UsageError(str(wrong)) from wrong
    login = Authenticate("plain", user, password) if user else _development(spoken.dialect)
    clock = cast(IReactorTime, reactor)
    return Subject(spoken.dialect, dialed, spoken.endpoint, clock, spoken.settings, login, guest=not user)


def _development(dialect: Dialect) -> Authenticate | None:
    if dialect.development is None or dialect.upstream is None or not dialect.upstream.login:
        return None
    return Authenticate("plain", *dialect.development)


# -- client


@conformance.command(help="Play a server for a client: a person, or a driver, makes it do what each case asks for.")
@choosing
@click.option("--listen", "endpoint", default="", metavar="ENDPOINT", help="Where the client is to dial.")
@click.option(
    "--driver", default="", metavar="NAME", help="Have this do it: cursus_client, apache_iggy, iggy_py, ours."
)
@click.option("--client-path", type=DIRECTORY, help="Where the driver's client is installed; by default beside us.")
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


# -- pair


@conformance.command(help="Write in one dialect, read in another, and compare with what is declared to be lost.")
@click.option("--write", "writer", required=True, metavar="DIALECT=ENDPOINT", help="Where it is written.")
@click.option("--read", "reader", required=True, metavar="DIALECT=ENDPOINT", help="Where it is read.")
@click.option("--report", type=DIRECTORY, help="Write index.html, report.json and junit.xml there.")
def pair(writer: str, reader: str, report: Path | None) -> int:
    """Settings of a dialect stand in brackets: iggy[generation=g2c]=tcp:127.0.0.1:8090."""
    from twisted.internet import reactor

    ends = _subject(spoken(writer)), _subject(spoken(reader))
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
@click.option("--dialect", type=DIALECT, required=True)
@click.option("--connect", "endpoint", required=True, metavar="ENDPOINT", help="Where it is: tcp:HOST:PORT.")
@click.option("--seed", type=click.IntRange(0), help="The same requests again; any by default.")
@click.option("--count", type=click.IntRange(1), help="Requests, so many as take about 20 s by default.")
@click.option("--promote", type=DIRECTORY, help="Write each failure as a case file there.")
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

    subject = _subject(spoken(f"{dialect}[{','.join(settings)}]={endpoint}"), user, password)
    plan = Plan(subject, random.randrange(1 << 16) if seed is None else seed, count, promote)
    return finished(cast(IReactorCore, reactor), _fuzzed(subject, fuzzed(plan)))


async def _fuzzed(subject: Subject, work: Coroutine[Deferred[Any], Any, int]) -> int:
    try:
        await _reached(subject)
    except Unreachable:
        work.close()
        raise
    return await work
