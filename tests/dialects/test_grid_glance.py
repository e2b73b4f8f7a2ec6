"""MAP_GETs that are answered at once say what the usual way says, in every company."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

import wire
from dialects.grid_frames import Answer, M, changed, cut, frame, heard
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import MapValue
from gateway.dialects.grid import glance as glancing
from gateway.dialects.session import unlooking
from net.peers import Node, Peer, Scripted


def grid(backend: MemoryBackend | Scripted | None = None, **said: object) -> Peer:
    clock = Clock()
    node = Node(backend or MemoryBackend(clock, lambda: 1), "grid", clock, **said)  # type: ignore[arg-type]
    return node.connect()


def get(tag: int, key: bytes) -> bytes:
    return wire.request("grid", q.MapGet(M, key), tag)


def put(tag: int, key: bytes, value: bytes) -> bytes:
    return wire.request("grid", q.MapPut(M, key, value), tag)


def ask(peer: Peer, *frames: bytes) -> dict[int, Answer]:
    peer.send(b"".join(frames))
    return {answer.tag: answer for answer in heard(peer.read())}


keys = st.sampled_from([b"a", b"b", b"c"])
numbered = st.builds(
    lambda opcode, key, value, name, flags: (opcode, key, value, name, flags),
    st.sampled_from(["MAP_GET", "MAP_GET", "MAP_GET", "MAP_PUT", "MAP_DELETE", "PING", "MAP_SIZE", 0x7F]),
    keys | st.just(b""),
    st.binary(max_size=5),
    st.sampled_from([b"m", b"n", b"\xff", b""]),
    st.sampled_from([0, 0, 0, 1, 2, 0x40]),
)


@given(st.lists(st.lists(numbered, max_size=12), max_size=5))
def test_the_answers_are_those_of_the_usual_way(chunks: list[list[tuple[str | int, bytes, bytes, bytes, int]]]) -> None:
    short, usual = grid(), grid()
    usual.connection._session.looking = unlooking
    tag = 0
    for chunk in chunks:
        frames = []
        for opcode, key, value, name, flags in chunk:
            tag += 1
            frames.append(changed(frame(opcode, tag, name, key, value), flags=flags))
        for peer in (short, usual):
            peer.send(b"".join(frames))
        assert sorted(cut(short.read())) == sorted(cut(usual.read()))
        assert short.left == usual.left


def test_a_get_behind_a_put_sees_what_was_put_and_one_before_does_not() -> None:
    peer = grid()
    ask(peer, put(1, b"k", b"old"), get(2, b"k"))
    said = ask(peer, get(3, b"k"), put(4, b"k", b"new"), get(5, b"k"))
    assert (said[3].value, said[5].value) == (b"old", b"new")
    assert said[3].status == "OK"
    assert ask(peer, get(6, b"none"))[6].status == "NOT_FOUND"


def test_most_go_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = grid()
    ask(
        peer,
        *[put(at, b"%d" % at, b"v%d" % at) for at in range(100)],
        get(200, b"1"),
    )
    monkeypatch.setattr(peer.connection, "_start", None)
    said = ask(peer, *[get(at, b"%d" % at) for at in range(100)])
    assert [said[at].value for at in range(100)] == [b"v%d" % at for at in range(100)]


def test_nothing_is_read_at_once_for_who_has_to_log_in_first() -> None:
    backend = Scripted()
    peer = grid(backend, auth="required")
    said = ask(peer, get(1, b"k"), get(2, b"k"))
    assert [said[tag].status for tag in (1, 2)] == ["UNAUTHORIZED"] * 2
    assert backend.asked == []


def test_what_cannot_be_had_at_once_is_asked_in_the_usual_way() -> None:
    class Later(Scripted):
        immediate = True

        def execute(self, command: q.Command, session: q.Session) -> Deferred[MapValue]:  # type: ignore[override]
            return super().execute(command, session)  # type: ignore[return-value]

    backend = Later()
    peer = grid(backend)
    peer.send(get(1, b"k"))
    backend.answer(MapValue(b"one"))
    peer.read()
    peer.send(get(2, b"k") + get(3, b"k"))
    looked, *asked = backend.open
    looked.errback(CommandFailed(Fault.UNAVAILABLE))
    for each in asked:
        each.callback(MapValue(b"two"))
    said = {answer.tag: answer for answer in heard(peer.read())}
    assert [said[tag].value for tag in (2, 3)] == [b"two", b"two"]


def test_who_never_answers_at_once_is_asked_once() -> None:
    backend = Scripted()
    peer = grid(backend)
    peer.send(get(1, b"k"))
    assert len(backend.asked) == 1


def test_values_beyond_the_bound_are_left_to_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = grid()
    ask(
        peer,
        *[put(at, b"%d" % at, bytes(1000)) for at in range(20)],
        get(100, b"1"),
    )
    monkeypatch.setattr(glancing, "MOST", 5_500)
    started: list[int] = []
    start = peer.connection._start
    monkeypatch.setattr(peer.connection, "_start", lambda call: (started.append(call.request.tag), start(call)))
    said = ask(peer, *[get(at, b"%d" % at) for at in range(20)])
    assert started == list(range(5, 20))
    assert all(len(said[at].value) == 1000 for at in range(20))
