"""gateway.backends.kafka.descriptions: which brokers are shown beside the leader."""

from __future__ import annotations

from confluent_kafka.admin import BrokerMetadata, ClusterMetadata, PartitionMetadata, TopicMetadata

from gateway.backends.kafka.descriptions import replicas_of
from gateway.core.replies import Replica


def cluster(brokers: dict[int, str], partitions: list[tuple[int, list[int], list[int]]]) -> ClusterMetadata:
    """partitions: leader, replicas, those in sync."""
    metadata = ClusterMetadata()
    for id, host in brokers.items():
        broker = metadata.brokers[id] = BrokerMetadata()
        broker.id, broker.host, broker.port = id, host, 9092  # type: ignore[assignment]
    topic = metadata.topics["orders"] = TopicMetadata()
    for index, (leader, replicas, in_sync) in enumerate(partitions):
        partition = topic.partitions[index] = PartitionMetadata()
        partition.leader, partition.replicas, partition.isrs = leader, replicas, in_sync
    return metadata


def test_brokers_that_follow_are_shown_by_their_names() -> None:
    metadata = cluster({1: "a", 2: "b", 3: "c"}, [(1, [1, 2, 3], [1, 2])])
    assert replicas_of(metadata, "orders", 7) == (Replica("b:9092", True, 7), Replica("c:9092", False, 0))


def test_a_broker_is_in_sync_if_it_is_in_every_partition_that_it_keeps() -> None:
    metadata = cluster({1: "a", 2: "b"}, [(1, [1, 2], [1, 2]), (2, [2, 1], [2])])
    assert replicas_of(metadata, "orders", 7) == (Replica("a:9092", False, 0), Replica("b:9092", True, 7))


def test_a_broker_that_is_down_is_shown_by_its_number() -> None:
    metadata = cluster({1: "a"}, [(1, [1, 2], [1])])
    assert replicas_of(metadata, "orders", 7) == (Replica("2", False, 0),)


def test_one_broker_has_no_replicas() -> None:
    metadata = cluster({1: "a"}, [(1, [1], [1])])
    assert replicas_of(metadata, "orders", 7) == replicas_of(metadata, "gone", 0) == ()
