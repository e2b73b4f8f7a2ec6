"""Topics that check their producers: per partition, one group of batches at a time, judged by what is stored.

What each producer has sent is read back from the end of the partition when it is first written to here, and kept in
memory then.  Each record says its producer, epoch and sequence number in headers, so any gateway can take over.  What
is not seen is one producer that writes through two gateways at the same time: each trusts what it has read back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from confluent_kafka import Message
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from gateway.backends.kafka.consuming import ANSWER_SECONDS, Reader
from gateway.backends.kafka.readers import Readers
from gateway.backends.kafka.records import given, read
from gateway.core.faults import CommandFailed, Fault
from gateway.core.idempotence import Producers
from gateway.core.records import RecordBatch, canonical
from gateway.core.replies import Published

if TYPE_CHECKING:
    from gateway.backends.kafka.cluster import Cluster

READ_BACK = (500, 2_000, 10_000)
"""Records from the end of a partition that are read back: so many at first, then more, until READ_BACK_BYTES are read.
A producer of which nothing is in the last 10,000 is forgotten, one of which there is not, however old it is.
"""

READ_BACK_BYTES = 16 << 20

MAX_LINES = 4096
"""Partitions whose producers are kept in memory; of one that was idle for longest they are read back again."""

MAX_WAITING = 1000
"""Batches that wait for a turn in one partition; the next is BUSY."""

_UNSURE = "a batch before this one, which it was sent with, may not be stored"

Send = Callable[[str, int, RecordBatch], Deferred[tuple[int, int]]]
Waiting = tuple[RecordBatch, Deferred[Published]]


class Line:
    """The batches for one partition.  known: None = to be read back.  end: the next offset, as far as is known."""

    __slots__ = ("busy", "end", "known", "waiting")

    def __init__(self) -> None:
        self.known: Producers | None = None
        self.end = 0
        self.waiting: list[Waiting] = []
        self.busy = False


class Sequencing:
    """send: appends a batch as it is; the offsets of its first and last record.

    end: how far a partition is known to be written.
    """

    def __init__(
        self, cluster: Cluster, send: Send, end: Callable[[str, int], int] = lambda kafka, partition: 0
    ) -> None:
        self._cluster = cluster
        self._send = send
        self._end = end
        self._asking = Readers(cluster, "read_uncommitted")
        self._lines: dict[tuple[str, int], Line] = {}

    def publish(self, kafka: str, partition: int, batch: RecordBatch) -> Deferred[Published]:
        """Append what of the batch the producers did not send before.

        Fails with SEQUENCE_GAP, STALE_EPOCH, and as `send` does.
        """
        line = self._line(kafka, partition)
        if len(line.waiting) >= MAX_WAITING:
            raise CommandFailed(Fault.BUSY, f"{MAX_WAITING} batches wait for partition {partition}")
        done: Deferred[Published] = Deferred()
        line.waiting.append((batch, done))
        if not line.busy:
            line.busy = True
            Deferred.fromCoroutine(self._run(kafka, partition, line))
        return done

    def forget(self, kafka: str) -> None:
        """The topic is gone, or another: what comes is judged by what is read back."""
        for at, line in self._lines.items():
            if at[0] == kafka:
                line.known = None

    def close(self) -> None:
        """Release what it asks with; in a thread."""
        self._asking.close()

    def _line(self, kafka: str, partition: int) -> Line:
        line = self._lines.pop((kafka, partition), None) or Line()
        self._lines[kafka, partition] = line
        if len(self._lines) > MAX_LINES:
            idle = next((at for at, other in self._lines.items() if not other.busy and other is not line), None)
            if idle is not None:
                del self._lines[idle]
        return line

    async def _run(self, kafka: str, partition: int, line: Line) -> None:
        """All that waits goes as one group, and nothing more until it is answered: so no gap comes to be stored."""
        while line.waiting:
            group, line.waiting = line.waiting, []
            try:
                await self._write(kafka, partition, line, group)
            except Exception:  # whatever it is, whoever waits hears of it
                failure = Failure()
                line.known = None
                for _, done in group:
                    if not done.called:
                        done.errback(failure)
        line.busy = False

    async def _write(self, kafka: str, partition: int, line: Line, group: list[Waiting]) -> None:
        is_sure = True
        known = await self._known(kafka, partition, line)
        end = max(line.end, self._end(kafka, partition))
        sent = [self._append(kafka, partition, line, known, batch) for batch, _ in group]
        for (batch, done), answer in zip(group, sent, strict=True):
            reply = Published(partition, end, end - 1, duplicate=True) if answer is None else await _outcome(answer)
            if isinstance(answer, Deferred) and isinstance(reply, Failure):
                is_sure, line.known = False, None
            elif not is_sure and isinstance(reply, Published) and reply.last - reply.base + 1 < batch.count:
                reply = Failure(CommandFailed(Fault.UNAVAILABLE, _UNSURE))
            end = reply.last + 1 if isinstance(reply, Published) else end
            if not done.called:
                done.callback(reply)

    async def _known(self, kafka: str, partition: int, line: Line) -> Producers:
        if line.known is not None:
            return line.known
        found = await self._cluster.call(partial(read_back, self._cluster, self._asking, kafka, partition))
        line.known, line.end = found
        return found[0]

    def _append(
        self, kafka: str, partition: int, line: Line, known: Producers, batch: RecordBatch
    ) -> Deferred[Published] | CommandFailed | None:
        """Send what is new.  At once: what is refused; None: all was stored before, or is on its way in this group."""
        try:
            ranges, producers = known.admit(batch.encoding.runs(batch.body))
            if not ranges:
                return None
            sent = self._send(kafka, partition, _chosen(batch, ranges))
        except CommandFailed as failure:
            return failure
        for producer, (epoch, last) in producers.items():
            known.heard(producer, epoch, last, self._cluster.now())

        def stored(offsets: tuple[int, int]) -> Published:
            line.end = max(line.end, offsets[1] + 1)
            return Published(partition, *offsets)

        return sent.addCallback(stored)


def _chosen(batch: RecordBatch, ranges: list[tuple[int, int]]) -> RecordBatch:
    """The records in those ranges of indices as one batch, so that they are stored together or not."""
    if len(ranges) == 1:
        return batch.cut(*ranges[0])
    records = batch.records()
    return canonical([record for first, last in ranges for record in records[first:last]], batch.origin)


async def _outcome(answer: Deferred[Published] | CommandFailed) -> Published | Failure:
    if isinstance(answer, CommandFailed):
        return Failure(answer)
    try:
        return await answer
    except Exception:  # a defect too comes to whoever waits
        return Failure()


def read_back(cluster: Cluster, asking: Readers, kafka: str, partition: int) -> tuple[Producers, int]:
    """In a thread: what the producers of a partition have sent, and its end."""
    producers = Producers()
    end, found = _newest(cluster, asking, kafka, partition)
    for message in found:
        record, _ = read(None, None, given(message))
        if record.producer and record.sequence:
            producers.heard(record.producer, record.epoch, record.sequence, message.timestamp()[1] * 1000)
    return producers, end


def _newest(cluster: Cluster, asking: Readers, kafka: str, partition: int) -> tuple[int, list[Message]]:
    """The end of a partition, and the messages before it, as far as READ_BACK says.  Uncommitted ones too."""
    found: list[Message] = []
    start, end = asking.bounds(kafka, partition)
    first = end
    for depth in READ_BACK:
        first, last = max(start, end - depth), first
        if first < last:
            found = _between(cluster, (kafka, partition, first), last) + found
        if first == start or sum(map(len, found)) > READ_BACK_BYTES:
            break
    return end, found


def _between(cluster: Cluster, place: tuple[str, int, int], end: int) -> list[Message]:
    reader = Reader(cluster, place, "read_uncommitted")
    found: list[Message] = []
    try:
        if reader.gather(found, end, 1 << 62, 1 << 62, ANSWER_SECONDS) < end:
            raise CommandFailed(Fault.UNAVAILABLE, "Kafka did not give what the producers have sent before")
    finally:
        reader.close()
    return found
