"""Clients as their projects publish them before `--backend kafka:...`, and native clients of Kafka beside them.

Of the first kind are the tests of test_real_clients.py, test_groups.py and test_iggy_*.py, each with a gateway that
keeps all it has in Kafka.  What they must find new is: before each, everything there is in this Kafka is deleted.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.records import Header, HeaderKind, Record, canonical
from system import processes, test_groups, test_iggy_clients, test_iggy_groups, test_real_clients
from system.iggy_processes import APACHE, LATEST, OLDEST, IggyGateway, IggyMember, committed
from system.kafka import Broker, require
from system.members import Book, FrameMember
from system.peers import TIMEOUT, Frames, Lines, Row, batch, connected
from system.processes import GatewayProcess, until
from system.proxied import MaybeProxied
from system.test_groups import NEW, OLD

KAFKAS_OWN = ("__consumer_offsets", "__transaction_state")

CLEAN_SECONDS = 20.0
"""Until all is deleted: members that were killed are members for 10 s more."""

long = pytest.mark.long


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One that is ours alone: what is in it is deleted again and again."""
    require()
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def empty(broker: Broker) -> Broker:
    """It, without a topic or a group."""
    admin = AdminClient({"bootstrap.servers": broker.address})

    def is_empty() -> bool:
        topics = [name for name in admin.list_topics(timeout=10).topics if name not in KAFKAS_OWN]
        groups = [each.group_id for each in admin.list_consumer_groups().result().valid]
        for deletion in (admin.delete_topics(topics) if topics else {}).values():
            with suppress(KafkaException):
                deletion.result()
        for deletion in (admin.delete_consumer_groups(groups) if groups else {}).values():
            with suppress(KafkaException):
                deletion.result()
        return not topics and not groups

    until(is_empty, CLEAN_SECONDS, "an empty Kafka")
    return broker


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of librdkafka has some threads, and each of them 8 MiB of address space for its stack."""
    monkeypatch.setattr(processes, "MEMORY", 16 << 30)


# -- what is tested over other backends, too


@pytest.fixture
def instead(empty: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of those modules have their gateways before Kafka."""

    def over_kafka(kind: Callable[..., GatewayProcess]) -> Callable[..., GatewayProcess]:
        return lambda *given, **named: kind(*given, **named | {"backend": f"kafka:{empty.address}"})

    for module in (test_real_clients, test_groups):
        monkeypatch.setattr(module, "MaybeProxied", over_kafka(MaybeProxied))
    for module in (test_iggy_clients, test_iggy_groups):
        monkeypatch.setattr(module, "IggyGateway", over_kafka(IggyGateway))


@pytest.mark.usefixtures("instead")
@pytest.mark.parametrize(
    ("client", "kind"),
    [
        (OLD, "plain"),
        (NEW, "idempotent"),
        pytest.param(OLD, "idempotent", marks=long),
        pytest.param(NEW, "plain", marks=long),
    ],
)
def test_a_real_cursus_producer_writes_ten_thousand_records(tmp_path: Path, client: str, kind: str) -> None:
    test_real_clients.test_ten_thousand_records_of_a_real_producer_are_read_in_both_dialects(tmp_path, client, kind, "")


@pytest.mark.usefixtures("instead")
def test_a_real_idempotent_cursus_producer_writes_to_an_idempotent_topic(tmp_path: Path) -> None:
    test_real_clients.test_a_real_idempotent_producer_writes_to_an_idempotent_topic(tmp_path, "")


@pytest.mark.usefixtures("instead")
@pytest.mark.parametrize("mode", ["streaming", pytest.param("polling", marks=long)])
def test_a_real_cursus_consumer_that_committed_gets_nothing_twice(tmp_path: Path, mode: str) -> None:
    test_groups.test_a_real_consumer_that_committed_gets_nothing_twice(tmp_path, mode, "")


@pytest.mark.usefixtures("instead")
@pytest.mark.parametrize("mode", ["polling", pytest.param("streaming", marks=long)])
def test_a_real_cursus_consumer_of_0_1_0_reads_everything(tmp_path: Path, mode: str) -> None:
    test_groups.test_a_real_consumer_of_0_1_0_reads_everything_never_commits_and_so_begins_again(tmp_path, mode, "")


@pytest.mark.usefixtures("instead")
@pytest.mark.parametrize("client", [OLDEST, LATEST, *(pytest.param(each, marks=long) for each in APACHE[:-1])])
def test_an_iggy_client_gets_its_ten_thousand_messages_back(tmp_path: Path, client: str) -> None:
    check = test_iggy_clients.test_ten_thousand_messages_come_back_in_order_by_every_polling_strategy
    check(tmp_path, client, "")


@pytest.mark.usefixtures("instead")
@pytest.mark.parametrize("client", [OLDEST, LATEST])
def test_an_iggy_client_is_refused_as_ever(tmp_path: Path, client: str) -> None:
    test_iggy_clients.test_what_is_refused_raises_and_the_connection_lives(tmp_path, client, "")


