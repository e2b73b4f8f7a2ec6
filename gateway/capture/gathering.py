"""What crossed, on its way to becoming a sheet: lists that the reactor appends to, and what is made of them at once.

All of this is done for every frame, or for every few hundred of them, in the reactor.  What is done column by column
costs a fifth of what a loop over the rows would, and is done while the frames are still in the processor's cache: a
thread would come to them later, and hold the same lock while it works.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import pairwise
from typing import Any, get_args

from gateway.capture.row import Row
from gateway.capture.sheets import NOTHING, Asked, Earlier, Glance, Sheet, Told, Turns, Who
from gateway.core.commands import Command, Session, Topic
from gateway.dialects.session import Glanced

OPEN = 50_000
"""Requests whose answers are waited for.  More are those that never get one, such as Cursus batches without acks to a
peer that does not read."""

TURN = 64
"""Bytes that a turn counts for, beside what came or left."""


ASKED, TOLD = 5, 4
"""Values to a row in the lists of what was asked and told."""


class NoCommand:
    """Stands for the kind of a command, or of a reply, where there is none."""


class Numbers(dict[Any, int]):
    """Numbers what it is asked for, from NOTHING on."""

    def __missing__(self, key: Hashable) -> int:
        self[key] = number = len(self)
        return number


Requests = tuple[list[int], list[int], list[type], list[Topic | None]]
"""Columns: connections, tickets, kinds, topics."""


class Open:
    """Requests that are not answered yet, oldest first, column by column."""

    def __init__(self) -> None:
        self.connections: list[int] = []
        self.tickets: list[int] = []
        self.kinds: list[type] = []
        self.topics: list[Topic | None] = []
        self.times: list[float] = []

    def add(self, asked: Requests, times: list[float]) -> None:
        """More of them: the last of those that were asked, as many as there are times."""
        more: tuple[list[Any], ...] = (*asked, times)
        for column, added in zip(self.columns(), more, strict=True):
            column += added[len(added) - len(times) :]

    def keep(self, places: list[int]) -> None:
        """These alone."""
        for column in self.columns():
            column[:] = [column[place] for place in places[-OPEN:]]

    def forget(self, first: int) -> None:
        """So many of the oldest; and those beyond OPEN."""
        first = max(first, len(self.tickets) - OPEN)
        for column in self.columns():
            del column[:first]

    def columns(self) -> tuple[list[Any], ...]:
        """As they stand in a sheet."""
        return self.connections, self.tickets, self.kinds, self.topics, self.times


class Gathering:
    """Made and fed in the reactor's thread.

    asked:  flat: connection, ticket, frame, type of the command or NoCommand, what it is about.
    told:   flat: connection, ticket, frame, type of the reply or name of the fault; NoCommand where nothing was asked.
    weight: bytes that came and left; above `most` of them `full` is called, with the time.
    """

    def __init__(self, wall: Callable[[], int], now: float, most: int, full: Callable[[float], None]) -> None:
        self.asked: list[Any] = []
        self.told: list[Any] = []
        self.weight = 0
        self._most = most
        self._full = full
        self._wall = wall
        self._turns: list[Any] = [now, 0, 0]
        self._people: dict[int, Who] = {}
        self._open = Open()
        self._glances: list[tuple[int, int, Glanced]] = []
        self._rows: list[tuple[int, Row]] = []
        self._named: list[tuple[int, int, str]] = []
        self._notes: list[tuple[bool, int, str]] = []
        self._left: list[int] = []

    @property
    def rows(self) -> int:
        """How many there are since the last sheet."""
        glanced = sum(len(each.told) for _, _, each in self._glances)
        return len(self.asked) // ASKED + len(self.told) // TOLD + 2 * glanced + len(self._rows)

    # -- who there is

    def enter(self, who: Session) -> None:
        """A connection of which frames are to come."""
        self._people[who.id] = Who(who.id, who.dialect, who.listener, who.principal or "")

    def name(self, connection: int, principal: str) -> None:
        """Its client is known to be that from now on."""
        self._named.append((self._begin(behind=True), connection, principal))

    def leave(self, connection: int) -> None:
        """It is gone."""
        self._left.append(connection)

    # -- what happens, beside what is appended to the lists

    def turn(self, size: int, now: float) -> None:
        """So many bytes came in, of which something may be heard now; or are on their way."""
        self._turns += now, len(self.asked), len(self.told)
        self.weight += size + TURN
        if self.weight > self._most:
            self._full(now)

    def add(self, row: Row, now: float) -> None:
        """Something that is no frame."""
        self._rows.append((self._begin(behind=True), row))
        self.weight += TURN + len(row.frame)
        if self.weight > self._most:
            self._full(now)

    def glance(self, connection: int, glanced: Glanced) -> None:
        """Small reads that came and were answered."""
        self._glances.append((self._begin(), connection, glanced))

    def note(self, frames: list[Any], note: str) -> None:
        """Of the next frame that is appended to that list, `asked` or `told`."""
        told = frames is self.told
        self._notes.append((told, len(frames) // (TOLD if told else ASKED), note))

    def _begin(self, *, behind: bool = False) -> int:
        """The number of the turn that begins here: the last one, or a new one if that has begun.

        behind: that glances of the last one come before.
        """
        turns = self._turns
        begun = turns[-2] != len(self.asked) or turns[-1] != len(self.told)
        if begun or (behind and self._glances and self._glances[-1][0] == len(turns) // 3 - 1):
            turns += turns[-3], len(self.asked), len(self.told)
        return len(turns) // 3 - 1

    # -- what becomes of it

    def sheet(self, now: float) -> Sheet:
        """All since the last one."""
        words, topics = Numbers({NoCommand: NOTHING}), Numbers({None: NOTHING})
        turns, began = self._take_turns(now)
        connections, tickets, frames, kinds, about = (self.asked[at::ASKED] for at in range(ASKED))
        others, numbers, answers, outcomes = (self.told[at::TOLD] for at in range(TOLD))
        answered = _Answered(self._open, (connections, tickets, kinds, about), others, numbers)
        word, place = words.__getitem__, topics.__getitem__
        sheet = Sheet(
            began=self._wall() // 1000 - turns.times[-1],
            who=[self._people[each] for each in sorted(self._present(connections, others))],
            words=[],
            topics=[],
            turns=turns,
            earlier=answered.earlier(words, topics, began),
            asked=Asked(connections, tickets, list(map(word, kinds)), list(map(place, about)), frames),
            told=Told(answers, list(map(word, outcomes)), answered.of, answered.others),
            glances=[_numbered(*each, words, topics) for each in self._glances],
            rows=self._rows,
            named=self._named,
            notes=self._notes,
        )
        sheet.words.extend(map(_word, words))
        sheet.topics.extend(map(named, topics))
        answered.leave(turns, began)
        self._clear(now)
        return sheet

    def _take_turns(self, now: float) -> tuple[Turns, float]:
        """And when the first began, s."""
        turns = [*self._turns, now, len(self.asked), len(self.told)]
        began = turns[0]
        times = [round((time - began) * 1e6) for time in turns[0::3]]
        asked = [(then - before) // ASKED for before, then in pairwise(turns[1::3])]
        told = [(then - before) // TOLD for before, then in pairwise(turns[2::3])]
        return Turns(times, asked, told), began

    def _present(self, connections: list[int], answered: list[int]) -> set[int]:
        return {*connections, *answered, *(connection for _, connection, _ in self._glances)}

    def _clear(self, now: float) -> None:
        """Begin anew.  The two lists stay the same objects: whoever appends to them knows them."""
        self.asked.clear()
        self.told.clear()
        self.weight = 0
        self._turns = [now, 0, 0]
        for _, connection, principal in self._named:
            who = self._people[connection]
            self._people[connection] = Who(connection, who.dialect, who.listener, principal)
        for connection in self._left:
            self._people.pop(connection, None)
        if self._left:
            gone = set(self._left)
            self._open.keep([at for at, each in enumerate(self._open.connections) if each not in gone])
        self._glances, self._rows, self._named, self._notes, self._left = [], [], [], [], []


class _Answered:
    """Which requests the answers of a sheet belong to.

    of, others: see Told.
    """

    def __init__(
        self,
        before: Open,
        asked: Requests,
        connections: list[int],
        tickets: list[int],
    ) -> None:
        self.of: list[int] = []
        self.others: list[tuple[int, int, int]] = []
        self._open = before
        self._asked = asked
        self._before = len(before.tickets)
        self._first = len(tickets)
        self._in_order = True
        waiting = before.connections + asked[0], before.tickets + asked[1]
        if (waiting[0][: len(tickets)], waiting[1][: len(tickets)]) != (connections, tickets):
            self._look_up(waiting, connections, tickets)

    def _look_up(self, waiting: tuple[list[int], list[int]], connections: list[int], tickets: list[int]) -> None:
        self._in_order = False
        places = {pair: at for at, pair in enumerate(zip(*waiting, strict=True))}
        of = [places.pop(pair, -1) for pair in zip(connections, tickets, strict=True)]
        self._left = list(places.values())
        self._used = sorted(place for place in of if 0 <= place < self._before)
        renumbered = {place: at for at, place in enumerate(self._used)}
        shift = self._before - len(self._used)
        self.of = [renumbered[place] if 0 <= place < self._before else max(-1, place - shift) for place in of]
        others = [at for at, place in enumerate(of) if place < 0]
        self.others = [(at, connections[at], tickets[at]) for at in others]

    def earlier(self, words: Numbers, topics: Numbers, began: float) -> Earlier:
        """Of those before this sheet the ones that are answered in it."""
        connections, tickets, kinds, about, times = map(self._chosen, self._open.columns())
        return Earlier(
            connections,
            tickets,
            list(map(words.__getitem__, kinds)),
            list(map(topics.__getitem__, about)),
            [round((time - began) * 1e6) for time in times],
        )

    def _chosen(self, column: list[Any]) -> list[Any]:
        return column[: self._first] if self._in_order else [column[at] for at in self._used]

    def leave(self, turns: Turns, began: float) -> None:
        """What is still not answered is what is open now."""
        asked = len(self._asked[1])
        if self._in_order:
            self._open.forget(self._first)
            self._open.add(self._asked, _heard(turns, began, min(asked, self._before + asked - self._first)))
            self._open.forget(0)
        else:
            self._open.add(self._asked, _heard(turns, began, asked))
            self._open.keep(self._left)


def _heard(turns: Turns, began: float, last: int) -> list[float]:
    """When the last so many requests were heard, s."""
    times: list[float] = []
    for time, asked in zip(turns.times[-2::-1], reversed(turns.asked), strict=True):
        if len(times) >= last:
            break
        times += [began + time / 1e6] * asked
    return times[last - 1 :: -1] if last else []


# -- what a command is about


def _plain(kind: type) -> bool:
    fields = getattr(kind, "__struct_fields__", ())
    return "topic" in fields and "namespace" not in fields


PLAIN = frozenset(kind for kind in get_args(Command) if _plain(kind))
"""What has what it is about as `topic`."""


def about(command: Any) -> Topic | None:
    """The topic that a command is about, with an empty name where it is a namespace; None = nothing."""
    if type(command) in PLAIN:
        topic: Topic | None = command.topic
        return topic
    namespace = getattr(command, "namespace", None)
    if namespace is None:
        return None
    name = getattr(command, "topic", None)
    return Topic(namespace, "" if name is None else name)


def place_of(command: Command) -> tuple[str, str]:
    """Namespace and topic that a command is about, "" = none; one that is named by its id N is "#N"."""
    return named(about(command))


def _word(kind: type | str) -> str:
    if kind is NoCommand:
        return ""
    return kind if isinstance(kind, str) else kind.__name__


def named(topic: Topic | None) -> tuple[str, str]:
    """Its namespace and its name."""
    return ("", "") if topic is None else (_named(topic.namespace), _named(topic.name))


def _named(reference: int | str) -> str:
    return reference if isinstance(reference, str) else f"#{reference}"


def _numbered(turn: int, connection: int, glanced: Glanced, words: Numbers, topics: Numbers) -> Glance:
    about = [(at, topics[topic]) for at, topic in glanced.topics if at < len(glanced.told)]
    kinds = words[glanced.kind], words[glanced.reply]
    return Glance(turn, connection, glanced.ticket, *kinds, glanced.asked, glanced.told, about)
