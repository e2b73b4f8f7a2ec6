"""TLS for listeners: 1.2 or newer."""

from __future__ import annotations

from pathlib import Path

from OpenSSL.crypto import X509
from twisted.internet.interfaces import IProtocolFactory, IReactorTime
from twisted.internet.ssl import Certificate, CertificateOptions, KeyPair, TLSVersion
from twisted.protocols.tls import TLSMemoryBIOFactory


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


def _certificates(pem: bytes) -> list[X509]:
    ends = b"-----END CERTIFICATE-----"
    blocks = [block + ends for block in pem.split(ends)[:-1]]
    if not blocks:
        raise ValueError("no certificate in the file")
    return [Certificate.loadPEM(block).original for block in blocks]
