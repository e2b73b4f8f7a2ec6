"""Logging in and out on one connection, and what stays shut to those who have not."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Literal, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Reply
from gateway.dialects import ServerSession
from gateway.net.attempts import LONGEST, Attempts, origin
from gateway.net.roster import Verb
from gateway.net.users import Users

Auth = Literal["none", "optional", "required"]
"""none: whoever logs in is believed.  optional: who logs in must be right, and who does not is nobody and may do
everything.  required: nobody may do anything before a login was right, but for OPEN."""

OPEN = frozenset({q.Ping, q.Authenticate})
"""What needs no login."""

Judge = Callable[[q.Authenticate], r.Authenticated | Deferred[r.Authenticated]]
"""Who that is; CommandFailed if it is nobody."""

T = TypeVar("T")


def choose_judge(users: Callable[[], Users], auth: Auth, development: tuple[str, str] | None, loopback: bool) -> Judge:
    """What judges the logins of a connection.

    Users who were named alone count, those of the time of the login.  Where none was, it is the development user of the
    dialect, from this machine only; where the dialect has none either, everybody is believed.
    """
    accepted = development if loopback else None

    def judge(command: q.Authenticate) -> r.Authenticated | Deferred[r.Authenticated]:
        known = users()
        if auth != "none" and known:
            return known.check(command)
        if auth == "none" or development is None:
            return known.believe(command)
        if accepted is None or command.mechanism != "plain" or not _same((command.principal, command.secret), accepted):
            raise CommandFailed(Fault.BAD_CREDENTIALS)
        return r.Authenticated(command.principal, 1)

    return judge


class Login:
    """Who the peer of one connection is.

    session: knows what kind of client that is.
    running: the check that is under way; what was asked behind it waits.
    verbs:   what is answered here, by command type.
    """

    def __init__(
        self, who: Session, judge: Judge, session: ServerSession, attempts: Attempts, clock: IReactorTime
    ) -> None:
        self.running: Deferred[r.Authenticated] | None = None
        self.verbs: dict[type, Verb] = {q.Authenticate: self._authenticate, q.Logout: self._logout}
        self._who = who
        self._judge = judge
        self._session = session
        self._attempts = attempts
        self._clock = clock
        self._address = origin(who.peer)
        self._told = False

    def barrier(self, command: q.Command) -> None:
        """Raises CommandFailed(UNAUTHENTICATED) for a command that needs a login, while there is none."""
        if self._who.principal is not None or type(command) in OPEN:
            return
        if not self._told:
            self._told = True
            self._session.tell(f"refused, {self._session.stranger()}")
        raise CommandFailed(Fault.UNAUTHENTICATED)

    def cancel(self) -> None:
        """Nobody waits for the check any more."""
        if self.running is not None:
            self.running.cancel()

    def proven(self, command: q.Authenticate) -> bool:
        """Whether that is who is logged in already."""
        return self._who.principal == command.principal

    def _authenticate(self, command: q.Authenticate, session: Session) -> Reply | Deferred[Reply]:
        """Fails with BAD_CREDENTIALS, and with BUSY where so many came from there that it was not looked at."""
        delay = self._attempts.delay(self._address, self._clock.seconds())
        if delay > LONGEST or self._attempts.crowded(self._address):
            raise CommandFailed(Fault.BUSY, "too many logins from there")
        try:
            judged = self._wait(command, delay) if delay else self._judge(command)
        except CommandFailed as failure:
            raise self._refused(failure, command) from None
        if not isinstance(judged, Deferred):
            return self._enter(judged)
        self.running = judged
        self._attempts.begun(self._address)
        judged.addBoth(self._checked, command)
        return judged.addCallback(self._enter)

    def _wait(self, command: q.Authenticate, delay: float) -> Deferred[r.Authenticated]:
        waited: Deferred[None] = deferLater(self._clock, delay)
        return waited.addCallback(lambda none: self._judge(command))

    def _checked(self, result: T, command: q.Authenticate) -> T:
        self.running = None
        self._attempts.ended(self._address)
        if isinstance(result, Failure) and isinstance(result.value, CommandFailed):
            self._refused(result.value, command)
        return result

    def _refused(self, failure: CommandFailed, command: q.Authenticate) -> CommandFailed:
        if failure.fault is Fault.BAD_CREDENTIALS:
            self._attempts.failed(self._address, self._clock.seconds())
            who = f"as {command.principal[:64]!r}" if command.principal else f"by {command.mechanism[:16]}"
            self._session.tell(f"a login {who} was refused")
        return failure

    def _enter(self, proved: r.Authenticated) -> Reply:
        self._attempts.passed(self._address)
        self._who.principal, self._who.user = proved.principal, proved.id
        return proved

    def _logout(self, command: q.Logout, session: Session) -> Reply:
        self._who.principal, self._who.user = None, 0
        return r.Done()


def _same(given: tuple[str, str], wanted: tuple[str, str]) -> bool:
    """Whether they are equal, in a time that does not tell where they differ."""
    pairs = zip(given, wanted, strict=True)
    return all([hmac.compare_digest(*(text.encode("utf-8", "surrogatepass") for text in pair)) for pair in pairs])
