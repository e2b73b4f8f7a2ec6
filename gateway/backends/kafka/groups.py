"""Consumer groups as things that exist: made, shown and deleted.

A group of a topic exists if a gateway registered it, or if Kafka's group of that name has committed offsets of the
topic or members that read it: then it is registered by whoever sees it first.  Kafka's groups are of no topic in
particular; so what belongs to one is its offsets of that topic and its members' partitions of it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable

from twisted.internet.defer import Deferred

from gateway.backends.kafka import names
from gateway.backends.kafka.claims import Claim
from gateway.backends.kafka.cluster import Cluster
from gateway.backends.kafka.coordinator import Coordinator
from gateway.backends.kafka.protocol import Seen
from gateway.backends.kafka.registry import Place
from gateway.backends.kafka.roster import Roster
from gateway.backends.kafka.turns import Turns
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Session
from gateway.core.deciding import check_name
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Reply

Work = Callable[..., Coroutine[Deferred[object], object, Reply]]


class Groups:
    """verbs: what is answered here, by command type."""

    def __init__(self, cluster: Cluster, ask: Coordinator, roster: Roster) -> None:
        self._cluster = cluster
        self._ask = ask
        self._roster = roster
        self._claiming = Turns()  # many at once would take the ids from each other, and begin again
        slow: dict[type, Work] = {
            q.CreateGroup: self._create,
            q.DeleteGroup: self._delete,
            q.ListGroups: self._list,
            q.DescribeGroup: self._describe,
        }
        self.verbs = {kind: _later(work) for kind, work in slow.items()}

    # -- finding

    async def placed(self, topic: q.Topic, create: int = 0) -> Place:
        """The topic, made with `create` partitions if there is none.  Raises NO_SUCH_TOPIC, NO_SUCH_NAMESPACE."""
        try:
            place = self._cluster.place(topic)
            return await place if isinstance(place, Deferred) else place
        except CommandFailed as failure:
            if failure.fault is not Fault.NO_SUCH_TOPIC or not create:
                raise
        return await self._cluster.make(topic, create)

    def registered(self, place: Place, reference: int | str) -> Claim:
        """By name or id; a group that nobody named is called by its id.  Raises NO_SUCH_GROUP, OTHER_TOPIC."""
        found = self._find(place.scope, reference)
        if found is not None:
            return found
        other = self._elsewhere(place, str(reference))
        if other is None:
            raise CommandFailed(Fault.NO_SUCH_GROUP, str(reference))
        raise CommandFailed(Fault.OTHER_TOPIC, "", expected=other, actual=place.name)

    async def found(self, place: Place, reference: int | str) -> Claim:
        """The same, and a native program's group is registered if need be."""
        await self._cluster.registry.loaded()
        if self._find(place.scope, reference) is None and await self._is_native(place, str(reference)):
            await self._cluster.registry.claim_all(place.scope, [str(reference)])
        return self.registered(place, reference)

    async def entered(self, place: Place, command: q.JoinGroup) -> Claim:
        """The group that somebody joins, made unless it has to exist.

        Raises CommandFailed: NO_SUCH_GROUP, OTHER_TOPIC, INVALID_NAME.
        """
        if command.existing:
            return await self.found(place, command.group)
        await self._cluster.registry.loaded()
        return await self.made(place, self.named(place.scope, command.group), command.exclusive)

    def named(self, scope: str, reference: int | str) -> str:
        """What that group is called, or would be."""
        found = self._find(scope, reference)
        return str(reference) if found is None else found.name

    async def made(self, place: Place, name: str, exclusive: bool = False) -> Claim:
        """The group of that name, registered if it is not.  Raises CommandFailed: OTHER_TOPIC, INVALID_NAME."""
        await self._cluster.registry.loaded()
        found = self._find(place.scope, name)
        if found is not None:
            return found
        await self._claiming.take()
        try:
            if self._find(place.scope, name) is None:
                self._check(place, name, exclusive)
                await self._cluster.registry.claim_all(place.scope, [name])
        finally:
            self._claiming.give()
        return self.registered(place, name)

    def _find(self, scope: str, reference: int | str) -> Claim | None:
        claims = self._cluster.registry.claims
        found = claims.find(scope, reference)
        return claims.find(scope, str(reference)) if found is None else found

    def _check(self, place: Place, name: str, exclusive: bool) -> None:
        check_name(name)
        self._cluster.group_id(place, name)
        other = self._elsewhere(place, name) if exclusive else None
        if other is not None:
            raise CommandFailed(Fault.OTHER_TOPIC, "", expected=other, actual=place.name)

    def _elsewhere(self, place: Place, name: str) -> str | None:
        """The name of another topic of the namespace that has a group of that name registered."""
        return next((other.name for other in self._holders(place.namespace_id, name) if other.id != place.id), None)

    def _holders(self, namespace: int, name: str) -> Iterable[Place]:
        registry = self._cluster.registry
        for place in self._cluster.catalog.all(registry.namespace(namespace)):
            if self._find(place.scope, name) is not None:
                yield place

    async def _is_native(self, place: Place, name: str) -> bool:
        """Whether Kafka has a group of that name that has to do with the topic."""
        try:
            group = self._cluster.group_id(place, name)
        except CommandFailed:
            return False

        def look() -> bool:
            members = self._ask.members(group)
            reads = any(place.kafka in member.assignment for member in members)
            return reads or place.kafka in self._ask.all_committed(group)

        return await self._cluster.call(look)

    # -- verbs

    async def _create(self, command: q.CreateGroup) -> Reply:
        place = await self.placed(command.topic)
        self._check(place, command.group, command.exclusive)
        registry = self._cluster.registry
        await registry.loaded()
        claim = self._find(place.scope, command.group)
        if claim is None and await self._is_native(place, command.group):
            await registry.claim_all(place.scope, [command.group])
            claim = self._find(place.scope, command.group)
        if claim is None:
            claim = await registry.claim(place.scope, command.group, command.id)
        elif command.if_exists is q.IfExists.FAIL:
            raise CommandFailed(Fault.GROUP_EXISTS, command.group, taken="name")
        return r.GroupDescription(place.namespace, place.name, claim.name, claim.id, 0, place.partitions)

    async def _delete(self, command: q.DeleteGroup) -> Reply:
        place = await self.placed(command.topic)
        claim = await self.found(place, command.group)
        group = self._cluster.group_id(place, claim.name)
        await self._roster.disband((place.scope, claim.name))

        def forget() -> None:
            committed = self._ask.all_committed(group).get(place.kafka, {})
            members = self._ask.members(group)
            used = any(place.kafka in member.assignment for member in members)
            if used or not self._ask.forget(group, place.kafka, committed):
                raise CommandFailed(Fault.UNAVAILABLE, "it has members that are not this gateway's")
            self._ask.delete(group)

        await self._cluster.call(forget)
        key = self._cluster.registry.claims.key(place.scope, claim.name)
        await self._cluster.registry.append([] if key is None else self._cluster.registry.claims.ending(key))
        return r.Done()

    async def _describe(self, command: q.DescribeGroup) -> Reply:
        place = await self._topic_of(command)
        claim = await self.found(place, command.group)
        group = self._cluster.group_id(place, claim.name)
        seen = await self._cluster.call(lambda: self._ask.members(group))
        return self._described(place, claim, seen)

    async def _topic_of(self, command: q.DescribeGroup) -> Place:
        if command.topic.name:
            return await self.placed(command.topic)
        await self._cluster.registry.loaded()
        namespace = self._cluster.registry.namespace(command.topic.namespace)
        place = next(iter(self._holders(namespace.id, str(command.group))), None)
        if place is None:
            raise CommandFailed(Fault.NO_SUCH_GROUP, str(command.group))
        return place

    async def _list(self, command: q.ListGroups) -> Reply:
        await self._cluster.registry.loaded()
        namespace = self._cluster.registry.namespace(command.namespace)
        if command.topic is None:
            await self._cluster.catalog.census([namespace])
            places = self._cluster.catalog.all(namespace)
        else:
            places = [await self.placed(q.Topic(command.namespace, command.topic))]
        used, seen = await self._cluster.call(lambda: self._look(namespace.name))
        for place in places:
            await self._cluster.registry.claim_all(place.scope, used.get(place.kafka, ()))
        found = [
            self._described(place, claim, seen.get(claim.name, []))
            for place in places
            for claim in self._cluster.registry.claims.owned(place.scope)
        ]
        return r.Groups(tuple(sorted(found, key=lambda group: (group.name, group.topic))))

    def _look(self, namespace: str) -> tuple[dict[str, set[str]], dict[str, list[Seen]]]:
        """In a thread: which groups of the namespace use which of Kafka's topics, and the members of each group."""
        registry = self._cluster.registry
        split = {id: names.split_group(id, registry) for id in self._ask.listed()}
        ours = {id: of[1] for id, of in split.items() if of is not None and of[0] == namespace}
        used: dict[str, set[str]] = {}
        members: dict[str, list[Seen]] = {}
        for id, name in ours.items():
            seen = members[name] = self._ask.members(id)
            for topic in {*self._ask.all_committed(id), *(topic for member in seen for topic in member.assignment)}:
                used.setdefault(topic, set()).add(name)
        return used, members

    def _described(self, place: Place, claim: Claim, seen: list[Seen]) -> r.GroupDescription:
        """With the members of this process as they are called here, the others by the coordinator's ids.

        Who has joined here and was never let in by Kafka is no member yet.
        """
        here = list(self._roster.party((place.scope, claim.name)))
        wall, now = self._cluster.now(), self._cluster.reactor.seconds()
        members = [
            r.MemberDescription(
                member.name, member.assignment, wall - int((now - member.heard) * 1_000_000), member.session
            )
            for member in here
            if member.generation
        ]
        known = {member.seat.kafka for member in here}
        for other in seen:
            if other.id not in known and place.kafka in other.assignment:
                members.append(r.MemberDescription(other.id, tuple(sorted(other.assignment[place.kafka])), wall))
        generation = max((member.generation for member in here), default=0)
        ordered = tuple(sorted(members, key=lambda member: member.member))
        return r.GroupDescription(
            place.namespace, place.name, claim.name, claim.id, generation, place.partitions, ordered
        )


def _later(work: Work) -> Callable[[q.Command, Session], Deferred[Reply]]:
    return lambda command, session: Deferred.fromCoroutine(work(command))
