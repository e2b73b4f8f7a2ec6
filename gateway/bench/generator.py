"""The load, in a process of its own: `python -m gateway.bench.generator`, a Job on stdin, a Measured on stdout.

It says `ready` when connected and starts at the word `go`, so that several generators start together.  Requests are
prebuilt; each wakeup of a connection costs one read, one count and one write, whatever the number of requests in it.
"""

from __future__ import annotations

import gc
import os
import select
import socket
import sys
import time
from collections import deque
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path
from types import TracebackType

import msgspec

from gateway.bench import BenchFailed
from gateway.bench.opening import Opening
from gateway.bench.tally import Tally

KEEPALIVE = bytes(4)
"""What a Cursus stream sends every 5 s (protocol page, section 4)."""

STALL = 5.0
"""Seconds without any reply after which a server has, as we see it, lost some."""

_CHUNK = 1 << 18


class Job(msgspec.Struct, frozen=True):
    """What one generator is to do.

    rings:   per connection the requests it repeats, in order.
    depth:   requests in flight on each connection.
    warmup, seconds: how long to go unmeasured, then measured.
    streams: requests sent once, each on a further connection; then pushes are measured, counted by `pushed`.
    opening: comes before all of them, None = nothing does.
    every:   each so-manieth request of a connection has its latency taken.
    server:  process id whose CPU time is charged to the server, 0 = nobody's.
    cpu:     the only one to use, None = any.
    """

    port: int
    rings: list[list[bytes]]
    tally: Tally
    depth: int
    warmup: float
    seconds: float
    streams: list[bytes] = []
    pushed: Tally | None = None
    opening: Opening | None = None
    every: int = 1
    server: int = 0
    cpu: int | None = None


class Measured(msgspec.Struct, frozen=True):
    """What came of it.

    replies, seconds: counted, pushes where there are streams, and how long that really took.
    total:   replies in all, with those before and after the measured time; as many as requests.
    latencies: of sampled requests, ns from before the send to after the read.
    server_cpu, generator_cpu: cores busy in the measured time, user and system.
    """

    replies: int
    seconds: float
    total: int
    latencies: list[int]
    server_cpu: float
    generator_cpu: float


