"""A case played, without a socket and without a clock: what to do next, and what becomes of it.

Whoever drives a Play does what `take` says, tells it what happens, and asks again, until there is a ruling.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Literal, cast

import msgspec

from gateway.conformance.cases import Case, Closed, Expect, HangUp, Pause, Send, Silence, Step
from gateway.conformance.comparing import Unlike, compare
from gateway.conformance.patterns import Pattern, fill
from gateway.core.faults import CommandFailed
from gateway.dialects.frames import Measure

Verdict = Literal["PASS", "LENIENT", "INFO", "UNIMPLEMENTED", "FAIL", "ERROR"]
Way = Literal["whole", "bytes", "fields", "merged"]
"""How what is sent is cut: as one write, a byte a write, a field a write, or all that can be sent at once as one."""

WAYS: tuple[Way, ...] = ("whole", "bytes", "fields", "merged")

LINGER = 0.02
"""Seconds after the last step in which nothing more may come."""


class Dial(msgspec.Struct, frozen=True):
    """Make this connection."""

    on: str


class Write(msgspec.Struct, frozen=True):
    """Send these, each as a write of its own."""

    on: str
    chunks: tuple[bytes, ...]


class Drop(msgspec.Struct, frozen=True):
    """Hang up; half: send no more, and still read."""

    on: str
    half: bool = False


Action = Dial | Write | Drop


class Crossing(msgspec.Struct, frozen=True):
    """What crossed a connection.  at: seconds since the case began.  step: number of the step, from 0."""

    at: float
    on: str
    what: Literal["sent", "got", "hung up", "was closed", "was reset"]
    octets: bytes = b""
    step: int = 0


class Ruling(msgspec.Struct, frozen=True):
    """What became of a case in one way of playing it.

    step:   number of the step that was not met, from 0; -1 = all were.
    at:     byte of the frame from which on it is another one, -1 = it is not about bytes.
    wanted: what was wanted there, for people.  got: the frame.
    ending: how the judged end's connections ended: `open`, `closed` or `reset`.
    names:  what the names of the case stood for in the end, its own ones and what was kept.
    """

    verdict: Verdict
    why: str = ""
    way: Way = "whole"
    step: int = -1
    at: int = -1
    wanted: str = ""
    got: bytes = b""
    ending: Literal["open", "closed", "reset"] = "open"
    crossings: tuple[Crossing, ...] = ()
    names: dict[str, bytes] = {}


def _shuffled(left: tuple[int, Step]) -> bool:
    return isinstance(left[1], Expect) and left[1].shuffled


class _End:
    """One connection, as it stands.  over: None = it is open."""

    def __init__(self) -> None:
        self.held = bytearray()
        self.over: Literal["closed", "reset"] | None = None


class Play:
    """One case, one way.

    names:   what `{name}` stands for at first.
    measure: bytes -> those of the judged end's next frame, 0 = it is not whole.
    tagged:  its answers may come in any order.
    foreign: what says that a request is not known.
    """

    def __init__(
        self,
        case: Case,
        names: Mapping[str, bytes],
        measure: Measure,
        *,
        tagged: bool = False,
        way: Way = "whole",
        foreign: Sequence[Pattern] = (),
    ) -> None:
        self.case = case
        self.ruling: Ruling | None = None
        self.deadline: float | None = None
        self._names = dict(names)
        self._measure = measure
        self._tagged = tagged
        self._way = way
        self._foreign = foreign
        self._left: deque[tuple[int, Step]] = deque(enumerate(case.steps))
        self._began = 0.0
        self._now = 0.0
        self._since = 0.0
        self._ends: dict[str, _End] = {}
        self._actions: list[Action] = []
        self._crossings: list[Crossing] = []
        self._lenient = ""

    # -- what the driver does

    def take(self) -> list[Action]:
        """What to do now, in order."""
        actions, self._actions = self._actions, []
        return actions

    def begin(self, now: float) -> None:
        """now: seconds of any clock that never goes back, here and below."""
        self._began = self._now = self._since = now
        self._go_on()

    def received(self, on: str, octets: bytes, now: float) -> None:
        """The judged end sent something."""
        self._now = now
        self._end(on).held += octets
        self._crossed(on, "got", octets)
        self._go_on()

    def ended(self, on: str, now: float, *, clean: bool) -> None:
        """The judged end hung up."""
        self._now = now
        end = self._end(on)
        if end.over is None:
            end.over = "closed" if clean else "reset"
            self._crossed(on, "was closed" if clean else "was reset")
            self._go_on()

    def tick(self, now: float) -> None:
        """It is that late; to be called when `deadline` is there."""
        self._now = now
        self._go_on()

    def broke(self, why: str) -> None:
        """It cannot be played: says nothing of the judged end."""
        self._rule("ERROR", why)

    # -- step by step

    def _go_on(self) -> None:
        while self.ruling is None and self._left:
            number, step = self._left[0]
            if not self._met(number, step):
                return
        if self.ruling is None:
            self._finish()

    def _met(self, number: int, step: Step) -> bool:
        """Whether the step is behind us."""
        end = self._end(step.on)
        match step:
            case Send():
                self._send(number)
                return True
            case HangUp():
                self._actions.append(Drop(step.on, step.half))
                self._crossed(step.on, "hung up")
                return self._past()
            case Expect(within=within):
                return self._expect(number, step, end) or self._wait(within, number, end, "nothing came within {} s")
            case Silence(seconds=seconds):
                if end.held:
                    self._fail(number, f"{len(end.held)} bytes came that nobody asked for", bytes(end.held))
                    return False
                return self._over(seconds)
            case Pause(seconds=seconds):
                return self._over(seconds)
            case Closed(within=within):
                return self._closed(number, step, end)
        raise AssertionError(step)

    def _past(self) -> bool:
        self._left.popleft()
        self._since, self.deadline = self._now, None
        return True

    def _over(self, seconds: float) -> bool:
        """Whether that long nothing had to happen."""
        if self._now >= self._since + seconds:
            return self._past()
        self.deadline = self._since + seconds
        return False

    def _wait(self, within: float, number: int, end: _End, why: str) -> bool:
        if self.ruling is None and self._now >= self._since + within:
            self._fail(number, why.format(f"{within:g}"), bytes(end.held))
        self.deadline = self._since + within
        return False

    # -- sending

    def _send(self, number: int) -> None:
        first = self._left[0][1]
        assert isinstance(first, Send), "it is its turn"
        fields = fill(first.form, self._names)
        self._past()
        if self._way == "merged":
            fields += self._others(first.on)
        whole = b"".join(fields)
        chunks = tuple(bytes((octet,)) for octet in whole) if self._way == "bytes" else tuple(filter(None, fields))
        self._actions.append(Write(first.on, chunks if self._way in ("bytes", "fields") else (whole,)))
        self._crossed(first.on, "sent", whole, number)

    def _others(self, on: str) -> list[bytes]:
        """What can be sent at once with it: all up to the first step that is no Send and no Expect, taken out."""
        fields: list[bytes] = []
        kept: list[tuple[int, Step]] = []
        while self._left and isinstance(self._left[0][1], Send | Expect) and self._left[0][1].on == on:
            number, step = self._left[0]
            if isinstance(step, Send):
                try:
                    fields += fill(step.form, self._names)
                except ValueError:  # it says again what an answer says
                    break
            else:
                kept.append((number, step))
            self._left.popleft()
        self._left.extendleft(reversed(kept))
        return fields

    # -- what came

    def _expect(self, number: int, step: Expect, end: _End) -> bool:
        frame = self._frame(end)
        if frame is None:
            if end.over is not None:
                self._fail(number, f"the connection was {end.over} instead", bytes(end.held))
            return False
        if step.shuffled:
            number, step = self._dealt(frame)
        wanted = self._wanted(step) if self._tagged else [(number, step)]
        for at, (_, each) in enumerate(wanted):
            said = self._fits(each, frame)
            if said is not None:
                self._names |= said
                del self._left[at], end.held[: len(frame)]
                self._since, self.deadline = self._now, None
                return True
        self._unlike(number, step, frame)
        return False

    def _dealt(self, frame: bytes) -> tuple[int, Expect]:
        """The first of what is shuffled, with the form that its frame has; who had that gets its own one."""
        together = list(itertools.takewhile(_shuffled, self._left))
        first, own = cast("tuple[int, Expect]", together[0])
        for at, (number, other) in enumerate(together):
            assert isinstance(other, Expect), "only these are shuffled"
            if self._fits(other, frame) is not None:
                self._left[at] = number, msgspec.structs.replace(other, form=own.form, lenient=own.lenient)
                own = msgspec.structs.replace(own, form=other.form, lenient=other.lenient)
                self._left[0] = first, own
                break
        return first, own

    def _wanted(self, step: Expect) -> list[tuple[int, Expect]]:
        """What may be answered now on that connection."""
        found: list[tuple[int, Expect]] = []
        for number, each in self._left:
            if not isinstance(each, Expect) or each.on != step.on:
                break
            found.append((number, each))
        return found

    def _fits(self, step: Expect, frame: bytes) -> dict[str, bytes] | None:
        for form in (step.form, *step.lenient):
            said = compare(form, frame, self._names)
            if not isinstance(said, Unlike):
                if form is not step.form:
                    self._lenient = "it was accepted, but is not the one way to say it"
                return said
        return None

    def _frame(self, end: _End) -> bytes | None:
        try:
            size = self._measure(end.held, 0, 0)
        except CommandFailed:  # no frame begins like this; compare it as it is
            size = len(end.held)
        return bytes(end.held[:size]) if 0 < size <= len(end.held) else None

    def _unlike(self, number: int, step: Expect, frame: bytes) -> None:
        if any(not isinstance(compare(form, frame, self._names), Unlike) for form in self._foreign):
            self._rule("UNIMPLEMENTED", "it says that it does not know this", number, got=frame)
        else:
            self._fail(number, "another frame came", frame)

    def _closed(self, number: int, step: Closed, end: _End) -> bool:
        frame = self._frame(end)
        for form in step.lenient:
            said = compare(form, frame or b"", self._names)
            if frame and not isinstance(said, Unlike):
                self._lenient = "it said something before it hung up, and need not"
                self._names |= said
                del end.held[: len(frame)]
                break
        if end.held:
            self._fail(number, f"{len(end.held)} bytes came where it should hang up", bytes(end.held))
            return False
        return self._past() if end.over else self._wait(step.within, number, end, "it did not hang up within {} s")

    # -- the ruling

    def _finish(self) -> None:
        for end in self._ends.values():
            if end.held:
                self._fail(len(self.case.steps), f"{len(end.held)} bytes came behind the last answer", bytes(end.held))
                return
        if self._now < self._since + LINGER:
            self.deadline = self._since + LINGER
        else:
            self._rule("LENIENT" if self._lenient else "PASS", self._lenient)

    def _fail(self, number: int, why: str, got: bytes) -> None:
        step = dict(enumerate(self.case.steps)).get(number)
        if isinstance(step, Expect):
            unlike = compare(step.form, got, self._names)
            if isinstance(unlike, Unlike):
                self._rule("FAIL", why, number, unlike.at, unlike.wanted, got)
                return
        self._rule("FAIL", why, number, 0 if got else -1, "nothing" if got else "", got)

    def _rule(
        self, verdict: Verdict, why: str, step: int = -1, at: int = -1, wanted: str = "", got: bytes = b""
    ) -> None:
        if self.ruling is None:
            endings = {end.over for end in self._ends.values()}
            ending: Literal["open", "closed", "reset"]
            ending = "reset" if "reset" in endings else "closed" if "closed" in endings else "open"
            crossings = tuple(self._crossings)
            self.ruling = Ruling(verdict, why, self._way, step, at, wanted, got, ending, crossings, dict(self._names))
            self._actions += [Drop(on) for on in self._ends]

    def _end(self, on: str) -> _End:
        if on not in self._ends:
            self._ends[on] = _End()
            self._actions.append(Dial(on))
        return self._ends[on]

    def _crossed(
        self,
        on: str,
        what: Literal["sent", "got", "hung up", "was closed", "was reset"],
        octets: bytes = b"",
        step: int | None = None,
    ) -> None:
        number = step if step is not None else self._left[0][0] if self._left else len(self.case.steps)
        self._crossings.append(Crossing(self._now - self._began, on, what, octets, number))
