"""A connection to a server: made when it is first needed, and again whenever it is lost.

What was asked while there is no connection waits for one until its deadline.  What was sent and not answered when a
connection is lost is asked again only if asking twice changes nothing; else its outcome is unknown, and that is said.
"""

from __future__ import annotations

import math
from collections import deque
from typing import cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IProtocol, IStreamClientEndpoint
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure

from gateway.backends.remote.ways import COMMAND_SECONDS, PASSING, Agreed, Unsent, Way, repeatable
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Done, Reply
from gateway.dialects import Request
from gateway.net.client import Asked, Peer

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds: the bound below which the pause before another attempt is drawn doubles from one to the other."""

CONNECT_SECONDS = 1.5
"""How long one attempt may take: a machine that is off says nothing, and is asked anew soon after it is on again."""

MAX_ASKED = 10_000
"""Commands on their way or waiting, of one connection."""

MAX_HELD = 64 << 20
"""Bytes of records in these."""

_HOPELESS = frozenset({Fault.BAD_CREDENTIALS, Fault.UNAUTHENTICATED, Fault.UNSUPPORTED})
"""Answers to a greeting which no waiting will mend."""


class Link:
    """One connection to a server.

    name:    of the server, for people.
    agreed:  what all connections to it know of it.
    patient: what is asked while the server cannot be reached waits; else it fails, so that another one can be asked.
    joined:  what has to be said again on a new connection: members that live with it.
    """

    _log = Logger()

    def __init__(
        self, way: Way, endpoint: IStreamClientEndpoint, name: str, agreed: Agreed, *, patient: bool = True
    ) -> None:
        self._way = way
        self._endpoint = endpoint
        self._name = name
        self._patient = patient
        self._peer: Peer | None = None
        self._ready = False
        self._waiting: deque[Asked] = deque()
        self._held = 0
        self._connecting: Deferred[IProtocol] | None = None
        self._pausing: IDelayedCall | None = None
        self._attempts = 0
        self._down: float | None = None
        self._why = "it was never reached"
        self._hopeless = False
        self._deaf = False
        self._leaving = False
        self._closed = False
        self._pings = way.dialect.upstream is not None and q.Ping in way.dialect.upstream.commands
        self._agreed = agreed
        self.joined: dict[tuple[q.Topic, int | str], q.JoinGroup] = {}

    @property
    def idle(self) -> bool:
        """Nobody waits for anything."""
        return all(asked.done.called for asked in self._waiting) and (self._peer is None or self._peer.idle)

    def ask(self, command: q.Command, until: float) -> Deferred[Reply]:
        """Raises CommandFailed for what cannot be said, and where nothing is to be hoped for."""
        asked = Asked(command, until)
        self.send(asked)
        return asked.done

    def send(self, asked: Asked) -> None:
        """The same, with a Deferred that is there already."""
        size = len(asked.command.batch.body) if type(asked.command) is q.Publish else 0
        self._admit(size)
        if self._peer is not None and self._ready:
            self._peer.ask(asked)
        else:
            self.check(asked.command)
            self._wait(asked)
        if size:
            self._held += size
            asked.done.addBoth(self._let_go, size)

    def there(self, until: float) -> Deferred[Reply]:
        """Done once there is a connection."""
        self._admit(0)
        asked = Asked(q.Ping(), until)
        if self._ready:
            asked.done.callback(Done())
        else:
            self._wait(asked)
        return asked.done

    def check(self, command: q.Command) -> None:
        """Raises CommandFailed if it is known that this cannot be said."""
        if self._agreed.terms is not None:
            self._way.dialect.encode_request(Request(command, 1), self._agreed.terms)

    def sweep(self, now: float) -> None:
        """Deadlines."""
        if self._peer is not None:
            self._peer.sweep(now)
        if any(now >= asked.until for asked in self._waiting):
            late = [asked for asked in self._waiting if now >= asked.until]
            self._waiting = deque(asked for asked in self._waiting if now < asked.until)
            for asked in late:
                asked.fail(self._unreachable())

    def pause(self) -> None:
        """Read no more for now."""
        self._deaf = True
        if self._peer is not None and self._ready:
            self._peer.pauseProducing()

    def resume(self) -> None:
        """Read again."""
        self._deaf = False
        if self._peer is not None and self._ready:
            self._peer.resumeProducing()

    def left(self) -> bool:
        """It is not needed any more: closed, unless somebody waits for an answer.  Returns whether it is."""
        self._leaving = True
        self.joined.clear()
        if self.idle and not self._closed:
            self.close()
        return self._closed

    def close(self) -> None:
        """Hang up; whoever waits is told."""
        self._closed = True
        if self._pausing is not None and self._pausing.active():
            self._pausing.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        self._fail_waiting(_closed())
        if self._peer is not None:
            self._peer.close()

    # -- what is asked

    def _admit(self, size: int) -> None:
        if self._closed:
            raise _closed()
        count = len(self._waiting) + (self._peer.open if self._peer is not None else 0)
        if count >= MAX_ASKED:
            raise CommandFailed(Fault.BUSY, f"{count} requests wait for {self._name}")
        if self._held + size > MAX_HELD and self._held:
            raise CommandFailed(Fault.BUSY, f"{self._held} bytes of records wait for {self._name}")

    def _let_go(self, outcome: Reply | Failure, size: int) -> Reply | Failure:
        self._held -= size
        return outcome

    def _wait(self, asked: Asked) -> None:
        if self._down is not None and self._way.clock.seconds() - self._down > COMMAND_SECONDS:
            self._connect()
            raise self._unreachable()
        self._waiting.append(asked)
        self._connect()

    def _fail_waiting(self, failure: CommandFailed) -> None:
        waiting, self._waiting = self._waiting, deque()
        for asked in waiting:
            asked.fail(failure)

    def _unreachable(self) -> Unsent:
        return Unsent(f"{self._name} cannot be reached: {self._why}")

    # -- coming to a connection

    def _connect(self) -> None:
        if self._closed or self._peer is not None or self._connecting is not None:
            return
        if self._pausing is not None and self._pausing.active():
            return
        way = self._way
        factory = Factory.forProtocol(lambda: Peer(way.dialect, way.terms(), way.clock, self._lost, way.bursts))
        factory.noisy = False
        connecting = self._connecting = self._endpoint.connect(factory)
        connecting.addTimeout(CONNECT_SECONDS, way.clock, _no_answer)
        connecting.addCallbacks(self._connected, self._refused)

    def _connected(self, protocol: IProtocol) -> None:
        self._connecting = None
        peer = cast(Peer, protocol)
        if self._closed:
            peer.abort()
        elif peer.gone:
            self._again()
        else:
            self._peer = peer
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
        for group in list(self.joined):
            await self._join_again(peer, group, until)
        self._attempts, self._down, self._hopeless, self._agreed.terms = 0, None, False, peer.terms
        while self._waiting:  # and what is asked meanwhile waits behind it
            self._send_waiting(self._waiting.popleft(), peer)
        self._ready = True
        if self._deaf:
            peer.pauseProducing()

    async def _join_again(self, peer: Peer, group: tuple[q.Topic, int | str], until: float) -> None:
        """Unless the group or its topic is gone; that its member learns from the answer to what it asks next."""
        join = self.joined.get(group)
        if join is None:
            return
        try:
            await _ask(peer, join, until)
        except CommandFailed as failure:
            if failure.fault in PASSING:
                raise
            self.joined.pop(group, None)

    def _send_waiting(self, asked: Asked, peer: Peer) -> None:
        if asked.done.called:
            return
        if type(asked.command) is q.Ping and not self._pings:
            asked.done.callback(Done())
            return
        try:
            peer.ask(asked)
        except Exception:  # a defect too is for who asked, and keeps up nobody behind it
            asked.done.errback(Failure())

    def _not_greeted(self, failure: Failure, peer: Peer) -> None:
        self._why = f"it was reached, but {failure.value}"
        if not isinstance(failure.value, CommandFailed):
            self._log.failure("greeting {name} failed", failure=failure, name=self._name)
        elif failure.value.fault in _HOPELESS:
            self._hopeless = True
            self._fail_waiting(self._unreachable())
        if not peer.gone:
            peer.abort()

    def _refused(self, failure: Failure) -> None:
        self._connecting = None
        self._why = failure.getErrorMessage()
        self._again()

    # -- without a connection

    def _again(self) -> None:
        """Try once more after a while; all gateways at different times."""
        if self._closed:
            return
        clock = self._way.clock
        if self._down is None:
            self._down = clock.seconds()
            self._log.warn("{name}: {why}", name=self._name, why=self._why)
        bound = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._attempts)
        self._attempts = min(self._attempts + 1, 16)
        self._pausing = clock.callLater(bound * self._way.random(), self._paused)
        if not self._patient:
            self._fail_waiting(self._unreachable())

    def _paused(self) -> None:
        """A wrong password is not said again before somebody asks for something."""
        if self._waiting or self.joined or not (self._hopeless or self._leaving):
            self._connect()

    def _lost(self, peer: Peer, unanswered: list[Asked]) -> None:
        if self._peer is not peer:
            return  # before it was ours, so nothing had been asked
        was_ready, self._peer, self._ready = self._ready, None, False
        if was_ready:
            self._why = "the connection was lost"
        again: list[Asked] = []
        told: list[Asked] = []
        for asked in unanswered:
            (again if was_ready and self._may_go_again(asked) else told).append(asked)
        self._waiting.extendleft(reversed(again))
        self._again()  # first, for who is told may ask anew
        for asked in told:
            asked.fail(_unknown(self._name))

    def _may_go_again(self, asked: Asked) -> bool:
        if self._closed or asked.done.called or self._way.clock.seconds() >= asked.until:
            return False
        return asked.at == math.inf or (asked.deliver is None and repeatable(asked.command))


def _closed() -> Unsent:
    return Unsent("the connection was closed by this gateway")


def _unknown(name: str) -> CommandFailed:
    return CommandFailed(Fault.UNAVAILABLE, f"{name} hung up before it answered: this may have been done, or not")


def _no_answer(outcome: IProtocol | Failure, seconds: float) -> IProtocol:
    """An attempt that was given up."""
    if not isinstance(outcome, Failure):
        return outcome
    raise CommandFailed(Fault.UNAVAILABLE, f"it did not answer within {seconds:g} s")


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
