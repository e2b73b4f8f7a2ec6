"""gateway.net.security: a port that is TLS for some and plaintext for others."""

from __future__ import annotations

from twisted.internet.address import IPv4Address
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from gateway.net.security import SILENT_SECONDS, EitherFactory


class Noting(Protocol):
    def __init__(self) -> None:
        self.heard: list[bytes] = []

    def dataReceived(self, data: bytes) -> None:
        self.heard.append(data)


def connect() -> tuple[StringTransport, Clock, dict[str, list[Noting]]]:
    made: dict[str, list[Noting]] = {"plain": [], "tls": []}

    class Making(Factory):
        def __init__(self, name: str) -> None:
            self.name = name

        def buildProtocol(self, addr: object) -> Noting:
            made[self.name].append(Noting())
            return made[self.name][-1]

    clock = Clock()
    protocol = EitherFactory(Making("plain"), Making("tls"), clock).buildProtocol(IPv4Address("TCP", "127.0.0.1", 1))
    transport = StringTransport()
    transport.protocol = protocol
    protocol.makeConnection(transport)
    return transport, clock, made


def test_the_first_byte_decides_and_is_heard() -> None:
    for first, name in ((b"\x16\x03\x01", "tls"), (b"V1|", "plain"), (b"\x00\x00\x00\x04LIST", "plain")):
        transport, clock, made = connect()
        transport.protocol.dataReceived(first)
        assert [len(made["tls"]), len(made["plain"])] == [name == "tls", name == "plain"]
        transport.protocol.dataReceived(b"more")
        assert made[name][0].heard == [first, b"more"]
        assert not clock.getDelayedCalls()


def test_who_says_nothing_is_hung_up_on() -> None:
    transport, clock, made = connect()
    clock.advance(SILENT_SECONDS - 1)
    assert not transport.disconnected
    clock.advance(2)
    assert transport.disconnected
    assert made == {"plain": [], "tls": []}


def test_who_hangs_up_first_leaves_nothing_behind() -> None:
    transport, clock, _ = connect()
    transport.protocol.connectionLost()
    assert not clock.getDelayedCalls()
