"""Who is connected: the session table, and the commands that are about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from twisted.internet.defer import Deferred, fail, succeed
from twisted.python.failure import Failure

from gateway.backends.interface import IBackend
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Reply
from gateway.net.access import Guarded

Verb = Callable[..., Reply | Deferred[Reply]]
"""What carries out one type of command: of the command and the session that asks."""

Groups = dict[int, tuple[r.MembershipDescription, ...]]
"""The memberships of each session, by its id."""


class Roster:
    """The sessions of one process, oldest first.

    backend: knows what the sessions are members of; access rules before it hold here too.
    look:    says how the process is.
    verbs:   what is answered here, by command type.
    """

    def __init__(self, backend: IBackend, look: Callable[[], r.ProcessDescription]) -> None:
        self._backend = backend
        self._guard = backend if isinstance(backend, Guarded) else None
        self._book = backend.behind if isinstance(backend, Guarded) else backend
        self._look = look
        self._sessions: dict[int, Session] = {}
        self._issued = 0
        self.verbs: Mapping[type, Verb] = {
            q.Describe: self._node,
            q.ListSessions: self._list,
            q.DescribeSession: self._describe,
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

    def _node(self, command: q.Describe, session: Session) -> Deferred[Reply]:
        return _ask(self._backend, command, session).addCallback(self._with_process)

    def _with_process(self, reply: Reply) -> Reply:
        assert isinstance(reply, r.NodeDescription), "it is what Describe is answered with"
        return msgspec.structs.replace(reply, sessions=len(self), process=self._look())

    def _list(self, command: q.ListSessions, session: Session) -> Deferred[Reply]:
        self._permit(command, session)
        return self._groups(None, session).addCallback(
            lambda groups: r.Sessions(tuple(_described(each, groups) for each in self._sessions.values()))
        )

    def _describe(self, command: q.DescribeSession, session: Session) -> Deferred[Reply]:
        asked = session.id if command.session is None else command.session
        if asked != session.id:  # everybody may know who he is
            self._permit(command, session)
        found = self._sessions.get(asked)
        if found is None:
            raise CommandFailed(Fault.NO_SUCH_SESSION, str(command.session))
        return self._groups(found.id, session).addCallback(lambda groups: _described(found, groups))

    def _permit(self, command: q.Command, session: Session) -> None:
        if self._guard is not None:
            self._guard.permit(type(command).__name__, session)

    def _groups(self, of: int | None, session: Session) -> Deferred[Groups]:
        return _ask(self._book, q.ListMemberships(of), session).addCallbacks(_by_session, _none_known)


def _ask(backend: IBackend, command: q.Command, session: Session) -> Deferred[Reply]:
    try:
        answer = backend.execute(command, session)
    except CommandFailed:
        return fail()
    return answer if isinstance(answer, Deferred) else succeed(answer)


def _by_session(reply: Reply) -> Groups:
    assert isinstance(reply, r.Memberships), "it is what ListMemberships is answered with"
    found: dict[int, list[r.MembershipDescription]] = {}
    for membership in reply.memberships:
        found.setdefault(membership.session, []).append(membership)
    return {session: tuple(memberships) for session, memberships in found.items()}


def _none_known(failure: Failure) -> Groups:
    """A backend that keeps no such book has no members that live with their connection."""
    if isinstance(failure.value, CommandFailed) and failure.value.fault is Fault.UNSUPPORTED:
        return {}
    failure.raiseException()


def _described(session: Session, groups: Groups) -> r.SessionDescription:
    return r.SessionDescription(
        session.id,
        session.dialect,
        session.listener,
        session.peer,
        session.principal,
        session.opened,
        groups.get(session.id, ()),
        session.user,
    )
