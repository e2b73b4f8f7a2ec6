"""A case played on a client, without a socket and without a clock: which of its requests are judged, and the answers.

The kit is the server.  A real client says much around what a case is about: it greets, logs in, asks for metadata,
sends heartbeats.  So every request is first asked whether it is of the case:

    it is of the kind that is awaited now       it is judged, to the byte; the script answers it
    it is of a kind that the case is about,     it came out of turn, which is FAIL, unless `aside` names it
    but not now
    it is of another kind                       it is not of the case: the kit answers as a gateway does
    no decoder takes it                         FAIL

Whoever drives a Hearing tells it what happens, does what `take` says, and asks again, until there is a ruling.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Literal

import msgspec

from gateway.conformance.cases import Case, Closed, Expect, HangUp, Pause, Send, Silence, Step
from gateway.conformance.comparing import Unlike, compare
from gateway.conformance.judging import BROKEN
from gateway.conformance.meanings import Heard, awaited_kind, filled, likeness, parting, same_meaning
from gateway.conformance.patterns import fill
from gateway.conformance.playing import Crossing, Ruling, Verdict, Way
from gateway.core.faults import CommandFailed
from gateway.dialects import Dialect, Refusal, Request

ALIKE = 0.7
"""How much a request has to be like what was awaited to be taken for it."""


class Say(msgspec.Struct, frozen=True):
    """Send these on that connection, in its turn: the answer to the oldest request there that was judged."""

    link: int
    octets: bytes


class Leave(msgspec.Struct, frozen=True):
    """Hang up on that connection."""

    link: int


class Release(msgspec.Struct, frozen=True):
    """What was judged on that connection and not answered gets no answer."""

    link: int


Deed = Say | Leave | Release


class Hearing:
    """One case, one way.

    names:    what `{name}` stands for at first.
    patience: seconds until the first request that is judged has to come; None = for ever.
    """

    def __init__(
        self,
        case: Case,
        names: Mapping[str, bytes],
        dialect: Dialect,
        *,
        patience: float | None = None,
        way: Way = "whole",
    ) -> None:
        self.case = case
        self.ruling: Ruling | None = None
        self.deadline: float | None = None
        self._remark = ""
        self._names = dict(names)
        self._dialect = dialect
        self._patience = patience
        self._way = way
        self._left: deque[tuple[int, Step]] = deque(enumerate(case.steps))
        self._expects = [step for step in case.steps if isinstance(step, Expect)]
        self._began = self._now = self._since = 0.0
        self._links: dict[str, int] = {}
        self._held: dict[int, bytes] = {}
        self._over: dict[int, Literal["closed", "reset"]] = {}
        self._kept: deque[Heard] = deque()
        self._passed: list[bytes] = []
        self._deeds: list[Deed] = []
        self._crossings: list[Crossing] = []
        self._lenient = ""

    # -- what the driver does

    def take(self) -> list[Deed]:
        """What to do now, in order."""
        deeds, self._deeds = self._deeds, []
        return deeds

    def begin(self, now: float) -> None:
        """The client is told what to do.  now: seconds of any clock that never goes back, here and below."""
        self._began = self._now = self._since = now
        self._go_on()

    def holding(self, link: int, octets: bytes) -> None:
        """What came there and was not asked about yet: the rest of a frame, or what comes behind one."""
        self._held[link] = octets

    def heard(self, heard: Heard, now: float) -> bool:
        """A whole request.  Returns whether it is of the case; else the kit answers it as a gateway does."""
        self._now = now
        self._crossed(heard.link, "got", heard.frame)
        if self.ruling is not None or not self._left:
            return False
        ours = self._is_ours(heard)
        self._go_on()
        return ours

    def unreadable(self, link: int, failure: CommandFailed, now: float) -> None:
        """What came there is not even a frame."""
        self._now = now
        self._crossed(link, "got", self._held.get(link, b""))
        number = self._left[0][0] if self._left else -1
        self._rule(
            "FAIL", f"no frame of {self._dialect.name}: {failure}", number, 0, "a frame", self._held.get(link, b"")
        )

    def answered(self, link: int, octets: bytes, now: float) -> None:
        """The kit said that there, beside the script."""
        self._now = now
        self._crossed(link, "sent", octets)

    def ended(self, link: int, now: float, *, clean: bool) -> None:
        """The client hung up there."""
        self._now = now
        self._over[link] = "closed" if clean else "reset"
        self._crossed(link, "was closed" if clean else "was reset")
        self._go_on()

    def tick(self, now: float) -> None:
        """It is that late; to be called when `deadline` is there."""
        self._now = now
        self._go_on()

    def remarked(self, remark: str) -> None:
        """What the client itself says, for people."""
        self._remark = remark

    def broke(self, why: str) -> None:
        """It cannot be played: says nothing of the client."""
        self._rule("ERROR", why)

    # -- whose request it is

    def _is_ours(self, heard: Heard) -> bool:
        step = self._left[0][1]
        if isinstance(step, Expect):
            return self._awaiting(step, heard)
        if isinstance(step, Pause) and heard.kind in self._kinds(heard):
            self._kept.append(heard)
            return True
        if isinstance(step, Silence):
            return self._breaking(step, heard)
        if self._is_broken(heard) or heard.kind in self._kinds(heard):
            self._fail_at(f"{heard.kind} came where it should hang up", heard.frame)
            return True
        return False

    def _awaiting(self, step: Expect, heard: Heard) -> bool:
        if heard.kind == awaited_kind(step, self._names, self._dialect, heard.terms):
            if self._links.get(step.on, heard.link) == heard.link and self._is_free(step.on, heard.link):
                self._compare(step, heard)
                return True
            if heard.kind in self.case.aside:
                return False
            self._fail_at("it came on another connection than it should", heard.frame)
            return True
        if self._is_broken(heard) or (isinstance(heard.request, Refusal) and self._is_alike(step, heard.frame)):
            self._fail_at(f"no request of {self._dialect.name}: {heard.why}", heard.frame, heard.link)
            return True
        if heard.kind in self._kinds(heard) or (step.next and heard.kind not in self.case.aside):
            self._fail_at(f"{heard.kind} came before its turn", heard.frame, heard.link)
            return True
        self._passed.append(heard.frame)
        return False

    def _breaking(self, step: Silence, heard: Heard) -> bool:
        if self._is_broken(heard) or heard.kind in (step.kinds or self._kinds(heard)):
            number = self._left[0][0]
            self._rule("FAIL", f"{heard.kind} came, which should not", number, 0, "nothing", heard.frame)
            return True
        return False

    def _kinds(self, heard: Heard) -> set[str]:
        """What the case is about, and may not come at any time."""
        kinds = {awaited_kind(step, self._names, self._dialect, heard.terms) for step in self._expects}
        return kinds - set(self.case.aside)

    def _is_free(self, on: str, link: int) -> bool:
        """Whether no other name has that connection."""
        return all(name == on for name, taken in self._links.items() if taken == link)

    def _is_broken(self, heard: Heard) -> bool:
        return isinstance(heard.request, Refusal) and heard.request.failure.fault in BROKEN

    def _is_alike(self, step: Expect, frame: bytes) -> bool:
        """Whether it may have been meant."""
        return likeness(filled(step.form, self._names), frame) >= ALIKE

    # -- what it says

    def _compare(self, step: Expect, heard: Heard) -> None:
        said = self._said(step, heard)
        if said is None:
            self._fail_at("another request came", heard.frame, heard.link)
            return
        number = self._left[0][0]
        if self._now - self._since < step.after:
            early = f"it came after {self._now - self._since:.3f} s, and not before {step.after:g} s have passed"
            self._rule("FAIL", early, number, got=heard.frame)
            return
        self._names |= said
        self._links[step.on] = heard.link
        self._patience = 0.0
        self._past()

    def _said(self, step: Expect, heard: Heard) -> dict[str, bytes] | None:
        unlike = compare(step.form, heard.frame, self._names)
        if not isinstance(unlike, Unlike):
            return unlike
        for form in step.lenient:
            if isinstance(said := compare(form, heard.frame, self._names), dict):
                self._lenient = "it was accepted, but is not the one way to say it"
                return said
        if not isinstance(heard.request, Request):
            return None
        meant = same_meaning(step.form, heard.frame, heard.request, self._names, self._dialect, heard.terms)
        if meant is not None:
            self._lenient = f"it says the same in other bytes, from byte {unlike.at} on: {unlike.wanted} was wanted"
        return meant

    # -- step by step

    def _go_on(self) -> None:
        while self.ruling is None and self._left:
            if not self._met(*self._left[0]):
                return
        self._rule("LENIENT" if self._lenient else "PASS", self._lenient)

    def _met(self, number: int, step: Step) -> bool:
        """Whether the step is behind us."""
        match step:
            case Send():
                return self._send(step)
            case HangUp():
                return self._hang_up(step)
            case Expect():
                return self._expect(number, step)
            case Silence(seconds=seconds) | Pause(seconds=seconds):
                return self._until(seconds)
            case Closed(within=within):
                if self._links.get(step.on) in self._over:
                    return self._past()
                if self._until(within, turn=False):
                    self._rule("FAIL", f"it did not hang up within {within:g} s", number)
                return False

    def _past(self) -> bool:
        _, step = self._left.popleft()
        self._since, self.deadline = self._now, None
        self._passed.clear()
        link = self._links.get(step.on)
        if link is not None and not any(isinstance(each, Send) and each.on == step.on for _, each in self._left):
            self._deeds.append(Release(link))
        return True

    def _until(self, seconds: float, *, turn: bool = True) -> bool:
        """Whether that long has passed; the step is behind us then, if it was its turn to be."""
        if self._now - self._since >= seconds:
            return self._past() if turn else True
        self.deadline = self._since + seconds
        return False

    def _send(self, step: Send) -> bool:
        link = self._links.get(step.on)
        try:
            octets = b"".join(fill(step.form, self._names))
        except ValueError as error:
            self._rule("FAIL" if self._lenient else "ERROR", f"{self._lenient}; {error}".removeprefix("; "))
            return False
        if link is None:
            self.broke(f"the case says something on {step.on!r}, where nothing was awaited")
            return False
        self._deeds.append(Say(link, octets))
        self._crossed(link, "sent", octets)
        return self._past()

    def _hang_up(self, step: HangUp) -> bool:
        link = self._links.get(step.on)
        if link is None:
            self.broke(f"the case hangs up on {step.on!r}, where nothing was awaited")
            return False
        self._deeds.append(Leave(link))
        self._over[link] = "closed"
        self._crossed(link, "hung up")
        return self._past()

    def _expect(self, number: int, step: Expect) -> bool:
        if self._kept:
            self._awaiting(step, self._kept.popleft())
            return self.ruling is None and not (self._left and self._left[0][0] == number)
        link = self._links.get(step.on)
        if link in self._over:
            self._rule("FAIL", f"the connection was {self._over[link]} instead{self._said_last()}", number)
            return False
        wait = step.within if self._patience == 0.0 else self._patience  # not begun yet
        if wait is not None and self._until(wait, turn=False):
            self._late(number, step, wait)
        return False

    def _late(self, number: int, step: Expect, wait: float) -> None:
        """Nothing came; what came instead of it, if anything, is shown."""
        rest = max(self._held.values(), key=len, default=b"")
        if rest:
            self._fail_at(f"a frame was not whole within {wait:g} s", rest)
            return
        wanted = filled(step.form, self._names)
        alike = max(self._passed, key=lambda frame: likeness(wanted, frame), default=b"")
        if self._is_alike(step, alike):
            self._fail_at(f"what was awaited did not come within {wait:g} s, this did", alike)
        else:
            self._rule("FAIL", f"nothing came within {wait:g} s{self._said_last()}", number)

    def _said_last(self) -> str:
        return f"; the client says: {self._remark}" if self._remark else ""

    # -- the ruling

    def _fail_at(self, why: str, got: bytes, link: int = -1) -> None:
        """It is not what the next form says."""
        behind = self._held.get(link, b"")
        number, step = self._left[0] if self._left else (-1, None)
        unlike = parting(step.form, got, behind, self._names) if isinstance(step, Expect) else None
        if unlike is None:
            self._rule("FAIL", why, number, got=got)
        else:
            self._rule("FAIL", why, number, unlike.at, unlike.wanted, got)

    def _rule(
        self, verdict: Verdict, why: str, step: int = -1, at: int = -1, wanted: str = "", got: bytes = b""
    ) -> None:
        if self.ruling is None:
            ending: Literal["open", "closed", "reset"]
            ending = "reset" if "reset" in self._over.values() else "closed" if self._over else "open"
            crossings = tuple(self._crossings)
            self.ruling = Ruling(verdict, why, self._way, step, at, wanted, got, ending, crossings)

    def _crossed(
        self,
        link: int,
        what: Literal["sent", "got", "hung up", "was closed", "was reset"],
        octets: bytes = b"",
    ) -> None:
        number = self._left[0][0] if self._left else len(self.case.steps)
        self._crossings.append(Crossing(self._now - self._began, self._name(link), what, octets, number))

    def _name(self, link: int) -> str:
        """What people call a connection: as the case does, else by its number."""
        return next((name for name, known in self._links.items() if known == link), str(link))
