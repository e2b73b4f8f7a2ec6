"""A Follow at a server of another dialect: what it pushes, on a connection of its own, or one Fetch behind the other.

A stream that is lost is taken up again where it was, for as long as any command would be waited for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from gateway.backends.interface import IFollower
from gateway.backends.remote.servers import COMMAND_SECONDS, Link
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import RecordBatch
from gateway.net.client import Asked

NAP = 0.05
"""Seconds between two looks at a server that has nothing."""

PAUSE = 0.2
"""Seconds before a stream that was lost is asked for again."""

WAIT = 5.0
"""Seconds that a Fetch waits for records, where that can be said."""


@implementer(IPushProducer)
class Pushed:
    """What a server pushes.  dial: makes a connection.  stopped: there will be nothing more."""

    def __init__(self, command: q.Follow, follower: IFollower, dial: Callable[[], Link], clock: IReactorTime) -> None:
        self._command = command
        self._follower = follower
        self._clock = clock
        self._link = dial()
        self._dial = dial
        self._next: int | None = None
        self._lost: float | None = None
        self._paused = False
        self.stopped = False

    def begin(self) -> None:
        """Raises CommandFailed for what cannot be said."""
        asked = Asked(self._from_here(), float("inf"), self._deliver)
        self._link.send(asked)
        asked.done.addCallbacks(self._answered, self._failed)

    def sweep(self, now: float) -> None:
        """Deadlines."""
        self._link.sweep(now)

    def pauseProducing(self) -> None:
        """See IPushProducer."""
        self._paused = True
        self._link.pause()

    def resumeProducing(self) -> None:
        """See IPushProducer."""
        self._paused = False
        self._link.resume()

    def stopProducing(self) -> None:
        """See IPushProducer."""
        self.stopped = True
        self._link.close()

    def _from_here(self) -> q.Follow:
        command, begin = self._command, self._next
        if begin is None:
            return command
        if isinstance(command.start, q.Next):
            return msgspec.structs.replace(command, start=q.Next(command.start.reader, begin))
        return msgspec.structs.replace(command, start=begin)

    def _deliver(self, batch: RecordBatch) -> None:
        self._lost = None
        if not self.stopped:
            self._next = batch.end
            self._follower.deliver(batch)

    def _answered(self, reply: r.Reply) -> None:
        self._end(CommandFailed(Fault.UNAVAILABLE, "the upstream ended the stream"))

    def _failed(self, failure: Failure) -> None:
        if self.stopped:
            return
        if not isinstance(failure.value, CommandFailed):
            self._end(CommandFailed(Fault.UNAVAILABLE, failure.getErrorMessage()))
            return
        now = self._clock.seconds()
        self._lost = now if self._lost is None else self._lost
        if failure.value.fault is not Fault.UNAVAILABLE or now - self._lost > COMMAND_SECONDS:
            self._end(failure.value)
        else:
            self._clock.callLater(PAUSE, self._again)

    def _again(self) -> None:
        if self.stopped:
            return
        self._link.close()
        self._link = self._dial()
        try:
            self.begin()
        except CommandFailed as failure:
            self._end(failure)
            return
        if self._paused:
            self._link.pause()

    def _end(self, failure: CommandFailed) -> None:
        if not self.stopped:
            self.stopProducing()
            self._follower.ended(failure)


@implementer(IPushProducer)
class Fetched:
    """One Fetch behind the other.

    ask:   has a command carried out.
    wait:  seconds that a Fetch may wait at the server, 0 = it answers at once.
    ended: told once there will be nothing more.
    """

    _log = Logger()

    def __init__(
        self,
        command: q.Follow,
        begin: int,
        follower: IFollower,
        ask: Callable[[q.Command], Awaitable[r.Reply]],
        wait: float,
        clock: IReactorTime,
        ended: Callable[[], None],
    ) -> None:
        self._command = command
        self._next = begin
        self._follower = follower
        self._ask = ask
        self._wait = wait
        self._clock = clock
        self._ended = ended
        self._stopped = False
        self._going: Deferred[None] | None = None
        self._resumed: Deferred[None] | None = None

    def begin(self) -> None:
        """Go on until stopped."""
        self._going = Deferred.fromCoroutine(self._run())
        self._going.addErrback(self._failed).addCallback(lambda ignored: self._ended())

    def pauseProducing(self) -> None:
        """See IPushProducer."""
        if self._resumed is None:
            self._resumed = Deferred()

    def resumeProducing(self) -> None:
        """See IPushProducer."""
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            resumed.callback(None)

    def stopProducing(self) -> None:
        """See IPushProducer."""
        self._stopped = True
        if self._going is not None:
            self._going.cancel()

    async def _run(self) -> None:
        command = self._command
        while not self._stopped:
            if self._resumed is not None:
                await self._resumed
            limits = command.max_records, command.max_bytes, self._wait
            fetched = await self._ask(q.Fetch(command.topic, command.partition, self._next, *limits))
            assert isinstance(fetched, r.Records), "so a Fetch is answered"
            for batch in fetched.batches:
                if self._stopped:
                    return
                self._next = batch.end
                self._follower.deliver(batch)
            if not fetched.batches and not self._wait:
                await deferLater(self._clock, NAP, lambda: None)

    def _failed(self, failure: Failure) -> None:
        if self._stopped or isinstance(failure.value, CancelledError):
            return
        self._stopped = True
        if isinstance(failure.value, CommandFailed):
            self._follower.ended(failure.value)
        else:
            self._log.failure("a Follow failed", failure=failure)
            self._follower.ended(CommandFailed(Fault.INTERNAL))
