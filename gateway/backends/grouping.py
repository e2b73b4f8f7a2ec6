"""Consumer groups for the backends that coordinate them here: the coordinator, its clocks, and what is kept of it.

Heartbeats are answered at once.  A reply that speaks of a new generation waits until the store has it, and with it
every commit that was accepted before: so a member never starts where the one before it had not yet stopped.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from gateway.backends.fetching import after
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.changes import Change, GroupDeleted, PartitionCreated, PartitionDeleted, TopicDeleted
from gateway.core.commands import Session
from gateway.core.groups import Coordinator, Membership
from gateway.core.replies import Reply
from gateway.core.state import Group, State
from gateway.core.views import describe_group

Write = Callable[[q.Command | q.Regenerate, Session], Reply | Deferred[Reply]]

Look = Callable[..., Reply | Deferred[Reply]]
"""What carries out one type of command that only looks, or looks first: of the command and the session."""

_NOBODY = Session(0)
"""Whose writes the backend's own are."""


def four_digits() -> str:
    """What makes member names distinct, as Cursus writes it."""
    return f"{random.randrange(10_000):04d}"


class Grouping:
    """state: what readers may see.  write: how the backend writes.  now: the wall clock in us since the epoch.

    verbs: what is answered here, by command type.
    """

    _log = Logger()

    def __init__(
        self,
        state: State,
        clock: IReactorTime,
        now: Callable[[], int],
        write: Write,
        suffix: Callable[[], str] = four_digits,
    ) -> None:
        self._state = state
        self._clock = clock
        self._now = now
        self._write = write
        self._coordinator = Coordinator(state, suffix)
        self.verbs: dict[type, Look] = {
            q.JoinGroup: self._join,
            q.SyncGroup: self._sync,
            q.Heartbeat: self._heartbeat,
            q.LeaveGroup: self._leave,
            q.ListGroups: self._list,
            q.DescribeGroup: self._describe,
            q.EndSession: self._end,
        }

    def commit(self, command: q.CommitOffsets, session: Session) -> Reply | Deferred[Reply]:
        """A fenced commit: looked at now, in the order of everything else that is asked of the group."""
        self._coordinator.check(command, self._clock.seconds())
        return self._write(
            q.CommitOffsets(command.topic, command.reader, command.offsets, rising=command.rising), session
        )

    def turn(self, command: q.Fetch, session: Session) -> int | None:
        """The partition that a fetch without one is about: the next of this connection's own, None if it has none."""
        assert isinstance(command.start, q.Next), "only a group has turns"
        return self._coordinator.turn(command.topic, command.start.reader.name, session.id, self._clock.seconds())

    def changed(self, changes: list[Change]) -> None:
        """What is visible has changed: groups go with their topics, and are shared out anew when partitions come."""
        for change in changes:
            if isinstance(change, GroupDeleted):
                self._coordinator.forget(change.namespace, change.topic, change.name)
            elif isinstance(change, TopicDeleted):
                self._coordinator.forget(change.namespace, change.id)
        if any(isinstance(change, PartitionCreated | PartitionDeleted) for change in changes):
            self._save(self._coordinator.resized(self._clock.seconds()))

    def _join(self, command: q.JoinGroup, session: Session) -> Reply | Deferred[Reply]:
        if command.create and self._state.find(command.topic) is None:
            made = self._write(q.CreateTopic(command.topic, command.create, if_exists=q.IfExists.KEEP), session)
            return after(made, lambda: self._join_there(command, session))
        return self._join_there(command, session)

    def _join_there(self, command: q.JoinGroup, session: Session) -> Reply | Deferred[Reply]:
        joined, group = self._coordinator.join(command, session.id, self._clock.seconds())
        return self._settled(group, joined, session)

    def _sync(self, command: q.SyncGroup, session: Session) -> Reply | Deferred[Reply]:
        joined, group = self._coordinator.sync(command, self._clock.seconds())
        return self._settled(group, joined, session)

    def _heartbeat(self, command: q.Heartbeat, session: Session) -> Reply:
        self._coordinator.heartbeat(command, self._clock.seconds())
        return r.Done()

    def _leave(self, command: q.LeaveGroup, session: Session) -> Reply | Deferred[Reply]:
        group = self._coordinator.leave(command, self._clock.seconds())
        return self._settled(group, r.Done(), session)

    def _end(self, command: q.EndSession, session: Session) -> Reply:
        self._save(self._coordinator.end(session.id, self._clock.seconds()))
        return r.Done()

    def _list(self, command: q.ListGroups, session: Session) -> Reply:
        namespace = self._state.namespace(command.namespace)
        topics = namespace.topics.values()
        if command.topic is not None:
            topics = [self._state.topic(q.Topic(command.namespace, command.topic))]  # type: ignore[assignment]
        groups = [self._described(group) for topic in topics for group in topic.groups.values()]
        return r.Groups(tuple(sorted(groups, key=lambda group: (group.name, group.topic))))

    def _describe(self, command: q.DescribeGroup, session: Session) -> Reply:
        return self._described(self._state.group(command.topic, command.group))

    def _described(self, group: Group) -> r.GroupDescription:
        described = describe_group(group)
        now = self._clock.seconds()
        living = self._coordinator.living(group.topic, group.name, now)
        if living is None:
            return described
        wall = self._now()

        def at(seconds: float) -> int:
            return wall - int((now - seconds) * 1_000_000)

        members = tuple(
            r.MemberDescription(name, living.assignment[name], at(member.heard), member.session)
            for name, member in sorted(living.members.items())
        )
        return r.GroupDescription(
            *(described.namespace, described.topic, described.name, described.id),
            living.generation,
            described.partitions,
            members,
            at(living.rebalanced),
        )

    def _settled(self, group: Membership, reply: Reply, session: Session) -> Reply | Deferred[Reply]:
        """The reply, once the generation it speaks of is kept."""
        registered = group.topic.group(group.name)
        if registered is not None and registered.generation >= group.generation:
            return reply
        return after(self._write(_regenerate(group), session), lambda: reply)

    def _save(self, groups: list[Membership]) -> None:
        """Keep generations that nobody waits for."""
        for group in groups:
            kept = self._write(_regenerate(group), _NOBODY)
            if isinstance(kept, Deferred):
                kept.addErrback(lambda failure: self._log.warn("a generation was not kept: {failure}", failure=failure))


def _regenerate(group: Membership) -> q.Regenerate:
    topic = q.Topic(group.topic.namespace.id, group.topic.id)
    return q.Regenerate(topic, group.name, group.generation)
