"""What crossed is the same rows again, however it was laid out in columns on the way."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from gateway.capture.gathering import OPEN, Gathering, NoCommand, about
from gateway.capture.row import Row
from gateway.capture.sheets import Sheet, Unfolding, requests, sheet_of
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Session
from gateway.dialects.session import Glanced

WALL = 1_700_000_000_000_000
COMMANDS: list[Any] = [
    q.MapGet(q.Topic("default", "one"), b"k"),
    q.MapSize(q.Topic("other", 7)),
    q.Ping(),
    q.ListTopics("shop"),
    q.ListGroups("shop", "orders"),
    q.ListGroups(3),
    None,
]
ABOUT = [("default", "one"), ("other", "#7"), ("", ""), ("shop", ""), ("shop", "orders"), ("#3", ""), ("", "")]
NAMES = ["MapGet", "MapSize", "Ping", "ListTopics", "ListGroups", "ListGroups", ""]


class Told:
    """Appends to a Gathering, and knows what rows that has to become.  Times are whole milliseconds."""

    def __init__(self) -> None:
        self.now = 0
        self.expected: list[Row] = []
        self.found: list[Row] = []
        self.gathered = Gathering(lambda: WALL * 1000 + self.now * 1_000_000, 0.0, 1 << 30, lambda now: None)
        self.principals: dict[int, str] = {}
        self.tickets: dict[int, int] = {}
        self.open: dict[tuple[int, int], tuple[int, int]] = {}
        self.untimed: list[tuple[int, int]] = []

    def connect(self, number: int) -> None:
        self.gathered.enter(Session(number, "grid", listener="lines", peer="h:1"))
        self.principals[number] = ""
        self.tickets[number] = 0
        self._expect(self._add(number, "open", note="h:1"))

    def leave(self, number: int) -> None:
        self._expect(self._add(number, "close"))
        self.gathered.leave(number)
        del self.principals[number]
        self.open = {key: value for key, value in self.open.items() if key[0] != number}

    def _add(self, number: int, direction: Any, note: str = "") -> Row:
        row = Row(WALL + self.now * 1000, number, "grid", "lines", direction, note=note)
        self.gathered.add(row, self.now / 1000)
        return row

    def came(self, after: int) -> None:
        self.now += after
        self.gathered.turn(10, self.now / 1000)

    def left(self, after: int) -> None:
        """What was told since the last turn began is on its way now."""
        self.now += after
        self._settle()
        self.gathered.turn(10, self.now / 1000)

    def _settle(self) -> None:
        for at, heard in self.untimed:
            latency = 0 if heard < 0 else (self.now - heard) * 1000
            self.expected[at] = msgspec.structs.replace(self.expected[at], time=WALL + self.now * 1000, latency=latency)
        self.untimed.clear()

    def hear(self, number: int, which: int, note: str = "") -> None:
        ticket, frame = self.tickets[number], b"ask %d" % which
        self.tickets[number] += 1
        if note:
            self.gathered.note(self.gathered.asked, note)
        command = COMMANDS[which]
        kind = NoCommand if command is None else type(command)
        self.gathered.asked.extend((number, ticket, frame, kind, about(command)))
        self.open[number, ticket] = which, self.now
        self._expect(self._row(number, "in", frame, ticket, which, note=note))

    def tell(self, number: int, ticket: int, outcome: Any = r.Done, note: str = "") -> None:
        which, heard = self.open.pop((number, ticket), (None, -1))
        if note:
            self.gathered.note(self.gathered.told, note)
        self.gathered.told.extend((number, ticket, b"answer", outcome))
        said = "" if outcome is NoCommand else outcome if isinstance(outcome, str) else outcome.__name__
        self.untimed.append((len(self.expected), heard))
        self._expect(self._row(number, "out", b"answer", ticket, which, said, note))

    def glance(self, number: int, topics: list[tuple[int, str]], count: int) -> None:
        first = self.tickets[number]
        self.tickets[number] += count
        asked, told = [b"get %d" % at for at in range(count)], [b"value %d" % at for at in range(count)]
        named = [(at, q.Topic("default", name)) for at, name in topics]
        self.gathered.glance(number, Glanced(first, q.MapGet, r.MapValue, asked, told, named))
        about = [next(name for start, name in reversed(topics) if start <= at) for at in range(count)]
        for at in range(count):
            row = self._row(number, "in", asked[at], first + at, 0)
            self._expect(msgspec.structs.replace(row, topic=about[at]))
        for at in range(count):
            row = self._row(number, "out", told[at], first + at, 0, "MapValue")
            self.untimed.append((len(self.expected), self.now))
            self._expect(msgspec.structs.replace(row, topic=about[at]))

    def name(self, number: int, principal: str) -> None:
        self.principals[number] = principal
        self.gathered.name(number, principal)

    def sheet(self) -> Sheet:
        self._settle()
        encoded = msgspec.msgpack.encode(self.gathered.sheet(self.now / 1000))
        sheet = msgspec.msgpack.decode(encoded, type=Sheet)
        self.found += Unfolding(sheet).rows()
        return sheet

    def _expect(self, row: Row) -> None:
        self.expected.append(row)

    def _row(
        self,
        number: int,
        direction: Any,
        frame: bytes,
        ticket: int,
        which: int | None,
        outcome: str = "",
        note: str = "",
    ) -> Row:
        kind, about = ("", ("", "")) if which is None else (NAMES[which], ABOUT[which])
        place = number, "grid", "lines", direction, frame, ticket, kind, *about, outcome, 0
        return Row(WALL + self.now * 1000, *place, self.principals[number], note)


def test_requests_and_answers_in_order_say_nothing_twice() -> None:
    told = Told()
    told.connect(1)
    for _ in range(3):
        told.came(5)
        for _ in range(10):
            told.hear(1, 0)
        for ticket in range(told.tickets[1] - 10, told.tickets[1]):
            told.tell(1, ticket, r.MapValue)
        told.left(7)
    sheet = told.sheet()
    assert told.found == told.expected
    assert (sheet.told.of, sheet.told.others, sheet.earlier.tickets) == ([], [], [])
    assert sheet.topics == [("", ""), ("default", "one")]
    assert requests(sheet) == 30
    assert {row.latency for row in told.found if row.direction == "out"} == {7000}


def test_an_answer_in_a_later_sheet_knows_its_request() -> None:
    told = Told()
    told.connect(1)
    told.came(1)
    for which in range(len(COMMANDS)):
        told.hear(1, which)
    told.left(1)
    told.sheet()
    told.came(1000)
    told.hear(1, 0)
    for ticket in (0, 1, 2):
        told.tell(1, ticket)
    told.left(1)
    told.sheet()
    for ticket in (6, 3, 7, 4, 5):
        told.tell(1, ticket, "NO_SUCH_TOPIC")
    told.left(3)
    told.sheet()
    assert told.found == told.expected


def test_what_nobody_was_heard_to_ask_is_there_without_its_request() -> None:
    told = Told()
    told.connect(1)
    told.came(1)
    told.tell(1, 4711)
    told.hear(1, 1)
    told.tell(1, -1, NoCommand)
    told.tell(1, 0)
    told.left(1)
    told.sheet()
    # the request came first in its turn, as all requests do
    assert sorted(told.found, key=repr) == sorted(told.expected, key=repr)
    assert [row.ticket for row in told.found if row.direction == "out"] == [4711, -1, 0]


def test_glances_are_rows_of_their_turn() -> None:
    told = Told()
    told.connect(1)
    told.connect(2)
    for number in (1, 2, 1):
        told.came(2)
        told.glance(number, [(0, "one"), (3, "two")], 5)
        told.hear(number, 3)
        told.tell(number, told.tickets[number] - 1, r.Topics)
        told.left(2)
    sheet = told.sheet()
    assert told.found == sorted(told.expected, key=told.expected.index)
    assert requests(sheet) == 18


def test_who_logs_in_is_that_from_then_on() -> None:
    told = Told()
    told.connect(1)
    told.came(1)
    told.hear(1, 2)
    told.name(1, "ann")
    told.tell(1, 0, r.Authenticated)
    told.left(1)
    told.sheet()
    told.came(1)
    told.hear(1, 2)
    told.tell(1, 1)
    told.left(1)
    told.sheet()
    assert told.found == told.expected
    assert [row.principal for row in told.found] == ["", "", "ann", "ann", "ann"]


@pytest.mark.parametrize("seed", range(30))
def test_anything_in_any_order_comes_back(seed: int) -> None:
    """One turn has either requests or answers here: within one, requests come first."""
    chance, told = random.Random(seed), Told()
    for _ in range(300):
        there = list(told.principals)
        match chance.choice(["connect", "leave", "hear", "hear", "tell", "tell", "say", "glance", "name", "sheet"]):
            case "connect" if len(there) < 5:
                told.connect(len(told.tickets) + 1)
            case "leave" if there:
                told.leave(chance.choice(there))
            case "hear" if there:
                number = chance.choice(there)
                told.came(chance.randrange(5))
                for _ in range(chance.randrange(6)):
                    told.hear(number, chance.randrange(len(COMMANDS)), chance.choice(["", "", "masked"]))
                told.left(0)
            case "tell" if told.open:
                keys = list(told.open)
                if chance.random() < 0.5:
                    chance.shuffle(keys)
                for number, ticket in keys[: chance.randrange(9)]:
                    told.tell(number, ticket, chance.choice([r.Done, "BUSY"]), chance.choice(["", "", "masked"]))
                told.left(chance.randrange(5))
            case "say" if there:
                told.tell(chance.choice(there), -1, NoCommand)
                told.left(1)
            case "glance" if there:
                told.came(1)
                told.glance(chance.choice(there), [(0, "a")], chance.randrange(1, 4))
                told.left(1)
            case "name" if there:
                told.name(chance.choice(there), chance.choice(["ann", "", "bob"]))
            case "sheet":
                told.sheet()
    told.sheet()
    assert told.found == told.expected


def test_requests_that_are_never_answered_are_forgotten() -> None:
    told = Told()
    told.connect(1)
    for _ in range(3):
        command = COMMANDS[0]
        told.gathered.asked.extend(each for at in range(OPEN) for each in (1, at, b"", type(command), command.topic))
        told.gathered.sheet(1.0)
    assert len(told.gathered._open.tickets) == OPEN


def test_rows_made_one_by_one_come_back() -> None:
    rows = [Row(at, 1, "pipe", "lines", "in", b"%d" % at, at) for at in range(5)]
    assert list(Unfolding(sheet_of(rows)).rows()) == rows
