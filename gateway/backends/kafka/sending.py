"""Batches on their way to Kafka: one idempotent producer, one thread that fills it, and one that hears what came of it.

Nothing here blocks the reactor: whoever sends gets a Deferred, fired once for the whole batch.  What comes of it is an
answer for all levels of acknowledgment: the producer waits for every replica in sync (acks=all) whatever was asked.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Producer
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from gateway.backends.kafka.delivering import MAX_MESSAGE, Sending
from gateway.backends.kafka.faults import failed
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import RecordBatch

if TYPE_CHECKING:
    from gateway.backends.kafka.cluster import Cluster

LINGER_MS = 0
"""How long a record waits for others.  One record is answered in 0.5 ms, with any other number in 1.6; batches are as
fast either way, since what comes while a request is on its way goes as the next.
"""

DELIVERY_MS = 8000
"""After which a record without an answer has failed; seen within a second more, and so within a command's deadline."""

MAX_RECORDS = 400_000
"""Records on their way at once; what would be more is BUSY."""

MAX_BYTES = 128 << 20
"""Bytes of bodies on their way at once, likewise; one batch is taken however long."""

MAX_ENDS = 10_000
"""Partitions of which it is remembered how far was written; those that were written to last."""

POLL_SECONDS = 0.2
"""A look at whether it is over, while nothing is heard."""

DRAIN_SECONDS = 0.001
"""Between looks whether all is on its way no more."""

CLOSE_SECONDS = 2.0
"""What is on its way has so long at the end."""

_SETTINGS: dict[str, object] = {
    "acks": "all",
    "enable.idempotence": True,  # what librdkafka sends again within DELIVERY_MS is stored once, and in order
    "max.in.flight": 1,  # of more, one that overtakes another on a partition that is new loses it: see delivering
    "linger.ms": LINGER_MS,
    "message.timeout.ms": DELIVERY_MS,
    "message.max.bytes": MAX_MESSAGE,
    "batch.size": 1_000_000,
    "topic.metadata.refresh.interval.ms": -1,  # see Sender.gone
    "queue.buffering.max.messages": 2 * MAX_RECORDS,  # never full: `send` counts before
    "queue.buffering.max.kbytes": 1 << 20,
}


