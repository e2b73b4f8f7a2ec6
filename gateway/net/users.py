"""Who may log in: the users that an operator named, and the check of what a client gives for proof."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import string
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec
from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.internet.threads import deferToThread

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault

T = TypeVar("T")

Run = Callable[[Callable[[], bool]], Deferred[bool]]
"""Has some work done elsewhere, as deferToThread does."""

LOG_N, R, P = 14, 8, 1
"""The cost of scrypt for new passwords: 16 MiB and some tens of ms."""

SALT_BYTES, HASH_BYTES, MIN_HASH_BYTES = 16, 32, 16

NO_PASSWORD = "a password is written scrypt:LOGN:R:P:SALT:HASH; `gateway users add NAME` makes one"
NO_TOKEN = "a token is written as its SHA-256 in 64 hexadecimal digits; `gateway users add NAME --token` makes one"

TOKEN_BYTES = 30
"""Of chance in a personal access token: 40 letters and digits, as Iggy's have."""

MAX_MEMORY = 256 << 20
"""Bytes that one check of a password may need."""

MAX_PARALLEL = 16
"""The largest P; the time of a check grows with it."""

AT_ONCE = max(1, (os.cpu_count() or 1) // 2)
"""Passwords that are checked at a time; records move meanwhile."""


class Password(msgspec.Struct, frozen=True):
    """What is kept of a password: the scrypt hash (RFC 7914) of its UTF-8, with 2**log_n rounds."""

    log_n: int
    r: int
    p: int
    salt: bytes
    hash: bytes

    def __repr__(self) -> str:
        return "Password(...)"

    def matches(self, secret: str) -> bool:
        """Whether that is the password.  Takes as long as scrypt does."""
        found = _scrypt(secret, self.log_n, self.r, self.p, self.salt, len(self.hash))
        return hmac.compare_digest(found, self.hash)

    def text(self) -> str:
        """`scrypt:LOGN:R:P:SALT:HASH`, the numbers in decimal, salt and hash in base64."""
        salt, hash = (base64.b64encode(octets).decode() for octets in (self.salt, self.hash))
        return f"scrypt:{self.log_n}:{self.r}:{self.p}:{salt}:{hash}"


class User(msgspec.Struct, frozen=True):
    """Somebody who may log in.  id: a u32.  tokens: SHA-256 digests of personal access tokens."""

    principal: str
    id: int
    password: Password | None = None
    tokens: tuple[bytes, ...] = ()


class Users:
    """All that an operator named; false if that is nobody.

    run: does the work of scrypt, away from the connections.
    """

    def __init__(self, users: Iterable[User] = (), run: Run = deferToThread) -> None:
        self._named = {user.principal: user for user in users}
        self._run = run
        self._turns = DeferredSemaphore(AT_ONCE)
        kept = [user.password for user in self._named.values() if user.password is not None]
        self._decoy = kept[0] if kept else Password(LOG_N, R, P, os.urandom(SALT_BYTES), os.urandom(HASH_BYTES))

    def __len__(self) -> int:
        return len(self._named)

    def named(self, principal: str) -> r.Authenticated | None:
        """Who that is, however it was proved; None = nobody of that name."""
        user = self._named.get(principal)
        return None if user is None else r.Authenticated(user.principal, user.id)

    def believe(self, command: q.Authenticate) -> r.Authenticated:
        """Everybody is who they say.  The id is 0 for a name that is none of the users', where there are some."""
        user = self._named.get(command.principal)
        return r.Authenticated(command.principal, user.id if user is not None else int(not self._named))

    def check(self, command: q.Authenticate) -> r.Authenticated | Deferred[r.Authenticated]:
        """Only who proves it is one of the users.  Cancelling gives up the wait, and the work if it is not begun.

        Raises, or fails with, CommandFailed: BAD_CREDENTIALS, UNSUPPORTED for a mechanism that is none.
        """
        if command.mechanism == "token":
            return _verdict(self._token(command))
        if command.mechanism != "plain":
            raise CommandFailed(Fault.UNSUPPORTED, "mechanisms are plain and token")
        user = self._named.get(command.principal)
        password = None if user is None else user.password
        kept = self._decoy if password is None else password  # it takes as long to find that there is none
        checked = self._turns.acquire().addCallback(lambda _: self._begin(lambda: kept.matches(command.secret)))
        return checked.addCallback(lambda right: _verdict(user if right and password is not None else None))

    def _begin(self, work: Callable[[], bool]) -> Deferred[bool]:
        """Do the work now.  It keeps its turn to its end: giving up the answer makes no room for another."""
        answer: Deferred[bool] = Deferred()
        begun = self._run(work)
        begun.addBoth(self._release)
        begun.chainDeferred(answer)
        return answer

    def _release(self, result: T) -> T:
        self._turns.release()
        return result

    def _token(self, command: q.Authenticate) -> User | None:
        """Whose token that is.  Looks at all of them, however early it finds it."""
        digest = hashlib.sha256(_octets(command.secret)).digest()
        found = None
        for user in self._named.values():
            for token in user.tokens:
                if hmac.compare_digest(token, digest):
                    found = user
        return found if found is None or command.principal in ("", found.principal) else None


def new_password(secret: str, log_n: int = LOG_N) -> Password:
    """What to keep of a password, with a salt of its own."""
    salt = os.urandom(SALT_BYTES)
    return Password(log_n, R, P, salt, _scrypt(secret, log_n, R, P, salt, HASH_BYTES))


def parse_password(text: str) -> Password:
    """The `text` of a Password.  Raises ValueError, with a sentence that does not repeat the text, if it is none."""
    try:
        scheme, log_n, r, p, salt, hash = text.split(":")
        kept = Password(int(log_n), int(r), int(p), *(base64.b64decode(at, validate=True) for at in (salt, hash)))
    except ValueError:
        raise ValueError(NO_PASSWORD) from None
    if scheme != "scrypt" or min(kept.log_n, kept.r, kept.p) < 1 or len(kept.hash) < MIN_HASH_BYTES:
        raise ValueError(NO_PASSWORD)
    if kept.log_n > 30 or kept.p > MAX_PARALLEL or _memory(kept.log_n, kept.r, kept.p) > MAX_MEMORY:
        raise ValueError(f"checking that password would take more than {MAX_MEMORY >> 20} MiB or {MAX_PARALLEL} rounds")
    return kept


def new_token() -> tuple[str, bytes]:
    """A random personal access token, and the digest to keep of it."""
    token = base64.urlsafe_b64encode(os.urandom(TOKEN_BYTES)).decode()
    return token, hashlib.sha256(token.encode()).digest()


def parse_token(text: str) -> bytes:
    """The digest of a token from its hexadecimal.  Raises ValueError, which does not repeat the text."""
    if len(text) != 64 or not set(text) <= set(string.hexdigits):
        raise ValueError(NO_TOKEN)
    return bytes.fromhex(text)


def _verdict(user: User | None) -> r.Authenticated:
    if user is None:
        raise CommandFailed(Fault.BAD_CREDENTIALS)
    return r.Authenticated(user.principal, user.id)


def _scrypt(secret: str, log_n: int, r: int, p: int, salt: bytes, length: int) -> bytes:
    memory = _memory(log_n, r, p)
    return hashlib.scrypt(_octets(secret), salt=salt, n=1 << log_n, r=r, p=p, maxmem=memory, dklen=length)


def _memory(log_n: int, r: int, p: int) -> int:
    """Bytes that scrypt needs: N + P blocks of 128 R, and a few to spare (OpenSSL wants 2)."""
    return 128 * r * ((1 << log_n) + p + 4)


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
