"""Publish: where a batch goes, and what is answered.

Batches leave in the order they come: those of one topic wait for each other where it has to be found or made first.
Acks are all: whatever level is asked for, the answer comes when every replica in sync has the batch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from gateway.backends.kafka.registry import Place
from gateway.backends.kafka.sending import CLOSE_SECONDS, Sender
from gateway.backends.kafka.sequencing import Sequencing
from gateway.core import commands as q
from gateway.core.commands import Session
from gateway.core.deciding import partitioner
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical
from gateway.core.replies import Published, Reply

if TYPE_CHECKING:
    from gateway.backends.kafka.cluster import Cluster


class Producing:
    """What is written to topics.

    verbs: what is answered here, by command type.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._sender = Sender(cluster)
        self._sequencing = Sequencing(cluster, self._sender.send, self._sender.end)
        self._turns: dict[str, int] = {}
        self._finding: dict[q.Topic, list[Deferred[None]]] = {}
        self._pending: dict[Session, int] = {}
        self._settling: dict[Session, list[Deferred[None]]] = {}
        self.verbs: dict[type, Callable[..., Reply | Deferred[Reply]]] = {q.Publish: self.publish}
        cluster.watch(self._changed)

    def publish(self, command: q.Publish, session: Session) -> Reply | Deferred[Reply]:
        """Carry out a Publish."""
        if not command.batch.count:
            raise CommandFailed(Fault.EMPTY_BATCH)
        place = self._place(command)
        if isinstance(place, Deferred):
            published = place.addCallback(lambda place: self._publish(command, place))
        else:
            published = self._publish(command, place)
        self._pending[session] = self._pending.get(session, 0) + 1
        return published.addBoth(self._settled, session)

    def append(
        self, place: Place, partition: int, records: Sequence[Record], origin: str = ""
    ) -> Deferred[tuple[int, int]]:
        """Append records as they are.  The offsets of the first and the last; fails as Sender.send does."""
        return self._sender.send(place.kafka, partition, canonical(list(records), origin))

    def end(self, kafka: str, partition: int) -> int:
        """See Sender.end."""
        return self._sender.end(kafka, partition)

    def settled(self, session: Session) -> Deferred[None] | None:
        """Fires when all that this session has published so far is answered; None = it is."""
        if session not in self._pending:
            return None
        done: Deferred[None] = Deferred()
        self._settling.setdefault(session, []).append(done)
        return done

    def close(self) -> Deferred[None]:
        """Take no more, and give what is on its way some seconds to arrive."""
        done: Deferred[None] = Deferred()
        self._sender.close()

        def end() -> None:
            self._sender.join(CLOSE_SECONDS + 2)
            self._sequencing.close()
            self._cluster.from_thread(done.callback, None)

        threading.Thread(target=end, name="kafka-sender-end", daemon=True).start()
        return done

    # -- which topic

    def _place(self, command: q.Publish) -> Place | Deferred[Place]:
        """The topic, in turn: what came before waits no longer than this."""
        topic = command.topic
        if topic in self._finding:
            turn: Deferred[None] = Deferred()
            self._finding[topic].append(turn)
            return turn.addCallback(lambda ignored: self._find(command))
        found = self._find(command)
        if isinstance(found, Deferred):
            self._finding[topic] = []
            found.addBoth(self._found, topic)
        return found

    def _find(self, command: q.Publish) -> Place | Deferred[Place]:
        found = self._cluster.place(command.topic)
        if command.create and isinstance(found, Deferred):
            found.addErrback(self._make, command)
        return found

    def _make(self, failure: object, command: q.Publish) -> Deferred[Place]:
        reason = getattr(failure, "value", None)
        if not isinstance(reason, CommandFailed) or reason.fault is not Fault.NO_SUCH_TOPIC:
            return failure  # type: ignore[return-value]  # so a Failure goes on through errbacks
        to, count = command.to, command.create
        if isinstance(to, int) and not 0 <= to < count:
            raise CommandFailed(Fault.NO_SUCH_PARTITION, partition=to, partitions=count)
        if isinstance(to, q.ByKey):
            partitioner(to.partitioner)
        return self._cluster.make(command.topic, count)

    def _found(self, result: Place, topic: q.Topic) -> Place:
        """Whoever asked for the topic meanwhile goes on, once this one has gone."""
        self._cluster.reactor.callLater(0, self._go_on, topic)
        return result

    def _go_on(self, topic: q.Topic) -> None:
        for turn in self._finding.pop(topic):
            turn.callback(None)

    # -- where in it

    def _publish(self, command: q.Publish, place: Place) -> Deferred[Reply]:
        if isinstance(command.to, int) and command.to >= place.partitions:
            return Deferred.fromCoroutine(self._publish_to_new(command, place, command.to))
        return self._write(place, self._choose(place, command.to), command.batch)

    async def _publish_to_new(self, command: q.Publish, place: Place, partition: int) -> Reply:
        """A native program may have added partitions since Kafka was asked."""
        await self._cluster.catalog.refresh()
        found = self._cluster.place(command.topic)
        place = await found if isinstance(found, Deferred) else found
        if partition >= place.partitions:
            raise CommandFailed(Fault.NO_SUCH_PARTITION, partition=partition, partitions=place.partitions)
        return await self._write(place, partition, command.batch)

    def _choose(self, place: Place, to: int | q.ByKey | q.Balanced) -> int:
        """As core.deciding does for topics that are kept here."""
        count = place.partitions
        if isinstance(to, int):
            if to < 0:
                raise CommandFailed(Fault.NO_SUCH_PARTITION, partition=to, partitions=count)
            return to
        if isinstance(to, q.Balanced):
            turn = self._turns[place.kafka] = self._turns.get(place.kafka, -1) + 1
            return turn % count
        return partitioner(place.settings.partitioner or to.partitioner)(to.key, count)

    def _write(self, place: Place, partition: int, batch: RecordBatch) -> Deferred[Reply]:
        if place.settings.idempotent:
            return self._sequencing.publish(place.kafka, partition, batch)  # type: ignore[return-value]  # a Reply
        sent = self._sender.send(place.kafka, partition, batch)
        return sent.addCallback(lambda offsets: Published(partition, *offsets))

    # -- what has become of it

    def _settled(self, result: object, session: Session) -> object:
        left = self._pending.pop(session) - 1
        if left:
            self._pending[session] = left
            return result
        for done in self._settling.pop(session, ()):
            self._cluster.reactor.callLater(0, done.callback, None)
        return result

    def _changed(self, place: Place) -> None:
        if not place.partitions:
            self._turns.pop(place.kafka, None)
            self._sequencing.forget(place.kafka)
            self._sender.gone(place.kafka)
