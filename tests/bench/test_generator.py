"""gateway.bench.generator: windows, latencies and endings of the load, against a socket the test holds itself."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from os import getpid

import pytest

from gateway.bench import BenchFailed, generator
from gateway.bench.generator import Generator, Job, Lane, cpu_seconds
from gateway.bench.opening import Opening
from gateway.bench.tally import Marked, Sized

RING = [b"a1", b"b22", b"c333"]


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.settimeout(5)
        yield ours, theirs


def test_a_window_follows_the_ring_around_its_end(ends: tuple[socket.socket, socket.socket]) -> None:
    lane = Lane(ends[0], RING, 4, Marked(b"."), every=1)
    lane.top_up()
    assert ends[1].recv(100) == b"a1b22c333a1"
    ends[1].sendall(b"..")
    lane.read(bytearray(100), [])
    lane.top_up()
    assert ends[1].recv(100) == b"b22c333"
    assert (lane.sent, lane.done) == (6, 2)


def test_nothing_is_sent_beyond_the_depth(ends: tuple[socket.socket, socket.socket]) -> None:
    lane = Lane(ends[0], RING, 2, Marked(b"."), every=1)
    lane.top_up()
    lane.top_up()
    assert (ends[1].recv(100), lane.sent) == (b"a1b22", 2)


def test_every_sampled_request_gives_one_latency_in_order(ends: tuple[socket.socket, socket.socket]) -> None:
    lane, samples = Lane(ends[0], RING, 8, Marked(b"."), every=4), list[int]()
    for _ in range(4):
        lane.top_up()
        ends[1].sendall(b"." * 8)
        lane.read(bytearray(100), samples)
    assert len(samples) == 32 / 4
    assert all(latency > 0 for latency in samples)


def test_what_the_socket_does_not_take_is_sent_later(ends: tuple[socket.socket, socket.socket]) -> None:
    request = b"x" * 1_000_000
    lane = Lane(ends[0], [request], 8, Marked(b"."), every=1)
    lane.top_up()
    assert len(lane.unsent) > 0
    received = 0
    while received < 8_000_000:
        received += len(ends[1].recv(1 << 20))
        lane.top_up()
    assert (received, lane.sent, len(lane.unsent)) == (8_000_000, 8, 0)


def test_more_replies_than_requests_are_an_error(ends: tuple[socket.socket, socket.socket]) -> None:
    lane = Lane(ends[0], RING, 1, Marked(b"."), every=1)
    lane.top_up()
    ends[1].sendall(b"..")
    with pytest.raises(BenchFailed, match="2 replies to 1 requests"):
        lane.read(bytearray(100), [])


def test_a_server_that_hangs_up_is_an_error(ends: tuple[socket.socket, socket.socket]) -> None:
    lane = Lane(ends[0], RING, 1, Marked(b"."), every=1)
    lane.top_up()
    ends[1].close()
    with pytest.raises(BenchFailed, match="hung up on 1 requests"):
        lane.read(bytearray(100), [])


def test_an_error_answer_ends_in_a_failure_that_quotes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "STALL", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        load = Generator(Job(port, [[b"ask\n"]], Sized(4, b"good"), depth=1, warmup=0.01, seconds=0.01))
        peer, _ = server.accept()
        with peer, load:
            peer.sendall(b"there is no such topic")
            with pytest.raises(BenchFailed, match="there is no such topic"):
                load.run()


def test_no_answer_at_all_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "STALL", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with (
            Generator(Job(port, [[b"ask\n"]] * 2, Marked(b"."), depth=3, warmup=0.01, seconds=0.01)) as load,
            pytest.raises(BenchFailed, match="6 requests were not answered"),
        ):
            load.run()


def test_every_connection_says_its_opening_first_and_then_what_it_is_there_for() -> None:
    opening = Opening(b"login\n", Sized(6, b"hello"))
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as peer:
        heard = peer.submit(lambda: [greet(server) for _ in range(2)])
        port = server.getsockname()[1]
        job = Job(port, [[b"ask\n"]], Sized(1, b"."), 1, 0.01, 0.01, streams=[b"stream\n"], opening=opening)
        with Generator(job) as load:
            load._serve(next(iter(load._lanes.values())), 0)
            said = []
            for greeting, sock in heard.result():
                with sock:
                    said.append(greeting + sock.recv(100))
    assert said == [b"login\nstream\n", b"login\nask\n"]


def test_a_peer_that_does_not_like_the_opening_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as peer:
        heard = peer.submit(greet, server)
        opening = Opening(b"login\n", Sized(6, b"welcome"))
        with pytest.raises(BenchFailed, match=r"login.* was not answered as expected; the server sent .*hello!"):
            Generator(Job(server.getsockname()[1], [[b"ask\n"]], Sized(1, b"."), 1, 0.01, 0.01, opening=opening))
        heard.result()[1].close()


def greet(server: socket.socket) -> tuple[bytes, socket.socket]:
    sock, _ = server.accept()
    sock.settimeout(5)
    said = sock.recv(100)
    sock.sendall(b"hello!")
    return said, sock


def test_cpu_time_of_a_process_is_known_and_nobodys_is_none() -> None:
    assert cpu_seconds(getpid()) > 0
    assert cpu_seconds(0) == 0
