"""The newest records of partitions that somebody waits for: one consumer and one thread for all of them.

Hundreds may wait, in few partitions or many, and none has a thread.  What comes is kept for a while, so that all who
wait for it are answered without a read each.  Everything is called in the reactor, but for what the thread runs.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from gateway.backends.kafka.consuming import SHARED
from gateway.backends.kafka.records import batches
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import RecordBatch, select

if TYPE_CHECKING:
    from gateway.backends.kafka.cluster import Cluster

MAX_TAILS = 2000
"""Partitions that are waited for at once; the next wait is BUSY."""

TAIL_BYTES = 1 << 20
"""Of bodies kept of one partition; who is slower than that reads from the log."""

GRACE_SECONDS = 2.0
"""How long a partition is followed that nobody waits for."""

RETRY_SECONDS = 0.2
"""After which those who waited look again, when Kafka has refused their partition."""

POLL_SECONDS = 0.02
"""After which a new partition is taken up at the latest."""

CLOSE_SECONDS = 2.0
"""For the thread to end."""

_SETTINGS: dict[str, object] = {
    **SHARED,
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 50,  # a partition that is new has to wait for the answer about the others
    "fetch.message.max.bytes": 256 << 10,
    "queued.max.messages.kbytes": 16 << 10,
    "fetch.queue.backoff.ms": 5,
    "fetch.error.backoff.ms": 100,
}

Key = tuple[str, int]
"""Kafka's name of the topic, and the partition."""

Arrival = tuple[Key, int, tuple[RecordBatch, ...]]
"""Where, in which of the times it was taken up, and what; nothing: Kafka has refused it."""


class Tail:
    """What came of one partition from offset `start` on, up to `end`.

    ticket: which of the times it was taken up this is: what was on its way from another is not to be mixed in.
    """

    def __init__(self, start: int, ticket: int) -> None:
        self.start = self.end = start
        self.ticket = ticket
        self.batches: list[RecordBatch] = []
        self.length = 0
        self.used = 0.0
        self.waiting: dict[object, tuple[int, Callable[[], None]]] = {}

    def add(self, arrived: Iterable[RecordBatch]) -> None:
        """Take in what came, and give up the oldest of what is too much."""
        for batch in arrived:
            self.batches.append(batch)
            self.length += len(batch.body)
            self.end = batch.end
        while self.length > TAIL_BYTES and self.batches:
            gone = self.batches.pop(0)
            self.length -= len(gone.body)
            self.start = gone.end


