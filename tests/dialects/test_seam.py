"""The seam carries what the five dialects need: held to it here with three toy ones, and with the native dialect.

a group that lives by its connections (Iggy), compare-and-set over tagged frames answered in any order (grid), a stream
that is pushed, kept alive, ended and replaced (Cursus).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import cast

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.internet.task import Clock
from zope.interface import implementer

from gateway.backends.interface import IBackend, IFollower
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.commands import Command, Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding, Record, RecordBatch, canonical
from gateway.core.replies import (
    CommittedOffsets,
    Done,
    Joined,
    MapChanged,
    Memberships,
    Outcome,
    Published,
    Records,
    Reply,
    Topics,
)
from gateway.dialects import Call, Dialect, Listener, Refusal, Request, ServerSession, Settings, Tag, Terms
from net.peers import Client, Node, Peer

ORDERS = q.Topic("default", "orders")
TEAM = q.Group("team")
JOIN = q.JoinGroup(ORDERS, "team", "", q.WhileConnected())
MALFORMED = Refusal(CommandFailed(Fault.MALFORMED))
HEAD = struct.Struct(">IHI")
MAP_CAS = 7
KEEPALIVE = b"\0\0\0\0"
QUIET_SECONDS = 5.0


# -- a backend with tables, over one that has none


@implementer(IBackend)
class Tables:
    """Compare-and-set is decided at once and answered when the test says so."""

    durability = "memory"

    def __init__(self, memory: MemoryBackend) -> None:
        self._memory = memory
        self._table: dict[bytes, bytes] = {}
        self.decided: list[tuple[Deferred[Reply], Reply]] = []

    def execute(self, command: Command, session: Session) -> Reply | Deferred[Reply]:
        match command:
            case q.MapPut(only=q.IfEquals(value=expected)):
                held = self._table.get(command.key)
                if held == expected:
                    self._table[command.key] = command.value
                return self._later(MapChanged(held == expected, held))
        return self._memory.execute(command, session)

    def follow(
        self, command: q.Follow, session: Session, follower: IFollower
    ) -> IPushProducer | Deferred[IPushProducer]:
        return self._memory.follow(command, session, follower)

    def close(self) -> None:
        pass

    def _later(self, reply: Reply) -> Deferred[Reply]:
        self.decided.append((Deferred(), reply))
        return self.decided[-1][0]


# -- toy dialects: u32be length, then text or a struct


def measure(held: bytes | bytearray, start: int, scanned: int) -> int:
    return 4 + int.from_bytes(held[start : start + 4], "big") if len(held) - start >= 4 else 0


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def frames(stream: bytes) -> list[bytes]:
    found = []
    while stream:
        size = measure(stream, 0, 0)
        found.append(stream[4:size])
        stream = stream[size:]
    return found


def show(request: Request | Refusal, outcome: Outcome, terms: Terms) -> bytes:
    match outcome:
        case CommandFailed():
            return frame(b"ERR " + outcome.fault.name.encode())
        case Joined():
            return frame(b"OK " + b" ".join(b"%d" % partition for partition in outcome.assignment))
        case CommittedOffsets():
            said = [b"%d:%d/%d" % (at, outcome.offsets.get(at, 0), end) for at, end in outcome.ends.items()]
            return frame(b"OK " + b",".join(said))
        case Records():
            values = [b"%d:%b" % (outcome.partition, value) for value in values_of(*outcome.batches)]
            return frame(b"OK " + b",".join(values))
    return frame(b"OK")


def values_of(*batches: RecordBatch) -> list[bytes]:
    return [record.value or b"" for batch in batches for record in batch.records()]


def not_a_client(*told: object) -> bytes:
    raise CommandFailed(Fault.UNSUPPORTED)


def read_group(data: bytes, terms: Terms) -> Request | Refusal:
    match data[4:].split(b" "):
        case [b"JOIN"]:
            return Request(JOIN)
        case [b"LEAVE"]:
            return Request(q.LeaveGroup(ORDERS, TEAM.name, ""))
        case [b"POLL"]:
            return Request(q.Fetch(ORDERS, None, q.Next(TEAM), max_records=1, commit=True))
        case [b"POLL", offset]:
            return Request(q.Fetch(ORDERS, None, int(offset), max_records=1, reader=TEAM))
        case [b"DONE", offset]:
            return Request(q.CommitOffsets(ORDERS, TEAM, {None: int(offset)}, bounded=True))
        case [b"WHERE"]:
            return Request(q.FetchOffsets(ORDERS, TEAM, (None,)))
        case [b"PUT", partition, value]:
            return Request(q.Publish(ORDERS, int(partition), canonical([Record(value=value)])))
    return MALFORMED


def read_grid(data: bytes, terms: Terms) -> Request | Refusal:
    _, opcode, call = HEAD.unpack_from(data)
    if opcode != MAP_CAS:
        return Refusal(CommandFailed(Fault.UNSUPPORTED), call)
    key, old, new = data[HEAD.size :].split(b"\0")
    return Request(q.MapPut(q.Topic("default", "users"), key, new, only=q.IfEquals(old)), call)


def show_grid(request: Request | Refusal, outcome: Outcome, terms: Terms) -> bytes:
    if isinstance(outcome, CommandFailed):
        said = b"!" + outcome.fault.name.encode()
    else:
        said = b"%d" % cast(MapChanged, outcome).done
    return HEAD.pack(HEAD.size - 4 + len(said), MAP_CAS, cast(int, request.tag)) + said


def grid_tag(data: bytes) -> Tag:
    return int(HEAD.unpack_from(data)[2])


def read_stream(data: bytes, terms: Terms) -> Request | Refusal:
    match data[4:].split(b" "):
        case [b"STREAM", key, offset]:
            return Request(q.Follow(ORDERS, 0, int(offset)), context=key)
        case [b"LIST"]:
            return Request(q.ListTopics("default"))
        case [b"DROP"]:
            return Request(q.DeleteTopic(ORDERS))
    return MALFORMED


def show_push(request: Request, batch: RecordBatch, terms: Terms) -> bytes:
    return frame(b"DATA " + b",".join(values_of(batch)))


class Streams(Listener):
    """One stream a key."""

    def __init__(self, dialect: Dialect, settings: Settings, encodings: Mapping[str, Encoding]) -> None:
        super().__init__(dialect, settings, encodings)
        self.streams: dict[bytes, Stream] = {}

    def session(self, address: str = "127.0.0.1:0") -> Stream:
        return Stream(self, self.terms(address))


class Stream(ServerSession):
    """Requests, until one of them makes it a stream."""

    def __init__(self, listener: Streams, terms: Terms) -> None:
        super().__init__(listener, terms)
        self.listener = listener
        self.key: bytes | None = None
        self.next = 0
        self.signed: float | None = None

    def begun(self, call: Call) -> None:
        self.key = cast(bytes, call.request.context)
        self.next = cast(int, cast(q.Follow, call.request.command).start)
        replaced = self.listener.streams.get(self.key)
        self.listener.streams[self.key] = self
        if replaced is not None:
            replaced.end("replaced")
            replaced.wake()

    def push(self, call: Call, batch: RecordBatch) -> None:
        if not self.closing:
            self.next = batch.end
            super().push(call, batch)

    def ended(self, call: Call, failure: CommandFailed) -> None:
        self.end(failure.fault.name)

    def tick(self, now: float) -> None:
        super().tick(now)
        if self.key is not None and not self.closing and (self.signed is None or now - self.signed >= QUIET_SECONDS):
            if self.signed is not None:
                self.say(KEEPALIVE)
            self.signed = now

    def lost(self) -> None:
        if self.key is not None and self.listener.streams.get(self.key) is self:
            del self.listener.streams[self.key]

    def end(self, reason: str) -> None:
        self.say(frame(b"CLOSE %b %d" % (reason.encode(), self.next)))
        self.close(reason)


GROUPED = Dialect(
    name="grouped",
    port=1,
    tagged=False,
    max_frame=1000,
    listener=Listener,
    measure_request=measure,
    measure_reply=measure,
    decode_request=read_group,
    encode_reply=show,
    encode_request=not_a_client,
    decode_reply=not_a_client,  # type: ignore[arg-type]  # no client here
    faults={fault: fault.name for fault in Fault},
)
GRID = msgspec.structs.replace(
    GROUPED, name="grid", tagged=True, decode_request=read_grid, encode_reply=show_grid, reply_tag=grid_tag
)
STREAMING = msgspec.structs.replace(
    GROUPED, name="streaming", listener=Streams, decode_request=read_stream, encode_push=show_push
)


def node(dialect: str | Dialect) -> tuple[Node, Tables]:
    clock = Clock()
    backend = Tables(MemoryBackend(clock))
    backend.execute(q.CreateTopic(ORDERS, 4), Session(0))
    return Node(backend, dialect, clock), backend


def put(backend: Tables, value: bytes, partition: int = 0) -> None:
    assert isinstance(
        backend.execute(q.Publish(ORDERS, partition, canonical([Record(value=value)])), Session(0)), Published
    )


def ask(peer: Peer, *bodies: bytes) -> list[bytes]:
    peer.send(b"".join(map(frame, bodies)))
    return frames(peer.read())


# -- a group of connections


def members(backend: Tables) -> list[int]:
    """The sessions that are members of a group."""
    found = backend.execute(q.ListMemberships(), Session(0))
    assert isinstance(found, Memberships)
    return [membership.session for membership in found.memberships]


def two_members(gateway: Node) -> tuple[Peer, Peer]:
    """Connections that have joined; the first owns partitions 0 and 1, the second 2 and 3."""
    peers = gateway.connect(), gateway.connect()
    for peer in peers:
        ask(peer, b"JOIN")
    first, second = sorted(peers, key=lambda peer: ask(peer, b"JOIN"))
    return first, second


def test_two_connections_share_the_partitions_of_a_group() -> None:
    gateway, backend = node(GROUPED)
    for partition in range(4):
        put(backend, b"r%d" % partition, partition)
    first, second = two_members(gateway)
    assert [ask(first, b"JOIN"), ask(second, b"JOIN")] == [[b"OK 0 1"], [b"OK 2 3"]]
    assert ask(first, b"POLL", b"POLL", b"POLL") == [b"OK 0:r0", b"OK 1:r1", b"OK "]
    assert ask(second, b"POLL", b"POLL", b"POLL") == [b"OK 2:r2", b"OK 3:r3", b"OK "]


def test_joining_again_is_harmless() -> None:
    gateway, backend = node(GROUPED)
    peer = gateway.connect()
    assert ask(peer, b"JOIN", b"JOIN", b"POLL", b"JOIN") == [b"OK 0 1 2 3", b"OK 0 1 2 3", b"OK ", b"OK 0 1 2 3"]
    assert members(backend) == [1]
    joined = backend.execute(JOIN, Session(1))
    assert isinstance(joined, Joined)
    assert joined.generation == 1


def test_a_member_that_disconnects_leaves_its_partitions_to_the_others() -> None:
    gateway, backend = node(GROUPED)
    put(backend, b"kept", 3)
    first, second = two_members(gateway)
    assert members(backend) == [1, 2]
    second.lose()
    assert len(members(backend)) == 1
    assert b"OK 3:kept" in ask(first, b"POLL", b"POLL", b"POLL", b"POLL")


def test_a_member_that_leaves_stays_connected_and_has_nothing_any_more() -> None:
    gateway, backend = node(GROUPED)
    first, second = two_members(gateway)
    assert ask(first, b"LEAVE", b"LEAVE", b"POLL") == [b"OK", b"ERR NOT_A_MEMBER", b"ERR NOT_A_MEMBER"]
    assert ask(second, b"JOIN") == [b"OK 0 1 2 3"]
    first.lose()
    assert len(members(backend)) == 1


def test_who_has_not_joined_polls_nothing() -> None:
    gateway, _ = node(GROUPED)
    assert ask(gateway.connect(), b"POLL", b"JOIN", b"POLL") == [b"ERR NO_SUCH_GROUP", b"OK 0 1 2 3", b"OK "]
    assert ask(gateway.connect(), b"POLL", b"DONE 0", b"WHERE") == [b"ERR NOT_A_MEMBER"] * 3


def test_a_member_commits_where_it_polled_without_saying_where_that_was() -> None:
    gateway, backend = node(GROUPED)
    for partition in (0, 1, 1):
        put(backend, b"v", partition)
    peer = gateway.connect()
    assert ask(peer, b"JOIN", b"WHERE", b"POLL 0", b"DONE 1", b"WHERE") == [
        *(b"OK 0 1 2 3", b"ERR NO_SUCH_PARTITION"),
        *(b"OK 0:v", b"OK", b"OK 0:1/1"),
    ]
    assert ask(peer, b"POLL 1", b"DONE 3", b"DONE 2", b"WHERE") == [
        *(b"OK 1:v", b"ERR INVALID_OFFSET", b"OK", b"OK 1:2/2"),
    ]


# -- compare and set


def cas(call: int, key: bytes, old: bytes, new: bytes) -> bytes:
    body = b"\0".join([key, old, new])
    return HEAD.pack(HEAD.size - 4 + len(body), MAP_CAS, call) + body


def test_compare_and_set_is_decided_in_order_and_answered_in_any() -> None:
    gateway, backend = node(GRID)
    backend._table[b"k"] = b"a"
    peer = gateway.connect()
    peer.send(cas(11, b"k", b"a", b"b") + cas(12, b"k", b"a", b"c") + cas(13, b"k", b"b", b"d"))
    for deferred, reply in reversed(backend.decided):
        deferred.callback(reply)
    assert [(int.from_bytes(said[2:6], "big"), said[6:]) for said in frames(peer.read())] == [
        (13, b"1"),
        (12, b"0"),
        (11, b"1"),
    ]
    assert backend._table[b"k"] == b"d"


def test_what_is_refused_overtakes_what_is_still_decided() -> None:
    gateway, _ = node(GRID)
    peer = gateway.connect()
    peer.send(cas(1, b"k", b"a", b"b") + HEAD.pack(6, 99, 2))
    assert frames(peer.read()) == [struct.pack(">HI", MAP_CAS, 2) + b"!UNSUPPORTED"]


# -- a stream


def test_a_stream_is_pushed_behind_the_answers_to_what_was_asked_before() -> None:
    gateway, backend = node(STREAMING)
    put(backend, b"a")
    put(backend, b"b")
    peer = gateway.connect()
    assert ask(peer, b"LIST", b"STREAM g 1", b"LIST") == [b"OK", b"DATA b"]
    put(backend, b"c")
    assert frames(peer.read()) == [b"DATA c"]


def test_what_is_asked_behind_a_stream_is_neither_carried_out_nor_heard_but_kept_alive() -> None:
    gateway, backend = node(STREAMING)
    peer = gateway.connect()
    assert ask(peer, b"STREAM g 0", b"DROP") == []
    assert backend.execute(q.ListTopics("default"), Session(0)) != Topics(())
    assert not peer.heard
    gateway.wait(6)
    assert peer.read() == KEEPALIVE


def test_a_stream_is_kept_alive_whether_there_is_traffic_or_not() -> None:
    gateway, backend = node(STREAMING)
    peer = gateway.connect()
    ask(peer, b"STREAM g 0")
    gateway.wait(11)
    assert peer.read() == KEEPALIVE * 2
    for at in range(10):
        put(backend, b"%d" % at)
        gateway.wait(1)
    assert peer.read().count(KEEPALIVE) == 2


def test_a_second_stream_of_one_key_replaces_the_first() -> None:
    gateway, backend = node(STREAMING)
    put(backend, b"a")
    first, other, second = gateway.connect(), gateway.connect(), gateway.connect()
    assert ask(first, b"STREAM g 0") == [b"DATA a"]
    assert ask(other, b"STREAM h 0") == [b"DATA a"]
    assert ask(second, b"STREAM g 0") == [b"DATA a"]
    put(backend, b"b")
    assert frames(first.read()) == [b"CLOSE replaced 1"]
    assert first.left
    assert frames(other.read()) == frames(second.read()) == [b"DATA b"]


def test_a_stream_that_is_replaced_ends_at_once_without_traffic_too() -> None:
    gateway, _ = node(STREAMING)
    first, second = gateway.connect(), gateway.connect()
    ask(first, b"STREAM g 0")
    ask(second, b"STREAM g 0")
    assert frames(first.read()) == [b"CLOSE replaced 0"]
    assert first.left
    assert not second.left


def test_a_stream_that_goes_no_further_says_so_and_hangs_up() -> None:
    gateway, backend = node(STREAMING)
    peer = gateway.connect()
    ask(peer, b"STREAM g 0")
    backend.execute(q.DeleteTopic(ORDERS), Session(0))
    assert frames(peer.read()) == [b"CLOSE NO_SUCH_TOPIC 0"]
    assert peer.left


def test_a_stream_that_cannot_begin_leaves_the_connection_as_it_was() -> None:
    gateway, backend = node(STREAMING)
    backend.execute(q.DeleteTopic(ORDERS), Session(0))
    peer = gateway.connect()
    assert ask(peer, b"STREAM g 0", b"LIST") == [b"ERR NO_SUCH_TOPIC", b"OK"]
    assert ask(peer, b"LIST") == [b"OK"]
    gateway.wait(20)
    assert peer.read() == b""


def test_a_listener_forgets_the_streams_of_connections_that_are_gone() -> None:
    gateway, _ = node(STREAMING)
    first, second = gateway.connect(), gateway.connect()
    ask(first, b"STREAM g 0")
    ask(second, b"STREAM g 0")
    streams = cast(Streams, gateway.listening.listener).streams
    first.lose()
    assert list(streams) == [b"g"], "it is the second one's by now"
    second.lose()
    assert streams == {}


# -- the native dialect: all of it over one connection


def test_native_pushes_and_answers_share_a_connection() -> None:
    gateway, backend = node("native")
    client = Client(gateway)
    (follow,) = client.begin(q.Follow(ORDERS, 0, q.First()))
    put(backend, b"a")
    pushed = client.peer.read()
    request = client.session._tagged[follow]
    assert client.session.dialect.decode_push is not None
    batch = client.session.dialect.decode_push(request, pushed, client.session.terms)
    assert isinstance(batch, RecordBatch)
    assert values_of(batch) == [b"a"]
    assert client.ask(q.CommitOffsets(ORDERS, TEAM, {0: 1})) == Done()
    backend.execute(q.DeleteTopic(ORDERS), Session(0))
    client.listen()
    outcome = client.outcomes[follow]
    assert isinstance(outcome, CommandFailed)
    assert outcome.fault is Fault.NO_SUCH_TOPIC
    assert client.ask(q.Ping()) == Done()


def test_native_compare_and_set_and_groups_reach_the_backend_as_they_were_meant() -> None:
    gateway, backend = node("native")
    put(backend, b"v", 0)
    first, second = Client(gateway), Client(gateway)
    joined = first.ask(JOIN)
    assert isinstance(joined, Joined)
    assert (joined.generation, joined.assignment) == (1, (0, 1, 2, 3))
    polled = first.ask(q.Fetch(ORDERS, None, q.First(), commit=True, reader=TEAM))
    assert isinstance(polled, Records)
    assert (polled.partition, values_of(*polled.batches)) == (0, [b"v"])
    assert first.ask(q.FetchOffsets(ORDERS, TEAM, (None,))) == CommittedOffsets({0: 1}, {0: 1})
    assert first.ask(q.CommitOffsets(ORDERS, TEAM, {None: 0})) == Done()
    other = second.ask(JOIN)
    assert isinstance(other, Joined)
    assert (other.generation, len(other.assignment), other.member != joined.member) == (2, 2, True)
    listed = second.ask(q.ListMemberships())
    assert isinstance(listed, Memberships)
    assert [membership.session for membership in listed.memberships] == [1, 2]
    (tag,) = first.begin(q.MapPut(ORDERS, b"k", b"v", only=q.IfEquals(b"old")))
    deferred, reply = backend.decided.pop()
    deferred.callback(reply)
    first.listen()
    assert first.outcomes[tag] == MapChanged(False, None)
