"""Maps and queues over a real Kafka: several gateways, and native programs that know nothing of maps."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.internet.task import Clock

from gateway.backends.kafka import tables, views
from gateway.backends.memory import MemoryBackend
from gateway.backends.routes.backend import Routes
from gateway.backends.routes.patterns import Patterns
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical
from system.kafka import Broker, require
from system.processes import until
from system.test_kafka_groups import Gateway, Loop, gateways

_names = itertools.count()


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop() as loop:
        yield loop


@pytest.fixture(scope="module")
def pair(loop: Loop, kafka: Broker) -> Iterator[list[Gateway]]:
    with gateways(loop, kafka, 2) as pair:
        yield pair


@pytest.fixture
def gateway(pair: list[Gateway]) -> Gateway:
    return pair[0]


def new_name() -> q.Topic:
    return q.Topic("default", f"map-{next(_names)}-{time.time_ns()}")


def put(topic: q.Topic, key: bytes, value: bytes, **more: Any) -> q.MapPut:
    return q.MapPut(topic, key, value, create=3, **more)


def entries(gateway: Gateway, topic: q.Topic) -> dict[bytes, bytes]:
    return dict(gateway.ask(q.MapScan(topic)).entries)


def fault(gateway: Gateway, command: q.Command) -> Fault:
    with pytest.raises(CommandFailed) as failed:
        gateway.ask(command)
    return failed.value.fault


def at_once(loop: Loop, asked: list[tuple[Gateway, q.Command]]) -> list[Any]:
    """All of them, without waiting for any."""

    def begin() -> Deferred[list[Any]]:
        sessions = {id(gateway): gateway.session() for gateway, _ in asked}
        begun = [maybeDeferred(at.backend.execute, command, sessions[id(at)]) for at, command in asked]
        return gatherResults(begun, consumeErrors=True)

    return loop.call(begin)


def view_of(gateway: Gateway, topic: q.Topic) -> views.View | None:
    """What it holds of a topic in memory."""
    place = gateway.backend._cluster.place(topic)
    assert not isinstance(place, Deferred)
    return held(gateway).known(place)


def held(gateway: Gateway) -> views.Views:
    bound: Any = gateway.backend._verbs[q.MapGet]
    kept: views.Views = bound.__self__._views
    return kept


# -- one gateway


def test_a_map_over_kafka_is_as_a_map_in_memory(gateway: Gateway) -> None:
    """The same commands of one client, answered alike."""
    chance = random.Random(7)
    topic = new_name()
    model, session = MemoryBackend(Clock()), q.Session(1)
    keys = [b"a", b"b", b"c", b"\xff\x00"]
    for _ in range(150):
        key = chance.choice(keys)
        command: q.Command = chance.choice(
            [
                put(topic, key, b"%d" % chance.randrange(9), previous=chance.random() < 0.5),
                put(topic, key, b"v", ttl=1000.0),
                q.MapRemove(topic, key),
                q.MapGet(topic, key),
                q.MapSize(topic),
                q.MapScan(topic, chance.choice([None, b"a"]), chance.randrange(3), None, chance.random() < 0.5),
                q.MapScan(topic, keys=(b"a", b"nothing")),
            ]
        )
        assert outcome(gateway.ask, command) == outcome(model.execute, command, session), command
    assert gateway.ask(q.MapClear(topic)) == model.execute(q.MapClear(topic), session)
    assert gateway.ask(q.MapSize(topic)) == r.Count(0)


def outcome(ask: Callable[..., Any], *of: object) -> Any:
    try:
        return ask(*of)
    except CommandFailed as failure:
        return failure.fault


def test_a_topic_made_by_a_put_is_compacted(gateway: Gateway, kafka: Broker) -> None:
    topic = new_name()
    gateway.ask(put(topic, b"k", b"v"))
    described = gateway.ask(q.DescribeTopic(topic))
    assert (described.settings.cleanup, len(described.partitions)) == ("compact", 3)
    asked = ConfigResource(ResourceType.TOPIC, str(topic.name))
    admin = AdminClient({"bootstrap.servers": kafka.address})
    config = admin.describe_configs([asked])[asked].result(10)
    assert config["cleanup.policy"].value == "compact"


def test_a_put_that_may_not_make_its_topic_does_not(gateway: Gateway) -> None:
    topic = new_name()
    assert fault(gateway, q.MapPut(topic, b"k", b"v")) is Fault.NO_SUCH_TOPIC
    for command in (q.MapGet(topic, b"k"), q.MapRemove(topic, b"k"), q.MapClear(topic), q.MapSize(topic)):
        assert fault(gateway, command) is Fault.NO_SUCH_TOPIC
    assert fault(gateway, put(topic, b"", b"v")) is Fault.INVALID_ARGUMENT
    assert fault(gateway, put(topic, b"k", b"v", ttl=-1.0)) is Fault.INVALID_ARGUMENT


def test_a_value_ends_when_its_time_is_over(gateway: Gateway) -> None:
    topic = new_name()
    gateway.ask(put(topic, b"short", b"v", ttl=0.3))
    gateway.ask(put(topic, b"long", b"v", ttl=600.0))
    assert set(entries(gateway, topic)) <= {b"short", b"long"}
    until(lambda: entries(gateway, topic) == {b"long": b"v"}, 10.0, "the short one to end")
    assert gateway.ask(q.MapRemove(topic, b"short")) == r.MapChanged(False)


def test_what_was_put_is_there_when_it_is_answered(gateway: Gateway) -> None:
    topic = new_name()
    gateway.ask(put(topic, b"k", b"0"))
    gateway.ask(q.MapGet(topic, b"k"))
    for at in range(100):
        gateway.ask(put(topic, b"k", b"%d" % at))
        assert gateway.ask(q.MapGet(topic, b"k")) == r.MapValue(b"%d" % at)
        gateway.ask(q.MapRemove(topic, b"k"))
        assert gateway.ask(q.MapGet(topic, b"k")) == r.MapValue(None)


def test_what_was_published_is_in_the_map_when_it_is_answered(gateway: Gateway) -> None:
    topic = new_name()
    gateway.ask(put(topic, b"k", b"0"))
    gateway.ask(q.MapGet(topic, b"k"))
    for at in range(50):
        batch = canonical([Record(b"k", b"%d" % at)])
        gateway.ask(q.Publish(topic, q.ByKey(b"k", "fnv1a_32"), batch))
        assert gateway.ask(q.MapGet(topic, b"k")) == r.MapValue(b"%d" % at)


def test_a_session_reads_what_it_has_just_written(loop: Loop, gateway: Gateway) -> None:
    """Also where it does not wait for the answer, and nobody has looked at the topic before."""
    for _ in range(5):
        topic = new_name()
        gateway.ask(put(topic, b"k", b"0"))
        batch = canonical([Record(b"k", b"2")])
        asked: list[q.Command] = [
            put(topic, b"k", b"1"),
            q.MapGet(topic, b"k"),
            q.Publish(topic, q.ByKey(b"k", "fnv1a_32"), batch),
            q.MapGet(topic, b"k"),
        ]
        replies = at_once(loop, [(gateway, command) for command in asked])
        assert replies[1].value in (b"1", b"2")
        assert replies[3].value == b"2"


def test_of_many_puts_in_a_millisecond_the_last_one_counts(loop: Loop, pair: list[Gateway]) -> None:
    """However they come back from the log: Kafka's times are no finer."""
    topic = new_name()
    for gateway in pair:
        gateway.ask(put(topic, b"k", b"begin"))
        gateway.ask(q.MapGet(topic, b"k"))
    for turn in range(10):
        puts = [put(topic, b"k", b"%d.%d" % (turn, at)) for at in range(300)]
        at_once(loop, [(pair[0], command) for command in puts])
        last = b"%d.299" % turn
        assert pair[0].ask(q.MapGet(topic, b"k")) == r.MapValue(last)
        until(lambda: pair[1].ask(q.MapGet(topic, b"k")).value == last, 10.0, "the other to see it")  # noqa: B023


