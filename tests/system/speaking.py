"""Blocking clients over plain sockets: a bare stream, and one that speaks a dialect with its client half.

So they show what two programs of ours say to each other.  That it is what the protocol pages say, the vectors and cases
beside each dialect hold, and the clients that their projects publish.
"""

from __future__ import annotations

import itertools
import socket
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, Self, TypeVar

from gateway.core.commands import Command
from gateway.core.records import RecordBatch, registry
from gateway.core.replies import Outcome
from gateway.dialects import ClientSession, Request, load

TIMEOUT = 30.0
"""Seconds a peer waits for bytes; far more than anything here takes."""

ANSWER = 64 << 20
"""Bytes that an answer may have."""

R = TypeVar("R")


class Stream:
    """A connection to a port of loopback.  Raises OSError as sockets do, EOFError where the gateway hung up."""

    def __init__(self, port: int, timeout: float = TIMEOUT) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self._held = bytearray()
        if self.socket.getsockname() == self.socket.getpeername():  # nobody listens, and we have met ourselves
            self.socket.close()
            raise ConnectionRefusedError(port)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def send(self, octets: bytes) -> None:
        """All of it."""
        self.socket.sendall(octets)

    def send_aside(self, octets: bytes) -> threading.Thread:
        """Send from a thread, so that answers can be read meanwhile; join it when they are there."""
        thread = threading.Thread(target=self.socket.sendall, args=(octets,), daemon=True)
        thread.start()
        return thread

    def finish(self) -> None:
        """Say that no more will come; answers can still be read."""
        self.socket.shutdown(socket.SHUT_WR)

    def rest(self) -> bytes:
        """Everything up to the end; a connection that is reset ends too."""
        try:
            while octets := self.socket.recv(1 << 20):
                self._held += octets
        except ConnectionResetError:
            pass
        rest, self._held = bytes(self._held), bytearray()
        return rest

    def exactly(self, size: int) -> bytes:
        """So many bytes."""
        while len(self._held) < size:
            self._held += self.some()
        octets = bytes(self._held[:size])
        del self._held[:size]
        return octets

    def some(self) -> bytes:
        """The bytes that come next."""
        octets = self.socket.recv(1 << 20)
        if not octets:
            raise EOFError("the gateway hung up")
        return octets


class Speaking(Stream):
    """A connection on which commands are asked for.

    settings: of the dialect, as a listener would have them.
    """

    def __init__(self, dialect: str, port: int, timeout: float = TIMEOUT, **settings: Any) -> None:
        super().__init__(port, timeout)
        self.dialect = spoken = load(dialect)
        listener = spoken.open(spoken.settings(**settings), registry(spoken.encodings))
        self._session = ClientSession(spoken, listener.terms(f"127.0.0.1:{port}"), ANSWER)
        self._tags = itertools.count(1)
        self._heard: deque[tuple[Request, Outcome | RecordBatch]] = deque()

    def ask(self, command: Command, context: object = None) -> Outcome:
        """What a command is answered.  context: as for Request, where the dialect has several ways to say it."""
        [outcome] = self.ask_all([command], context)
        return outcome

    def sure(self, command: Command, expected: type[R], context: object = None) -> R:
        """The reply; fails with what else it was answered."""
        outcome = self.ask(command, context)
        assert isinstance(outcome, expected), f"{command} was answered {outcome!r}"
        return outcome

    def ask_all(self, commands: Sequence[Command], context: object = None) -> list[Outcome]:
        """What each of them is answered; all are sent before an answer is read."""
        return self.hear(self.begin(commands, context))

    def ask_aside(self, commands: Sequence[Command]) -> list[Outcome]:
        """The same for so many that their answers have to be read meanwhile; all of them leave in one piece."""
        tags = self._ask(commands, None)
        sending = self.send_aside(self._session.take())
        outcomes = self.hear(tags)
        sending.join()
        return outcomes

    def begin(self, commands: Sequence[Command], context: object = None) -> list[int]:
        """Send them, and read nothing.  Returns their tags."""
        tags = self._ask(commands, context)
        self.send(self._session.take())
        return tags

    def hear(self, tags: Sequence[int]) -> list[Outcome]:
        """What was begun under those is answered."""
        answered: dict[object, Outcome] = {}
        while len(answered) < len(tags):
            request, outcome = self.next()
            assert not isinstance(outcome, RecordBatch), "nothing was followed"
            answered[request.tag] = outcome
        return [answered[tag] for tag in tags]

    def next(self) -> tuple[Request, Outcome | RecordBatch]:
        """What is answered next, and how.  Signs of life are passed over."""
        while not self._heard:
            self._heard += self._session.receive(self.some())
        return self._heard.popleft()

    def _ask(self, commands: Sequence[Command], context: object) -> list[int]:
        tags = [next(self._tags) for _ in commands]
        for tag, command in zip(tags, commands, strict=True):
            self._session.ask(Request(command, tag, context))
        return tags