@pytest.mark.usefixtures("instead")
@pytest.mark.parametrize(
    ("leaving", "staying"),
    [(APACHE[-1], APACHE[0]), *(pytest.param(*pair, marks=long) for pair in test_iggy_groups.PAIRS[:-1])],
)
def test_two_iggy_members_share_the_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaving: str, staying: str
) -> None:
    """They store every offset, which takes Kafka some ms each."""
    monkeypatch.setattr(test_iggy_groups, "EACH", 150)
    check = test_iggy_groups.test_two_members_share_the_partitions_and_one_takes_over_when_the_other_ends
    check(tmp_path, leaving, staying, "")


# -- native clients

FIVE = ("cursus", "pipe", "iggy", "mlog", "grid")
HAS_KEYS = {"cursus", "pipe", "grid"}
"""The others have no place for one in what is sent here."""

PATIENCE = 20.0


def over(empty: Broker, directory: Path, *dialects: str) -> GatewayProcess:
    directory.mkdir(exist_ok=True)
    return GatewayProcess(directory, *dialects, backend=f"kafka:{empty.address}")


def spoken(gateway: GatewayProcess, dialect: str) -> Any:
    return connected(dialect, gateway.ports[dialect])


def read_natively(broker: Broker, topic: str, count: int) -> list[Message]:
    """So many messages of the one partition of a topic, by a consumer that knows nothing of gateways."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "native", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Message] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.consume(count - len(found), 0.2)
    consumer.close()
    assert [message.error() for message in found] == [None] * count
    return found


def test_a_native_consumer_reads_what_five_dialects_wrote(tmp_path: Path, empty: Broker) -> None:
    """Key, value, headers and time are Kafka's own; the headers say which dialect a record is from, too."""
    began = int(time.time() * 1000)
    with over(empty, tmp_path, *FIVE, "native") as gateway:
        with spoken(gateway, "native") as peer:
            assert isinstance(peer.ask(q.CreateTopic(q.Topic("default", "all"), 1)), r.TopicDescription)
        for dialect in FIVE:
            with spoken(gateway, dialect) as peer:
                said = peer.ask(written(dialect))
                assert isinstance(said, r.Published), (dialect, said)
        found = read_natively(empty, "all", len(FIVE))
    for dialect, message in zip(FIVE, found, strict=True):
        headers = dict(message.headers() or ())
        assert message.value() == f"of-{dialect}".encode()
        assert message.key() == (b"key" if dialect in HAS_KEYS else None), dialect
        assert headers["gw.origin"] == dialect.encode()
        assert headers.get("trace") == (b"abc" if dialect == "iggy" else None)
        kind, milliseconds = message.timestamp()
        assert kind == 1 and began <= milliseconds <= time.time() * 1000, "the time it was made"


def written(dialect: str) -> q.Publish:
    """A record with all that this dialect says."""
    headers = (Header(b"trace", b"abc", HeaderKind.TEXT),) if dialect == "iggy" else ()
    key = b"key" if dialect in HAS_KEYS else None
    record = Record(key=key, value=f"of-{dialect}".encode(), headers=headers)
    to = q.ByKey(b"key", "fnv1a_32") if dialect == "pipe" else 0
    return q.Publish(q.Topic("default", "all"), to, canonical([record]))


def test_a_native_producers_records_are_read_by_five_dialects(tmp_path: Path, empty: Broker) -> None:
    """With keys and without, with headers that are its own and none of ours."""
    sent: list[tuple[bytes | None, bytes]] = [(None, b"one"), (b"key", b"two"), (None, b""), (b"key", b"caf\xc3\xa9")]
    producer = Producer({"bootstrap.servers": empty.address})
    for key, value in sent:
        producer.produce("natives", value, key, headers=[("trace", b"abc")], partition=0)
    assert producer.flush(PATIENCE) == 0
    expected = [value for _, value in sent]
    with over(empty, tmp_path, *FIVE) as gateway:
        for dialect in FIVE:
            with spoken(gateway, dialect) as peer:
                said = peer.ask(q.Fetch(q.Topic("default", "natives"), 0, 0))
                assert isinstance(said, r.Records), (dialect, said)
                found = [record for each in said.batches for record in each.records()]
                assert [record.value for record in found] == expected, dialect
                if dialect == "iggy":
                    assert {each for record in found for each in record.headers} == {Header(b"trace", b"abc")}
        with Frames(gateway.ports["cursus"]) as frames:
            rows = frames.read_all("natives", 0)
            assert [(row.key.encode() or None, row.value.encode()) for row in rows] == sent
        with Lines(gateway.ports["pipe"]) as lines:
            assert lines.read_all("natives", 0) == [value.decode() for value in expected]


# -- one group of a native consumer and members of two gateways

PARTITIONS = 6


