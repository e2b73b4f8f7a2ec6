"""Somebody at the console of one gateway: everything is real but the sockets and the clock."""

from __future__ import annotations

import json
import re
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IAddress
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from gateway.admin.console import Desks, TelnetConsole
from gateway.admin.telnet import PAUSE
from gateway.admin.view import View
from gateway.backends.interface import IBackend
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.records import Record, canonical
from gateway.core.replies import Outcome
from gateway.net.users import User, Users
from net.peers import Client, Node, Wire

NOW = 1_800_000_000_000_000
"""us since the epoch: 2027-01-15 08:00:00."""

HERE = IPv4Address("TCP", "127.0.0.1", 40_001)
ELSEWHERE = IPv4Address("TCP", "192.0.2.7", 40_001)

IAC, DONT, DO, WONT, WILL, SB, SE = (bytes([number]) for number in (255, 254, 253, 252, 251, 250, 240))
ECHO, SGA, NAWS = b"\x01", b"\x03", b"\x1f"

UP, DOWN, RIGHT, LEFT, TAB = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\t"

OURS = re.compile(rb"\x1b\[(?:\d*[KDHJ]|[012]?m|\d+;\d+H)")
"""The sequences that the editor and the titles of tables are made of."""

TELNET = re.compile(rb"\xff[\xfb-\xfe].|\xff\xfa.*?\xff\xf0", re.DOTALL)


def at_once(work: Any) -> Deferred[bool]:
    return succeed(work())


class Office:
    """One gateway with a listener, a view of it, and its console.

    stopped: how often it was told to end.
    """

    def __init__(
        self,
        dialect: str = "native",
        users: tuple[User, ...] = (),
        backend: IBackend | None = None,
        idle_seconds: float = 600.0,
    ) -> None:
        self.clock = Clock()
        self.stopped = 0
        self.backend = backend or MemoryBackend(self.clock, lambda: NOW)
        self.node = Node(self.backend, dialect, self.clock, users=Users(users, at_once))
        self.view = View(
            self.node.port,
            self.backend,
            lambda: [(self.node.listening, "127.0.0.1:7400")],
            self.clock,
            NOW - 90_000_000,
            self._stop,
        )
        self.factory = TelnetConsole(Desks(self.view, idle_seconds, self.clock, lambda: NOW))

    def client(self) -> Client:
        """A peer of the listener, which speaks its dialect."""
        return Client(self.node)

    def publish(self, topic: q.Topic, *records: Record, partition: int = 0) -> Outcome:
        """Written by nobody in particular, and the topic made if it is not there."""
        return self.ask(q.Publish(topic, partition, canonical(list(records), "native"), create=2))

    def ask(self, command: q.Command) -> Outcome:
        """What the store says to a command."""
        found = self.backend.execute(command, q.Session(99, "native"))
        assert not isinstance(found, Deferred), "memory answers at once"
        return found

    def script(self, *lines: str, peer: IAddress = HERE) -> str:
        """All that a program is answered that sends these lines and no more."""
        seat = Seat(self, peer)
        seat.send("".join(f"{line}\n" for line in lines).encode())
        seat.finish()
        self.settle()
        return seat.read()

    def answer(self, line: str) -> Any:
        """What a verb says as JSON."""
        return json.loads(self.script(f"{line} --json"))

    def settle(self) -> None:
        for _ in range(50):
            self.clock.advance(0)

    def _stop(self) -> None:
        self.stopped += 1


class Seat:
    """One connection to the console."""

    def __init__(self, office: Office, peer: IAddress = HERE, room: int | None = None) -> None:
        self.office = office
        self.wire = Wire(room, peer)
        self.protocol: Any = office.factory.buildProtocol(peer)
        self.protocol.makeConnection(self.wire)
        self.raw = b""

    def send(self, octets: bytes) -> None:
        self.protocol.dataReceived(octets)
        self.office.settle()

    def type(self, *lines: str) -> str:
        """Lines, each ended as a terminal ends it; what was said since the last time."""
        for line in lines:
            self.send(f"{line}\r\0".encode())
        return self.read()

    def keys(self, keys: str) -> str:
        self.send(keys.encode())
        return self.read()

    def read(self) -> str:
        self.raw = TELNET.sub(b"", self.wire.read())
        return self.raw.decode()

    def shown(self) -> str:
        """What is on the last line of the terminal."""
        return OURS.sub(b"", self.raw.rpartition(b"\r")[2]).decode()

    def finish(self) -> None:
        self.protocol.readConnectionLost()
        self.office.settle()

    def lose(self) -> None:
        self.protocol.connectionLost(Failure(ConnectionDone()))
        self.office.settle()

    @property
    def left(self) -> bool:
        return bool(self.wire.disconnecting or self.wire.disconnected)


def plain(office: Office, peer: IAddress = HERE) -> Seat:
    """A person with a netcat."""
    seat = Seat(office, peer)
    office.clock.advance(PAUSE)
    office.clock.advance(PAUSE)
    office.settle()
    return seat


def terminal(office: Office, width: int = 80, room: int | None = None, peer: IAddress = HERE) -> Seat:
    """A person with a terminal that leaves echo and lines to the console."""
    seat = Seat(office, peer, room)
    seat.send(IAC + WILL + NAWS + size(width) + IAC + DO + ECHO + IAC + DO + SGA)
    office.settle()
    return seat


def size(width: int, height: int = 24) -> bytes:
    octets = (width.to_bytes(2, "big") + height.to_bytes(2, "big")).replace(IAC, IAC + IAC)
    return IAC + SB + NAWS + octets + IAC + SE


def text(seat: Seat) -> str:
    """What was said, without telnet and the sequences that we know to be ours."""
    seat.read()
    return bare(seat)


def bare(seat: Seat) -> str:
    """The same of what was said last."""
    return OURS.sub(b"", seat.raw).decode()