class Lane:
    """One connection with its window of requests.

    depth: the window; 0 = ask no more.
    """

    def __init__(self, sock: socket.socket, ring: list[bytes], depth: int, tally: Tally, every: int) -> None:
        self.sock = sock
        self.depth = depth
        self.sent = self.done = 0
        self.unsent = memoryview(b"")
        self.last = b""
        self._counter = tally.counter()
        self._ring = len(ring)
        self._every = every
        laps = ring * (1 + -(-depth // len(ring)))  # a window may run past the end of the ring
        self._requests = memoryview(b"".join(laps))
        self._starts = [0, *accumulate(map(len, laps))]
        self._stamps: deque[tuple[int, int]] = deque()

    def top_up(self) -> None:
        """Fill the window, and send as much as the socket takes."""
        count = self.depth - (self.sent - self.done)
        if count > 0 and not self.unsent:
            at = self.sent % self._ring
            self.unsent = self._requests[self._starts[at] : self._starts[at + count]]
            self._stamp(count)
            self.sent += count
        if self.unsent:
            try:
                self.unsent = self.unsent[self.sock.send(self.unsent) :]
            except (BlockingIOError, ConnectionError):  # that the peer is gone is seen when reading
                return

    def read(self, into: bytearray, samples: list[int]) -> None:
        """Take what has come, count it, and note the latencies of the sampled requests it answers."""
        try:
            end = self.sock.recv_into(into)
        except ConnectionResetError:
            end = 0
        now = time.perf_counter_ns()
        if not end:
            raise BenchFailed(f"the server hung up on {self.sent - self.done} requests; last it sent {self.last!r}")
        self.last = bytes(into[max(0, end - 200) : end])
        self.done += self._counter.feed(into, end)
        if self.done > self.sent:
            raise BenchFailed(f"{self.done} replies to {self.sent} requests; last the server sent {self.last!r}")
        stamps = self._stamps
        while stamps and stamps[0][0] < self.done:
            samples.append(now - stamps.popleft()[1])

    def finish(self) -> None:
        """Nothing more is expected.  Raises BenchFailed if the stream disagrees."""
        self._counter.finish()

    def _stamp(self, count: int) -> None:
        now, first = time.perf_counter_ns(), self.sent + -self.sent % self._every
        for number in range(first, self.sent + count, self._every):
            self._stamps.append((number, now))


class Ear:
    """One connection that has asked for a stream."""

    def __init__(self, sock: socket.socket, request: bytes, tally: Tally) -> None:
        sock.sendall(request)
        self.sock = sock
        self.heard = 0
        self._counter = tally.counter()

    def read(self, into: bytearray) -> None:
        """Take what was pushed and count it; a keepalive, which has no bytes but its length, is nothing."""
        end = self.sock.recv_into(into)
        if not end:
            raise BenchFailed("the server ended a stream")
        if end != len(KEEPALIVE) or into[:end] != KEEPALIVE:
            self.heard += self._counter.feed(into, end)


class Generator:
    """All connections of one Job; closes them when its block ends."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._poll = select.epoll()
        self._into = bytearray(_CHUNK)
        self._samples: list[int] = []
        self._lanes: dict[int, Lane] = {}
        self._ears: dict[int, Ear] = {}
        self._socks: list[socket.socket] = []
        with ExitStack() as given_up:
            given_up.callback(self.close)
            for request in job.streams:
                sock = self._connect()
                self._ears[sock.fileno()] = Ear(sock, request, job.pushed or job.tally)
            for ring in job.rings:
                sock = self._connect()
                self._lanes[sock.fileno()] = Lane(sock, ring, job.depth, job.tally, job.every)
            given_up.pop_all()

    def __enter__(self) -> Generator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        for sock in self._socks:
            sock.close()
        self._poll.close()

    def run(self) -> Measured:
        """Warm up, measure, and wait for what is still in flight."""
        for lane in self._lanes.values():
            self._serve(lane, 0)
        self._pump(self._job.warmup)
        self._samples.clear()
        start = self._standing()
        self._pump(self._job.seconds)
        took, replies, busy, served = (now - then for now, then in zip(self._standing(), start, strict=True))
        latencies = self._samples[:]
        self._drain()
        return Measured(int(replies), took, self._done(), latencies, served / took, busy / took)

    def _connect(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self._job.port), timeout=STALL)
        self._socks.append(sock)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._job.opening is not None:
            self._job.opening.say(sock)
        sock.setblocking(False)
        self._poll.register(sock, select.EPOLLIN)
        return sock

    def _standing(self) -> tuple[float, float, float, float]:
        """Time, replies or pushes, our CPU seconds, the server's."""
        counted = sum(ear.heard for ear in self._ears.values()) if self._ears else self._done()
        return time.perf_counter(), counted, time.process_time(), cpu_seconds(self._job.server)

    def _pump(self, seconds: float, *, draining: bool = False) -> None:
        """Serve every connection that has something, for so long; when draining, until nothing is in flight."""
        now = heard = time.perf_counter()
        until = now + seconds
        while now < until and not (draining and not self._open()):
            ready = self._poll.poll(min(until - now, 1.0))
            now = time.perf_counter()
            if ready:
                heard = now
            elif now - heard > STALL:
                raise BenchFailed(self._stalled())
            for descriptor, event in ready:
                if descriptor in self._ears:
                    self._ears[descriptor].read(self._into)
                else:
                    self._serve(self._lanes[descriptor], event)

    def _serve(self, lane: Lane, event: int) -> None:
        if event & ~select.EPOLLOUT:  # something to read, or the end of the connection, which reading shows
            lane.read(self._into, self._samples)
        waited = bool(lane.unsent)
        lane.top_up()
        if bool(lane.unsent) != waited:
            self._poll.modify(lane.sock, select.EPOLLIN | (select.EPOLLOUT if lane.unsent else 0))

    def _drain(self) -> None:
        for lane in self._lanes.values():
            lane.depth = 0
        self._pump(2 * STALL, draining=True)
        if self._open():
            raise BenchFailed(self._stalled())
        for lane in self._lanes.values():
            lane.finish()

    def _done(self) -> int:
        return sum(lane.done for lane in self._lanes.values())

    def _open(self) -> int:
        """Replies still to come, and pushes."""
        unheard = sum(self._done() - ear.heard for ear in self._ears.values())
        return sum(lane.sent - lane.done for lane in self._lanes.values()) + max(0, unheard)

    def _stalled(self) -> str:
        lane = max(self._lanes.values(), key=lambda lane: lane.sent - lane.done)
        return f"{self._open()} requests were not answered as expected; last the server sent {lane.last!r}"


def cpu_seconds(process: int) -> float:
    """CPU seconds a process has used so far, all threads, user and system (proc(5)); 0 for process 0."""
    if not process:
        return 0.0
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """The Job on the first line of stdin, `ready`, then `go`, and the Measured as one line of JSON."""
    try:
        job = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
        if job.cpu is not None:
            os.sched_setaffinity(0, {job.cpu})
        with Generator(job) as generator:
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            if sys.stdin.buffer.readline() != b"go\n":
                return 1
            gc.disable()
            measured = generator.run()
    except (BenchFailed, OSError, msgspec.DecodeError) as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(measured) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
