"""What clients asked and what they were told: the rows of a capture, each request with its answer.

Knows nothing of Spark.  Each captured connection is heard again by the server's half of its dialect, and its answers
by the client's half, as capture/reading.py does it; where that cannot be done, rows still say most of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gateway.capture.reading import Answers, Ear, Listeners, cut, following
from gateway.capture.rows import Header, NoCapture, Row
from gateway.conformance.judging import judge
from gateway.dialects import Listener, Refusal, Request
from gateway.pipeline.details import details
from gateway.pipeline.exchange import Exchange, say_answer, say_command

OPEN = 50_000
"""Requests of a connection whose answers are waited for, as many as a capture waits for."""

MISSING = ("gap", "torn", "damaged")
"""What an exchange is that stands for rows which are not there."""


class Wanted(msgspec.Struct, frozen=True):
    """What is to be found out beside what rows say; each costs time.

    content: what commands and answers hold.  details, verdict: those fields of an Exchange.
    """

    content: bool = True
    details: bool = True
    verdict: bool = True


class Exchanges:
    """Makes them of the rows of one process, in the order of the rows; an exchange comes when it is complete.

    share: (i, n) = only of connections whose number is i modulo n.
    """

    def __init__(self, wanted: Wanted = Wanted(), share: tuple[int, int] = (0, 1)) -> None:  # noqa: B008  # frozen
        self._wanted = wanted
        self._share = share
        self._listeners = Listeners()
        self._talks: dict[int, _Talk] = {}

    def take(self, header: Header, row: Row) -> Iterator[Exchange]:
        """Those that the next row completes.  header: of its file."""
        at, of = self._share
        if row.connection % of != at:
            return
        if row.direction in MISSING:
            yield Exchange(row.time, row.connection, row.dialect, row.listener, note=row.note, missing=row.direction)
            return
        talk = self._talks.get(row.connection)
        if talk is None or row.direction == "open":
            talk = self._talks[row.connection] = _Talk(self._made(header, row), self._wanted)
        yield from talk.take(row)
        if row.direction == "close":
            del self._talks[row.connection]

    def rest(self) -> Iterator[Exchange]:
        """What was never answered, when there are no more rows."""
        for talk in self._talks.values():
            yield from talk.rest()
        self._talks.clear()

    def _made(self, header: Header, row: Row) -> Listener | None:
        if not (self._wanted.content or self._wanted.details or self._wanted.verdict):
            return None
        try:
            return self._listeners.make(header, row.listener)
        except NoCapture:  # a dialect or setting that is not known here: what rows say by themselves remains
            return None


class _Talk:
    """One connection."""

    def __init__(self, listener: Listener | None, wanted: Wanted) -> None:
        self._wanted = wanted
        self._peer: str | None = None
        self._open: dict[int, Exchange] = {}
        self._requests: dict[int, Request | Refusal] = {}
        self._ear = None if listener is None else Ear(listener)
        self._answers = None if listener is None else Answers(listener.dialect, listener.terms(""))

    def take(self, row: Row) -> Iterator[Exchange]:
        """What is complete with this row."""
        match row.direction:
            case "open":
                self._peer = row.note
            case "close":
                yield from self.rest()
            case "in":
                yield from self._asked(row)
            case "out" if row.ticket < 0:
                yield self._pushed(row)
            case "out":
                yield self._answered(row)

    def rest(self) -> Iterator[Exchange]:
        """What was never answered."""
        yield from self._open.values()
        self._open.clear()
        self._requests.clear()

    def _asked(self, row: Row) -> Iterator[Exchange]:
        over = row.ticket if row.ticket in self._open else next(iter(self._open)) if len(self._open) >= OPEN else None
        if over is not None:  # a request that gets no answer leaves its ticket to the next one
            self._requests.pop(over, None)
            yield self._open.pop(over)
        made = self._open[row.ticket] = _begun(row, self._peer)
        if self._ear is None:
            return
        request = self._ear.hear(row)
        if request is not None:
            self._requests[row.ticket] = request
            self._look(made, row, request)

    def _look(self, made: Exchange, row: Row, request: Request | Refusal) -> None:
        assert self._ear is not None and self._answers is not None, "it was heard"
        if self._wanted.content and isinstance(request, Request):
            say_command(made, request.command)
        if self._wanted.details and isinstance(request, Request):
            made.details = details(request.command)
        if self._wanted.verdict:
            said = judge(self._answers.dialect, row.frame, request, self._ear.terms)
            made.verdict, made.shape, made.why = said.verdict, said.shape, said.why or None
            if row.note:  # it is not what the client sent
                made.verdict, made.why = "INFO", row.note

    def _answered(self, row: Row) -> Exchange:
        made = self._open.pop(row.ticket, None) or _unasked(row, self._peer)
        made.bytes_out = len(row.frame)
        made.outcome, made.latency, made.principal = row.outcome, row.latency, row.principal or made.principal
        request = self._requests.pop(row.ticket, None)
        if request is not None and self._answers is not None and self._wanted.content:
            for frame in cut(self._answers.dialect, row.frame) or [b""]:
                say_answer(made, request, self._answers.read(request, frame))
        return made

    def _pushed(self, row: Row) -> Exchange:
        """Bytes that answer nothing; records among them belong to a Follow."""
        made = _begun(row, self._peer)
        made.pushed, made.bytes_in, made.bytes_out, made.frame = True, None, len(row.frame), None
        follows = {at: each for at, each in self._open.items() if each.kind == "Follow"}
        if not follows:
            return made
        requests = {at: self._requests[at] for at in follows if at in self._requests}
        if self._answers is not None and self._wanted.content:
            for frame in cut(self._answers.dialect, row.frame):
                request = following(self._answers.dialect, requests.values(), frame)
                if request is not None:
                    _of(made, next(follows[at] for at, each in requests.items() if each is request))
                    say_answer(made, request, self._answers.read(request, frame))
        if not made.kind:
            _of(made, next(iter(follows.values())))
        return made


def _begun(row: Row, peer: str | None) -> Exchange:
    return Exchange(
        row.time,
        row.connection,
        row.dialect,
        row.listener,
        row.ticket,
        peer,
        row.principal,
        row.kind,
        row.namespace,
        row.topic,
        bytes_in=len(row.frame),
        frame=row.frame,
        note=row.note,
    )


def _unasked(row: Row, peer: str | None) -> Exchange:
    """Of an answer whose request came before the capture."""
    made = _begun(row, peer)
    made.time, made.bytes_in, made.frame, made.note = row.time - row.latency, None, None, ""
    return made


def _of(made: Exchange, follow: Exchange) -> None:
    """What was pushed is of this Follow."""
    made.kind, made.ticket, made.namespace, made.topic = follow.kind, follow.ticket, follow.namespace, follow.topic
    made.partition, made.reader = follow.partition, follow.reader
