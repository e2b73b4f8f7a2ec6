"""Plain connections beside the load: they set topics up, and ask at the end how much was really stored."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from types import TracebackType
from typing import BinaryIO

from gateway.bench import BenchFailed
from gateway.bench.frames import cursus_batch, cursus_text
from gateway.bench.opening import Opening
from gateway.bench.tally import Tally

TOPIC = "bench"

_AT_ONCE = 50
"""Requests in flight while a topic is filled."""

_READ = 1 << 16


class Control:
    """One blocking connection to the cursus port of a gateway, made when something is asked.

    ports: of the gateway, by the name of their dialect; where there is no gateway, nothing may be asked.
    """

    def __init__(self, ports: Mapping[str, int]) -> None:
        self._ports = ports
        self._open = ExitStack()

    def __enter__(self) -> Control:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def ask(self, command: str, topic: str = "") -> str:
        """What a text command is answered.  Raises BenchFailed unless the answer is OK."""
        self._sock.sendall(cursus_text(command, topic))
        answer = self._reply().decode()
        if not answer.startswith("OK"):
            raise BenchFailed(f"{command} was answered {answer}")
        return answer

    def create(self, partitions: int) -> None:
        """Make the topic that is written to."""
        self.ask(f"CREATE topic={TOPIC} partitions={partitions}", "admin")

    def forget(self) -> None:
        """Delete the topic, if an earlier row has left it."""
        with suppress(BenchFailed):
            self.ask(f"DELETE topic={TOPIC}")

    def fill(self, batches: int, count: int) -> None:
        """Write so many batches of so many records each to partition 0."""
        frame = cursus_batch(TOPIC, 0, count)
        for first in range(0, batches, _AT_ONCE):
            burst = min(_AT_ONCE, batches - first)
            self._sock.sendall(frame * burst)
            for _ in range(burst):
                if not (answer := self._reply()).startswith(b'{"status":"OK"'):
                    raise BenchFailed(f"a batch was answered {answer!r}")

    def say(self, dialect: str, requests: Sequence[bytes], tally: Tally, opening: Opening | None = None) -> None:
        """Have these answered, on a connection of their own.  Raises BenchFailed unless the tally counts them all."""
        counter, held = tally.counter(), bytearray(_READ)
        with self._connected(dialect) as sock:
            if opening is not None:
                opening.say(sock)
            for first in range(0, len(requests), _AT_ONCE):
                burst = requests[first : first + _AT_ONCE]
                sock.sendall(b"".join(burst))
                missing = len(burst)
                while missing > 0:
                    missing -= counter.feed(held, _read(sock, held))
        counter.finish()

    def stored(self) -> int:
        """Records ever written to the topic: the sum of what its partitions will give as next offset."""
        return sum(map(int, re.findall(r"latest=(\d+)", self.ask(f"LIST_OFFSETS topic={TOPIC}"))))

    @cached_property
    def _sock(self) -> socket.socket:
        return self._open.enter_context(self._connected("cursus"))

    @cached_property
    def _replies(self) -> BinaryIO:
        return self._open.enter_context(self._sock.makefile("rb"))

    def _connected(self, dialect: str) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._ports[dialect]), timeout=30)

    def _reply(self) -> bytes:
        header = self._replies.read(4)
        if len(header) < 4:
            raise BenchFailed("the gateway hung up")
        return self._replies.read(struct.unpack(">I", header)[0])


def _read(sock: socket.socket, into: bytearray) -> int:
    """How many bytes came.  Raises BenchFailed, with what came before, if none do."""
    before = bytes(into[:120])
    with suppress(TimeoutError):
        if got := sock.recv_into(into):
            return got
    raise BenchFailed(f"not all was answered as expected; last the server sent {before!r}")
