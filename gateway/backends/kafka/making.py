"""Topics made, grown and deleted: Kafka does it, the registry keeps whose they are.

A name is claimed before its topic is made, and given up after it is deleted; so a topic that is there never lacks its
owner for long, and where two gateways make one topic at once Kafka says which of them did.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ClusterMetadata, NewPartitions, NewTopic, OffsetSpec
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from gateway.backends.kafka import names
from gateway.backends.kafka.catalog import Catalog
from gateway.backends.kafka.claims import Claim, Written, settled
from gateway.backends.kafka.configs import written
from gateway.backends.kafka.faults import is_code
from gateway.backends.kafka.registry import ATTEMPTS, Place, Registry
from gateway.core import commands as q
from gateway.core.commands import TopicSettings
from gateway.core.faults import CommandFailed, Fault

if TYPE_CHECKING:
    from gateway.backends.kafka.cluster import Cluster

SHOWN_SECONDS = 0.02
"""Between looks whether a change has come to the broker that we ask."""

_REFUSED = (Fault.INVALID_NAME, Fault.INVALID_ARGUMENT, Fault.FORBIDDEN, Fault.UNSUPPORTED)
"""What says that Kafka has not made a topic; after anything else it may have."""


class Making:
    """registry and catalog: the cluster's."""

    def __init__(self, cluster: Cluster, registry: Registry, catalog: Catalog) -> None:
        self._cluster = cluster
        self._registry = registry
        self._catalog = catalog
        self._making: dict[tuple[int | str, str], list[Deferred[Place]]] = {}

    async def made(self, topic: q.Topic, partitions: int) -> Place:
        """See Cluster.make."""
        try:
            place = self._catalog.place(topic)
            return await place if isinstance(place, Deferred) else place
        except CommandFailed as failure:
            if failure.fault is not Fault.NO_SUCH_TOPIC or not isinstance(topic.name, str):
                raise
        return await self._make(topic.namespace, topic.name, partitions)

    def _make(self, namespace: int | str, name: str, partitions: int) -> Deferred[Place]:
        """Once, whoever else wants it made meanwhile."""
        done: Deferred[Place] = Deferred()
        waiting = self._making.setdefault((namespace, name), [])
        waiting.append(done)
        if len(waiting) == 1:
            made = Deferred.fromCoroutine(self._make_or_find(namespace, name, partitions))
            made.addBoth(lambda place: self._tell_made(place, (namespace, name)))
        return done

    def _tell_made(self, place: Place | Failure, key: tuple[int | str, str]) -> None:
        for done in self._making.pop(key):
            if not done.called:
                done.callback(place)  # a failure is handed on as one

    async def _make_or_find(self, namespace: int | str, name: str, partitions: int) -> Place:
        try:
            found = self._registry.namespace(namespace)
            return await self.create(found, name, partitions, TopicSettings(), None)
        except CommandFailed as failure:
            if failure.fault is not Fault.TOPIC_EXISTS:
                raise
        return await self._catalog.find(q.Topic(namespace, name))  # somebody else has just made it

    async def create(
        self, namespace: Claim, name: str, partitions: int, settings: TopicSettings, id: int | None
    ) -> Place:
        """A new topic.  Raises TOPIC_EXISTS[taken], INVALID_NAME, INVALID_ARGUMENT."""
        kafka = names.topic_name(namespace.name, name, self._registry)
        names.check_apart(kafka, self._catalog.partitions)
        asked = NewTopic(kafka, partitions, -1, config=written(settings))
        claim, is_ours = await self._claimed(namespace, name, id, asked)
        try:
            await self._cluster.call(lambda: self._create(asked))
        except CommandFailed as failure:
            if is_ours and failure.fault in _REFUSED:
                await self._registry.append(self._registry.claims.freeing(claim.scope, claim.name))
            raise
        await self._registry.append([settled(namespace.id, claim.id, settings)])
        await self._catalog.refresh()
        place = self._catalog.known(q.Topic(namespace.name, name))
        if place is None:
            raise CommandFailed(Fault.UNAVAILABLE, f"{name} was made, and is not shown yet or gone already")
        return place

    async def grow(self, place: Place, total: int) -> Place:
        """Have partitions added up to that count."""
        await self._cluster.call(lambda: self._grow(place.kafka, place.partitions, total))
        await self._catalog.refresh()
        grown = self._catalog.known(q.Topic(place.namespace_id, place.id))
        if grown is None:
            raise CommandFailed(Fault.NO_SUCH_TOPIC, place.name)
        return grown

    async def delete(self, places: list[Place]) -> None:
        """Of Kafka first, so that nobody sees a topic without an id and gives it one; then of the registry."""
        registry = self._registry
        if places:
            await self._cluster.call(lambda: self._delete([place.kafka for place in places]))
        ends = [self._ending(str(place.namespace_id), place.name, place.id) for place in places]
        await registry.append([record for end in ends for record in end])
        await self._catalog.refresh()

    def _ending(self, scope: str, name: str, id: int) -> list[Written]:
        """What ends a topic in the registry: its claims, its settings, its groups."""
        claims = self._registry.claims
        return [
            *claims.freeing(scope, name),
            *claims.forgetting(int(scope), id),
            *claims.emptying(f"{scope}/{id}"),
        ]

    async def _claimed(self, namespace: Claim, name: str, id: int | None, asked: NewTopic) -> tuple[Claim, bool]:
        """The claim of a topic that is about to be made, and whether it was made here.

        Somebody else's whose topic is not there yet will do: which of us makes the topic is for Kafka to decide.
        """
        registry, scope = self._registry, str(namespace.id)
        left = registry.claims.find(scope, name)
        if left is not None and (left.native or (namespace.id, left.id) in registry.claims.settings):
            await self._cluster.call(lambda: self._create(asked, validate_only=True))  # else it was, and is no more
            await registry.append(self._ending(scope, name, left.id))
        for _ in range(ATTEMPTS):
            left = registry.claims.find(scope, name)
            if left is not None and id in (None, left.id):
                return left, False
            try:
                return await registry.claim(scope, name, id), True
            except CommandFailed as failure:
                if failure.facts.get("taken") != "name" or id is not None:
                    raise
        raise CommandFailed(Fault.BUSY, "other gateways make and delete it faster")

    # -- in threads

    def _create(self, topic: NewTopic, validate_only: bool = False) -> None:
        """Raises TOPIC_ALREADY_EXISTS, and then it is shown."""
        seconds = self._cluster.seconds
        said = self._cluster.admin().create_topics([topic], request_timeout=seconds, validate_only=validate_only)
        try:
            said[topic.topic].result(seconds)
        except KafkaException as error:
            if is_code(error, KafkaError.TOPIC_ALREADY_EXISTS):
                self._shown(lambda metadata: _led(metadata, topic.topic) > 0)
            raise
        if not validate_only:
            self._shown(lambda metadata: _led(metadata, topic.topic) >= topic.num_partitions)
            self._leads(topic.topic, 0, topic.num_partitions)

    def _grow(self, kafka: str, before: int, total: int) -> None:
        seconds = self._cluster.seconds
        admin = self._cluster.admin()
        admin.create_partitions([NewPartitions(kafka, total)], request_timeout=seconds)[kafka].result(seconds)
        self._shown(lambda metadata: _led(metadata, kafka) >= total)
        self._leads(kafka, before, total)

    def _delete(self, topics: list[str]) -> None:
        seconds = self._cluster.seconds
        for said in self._cluster.admin().delete_topics(topics, request_timeout=seconds).values():
            try:
                said.result(seconds)
            except KafkaException as error:
                if not is_code(error, KafkaError.UNKNOWN_TOPIC_OR_PART):  # else somebody was faster
                    raise
        self._shown(lambda metadata: all(_led(metadata, kafka) == 0 for kafka in topics))

    def _shown(self, is_shown: Callable[[ClusterMetadata], bool]) -> None:
        """Wait until the broker that we ask has heard of a change; at the deadline it is done all the same."""
        until = time.monotonic() + self._cluster.seconds / 2
        while time.monotonic() < until and not self._cluster.closing.is_set():
            if is_shown(self._catalog.ask()):
                return
            self._cluster.closing.wait(SHOWN_SECONDS)

    def _leads(self, kafka: str, first: int, end: int) -> None:
        """Wait until the leaders of new partitions answer for them, so that nobody hears NOT_LEADER after the reply."""
        asked = {TopicPartition(kafka, at): OffsetSpec.latest() for at in range(first, end)}
        seconds = self._cluster.seconds

        def answer() -> None:
            for said in self._cluster.admin().list_offsets(asked, request_timeout=seconds).values():
                said.result(seconds)

        with suppress(KafkaException):  # the change is made; whoever comes next hears what is wrong
            self._cluster.insist(answer)


def _led(metadata: ClusterMetadata, kafka: str) -> int:
    """How many partitions of a topic have a leader."""
    topic = metadata.topics.get(kafka)
    return 0 if topic is None else sum(partition.leader >= 0 for partition in topic.partitions.values())