class Tails:
    """All that are followed."""

    _log = Logger()

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._tails: dict[Key, Tail] = {}
        self._ticket = 0
        self._changes: queue.SimpleQueue[tuple[Key, Tail] | tuple[Key, None] | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._sweep = LoopingCall(self._give_up)
        self._sweep.clock = cluster.reactor

    def read(self, key: Key, start: int, max_records: int, max_bytes: int) -> tuple[RecordBatch, ...] | None:
        """From offset `start` on; none = there was nothing yet, None = the log has to be read."""
        tail = self._tails.get(key)
        if tail is None or start < tail.start:
            return None
        tail.used = self._cluster.reactor.seconds()
        return tuple(select(tail.batches, start, max_records, max_bytes)) if start < tail.end else ()

    def end(self, key: Key) -> int:
        """The next offset, as far as it is known here; 0 = it is not."""
        tail = self._tails.get(key)
        return 0 if tail is None else tail.end

    def wait(self, key: Key, start: int, end: int, waiter: object, again: Callable[[], None]) -> None:
        """Call `again` once there may be records from `start` on, unless `forget` is called first.

        end: where the partition ended just now; it is followed from there, or from `start` if that is before.
        """
        tail = self._tails.get(key)
        if tail is None:
            tail = self._follow(key, min(start, end))
        tail.waiting[waiter] = start, again
        if tail.end > start:
            self._wake(tail, 0.0)

    def forget(self, key: Key, waiter: object) -> None:
        """The waiter is content or gone."""
        tail = self._tails.get(key)
        if tail is not None and tail.waiting.pop(waiter, None) is not None:
            tail.used = self._cluster.reactor.seconds()

    def gone(self, topic: str) -> None:
        """The topic is gone, or another: those who wait look again."""
        for key in [key for key in self._tails if key[0] == topic]:
            self._drop(key)

    def close(self) -> None:
        """Follow nothing more."""
        self._closing.set()
        self._changes.put(None)
        if self._sweep.running:
            self._sweep.stop()

    def join(self) -> None:
        """Wait for the end, in another thread than the reactor's."""
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _follow(self, key: Key, start: int) -> Tail:
        if len(self._tails) >= MAX_TAILS:
            raise CommandFailed(Fault.BUSY, f"{MAX_TAILS} partitions are waited for")
        self._ticket += 1
        tail = self._tails[key] = Tail(start, self._ticket)
        self._changes.put((key, tail))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kafka-tails", daemon=True)
            self._thread.start()
            self._sweep.start(GRACE_SECONDS / 2, now=False)
        return tail

    def _drop(self, key: Key) -> None:
        self._changes.put((key, None))
        self._wake(self._tails.pop(key), RETRY_SECONDS)

    def _give_up(self) -> None:
        late = self._cluster.reactor.seconds() - GRACE_SECONDS
        for key in [key for key, tail in self._tails.items() if not tail.waiting and tail.used < late]:
            self._drop(key)

    def _wake(self, tail: Tail, seconds: float) -> None:
        for waiter, (start, again) in list(tail.waiting.items()):
            if start < tail.end or seconds:
                del tail.waiting[waiter]
                self._cluster.reactor.callLater(seconds, again)

    def _arrived(self, arrivals: list[Arrival]) -> None:
        for key, ticket, found in arrivals:
            tail = self._tails.get(key)
            if tail is None or tail.ticket != ticket:
                continue
            if found:
                tail.add(found)
                self._wake(tail, 0.0)
            else:
                self._drop(key)

    # -- in the thread

    def _run(self) -> None:
        consumer = Consumer(self._cluster.settings(**_SETTINGS))
        tickets: dict[Key, int] = {}
        try:
            while not self._closing.is_set():
                self._change(consumer, tickets)
                first = consumer.poll(POLL_SECONDS) if tickets else None
                if first is not None:
                    self._sort([first, *consumer.consume(1000, 0)], tickets)
        finally:
            consumer.close()

    def _change(self, consumer: Consumer, tickets: dict[Key, int]) -> None:
        """Take up and give up what was asked for; with nothing to follow, wait for that."""
        while not (self._changes.empty() and tickets) and (change := self._changes.get()) is not None:
            key, tail = change
            try:
                if tickets.pop(key, None) is not None:
                    consumer.incremental_unassign([TopicPartition(*key)])
                if tail is not None:
                    consumer.incremental_assign([TopicPartition(*key, tail.start)])
                    tickets[key] = tail.ticket
            except KafkaException as error:
                self._log.warn("a partition cannot be followed: {error}", error=error)
                if tail is not None:
                    self._cluster.from_thread(self._arrived, [(key, tail.ticket, ())])

    def _sort(self, messages: list[Message], tickets: dict[Key, int]) -> None:
        came: dict[Key, list[Message]] = {}
        arrivals: list[Arrival] = []
        for message in messages:
            topic, partition, error = message.topic(), message.partition(), message.error()
            if error is None:
                came.setdefault((topic or "", partition or 0), []).append(message)
            elif topic and (key := (topic, partition or 0)) in tickets and not error.retriable():
                arrivals.append((key, tickets[key], ()))
        arrivals += [(key, tickets[key], batches(each)) for key, each in came.items() if key in tickets]
        self._cluster.from_thread(self._arrived, arrivals)
