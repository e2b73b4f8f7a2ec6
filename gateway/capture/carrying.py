"""One captured connection, played again to a server: its requests go out as they were, what comes back is cut and
paired with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime, ISSLTransport, ITCPTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from gateway.capture.comparing import records
from gateway.capture.reading import Answers, following
from gateway.core.commands import Follow
from gateway.core.records import RecordBatch
from gateway.dialects import Dialect, Refusal, Request, Tag, Terms
from gateway.dialects.frames import FrameBuffer

CLOSE_SECONDS = 2.0
"""How long a server may take to hang up after we did."""

LONGEST = 1 << 31


class Carried(Protocol):
    """A connection to the server.

    frames: the answers that came, by ticket.
    pushed: what came for each Follow, by its ticket: records as `records` has them.
    gone:   the server hung up.
    """

    def __init__(self, dialect: Dialect, terms: Terms, clock: IReactorTime) -> None:
        self.dialect = dialect
        self.answers = Answers(dialect, terms)
        self.frames: dict[int, bytes] = {}
        self.pushed: dict[int, list[object]] = {}
        self.gone = False
        self._clock = clock
        self._cut = FrameBuffer(dialect.measure_reply, LONGEST)
        self._order: deque[int] = deque()
        self._tags: dict[Tag, deque[int]] = {}
        self._asked: dict[int, Request | Refusal] = {}
        self._waiting: tuple[Callable[[], bool], Deferred[None]] | None = None

    def ask(self, ticket: int, request: Request | Refusal, octets: bytes, *, silent: bool) -> None:
        """Send a request.  silent: it is answered with nothing."""
        if not silent:
            self._asked[ticket] = request
            if self.dialect.tagged:
                self._tags.setdefault(request.tag, deque()).append(ticket)
            else:
                self._order.append(ticket)
            if _follows(request):
                self.pushed[ticket] = []
        if self.transport is not None and not self.gone:
            self.transport.write(octets)

    def wait(self, true: Callable[[], bool], seconds: float) -> Deferred[None]:
        """Fires when that is so, the time is over, or the server has hung up."""
        done: Deferred[None] = Deferred()
        if true() or self.gone:
            done.callback(None)
            return done
        deadline = self._clock.callLater(seconds, self._fire)
        self._waiting = true, done
        return done.addBoth(_stop, deadline)

    def follow_of(self, frame: bytes) -> int | None:
        """The ticket of the Follow that a pushed frame belongs to."""
        found = following(self.dialect, self._asked.values(), frame)
        return next((ticket for ticket, request in self._asked.items() if request is found), None)

    async def leave(self) -> None:
        """Say that no more comes, and wait until the server has hung up: what it does then is done."""
        if self.gone or self.transport is None:
            return
        if ITCPTransport.providedBy(self.transport) and not ISSLTransport.providedBy(self.transport):
            self.transport.loseWriteConnection()
        else:
            self.transport.loseConnection()
        await self.wait(lambda: self.gone, CLOSE_SECONDS)
        if not self.gone:
            self.transport.abortConnection()  # type: ignore[attr-defined]  # ITCPTransport, and TLS has it too
            await self.wait(lambda: self.gone, CLOSE_SECONDS)

    # -- what the transport tells us

    def dataReceived(self, data: bytes) -> None:
        """See IProtocol."""
        frames, _ = self._cut.feed(data)
        for frame in frames:
            self._take(frame)
        self._look()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """See IProtocol."""
        self.gone = True
        self._look()

    def _take(self, frame: bytes) -> None:
        ticket = self._ticket(frame)
        if ticket is None:
            return  # it answers what was not captured
        request = self._asked[ticket]
        if _follows(request):
            said = self.answers.read(request, frame)
            if said is None:
                return
            if isinstance(said, RecordBatch):
                self.pushed[ticket] += records(said)
                return
        self.frames[ticket] = frame
        self._close(ticket, request)

    def _ticket(self, frame: bytes) -> int | None:
        if self.dialect.reply_tag is None:
            return self._order[0] if self._order else None
        waiting = self._tags.get(self.dialect.reply_tag(frame))
        return waiting[0] if waiting else None

    def _close(self, ticket: int, request: Request | Refusal) -> None:
        del self._asked[ticket]
        (self._tags[request.tag] if self.dialect.tagged else self._order).popleft()

    def _look(self) -> None:
        if self._waiting is not None and (self.gone or self._waiting[0]()):
            self._fire()

    def _fire(self) -> None:
        if self._waiting is not None:
            (_, done), self._waiting = self._waiting, None
            done.callback(None)


def _follows(request: Request | Refusal) -> bool:
    return isinstance(request, Request) and isinstance(request.command, Follow)


def _stop(result: None, deadline: IDelayedCall) -> None:
    if deadline.active():
        deadline.cancel()
