"""What crosses one connection as rows, of which the last are kept: see rings."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns

from gateway.capture.gathering import named, place_of
from gateway.capture.redaction import Kept, Redaction
from gateway.capture.rings import BREACHES
from gateway.capture.row import Row
from gateway.core.commands import Authenticate, Session
from gateway.core.faults import CommandFailed
from gateway.core.replies import Outcome
from gateway.dialects import Refusal, Request
from gateway.dialects.session import Glanced

OPEN = 10_000
"""Requests of a connection whose answers are waited for.  More are those that never get one, such as Cursus batches
without acks to a peer that does not read."""

LAST = 16
"""Of small reads that came together.  A ring has not room for many more."""

Heard = tuple[int, str, str, str]
"""When it was heard, ns of a clock that never goes back; the kind of the command, and what it is about."""

UNHEARD: Heard = (0, "", "", "")


class RingTap:
    """See gateway.dialects.session.Tap: a row for every frame, at once, since most of them are soon forgotten.

    To unpack a tuple into the fields of a row takes as long as all else there is to a row.

    add:    takes every row.
    breach: called after the row of a frame by which the peer broke its protocol.
    wall:   ns since the epoch.
    """

    __slots__ = (
        *("_add", "_answers", "_breach", "_dialect", "_listener", "_number", "_open", "_redaction", "_refusals"),
        *("_requests", "_wall", "_who"),
    )

    def __init__(
        self,
        who: Session,
        redaction: Redaction,
        add: Callable[[Row], None],
        breach: Callable[[], None],
        wall: Callable[[], int],
    ) -> None:
        self._who = who
        self._number, self._dialect, self._listener = who.id, who.dialect, who.listener
        self._redaction = redaction
        masks = redaction.masks
        self._requests, self._refusals, self._answers = masks.requests, masks.refusals, masks.answers
        self._add = add
        self._breach = breach
        self._wall = wall
        self._open: dict[int, Heard] = {}

    def heard(self, ticket: int, frame: bytes, request: Request | Refusal) -> None:
        """See Tap."""
        kept: Kept | None = None
        if type(request) is Request:
            command = request.command
            if type(command) is Authenticate:
                kept = self._redaction.login(request)
            elif self._requests is not None:
                kept = self._requests(frame, request)
            kind, (namespace, topic) = type(command).__name__, place_of(command)
        else:
            kind = namespace = topic = ""
            if self._refusals is not None:
                kept = self._refusals(frame, request)
        note = ""
        if kept is not None:
            frame, note = kept
        open_ = self._open
        if len(open_) == OPEN:
            del open_[next(iter(open_))]
        open_[ticket] = (monotonic_ns(), kind, namespace, topic)
        self._add(
            Row(
                self._wall() // 1000,
                self._number,
                self._dialect,
                self._listener,
                "in",
                frame,
                ticket,
                kind,
                namespace,
                topic,
                "",
                0,
                self._who.principal or "",
                note,
            )
        )

    def answered(self, ticket: int, request: Request | Refusal, outcome: Outcome, data: bytes) -> None:
        """See Tap."""
        began, kind, namespace, topic = self._open.pop(ticket, UNHEARD)
        latency = (monotonic_ns() - began) // 1000 if began else 0
        note = ""
        if isinstance(outcome, CommandFailed):
            said = outcome.fault.name
            if self._answers is not None and (kept := self._answers(data)) is not None:
                data, note = kept
        else:
            said = type(outcome).__name__
        self._add(
            Row(
                self._wall() // 1000,
                self._number,
                self._dialect,
                self._listener,
                "out",
                data,
                ticket,
                kind,
                namespace,
                topic,
                said,
                latency,
                self._who.principal or "",
                note,
            )
        )
        if type(request) is Refusal and request.failure.fault in BREACHES:
            self._breach()

    def came(self, size: int, now: float) -> None:
        """See Bursts."""

    def left(self, size: int) -> None:
        """See Bursts."""

    def glanced(self, glanced: Glanced) -> None:
        """See Bursts."""
        count = len(glanced.told)
        place, now = (self._number, self._dialect, self._listener), self._wall() // 1000
        who, kind = self._who.principal or "", glanced.kind.__name__
        starts = {at: named(topic) for at, topic in glanced.topics}
        for at in range(max(0, count - LAST), count):
            ticket, where = glanced.ticket + at, starts[max(start for start in starts if start <= at)]
            self._add(Row(now, *place, "in", glanced.asked[at], ticket, kind, *where, principal=who))
            outcome = glanced.reply.__name__
            self._add(Row(now, *place, "out", glanced.told[at], ticket, kind, *where, outcome, principal=who))

    def said(self, data: bytes) -> None:
        """See Tap."""
        place = self._number, self._dialect, self._listener
        self._add(Row(self._wall() // 1000, *place, "out", data, principal=self._who.principal or ""))
