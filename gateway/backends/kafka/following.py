"""Follow: the records of one partition, pushed on for as long as somebody wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from gateway.backends.interface import IFollower
from gateway.backends.kafka.registry import Place
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import RecordBatch

if TYPE_CHECKING:
    from gateway.backends.kafka.cluster import Cluster

FOLLOW_SECONDS = 30.0
"""One wait of a Follow, after which it looks whether the topic is still the same."""

AGAIN_SECONDS = 0.5
"""After which who waits goes on trying while Kafka cannot be reached."""

PASSING = (Fault.UNAVAILABLE, Fault.TIMEOUT, Fault.BUSY)
"""What that may come as."""

Found = tuple[tuple[RecordBatch, ...], int, int]
"""Batches, and the bounds of their partition: the earliest offset kept, and the next to be written."""


@implementer(IPushProducer)
class Following:
    """One Follow: reads ahead of nobody, one read at a time, and none while paused.

    read:  as Reading.read.
    start: the first offset wanted, which is there or will be.
    """

    _log = Logger()

    def __init__(
        self,
        cluster: Cluster,
        read: Callable[..., Deferred[Found]],
        command: q.Follow,
        place: Place,
        start: int,
        follower: IFollower,
    ) -> None:
        self._cluster = cluster
        self._from = read
        self._command = command
        self._place = place
        self._next = start
        self._follower = follower
        self._resumed: Deferred[None] | None = None
        self._stopped = False
        self._running: Deferred[None] | None = None

    def begin(self) -> IPushProducer:
        """Push, from the next turn of the reactor on."""
        self._cluster.reactor.callLater(0, self._begin)  # the caller gets its producer first
        return self

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
        if self._running is not None:
            self._running.cancel()

    def _begin(self) -> None:
        if not self._stopped:
            self._running = Deferred.fromCoroutine(self._run())
            self._running.addErrback(self._failed)

    async def _run(self) -> None:
        while True:
            while self._resumed is not None:
                await self._resumed
            try:
                batches = await self._read()
            except CommandFailed as failure:
                if failure.fault not in PASSING:
                    raise
                await deferLater(self._cluster.reactor, AGAIN_SECONDS)
                continue
            while self._resumed is not None:
                await self._resumed
            self._deliver(batches)

    async def _read(self) -> tuple[RecordBatch, ...]:
        command = self._command
        found = self._cluster.place(command.topic)
        place = await found if isinstance(found, Deferred) else found
        if place.id != self._place.id:
            raise CommandFailed(Fault.NO_SUCH_TOPIC, "it was deleted, and another has its name")
        limits = command.max_records, command.max_bytes
        return (await self._from(place, command.partition, self._next, *limits, FOLLOW_SECONDS))[0]

    def _deliver(self, batches: tuple[RecordBatch, ...]) -> None:
        for batch in batches:
            if self._stopped:
                return
            self._next = batch.end
            self._follower.deliver(batch)

    def _failed(self, failure: Failure) -> None:
        if self._stopped or isinstance(failure.value, CancelledError):
            return
        self._stopped = True
        if isinstance(failure.value, CommandFailed):
            self._follower.ended(failure.value)
        else:
            self._log.failure("a Follow failed", failure=failure)
            self._follower.ended(CommandFailed(Fault.INTERNAL))
