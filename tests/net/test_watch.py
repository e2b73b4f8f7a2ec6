"""gateway.net.watch: a sweep looks at few, and no deadline of anybody comes later for that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.internet.task import Clock

from gateway.backends.interface import IFollower
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.commands import Group, Next, Session, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical
from gateway.core.replies import Done
from gateway.dialects import Request
from gateway.net.limits import Limits
from gateway.net.server import Connection
from gateway.net.watch import Watch
from net.peers import Node, Peer, Scripted, Source

ORDERS = Topic("default", "orders")
ASKED = {
    "native": [q.Ping(), q.Take(ORDERS, 2.0), q.Follow(ORDERS, 0, Next(Group("g"), 0), 8192)],
    "cursus": [q.ListTopics("default"), q.Follow(ORDERS, 0, Next(Group("g"), 0), 8192)],
    "pipe": [q.FetchOffsets(ORDERS, Group("g"), (0,))],
    "grid": [q.MapGet(ORDERS, b"k")],
}
"""What clients of each ask in these tests."""

BATCH = canonical([Record(value=b"v" * 300)])


class Everybody(Watch):
    """Forgets nobody: what sweeps were before."""

    def __init__(self, there: set[Connection]) -> None:
        super().__init__()
        self._there = there

    def take(self, now: float) -> set[Connection]:
        super().take(now)
        return set(self._there)


class Slow(Scripted):
    """It begins to push when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.beginning: list[tuple[Deferred[IPushProducer], Source]] = []

    def follow(self, command: q.Follow, session: Session, follower: IFollower) -> Deferred[IPushProducer]:  # type: ignore[override]
        begun: Deferred[IPushProducer] = Deferred()
        self.beginning.append((begun, Source(command, follower)))
        return begun

    def begin(self) -> None:
        """All that were asked for."""
        beginning, self.beginning = self.beginning, []
        for begun, source in beginning:
            self.sources.append(source)
            begun.callback(source)


class World:
    """A node, its backend, and what was heard of each of its peers."""

    def __init__(self, dialect: str, idle: float, *, everybody: bool) -> None:
        self.backend = Slow()
        limits = Limits(in_flight=2, frame_seconds=3.0, idle_seconds=idle, command_seconds=5.0)
        self.node = Node(self.backend, dialect, limits=limits, frame_seconds=3.0)
        if everybody:
            self.node.port.watch = Everybody(self.node.port.connections)
        self.peers = [self.node.connect(room=200), self.node.connect(room=200)]
        self.said: list[tuple[float, list[tuple[bytes, bool, bool, bool]]]] = []

    def does(self, what: tuple[Any, ...]) -> None:
        """Something happens; then everything that peers could see of it is noted."""
        getattr(self, f"_{what[0]}")(*what[1:])
        self.node.turn()
        seen = [(peer.wire.value(), peer.left, peer.wire.disconnected, peer.heard) for peer in self.peers]
        self.said.append((self.node.clock.seconds(), seen))

    def _sends(self, which: int, command: int, of: int, whole: bool) -> None:
        peer = self.peers[which]
        if peer.wire.disconnecting or peer.connection not in self.node.port.connections:
            return
        dialect = self.node.dialect
        terms = self.node.listening.listener.terms("127.0.0.1:1")
        asked = ASKED[dialect.name]
        data = dialect.encode_request(Request(asked[command % len(asked)], command), terms)
        peer.send(data if whole else data[: 1 + of % (len(data) - 1)])

    def _waits(self, seconds: float) -> None:
        self.node.wait(seconds)

    def _answers(self) -> None:
        if self.backend.open:
            self.backend.answer(Done(), 1)

    def _begins(self) -> None:
        self.backend.begin()

    def _pushes(self) -> None:
        for source in self.backend.sources:
            if not source.paused and not source.stopped:
                source.follower.deliver(BATCH)

    def _ends(self) -> None:
        for source in self.backend.sources:
            source.follower.ended(CommandFailed(Fault.UNAVAILABLE))

    def _reads(self, which: int) -> None:
        self.peers[which].wire.read()

    def _finishes(self, which: int) -> None:
        if self.peers[which].connection in self.node.port.connections:
            self.peers[which].finish()

    def _goes(self, which: int) -> None:
        if self.peers[which].connection in self.node.port.connections:
            self.peers[which].lose()

    def _comes(self) -> None:
        if len(self.peers) < 4:
            self.peers.append(self.node.connect(room=200))


one = st.integers(0, 1)
events = st.one_of(
    st.tuples(st.just("sends"), one, st.integers(0, 5), st.integers(0, 200), st.booleans()),
    st.tuples(st.just("waits"), st.sampled_from([0.5, 1.0, 2.5, 4.0, 11.0])),
    st.tuples(st.sampled_from(["answers", "begins", "pushes", "ends", "comes"])),
    st.tuples(st.sampled_from(["reads", "finishes", "goes"]), one),
)


@pytest.mark.parametrize("idle", [0.0, 4.0])
@pytest.mark.parametrize("dialect", sorted(ASKED))
@given(doings=st.lists(events, max_size=25))
@example([("sends", 0, 1, 0, True), ("waits", 2.5), ("begins",), ("waits", 60.0)])  # signs of life
def test_peers_see_the_same_as_if_each_sweep_looked_at_everybody(
    dialect: str, idle: float, doings: list[tuple[Any, ...]]
) -> None:
    few, all_of_them = World(dialect, idle, everybody=False), World(dialect, idle, everybody=True)
    for what in doings:
        few.does(what)
        all_of_them.does(what)
        assert few.said[-1] == all_of_them.said[-1]


def quiet(node: Node, count: int) -> list[Peer]:
    """Peers that have asked something, heard of it, and say no more."""
    peers = [node.connect() for _ in range(count)]
    for peer in peers:
        peer.send(node.dialect.encode_request(Request(q.Ping(), 1), node.listening.listener.terms("127.0.0.1:1")))
        assert peer.read()
    return peers


@pytest.mark.parametrize("idle", [0.0, 60.0])
def test_who_says_nothing_is_looked_at_by_no_sweep(idle: float) -> None:
    node = Node(MemoryBackend(Clock()), "native", limits=Limits(idle_seconds=idle))
    quiet(node, 100)
    node.wait(1.0)
    assert [node.port.watch.take(at) for at in (2.0, 30.0, 59.0)] == [set(), set(), set()]


def test_silence_that_is_broken_is_counted_anew_and_ends_when_it_is_too_long() -> None:
    node = Node(MemoryBackend(Clock()), "native", limits=Limits(idle_seconds=60.0))
    silent, talking = quiet(node, 2)
    node.wait(50.0)
    talking.send(node.dialect.encode_request(Request(q.Ping(), 2), node.listening.listener.terms("127.0.0.1:1")))
    node.wait(12.0)
    assert (silent.left, talking.left) == (True, False)
    node.wait(47.0)
    assert not talking.left
    node.wait(3.0)
    assert talking.left


def test_who_is_gone_is_remembered_by_nobody() -> None:
    node = Node(MemoryBackend(Clock()), "native", limits=Limits(idle_seconds=60.0))
    for peer in quiet(node, 10):
        node.wait(1.0)
        peer.lose()
    watch = node.port.watch
    assert not watch.active and not watch._resting and not any(watch._due.values())
