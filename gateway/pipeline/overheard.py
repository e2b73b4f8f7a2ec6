"""What came of the cases of clients on each captured connection: the rows of a capture, judged.

Knows nothing of Spark.  A connection is heard again by the server's half of its dialect, as for commands.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gateway.capture.reading import Ear, Listeners
from gateway.capture.rows import Header, NoCapture, Row
from gateway.conformance.attempts import Finding
from gateway.conformance.openings import Openings
from gateway.conformance.overhearing import Overhearing
from gateway.conformance.scripts import scripts
from gateway.dialects import Listener
from gateway.pipeline.exchanges import MISSING


class Judged(msgspec.Struct):
    """A case with one verdict, on one connection.

    time:  us since the epoch, when that was first so.
    peer:  the client's address, None = the connection was there before.  principal: who it is known to be at last.
    times: how often.
    why, frame: of the shortest request that shows it.
    missing, note: as of an Exchange; nothing of a case then.
    """

    time: int
    connection: int
    dialect: str
    listener: str
    peer: str | None = None
    principal: str = ""
    case: str = ""
    verdict: str | None = None
    times: int = 0
    why: str | None = None
    frame: bytes | None = None
    missing: str | None = None
    note: str = ""


class Overheard:
    """Judges the rows of one process, in their order; what came of a connection comes when it is gone.

    share: (i, n) = only connections whose number is i modulo n, and what is missing with i = 0.
    """

    def __init__(self, share: tuple[int, int] = (0, 1)) -> None:
        self._share = share
        self._listeners = Listeners()
        self._openings: dict[Listener, Openings] = {}
        self._talks: dict[int, _Talk] = {}

    def take(self, header: Header, row: Row) -> Iterator[Judged]:
        """What is complete with the next row.  header: of its file."""
        at, of = self._share
        if row.direction in MISSING:
            for talk in self._talks.values():
                talk.lost(row.time)
            if at == 0:
                yield Judged(row.time, row.connection, row.dialect, row.listener, missing=row.direction, note=row.note)
            return
        if row.connection % of != at:
            return
        talk = self._talk(header, row)
        talk.take(row)
        if row.direction == "close":
            yield from self._talks.pop(row.connection).found()

    def rest(self) -> Iterator[Judged]:
        """What came of connections that are still there when there are no more rows."""
        for talk in self._talks.values():
            yield from talk.found()
        self._talks.clear()

    def _talk(self, header: Header, row: Row) -> _Talk:
        talk = self._talks.get(row.connection)
        if talk is None or row.direction == "open":
            talk = self._talks[row.connection] = _Talk(self._made(header, row), self._openings, row)
        return talk

    def _made(self, header: Header, row: Row) -> Listener | None:
        try:
            made = self._listeners.make(header, row.listener)
        except NoCapture:  # a dialect or setting that is not known here has no cases here
            return None
        if made not in self._openings:
            self._openings[made] = Openings(scripts(made))
        return made


class _Talk:
    """One connection."""

    def __init__(self, listener: Listener | None, known: dict[Listener, Openings], row: Row) -> None:
        self._found: dict[tuple[str, str], Judged] = {}
        self._peer = row.note if row.direction == "open" else None
        self._principal = ""
        self._ear = None if listener is None else Ear(listener)
        self._hearing: Overhearing | None = None
        if listener is not None and known[listener].scripts:
            self._hearing = Overhearing(listener.dialect, known[listener], whole=row.direction == "open")

    def take(self, row: Row) -> None:
        """The next row of it."""
        hearing, self._principal = self._hearing, row.principal or self._principal
        if hearing is None:
            return
        match row.direction:
            case "in":
                self._asked(hearing, row)
            case "out" if row.ticket >= 0:
                hearing.answered(row.ticket, row.time, row.frame)
            case "close":
                hearing.ended(row.time)
        for finding in hearing.take():
            self._count(row, finding)

    def found(self) -> Iterator[Judged]:
        """What came of it."""
        for judged in self._found.values():
            judged.principal = self._principal
            yield judged

    def lost(self, time: int) -> None:
        """Rows are missing."""
        if self._hearing is not None:
            self._hearing.ended(time)

    def _asked(self, hearing: Overhearing, row: Row) -> None:
        assert self._ear is not None, "who is judged is heard"
        request = self._ear.hear(row)
        if request is None or row.note:
            hearing.altered(row.ticket, row.time, row.kind)
        else:
            hearing.heard(row.ticket, row.time, row.frame, request, self._ear.terms)

    def _count(self, row: Row, finding: Finding) -> None:
        key = finding.case, finding.verdict
        made = self._found.get(key)
        if made is None:
            made = self._found[key] = Judged(row.time, row.connection, row.dialect, row.listener, self._peer)
            made.case, made.verdict = key
        made.times += 1
        if made.frame is None or len(finding.frame) < len(made.frame):
            made.frame, made.why = finding.frame, finding.why or None
