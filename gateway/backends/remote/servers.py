"""One server, and the connections to it: made when they are needed, and again when they are lost.

What was asked while there is no connection waits for one until its deadline.  What was sent and not answered when a
connection is lost is asked again only if asking twice changes nothing; else its outcome is unknown, and that is said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import cast

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IProtocol, IReactorTime, IStreamClientEndpoint
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure

from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding
from gateway.core.replies import Done, Reply
from gateway.dialects import Dialect, Request, Settings, Terms
from gateway.net.client import Asked, Peer

SHARED = 4
"""Connections to a server that all sessions share."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds: the bound below which the pause before another attempt is drawn doubles from one to the other."""

COMMAND_SECONDS = 10.0
"""From asking to the answer, beside what a command itself says it would wait."""

MAX_ASKED = 10_000
"""Commands on their way or waiting, of one connection."""

REPEATABLE: frozenset[type] = frozenset(
    {
        *(q.Ping, q.Describe, q.DescribeSession, q.ListSessions, q.ListNamespaces, q.DescribeNamespace),
        *(q.ListTopics, q.DescribeTopic, q.LatestOffsets, q.FetchOffsets, q.ListGroups, q.DescribeGroup),
        *(q.SyncGroup, q.Heartbeat, q.MapGet, q.MapSize, q.MapScan, q.Peek, q.QueueSize, q.FindLeader),
    }
)
"""What may be asked twice."""


def repeatable(command: q.Command) -> bool:
    """Whether asking twice changes nothing."""
    if isinstance(command, q.Fetch):
        return not command.commit and not command.create and command.partition is not None
    return type(command) in REPEATABLE


class Way(msgspec.Struct, frozen=True):
    """How servers are spoken to.

    random: 0..1, evenly.
    login:  what is said before anything else, None = nothing.
    """

    dialect: Dialect
    settings: Settings
    encodings: Mapping[str, Encoding]
    clock: IReactorTime
    random: Callable[[], float]
    login: q.Authenticate | None = None

    def terms(self) -> Terms:
        """Of a new connection."""
        return self.dialect.open(self.settings, self.encodings).terms("")


