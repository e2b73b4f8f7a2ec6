"""Limits over real sockets: who wants more than there is to have is turned away, or told so in its dialect's words.

What the limits do to one connection's commands, bytes and deadlines, tests/net/test_limits.py shows on a virtual clock.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import wire
from gateway import dialects
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Outcome
from gateway.net.users import new_password
from system.configured import PROMPT, Configured, about, listener, refusal
from system.peers import Lines, Stream, line
from system.processes import until
from system.speaking import Speaking

NAMES = sorted(about("any"))
RATE = 4
BUSY = Fault.BUSY
LIST = q.ListTopics("default")


def is_busy(outcome: Outcome, name: str) -> bool:
    """Whether it is that dialect's answer to who asks too often."""
    code = dialects.load(name).faults
    return isinstance(outcome, CommandFailed) and code[outcome.fault] == code[BUSY]


def test_one_connection_too_many_is_hung_up_on_and_has_room_when_another_ends(tmp_path: Path) -> None:
    text = 'backend.spec = "memory"\n[limits]\nconnections = 3\n' + listener("pipe") + listener("cursus")
    with Configured(tmp_path, text) as gateway:
        peers = [Speaking(name, gateway.ports[name]) for name in ("pipe", "pipe", "cursus")]
        for peer in peers[:2]:
            peer.sure(line("t", "k", "v"), r.Published)
        for name in ("pipe", "cursus"):
            with Stream(gateway.ports[name]) as more:
                assert refusal(more)[0] == b"", "of all listeners together"
        with Stream(gateway.ports["pipe"]) as more:
            assert refusal(more)[1] < PROMPT
        assert len(peers[2].sure(LIST, r.Topics).topics) == 1, "those that are there are served"
        peers[0].close()

        def served() -> bool:
            try:
                with Lines(gateway.ports["pipe"]) as later:
                    return later.committed("g", "t", 0) == 0
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


def test_users_have_their_own_rate(tmp_path: Path) -> None:
    users = "".join(f'[users.{name}]\npassword = "{new_password(name, log_n=4).text()}"\n' for name in ("ann", "ben"))
    text = f'backend.spec = "memory"\n[limits]\nrequests_per_second = {RATE}\n' + listener("cursus") + users
    with Configured(tmp_path, text) as gateway:
        port = gateway.ports["cursus"]
        with Speaking("cursus", port) as ann, Speaking("cursus", port) as ben:
            ann.sure(q.Authenticate("plain", "ann", "ann"), r.Authenticated)
            ben.sure(q.Authenticate("plain", "ben", "ben"), r.Authenticated)
            asked = ann.ask_all([LIST] * RATE * 10)  # at once: no second passes, however busy this machine is
            assert isinstance(asked[0], r.Topics) and is_busy(asked[-1], "cursus")
            assert isinstance(ben.ask(LIST), r.Topics), "one does not use up the other's"


def test_who_begins_a_frame_and_does_not_end_it_is_hung_up_on(tmp_path: Path) -> None:
    text = 'backend.spec = "memory"\n[limits]\nframe_seconds = 1\nidle_seconds = 3\n' + listener("cursus")
    with (
        Configured(tmp_path, text) as gateway,
        Stream(gateway.ports["cursus"]) as slow,
        Speaking("cursus", gateway.ports["cursus"]) as idle,
    ):
        slow.send(wire.request("cursus", LIST)[:-2])
        assert refusal(slow)[1] < 5.0
        assert isinstance(idle.ask(LIST), r.Topics), "who is between frames may be silent for longer"
        answer, seconds = refusal(idle)
        assert (answer, 2.0 < seconds < 8.0) == (b"", True)


def test_a_connection_takes_no_more_than_its_bytes(tmp_path: Path) -> None:
    """What it would write beyond them is not read until there is room, and everything is answered."""
    text = 'backend.spec = "sqlite:records"\n[limits]\nbuffered_bytes = 100000\nin_flight = 4\n' + listener("pipe")
    with Configured(tmp_path, text) as gateway, Lines(gateway.ports["pipe"]) as peer:
        answers = peer.ask_aside([line("t", "k", "v" * 20_000)] * 100)
    assert [answer.base for answer in answers if isinstance(answer, r.Published)] == list(range(100))
