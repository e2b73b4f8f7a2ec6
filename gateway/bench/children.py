"""Servers and generators as child processes: started, waited for, and always stopped, each by its own handle."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from gateway.bench import BenchFailed
from gateway.bench.generator import STALL, Job, Measured

START = 30.0
"""Seconds a server has to say `ready`."""

STOP = 15.0
"""Seconds it has to end after SIGTERM: its own deadline for what is in flight is 10 (design/contract.md)."""

LISTENERS = ("cursus", "pipe", "iggy", "mlog", "grid")
"""Dialects the gateway is started with; cursus also serves the set-up and the count at the end."""


class Server:
    """A server that says `listening NAME HOST:PORT` for every port and then `ready`.

    Its output goes to a file, so that it never waits for us to read it.  It has a session of its own: Ctrl-C on the
    terminal reaches only the bench, which stops it in order.
    """

    def __init__(self, command: Sequence[str], directory: Path, cpu: int | None = None) -> None:
        self.name = " ".join(command[1:])
        self._log = directory / "output"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        if cpu is not None:
            os.sched_setaffinity(self._process.pid, {cpu})  # its threads, all still to come, inherit it

    @property
    def process(self) -> int:
        """Its process id."""
        return self._process.pid

    def ports(self) -> dict[str, int]:
        """Its ports by name, once it is ready.  Raises BenchFailed if it ends or does not get there."""
        until = time.monotonic() + START
        while "ready" not in (lines := self._log.read_text(errors="replace").splitlines()):
            if self._process.poll() is not None or time.monotonic() > until:
                raise BenchFailed(f"{self.name} did not start: {' / '.join(lines[-5:]) or 'it said nothing'}")
            time.sleep(0.01)
        words = [line.split() for line in lines if line.startswith("listening ")]
        return {name: int(address.rpartition(":")[2]) for _, name, address in words}

    def stop(self) -> None:
        """SIGTERM, then SIGKILL after a deadline."""
        stop(self._process, STOP)


@contextmanager
def serving(command: Sequence[str], directory: Path, cpu: int | None = None) -> Iterator[Server]:
    """A server, for as long as the block runs.  cpu: the only one it may use, None = any."""
    server = Server(command, directory, cpu)
    try:
        yield server
    finally:
        server.stop()


def stop(process: subprocess.Popen[bytes], deadline: float) -> None:
    """End a child of ours, politely first; it is gone afterwards."""
    process.terminate()
    try:
        process.wait(deadline)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def gateway(backend: str, listeners: Sequence[str] = LISTENERS, capture: Path | None = None) -> list[str]:
    """The command that starts the gateway itself on free ports of loopback.  capture: where all that crosses goes."""
    listen = [f"--listen={dialect}=tcp:0:interface=127.0.0.1" for dialect in listeners]
    more = [] if capture is None else [f"--capture={capture}"]
    return [sys.executable, "-m", "gateway.cli", "run", *listen, f"--backend={backend}", *more]


def echo() -> list[str]:
    """The command that starts the reference."""
    return [sys.executable, "-m", "gateway.bench.echo"]


def generate(job: Job, generators: int = 1) -> list[Measured]:
    """Do a job with so many generator processes, its connections divided among them.  Raises BenchFailed."""
    shares = [job.rings[first::generators] for first in range(min(generators, len(job.rings)))]
    with ExitStack() as stack:
        started = []
        for share in shares:
            child = subprocess.Popen(
                [sys.executable, "-m", "gateway.bench.generator"],
                bufsize=0,  # `ready` is read before communicate() takes the pipe over
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            stack.enter_context(child)
            stack.callback(stop, child, 1.0)
            started.append((child, msgspec.structs.replace(job, rings=share)))
        for child, part in started:
            _say(child, msgspec.json.encode(part) + b"\n")
        for child, _ in started:
            assert child.stdout is not None
            if child.stdout.readline() != b"ready\n":
                raise BenchFailed(_complaint(child))
        for child, _ in started:
            _say(child, b"go\n")
        return [_result(child, job) for child, _ in started]


def _say(child: subprocess.Popen[bytes], line: bytes) -> None:
    assert child.stdin is not None
    left = memoryview(line)
    try:
        while left:
            left = left[child.stdin.write(left) :]
    except BrokenPipeError as error:
        raise BenchFailed(_complaint(child)) from error


def _result(child: subprocess.Popen[bytes], job: Job) -> Measured:
    try:
        out, complaint = child.communicate(timeout=job.warmup + job.seconds + 6 * STALL)
    except subprocess.TimeoutExpired as error:
        raise BenchFailed("a generator did not come to an end") from error
    if child.returncode:
        raise BenchFailed(complaint.decode().strip() or f"a generator ended with {child.returncode}")
    return msgspec.json.decode(out, type=Measured)


def _complaint(child: subprocess.Popen[bytes]) -> str:
    return child.communicate(timeout=STALL)[1].decode().strip() or "a generator did not start"
