"""Snapshots as server-sent events: made once a second for all readers, and only while there are any.

A reader that is slow misses some, since each of them is the whole; one that takes nothing for a while is hung up on.
So a reader costs one snapshot and what its socket holds.  https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import Request
from zope.interface import implementer

EVERY = 1.0
"""Seconds from one event to the next."""

MAX_READERS = 32

MAX_MISSED = 10
"""Events in a row that a reader may not take."""

RETRY = b"retry: 1000\n\n"
"""Milliseconds after which a browser that lost us tries again."""


@implementer(IPushProducer)
class Reader:
    """One browser that looks on."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self._full = False
        self._missed = 0
        request.setHeader(b"Content-Type", b"text/event-stream")
        request.registerProducer(self, True)
        request.write(RETRY)

    def tell(self, event: bytes) -> bool:
        """Returns whether it took that, or may still take the next."""
        if not self._full:
            self._missed = 0
            self.request.write(event)
            return True
        self._missed += 1
        return self._missed <= MAX_MISSED

    def end(self) -> None:
        """That was all."""
        self.request.unregisterProducer()
        self.request.finish()

    def abort(self) -> None:
        """Hang up, whatever it has not read yet."""
        self.request.channel.abort()  # type: ignore[attr-defined]  # web.Channel

    def pauseProducing(self) -> None:
        """See IPushProducer."""
        self._full = True

    def resumeProducing(self) -> None:
        """See IPushProducer."""
        self._full = False

    def stopProducing(self) -> None:
        """See IPushProducer; notifyFinish says it, too."""


class Readers:
    """All of them.  look: makes a snapshot, as JSON in one line."""

    _log = Logger()

    def __init__(self, look: Callable[[], Deferred[bytes]], clock: IReactorTime) -> None:
        self._look = look
        self._readers: set[Reader] = set()
        self._last = b""
        self._turns = LoopingCall(self._turn)
        self._turns.clock = clock

    def __len__(self) -> int:
        return len(self._readers)

    def admit(self, request: Request) -> bool:
        """Tell it everything from now on.  Returns False if there are as many as there may be."""
        if len(self._readers) >= MAX_READERS:
            return False
        reader = Reader(request)
        self._readers.add(reader)
        request.notifyFinish().addBoth(self._left, reader)
        if not self._turns.running:
            self._turns.start(EVERY)
        elif self._last:
            reader.tell(self._last)
        return True

    def close(self) -> None:
        """End them all."""
        for reader in list(self._readers):
            reader.end()

    def _left(self, result: object, reader: Reader) -> None:
        self._readers.discard(reader)
        if not self._readers and self._turns.running:
            self._turns.stop()
            self._last = b""

    def _turn(self) -> Deferred[None]:
        return self._look().addCallbacks(self._tell, self._failed)

    def _tell(self, snapshot: bytes) -> None:
        self._last = b"data: %b\n\n" % snapshot
        for reader in list(self._readers):
            if not reader.tell(self._last):
                reader.abort()

    def _failed(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            self._log.failure("no snapshot", failure=failure)
