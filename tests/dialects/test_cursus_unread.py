"""gateway.dialects.cursus: producers without acks that never read their answers, as the Go SDK, are served."""

from __future__ import annotations

from twisted.internet.task import Clock

from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.commands import Session, Topic
from gateway.core.replies import Published, Topics
from gateway.net.server import MAX_HELD
from net.peers import Node, Scripted

ORDERS = Topic("default", "orders")
ROOM = 65_536


def batch(acks: bytes = b"0") -> bytes:
    """One record."""
    body = bytes(15) + b"\1\0\2p1\0\2k1" + bytes(7) + b"\7\0\0\0\5hello" + bytes(16)
    payload = b"\xba\x7c\0\6orders" + bytes(4) + b"\1" + acks + bytes(17) + b"\0\0\0\1" + body
    return len(payload).to_bytes(4, "big") + payload


def memory() -> tuple[Node, MemoryBackend]:
    clock = Clock()
    backend = MemoryBackend(clock)
    backend.execute(q.CreateTopic(ORDERS, 1), Session(0))
    return Node(backend, "cursus", clock), backend


def stored(backend: MemoryBackend) -> int:
    reply = backend.execute(q.LatestOffsets(ORDERS), Session(0))
    return reply.offsets[0].end  # type: ignore[union-attr]


LIST = b"\0\0\0\4LIST"


def test_a_producer_without_acks_that_never_reads_is_not_kept_waiting() -> None:
    node, backend = memory()
    peer = node.connect(room=ROOM)
    peer.send(batch() * 50_000)
    assert peer.unread == b""
    assert stored(backend) == 50_000
    assert len(peer.wire.value()) < ROOM + MAX_HELD + ROOM
    assert peer.heard


def test_it_costs_no_more_the_longer_it_lasts() -> None:
    node, backend = memory()
    peer = node.connect(room=ROOM)
    peer.send(batch() * 20_000)
    before = len(peer.wire.value())
    peer.send(batch() * 20_000)
    assert stored(backend) == 40_000
    assert len(peer.wire.value()) == before


def test_who_wants_acks_is_kept_waiting_until_it_reads() -> None:
    node, backend = memory()
    peer = node.connect(room=ROOM)
    peer.send(batch(b"1") * 50_000)
    assert peer.unread
    assert not peer.heard
    assert len(peer.wire.value()) < ROOM + MAX_HELD + ROOM
    peer.read()
    assert peer.unread == b""
    assert stored(backend) == 50_000


def test_a_producer_that_reads_gets_every_answer() -> None:
    node, _ = memory()
    peer = node.connect()
    peer.send(batch() * 1000)
    assert peer.read().count(b'"status":"OK"') == 1000


def test_something_else_in_between_waits_until_the_answers_are_read() -> None:
    node, backend = memory()
    peer = node.connect(room=ROOM)
    peer.send(batch() * 20_000)
    peer.send(LIST + batch() * 10)
    assert not peer.heard
    assert stored(backend) == 20_000
    assert peer.wire.read().count(b"topics=") == 0
    assert b"topics=orders" in peer.read()
    assert stored(backend) == 20_010
    assert peer.heard


def test_refusals_are_no_way_around() -> None:
    """However many batches without acks stand between them."""
    node, _ = memory()
    peer = node.connect(room=ROOM)
    peer.send(batch() * 20_000)
    peer.send((b"\0\0\0\0" + batch()) * 20_000)
    assert peer.unread
    assert len(peer.wire.value()) < ROOM + MAX_HELD + 2 * ROOM


def test_an_answer_that_is_left_out_holds_up_none_behind_it() -> None:
    backend = Scripted()
    node = Node(backend, "cursus")
    peer = node.connect()
    peer.send(batch() + LIST + batch())
    peer.connection.pauseProducing()
    for asked, reply in zip(reversed(backend.open), (Published(0, 1, 1), Topics(()), Published(0, 0, 0)), strict=True):
        asked.callback(reply)
    backend.open.clear()
    assert peer.read() == b"\0\0\0\x12OK count=0 topics="
    peer.connection.resumeProducing()
    peer.send(batch())
    backend.answer(Published(0, 2, 2))
    assert b'"last_offset":2' in peer.read()
