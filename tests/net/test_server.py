"""gateway.net.server: what a peer can rely on, whatever it speaks."""

from __future__ import annotations

import gc
import random
import tracemalloc
import weakref
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

import wire
from gateway import dialects
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical
from gateway.core.replies import CommittedOffsets, Done, Outcome, Published, Records
from gateway.dialects import Call, Request
from gateway.dialects.pipe.session import PipeListener, PipeSession
from gateway.net.limits import Limits
from gateway.net.server import CLOSE_SECONDS, MAX_HELD
from net.peers import ORDERS, Client, Node, Scripted
from net.peers import produce as produced

PUBLISH = q.Publish(ORDERS, 0, canonical([Record(value=b"v")]), create=1)
FOLLOW = q.Follow(ORDERS, 0, q.First())
PUBLISHED = Published(0, 0, 0)
EMPTY = Records(0, 0, 0)
COMMITTED = q.FetchOffsets(ORDERS, q.Group("g"), (0,))
CONSUME = q.Fetch(ORDERS, 0, 0, create=3)
PRODUCE = produced(b"user1", b"created", q.Acks.ALL)
PIPE = dialects.load("pipe")
TERMS = wire.terms("pipe")
STOPPING = (Fault.UNAVAILABLE, "the gateway is stopping")


def offset(number: int) -> bytes:
    return PIPE.encode_request(Request(COMMITTED, number), TERMS)


def consume(number: int) -> bytes:
    return PIPE.encode_request(Request(CONSUME, number), TERMS)


def produce(number: int) -> bytes:
    return PIPE.encode_request(Request(PRODUCE, number), TERMS)


def internal(*numbers: int) -> bytes:
    """What is told of a defect."""
    failure = CommandFailed(Fault.INTERNAL)
    return b"".join(wire.reply("pipe", Request(COMMITTED, number), failure) for number in numbers)


def numbers(answers: bytes) -> list[int]:
    """The correlation values of answers, in their order."""
    return [int(line.split(b"|")[1]) for line in answers.splitlines()]


def batch(size: int) -> RecordBatch:
    return canonical([Record(value=b"x" * size)])


def memory(dialect: str, **said: Any) -> tuple[Node, MemoryBackend]:
    clock = Clock()
    backend = MemoryBackend(clock)
    return Node(backend, dialect, clock, **said), backend


# -- order, and one write


def test_5000_requests_in_one_chunk_are_answered_in_order_with_one_write() -> None:
    node, _ = memory("pipe")
    peer = node.connect()
    peer.send(b"".join(map(offset, range(5000))), chunk=1 << 20)
    assert numbers(peer.wire.value()) == list(range(5000))
    assert len(peer.wire.writes) == 1


@pytest.mark.parametrize("mixed", [False, True])
def test_5000_requests_that_a_backend_answers_in_any_order_are_answered_in_the_order_asked(mixed: bool) -> None:
    backend = Scripted()
    node = Node(backend, "pipe")
    peer = node.connect()
    peer.send(b"".join(map(offset, range(5000))), chunk=1 << 20)
    chance = random.Random(5)
    turns = 0
    while backend.open:
        assert len(backend.open) <= Limits().in_flight
        if mixed:
            chance.shuffle(backend.open)
        backend.answer(CommittedOffsets({}), 300)
        node.turn()
        turns += 1
    assert numbers(peer.wire.value()) == list(range(5000))
    assert len(peer.wire.writes) <= turns, "one write for all that is answered in a turn"


def test_a_dialect_with_tags_gets_answers_as_they_come() -> None:
    backend = Scripted({q.Ping: Done()})
    client = Client(Node(backend, "native"))
    slow, quick = client.begin(q.Describe(), q.Ping())
    client.listen()
    assert client.outcomes == {quick: Done()}
    assert slow not in client.outcomes


# -- backpressure


def test_reading_stops_while_the_backend_has_enough_to_do_and_goes_on_after() -> None:
    backend = Scripted()
    peer = Node(backend, "pipe", most=10).connect()
    peer.send(b"".join(map(offset, range(10))))
    assert not peer.heard
    peer.send(b"".join(map(offset, range(10, 30))), chunk=100)
    assert len(backend.asked) == 10
    backend.answer(CommittedOffsets({}), 1)
    assert numbers(peer.read()) == [0]
    assert len(backend.asked) == 11
    while backend.open:
        backend.answer(CommittedOffsets({}))
        peer.read()
    assert peer.heard
    assert len(backend.asked) == 30


