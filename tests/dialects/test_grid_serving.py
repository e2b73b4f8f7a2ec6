"""What clients of the grid get from a gateway: maps, queues, topics, sets, counters and locks, and each other's."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.interfaces import IPushProducer
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent

import wire
from dialects.grid_frames import GRID, M, asking, cut, frame, heard, i64, ok, one
from gateway.backends.interface import IFollower
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical
from gateway.core.replies import Outcome
from gateway.dialects import ClientSession, Request
from gateway.dialects.grid.terms import Asked
from net.peers import Client, Node, Peer, Scripted

PING = frame("PING", 8)


class House:
    """A gateway with the grid and, if asked for, another dialect over one store."""

    def __init__(self, **said: Any) -> None:
        self.clock = Clock()
        self.time = 1_700_000_000_000_000
        self.backend = MemoryBackend(self.clock, self.microseconds)
        self.node = Node(self.backend, "grid", self.clock, **said)

    def microseconds(self) -> int:
        return self.time + int(self.clock.seconds() * 1_000_000)

    def client(self) -> Client:
        return Client(self.node)

    def native(self) -> Client:
        """A client that sees all of a record."""
        node = Node(self.backend, "native", self.clock)
        return Client(node)


@pytest.fixture
def house() -> House:
    return House()


def said(peer: Peer, *frames: bytes) -> list[bytes]:
    peer.send(b"".join(frames))
    return cut(peer.read())


def values(client: Client, topic: q.Topic = M) -> list[bytes | None]:
    records = client.ask(q.Fetch(topic, 0, 0))
    assert isinstance(records, r.Records)
    return [record.value for batch in records.batches for record in batch.records()]


def asked(client: Client, request: Request) -> Outcome:
    """The same for what is asked by the name of an operation."""
    client.session.ask(request)
    client.peer.send(client.session.take())
    client.listen()
    return client.outcomes[request.tag]


# -- maps


def test_a_map_is_a_topic_of_one_partition_and_asking_makes_none(house: House) -> None:
    client, none = house.client(), q.Topic("default", "none")
    assert client.ask(q.MapGet(M, b"k")) == r.MapValue(None)
    assert client.ask(q.MapPut(M, b"k", b"1")) == r.MapChanged(True)
    assert client.ask(q.MapPut(none, b"k", b"v", only=q.IfPresent())) == r.MapChanged(False)
    assert client.ask(q.MapSize(none)) == r.Count(0)
    topics = house.native().ask(q.ListTopics("default"))
    assert isinstance(topics, r.Topics)
    assert [(topic.name, len(topic.partitions)) for topic in topics.topics] == [("m", 1)]


def test_a_value_lives_as_long_as_it_was_given(house: House) -> None:
    client = house.client()
    assert client.ask(q.MapPut(M, b"k", b"v", 2.0)) == r.MapChanged(True)
    house.clock.advance(1.9)
    assert client.ask(q.MapGet(M, b"k")) == r.MapValue(b"v")
    house.clock.advance(0.2)
    assert client.ask(q.MapGet(M, b"k")) == r.MapValue(None)
    assert values(client) == [b"v"], "of the log it is still a record"


def test_put_says_what_was_there_where_it_should() -> None:
    client = House(put_returns="previous").client()
    assert client.ask(q.MapPut(M, b"k", b"1", previous=True)) == r.MapChanged(True)
    assert client.ask(q.MapPut(M, b"k", b"2", previous=True)) == r.MapChanged(True, b"1")


def test_what_others_publish_with_a_key_is_in_the_map_and_the_other_way_round(house: House) -> None:
    native, grid = house.native(), house.client()
    native.ask(q.CreateTopic(M, 3))
    native.ask(q.Publish(M, 2, canonical([Record(b"k", b"theirs")])))
    assert grid.ask(q.MapGet(M, b"k")) == r.MapValue(b"theirs")
    house.clock.advance(1)
    assert grid.ask(q.MapPut(M, b"k", b"ours")) == r.MapChanged(True)
    assert native.ask(q.MapGet(M, b"k")) == r.MapValue(b"ours")
    records = [native.ask(q.Fetch(M, partition, 0)) for partition in range(3)]
    found = [
        (record.key, record.value)
        for at in records
        if isinstance(at, r.Records)
        for batch in at.batches
        for record in batch.records()
    ]
    assert sorted(found) == [(b"k", b"ours"), (b"k", b"theirs")]


def test_tags_stay_within_the_grid() -> None:
    house = House(value_codec="loom_tagged")
    peer = house.node.connect()
    assert said(peer, frame("MAP_PUT", 1, b"m", b"Salice", b"SAlice")) == [ok(1)]
    assert house.native().ask(q.MapGet(M, b"alice")) == r.MapValue(b"Alice")
    house.native().ask(q.MapPut(M, b"bob", b"Bob"))
    assert said(peer, frame("MAP_GET", 2, b"m", b"Sbob")) == [ok(2, b"SBob")]


def test_keys_beyond_what_a_frame_may_have_are_an_error_that_says_so() -> None:
    house = House(max_body=100)
    client = house.client()
    for n in range(10):
        client.ask(q.MapPut(M, b"key-%06d" % n, b"v"))
    failure = client.ask(q.MapScan(M, values=False))
    assert isinstance(failure, CommandFailed)
    assert (failure.fault, failure.detail) == (Fault.TOO_LARGE, "an answer of 144 bytes, 100 is the limit")
    first = client.ask(q.MapScan(M, limit=3))
    assert isinstance(first, r.MapEntries)
    assert [key for key, _ in first.entries] == [b"key-000000", b"key-000001", b"key-000002"]


# -- queues


def test_a_queue_of_several_partitions_is_refused(house: House) -> None:
    native, client = house.native(), house.client()
    native.ask(q.CreateTopic(M, 3))
    failure = client.ask(q.Take(M))
    assert isinstance(failure, CommandFailed)
    assert failure.fault is Fault.UNSUPPORTED


# -- topics


def test_what_is_gone_is_told_with_what_is_left() -> None:
    failure = CommandFailed(Fault.OFFSET_GONE, "", requested=0, earliest=7, latest=9)
    client = Client(Node(Scripted({q.Fetch: failure}), "grid"))
    gone = client.ask(q.Fetch(M, 0, 0))
    assert isinstance(gone, CommandFailed)
    assert (gone.fault, gone.facts) == (Fault.OFFSET_GONE, {"earliest": 7})


# -- topics that are pushed


@pytest.fixture
def pushing() -> House:
    return House(topic_push=True)


def publish(house: House, *values_: bytes) -> None:
    client = house.native()
    for value in values_:
        client.ask(q.Publish(M, 0, canonical([Record(value=value)]), create=1))
    house.clock.advance(0)


def message(tag: int, sequence: int, value: bytes) -> bytes:
    return frame("TOPIC_MESSAGE", tag, b"m", value=i64(sequence) + value)


def subscribe(tag: int, name: bytes = b"m", at: bytes = b"") -> bytes:
    return frame("TOPIC_SUBSCRIBE", tag, name, value=at)


def unsubscribe(tag: int) -> bytes:
    return frame("TOPIC_UNSUBSCRIBE", tag, b"m")


def told(peer: Peer, *frames: bytes) -> list[tuple[str, int, str]]:
    """Opcode, correlation id and status of each answer."""
    return [(answer.opcode, answer.tag, answer.status) for answer in heard(b"".join(said(peer, *frames)))]


def test_who_unsubscribes_gets_no_more_and_may_subscribe_again(pushing: House) -> None:
    publish(pushing, b"a")
    peer = pushing.node.connect()
    said(peer, subscribe(7), subscribe(8, b"other"))
    assert said(peer, unsubscribe(9)) == [ok(9)]
    publish(pushing, b"b")
    assert said(peer) == []
    publish(pushing, b"c")
    assert said(peer) == []
    assert said(peer, subscribe(10)) == [ok(10, i64(3))]
    publish(pushing, b"d")
    assert said(peer) == [message(10, 3, b"d")]
    assert not peer.left


def test_of_two_subscriptions_to_a_topic_the_later_goes_on(pushing: House) -> None:
    publish(pushing, b"a")
    peer = pushing.node.connect()
    assert said(peer, subscribe(7), subscribe(7, at=i64(0))) == [
        ok(7, i64(1)),
        ok(7, i64(0)),
        message(7, 0, b"a"),
    ]
    publish(pushing, b"b")
    assert said(peer) == [message(7, 1, b"b")]


def test_a_topic_that_is_deleted_ends_its_subscriptions_and_nothing_else(pushing: House) -> None:
    publish(pushing, b"a")
    peer = pushing.node.connect()
    said(peer, subscribe(7))
    pushing.native().ask(q.DeleteTopic(M))
    assert told(peer) == [("RESPONSE_ERROR", 7, "NOT_FOUND")]
    assert said(peer, PING) == [ok(8)]


def test_a_message_that_no_frame_can_hold_ends_the_subscription() -> None:
    house = House(topic_push=True, max_body=64)
    peer = house.node.connect()
    said(peer, subscribe(7))
    publish(house, bytes(100))
    assert told(peer) == [("RESPONSE_ERROR", 7, "TOO_LARGE")]
    publish(house, b"a")
    assert said(peer) == []


def test_our_client_follows_what_is_pushed(pushing: House) -> None:
    publish(pushing, b"a")
    peer = pushing.node.connect()
    client = ClientSession(GRID, pushing.node.listening.listener.terms("x:1"))
    follow = Request(q.Follow(M, 0, 0), 5)
    client.ask(follow)
    peer.send(client.take())
    expected = RecordBatch(one(b"a").encoding, one(b"a").body, 1, 0, 0, "grid")
    assert client.receive(peer.read()) == [(follow, expected)]


def test_where_it_is_unknown_how_far_a_topic_goes_what_came_is_kept_until_it_is() -> None:
    """The Follow begins at once, and what it brings before the answer to LatestOffsets waits for it."""
    backend = Scripted({q.CreateTopic: CommandFailed(Fault.FORBIDDEN)})
    peer = Node(backend, "grid", topic_push=True).connect()
    assert said(peer, subscribe(7)) == []
    (source,) = backend.sources
    early = canonical([Record(value=b"a"), Record(value=b"b"), Record(value=b"c")])
    source.follower.deliver(RecordBatch(early.encoding, early.body, 3, 4))
    assert said(peer) == []
    backend.answer(r.Offsets(1, (r.PartitionOffsets(0, 0, 5),)))
    assert said(peer) == [ok(7, i64(5)), message(7, 5, b"b"), message(7, 6, b"c")]
    source.follower.deliver(RecordBatch(early.encoding, early.body, 3, 1))
    assert said(peer) == [], "nothing that is before it"


def test_an_offset_that_cannot_be_looked_up_ends_the_subscription() -> None:
    backend = Scripted({q.CreateTopic: r.Done(), q.LatestOffsets: CommandFailed(Fault.UNAVAILABLE)})
    peer = Node(backend, "grid", topic_push=True).connect()
    assert told(peer, subscribe(7)) == [("RESPONSE_SERVER_BUSY", 7, "BUSY")]
    backend.sources[0].follower.deliver(one(b"a"))
    assert backend.sources[0].stopped
    assert said(peer) == []


def test_a_follow_that_fails_is_said_once() -> None:
    house = House(topic_push=True)
    house.native().ask(q.CreateTopic(M, 0))
    peer = house.node.connect()
    assert told(peer, subscribe(7)) == [("RESPONSE_ERROR", 7, "NOT_FOUND")]
    assert said(peer, subscribe(8), unsubscribe(9)) != []


def test_a_follow_that_is_not_allowed_is_said_once() -> None:
    class Forbidding(Scripted):
        def follow(self, command: q.Follow, session: q.Session, follower: IFollower) -> IPushProducer:
            raise CommandFailed(Fault.FORBIDDEN)

    ends = r.Offsets(1, (r.PartitionOffsets(0, 0, 5),))
    peer = Node(Forbidding({q.CreateTopic: r.Done(), q.LatestOffsets: ends}), "grid", topic_push=True).connect()
    assert told(peer, subscribe(7)) == [("RESPONSE_ERROR", 7, "UNAUTHORIZED")]


# -- counters


def test_a_counter_is_a_value_and_goes_no_further_than_64_bits(house: House) -> None:
    client = house.client()
    hits = Request(q.MapPut(M, b"hits", b"-9223372036854775808", create=1), 900, Asked(opcode="COUNTER_SET"))
    assert asked(client, hits) == r.MapChanged(True)
    failed = client.ask(q.MapAdd(M, b"hits", -1))
    assert isinstance(failed, CommandFailed)
    assert failed.fault is Fault.INVALID_ARGUMENT
    assert house.native().ask(q.MapGet(M, b"hits")) == r.MapValue(b"-9223372036854775808")


def test_a_value_that_is_no_number_is_no_counter(house: House) -> None:
    client = house.client()
    client.ask(q.MapPut(M, b"hits", b"many"))
    for failed in (
        asked(client, Request(q.MapGet(M, b"hits"), 900, Asked(opcode="COUNTER_GET"))),
        client.ask(q.MapAdd(M, b"hits", 1)),
    ):
        assert isinstance(failed, CommandFailed)
        assert failed.fault is Fault.INVALID_ARGUMENT


# -- who is there


def test_who_has_not_logged_in_may_say_hello_and_ping_where_a_login_is_required() -> None:
    node = Node(MemoryBackend(Clock()), "grid", auth="required")
    peer = node.connect()
    hello, get = wire.said("grid", "a hello is answered with our own"), wire.request("grid", q.MapGet(M, b"k"), 3)
    with capturedLogs() as events:
        answers = told(peer, hello, PING, get)
    assert [opcode for opcode, _, _ in answers] == ["PROTOCOL_HELLO_ACK", "RESPONSE_OK", "RESPONSE_ERROR"]
    assert answers[2] == ("RESPONSE_ERROR", 3, "UNAUTHORIZED")
    assert len(events) == 1
    login = wire.request("grid", q.Authenticate("plain", "ann", "admin"), 4)
    assert said(peer, login, get) == [ok(4), ok(3, status="NOT_FOUND")]


def test_an_unknown_opcode_is_in_the_log(house: House) -> None:
    peer = house.node.connect()
    with capturedLogs() as events:
        said(peer, frame(0xEE, 1, b"name", b"k"))
    (line,) = [formatEvent(event) for event in events]
    assert "unknown opcode 0xee" in line
    assert "test" in line


def test_a_repetition_is_answered_on_a_connection_that_sleeps() -> None:
    backend = Scripted()
    node = Node(backend, "grid")
    first, second = node.connect(), node.connect()
    offer = asking("QUEUE_OFFER", 1, b"c1:1")
    assert said(first, offer) == []
    assert said(second, offer) == []
    backend.answer(r.Published(0, 0, 0))
    assert said(second) == [ok(1, b"\1")]
    assert len(backend.asked) == 1


def test_cursus_reads_what_the_grid_offers(house: House) -> None:
    said(house.node.connect(), frame("QUEUE_OFFER", 1, b"m", b"k", b"from the grid"))
    cursus = Client(Node(house.backend, "cursus", house.clock))
    assert values(cursus) == [b"from the grid"]


def test_an_operation_may_be_asked_for_by_name(house: House) -> None:
    """As a proxy does that was asked in this dialect."""
    client = house.client()
    setting = Request(q.MapPut(M, b"n", b"5", create=1), 900, Asked(opcode="COUNTER_SET"))
    assert asked(client, setting) == r.MapChanged(True)
    assert client.ask(q.MapAdd(M, b"n", 2)) == r.Count(7)
