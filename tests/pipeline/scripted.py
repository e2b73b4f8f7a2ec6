"""A native server on loopback that does what a test says: gateways remove no records yet, and hang up on nobody.

The frames are the dialect's own; what a command is answered with is the test's.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import msgspec

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Command
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import RecordBatch, registry, select
from gateway.core.replies import Outcome
from gateway.dialects import load
from gateway.dialects.native import DIALECT

HANG_UP, SILENCE = "hang up", "silence"


class Log:
    """One topic with one partition, of which tests take away what they like."""

    def __init__(self, batches: list[RecordBatch], id: int = 7, created: int = 100) -> None:
        self.batches = batches
        self.id = id
        self.created = created
        self.start = batches[0].base if batches else 0
        self.end = batches[-1].end if batches else 0

    def drop(self, offset: int) -> None:
        """Records before that offset are gone."""
        self.start = offset

    def answer(self, command: Command) -> Outcome:
        """As a gateway would."""
        match command:
            case q.DescribeTopic():
                return self.description()
            case q.ListTopics():
                return r.Topics((self.description(),))
            case q.Fetch():
                return self.fetched(command)
        return CommandFailed(Fault.UNSUPPORTED, type(command).__name__)

    def description(self) -> r.TopicDescription:
        partition = r.PartitionDescription(0, self.start, self.end, 0, 0)
        return r.TopicDescription("default", "orders", self.id, self.created, q.TopicSettings(), (partition,))

    def fetched(self, command: q.Fetch) -> Outcome:
        if command.topic.name not in ("orders", self.id):
            return CommandFailed(Fault.NO_SUCH_TOPIC, str(command.topic.name))
        assert isinstance(command.start, int)
        if command.start < self.start:
            bounds = {"requested": command.start, "earliest": self.start, "latest": self.end}
            return CommandFailed(Fault.OFFSET_GONE, "", **bounds)
        found = select(self.batches, command.start, command.max_records, command.max_bytes)
        return r.Records(0, self.start, self.end, tuple(found))


class Scripted:
    """Serves on a port of loopback as long as the block runs; asked: every command, in order."""

    def __init__(self, answer: Callable[[Command], Outcome | str]) -> None:
        self.asked: list[Command] = []
        self.dialled = 0
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._listener = DIALECT.open(DIALECT.settings(), registry(load("cursus").encodings))

    @property
    def endpoint(self) -> str:
        """Where it is."""
        return f"native=tcp:127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for sock in self._open:
            sock.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listening.accept()
            except OSError:
                return
            self.dialled += 1
            self._open.append(sock)
            self._threads.append(threading.Thread(target=self._serve, args=(sock,), daemon=True))
            self._threads[-1].start()

    def _serve(self, sock: socket.socket) -> None:
        session = self._listener.session()
        with sock:
            while octets := self._some(sock):
                for call in session.receive(octets, time.monotonic()):
                    self.asked.append(call.request.command)
                    outcome = self._answer(call.request.command)
                    if outcome == HANG_UP:
                        return
                    if not isinstance(outcome, str):
                        session.answer(call, outcome)
                sock.sendall(session.take())

    def _some(self, sock: socket.socket) -> bytes:
        try:
            return sock.recv(1 << 16)
        except OSError:
            return b""


def changed(batch: RecordBatch, **fields: int) -> RecordBatch:
    """The batch, standing somewhere else."""
    return msgspec.structs.replace(batch, **fields)
