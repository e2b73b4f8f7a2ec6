"""What one peer does must not cost memory, time, or another peer: real sockets, every dialect.

Bounds are in bytes and seconds; those of time are at least five times what was measured.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain, repeat
from pathlib import Path

import msgspec
import pytest

from system.ledger import Ledger, producers, stored
from system.peers import Frames, Lines, Row, Stream, Tagged, acked, batch, framed, tagged
from system.processes import GatewayProcess, Setting, until

DIALECTS = ("cursus", "native", "pipe")
MIB = 1 << 20
SQLITE, MEMORY = "sqlite:records", "memory"


def served(gateway: GatewayProcess, within: float = 5.0) -> None:
    """A new client of each dialect is answered, and soon."""
    began = time.monotonic()
    with (
        Lines(gateway.ports["pipe"], within) as lines,
        Frames(gateway.ports["cursus"], within) as frames,
        Tagged(gateway.ports["native"], within) as native,
    ):
        lines.produce("others", "k", "v")
        assert frames.call("LIST").startswith("OK count=")
        assert native.ask(["Ping"]) == [["Done"]]
    assert time.monotonic() - began < within


# -- 5,000 requests in one chunk

COUNT = 5000


def check_lines(port: int) -> None:
    """Writes, reads and lines that are no command in turn; every answer has the number of its request."""
    asked = [b"PRODUCE|t k:%d", b"CONSUME|t 0 999999", b"NOTHING|%d", b"PRODUCE|t colonless%d"]
    lines = [b"V1|%d|" % at + asked[at % 4].replace(b"%d", b"%d" % at) + b"\n" for at in range(COUNT)]
    with Lines(port) as peer:
        sending = peer.send_aside(b"".join(lines))
        answers = [peer.line().split(b"|") for _ in lines]
        sending.join()
        assert [int(answer[1]) for answer in answers] == list(range(COUNT))
        assert [answer[2:4] for answer in answers[2::4]] == [[b"ERR", b"UNKNOWN_COMMAND"]] * (COUNT // 4)
        assert [answer[2:4] for answer in answers[3::4]] == [[b"ERR", b"BAD_REQUEST"]] * (COUNT // 4)
        assert peer.read_all("t", 0) == [str(at) for at in range(0, COUNT, 4)]


def check_frames(port: int) -> None:
    """Batches, which are answered when they are on disk, and questions that are answered at once, in turn."""
    with Frames(port) as peer:
        peer.create("t", 1, "idempotent=true")
        frames = [
            batch("t", 0, [Row(0, at // 2 + 1, "p", "k", 1, str(at))])
            if at % 2 == 0
            else b"\0\0METADATA topic=none%d" % at
            for at in range(COUNT)
        ]
        sending = peer.send_aside(b"".join(map(framed, frames)))
        answers = [peer.frame() for _ in frames]
        sending.join()
        assert [acked(answer).seq_start for answer in answers[::2]] == list(range(1, COUNT // 2 + 1))
        assert [acked(answer).last_offset for answer in answers[::2]] == list(range(COUNT // 2))
        assert answers[1::2] == [b"ERROR: topic_not_found topic=none%d" % at for at in range(1, COUNT, 2)]
        assert [row.value for row in peer.read_all("t", 0)] == [str(at) for at in range(0, COUNT, 2)]


def check_tagged(port: int) -> None:
    """Answers may come in any order, each tag once."""
    topic = ["default", "t"]
    record = b"\x91\x92\xc4\x01k\xc4\x01v"  # one, with a key and a value
    publish: list[object] = ["Publish", topic, 0, ["msgpack.v1", record, 1, 0, 0, ""]]
    asked: list[list[object]] = [publish, ["Ping"], ["DescribeTopic", ["default", "none"]]]
    with Tagged(port) as peer:
        peer.ask(["CreateTopic", topic, 1])
        sending = peer.send_aside(b"".join(tagged(tag, asked[tag % 3]) for tag in range(1, COUNT + 1)))
        answers = dict(peer.answer() for _ in range(COUNT))
        sending.join()
    assert sorted(answers) == list(range(1, COUNT + 1))
    assert all(answers[tag] == [["Done"]] for tag in answers if tag % 3 == 1)
    assert all(answers[tag][:2] == ["!", "NO_SUCH_TOPIC"] for tag in answers if tag % 3 == 2)
    published = [["Published", 0, offset, offset, False] for offset in range(COUNT // 3)]
    assert [answers[tag][0] for tag in sorted(answers) if tag % 3 == 0] == published, "they are carried out in order"


@pytest.mark.parametrize("backend", [SQLITE, MEMORY])
@pytest.mark.parametrize(
    ("dialect", "check"), [("pipe", check_lines), ("cursus", check_frames), ("native", check_tagged)]
)
def test_5000_requests_in_one_chunk_are_all_answered_and_in_order(
    tmp_path: Path, dialect: str, check: Callable[[int], None], backend: str
) -> None:
    with GatewayProcess(tmp_path, dialect, backend=backend) as gateway:
        check(gateway.ports[dialect])


# -- a peer that does not read

BIG = 8
"""Batches of 1 MiB in the topic `big`."""

READ_BIG = {
    "pipe": repeat(b"V1|1|CONSUME|big 0 0\n"),
    "cursus": repeat(framed(b"\0\0CONSUME topic=big partition=0 offset=0 member=m")),
    "native": (tagged(tag, ["Fetch", ["default", "big"], 0, 0, 0, 4 * MIB]) for tag in range(1, 1 << 31)),
    "native follow": chain(
        (tagged(tag, ["Follow", ["default", "big"], 0, 0]) for tag in range(1, 9)),
        (tagged(tag, ["Ping"]) for tag in range(9, 1 << 31)),
    ),
}
"""Requests without end; most are answered with megabytes."""


def fill_big(gateway: GatewayProcess) -> None:
    with Frames(gateway.ports["cursus"]) as peer:
        peer.create("big", 1)
        for _ in range(BIG):
            assert peer.publish(batch("big", 0, [Row(0, 0, "", "", 0, "x" * 65_000)] * 16)).status == "OK"


def sent_until_blocked(stream: socket.socket, requests: Iterator[bytes], most: int) -> int:
    """Bytes that could be sent before nothing went any more for a second; a little above `most` if all could."""
    stream.settimeout(1.0)
    sent = 0
    try:
        while sent <= most:
            sent += stream.send(b"".join(next(requests) for _ in range(1000)))
    except TimeoutError:
        pass
    return sent


@pytest.mark.parametrize("backend", [MEMORY, SQLITE])
@pytest.mark.parametrize("asked", READ_BIG)
def test_a_client_that_never_reads_is_not_read_costs_little_and_delays_nobody(
    tmp_path: Path, backend: str, asked: str
) -> None:
    """What it can send without being read is in the buffers of the two sockets, a few MiB.

    The gateway may have 16 MiB of records on their way to one connection (`buffered_bytes` of net/limits.py), and for a
    moment several copies of them: up to 75 MiB were measured.  Unbounded, the requests of a single read of the socket
    would be answered with gigabytes.
    """
    with GatewayProcess(tmp_path, *DIALECTS, backend=backend) as gateway:
        fill_big(gateway)
        if backend is SQLITE:  # so that what is read comes from the disk, through the threads for it
            assert gateway.terminate() == 0
            gateway.start()
        served(gateway)
        before = gateway.resident()
        with Stream(gateway.ports[asked.split()[0]]) as deaf:
            most = 64 * MIB
            assert sent_until_blocked(deaf.socket, READ_BIG[asked], most) < most
            served(gateway)
            assert gateway.resident() - before < 160 * MIB
        served(gateway)


# -- frames that are too long

BOMBS = {
    "cursus": (b"\xff\xff\xff\xff", b""),
    "native": (b"\xff\xff\xff\xff", framed(msgspec.msgpack.encode([0, "!", "TOO_LARGE"]))),
    "pipe": (b"V" * 65_536, b"V1|0|ERR|BAD_REQUEST|line too long\n"),
}
"""What a peer sends, and what it hears before the gateway hangs up; native adds details.

