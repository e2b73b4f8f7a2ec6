"""The members that one group has in this process: their names, what each was given, and who has been silent.

Pure: it knows neither Kafka nor a clock.  Partitions are Kafka's to give; a member is in a generation once its place in
Kafka's group is, and in none while the group is shared out anew.  The rules of names are those of core.groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault

S = TypeVar("S")

MAX_TRIES = 100
"""At a name that nobody has."""


class Member(Generic[S]):
    """One member.  seat: its place in Kafka's group.

    heard:      when it last was, by whoever drives this.
    timeout:    seconds that it may be silent.
    session:    id of the connection it lives with, None = it lives by heartbeats.
    named:      its name was made here, so nobody else goes by it.
    generation: of the assignment, 0 = it never had one.
    settled:    it is in that generation now.
    given:      the partition it was given last to read, as long as it owns it.
    gone:       it has left.
    bury:       called with an id that Kafka may wait for in vain.
    trouble:    why it is not in the group, as far as that is known; hopeless: and it will not be.
    """

    __slots__ = (
        *("assignment", "generation", "given", "gone", "heard", "hopeless", "name", "named", "seat", "session"),
        *("_turn", "_waiting", "bury", "settled", "timeout", "trouble"),
    )

    def __init__(self, name: str, seat: S, named: bool, bury: Callable[[str], None] = lambda kafka: None) -> None:
        self.name = name
        self.seat = seat
        self.named = named
        self.bury = bury
        self.session: int | None = None
        self.heard = 0.0
        self.timeout = 0.0
        self.generation = 0
        self.assignment: tuple[int, ...] = ()
        self.settled = False
        self.given: int | None = None
        self.gone = False
        self.trouble: CommandFailed | None = None
        self.hopeless = False
        self._waiting: list[Callable[[], None]] = []
        self._turn = 0

    # -- what becomes of its place

    def assigned(self, generation: int, partitions: tuple[int, ...]) -> None:
        """The group has settled."""
        self.generation, self.assignment, self.settled = generation, partitions, True
        self.trouble, self.hopeless = None, False
        if self.given not in partitions:
            self.given = None
        self._tell()

    def revoked(self) -> None:
        """It owns nothing until it is assigned again."""
        self.assignment, self.settled = (), False

    def lost(self, kafka: str) -> None:
        """Kafka may still wait for it under that id."""
        self.bury(kafka)

    def failed(self, failure: CommandFailed, hopeless: bool) -> None:
        """It is not in the group, or not for long.  hopeless: and nobody needs to wait for it."""
        if not self.settled:
            self.trouble, self.hopeless = failure, hopeless
            if hopeless:
                self._tell()

    def left(self) -> None:
        """It is no member any more."""
        self.assignment, self.settled, self.gone = (), False, True
        self._tell()

    def wait(self, tell: Callable[[], None]) -> None:
        """Be told once: that it is settled, or will not be."""
        self._waiting.append(tell)

    @property
    def waited_for(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        for tell in waiting:
            tell()

    # -- what it asks

    def check(self, generation: int) -> None:
        """Whether that is its generation.  Raises CommandFailed(STALE_GENERATION).

        While the group is shared out anew it is in the next one already: so it comes and joins again.
        """
        current = self.generation if self.settled else self.generation + 1
        if generation != current or not self.settled:
            raise CommandFailed(Fault.STALE_GENERATION, current=current, requested=generation, member=self.name)

    def check_owns(self, partition: int) -> None:
        """Raises CommandFailed(NOT_OWNER)."""
        if partition not in self.assignment:
            raise CommandFailed(Fault.NOT_OWNER, partition=partition, member=self.name, generation=self.generation)

    def turn(self, again: int | None) -> int | None:
        """The next of its partitions, None if it has none.  again: one to have once more if it is still its own."""
        if not self.assignment:
            return None
        if again not in self.assignment:
            again = self.assignment[self._turn % len(self.assignment)]
            self._turn += 1
        self.given = again
        return again

    def held(self, partitions: int) -> int:
        """The partition that `turn` gave last.  Raises CommandFailed(NO_SUCH_PARTITION)."""
        if self.given is None or self.given not in self.assignment:
            raise CommandFailed(Fault.NO_SUCH_PARTITION, "none was read yet", partition=0, partitions=partitions)
        return self.given


class Party(Generic[S]):
    """All members of one group here, by name.  suffix: makes names distinct, e.g. four random digits."""

    def __init__(self, suffix: Callable[[], str]) -> None:
        self.members: dict[str, Member[S]] = {}
        self._suffix = suffix

    def __iter__(self) -> Iterator[Member[S]]:
        return iter(list(self.members.values()))

    def member(self, name: str) -> Member[S]:
        """By name.  Raises CommandFailed(NOT_A_MEMBER)."""
        found = self.members.get(name)
        if found is None:
            raise CommandFailed(Fault.NOT_A_MEMBER, member=name)
        return found

    def bound(self, session: int) -> Member[S]:
        """The one that lives with a connection.  Raises CommandFailed(NOT_A_MEMBER)."""
        for member in self.members.values():
            if member.session == session:
                return member
        raise CommandFailed(Fault.NOT_A_MEMBER, member=str(session))

    def name_for(self, command: q.JoinGroup, session: int) -> str:
        """The name that who joins is a member by: one of `members`, or a new one."""
        wanted = command.member
        if not wanted and isinstance(command.liveness, q.WhileConnected):
            for member in self.members.values():
                if member.session == session:
                    return member.name
        known = self.members.get(wanted)
        if known is not None and (known.named or command.resume is not None or not command.distinct):
            return wanted
        if wanted and not command.distinct:
            return wanted
        for _ in range(MAX_TRIES):
            if (name := f"{wanted or 'member'}-{self._suffix()}") not in self.members:
                return name
        raise CommandFailed(Fault.BUSY, "every name is taken")

    def leaving(self, command: q.LeaveGroup, session: int) -> Member[S]:
        """Who goes.  One that says its generation goes by the name it has in it, else by that or what it was made of.

        Raises CommandFailed: NOT_A_MEMBER, STALE_GENERATION.
        """
        if not command.member:
            member = self.bound(session)
        elif command.generation is None:
            member = self._named(command.member)
        else:
            member = self.member(command.member)
        if command.generation is not None:
            member.check(command.generation)
        return member

    def speaker(self, partitions: list[int]) -> Member[S] | None:
        """Who commits for somebody that is no member: the owner, or anybody, since Kafka asks for a member only.

        One that is in the group rather than one that is about to be.
        """
        ranked = sorted(
            self.members.values(),
            key=lambda member: (member.settled, all(at in member.assignment for at in partitions), member.generation),
        )
        return ranked[-1] if ranked else None

    def silent(self, now: float) -> list[Member[S]]:
        """Those that were not heard of for too long.  One that waits to get in is heard of."""
        return [
            member
            for member in self.members.values()
            if member.session is None and not member.waited_for and now - member.heard > member.timeout
        ]

    def _named(self, wanted: str) -> Member[S]:
        """The member of that name, or else the newest that was made distinct from it."""
        if wanted in self.members:
            return self.members[wanted]
        made = [member for name, member in self.members.items() if member.named and name.rpartition("-")[0] == wanted]
        if not made:
            raise CommandFailed(Fault.NOT_A_MEMBER, member=wanted)
        return made[-1]
