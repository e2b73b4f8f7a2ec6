"""Which connection the commands of one session take: a shared one, or one of its own from when it needs it.

A session needs its own where the connection is part of what is meant.  A member that lives as long as it: from its join
on everything of that session goes there.  A wait that would hold up whoever is behind it, or any read where a server
remembers where a connection reads: these alone go there, on a new one whenever that one stands or waits somewhere else.
The move is made once everything asked before has been answered, so the order of a session is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import cast

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from gateway.backends.remote.links import Link
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Records, Reply
from gateway.dialects import Dialect

MAX_READS = 10_000
"""Partitions of which one lane keeps in mind where its connection reads them."""

MAX_READING = 64
"""Connections on which one session reads or waits at a time."""

Place = tuple[q.Topic, int, q.Reader | None]

Say = Callable[[q.Command, float], Deferred[Reply]]

_NOWHERE = -1
"""Where a read stands that has not been answered."""


class Turn:
    """What waits for its turn.  alone: nothing of the session may be on its way elsewhere."""

    __slots__ = ("alone", "come")

    def __init__(self, alone: bool) -> None:
        self.alone = alone
        self.come: Deferred[None] = Deferred()


class Lane:
    """The way of one session.

    shared: what it shares with other sessions.
    dial:   makes a connection of its own.
    leave:  takes one that is not needed any more.
    own:    it has a connection of its own, for members.
    """

    def __init__(self, dialect: Dialect, shared: Link, dial: Callable[[], Link], leave: Callable[[Link], None]) -> None:
        assert dialect.upstream is not None, "else there is no remote backend for it"
        self._upstream = dialect.upstream
        self._tagged = dialect.tagged
        self._link = shared
        self._dial = dial
        self._leave = leave
        self.own = False
        self._open = 0
        self._turns: deque[Turn] = deque()
        self._over = False
        self._reading: Link | None = None
        self._waits = 0
        self._reads: dict[Place, int] = {}
        self._behind: list[Link] = []

    def ask(self, command: q.Command, until: float) -> Deferred[Reply]:
        """Raises CommandFailed for what cannot be said."""
        if self._apart(command):
            self._link.check(command)
            return self._in_turn(self._read, command, until, alone=True)
        if not self.own and _binds(command):
            self._move(command)
            return self._in_turn(self._say, command, until, alone=True)
        return self._in_turn(self._say, command, until, alone=False)

    def close(self) -> None:
        """The session is over, and whoever lived with its connection; what it asked is still done."""
        self._over = True
        if not self._turns:
            self._part()

    def abandon(self) -> None:
        """Hang up; whoever waits is told."""
        for link in self._alone():
            link.close()

    def sweep(self, now: float) -> None:
        """Deadlines of its own connections."""
        for link in self._alone():
            link.sweep(now)
        self._behind = [link for link in self._behind if not link.left()]

    def _alone(self) -> list[Link]:
        reading = [] if self._reading is None else [self._reading]
        return [*self._behind, *reading, *([self._link] if self.own else [])]

    def _part(self) -> None:
        alone, self._behind, self._reading = self._alone(), [], None
        for link in alone:
            self._leave(link)

    def _apart(self, command: q.Command) -> bool:
        """Whether it is a read that would hold up others, or be mistaken for one that goes on."""
        kind = type(command)
        if self._upstream.remembers and kind is q.Fetch:
            return True
        return not self._tagged and kind in self._upstream.waits and getattr(command, "wait", 0) > 0

    # -- order

    def _in_turn(self, say: Say, command: q.Command, until: float, *, alone: bool) -> Deferred[Reply]:
        if not self._turns and not (alone and self._open):
            return say(command, until)
        turn = Turn(alone)
        self._turns.append(turn)
        return turn.come.addCallback(lambda ignored: say(command, until))

    def _say(self, command: q.Command, until: float) -> Deferred[Reply]:
        done = self._link.ask(command, until)
        if isinstance(command, q.JoinGroup | q.LeaveGroup):
            done.addBoth(self._noted, self._link, command)
        if getattr(command, "wait", 0) > 0:
            return done  # a tagged server's, which others of this session need not wait for either
        self._open += 1
        return done.addBoth(self._answered)

    def _answered(self, outcome: Reply | Failure) -> Reply | Failure:
        self._open -= 1
        while self._turns and not (self._turns[0].alone and self._open):
            self._turns.popleft().come.callback(None)
        if self._over and not self._turns:
            self._part()
        return outcome

    # -- members

    def _move(self, command: q.Command) -> None:
        link = self._dial()
        try:
            link.check(command)
        except CommandFailed:
            link.close()
            raise
        self._link, self.own = link, True

    def _noted(self, outcome: Reply | Failure, link: Link, command: q.JoinGroup | q.LeaveGroup) -> Reply | Failure:
        """Who has joined does so again on a new connection; who wanted to leave does not, whatever came of that."""
        if isinstance(command, q.LeaveGroup):
            for group in [group for group in link.joined if _may_be(group, command)]:
                del link.joined[group]
        elif _binds(command) and not isinstance(outcome, Failure) and not self._over:
            link.joined[command.topic, command.group] = command
        return outcome

    # -- reads

    def _read(self, command: q.Command, until: float) -> Deferred[Reply]:
        """From where the connection stands, or on a new one if that is somewhere else, or busy."""
        link = self._reading
        if link is None or self._waits or not self._goes_on(command):
            link = self._renew()
        done = link.ask(command, until)
        if getattr(command, "wait", 0) > 0:
            self._waits += 1
            done.addBoth(self._waited, link)
        if self._upstream.remembers and isinstance(command, q.Fetch) and isinstance(command.start, int):
            place = _place(command)
            self._reads[place] = _NOWHERE
            done.addCallback(_stands, self._reads, place, command.start)
        return done

    def _goes_on(self, command: q.Command) -> bool:
        """Whether the connection reads there next, or has not read there yet."""
        if not self._upstream.remembers or not isinstance(command, q.Fetch) or not isinstance(command.start, int):
            return True  # else the server knows where its reader is
        return self._reads.get(_place(command), command.start) == command.start and len(self._reads) < MAX_READS

    def _waited(self, outcome: Reply | Failure, link: Link) -> Reply | Failure:
        if link is self._reading:
            self._waits -= 1
        return outcome

    def _renew(self) -> Link:
        if len(self._behind) >= MAX_READING:
            raise CommandFailed(Fault.BUSY, f"{MAX_READING} reads of this session are on their way")
        link = self._dial()
        if self._reading is not None and not self._reading.left():
            self._behind.append(self._reading)
        self._reading, self._waits, self._reads = link, 0, {}
        return link


def _binds(command: q.Command) -> bool:
    return isinstance(command, q.JoinGroup) and isinstance(command.liveness, q.WhileConnected)


def _may_be(group: tuple[q.Topic, int | str], command: q.LeaveGroup) -> bool:
    """Whether both may be the same group: one may be said by its number and the other by its name."""
    topic, name = group
    pairs = (topic.namespace, command.topic.namespace), (topic.name, command.topic.name), (name, command.group)
    return all(type(one) is not type(other) or one == other for one, other in pairs)


def _place(command: q.Fetch) -> Place:
    return command.topic, command.partition or 0, command.read_by


def _stands(reply: Reply, reads: dict[Place, int], place: Place, start: int) -> Reply:
    """Where the connection reads next.  reads: of that connection."""
    reads[place] = cast(Records, reply).batches[-1].end if cast(Records, reply).batches else start
    return reply
