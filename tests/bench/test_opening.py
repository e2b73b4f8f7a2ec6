"""gateway.bench.opening: a login is answered as it should be before anything is measured."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from gateway.bench import BenchFailed
from gateway.bench.opening import Opening
from gateway.bench.tally import Sized

LOGIN = Opening(b"login", Sized(8, b"good"))


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(0.05)
        yield ours, theirs


def test_the_answer_is_taken_and_no_more(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[1].sendall(b"good 123what is pushed then")
    LOGIN.say(ends[0])
    assert ends[1].recv(100) == b"login"
    assert ends[0].recv(100) == b"what is pushed then"


@pytest.mark.parametrize("answer", [b"bad  123", b"ERROR", b"goo", b"good", b""])
def test_another_answer_or_a_part_of_it_is_a_failure_that_quotes_it(
    ends: tuple[socket.socket, socket.socket], answer: bytes
) -> None:
    ends[1].sendall(answer)
    with pytest.raises(BenchFailed, match=f"not answered as expected; the server sent {answer!r}$"):
        LOGIN.say(ends[0])


def test_a_peer_that_hangs_up_is_a_failure(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[1].sendall(b"good")
    ends[1].shutdown(socket.SHUT_WR)
    with pytest.raises(BenchFailed, match="the server sent b'good'"):
        LOGIN.say(ends[0])
