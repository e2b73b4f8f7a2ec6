"""gateway.net.security: TLS, clients' certificates, and a port that is TLS for some and plaintext for others."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from OpenSSL import crypto
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

import wire
from gateway import dialects
from gateway.conformance import vectors
from gateway.core import commands as q
from gateway.net.security import (
    HANDSHAKE_SECONDS,
    SILENT_SECONDS,
    Certificates,
    EitherFactory,
    names_of,
    says_hello,
    with_tls,
)
from net.certificates import Authority


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


def test_the_first_bytes_decide_and_are_heard() -> None:
    tls = hello()[:3]
    plain = requests()
    for first, name in ((tls, "tls"), *((each, "plain") for each in plain)):
        transport, clock, made = connect()
        transport.protocol.dataReceived(first)
        assert [len(made["tls"]), len(made["plain"])] == [name == "tls", name == "plain"]
        transport.protocol.dataReceived(b"more")
        assert made[name][0].heard == [first, b"more"]
        assert not clock.getDelayedCalls()


def test_too_few_bytes_decide_nothing_where_more_may_come() -> None:
    tls = hello()
    iggy = next(each for each in requests() if each[:1] == tls[:1])
    for first, name in ((tls, "tls"), (iggy, "plain")):
        transport, _, made = connect()
        for at in range(2):
            transport.protocol.dataReceived(first[at : at + 1])
            assert made == {"plain": [], "tls": []}
        transport.protocol.dataReceived(first[2:])
        assert made[name][0].heard == [first]


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


def served(certificates: Certificates, client: ssl.SSLContext) -> bytes:
    """What a client is told that connects: bytes cross in memory, as on a socket.  Raises ssl.SSLError."""
    made: list[Noting] = []

    class Making(Factory):
        def buildProtocol(self, addr: object) -> Noting:
            made.append(Noting())
            return made[-1]

    wire = StringTransport()
    protocol = with_tls(Making(), certificates, Clock()).buildProtocol(IPv4Address("TCP", "127.0.0.1", 1))
    assert protocol is not None
    protocol.makeConnection(wire)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = client.wrap_bio(incoming, outgoing, server_hostname="localhost")
    for _ in range(6):
        with contextlib.suppress(ssl.SSLWantReadError):
            session.do_handshake()
            session.write(b"hello")
            session.read(1)
        if data := outgoing.read():
            protocol.dataReceived(data)
        incoming.write(wire.value())
        wire.clear()
    return b"".join(made[0].heard)


def trusting(authority: Authority, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.pem))
    if certificate is not None:
        context.load_cert_chain(*map(str, certificate))
    return context


def test_a_client_that_trusts_the_authority_is_served(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.sign("gateway")
    assert b"hello" in served(Certificates(str(certificate), str(key)), trusting(authority))


def test_without_a_certificate_of_the_right_authority_nobody_is_served_where_one_is_required(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    certificate, key = authority.sign("gateway")
    asking = Certificates(str(certificate), str(key), str(authority.pem), required=True)
    assert b"hello" in served(asking, trusting(authority, authority.sign("ann")))
    for wrong in (None, stranger.sign("eve")):
        with pytest.raises(ssl.SSLError):
            served(asking, trusting(authority, wrong))


def test_where_a_certificate_is_optional_who_has_none_is_served(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.sign("gateway")
    asking = Certificates(str(certificate), str(key), str(authority.pem))
    assert b"hello" in served(asking, trusting(authority))


def test_certificates_that_are_read_again_are_those_of_new_connections(tmp_path: Path) -> None:
    old, new = Authority(tmp_path), Authority(tmp_path, "new")
    certificate, key = old.sign("gateway")
    certificates = Certificates(str(certificate), str(key))
    new.sign("gateway")  # into the same files
    with pytest.raises(ssl.SSLCertVerificationError):
        served(certificates, trusting(new))
    certificates.reload()
    assert b"hello" in served(certificates, trusting(new))


def test_files_that_cannot_be_used_are_a_sentence_and_change_nothing(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.sign("gateway")
    certificates = Certificates(str(certificate), str(key))
    certificate.write_text("no certificate")
    with pytest.raises(ValueError, match="cannot be used for TLS: no start line"):
        certificates.reload()
    certificate.unlink()
    with pytest.raises(ValueError, match="No such file"):
        certificates.reload()
    assert b"hello" in served(certificates, trusting(authority))


def test_a_certificate_is_known_by_its_common_name_and_its_others(tmp_path: Path) -> None:
    others = [x509.DNSName("ann.example"), x509.RFC822Name("ann@example.org")]
    certificate, _ = Authority(tmp_path).sign("ann", others)
    loaded = crypto.load_certificate(crypto.FILETYPE_PEM, certificate.read_bytes())
    assert names_of(loaded) == ["ann", "ann.example", "ann@example.org"]
    assert names_of(None) == []


def begun(certificates: Certificates, clock: Clock) -> tuple[Wire, Protocol]:
    """A connection to a TLS port on which nothing has been said."""
    protocol = with_tls(Recording(), certificates, clock).buildProtocol(IPv4Address("TCP", "127.0.0.1", 1))
    assert protocol is not None
    wire = Wire()
    protocol.makeConnection(wire)
    return wire, protocol


class Wire(StringTransport):
    """Knows that it was cut."""

    aborted = False

    def abortConnection(self) -> None:
        self.aborted = True


class Recording(Factory):
    protocol = Protocol


@pytest.mark.parametrize("said", [0, 6], ids=["nothing", "the beginning of a hello"])
def test_who_does_not_finish_a_handshake_is_hung_up_on(tmp_path: Path, said: int) -> None:
    certificate, key = Authority(tmp_path).sign("gateway")
    clock = Clock()
    wire, protocol = begun(Certificates(str(certificate), str(key)), clock)
    if said:
        protocol.dataReceived(hello()[:said])
    clock.advance(HANDSHAKE_SECONDS - 0.1)
    assert not wire.aborted
    clock.advance(0.1)
    assert wire.aborted


def test_who_hangs_up_during_a_handshake_leaves_no_timer(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).sign("gateway")
    clock = Clock()
    _, protocol = begun(Certificates(str(certificate), str(key)), clock)
    protocol.connectionLost(Failure(ConnectionDone()))
    assert clock.getDelayedCalls() == []


def test_who_finished_its_handshake_may_be_silent(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.sign("gateway")
    clock = Clock()
    wire, protocol = begun(Certificates(str(certificate), str(key)), clock)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = trusting(authority).wrap_bio(incoming, outgoing, server_hostname="localhost")
    for _ in range(4):
        with contextlib.suppress(ssl.SSLWantReadError):
            session.do_handshake()
        if data := outgoing.read():
            protocol.dataReceived(data)
        incoming.write(wire.value())
        wire.clear()
    assert session.version() in ("TLSv1.2", "TLSv1.3")
    clock.advance(HANDSHAKE_SECONDS * 10)
    assert not wire.aborted


def test_a_hello_is_known_by_how_it_begins() -> None:
    said = hello()
    assert says_hello(said)
    login = wire.request("iggy", q.Authenticate("plain", "ann", "x" * 255))
    as_long = said[:2] + bytes(2) + login[4:]  # whose length begins as a hello does
    for other in (b"", said[:1], said[:5], as_long, b"\x15" + said[1:], *requests()):
        assert not says_hello(other)


def hello() -> bytes:
    """What a client of TLS says first."""
    outgoing = ssl.MemoryBIO()
    session = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


def requests() -> list[bytes]:
    """All that clients say in the vectors of a dialect."""
    return [case.when for name in dialects.names() for case in vectors.load(name) if case.when]
