"""One server, and the connections to it: those that all sessions share, and those that a session has for itself."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IStreamClientEndpoint

from gateway.backends.remote.lanes import Lane
from gateway.backends.remote.links import Link
from gateway.backends.remote.ways import Agreed, Unsent, Way
from gateway.core import commands as q
from gateway.core.commands import Session
from gateway.core.replies import Reply

SHARED = 4
"""Connections to a server that all sessions share."""


class Server:
    """endpoint: how it is dialed.  name: for people.  patient: see Link."""

    def __init__(self, way: Way, endpoint: IStreamClientEndpoint, name: str, *, patient: bool = True) -> None:
        self._way = way
        self._endpoint = endpoint
        self._name = name
        self._patient = patient
        self._closed = False
        self._agreed = Agreed()
        self._links = [self.dial() for _ in range(SHARED)]
        self._lanes: dict[Session, Lane] = {}
        self._leaving: list[Link] = []

    @property
    def idle(self) -> bool:
        """Nobody waits for anything, and nobody is a member by a connection to it."""
        return all(link.idle for link in [*self._links, *self._leaving]) and not any(
            lane.own for lane in self._lanes.values()
        )

    def ask(self, command: q.Command, session: Session, until: float) -> Deferred[Reply]:
        """Raises CommandFailed for what cannot be said, and where nothing is to be hoped for."""
        lane = self._lanes.get(session)
        if lane is None:
            lane = self._lanes[session] = Lane(self._way.dialect, self._shared(session), self.dial, self._leave)
        return lane.ask(command, until)

    def there(self, session: Session, until: float) -> Deferred[Reply]:
        """Done once there is a connection."""
        return self._shared(session).there(until)

    def dial(self) -> Link:
        """One more connection.  Raises Unsent if there are to be no more."""
        if self._closed:
            raise Unsent("the gateway is stopping")
        return Link(self._way, self._endpoint, self._name, self._agreed, patient=self._patient)

    def end(self, session: Session) -> None:
        """The session is over."""
        lane = self._lanes.pop(session, None)
        if lane is not None:
            lane.close()

    def sweep(self, now: float) -> None:
        """Deadlines; and connections that are not needed any more are closed once they have answered."""
        for link in [*self._links, *self._leaving]:
            link.sweep(now)
        for lane in list(self._lanes.values()):
            lane.sweep(now)
        self._leaving = [link for link in self._leaving if not link.left()]

    def close(self) -> None:
        """Hang up; whoever waits is told."""
        self._closed = True
        for lane in list(self._lanes.values()):
            lane.abandon()
        for link in [*self._links, *self._leaving]:
            link.close()

    def _shared(self, session: Session) -> Link:
        return self._links[session.id % SHARED]

    def _leave(self, link: Link) -> None:
        """Not needed any more, but for its answers."""
        if self._closed:
            link.close()
        elif not link.left():
            self._leaving.append(link)
