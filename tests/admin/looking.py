"""The page of a gateway without a socket, and a browser that says what it sends and sees what comes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from gateway.admin.view import View
from gateway.admin.web import Page
from net.peers import Node

STARTED = 1_700_000_000_000_000


class Socket(StringTransport):
    """aborted: we were hung up on, whatever was unread.  reads: the other end takes what is left, and so ends."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        super().__init__(hostAddress=IPv4Address("TCP", host, 8080), peerAddress=IPv4Address("TCP", host, 40000))
        self.aborted = False
        self.connected = self.reads = True
        self.lose: Callable[[], None] = lambda: None

    def abortConnection(self) -> None:
        if self.connected:
            self.aborted = True
            self._end()

    def loseConnection(self) -> None:
        super().loseConnection()
        if self.reads:
            self._end()

    def _end(self) -> None:
        if self.connected:
            self.connected = False
            self.lose()


class Said:
    """An answer, taken apart."""

    def __init__(self, octets: bytes) -> None:
        head, _, self.body = octets.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.status = int(first.split()[1])
        self.headers = dict(line.split(": ", 1) for line in lines)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class Looking:
    """The page of these nodes, which share a backend and a clock."""

    def __init__(self, *nodes: Node) -> None:
        self.node = nodes[0]
        self.clock = nodes[0].clock
        self.registry = CollectorRegistry()
        opened = [(node.listening, f"127.0.0.1:{at}") for at, node in enumerate(nodes, 9000)]
        port = nodes[0].port
        self.view = View(port, port.backend, lambda: opened, self.clock, STARTED, lambda: None)
        self.page = Page(self.view, self.registry, self.clock)

    def connect(self, host: str = "127.0.0.1") -> Browser | None:
        """None = hung up on at once."""
        channel = self.page.site.buildProtocol(None)
        return None if channel is None else Browser(channel, Socket(host))

    def begin(self, path: str, method: str = "GET", host: str = "localhost:8080", at: str = "127.0.0.1") -> Browser:
        browser = self.connect(at)
        assert browser is not None
        browser.send(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return browser

    def get(self, path: str, method: str = "GET", **where: str) -> Said:
        """The answer, which comes at once."""
        browser = self.begin(path, method, **where)
        octets = browser.read()
        while not octets:  # it gives others their turn
            assert any(call.getTime() <= self.clock.seconds() for call in self.clock.getDelayedCalls()), "no answer"
            self.clock.advance(0)
            octets = browser.read()
        said = Said(octets)
        browser.lose()
        return said

    def sample(self, name: str, **labels: str) -> float | None:
        """What a metric says, when it is asked for as Prometheus does."""
        assert self.get("/metrics").status == 200
        return self.registry.get_sample_value(name, labels)

    def close(self) -> None:
        """As the service does; everybody takes the last words."""
        closed: list[None] = []
        Deferred.fromCoroutine(self.page.close()).addCallback(closed.append)
        assert closed


class Browser:
    """One connection."""

    def __init__(self, channel: Any, socket: Socket) -> None:
        self.channel = channel
        self.socket = socket
        socket.lose = self.lose
        channel.makeConnection(socket)

    def send(self, octets: bytes) -> None:
        self.channel.dataReceived(octets)

    def read(self) -> bytes:
        """What has come since."""
        octets: bytes = self.socket.value()
        self.socket.clear()
        return octets

    def lose(self) -> None:
        self.channel.connectionLost(Failure(ConnectionError()))