class Sender:
    """The way to Kafka for all that is published here.  Batches leave in the order they come, and whole; but they go in
    requests of the client's own measure, so a reader may see the front of one first, and who writes there besides this
    gateway may come between.
    """

    _log = Logger()

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._queue: queue.SimpleQueue[Sending | str | None] = queue.SimpleQueue()
        self._records = self._bytes = self._time = 0
        self._ended: list[Sending] = []
        self._broken: list[tuple[Sending, int, KafkaError]] = []
        self._producer: Producer | None = None
        self._known: set[str] = set()
        self._ends: dict[tuple[str, int], int] = {}
        self._is_bad = False
        self._making = threading.Lock()
        self._opened = threading.Event()
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._fill, name="kafka-send", daemon=True),
            threading.Thread(target=self._hear, name="kafka-sent", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    # -- in the reactor

    def send(self, kafka: str, partition: int, batch: RecordBatch) -> Deferred[tuple[int, int]]:
        """Append the batch.  The offsets of its first and last record.

        Raises CommandFailed(BUSY); fails with TOO_LARGE and nothing stored, or UNAVAILABLE, and then whether it is
        stored is not known.
        """
        if self._closing.is_set():
            raise CommandFailed(Fault.UNAVAILABLE, "the gateway is closing")
        length = len(batch.body)
        if self._records and (self._records + batch.count > MAX_RECORDS or self._bytes + length > MAX_BYTES):
            raise CommandFailed(Fault.BUSY, f"{self._records} records wait for Kafka")
        self._records += batch.count
        self._bytes += length
        now = self._cluster.now()
        self._time = max(now, self._time)
        sending = Sending(kafka, partition, batch, now, self._ended, self._time)
        self._time += batch.count
        self._queue.put(sending)
        return sending.done

    def end(self, kafka: str, partition: int) -> int:
        """The offset behind the last record that somebody was told of; 0 = of none."""
        return self._ends.get((kafka, partition), 0)

    def gone(self, topic: str) -> None:
        """The topic is no more.  A producer that has written to it asks for it now and then, and where brokers make
        topics by themselves it would be there again.
        """
        for key in [key for key in self._ends if key[0] == topic]:
            del self._ends[key]
        self._queue.put(topic)

    def close(self) -> None:
        """Take no more.  What is on its way goes on for as long as `join` waits."""
        self._closing.set()
        self._opened.set()
        self._queue.put(None)

    def join(self, seconds: float) -> None:
        """Wait for the end, in another thread than the reactor's."""
        for thread in self._threads:
            thread.join(seconds)

    def _settle(self, ended: list[tuple[Sending, tuple[int, int] | CommandFailed]]) -> None:
        for sending, outcome in ended:
            self._records -= sending.count
            self._bytes -= len(sending.batch.body)
            if isinstance(outcome, tuple):
                self._reached(sending, outcome[1] + 1)
            if sending.done.called:  # cancelled: the record is stored all the same
                continue
            if isinstance(outcome, CommandFailed):
                sending.done.errback(Failure(outcome))
            else:
                sending.done.callback(outcome)

    def _reached(self, sending: Sending, end: int) -> None:
        key = sending.kafka, sending.partition
        self._ends[key] = max(end, self._ends.pop(key, 0))
        if len(self._ends) > MAX_ENDS:
            del self._ends[next(iter(self._ends))]

    # -- in the thread that fills the producer

    def _fill(self) -> None:
        while (sending := self._queue.get()) is not None:
            if isinstance(sending, str):
                self._renew(sending)
                continue
            failure: CommandFailed | None
            try:
                failure = self._produce(sending)
            except CommandFailed as refused:
                failure = refused
            except Exception as error:  # a batch that cannot be read: a defect, and not the next one's trouble
                failure = CommandFailed(Fault.INTERNAL, f"a batch cannot be written for Kafka: {error!r}")
            if failure is not None:
                self._cluster.from_thread(self._settle, [(sending, failure)])

    def _renew(self, topic: str) -> None:
        """Take a new producer, if this one knows the topic; after what is on its way, so that order stays."""
        producer = self._producer
        if producer is None or topic not in self._known:
            return
        while len(producer) and not self._closing.is_set():
            time.sleep(DRAIN_SECONDS)
        with self._making:
            if self._producer is producer:
                self._producer = None
        self._known.clear()

    def _produce(self, sending: Sending) -> CommandFailed | None:
        """Hand over every record, or say why none has gone.  Raises CommandFailed, and then none has either."""
        written = sending.written()
        producer = self._open()
        self._known.add(sending.kafka)
        at, error = sending.hand_over(producer, written)
        if error is not None and error.code() == KafkaError._UNKNOWN_PARTITION and not at:
            _look_again(producer, sending.kafka)  # the topic has grown, and the producer has not heard of it
            at, error = sending.hand_over(producer, written)
        if error is None:
            return None
        if error.code() == KafkaError._FATAL:
            self._is_bad = True
        if not at:
            bad = error.code() in (KafkaError._FATAL, KafkaError._STATE)
            return CommandFailed(Fault.UNAVAILABLE, f"not stored: {error.str()}") if bad else failed(error)
        self._broken.append((sending, sending.count - at, error))
        return None

    def _open(self) -> Producer:
        with self._making:
            if self._producer is None:
                self._producer = Producer(self._cluster.settings(**_SETTINGS, error_cb=self._heard_error))
                self._opened.set()
            return self._producer

    # -- in the thread that hears

    def _hear(self) -> None:
        self._opened.wait()
        until = None
        while until is None or time.monotonic() < until:
            producer = self._open()
            producer.poll(POLL_SECONDS)
            self._tell()
            if self._is_bad:
                self._replace(producer)
            if self._closing.is_set():
                until = until or time.monotonic() + CLOSE_SECONDS
                if not self._threads[0].is_alive() and not len(producer):
                    break
        self._give_up()

    def _tell(self) -> None:
        """Hand all that has ended to the reactor, in one call."""
        while self._broken:
            sending, missing, error = self._broken.pop()
            sending.error = sending.error or error
            sending.lost += missing
            sending.left -= missing
            if not sending.left:
                self._ended.append(sending)
        if self._ended:
            ended = [(sending, sending.outcome()) for sending in self._ended]
            self._ended.clear()
            self._cluster.from_thread(self._settle, ended)

    def _heard_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._FATAL:
            self._is_bad = True

    def _replace(self, producer: Producer) -> None:
        """A producer that lost its place in a partition for good takes no more: the next batch gets a new one."""
        self._log.warn("the producer is replaced; what was on its way fails")
        with self._making:
            self._producer, self._is_bad = None, False
        producer.purge()
        producer.flush(1)
        self._tell()

    def _give_up(self) -> None:
        with self._making:
            producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(1)
            self._tell()


def _look_again(producer: Producer, kafka: str) -> None:
    with contextlib.suppress(KafkaException):  # then the second attempt fails as the first did
        producer.list_topics(kafka, timeout=5)
