"""Plain connections beside the load: they set topics up, and ask at the end how much was really stored."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cached_property
from types import TracebackType
from typing import BinaryIO

from gateway.bench import BenchFailed
from gateway.bench.frames import IGGY_DONE, cursus_batch, cursus_text, iggy_send
from gateway.bench.opening import Opening

TOPIC = "bench"

_AT_ONCE = 50
"""Batches in flight while a topic is filled."""


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

    def fill(self, batches: int, count: int) -> None:
        """Write so many batches of so many records each to partition 0."""
        frame = cursus_batch(TOPIC, 0, count)
        for first in range(0, batches, _AT_ONCE):
            burst = min(_AT_ONCE, batches - first)
            self._sock.sendall(frame * burst)
            for _ in range(burst):
                if not (answer := self._reply()).startswith(b'{"status":"OK"'):
                    raise BenchFailed(f"a batch was answered {answer!r}")

    def fill_by_iggy(self, opening: Opening, batches: int, count: int) -> None:
        """The same with the SENDs of an Iggy client, which logs in first."""
        frame = iggy_send(TOPIC, 0, count)
        with self._connected("iggy") as sock, sock.makefile("rb") as replies:
            opening.say(sock)
            for first in range(0, batches, _AT_ONCE):
                burst = min(_AT_ONCE, batches - first)
                sock.sendall(frame * burst)
                if (answer := replies.read(len(IGGY_DONE) * burst)) != IGGY_DONE * burst:
                    raise BenchFailed(f"{burst} batches were answered {answer!r}")

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
