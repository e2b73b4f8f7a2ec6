"""Membership in consumer groups: each member here has a place of its own in Kafka's group of that name.

So members of other gateways, native consumers and these divide the partitions, by `range` unless all that are in the
group prefer another assignor: `range` and `roundrobin` are offered, both eager, which the defaults of librdkafka
(`range,roundrobin`) and of Java (`range,cooperative-sticky`) share a group with.  A consumer that offers
`cooperative-sticky` alone does not share one.

A generation is Kafka's own where its client says it, so it is the same for all members everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from twisted.internet.defer import Deferred

from gateway.backends.fetching import then
from gateway.backends.grouping import four_digits
from gateway.backends.kafka.cluster import Cluster
from gateway.backends.kafka.coordinator import Coordinator
from gateway.backends.kafka.groups import Groups
from gateway.backends.kafka.registry import Place
from gateway.backends.kafka.roster import ASSIGNORS, Here, Roster
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Reply

JOIN_SECONDS = 8.0
"""Until a JoinGroup is answered without an assignment, because others do not come and let the group settle."""


class Membership:
    """verbs: what is answered here, by command type.  ask, groups, roster: for the part that commits."""

    def __init__(self, cluster: Cluster, suffix: Callable[[], str] = four_digits) -> None:
        self.ask = Coordinator(cluster.bootstrap, cluster.admin)
        self.roster = Roster(cluster, self.ask, suffix)
        self.groups = Groups(cluster, self.ask, self.roster)
        self._cluster = cluster
        self._entering: Counter[int] = Counter()
        self._ended: set[int] = set()
        self.verbs: dict[type, Callable[..., Reply | Deferred[Reply]]] = {
            **self.groups.verbs,
            q.JoinGroup: lambda command, session: Deferred.fromCoroutine(self._join(command, session)),
            q.SyncGroup: self._sync,
            q.Heartbeat: self._heartbeat,
            q.LeaveGroup: self._leave,
            q.EndSession: self._end,
            q.ListMemberships: self._memberships,
        }

    def close(self) -> Deferred[None]:
        """See Roster.close."""
        self.ask.close()
        return self.roster.close()

    # -- for the other parts

    def turn(self, command: q.Fetch, session: Session, again: int | None = None) -> int | None:
        """The partition that a fetch without one is about: the next of this connection's own, None if it has none.

        again: the one it was about before, which it stays with as long as it can.
        Raises CommandFailed: NO_SUCH_TOPIC, NO_SUCH_GROUP, NOT_A_MEMBER, INVALID_ARGUMENT.
        """
        group = command.read_by
        if not isinstance(group, q.Group):
            raise CommandFailed(Fault.INVALID_ARGUMENT, "only a group has turns")
        return self._bound(command.topic, group.name, session)[1].turn(again)

    def held(self, topic: q.Topic, reader: q.Reader, session: Session) -> int:
        """The partition that `turn` gave last to this connection.  Raises as `turn` does, and NO_SUCH_PARTITION."""
        if not isinstance(reader, q.Group):
            raise CommandFailed(Fault.INVALID_ARGUMENT, "only a member of a group is given partitions")
        place, member = self._bound(topic, reader.name, session)
        now = self._cluster.catalog.known(topic) or place  # it may have grown since the member came
        return member.held(now.partitions)

    def fenced(self, place: Place, group: int | str, partitions: Iterable[int], member: str, generation: int) -> Here:
        """Who makes a fenced commit.

        Raises CommandFailed: NO_SUCH_GROUP, OTHER_TOPIC, NOT_A_MEMBER, STALE_GENERATION, NOT_OWNER.
        """
        found = self._member(place, group, member)
        found.check(generation)
        for partition in partitions:
            found.check_owns(partition)
        return found

    # -- joining

    async def _join(self, command: q.JoinGroup, session: Session) -> Reply:
        self._entering[session.id] += 1
        try:
            return await self._joined(command, session)
        finally:
            self._entering[session.id] -= 1
            if not self._entering[session.id]:
                del self._entering[session.id]
                self._ended.discard(session.id)

    async def _joined(self, command: q.JoinGroup, session: Session) -> Reply:
        if command.assignor not in ASSIGNORS:
            raise CommandFailed(Fault.INVALID_ARGUMENT, f"assignors are {', '.join(filter(None, ASSIGNORS))}")
        place = await self.groups.placed(command.topic, command.create)
        claim = await self.groups.entered(place, command)
        if self.roster.closed or session.id in self._ended:
            raise CommandFailed(Fault.NOT_A_MEMBER, "the connection is gone", member=command.member)
        key = place.scope, claim.name
        member = self.roster.enter(key, place, command, session)
        resumed = member.settled and command.resume == member.generation
        if not member.settled:
            await self._settling(member)
        self._check_entered(place, claim.name, member)
        member.heard = self._cluster.reactor.seconds()
        return r.Joined(member.name, member.generation, member.assignment, resumed)

    async def _settling(self, member: Here) -> None:
        """Wait until it is assigned, or will not be, but not for ever."""
        settled: Deferred[None] = Deferred()
        deadline = self._cluster.reactor.callLater(JOIN_SECONDS, settled.callback, None)
        member.wait(lambda: None if settled.called else settled.callback(None))
        await settled
        if deadline.active():
            deadline.cancel()

    def _check_entered(self, place: Place, name: str, member: Here) -> None:
        """Who is let in, but has not got anything in time, has nothing for now.  Who never was in is forgotten.

        Raises CommandFailed: NOT_A_MEMBER if it left meanwhile, UNAVAILABLE.
        """
        if not member.settled and member.trouble is not None:
            if not member.generation and not member.gone:
                self.roster.drop((place.scope, name), member)
            raise member.trouble
        if member.gone:
            raise CommandFailed(Fault.NOT_A_MEMBER, "it has left", member=member.name)

    # -- staying and leaving

    def _sync(self, command: q.SyncGroup, session: Session) -> Reply | Deferred[Reply]:
        def sync(place: Place) -> Reply:
            member = self._heard(place, command)
            return r.Joined(member.name, member.generation, member.assignment)

        return then(self._cluster.place(command.topic), sync)

    def _heartbeat(self, command: q.Heartbeat, session: Session) -> Reply | Deferred[Reply]:
        def heard(place: Place) -> Reply:
            self._heard(place, command)
            return r.Done()

        return then(self._cluster.place(command.topic), heard)

    def _leave(self, command: q.LeaveGroup, session: Session) -> Reply | Deferred[Reply]:
        def leave(place: Place) -> Deferred[Reply]:
            key = place.scope, self.groups.registered(place, command.group).name
            member = self.roster.party(key).leaving(command, session.id)
            return self.roster.drop(key, member).addCallback(lambda ignored: r.Done())

        return then(self._cluster.place(command.topic), leave)

    def _end(self, command: q.EndSession, session: Session) -> Reply | Deferred[Reply]:
        if session.id in self._entering:
            self._ended.add(session.id)
        left = self.roster.end(session)
        return r.Done() if left is None else left.addCallback(lambda ignored: r.Done())

    def _heard(self, place: Place, command: q.SyncGroup | q.Heartbeat) -> Here:
        member = self._member(place, command.group, command.member)
        member.heard = self._cluster.reactor.seconds()
        member.check(command.generation)
        return member

    # -- who is where

    def _member(self, place: Place, group: int | str, name: str) -> Here:
        return self.roster.party((place.scope, self.groups.registered(place, group).name)).member(name)

    def _bound(self, topic: q.Topic, group: int | str, session: Session) -> tuple[Place, Here]:
        """This connection's member.  Raises CommandFailed: NO_SUCH_TOPIC, NO_SUCH_GROUP, NOT_A_MEMBER."""
        for (scope, name), place, member in self.roster.of_session(session):
            if _is(place, topic) and name == self.groups.named(scope, group):
                return place, member
        known = self._cluster.catalog.known(topic)
        if known is None:
            raise CommandFailed(Fault.NO_SUCH_TOPIC, str(topic.name))
        self.groups.registered(known, group)
        raise CommandFailed(Fault.NOT_A_MEMBER, member=str(session.id))

    def _memberships(self, command: q.ListMemberships, session: Session) -> Reply:
        found = []
        for (scope, name), place, member in self.roster:
            claim = self._cluster.registry.claims.find(scope, name)
            if claim is not None and member.session is not None and command.session in (None, member.session):
                found.append((member.session, place.namespace_id, place.id, claim.id))
        return r.Memberships(tuple(r.MembershipDescription(*ids) for ids in sorted(found)))


def _is(place: Place, topic: q.Topic) -> bool:
    return topic.namespace in (place.namespace, place.namespace_id) and topic.name in (place.name, place.id)
