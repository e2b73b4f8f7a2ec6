"""TLS for listeners: 1.2 or newer, alone on a port or beside plaintext."""

from __future__ import annotations

from pathlib import Path

from OpenSSL.crypto import X509
from twisted.internet.interfaces import IAddress, IProtocolFactory, IReactorTime
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.ssl import Certificate, CertificateOptions, KeyPair, TLSVersion
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure

TLS_HANDSHAKE = b"\x16"
"""The first byte of a TLS connection: the content type of its ClientHello (RFC 8446, section 5.1)."""


SILENT_SECONDS = 60.0
"""How long a connection may keep us guessing; the Cursus broker gives an idle client as long."""


def with_tls(factory: IProtocolFactory, certificate: str, key: str, clock: IReactorTime) -> IProtocolFactory:
    """The factory behind TLS.

    certificate, key: files in PEM, the first with the chain.  Raises ValueError with a sentence if they cannot be used.
    """
    try:
        chain = _certificates(Path(certificate).read_bytes())
        private = KeyPair.load(Path(key).read_bytes(), 1).original
        options = CertificateOptions(
            privateKey=private,
            certificate=chain[0],
            extraCertChain=chain[1:],
            raiseMinimumTo=TLSVersion.TLSv1_2,
        )
        options.getContext()
    except OSError as error:
        raise ValueError(f"{error.filename}: {error.strerror}") from error
    except Exception as error:  # whatever OpenSSL finds wrong with the two files
        raise ValueError(f"{certificate} and {key} cannot be used for TLS: {error}") from error
    return TLSMemoryBIOFactory(options, False, factory, clock)


class EitherFactory(Factory):
    """Makes connections that are TLS or not, as their first byte says.

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
    """A connection before its first byte; steps aside for the one that the byte calls for."""

    def __init__(self, either: EitherFactory, address: IAddress) -> None:
        self._either = either
        self._address = address

    def connectionMade(self) -> None:
        """See IProtocol."""
        self._deadline = self._either.clock.callLater(SILENT_SECONDS, self._abort)

    def dataReceived(self, data: bytes) -> None:
        """See IProtocol."""
        self._deadline.cancel()
        chosen = self._either.tls if data[:1] == TLS_HANDSHAKE else self._either.plain
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


def _certificates(pem: bytes) -> list[X509]:
    ends = b"-----END CERTIFICATE-----"
    blocks = [block + ends for block in pem.split(ends)[:-1]]
    if not blocks:
        raise ValueError("no certificate in the file")
    return [Certificate.loadPEM(block).original for block in blocks]
