"""The backend that has a server of some dialect carry commands out: the translation proxy.

A command is said as it is where the wire has words for it, else composed of several (composing.py), else UNSUPPORTED.
A server that is not the leader is asked who is, and that one from then on for this topic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IPushProducer, IStreamClientEndpoint
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from gateway.backends.interface import IBackend, IFollower
from gateway.backends.remote import composing
from gateway.backends.remote.following import WAIT, Following, Means
from gateway.backends.remote.leaders import Leaders
from gateway.backends.remote.links import Link
from gateway.backends.remote.naps import Naps
from gateway.backends.remote.servers import Server
from gateway.backends.remote.ways import COMMAND_SECONDS, Unsent, Way, repeatable
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Reply

SWEEP_SECONDS = 0.25
"""How often deadlines are looked at."""

MAX_HOPS = 3
"""From one server that does not lead to the next."""


@implementer(IBackend)
class RemoteBackend:
    """endpoint: of the server that is asked first.  name: the same for people."""

    durability = "upstream"

    _log = Logger()

    def __init__(self, way: Way, endpoint: IStreamClientEndpoint, name: str) -> None:
        assert way.dialect.upstream is not None, "the maker has looked"
        self._way = way
        self.bursts = way.bursts
        self._upstream = way.dialect.upstream
        self._first = Server(way, endpoint, name)
        self._leaders = Leaders(way, self._first)
        self._turns: dict[q.Topic, int] = {}
        self._running: dict[Session, int] = {}
        self._ended: set[Session] = set()
        self._follows: set[Following] = set()
        self._nap = Naps(way.clock)
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
        return Deferred.fromCoroutine(self._follow(command, follower))

    def close(self) -> None:
        """See IBackend."""
        if self._sweeping.running:
            self._sweeping.stop()
        self._nap.close()
        for following in list(self._follows):
            following.end(Unsent("the gateway is stopping"))
        for server in self._leaders.servers():
            server.close()

    # -- asking

    def _carry_out(self, command: q.Command, session: Session, until: float | None = None) -> Reply | Deferred[Reply]:
        verb = self._verbs.get(type(command))
        return self._ask(command, session, until) if verb is None else verb(command, session)

    def _ask(self, command: q.Command, session: Session, until: float | None = None) -> Deferred[Reply]:
        """As it is if that can be said, else composed.  until: of the command that this is a step of."""
        wait = getattr(command, "wait", 0.0)
        if until is None:
            until = self._way.clock.seconds() + COMMAND_SECONDS + wait
        if wait > 0 and type(command) not in self._upstream.waits:
            asking = self._asking(session, until)
            steps = composing.wait_here(command, asking, self._way.clock, self._nap)  # type: ignore[arg-type]  # only Fetch and Take wait
            return self._counted(Deferred.fromCoroutine(_coroutine(steps)), session)
        done = self._send(command, session, until)
        return self._counted(done.addErrback(self._failed, command, session, until, MAX_HOPS), session)

    def _send(self, command: q.Command, session: Session, until: float) -> Deferred[Reply]:
        try:
            return self._leaders.of(getattr(command, "topic", None)).ask(command, session, until)
        except CommandFailed as failure:
            return fail(failure)

    def _failed(
        self, failure: Failure, command: q.Command, session: Session, until: float, hops: int
    ) -> Deferred[Reply]:
        error: object = failure.value
        if isinstance(error, CommandFailed) and error.fault is Fault.UNSUPPORTED:
            return self._compose(error, command, session, until)
        return self._moved(failure, command, session, until, hops)

    def _moved(
        self, failure: Failure, command: q.Command, session: Session, until: float, hops: int
    ) -> Deferred[Reply]:
        error: object = failure.value
        topic: q.Topic | None = getattr(command, "topic", None)
        if not isinstance(error, CommandFailed) or topic is None or not self._has_moved(topic, error, command):
            return fail(failure)
        if not hops or self._way.clock.seconds() >= until:
            return fail(failure)
        again = Deferred.fromCoroutine(self._ask_leader(topic, error, command, session, until))
        return again.addErrback(self._failed, command, session, until, hops - 1)

    def _has_moved(self, topic: q.Topic, error: CommandFailed, command: q.Command) -> bool:
        """Whether somebody else leads the topic, and the command was not done by who was thought to."""
        known = self._leaders.known(topic)
        if error.fault is Fault.NOT_LEADER or (known and error.fault in _PERHAPS_MOVED):
            self._leaders.forget(topic)
        if error.fault is Fault.UNAVAILABLE:
            return known and (isinstance(error, Unsent) or repeatable(command))
        return error.fault is Fault.NOT_LEADER or (known and error.fault in _PERHAPS_MOVED)

    async def _ask_leader(
        self, topic: q.Topic, error: CommandFailed, command: q.Command, session: Session, until: float
    ) -> Reply:
        """Whom a NOT_LEADER names, or who is when asked; after another failure the first server again."""
        if error.fault is Fault.NOT_LEADER:
            leader = error.facts.get("leader") or await self._leader_of(topic, session, until)
            if not isinstance(leader, str) or not self._leaders.learn(topic, leader):
                raise error
        return await self._send(command, session, until)

    async def _leader_of(self, topic: q.Topic, session: Session, until: float) -> str | None:
        try:
            found = await self._ask(q.FindLeader(topic), session, until)
        except CommandFailed:
            return None
        return found.address if isinstance(found, r.Leader) else None

    def _compose(self, failure: CommandFailed, command: q.Command, session: Session, until: float) -> Deferred[Reply]:
        asking = self._asking(session, until)
        return Deferred.fromCoroutine(composing.compose(command, asking, self._upstream, failure))

    def _asking(self, session: Session, until: float | None = None) -> composing.Ask:
        """until: the deadline of what is composed."""
        return composing.Ask(
            lambda command, who: self._carry_out(command, who, until),
            lambda command, who: self._say(command, who, until),
            session,
            self._turns,
        )

    def _say(self, command: q.Command, session: Session, until: float | None) -> Deferred[Reply]:
        """As it is, or not at all."""
        until = self._way.clock.seconds() + COMMAND_SECONDS if until is None else until
        return self._send(command, session, until).addErrback(self._moved, command, session, until, MAX_HOPS)

    # -- what a session leaves behind when it ends: a command goes on, and so may need connections once more

    def _counted(self, done: Deferred[Reply], session: Session) -> Deferred[Reply]:
        self._running[session] = self._running.get(session, 0) + 1
        return done.addBoth(self._finished, session)

    def _finished(self, outcome: Reply | Failure, session: Session) -> Reply | Failure:
        left = self._running[session] - 1
        if left:
            self._running[session] = left
            return outcome
        del self._running[session]
        if session in self._ended:
            self._ended.discard(session)
            self._release(session)
        return outcome

    def _release(self, session: Session) -> None:
        for server in self._leaders.servers():
            server.end(session)

    # -- following

    async def _follow(self, command: q.Follow, follower: IFollower) -> IPushProducer:
        alone = Session(0)  # its waits hold up nothing else
        wait = WAIT if q.Fetch in self._upstream.waits else 0.0

        def ended(following: Following) -> None:
            self._follows.discard(following)
            self._end_session(q.EndSession(), alone)

        means = Means(self._look, self._asking(alone), wait, self._way.clock, self._nap, self._way.random, ended)
        following = Following(command, follower, means)
        self._follows.add(following)
        try:
            return await following.begin()
        except BaseException:
            ended(following)
            raise

    async def _look(self, command: q.Follow) -> Link | None:
        """A connection to who leads the topic, None if it cannot be asked to push this.  Fails as a Fetch does."""
        alone = Session(0)
        try:
            await self._asking(alone)(q.Fetch(command.topic, command.partition, command.start, 1, 1))
        except CommandFailed as failure:
            if failure.fault is not Fault.UNSUPPORTED:
                raise
        finally:
            self._end_session(q.EndSession(), alone)
        link = self._leaders.of(command.topic).dial()
        try:
            link.check(command)
        except CommandFailed as failure:
            link.close()
            if failure.fault is not Fault.UNSUPPORTED:
                raise
            return None
        return link

    # -- what is answered here

    def _ping(self, command: q.Ping, session: Session) -> Deferred[Reply]:
        """A server that has no such question is there if there is a connection to it."""
        if q.Ping in self._upstream.commands:
            return self._ask(command, session)
        return self._first.there(session, self._way.clock.seconds() + COMMAND_SECONDS)

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
        self._release(session)
        if session in self._running:
            self._ended.add(session)
        return r.Done()

    # -- time

    def _sweep(self) -> None:
        try:
            now = self._way.clock.seconds()
            self._leaders.sweep(now)
            for following in list(self._follows):
                following.sweep(now)
        except Exception:  # else nobody would ever look at a deadline again
            self._log.failure("looking at deadlines failed")


_PERHAPS_MOVED = frozenset({Fault.NO_SUCH_TOPIC, Fault.UNAVAILABLE})
"""What a server says of a topic that it led before; mlog's clients look for the leader again then."""


async def _coroutine(steps: Awaitable[Reply]) -> Reply:
    return await steps
