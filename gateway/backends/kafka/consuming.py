"""One consumer that reads what is stored, from one place on.  All of it blocks: for threads, never for the reactor.

It is assigned, not subscribed, so no group knows of it.  It sees what is committed: records of transactions that were
aborted never, and nothing behind the first open one, since a reader may act on what it is shown.  The offsets that
transactions and compaction leave out are left out of the batches too.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from gateway.backends.kafka.records import batches
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import RecordBatch, select

if TYPE_CHECKING:
    from gateway.backends.kafka.cluster import Cluster

AHEAD_KILOBYTES = 4096
"""What a consumer reads ahead, at most and beside what is on its way."""

ANSWER_SECONDS = 8.0
"""Within which Kafka answers, or the read has failed."""

CHUNK = 1000
"""Messages taken from a consumer at once."""

SHARED: dict[str, object] = {
    "group.id": "gw.reader",  # librdkafka wants one; nothing is ever committed to it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
}

_READING: dict[str, object] = {
    **SHARED,
    "enable.partition.eof": True,
    "queued.max.messages.kbytes": AHEAD_KILOBYTES,
    "fetch.queue.backoff.ms": 5,  # 1000 by default: a pause of a second whenever a reader has caught up with its queue
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 100,
}

_PASSING = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
)
"""The client goes on by itself when the broker is back."""

Bounds = tuple[int, int]
"""The earliest offset kept, and the next to be written."""

Place = tuple[str, int, int]
"""Topic, partition, next offset."""


class Reader:
    """One consumer.  A new one is at its first record within 4 ms; an old one that is sent elsewhere needs 50, since it
    hears out what it has asked before.

    place:     where it is.
    isolation: `read_committed` or `read_uncommitted`.
    """

    def __init__(self, cluster: Cluster, place: Place, isolation: str = "read_committed") -> None:
        told = cluster.settings(**_READING, **{"isolation.level": isolation})
        self._consumer = Consumer(told)
        self._consumer.assign([TopicPartition(*place)])
        self._ready: deque[Message] = deque()
        self._reached = 0
        self.place = place
        self.left = 0.0

    def read(self, max_records: int, max_bytes: int, ask: Callable[[], Bounds]) -> tuple[RecordBatch, ...]:
        """From where it is on, within the limits of records.select.  All there is: if it has not come yet, `ask` says
        how far that goes.  Raises CommandFailed(UNAVAILABLE) or KafkaException.
        """
        topic, partition, start = self.place
        messages: list[Message] = []
        limits = max_records or 1 << 62, max_bytes
        if self.gather(messages, 1 << 63, *limits, 0) < 1 << 63:
            end = ask()[1]
            if self.gather(messages, end, *limits, ANSWER_SECONDS) < end and not messages:
                raise CommandFailed(Fault.UNAVAILABLE, f"Kafka did not give the record at offset {start}")
        found = tuple(select(batches(messages), start, max_records, max_bytes))
        after = found[-1].end if found else start
        self._ready.extendleft(message for message in reversed(messages) if _offset(message) >= after)
        self.place = topic, partition, after
        return found

    def gather(self, found: list[Message], end: int, count: int, room: int, seconds: float) -> int:
        """Add those below `end` that come within so many seconds, up to a count and as far as bytes of values last.

        Returns the offset it got to: `end` or more if a limit was reached first.
        """
        until = time.monotonic() + seconds
        position = _offset(found[-1]) + 1 if found else self.place[2]
        room -= sum(map(len, found))
        while (position := position if self._ready else max(position, self._reached)) < end:
            if len(found) >= count or room <= 0:
                return end
            if self._ready:
                found.append(message := self._ready.popleft())
                position = _offset(message) + 1
                room -= len(message)
            elif not self._take(until):
                break
        return position

    def _take(self, until: float) -> bool:
        """Whether anything came until then: messages, or word that there are none up to `_reached`."""
        first = self._consumer.poll(max(0.0, until - time.monotonic()))
        if first is None:
            return False
        for message in (first, *self._consumer.consume(CHUNK, 0)):
            error = message.error()
            if error is None:
                self._ready.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._reached = _offset(message)
            elif error.code() not in _PASSING:
                raise KafkaException(error)
        return True

    def close(self) -> None:
        """Release it."""
        self._consumer.close()


def _offset(message: Message) -> int:
    return message.offset() or 0
