"""A connection to a server of any dialect, as its client: ClientSession on a socket, with deadlines.

Requests leave together, one write a turn of the reactor; answers find their callers by tag, or by order where the
dialect has none.  Knows nothing of why it was connected, nor of other connections.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer, IReactorTime, ITCPTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from gateway.core.commands import Command
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import RecordBatch
from gateway.core.replies import Outcome, Reply
from gateway.dialects import ClientSession, Dialect, Request, Terms
from gateway.net.sockets import send, tune

LAST_TAG = (1 << 31) - 1
"""Tags go round; every tagged dialect has room for these."""

OWED_SECONDS = 10.0
"""How long after its deadline an answer may still come before a server that says other things is hung up on: what it
owes is kept in mind, and of an untagged one nothing behind it is ever heard."""

Deliver = Callable[[RecordBatch], None]


class Asked:
    """A command that somebody waits for.

    until:   when its caller gives up, seconds of the clock; a Follow only waits like this for being sent.
    at:      when it was sent, infinitely late until then.
    deliver: takes what is pushed, for a Follow.
    """

    __slots__ = ("at", "command", "deliver", "done", "until")

    def __init__(self, command: Command, until: float, deliver: Deliver | None = None) -> None:
        self.command = command
        self.until = until
        self.at = math.inf
        self.deliver = deliver
        self.done: Deferred[Reply] = Deferred()

    def fail(self, failure: CommandFailed) -> None:
        """Unless its caller has given up."""
        if not self.done.called:
            self.done.errback(failure)

    def overdue(self, now: float) -> bool:
        """Whether it was sent and should have been answered."""
        return now >= self.until and self.at < math.inf and self.deliver is None


class Bursts:
    """Around answers that came together, so that who passes them on writes once, and no turn of the reactor later."""

    def __init__(self) -> None:
        self.begin: Callable[[], None] = _nothing
        self.end: Callable[[], None] = _nothing


def _nothing() -> None:
    """Nobody passes anything on."""


@implementer(IPushProducer)
class Peer(Protocol):
    """The server at the other end.

    terms: what it and we have agreed on.
    lost:  told once the connection is gone, with what was never answered, in the order it was asked; `at` says of each
           whether it was sent.
    gone:  it is.
    heard: when something last came from it.
    """

    _log = Logger()

    def __init__(
        self,
        dialect: Dialect,
        terms: Terms,
        clock: IReactorTime,
        lost: Callable[[Peer, list[Asked]], None],
        bursts: Bursts | None = None,
    ) -> None:
        self._bursts = bursts or Bursts()
        self.terms = terms
        self._session = ClientSession(dialect, terms)
        self._clock = clock
        self._on_lost = lost
        self._asked: dict[int, Asked] = {}
        self._unsent: list[Asked] = []
        self._tag = 0
        self._hung_up = False
        self.gone = False
        self.heard = clock.seconds()

    @property
    def open(self) -> int:
        """Requests that have not been answered."""
        return len(self._asked)

    @property
    def idle(self) -> bool:
        """Nobody waits for an answer."""
        return all(asked.done.called for asked in self._asked.values())

    def connectionMade(self) -> None:
        """See IProtocol."""
        tune(self.transport)
        if ITCPTransport.providedBy(self.transport):
            self.transport.setTcpKeepAlive(True)  # a stream may have nothing to say for long

    def ask(self, asked: Asked, context: object = None, tag: int | None = None) -> None:
        """Send a request.  tag: only for what a dialect says with a certain one, such as a greeting.

        Raises CommandFailed for what the dialect cannot say; `asked.done` fails with what the server makes of it.
        """
        if tag is None:
            tag = self._tag = self._next_tag()
        self._session.ask(Request(asked.command, tag, context))
        asked.at = math.inf
        self._asked[tag] = asked
        self._unsent.append(asked)
        if len(self._asked) == 1:
            self._flush()  # who asks one thing at a time waits for nobody
        elif len(self._unsent) == 1:
            self._clock.callLater(0, self._flush)

    def dataReceived(self, data: bytes) -> None:
        """See IProtocol."""
        self.heard = self._clock.seconds()
        answers = self._session.receive(data)
        garbled = answers[-1][1] if answers and self._session.closing else None
        self._bursts.begin()
        try:
            for request, outcome in answers:
                self._answered(cast(int, request.tag), _unknown(outcome) if outcome is garbled else outcome)
        finally:  # else nothing would be written any more, to anybody
            self._bursts.end()
        if self._session.closing:
            self.abort()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """See IProtocol."""
        self.gone = True
        asked, self._asked = list(self._asked.values()), {}
        self._on_lost(self, asked)

    def pauseProducing(self) -> None:
        """Read no more for now."""
        if not self.gone:
            self._reader.pauseProducing()

    def resumeProducing(self) -> None:
        """Read again."""
        if not self.gone:
            self._reader.resumeProducing()

    def stopProducing(self) -> None:
        """Read nothing more at all."""
        self.abort()

    def sweep(self, now: float) -> None:
        """Give up what is overdue; hang up on a server from which nothing has come since that was sent."""
        overdue = [asked for asked in self._asked.values() if asked.overdue(now)]
        if any(self.heard <= asked.at or now >= asked.until + OWED_SECONDS for asked in overdue):
            self.abort()
        for asked in overdue:
            asked.fail(CommandFailed(Fault.TIMEOUT, "the upstream did not answer in time"))

    def close(self) -> None:
        """Hang up once what was written is out; nobody is kept waiting for what comes of it."""
        if not self.gone and self.transport is not None:
            self._flush()
            self.transport.loseConnection()
            for asked in list(self._asked.values()):
                asked.fail(CommandFailed(Fault.UNAVAILABLE, "the gateway hung up: this may have been done, or not"))

    def abort(self) -> None:
        """Hang up now; what was not sent yet never will be."""
        self._hung_up = True
        if not self.gone and self.transport is not None:
            self.transport.abortConnection()  # type: ignore[attr-defined]  # ITCPTransport, and TLS has it too

    def _answered(self, tag: int, outcome: Outcome | RecordBatch) -> None:
        asked = self._asked.get(tag)
        if asked is None:
            return  # the connection was lost while we told of an answer before it
        if isinstance(outcome, RecordBatch):
            assert asked.deliver is not None, "only what is followed is pushed"
            asked.deliver(outcome)
            return
        del self._asked[tag]
        if asked.done.called:
            return  # whoever asked has given up
        if isinstance(outcome, CommandFailed):
            asked.done.errback(outcome)
        else:
            asked.done.callback(outcome)

    def _flush(self) -> None:
        if self._hung_up or self.gone or self.transport is None:
            return
        now, unsent, self._unsent = self._clock.seconds(), self._unsent, []
        for asked in unsent:
            asked.at = now
        octets = self._session.take()
        if octets:
            send(self.transport, octets)

    def _next_tag(self) -> int:
        tag = self._tag
        while True:
            tag = tag % LAST_TAG + 1
            if tag not in self._asked:
                return tag

    @property
    def _reader(self) -> IPushProducer:
        return IPushProducer(self.transport)


def _unknown(outcome: Outcome | RecordBatch) -> Outcome | RecordBatch:
    """What became of requests whose answers were never understood: the fault is not of who asked."""
    if not isinstance(outcome, CommandFailed) or outcome.fault not in (Fault.MALFORMED, Fault.TOO_LARGE):
        return outcome
    why = f"the upstream cannot be understood, {outcome.detail}: this may have been done, or not"
    return CommandFailed(Fault.UNAVAILABLE, why)
