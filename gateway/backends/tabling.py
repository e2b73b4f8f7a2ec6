"""Tables and queues for the backends that keep a log here: what looks at them, and taking.

A table is read from the log when somebody looks for the first time, and then kept up with what is appended.  Whoever
asks for it meanwhile waits for the same one.  Nothing here writes but Take, which says so to the store first: a record
is given to one taker, or, if that is gone by then, to none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from gateway.backends.fetching import Batches, Fetching, then
from gateway.backends.grouping import Look, Write
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Session
from gateway.core.queues import cursor, queue, waiting
from gateway.core.replies import Records, Reply
from gateway.core.state import Partition, State, Topic
from gateway.core.table_decisions import check_key
from gateway.core.tables import Table

_ROOM = 1 << 20
"""Of a fetch of one record, which is given whatever its length."""


class _Waiting(NamedTuple):
    there: Deferred[None]
    over: Callable[[], None]

    def go_on(self, result: Failure | None) -> None:
        self.there.callback(result)  # a failure is handed on as one
        self.over()


class Tabling:
    """state: what readers may see.  now: the wall clock in us since the epoch.

    load:  the table of what is visible of a topic now; CommandFailed if its records cannot be read.
    write: how the backend writes.
    hold:  told that a look of a session takes time; what it returns is called when that is over.
    verbs: what is answered here, by command type.
    """

    def __init__(
        self,
        state: State,
        now: Callable[[], int],
        load: Callable[[Topic], Table | Deferred[Table]],
        clock: IReactorTime,
        write: Write,
        fetching: Fetching,
        hold: Callable[[Session], Callable[[], None]],
    ) -> None:
        self._state = state
        self._now = now
        self._load = load
        self._clock = clock
        self._write = write
        self._fetching = fetching
        self._hold = hold
        self._loading: dict[Topic, list[_Waiting]] = {}
        self.verbs: dict[type, Look] = {
            q.MapGet: self._get,
            q.MapSize: self._size,
            q.MapScan: self._scan,
            q.Take: self.take,
            q.Peek: self._peek,
        }

    # -- tables

    def _get(self, command: q.MapGet, session: Session) -> Reply | Deferred[Reply]:
        key = command.key
        if not key:
            check_key(key)  # which says so
        table = self._state.topic(command.topic).table
        if table is not None and not self._loading:  # the common case of `_look`
            return r.MapValue(table.get(key, self._now() if table.expiring else 0))
        return self._look(command.topic, session, lambda table: r.MapValue(table.get(key, self._now())))

    def _size(self, command: q.MapSize, session: Session) -> Reply | Deferred[Reply]:
        return self._look(command.topic, session, lambda table: r.Count(table.size(self._now())))

    def _scan(self, command: q.MapScan, session: Session) -> Reply | Deferred[Reply]:
        def scan(table: Table) -> r.MapEntries:
            found = table.scan(self._now(), command.after, command.limit, command.keys)
            return r.MapEntries(tuple(found if command.values else ((key, b"") for key, _ in found)))

        return self._look(command.topic, session, scan)

    def _look(self, reference: q.Topic, session: Session, look: Callable[[Table], Reply]) -> Reply | Deferred[Reply]:
        """The reply, once the table is there."""
        topic = self._state.topic(reference)
        if topic.table is not None and topic not in self._loading:
            return look(topic.table)
        if topic not in self._loading:
            loaded = self._load(topic)
            if not isinstance(loaded, Deferred):
                topic.table = loaded
                return look(loaded)
            self._keep_up(topic, loaded)
        there: Deferred[None] = Deferred()
        self._loading[topic].append(_Waiting(there, self._hold(session)))
        return there.addCallback(lambda ignored: self._look(reference, session, look))

    def _keep_up(self, topic: Topic, loaded: Deferred[Table]) -> None:
        """Put what is appended while the table is read aside, and together with it then."""
        self._loading[topic] = []
        aside = topic.table = Table()

        def done(table: Table) -> None:
            if topic.table is aside:  # else partitions went, and their records must go; whoever waits has it read again
                table.merge(aside)
                topic.table = table
            for each in self._loading.pop(topic):
                each.go_on(None)

        def failed(failure: Failure) -> None:
            valid = topic.table is aside
            topic.table = None
            for each in self._loading.pop(topic):
                each.go_on(failure if valid else None)

        loaded.addCallbacks(done, failed)

    # -- queues

    def take(self, command: q.Take, session: Session) -> Reply | Deferred[Reply]:
        """Carry out a Take.  It has to wait for no write before it: what it takes is decided in order with them."""
        return self._take(command.topic, session, self._clock.seconds() + command.wait)

    def _take(self, topic: q.Topic, session: Session, deadline: float) -> Reply | Deferred[Reply]:
        moved = self._write(q.Advance(topic), session)
        if isinstance(moved, Deferred):
            return moved.addCallback(self._taken, topic, session, deadline)
        return self._taken(moved, topic, session, deadline)

    def _taken(self, reply: Reply, topic: q.Topic, session: Session, deadline: float) -> Reply | Deferred[Reply]:
        partition = queue(self._state.topic(topic))
        assert isinstance(reply, r.Count), "so an Advance is answered"
        if reply.value >= 0:
            return self._record(partition, reply.value)
        left = deadline - self._clock.seconds()
        if left <= 0:
            return Records(partition.index, partition.start, partition.end)
        if waiting(partition):  # there is something since just now
            return self._take(topic, session, deadline)
        there = self._fetching.later(partition, lambda: waiting(partition) > 0, left)
        return there.addCallback(lambda left: self._take(topic, session, deadline))

    def _peek(self, command: q.Peek, session: Session) -> Reply | Deferred[Reply]:
        partition = queue(self._state.topic(command.topic))
        if not waiting(partition):
            return Records(partition.index, partition.start, partition.end)
        return self._record(partition, cursor(partition))

    def _record(self, partition: Partition, offset: int) -> Reply | Deferred[Reply]:
        bounds = partition.index, partition.start, partition.end
        found: Batches | Deferred[Batches] = self._fetching.log.read(partition.number, offset, 1, _ROOM)
        return then(found, lambda batches: Records(*bounds, batches))
