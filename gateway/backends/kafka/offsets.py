"""Committed offsets, in Kafka's own groups: of a group in the group of its name, of a single consumer in one apart.

While a group has members Kafka takes commits from them alone, of any partition.  So a commit that says no member goes
through one that is here, its partition's owner if that is one; if all are elsewhere it is refused as NOT_OWNER.
Kafka forgets no offsets of a topic that a member of the group reads: DeleteOffsets is UNSUPPORTED then.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from gateway.backends.kafka.cluster import Cluster
from gateway.backends.kafka.membership import Membership
from gateway.backends.kafka.registry import Place
from gateway.backends.kafka.roster import Here
from gateway.backends.kafka.turns import Turns
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import MAX_OFFSET, Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Reply

Work = Callable[..., Coroutine[Deferred[object], object, Reply]]


Commits = list[tuple[Mapping[int, int], Deferred[bool]]]


class Lane:
    """Commits on one way, in order: one is on it at a time, and what came meanwhile goes together as the next.

    send: makes one commit, {partition: next offset}.
    """

    def __init__(self, send: Callable[[dict[int, int]], Deferred[bool]]) -> None:
        self._send = send
        self._waiting: Commits = []
        self.busy = False

    def put(self, offsets: Mapping[int, int]) -> Deferred[bool]:
        """What `send` says of the commit that these are in."""
        done: Deferred[bool] = Deferred()
        self._waiting.append((offsets, done))
        self._next()
        return done

    def _next(self) -> None:
        if self.busy or not self._waiting:
            return
        self.busy = True
        going, self._waiting = self._waiting, []
        merged = {partition: offset for offsets, _ in going for partition, offset in offsets.items()}
        self._send(merged).addBoth(self._sent, going)

    def _sent(self, result: bool | Failure, going: Commits) -> None:
        self.busy = False
        self._next()
        for _, done in going:
            done.callback(result)


class Offsets:
    """verbs: what is answered here, by command type."""

    def __init__(self, cluster: Cluster, membership: Membership) -> None:
        self._cluster = cluster
        self._membership = membership
        self._ask = membership.ask
        self._ends: dict[tuple[str, int], int] = {}
        self._turns: dict[tuple[q.Topic, q.Reader], Turns] = {}
        self._lanes: dict[tuple[str, str], Lane] = {}
        slow: dict[type, Work] = {
            q.CommitOffsets: self._commit,
            q.FetchOffsets: self._fetch,
            q.DeleteOffsets: self._delete,
        }
        self.verbs = {kind: _later(work) for kind, work in slow.items()}

    def close(self) -> None:
        """Nothing to release."""

    # -- for the other parts

    def commit(self, command: q.CommitOffsets, session: Session) -> Deferred[Reply]:
        """Carry out a CommitOffsets."""
        return Deferred.fromCoroutine(self._commit(command, session))

    def committed(self, place: Place, reader: q.Reader, partition: int) -> Deferred[int | None]:
        """Where a reader goes on, None = it never committed there."""
        group = self._id(place, reader)
        found = self._cluster.call(lambda: self._ask.committed(group, place.kafka, [partition]))
        return found.addCallback(lambda offsets: offsets.get(partition))

    # -- verbs

    async def _commit(self, command: q.CommitOffsets, session: Session) -> Reply:
        """Those of one reader are looked at one after another, in the order in which they came."""
        key = command.topic, command.reader
        turns = self._turns.setdefault(key, Turns())
        deadline = self._cluster.reactor.seconds() + self._cluster.seconds
        await turns.take()
        try:
            if self._cluster.reactor.seconds() > deadline:  # nobody waits for it any more
                raise _unknown()
            done = await self._begun(command, session)
            if command.rising:
                await done
        finally:
            turns.give()
            if turns.idle and self._turns.get(key) is turns:
                del self._turns[key]
        await done
        return r.Done()

    async def _begun(self, command: q.CommitOffsets, session: Session) -> Deferred[None]:
        """The commit on its way, if it may be made."""
        place = await self._placed(command.topic)
        offsets = {
            self._index(place, self._membership.held(command.topic, command.reader, session) if at is None else at): to
            for at, to in command.offsets.items()
        }
        for to in offsets.values():
            if not 0 <= to <= MAX_OFFSET:
                raise CommandFailed(Fault.INVALID_OFFSET, str(to))
        if command.bounded:
            await self._check_ends(place, offsets)
        if command.rising:
            await self._check_rising(place, command.reader, offsets)
        if command.member is not None:
            return self._fenced(command, place, offsets)
        if isinstance(command.reader, q.Group):
            await self._membership.groups.made(place, self._name(place, command.reader))
        return Deferred.fromCoroutine(self._anyhow(place, command.reader, offsets))

    def _fenced(self, command: q.CommitOffsets, place: Place, offsets: dict[int, int]) -> Deferred[None]:
        assert command.member is not None, "only a fenced commit is checked"
        if not isinstance(command.reader, q.Group):
            raise CommandFailed(Fault.NOT_A_MEMBER, "only groups have members", member=command.member)
        generation = command.generation or 0
        member = self._membership.fenced(place, command.reader.name, offsets, command.member, generation)
        done = self._membership.roster.commit(member, place.kafka, offsets, generation)
        self._cluster.expire(done, _unknown)
        return done

    async def _anyhow(self, place: Place, reader: q.Reader, offsets: dict[int, int]) -> None:
        """A commit by nobody in particular."""
        deadline = self._cluster.reactor.seconds() + self._cluster.seconds
        while (member := self._speaker(place, reader, offsets)) is not None:
            done = self._membership.roster.commit(member, place.kafka, offsets, None)
            self._cluster.expire(done, _unknown)
            try:
                return await done
            except CommandFailed as failure:  # it has left meanwhile
                if failure.fault is not Fault.NOT_A_MEMBER or self._cluster.reactor.seconds() > deadline:
                    raise
        if await self._outside(self._id(place, reader), place.kafka, offsets):
            return
        if self._speaker(place, reader, offsets) is None:
            raise CommandFailed(Fault.NOT_OWNER, "its members are elsewhere", partition=min(offsets), generation=0)
        await self._anyhow(place, reader, offsets)  # somebody has just joined here

    def _speaker(self, place: Place, reader: q.Reader, offsets: dict[int, int]) -> Here | None:
        if not isinstance(reader, q.Group):
            return None
        return self._membership.roster.speaker(place, self._name(place, reader), list(offsets))

    async def _outside(self, group: str, topic: str, offsets: dict[int, int]) -> bool:
        """A commit by no member.  False: the group has members."""
        key = group, topic
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(
                lambda merged: self._cluster.call(lambda: self._ask.commit(group, topic, merged))
            )
        try:
            return await lane.put(offsets)
        finally:
            if not lane.busy:
                self._lanes.pop(key, None)

    async def _fetch(self, command: q.FetchOffsets, session: Session) -> Reply:
        place = await self._placed(command.topic)
        asked = range(place.partitions)
        indices = list(asked) if command.partitions is None else self._indices(place, command, session)
        group = self._id(place, command.reader)

        def look() -> tuple[dict[int, int], dict[int, int]]:
            return self._ask.committed(group, place.kafka, indices), self._ask.ends(place.kafka, indices)

        if isinstance(command.reader, q.Group):
            await self._membership.groups.found(place, command.reader.name)
        committed, ends = await self._cluster.call(look)
        return r.CommittedOffsets(committed, ends)

    async def _delete(self, command: q.DeleteOffsets, session: Session) -> Reply:
        place = await self._placed(command.topic)
        indices = self._indices(place, command, session)
        group = self._id(place, command.reader)

        def forget() -> None:
            committed = self._ask.committed(group, place.kafka, indices)
            for at in indices:
                if at not in committed:
                    raise CommandFailed(Fault.NO_SUCH_OFFSET, f"partition {at}")
            if not self._ask.forget(group, place.kafka, indices):
                raise CommandFailed(Fault.UNSUPPORTED, "Kafka forgets no offsets of a topic that a member reads")

        await self._cluster.call(forget)
        return r.Done()

    # -- checking

    async def _check_ends(self, place: Place, offsets: dict[int, int]) -> None:
        """Ends only rise, so one that is known to be high enough is not asked for again."""
        beyond = [at for at, to in offsets.items() if to > self._ends.get((place.scope, at), 0)]
        if beyond:
            ends = await self._cluster.call(lambda: self._ask.ends(place.kafka, beyond))
            self._ends.update({(place.scope, at): end for at, end in ends.items()})
        for at in beyond:
            if offsets[at] > self._ends[place.scope, at]:
                raise CommandFailed(Fault.INVALID_OFFSET, str(offsets[at]))

    async def _check_rising(self, place: Place, reader: q.Reader, offsets: dict[int, int]) -> None:
        group = self._id(place, reader)
        current = await self._cluster.call(lambda: self._ask.committed(group, place.kafka, offsets))
        for at, to in offsets.items():
            if to < current.get(at, 0):
                raise CommandFailed(Fault.OFFSET_REGRESSION, partition=at, current=current[at], requested=to)

    # -- what is meant

    async def _placed(self, topic: q.Topic) -> Place:
        place = self._cluster.place(topic)
        return await place if isinstance(place, Deferred) else place

    def _indices(self, place: Place, command: q.FetchOffsets | q.DeleteOffsets, session: Session) -> list[int]:
        """Every partition asked about, once.  Raises CommandFailed: NO_SUCH_PARTITION, and as Membership.held."""
        named = (
            self._membership.held(command.topic, command.reader, session) if at is None else at
            for at in command.partitions or ()
        )
        return [self._index(place, at) for at in dict.fromkeys(named)]

    def _index(self, place: Place, at: int) -> int:
        if not 0 <= at < place.partitions:
            raise CommandFailed(Fault.NO_SUCH_PARTITION, partition=at, partitions=place.partitions)
        return at

    def _name(self, place: Place, group: q.Group) -> str:
        return self._membership.groups.named(place.scope, group.name)

    def _id(self, place: Place, reader: q.Reader) -> str:
        if isinstance(reader, q.Consumer):
            return self._cluster.consumer_id(place, reader.name)
        return self._cluster.group_id(place, self._name(place, reader))


def _unknown() -> CommandFailed:
    return CommandFailed(Fault.TIMEOUT, "whether the offsets were committed, or will be, is not known")


def _later(work: Work) -> Callable[[q.Command, Session], Deferred[Reply]]:
    return lambda command, session: Deferred.fromCoroutine(work(command, session))
