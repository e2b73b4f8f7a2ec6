"""Namespaces and topics, and what there is to say about the whole: what is asked of Kafka's controller."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import cast

import msgspec
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from twisted.internet.defer import Deferred

from gateway import __version__
from gateway.backends.kafka import configs, names
from gateway.backends.kafka.claims import NAMESPACES, Claim, settled
from gateway.backends.kafka.cluster import Cluster
from gateway.backends.kafka.descriptions import Descriptions
from gateway.backends.kafka.registry import Place
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import DEFAULT_NAMESPACE_ID, MAX_PARTITIONS, Session, TopicSettings
from gateway.core.deciding import check_name, partitioner
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Reply

Work = Callable[..., Coroutine[Deferred[object], object, Reply]]


class Topics:
    """verbs: what is answered here, by command type.

    durability: what the backend states.
    """

    def __init__(self, cluster: Cluster, durability: str) -> None:
        self._cluster = cluster
        self._catalog = cluster.catalog
        self._descriptions = Descriptions(cluster)
        self._durability = durability
        self._started = cluster.now()
        slow: dict[type, Work] = {
            q.CreateNamespace: self._create_namespace,
            q.DeleteNamespace: self._delete_namespace,
            q.ListNamespaces: self._list_namespaces,
            q.DescribeNamespace: self._describe_namespace,
            q.CreateTopic: self._create_topic,
            q.AlterTopic: self._alter_topic,
            q.DeleteTopic: self._delete_topic,
            q.ListTopics: self._list_topics,
            q.DescribeTopic: self._describe_topic,
            q.CreatePartitions: self._create_partitions,
            q.DeletePartitions: self._delete_partitions,
            q.Describe: self._describe,
            q.FindLeader: self._find_leader,
        }
        self.verbs = {q.Ping: _done} | {kind: _later(work) for kind, work in slow.items()}

    # -- namespaces

    async def _create_namespace(self, command: q.CreateNamespace) -> Reply:
        registry = self._cluster.registry
        check_name(command.name)
        await registry.caught_up()
        registry.check_free(NAMESPACES, command.name, command.id)
        names.check_namespace(command.name)
        await self._catalog.refresh()
        names.check_free(command.name, self._catalog.partitions)
        names.check_free(command.name, self._default_groups())
        claim = await registry.claim(NAMESPACES, command.name, command.id)
        return r.NamespaceDescription(claim.id, claim.name, claim.created, 0, 0, 0)

    def _default_groups(self) -> Iterator[str]:
        claims = self._cluster.registry.claims
        for scope in claims.scopes():
            if scope.startswith(f"{DEFAULT_NAMESPACE_ID}/"):
                yield from (claim.name for claim in claims.owned(scope))

    async def _delete_namespace(self, command: q.DeleteNamespace) -> Reply:
        registry = self._cluster.registry
        await registry.caught_up()
        namespace = registry.namespace(command.namespace)
        if namespace.id == DEFAULT_NAMESPACE_ID:
            raise CommandFailed(Fault.INVALID_ARGUMENT, "the default namespace stays")
        await self._catalog.census([namespace])
        await self._cluster.making.delete(self._catalog.all(namespace))
        await registry.append(registry.claims.freeing(NAMESPACES, namespace.name))
        return r.Done()

    async def _list_namespaces(self, command: q.ListNamespaces) -> Reply:
        found = await self._contents()
        return r.Namespaces(tuple(_described(namespace, topics) for namespace, topics in found))

    async def _describe_namespace(self, command: q.DescribeNamespace) -> Reply:
        await self._cluster.registry.caught_up()
        namespace = self._cluster.registry.namespace(command.namespace)
        await self._catalog.census([namespace])
        topics = await self._descriptions.look(self._catalog.all(namespace))
        described = _described(namespace, topics)
        return msgspec.structs.replace(described, contents=topics) if command.contents else described

    # -- topics

    async def _create_topic(self, command: q.CreateTopic) -> Reply:
        registry = self._cluster.registry
        await registry.caught_up()
        namespace = registry.namespace(command.topic.namespace)
        try:
            return await self._existing(command, await self._placed(command.topic))
        except CommandFailed as failure:
            if failure.fault is not Fault.NO_SUCH_TOPIC:
                raise
        await self._check_new(command, namespace)
        name = cast(str, command.topic.name)
        try:
            place = await self._cluster.making.create(namespace, name, command.partitions, command.settings, command.id)
        except CommandFailed as late:
            if late.fault is not Fault.TOPIC_EXISTS or late.facts.get("taken") != "name":
                raise
            return await self._existing(command, await self._placed(command.topic))  # another gateway was faster
        made = tuple(r.PartitionDescription(at, 0, 0, 0, place.created) for at in range(place.partitions))
        return r.TopicDescription(place.namespace, place.name, place.id, place.created, place.settings, made)

    async def _check_new(self, command: q.CreateTopic, namespace: Claim) -> None:
        """In the order of core.decisions."""
        name = command.topic.name
        taken = None if command.id is None else self._cluster.registry.claims.find(str(namespace.id), command.id)
        if taken is not None and taken.name != name:
            raise CommandFailed(Fault.TOPIC_EXISTS, f"id {command.id}", taken="id")
        if not isinstance(name, str):
            raise CommandFailed(Fault.NO_SUCH_TOPIC, str(name))
        check_name(name)
        if not 1 <= command.partitions <= MAX_PARTITIONS:
            raise CommandFailed(Fault.INVALID_ARGUMENT, f"in Kafka a topic has 1 to {MAX_PARTITIONS} partitions")
        _check_settings(command.settings)

    async def _existing(self, command: q.CreateTopic, place: Place) -> Reply:
        if command.if_exists is q.IfExists.FAIL:
            raise CommandFailed(Fault.TOPIC_EXISTS, place.name, taken="name")
        if command.if_exists is q.IfExists.GROW and command.partitions != place.partitions:
            if command.partitions < place.partitions:
                current, requested = place.partitions, command.partitions
                raise CommandFailed(Fault.FEWER_PARTITIONS, current=current, requested=requested)
            place = await self._grown(place, command.partitions)
        return await self._descriptions.one(place)

    async def _alter_topic(self, command: q.AlterTopic) -> Reply:
        place = await self._placed(command.topic)
        if command.name is not None and command.name != place.name:
            check_name(command.name)
            raise CommandFailed(Fault.UNSUPPORTED, "Kafka cannot rename a topic")
        _check_settings(command.settings)
        await self._cluster.call(lambda: self._alter(place.kafka, command.settings))
        await self._cluster.registry.append([settled(place.namespace_id, place.id, command.settings)])
        return await self._descriptions.one(msgspec.structs.replace(place, settings=command.settings))

    async def _delete_topic(self, command: q.DeleteTopic) -> Reply:
        await self._cluster.making.delete([await self._placed(command.topic)])
        return r.Done()

    async def _list_topics(self, command: q.ListTopics) -> Reply:
        await self._cluster.registry.caught_up()
        namespace = self._cluster.registry.namespace(command.namespace)
        await self._catalog.census([namespace])
        return r.Topics(await self._descriptions.look(self._catalog.all(namespace)))

    async def _describe_topic(self, command: q.DescribeTopic) -> Reply:
        return await self._descriptions.one(await self._placed(command.topic))

    async def _create_partitions(self, command: q.CreatePartitions) -> Reply:
        if command.count < 1:
            raise CommandFailed(Fault.INVALID_ARGUMENT, "at least one partition")
        place = await self._placed(command.topic)
        return await self._descriptions.one(await self._grown(place, place.partitions + command.count))

    async def _delete_partitions(self, command: q.DeletePartitions) -> Reply:
        raise CommandFailed(Fault.UNSUPPORTED, "Kafka cannot take partitions from a topic")

    async def _grown(self, place: Place, total: int) -> Place:
        if total > MAX_PARTITIONS:
            raise CommandFailed(Fault.INVALID_ARGUMENT, f"a topic has at most {MAX_PARTITIONS} partitions")
        return await self._cluster.making.grow(place, total)

    async def _placed(self, topic: q.Topic) -> Place:
        """As the broker has it now."""
        await self._cluster.registry.caught_up()
        await self._catalog.refresh()
        place = self._cluster.place(topic)
        return await place if isinstance(place, Deferred) else place

    # -- the whole

    async def _describe(self, command: q.Describe) -> Reply:
        found = await self._contents()
        topics = [topic for _, contents in found for topic in contents]
        claims = self._cluster.registry.claims
        places = [place for namespace, _ in found for place in self._catalog.all(namespace)]
        return r.NodeDescription(
            "kafka",
            __version__,
            self._durability,
            self._started,
            namespaces=len(found),
            topics=len(topics),
            partitions=sum(len(topic.partitions) for topic in topics),
            records=sum(at.end - at.start for topic in topics for at in topic.partitions),
            bytes=0,
            groups=sum(1 for place in places for _ in claims.owned(place.scope)),
        )

    async def _find_leader(self, command: q.FindLeader) -> Reply:
        if command.subject is not None:
            place = self._cluster.place(command.subject)
            if isinstance(place, Deferred):
                await place
        return r.Leader()

    # -- looking at topics

    async def _contents(self) -> list[tuple[Claim, tuple[r.TopicDescription, ...]]]:
        """Every namespace with its topics, by id."""
        registry = self._cluster.registry
        await registry.caught_up()
        await self._catalog.census(registry.namespaces())
        found = [(namespace, self._catalog.all(namespace)) for namespace in registry.namespaces()]
        seen = await self._descriptions.look([place for _, places in found for place in places])
        topics = {(topic.namespace, topic.id): topic for topic in seen}
        return [
            (namespace, tuple(topics[namespace.name, at.id] for at in places if (namespace.name, at.id) in topics))
            for namespace, places in found
        ]

    # -- in threads

    def _alter(self, kafka: str, settings: TopicSettings) -> None:
        seconds = self._cluster.seconds
        change = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in configs.written(settings).items()
        ]
        asked = ConfigResource(ResourceType.TOPIC, kafka, incremental_configs=change)
        for said in self._cluster.admin().incremental_alter_configs([asked], request_timeout=seconds).values():
            said.result(seconds)


def _described(namespace: Claim, topics: tuple[r.TopicDescription, ...]) -> r.NamespaceDescription:
    records = sum(at.end - at.start for topic in topics for at in topic.partitions)
    return r.NamespaceDescription(namespace.id, namespace.name, namespace.created, len(topics), records, 0)


def _check_settings(settings: TopicSettings) -> None:
    if settings.partitioner:
        partitioner(settings.partitioner)


def _done(command: q.Command, session: Session) -> Reply:
    return r.Done()


def _later(work: Work) -> Callable[[q.Command, Session], Deferred[Reply]]:
    return lambda command, session: Deferred.fromCoroutine(work(command))
