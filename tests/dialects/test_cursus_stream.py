"""gateway.dialects.cursus: STREAM, over connections without a socket."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

import wire
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.commands import Follow, Group, Next, Session, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical
from gateway.core.replies import Done
from gateway.dialects import Request
from gateway.dialects.cursus import DIALECT, spec
from gateway.dialects.cursus.batch import MAGIC, MAX_REPLY
from gateway.dialects.cursus.layout import CURSUS_V1
from gateway.dialects.cursus.pushing import KEEPALIVE, encode_end
from gateway.dialects.cursus.session import KEEPALIVE_SECONDS, STALLED_SECONDS, CursusListener
from net.peers import Node, Peer, Scripted

ORDERS = Topic("default", "orders")
TEAM = Follow(ORDERS, 0, Next(Group("g"), 0), 8192)
V09 = wire.said("cursus", "a batch is acknowledged with what its first and last record say")
V18 = wire.told("cursus", "CONSUME as Java 0.1.1 sends it is answered with one batch")
NOTHING = wire.told("cursus", "CONSUME with nothing to read is answered with an empty batch")
LIST = wire.said("cursus", "LIST in an envelope")
LISTED = wire.told("cursus", "LIST without an envelope, as Java sends it")
HELP, HELPED = wire.said("cursus", "HELP lists what is served"), wire.told("cursus", "HELP lists what is served")
DELETE = wire.request("cursus", q.DeleteTopic(ORDERS))
FOO = wire.said("cursus", "a word that is no command, in an envelope, is refused")


def asking(command: Follow, like: str) -> bytes:
    """It is asked for as in the vector of that name."""
    said = DIALECT.decode_request(wire.said("cursus", like), wire.terms("cursus"))
    assert isinstance(said, Request)
    return wire.request("cursus", command, context=said.context)


def follow(floor: int = 0, most: int = 8192, topic: str = "orders", partition: int = 0, group: str = "g") -> bytes:
    command = Follow(Topic("default", topic), partition, Next(Group(group), floor), most)
    return asking(command, "STREAM, from our client")


def in_the_seeds_order(offset: int) -> bytes:
    return asking(Follow(ORDERS, 0, offset), "STREAM in the seed's order, from our client")


STREAM = follow()
TERMS = wire.terms("cursus")


def memory(partitions: int = 1) -> tuple[Node, MemoryBackend]:
    clock = Clock()
    backend = MemoryBackend(clock)
    backend.execute(q.CreateTopic(ORDERS, partitions), Session(0))
    return Node(backend, "cursus", clock), backend


def scripted() -> tuple[Node, Scripted]:
    backend = Scripted()
    return Node(backend, "cursus"), backend


def put(backend: MemoryBackend, *values: bytes, partition: int = 0) -> None:
    backend.execute(q.Publish(ORDERS, partition, canonical([Record(value=value) for value in values])), Session(0))


def ask(peer: Peer, *requests: bytes) -> list[bytes]:
    peer.send(b"".join(requests))
    return frames(peer.read())


def frames(stream: bytes) -> list[bytes]:
    found = []
    while stream:
        size = DIALECT.measure_reply(stream, 0, 0)
        found.append(stream[:size])
        stream = stream[size:]
    return found


def understood(frame: bytes) -> RecordBatch | CommandFailed | None:
    assert DIALECT.decode_push is not None
    return DIALECT.decode_push(Request(TEAM), frame, TERMS)


def values(frame: bytes) -> list[tuple[int, bytes]]:
    """(offset, value) of what a push brings."""
    batch = understood(frame)
    assert isinstance(batch, RecordBatch), batch
    return [(offset, record.value or b"") for offset, _, record in batch.rows()]


def end(reason: str, offset: int, **bounds: int) -> list[bytes]:
    return [encode_end(reason, offset, bounds)]


def streams(node: Node) -> list[object]:
    listener = node.listening.listener
    assert isinstance(listener, CursusListener)
    return list(listener.streams)


# -- what is sent


@pytest.mark.parametrize(("offset", "first"), [(0, 2), (1, 2), (3, 3), (9, None)])
def test_a_stream_begins_at_the_offset_or_where_its_group_has_committed_whichever_is_higher(
    offset: int, first: int | None
) -> None:
    node, backend = memory()
    put(backend, *(b"%d" % at for at in range(5)))
    backend.execute(q.CommitOffsets(ORDERS, Group("g"), {0: 2}), Session(0))
    pushed = ask(node.connect(), follow(offset))
    assert [values(frame)[0][0] for frame in pushed] == ([] if first is None else [first])


def test_what_was_asked_before_a_stream_is_answered_before_it() -> None:
    node, backend = memory()
    put(backend, b"a")
    *answers, pushed = ask(node.connect(), LIST, HELP, STREAM)
    assert answers == [LISTED, HELPED]
    assert values(pushed) == [(0, b"a")]


def test_a_stream_that_the_peer_does_not_read_holds_little_and_goes_on_where_it_was() -> None:
    node, backend = memory()
    for at in range(100):
        put(backend, b"%05d" % at + bytes(100_000))
    peer = node.connect(room=65_536)
    peer.send(STREAM)
    node.turn()
    assert 0 < len(peer.wire.value()) < 3 << 20
    got = [offset for frame in frames(peer.read()) for offset, _ in values(frame)]
    assert got == list(range(100))


# -- what is heard


def test_what_comes_behind_a_stream_is_neither_carried_out_nor_answered() -> None:
    node, backend = memory()
    peer = node.connect()
    assert ask(peer, STREAM, DELETE, FOO, LIST) == []
    assert ask(peer, DELETE) == []
    peer.send(b"\xff" * 100_000)
    assert peer.heard, "so that it is noticed when the peer goes away"
    put(backend, b"a")
    assert [values(frame) for frame in frames(peer.read())] == [[(0, b"a")]]


def test_half_a_frame_behind_a_stream_is_no_reason_to_hang_up() -> None:
    node, _ = memory()
    peer = node.connect()
    peer.send(STREAM + LIST[:-1])
    peer.send(LIST[:2])
    node.wait(30)
    assert not peer.left


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("STREAM without a group is refused", LISTED),
        ("STREAM of a partition that is not there fails", LISTED),
        ("STREAM of a topic that is not there fails", wire.told("cursus", "LIST where there are no topics")),
    ],
)
def test_a_stream_that_cannot_begin_leaves_the_connection_as_it_was(name: str, listed: bytes) -> None:
    node, backend = memory(partitions=2)
    if listed != LISTED:
        backend.execute(q.DeleteTopic(ORDERS), Session(0))
    peer = node.connect()
    assert ask(peer, wire.said("cursus", name), LIST) == [wire.told("cursus", name), listed]
    node.wait(20)
    assert peer.read() == b""
    assert ask(peer, LIST) == [listed]
    assert streams(node) == []


# -- signs of life


def test_a_stream_gives_signs_of_life_well_within_the_five_seconds_of_a_client_whatever_else_it_sends() -> None:
    node, backend = memory()
    peer = node.connect()
    ask(peer, STREAM)
    node.wait(KEEPALIVE_SECONDS - 1)
    assert peer.read() == b""
    node.wait(1)
    assert peer.read() == KEEPALIVE
    node.wait(60)
    assert peer.read() == KEEPALIVE * 20
    for _ in range(21):
        put(backend, b"x")
        node.wait(1)
    assert frames(peer.read()).count(KEEPALIVE) == 7


def test_signs_of_life_that_were_missed_are_not_made_up_for() -> None:
    node, _ = memory()
    peer = node.connect()
    ask(peer, STREAM)
    node.clock.advance(100)
    node.port.sweep()
    assert peer.read() == KEEPALIVE
    node.wait(KEEPALIVE_SECONDS)
    assert peer.read() == KEEPALIVE


def test_a_connection_without_a_stream_gives_no_signs_of_life() -> None:
    node, _ = memory()
    peer = node.connect()
    ask(peer, LIST)
    node.wait(60)
    assert peer.read() == b""


# -- how streams end


def test_a_second_stream_of_a_group_ends_the_first_at_once() -> None:
    node, backend = memory()
    put(backend, b"a", b"b", b"c", b"d")
    first, second = node.connect(), node.connect()
    ask(first, STREAM)
    assert len(ask(second, STREAM)) == 1
    node.turn()
    [told] = end("replaced", 4)
    assert first.wire.value() == told, "nothing had to arrive there, and no time to pass"
    assert first.left
    put(backend, b"e")
    assert first.read() == told
    assert [values(frame) for frame in frames(second.read())] == [[(4, b"e")]]
    first.lose()
    assert streams(node) == [("orders", 0, "g")]
    second.lose()
    assert streams(node) == []


def test_a_stream_that_is_over_says_nothing_more_whatever_the_backend_does() -> None:
    node, backend = scripted()
    first, second = node.connect(), node.connect()
    for peer in (first, second):
        peer.send(STREAM)
    backend.sources[0].follower.deliver(canonical([Record(value=b"x")]))
    backend.sources[0].follower.ended(CommandFailed(Fault.UNAVAILABLE))
    assert frames(first.read()) == end("replaced", 0)
    assert streams(node) == [("orders", 0, "g")]
    assert not second.left


def test_a_stream_that_is_replaced_before_its_first_record_says_where_it_meant_to_begin() -> None:
    node, _ = memory()
    first = node.connect()
    ask(first, follow(7))
    ask(node.connect(), STREAM)
    assert frames(first.read()) == end("replaced", 7)


def test_streams_of_other_groups_partitions_and_topics_are_left_alone() -> None:
    node, backend = memory(partitions=2)
    backend.execute(q.CreateTopic(Topic("default", "bills"), 1), Session(0))
    requests = [STREAM, follow(group="-"), follow(partition=1), follow(topic="bills")]
    peers = [node.connect() for _ in requests]
    for peer, request in zip(peers, requests, strict=True):
        assert ask(peer, request) == []
    assert len(streams(node)) == 4
    assert not any(peer.left for peer in peers)


def test_streams_in_the_seeds_order_replace_nobody() -> None:
    node, backend = memory()
    peers = [node.connect() for _ in range(3)]
    for peer in peers[:2]:
        assert ask(peer, in_the_seeds_order(0)) == []
    ask(peers[2], STREAM)
    put(backend, b"a")
    assert [values(frame) for peer in peers for frame in frames(peer.read())] == [[(0, b"a")]] * 3


def test_the_deletion_of_its_topic_does_not_end_a_stream() -> None:
    node, backend = memory()
    peer = node.connect()
    ask(peer, STREAM)
    backend.execute(q.DeleteTopic(ORDERS), Session(0))
    node.wait(2 * KEEPALIVE_SECONDS + 1)
    assert peer.read() == KEEPALIVE * 2
    assert not peer.left


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (
            CommandFailed(Fault.OFFSET_GONE, "", requested=3, earliest=5, latest=9),
            end("offset_out_of_range", 3, requested=3, earliest=5, latest=9),
        ),
        (CommandFailed(Fault.UNAVAILABLE, "hunter2"), end("error", 3)),
        (CommandFailed(Fault.INTERNAL, "hunter2"), end("error", 3)),
    ],
)
def test_a_stream_that_goes_no_further_says_why_and_hangs_up(failure: CommandFailed, said: list[bytes]) -> None:
    node, backend = scripted()
    peer = node.connect()
    ask(peer, STREAM)
    backend.sources[0].follower.deliver(canonical([Record(value=b"x")] * 3))
    peer.read()
    backend.sources[0].follower.ended(failure)
    assert frames(peer.read()) == said
    assert peer.left
    assert streams(node) == []


def test_a_stream_of_records_that_are_gone_is_over_before_it_begins() -> None:
    class Forgetful(Scripted):
        def follow(self, command: Follow, session: Session, follower: Any) -> Any:
            raise CommandFailed(Fault.OFFSET_GONE, "", requested=0, earliest=5, latest=9)

    peer = Node(Forgetful(), "cursus").connect()
    assert ask(peer, STREAM) == end("offset_out_of_range", 0, requested=0, earliest=5, latest=9)


def test_a_record_that_this_wire_cannot_carry_ends_its_stream() -> None:
    node, backend = memory()
    peer = node.connect()
    ask(peer, STREAM)
    put(backend, b"fine")
    backend.execute(q.Publish(ORDERS, 0, canonical([Record(b"k" * 65_536, b"v")])), Session(0))
    fine, control = frames(peer.read())
    assert values(fine) == [(0, b"fine")]
    assert [control] == end("error", 1)
    assert peer.left


def test_streams_are_stopped_when_the_gateway_stops() -> None:
    node, backend = memory()
    put(backend, b"a")
    peer, other = node.connect(), node.connect()
    ask(peer, STREAM)
    node.port.drain()
    assert frames(peer.read()) == end("stopped", 1)
    assert peer.left
    assert other.read() == b""
    assert streams(node) == []


def test_a_stream_that_waited_its_turn_when_the_gateway_stopped_is_stopped_too() -> None:
    node, backend = scripted()
    peer = node.connect()
    peer.send(LIST + follow(7))
    node.port.drain()
    assert backend.sources == []
    backend.open.pop().errback(CommandFailed(Fault.UNAVAILABLE))
    assert frames(peer.read())[1:] == end("stopped", 7)
    assert peer.left
    assert backend.sources[0].stopped


def test_a_peer_that_sends_no_more_has_no_stream_any_more() -> None:
    node, _ = memory()
    peer = node.connect()
    ask(peer, STREAM)
    peer.finish()
    assert frames(peer.read()) == end("stopped", 0)
    assert peer.left


def test_a_peer_that_goes_away_is_forgotten_before_its_stream_has_begun() -> None:
    class Late(Scripted):
        def follow(self, command: Follow, session: Session, follower: Any) -> Any:
            source = super().follow(command, session, follower)
            self.begin: Deferred[Any] = Deferred()
            return self.begin.addCallback(lambda ignored: source)

    backend = Late()
    node = Node(backend, "cursus")
    peer = node.connect()
    peer.send(STREAM)
    peer.lose()
    backend.begin.callback(None)
    assert backend.sources[0].stopped
    assert streams(node) == []


def test_a_peer_that_reads_nothing_for_half_an_hour_is_out_of_time() -> None:
    node, backend = memory()
    peer = node.connect(room=65_536)
    peer.send(STREAM)
    put(backend, bytes(100_000))
    node.turn()
    before = len(peer.wire.value())
    node.wait(STALLED_SECONDS)
    assert len(peer.wire.value()) == before, "no signs of life for who does not look"
    assert not peer.left
    node.wait(2)
    assert peer.left
    assert frames(peer.wire.value())[-1:] == end("timeout", 1)


def test_a_peer_that_reads_has_all_the_time_in_the_world() -> None:
    node, backend = memory()
    peer = node.connect(room=65_536)
    peer.send(STREAM)
    for _ in range(3):
        put(backend, bytes(100_000))
        node.wait(STALLED_SECONDS - 10)
        peer.read()
        node.wait(10)
    assert not peer.left


# -- frames


def test_a_long_batch_is_pushed_in_frames_that_the_go_client_takes() -> None:
    [first, _] = spec.BATCH.parse(V18[4:]).records
    record = spec.RECORD.build({**first, "payload": bytes(1 << 20)})
    batch = RecordBatch(CURSUS_V1, record * 40, 40).appended(7, 1)
    pushed = frames(DIALECT.encode_push(Request(TEAM), batch, TERMS))
    assert all(len(frame) - 4 <= MAX_REPLY for frame in pushed)
    assert [len(values(frame)) for frame in pushed] == [15, 15, 10]
    assert [offset for frame in pushed for offset, _ in values(frame)] == list(range(7, 47))


def test_a_record_that_is_longer_is_pushed_alone() -> None:
    huge = canonical([Record(value=b"a"), Record(value=bytes(MAX_REPLY + 1)), Record(value=b"z")])
    pushed = frames(DIALECT.encode_push(Request(TEAM), huge, TERMS))
    assert [len(values(frame)) for frame in pushed] == [1, 1, 1]


def test_a_batch_without_records_is_not_pushed() -> None:
    assert DIALECT.encode_push(Request(TEAM), canonical([]), TERMS) == b""


@given(
    st.lists(st.tuples(st.binary(max_size=5), st.binary(max_size=5)), min_size=1, max_size=8), st.integers(0, 1 << 40)
)
def test_what_is_pushed_is_understood(pairs: list[tuple[bytes, bytes]], base: int) -> None:
    batch = canonical([Record(key or None, value) for key, value in pairs]).appended(base, 1)
    frame = DIALECT.encode_push(Request(TEAM), batch, TERMS)
    assert DIALECT.measure_reply(frame, 0, 0) == len(frame)
    back = DIALECT.decode_push(Request(TEAM), frame, TERMS)
    assert isinstance(back, RecordBatch)
    assert (back.base, back.records()) == (base, batch.records())


def test_v18_is_two_records_and_v20_a_sign_of_life() -> None:
    assert values(V18) == [(0, b"hello"), (1, b"world")]
    assert DIALECT.measure_reply(KEEPALIVE, 0, 0) == 4
    assert understood(KEEPALIVE) is None
    [told] = end("stopped", 4)
    assert understood(told.replace(b"CLOSE", b"PAUSE")) is None, "only CLOSE is an end"
    assert understood(NOTHING) is None, "no broker pushes an empty batch"


def test_the_end_of_a_stream_among_its_frames_is_understood_as_where_an_answer_could_be() -> None:
    ends = frames(wire.told("cursus", "the end of a stream is understood, with its reason and where to go on"))
    for frame in ends:
        answer, failure = DIALECT.decode_reply(Request(TEAM), frame, TERMS), understood(frame)
        assert isinstance(answer, CommandFailed) and isinstance(failure, CommandFailed)
        assert (failure.fault, failure.facts) == (answer.fault, answer.facts)
    assert len(ends) > 6


def test_records_with_gaps_between_their_offsets_are_an_end_rather_than_wrong() -> None:
    batch = spec.BATCH.parse(V18[4:])
    batch.records[1].offset = 5
    failure = understood(spec.Long.build(spec.BATCH.build(batch)))
    assert isinstance(failure, CommandFailed)
    assert failure.fault is Fault.UNREPRESENTABLE


@pytest.mark.parametrize(
    "frame", [b"", LIST[:4], LISTED, V18[:-1], spec.Long.build(b"\xff"), spec.Long.build(MAGIC + spec.Short.build(b""))]
)
def test_what_is_no_frame_of_a_stream_is_malformed(frame: bytes) -> None:
    with pytest.raises(CommandFailed) as caught:
        understood(frame)
    assert caught.value.fault is Fault.MALFORMED


@given(st.binary(max_size=80))
def test_noise_in_a_stream_is_malformed_at_worst(noise: bytes) -> None:
    try:
        understood(spec.Long.build(noise))
    except CommandFailed as failure:
        assert failure.fault is Fault.MALFORMED


def test_our_client_follows_our_server() -> None:
    node, backend = memory()
    put(backend, b"a")
    peer = node.connect()
    peer.send(STREAM)
    assert [values(frame) for frame in frames(peer.read())] == [[(0, b"a")]]
    node.port.drain()
    [last] = frames(peer.read())
    failure = understood(last)
    assert isinstance(failure, CommandFailed)
    assert (failure.fault, failure.facts["offset"]) == (Fault.UNAVAILABLE, 1)


def test_the_end_of_a_session_is_told_to_the_backend() -> None:
    node, backend = scripted()
    peer = node.connect()
    ask(peer, STREAM)
    assert backend.now[q.EndSession] == Done()
    peer.lose()
    assert backend.sources[0].stopped
    assert backend.asked == [q.EndSession()]
