"""What stands in a file instead of rows: sheets, of some hundreds of rows each, column by column.

A row of fourteen fields for each frame costs the reactor more than small requests do.  In a sheet whatever many rows
have in common is said once, a time once for all that came in one read or left in one write, and what an answer shares
with its request only with the request.  `rows` makes the rows of it again.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gateway.capture.row import Direction, Row

NOTHING = 0
"""The number of the word that is none, and of the topic that is none."""


class Who(msgspec.Struct, frozen=True, array_like=True):
    """A connection of which there are rows.  principal: before the first turn."""

    connection: int
    dialect: str
    listener: str
    principal: str = ""


class Turns(msgspec.Struct, frozen=True, array_like=True):
    """When things happened: one after the other, each with some requests and then some answers.

    times: us after `began`, one more than turns: requests were heard when their turn began, and answers were on their
           way when it ended.
    asked, told: how many of each there are in each turn.
    """

    times: list[int]
    asked: list[int]
    told: list[int]


class Asked(msgspec.Struct, frozen=True, array_like=True):
    """Requests.  kinds, topics: numbers in the sheet's `words` and `topics`."""

    connections: list[int]
    tickets: list[int]
    kinds: list[int]
    topics: list[int]
    frames: list[bytes]


class Earlier(msgspec.Struct, frozen=True, array_like=True):
    """Requests of earlier sheets that are answered in this one.  times: us after `began`, that is to say negative."""

    connections: list[int]
    tickets: list[int]
    kinds: list[int]
    topics: list[int]
    times: list[int]


class Told(msgspec.Struct, frozen=True, array_like=True):
    """Answers, and what is said without being asked.

    outcomes: numbers in `words`.
    of:       for each the request that it answers, by its place among those in `earlier` and, behind them, in `asked`;
              -1 = it is none of them.  Empty: the first answers the first, and so on.
    others:   for each -1 its place in `frames`, its connection, and its ticket.
    """

    frames: list[bytes]
    outcomes: list[int]
    of: list[int]
    others: list[tuple[int, int, int]]


class Glance(msgspec.Struct, frozen=True, array_like=True):
    """Small reads that came in one read of the socket and were answered at once, at the beginning of a turn.

    ticket: of the first; the next has the next.  topics: from which of them on it is which topic, by number.
    """

    turn: int
    connection: int
    ticket: int
    kind: int
    outcome: int
    asked: list[bytes]
    told: list[bytes]
    topics: list[tuple[int, int]]


class Sheet(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """began: us since the epoch.  words, topics: the first of each is empty; topics are namespace and name.

    rows:  what is no request and no answer, or was a row before, as the turn begins that stands before it.
    named: a turn, a connection, and who its client is known to be from then on.
    notes: whether it is of `told`, not of `asked`; the place there; what was done to the frame.
    """

    began: int
    who: list[Who]
    words: list[str]
    topics: list[tuple[str, str]]
    turns: Turns
    earlier: Earlier = Earlier([], [], [], [], [])
    asked: Asked = Asked([], [], [], [], [])
    told: Told = Told([], [], [], [])
    glances: list[Glance] = []
    rows: list[tuple[int, Row]] = []
    named: list[tuple[int, int, str]] = []
    notes: list[tuple[bool, int, str]] = []


def sheet_of(rows: list[Row]) -> Sheet:
    """Of rows that were made one by one."""
    placed = [(0, row) for row in rows]
    turns = Turns([0, 0], [0], [0])
    return Sheet(began=rows[0].time, who=[], words=[""], topics=[("", "")], turns=turns, rows=placed)


Request = tuple[int, int, int, int, int]
"""Connection, ticket, kind, topic, when it was heard: the last in us after `began`, the two before as numbers."""


def requests(sheet: Sheet) -> int:
    """How many there are in it."""
    return len(sheet.asked.tickets) + sum(len(glance.asked) for glance in sheet.glances)


class Unfolding:
    """One sheet on its way to being rows.  Raises LookupError if it is not consistent."""

    def __init__(self, sheet: Sheet) -> None:
        earlier, told = sheet.earlier, sheet.told
        self._sheet = sheet
        self._who = {each.connection: each for each in sheet.who}
        self._principals = {each.connection: each.principal for each in sheet.who}
        self._notes = {(is_told, at): note for is_told, at, note in sheet.notes}
        self._others = {at: (connection, ticket) for at, connection, ticket in told.others}
        columns = earlier.connections, earlier.tickets, earlier.kinds, earlier.topics, earlier.times
        self._requests: list[Request] = list(zip(*columns, strict=True))
        self._before = len(self._requests)
        self._done = 0

    def rows(self) -> Iterator[Row]:
        """All of them, in order."""
        sheet = self._sheet
        named, rows, glances = sheet.named[::-1], sheet.rows[::-1], sheet.glances[::-1]
        for turn, (asked, told) in enumerate(zip(sheet.turns.asked, sheet.turns.told, strict=True)):
            while named and named[-1][0] == turn:
                _, connection, self._principals[connection] = named.pop()
            while rows and rows[-1][0] == turn:
                yield rows.pop()[1]
            began, ended = sheet.turns.times[turn], sheet.turns.times[turn + 1]
            while glances and glances[-1].turn == turn:
                yield from self._glance(glances.pop(), began, ended)
            for _ in range(asked):
                yield self._hear(began)
            for _ in range(told):
                yield self._tell(ended)

    def _hear(self, now: int) -> Row:
        asked, at = self._sheet.asked, len(self._requests) - self._before
        request = asked.connections[at], asked.tickets[at], asked.kinds[at], asked.topics[at], now
        self._requests.append(request)
        return self._in(request, asked.frames[at], self._notes.get((False, at), ""))

    def _tell(self, now: int) -> Row:
        told, at = self._sheet.told, self._done
        self._done += 1
        of = told.of[at] if told.of else at
        request = self._requests[of] if of >= 0 else (*self._others[at], NOTHING, NOTHING, now)
        return self._out(request, now, told.frames[at], told.outcomes[at], self._notes.get((True, at), ""))

    def _glance(self, glance: Glance, began: int, ended: int) -> Iterator[Row]:
        starts = [*(start for start, _ in glance.topics[1:]), len(glance.asked)]
        topics = [topic for (first, topic), end in zip(glance.topics, starts, strict=True) for _ in range(first, end)]
        requests = [
            (glance.connection, glance.ticket + at, glance.kind, topic, began) for at, topic in enumerate(topics)
        ]
        for request, frame in zip(requests, glance.asked, strict=True):
            yield self._in(request, frame)
        for request, frame in zip(requests, glance.told, strict=True):
            yield self._out(request, ended, frame, glance.outcome)

    def _in(self, request: Request, frame: bytes, note: str = "") -> Row:
        return self._row(request, "in", request[4], frame, note=note)

    def _out(self, request: Request, now: int, frame: bytes, outcome: int, note: str = "") -> Row:
        return self._row(request, "out", now, frame, self._sheet.words[outcome], max(0, now - request[4]), note)

    def _row(
        self,
        request: Request,
        direction: Direction,
        now: int,
        frame: bytes,
        outcome: str = "",
        latency: int = 0,
        note: str = "",
    ) -> Row:
        sheet, (connection, ticket, kind, topic, _) = self._sheet, request
        who = self._who[connection]
        return Row(
            sheet.began + now,
            connection,
            who.dialect,
            who.listener,
            direction,
            frame,
            ticket,
            sheet.words[kind],
            *sheet.topics[topic],
            outcome,
            latency,
            self._principals[connection],
            note,
        )
