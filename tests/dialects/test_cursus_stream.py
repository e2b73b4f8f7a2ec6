"""gateway.dialects.cursus: STREAM, over connections without a socket."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.commands import Follow, Group, Next, Session, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical, registry
from gateway.core.replies import Done
from gateway.dialects import Request
from gateway.dialects.cursus import DIALECT
from gateway.dialects.cursus.batch import MAX_REPLY
from gateway.dialects.cursus.layout import CURSUS_V1
from gateway.dialects.cursus.session import KEEPALIVE_SECONDS, STALLED_SECONDS, CursusListener
from gateway.dialects.cursus.terms import CursusTerms
from net.peers import Node, Peer, Scripted

ORDERS = Topic("default", "orders")
TEAM = Follow(ORDERS, 0, Next(Group("g"), 0), 8192)
V09 = bytes.fromhex(
    "00000097ba7c00066f7264657273000000000131000000000000000001000000000000000200000002000000000000000000000000000000"
    "010002703100026b3100000000000000070000000568656c6c6f00000000000000000000000000000000000000000000000000000000000000"
    "020002703100026b31000000000000000700000005776f726c6400000000000000000000000000000000"
)
V18 = bytes.fromhex(
    "00000097ba7c00066f7264657273000000000131000000000000000001000000000000000200000002000000000000000000000000000000"
    "010002703100026b3100000000000000070000000568656c6c6f00000000000000000000000000000000000000000000000100000000000000"
    "020002703100026b31000000000000000700000005776f726c6400000000000000000000000000000000"
)
SECOND = len(V18) - 57
"""Where the second of its records begins, with its offset."""
V20 = bytes(4)
V21 = bytes.fromhex(
    "0000003253545245414d5f434f4e54524f4c20747970653d434c4f534520726561736f6e3d7265706c61636564206f66667365743d34"
)
STREAM = "STREAM topic=orders partition=0 group=g member=c1-2583 generation=1"


def terms() -> CursusTerms:
    found = DIALECT.open(DIALECT.settings(), registry(DIALECT.encodings)).terms("localhost:9000")
    assert isinstance(found, CursusTerms)
    return found


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


def enveloped(text: str) -> bytes:
    return (len(text) + 2).to_bytes(4, "big") + b"\0\0" + text.encode()


def ask(peer: Peer, *lines: str) -> list[bytes]:
    peer.send(b"".join(map(enveloped, lines)))
    return frames(peer.read())


def frames(stream: bytes) -> list[bytes]:
    """Payloads."""
    found = []
    while stream:
        end = DIALECT.measure_reply(stream, 0, 0)
        found.append(stream[4:end])
        stream = stream[end:]
    return found


def values(frame: bytes) -> list[tuple[int, bytes]]:
    """(offset, value) of what a push brings."""
    batch = DIALECT.decode_push(Request(TEAM), len(frame).to_bytes(4, "big") + frame, terms())
    assert isinstance(batch, RecordBatch), batch
    return [(offset, record.value or b"") for offset, _, record in batch.rows()]


def end(reason: str, offset: int, more: str = "") -> list[bytes]:
    return [f"STREAM_CONTROL type=CLOSE reason={reason} offset={offset}{more}".encode()]


def streams(node: Node) -> list[object]:
    listener = node.listening.listener
    assert isinstance(listener, CursusListener)
    return list(listener.streams)


# -- what is sent


def test_a_stream_begins_with_records_and_nothing_before_them() -> None:
    node, _ = memory()
    producer, consumer = node.connect(), node.connect()
    producer.send(V09)
    assert producer.read()
    consumer.send(enveloped(STREAM))
    assert consumer.read() == V18


def test_records_are_pushed_as_they_come_and_an_empty_batch_never_is() -> None:
    node, backend = memory()
    peer = node.connect()
    assert ask(peer, STREAM) == []
    put(backend, b"a", b"b")
    assert [values(frame) for frame in frames(peer.read())] == [[(0, b"a"), (1, b"b")]]
    put(backend, b"c")
    assert [values(frame) for frame in frames(peer.read())] == [[(2, b"c")]]


def test_a_push_has_as_many_records_as_were_asked_for_at_most() -> None:
    node, backend = memory()
    put(backend, *(b"%d" % at for at in range(10)))
    pushed = ask(node.connect(), f"{STREAM} batch=4")
    assert [len(values(frame)) for frame in pushed] == [4, 4, 2]


@pytest.mark.parametrize(("offset", "first"), [("", 2), (" offset=1", 2), (" offset=3", 3), (" offset=9", None)])
def test_a_stream_begins_at_the_offset_or_where_its_group_has_committed_whichever_is_higher(
    offset: str, first: int | None
) -> None:
    node, backend = memory()
    put(backend, *(b"%d" % at for at in range(5)))
    backend.execute(q.CommitOffsets(ORDERS, Group("g"), {0: 2}), Session(0))
    pushed = ask(node.connect(), STREAM + offset)
    assert [values(frame)[0][0] for frame in pushed] == ([] if first is None else [first])


def test_a_stream_in_the_seeds_order_begins_at_its_offset() -> None:
    node, backend = memory()
    put(backend, *(b"%d" % at for at in range(5)))
    backend.execute(q.CommitOffsets(ORDERS, Group("default-group"), {0: 4}), Session(0))
    [pushed] = ask(node.connect(), "STREAM orders 0 1")
    assert [offset for offset, _ in values(pushed)] == [1, 2, 3, 4]


def test_what_was_asked_before_a_stream_is_answered_before_it() -> None:
    node, backend = memory()
    put(backend, b"a")
    answers = ask(node.connect(), "LIST", "HELP", STREAM)
    assert [answer[:8] for answer in answers[:2]] == [b"OK count", b"OK comma"]
    assert values(answers[2]) == [(0, b"a")]


def test_a_stream_that_the_peer_does_not_read_holds_little_and_goes_on_where_it_was() -> None:
    node, backend = memory()
    for at in range(100):
        put(backend, b"%05d" % at + bytes(100_000))
    peer = node.connect(room=65_536)
    peer.send(enveloped(STREAM))
    node.turn()
    assert 0 < len(peer.wire.value()) < 3 << 20
    got = [offset for frame in frames(peer.read()) for offset, _ in values(frame)]
    assert got == list(range(100))


# -- what is heard


def test_what_comes_behind_a_stream_is_neither_carried_out_nor_answered() -> None:
    node, backend = memory()
    peer = node.connect()
    assert ask(peer, STREAM, "DELETE topic=orders", "FOO", "LIST") == []
    assert ask(peer, "DELETE topic=orders") == []
    peer.send(b"\xff" * 100_000)
    assert peer.heard, "so that it is noticed when the peer goes away"
    put(backend, b"a")
    assert [values(frame) for frame in frames(peer.read())] == [[(0, b"a")]]


def test_half_a_frame_behind_a_stream_is_no_reason_to_hang_up() -> None:
    node, _ = memory()
    peer = node.connect()
    peer.send(enveloped(STREAM) + b"\0\0\0\x09half")
    peer.send(b"\0\0")
    node.wait(30)
    assert not peer.left


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("STREAM topic=orders partition=0", b"ERROR: invalid_stream_syntax"),
        (
            "STREAM topic=orders partition=7 group=g",
            b"ERROR: command_failed reason=\"partition 7 out of range for topic 'orders' (0-0)\"",
        ),
        (
            "STREAM topic=nosuch partition=0 group=g",
            b"ERROR: command_failed reason=\"topic 'nosuch' does not exist\"",
        ),
    ],
)
def test_a_stream_that_cannot_begin_leaves_the_connection_as_it_was(line: str, answer: bytes) -> None:
    node, _ = memory()
    peer = node.connect()
    assert ask(peer, line, "LIST") == [answer, b"OK count=1 topics=orders"]
    node.wait(20)
    assert peer.read() == b""
    assert ask(peer, "LIST") == [b"OK count=1 topics=orders"]
    assert streams(node) == []


# -- signs of life


def test_a_stream_gives_signs_of_life_well_within_the_five_seconds_of_a_client_whatever_else_it_sends() -> None:
    node, backend = memory()
    peer = node.connect()
    ask(peer, STREAM)
    node.wait(KEEPALIVE_SECONDS - 1)
    assert peer.read() == b""
    node.wait(1)
    assert peer.read() == V20
    node.wait(60)
    assert peer.read() == V20 * 20
    for _ in range(21):
        put(backend, b"x")
        node.wait(1)
    assert frames(peer.read()).count(b"") == 7


def test_signs_of_life_that_were_missed_are_not_made_up_for() -> None:
    node, _ = memory()
    peer = node.connect()
    ask(peer, STREAM)
    node.clock.advance(100)
    node.port.sweep()
    assert peer.read() == V20
    node.wait(KEEPALIVE_SECONDS)
    assert peer.read() == V20


def test_a_connection_without_a_stream_gives_no_signs_of_life() -> None:
    node, _ = memory()
    peer = node.connect()
    ask(peer, "LIST")
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
    assert first.wire.value() == V21, "nothing had to arrive there, and no time to pass"
    assert first.left
    put(backend, b"e")
    assert first.read() == V21
    assert [values(frame) for frame in frames(second.read())] == [[(4, b"e")]]
    first.lose()
    assert streams(node) == [("orders", 0, "g")]
    second.lose()
    assert streams(node) == []


def test_a_stream_that_is_over_says_nothing_more_whatever_the_backend_does() -> None:
    node, backend = scripted()
    first, second = node.connect(), node.connect()
    for peer in (first, second):
        peer.send(enveloped(STREAM))
    backend.sources[0].follower.deliver(canonical([Record(value=b"x")]))
    backend.sources[0].follower.ended(CommandFailed(Fault.UNAVAILABLE))
    assert frames(first.read()) == end("replaced", 0)
    assert streams(node) == [("orders", 0, "g")]
    assert not second.left


def test_a_stream_that_is_replaced_before_its_first_record_says_where_it_meant_to_begin() -> None:
    node, _ = memory()
    first = node.connect()
    ask(first, f"{STREAM} offset=7")
    ask(node.connect(), STREAM)
    assert frames(first.read()) == end("replaced", 7)


def test_streams_of_other_groups_partitions_and_topics_are_left_alone() -> None:
    node, backend = memory(partitions=2)
    backend.execute(q.CreateTopic(Topic("default", "bills"), 1), Session(0))
    peers = [node.connect() for _ in range(4)]
    for peer, line in zip(
        peers,
        (
            STREAM,
            STREAM.replace("group=g", "group=-"),
            STREAM.replace("partition=0", "partition=1"),
            STREAM.replace("orders", "bills"),
        ),
        strict=True,
    ):
        assert ask(peer, line) == []
    assert len(streams(node)) == 4
    assert not any(peer.left for peer in peers)


def test_streams_in_the_seeds_order_replace_nobody() -> None:
    node, backend = memory()
    peers = [node.connect() for _ in range(3)]
    for peer in peers[:2]:
        assert ask(peer, "STREAM orders 0 0") == []
    ask(peers[2], STREAM)
    put(backend, b"a")
    assert [values(frame) for peer in peers for frame in frames(peer.read())] == [[(0, b"a")]] * 3


def test_the_deletion_of_its_topic_does_not_end_a_stream() -> None:
    node, backend = memory()
    peer = node.connect()
    ask(peer, STREAM)
    backend.execute(q.DeleteTopic(ORDERS), Session(0))
    node.wait(2 * KEEPALIVE_SECONDS + 1)
    assert peer.read() == V20 * 2
    assert not peer.left


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (
            CommandFailed(Fault.OFFSET_GONE, "", requested=3, earliest=5, latest=9),
            end("offset_out_of_range", 3, " requested=3 earliest=5 latest=9"),
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
    assert ask(peer, STREAM) == end("offset_out_of_range", 0, " requested=0 earliest=5 latest=9")


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
    peer.send(enveloped("LIST") + enveloped(f"{STREAM} offset=7"))
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
    peer.send(enveloped(STREAM))
    peer.lose()
    backend.begin.callback(None)
    assert backend.sources[0].stopped
    assert streams(node) == []


def test_a_peer_that_reads_nothing_for_half_an_hour_is_out_of_time() -> None:
    node, backend = memory()
    peer = node.connect(room=65_536)
    peer.send(enveloped(STREAM))
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
    peer.send(enveloped(STREAM))
    for _ in range(3):
        put(backend, bytes(100_000))
        node.wait(STALLED_SECONDS - 10)
        peer.read()
        node.wait(10)
    assert not peer.left


# -- frames


def test_a_long_batch_is_pushed_in_frames_that_the_go_client_takes() -> None:
    record = b"\0" * 28 + (1 << 20).to_bytes(4, "big") + bytes(1 << 20) + bytes(16)
    batch = RecordBatch(CURSUS_V1, record * 40, 40).appended(7, 1)
    pushed = frames(DIALECT.encode_push(Request(TEAM), batch, terms()))
    assert all(len(frame) <= MAX_REPLY for frame in pushed)
    assert [len(values(frame)) for frame in pushed] == [15, 15, 10]
    assert [offset for frame in pushed for offset, _ in values(frame)] == list(range(7, 47))


def test_a_record_that_is_longer_is_pushed_alone() -> None:
    huge = canonical([Record(value=b"a"), Record(value=bytes(MAX_REPLY + 1)), Record(value=b"z")])
    pushed = frames(DIALECT.encode_push(Request(TEAM), huge, terms()))
    assert [len(values(frame)) for frame in pushed] == [1, 1, 1]


def test_a_batch_without_records_is_not_pushed() -> None:
    assert DIALECT.encode_push(Request(TEAM), canonical([]), terms()) == b""


@given(
    st.lists(st.tuples(st.binary(max_size=5), st.binary(max_size=5)), min_size=1, max_size=8), st.integers(0, 1 << 40)
)
def test_what_is_pushed_is_understood(pairs: list[tuple[bytes, bytes]], base: int) -> None:
    batch = canonical([Record(key or None, value) for key, value in pairs]).appended(base, 1)
    frame = DIALECT.encode_push(Request(TEAM), batch, terms())
    assert DIALECT.measure_reply(frame, 0, 0) == len(frame)
    back = DIALECT.decode_push(Request(TEAM), frame, terms())
    assert isinstance(back, RecordBatch)
    assert (back.base, back.records()) == (base, batch.records())


def understood(payload: bytes) -> RecordBatch | CommandFailed | None:
    assert DIALECT.decode_push is not None
    return DIALECT.decode_push(Request(TEAM), len(payload).to_bytes(4, "big") + payload, terms())


def test_v18_is_two_records_and_v20_a_sign_of_life() -> None:
    assert values(V18[4:]) == [(0, b"hello"), (1, b"world")]
    assert DIALECT.measure_reply(V20, 0, 0) == 4
    assert understood(V20[4:]) is None
    assert understood(b"STREAM_CONTROL type=PAUSE") is None, "only CLOSE is an end"
    assert understood(V18[4:39] + bytes(4)) is None, "no broker pushes an empty batch"


@pytest.mark.parametrize(
    ("text", "fault", "facts"),
    [
        (V21[4:].decode(), Fault.NOT_OWNER, {"reason": "replaced", "offset": 4}),
        ("STREAM_CONTROL type=CLOSE reason=removed offset=4", Fault.NOT_OWNER, {"reason": "removed", "offset": 4}),
        ("STREAM_CONTROL type=CLOSE reason=stopped offset=4", Fault.UNAVAILABLE, {"reason": "stopped", "offset": 4}),
        ("STREAM_CONTROL type=CLOSE reason=timeout offset=0", Fault.TIMEOUT, {"reason": "timeout", "offset": 0}),
        ("STREAM_CONTROL type=CLOSE reason=error offset=4", Fault.UNAVAILABLE, {"reason": "error", "offset": 4}),
        (
            "STREAM_CONTROL type=CLOSE reason=offset_out_of_range offset=4 requested=4 earliest=5 latest=9",
            Fault.OFFSET_GONE,
            {"reason": "offset_out_of_range", "offset": 4, "requested": 4, "earliest": 5, "latest": 9},
        ),
        ("STREAM_CONTROL type=CLOSE reason=moonlight", Fault.INTERNAL, {"reason": "moonlight"}),
        ("STREAM_CONTROL type=CLOSE", Fault.INTERNAL, {"reason": ""}),
        ("ERROR: command_failed reason=\"topic 'orders' does not exist\"", Fault.NO_SUCH_TOPIC, {}),
    ],
)
def test_the_end_of_a_stream_is_understood(text: str, fault: Fault, facts: dict[str, int | str]) -> None:
    failure = understood(text.encode())
    assert isinstance(failure, CommandFailed)
    assert (failure.fault, failure.facts) == (fault, facts)


def test_records_with_gaps_between_their_offsets_are_an_end_rather_than_wrong() -> None:
    failure = understood(V18[4:SECOND] + (5).to_bytes(8, "big") + V18[SECOND + 8 :])
    assert isinstance(failure, CommandFailed)
    assert failure.fault is Fault.UNREPRESENTABLE


@pytest.mark.parametrize("frame", [b"", b"\0\0\0\1", b"\0\0\0\2OK", b"\0\0\0\1\xff", V18[:-1], b"\0\0\0\4\xba\x7c\0\0"])
def test_what_is_no_frame_of_a_stream_is_malformed(frame: bytes) -> None:
    assert DIALECT.decode_push is not None
    with pytest.raises(CommandFailed) as caught:
        DIALECT.decode_push(Request(TEAM), frame, terms())
    assert caught.value.fault is Fault.MALFORMED


@given(st.binary(max_size=80))
def test_noise_in_a_stream_is_malformed_at_worst(noise: bytes) -> None:
    try:
        understood(noise)
    except CommandFailed as failure:
        assert failure.fault is Fault.MALFORMED


def test_our_client_follows_our_server() -> None:
    node, backend = memory()
    put(backend, b"a")
    peer = node.connect()
    peer.send(DIALECT.encode_request(Request(TEAM), terms()))
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
