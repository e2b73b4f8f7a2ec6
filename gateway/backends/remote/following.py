"""A Follow at a server of another dialect: what it pushes, on a connection of its own, or one Fetch behind the other.

A stream that is lost is taken up again where it was, for as long as any command would be waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from gateway.backends.interface import IFollower
from gateway.backends.remote.composing import Ask, offset_of
from gateway.backends.remote.links import Link
from gateway.backends.remote.ways import COMMAND_SECONDS, PASSING
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import RecordBatch
from gateway.net.client import Asked

NAP = 0.05
"""Seconds between two looks at a server that has nothing."""

PAUSE = 0.2
"""Seconds: the bound below which the pause before a stream that was lost is asked for again is drawn."""

WAIT = 5.0
"""Seconds that a Fetch waits for records, where that can be said."""

Result = TypeVar("Result")


class Means(msgspec.Struct, frozen=True):
    """What a Follow works with.

    look:   a connection to who leads the topic and pushes that, None = that cannot be said.  Fails as a Fetch does.
    ask:    has a command carried out.  wait: seconds that a Fetch may wait at the server, 0 = it answers at once.
    nap:    a pause.  random: 0..1, evenly.
    ended:  told once there will be nothing more.
    """

    look: Callable[[q.Follow], Coroutine[Any, Any, Link | None]]
    ask: Ask
    wait: float
    clock: IReactorTime
    nap: Callable[[float], Deferred[None]]
    random: Callable[[], float]
    ended: Callable[[Following], None]


@implementer(IPushProducer)
class Following:
    """One of them."""

    _log = Logger()

    def __init__(self, command: q.Follow, follower: IFollower, means: Means) -> None:
        self._command = command
        self._follower = follower
        self._means = means
        self._next: int | None = None
        self._failing: float | None = None
        self._link: Link | None = None
        self._awaited: Deferred[Any] | None = None
        self._resumed: Deferred[None] | None = None
        self._stopped = False

    async def begin(self) -> IPushProducer:
        """Go on until stopped.  Raises CommandFailed if there is nothing to follow."""
        if isinstance(self._command.start, q.Last):  # the same records still, when it is taken up again
            self._command = msgspec.structs.replace(self._command, start=await self._first())
        link = await self._means.look(self._command)
        if link is None:
            self._next = await self._first()
        Deferred.fromCoroutine(self._run(link)).addBoth(self._over)
        return self

    def sweep(self, now: float) -> None:
        """Deadlines."""
        if self._link is not None:
            self._link.sweep(now)

    def pauseProducing(self) -> None:
        """See IPushProducer."""
        if self._resumed is None:
            self._resumed = Deferred()
        if self._link is not None:
            self._link.pause()

    def resumeProducing(self) -> None:
        """See IPushProducer."""
        resumed, self._resumed = self._resumed, None
        if self._link is not None:
            self._link.resume()
        if resumed is not None and not resumed.called:
            resumed.callback(None)

    def stopProducing(self) -> None:
        """See IPushProducer."""
        self._stopped = True
        if self._awaited is not None:
            self._awaited.cancel()

    def end(self, failure: CommandFailed) -> None:
        """As `stopProducing`, and the follower is told."""
        if not self._stopped:
            self.stopProducing()
            self._follower.ended(failure)

    # -- one try behind the other

    async def _run(self, link: Link | None) -> None:
        while not self._stopped:
            if link is None:
                await self._fetch()
            else:
                await self._heed(link)
            link = None
            if not self._stopped:
                await self._wait(self._means.nap(PAUSE * self._means.random()))
                link = await self._wait(Deferred.fromCoroutine(self._means.look(self._from_here())))
        if link is not None:
            link.close()

    async def _heed(self, link: Link) -> None:
        """Take what is pushed, until the connection is lost."""
        asked = Asked(self._from_here(), self._means.clock.seconds() + COMMAND_SECONDS, self._deliver)
        self._link = link
        try:
            link.send(asked)
            if self._resumed is not None:
                link.pause()
            await self._wait(asked.done)
        except CommandFailed as failure:
            if failure.fault not in PASSING or self._hopeless(asked):
                raise
        finally:
            self._link = None
            link.close()

    def _hopeless(self, asked: Asked) -> bool:
        """Whether streams have failed for long, each as soon as it was asked for."""
        now = self._means.clock.seconds()
        if self._failing is None or now - asked.at > PAUSE:
            self._failing = now
        return now - self._failing > COMMAND_SECONDS

    async def _fetch(self) -> None:
        command, means = self._command, self._means
        if self._next is None:
            self._next = await self._wait(Deferred.fromCoroutine(self._first()))
        limits = command.max_records, command.max_bytes, means.wait
        while not self._stopped:
            if self._resumed is not None:
                await self._wait(self._resumed)
            asked = means.ask(q.Fetch(command.topic, command.partition, self._next, *limits))
            fetched = await self._wait(Deferred.fromCoroutine(asked))
            assert isinstance(fetched, r.Records), "so a Fetch is answered"
            for batch in fetched.batches:
                self._deliver(batch)
            if not fetched.batches:
                await self._wait(means.nap(NAP))

    async def _first(self) -> int:
        command = self._command
        return await offset_of(command.start, command.topic, command.partition, self._means.ask)

    def _from_here(self) -> q.Follow:
        """Behind what was delivered, whatever the reader has committed meanwhile."""
        if self._next is None:
            return self._command
        return msgspec.structs.replace(self._command, start=self._next)

    def _deliver(self, batch: RecordBatch) -> None:
        if not self._stopped:
            self._next = batch.end
            self._follower.deliver(batch)

    async def _wait(self, awaited: Deferred[Result]) -> Result:
        """What is awaited, unless stopped before: only what waits can be canceled."""
        self._awaited = awaited
        try:
            return await awaited
        finally:
            self._awaited = None

    def _over(self, outcome: Failure | None) -> None:
        if isinstance(outcome, Failure) and not self._stopped:
            self._stopped = True
            failure = outcome.value
            if not isinstance(failure, CommandFailed):
                self._log.failure("a Follow failed", failure=outcome)
                failure = CommandFailed(Fault.INTERNAL)
            self._follower.ended(failure)
        self._means.ended(self)
