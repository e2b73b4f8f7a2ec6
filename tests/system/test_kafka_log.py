"""The log over a real Kafka: what is published, fetched and followed, by us and by native programs."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.interfaces import IPushProducer
from twisted.internet.task import LoopingCall
from zope.interface import implementer

from gateway.backends.interface import IFollower
from gateway.backends.kafka import sending
from gateway.backends.kafka.cluster import Cluster
from gateway.backends.kafka.delivering import Sending
from gateway.backends.kafka.membership import Membership
from gateway.backends.kafka.offsets import Offsets
from gateway.backends.kafka.producing import Producing
from gateway.backends.kafka.reading import Reading
from gateway.backends.wall import microseconds
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.deciding import partitioner
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Header, HeaderKind, Record, RecordBatch, canonical, registry
from system.kafka import Broker, kafka
from system.loops import Loop

__all__ = ["kafka"]

PATIENCE = 20.0
"""Seconds for what takes a moment."""

_names = itertools.count()


class Gateway:
    """The parts of one gateway that the log needs."""

    _sessions = itertools.count(1)

    def __init__(self, loop: Loop, address: str) -> None:
        self.loop = loop
        loop.call(self._make, address)

    def _make(self, address: str) -> None:
        self.cluster = Cluster(address, registry([]), self.loop.reactor, microseconds)
        self.producing = Producing(self.cluster)
        self.membership = Membership(self.cluster)
        self.offsets = Offsets(self.cluster, self.membership)
        self.reading = Reading(self.cluster, self.membership, self.offsets, self.producing)
        self.verbs = {**self.producing.verbs, **self.reading.verbs, **self.membership.verbs, **self.offsets.verbs}
        self.cluster.start()

    def session(self) -> q.Session:
        """A connection."""
        return q.Session(next(self._sessions))

    def execute(self, command: q.Command, session: q.Session | None = None) -> Any:
        """In the reactor."""
        return maybeDeferred(self.verbs[type(command)], command, session or self.session())

    def ask(self, command: q.Command, session: q.Session | None = None) -> Any:
        """The reply.  Raises CommandFailed."""
        return self.loop.call(self.execute, command, session)

    def ask_all(self, commands: list[q.Command], session: q.Session | None = None) -> list[tuple[bool, Any]]:
        """All at once, from one connection unless it is None; (whether it was done, reply or Failure) of each."""
        return self.loop.call(
            lambda: DeferredList([self.execute(each, session) for each in commands], consumeErrors=True)
        )

    def wait_waiting(self, topic: q.Topic, count: int) -> None:
        """Until so many wait for a record of the first partition."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            tail = self.reading._tails._tails.get((str(topic.name), 0))
            if tail is not None and len(tail.waiting) == count:
                return
            time.sleep(0.01)
        raise AssertionError("they do not wait")

    def close(self) -> None:
        for part in (self.reading, self.producing, self.membership):
            self.loop.call(part.close)
        self.loop.call(self.cluster.close)


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop() as loop:
        yield loop


@contextmanager
def opened(loop: Loop, broker: Broker) -> Iterator[Gateway]:
    gateway = Gateway(loop, broker.address)
    try:
        yield gateway
    finally:
        gateway.close()


@pytest.fixture(scope="module")
def gateway(loop: Loop, kafka: Broker) -> Iterator[Gateway]:
    with opened(loop, kafka) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def admin(kafka: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.address})


def new_name() -> str:
    return f"log-{next(_names)}-{time.time_ns()}"


def made(admin: AdminClient, partitions: int = 1, name: str = "", **config: str) -> q.Topic:
    """A topic that a native program made."""
    name = name or new_name()
    config = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(PATIENCE)
    shown(admin, name, partitions)
    return q.Topic("default", name)


