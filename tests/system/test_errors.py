"""Requests that are wrong, over real sockets: the words of the vectors, nothing stored, the connection kept.

What the cases hold of errors, one by one and from a new topic on, tests/conformance shows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import wire
from gateway.conformance import vectors
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from system.peers import Frames, Lines, Row, Speaking, Stream, batch, topic
from system.processes import GatewayProcess


def one(name: str, partition: int, sequence: int = 1, epoch: int = 1) -> q.Publish:
    return batch(name, partition, [Row(0, sequence, "p", "k", epoch, "v")])


FAILING: list[tuple[str, q.Command, Fault]] = [
    ("pipe", q.Fetch(topic("t"), 3, 0), Fault.NO_SUCH_PARTITION),
    ("pipe", q.CommitOffsets(topic("t"), q.Group("g"), {0: 1}, "m", 1), Fault.NO_SUCH_GROUP),
    ("cursus", q.CreateTopic(topic("t"), 1, if_exists=q.IfExists.GROW), Fault.FEWER_PARTITIONS),
    ("cursus", q.DeleteTopic(topic("none")), Fault.NO_SUCH_TOPIC),
    ("cursus", q.DescribeTopic(topic("none")), Fault.NO_SUCH_TOPIC),
    ("cursus", q.LatestOffsets(topic("t"), 9), Fault.NO_SUCH_PARTITION),
    ("cursus", q.Fetch(topic("none"), 0, 0), Fault.NO_SUCH_TOPIC),
    ("cursus", q.Fetch(topic("t"), 9, 0), Fault.NO_SUCH_PARTITION),
    ("cursus", one("none", 0), Fault.NO_SUCH_TOPIC),
    ("cursus", one("t", 9), Fault.NO_SUCH_PARTITION),
    ("cursus", one("once", 0, 4), Fault.SEQUENCE_GAP),
    ("cursus", one("once", 0, 2, epoch=2), Fault.SEQUENCE_GAP),
    ("cursus", one("once", 0, 3, epoch=0), Fault.STALE_EPOCH),
    ("cursus", q.CommitOffsets(topic("t"), q.Group("g"), {0: 1}, "m", 1), Fault.NO_SUCH_GROUP),
]
"""What can be read, and cannot be done."""


class Stored(NamedTuple):
    """Whatever a request could have changed."""

    topics: list[str]
    ends: list[dict[int, int]]
    committed: int


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """With a topic of three partitions and one record, and an idempotent one in which producer p has reached 2."""
    directory = tmp_path_factory.mktemp("errors")
    with GatewayProcess(directory, "pipe", "cursus", backend="memory") as gateway:
        with Lines(gateway.ports["pipe"]) as lines, Frames(gateway.ports["cursus"]) as frames:
            assert lines.produce("t", "k", "first") == (0, 0)
            frames.create("once", 1, idempotent=True)
            frames.publish(one("once", 0, 1))
            frames.publish(one("once", 0, 2))
        yield gateway


def look(gateway: GatewayProcess) -> Stored:
    with Frames(gateway.ports["cursus"]) as frames, Lines(gateway.ports["pipe"]) as lines:
        return Stored(frames.topics(), [frames.ends("t"), frames.ends("once")], lines.committed("g", "t", 0))


BEFORE = Stored(["once", "t"], [{0: 1, 1: 0, 2: 0}, {0: 2}], 0)


@pytest.mark.parametrize("dialect", ["cursus", "pipe"])
def test_every_refusal_of_the_vectors_is_told_and_changes_nothing(gateway: GatewayProcess, dialect: str) -> None:
    """One after the other on a connection that is kept."""
    refused = [case for case in vectors.load(dialect) if case.refusal and not case.closing and not case.settings]
    assert len(refused) > 50
    with Stream(gateway.ports[dialect]) as peer:
        for case in refused:
            assert case.then is not None
            peer.send(case.when)
            assert peer.exactly(len(case.then)) == case.then, case.name
        peer.finish()
        assert peer.rest() == b""
    assert look(gateway) == BEFORE


@pytest.mark.parametrize("dialect", ["cursus", "pipe"])
def test_what_cannot_be_done_is_told_so_and_changes_nothing(gateway: GatewayProcess, dialect: str) -> None:
    with Speaking(dialect, gateway.ports[dialect]) as peer:
        for name, command, fault in FAILING:
            if name == dialect:
                said = peer.ask(command)
                assert isinstance(said, CommandFailed) and said.fault is fault, (command, said)
    assert look(gateway) == BEFORE


def test_a_batch_that_was_stored_before_is_acknowledged_and_not_stored_again(gateway: GatewayProcess) -> None:
    with Frames(gateway.ports["cursus"]) as peer:
        assert peer.publish(one("once", 0, 1)) == r.Published(0, 1, 1), "with the last offset there is"
    assert look(gateway) == BEFORE


def test_who_is_hung_up_on_may_be_sending_and_is_not_reset_before_it_has_read_why(tmp_path: Path) -> None:
    name = "another version of the model is told apart at once, and the connection ends"
    with GatewayProcess(tmp_path, "native", backend="memory") as gateway, Stream(gateway.ports["native"]) as peer:
        peer.send(wire.said("native", name))
        assert peer.exactly(len(wire.told("native", name))) == wire.told("native", name)
        with pytest.raises(EOFError):
            peer.some()
        for _ in range(20):
            peer.send(bytes(1000))
            time.sleep(0.005)
        deadline = time.monotonic() + 20
        with pytest.raises(OSError):
            while time.monotonic() < deadline:  # not for ever, though
                peer.send(bytes(1000))
                time.sleep(0.05)
