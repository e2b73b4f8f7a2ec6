"""Runs made of vectors, without a server: what of a report can be looked at."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.conformance import vectors
from gateway.conformance.cases import Case, Expect, Role, Send
from gateway.conformance.patterns import pattern
from gateway.conformance.playing import WAYS, Play, Ruling, Way
from gateway.conformance.results import Result, Run, left_out, result
from gateway.dialects import load

BEGAN = 1_790_000_000_000_000


def cases(dialect: str, role: Role = "server", count: int = 40) -> list[Case]:
    """One request and the answer that a server gives to it each."""
    served = [vector for vector in vectors.load(dialect) if "server" in vector.roles and vector.command]
    plain = [vector for vector in served if vector.then and not vector.settings and not vector.command.startswith("[")]
    return [
        Case(
            id=f"{dialect[:3].upper()}-1.{number}",
            dialect=dialect,
            level="MUST",
            name=vector.name,
            source=vector.source,
            role=role,
            steps=(Send("a", pattern(vector.when.hex())), Expect("a", pattern((vector.then or b"").hex()), 2.0)),
        )
        for number, vector in enumerate(plain[:count], 1)
    ]


def played(case: Case, way: Way = "whole", flipped: int | None = None) -> Ruling:
    """As if the answer had come, with one of its bytes flipped."""
    play = Play(case, {}, load(case.dialect).measure_reply, way=way)
    expect = case.steps[1]
    assert isinstance(expect, Expect)
    answer = bytearray(b"".join(part.octets for part in expect.form))  # type: ignore[union-attr]
    if flipped is not None:
        answer[flipped] ^= 1
    play.begin(0.0)
    play.received("a", bytes(answer), 0.001)
    play.tick(3.0)
    assert play.ruling is not None
    return play.ruling


def run(dialect: str, role: Role, agent: str, broken: Iterable[int] = (), skipped: Iterable[int] = ()) -> Run:
    """broken: numbers of the cases, from 0, in whose answer the last byte is another one.  skipped: likewise."""
    results: list[Result] = []
    for number, case in enumerate(cases(dialect, role)):
        if number in skipped:
            results.append(left_out(case, "it takes seconds; --slow plays it"))
        else:
            results.append(result(case, [played(case, way, -1 if number in broken else None) for way in WAYS]))
    return Run(dialect=dialect, role=role, agent=agent, began=BEGAN, seconds=4.2, results=tuple(results))


def agents() -> list[Run]:
    """As many as are published."""
    dialects = ("cursus", "pipe", "iggy", "grid", "mlog")
    ours = [run(dialect, role, "gateway 0.1.0") for role in ("server", "client") for dialect in dialects]  # type: ignore[arg-type]
    real = [("cursus", "cursus-client 0.1.0"), ("cursus", "cursus-client 0.1.1")]
    real += [("iggy", f"iggy-py {version}") for version in ("0.2.2", "0.2.6", "0.4.0")]
    real += [("iggy", f"apache-iggy {version}") for version in ("0.5.0", "0.6.0", "0.7.0", "0.8.0")]
    return [*ours, *(run(dialect, "client", agent, {3, 17}, {5}) for dialect, agent in real)]
