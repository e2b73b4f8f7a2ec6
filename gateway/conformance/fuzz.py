"""One run of the fuzz stage as a person sees it: how far it is, a line for each failure, and what was promoted."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec
from twisted.internet import threads
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorCore

from gateway.conformance.calling import Caller
from gateway.conformance.fuzzing import COUNT, Found, Fuzzer
from gateway.conformance.grammars import Grammar
from gateway.conformance.promoting import promote
from gateway.conformance.servers import Subject

SHOWN = 48
"""Bytes of a request that a line has room for."""

NEWS = 20
"""Requests between two looks at how far it is."""


class Plan(msgspec.Struct, frozen=True):
    """What is wanted.  count: None = about 20 s.  promoted: the directory of case files, None = none are written."""

    subject: Subject
    seed: int
    count: int | None
    promoted: Path | None


async def fuzzed(plan: Plan) -> int:
    """0 = nothing was found, 1 = something was."""
    from twisted.internet import reactor

    subject = plan.subject
    grammar = Grammar(subject.dialect, subject.settings, subject.login)
    caller = Caller(subject)
    IReactorCore(reactor).addSystemEventTrigger("before", "shutdown", caller.stop)
    wanted = plan.count or COUNT
    fuzzer = Fuzzer(grammar, caller.attempt, seed=plan.seed, told=_Telling(wanted))
    click.echo(f"{subject.dialect.name}: {len(grammar.seeds)} valid requests to damage, seed {plan.seed}")
    work: Deferred[list[Found]] = threads.deferToThread(fuzzer.run, wanted)
    found = await work
    for each in found if plan.promoted else []:
        click.echo(f"a case for it: {promote(each, grammar, plan.promoted)}")  # type: ignore[arg-type]  # there is one
    click.echo(f"{subject.dialect.name} fuzz: {fuzzer.tried} requests, {len(found)} failures, seed {plan.seed}")
    return 1 if found else 0


class _Telling:
    """Called by a Fuzzer, in its thread."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._found = 0
        self._live = sys.stderr.isatty()

    def __call__(self, tried: int, found: Found | None) -> None:
        if found is not None:
            self._found += 1
            self._clear()
            click.echo(line(found))
        elif self._live and tried % NEWS == 0:
            click.echo(f"\r{tried} of {self._wanted} requests, {self._found} failures", nl=False, err=True)
            if tried >= self._wanted:
                self._clear()

    def _clear(self) -> None:
        if self._live:
            click.echo("\r\x1b[K", nl=False, err=True)


def line(found: Found) -> str:
    """What a failure looks like: the request, its first byte that is not as it was, and the answer's likewise."""
    failure = found.failure
    answer = f", byte {failure.at} of the answer {_shown(failure.got)}" if failure.at >= 0 else ""
    once = "" if found.again else "; it did not happen again"
    sent = f"byte {found.at} of {_shown(found.octets)}"
    return f"{click.style('FAIL', fg='red')} {failure.kind} ({failure.about}): {failure.why}{answer}{once}\n     {sent}"


def _shown(octets: bytes) -> str:
    return octets[:SHOWN].hex(" ") + (f" ... {len(octets)} bytes" if len(octets) > SHOWN else "")
