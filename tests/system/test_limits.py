"""Limits over real sockets: who wants more than there is to have is turned away, or told so in its dialect's words.

What the limits do to one connection's commands, bytes and deadlines, tests/net/test_limits.py shows on a virtual clock.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from gateway import dialects
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Outcome
from gateway.net.users import new_password
from system.configured import PROMPT, Configured, about, listener, refusal
from system.peers import Frames, Lines, Stream, framed
from system.processes import until
from system.speaking import Speaking

NAMES = sorted(about("any"))
RATE = 4
BUSY = Fault.BUSY


def is_busy(outcome: Outcome, name: str) -> bool:
    """Whether it is that dialect's answer to who asks too often."""
    code = dialects.load(name).faults
    return isinstance(outcome, CommandFailed) and code[outcome.fault] == code[BUSY]


def test_one_connection_too_many_is_hung_up_on_and_has_room_when_another_ends(tmp_path: Path) -> None:
    text = 'backend.spec = "memory"\n[limits]\nconnections = 3\n' + listener("pipe") + listener("cursus")
    with Configured(tmp_path, text) as gateway:
        peers = [Lines(gateway.ports["pipe"]), Lines(gateway.ports["pipe"]), Frames(gateway.ports["cursus"])]
        assert [peer.ask(b"V1|1|PRODUCE|t k:v")[:7] for peer in peers[:2]] == [b"V1|1|OK"] * 2
        for name in ("pipe", "cursus"):
            with Stream(gateway.ports[name]) as more:
                assert refusal(more)[0] == b"", "of all listeners together"
        with Stream(gateway.ports["pipe"]) as more:
            assert refusal(more)[1] < PROMPT
        assert peers[2].call("LIST") == "OK count=1 topics=t", "those that are there are served"
        peers[0].close()

        def served() -> bool:
            try:
                with Lines(gateway.ports["pipe"]) as later:
                    return later.ask(b"V1|1|OFFSET|g t 0").startswith(b"V1|1|OK")
            except (EOFError, ConnectionError):
                return False

        until(served, 5.0, "there is room again")
        for peer in peers[1:]:
            peer.close()


@pytest.mark.parametrize("name", NAMES)
def test_who_asks_too_often_is_told_so_in_the_words_of_its_dialect_and_served_later(tmp_path: Path, name: str) -> None:
    text = f'backend.spec = "memory"\n[limits]\nrequests_per_second = {RATE}\n' + listener(name)
    with Configured(tmp_path, text) as gateway, Speaking(name, gateway.ports[name]) as peer:
        outcomes = peer.ask_all([about("t")[name]] * RATE * 3)
        busy = [is_busy(outcome, name) for outcome in outcomes]
        assert not any(busy[:RATE]), "a second's worth may come at once"
        assert busy.count(True) >= RATE, "some of the rest came when a little time had passed"
        with Speaking(name, gateway.ports[name]) as other:
            assert is_busy(other.ask_all([about("t")[name]] * RATE * 3)[-1], name), "of an address, not of a connection"
        until(lambda: not is_busy(peer.ask(about("t")[name]), name), 5.0, "it is served again")


TOO_OFTEN = b"more requests a second than one may ask"
BARE = [
    ("pipe", b"V1|7|OFFSET|g t 0\n", b"V1|7|ERR|NOT_LEADER|partition leader unavailable on this broker\n"),
    ("cursus", b"\0\0\0\4LIST", b"\0\0\0\x2dERROR: busy class=availability retryable=true"),
    ("iggy", struct.pack("<II", 16, 300) + b"\2\7default\2\1t", struct.pack("<II", 1, 0)),
    (
        "grid",  # MAP_GET; RESPONSE_SERVER_BUSY
        bytes.fromhex("dc02 00000001 00000006 00 0005 0001 02") + b"tuser1",
        bytes.fromhex("dc83 00000001 00000027 00 0000 0800 02") + TOO_OFTEN,
    ),
    (
        "mlog",
        b'\0\x10\0\0\0\x0d{"Topic":"t"}',
        b'\0\x14\0\0\0\x33{"code":0,"message":"too much is in flight; retry"}',
    ),
    (
        "native",
        b"\0\0\0\x08\x92\x01\x91\xa4Ping",
        b"\0\0\0\x33\x95\x01\xa1!\xa4BUSY\xd9\x27" + TOO_OFTEN + b"\x80",
    ),
]
"""A request and its answer.  Cursus says that it is worth a retry, and V1 has a code after which its SDKs retry."""


