"""The keys of the console over SSH: the server's own, and those that let somebody in."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.conch.error import ValidPublicKey
from twisted.conch.ssh.keys import FingerprintFormats, Key
from twisted.cred.checkers import ICredentialsChecker
from twisted.cred.credentials import ISSHPrivateKey, SSHPrivateKey
from twisted.cred.error import UnauthorizedLogin
from twisted.internet.defer import Deferred, execute
from twisted.logger import Logger
from zope.interface import implementer


class AuthorizedKeys:
    """A file with a public key a line, as ssh-keygen writes them; `#` begins a comment.  Options are not understood."""

    _log = Logger()

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[tuple[Key, str]]:
        """Each key, and what it is called.  Raises ValueError, with a sentence."""
        try:
            if self._path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise ValueError(f"{self._path} can be written by others: chmod go-w {self._path}")
            lines = self._path.read_bytes().splitlines()
        except OSError as error:
            raise ValueError(f"cannot read {self._path}: {error.strerror}") from error
        return [_named(line, at, self._path) for at, line in enumerate(lines, 1) if line.strip()[:1] not in (b"", b"#")]

    def called(self, key: Key) -> str | None:
        """What that key is called, None = it lets nobody in.

        No key does, and the log says why, if the file is not as it should be.
        """
        try:
            return next((name for kept, name in self.read() if kept == key), None)
        except ValueError as error:
            self._log.error("console: {error}", error=str(error))
            return None


@implementer(ICredentialsChecker)
class KeyChecker:
    """Who proves to have one of the keys is let in, as that key."""

    credentialInterfaces = (ISSHPrivateKey,)

    def __init__(self, keys: AuthorizedKeys) -> None:
        self._keys = keys

    def requestAvatarId(self, credentials: SSHPrivateKey) -> Deferred[bytes | tuple[()]]:
        """See ICredentialsChecker."""
        return execute(self._check, credentials)

    def _check(self, credentials: SSHPrivateKey) -> bytes | tuple[()]:
        key = Key.fromString(credentials.blob)
        name = self._keys.called(key)
        if name is None:
            raise UnauthorizedLogin("the key is none of those")
        if not credentials.signature:
            raise ValidPublicKey  # it is asked whether it would do (RFC 4252, section 7)
        try:
            proved = key.verify(credentials.signature, credentials.sigData)
        except Exception as error:  # whatever a signature can do to those who look at it, it is none then
            raise UnauthorizedLogin("the signature is none") from error
        if not proved:
            raise UnauthorizedLogin("the signature is wrong")
        return name.encode()


def open_host_key(path: Path) -> Key:
    """The private key in a file; made, for its owner alone, where there is none.  Raises ValueError."""
    try:
        if not path.exists():
            _make_host_key(path)
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ValueError(f"{path} can be read by others: chmod 600 {path}")
        octets = path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read or make {path}: {error.strerror}") from error
    try:
        key: Key = Key.fromString(octets)
    except Exception as error:  # see _named
        raise ValueError(f"{path} is no private key without a passphrase") from error
    if key.isPublic():
        raise ValueError(f"{path} is a public key, the private one is wanted")
    return key


def _make_host_key(path: Path) -> None:
    key = Key(Ed25519PrivateKey.generate())
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key.toString("OPENSSH", subtype="v1", comment=b"gateway console"))


def _named(line: bytes, number: int, path: Path) -> tuple[Key, str]:
    try:
        key = Key.fromString(line.strip())
    except Exception as error:  # from twisted.conch: what is no key fails there in many ways
        raise ValueError(f"{path}:{number} is no public key") from error
    words = line.split(None, 2)
    comment = words[2].strip().decode("utf-8", "replace") if len(words) > 2 else ""
    return key, comment or key.fingerprint(FingerprintFormats.SHA256_BASE64)