class NativeMember(threading.Thread):
    """A consumer with the settings that librdkafka has by itself; it commits what it has read.

    shown: (partition, offset) of every record, as often as it came.
    """

    def __init__(self, broker: Broker, topic: str, group: str) -> None:
        super().__init__(daemon=True)
        self.shown: list[tuple[int, int]] = []
        self._told = {"bootstrap.servers": broker.address, "group.id": group, "auto.offset.reset": "earliest"}
        self._topic = topic
        self._over = threading.Event()

    def run(self) -> None:
        """See Thread."""
        consumer = Consumer({**self._told, "enable.auto.commit": False})
        consumer.subscribe([self._topic])
        while not self._over.is_set():
            found = consumer.consume(50, 0.05)
            for message in found:
                assert (
                    message.error() is None and message.value() == f"{message.partition()}.{message.offset()}".encode()
                )
                self.shown.append((message.partition() or 0, message.offset() or 0))
            if found:
                with suppress(KafkaException):  # the group has moved on
                    consumer.commit(asynchronous=False)
        consumer.close()

    def finish(self) -> None:
        """Leave."""
        self._over.set()
        self.join(TIMEOUT)


def owned(broker: Broker, group: str) -> list[list[int]]:
    """What each member has, as Kafka's coordinator says; nothing while it is shared out."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    described = admin.describe_consumer_groups([group])[group].result(PATIENCE)
    return sorted(sorted(at.partition for at in each.assignment.topic_partitions) for each in described.members)


def is_shared(broker: Broker, group: str, count: int) -> Callable[[], bool]:
    """Whether so many members have an equal part each, and all of it."""

    def shared() -> bool:
        parts = owned(broker, group)
        whole = sorted(at for each in parts for at in each) == list(range(PARTITIONS))
        return whole and {len(each) for each in parts} == {PARTITIONS // count}

    return shared


def fill(gateway: GatewayProcess, topic: str, first: int, count: int) -> None:
    """So many records to each partition; in partition p at offset n it is `p.n`."""
    with Frames(gateway.ports["cursus"]) as peer:
        for partition in range(PARTITIONS):
            sent = [Row(0, 0, "", "", 0, f"{partition}.{at}") for at in range(first, first + count)]
            peer.publish(batch(topic, partition, sent))


def of_iggy(member: IggyMember) -> list[tuple[int, int]]:
    found = [(int(shown.payload.partition(".")[0]), shown.offset) for shown in member.shown]
    assert [shown.payload for shown in member.shown] == [f"{partition}.{offset}" for partition, offset in found]
    return found


def test_a_group_of_a_native_a_cursus_and_an_iggy_member_survives_the_loss_of_a_gateway(
    tmp_path: Path, empty: Broker
) -> None:
    """Each record is read once while the group is settled: before a gateway is killed, and after."""
    topic, group, book, each = "shared", "team", Book(), 120
    dialects = ("cursus", "pipe", "iggy")
    with over(empty, tmp_path / "a", *dialects) as a, over(empty, tmp_path / "b", *dialects) as b:
        with Frames(a.ports["cursus"]) as peer:
            peer.create(topic, PARTITIONS)
        native = NativeMember(empty, topic, group)
        cursus = FrameMember("cursus", book, a.ports["cursus"], group, topic)
        native.start()
        cursus.start()
        with IggyMember(LATEST, b.ports["iggy"], "default", topic, group) as iggy:
            until(is_shared(empty, group, 3), PATIENCE, "a third each")
            until(lambda: len(cursus.owned) == 2, PATIENCE, "the Cursus member's part")
            fill(a, topic, 0, each)
            read: Mapping[str, int] = {"native": 2 * each, "cursus": 2 * each, "iggy": 2 * each}
            until(lambda: counts(native, book, iggy) == read, PATIENCE, "all records, a third for each")
            until(lambda: set(committed(b, group, topic).values()) == {each}, PATIENCE, "all commits")
            check_once(each, native, book, iggy)
            a.kill()
            cursus.die()
            until(is_shared(empty, group, 2), PATIENCE, "a half each")
            fill(b, topic, each, each)
            read = {"native": 5 * each, "cursus": 2 * each, "iggy": 5 * each}
            until(lambda: counts(native, book, iggy) == read, PATIENCE, "all records, a half for each")
            check_once(2 * each, native, book, iggy)
            iggy.stop()
        native.finish()


def counts(native: NativeMember, book: Book, iggy: IggyMember) -> dict[str, int]:
    return {"native": len(native.shown), "cursus": book.count("cursus"), "iggy": iggy.count}


def check_once(each: int, native: NativeMember, book: Book, iggy: IggyMember) -> None:
    """Every record so far was read by one of them, once."""
    reads = [(read.partition, read.offset) for read in book._reads]
    expected = [(partition, offset) for partition in range(PARTITIONS) for offset in range(each)]
    assert Counter([*native.shown, *reads, *of_iggy(iggy)]) == Counter(expected)
