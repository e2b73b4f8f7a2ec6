"""gateway.dialects.cursus: producers without acks that never read their answers, as the Go SDK, are served."""

from __future__ import annotations

from twisted.internet.task import Clock

import wire
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.commands import Session, Topic
from gateway.core.replies import Published, Topics
from gateway.net.server import MAX_HELD
from net.peers import Node, Scripted

ORDERS = Topic("default", "orders")
ROOM = 65_536


BATCH = wire.said("cursus", "a batch without acks is acknowledged in JSON too: Java and Python wait for it")
"""Two records."""
WITH_ACKS = wire.said("cursus", "a batch is acknowledged with what its first and last record say")
ACK = wire.told("cursus", "a batch is acknowledged with what its first and last record say")
LIST = wire.said("cursus", "LIST without an envelope, as Java sends it")
ORDERS_ALONE = wire.told("cursus", "LIST without an envelope, as Java sends it")


def memory() -> tuple[Node, MemoryBackend]:
    clock = Clock()
    backend = MemoryBackend(clock)
    backend.execute(q.CreateTopic(ORDERS, 1), Session(0))
    return Node(backend, "cursus", clock), backend


def stored(backend: MemoryBackend) -> int:
    reply = backend.execute(q.LatestOffsets(ORDERS), Session(0))
    return reply.offsets[0].end  # type: ignore[union-attr]


def test_a_producer_without_acks_that_never_reads_is_not_kept_waiting() -> None:
    node, backend = memory()
    peer = node.connect(room=ROOM)
    peer.send(BATCH * 50_000)
    assert peer.unread == b""
    assert stored(backend) == 100_000
    assert len(peer.wire.value()) < ROOM + MAX_HELD + ROOM
    assert peer.heard


def test_it_costs_no_more_the_longer_it_lasts() -> None:
    node, backend = memory()
    peer = node.connect(room=ROOM)
    peer.send(BATCH * 20_000)
    before = len(peer.wire.value())
    peer.send(BATCH * 20_000)
    assert stored(backend) == 80_000
    assert len(peer.wire.value()) == before


def test_who_wants_acks_is_kept_waiting_until_it_reads() -> None:
    node, backend = memory()
    peer = node.connect(room=ROOM)
    peer.send(WITH_ACKS * 50_000)
    assert peer.unread
    assert not peer.heard
    assert len(peer.wire.value()) < ROOM + MAX_HELD + ROOM
    peer.read()
    assert peer.unread == b""
    assert stored(backend) == 100_000


def test_a_producer_that_reads_gets_every_answer() -> None:
    backend = Scripted({q.Publish: Published(0, 0, 1)})
    peer = Node(backend, "cursus").connect()
    peer.send(BATCH * 1000)
    assert peer.read() == ACK * 1000


def test_something_else_in_between_waits_until_the_answers_are_read() -> None:
    node, backend = memory()
    peer = node.connect(room=ROOM)
    peer.send(BATCH * 20_000)
    peer.send(LIST + BATCH * 10)
    assert not peer.heard
    assert stored(backend) == 40_000
    assert ORDERS_ALONE not in peer.wire.read()
    assert ORDERS_ALONE in peer.read()
    assert stored(backend) == 40_020
    assert peer.heard


def test_refusals_are_no_way_around() -> None:
    """However many batches without acks stand between them."""
    node, _ = memory()
    peer = node.connect(room=ROOM)
    peer.send(BATCH * 20_000)
    peer.send((wire.said("cursus", "a frame of nothing is refused") + BATCH) * 20_000)
    assert peer.unread
    assert len(peer.wire.value()) < ROOM + MAX_HELD + 2 * ROOM


def test_an_answer_that_is_left_out_holds_up_none_behind_it() -> None:
    backend = Scripted()
    node = Node(backend, "cursus")
    peer = node.connect()
    peer.send(BATCH + LIST + BATCH)
    peer.connection.pauseProducing()
    for asked, reply in zip(reversed(backend.open), (Published(0, 1, 1), Topics(()), Published(0, 0, 0)), strict=True):
        asked.callback(reply)
    backend.open.clear()
    assert peer.read() == wire.told("cursus", "LIST where there are no topics")
    peer.connection.resumeProducing()
    peer.send(BATCH)
    backend.answer(Published(0, 0, 1))
    assert peer.read() == ACK