The longest length there is, and for lines, which have none, as many bytes as the real server takes without an LF.
"""


def drop_bombs(port: int, dialect: str, count: int) -> None:
    bomb, answer = BOMBS[dialect]
    for _ in range(count):
        with Stream(port, 5.0) as peer:  # at once, and not at the deadline of a frame, which is 10 s
            peer.send(bomb)
            said = peer.rest()
            if dialect == "native":
                said = framed(msgspec.msgpack.encode(msgspec.msgpack.decode(said[4:])[:3]))
            assert said == answer


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_thousand_frames_of_4_gib_cost_less_than_1_mib(tmp_path: Path, dialect: str) -> None:
    with GatewayProcess(tmp_path, *DIALECTS, backend=MEMORY) as gateway:
        drop_bombs(gateway.ports[dialect], dialect, 300)  # what is allocated once, and kept, is by now
        before = gateway.resident()
        drop_bombs(gateway.ports[dialect], dialect, 1000)
        assert gateway.resident() - before < MIB
        served(gateway)


LENGTHS = (0, 1, 2, 4, 64 * MIB, 64 * MIB + 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 2)


@pytest.mark.parametrize("dialect", ["cursus", "native"])
def test_no_length_makes_the_gateway_reserve_that_much(tmp_path: Path, dialect: str) -> None:
    """Three bytes follow the length: too many or too few for each, so that what is not refused is given up in time."""
    settings = {dialect: {"frame_seconds": 0.5}}
    with GatewayProcess(tmp_path, *DIALECTS, backend=MEMORY, settings=settings) as gateway, ExitStack() as stack:
        served(gateway)
        before = gateway.resident()
        peers = [stack.enter_context(Stream(gateway.ports[dialect])) for _ in range(20 * len(LENGTHS))]
        for at, peer in enumerate(peers):
            peer.send(LENGTHS[at % len(LENGTHS)].to_bytes(4) + b"\xc1\xc1\xc1")
        for peer in peers:
            peer.rest()
        assert gateway.resident() - before < 4 * MIB  # of which 180 connections at 10 KiB are 1.8
        served(gateway)


# -- frames that do not end

HALVES = {
    "cursus": framed(b"\0\0CREATE topic=half partitions=1")[:-1],
    "native": tagged(1, ["CreateTopic", ["default", "half"], 1])[:-1],
    "pipe": b"V1|1|PRODUCE|half k:v",
}
QUICK: dict[str, dict[str, Setting]] = {dialect: {"frame_seconds": 0.5} for dialect in DIALECTS}


def test_a_half_sent_frame_is_given_up_after_its_deadline_and_others_are_not(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, *DIALECTS, backend=MEMORY, settings=QUICK) as gateway, ExitStack() as stack:
        lines = stack.enter_context(Lines(gateway.ports["pipe"]))
        frames = stack.enter_context(Frames(gateway.ports["cursus"]))
        native = stack.enter_context(Tagged(gateway.ports["native"]))  # these three say nothing meanwhile
        began = time.monotonic()
        slow = {name: [stack.enter_context(Stream(gateway.ports[name])) for _ in range(30)] for name in DIALECTS}
        for name, peers in slow.items():
            for peer in peers:
                peer.send(HALVES[name])
        for peers in slow.values():
            for peer in peers:
                assert peer.rest() == b""
        assert 0.5 <= time.monotonic() - began < 10.0
        assert lines.consume("t", 0, 0) == ([], -1)
        assert native.ask(["Ping"]) == [["Done"]]
        assert frames.call("LIST") == "OK count=1 topics=t", "nothing came of the halves"


def test_a_frame_that_comes_byte_by_byte_in_time_is_a_frame(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, *DIALECTS, backend=MEMORY) as gateway:
        with Lines(gateway.ports["pipe"]) as lines:
            for octet in b"V1|7|PRODUCE|t k:v\n":
                lines.send(bytes([octet]))
            assert lines.line() == b"V1|7|OK|partition=0 offset=0 hw=0"
        with Frames(gateway.ports["cursus"]) as frames:
            for octet in framed(b"\0\0LIST"):
                frames.send(bytes([octet]))
            assert frames.frame() == b"OK count=1 topics=t"


# -- the end of a connection

LAST_WORDS = [
    ("pipe", b"V1|1|PRODUCE|t k:v\n", b"V1|1|OK|partition=0 offset=0 hw=0\n"),
    ("pipe", b"V1|1|PRODUCE|t k:v", b"V1|1|OK|partition=0 offset=0 hw=0\n"),
    ("pipe", b"V1|1|PRODUCE|t k:v\n" * 2000, None),
    ("cursus", framed(b"\0\0CREATE topic=t partitions=1") + framed(batch("t", 0, [Row(0, 0, "", "k", 0, "v")])), None),
    ("native", tagged(5, ["Ping"]), framed(b"\x92\x05\x91\xa4Done")),
]


@pytest.mark.parametrize("backend", [MEMORY, SQLITE])
@pytest.mark.parametrize(("dialect", "request_", "answer"), LAST_WORDS, ids=range(len(LAST_WORDS)))
def test_who_finishes_after_its_requests_still_gets_the_answers(
    tmp_path: Path, backend: str, dialect: str, request_: bytes, answer: bytes | None
) -> None:
    with GatewayProcess(tmp_path, *DIALECTS, backend=backend) as gateway:
        with Stream(gateway.ports[dialect]) as peer:
            sending = peer.send_aside(request_)
            sending.join()
            peer.finish()
            said = peer.rest()
        if answer is not None:
            assert said == answer
        elif dialect == "pipe":
            assert said == b"".join(b"V1|1|OK|partition=0 offset=%d hw=%d\n" % (at, at) for at in range(2000))
        else:
            assert said.endswith(b'"last_offset":0,"producer_epoch":0,"producer_id":"","seq_start":0,"seq_end":0}')


# -- SIGTERM


@pytest.mark.parametrize("stops", [3, pytest.param(50, marks=pytest.mark.long)])
def test_sigterm_under_load_ends_in_good_order_and_loses_nothing(tmp_path: Path, stops: int) -> None:
    chance, ledger, moment = random.Random(stops), Ledger(), threading.Event()
    with GatewayProcess(tmp_path, "cursus", "pipe") as gateway:
        running = producers(ledger, gateway)
        with Lines(gateway.ports["pipe"]) as idle:
            for producer in running:
                producer.start()
            for stop in range(stops):
                ledger.wait(chance.randint(100, 1000))
                moment.wait(chance.uniform(0, 0.03))
                assert gateway.terminate() == 0
                if not stop:
                    assert idle.rest() == b"", "who asks nothing is hung up on"
                gateway.start()
            ledger.wait(1000)
        for producer in running:
            producer.finish()
        assert ledger.complaints(stored(gateway), once=set("abcd")) == []


def produce_until_hung_up(port: int, name: str, told: dict[str, list[str]]) -> None:
    """Keep fifty writes on the way; whatever the gateway still says is heard to the end."""
    lines = (f"V1|{at}|PRODUCE|orders {name}:{name}-{at}\n".encode() for at in range(1, 1 << 31))
    answers: list[bytes] = []
    with Lines(port) as peer:
        try:
            peer.send(b"".join(next(lines) for _ in range(50)))
            while True:
                answers.append(peer.line())
                peer.send(next(lines))
        except (EOFError, OSError):
            answers += peer.rest().splitlines()
    told[name] = [answer.split(b"|")[1].decode() for answer in answers if answer.split(b"|")[2] == b"OK"]


def test_what_sigterm_finds_begun_is_finished_and_answered(tmp_path: Path) -> None:
    """Who listens to the end knows of every record whether it is stored."""
    told: dict[str, list[str]] = {}
    with GatewayProcess(tmp_path, "pipe") as gateway:
        port = gateway.ports["pipe"]
        peers = [threading.Thread(target=produce_until_hung_up, args=(port, name, told)) for name in "abcdefgh"]
        for peer in peers:
            peer.start()
        with Lines(port) as lines:
            until(lambda: lines.consume("orders", 0, 0)[1] > 500, 30.0, "a load")
        assert gateway.terminate() == 0
        for peer in peers:
            peer.join()
        gateway.start()
        with Lines(gateway.ports["pipe"]) as lines:
            values = [value for at in range(3) for value in lines.read_all("orders", at)]
    for name, answered in told.items():
        assert [value for value in values if value.startswith(name)] == [f"{name}-{at}" for at in answered]
    assert len(told) == len(peers)