def test_each_dialect_says_in_its_own_words_that_there_was_too_much(tmp_path: Path) -> None:
    text = 'backend.spec = "memory"\n[limits]\nrequests_per_second = 0.001\n'
    with Configured(tmp_path, text + "".join(listener(name) for name in NAMES)) as gateway:
        with Lines(gateway.ports["pipe"]) as peer:
            assert peer.ask(b"V1|1|OFFSET|g t 0") == b"V1|1|OK|offset=0", "the one that there may be"
        for name, asked, answer in BARE:
            with Stream(gateway.ports[name]) as peer:
                peer.send(asked)
                assert peer.exactly(len(answer)) == answer, name


def ask_all(peer: Frames, command: bytes, times: int) -> list[str]:
    """At once, so that no second passes between the first and the last, however busy this machine is."""
    peer.send(framed(b"\0\0" + command) * times)
    return [peer.frame().decode() for _ in range(times)]


def test_users_have_their_own_rate(tmp_path: Path) -> None:
    users = "".join(f'[users.{name}]\npassword = "{new_password(name, log_n=4).text()}"\n' for name in ("ann", "ben"))
    text = f'backend.spec = "memory"\n[limits]\nrequests_per_second = {RATE}\n' + listener("cursus") + users
    with Configured(tmp_path, text) as gateway:
        port = gateway.ports["cursus"]
        with Frames(port) as ann, Frames(port) as ben:
            assert ann.call("AUTH principal=ann token=ann").startswith("OK")
            assert ben.call("AUTH principal=ben token=ben").startswith("OK")
            asked = ask_all(ann, b"LIST", RATE * 10)
            assert asked[0].startswith("OK") and asked[-1].startswith("ERROR: busy")
            assert ben.call("LIST").startswith("OK"), "one does not use up the other's"


def test_who_begins_a_frame_and_does_not_end_it_is_hung_up_on(tmp_path: Path) -> None:
    text = 'backend.spec = "memory"\n[limits]\nframe_seconds = 1\nidle_seconds = 3\n' + listener("cursus")
    with (
        Configured(tmp_path, text) as gateway,
        Stream(gateway.ports["cursus"]) as slow,
        Frames(gateway.ports["cursus"]) as idle,
    ):
        slow.send(b"\0\0\0\4LI")
        assert refusal(slow)[1] < 5.0
        assert idle.call("LIST").startswith("OK"), "who is between frames may be silent for longer"
        answer, seconds = refusal(idle)
        assert (answer, 2.0 < seconds < 8.0) == (b"", True)


def test_a_connection_takes_no_more_than_its_bytes(tmp_path: Path) -> None:
    """What it would write beyond them is not read until there is room, and everything is answered."""
    text = 'backend.spec = "sqlite:records"\n[limits]\nbuffered_bytes = 100000\nin_flight = 4\n' + listener("pipe")
    lines = b"".join(b"V1|%d|PRODUCE|t k:%b\n" % (number, b"v" * 20_000) for number in range(100))
    with Configured(tmp_path, text) as gateway, Lines(gateway.ports["pipe"]) as peer:
        sender = peer.send_aside(lines)
        answers = [peer.line() for _ in range(100)]
        sender.join(5.0)
        assert [answer.split(b"|")[1:3] for answer in answers] == [[b"%d" % number, b"OK"] for number in range(100)]
