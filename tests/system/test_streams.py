"""Cursus streams over real sockets: many, one of them unread, signs of life, the end."""

from __future__ import annotations

import resource
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.core import commands as q
from gateway.core.faults import CommandFailed
from gateway.core.records import RecordBatch
from gateway.core.replies import Done, Published
from gateway.dialects.cursus.batch import read_data
from gateway.dialects.cursus.pushing import KEEPALIVE
from gateway.dialects.cursus.terms import Consuming
from gateway.dialects.frames import FrameBuffer
from system.peers import TIMEOUT, Frames, Lines, Row, batch, rows, topic
from system.processes import GatewayProcess, until

KEEPALIVE_SECONDS = 5.0
"""Between signs of life, at most: Python's client gives a stream up that was silent for so long."""

MIB = 1 << 20


def open_stream(gateway: GatewayProcess, group: str, offset: int = 0, partition: int = 0) -> Frames:
    peer = Frames(gateway.ports["cursus"])
    follow = q.Follow(topic("orders"), partition, q.Next(q.Group(group), offset))
    peer.begin([follow], Consuming("STREAM", member="m", generation=1))
    return peer


def publish(gateway: GatewayProcess, *values: str, partition: int = 0) -> None:
    sent = [Row(0, 0, "", "k", 0, value) for value in values]
    with Frames(gateway.ports["cursus"]) as peer:
        peer.publish(batch("orders", partition, sent))


def create(gateway: GatewayProcess, partitions: int = 1) -> None:
    with Frames(gateway.ports["cursus"]) as peer:
        peer.create("orders", partitions)


def pushed(peer: Frames) -> list[Row]:
    """What comes next."""
    _, found = peer.next()
    assert isinstance(found, RecordBatch), found
    return rows(found)


def take(peer: Frames, count: int) -> list[tuple[int, str]]:
    """(offset, value) of so many records, however many come at a time."""
    found: list[tuple[int, str]] = []
    while len(found) < count:
        found += [(row.offset, row.value) for row in pushed(peer)]
    return found


def last_words(peer: Frames) -> tuple[object, object]:
    """Why it is hung up on, and the offset to go on from; fails if it is not."""
    _, end = peer.next()
    assert isinstance(end, CommandFailed), end
    assert peer.rest() == b"", "that was the end"
    return end.facts["reason"], end.facts["offset"]


# -- one stream


def test_a_stream_has_what_is_there_and_then_what_comes(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, "cursus", "pipe") as gateway:
        create(gateway)
        publish(gateway, "a", "b")
        with open_stream(gateway, "g") as peer:
            assert take(peer, 2) == [(0, "a"), (1, "b")]
            publish(gateway, "c")
            assert take(peer, 1) == [(2, "c")]
            with Lines(gateway.ports["pipe"]) as lines:
                assert lines.produce("orders", "k", "d") == (0, 3)
            assert take(peer, 1) == [(3, "d")]


def test_a_stream_begins_behind_what_its_group_has_committed(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, "cursus", "pipe") as gateway:
        create(gateway)
        publish(gateway, "a", "b", "c")
        with Lines(gateway.ports["pipe"]) as lines:
            lines.sure(q.CommitOffsets(topic("orders"), q.Group("g"), {0: 2}), Done)
        with open_stream(gateway, "g") as peer, open_stream(gateway, "other", 1) as other:
            assert take(peer, 1) == [(2, "c")]
            assert take(other, 2) == [(1, "b"), (2, "c")]


def test_a_replaced_stream_is_told_where_it_was_and_is_closed(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, "cursus") as gateway:
        create(gateway, 2)
        publish(gateway, "a", "b", "c", "d")
        with ExitStack() as stack:
            first = stack.enter_context(open_stream(gateway, "g"))
            assert len(take(first, 4)) == 4
            others = [
                stack.enter_context(open_stream(gateway, "h")),
                stack.enter_context(open_stream(gateway, "g", partition=1)),
            ]
            second = stack.enter_context(open_stream(gateway, "g", 4))
            assert last_words(first) == ("replaced", 4)
            publish(gateway, "e")
            assert take(second, 1) == [(4, "e")]
            assert len(take(others[0], 5)) == 5, "a stream of another group goes on"
            third = stack.enter_context(open_stream(gateway, "g", 5))
            assert last_words(second) == ("replaced", 5)
            publish(gateway, "f")
            assert take(third, 1) == [(5, "f")]
            publish(gateway, "g", partition=1)
            assert [row.value for row in pushed(others[1])] == ["g"], "and so does one of another partition"


def test_streams_are_told_that_the_gateway_stops(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, "cursus") as gateway:
        create(gateway)
        publish(gateway, "a", "b")
        with open_stream(gateway, "g") as busy, open_stream(gateway, "h", 2) as idle:
            assert len(take(busy, 2)) == 2
            until(lambda: connections(gateway) == 2, TIMEOUT, "both streams")
            assert gateway.terminate() == 0
            for peer in (busy, idle):
                assert last_words(peer) == ("stopped", 2)


