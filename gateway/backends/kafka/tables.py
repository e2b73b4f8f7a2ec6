"""Maps over topics of Kafka, and what can be said of queues.

Looking is done in a view (see views.py), which is behind the log by milliseconds.  What this gateway wrote, with a
table command or as a Publish, is in the view before it is answered; what others write arrives there within
milliseconds.  MapPut appends a keyed record, MapRemove a tombstone if the key has a value; what they say was there
before is what the log has before their record, so of two removals at once one says that it removed something.

Not done, and refused as UNSUPPORTED: IfAbsent, IfPresent, IfEquals, IfCount and MapAdd.  Kafka appends, and does not
look first; several gateways and any native producer write to one topic.  To look and then append would let two of them
both be the first.  To append what everybody is to ignore unless a condition holds would mislead native consumers, and
compaction, which keeps the last record of a key, would drop the value for the sake of a record that does not count.  To
let only one gateway write (transactions with one id) shuts out no native producer.

Take and QueueClear are refused for the same reason: Kafka moves a committed offset without comparing, so two gateways
could give one record to two takers.  Members of the group `queue` read a queue instead.  Peek and QueueSize look at
what that group has committed; offsets that are no records (of transactions, or compacted away) are counted.

A topic made by MapPut is compacted: it takes no records without a key.  Compaction keeps the last record of a key by
its offset, a table the latest by its time.  They differ where clocks of writers do: what a writer whose clock is behind
puts blindly is not shown until compaction has removed what it was meant to replace, and a view has been read anew.  So
keep clocks in step.  A topic that is not compacted loses keys by its retention; a view that is followed shows them on.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from twisted.internet.defer import Deferred, DeferredLock
from twisted.python.failure import Failure

from gateway.backends.kafka.offsets import Offsets
from gateway.backends.kafka.producing import Producing
from gateway.backends.kafka.reading import Reading
from gateway.backends.kafka.registry import Place
from gateway.backends.kafka.views import ARRIVE_SECONDS, Came, View, Views
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import MAX_OFFSET, Session, TopicSettings
from gateway.core.faults import CommandFailed, Fault
from gateway.core.partitioners import PARTITIONERS
from gateway.core.queues import QUEUE
from gateway.core.records import Record
from gateway.core.replies import Reply
from gateway.core.table_decisions import MAX_TTL, ORIGIN, PARTITIONER, check_key
from gateway.core.tables import Table

if TYPE_CHECKING:
    from gateway.backends.kafka.cluster import Cluster

CLEARED_AT_ONCE = 5000
"""Tombstones in one batch."""

ATTEMPTS = 5
"""Tombstones for one removal, each with a later time."""

_UNCONDITIONAL = "Kafka appends without looking, so over it nothing is written on a condition"
_TAKING = "Kafka commits without comparing, so over it one record could be taken twice; read the queue as group `queue`"

Work = Callable[..., Coroutine[Any, Any, Reply]]
Look = Callable[[Table], Reply]
Sent = Coroutine[Any, Any, Came]
"""A write that is on its way, to be waited for."""


class Tables:
    """verbs: what is answered here, by command type; Publish among them, which is answered once a view has it."""

    def __init__(self, cluster: Cluster, reading: Reading, producing: Producing, offsets: Offsets) -> None:
        self._cluster = cluster
        self._reading = reading
        self._producing = producing
        self._offsets = offsets
        self._views = Views(cluster, reading)
        self._lanes: dict[q.Topic, DeferredLock] = {}
        self._writing: dict[Session, int] = {}
        self._written: dict[Session, list[Deferred[None]]] = {}
        self.verbs: dict[type, Callable[..., Reply | Deferred[Reply]]] = {
            q.MapGet: self._get,
            q.MapSize: self._size,
            q.MapScan: self._scan,
            q.MapPut: self._write(self._put),
            q.MapRemove: self._write(self._remove),
            q.MapClear: self._write(self._clear),
            q.Peek: lambda command, session: Deferred.fromCoroutine(self._peek(command, session)),
            q.QueueSize: lambda command, session: Deferred.fromCoroutine(self._queue_size(command, session)),
            q.Publish: self._publish,
            q.MapAdd: _refuse(_UNCONDITIONAL),
            q.Take: _refuse(_TAKING),
            q.QueueClear: _refuse(_TAKING),
        }

    def close(self) -> None:
        """Follow nothing more."""
        self._views.close()

    # -- looking

    def _get(self, command: q.MapGet, session: Session) -> Reply | Deferred[Reply]:
        check_key(command.key)
        return self._look(command.topic, session, lambda table: r.MapValue(table.get(command.key, self._cluster.now())))

    def _size(self, command: q.MapSize, session: Session) -> Reply | Deferred[Reply]:
        return self._look(command.topic, session, lambda table: r.Count(table.size(self._cluster.now())))

    def _scan(self, command: q.MapScan, session: Session) -> Reply | Deferred[Reply]:
        def scan(table: Table) -> Reply:
            found = table.scan(self._cluster.now(), command.after, command.limit, command.keys)
            return r.MapEntries(tuple(found if command.values else ((key, b"") for key, _ in found)))

        return self._look(command.topic, session, scan)

    def _look(self, topic: q.Topic, session: Session, look: Look) -> Reply | Deferred[Reply]:
        """The reply, at once where the view is whole and nothing that this session wrote is on its way."""
        place = self._cluster.place(topic)
        if isinstance(place, Place) and session not in self._writing:
            view = self._views.ready(place)
            if view is not None and self._producing.settled(session) is None:
                return look(view.table)
            return Deferred.fromCoroutine(self._look_later(place, session, look))
        return Deferred.fromCoroutine(self._look_later(place, session, look))

    async def _look_later(self, place: Place | Deferred[Place], session: Session, look: Look) -> Reply:
        place = await place if isinstance(place, Deferred) else place
        if session in self._writing:
            written: Deferred[None] = Deferred()
            self._written.setdefault(session, []).append(written)
            await written
        published = self._producing.settled(session)
        view = await self._views.of(place)
        if published is not None:
            await published
            await self._views.catch_up(view)
        return look(view.table)

    # -- writing

    def _write(self, work: Work) -> Callable[..., Deferred[Reply]]:
        def begin(command: q.MapPut | q.MapRemove | q.MapClear, session: Session) -> Deferred[Reply]:
            self._check(command)
            self._writing[session] = self._writing.get(session, 0) + 1
            done: Deferred[Reply] = Deferred.fromCoroutine(work(command, session))
            return done.addBoth(self._settled, session)

        return begin

    def _check(self, command: q.MapPut | q.MapRemove | q.MapClear) -> None:
        """Raises CommandFailed: INVALID_ARGUMENT, UNSUPPORTED."""
        if not isinstance(command, q.MapClear):
            check_key(command.key)
            if type(command.only) is not q.Anyhow:
                raise CommandFailed(Fault.UNSUPPORTED, _UNCONDITIONAL)
        if isinstance(command, q.MapPut) and not 0 <= command.ttl <= MAX_TTL:
            raise CommandFailed(Fault.INVALID_ARGUMENT, f"a time to live is 0 to {MAX_TTL} seconds")

    def _settled(self, result: Reply | Failure, session: Session) -> Reply | Failure:
        left = self._writing.pop(session) - 1
        if left:
            self._writing[session] = left
        else:
            for written in self._written.pop(session, ()):
                self._cluster.reactor.callLater(0, written.callback, None)
        return result

    async def _put(self, command: q.MapPut, session: Session) -> Reply:
        now = self._cluster.now()
        expiry = now + int(command.ttl * 1_000_000) if command.ttl else 0
        record = Record(command.key, command.value, expiry=expiry)

        async def write(place: Place) -> Sent:
            if command.previous:
                return self._replace(place, await self._views.of(place), record)
            return self._append(place, self._views.known(place), record)

        before, _ = await self._in_turn(command.topic, write, command.create)
        return r.MapChanged(True, before)

    async def _remove(self, command: q.MapRemove, session: Session) -> Reply:
        """A tombstone that turns out not to be the latest, as behind a writer whose clock is ahead, is made anew."""

        async def write(place: Place) -> Sent:
            view = await self._views.of(place)
            there = view.table.get(command.key, self._cluster.now()) is not None
            return self._replace(place, view, Record(command.key, None)) if there else _nothing()

        for _ in range(ATTEMPTS):
            before, is_latest = await self._in_turn(command.topic, write)
            if is_latest:
                return r.MapChanged(before is not None, before)
        raise CommandFailed(Fault.BUSY, "others put a later value each time")

    async def _clear(self, command: q.MapClear, session: Session) -> Reply:
        cleared = 0

        async def write(place: Place) -> Sent:
            nonlocal cleared
            view = await self._views.of(place)
            now = self._cluster.now()
            keys = view.table.alive(now)
            for partition, records in _shares(place, [self._later(view, Record(key, None), now) for key in keys]):
                _, last = await self._producing.append(place, partition, records, ORIGIN)
                await self._arrived(view, partition, last)
            cleared = len(keys)
            return _nothing()

        await self._in_turn(command.topic, write)
        return r.Count(cleared)

    async def _in_turn(
        self, topic: q.Topic, write: Callable[[Place], Coroutine[Any, Any, Sent]], create: int = 0
    ) -> Came:
        """What comes of a write.  Those to one topic are sent in the order they came, and waited for side by side."""
        lane = self._lanes.setdefault(topic, DeferredLock())
        await lane.acquire()
        try:
            sent = await write(await self._place(topic, create))
        finally:
            lane.release()
            if not lane.locked and self._lanes.get(topic) is lane:
                del self._lanes[topic]
        return await sent

    def _append(self, place: Place, view: View | None, record: Record) -> Sent:
        """Send a record.  What is left to wait for is that it is stored, and has come back if there is a view."""
        assert record.key is not None, "a table has keys"
        partition = _choose(place, record.key)
        sent = self._producing.append(place, partition, [record], ORIGIN)

        async def rest() -> Came:
            await self._arrived(view, partition, (await sent)[0])
            return None, True

        return rest()

    def _replace(self, place: Place, view: View, record: Record) -> Sent:
        """Send a record, and then see what it has changed."""
        assert record.key is not None, "a table has keys"
        key, now = record.key, self._cluster.now()
        before = view.table.get(key, now)
        partition = _choose(place, key)
        sent = self._producing.append(place, partition, [self._later(view, record, now)], ORIGIN)
        view.watch(key)

        async def rest() -> Came:
            offset = -1
            try:
                offset, _ = await sent
                await self._arrived(view, partition, offset)
            finally:
                came = view.came(key, partition, offset)
            return (before, True) if came is None else came

        return rest()

    def _later(self, view: View, record: Record, now: int) -> Record:
        """The record, with a time of its own if what it is to replace claims a later one than it would get.

        At the same millisecond it is the latest by its offset; with a time of its own it would be later than what is
        put blindly within that millisecond.
        """
        assert record.key is not None, "a table has keys"
        latest = view.table.look(record.key, now).timestamp
        if latest <= now // 1000 * 1000:
            return record
        return msgspec.structs.replace(record, timestamp=min(latest + 1, MAX_OFFSET))

    async def _arrived(self, view: View | None, partition: int, offset: int) -> None:
        """Once the view has it, if that is soon."""
        if view is None:
            return
        there = view.arrival(partition, offset)

        def over() -> None:
            if not there.called:
                there.callback(None)

        timeout = self._cluster.reactor.callLater(ARRIVE_SECONDS, over)
        await there
        if timeout.active():
            timeout.cancel()

    def _publish(self, command: q.Publish, session: Session) -> Reply | Deferred[Reply]:
        published = self._producing.publish(command, session)
        if not len(self._views) or not isinstance(published, Deferred):
            return published
        return published.addCallback(self._published, command.topic)

    def _published(self, reply: Reply, topic: q.Topic) -> Reply | Deferred[Reply]:
        place = self._cluster.place(topic)
        if not isinstance(place, Place):
            place.addErrback(lambda failure: None)
            return reply
        view = self._views.known(place)
        if view is None or view.loading is not None or not isinstance(reply, r.Published) or reply.last < 0:
            return reply
        if view.next[reply.partition] > reply.last:
            return reply
        return Deferred.fromCoroutine(self._arrived(view, reply.partition, reply.last)).addCallback(lambda _: reply)

    # -- queues

    async def _peek(self, command: q.Peek, session: Session) -> Reply:
        place, start, end, next = await self._queue(command.topic, session)
        if next >= end:
            return r.Records(0, start, end)
        batches, start, end = await self._reading.read(place, 0, next, max_records=1)
        return r.Records(0, start, end, batches)

    async def _queue_size(self, command: q.QueueSize, session: Session) -> Reply:
        _, _, end, next = await self._queue(command.topic, session)
        return r.Count(max(0, end - next))

    async def _queue(self, topic: q.Topic, session: Session) -> tuple[Place, int, int, int]:
        """The topic, its bounds, and the next offset to be taken.  Raises CommandFailed(UNSUPPORTED)."""
        place = await self._place(topic)
        if place.partitions != 1:
            sentence = f"a queue has one partition, {place.name} has {place.partitions}"
            raise CommandFailed(Fault.UNSUPPORTED, sentence)
        committed = await self._offsets.committed(place, QUEUE, 0)
        bounds = await self._reading.latest(q.LatestOffsets(topic, 0), session)
        assert isinstance(bounds, r.Offsets), "so that is answered"
        [at] = bounds.offsets
        return place, at.start, at.end, max(at.start, committed or 0)

    # -- where

    async def _place(self, topic: q.Topic, create: int = 0) -> Place:
        try:
            found = self._cluster.place(topic)
            return await found if isinstance(found, Deferred) else found
        except CommandFailed as failure:
            if failure.fault is not Fault.NO_SUCH_TOPIC or not create or not isinstance(topic.name, str):
                raise
        return await self._make(topic, topic.name, create)

    async def _make(self, topic: q.Topic, name: str, partitions: int) -> Place:
        """A compacted topic; one that somebody else has just made is left as it is."""
        namespace = self._cluster.registry.namespace(topic.namespace)
        compacted = TopicSettings(cleanup="compact")
        try:
            return await self._cluster.making.create(namespace, name, partitions, compacted, None)
        except CommandFailed as failure:
            if failure.fault is not Fault.TOPIC_EXISTS:
                raise
        return await self._place(topic)


def _choose(place: Place, key: bytes) -> int:
    return PARTITIONERS[place.settings.partitioner or PARTITIONER](key, place.partitions)


def _shares(place: Place, records: list[Record]) -> Iterator[tuple[int, list[Record]]]:
    """What goes into which partition, in portions."""
    shares: dict[int, list[Record]] = {}
    for record in records:
        assert record.key is not None, "a table has keys"
        shares.setdefault(_choose(place, record.key), []).append(record)
    for partition, share in shares.items():
        for at in range(0, len(share), CLEARED_AT_ONCE):
            yield partition, share[at : at + CLEARED_AT_ONCE]


async def _nothing() -> Came:
    """What comes of writing nothing."""
    return None, True


def _refuse(sentence: str) -> Callable[[q.Command, Session], Reply]:
    def refuse(command: q.Command, session: Session) -> Reply:
        raise CommandFailed(Fault.UNSUPPORTED, sentence)

    return refuse
