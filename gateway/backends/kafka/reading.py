"""Fetch, Follow and LatestOffsets: finding the start, reading from the log or its tail, waiting, pushing on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.internet.task import LoopingCall, deferLater

from gateway.backends.interface import IFollower
from gateway.backends.kafka.consuming import Reader
from gateway.backends.kafka.following import AGAIN_SECONDS, PASSING, Following, Found
from gateway.backends.kafka.membership import Membership
from gateway.backends.kafka.offsets import Offsets
from gateway.backends.kafka.producing import Producing
from gateway.backends.kafka.readers import IDLE_SECONDS, Readers
from gateway.backends.kafka.registry import Place
from gateway.backends.kafka.tailing import Tails
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import MAX_OFFSET, Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Records, Reply

if TYPE_CHECKING:
    from gateway.backends.kafka.cluster import Cluster

KNOWN_SECONDS = 5.0
"""How old the bounds may be of a partition that is followed: where it starts changes seldom, its end comes anyway."""

ARRIVE_SECONDS = 0.1
"""For what was stored here to come to a partition that is followed, which takes some ms; then the log is read."""

OUTAGE_SECONDS = 60.0
"""The same while Kafka does not answer: what has come already is given all the same."""


class Reading:
    """What is read from topics.

    verbs: what is answered here, by command type.
    """

    def __init__(self, cluster: Cluster, membership: Membership, offsets: Offsets, producing: Producing) -> None:
        self._cluster = cluster
        self._membership = membership
        self._offsets = offsets
        self._producing = producing
        self._readers = Readers(cluster)
        self._tails = Tails(cluster)
        self.verbs: dict[type, Callable[..., Reply | Deferred[Reply]]] = {
            q.Fetch: self.fetch,
            q.LatestOffsets: self.latest,
        }
        self._sweep = LoopingCall(self._close_idle)
        self._sweep.clock = cluster.reactor
        self._sweep.start(IDLE_SECONDS / 2, now=False)
        cluster.watch(self._changed)

    def fetch(self, command: q.Fetch, session: Session) -> Deferred[Reply]:
        """Carry out a Fetch."""
        return Deferred.fromCoroutine(self._fetch(command, session))

    def latest(self, command: q.LatestOffsets, session: Session) -> Deferred[Reply]:
        """Carry out a LatestOffsets."""
        return Deferred.fromCoroutine(self._latest(command, session))

    def follow(self, command: q.Follow, session: Session, follower: IFollower) -> Deferred[IPushProducer]:
        """Carry out a Follow."""
        return Deferred.fromCoroutine(self._follow(command, session, follower))

    def read(
        self,
        place: Place,
        partition: int,
        start: int,
        max_records: int = 0,
        max_bytes: int = 1 << 20,
        wait: float = 0.0,
    ) -> Deferred[Found]:
        """Records from offset `start` on, within the limits of records.select; none after `wait` seconds without any.

        Fails with OFFSET_GONE, NO_SUCH_TOPIC, UNAVAILABLE.
        """
        return Deferred.fromCoroutine(self._read(place, partition, start, max_records, max_bytes, wait))

    def close(self) -> Deferred[None]:
        """Release what it reads with; who waits is answered no more."""
        self._sweep.stop()
        self._tails.close()

        def end() -> None:
            self._tails.join()
            self._readers.close()

        return self._cluster.call(end)

    # -- Fetch

    async def _fetch(self, command: q.Fetch, session: Session) -> Reply:
        written = self._producing.settled(session)
        if written is not None:
            await written
        place = await self._place(command.topic, command.create)
        index = self._index(command, session)
        if index is None:
            return Records(0, 0, 0)
        place = await self._with_partition(command.topic, place, index)
        start = await self._start(place, index, command.start)
        limits = command.max_records, command.max_bytes
        batches, first, end = await self._read(place, index, start, *limits, command.wait)
        if command.partition is None and batches and self._index(command, session, index) != index:
            return Records(index, first, end)  # another has it now, and these records too
        if command.commit and batches and command.read_by is not None:
            offsets: dict[int | None, int] = {index: batches[-1].end}
            await self._offsets.commit(q.CommitOffsets(command.topic, command.read_by, offsets), session)
        return Records(index, first, end, batches)

    def _index(self, command: q.Fetch, session: Session, again: int | None = None) -> int | None:
        return self._membership.turn(command, session, again) if command.partition is None else command.partition

    async def _place(self, topic: q.Topic, create: int = 0) -> Place:
        try:
            found = self._cluster.place(topic)
            return await found if isinstance(found, Deferred) else found
        except CommandFailed as failure:
            if failure.fault is not Fault.NO_SUCH_TOPIC or not create:
                raise
        return await self._cluster.make(topic, create)

    async def _with_partition(self, topic: q.Topic, place: Place, index: int) -> Place:
        """The topic as it is now, which has such a partition: a native program may have added it just now."""
        if 0 <= index < place.partitions:
            return place
        if index >= 0:
            await self._cluster.catalog.refresh()
            place = await self._place(topic)
        if not 0 <= index < place.partitions:
            raise CommandFailed(Fault.NO_SUCH_PARTITION, partition=index, partitions=place.partitions)
        return place

    async def _start(self, place: Place, index: int, start: q.Start) -> int:
        """The offset a read begins at.  Raises CommandFailed(INVALID_OFFSET)."""
        if isinstance(start, q.Next):
            committed = await self._offsets.committed(place, start.reader, index)
            start = start.floor if committed is None else max(committed, start.floor)
        if isinstance(start, q.First | q.Last):
            first, end = await self._cluster.call(partial(self._readers.bounds, place.kafka, index))
            return first if isinstance(start, q.First) else max(first, end - start.count)
        if isinstance(start, q.FromTime):
            return await self._cluster.call(partial(self._readers.seek, place.kafka, index, start.timestamp))
        if not 0 <= start <= MAX_OFFSET:
            raise CommandFailed(Fault.INVALID_OFFSET, str(start))
        return start

    # -- reading

    async def _read(self, place: Place, index: int, start: int, max_records: int, max_bytes: int, wait: float) -> Found:
        key, limits = (place.kafka, index), (max_records, max_bytes)
        deadline = self._cluster.reactor.seconds() + wait
        found: Found | None = None
        is_abreast = await self._is_abreast(key)
        while True:
            left = deadline - self._cluster.reactor.seconds()
            try:
                found = await self._look(key, start, *limits, left > 0, is_abreast)
            except CommandFailed as failure:  # it waits already, and there is time for Kafka to come back
                if found is None or failure.fault not in PASSING or left <= AGAIN_SECONDS:
                    raise
                await deferLater(self._cluster.reactor, AGAIN_SECONDS)
                continue
            left = deadline - self._cluster.reactor.seconds()
            if found[0] or left <= 0:
                return found
            await self._more(key, start, found[2], left)

    async def _is_abreast(self, key: tuple[str, int]) -> bool:
        """Whether a partition that is followed has come as far as somebody was told here that it is written."""
        end = self._producing.end(*key)
        if 0 < self._tails.end(key) < end:
            await self._more(key, end - 1, end, ARRIVE_SECONDS)
        return self._tails.end(key) >= end

    async def _look(
        self, key: tuple[str, int], start: int, max_records: int, max_bytes: int, may_wait: bool, is_abreast: bool
    ) -> Found:
        """What there is now.  Who may wait is content with what came by itself, if that is abreast of the writers."""
        batches = self._tails.read(key, start, max_records, max_bytes) if is_abreast else None
        if batches or (batches is not None and may_wait):
            first, end = await self._bounds(key)
            return batches, first, max(end, self._tails.end(key))
        return await self._cluster.call(partial(self._readers.read, *key, start, max_records, max_bytes))

    async def _bounds(self, key: tuple[str, int]) -> tuple[int, int]:
        """Of a partition that is followed."""
        known = self._readers.known(*key, KNOWN_SECONDS)
        if known is not None:
            return known
        try:
            return await self._cluster.call(partial(self._readers.bounds, *key))
        except CommandFailed as failure:
            known = self._readers.known(*key, OUTAGE_SECONDS)
            if known is None or failure.fault is Fault.NO_SUCH_TOPIC:
                raise
            return known

    def _more(self, key: tuple[str, int], start: int, end: int, seconds: float) -> Deferred[None]:
        """Fires when there may be records from `start` on, or after so many seconds."""

        def stop(more: object) -> None:
            self._tails.forget(key, more)
            if timeout.active():
                timeout.cancel()

        def go_on() -> None:
            stop(more)
            if not more.called:
                more.callback(None)

        more: Deferred[None] = Deferred(stop)
        timeout = self._cluster.reactor.callLater(seconds, go_on)
        try:
            self._tails.wait(key, start, end, more, go_on)
        except CommandFailed:
            timeout.cancel()
            raise
        return more

    # -- LatestOffsets

    async def _latest(self, command: q.LatestOffsets, session: Session) -> Reply:
        written = self._producing.settled(session)
        if written is not None:
            await written
        place = await self._place(command.topic)
        if command.partition is not None:
            place = await self._with_partition(command.topic, place, command.partition)
        indices = list(range(place.partitions)) if command.partition is None else [command.partition]
        bounds = await self._cluster.call(partial(self._readers.all_bounds, place.kafka, indices))
        found = (r.PartitionOffsets(index, *each) for index, each in zip(indices, bounds, strict=True))
        return r.Offsets(place.partitions, tuple(found))

    # -- Follow

    async def _follow(self, command: q.Follow, session: Session, follower: IFollower) -> IPushProducer:
        place = await self._with_partition(command.topic, await self._place(command.topic), command.partition)
        start = await self._start(place, command.partition, command.start)
        first, end = await self._cluster.call(partial(self._readers.bounds, place.kafka, command.partition))
        if start < first:
            raise CommandFailed(Fault.OFFSET_GONE, "", requested=start, earliest=first, latest=end)
        return Following(self._cluster, self.read, command, place, start, follower).begin()

    # -- keeping up

    def _changed(self, place: Place) -> None:
        if not place.partitions:
            self._tails.gone(place.kafka)
            self._close(self._readers.forget(place.kafka))

    def _close_idle(self) -> None:
        self._close(self._readers.idle())

    def _close(self, readers: list[Reader]) -> None:
        if readers:
            self._cluster.call(partial(_close, readers)).addErrback(lambda failure: None)  # it is closing itself


def _close(readers: list[Reader]) -> None:
    for reader in readers:
        reader.close()