def test_what_was_read_in_one_go_is_not_begun_before_there_is_room_for_it() -> None:
    backend = Scripted()
    peer = Node(backend, "pipe", most=10).connect()
    peer.send(b"".join(map(offset, range(1000))))
    assert len(backend.asked) == 10
    assert not peer.heard


def test_a_peer_that_never_reads_is_not_served_any_more() -> None:
    """However many answers it asks for in the bytes of one read."""
    node, backend = memory("pipe")
    backend.execute(q.Publish(ORDERS, 0, batch(100_000), create=1), q.Session(0))
    peer = node.connect(room=65_536)
    peer.send(b"".join(map(consume, range(50_000))))
    assert not peer.heard
    assert len(peer.unread) > 1_000_000
    assert len(peer.wire.value()) < MAX_HELD + 200_000
    assert len(peer.wire.read()) > MAX_HELD
    assert len(peer.wire.value()) < MAX_HELD + 200_000, "it goes on as far as before"


def test_fetches_that_take_their_time_are_not_begun_beyond_what_memory_may_hold() -> None:
    backend = Scripted()
    peer = Node(backend, "pipe", consume_max_bytes=1 << 20).connect(room=65_536)
    peer.send(b"".join(map(consume, range(3000))))
    assert len(backend.asked) == Limits().buffered_bytes >> 20
    backend.answer(EMPTY)
    peer.node.turn()
    assert len(backend.asked) == 2 * (Limits().buffered_bytes >> 20)
    assert not peer.heard


def test_fetches_that_wait_for_records_do_not_keep_others_waiting() -> None:
    backend = Scripted({q.Ping: Done()})
    client = Client(Node(backend, "native"))
    client.begin(*[q.Fetch(ORDERS, 0, 0, wait=30.0)] * 500)
    assert client.ask(q.Ping()) == Done()
    assert client.peer.heard


def test_answers_that_pile_up_behind_a_slow_one_stop_reading() -> None:
    backend = Scripted({q.Fetch: Records(0, 0, 1, (batch(10_000),))})
    peer = Node(backend, "pipe").connect()
    peer.send(produce(0) + b"".join(map(consume, range(1, 1001))))
    assert backend.asked.count(backend.asked[1]) <= MAX_HELD // 10_000 + 1
    assert not peer.heard
    backend.answer(PUBLISHED)
    assert numbers(peer.read()) == list(range(1001))
    assert peer.heard


def test_small_answers_that_pile_up_behind_a_slow_one_stop_reading_too() -> None:
    backend = Scripted({q.FetchOffsets: CommittedOffsets({})})
    peer = Node(backend, "pipe").connect()
    peer.send(produce(0) + b"".join(map(offset, range(1, 20_000))))
    assert len(backend.asked) <= Limits().in_flight + 1
    backend.answer(PUBLISHED)
    assert numbers(peer.read()) == list(range(20_000))


def test_refusals_that_pile_up_behind_a_slow_answer_stop_reading() -> None:
    backend = Scripted()
    peer = Node(backend, "pipe").connect()
    peer.send(produce(1))
    peer.send(b"\n" * 200_000)
    assert len(peer.unread) > 100_000
    backend.answer(PUBLISHED)
    assert peer.read().count(b"\n") == 200_001
    assert peer.heard


def test_calls_behind_many_refusals_are_answered_in_their_turn() -> None:
    backend = Scripted()
    peer = Node(backend, "pipe", most=4).connect()
    peer.send(produce(1) + b"\n" * 100 + produce(2))
    while backend.open:
        backend.answer(PUBLISHED, 1)
        peer.node.turn()
    answers = peer.read().splitlines(keepends=True)
    assert len(answers) == 102
    told = [wire.reply("pipe", Request(PRODUCE, number), PUBLISHED) for number in (1, 2)]
    assert [answers[0], answers[-1]] == told


