"""The consumer-group coordinator of one node: who is a member, which generation it is, who owns which partition.

A pure machine: the clock is an argument (seconds that never go back) and so is the source of member names.  Members are
not kept over a restart; that a group exists, and its generation, are in the state.  Nobody needs a timer: whoever asks
about a group first drops the members that were silent for too long.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.deciding import check_name
from gateway.core.decisions import check_exclusive
from gateway.core.faults import CommandFailed, Fault
from gateway.core.state import State, Topic

Assignment = dict[str, tuple[int, ...]]

MAX_MEMBERS = 5_000
"""Of one group: half of the names that four digits make, so that a free one is found at once."""


class Member:
    """session: id of the connection it lives with, None = it lives by heartbeats.

    named: its name was made here, so nobody else goes by it.
    """

    __slots__ = ("heard", "named", "session", "timeout")

    def __init__(self, heard: float, timeout: float, session: int | None, named: bool) -> None:
        self.heard = heard
        self.timeout = timeout
        self.session = session
        self.named = named


class Membership:
    """The living part of one group.

    generation: of the assignment; the state follows.
    turns:      member -> how often it was given a partition to read.
    given:      member -> the partition that it was given last, as long as it owns it.
    """

    __slots__ = (
        *("assignment", "assignor", "generation", "given", "members", "name", "partitions", "rebalanced"),
        *("topic", "turns"),
    )

    def __init__(self, topic: Topic, name: str, generation: int) -> None:
        self.topic = topic
        self.name = name
        self.generation = generation
        self.assignor = "range"
        self.members: dict[str, Member] = {}
        self.assignment: Assignment = {}
        self.turns: dict[str, int] = {}
        self.given: dict[str, int] = {}
        self.partitions = 0
        self.rebalanced = 0.0


def assign_range(members: list[str], partitions: int) -> Assignment:
    """Contiguous blocks; the first members get one more where it does not come out even."""
    share, extra = divmod(partitions, len(members))
    owned, at = {}, 0
    for index, member in enumerate(members):
        end = at + share + (index < extra)
        owned[member] = tuple(range(at, end))
        at = end
    return owned


def assign_round_robin(members: list[str], partitions: int) -> Assignment:
    """Partition p goes to member p modulo their number."""
    return {member: tuple(range(index, partitions, len(members))) for index, member in enumerate(members)}


ASSIGNORS: dict[str, Callable[[list[str], int], Assignment]] = {
    "range": assign_range,
    "round_robin": assign_round_robin,
}


class Coordinator:
    """Every group of a state.

    state:  where topics and registered groups are looked up; never changed here.
    suffix: makes member names distinct, e.g. four random digits.
    """

    def __init__(self, state: State, suffix: Callable[[], str]) -> None:
        self._state = state
        self._suffix = suffix
        self._groups: dict[tuple[Topic, str], Membership] = {}
        self._sessions: dict[int, set[Membership]] = {}

    # -- commands.  now: seconds of a clock that never goes back

    def join(self, command: q.JoinGroup, session: int, now: float) -> tuple[r.Joined, Membership]:
        """Become or stay a member.  The group's generation has risen if that changed anything.

        Raises CommandFailed: NO_SUCH_TOPIC, NO_SUCH_GROUP, OTHER_TOPIC, INVALID_ARGUMENT, BUSY.
        """
        group = self._enter(command, now)
        bound = isinstance(command.liveness, q.WhileConnected)
        name = self._member_name(group, command, session if bound else None)
        known = group.members.get(name)
        assignor = command.assignor or group.assignor
        if assignor not in ASSIGNORS:
            raise CommandFailed(Fault.INVALID_ARGUMENT, f"assignors are {', '.join(ASSIGNORS)}")
        resumed = known is not None and command.resume == group.generation
        timeout = 0.0 if isinstance(command.liveness, q.WhileConnected) else command.liveness.timeout
        named = command.distinct if known is None else known.named
        group.members[name] = Member(now, timeout, session if bound else None, named)
        if bound:
            self._sessions.setdefault(session, set()).add(group)
        if known is None or assignor != group.assignor:
            group.assignor = assignor
            self._rebalance(group, now)
        return self._joined(group, name, resumed), group

    def sync(self, command: q.SyncGroup, now: float) -> tuple[r.Joined, Membership]:
        """What is assigned to a member.  Raises CommandFailed: NO_SUCH_GROUP, NOT_A_MEMBER, STALE_GENERATION."""
        group = self._heard(command, now)
        return self._joined(group, command.member, False), group

    def heartbeat(self, command: q.Heartbeat, now: float) -> r.Done:
        """A member lives.  Raises as `sync` does."""
        self._heard(command, now)
        return r.Done()

    def leave(self, command: q.LeaveGroup, session: int, now: float) -> Membership:
        """A member goes.  One that says its generation goes by the name it has in it.  Raises as `sync` does."""
        group = self._found(command.topic, command.group, now)
        if not command.member:
            name = _own(group, session)
        elif command.generation is None:
            name = self._leaving(group, command.member)
        else:
            name = command.member
            _check_member(group, name)
        if command.generation is not None:
            _check_generation(group, name, command.generation)
        self._drop(group, [name], now)
        return group

    def check(self, command: q.CommitOffsets, now: float) -> None:
        """Whether a fenced commit may be made.  Raises as `sync` does, and NOT_OWNER."""
        assert command.member is not None, "only a fenced commit is checked"
        group = self._found(command.topic, command.reader.name, now)
        _check_member(group, command.member)
        _check_generation(group, command.member, command.generation or 0)
        for partition in command.offsets:
            assert partition is not None, "`held` says which partition that is"
            if partition not in group.assignment[command.member]:
                raise CommandFailed(
                    Fault.NOT_OWNER, partition=partition, member=command.member, generation=group.generation
                )

    def end(self, session: int, now: float) -> list[Membership]:
        """A connection is gone, and the members that lived with it.  Returns the groups that changed."""
        changed = []
        for group in self._sessions.pop(session, set()):
            gone = [name for name, member in group.members.items() if member.session == session]
            if gone and self._groups.get((group.topic, group.name)) is group:
                self._drop(group, gone, now)
                changed.append(group)
        return changed

    def turn(self, topic: q.Topic, name: int | str, session: int, now: float, again: int | None = None) -> int | None:
        """The next of the partitions that this connection's member owns, None if it owns none.

        again: one that it was given before, to have it once more if it still owns it.
        Raises CommandFailed: NO_SUCH_GROUP, NOT_A_MEMBER.
        """
        group = self._found(topic, name, now)
        member = _own(group, session)
        owned = group.assignment[member]
        if not owned:
            return None
        if again not in owned:
            turn = group.turns.get(member, 0)
            group.turns[member] = turn + 1
            again = owned[turn % len(owned)]
        group.given[member] = again
        return again

    def held(self, topic: q.Topic, name: int | str, session: int, now: float) -> int:
        """The partition that `turn` gave last.

        Raises as `turn` does, and NO_SUCH_PARTITION if it gave none, or one that the member has lost since: what was
        read there must not count for another partition, and its new owner reads it again.
        """
        group = self._found(topic, name, now)
        given = group.given.get(_own(group, session))
        if given is None:
            raise CommandFailed(Fault.NO_SUCH_PARTITION, "none was read yet", partition=0, partitions=group.partitions)
        return given

    def memberships(self, session: int | None) -> list[tuple[int, Membership]]:
        """(session, group) of every member that lives with a connection, or with this one; in any order."""
        groups = self._groups.values() if session is None else self._sessions.get(session, ())
        found = {
            (member.session, group)
            for group in groups
            if self._groups.get((group.topic, group.name)) is group  # else it was deleted, and may have come again
            for member in group.members.values()
            if member.session is not None and session in (None, member.session)
        }
        return list(found)

    def resized(self, now: float) -> list[Membership]:
        """Topics have more partitions or fewer.  Returns the groups that changed for it."""
        changed = [
            group
            for group in self._groups.values()
            if group.members and group.partitions != len(group.topic.partitions)
        ]
        for group in changed:
            self._rebalance(group, now)
        return changed

    def forget(self, namespace: int, topic: int, name: str | None = None) -> None:
        """A group of the topic, both by id, is gone; None = all of them, with the topic."""
        for key in list(self._groups):
            at, group = key
            if (at.namespace.id, at.id) == (namespace, topic) and name in (None, group):
                del self._groups[key]

    def living(self, topic: Topic, name: str, now: float) -> Membership | None:
        """The living part of a group, None if nobody joined it since the start."""
        group = self._groups.get((topic, name))
        if group is not None:
            self._expire(group, now)
        return group

    # -- finding

    def _enter(self, command: q.JoinGroup, now: float) -> Membership:
        topic = self._state.topic(command.topic)
        registered = topic.group(command.group)
        if registered is None and command.existing:
            raise CommandFailed(Fault.NO_SUCH_GROUP, str(command.group))
        if registered is None and command.exclusive:
            check_exclusive(topic, str(command.group))
        name = str(command.group) if registered is None else registered.name
        check_name(name)
        group = self._groups.get((topic, name))
        if group is None:
            generation = 0 if registered is None else registered.generation
            group = self._groups[topic, name] = Membership(topic, name, generation)
        self._expire(group, now)
        return group

    def _found(self, topic: q.Topic, name: int | str, now: float) -> Membership:
        at = self._state.find(topic) if topic.name else None
        group = None if at is None else self._groups.get((at, str(name)))
        if group is None:  # else it may be too young to be registered yet
            found = self._state.group(topic, name)
            group = self._groups.get((found.topic, found.name))
        if group is None:
            group = self._groups[found.topic, found.name] = Membership(found.topic, found.name, found.generation)
        self._expire(group, now)
        return group

    def _heard(self, command: q.SyncGroup | q.Heartbeat, now: float) -> Membership:
        group = self._found(command.topic, command.group, now)
        _check_member(group, command.member)
        group.members[command.member].heard = now
        _check_generation(group, command.member, command.generation)
        return group

    # -- changing

    def _member_name(self, group: Membership, command: q.JoinGroup, session: int | None) -> str:
        """A member that joins again under the name it was given is the same one: the clients of Python do, and if
        each time another came of it, two of them would take the generation from each other for ever.
        """
        wanted = command.member
        if not wanted and session is not None and (own := _bound(group, session)) is not None:
            return own
        known = group.members.get(wanted)
        if known is not None and (known.named or command.resume is not None or not command.distinct):
            return wanted
        if len(group.members) >= MAX_MEMBERS:
            raise CommandFailed(Fault.BUSY, f"the group has {MAX_MEMBERS} members")
        if wanted and not command.distinct:
            return wanted
        while (name := f"{wanted or 'member'}-{self._suffix()}") in group.members:
            pass
        return name

    def _leaving(self, group: Membership, wanted: str) -> str:
        """The member of that name, or else the newest that was made distinct from it."""
        if wanted in group.members:
            return wanted
        made = [name for name, at in group.members.items() if at.named and name.rpartition("-")[0] == wanted]
        if not made:
            raise CommandFailed(Fault.NOT_A_MEMBER, member=wanted)
        return made[-1]

    def _expire(self, group: Membership, now: float) -> None:
        gone = [name for name, at in group.members.items() if at.session is None and now - at.heard > at.timeout]
        if gone:
            self._drop(group, gone, now)

    def _drop(self, group: Membership, names: list[str], now: float) -> None:
        for name in names:
            del group.members[name]
            group.turns.pop(name, None)
        self._rebalance(group, now)

    def _rebalance(self, group: Membership, now: float) -> None:
        members = sorted(group.members)
        group.partitions = len(group.topic.partitions)
        group.assignment = ASSIGNORS[group.assignor](members, group.partitions) if members else {}
        group.given = {name: at for name, at in group.given.items() if at in group.assignment.get(name, ())}
        group.generation += 1
        group.rebalanced = now

    def _joined(self, group: Membership, name: str, resumed: bool) -> r.Joined:
        return r.Joined(name, group.generation, group.assignment[name], resumed)


def _bound(group: Membership, session: int) -> str | None:
    return next((name for name, at in group.members.items() if at.session == session), None)


def _own(group: Membership, session: int) -> str:
    member = _bound(group, session)
    if member is None:
        raise CommandFailed(Fault.NOT_A_MEMBER, member=str(session))
    return member


def _check_member(group: Membership, name: str) -> None:
    if name not in group.members:
        raise CommandFailed(Fault.NOT_A_MEMBER, member=name)


def _check_generation(group: Membership, name: str, generation: int) -> None:
    if generation != group.generation:
        raise CommandFailed(Fault.STALE_GENERATION, current=group.generation, requested=generation, member=name)