def connections(gateway: GatewayProcess) -> int:
    """Connections to its Cursus port that it has accepted and not closed."""
    port = f":{gateway.ports['cursus']:04X}"
    lines = Path(f"/proc/{gateway.pid}/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[1].endswith(port) and line.split()[3] == "01" for line in lines)


def test_a_stream_at_rest_shows_that_it_lives_before_a_real_client_gives_it_up(tmp_path: Path) -> None:
    """Python's waits 5 s for the next byte, and then would connect anew for ever."""
    with GatewayProcess(tmp_path, "cursus", backend="memory") as gateway:
        create(gateway)
        with open_stream(gateway, "g") as peer:
            for _ in range(2):
                began = time.monotonic()
                peer.socket.settimeout(2 * KEEPALIVE_SECONDS)
                assert peer.exactly(len(KEEPALIVE)) == KEEPALIVE
                assert time.monotonic() - began < KEEPALIVE_SECONDS


# -- a thousand

STREAMS = 1000
ROUNDS, ROUND = 30, 5
"""Batches, and records in each: so many before one peer stops reading, and so many after."""

HISTORY = 64
"""MiB of records that are there already; far more than the buffers of a socket hold."""

SLACK = 10.0
"""Times as slow as without it may the 99th percentile be: five times what is promised."""


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Enough of them for a thousand connections, for us and what we start."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * STREAMS
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(wanted, hard)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Watcher:
    """One stream among many: cuts frames, and keeps count of what came.

    next: the offset it expects; alive: signs of life.
    """

    def __init__(self, peer: Frames, begin: int) -> None:
        self.peer = peer
        self.next = begin
        self.alive = 0
        self._frames = FrameBuffer(peer.dialect.measure_reply, peer.dialect.max_frame)

    def feed(self) -> None:
        frames, failure = self._frames.feed(self.peer.some())
        assert failure is None
        for frame in frames:
            self._frame(frame)

    def _frame(self, frame: bytes) -> None:
        if frame == KEEPALIVE:
            self.alive += 1
            return
        _, batches = read_data(frame)
        for row in rows(*batches):
            assert (row.offset, row.value) == (self.next, f"v-{self.next}")
            self.next += 1


class Crowd:
    """Many streams of one topic, read in one loop."""

    def __init__(self, watchers: list[Watcher]) -> None:
        self.watchers = watchers
        self._by_number = {each.peer.socket.fileno(): each for each in watchers}
        self._ready = select.epoll()
        for number in self._by_number:
            self._ready.register(number, select.EPOLLIN)

    def close(self) -> None:
        self._ready.close()

    def read_to(self, end: int, seconds: float = TIMEOUT) -> list[float]:
        """Until every one of them has all before that offset.  Returns when each had, in the order they had."""
        times: list[float] = []
        missing = sum(each.next < end for each in self.watchers)
        deadline = time.monotonic() + seconds
        while len(times) < missing:
            for each in self._turn(deadline):
                before = each.next
                each.feed()
                if before < end <= each.next:
                    times.append(time.monotonic())
        return times

    def read_until_all_live(self, seconds: float) -> None:
        """Until every one of them has had a sign of life."""
        deadline = time.monotonic() + seconds
        while not all(each.alive for each in self.watchers):
            for each in self._turn(deadline):
                each.feed()

    def _turn(self, deadline: float) -> list[Watcher]:
        left = deadline - time.monotonic()
        assert left > 0, f"some streams are behind: {sorted({each.next for each in self.watchers})}"
        return [self._by_number[number] for number, _ in self._ready.poll(left)]


def latencies(writer: Frames, crowd: Crowd, begin: int) -> list[float]:
    """Seconds from a batch's leaving to its arrival at each stream, of ROUNDS batches one after the other."""
    found: list[float] = []
    for at in range(begin, begin + ROUNDS * ROUND, ROUND):
        sent = [Row(0, 0, "", "k", 0, f"v-{offset}") for offset in range(at, at + ROUND)]
        left = time.monotonic()
        [tag] = writer.begin([batch("orders", 0, sent)])
        found += [arrived - left for arrived in crowd.read_to(at + ROUND)]
        assert isinstance(writer.hear([tag])[0], Published)
    return found


def percentile(values: list[float], percent: int) -> float:
    return sorted(values)[len(values) * percent // 100]


def history(writer: Frames) -> int:
    """Fill the topic.  Returns the offset behind it."""
    for at in range(0, HISTORY * 16, 16):
        sent = [Row(0, 0, "", "k", 0, f"v-{offset}".ljust(65_000)) for offset in range(at, at + 16)]
        writer.publish(batch("orders", 0, sent))
    return HISTORY * 16


def test_one_of_a_thousand_streams_that_is_not_read_costs_little_and_delays_no_other(
    tmp_path: Path, descriptors: None
) -> None:
    with GatewayProcess(tmp_path, "cursus") as gateway, ExitStack() as stack:
        writer = stack.enter_context(Frames(gateway.ports["cursus"]))
        writer.create("orders", 1)
        end = history(writer)
        empty = gateway.resident()
        peers = [stack.enter_context(open_stream(gateway, f"g{at}", end)) for at in range(STREAMS - 1)]
        crowd = Crowd([Watcher(peer, end) for peer in peers])
        stack.callback(crowd.close)
        crowd.read_until_all_live(4 * KEEPALIVE_SECONDS)
        assert gateway.resident() - empty < STREAMS * 64 * 1024
        alone = latencies(writer, crowd, end)
        before = gateway.resident()
        deaf = stack.enter_context(open_stream(gateway, "deaf"))
        until(lambda: deaf.socket.recv(1, socket.MSG_PEEK), TIMEOUT, "a stream that nobody reads")
        beside = latencies(writer, crowd, end + ROUNDS * ROUND)
        last = end + 2 * ROUNDS * ROUND
        assert {each.next for each in crowd.watchers} == {last}
        grown = gateway.resident() - before
        assert grown < 16 * MIB
        assert percentile(beside, 99) < SLACK * percentile(alone, 99)
        read = [(offset, value.rstrip()) for offset, value in take(deaf, last)]
        assert read == [(offset, f"v-{offset}") for offset in range(last)], "and it may read after all"
