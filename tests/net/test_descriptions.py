"""gateway.net.descriptions: what endpoint descriptions say, and `ssl:` as our own TLS."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.internet import endpoints
from twisted.internet.task import Clock

from gateway.net.descriptions import Sealed, fields, unseal
from net.certificates import Authority


@pytest.mark.parametrize(
    ("description", "sealed"),
    [
        ("ssl:9000:privateKey=a.key:certKey=a.pem", Sealed("tcp:9000", "a.pem", "a.key")),
        ("ssl:port=9000:certKey=a.pem:privateKey=a.key", Sealed("tcp:9000", "a.pem", "a.key")),
        ("ssl:9000:a.key:a.pem:interface=127.0.0.1", Sealed("tcp:9000:interface=127.0.0.1", "a.pem", "a.key")),
        ("ssl:9000:privateKey=both.pem:backlog=9", Sealed("tcp:9000:backlog=9", "both.pem", "both.pem")),
        ("ssl:9000", Sealed("tcp:9000", "server.pem", "server.pem")),
        (r"ssl:9000:k\:1:c\:1:interface=\:\:1", Sealed(r"tcp:9000:interface=\:\:1", "c:1", "k:1")),
    ],
)
def test_ssl_is_where_to_listen_and_two_files(description: str, sealed: Sealed) -> None:
    assert unseal(description) == sealed


@pytest.mark.parametrize("description", ["tcp:9000", "unix:/run/ssl:", "systemd:domain=INET:name=ssl", "ssl9000", ""])
def test_others_are_left_alone(description: str) -> None:
    assert unseal(description) is None


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("sslmethod=TLSv1_METHOD", "TLS is 1.2 or newer; leave sslmethod out"),
        ("extraCertChain=c.pem", "put the chain into the file of the certificate"),
        ("dhParameters=d.pem", "leave dhParameters out"),
        ("certificate=c.pem", "an ssl: endpoint has no certificate"),
    ],
)
def test_what_our_tls_does_not_have_is_refused_in_a_sentence(more: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        unseal(f"ssl:9000:privateKey=a.key:{more}")


def test_twisted_reads_the_same_in_it(tmp_path: Path) -> None:
    """Its own ssl: and our tcp: listen at the same place."""
    certificate, key = Authority(tmp_path).sign("gateway")
    description = f"ssl:9000:{endpoints.quoteStringArgument(str(key))}:certKey={certificate}:interface=127.0.0.1"
    theirs = endpoints.serverFromString(Clock(), description)
    sealed = unseal(description)
    assert sealed == Sealed("tcp:9000:interface=127.0.0.1", str(certificate), str(key))
    ours = endpoints.serverFromString(Clock(), sealed.endpoint)
    assert (theirs._port, theirs._interface) == (ours._port, ours._interface) == (9000, "127.0.0.1")


def test_a_backslash_keeps_a_colon() -> None:
    assert fields(r"tcp6:9000:interface=\:\:1") == ["tcp6", "9000", r"interface=\:\:1"]
