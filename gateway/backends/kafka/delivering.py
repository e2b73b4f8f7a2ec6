"""One batch on its way to Kafka: how it is handed over, and what comes of it."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from twisted.internet.defer import Deferred

from gateway.backends.kafka import records
from gateway.backends.kafka.faults import error_of, failed
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import RecordBatch

MAX_MESSAGE = 1_048_588
"""Bytes of a message with its framing: Kafka's own limit for a topic that says nothing else (max.message.bytes)."""

SLICE = 250
"""Records written between offers of the interpreter to other threads: about half a millisecond."""

UNKNOWN = "Kafka did not say in time whether the batch is stored: it may be, wholly or in part"

_REFUSED = (Fault.TOO_LARGE, Fault.NO_SUCH_TOPIC, Fault.FORBIDDEN, Fault.INVALID_ARGUMENT, Fault.UNSUPPORTED)
"""What Kafka says of records that it does not have."""

_TWICE = KafkaError(KafkaError.DUPLICATE_SEQUENCE_NUMBER)
"""What librdkafka takes for success, without an offset.  On a partition that is new it may be none: the broker takes
whatever sequence number comes first there, and what should have come before it, sent again, it calls a duplicate.
"""

Written = tuple[bytes | None, bytes | None, records.Headers, int]
"""Key, value, headers and time in ms of a message."""


class Sending:
    """One batch on its way.  `report` is called in the thread that hears, once a record.

    now:  us since the epoch, for records without a time of their own.
    time: the same, but that no other record from here has it or one of the next `count`: it makes their ids.
    """

    __slots__ = (
        "_ended",
        "batch",
        "count",
        "done",
        "error",
        "first",
        "kafka",
        "last",
        "left",
        "lost",
        "now",
        "partition",
        "time",
    )

    def __init__(
        self, kafka: str, partition: int, batch: RecordBatch, now: int, ended: list[Sending], time: int = 0
    ) -> None:
        self.kafka = kafka
        self.partition = partition
        self.batch = batch
        self.now = now
        self.time = time or now
        self.count = self.left = batch.count
        self.done: Deferred[tuple[int, int]] = Deferred()
        self.first = self.last = -1
        self.lost = 0
        self.error: KafkaError | None = None
        self._ended = ended

    def report(self, error: KafkaError | None, message: Message) -> None:
        """One record is stored, or not."""
        self.left -= 1
        offset = message.offset() if error is None else None
        if offset is not None and offset >= 0:
            self.last = offset  # in order, as Kafka promises
            self.first = offset if self.first < 0 else self.first
        else:
            self.lost += 1
            self.error = self.error or error or _TWICE
        if not self.left:
            self._ended.append(self)

    def outcome(self) -> tuple[int, int] | CommandFailed:
        """Offsets of its first and last record, or what became of it.  Others may have written in between."""
        if self.error is None:
            return self.first, self.last
        failure = failed(self.error)
        if failure.fault not in _REFUSED:
            return CommandFailed(Fault.UNAVAILABLE, f"{UNKNOWN} ({failure.detail})")
        stored = self.count - self.lost
        partly = f"; {stored} of {self.count} records are stored" if stored else ""
        return CommandFailed(failure.fault, failure.detail + partly)

    def written(self) -> list[Written]:
        """Its messages.  Raises CommandFailed(TOO_LARGE).

        They are stamped as in any log: by that, records of Iggy without an id get one.
        """
        origin, encoding = self.batch.origin, self.batch.encoding
        found: list[Written] = []
        for at, record in enumerate(encoding.records(encoding.stamp(self.batch.body, 0, self.time))):
            if not at % SLICE:
                time.sleep(0)
            content = records.write(record, origin)
            if records.size(content) > MAX_MESSAGE:
                raise CommandFailed(Fault.TOO_LARGE, f"a message of Kafka has at most {MAX_MESSAGE} bytes")
            found.append((*content, records.milliseconds(record, self.now)))
        return found

    def hand_over(self, producer: Producer, written: list[Written]) -> tuple[int, KafkaError | None]:
        """How many records went, and why not all."""
        report, kafka, partition = self.report, self.kafka, self.partition
        at = 0
        try:
            for at, (key, value, headers, milliseconds) in enumerate(written):
                if not at % SLICE:
                    time.sleep(0)
                producer.produce(kafka, value, key, partition, report, None, milliseconds, headers)
        except KafkaException as error:
            return at, error_of(error)
        except BufferError:
            return at, KafkaError(KafkaError._QUEUE_FULL)
        return len(written), None
