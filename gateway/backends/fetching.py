"""Fetch and Follow over a state and a log: finding the start, waiting for records, pushing them on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from gateway.backends.interface import IFollower
from gateway.core import commands as q
from gateway.core.commands import MAX_OFFSET, Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import RecordBatch
from gateway.core.replies import Records, Reply
from gateway.core.state import Partition, State

Batches = tuple[RecordBatch, ...]
T = TypeVar("T")
U = TypeVar("U")


def then(value: T | Deferred[T], step: Callable[[T], U | Deferred[U]]) -> U | Deferred[U]:
    """`step(value)`, at once if the value is there."""
    return value.addCallback(step) if isinstance(value, Deferred) else step(value)


def after(write: Reply | Deferred[Reply], step: Callable[[], U | Deferred[U]]) -> U | Deferred[U]:
    """`step()`, once the write is done."""
    return write.addCallback(lambda reply: step()) if isinstance(write, Deferred) else step()


class Log(Protocol):
    """The records of one backend, by partition number."""

    def read(self, number: int, start: int, max_records: int, max_bytes: int) -> Batches | Deferred[Batches]:
        """From offset `start`, which is there, on; at least one record, else within the limits of records.select."""

    def seek(self, partition: Partition, timestamp: int) -> int | Deferred[int]:
        """Offset of the first record at or after that time, the end if there is none yet."""


class Fetching:
    """Reads for one backend.

    state: what readers may see.
    write: how the backend carries out the writes that a read can imply.
    turn:  which partition a fetch of a group is about that names none, None if its session owns none; told the one
           that it was about before, if it had to wait.
    """

    def __init__(
        self,
        state: State,
        log: Log,
        clock: IReactorTime,
        write: Callable[[q.Command, Session], Reply | Deferred[Reply]],
        turn: Callable[[q.Fetch, Session, int | None], int | None],
    ) -> None:
        self.state = state
        self.log = log
        self._clock = clock
        self._write = write
        self._turn = turn
        self._waiting: dict[int, dict[object, Callable[[], None]]] = {}

    def fetch(self, command: q.Fetch, session: Session) -> Records | Deferred[Records]:
        """Carry out a Fetch."""
        if command.create and self.state.find(command.topic) is None:
            made = self._write(q.CreateTopic(command.topic, command.create, if_exists=q.IfExists.KEEP), session)
            return after(made, lambda: self._fetch(command, session))
        return self._fetch(command, session)

    def follow(
        self, command: q.Follow, session: Session, follower: IFollower
    ) -> IPushProducer | Deferred[IPushProducer]:
        """Carry out a Follow."""
        partition = self.state.topic(command.topic).partition(command.partition)
        return then(
            self._start(partition, command.start),
            lambda start: _Following(self, command, partition, start, follower).begin(),
        )

    def wake(self, numbers: Iterable[int]) -> None:
        """There are records, or there is an end, in these partitions."""
        if not self._waiting:
            return
        for number in numbers:
            for again in list(self._waiting.get(number, {}).values()):
                again()

    def wait(self, number: int, waiter: object, again: Callable[[], None]) -> None:
        """Call `again` whenever a partition changes, until `forget`."""
        self._waiting.setdefault(number, {})[waiter] = again

    def forget(self, number: int, waiter: object) -> None:
        """The waiter is content or gone."""
        waiting = self._waiting.get(number)
        if waiting is not None and waiting.pop(waiter, None) is not None and not waiting:
            del self._waiting[number]

    def later(self, partition: Partition, ready: Callable[[], bool], wait: float) -> Deferred[float]:
        """Fires when the partition has changed and is ready, or is gone, or after `wait` seconds; with what is left of
        these."""
        number = partition.number
        deadline = self._clock.seconds() + wait
        changed: Deferred[float] = Deferred(lambda changed: stop())
        timeout = self._clock.callLater(wait, lambda: go_on())

        def stop() -> None:
            self.forget(number, changed)
            if timeout.active():
                timeout.cancel()

        def go_on() -> None:
            stop()
            changed.callback(max(0.0, deadline - self._clock.seconds()))

        def look() -> None:
            if ready() or number not in self.state.partitions:
                go_on()

        self.wait(number, changed, look)
        return changed

    def _fetch(self, command: q.Fetch, session: Session, again: int | None = None) -> Records | Deferred[Records]:
        topic = self.state.topic(command.topic)
        index = command.partition
        if index is None:
            index = self._turn(command, session, again)
        if index is None:
            return Records(0, 0, 0)
        partition = topic.partition(index)
        start = self._start(partition, command.start)
        return then(start, lambda start: self._fetch_from(start, partition, command, session))

    def _fetch_from(
        self, start: int, partition: Partition, command: q.Fetch, session: Session
    ) -> Records | Deferred[Records]:
        if partition.number not in self.state.partitions:  # deleted while the start was looked for
            return self._fetch(command, session)
        if start >= partition.end:
            if command.wait > 0:
                return self._fetch_later(start, partition, command, session)
            return Records(partition.index, partition.start, partition.end)
        bounds = partition.index, partition.start, partition.end
        batches = self.log.read(partition.number, start, command.max_records, command.max_bytes)
        found = then(batches, lambda batches: Records(*bounds, batches))
        return then(found, lambda records: self._commit(records, command, session)) if command.commit else found

    def _fetch_later(self, start: int, partition: Partition, command: q.Fetch, session: Session) -> Deferred[Records]:
        """The same Fetch once something is there or its time is over, with what is left of its wait."""

        def again(left: float) -> Records | Deferred[Records]:
            return self._fetch(msgspec.structs.replace(command, wait=left), session, partition.index)

        return self.later(partition, lambda: partition.end > start, command.wait).addCallback(again)

    def _start(self, partition: Partition, start: q.Start) -> int | Deferred[int]:
        """The offset a read begins at.  Raises CommandFailed: OFFSET_GONE, INVALID_OFFSET."""
        if isinstance(start, q.Next):
            committed = partition.offsets.get(partition.topic.reader(start.reader))
            start = start.floor if committed is None else max(committed, start.floor)
        if isinstance(start, q.First):
            return partition.start
        if isinstance(start, q.Last):
            return max(partition.start, partition.end - start.count)
        if isinstance(start, q.FromTime):
            return self.log.seek(partition, start.timestamp)
        if not 0 <= start <= MAX_OFFSET:
            raise CommandFailed(Fault.INVALID_OFFSET, str(start))
        if start < partition.start:
            bounds = {"earliest": partition.start, "latest": partition.end}
            raise CommandFailed(Fault.OFFSET_GONE, "", requested=start, **bounds)
        return start

    def _commit(self, records: Records, command: q.Fetch, session: Session) -> Records | Deferred[Records]:
        reader = command.read_by
        if not records.batches or reader is None:
            return records
        offsets: dict[int | None, int] = {records.partition: records.batches[-1].end}
        committed = self._write(q.CommitOffsets(command.topic, reader, offsets), session)
        return after(committed, lambda: records)


@implementer(IPushProducer)
class _Following:
    """One Follow: reads ahead of nobody, one read at a time, and none while paused."""

    _log = Logger()

    def __init__(
        self, fetching: Fetching, command: q.Follow, partition: Partition, start: int, follower: IFollower
    ) -> None:
        self._fetching = fetching
        self._command = command
        self._partition = partition
        self._next = start
        self._follower = follower
        self._paused = False
        self._busy = False
        self._stopped = False

    def begin(self) -> IPushProducer:
        self._fetching.wait(self._partition.number, self, self._pump)
        self._fetching._clock.callLater(0, self._pump)  # noqa: SLF001  # the caller gets its producer first
        return self

    def pauseProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        self._paused = False
        self._pump()

    def stopProducing(self) -> None:
        self._stopped = True
        self._fetching.forget(self._partition.number, self)

    def _pump(self) -> None:
        try:
            while not (self._busy or self._paused or self._stopped) and self._more():
                self._read()
        except CommandFailed as failure:
            self._end(failure)

    def _more(self) -> bool:
        """Whether there is something to read.  Raises CommandFailed if there will never be."""
        state, partition, command = self._fetching.state, self._partition, self._command
        if partition.number not in state.partitions:
            state.topic(command.topic).partition(command.partition)
            raise CommandFailed(Fault.NO_SUCH_TOPIC, "it was deleted, and another has its name")
        return self._next < partition.end

    def _read(self) -> None:
        if self._next < self._partition.start:
            bounds = {"earliest": self._partition.start, "latest": self._partition.end}
            raise CommandFailed(Fault.OFFSET_GONE, "", requested=self._next, **bounds)
        command = self._command
        batches = self._fetching.log.read(self._partition.number, self._next, command.max_records, command.max_bytes)
        if isinstance(batches, Deferred):
            self._busy = True
            batches.addCallback(self._arrived).addErrback(self._failed)
        else:
            self._deliver(batches)

    def _arrived(self, batches: Batches) -> None:
        self._busy = False
        self._deliver(batches)
        self._pump()

    def _failed(self, failure: Failure) -> None:
        self._busy = False
        if isinstance(failure.value, CommandFailed):
            self._end(failure.value)
        else:
            self._log.failure("a Follow failed", failure=failure)
            self._end(CommandFailed(Fault.INTERNAL))

    def _deliver(self, batches: Batches) -> None:
        if not batches and self._more():
            raise CommandFailed(Fault.UNAVAILABLE, f"the records at offset {self._next} are not where they should be")
        for batch in batches:
            if self._stopped:
                return
            self._next = batch.end
            self._follower.deliver(batch)

    def _end(self, failure: CommandFailed) -> None:
        if not self._stopped:
            self.stopProducing()
            self._follower.ended(failure)