class Link:
    """One connection to a server.

    name:   of the server, for people.
    joined: what has to be said again on a new connection: members that live with it.
    """

    _log = Logger()

    def __init__(self, way: Way, endpoint: IStreamClientEndpoint, name: str) -> None:
        self._way = way
        self._endpoint = endpoint
        self._name = name
        self._peer: Peer | None = None
        self._ready = False
        self._waiting: deque[Asked] = deque()
        self._connecting: Deferred[IProtocol] | None = None
        self._pausing: IDelayedCall | None = None
        self._attempts = 0
        self._down: float | None = None
        self._why = "it was never reached"
        self._closed = False
        self._pings = way.dialect.upstream is not None and q.Ping in way.dialect.upstream.commands
        self._terms: Terms | None = None  # of the newest connection: what can be said while nobody listens
        self.joined: dict[tuple[q.Topic, int | str], q.JoinGroup] = {}

    @property
    def idle(self) -> bool:
        """Nobody waits for anything."""
        return not self._waiting and (self._peer is None or not self._peer.open)

    def ask(self, command: q.Command, until: float) -> Deferred[Reply]:
        """Raises CommandFailed for what cannot be said, and where nothing is to be hoped for."""
        asked = Asked(command, until)
        self.send(asked)
        return asked.done

    def send(self, asked: Asked) -> None:
        """The same, with a Deferred that is there already."""
        if self._closed:
            raise CommandFailed(Fault.UNAVAILABLE, "the gateway is stopping")
        peer = self._peer
        if peer is not None and self._ready:
            if peer.open >= MAX_ASKED:
                raise CommandFailed(Fault.BUSY, f"{MAX_ASKED} requests wait for {self._name}")
            peer.ask(asked)
        else:
            self.check(asked.command)
            self._wait(asked)

    def there(self, until: float) -> Deferred[Reply]:
        """Done once there is a connection."""
        asked = Asked(q.Ping(), until)
        if self._ready:
            asked.done.callback(Done())
        else:
            self._wait(asked)
        return asked.done

    def check(self, command: q.Command) -> None:
        """Raises CommandFailed if it is known that this cannot be said."""
        if self._terms is not None:
            self._way.dialect.encode_request(Request(command, 1), self._terms)

    def sweep(self, now: float) -> None:
        """Deadlines."""
        if self._peer is not None:
            self._peer.sweep(now)
        for asked in [asked for asked in self._waiting if now >= asked.until]:
            self._waiting.remove(asked)
            asked.fail(Fault.UNAVAILABLE, f"{self._name} cannot be reached: {self._why}")

    def pause(self) -> None:
        """Read no more for now."""
        if self._peer is not None:
            self._peer.pauseProducing()

    def resume(self) -> None:
        """Read again."""
        if self._peer is not None:
            self._peer.resumeProducing()

    def close(self) -> None:
        """Hang up; whoever waits is told."""
        self._closed = True
        if self._pausing is not None and self._pausing.active():
            self._pausing.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        self._fail_waiting("it was closed")
        if self._peer is not None:
            self._peer.close()

    # -- while there is no connection

    def _wait(self, asked: Asked) -> None:
        if len(self._waiting) >= MAX_ASKED:
            raise CommandFailed(Fault.BUSY, f"{MAX_ASKED} requests wait for {self._name}")
        if self._down is not None and self._way.clock.seconds() - self._down > COMMAND_SECONDS:
            self._connect()
            raise CommandFailed(Fault.UNAVAILABLE, f"{self._name} cannot be reached: {self._why}")
        self._waiting.append(asked)
        self._connect()

    def _connect(self) -> None:
        if self._closed or self._peer is not None or self._connecting is not None:
            return
        if self._pausing is not None and self._pausing.active():
            return
        way = self._way
        factory = Factory.forProtocol(lambda: Peer(way.dialect, way.terms(), way.clock, self._lost))
        connecting = self._connecting = self._endpoint.connect(factory)
        connecting.addCallbacks(self._connected, self._refused)

    def _connected(self, protocol: IProtocol) -> None:
        self._connecting = None
        peer = self._peer = cast(Peer, protocol)
        if self._closed:
            peer.abort()
            return
        Deferred.fromCoroutine(self._greet(peer)).addErrback(self._not_greeted, peer)

    async def _greet(self, peer: Peer) -> None:
        """Say who we are, and what we were; then whatever waits."""
        way, until = self._way, self._way.clock.seconds() + COMMAND_SECONDS
        upstream = way.dialect.upstream
        if upstream is not None and upstream.hello is not None:
            hello = upstream.hello(peer.terms)
            await _ask(peer, hello.command, until, hello.context, cast(int, hello.tag))
        if way.login is not None:
            await _log_in(peer, way.login, until)
        for join in self.joined.values():
            await _ask(peer, join, until)
        self._attempts, self._down, self._ready, self._terms = 0, None, True, peer.terms
        while self._waiting and self._peer is peer:
            self._send_waiting(self._waiting.popleft(), peer)

    def _send_waiting(self, asked: Asked, peer: Peer) -> None:
        if asked.done.called:
            return
        if type(asked.command) is q.Ping and not self._pings:
            asked.done.callback(Done())
            return
        try:
            peer.ask(asked)
        except CommandFailed as failure:
            asked.done.errback(failure)

    def _not_greeted(self, failure: Failure, peer: Peer) -> None:
        self._why = f"it was reached, but {failure.value}"
        if not isinstance(failure.value, CommandFailed):
            self._log.failure("greeting {name} failed", failure=failure, name=self._name)
        elif failure.value.fault in (Fault.BAD_CREDENTIALS, Fault.UNAUTHENTICATED, Fault.UNSUPPORTED):
            self._fail_waiting(self._why)  # which no waiting will mend
        peer.abort()

    def _refused(self, failure: Failure) -> None:
        self._connecting = None
        self._why = failure.getErrorMessage()
        self._again()

    def _again(self) -> None:
        """Try once more after a while, if there is anybody to try for; all gateways at different times."""
        clock = self._way.clock
        if self._down is None:
            self._down = clock.seconds()
            self._log.warn("{name}: {why}", name=self._name, why=self._why)
        if self._closed:
            return
        bound = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._attempts)
        self._attempts = min(self._attempts + 1, 16)
        self._pausing = clock.callLater(bound * self._way.random(), self._paused)

    def _paused(self) -> None:
        if self._waiting or self.joined:
            self._connect()

    def _lost(self, peer: Peer, unanswered: list[Asked]) -> None:
        if self._peer is peer:
            self._peer, was_ready, self._ready = None, self._ready, False
            if was_ready:
                self._why = "the connection was lost"
        now = self._way.clock.seconds()
        again: list[Asked] = []
        for asked in unanswered:
            if not self._closed and asked.deliver is None and now < asked.until and repeatable(asked.command):
                again.append(asked)
            else:
                asked.fail(
                    Fault.UNAVAILABLE, f"{self._name} hung up before it answered: this may have been done, or not"
                )
        self._waiting.extendleft(reversed(again))
        self._again()

    def _fail_waiting(self, why: str) -> None:
        while self._waiting:
            self._waiting.popleft().fail(Fault.UNAVAILABLE, f"{self._name}: {why}")


def _ask(
    peer: Peer, command: q.Command, until: float, context: object = None, tag: int | None = None
) -> Deferred[Reply]:
    asked = Asked(command, until)
    peer.ask(asked, context, tag)
    return asked.done


async def _log_in(peer: Peer, login: q.Authenticate, until: float) -> None:
    """Unless that server knows no login."""
    try:
        answered = _ask(peer, login, until)
    except CommandFailed as failure:
        if failure.fault is not Fault.UNSUPPORTED:
            raise
    else:
        await answered
