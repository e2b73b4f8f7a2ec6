"""Who is connected: the session table, and the commands that are about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Reply


class Roster:
    """The sessions of one process, oldest first.

    verbs: what is answered here and never reaches a backend, by command type.
    """

    def __init__(self) -> None:
        self._sessions: dict[int, Session] = {}
        self._issued = 0
        self.verbs: Mapping[type, Callable[..., Reply]] = {
            q.ListSessions: self._list,
            q.DescribeSession: self._describe,
            q.Authenticate: self._authenticate,
        }

    def enter(self, dialect: str, listener: str, peer: str, opened: int) -> Session:
        """A connection was made at `opened`, us since the epoch."""
        self._issued += 1
        session = Session(self._issued, dialect, listener=listener, peer=peer, opened=opened)
        self._sessions[session.id] = session
        return session

    def leave(self, session: Session) -> None:
        """The connection is gone."""
        del self._sessions[session.id]

    def __len__(self) -> int:
        return len(self._sessions)

    def _list(self, command: q.ListSessions, session: Session) -> r.Sessions:
        return r.Sessions(tuple(_described(session) for session in self._sessions.values()))

    def _describe(self, command: q.DescribeSession, session: Session) -> r.SessionDescription:
        found = self._sessions.get(session.id if command.session is None else command.session)
        if found is None:
            raise CommandFailed(Fault.NO_SUCH_SESSION, str(command.session))
        return _described(found)

    def _authenticate(self, command: q.Authenticate, session: Session) -> r.Authenticated:
        """Without a user store everybody is who they say; the gateway listens on loopback only then."""
        session.principal = command.principal
        return r.Authenticated(command.principal, 1)


def _described(session: Session) -> r.SessionDescription:
    return r.SessionDescription(
        session.id, session.dialect, session.listener, session.peer, session.principal, session.opened
    )
