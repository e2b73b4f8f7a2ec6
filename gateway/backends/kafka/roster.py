"""Who is a member of which group in this process, and each member's place in Kafka's group of that name.

Kafka's client never falls silent, so the clock that drops a silent member is ours.  When this process dies, its members
go after `session.timeout.ms`, which is a member's own timeout within SESSION_SECONDS.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger

from gateway.backends.kafka.cluster import Cluster
from gateway.backends.kafka.coordinator import Coordinator
from gateway.backends.kafka.members import Member, Party
from gateway.backends.kafka.polling import Polling, Seat
from gateway.backends.kafka.registry import Place
from gateway.core import commands as q
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault

MAX_MEMBERS = 500
"""Of this process, in all groups: each is a client of librdkafka with 4 threads and 0.5 MiB, 500 join in 6 s."""

LOOK_SECONDS = 0.5
"""Between looks for silent members."""

LEAVE_SECONDS = 3.0
"""For Kafka to take notice that members leave."""

SESSION_SECONDS = (6.0, 300.0)
"""The least and the most that the coordinator is told to wait for this process (brokers take 6 to 1800 by default)."""

CONNECTED_SECONDS = 10.0
"""The same for members that live with a connection."""

HEARTBEAT_MS = 1000
"""Of each place to its coordinator: as long it takes members to hear that the group is shared out anew."""

POLL_MS = 300_000
"""The coordinator waits so long for a member to join again; ours are polled every few ms."""

REQUEST_MS = 5000
"""For one request of a place, so that a broker that is frozen is noticed, and can be left."""

ASSIGNORS = {"": "range,roundrobin", "range": "range,roundrobin", "round_robin": "roundrobin,range"}
"""What a place offers its group, by what its member asked for; the group takes one that all its members offer."""

Key = tuple[str, str]
"""The scope of a topic's groups, and a group's name."""

Here = Member[Seat]
"""A member in this process."""


class Roster:
    """suffix: makes names of members distinct, e.g. four random digits."""

    _log = Logger()

    def __init__(self, cluster: Cluster, ask: Coordinator, suffix: Callable[[], str]) -> None:
        self._cluster = cluster
        self._ask = ask
        self._suffix = suffix
        self._polling = Polling(cluster.from_thread)
        self._parties: dict[Key, Party[Seat]] = {}
        self._places: dict[Key, Place] = {}
        self._sessions: dict[int, set[Key]] = {}
        self._count = 0
        self._dead: deque[tuple[str, str]] = deque()
        self._leaving: set[Deferred[None]] = set()
        self._looking: LoopingCall | None = None
        self.closed = False
        cluster.watch(self._changed)

    def close(self) -> Deferred[None]:
        """Take every member out of its group.  Fires when all have left, or after LEAVE_SECONDS."""
        self.closed = True
        if self._looking is not None:
            self._looking.stop()
        for key in list(self._parties):
            self.disband(key)
        return self._known(list(self._leaving)).addCallback(lambda ignored: self._polling.close())

    # -- looking

    def party(self, key: Key) -> Party[Seat]:
        """Who of a group is here now; nobody, where there is none."""
        self._expire(key)
        found = self._parties.get(key)
        return Party(self._suffix) if found is None else found

    def __iter__(self) -> Iterator[tuple[Key, Place, Here]]:
        """Everybody."""
        for key, party in list(self._parties.items()):
            for member in party:
                yield key, self._places[key], member

    def speaker(self, place: Place, name: str, partitions: list[int]) -> Here | None:
        """Who commits for somebody that is no member: see Party.speaker.

        Kafka's group is that of all topics of the namespace, so one who reads another topic of it will do.
        """
        own = self.party((place.scope, name)).speaker(partitions)
        if own is not None:
            return own
        others = (key for key in list(self._parties) if key[1] == name and key[0] != place.scope)
        found = (self.party(key).speaker([]) for key in others if self._places[key].namespace_id == place.namespace_id)
        return next((member for member in found if member is not None), None)

    def of_session(self, session: Session) -> Iterator[tuple[Key, Place, Here]]:
        """The members that live with a connection."""
        for key in list(self._sessions.get(session.id, ())):
            for member in self._parties.get(key, ()):
                if member.session == session.id:
                    yield key, self._places[key], member

    # -- changing

    def enter(self, key: Key, place: Place, command: q.JoinGroup, session: Session) -> Here:
        """The member that joins, new or known.  Raises CommandFailed(BUSY)."""
        life = command.liveness
        party = self.party(key)
        name = party.name_for(command, session.id)
        member = party.members.get(name)
        if member is None:
            member = self._new(key, place, name, command)
        bound = isinstance(life, q.WhileConnected)
        member.session = session.id if bound else None
        member.timeout = life.timeout if isinstance(life, q.Heartbeats) else 0.0
        member.heard = self._cluster.reactor.seconds()
        if bound:
            self._sessions.setdefault(session.id, set()).add(key)
        return member

    def commit(self, member: Here, topic: str, offsets: dict[int, int], generation: int | None) -> Deferred[None]:
        """See Polling.commit; its deadline is the caller's."""
        return self._polling.commit(member.seat, topic, offsets, generation)

    def drop(self, key: Key, *members: Here) -> Deferred[None]:
        """They are members no more.  Fires when Kafka knows, or had long enough to."""
        return self._known([self._drop(key, member) for member in members])

    def disband(self, key: Key) -> Deferred[None]:
        """The same for all of a group."""
        return self.drop(key, *self._parties.get(key, ()))

    def end(self, session: Session) -> Deferred[None] | None:
        """The same for all that live with a connection; None = there are none."""
        left = [self._drop(key, member) for key, _, member in list(self.of_session(session))]
        self._sessions.pop(session.id, None)
        return self._known(left) if left else None

    def _new(self, key: Key, place: Place, name: str, command: q.JoinGroup) -> Here:
        if self._count >= MAX_MEMBERS:
            raise CommandFailed(Fault.BUSY, f"this process has {MAX_MEMBERS} members of groups")
        group = self._cluster.group_id(place, key[1])
        seat = Seat(self._settings(group, command), place.kafka, self._cluster.from_thread)
        member = Member(name, seat, command.distinct, lambda kafka: self._bury(group, kafka))
        self._parties.setdefault(key, Party(self._suffix)).members[name] = member
        self._places[key] = place
        self._count += 1
        self._polling.take(seat, member)
        self._watch_silence()
        return member

    def _settings(self, group_id: str, command: q.JoinGroup) -> dict[str, object]:
        life = command.liveness
        least, most = SESSION_SECONDS
        seconds = life.timeout if isinstance(life, q.Heartbeats) else CONNECTED_SECONDS
        told: dict[str, object] = {
            "group.id": group_id,
            "enable.auto.commit": False,
            "partition.assignment.strategy": ASSIGNORS[command.assignor],
            "session.timeout.ms": int(1000 * min(max(seconds, least), most)),
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "max.poll.interval.ms": POLL_MS,
            "socket.timeout.ms": REQUEST_MS,
        }
        return self._cluster.settings(**told)

    def _drop(self, key: Key, member: Here) -> Deferred[None]:
        party = self._parties[key]
        del party.members[member.name]
        if not party.members:
            del self._parties[key], self._places[key]
        self._count -= 1
        member.left()
        left = self._polling.leave(member.seat)
        self._leaving.add(left)
        return left.addCallback(lambda ignored: self._leaving.discard(left))

    def _known(self, left: list[Deferred[None]]) -> Deferred[None]:
        """For us they are gone; whoever waits would like to see them gone for Kafka too."""
        known: Deferred[None] = Deferred()
        deadline = self._cluster.reactor.callLater(LEAVE_SECONDS, known.callback, None)

        def fire(ignored: object) -> None:
            if deadline.active():
                deadline.cancel()
                known.callback(None)

        DeferredList(left).addCallback(fire)
        return known

    # -- after an outage that was longer than a session

    def _bury(self, group: str, kafka: str) -> None:
        """Say that a member whose place enters anew is gone: else the group waits until its session ends."""
        self._dead.append((group, kafka))
        if len(self._dead) == 1:
            Deferred.fromCoroutine(self._bury_all()).addErrback(
                lambda failure: self._log.failure("burying members of groups", failure=failure)
            )

    async def _bury_all(self) -> None:
        """One after another, so that they are in nobody's way; the first goes on to be tried until Kafka is back."""
        while self._dead and not self.closed:
            group, kafka = self._dead[0]
            try:
                await self._cluster.call(lambda group=group, kafka=kafka: self._ask.bury(group, kafka))  # type: ignore[misc]
            except CommandFailed as failure:
                if failure.fault in (Fault.UNAVAILABLE, Fault.TIMEOUT, Fault.BUSY):
                    await deferLater(self._cluster.reactor, LOOK_SECONDS)
                    continue
                self._log.warn(
                    "{kafka} stays in the group {group}: {failure}", kafka=kafka, group=group, failure=failure
                )
            self._dead.popleft()

    # -- whoever is gone without a word

    def _watch_silence(self) -> None:
        if self._looking is None:
            self._looking = LoopingCall(self._look)
            self._looking.clock = self._cluster.reactor
            self._looking.start(LOOK_SECONDS, now=False)

    def _look(self) -> None:
        for key in list(self._parties):
            self._expire(key)

    def _expire(self, key: Key) -> None:
        party = self._parties.get(key)
        for member in party.silent(self._cluster.reactor.seconds()) if party is not None else ():
            self._drop(key, member)

    def _changed(self, place: Place) -> None:
        if not place.partitions:  # the topic is gone, and its groups with it
            for key in [key for key in self._parties if key[0] == place.scope]:
                self.disband(key)