def test_of_many_records_of_one_time_the_last_one_counts(gateway: Gateway, kafka: Broker) -> None:
    """More than one read brings, and more than there are microseconds in Kafka's millisecond."""
    topic = new_name()
    admin = AdminClient({"bootstrap.servers": kafka.address})
    made = NewTopic(str(topic.name), 1, config={"message.timestamp.type": "LogAppendTime"})
    admin.create_topics([made])[str(topic.name)].result(10)
    producer = Producer({"bootstrap.servers": kafka.address, "linger.ms": 500, "batch.size": 1_000_000})
    for at in range(3000):
        producer.produce(str(topic.name), b"%0200d" % at, b"k")
    producer.flush(10)
    assert gateway.ask(q.MapGet(topic, b"k")) == r.MapValue(b"%0200d" % 2999)


# -- several, and native programs


def test_maps_are_shared_by_gateways(pair: list[Gateway]) -> None:
    one, two = pair
    topic = new_name()
    one.ask(put(topic, b"a", b"1"))
    assert two.ask(q.MapGet(topic, b"a")) == r.MapValue(b"1")
    two.ask(put(topic, b"b", b"2"))
    until(lambda: entries(one, topic) == {b"a": b"1", b"b": b"2"}, 10.0, "the other's put")
    two.ask(q.MapRemove(topic, b"a"))
    until(lambda: entries(one, topic) == {b"b": b"2"}, 10.0, "the other's removal")


