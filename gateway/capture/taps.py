"""What crosses one connection, as rows."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns
from typing import Any, get_args

from gateway.capture.redaction import Kept, Redaction
from gateway.capture.rings import BREACHES
from gateway.capture.rows import Row
from gateway.core.commands import Authenticate, Command, Session
from gateway.core.faults import CommandFailed
from gateway.core.replies import Outcome
from gateway.dialects import Refusal, Request

OPEN = 10_000
"""Requests of a connection whose answers are waited for.  More are those that never get one, such as Cursus batches
without acks to a peer that does not read."""

Heard = tuple[int, str, str, str]
"""When it was heard, ns of a clock that never goes back; the kind of the command, and what it is about."""

UNHEARD: Heard = (0, "", "", "")


class CaptureTap:
    """See gateway.dialects.session.Tap.  Written for speed: to unpack a tuple into the fields of a row takes as long as
    all else there is to a row.

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
            kind, namespace, topic = _SAYS[type(command)](command)
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

    def said(self, data: bytes) -> None:
        """See Tap."""
        place = self._number, self._dialect, self._listener
        self._add(Row(self._wall() // 1000, *place, "out", data, principal=self._who.principal or ""))


# -- what a command is about

Says = Callable[[Any], tuple[str, str, str]]


def _topic(kind: str) -> Says:
    def says(command: Any) -> tuple[str, str, str]:
        topic = command.topic
        namespace, name = topic.namespace, topic.name
        if type(namespace) is not str or type(name) is not str:
            return kind, _named(namespace), _named(name)
        return kind, namespace, name

    return says


def _namespace(kind: str) -> Says:
    def says(command: Any) -> tuple[str, str, str]:
        return kind, _named(command.namespace), ""

    return says


def _topics(kind: str) -> Says:
    """Of a namespace, or of one of its topics."""

    def says(command: Any) -> tuple[str, str, str]:
        return kind, _named(command.namespace), "" if command.topic is None else _named(command.topic)

    return says


def _says(kind: type) -> Says:
    fields, name = getattr(kind, "__struct_fields__", ()), kind.__name__
    if {"namespace", "topic"} <= set(fields):
        return _topics(name)
    if "topic" in fields:
        return _topic(name)
    if "namespace" in fields:
        return _namespace(name)
    return lambda command: (name, "", "")


def _named(reference: int | str) -> str:
    return reference if isinstance(reference, str) else f"#{reference}"


_SAYS: dict[type, Says] = {kind: _says(kind) for kind in get_args(Command)}