class Sparing(PipeSession):
    """Publishing without acks: the answers are not missed."""

    def calls(self, request: Request) -> list[Call]:
        self.sparing = _without_acks(request.command)
        return super().calls(request)

    def spares(self, call: Call) -> bool:
        return _without_acks(call.request.command)


class SparingListener(PipeListener):
    def session(self, address: str = "127.0.0.1:0") -> PipeSession:
        return Sparing(self, self.terms(address))


def _without_acks(command: q.Command) -> bool:
    return isinstance(command, q.Publish) and command.acks is q.Acks.NONE


@pytest.mark.parametrize("at_once", [True, False])
def test_who_can_be_spared_answers_need_not_read_to_be_heard(at_once: bool) -> None:
    backend = Scripted({q.Publish: PUBLISHED} if at_once else {})
    sparing = msgspec.structs.replace(dialects.load("pipe"), listener=SparingListener)
    peer = Node(backend, sparing).connect(room=1000)
    peer.send(offset(0) * 100)
    backend.answer(CommittedOffsets({}))
    for number in range(100):
        peer.send(wire.request("pipe", produced(b"k", b"v", q.Acks.NONE), number) * 100)
        backend.answer(PUBLISHED)
        peer.node.turn()
    assert backend.asked.count(backend.asked[-1]) == 10_000
    assert len(peer.wire.value()) < 10_000
    peer.send(offset(1) * 1000)
    assert len(backend.asked) == 10_100, "who asks for something else has to read first"
    assert not peer.heard


# -- frames that are not finished


def test_a_frame_that_is_not_finished_in_time_is_given_up() -> None:
    node, _ = memory("pipe", frame_seconds=10.0)
    peer = node.connect()
    peer.send(offset(1)[:8])
    node.wait(6)
    peer.send(offset(1)[8:16])
    node.wait(4)
    assert not peer.left
    node.wait(2)
    assert peer.left


def test_a_frame_that_goes_on_after_a_whole_one_has_its_own_time() -> None:
    node, _ = memory("pipe", frame_seconds=10.0)
    peer = node.connect()
    for number in range(5):
        peer.send(offset(number) + offset(9)[:3])
        node.wait(6)
        peer.send(offset(9)[3:])
        node.wait(6)
    assert not peer.left


def test_an_idle_connection_stays() -> None:
    node, _ = memory("pipe", frame_seconds=10.0)
    peer = node.connect()
    peer.send(offset(1))
    node.wait(1000)
    assert not peer.left


def test_a_frame_that_we_did_not_want_to_read_on_is_not_given_up() -> None:
    backend = Scripted()
    node = Node(backend, "pipe", most=1, frame_seconds=10.0)
    peer = node.connect()
    peer.send(offset(1) + offset(2)[:8])
    assert not peer.heard
    node.wait(60)
    backend.answer(CommittedOffsets({}))
    node.turn()
    node.wait(9)
    assert not peer.left
    peer.send(offset(2)[8:])
    backend.answer(CommittedOffsets({}))
    assert numbers(peer.read()) == [1, 2]


def test_a_thousand_frames_of_4_gib_cost_an_answer_each() -> None:
    node, _ = memory("native")
    bombs = [node.connect() for _ in range(1000)]
    bomb = b"\xff" * 4 + wire.request("native", q.CreateNamespace("x" * 100), 1)[4:]  # its length is 4 GiB
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for peer in bombs:
            peer.send(bomb)
            assert peer.left
            peer.wire.writes.clear()
            peer.wire.clear()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1 << 20


# -- how connections end


def test_who_sends_no_more_still_gets_its_answers() -> None:
    backend = Scripted()
    peer = Node(backend, "pipe").connect()
    peer.send(offset(1) + offset(2))
    peer.finish()
    assert not peer.left
    backend.answer(CommittedOffsets({}))
    assert numbers(peer.read()) == [1, 2]
    assert peer.left


def test_who_sends_no_more_is_followed_no_more() -> None:
    backend = Scripted()
    client = Client(Node(backend, "native"))
    client.begin(FOLLOW)
    client.peer.finish()
    assert backend.sources[0].stopped
    assert client.peer.left


