"""A running process, to look at: what the console, the page and the metrics show.  Nothing here changes records.

Everything that a client chose comes as it was said; whoever shows it makes it harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from gateway import __version__
from gateway.backends.commits import Commits
from gateway.backends.interface import IBackend
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record
from gateway.dialects import Losses
from gateway.dialects.session import Tap
from gateway.net.attempts import Attempts
from gateway.net.meters import FaultSeen, Meter
from gateway.net.port import Port
from gateway.net.server import Connection, Listening
from gateway.net.tapping import Journaled
from gateway.net.users import Users

MAX_SHOWN = 1000
"""Records that are read at a time."""

AT_A_TIME = 5000
"""Topics that are gone over before others get their turn: about ten milliseconds."""

LAGS_AT_A_TIME = 500
"""Groups likewise, of a store that answers at once."""

T = TypeVar("T", bound=r.Answer)


class ListenerRow(msgspec.Struct, frozen=True):
    """One listener.  address: `host:port`, as it was opened.  connections: there are now."""

    name: str
    dialect: str
    address: str
    tls: bool
    auth: str
    connections: int
    meter: Meter


class SessionRow(msgspec.Struct, frozen=True):
    """One connection.  opened: us since the epoch.  running: commands that are being carried out."""

    id: int
    dialect: str
    listener: str
    peer: str
    principal: str | None
    opened: int
    running: int


class GroupRow(msgspec.Struct, frozen=True):
    """A group, and how far it is behind: records between what it committed and the end, None = it never committed."""

    group: r.GroupDescription
    lag: int | None


class RecordRow(msgspec.Struct, frozen=True):
    """One record where it is.  timestamp: us since the epoch."""

    offset: int
    timestamp: int
    record: Record


class View:
    """backend: past any access rules.  listeners: those that are open, with their addresses.  started: us since the
    epoch.  stop: ends the process in good order."""

    def __init__(
        self,
        port: Port,
        backend: IBackend,
        listeners: Callable[[], Iterable[tuple[Listening, str]]],
        clock: IReactorTime,
        started: int,
        stop: Callable[[], object],
    ) -> None:
        self.version = __version__
        self.started = started
        self.clock = clock
        self._port = port
        self._backend = backend
        self._listeners = listeners
        self._stop = stop
        self._who = Session(0, "admin", principal="admin")

    @property
    def durability(self) -> str:
        """What an acknowledged write has reached."""
        return self._backend.durability

    @property
    def commits(self) -> tuple[Commits, ...]:
        """How they go, of each store that counts them."""
        return getattr(self._backend, "commits", ())

    @property
    def journals(self) -> list[Journaled]:
        """What has become of what was captured, of each capture."""
        return [told() for told in self._port.taps.journals]

    @property
    def users(self) -> Users:
        """Who may log in: others, once they were read again."""
        return self._port.users

    @property
    def attempts(self) -> Attempts:
        """Wrong logins, wherever they were tried."""
        return self._port.attempts

    # -- at once

    def listeners(self) -> list[ListenerRow]:
        """All of them, in the order they were named."""
        opened: dict[str, int] = {}
        for connection in self._port.connections:
            opened[connection.who.listener] = opened.get(connection.who.listener, 0) + 1
        return [
            ListenerRow(
                listening.name,
                listening.listener.dialect.name,
                address,
                listening.tls,
                listening.auth,
                opened.get(listening.name, 0),
                listening.meter,
            )
            for listening, address in self._listeners()
        ]

    def sessions(self) -> list[SessionRow]:
        """All connections, oldest first."""
        rows = [
            SessionRow(
                *(each.who.id, each.who.dialect, each.who.listener, each.who.peer, each.who.principal),
                each.who.opened,
                each.running,
            )
            for each in self._port.connections
        ]
        return sorted(rows, key=lambda row: row.id)

    def losses(self) -> Losses:
        """(from, to, field) -> how often, since the start."""
        total = Losses()
        for listening, _ in self._listeners():
            total.update(listening.listener.losses)
        return total

    def faults(self) -> list[FaultSeen]:
        """The last commands that failed, newest last."""
        return self._port.faults.last()

    def kick(self, session: int) -> bool:
        """Hang up on a connection.  False = there is none of that number."""
        found = self._connection(session)
        if found is not None:
            found.abort()
        return found is not None

    def tap(self, chosen: Callable[[Session], bool], make: Callable[[Session], Tap]) -> Callable[[], None]:
        """Have a tap on every connection that is chosen, now and from now on.  Returns what takes them off again."""
        return self._port.taps.add(chosen, make)

    def drain(self) -> None:
        """End the process in good order, as TERM does."""
        self._stop()

    def ready(self) -> bool:
        """Whether it serves, and is not on its way out."""
        return not self._port.draining

    # -- what the backend is asked

    async def node(self) -> r.NodeDescription:
        """The store: counts and durability."""
        return await self._told(r.NodeDescription, q.Describe())

    async def each_topic(self, see: Callable[[Sequence[r.TopicDescription]], object]) -> None:
        """Shows all topics of all namespaces, AT_A_TIME at a time: however many there are, others get their turn."""
        topics = await self._each_topic()
        while part := list(islice(topics, AT_A_TIME)):
            see(part)
            if len(part) == AT_A_TIME:
                await deferLater(self.clock, 0)

    async def _each_topic(self) -> Iterator[r.TopicDescription]:
        each: Callable[[], Iterator[r.TopicDescription]] | None = getattr(self._backend, "topics", None)
        if each is not None:
            return each()
        found: list[r.TopicDescription] = []
        for name in await self.namespaces():
            found += (await self._told(r.Topics, q.ListTopics(name))).topics
        return iter(found)

    async def namespaces(self) -> list[str]:
        """All of them; the default one where the backend knows no others."""
        try:
            return [each.name for each in (await self._told(r.Namespaces, q.ListNamespaces())).namespaces]
        except CommandFailed as failure:
            if failure.fault is not Fault.UNSUPPORTED:
                raise
            return [q.DEFAULT_NAMESPACE]

    async def topic(self, topic: q.Topic) -> r.TopicDescription:
        """Raises CommandFailed."""
        return await self._told(r.TopicDescription, q.DescribeTopic(topic))

    async def namespace(self, name: int | str) -> r.NamespaceDescription:
        """Raises CommandFailed."""
        return await self._told(r.NamespaceDescription, q.DescribeNamespace(name))

    async def groups_of(self, namespaces: Iterable[str]) -> list[r.GroupDescription]:
        """All of these namespaces; their lags take a question each."""
        return [
            group for namespace in namespaces for group in (await self._told(r.Groups, q.ListGroups(namespace))).groups
        ]

    async def group(self, topic: q.Topic, name: str) -> GroupRow:
        """topic.name "" = whichever has it.  Raises CommandFailed."""
        return await self.lag(await self._told(r.GroupDescription, q.DescribeGroup(topic, name)))

    async def records(self, topic: q.Topic, partition: int, offset: int, count: int) -> list[RecordRow]:
        """At most MAX_SHOWN of them.  Raises CommandFailed."""
        limit = min(max(count, 1), MAX_SHOWN)
        found = await self._told(r.Records, q.Fetch(topic, partition, offset, limit))
        rows = (row for batch in found.batches for row in batch.rows())
        return [RecordRow(at, timestamp, record) for at, timestamp, record in rows if at >= offset][:limit]

    async def value(self, topic: q.Topic, key: bytes) -> bytes | None:
        """The latest value of a key.  Raises CommandFailed."""
        return (await self._told(r.MapValue, q.MapGet(topic, key))).value

    async def lag(self, group: r.GroupDescription) -> GroupRow:
        """How far a group is behind.  Raises CommandFailed."""
        topic = q.Topic(group.namespace, group.topic)
        committed = await self._told(r.CommittedOffsets, q.FetchOffsets(topic, q.Group(group.name)))
        if not committed.offsets:
            return GroupRow(group, None)
        behind = (max(0, end - committed.offsets.get(at, 0)) for at, end in committed.ends.items())
        return GroupRow(group, sum(behind))

    async def lags(self, groups: Iterable[r.GroupDescription]) -> list[GroupRow]:
        """How far each is behind; others get their turn.  Raises CommandFailed."""
        rows: list[GroupRow] = []
        for group in groups:
            rows.append(await self.lag(group))
            if not len(rows) % LAGS_AT_A_TIME:
                await deferLater(self.clock, 0)
        return rows

    async def _told(self, kind: type[T], command: q.Command) -> T:
        answered = self._backend.execute(command, self._who)
        reply = await answered if isinstance(answered, Deferred) else answered
        assert isinstance(reply, kind), f"{type(command).__name__} is answered with {kind.__name__}"
        return reply

    def _connection(self, session: int) -> Connection | None:
        return next((each for each in self._port.connections if each.who.id == session), None)
