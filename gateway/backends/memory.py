"""Everything in this process, nothing kept after it: the model the other backends are tested against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.plugin import IPlugin
from zope.interface import implementer

from gateway import __version__
from gateway.backends.fetching import Batches, Fetching
from gateway.backends.grouping import Grouping, Look
from gateway.backends.interface import IBackend, IBackendMaker, IFollower
from gateway.backends.tabling import Tabling
from gateway.backends.tail import Tail
from gateway.backends.wall import microseconds
from gateway.core import commands as q
from gateway.core.commands import Session, Written
from gateway.core.decisions import perform, writes
from gateway.core.records import Encoding, select
from gateway.core.replies import Reply
from gateway.core.state import Partition, State, Topic
from gateway.core.table_decisions import TABLE_DECISIONS, untabled
from gateway.core.tables import Table, tabulate
from gateway.core.views import answer, describe_node, each_topic, looks


@implementer(IBackend)
class MemoryBackend:
    """now: the wall clock in us since the epoch."""

    durability = "memory"
    immediate = True

    def __init__(self, clock: IReactorTime, now: Callable[[], int] = microseconds) -> None:
        self._state = State()
        self._tail = Tail()
        self._grouping = Grouping(self._state, clock, now, self._write)
        self._fetching = Fetching(self._state, self, clock, self._write, self._grouping.turn)
        self._tabling = Tabling(self._state, now, self._load, clock, self._write, self._fetching, _at_once)
        self.topics = partial(each_topic, self._state)
        self._now = now
        self._started = now()
        self._looks: dict[type, Look] = {
            **looks(self._state),
            **self._grouping.verbs,
            **self._tabling.verbs,
            q.Fetch: cast(Look, self._fetching.fetch),
            q.Describe: self._describe,
        }

    def execute(self, command: q.Command, session: Session) -> Reply | Deferred[Reply]:
        """See IBackend."""
        look = self._looks.get(type(command))
        if look is not None:
            return look(command, session)
        return self._write(command, session) if writes(command) else answer(self._state, command)

    def _write(self, command: Written, session: Session) -> Reply:
        if type(command) in TABLE_DECISIONS and (topic := untabled(self._state, command)) is not None:
            topic.table = self._load(topic)
        reply, changes = perform(self._state, command, self._now())
        self._fetching.wake(self._tail.absorb(changes))
        if type(command) is not q.Publish:
            self._grouping.changed(changes)
        return reply

    def follow(
        self, command: q.Follow, session: Session, follower: IFollower
    ) -> IPushProducer | Deferred[IPushProducer]:
        """See IBackend."""
        return self._fetching.follow(command, session, follower)

    def _describe(self, command: q.Describe, session: Session) -> Reply:
        return describe_node(self._state, "memory", __version__, self.durability, self._started)

    def _load(self, topic: Topic) -> Table:
        logs = ((at.index, at.start, at.end, self._tail.read(at.number, at.start) or ()) for at in topic.partitions)
        return tabulate(logs)

    def close(self) -> None:
        """See IBackend."""

    def read(self, number: int, start: int, max_records: int, max_bytes: int) -> Batches:
        """See fetching.Log."""
        return tuple(select(self._tail.read(number, start) or (), start, max_records, max_bytes))

    def seek(self, partition: Partition, timestamp: int) -> int:
        """See fetching.Log."""
        found = self._tail.seek(partition.number, timestamp)
        return partition.start if found is None else found


def _at_once(session: Session) -> Callable[[], None]:
    raise AssertionError("tables are read at once here")


@implementer(IPlugin, IBackendMaker)
class _Maker:
    name = "memory"
    usage = "memory"

    def make(self, argument: str, encodings: Mapping[str, Encoding], reactor: IReactorTime) -> IBackend:
        """See IBackendMaker."""
        if argument:
            raise ValueError("the memory backend takes no argument: say --backend memory")
        return MemoryBackend(reactor)


maker = _Maker()