def shown(admin: AdminClient, name: str, partitions: int) -> None:
    """Wait until the broker itself has heard of it, and leads."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = admin.list_topics(name, timeout=PATIENCE).topics[name].partitions
        if len(found) == partitions and all(at.leader >= 0 for at in found.values()):
            return
        time.sleep(0.01)
    raise AssertionError(f"{name} has no {partitions} partitions")


def idempotent(gateway: Gateway, partitions: int = 1) -> q.Topic:
    """A topic that checks its producers."""
    topic = q.Topic("default", new_name())

    async def make() -> None:
        await gateway.cluster.registry.loaded()
        claim = gateway.cluster.registry.namespace("default")
        settings = q.TopicSettings(idempotent=True)
        await gateway.cluster.making.create(claim, str(topic.name), partitions, settings, None)

    gateway.loop.call(lambda: Deferred.fromCoroutine(make()))
    return topic


def values(reply: r.Records) -> list[bytes | None]:
    return [record.value for batch in reply.batches for record in batch.records()]


def offsets(reply: r.Records) -> list[int]:
    return [offset for batch in reply.batches for offset, _, _ in batch.rows()]


def numbered(first: int, last: int, size: int = 0) -> RecordBatch:
    return canonical([Record(b"k%d" % at, b"v%d" % at + b"." * size) for at in range(first, last)])


def sequence(first: int, last: int, producer: bytes = b"p", epoch: int = 1) -> RecordBatch:
    """Records of an idempotent producer, by their numbers."""
    made = [Record(None, b"%d" % at, producer=producer, epoch=epoch, sequence=at) for at in range(first, last + 1)]
    return canonical(made)


def refused(gateway: Gateway, command: q.Command) -> CommandFailed:
    with pytest.raises(CommandFailed) as caught:
        gateway.ask(command)
    return caught.value


# -- publishing and fetching


def test_a_batch_comes_back_as_it_was(gateway: Gateway, admin: AdminClient) -> None:
    topic = made(admin)
    headers = Header(b"a", b"text", HeaderKind.TEXT), Header(b"n", b"\1", HeaderKind.INT8), Header(b"a", b"\xff")
    records = [
        Record(b"key", b"value", headers, 0, 17, b"i" * 16, b"producer", 3, 4, b"event", 5, 6, b"meta", 7),
        Record(None, b""),
        Record(b"gone", None),
        Record(b"", b"moved", timestamp=1_600_000_000_123_456),
        Record(b"k", b"\0" * 1000, (Header(b"gw.seq", b"no"), Header(b"\xff\0", b"", HeaderKind.RAW, HeaderKind.RAW))),
    ]
    before = microseconds()
    batch = canonical(records, "iggy")
    assert gateway.ask(q.Publish(topic, 0, batch)) == r.Published(0, 0, 4)
    reply = gateway.ask(q.Fetch(topic, 0, 0))
    assert (reply.partition, reply.start, reply.end) == (0, 0, 5)
    assert [record for each in reply.batches for record in each.records()] == records
    assert {each.origin for each in reply.batches} == {"iggy"}
    times = [time for each in reply.batches for _, time, _ in each.rows()]
    assert before - 1000 <= times[0] <= microseconds() + 1000
    assert times[3] == 1_600_000_000_123_456


def test_what_is_published_here_is_what_native_programs_read(
    kafka: Broker, gateway: Gateway, admin: AdminClient
) -> None:
    topic = made(admin, 2)
    batch = canonical([Record(b"k", b"v", (Header(b"a", b"1"),)), Record(None, b""), Record(b"gone", None)])
    assert gateway.ask(q.Publish(topic, 1, batch)) == r.Published(1, 0, 2)
    found = natively_read(kafka, topic, 1, 3)
    assert [(each.key(), each.value(), each.headers()) for each in found] == [
        (b"k", b"v", [("a", b"1")]),
        (None, b"", None),
        (b"gone", None, None),
    ]


def test_what_native_programs_write_is_served(kafka: Broker, gateway: Gateway, admin: AdminClient) -> None:
    topic = made(admin)
    producer = Producer({"bootstrap.servers": kafka.address})
    producer.produce(str(topic.name), b"v", b"k", 0, timestamp=1_600_000_000_123, headers=[("x", b"\xff"), ("x", None)])
    producer.produce(str(topic.name), None, b"", 0)
    producer.produce(str(topic.name), b"", None, 0, headers=[("gw.seq", b"nonsense"), ("", b"")])
    assert producer.flush(PATIENCE) == 0
    reply = gateway.ask(q.Fetch(topic, 0, 0))
    rows = [(offset, time, record) for batch in reply.batches for offset, time, record in batch.rows()]
    assert [(offset, record) for offset, _, record in rows] == [
        (0, Record(b"k", b"v", (Header(b"x", b"\xff"), Header(b"x", b"")))),
        (1, Record(None, None)),
        (2, Record(None, b"", (Header(b"gw.seq", b"nonsense"), Header(b"", b"")))),
    ]
    assert rows[0][1] == 1_600_000_000_123_000


def test_a_key_goes_where_the_topic_or_else_the_dialect_says(gateway: Gateway, admin: AdminClient) -> None:
    topic = made(admin, 7)
    reply = gateway.ask(q.Publish(topic, q.ByKey(b"user1", "fnv1a_32"), numbered(0, 1)))
    assert reply.partition == partitioner("fnv1a_32")(b"user1", 7)
    place = gateway.loop.call(gateway.cluster.place, topic)
    settled = msgspec.structs.replace(place, settings=q.TopicSettings(partitioner="xxh32"))
    assert gateway.producing._choose(settled, q.ByKey(b"user1", "fnv1a_32")) == partitioner("xxh32")(b"user1", 7)


def test_batches_are_spread_in_turn(gateway: Gateway, admin: AdminClient) -> None:
    topic = made(admin, 3)
    replies = gateway.ask_all(
        [q.Publish(topic, q.Balanced(), numbered(at, at + 2)) for at in range(6)], gateway.session()
    )
    assert [reply.partition for _, reply in replies] == [0, 1, 2, 0, 1, 2]


def test_batches_of_a_session_leave_in_order_also_while_their_topic_is_made(gateway: Gateway) -> None:
    topic, session = q.Topic("default", new_name()), gateway.session()
    publishes: list[q.Command] = [q.Publish(topic, 0, numbered(at, at + 3), create=1) for at in range(0, 60, 3)]
    replies = gateway.ask_all([*publishes, q.Fetch(topic, 0, 0)], session)
    assert [reply.base for _, reply in replies[:-1]] == list(range(0, 60, 3))
    assert values(replies[-1][1]) == [b"v%d" % at for at in range(60)]  # pipelined, and it reads its own writes


def test_a_batch_is_in_one_piece_between_those_of_others(gateway: Gateway, admin: AdminClient) -> None:
    topic = made(admin)
    replies = gateway.ask_all([q.Publish(topic, 0, numbered(at, at + 100)) for at in range(0, 2000, 100)])
    assert all(reply.last - reply.base == 99 for _, reply in replies)
    found: list[bytes | None] = []
    while len(found) < 2000:
        found += values(gateway.ask(q.Fetch(topic, 0, len(found))))
    assert found == [b"v%d" % at for at in range(2000)]


@pytest.mark.parametrize(
    ("command", "fault", "facts"),
    [
        (lambda at: q.Publish(at, 0, canonical([])), Fault.EMPTY_BATCH, {}),
        (lambda at: q.Publish(at, 2, numbered(0, 1)), Fault.NO_SUCH_PARTITION, {"partition": 2, "partitions": 2}),
        (lambda at: q.Publish(at, -1, numbered(0, 1)), Fault.NO_SUCH_PARTITION, {"partition": -1, "partitions": 2}),
        (lambda at: q.Publish(at, q.ByKey(b"k", "none"), numbered(0, 1)), Fault.INVALID_ARGUMENT, {}),
        (lambda at: q.Publish(at, 0, numbered(0, 1, 1_048_588)), Fault.TOO_LARGE, {}),
        (lambda at: q.Publish(q.Topic("default", "absent"), 0, numbered(0, 1)), Fault.NO_SUCH_TOPIC, {}),
        (lambda at: q.Publish(q.Topic("absent", "t"), 0, numbered(0, 1)), Fault.NO_SUCH_NAMESPACE, {}),
        (
            lambda at: q.Publish(q.Topic("default", "absent"), 3, numbered(0, 1), create=3),
            Fault.NO_SUCH_PARTITION,
            {"partition": 3, "partitions": 3},
        ),
        (lambda at: q.Fetch(at, 0, 1), Fault.OFFSET_GONE, {"requested": 1, "earliest": 4, "latest": 10}),
        (lambda at: q.Fetch(at, 0, -1), Fault.INVALID_OFFSET, {}),
        (lambda at: q.Fetch(at, 0, 1 << 63), Fault.INVALID_OFFSET, {}),
        (lambda at: q.Fetch(at, 2, 0), Fault.NO_SUCH_PARTITION, {"partition": 2, "partitions": 2}),
        (lambda at: q.Fetch(q.Topic("default", "absent"), 0, 0), Fault.NO_SUCH_TOPIC, {}),
        (lambda at: q.LatestOffsets(at, 2), Fault.NO_SUCH_PARTITION, {"partition": 2, "partitions": 2}),
        (lambda at: q.LatestOffsets(q.Topic("default", "absent")), Fault.NO_SUCH_TOPIC, {}),
    ],
)
def test_what_cannot_be_is_refused(
    gateway: Gateway, shortened: q.Topic, command: Callable[[q.Topic], q.Command], fault: Fault, facts: dict[str, int]
) -> None:
    failure = refused(gateway, command(shortened))
    assert (failure.fault, failure.facts) == (fault, facts)
    assert gateway.ask(q.LatestOffsets(shortened)).offsets[0] == r.PartitionOffsets(0, 4, 10)  # and nothing is stored


@pytest.fixture(scope="module")
def shortened(gateway: Gateway, admin: AdminClient) -> q.Topic:
    """A topic of two partitions; the first has offsets 4 to 9."""
    topic = made(admin, 2)
    gateway.ask(q.Publish(topic, 0, numbered(0, 10)))
    deleted = admin.delete_records([TopicPartition(str(topic.name), 0, 4)])
    assert [each.result(PATIENCE).low_watermark for each in deleted.values()] == [4]
    return topic


def test_a_message_that_the_topic_takes_no_more_is_too_large(gateway: Gateway, admin: AdminClient) -> None:
    topic = made(admin, max_message_bytes="5000")
    assert refused(gateway, q.Publish(topic, 0, numbered(0, 1, 6000))).fault is Fault.TOO_LARGE
    assert gateway.ask(q.Publish(topic, 0, numbered(1, 2))) == r.Published(0, 0, 0)


def test_a_compacted_topic_refuses_what_has_no_key(gateway: Gateway, admin: AdminClient) -> None:
    topic = made(admin, cleanup_policy="compact")
    assert refused(gateway, q.Publish(topic, 0, canonical([Record(None, b"v")]))).fault is Fault.INVALID_ARGUMENT
    assert gateway.ask(q.Publish(topic, 0, numbered(0, 1))).base >= 0


def test_too_much_at_once_is_busy_and_nothing_of_it_is_stored(
    gateway: Gateway, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = made(admin)
    monkeypatch.setattr(sending, "MAX_RECORDS", 100)
    replies = gateway.ask_all([q.Publish(topic, 0, numbered(0, 60)) for _ in range(3)])
    assert [is_done for is_done, _ in replies] == [True, False, False]
    assert {reply.value.fault for is_done, reply in replies if not is_done} == {Fault.BUSY}
    assert gateway.ask(q.LatestOffsets(topic)).offsets[0].end == 60


# -- where a read begins and ends


def test_every_start(gateway: Gateway, shortened: q.Topic) -> None:
    def got(start: q.Start, **more: Any) -> list[int]:
        return offsets(gateway.ask(q.Fetch(shortened, 0, start, **more)))

    assert got(q.First()) == [4, 5, 6, 7, 8, 9]
    assert got(7) == [7, 8, 9]
    assert got(q.Last(2)) == [8, 9]
    assert got(q.Last(100)) == [4, 5, 6, 7, 8, 9]
    assert got(q.Last(0)) == []
    assert got(10) == got(1000) == []
    assert got(q.Next(q.Group("g"), 5)) == [5, 6, 7, 8, 9]
    assert got(q.FromTime(0)) == [4, 5, 6, 7, 8, 9]
    assert got(q.FromTime(microseconds() + 3_600_000_000)) == []
    assert got(4, max_records=3) == [4, 5, 6]
    assert got(4, max_bytes=1) == [4]
    assert got(5, max_records=2) == [5, 6]
    assert got(7, max_records=2) == [7, 8]


def test_a_read_from_a_time_begins_at_its_first_record(gateway: Gateway, admin: AdminClient) -> None:
    topic = made(admin)
    times = [1_600_000_000_000_000 + at * 1_000_000 for at in range(10)]
    gateway.ask(q.Publish(topic, 0, canonical([Record(None, b"v", timestamp=at) for at in times])))
    assert offsets(gateway.ask(q.Fetch(topic, 0, q.FromTime(times[4] - 500_000)))) == [4, 5, 6, 7, 8, 9]
    assert offsets(gateway.ask(q.Fetch(topic, 0, q.FromTime(times[9])))) == [9]


def test_max_bytes_is_of_bodies_and_holds_however_the_records_come(gateway: Gateway, admin: AdminClient) -> None:
    topic = made(admin)
    gateway.ask(q.Publish(topic, 0, numbered(0, 300, 200)))
    found: list[int] = []
    while len(found) < 300:
        reply = gateway.ask(q.Fetch(topic, 0, len(found), max_bytes=5000))
        assert 0 < sum(len(batch.body) for batch in reply.batches) <= 5000
        found += offsets(reply)
    assert found == list(range(300))


def test_offsets_that_a_transaction_left_out_are_left_out(kafka: Broker, gateway: Gateway, admin: AdminClient) -> None:
    topic = made(admin)
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": str(topic.name)})
    producer.init_transactions(PATIENCE)
    for is_kept in (True, False, True):
        producer.begin_transaction()
        for _ in range(2):
            producer.produce(str(topic.name), b"kept" if is_kept else b"aborted", partition=0)
        producer.commit_transaction(PATIENCE) if is_kept else (
            producer.flush(PATIENCE),
            producer.abort_transaction(PATIENCE),
        )
    reply = gateway.ask(q.Fetch(topic, 0, 0))
    assert (offsets(reply), reply.end) == ([0, 1, 6, 7], 9)
    assert values(reply) == [b"kept"] * 4
    assert offsets(gateway.ask(q.Fetch(topic, 0, 3))) == [6, 7]
    began = time.monotonic()
    assert offsets(gateway.ask(q.Fetch(topic, 0, 8, wait=0.3))) == []  # the mark of the transaction is no record
    assert 0.3 <= time.monotonic() - began < PATIENCE / 4


def test_latest_offsets_are_of_all_partitions_or_one(gateway: Gateway, shortened: q.Topic) -> None:
    first, second = r.PartitionOffsets(0, 4, 10), r.PartitionOffsets(1, 0, 0)
    assert gateway.ask(q.LatestOffsets(shortened)) == r.Offsets(2, (first, second))
    assert gateway.ask(q.LatestOffsets(shortened, 1)) == r.Offsets(2, (second,))


def test_a_fetch_commits_what_it_gives(gateway: Gateway, admin: AdminClient) -> None:
    topic = made(admin)
    gateway.ask(q.Publish(topic, 0, numbered(0, 10)))
    reader = q.Consumer(f"c-{topic.name}")
    fetch = q.Fetch(topic, 0, q.Next(reader), max_records=4, commit=True)
    assert [offsets(gateway.ask(fetch)) for _ in range(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], []]


def test_partitions_that_a_native_program_adds_are_there_and_lose_nothing(gateway: Gateway, admin: AdminClient) -> None:
    topic = made(admin)
    gateway.ask(q.Publish(topic, 0, numbered(0, 1)))
    for partitions in range(2, 12):  # what comes before the leader knows is sent again, and is not to be overtaken
        admin.create_partitions([NewPartitions(str(topic.name), partitions)])[str(topic.name)].result(PATIENCE)
        shown(admin, str(topic.name), partitions)
        assert gateway.ask(q.Publish(topic, partitions - 1, numbered(0, 5))) == r.Published(partitions - 1, 0, 4)
        found = gateway.ask(q.Fetch(topic, partitions - 1, 0))
        assert values(found) == [b"v0", b"v1", b"v2", b"v3", b"v4"]


def test_a_report_without_an_offset_is_no_success() -> None:
    sending = Sending("t", 0, numbered(0, 2), 1, [])
    sending.report(None, Message(topic="t", offset=7))
    sending.report(None, Message(topic="t"))
    outcome = sending.outcome()
    assert isinstance(outcome, CommandFailed)
    assert outcome.fault is Fault.UNAVAILABLE


def test_a_topic_that_is_deleted_stays_deleted_and_another_may_have_its_name(
    gateway: Gateway, admin: AdminClient
) -> None:
    topic = made(admin)
    gateway.ask(q.Publish(topic, 0, numbered(0, 5)))
    gateway.ask(q.Fetch(topic, 0, 0, max_records=2))
    admin.delete_topics([str(topic.name)])[str(topic.name)].result(PATIENCE)
    gateway.loop.call(gateway.cluster.catalog.refresh)
    assert refused(gateway, q.Fetch(topic, 0, 2)).fault is Fault.NO_SUCH_TOPIC
    time.sleep(6)  # longer than the producer waits before it asks about its topics again, by which it could make them
    assert str(topic.name) not in admin.list_topics(timeout=PATIENCE).topics
    made(admin, name=str(topic.name))
    assert gateway.ask(q.Publish(topic, 0, numbered(10, 12))) == r.Published(0, 0, 1)
    assert values(gateway.ask(q.Fetch(topic, 0, 0))) == [b"v10", b"v11"]


# -- waiting


def test_a_fetch_that_waits_is_answered_when_a_record_comes(
    kafka: Broker, gateway: Gateway, admin: AdminClient
) -> None:
    topic = made(admin)
    producer = Producer({"bootstrap.servers": kafka.address, "linger.ms": 0})
    for at in range(5):
        waiting = later(gateway, q.Fetch(topic, 0, at, wait=PATIENCE))
        producer.produce(str(topic.name), b"v%d" % at, partition=0)
        producer.flush(PATIENCE)
        assert values(waiting()) == [b"v%d" % at]


def test_a_fetch_that_waits_in_vain_is_answered_in_time(gateway: Gateway, admin: AdminClient) -> None:
    topic = made(admin)
    began = time.monotonic()
    assert gateway.ask(q.Fetch(topic, 0, 0, wait=0.5)) == r.Records(0, 0, 0)
    assert 0.5 <= time.monotonic() - began < 2.5
    began = time.monotonic()
    assert gateway.ask(q.Fetch(topic, 0, 0)) == r.Records(0, 0, 0)
    assert time.monotonic() - began < 1


def test_five_hundred_may_wait_and_take_no_threads(gateway: Gateway, admin: AdminClient) -> None:
    topics = [made(admin, 50) for _ in range(2)]
    places = [(topic, index) for topic in topics for index in range(50)]
    fetches: list[q.Command] = [q.Fetch(*place, 0, wait=PATIENCE) for place in places for _ in range(5)]
    waiting = [later(gateway, fetch) for fetch in fetches]
    gateway.ask(q.Fetch(*places[0], 0, wait=1))  # by then they all do
    assert threading.active_count() < 40
    published = gateway.ask_all([q.Publish(*place, numbered(0, 3)) for place in places])
    assert all(is_done for is_done, _ in published)
    assert {values(answer())[0] for answer in waiting} == {b"v0"}


def test_the_reactor_is_not_held_up_by_batches_of_twenty_thousand(gateway: Gateway, admin: AdminClient) -> None:
    topic, batch = made(admin), numbered(0, 20_000, 50)
    latest = []
    for at in range(5):  # the machine may be busy with something else; we would be late every time
        late = [0.0]
        ticking = gateway.loop.call(ticks, gateway.loop.reactor, late)
        assert gateway.ask(q.Publish(topic, 0, batch)).last == 20_000 * at + 19_999
        found = 20_000 * at
        while found < 20_000 * (at + 1):
            found = gateway.ask(q.Fetch(topic, 0, found)).batches[-1].end
        gateway.loop.call(ticking.stop)
        latest += late
    assert min(latest) < 0.05


def ticks(reactor: EPollReactor, late: list[float]) -> LoopingCall:
    """Looks every 5 ms how late it is, and keeps the worst."""
    due = [reactor.seconds()]

    def tick() -> None:
        late[0] = max(late[0], reactor.seconds() - due[0])
        due[0] = reactor.seconds() + 0.005

    ticking = LoopingCall(tick)
    ticking.clock = reactor
    ticking.start(0.005)
    return ticking


# -- following


@implementer(IFollower)
class Follower:
    def __init__(self) -> None:
        self.came: list[bytes | None] = []
        self.failure: CommandFailed | None = None

    def deliver(self, batch: RecordBatch) -> None:
        assert batch.base == len(self.came)
        self.came += [record.value for record in batch.records()]

    def ended(self, failure: CommandFailed) -> None:
        self.failure = failure

    def until(self, count: int) -> None:
        """Fails unless so many have come, and no more."""
        deadline = time.monotonic() + PATIENCE
        while len(self.came) < count and time.monotonic() < deadline:
            time.sleep(0.01)
        assert self.came == [b"v%d" % at for at in range(count)]


def follow(gateway: Gateway, topic: q.Topic, start: q.Start = 0, **more: Any) -> tuple[Follower, IPushProducer]:
    follower, command = Follower(), q.Follow(topic, 0, start, **more)
    return follower, gateway.loop.call(gateway.reading.follow, command, gateway.session(), follower)


def test_a_follower_gets_all_there_is_and_all_that_comes(gateway: Gateway, admin: AdminClient) -> None:
    topic = made(admin)
    gateway.ask(q.Publish(topic, 0, numbered(0, 1000)))
    follower, producer = follow(gateway, topic, max_records=300)
    follower.until(1000)
    for at in range(1000, 1100, 10):
        gateway.ask(q.Publish(topic, 0, numbered(at, at + 10)))
    follower.until(1100)
    gateway.loop.call(producer.pauseProducing)
    gateway.ask(q.Publish(topic, 0, numbered(1100, 1110)))
    time.sleep(0.3)  # in which nothing may come
    follower.until(1100)
    gateway.loop.call(producer.resumeProducing)
    follower.until(1110)
    gateway.loop.call(producer.stopProducing)
    gateway.ask(q.Publish(topic, 0, numbered(1110, 1120)))
    time.sleep(0.3)
    follower.until(1110)
    assert follower.failure is None


def test_a_follow_fails_as_a_fetch_does(gateway: Gateway, shortened: q.Topic) -> None:
    for start, fault in ((1, Fault.OFFSET_GONE), (-1, Fault.INVALID_OFFSET)):
        with pytest.raises(CommandFailed) as caught:
            follow(gateway, shortened, start)
        assert caught.value.fault is fault


def test_a_follow_ends_with_its_topic(gateway: Gateway, admin: AdminClient) -> None:
    topic = made(admin)
    follower, _ = follow(gateway, topic)
    admin.delete_topics([str(topic.name)])[str(topic.name)].result(PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while follower.failure is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert follower.failure is not None
    assert follower.failure.fault is Fault.NO_SUCH_TOPIC


# -- producers


def test_what_a_producer_sent_before_is_not_stored_again(gateway: Gateway) -> None:
    topic = idempotent(gateway)
    assert gateway.ask(q.Publish(topic, 0, sequence(1, 10))) == r.Published(0, 0, 9)
    assert gateway.ask(q.Publish(topic, 0, sequence(1, 10))) == r.Published(0, 10, 9, duplicate=True)
    assert gateway.ask(q.Publish(topic, 0, sequence(6, 15))) == r.Published(0, 10, 14)
    gap = refused(gateway, q.Publish(topic, 0, sequence(20, 21)))
    assert (gap.fault, gap.facts) == (Fault.SEQUENCE_GAP, {"producer": "p", "expected": 16, "got": 20})
    assert gateway.ask(q.Publish(topic, 0, sequence(1, 2, epoch=2))) == r.Published(0, 15, 16)
    stale = refused(gateway, q.Publish(topic, 0, sequence(16, 17)))
    assert (stale.fault, stale.facts) == (Fault.STALE_EPOCH, {"producer": "p", "current": 2, "got": 1})
    assert values(gateway.ask(q.Fetch(topic, 0, 0))) == [b"%d" % at for at in (*range(1, 16), 1, 2)]


def test_another_gateway_knows_what_a_producer_has_sent(loop: Loop, kafka: Broker, gateway: Gateway) -> None:
    topic = idempotent(gateway)
    gateway.ask(q.Publish(topic, 0, sequence(1, 700)))
    gateway.ask(q.Publish(topic, 0, sequence(1, 5, b"other")))
    with opened(loop, kafka) as second:
        assert second.ask(q.Publish(topic, 0, sequence(690, 700))).duplicate
        assert second.ask(q.Publish(topic, 0, sequence(5, 6, b"other"))) == r.Published(0, 705, 705)
        assert refused(second, q.Publish(topic, 0, sequence(702, 703))).fault is Fault.SEQUENCE_GAP
        assert second.ask(q.Publish(topic, 0, sequence(701, 701))) == r.Published(0, 706, 706)


def test_another_gateway_knows_of_a_producer_that_has_been_silent_for_a_year(
    loop: Loop, kafka: Broker, gateway: Gateway
) -> None:
    topic = idempotent(gateway)
    year_ago = time.time_ns() // 1000 - 365 * 24 * 3_600_000_000
    silent = canonical([Record(producer=b"silent", epoch=1, sequence=1, timestamp=year_ago)])
    gateway.ask(q.Publish(topic, 0, silent))
    gateway.ask(q.Publish(topic, 0, canonical([Record(timestamp=year_ago + at) for at in range(3000)])))
    with opened(loop, kafka) as second:
        assert second.ask(q.Publish(topic, 0, silent)).duplicate


def test_batches_of_a_producer_may_be_sent_without_waiting(gateway: Gateway) -> None:
    topic, session = idempotent(gateway), gateway.session()
    batches = [sequence(at, at + 9) for at in range(1, 500, 10)]
    again = [batches[0], batches[10], sequence(501, 505), sequence(507, 508)]
    replies = gateway.ask_all([q.Publish(topic, 0, batch) for batch in (*batches, *again)], session)
    assert [reply.base for _, reply in replies[:50]] == list(range(0, 500, 10))
    assert [reply.duplicate for _, reply in replies[50:53]] == [True, True, False]
    assert replies[53][1].value.fault is Fault.SEQUENCE_GAP
    assert gateway.ask(q.LatestOffsets(topic)).offsets[0].end == 505


# -- outages


@pytest.mark.long  # what an outage costs is in test_kafka_outage
def test_all_goes_on_by_itself_when_kafka_comes_back(loop: Loop, tmp_path: Path, kafka: Broker) -> None:
    with Broker(tmp_path) as broker, opened(loop, broker) as gateway:
        topic = made(AdminClient({"bootstrap.servers": broker.address}))
        gateway.ask(q.Publish(topic, 0, numbered(0, 10)))
        follower, _ = follow(gateway, topic)
        follower.until(10)
        waiting = later(gateway, q.Fetch(topic, 0, 10, wait=3 * PATIENCE))
        gateway.wait_waiting(topic, 2)
        broker.kill()
        began = time.monotonic()
        failures = [
            refused(gateway, command) for command in (q.Publish(topic, 0, numbered(50, 51)), q.Fetch(topic, 0, 0))
        ]
        assert {failure.fault for failure in failures} <= {Fault.UNAVAILABLE, Fault.TIMEOUT}
        assert "may be" in failures[0].detail
        assert time.monotonic() - began < 21  # ten seconds each
        broker.start()
        began = time.monotonic()
        assert gateway.ask(q.Publish(topic, 0, numbered(10, 12))).base >= 10
        assert time.monotonic() - began < 2
        assert values(waiting())[0] in (b"v10", b"v50")
        assert offsets(gateway.ask(q.Fetch(topic, 0, 0)))[:12] == list(range(12))
        assert follower.failure is None


def test_a_producer_that_is_broken_for_good_is_replaced(gateway: Gateway, admin: AdminClient) -> None:
    topic = made(admin)
    assert gateway.ask(q.Publish(topic, 0, numbered(0, 2))).last == 1
    sender = gateway.producing._sender
    before = sender._producer
    sender._heard_error(KafkaError(KafkaError._FATAL))
    deadline = time.monotonic() + PATIENCE
    while sender._producer is before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert gateway.ask(q.Publish(topic, 0, numbered(2, 4))) == r.Published(0, 2, 3)


def later(gateway: Gateway, command: q.Command) -> Callable[[], Any]:
    """Asked now; what waits for the answer."""
    asked: list[Deferred[Any]] = []
    gateway.loop.call(lambda: asked.append(gateway.execute(command)))
    return lambda: gateway.loop.call(lambda: asked[0])


def natively_read(kafka: Broker, topic: q.Topic, partition: int, count: int) -> list[Any]:
    settings = {"bootstrap.servers": kafka.address, "group.id": "native", "enable.auto.commit": False}
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(str(topic.name), partition, 0)])
        found = consumer.consume(count, PATIENCE)
        assert len(found) == count
        assert all(each.error() is None for each in found)
        return found
    finally:
        consumer.close()
