"""What is meant to hurt is refused in the dialect's own words, soon, at no cost that stays, and nothing is stored.

All the way through: connections as they are, and a backend.  Bounds of time are five times what was measured, and more.
"""

from __future__ import annotations

import gc
import re
import time
import tracemalloc
from functools import cache
from itertools import cycle, islice
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from dialects.bombs import GROUNDS, LONGEST, MIB, Bomb, Ground
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed
from gateway.dialects import Request, names
from net.peers import Node, Peer

HERE = Session(1)
SECONDS = 0.5
"""Of processor time in this thread for one bomb; the worst takes 0.03."""


class House:
    """A gateway with one topic and nothing in it."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.backend = MemoryBackend(Clock())
        self.backend.execute(q.CreateTopic(q.Topic("default", "t"), 1), HERE)
        self.node = Node(self.backend, ground.dialect, **ground.settings)
        self.terms = self.node.listening.listener.terms("127.0.0.1:1")
        good = self.node.dialect.decode_request(ground.good, self.terms)
        assert isinstance(good, Request)
        self.good = good
        self.answer = self.answered()
        assert not self.refused(self.answer)

    def peer(self) -> Peer:
        peer = self.node.connect()
        peer.send(self.ground.prelude)
        peer.read()
        return peer

    def answered(self) -> bytes:
        """What a good request is answered on a connection of its own."""
        peer = self.peer()
        peer.send(self.ground.good)
        return peer.read()

    def refused(self, frame: bytes) -> bool:
        """Whether a frame that answers says that something went wrong."""
        return isinstance(self.node.dialect.decode_reply(self.good, frame, self.terms), CommandFailed)

    def check_untouched(self) -> None:
        described = self.backend.execute(q.Describe(), HERE)
        assert isinstance(described, r.NodeDescription)
        assert (described.namespaces, described.topics, described.groups) == (1, 1, 0)
        assert (described.partitions, described.records) == (1, 0)


@cache
def ground_of(name: str) -> Ground:
    return GROUNDS[name]()


def frames(house: House, answered: bytes) -> list[bytes]:
    found = []
    while answered:
        size = house.node.dialect.measure_reply(answered, 0, 0)
        assert 0 < size <= len(answered), "an answer that is no frame"
        found.append(answered[:size])
        answered = answered[size:]
    return found


def fall(house: House, bomb: Bomb) -> None:
    """A bomb on a connection of its own, and a good request behind it."""
    peer = house.peer()
    peer.send(bomb.octets)
    answers = frames(house, peer.read())
    assert all(map(house.refused, answers)), f"{bomb.name}: {answers}"
    assert peer.left == bomb.ends, bomb.name
    if not bomb.ends:
        assert len(answers) == 1, bomb.name
        peer.send(house.ground.good)
        assert peer.read() == house.answer, bomb.name
    peer.lose()


def test_there_are_bombs_for_every_dialect() -> None:
    assert {ground_of(name).dialect for name in GROUNDS} == set(names())
    for name in GROUNDS:
        bombs = ground_of(name).bombs
        assert len({bomb.name for bomb in bombs}) == len(bombs) > 20
        assert any(bomb.ends for bomb in bombs)


@pytest.mark.parametrize("name", GROUNDS)
def test_a_bomb_is_refused_in_words_of_the_dialect_and_the_connection_goes_on(name: str) -> None:
    house = House(ground_of(name))
    for bomb in house.ground.bombs:
        began = time.thread_time()
        fall(house, bomb)
        assert time.thread_time() - began < SECONDS, bomb.name
        house.check_untouched()


@pytest.mark.parametrize("name", GROUNDS)
def test_a_thousand_bombs_leave_nothing_behind(name: str) -> None:
    house = House(ground_of(name))
    bombs = house.ground.bombs
    for bomb in bombs:
        fall(house, bomb)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for bomb in islice(cycle(bombs), 1000):
            fall(house, bomb)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < MIB
    house.check_untouched()


# -- the longest frames that there may be

TIMES = 12
"""Bytes that a frame may cost for a moment, for each of its own."""

SECONDS_OF_A_MIB = 0.1
"""Of processor time, and half a second."""


@pytest.mark.parametrize("name", LONGEST)
def test_the_longest_frames_cost_a_small_multiple_of_themselves(name: str) -> None:
    make, made = LONGEST[name]
    ground, bomb = make(), made()
    settings = {key: value for key, value in ground.settings.items() if key not in ("max_frame", "max_body")}
    house = House(ground._replace(settings=settings))
    size = len(bomb.octets)
    peer = house.peer()
    before, began = peak(anew=True), time.thread_time()
    peer.send(bomb.octets, chunk=size)
    assert len(frames(house, peer.read())) == 1
    took, cost = time.thread_time() - began, peak() - before
    assert took < 0.5 + size / MIB * SECONDS_OF_A_MIB
    assert cost < TIMES * size
    peer.send(ground.good)
    assert peer.read() == house.answer
    house.check_untouched()


def peak(*, anew: bool = False) -> int:
    """Bytes that this process had in RAM at the most; anew: from now on."""
    if anew:
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024
