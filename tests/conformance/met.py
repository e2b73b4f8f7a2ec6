"""Cases of a server, played against a listener of a gateway that runs, and what of them is not met."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred

from gateway.conformance.cases import Case, load, statements
from gateway.conformance.playing import WAYS, Way
from gateway.conformance.results import Result
from gateway.conformance.servers import Judge, Subject
from system.loops import Loop


def of_server(dialect: str) -> list[Case]:
    """Those that need nothing in particular and do not take long."""
    return [case for case in load(dialect) if case.role == "server" and not case.slow and "login" not in case.needs]


def judged(
    loop: Loop, found: Subject, cases: Sequence[Case], ways: Sequence[Way] = WAYS, seed: int = 0
) -> list[Result]:
    """Their results, in their order.  seed: another one where the same gateway was asked before."""

    def work() -> Deferred[list[Result]]:
        judge = Judge(found, ways=ways, seed=seed)

        def end(results: object) -> object:
            judge.close()
            return results

        return Deferred.fromCoroutine(judge.judge(cases)).addBoth(end)

    return loop.call(work)


def unmet(results: Sequence[Result], but: Sequence[str] = ()) -> list[str]:
    """A line for each that did not pass, with the byte that is another one.  but: ids that are not looked at."""
    return [
        f"{each.case.id}: {each.verdict}, {ruling.way}, step {ruling.step}: {each.why}; byte {ruling.at}: "
        f"{ruling.wanted} was wanted, there is {ruling.got!r}"
        for each in results
        if (ruling := each.ruling) is not None and each.verdict != "PASS" and each.case.id not in but
    ]


def untried(dialect: str) -> set[str]:
    """Statements that no case exercises.  Those from 500 on are of clients, and not looked at."""
    exercised = {id for case in load(dialect) for id in case.covers}
    stated = {each.id for each in statements(dialect)}
    return {id for id in stated - exercised if int(id.partition("-S")[2]) < 500}


def misplaced(dialect: str) -> list[str]:
    """MUST cases of a server that exercise no MUST, and cases that exercise nothing."""
    levels = {each.id: each.level for each in statements(dialect)}
    cases = [case for case in load(dialect) if case.role == "server"]
    return [
        case.id
        for case in cases
        if not case.covers or (case.level == "MUST" and "MUST" not in {levels[id] for id in case.covers})
    ]
