"""Very many connections, or very slow ones: what they cost the gateway, and what they cost others."""

from __future__ import annotations

import resource
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import cycle
from pathlib import Path

import pytest

import wire
from gateway.core import commands as q
from gateway.core.replies import Done
from gateway.dialects.cursus.terms import Consuming
from gateway.net.limits import Limits
from system.configured import about
from system.peers import Frames, Lines, Row, Speaking, Stream, batch
from system.processes import COMMAND, GatewayProcess
from test_service import certificate

KIB, MIB = 1 << 10, 1 << 20
MEMORY, SQLITE = "memory", "sqlite:records"
DIALECTS = ("pipe", "cursus", "native", "iggy", "grid", "mlog")


class Limited(GatewayProcess):
    """A gateway with other `[limits]`."""

    def __init__(self, directory: Path, *dialects: str, limits: dict[str, float], **more: object) -> None:
        super().__init__(directory, *dialects, **more)  # type: ignore[arg-type]
        self._environment |= {f"GATEWAY_LIMITS_{name.upper()}": str(value) for name, value in limits.items()}


@pytest.fixture(autouse=True)
def files() -> Iterator[None]:
    """As many connections as this user may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def spent(gateway: GatewayProcess) -> float:
    """Seconds that its threads have been on a processor."""
    tasks = Path(f"/proc/{gateway.pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


# -- those that say nothing

ONE_REQUEST = {name: wire.request(name, command, 1) for name, command in about("orders").items()}


def dialed(gateway: GatewayProcess, count: int, stack: ExitStack) -> None:
    """So many connections, in all dialects in turn, each of which has asked something and heard of it."""
    for at in range(count):
        name = DIALECTS[at % len(DIALECTS)]
        peer = stack.enter_context(Stream(gateway.ports[name]))
        peer.send(ONE_REQUEST[name])
        assert peer.socket.recv(4096), name


@pytest.mark.parametrize(("count", "seconds"), [(1000, 3.0), pytest.param(9900, 20.0, marks=pytest.mark.long)])
def test_an_idle_connection_costs_10_kib_at_most_and_all_of_them_1_percent_of_a_processor(
    tmp_path: Path, count: int, seconds: float
) -> None:
    limits = {"idle_seconds": 3600.0}  # that this is theirs, too, costs no more
    with Limited(tmp_path, *DIALECTS, backend=MEMORY, limits=limits) as gateway, ExitStack() as stack:
        with ExitStack() as first:
            dialed(gateway, 300, first)  # what is allocated once, and kept, is by now
        before = gateway.resident()
        dialed(gateway, count, stack)
        each = (gateway.resident() - before) / count
        began, busy = time.monotonic(), spent(gateway)
        threading.Event().wait(seconds)
        share = (spent(gateway) - busy) / (time.monotonic() - began)
        sys.stderr.write(f"{count} connections: {each / KIB:.1f} KiB each, {share:.2%} of a processor\n")
        assert each <= 10 * KIB
        assert share < 0.01
        with Lines(gateway.ports["pipe"]) as lines:
            lines.produce("orders", "k", "v")


def test_a_gateway_has_as_many_files_as_it_may_whatever_its_shell_begins_with(tmp_path: Path) -> None:
    few = ("bash", "-c", 'ulimit -S -n 256; exec "$@"', "bash", *COMMAND)
    with GatewayProcess(tmp_path, *DIALECTS, backend=MEMORY, command=few) as gateway, ExitStack() as stack:
        dialed(gateway, 400, stack)


# -- those that do not come to an end

HALVES = {name: wire.request(name, command, 1)[:-200] for name, command in about("half" * 60).items()}
"""Beginnings of frames that are two hundred bytes longer."""


def p99s(crowded: Lines, alone: Lines, seconds: float) -> tuple[float, float]:
    """Seconds that 99 of 100 answers of each take at most, asked in turn: what else this machine does, slows both.

    Of many looks the quieter quarter counts.
    """
    until = time.monotonic() + seconds
    found: tuple[list[float], list[float]] = ([], [])
    while time.monotonic() < until:
        for lines, looks in zip((crowded, alone), found, strict=True):
            looks.append(_p99(lines, 100))
    return sorted(found[0])[len(found[0]) // 4], sorted(found[1])[len(found[1]) // 4]


def _p99(lines: Lines, count: int) -> float:
    took = []
    for _ in range(count):
        began = time.monotonic()
        lines.produce("orders", "k", "v")
        took.append(time.monotonic() - began)
    return sorted(took)[int(count * 0.99)]


@contextmanager
def trickling(peers: list[Stream]) -> Iterator[None]:
    """A byte for one of them after the other, so that each has one every two or three seconds."""
    over = threading.Event()

    def trickle() -> None:
        for peer in cycle(peers):
            if over.wait(0.002):
                return
            with suppress(OSError):
                peer.send(b"a")

    thread = threading.Thread(target=trickle, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.parametrize("deadline", [3.0, pytest.param(10.0, marks=pytest.mark.long)])
def test_a_thousand_peers_that_never_finish_a_frame_are_hung_up_on_and_do_not_double_the_p99(
    tmp_path: Path, deadline: float
) -> None:
    assert Limits().frame_seconds == 10.0
    limits = {"frame_seconds": deadline}
    (tmp_path / "other").mkdir()
    with (
        Limited(tmp_path, *DIALECTS, backend=MEMORY, limits=limits) as gateway,
        GatewayProcess(tmp_path / "other", "pipe", backend=MEMORY) as other,
        ExitStack() as stack,
    ):
        lines = stack.enter_context(Lines(gateway.ports["pipe"]))
        control = stack.enter_context(Lines(other.ports["pipe"]))
        began = time.monotonic()
        slow = [stack.enter_context(Stream(gateway.ports[name])) for _ in range(167) for name in DIALECTS]
        for at, peer in enumerate(slow):
            peer.send(HALVES[DIALECTS[at % len(DIALECTS)]])
        begun = time.monotonic()
        with trickling(slow):
            beside, alone = p99s(lines, control, deadline / 2)
            assert time.monotonic() - began < deadline, "they were all there meanwhile"
            for peer in slow:
                peer.rest()
        assert deadline <= time.monotonic() - began and time.monotonic() - begun < deadline + 2.0
        sys.stderr.write(f"p99 {alone * 1e6:.0f} us alone, {beside * 1e6:.0f} us beside {len(slow)}\n")
        assert beside < 2 * alone
        assert lines.committed("g", "half", 0) == 0


# -- those that do not read

KEPT = 160 * MIB
"""More than the store keeps of what was written last, whether anybody reads it or not."""

PUSHED = 105 * MIB
BOUND = 24 * MIB
"""16 MiB of `buffered_bytes`, a frame, and what they are copied into on their way."""


def secure(stream: Stream, certificate: Path) -> None:
    """Speak TLS from now on."""
    context = ssl.create_default_context(cafile=certificate)
    stream.socket = context.wrap_socket(stream.socket, server_hostname="localhost")


def publish(gateway: GatewayProcess, size: int, last: str = "") -> int:
    """Records of 60 kB, so many bytes and not more, and then that one.  Returns the bytes."""
    count = size // (16 * 60_000)
    with Frames(gateway.ports["cursus"]) as peer:
        for _ in range(count):
            peer.publish(batch("big", 0, [Row(0, 0, "", "", 0, "x" * 60_000)] * 16))
        if last:
            peer.publish(batch("big", 0, [Row(0, 0, "", "", 0, last)]))
    return count * 16 * 60_000


@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
@pytest.mark.parametrize("dialect", ["native", "cursus"])
def test_a_reader_that_is_pushed_100_mb_and_does_not_read_costs_a_bounded_memory_and_delays_nobody(
    tmp_path: Path, dialect: str, tls: bool
) -> None:
    signed, key = certificate(tmp_path)
    keys = {"tls.certificate": str(signed), "tls.key": str(key), "tls.plaintext": True}
    settings = {dialect: keys if tls else {}}
    with GatewayProcess(tmp_path, "cursus", "native", "pipe", backend=SQLITE, settings=settings) as gateway:
        with Frames(gateway.ports["cursus"]) as peer:
            peer.create("big", 1)
        publish(gateway, KEPT)
        with Frames(gateway.ports["cursus"]) as peer:
            start = peer.ends("big")[0]
        before = gateway.resident()
        with Stream(gateway.ports[dialect]) as slow, Speaking("native", gateway.ports["native"], 2.0) as other:
            if tls:
                secure(slow, signed)
            said = Consuming("STREAM", member="m", generation=1) if dialect == "cursus" else None
            follow = q.Follow(q.Topic("default", "big"), 0, q.Next(q.Group("g"), start) if said else start)
            slow.send(wire.request(dialect, follow, 1, said))
            most = pushed = 0
            for _ in range(10):
                pushed += publish(gateway, PUSHED // 10)
                most = max(most, gateway.resident() - before)
                assert other.ask(q.Ping()) == Done()
            publish(gateway, 0, "the last one")
            sys.stderr.write(f"{dialect} {'tls' if tls else 'tcp'}: {most / MIB:.1f} MiB\n")
            assert most < BOUND
            assert all_of(slow, b"the last one") > pushed > 100_000_000, "it reads after all, and nothing is missing"


def all_of(slow: Stream, last: bytes) -> int:
    """Bytes up to those."""
    count, end = 0, b""
    while last not in end:
        heard = slow.socket.recv(1 << 20)
        assert heard, "it was hung up on"
        count, end = count + len(heard), end[-len(last) :] + heard
    return count
