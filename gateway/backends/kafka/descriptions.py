"""What there is to say about topics: their bounds, their settings as Kafka has them, the brokers that follow.

Kafka does not say how many bytes a partition holds, nor when it was made: 0, and when a gateway first saw the topic.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, ConfigResource, OffsetSpec, ResourceType

from gateway.backends.kafka import configs
from gateway.backends.kafka.cluster import INSIST_SECONDS, Cluster
from gateway.backends.kafka.faults import is_code
from gateway.backends.kafka.registry import Place
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault

Bounds = dict[tuple[str, int], tuple[int, int]]
"""(Kafka's topic, partition) -> first offset kept, next offset to be written."""

Configs = dict[str, dict[str, str | None]]
"""Kafka's topic -> its configuration."""


NEW_SECONDS = 1.0
"""That a broker may have heard of a topic and not know its partitions yet; after that the topic is gone."""


class Descriptions:
    """Looks at topics, each time anew."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def one(self, place: Place) -> r.TopicDescription:
        """How it is now.  Raises CommandFailed(NO_SUCH_TOPIC)."""
        found = await self.look([place])
        if not found:
            raise CommandFailed(Fault.NO_SUCH_TOPIC, place.name)
        return found[0]

    async def look(self, places: list[Place]) -> tuple[r.TopicDescription, ...]:
        """How the topics are now; those that have just gone are left out."""
        if not places:
            return ()
        asked = [(place.kafka, at) for place in places for at in range(place.partitions)]
        topics = [place.kafka for place in places]
        bounds, config = await self._cluster.call(lambda: (self._bounds(asked), self._configs(topics)))
        there = [place for place in places if all((place.kafka, at) in bounds for at in range(place.partitions))]
        return tuple(self._description(place, bounds, config.get(place.kafka, {})) for place in there)

    def _description(self, place: Place, bounds: Bounds, config: dict[str, str | None]) -> r.TopicDescription:
        partitions = tuple(
            r.PartitionDescription(at, *bounds[place.kafka, at], 0, place.created) for at in range(place.partitions)
        )
        settings = configs.read(config, place.settings)
        metadata, end = self._cluster.catalog.metadata, sum(at.end for at in partitions)
        replicas = () if metadata is None else replicas_of(metadata, place.kafka, end)
        return r.TopicDescription(place.namespace, place.name, place.id, place.created, settings, partitions, replicas)

    # -- in threads

    def _bounds(self, asked: Sequence[tuple[str, int]]) -> Bounds:
        """Where those partitions start and end, without those that are gone."""
        wanted = [TopicPartition(*at) for at in asked]
        until = time.monotonic() + NEW_SECONDS
        while True:
            found = self._cluster.insist(lambda: bounds_of(self._cluster.admin(), wanted, self._cluster.seconds))
            if len(found) == len(wanted) or time.monotonic() > until or self._cluster.closing.wait(INSIST_SECONDS):
                return found

    def _configs(self, topics: list[str]) -> Configs:
        seconds = self._cluster.seconds
        asked = [ConfigResource(ResourceType.TOPIC, kafka) for kafka in topics]
        found: Configs = {}
        for at, said in self._cluster.admin().describe_configs(asked, request_timeout=seconds).items():
            with _gone():
                found[at.name] = {name: entry.value for name, entry in said.result(seconds).items()}
        return found


def replicas_of(metadata: ClusterMetadata, kafka: str, end: int) -> tuple[r.Replica, ...]:
    """The brokers that follow a leader of the topic, by number.  end: of all partitions together.

    How far one is that is not in sync Kafka does not say: 0.
    """
    topic = metadata.topics.get(kafka)
    found = () if topic is None else tuple(topic.partitions.values())
    replicas = []
    for node in sorted({node for at in found for node in at.replicas if node != at.leader}):
        in_sync = all(node in at.isrs for at in found if node in at.replicas)
        broker = metadata.brokers.get(node)
        name = str(node) if broker is None else f"{broker.host}:{broker.port}"
        replicas.append(r.Replica(name, in_sync, end if in_sync else 0))
    return tuple(replicas)


def bounds_of(admin: AdminClient, wanted: Iterable[TopicPartition], seconds: float) -> Bounds:
    """Where partitions start and end, without those that are gone.  Blocks; raises KafkaException."""
    asked = list(wanted)
    starts = admin.list_offsets(dict.fromkeys(asked, OffsetSpec.earliest()), request_timeout=seconds)
    ends = admin.list_offsets(dict.fromkeys(asked, OffsetSpec.latest()), request_timeout=seconds)
    found: Bounds = {}
    for at, start in starts.items():
        with _gone():
            found[at.topic, at.partition] = start.result(seconds).offset, ends[at].result(seconds).offset
    return found


@contextmanager
def _gone() -> Iterator[None]:
    """A topic that has gone meanwhile is left out."""
    try:
        yield
    except KafkaException as error:
        if not is_code(error, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            raise
