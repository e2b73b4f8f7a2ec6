"""What crosses one connection, as rows."""

from __future__ import annotations

from collections.abc import Callable

from gateway.capture.gathering import PLAIN, Gathering, NoCommand, about
from gateway.capture.redaction import Kept, Redaction
from gateway.capture.rings import BREACHES
from gateway.core.commands import Authenticate, Session, Topic
from gateway.core.faults import CommandFailed
from gateway.core.replies import Outcome
from gateway.dialects import Refusal, Request
from gateway.dialects.session import Glanced


class CaptureTap:
    """See gateway.dialects.session.BurstTap.  Written for speed: what is usual is appended to a list, and no more.

    gathered: where all connections put what crosses.
    breach:   called after a frame by which the peer broke its protocol.
    seconds:  of the clock that the times of reads are of.
    """

    __slots__ = (
        *("_answers", "_asked", "_breach", "_gathered", "_number", "_principal", "_redaction", "_refusals"),
        *("_requests", "_seconds", "_told", "_turn", "_who"),
    )

    def __init__(
        self,
        who: Session,
        redaction: Redaction,
        gathered: Gathering,
        breach: Callable[[], None],
        seconds: Callable[[], float],
    ) -> None:
        self._who = who
        self._number, self._principal = who.id, who.principal
        self._redaction = redaction
        masks = redaction.masks
        self._requests, self._refusals, self._answers = masks.requests, masks.refusals, masks.answers
        self._gathered = gathered
        self._asked, self._told, self._turn = gathered.asked.extend, gathered.told.extend, gathered.turn
        self._breach = breach
        self._seconds = seconds

    # -- bursts

    def came(self, size: int, now: float) -> None:
        """See Bursts."""
        if self._who.principal is not self._principal:
            self._rename()
        self._turn(size, now)

    def left(self, size: int) -> None:
        """See Bursts."""
        self._turn(size, self._seconds())

    def glanced(self, glanced: Glanced) -> None:
        """See Bursts."""
        self._gathered.glance(self._number, glanced)

    # -- one by one

    def heard(self, ticket: int, frame: bytes, request: Request | Refusal) -> None:
        """See Tap."""
        if type(request) is Request:
            command, mask = request.command, self._requests
            kind = type(command)
            if kind in PLAIN and (mask is None or mask(frame, request) is None):
                self._asked((self._number, ticket, frame, kind, command.topic))  # type: ignore[union-attr]  # PLAIN has
                return
        self._hear(ticket, frame, request)

    def answered(self, ticket: int, request: Request | Refusal, outcome: Outcome, data: bytes) -> None:
        """See Tap."""
        if self._who.principal is not self._principal:
            self._rename()
        if isinstance(outcome, CommandFailed):
            self._fail(ticket, request, outcome, data)
        else:
            self._told((self._number, ticket, data, type(outcome)))

    def said(self, data: bytes) -> None:
        """See Tap."""
        self._told((self._number, -1, data, NoCommand))

    def _hear(self, ticket: int, frame: bytes, request: Request | Refusal) -> None:
        kept: Kept | None = None
        subject: tuple[type, Topic | None] = NoCommand, None
        if isinstance(request, Refusal):
            if self._refusals is not None:
                kept = self._refusals(frame, request)
        else:
            subject = type(request.command), about(request.command)
            if isinstance(request.command, Authenticate):
                kept = self._redaction.login(request)
            elif self._requests is not None:
                kept = self._requests(frame, request)
        if kept is not None:
            frame, note = kept
            self._gathered.note(self._gathered.asked, note)
        self._asked((self._number, ticket, frame, *subject))

    def _fail(self, ticket: int, request: Request | Refusal, failure: CommandFailed, data: bytes) -> None:
        if self._answers is not None and (kept := self._answers(data)) is not None:
            data, note = kept
            self._gathered.note(self._gathered.told, note)
        self._told((self._number, ticket, data, failure.fault.name))
        if type(request) is Refusal and request.failure.fault in BREACHES:
            self._breach()

    def _rename(self) -> None:
        self._principal = self._who.principal
        self._gathered.name(self._number, self._principal or "")
