"""What clients of the grid get from a gateway: maps, queues, topics, sets, counters and locks, and each other's."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.interfaces import IPushProducer
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent

from dialects.grid_frames import GRID, M, cut, frame, i32, i64, ok, one
from gateway.backends.interface import IFollower
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical
from gateway.dialects import ClientSession, Request, load
from gateway.dialects.grid.terms import Asked
from gateway.net.server import Listening
from net.peers import Client, Node, Peer, Scripted


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


# -- maps


def test_a_map_from_its_first_put_to_its_end(house: House) -> None:
    peer = house.node.connect()
    steps = [
        (frame(0x02, 1, b"m", b"k"), ok(1, status=1)),
        (frame(0x01, 2, b"m", b"k", b"1"), ok(2)),
        (frame(0x02, 3, b"m", b"k"), ok(3, b"1")),
        (frame(0x07, 4, b"m", b"k", b"2"), ok(4, b"\0", 2)),
        (frame(0x08, 5, b"m", b"k", b"3"), ok(5, b"\1")),
        (frame(0x09, 6, b"m", b"k", i32(1) + b"1" + i32(1) + b"4"), ok(6, b"\0", 2)),
        (frame(0x09, 7, b"m", b"k", i32(1) + b"3" + i32(1) + b"4"), ok(7, b"\1")),
        (frame(0x04, 8, b"m", b"k"), ok(8, b"\1")),
        (frame(0x05, 9, b"m"), ok(9, i32(1))),
        (frame(0x0B, 10, b"m", b"k"), ok(10, b"4")),
        (frame(0x0B, 11, b"m", b"k"), ok(11, status=1)),
        (frame(0x03, 12, b"m", b"k"), ok(12, status=1)),
        (frame(0x01, 13, b"m", b"a", b"1") + frame(0x01, 14, b"m", b"b", b""), ok(13) + ok(14)),
        (frame(0x0C, 15, b"m"), ok(15, i32(2) + i32(1) + b"a" + i32(1) + b"b")),
        (frame(0x0D, 16, b"m"), ok(16, i32(2) + i32(1) + b"1" + i32(0))),
        (frame(0x0E, 17, b"m", b"a", i32(5)), ok(17, i32(1) + i32(1) + b"b" + i32(0))),
        (
            frame(0x0F, 18, b"m", b"", i32(2) + i32(1) + b"a" + i32(1) + b"z"),
            ok(18, i32(1) + i32(1) + b"a" + i32(1) + b"1"),
        ),
        (frame(0x06, 19, b"m"), ok(19, i32(2))),
        (frame(0x05, 20, b"m"), ok(20, i32(0))),
        (frame(0x08, 21, b"none", b"k", b"v"), ok(21, b"\0", 2)),
        (frame(0x05, 22, b"none"), ok(22, i32(0))),
    ]
    for asked, answered in steps:
        assert b"".join(said(peer, asked)) == answered
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
    assert said(peer, frame(1, 1, b"m", b"Salice", b"SAlice")) == [ok(1)]
    assert house.native().ask(q.MapGet(M, b"alice")) == r.MapValue(b"Alice")
    house.native().ask(q.MapPut(M, b"bob", b"Bob"))
    assert said(peer, frame(2, 2, b"m", b"Sbob")) == [ok(2, b"SBob")]


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


def test_a_queue_gives_each_message_once(house: House) -> None:
    peer, other = house.node.connect(), house.node.connect()
    assert said(peer, frame(0x21, 1, b"jobs")) == [ok(1, status=1)]
    assert said(peer, *(frame(0x20, n, b"jobs", b"", b"job %d" % n) for n in range(3))) == [
        ok(n, b"\1") for n in range(3)
    ]
    assert said(peer, frame(0x23, 1, b"jobs"), frame(0x22, 2, b"jobs")) == [ok(1, i32(3)), ok(2, b"job 0")]
    assert said(peer, frame(0x21, 1, b"jobs")) == [ok(1, b"job 0")]
    assert said(other, frame(0x21, 1, b"jobs")) == [ok(1, b"job 1")]
    assert said(other, frame(0x24, 1, b"jobs"), frame(0x23, 2, b"jobs")) == [ok(1, i32(1)), ok(2, i32(0))]


def test_a_poll_that_waits_holds_up_nothing_behind_it(house: House) -> None:
    peer, other = house.node.connect(), house.node.connect()
    said(peer, frame(0x20, 1, b"jobs", b"", b"first"), frame(0x21, 2, b"jobs"))
    assert said(peer, frame(0x21, 3, b"jobs", i64(5000)), frame(0x71, 4)) == [ok(4)]
    assert said(other, frame(0x20, 1, b"jobs", b"", b"second")) == [ok(1, b"\1")]
    assert said(peer) == [ok(3, b"second")]
    assert said(peer, frame(0x21, 5, b"jobs", i64(5000))) == []
    house.node.wait(5.1)
    assert said(peer) == [ok(5, status=1)]


def test_a_queue_of_several_partitions_is_refused(house: House) -> None:
    native, client = house.native(), house.client()
    native.ask(q.CreateTopic(M, 3))
    failure = client.ask(q.Take(M))
    assert isinstance(failure, CommandFailed)
    assert failure.fault is Fault.UNSUPPORTED


def test_a_repeated_offer_is_one_message(house: House) -> None:
    first, again = house.node.connect(), house.node.connect()
    offer = frame(0x20, 1, b"jobs", b"", b"x", sender=b"c1:1")
    assert said(first, offer) == [ok(1, b"\1")]
    first.lose()
    assert said(again, offer) == [ok(1, b"\1")]
    assert said(again, frame(0x23, 2, b"jobs")) == [ok(2, i32(1))]


# -- topics


def test_a_topic_is_polled_from_where_one_subscribed(house: House) -> None:
    peer = house.node.connect()
    assert said(peer, frame(0x31, 1, b"news")) == [ok(1, i64(0))]
    assert said(peer, *(frame(0x30, n, b"news", b"", b"n%d" % n) for n in range(3))) == [
        ok(n, i64(n)) for n in range(3)
    ]
    assert said(peer, frame(0x31, 1, b"news")) == [ok(1, i64(3))]
    assert said(peer, frame(0x32, 1, b"news", b"", i64(1) + i32(1))) == [ok(1, i64(2) + i32(1) + i32(2) + b"n1")]
    assert said(peer, frame(0x32, 1, b"news", b"", i64(3) + i32(9))) == [ok(1, i64(3) + i32(0))]
    assert said(peer, frame(0x33, 1, b"news"), frame(0x30, 2, b"news", b"", b"n3")) == [ok(1), ok(2, i64(3))]


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
    return frame(0x90, tag, b"m", value=i64(sequence) + value)


def test_who_subscribes_gets_what_comes_after(pushing: House) -> None:
    publish(pushing, b"old")
    peer = pushing.node.connect()
    assert said(peer, frame(0x31, 7, b"m", version=0)) == [ok(7, i64(1), version=0)]
    publish(pushing, b"a", b"b")
    assert said(peer, frame(0x71, 8)) == [message(7, 1, b"a"), message(7, 2, b"b"), ok(8)]


def test_who_subscribes_before_there_is_a_topic_makes_it(pushing: House) -> None:
    peer = pushing.node.connect()
    assert said(peer, frame(0x31, 7, b"m")) == [ok(7, i64(0))]
    publish(pushing, b"a")
    assert said(peer) == [message(7, 0, b"a")]


def test_who_says_where_to_begin_begins_there(pushing: House) -> None:
    publish(pushing, b"a", b"b", b"c")
    peer = pushing.node.connect()
    assert said(peer, frame(0x31, 7, b"m", b"", i64(1))) == [
        ok(7, i64(1)),
        message(7, 1, b"b"),
        message(7, 2, b"c"),
    ]


def test_who_unsubscribes_gets_no_more_and_may_subscribe_again(pushing: House) -> None:
    publish(pushing, b"a")
    peer = pushing.node.connect()
    said(peer, frame(0x31, 7, b"m"), frame(0x31, 8, b"other"))
    assert said(peer, frame(0x33, 9, b"m")) == [ok(9)]
    publish(pushing, b"b")
    assert said(peer) == []
    publish(pushing, b"c")
    assert said(peer) == []
    assert said(peer, frame(0x31, 10, b"m")) == [ok(10, i64(3))]
    publish(pushing, b"d")
    assert said(peer) == [message(10, 3, b"d")]
    assert not peer.left


def test_of_two_subscriptions_to_a_topic_the_later_goes_on(pushing: House) -> None:
    publish(pushing, b"a")
    peer = pushing.node.connect()
    assert said(peer, frame(0x31, 7, b"m"), frame(0x31, 7, b"m", b"", i64(0))) == [
        ok(7, i64(1)),
        ok(7, i64(0)),
        message(7, 0, b"a"),
    ]
    publish(pushing, b"b")
    assert said(peer) == [message(7, 1, b"b")]


def test_a_topic_that_is_deleted_ends_its_subscriptions_and_nothing_else(pushing: House) -> None:
    publish(pushing, b"a")
    peer = pushing.node.connect()
    said(peer, frame(0x31, 7, b"m"))
    pushing.native().ask(q.DeleteTopic(M))
    (ended,) = said(peer)
    assert (ended[1], ended[2:6], ended[13]) == (0x81, b"\0\0\0\7", 1)
    assert said(peer, frame(0x71, 8)) == [ok(8)]


def test_a_message_that_no_frame_can_hold_ends_the_subscription() -> None:
    house = House(topic_push=True, max_body=64)
    peer = house.node.connect()
    said(peer, frame(0x31, 7, b"m"))
    publish(house, bytes(100))
    (ended,) = said(peer)
    assert (ended[1], ended[13]) == (0x81, 5)
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
    assert said(peer, frame(0x31, 7, b"m")) == []
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
    (failed,) = said(peer, frame(0x31, 7, b"m"))
    assert failed[1] == 0x83
    backend.sources[0].follower.deliver(one(b"a"))
    assert backend.sources[0].stopped
    assert said(peer) == []


def test_a_follow_that_fails_is_said_once() -> None:
    house = House(topic_push=True)
    house.native().ask(q.CreateTopic(M, 0))
    peer = house.node.connect()
    (failed,) = said(peer, frame(0x31, 7, b"m"))
    assert (failed[1], failed[13]) == (0x81, 1)
    assert said(peer, frame(0x31, 8, b"m"), frame(0x33, 9, b"m")) != []


def test_a_follow_that_is_not_allowed_is_said_once() -> None:
    class Forbidding(Scripted):
        def follow(self, command: q.Follow, session: q.Session, follower: IFollower) -> IPushProducer:
            raise CommandFailed(Fault.FORBIDDEN)

    ends = r.Offsets(1, (r.PartitionOffsets(0, 0, 5),))
    peer = Node(Forbidding({q.CreateTopic: r.Done(), q.LatestOffsets: ends}), "grid", topic_push=True).connect()
    (failed,) = said(peer, frame(0x31, 7, b"m"))
    assert (failed[1], failed[13]) == (0x81, 4)


# -- sets, counters, locks


def test_a_set(house: House) -> None:
    peer = house.node.connect()
    assert said(peer, frame(0x40, 1, b"tags", b"red"), frame(0x40, 2, b"tags", b"", b"red")) == [
        ok(1, b"\1"),
        ok(2, b"\0", 2),
    ]
    assert said(peer, frame(0x42, 1, b"tags", b"red"), frame(0x43, 2, b"tags")) == [ok(1, b"\1"), ok(2, i32(1))]
    assert said(peer, frame(0x41, 1, b"tags", b"", b"red"), frame(0x42, 2, b"tags", b"red")) == [
        ok(1, b"\1"),
        ok(2, b"\0", 2),
    ]
    assert said(peer, frame(0x40, 1, b"tags", b"blue"), frame(0x44, 2, b"tags"), frame(0x43, 3, b"tags")) == [
        ok(1, b"\1"),
        ok(2, i32(1)),
        ok(3, i32(0)),
    ]


def test_a_counter(house: House) -> None:
    peer = house.node.connect()
    assert said(peer, frame(0x50, 1, b"hits")) == [ok(1, i64(0))]
    assert said(peer, frame(0x52, 1, b"hits")) == [ok(1, i64(1))]
    assert said(peer, frame(0x54, 1, b"hits", b"", i64(41))) == [ok(1, i64(42))]
    assert said(peer, frame(0x53, 1, b"hits")) == [ok(1, i64(41))]
    assert said(peer, frame(0x55, 1, b"hits", b"", i64(41) + i64(-3))) == [ok(1, b"\1")]
    assert said(peer, frame(0x55, 1, b"hits", b"", i64(41) + i64(0))) == [ok(1, b"\0", 2)]
    assert said(peer, frame(0x50, 1, b"hits")) == [ok(1, i64(-3))]
    assert said(peer, frame(0x51, 1, b"hits", b"", i64(-(1 << 63)))) == [ok(1, i64(-(1 << 63)))]
    assert said(peer, frame(0x55, 1, b"new", b"", i64(0) + i64(7))) == [ok(1, b"\1")], "a missing counter is 0"
    (failed,) = said(peer, frame(0x53, 1, b"hits"))
    assert (failed[1], failed[13]) == (0x81, 3)
    assert house.native().ask(q.MapGet(q.Topic("default", "hits"), b"hits")) == r.MapValue(b"-9223372036854775808")


def test_a_value_that_is_no_number_is_no_counter(house: House) -> None:
    peer = house.node.connect()
    said(peer, frame(0x01, 1, b"hits", b"hits", b"many"))
    for opcode in (0x50, 0x52):
        (failed,) = said(peer, frame(opcode, 1, b"hits"))
        assert (failed[1], failed[13]) == (0x81, 3)


def test_a_lock_is_given_back_by_who_took_it(house: House) -> None:
    peer, other = house.node.connect(), house.node.connect()
    assert said(peer, frame(0x60, 1, b"door", sender=b"c1:1")) == [ok(1, b"\1")]
    assert said(other, frame(0x60, 1, b"door", sender=b"c2:1")) == [ok(1, b"\0", 2)]
    assert said(other, frame(0x62, 1, b"door")) == [ok(1, b"\1")]
    assert said(other, frame(0x61, 1, b"door", sender=b"c2:2")) == [ok(1, b"\0", 2)]
    assert said(other, frame(0x61, 1, b"door")) == [ok(1, b"\0", 2)]
    assert said(other, frame(0x61, 1, b"door", sender=b"c1:2")) == [ok(1, b"\1")], "the client, on whatever connection"
    assert said(other, frame(0x62, 1, b"door")) == [ok(1, b"\0", 2)]


def test_a_lock_that_was_taken_for_a_time_is_free_after_it(house: House) -> None:
    peer, other = house.node.connect(), house.node.connect()
    assert said(peer, frame(0x60, 1, b"door", b"", i64(2000))) == [ok(1, b"\1")]
    assert said(other, frame(0x60, 1, b"door")) == [ok(1, b"\0", 2)]
    house.clock.advance(2.1)
    assert said(other, frame(0x60, 1, b"door")) == [ok(1, b"\1")]
    assert said(peer, frame(0x61, 1, b"door")) == [ok(1, b"\0", 2)], "it is another's now"
    assert said(other, frame(0x61, 1, b"door")) == [ok(1, b"\1")]


# -- who is there


def test_who_has_not_logged_in_may_say_hello_and_ping_where_a_login_is_required() -> None:
    node = Node(MemoryBackend(Clock()), "grid", auth="required")
    peer = node.connect()
    hello = b"\0\x051.0.0" * 2 + i32(2) + i64(0)
    with capturedLogs() as events:
        answers = said(peer, frame(0x72, 1, value=hello), frame(0x71, 2), frame(0x02, 3, b"m", b"k"))
    assert [(at[1], at[13]) for at in answers] == [(0x73, 0), (0x80, 0), (0x81, 4)]
    assert len(events) == 1
    assert said(peer, frame(0x70, 4, b"", b"ann", b"admin"), frame(0x02, 5, b"m", b"k")) == [ok(4), ok(5, status=1)]


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
    offer = frame(0x20, 1, b"jobs", b"", b"x", sender=b"c1:1")
    assert said(first, offer) == []
    assert said(second, offer) == []
    backend.answer(r.Published(0, 0, 0))
    assert said(second) == [ok(1, b"\1")]
    assert len(backend.asked) == 1


def test_cursus_reads_what_the_grid_offers(house: House) -> None:
    said(house.node.connect(), frame(0x20, 1, b"jobs", b"k", b"from the grid"))
    cursus = load("cursus")
    listening = Listening("cursus", cursus.open(cursus.settings(), {}))
    listening.port = house.node.port
    peer = Peer(house.node, listening, None)
    text = b"CONSUME topic=jobs partition=0 offset=0 member=m group=g"
    peer.send(len(text).to_bytes(4, "big") + text)
    assert b"from the grid" in peer.read()


def test_an_operation_may_be_asked_for_by_name(house: House) -> None:
    """As a proxy does that was asked in this dialect."""
    client = house.client()
    client.session.ask(Request(q.MapPut(M, b"n", b"5", create=1), 900, Asked(opcode="COUNTER_SET")))
    client.peer.send(client.session.take())
    client.listen()
    assert client.outcomes[900] == r.MapChanged(True)
    assert client.ask(q.MapAdd(M, b"n", 2)) == r.Count(7)
