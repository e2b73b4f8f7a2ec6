"""A look at what crosses connections: a line a frame, as many as a reader keeps up with, and how many he missed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import get_args

from twisted.internet.interfaces import IReactorTime

from gateway.admin import frames
from gateway.admin.shown import encoded, size, span
from gateway.core import commands as q
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed
from gateway.core.replies import Outcome
from gateway.dialects import Refusal, Request

MOST_WAITING = 500
"""Lines that wait for the reader; what comes while there are so many is only counted."""

MOST_OPEN = 4096
"""Commands of one connection of which it is known when they came."""

KINDS = {kind.__name__.lower(): kind.__name__ for kind in get_args(q.Command)}
"""The commands there are, by their names in small letters."""

Wanted = Callable[[Request | Refusal], bool]


def wanted_kind(word: str) -> str | None:
    """The kind of command that a filter names, None if it names none."""
    return KINDS.get(word.lower())


def of_kind(kind: str) -> Wanted:
    """Commands of that kind."""
    return lambda request: frames.kind_of(request) == kind


def of_topic(namespaces: tuple[int | str, ...], names: tuple[int | str, ...]) -> Wanted:
    """Commands about one topic, by whatever it and its namespace may be called."""

    def wanted(request: Request | Refusal) -> bool:
        about = frames.topic_of(request)
        return about is not None and about.name in names and about.namespace in namespaces

    return wanted


def everything(request: Request | Refusal) -> bool:
    """What a look without a filter shows."""
    return True


class Watch:
    """What is seen on all the connections that one reader looks at.

    missed: frames since the last `take` for which there was no room.
    """

    def __init__(
        self, wanted: Wanted, clock: IReactorTime, wall: Callable[[], int], *, pushes: bool, as_json: bool
    ) -> None:
        self.missed = 0
        self.wanted = wanted
        self.clock = clock
        self.pushes = pushes
        self._wall = wall
        self._as_json = as_json
        self._lines: list[str] = []

    @property
    def room(self) -> bool:
        """Whether one more line is kept; if not, the frame is counted as missed."""
        if len(self._lines) < MOST_WAITING:
            return True
        self.missed += 1
        return False

    def tap(self, who: Session) -> SessionTap:
        """What looks at one connection."""
        return SessionTap(self, who)

    def add(self, who: Session, way: str, told: str, took: float | None = None) -> None:
        """One more line.  way: `>` came in, `<` its answer, `!` the fault instead, `*` answers nothing."""
        now = self._wall()
        if self._as_json:
            fields = {"at": now, "session": who.id, "dialect": who.dialect, "way": way, "frame": told}
            self._lines.append(encoded(fields if took is None else {**fields, "seconds": round(took, 6)}))
            return
        at = datetime.fromtimestamp(now / 1e6, UTC).strftime("%H:%M:%S.%f")[:-3]
        self._lines.append(f"{at} {who.id} {way} {told}" + ("" if took is None else f"  ({span(took)})"))

    def take(self) -> list[str]:
        """The lines since the last time, and how many frames are missing behind them."""
        lines, self._lines = self._lines, []
        if self.missed:
            missing = f"{self.missed:,} frames more than could be shown"
            lines.append(encoded({"missed": self.missed}) if self._as_json else f"... {missing}")
            self.missed = 0
        return lines


class SessionTap:
    """The tap on one connection (see Tap).  It makes text at once, and keeps no frame and no record."""

    def __init__(self, watch: Watch, who: Session) -> None:
        self._watch = watch
        self._who = who
        self._came: dict[int, float] = {}

    def heard(self, ticket: int, frame: bytes, request: Request | Refusal) -> None:
        """See Tap."""
        watch = self._watch
        if not watch.wanted(request):
            return
        if len(self._came) >= MOST_OPEN:
            self._came.clear()
        self._came[ticket] = watch.clock.seconds()
        if watch.room:
            watch.add(self._who, ">", f"{frames.asked(request)}  [{size(len(frame))}]")

    def answered(self, ticket: int, request: Request | Refusal, outcome: Outcome, data: bytes) -> None:
        """See Tap."""
        watch = self._watch
        if not watch.wanted(request):
            return
        came = self._came.pop(ticket, None)
        if watch.room:
            took = None if came is None else watch.clock.seconds() - came
            way = "!" if isinstance(outcome, CommandFailed) else "<"
            watch.add(self._who, way, f"{frames.ended(outcome)}  [{size(len(data))}]", took)

    def said(self, data: bytes) -> None:
        """See Tap."""
        if self._watch.pushes and self._watch.room:
            self._watch.add(self._who, "*", f"unasked  [{size(len(data))}]")
