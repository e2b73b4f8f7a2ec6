"""Consumer groups for the backends that coordinate them here: the coordinator, its clocks, and what is kept of it.

Heartbeats are answered at once.  A reply that speaks of a new generation waits until the store has it, and with it
every commit that was accepted before: so a member never starts where the one before it had not yet stopped.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from gateway.backends.fetching import after
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.changes import Appended, Change, GroupDeleted, PartitionCreated, PartitionDeleted, TopicDeleted
from gateway.core.commands import Session, Written
from gateway.core.faults import CommandFailed, Fault
from gateway.core.groups import Coordinator, Membership
from gateway.core.replies import Reply
from gateway.core.state import Group, State
from gateway.core.views import answer, describe_group

Write = Callable[[Written, Session], Reply | Deferred[Reply]]

Look = Callable[..., Reply | Deferred[Reply]]
"""What carries out one type of command that only looks, or looks first: of the command and the session."""

_NOBODY = Session(0)
"""Whose writes the backend's own are."""

_SET = 1_000_000
"""us by which the wall clock may part from ours before it counts as set: two clocks are never read at once."""


def concerns_members(command: q.Command) -> bool:
    """Whether a write needs whoever knows the members: a commit that is fenced, or names no partition."""
    match command:
        case q.CommitOffsets():
            return command.member is not None or None in command.offsets
        case q.DeleteOffsets():
            return None in command.partitions
    return False


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
        self._zero = now() - int(clock.seconds() * 1_000_000)
        self._write = write
        self._coordinator = Coordinator(state, suffix)
        self.verbs: dict[type, Look] = {
            q.JoinGroup: self._join,
            q.SyncGroup: self._sync,
            q.Heartbeat: self._heartbeat,
            q.LeaveGroup: self._leave,
            q.ListGroups: self._list,
            q.DescribeGroup: self._describe,
            q.ListMemberships: self._memberships,
            q.EndSession: self._end,
            q.CommitOffsets: self.commit,
            q.FetchOffsets: self._committed,
            q.DeleteOffsets: self._forget,
        }

    def commit(self, command: q.CommitOffsets, session: Session) -> Reply | Deferred[Reply]:
        """A commit; one that is fenced, or of the partition held, in order with all the group is asked."""
        return self._write(self.resolved(command, session) if concerns_members(command) else command, session)

    def resolved(self, command: q.CommitOffsets, session: Session) -> q.CommitOffsets:
        """The commit as it is to be written, which concerns no members.  Raises CommandFailed if it may not be."""
        if None in command.offsets:
            offsets = {self._held(command, session) if at is None else at: next for at, next in command.offsets.items()}
            command = msgspec.structs.replace(command, offsets=offsets)
        if command.member is not None:
            self._coordinator.check(command, self._clock.seconds())
        return msgspec.structs.replace(command, member=None, generation=None)

    def turn(self, command: q.Fetch, session: Session, again: int | None = None) -> int | None:
        """The partition that a fetch without one is about: the next of this connection's own, None if it has none.

        again: the one it was about before, which it stays with as long as it can.
        """
        group = command.read_by
        if not isinstance(group, q.Group):
            raise CommandFailed(Fault.INVALID_ARGUMENT, "only a group has turns")
        return self._coordinator.turn(command.topic, group.name, session.id, self._clock.seconds(), again)

    def changed(self, changes: list[Change]) -> None:
        """What is visible has changed: groups go with their topics, and are shared out anew when partitions come."""
        resized = False
        for change in changes:
            if type(change) is Appended:  # nearly all are
                continue
            if isinstance(change, GroupDeleted):
                self._coordinator.forget(change.namespace, change.topic, change.name)
            elif isinstance(change, TopicDeleted):
                self._coordinator.forget(change.namespace, change.id)
            resized = resized or isinstance(change, PartitionCreated | PartitionDeleted)
        if resized:
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
        group = self._coordinator.leave(command, session.id, self._clock.seconds())
        return self._settled(group, r.Done(), session)

    def _end(self, command: q.EndSession, session: Session) -> Reply:
        self._save(self._coordinator.end(session.id, self._clock.seconds()))
        return r.Done()

    # -- offsets of the partition that a member was last given

    def _held(self, command: q.CommitOffsets | q.FetchOffsets | q.DeleteOffsets, session: Session) -> int:
        if not isinstance(command.reader, q.Group):
            raise CommandFailed(Fault.INVALID_ARGUMENT, "only a member of a group is given partitions")
        return self._coordinator.held(command.topic, command.reader.name, session.id, self._clock.seconds())

    def _forget(self, command: q.DeleteOffsets, session: Session) -> Reply | Deferred[Reply]:
        partitions = tuple(self._held(command, session) if at is None else at for at in command.partitions)
        return self._write(msgspec.structs.replace(command, partitions=partitions), session)

    def _committed(self, command: q.FetchOffsets, session: Session) -> Reply:
        if command.partitions is not None and None in command.partitions:
            partitions = tuple(self._held(command, session) if at is None else at for at in command.partitions)
            command = msgspec.structs.replace(command, partitions=partitions)
        return answer(self._state, command)

    def _memberships(self, command: q.ListMemberships, session: Session) -> Reply:
        found = []
        for id, group in self._coordinator.memberships(command.session):
            topic, registered = group.topic, group.topic.group(group.name)
            if registered is not None:
                found.append((id, topic.namespace.id, topic.id, registered.id))
        return r.Memberships(tuple(r.MembershipDescription(*ids) for ids in sorted(found)))

    # -- groups

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
        living = self._coordinator.living(group.topic, group.name, self._clock.seconds())
        if living is None:
            return described
        members = tuple(
            r.MemberDescription(name, living.assignment[name], self._wall(member.heard), member.session)
            for name, member in sorted(living.members.items())
        )
        return r.GroupDescription(
            *(described.namespace, described.topic, described.name, described.id),
            living.generation,
            described.partitions,
            members,
            self._wall(living.rebalanced),
        )

    def _wall(self, seconds: float) -> int:
        """That time of our clock as the wall's has it, in us: the same each time, unless somebody set that one."""
        zero = self._now() - int(self._clock.seconds() * 1_000_000)
        if abs(zero - self._zero) > _SET:
            self._zero = zero
        return self._zero + int(seconds * 1_000_000)

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