def test_a_last_line_is_answered_though_the_stream_ended_in_it() -> None:
    node, _ = memory("pipe")
    peer = node.connect()
    peer.send(offset(1) + offset(2)[:-1])
    peer.finish()
    assert numbers(peer.read()) == [1, 2]
    assert peer.left


def test_who_reads_no_more_is_hung_up_on() -> None:
    peer = Node(Scripted(), "pipe").connect()
    peer.send(offset(1))
    peer.connection.writeConnectionLost()
    assert peer.wire.disconnected


def test_calls_before_a_bad_frame_are_answered_and_none_behind_it() -> None:
    backend = Scripted()
    peer = Node(backend, "pipe", max_frame=100).connect()
    peer.send(offset(1) + b"x" * 200)
    peer.send(offset(3))
    assert not peer.left
    backend.answer(CommittedOffsets({}))
    answers = peer.read()
    assert numbers(answers) == [1, 0]
    assert b"line too long" in answers
    assert peer.left
    assert len(backend.asked) == 1


def test_who_does_not_read_its_last_answer_is_not_waited_for() -> None:
    node, _ = memory("pipe", max_frame=100)
    peer = node.connect()
    peer.send(b"x" * 200)
    assert peer.left
    node.wait(CLOSE_SECONDS)
    assert not peer.wire.disconnected
    node.wait(2)
    assert peer.wire.disconnected


def test_a_lost_connection_gives_up_what_only_waited() -> None:
    node, backend = memory("native")
    client = Client(node)
    client.ask(PUBLISH)
    client.begin(q.Fetch(ORDERS, 0, 1, wait=30.0))
    client.peer.lose()
    node.turn()
    assert node.clock.getDelayedCalls() == []
    assert backend._fetching._waiting == {}


def test_a_lost_connection_does_not_undo_what_was_begun() -> None:
    backend = Scripted()
    client = Client(Node(backend, "native"))
    client.begin(PUBLISH)
    (begun,) = backend.open
    cancelled: list[Any] = []
    begun.addErrback(cancelled.append)
    with capturedLogs() as events:
        client.peer.lose()
        begun.callback(PUBLISHED)
        client.peer.node.turn()
    assert cancelled == []
    assert events == []
    assert client.peer.wire.value() == b""


def test_a_lost_connection_begins_nothing_more() -> None:
    backend = Scripted()
    peer = Node(backend, "pipe", most=1).connect()
    peer.send(offset(1) + offset(2))
    peer.lose()
    backend.answer(CommittedOffsets({}))
    assert [type(command) for command in backend.asked] == [q.FetchOffsets, q.EndSession]


@pytest.mark.parametrize("auth", ["optional", "required"])
def test_a_lost_connection_leaves_memory_at_once(auth: Any) -> None:
    """Clients that dial for every request would else leave a heap of them to the next collection."""
    client = Client(Node(Scripted({q.Ping: Done()}), "native", auth=auth))
    client.ask(q.Ping())
    lost = weakref.ref(client.peer.connection)
    gc.disable()
    try:
        client.peer.lose()
        client.peer.wire.unregisterProducer()
        del client
        assert lost() is None
    finally:
        gc.enable()


def test_a_transport_may_pause_and_resume_what_is_lost() -> None:
    client = Client(Node(Scripted(), "native"))
    client.begin(FOLLOW)
    client.peer.lose()
    client.peer.connection.pauseProducing()
    client.peer.connection.resumeProducing()
    assert client.peer.wire.value() == b""


def test_a_lost_connection_stops_its_follows_and_ends_its_session() -> None:
    backend = Scripted()
    client = Client(Node(backend, "native"))
    client.begin(FOLLOW, FOLLOW)
    client.peer.lose()
    assert [source.stopped for source in backend.sources] == [True, True]
    assert backend.asked == [q.EndSession()]
    assert backend.sessions == [client.peer.connection.who]


def test_a_follow_that_begins_after_the_connection_is_lost_is_stopped() -> None:
    class Late(Scripted):
        def follow(self, command: q.Follow, session: q.Session, follower: Any) -> Any:
            source = super().follow(command, session, follower)
            self.begin: Deferred[Any] = Deferred()
            return self.begin.addCallback(lambda ignored: source)

    backend = Late()
    client = Client(Node(backend, "native"))
    client.begin(FOLLOW)
    client.peer.lose()
    backend.begin.callback(None)
    assert backend.sources[0].stopped


