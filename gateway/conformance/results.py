"""What came of many cases: the verdict of each, out of the ways in which it was played."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import msgspec

from gateway.conformance.cases import Case, Role
from gateway.conformance.playing import Ruling, Verdict

_WORSE: tuple[Verdict, ...] = ("PASS", "LENIENT", "INFO", "UNIMPLEMENTED", "FAIL", "ERROR")
assert set(_WORSE) == set(get_args(Verdict)), "all of them"


class Result(msgspec.Struct, frozen=True):
    """One case.  rulings: one for each way in which it was played; none, and `verdict` INFO, where it was left out."""

    case: Case
    verdict: Verdict
    why: str = ""
    rulings: tuple[Ruling, ...] = ()

    @property
    def ruling(self) -> Ruling | None:
        """The one that the verdict is from."""
        return max(self.rulings, key=lambda ruling: _WORSE.index(ruling.verdict), default=None)

    @property
    def failed(self) -> bool:
        """A MUST that was not met: who says that it does not know it has not met it either."""
        return self.case.level == "MUST" and self.verdict in ("UNIMPLEMENTED", "FAIL", "ERROR")


def result(case: Case, rulings: Sequence[Ruling]) -> Result:
    """The verdict is that of the worst ruling; what may be left undone is for information only."""
    worst = max(rulings, key=lambda ruling: _WORSE.index(ruling.verdict))
    verdict: Verdict = "INFO" if case.level == "MAY" and worst.verdict == "FAIL" else worst.verdict
    return Result(case, verdict, worst.why, tuple(rulings))


def left_out(case: Case, why: str) -> Result:
    """It was not played."""
    return Result(case, "INFO", why)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """All cases of one dialect and role against one agent.

    agent: who was judged, such as `cursus-client 0.1.1`.  began: us since the epoch.  seconds: what it took.
    """

    dialect: str
    role: Role
    agent: str
    began: int
    seconds: float
    results: tuple[Result, ...]

    def counts(self) -> dict[Verdict, int]:
        """How many cases came to each verdict; those of none are left out."""
        return {verdict: count for verdict in _WORSE if (count := sum(r.verdict == verdict for r in self.results))}
