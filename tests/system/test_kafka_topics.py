"""Namespaces and topics in a real Kafka, through two gateways that know nothing of each other but by it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, globalLogPublisher

from backends.driving import Driver
from gateway.backends.kafka.backend import KafkaBackend
from gateway.backends.kafka.registry import Place
from gateway.core import commands as q
from gateway.core.commands import DEFAULT_NAMESPACE_ID, Topic, TopicSettings
from gateway.core.faults import CommandFailed, Fault
from system.kafka import Broker, require
from system.live import LiveReactor
from system.processes import until

_numbers = itertools.count(1)


class Gateway(Driver):
    """One backend, as a gateway process has it."""

    reactor: LiveReactor
    backend: KafkaBackend

    def __init__(self, broker: Broker) -> None:
        reactor = LiveReactor()
        super().__init__(KafkaBackend(broker.address, {}, reactor), reactor)

    def place(self, topic: Topic) -> Place:
        found = self.backend._cluster.place(topic)
        place: Place = self.reactor.wait(found) if isinstance(found, Deferred) else found
        return place

    def refused(self, command: q.Command) -> CommandFailed:
        """What it fails with, words and all."""
        with pytest.raises(CommandFailed) as caught:
            self.reactor.wait(self.begin(command))
        return caught.value


@pytest.fixture(scope="module")
def one(kafka: Broker) -> Iterator[Gateway]:
    gateway = Gateway(kafka)
    yield gateway
    gateway.close()


@pytest.fixture(scope="module")
def other(kafka: Broker) -> Iterator[Gateway]:
    gateway = Gateway(kafka)
    yield gateway
    gateway.close()


@pytest.fixture(scope="module")
def native(kafka: Broker) -> AdminClient:
    """As a program has it that never heard of the gateway."""
    return AdminClient({"bootstrap.servers": kafka.address})


def new(kind: str = "topic") -> str:
    """A name that no other test of the run takes."""
    return f"{kind}{next(_numbers)}"


def make_natively(native: AdminClient, name: str, partitions: int = 1) -> None:
    native.create_topics([NewTopic(name, partitions, 1)])[name].result(10)
    until(
        lambda: name in native.list_topics(timeout=10).topics, 10, "the broker does not show what its controller made"
    )


def both(first: Gateway, second: Gateway, one: q.Command, two: q.Command) -> tuple[Any, Any]:
    """Their outcomes, of commands that are on their way at once."""
    begun = first.begin(one), second.begin(two)
    outcomes: list[Any] = [None, None]
    for at, deferred in enumerate(begun):
        deferred.addBoth(lambda result, at=at: outcomes.__setitem__(at, getattr(result, "value", result)))
    deadline = time.monotonic() + 20
    while None in outcomes:
        assert time.monotonic() < deadline
        first.reactor.turn()
        second.reactor.turn()
    return outcomes[0], outcomes[1]


# -- what gateways share


def test_what_one_gateway_makes_the_other_sees_with_the_same_ids(one: Gateway, other: Gateway) -> None:
    namespace, topic = new("space"), new()
    settings = TopicSettings(retention_us=1500, idempotent=True, partitioner="fnv1a_32", labels={"owner": "me"})
    made = one.ask(q.CreateNamespace(namespace))
    described = one.ask(q.CreateTopic(Topic(namespace, topic), 3, settings, id=7))
    assert (described.id, described.settings, len(described.partitions)) == (7, settings, 3)
    assert other.ask(q.DescribeNamespace(namespace)).id == made.id
    for reference in (Topic(namespace, topic), Topic(made.id, 7), Topic(namespace, 7), Topic(made.id, topic)):
        assert other.ask(q.DescribeTopic(reference)) == described
    assert other.ask(q.ListTopics(namespace)).topics == (described,)
    assert made.id in [found.id for found in other.ask(q.ListNamespaces()).namespaces]
    assert other.ask(q.DescribeNamespace(made.id, contents=True)).contents == (described,)


def test_a_gateway_that_starts_later_knows_what_was_made_before(one: Gateway, kafka: Broker) -> None:
    namespace, topic = new("space"), new()
    one.ask(q.CreateNamespace(namespace))
    described = one.ask(q.CreateTopic(Topic(namespace, topic), 2, TopicSettings(idempotent=True)))
    late = Gateway(kafka)
    assert late.ask(q.DescribeTopic(Topic(namespace, topic))) == described
    assert late.place(Topic(namespace, topic)).settings.idempotent
    late.close()


def test_of_two_gateways_that_make_one_topic_at_once_one_does(one: Gateway, other: Gateway) -> None:
    for _ in range(5):
        topic = Topic("default", new())
        outcomes = both(one, other, q.CreateTopic(topic, 2), q.CreateTopic(topic, 3))
        made = [found for found in outcomes if not isinstance(found, CommandFailed)]
        failed = [found for found in outcomes if isinstance(found, CommandFailed)]
        assert [(found.fault, found.facts) for found in failed] == [(Fault.TOPIC_EXISTS, {"taken": "name"})]
        seen = [gateway.ask(q.DescribeTopic(topic)) for gateway in (one, other)]
        assert seen == [made[0], made[0]]


def test_two_gateways_that_keep_one_topic_at_once_get_the_same(one: Gateway, other: Gateway) -> None:
    topic = Topic("default", new())
    command = q.CreateTopic(topic, 2, if_exists=q.IfExists.KEEP)
    first, second = both(one, other, command, command)
    assert first == second


def test_two_gateways_never_give_one_id_to_two_topics(one: Gateway, other: Gateway) -> None:
    namespace = new("space")
    one.ask(q.CreateNamespace(namespace))
    for _ in range(5):
        both(one, other, q.CreateTopic(Topic(namespace, new()), 1), q.CreateTopic(Topic(namespace, new()), 1))
    listed = other.ask(q.ListTopics(namespace)).topics
    assert len({topic.id for topic in listed}) == len(listed) == 10
    assert one.ask(q.ListTopics(namespace)).topics == listed


def test_of_two_gateways_that_make_one_namespace_at_once_one_does(one: Gateway, other: Gateway) -> None:
    command = q.CreateNamespace(new("space"))
    outcomes = both(one, other, command, command)
    failed = [found for found in outcomes if isinstance(found, CommandFailed)]
    assert [(found.fault, found.facts) for found in failed] == [(Fault.NAMESPACE_EXISTS, {"taken": "name"})]
    assert one.ask(q.DescribeNamespace(command.name)) == other.ask(q.DescribeNamespace(command.name))


def test_many_that_want_a_topic_made_get_the_same_one(one: Gateway) -> None:
    topic = Topic("default", new())
    asked = [one.backend._cluster.make(topic, 2) for _ in range(20)]
    places = [one.reactor.wait(found) for found in asked]
    assert len(set(map(repr, places))) == 1
    assert places[0].partitions == 2


# -- commands, one by one


def test_ids_and_names_that_are_taken_are_refused(one: Gateway, other: Gateway) -> None:
    namespace, topic = new("space"), new()
    id = one.ask(q.CreateNamespace(namespace)).id
    assert other.ask(q.CreateNamespace(namespace)) == (Fault.NAMESPACE_EXISTS, {"taken": "name"})
    assert other.ask(q.CreateNamespace(new("space"), id)) == (Fault.NAMESPACE_EXISTS, {"taken": "id"})
    assert other.ask(q.CreateNamespace("default")) == (Fault.NAMESPACE_EXISTS, {"taken": "name"})
    assert other.ask(q.CreateNamespace(new("s"), DEFAULT_NAMESPACE_ID)) == (Fault.NAMESPACE_EXISTS, {"taken": "id"})
    one.ask(q.CreateTopic(Topic(namespace, topic), 1, id=3))
    assert other.ask(q.CreateTopic(Topic(namespace, topic), 1)) == (Fault.TOPIC_EXISTS, {"taken": "name"})
    assert other.ask(q.CreateTopic(Topic(namespace, new()), 1, id=3)) == (Fault.TOPIC_EXISTS, {"taken": "id"})
    assert other.ask(q.CreateTopic(Topic(namespace, new()), 1)).id == 4
    assert other.ask(q.CreateTopic(Topic(namespace, new()), 1, id=0))[0] is Fault.INVALID_ARGUMENT
    assert other.ask(q.CreateTopic(Topic(new("space"), topic), 1))[0] is Fault.NO_SUCH_NAMESPACE
    assert other.ask(q.CreateTopic(Topic(namespace, 99), 1))[0] is Fault.NO_SUCH_TOPIC


def test_ids_are_never_given_out_again(one: Gateway, other: Gateway) -> None:
    namespace = new("space")
    id = one.ask(q.CreateNamespace(namespace)).id
    topic = Topic(namespace, new())
    first = one.ask(q.CreateTopic(topic, 1)).id
    assert type(other.ask(q.DeleteTopic(topic))).__name__ == "Done"
    assert one.ask(q.CreateTopic(topic, 1)).id == first + 1
    one.ask(q.DeleteNamespace(namespace))
    assert other.ask(q.CreateNamespace(namespace)).id > id


def test_a_topic_that_exists_is_kept_or_grown_as_asked(one: Gateway) -> None:
    topic = Topic("default", new())
    made = one.ask(q.CreateTopic(topic, 2))
    assert one.ask(q.CreateTopic(topic, 5, if_exists=q.IfExists.KEEP)) == made
    assert one.ask(q.CreateTopic(topic, 2, if_exists=q.IfExists.GROW)) == made
    grown = one.ask(q.CreateTopic(topic, 4, if_exists=q.IfExists.GROW))
    assert [partition.index for partition in grown.partitions] == [0, 1, 2, 3]
    fewer = one.ask(q.CreateTopic(topic, 3, if_exists=q.IfExists.GROW))
    assert fewer == (Fault.FEWER_PARTITIONS, {"current": 4, "requested": 3})


def test_partitions_are_added_and_never_taken_away(one: Gateway, other: Gateway) -> None:
    topic = Topic("default", new())
    one.ask(q.CreateTopic(topic, 1))
    assert len(other.ask(q.CreatePartitions(topic, 2)).partitions) == 3
    assert len(one.ask(q.DescribeTopic(topic)).partitions) == 3
    assert one.ask(q.CreatePartitions(topic, 0))[0] is Fault.INVALID_ARGUMENT
    assert one.ask(q.CreatePartitions(Topic("default", new()), 1))[0] is Fault.NO_SUCH_TOPIC
    assert one.refused(q.DeletePartitions(topic, 1)).fault is Fault.UNSUPPORTED
    for partitions in (0, -1, q.MAX_PARTITIONS + 1):
        assert one.ask(q.CreateTopic(Topic("default", new()), partitions))[0] is Fault.INVALID_ARGUMENT


def test_settings_are_changed_for_all_gateways_and_in_kafka(one: Gateway, other: Gateway, native: AdminClient) -> None:
    name = new()
    topic = Topic("default", name)
    one.ask(q.CreateTopic(topic, 1))
    settings = TopicSettings(retention_us=60_000_000, retention_bytes=1 << 20, cleanup="compact", idempotent=True)
    assert other.ask(q.AlterTopic(topic, settings)).settings == settings
    assert one.ask(q.DescribeTopic(topic)).settings == settings
    resource = ConfigResource(ResourceType.TOPIC, name)
    config = native.describe_configs([resource])[resource].result(10)
    kept = [config[key].value for key in ("retention.ms", "retention.bytes", "cleanup.policy")]
    assert kept == ["60000", str(1 << 20), "compact"]
    assert one.ask(q.AlterTopic(topic, settings, name)).settings == settings, "its own name is no new one"
    assert one.refused(q.AlterTopic(topic, settings, new())).fault is Fault.UNSUPPORTED
    assert one.ask(q.AlterTopic(topic, TopicSettings(partitioner="none")))[0] is Fault.INVALID_ARGUMENT
    assert one.ask(q.AlterTopic(topic, TopicSettings(cleanup="shred")))[0] is Fault.INVALID_ARGUMENT
    assert one.ask(q.AlterTopic(Topic("default", new()), settings))[0] is Fault.NO_SUCH_TOPIC


def test_what_is_deleted_is_gone_for_everybody(one: Gateway, other: Gateway, native: AdminClient) -> None:
    namespace, kept = new("space"), new()
    one.ask(q.CreateNamespace(namespace))
    topics = [new(), new()]
    for name in topics:
        one.ask(q.CreateTopic(Topic(namespace, name), 1))
    one.ask(q.CreateTopic(Topic("default", kept), 1))
    other.ask(q.DeleteTopic(Topic(namespace, topics[0])))
    assert one.ask(q.DescribeTopic(Topic(namespace, topics[0])))[0] is Fault.NO_SUCH_TOPIC
    assert one.ask(q.DeleteTopic(Topic(namespace, topics[0])))[0] is Fault.NO_SUCH_TOPIC
    other.ask(q.DeleteNamespace(namespace))
    assert one.ask(q.DescribeNamespace(namespace))[0] is Fault.NO_SUCH_NAMESPACE
    assert one.ask(q.DeleteNamespace(namespace))[0] is Fault.NO_SUCH_NAMESPACE
    assert one.ask(q.DeleteNamespace("default"))[0] is Fault.INVALID_ARGUMENT
    left = native.list_topics(timeout=10).topics
    assert kept in left
    assert not [name for name in left if name.startswith(f"{namespace}.")]


def test_names_that_would_meet_in_kafka_are_refused_with_a_sentence(one: Gateway, other: Gateway) -> None:
    namespace, apart = new("space"), new()
    one.ask(q.CreateTopic(Topic("default", f"{namespace}.orders"), 1))
    one.ask(q.CreateTopic(Topic("default", f"{apart}.x"), 1))
    refused = [
        other.refused(q.CreateNamespace(namespace)),  # it would take the topic over
        other.refused(q.CreateNamespace(f"{namespace}.more")),
        other.refused(q.CreateNamespace("gw")),
        other.refused(q.CreateTopic(Topic("default", f"{apart}_x"), 1)),
        other.refused(q.CreateTopic(Topic("default", "not here"), 1)),
        other.refused(q.CreateTopic(Topic("default", "__consumer_offsets"), 1)),
        other.refused(q.CreateTopic(Topic("default", ""), 1)),
    ]
    one.ask(q.DeleteTopic(Topic("default", f"{namespace}.orders")))
    one.ask(q.CreateNamespace(namespace))
    refused.append(one.refused(q.CreateTopic(Topic("default", f"{namespace}.orders"), 1)))
    refused.append(other.refused(q.CreateTopic(Topic("default", f"{namespace}.orders"), 1)))
    assert {failure.fault for failure in refused} == {Fault.INVALID_NAME}
    assert all(" " in failure.detail for failure in refused)


def test_a_refused_topic_leaves_its_name_and_id_free(one: Gateway, other: Gateway) -> None:
    namespace, name = new("space"), new()
    one.ask(q.CreateNamespace(namespace))
    refused = one.ask(q.CreateTopic(Topic(namespace, name), 1, TopicSettings(cleanup="shred"), id=5))
    assert refused[0] is Fault.INVALID_ARGUMENT
    assert other.ask(q.CreateTopic(Topic(namespace, new()), 1, id=5)).id == 5
    assert other.ask(q.CreateTopic(Topic(namespace, name), 1)).id == 6


def test_the_node_says_what_there_is_and_leads_everything(one: Gateway) -> None:
    before = one.ask(q.Describe())
    topic = Topic("default", new())
    one.ask(q.CreateTopic(topic, 3))
    after = one.ask(q.Describe())
    assert (after.node, after.durability) == ("kafka", "replicated")
    assert (after.topics, after.partitions) == (before.topics + 1, before.partitions + 3)
    assert one.ask(q.FindLeader(topic)).address == one.ask(q.FindLeader()).address == ""
    assert one.ask(q.FindLeader(Topic("default", new())))[0] is Fault.NO_SUCH_TOPIC
    assert type(one.ask(q.Ping())).__name__ == "Done"


def test_what_no_part_does_is_refused_at_once(one: Gateway) -> None:
    failure = one.refused(q.ListSessions())
    assert failure.fault is Fault.UNSUPPORTED
    assert "ListSessions" in failure.detail


# -- what native programs do


def test_a_native_topic_is_there_by_itself_with_one_id(one: Gateway, other: Gateway, native: AdminClient) -> None:
    namespace, name = new("space"), new()
    one.ask(q.CreateNamespace(namespace))
    one.ask(q.ListTopics("default"))
    make_natively(native, f"{namespace}.{name}", 2)
    topic = Topic(namespace, name)
    first, second = both(one, other, q.DescribeTopic(topic), q.DescribeTopic(topic))
    assert first == second
    assert (first.id, len(first.partitions), first.settings.retention_us) == (1, 2, 7 * 24 * 3600 * 1_000_000)
    assert one.place(Topic(namespace, 1)).kafka == f"{namespace}.{name}"


def test_native_topics_are_listed_though_nobody_asked_for_them(one: Gateway, native: AdminClient) -> None:
    names = {new() for _ in range(5)}
    for name in names:
        make_natively(native, name)
    listed = {topic.name: topic.id for topic in one.ask(q.ListTopics("default")).topics}
    assert names <= set(listed)
    assert len(set(listed.values())) == len(listed)
    assert not [name for name in listed if name.startswith("__")]


def test_what_is_changed_natively_is_shown_and_told(one: Gateway, native: AdminClient) -> None:
    name = new()
    one.ask(q.CreateTopic(Topic("default", name), 1))
    told: list[int] = []
    place = one.place(Topic("default", name))
    one.backend._cluster.watch(lambda changed: told.append(changed.partitions) if changed.id == place.id else None)
    native.create_partitions([NewPartitions(name, 3)])[name].result(10)
    one.reactor.until(lambda: told == [3], 10, "the partitions were not noticed")
    assert one.place(Topic("default", name)).partitions == 3
    entry = ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    native.incremental_alter_configs([change])[change].result(10)
    one.reactor.until(
        lambda: one.ask(q.DescribeTopic(Topic("default", name))).settings.retention_us == 5_000_000, 10, "not shown"
    )
    native.delete_topics([name])[name].result(10)
    one.reactor.until(lambda: told == [3, 0], 10, "the end was not noticed")
    assert one.ask(q.DescribeTopic(Topic("default", name)))[0] is Fault.NO_SUCH_TOPIC


def test_the_end_of_a_topic_is_told_at_once_when_another_gateway_deletes_it(one: Gateway, other: Gateway) -> None:
    topic = Topic("default", new())
    one.ask(q.CreateTopic(topic, 2))
    told: list[Place] = []
    place = one.place(topic)
    one.backend._cluster.watch(lambda changed: told.append(changed) if changed.name == topic.name else None)
    other.ask(q.DeleteTopic(topic))
    other.ask(q.CreateTopic(topic, 2))
    one.reactor.until(lambda: [(at.id, at.partitions) for at in told] == [(place.id, 0)], 5, "not told")
    assert one.place(topic).id == place.id + 1


def test_a_topic_deleted_natively_comes_back_as_a_new_one(one: Gateway, native: AdminClient) -> None:
    name = new()
    first = one.ask(q.CreateTopic(Topic("default", name), 2, TopicSettings(idempotent=True)))
    native.delete_topics([name])[name].result(10)
    one.reactor.until(
        lambda: one.ask(q.DescribeTopic(Topic("default", name))) == (Fault.NO_SUCH_TOPIC, {}), 10, "still there"
    )
    second = one.ask(q.CreateTopic(Topic("default", name), 1))
    assert second.id > first.id
    assert not one.ask(q.DescribeTopic(Topic("default", name))).settings.idempotent


# -- a broker that is not there


def test_a_gateway_starts_without_its_broker_and_serves_when_that_is_back(tmp_path: Path) -> None:
    require()
    broker = Broker(tmp_path)
    logged: list[LogEvent] = []
    globalLogPublisher.addObserver(logged.append)
    begun = time.monotonic()
    gateway = Gateway(broker)
    assert time.monotonic() - begun < 0.5, "starting waits for nobody"
    command = q.CreateTopic(Topic("default", "orders"), 1)
    try:
        failure = gateway.refused(command)
        assert failure.fault is Fault.UNAVAILABLE
        assert time.monotonic() - begun < 11
        said = [event for event in logged if "cannot be reached" in str(event.get("log_format"))]
        assert [event["bootstrap"] for event in said] == [broker.address], "said once"
        assert "refused" in said[0]["trouble"]
        with broker:
            assert len(gateway.reactor.wait(gateway.begin(command)).partitions) == 1
            broker.pause()
            begun = time.monotonic()
            assert gateway.refused(q.DescribeTopic(Topic("default", "orders"))).fault in OUTAGE
            assert time.monotonic() - begun < 11
            assert gateway.place(Topic("default", "orders")).partitions == 1, "what is known stays known"
            broker.resume()
            begun = time.monotonic()
            assert len(gateway.ask(q.DescribeTopic(Topic("default", "orders"))).partitions) == 1
            assert time.monotonic() - begun < 2
            broker.kill()
            assert gateway.refused(q.DescribeTopic(Topic("default", "orders"))).fault in OUTAGE
            broker.start()
            begun = time.monotonic()
            assert len(gateway.ask(q.DescribeTopic(Topic("default", "orders"))).partitions) == 1
            assert time.monotonic() - begun < 2
            broker.kill()
            assert gateway.refused(q.ListTopics("default")).fault in OUTAGE
            assert gateway.reactor.longest < 0.05, "the reactor was held up"
    finally:
        globalLogPublisher.removeObserver(logged.append)
        begun = time.monotonic()
        gateway.close()
        assert time.monotonic() - begun < 5


OUTAGE = (Fault.UNAVAILABLE, Fault.TIMEOUT)


def test_nothing_runs_after_the_end(kafka: Broker) -> None:
    gateway = Gateway(kafka)
    gateway.ask(q.ListTopics("default"))
    pending = gateway.begin(q.ListTopics("default"))
    outcomes: list[Any] = []
    pending.addBoth(outcomes.append)
    gateway.close()
    assert len(outcomes) == 1, "what was begun is answered, one way or the other"
    assert gateway.reactor.getDelayedCalls() == []
    for _ in range(30):
        gateway.reactor.turn()
    assert gateway.reactor.getDelayedCalls() == []
    assert gateway.refused(q.ListTopics("default")).fault is Fault.UNAVAILABLE