def test_the_end_of_a_session_that_fails_is_logged() -> None:
    backend = Scripted({q.EndSession: ValueError("broken")})
    with capturedLogs() as events:
        Node(backend, "pipe").connect().lose()
    assert [event["log_format"] for event in events] == ["EndSession failed"]


# -- defects


def defects(events: Sequence[Any]) -> list[str]:
    return [str(event["log_failure"].value) for event in events if "log_failure" in event]


def test_a_defect_of_the_backend_is_logged_and_tells_the_peer_nothing() -> None:
    backend = Scripted({q.FetchOffsets: ZeroDivisionError("secret")})
    peer = Node(backend, "pipe").connect()
    with capturedLogs() as events:
        peer.send(offset(1) + produce(2))
        backend.open.pop().errback(ZeroDivisionError("later"))
        answers = peer.read()
    assert answers == internal(1, 2)
    assert defects(events) == ["secret", "later"]
    backend.now[q.FetchOffsets] = CommittedOffsets({0: 7})
    peer.send(offset(3))
    assert peer.read() == wire.reply("pipe", Request(COMMITTED, 3), CommittedOffsets({0: 7}))


def test_a_defect_of_an_encoder_is_logged_and_costs_one_answer() -> None:
    dialect = dialects.load("pipe")

    def encode(request: Any, outcome: Any, terms: Any) -> bytes:
        if isinstance(outcome, CommandFailed):
            return dialect.encode_reply(request, outcome, terms)
        raise ZeroDivisionError("broken")

    broken = msgspec.structs.replace(dialect, encode_reply=encode)
    peer = Node(Scripted({q.FetchOffsets: CommittedOffsets({})}), broken).connect()
    with capturedLogs() as events:
        peer.send(offset(1) + offset(2))
    assert peer.read() == internal(1, 2)
    assert defects(events) == ["broken", "broken"]
    assert not peer.left


def test_a_defect_that_comes_to_light_when_nobody_waits_any_more_is_logged() -> None:
    backend = Scripted()
    peer = Node(backend, "pipe").connect()
    peer.send(produce(1))
    with capturedLogs() as events:
        peer.lose()
        backend.open.pop().errback(ZeroDivisionError("late"))
    assert defects(events) == ["late"]


@pytest.mark.parametrize("failure", [CommandFailed(Fault.NO_SUCH_TOPIC), ZeroDivisionError("broken")])
def test_a_follow_that_cannot_begin_is_answered(failure: Exception) -> None:
    class Refusing(Scripted):
        def follow(self, command: q.Follow, session: q.Session, follower: Any) -> Any:
            raise failure

    client = Client(Node(Refusing({q.Ping: Done()}), "native"))
    with capturedLogs() as events:
        outcome = client.ask(FOLLOW)
    assert isinstance(outcome, CommandFailed)
    known = isinstance(failure, CommandFailed)
    assert outcome.fault is (Fault.NO_SUCH_TOPIC if known else Fault.INTERNAL)
    assert bool(defects(events)) is not known
    assert client.ask(q.Ping()) == Done()


@pytest.mark.parametrize("failure", [CommandFailed(Fault.UNREPRESENTABLE, "too odd"), ZeroDivisionError("broken")])
def test_a_batch_that_cannot_be_pushed_ends_its_follow_and_nothing_else(failure: Exception) -> None:
    def encode(request: Any, pushed: RecordBatch, terms: Any) -> bytes:
        raise failure

    backend = Scripted({q.Ping: Done()})
    client = Client(Node(backend, msgspec.structs.replace(dialects.load("native"), encode_push=encode)))
    (tag,) = client.begin(FOLLOW)
    with capturedLogs() as events:
        backend.sources[0].follower.deliver(batch(1))
        backend.sources[0].follower.deliver(batch(1))
    assert backend.sources[0].stopped
    client.listen()
    outcome = client.outcomes[tag]
    assert isinstance(outcome, CommandFailed)
    known = isinstance(failure, CommandFailed)
    assert outcome.fault is (Fault.UNREPRESENTABLE if known else Fault.INTERNAL)
    assert defects(events) == ([] if known else ["broken"])
    assert client.ask(q.Ping()) == Done()


