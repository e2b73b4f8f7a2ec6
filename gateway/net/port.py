"""What all connections of a process share: the backend, the roster, one timer, one turn to write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from gateway.backends.interface import IBackend
from gateway.core.replies import Authenticated
from gateway.net.attempts import Attempts
from gateway.net.limits import Limits, Rates
from gateway.net.meters import Faults
from gateway.net.roster import Roster
from gateway.net.tapping import Taps
from gateway.net.users import Users
from gateway.net.vitals import Vitals
from gateway.net.watch import Watch

if TYPE_CHECKING:
    from gateway.net.server import Connection

SWEEP_SECONDS = 1.0
"""How often connections look at their deadlines: one timer for all of them."""


class Port:
    """What the connections of one process share.

    backend: carries the commands out.  immediate: most small reads at once.
    clock:   never goes back; time-outs run on it.
    limits:  how much one may take.  rates: who has asked how often, None = that does not matter.
    users:   who may log in; None = nobody was named.  principals: name of a certificate -> whose it is.
    attempts: wrong logins, by where they came from.
    faults:  the last commands that failed.  taps: who looks at what crosses connections.
    watch:   which connections have something to wait for.
    """

    def __init__(
        self, backend: IBackend, clock: IReactorTime, limits: Limits | None = None, users: Users | None = None
    ) -> None:
        self.backend = backend
        self.immediate: bool = getattr(backend, "immediate", False)
        self.clock = clock
        self.limits = limits or Limits()
        self.rates = Rates(self.limits.requests_per_second) if self.limits.requests_per_second else None
        self.users = Users() if users is None else users
        self.principals: Mapping[str, str] = {}
        self.roster = Roster(backend, Vitals().look)
        self.connections: set[Connection] = set()
        self.watch = Watch()
        self.attempts = Attempts()
        self.faults = Faults()
        self.taps = Taps(lambda: self.connections)
        self.draining = False
        self._dirty: list[Connection] = []
        self._held = False
        bursts = getattr(backend, "bursts", None)
        if bursts is not None:
            bursts.begin, bursts.end = self._hold, self._release
        self._idle: list[Deferred[None]] = []

    def named(self, certificate: str) -> Authenticated | None:
        """Whose certificate has that name, None = nobody's."""
        return self.users.named(self.principals.get(certificate, ""))

    def touch(self, connection: Connection) -> None:
        """The connection has bytes to send; they leave once everything that is ready now is in them.

        A commit answers many calls of many connections: each of these gets one write.
        """
        if not self._dirty and not self._held:
            self.clock.callLater(0, self._settle)
        self._dirty.append(connection)

    def sweep(self) -> None:
        """Time has passed.  Ten thousand connections that say nothing are not looked at: they cost 1.3 us each."""
        now = self.clock.seconds()
        for connection in self.watch.take(now):
            connection.tick(now)

    def drain(self) -> Deferred[None]:
        """Start nothing new; fires when every connection has its answers and is gone."""
        self.draining = True
        drained: Deferred[None] = Deferred()
        self._idle.append(drained)
        for connection in list(self.connections):
            connection.drain()
        self.gone()
        return drained

    def abort(self) -> None:
        """Hang up on everybody."""
        for connection in list(self.connections):
            connection.abort()

    def gone(self) -> None:
        """A connection ended."""
        if self._idle and not self.connections:
            idle, self._idle = self._idle, []
            for drained in idle:
                drained.callback(None)

    def _hold(self) -> None:
        """Answers come that came together."""
        self._held = not self._dirty  # else they leave with what is to leave anyhow

    def _release(self) -> None:
        if self._held:
            self._held = False
            self._settle()

    def _settle(self) -> None:
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            connection.settle()
