"""A case in captured traffic, from its first request on: how far it is, and what comes of it."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import msgspec

from gateway.conformance.comparing import Unlike, compare
from gateway.conformance.judging import BROKEN
from gateway.conformance.meanings import awaited_kind, kind_of
from gateway.conformance.scripts import Script, Turn
from gateway.core.faults import Fault
from gateway.dialects import Dialect, Refusal, Request, Terms

Verdict = Literal["PASS", "LENIENT", "INFO", "FAIL"]

SAME = "it says the same"
OTHERWISE = "it was accepted, but is not the one way to say it"


class Finding(msgspec.Struct, frozen=True):
    """What came of a case.  frame: the request that shows it: one that is not as the form has it, else the last."""

    case: str
    verdict: Verdict
    why: str
    frame: bytes


class Asked:
    """A captured request.  time: us.  terms: those it was read by."""

    def __init__(
        self, dialect: Dialect, ticket: int, time: int, frame: bytes, request: Request | Refusal, terms: Terms
    ) -> None:
        self.dialect = dialect
        self.ticket = ticket
        self.time = time
        self.frame = frame
        self.request = request
        self.terms = terms

    @property
    def kind(self) -> str:
        """See gateway.conformance.meanings.kind_of."""
        return kind_of(self.request)

    @property
    def fault(self) -> Fault | None:
        """Why it is none, where that is the client's own doing."""
        fault = self.request.failure.fault if isinstance(self.request, Refusal) else None
        return fault if fault in BROKEN else None

    @cached_property
    def ours(self) -> bytes | None:
        """What our own client says instead; None = the same, or it has no words for it."""
        if isinstance(self.request, Refusal):
            return None
        try:
            ours = self.dialect.encode_request(self.request, self.terms)
        except Exception:  # as in judging: what the encoder cannot take is not our end
            return None
        return None if ours == self.frame else ours


class Attempt:
    """One case on one connection.

    known:   what its names and blanks are by now.
    asked:   its requests so far.  waiting: those without an answer yet, by ticket, with the number of their turn.
    lenient: why it is no PASS.  since: us, when the last of its requests or answers came.
    """

    def __init__(self, script: Script, asked: Asked, names: dict[str, bytes], lenient: str) -> None:
        self.script = script
        self.known = names
        self.asked = [asked]
        self.waiting = {asked.ticket: 0}
        self.lenient = lenient
        self.since = asked.time
        self._shown = asked.frame
        self._kinds: dict[int, str] = {}

    @property
    def names(self) -> dict[str, bytes]:
        """With something for those that nothing is known of."""
        return {**self.script.stand_ins, **self.known}

    @property
    def turn(self) -> Turn | None:
        """The next, None = all requests are there."""
        at = len(self.asked)
        return self.script.turns[at] if at < len(self.script.turns) else None

    @property
    def waits(self) -> bool:
        """Whether an answer is to come that its script has one for."""
        return any(self.script.turns[at].answer is not None for at in self.waiting.values())

    @property
    def due(self) -> float | None:
        """us: until when there is to be silence; None = not all was said yet."""
        if self.turn is not None or self.waits:
            return None
        silence = self.script.silence
        return self.since + (silence.seconds * 1e6 if silence is not None else 0.0)

    def kind(self, at: int, dialect: Dialect) -> str:
        """What kind of request its turn of that number is."""
        if at not in self._kinds:
            expect = self.script.turns[at].expect
            self._kinds[at] = awaited_kind(expect, self.names, dialect, self.script.terms)
        return self._kinds[at]

    def kinds(self, dialect: Dialect) -> set[str]:
        """What it is about, and may not come at any time."""
        return {self.kind(at, dialect) for at in range(len(self.script.turns))} - set(self.script.case.aside)

    def is_aside(self, asked: Asked) -> bool:
        """Whether it may come at any time."""
        return asked.kind in self.script.case.aside

    def differs(self, found: dict[str, bytes]) -> set[str]:
        """Names that are something else in what was read now."""
        return {name for name, value in found.items() if self.known.get(name, value) != value}

    def goes_on(self, asked: Asked, names: dict[str, bytes], lenient: str) -> None:
        """The next request is there."""
        self.waiting[asked.ticket] = len(self.asked)
        self.asked.append(asked)
        self.known |= names
        self.since = asked.time
        self._kinds.clear()
        if not self.lenient:
            self.lenient, self._shown = lenient, asked.frame

    def passed(self) -> Finding:
        """It is through."""
        return Finding(self.script.case.id, "LENIENT" if self.lenient else "PASS", self.lenient, self._shown)


def failed(script: Script, why: str, frame: bytes) -> Finding:
    """What may be left undone is for information only."""
    return Finding(script.case.id, "INFO" if script.case.level == "MAY" else "FAIL", why, frame)


def read(turn: Turn, asked: Asked) -> tuple[dict[str, bytes], str] | None:
    """What a request says for the names of a turn, and why it is not just as the form; None = it is something else."""
    if (found := turn.read(asked.frame)) is not None:
        return found, ""
    for form in turn.lenient:
        if (found := form(asked.frame)) is not None:
            return found, OTHERWISE
    if asked.ours is not None and (found := turn.read(asked.ours)) is not None:
        return found, SAME
    return None


def explained(turn: Turn, asked: Asked, names: dict[str, bytes], lenient: str) -> str:
    """With the place where it parts from the form."""
    unlike = compare(turn.expect.form, asked.frame, names) if lenient == SAME else None
    if not isinstance(unlike, Unlike):
        return lenient
    return f"{lenient} in other bytes, from byte {unlike.at} on: {unlike.wanted} was wanted"