# -- pushes


def test_a_follow_begins_when_everything_asked_before_is_answered() -> None:
    backend = Scripted()
    client = Client(Node(backend, "native"))
    client.begin(PUBLISH, FOLLOW)
    assert backend.sources == []
    backend.answer(PUBLISHED)
    assert len(backend.sources) == 1


def test_a_peer_that_does_not_read_what_is_pushed_holds_up_the_follow_and_costs_little() -> None:
    node, backend = memory("native")
    for _ in range(200):
        backend.execute(q.Publish(ORDERS, 0, batch(100_000), create=1), q.Session(0))
    client = Client(node, room=65_536)
    client.begin(FOLLOW)
    node.turn()
    assert 0 < len(client.peer.wire.value()) < 2 * MAX_HELD
    assert not client.peer.heard
    got = client.peer.read()
    assert got.count(b"msgpack.v1") == 200
    assert client.peer.heard


def test_follows_of_one_connection_take_turns() -> None:
    node, backend = memory("native")
    backend.execute(q.CreateTopic(ORDERS, 2), q.Session(0))
    for at in range(40):
        backend.execute(q.Publish(ORDERS, at % 2, batch(100_000)), q.Session(0))
    client = Client(node, room=65_536)
    follows = client.begin(FOLLOW, q.Follow(ORDERS, 1, q.First()))
    node.turn()
    seen: list[object] = []
    for _ in range(3):
        seen += [request.tag for request, _ in client.session.receive(client.peer.wire.read())]
    assert seen.count(follows[0]) > 5
    assert seen.count(follows[1]) > 5


# -- stopping


def test_draining_answers_what_is_in_flight_and_hangs_up() -> None:
    backend = Scripted()
    node = Node(backend, "pipe", most=1)
    busy, idle = node.connect(), node.connect()
    busy.send(offset(1) + offset(2))
    done: list[object] = []
    node.port.drain().addCallback(done.append)
    busy.send(offset(3))
    assert idle.left
    assert not busy.left
    while backend.open:
        backend.answer(CommittedOffsets({}))
        node.turn()
    assert numbers(busy.read()) == [1, 2]
    assert busy.left
    busy.lose()
    assert not done
    idle.lose()
    assert done


def test_draining_does_not_wait_for_records_to_come() -> None:
    node, _ = memory("native")
    client = Client(node)
    client.ask(PUBLISH)
    (tag,) = client.begin(q.Fetch(ORDERS, 0, 1, wait=30.0))
    with capturedLogs() as events:
        node.port.drain()
        client.listen()
    outcome = client.outcomes[tag]
    assert isinstance(outcome, CommandFailed)
    assert (outcome.fault, outcome.detail) == STOPPING
    assert client.peer.left
    assert defects(events) == []


def test_draining_ends_follows() -> None:
    backend = Scripted()
    node = Node(backend, "native")
    client = Client(node)
    client.begin(FOLLOW)
    node.port.drain()
    assert backend.sources[0].stopped
    assert client.peer.left


def test_a_port_without_connections_is_drained_at_once() -> None:
    done: list[object] = []
    Node(Scripted(), "pipe").port.drain().addCallback(done.append)
    assert done


def test_a_hurry_hangs_up_on_everybody() -> None:
    node = Node(Scripted(), "pipe")
    peers = [node.connect(), node.connect()]
    peers[0].send(offset(1))
    node.port.abort()
    assert all(peer.wire.disconnected for peer in peers)


def test_a_session_hears_how_calls_of_a_lost_peer_ended_and_which_never_began() -> None:
    missed: list[Outcome] = []
    backend = Scripted()
    node = Node(backend, "native", most=1)
    client = Client(node)
    client.peer.connection._session.missed = lambda call, outcome: missed.append(outcome)  # type: ignore[method-assign]
    client.begin(q.CreateNamespace("a"), q.CreateNamespace("b"))
    client.peer.lose()
    assert [type(outcome) for outcome in missed] == [CommandFailed]
    backend.answer(Done())
    assert missed[1:] == [Done()]
