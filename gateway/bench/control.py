"""A plain Cursus connection beside the load: it sets topics up, and asks at the end how much was really stored."""

from __future__ import annotations

import re
import socket
import struct
from contextlib import ExitStack
from functools import cached_property
from types import TracebackType
from typing import BinaryIO

from gateway.bench import BenchFailed
from gateway.bench.frames import cursus_batch, cursus_text

TOPIC = "bench"

_AT_ONCE = 50
"""Batches that `fill` has in flight."""


class Control:
    """One blocking connection to the cursus port of a gateway, made when something is asked.

    port: 0 = the server has none, so nothing may be asked.
    """

    def __init__(self, port: int) -> None:
        self._port = port
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

    def fill(self, batches: int, count: int) -> None:
        """Write so many batches of so many records each to partition 0."""
        frame = cursus_batch(TOPIC, 0, count)
        for first in range(0, batches, _AT_ONCE):
            burst = min(_AT_ONCE, batches - first)
            self._sock.sendall(frame * burst)
            for _ in range(burst):
                if not (answer := self._reply()).startswith(b'{"status":"OK"'):
                    raise BenchFailed(f"a batch was answered {answer!r}")

    def stored(self) -> int:
        """Records ever written to the topic: the sum of what its partitions will give as next offset."""
        return sum(map(int, re.findall(r"latest=(\d+)", self.ask(f"LIST_OFFSETS topic={TOPIC}"))))

    @cached_property
    def _sock(self) -> socket.socket:
        return self._open.enter_context(socket.create_connection(("127.0.0.1", self._port), timeout=30))

    @cached_property
    def _replies(self) -> BinaryIO:
        return self._open.enter_context(self._sock.makefile("rb"))

    def _reply(self) -> bytes:
        header = self._replies.read(4)
        if len(header) < 4:
            raise BenchFailed("the gateway hung up")
        return self._replies.read(struct.unpack(">I", header)[0])
