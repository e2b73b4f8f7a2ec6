"""TLS for listeners: 1.2 or newer, alone on a port or beside plaintext, with clients' certificates if wanted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

from cryptography.x509 import DNSName, ExtensionNotFound, RFC822Name, SubjectAlternativeName
from cryptography.x509.oid import NameOID
from OpenSSL.crypto import X509
from OpenSSL.SSL import (
    OP_CIPHER_SERVER_PREFERENCE,
    OP_NO_RENEGOTIATION,
    TLS1_2_VERSION,
    TLS_SERVER_METHOD,
    VERIFY_FAIL_IF_NO_PEER_CERT,
    VERIFY_PEER,
    Context,
    Error,
)
from twisted.internet.interfaces import IAddress, IOpenSSLContextFactory, IProtocolFactory, IReactorTime, ITransport
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.protocols.tls import BufferingTLSTransport, TLSMemoryBIOFactory
from twisted.python.failure import Failure
from zope.interface import implementer

TLS = re.compile(rb"\x16\x03[\x01-\x04]")
"""How a TLS connection begins: a handshake, and a version (RFC 8446, section 5.1).  An Iggy frame of 22 bytes begins
the same, and goes on with zeros."""

TLS_HANDSHAKE = 0x16
"""The first of these bytes."""

SHORTEST = 3
"""Bytes that it takes to know that."""

HELLO = re.compile(rb"\x16\x03[\x00-\x04]..\x01", re.DOTALL)
"""How it goes on: the length of the record, and that it is a ClientHello (RFC 8446, sections 4 and 5.1)."""

HANDSHAKE_SECONDS = 10.0
"""Until a handshake has to be done; as long as a frame may take."""

SILENT_SECONDS = 60.0
"""How long a connection may keep us guessing; the Cursus broker gives an idle client as long."""


@implementer(IOpenSSLContextFactory)
class Certificates:
    """What the TLS of one listener is made with; new connections get what was last read.

    certificate, key: files in PEM, the first with the chain.
    client_ca:        file in PEM with those whose signature on a client's certificate is believed, None = no client is
                      asked for one.
    required:         who has none is not let in.

    Raises ValueError, with a sentence, if they cannot be used.
    """

    def __init__(self, certificate: str, key: str, client_ca: str | None = None, *, required: bool = False) -> None:
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self._required = required
        self.reload()

    def reload(self) -> None:
        """Read the files again.  Raises ValueError, and nothing has changed then."""
        try:
            self._context = self._read()
        except OSError as error:
            raise ValueError(f"{error.filename}: {error.strerror}") from error
        except Error as error:
            why = "; ".join(reason for _, _, reason in error.args[0]) if error.args else "nothing is in them"
            raise ValueError(f"{self._certificate} and {self._key} cannot be used for TLS: {why}") from error

    def getContext(self) -> Context:
        """See IOpenSSLContextFactory: asked for every connection."""
        return self._context

    def _read(self) -> Context:
        context = Context(TLS_SERVER_METHOD)
        context.set_min_proto_version(TLS1_2_VERSION)
        context.set_options(OP_NO_RENEGOTIATION | OP_CIPHER_SERVER_PREFERENCE)
        context.set_session_id(b"gateway")  # a session is taken up again only where its client was asked the same
        for path in filter(None, (self._certificate, self._key, self._client_ca)):
            Path(path).open("rb").close()  # OpenSSL does not say which file is missing
        context.use_certificate_chain_file(self._certificate)
        context.use_privatekey_file(self._key)
        context.check_privatekey()
        if self._client_ca is not None:
            context.load_verify_locations(self._client_ca)
            context.set_verify(VERIFY_PEER | (VERIFY_FAIL_IF_NO_PEER_CERT if self._required else 0))
        return context


class _InTime(BufferingTLSTransport):
    """TLS that is given up if the peer does not finish its handshake, or does not even begin."""

    def makeConnection(self, transport: ITransport) -> None:
        """See IProtocol."""
        clock = cast(_InTimeFactory, self.factory).clock
        self._deadline = clock.callLater(HANDSHAKE_SECONDS, self._look)
        super().makeConnection(transport)  # type: ignore[no-untyped-call]

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """See IProtocol."""
        if self._deadline.active():
            self._deadline.cancel()
        super().connectionLost(reason)

    def _look(self) -> None:
        if self.getHandle().get_peer_finished() is None:  # type: ignore[no-untyped-call]
            self.abortConnection()  # type: ignore[no-untyped-call]


class _InTimeFactory(TLSMemoryBIOFactory):
    protocol = _InTime

    def __init__(self, certificates: Certificates, factory: IProtocolFactory, clock: IReactorTime) -> None:
        super().__init__(certificates, False, factory, clock)
        self.clock = clock


def with_tls(factory: IProtocolFactory, certificates: Certificates, clock: IReactorTime) -> IProtocolFactory:
    """The factory behind TLS."""
    return _InTimeFactory(certificates, factory, clock)


def says_hello(data: bytes) -> bool:
    """Whether these first bytes of a connection are those of a peer that wants TLS."""
    return HELLO.match(data) is not None


def names_of(certificate: X509 | None) -> list[str]:
    """What a client's certificate says of whom it is for: its common name, then its alternative names; [] for none."""
    if certificate is None:
        return []
    read = certificate.to_cryptography()
    names = [str(name.value) for name in read.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    try:
        others = read.extensions.get_extension_for_class(SubjectAlternativeName).value
    except ExtensionNotFound:
        return names
    return [*names, *others.get_values_for_type(DNSName), *others.get_values_for_type(RFC822Name)]


class EitherFactory(Factory):
    """Makes connections that are TLS or not, as their first bytes say.

    For clients that speak TLS on some of their connections only, as the Java and Go clients of Cursus do.
    """

    noisy = False

    def __init__(self, plain: IProtocolFactory, tls: IProtocolFactory, clock: IReactorTime) -> None:
        self.plain = plain
        self.tls = tls
        self.clock = clock

    def buildProtocol(self, addr: IAddress | None) -> Protocol:
        """See IProtocolFactory."""
        assert addr is not None, "every connection comes from somewhere"
        return _Undecided(self, addr)


class _Undecided(Protocol):
    """A connection before its first bytes; steps aside for the one that they call for."""

    def __init__(self, either: EitherFactory, address: IAddress) -> None:
        self._either = either
        self._address = address
        self._held = b""

    def connectionMade(self) -> None:
        """See IProtocol."""
        self._deadline = self._either.clock.callLater(SILENT_SECONDS, self._abort)

    def dataReceived(self, data: bytes) -> None:
        """See IProtocol."""
        data = self._held = self._held + data
        if len(data) < SHORTEST and data[0] == TLS_HANDSHAKE:
            return
        self._deadline.cancel()
        chosen = self._either.tls if TLS.match(data) else self._either.plain
        protocol = chosen.buildProtocol(self._address)
        assert protocol is not None and self.transport is not None
        self.transport.protocol = protocol  # type: ignore[attr-defined]  # where Twisted's transports deliver to
        protocol.makeConnection(self.transport)
        protocol.dataReceived(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """See IProtocol."""
        if self._deadline.active():
            self._deadline.cancel()

    def _abort(self) -> None:
        assert self.transport is not None
        self.transport.abortConnection()  # type: ignore[attr-defined]  # every stream transport has it