def test_another_gateways_put_arrives_within_milliseconds(pair: list[Gateway]) -> None:
    one, two = pair
    topic = new_name()
    one.ask(put(topic, b"k", b"0"))
    two.ask(q.MapGet(topic, b"k"))
    took = []
    for at in range(1, 40):
        value = b"%d" % at
        one.ask(put(topic, b"k", value))
        answered = time.monotonic()
        while two.ask(q.MapGet(topic, b"k")).value != value:
            assert time.monotonic() - answered < 10.0
        took.append(time.monotonic() - answered)
    assert sorted(took)[len(took) // 2] < 0.25


def test_what_was_there_before_is_what_the_log_says(loop: Loop, gateway: Gateway) -> None:
    """Nobody waits for an answer, and yet each value was replaced by one other, as in one line."""
    topic = new_name()
    gateway.ask(put(topic, b"k", b"begin"))
    values = [b"%d" % at for at in range(100)]
    replies = at_once(loop, [(gateway, put(topic, b"k", value, previous=True)) for value in values])
    assert [reply.previous for reply in replies] == [b"begin", *values[:-1]]
    assert gateway.ask(q.MapRemove(topic, b"k")) == r.MapChanged(True, values[-1])


def test_puts_with_and_without_a_question_keep_their_order(loop: Loop, gateway: Gateway) -> None:
    topic = new_name()
    gateway.ask(put(topic, b"k", b"begin"))
    gateway.ask(q.MapGet(topic, b"k"))
    for _ in range(10):
        puts = [put(topic, b"k", b"%d" % at, previous=at % 2 == 0) for at in range(60)]
        at_once(loop, [(gateway, command) for command in puts])
        assert gateway.ask(q.MapGet(topic, b"k")) == r.MapValue(b"59")


def test_what_claims_a_later_time_is_removed_all_the_same(pair: list[Gateway]) -> None:
    """As what a gateway wrote whose clock is ahead."""
    topic = new_name()
    ahead = Record(b"k", b"v", timestamp=time.time_ns() // 1000 + 3_600_000_000)
    pair[0].ask(q.Publish(topic, q.ByKey(b"k", "fnv1a_32"), canonical([ahead]), create=3))
    assert pair[1].ask(q.MapRemove(topic, b"k")) == r.MapChanged(True, b"v")
    until(lambda: pair[0].ask(q.MapGet(topic, b"k")).value is None, 10.0, "the other to see it")


def test_of_two_who_remove_at_once_one_has(loop: Loop, pair: list[Gateway]) -> None:
    topic = new_name()
    for turn in range(20):
        key = b"%d" % turn
        pair[0].ask(put(topic, key, b"v"))
        until(lambda: pair[1].ask(q.MapGet(topic, key)).value == b"v", 10.0, "both to see it")  # noqa: B023
        replies = at_once(loop, [(gateway, q.MapRemove(topic, key)) for gateway in pair])
        assert sorted(reply.done for reply in replies) == [False, True]
        assert {reply.previous for reply in replies} == {b"v", None}


def test_native_programs_change_maps_and_see_their_changes(gateway: Gateway, kafka: Broker) -> None:
    topic = new_name()
    gateway.ask(put(topic, b"ours", b"1"))
    gateway.ask(q.MapGet(topic, b"ours"))
    producer = Producer({"bootstrap.servers": kafka.address})
    producer.produce(str(topic.name), b"2", b"theirs", partition=1)
    producer.produce(str(topic.name), b"3", b"ours")
    producer.flush(10)
    until(lambda: entries(gateway, topic) == {b"ours": b"3", b"theirs": b"2"}, 10.0, "their records")
    assert gateway.ask(q.MapRemove(topic, b"theirs")) == r.MapChanged(True, b"2")
    assert entries(gateway, topic) == {b"ours": b"3"}
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": "none", "enable.partition.eof": False})
    consumer.assign([TopicPartition(str(topic.name), at, 0) for at in range(3)])
    seen = consumer.consume(4, 20.0)
    consumer.close()
    said = {(one.key(), one.value()) for one in seen}
    assert said == {(b"ours", b"1"), (b"ours", b"3"), (b"theirs", b"2"), (b"theirs", None)}


def test_what_a_transaction_wrote_counts_once_it_is_committed(gateway: Gateway, kafka: Broker) -> None:
    topic = new_name()
    gateway.ask(put(topic, b"a", b"1"))
    gateway.ask(q.MapGet(topic, b"a"))
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": f"of-{topic.name}"})
    producer.init_transactions(30)
    for value, end in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(str(topic.name), value, b"a", partition=0)
        producer.flush(10)
        end(30)
    until(lambda: gateway.ask(q.MapGet(topic, b"a")).value == b"committed", 10.0, "the end of it")
    assert gateway.ask(put(topic, b"a", b"2", previous=True)).previous == b"committed"


def test_a_view_read_anew_shows_the_same(loop: Loop, pair: list[Gateway], kafka: Broker) -> None:
    topic = new_name()
    chance = random.Random(3)
    for _ in range(200):
        key = b"%d" % chance.randrange(20)
        command = put(topic, key, b"%d" % chance.randrange(100)) if chance.random() < 0.7 else q.MapRemove(topic, key)
        at_once(loop, [(chance.choice(pair), put(topic, b"first", b"v")), (chance.choice(pair), command)])
    shown = [entries(gateway, topic) for gateway in pair]
    until(lambda: entries(pair[0], topic) == entries(pair[1], topic), 10.0, f"both to show the same, not {shown}")
    with gateways(loop, kafka, 1) as (another,):
        assert entries(another, topic) == entries(pair[0], topic)


def test_maps_over_kafka_and_in_memory_are_served_by_one(loop: Loop, gateway: Gateway) -> None:
    """Behind routes, by name and by number."""
    here, session = q.Topic("default", "here"), q.Session(1)
    backend = Routes(Patterns({"map-*": 1, "*": 0}), [MemoryBackend(loop.reactor), gateway.backend])
    topic = new_name()
    for at, known in ((topic, True), (here, False)):
        loop.call(backend.execute, put(at, b"k", str(at.name).encode()), session)
        described = loop.call(backend.execute, q.DescribeTopic(at), session)
        assert (described.id >> 24, described.settings.cleanup) == ((1, "compact") if known else (0, "delete"))
        by_number = q.Topic(q.DEFAULT_NAMESPACE_ID, described.id)
        assert loop.call(backend.execute, q.MapGet(by_number, b"k"), session) == r.MapValue(str(at.name).encode())
    listed = loop.call(backend.execute, q.ListTopics("default"), session).topics
    assert {topic.name, "here"} <= {each.name for each in listed}


# -- what Kafka cannot promise


@pytest.mark.parametrize("condition", [q.IfAbsent(), q.IfPresent(), q.IfEquals(b"v"), q.IfCount(0)])
def test_nothing_is_written_on_a_condition(gateway: Gateway, condition: Any) -> None:
    topic = new_name()
    gateway.ask(put(topic, b"k", b"v"))
    assert fault(gateway, put(topic, b"k", b"w", only=condition)) is Fault.UNSUPPORTED
    assert entries(gateway, topic) == {b"k": b"v"}


def test_what_cannot_be_safe_is_refused(gateway: Gateway) -> None:
    topic = new_name()
    gateway.ask(q.MapPut(topic, b"k", b"v", create=1))
    refused = (q.MapAdd(topic, b"n", 1), q.MapRemove(topic, b"k", q.IfEquals(b"v")), q.Take(topic), q.QueueClear(topic))
    for command in refused:
        assert fault(gateway, command) is Fault.UNSUPPORTED
    assert gateway.ask(q.LatestOffsets(topic)).offsets == (r.PartitionOffsets(0, 0, 1),)


# -- queues


def test_a_queue_is_looked_at_from_where_its_group_has_committed(gateway: Gateway) -> None:
    topic = new_name()
    gateway.ask(q.CreateTopic(topic, 1))
    assert gateway.ask(q.QueueSize(topic)) == r.Count(0)
    assert gateway.ask(q.Peek(topic)) == r.Records(0, 0, 0)
    gateway.ask(q.Publish(topic, 0, canonical([Record(value=b"%d" % at) for at in range(5)])))
    gateway.ask(q.CommitOffsets(topic, q.Group("queue"), {0: 2}))
    assert gateway.ask(q.QueueSize(topic)) == r.Count(3)
    for _ in range(2):
        peeked = gateway.ask(q.Peek(topic))
        assert [record.value for batch in peeked.batches for record in batch.records()] == [b"2"]
        assert (peeked.start, peeked.end) == (0, 5)
    gateway.ask(q.CommitOffsets(topic, q.Group("queue"), {0: 9}))
    assert gateway.ask(q.QueueSize(topic)) == r.Count(0)
    assert gateway.ask(q.Peek(topic)).batches == ()


def test_a_queue_has_one_partition(gateway: Gateway) -> None:
    topic = new_name()
    gateway.ask(q.CreateTopic(topic, 2))
    for command in (q.Peek(topic), q.QueueSize(topic)):
        assert fault(gateway, command) is Fault.UNSUPPORTED


# -- what is kept in memory


def test_views_are_bounded_and_the_oldest_goes(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MAX_VIEWS", 2)
    topics = [new_name() for _ in range(4)]
    for topic in topics:
        gateway.ask(put(topic, b"k", str(topic.name).encode()))
    for _ in range(2):
        for topic in topics:
            assert gateway.ask(q.MapGet(topic, b"k")).value == str(topic.name).encode()
            assert len(held(gateway)) <= 2
    assert [view_of(gateway, topic) is not None for topic in topics] == [False, False, True, True]


def test_a_topic_that_is_too_big_is_no_table_and_leaves_others_alone(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, big = new_name(), new_name()
    gateway.ask(put(small, b"k", b"v"))
    gateway.ask(q.MapGet(small, b"k"))
    records = [Record(b"%d" % at, bytes(1000)) for at in range(300)]
    gateway.ask(q.Publish(big, 0, canonical(records), create=1))
    monkeypatch.setattr(views, "MAX_BYTES", 200_000)
    assert fault(gateway, q.MapGet(big, b"1")) is Fault.UNSUPPORTED
    assert fault(gateway, q.MapSize(big)) is Fault.UNSUPPORTED
    assert isinstance(gateway.ask(put(big, b"k", b"v")), r.MapChanged)
    assert gateway.ask(q.MapGet(small, b"k")) == r.MapValue(b"v")


def test_a_key_written_again_and_again_weighs_as_one(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = new_name()
    monkeypatch.setattr(views, "MAX_BYTES", 1_000_000)
    for _ in range(30):
        gateway.ask(q.Publish(topic, 0, canonical([Record(b"k", bytes(100_000))]), create=1))
        assert gateway.ask(q.MapSize(topic)) == r.Count(1)


def test_a_view_that_nobody_asks_about_is_dropped(loop: Loop, gateway: Gateway) -> None:
    topic = new_name()
    gateway.ask(put(topic, b"k", b"v"))
    gateway.ask(q.MapGet(topic, b"k"))
    view = view_of(gateway, topic)
    assert view is not None
    view.used -= views.IDLE_SECONDS + 1
    loop.call(held(gateway)._drop_idle)
    assert view_of(gateway, topic) is None
    assert gateway.ask(q.MapGet(topic, b"k")) == r.MapValue(b"v")


def test_a_topic_made_again_is_another_map(gateway: Gateway) -> None:
    topic = new_name()
    gateway.ask(put(topic, b"k", b"v"))
    assert gateway.ask(q.MapGet(topic, b"k")) == r.MapValue(b"v")
    gateway.ask(q.DeleteTopic(topic))
    gateway.ask(put(topic, b"l", b"w"))
    assert entries(gateway, topic) == {b"l": b"w"}


def test_partitions_that_are_added_are_part_of_the_map(gateway: Gateway, kafka: Broker) -> None:
    topic = new_name()
    gateway.ask(put(topic, b"k", b"v"))
    assert gateway.ask(q.MapSize(topic)) == r.Count(1)
    gateway.ask(q.CreatePartitions(topic, 1))
    producer = Producer({"bootstrap.servers": kafka.address})
    producer.produce(str(topic.name), b"new", b"l", partition=3)
    producer.flush(10)
    until(lambda: entries(gateway, topic) == {b"k": b"v", b"l": b"new"}, 10.0, "the record in the new partition")


def test_clearing_is_all_or_what_it_says(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CLEARED_AT_ONCE", 7)
    topic = new_name()
    records = [Record(b"%d" % at, b"v") for at in range(50)]
    gateway.ask(q.Publish(topic, 1, canonical(records), create=3))  # not where a put would put them
    assert gateway.ask(q.MapClear(topic)) == r.Count(50)
    assert entries(gateway, topic) == {}
    assert gateway.ask(q.MapClear(topic)) == r.Count(0)


@pytest.mark.long  # what an outage costs is in test_kafka_outage
def test_a_map_outlives_an_outage(loop: Loop, tmp_path: Path) -> None:
    require()
    with Broker(tmp_path / "kafka") as broker, gateways(loop, broker, 1) as (gateway,):
        topic = new_name()
        gateway.ask(put(topic, b"k", b"1"))
        assert gateway.ask(q.MapGet(topic, b"k")) == r.MapValue(b"1")
        broker.kill()
        began = time.monotonic()
        assert fault(gateway, put(topic, b"k", b"lost")) in (Fault.UNAVAILABLE, Fault.TIMEOUT)
        assert time.monotonic() - began < 12.0
        until(lambda: view_of(gateway, topic) is None, 40.0, "the view to be given up")
        assert fault(gateway, q.MapGet(topic, b"k")) in (Fault.UNAVAILABLE, Fault.TIMEOUT)
        broker.start()
        until(lambda: not isinstance(outcome(gateway.ask, put(topic, b"k", b"2")), Fault), 20.0, "a put")
        assert gateway.ask(q.MapGet(topic, b"k")) == r.MapValue(b"2")
