"""A network without sockets: clients connect to a gateway in the same process, and bytes flow when the test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone, ConnectionRefusedError
from twisted.internet.interfaces import IProtocol, IStreamClientEndpoint
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from zope.interface import implementer

from backends.driving import Reactor
from gateway import dialects
from gateway.backends.interface import IBackend
from gateway.backends.remote.backend import RemoteBackend
from gateway.backends.remote.ways import Way
from gateway.core import commands as q
from gateway.core.records import Encoding, registry
from gateway.net.port import Port
from gateway.net.server import Listening

HERE = IPv4Address("TCP", "127.0.0.1", 4711)


def encodings() -> dict[str, Encoding]:
    """Of every dialect there is, as a gateway process has them."""
    found = [encoding for name in dialects.names() for encoding in dialects.load(name).encodings]
    return registry(found)


class End(StringTransport):
    """One end of a connection; `other` gets what is written to it, unless it has stopped reading."""

    def __init__(self) -> None:
        super().__init__(hostAddress=HERE, peerAddress=HERE)
        self.protocol: Any = None
        self.other: End = self
        self.over = False
        self.size = 1 << 20

    def abortConnection(self) -> None:
        self.disconnecting = True
        self.clear()

    def flow(self) -> bool:
        """Hand on what was written.  Returns whether there was anything to do."""
        if self.over:
            return False
        data = b""
        if self.other.producerState == "producing":
            data = self.value()[: self.size]
            rest = self.value()[self.size :]
            self.clear()
            self.io.write(rest)
        if data and not self.other.over:
            self.other.protocol.dataReceived(data)
        if self.disconnecting and not self.value():
            self.cut()
            return True
        return bool(data)

    def cut(self) -> None:
        """The connection is gone for both."""
        for end in (self, self.other):
            if not end.over:
                end.over = True
                end.protocol.connectionLost(Failure(ConnectionDone()))


@implementer(IStreamClientEndpoint)
class Loopback:
    """A server that can be reached, or not.

    up:   connections are accepted.  size: bytes that cross at a time.
    ends: of the clients, all that were ever made.
    """

    def __init__(self, backend: IBackend, dialect: str, clock: Reactor, **said: Any) -> None:
        spoken = dialects.load(dialect)
        self.listening = Listening("upstream", spoken.open(spoken.settings(**said), encodings()))
        self.port = self.listening.port = Port(backend, clock)
        self.up = True
        self.ends: list[End] = []
        self.size = 1 << 20

    def connect(self, factory: Any) -> Deferred[IProtocol]:
        """See IStreamClientEndpoint."""
        if not self.up:
            return fail(ConnectionRefusedError("it is down"))
        ours, theirs = End(), End()
        ours.other, theirs.other = theirs, ours
        ours.size = theirs.size = self.size
        ours.protocol, theirs.protocol = factory.buildProtocol(HERE), self.listening.buildProtocol(HERE)
        theirs.protocol.makeConnection(theirs)
        ours.protocol.makeConnection(ours)
        self.ends.append(ours)
        return succeed(ours.protocol)

    def flow(self) -> bool:
        """Everything that can cross now does.  Returns whether anything did."""
        moved = False
        for end in list(self.ends):
            moved = end.flow() or moved
            moved = end.other.flow() or moved
        self.ends = [end for end in self.ends if not end.over]
        return moved

    def stop(self) -> None:
        """As a server that is killed: what was on its way is lost."""
        self.up = False
        for end in self.ends:
            end.cut()


class Network(Reactor):
    """A clock that makes bytes flow.  servers: whose connections there are."""

    def __init__(self) -> None:
        super().__init__()
        self.servers: list[Loopback] = []

    def settle(self) -> None:
        """Until nothing happens any more without time passing."""
        moved = True
        while moved:
            due = any(call.getTime() <= self.seconds() for call in self.getDelayedCalls())
            self.advance(0)
            moved = any([server.flow() for server in self.servers]) or due

    def wait(self, deferred: Deferred[Any]) -> Any:
        """Its result, or its failure raised; time passes if it must."""
        results: list[Any] = []
        deferred.addBoth(results.append)
        self.settle()
        for _ in range(10_000):
            if results:
                break
            self.pass_time(0.01)
        assert results, "never answered"
        if isinstance(results[0], Failure):
            results[0].raiseException()
        return results[0]

    def pass_time(self, seconds: float) -> None:
        self.advance(seconds)
        self.settle()


def remote(
    network: Network, server: Loopback, dialect: str, random: Callable[[], float] = lambda: 0.5, **said: Any
) -> RemoteBackend:
    """A gateway in front of that server."""
    spoken = dialects.load(dialect)
    login = None
    if spoken.development is not None and spoken.upstream is not None and spoken.upstream.login:
        login = q.Authenticate("plain", *spoken.development)
    way = Way(spoken, spoken.settings(**said), encodings(), network, random, login)
    return RemoteBackend(way, server, dialect)
