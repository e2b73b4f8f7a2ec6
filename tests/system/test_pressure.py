"""What one peer does must not cost memory, time, or another peer: real sockets, every dialect.

Bounds are in bytes and seconds; those of time are at least five times what was measured.
"""

from __future__ import annotations

import itertools
import random
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from construct import Int32ub

import wire
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects import Refusal, Request, load
from gateway.dialects.frames import FrameBuffer
from gateway.dialects.native.spec import parse_answer
from system.ledger import Ledger, producers, stored
from system.peers import Frames, Lines, Row, Speaking, Stream, batch, line, topic
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
        Speaking("native", gateway.ports["native"], within) as native,
    ):
        lines.produce("others", "k", "v")
        frames.topics()
        assert native.ask(q.Ping()) == r.Done()
    assert time.monotonic() - began < within


# -- 5,000 requests in one chunk

COUNT = 5000


WRONG = ("an unknown command is refused under its own correlation value", "a message without a colon is refused")
"""Vectors of V1: refused before anything is carried out."""


def check_lines(port: int) -> None:
    """Writes, reads and lines that are no command in turn; every answer has the number of its request."""
    asked = [line("t", "k", str(at)) if at % 4 == 0 else q.Fetch(topic("t"), 0, 999_999) for at in range(COUNT)]
    lines = list(requests("pipe", asked))
    for at, name in enumerate(WRONG, 2):
        lines[at::4] = [wire.said("pipe", name)] * (COUNT // 4)
    with Lines(port) as peer:
        sending = peer.send_aside(b"".join(lines))
        answers = heard(peer, "pipe", COUNT)
        sending.join()
        for at, name in enumerate(WRONG, 2):
            assert answers[at::4] == [wire.told("pipe", name)] * (COUNT // 4)
        terms = wire.terms("pipe")
        for at, answer in enumerate(answers):
            if at % 4 < 2:  # raises CommandFailed for an answer to another number
                said = load("pipe").decode_reply(Request(asked[at], at), answer, terms)
                assert not isinstance(said, CommandFailed), said
        assert peer.read_all("t", 0) == [str(at) for at in range(0, COUNT, 4)]


def requests(dialect: str, commands: Iterable[q.Command]) -> Iterator[bytes]:
    """Frames that ask for these, with the tags 0, 1, ..."""
    spoken, terms = load(dialect), wire.terms(dialect)
    return (spoken.encode_request(Request(command, tag), terms) for tag, command in enumerate(commands))


def heard(peer: Stream, dialect: str, count: int) -> list[bytes]:
    """So many frames of answers."""
    buffer, frames = FrameBuffer(load(dialect).measure_reply, MIB), list[bytes]()
    while len(frames) < count:
        more, failure = buffer.feed(peer.some())
        assert failure is None
        frames += more
    return frames


def check_frames(port: int) -> None:
    """Batches, which are answered when they are on disk, and questions that are answered at once, in turn."""
    with Frames(port) as peer:
        peer.create("t", 1, idempotent=True)
        answers = peer.ask_aside(
            [
                q.DescribeTopic(topic(f"none{at}"))
                if at % 2
                else batch("t", 0, [Row(0, at // 2 + 1, "p", "k", 1, str(at))])
                for at in range(COUNT)
            ]
        )
        assert answers[::2] == [r.Published(0, at, at) for at in range(COUNT // 2)]
        assert [str(answer).rpartition("=")[2] for answer in answers[1::2]] == [
            f"none{at}" for at in range(1, COUNT, 2)
        ]
        assert [row.value for row in peer.read_all("t", 0)] == [str(at) for at in range(0, COUNT, 2)]


def check_tagged(port: int) -> None:
    """Answers may come in any order, each tag once."""
    asked = [q.Ping(), q.DescribeTopic(topic("none")), batch("t", 0, [Row(0, 0, "", "k", 0, "v")])]
    with Speaking("native", port) as peer:
        peer.sure(q.CreateTopic(topic("t"), 1), r.TopicDescription)
        answers = peer.ask_aside([asked[at % 3] for at in range(COUNT)])
    assert set(answers[::3]) == {r.Done()}
    assert {answer.fault for answer in answers[1::3] if isinstance(answer, CommandFailed)} == {Fault.NO_SUCH_TOPIC}
    published = [r.Published(0, offset, offset) for offset in range(COUNT // 3)]
    assert answers[2::3] == published, "they are carried out in order"


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

FETCH, FOLLOW = q.Fetch(topic("big"), 0, 0, max_bytes=4 * MIB), q.Follow(topic("big"), 0, 0)
READ_BIG = {
    "pipe": requests("pipe", itertools.repeat(FETCH)),
    "cursus": requests("cursus", itertools.repeat(FETCH)),
    "native": requests("native", itertools.repeat(FETCH)),
    "native follow": requests("native", itertools.chain(itertools.repeat(FOLLOW, 8), itertools.repeat(q.Ping()))),
}
"""Requests without end; most are answered with megabytes."""


def fill_big(gateway: GatewayProcess) -> None:
    with Frames(gateway.ports["cursus"]) as peer:
        peer.create("big", 1)
        for _ in range(BIG):
            peer.publish(batch("big", 0, [Row(0, 0, "", "", 0, "x" * 65_000)] * 16))


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

TOO_LONG = CommandFailed(Fault.TOO_LARGE)
BOMBS = {
    "cursus": (Int32ub.build(0xFFFFFFFF), b""),
    "native": (Int32ub.build(0xFFFFFFFF), None),
    "pipe": (b"V" * 65_536, wire.reply("pipe", Refusal(TOO_LONG), TOO_LONG)),
}
"""What a peer sends, and what it hears before the gateway hangs up; native says TOO_LARGE, and why.

The longest length there is, and for lines, which have none, as many bytes as the real server takes without an LF.
"""


def drop_bombs(port: int, dialect: str, count: int) -> None:
    bomb, answer = BOMBS[dialect]
    for _ in range(count):
        with Stream(port, 5.0) as peer:  # at once, and not at the deadline of a frame, which is 10 s
            peer.send(bomb)
            said = peer.rest()
            if answer is not None:
                assert said == answer
                continue
            read = parse_answer(said)
            assert read is not None and (read[1], read[2]["fault"]) == ("!", "TOO_LARGE")


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
            peer.send(Int32ub.build(LENGTHS[at % len(LENGTHS)]) + b"abc")
        for peer in peers:
            peer.rest()
        assert gateway.resident() - before < 4 * MIB  # of which 180 connections at 10 KiB are 1.8
        served(gateway)


# -- frames that do not end

HALVES = {
    "cursus": wire.request("cursus", q.CreateTopic(topic("half"), 1, if_exists=q.IfExists.GROW))[:-1],
    "native": wire.request("native", q.CreateTopic(topic("half"), 1), 1)[:-1],
    "pipe": wire.request("pipe", line("half", "k", "v"))[:-1],
}
QUICK: dict[str, dict[str, Setting]] = {dialect: {"frame_seconds": 0.5} for dialect in DIALECTS}


def test_a_half_sent_frame_is_given_up_after_its_deadline_and_others_are_not(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, *DIALECTS, backend=MEMORY, settings=QUICK) as gateway, ExitStack() as stack:
        lines = stack.enter_context(Lines(gateway.ports["pipe"]))
        frames = stack.enter_context(Frames(gateway.ports["cursus"]))
        native = stack.enter_context(Speaking("native", gateway.ports["native"]))  # these three say nothing meanwhile
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
        assert native.ask(q.Ping()) == r.Done()
        assert frames.topics() == ["t"], "nothing came of the halves"


# -- the end of a connection

LAST_WORDS: list[tuple[str, list[q.Command]]] = [
    ("pipe", [line("t", "k", "v")]),
    ("pipe", [line("t", "k", "v")] * 2000),
    ("cursus", [q.CreateTopic(topic("t"), 1, if_exists=q.IfExists.GROW), batch("t", 0, [Row(0, 0, "", "k", 0, "v")])]),
    ("native", [q.CreateTopic(topic("t"), 1), batch("t", 0, [Row(0, 0, "", "k", 0, "v")])]),
]


@pytest.mark.parametrize("backend", [MEMORY, SQLITE])
@pytest.mark.parametrize(("dialect", "commands"), LAST_WORDS, ids=range(len(LAST_WORDS)))
def test_who_finishes_after_its_requests_still_gets_the_answers(
    tmp_path: Path, backend: str, dialect: str, commands: list[q.Command]
) -> None:
    with (
        GatewayProcess(tmp_path, *DIALECTS, backend=backend) as gateway,
        Speaking(dialect, gateway.ports[dialect]) as peer,
    ):
        tags = peer.begin(commands)
        peer.finish()
        outcomes = peer.hear(tags)
        assert peer.rest() == b""
    published = [each for each in outcomes if isinstance(each, r.Published)]
    assert [each.base for each in published] == list(range(len(published)))
    assert len(published) == sum(isinstance(each, q.Publish) for each in commands)


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


def produce_until_hung_up(port: int, name: str, told: dict[str, list[int]]) -> None:
    """Keep fifty writes on the way; whatever the gateway still says is heard to the end."""
    numbers, stored = itertools.count(1), list[int]()
    with Lines(port) as peer:
        peer.begin([line("orders", name, f"{name}-{next(numbers)}") for _ in range(50)])
        with suppress(EOFError, OSError):
            while True:
                request, outcome = peer.next()
                stored += [int(str(request.tag))] if isinstance(outcome, r.Published) else []
                with suppress(OSError):  # what it says is heard to the end
                    peer.begin([line("orders", name, f"{name}-{next(numbers)}")])
    told[name] = stored


def test_what_sigterm_finds_begun_is_finished_and_answered(tmp_path: Path) -> None:
    """Who listens to the end knows of every record whether it is stored."""
    told: dict[str, list[int]] = {}
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
