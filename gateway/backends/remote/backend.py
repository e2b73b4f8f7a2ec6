"""The backend that has a server of some dialect carry commands out: the translation proxy.

A command is said as it is where the wire has words for it, else composed of several (composing.py), else UNSUPPORTED.
A server that is not the leader is asked who is, and that one from then on for this topic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet import endpoints
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IPushProducer, IStreamClientEndpoint
from twisted.internet.task import LoopingCall
from twisted.python.failure import Failure
from zope.interface import implementer

from gateway.backends.interface import IBackend, IFollower
from gateway.backends.remote import composing
from gateway.backends.remote.following import WAIT, Fetched, Pushed
from gateway.backends.remote.lanes import Lane
from gateway.backends.remote.servers import COMMAND_SECONDS, SHARED, Link, Way
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Reply

SWEEP_SECONDS = 0.25
"""How often deadlines are looked at."""

MAX_LEADERS = 10_000
"""Topics of which it is kept who leads them."""

MAX_HOPS = 3
"""From one server that does not lead to the next."""


@implementer(IBackend)
class RemoteBackend:
    """endpoint: of the server that is asked first.  name: the same for people."""

    durability = "upstream"

    def __init__(self, way: Way, endpoint: IStreamClientEndpoint, name: str) -> None:
        assert way.dialect.upstream is not None, "the maker has looked"
        self._way = way
        self._upstream = way.dialect.upstream
        self._endpoint = endpoint
        self._name = name
        self._links = [self._dial() for _ in range(SHARED)]
        self._lanes: dict[Session, Lane] = {}
        self._leaders: dict[q.Topic, str] = {}
        self._turns: dict[q.Topic, int] = {}
        self._led: dict[str, Link] = {}
        self._follows: set[Pushed] = set()
        self._verbs: dict[type, Callable[[Any, Session], Reply | Deferred[Reply]]] = {
            q.Ping: self._ping,
            q.FindLeader: self._find_leader,
            q.EndSession: self._end_session,
            q.ListMemberships: self._list_memberships,
        }
        self._sweeping = LoopingCall(self._sweep)
        self._sweeping.clock = way.clock
        self._sweeping.start(SWEEP_SECONDS, now=False)

    def execute(self, command: q.Command, session: Session) -> Reply | Deferred[Reply]:
        """See IBackend."""
        verb = self._verbs.get(type(command))
        return self._ask(command, session) if verb is None else verb(command, session)

    def follow(
        self, command: q.Follow, session: Session, follower: IFollower
    ) -> IPushProducer | Deferred[IPushProducer]:
        """See IBackend."""
        if q.Follow in self._upstream.commands:
            pushed = Pushed(command, follower, self._dial, self._way.clock)
            try:
                pushed.begin()
            except CommandFailed as failure:
                pushed.stopProducing()
                if failure.fault is not Fault.UNSUPPORTED:
                    raise
            else:
                self._follows.add(pushed)
                return pushed
        return Deferred.fromCoroutine(self._fetched(command, session, follower))

    def close(self) -> None:
        """See IBackend."""
        self._sweeping.stop()
        for pushed in self._follows:
            pushed.stopProducing()
        for way in self._ways():
            way.close()

    # -- asking

    def _ask(self, command: q.Command, session: Session) -> Deferred[Reply]:
        """As it is if that can be said, else composed."""
        wait = getattr(command, "wait", 0.0)
        until = self._way.clock.seconds() + COMMAND_SECONDS + wait
        try:
            if wait > 0 and type(command) not in self._upstream.waits:
                steps = composing.wait_here(command, self._asking(session), self._way.clock)  # type: ignore[arg-type]  # only Fetch and Take wait
                return Deferred.fromCoroutine(_coroutine(steps))
            done = self._send(command, session, until)
        except CommandFailed as failure:
            return self._compose(failure, command, session)
        return done.addErrback(self._failed, command, session, until, MAX_HOPS)

    def _send(self, command: q.Command, session: Session, until: float) -> Deferred[Reply]:
        if self._leaders and (leader := self._leaders.get(getattr(command, "topic", None))) is not None:  # type: ignore[arg-type]  # None leads nothing
            return self._led[leader].ask(command, until)
        lane = self._lanes.get(session)
        if lane is None:
            shared = self._links[session.id % SHARED]
            lane = self._lanes[session] = Lane(self._way.dialect, shared, self._dial)
        return lane.ask(command, until)

    def _failed(
        self, failure: Failure, command: q.Command, session: Session, until: float, hops: int
    ) -> Deferred[Reply]:
        error = failure.value
        if not isinstance(error, CommandFailed):
            return fail(failure)
        if error.fault is Fault.UNSUPPORTED:
            return self._compose(error, command, session)
        topic = getattr(command, "topic", None)
        moved = error.fault is Fault.NOT_LEADER or (topic in self._leaders and error.fault in _PERHAPS_MOVED)
        if not moved or topic is None or not hops:
            return fail(failure)
        self._leaders.pop(topic, None)

        async def ask_again() -> Reply:
            await self._look_for(topic, error, session)
            return await self._send(command, session, until)

        return Deferred.fromCoroutine(ask_again()).addErrback(self._failed, command, session, until, hops - 1)

    async def _look_for(self, topic: q.Topic, error: CommandFailed, session: Session) -> None:
        """Find who leads a topic now: from what the failure says, else by asking."""
        leader = error.facts.get("leader")
        if not isinstance(leader, str):
            try:
                found = await self._ask(q.FindLeader(topic), session)
            except CommandFailed:
                raise error from None
            leader = found.address if isinstance(found, r.Leader) else ""
        if not leader or error.fault is not Fault.NOT_LEADER:
            return
        if len(self._leaders) >= MAX_LEADERS:
            self._leaders.clear()
        if leader not in self._led:
            host, _, port = leader.rpartition(":")
            endpoint = endpoints.HostnameEndpoint(self._way.clock, host.strip("[]"), int(port))
            self._led[leader] = Link(self._way, endpoint, leader)
        self._leaders[topic] = leader

    def _compose(self, failure: CommandFailed, command: q.Command, session: Session) -> Deferred[Reply]:
        if failure.fault is not Fault.UNSUPPORTED:
            raise failure
        return Deferred.fromCoroutine(composing.compose(command, self._asking(session), self._upstream, failure))

    def _asking(self, session: Session) -> composing.Ask:
        return composing.Ask(self.execute, session, self._turns)

    async def _fetched(self, command: q.Follow, session: Session, follower: IFollower) -> IPushProducer:
        alone = Session(-session.id, session.dialect)  # its waits hold up nothing else
        ask = self._asking(alone)
        wait = WAIT if q.Fetch in self._upstream.waits else 0.0

        def ended() -> None:
            self._end_session(q.EndSession(), alone)

        try:
            begin = await composing.offset_of(command.start, command.topic, command.partition, ask)
        except CommandFailed:
            ended()
            raise
        fetched = Fetched(command, begin, follower, ask, wait, self._way.clock, ended)
        fetched.begin()
        return fetched

    # -- what is answered here

    def _ping(self, command: q.Ping, session: Session) -> Deferred[Reply]:
        """A server that has no such question is there if there is a connection to it."""
        if q.Ping in self._upstream.commands:
            return self._ask(command, session)
        return self._links[session.id % SHARED].there(self._way.clock.seconds() + COMMAND_SECONDS)

    def _find_leader(self, command: q.FindLeader, session: Session) -> Reply | Deferred[Reply]:
        """It is this gateway, for all who ask it; but of a topic that is not there nobody is."""
        if command.subject is None or q.DescribeTopic not in self._upstream.commands:
            return r.Leader()
        asked = self._ask(q.DescribeTopic(command.subject), session)
        return asked.addCallback(lambda described: r.Leader())

    def _list_memberships(self, command: q.ListMemberships, session: Session) -> Reply:
        """The server numbers its own connections, which are not those of this gateway."""
        raise CommandFailed(Fault.UNSUPPORTED, "who is a member is known to the upstream alone")

    def _end_session(self, command: q.EndSession, session: Session) -> Reply:
        lane = self._lanes.pop(session, None)
        if lane is not None:
            lane.close()
        return r.Done()

    # -- time

    def _sweep(self) -> None:
        now = self._way.clock.seconds()
        for way in self._ways():
            way.sweep(now)
        for pushed in list(self._follows):
            pushed.sweep(now)
        self._follows = {pushed for pushed in self._follows if not pushed.stopped}

    def _ways(self) -> list[Link | Lane]:
        return [*self._links, *self._led.values(), *self._lanes.values()]

    def _dial(self) -> Link:
        return Link(self._way, self._endpoint, self._name)


_PERHAPS_MOVED = frozenset({Fault.NO_SUCH_TOPIC, Fault.UNAVAILABLE})
"""What a server says of a topic that it led before; mlog's clients look for the leader again then."""


async def _coroutine(steps: Awaitable[Reply]) -> Reply:
    return await steps
