"""Which connection the commands of one session take: a shared one, or one of its own from when it needs it.

A session needs its own where the connection is part of what is meant: for a member that lives as long as it, for a wait
that would hold up whoever is behind it, for a server that remembers where a connection reads.  From then on everything
of that session goes there, once what it asked before has been answered, so its order is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from gateway.backends.remote.servers import Link
from gateway.core import commands as q
from gateway.core.faults import CommandFailed
from gateway.core.replies import Records, Reply
from gateway.dialects import Dialect

MAX_READS = 10_000
"""Partitions of which one lane keeps in mind where its connection reads them."""

Place = tuple[q.Topic, int, q.Reader | None]

_NOWHERE = -1
"""Where a read stands that has not been answered."""


class Lane:
    """The way of one session.

    shared: what it shares with other sessions.
    dial:   makes a connection of its own.
    """

    def __init__(self, dialect: Dialect, shared: Link, dial: Callable[[], Link]) -> None:
        assert dialect.upstream is not None, "else there is no remote backend for it"
        self._upstream = dialect.upstream
        self._tagged = dialect.tagged
        self._link = shared
        self._dial = dial
        self._own = False
        self._open = 0
        self._settled: list[Deferred[None]] = []
        self._reads: dict[Place, int] = {}
        self._retired: list[Link] = []

    def ask(self, command: q.Command, until: float) -> Deferred[Reply]:
        """Raises CommandFailed for what cannot be said."""
        if not self._own and self._needs_own(command):
            return self._move(command, until)
        if self._settled:
            return self._after(command, until)
        if self._own:
            return self._ask_alone(command, until)
        done = self._link.ask(command, until)
        self._open += 1
        return done.addBoth(self._answered)

    def close(self) -> None:
        """The session is over, and whoever lived with its connection."""
        for link in self._alone():
            link.close()

    def sweep(self, now: float) -> None:
        """Deadlines of its own connections; those that are no longer used and have answered are closed."""
        for link in self._alone():
            link.sweep(now)
        for link in [link for link in self._retired if link.idle]:
            self._retired.remove(link)
            link.close()

    def _alone(self) -> list[Link]:
        return [*self._retired, self._link] if self._own else []

    def _needs_own(self, command: q.Command) -> bool:
        kind = type(command)
        if kind is q.JoinGroup:
            return isinstance(command.liveness, q.WhileConnected)  # type: ignore[union-attr]  # it is a JoinGroup
        if self._upstream.remembers and kind is q.Fetch:
            return True
        return not self._tagged and kind in self._upstream.waits and getattr(command, "wait", 0) > 0

    def _move(self, command: q.Command, until: float) -> Deferred[Reply]:
        link = self._dial()
        try:
            link.check(command)
        except CommandFailed:
            link.close()
            raise
        self._link, self._own = link, True
        return self._after(command, until) if self._open else self._ask_alone(command, until)

    def _after(self, command: q.Command, until: float) -> Deferred[Reply]:
        """Ask once nothing of this session is on its way elsewhere."""
        turn: Deferred[None] = Deferred()
        self._settled.append(turn)
        return turn.addCallback(lambda ignored: self._ask_alone(command, until))

    def _answered(self, outcome: Reply | Failure) -> Reply | Failure:
        self._open -= 1
        while not self._open and self._settled:
            self._settled.pop(0).callback(None)
        return outcome

    def _ask_alone(self, command: q.Command, until: float) -> Deferred[Reply]:
        if isinstance(command, q.JoinGroup | q.LeaveGroup):
            return self._ask_membership(command, until)
        if self._upstream.remembers and isinstance(command, q.Fetch):
            return self._read(command, until)
        return self._link.ask(command, until)

    def _ask_membership(self, command: q.JoinGroup | q.LeaveGroup, until: float) -> Deferred[Reply]:
        group = command.topic, command.group

        def left(reply: Reply) -> Reply:
            self._link.joined.pop(group, None)
            return reply

        def joined(reply: Reply) -> Reply:
            assert isinstance(command, q.JoinGroup)
            if isinstance(command.liveness, q.WhileConnected):
                self._link.joined[group] = command
            return reply

        return self._link.ask(command, until).addCallback(joined if isinstance(command, q.JoinGroup) else left)

    def _read(self, command: q.Fetch, until: float) -> Deferred[Reply]:
        """From where the connection stands, or on a new one if that is somewhere else."""
        if not isinstance(command.start, int):
            return self._link.ask(command, until)  # the server knows where its reader is
        place: Place = command.topic, command.partition or 0, command.read_by
        if self._reads.get(place, command.start) != command.start or len(self._reads) >= MAX_READS:
            self._renew()
        self._reads[place] = _NOWHERE
        reads = self._reads

        def read(reply: Reply) -> Reply:
            assert isinstance(reply, Records), "so a Fetch is answered"
            reads[place] = reply.batches[-1].end if reply.batches else cast(int, command.start)
            return reply

        return self._link.ask(command, until).addCallback(read)

    def _renew(self) -> None:
        link = self._dial()
        link.joined = self._link.joined
        self._retired.append(self._link)
        self._link, self._reads = link, {}
