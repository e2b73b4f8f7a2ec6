"""Consumers kept where they stopped, and what is asked about partitions.  For threads, never for the reactor."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from gateway.backends.kafka.consuming import ANSWER_SECONDS, SHARED, Bounds, Place, Reader
from gateway.backends.kafka.faults import is_code
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import RecordBatch

if TYPE_CHECKING:
    from gateway.backends.kafka.cluster import Cluster

MAX_READERS = 24
"""Consumers kept where they stopped, over all partitions, so that whoever reads on finds the next records here."""

IDLE_SECONDS = 5.0
"""After which one that nobody came back to is closed: it asks the broker for more ten times a second."""

HEARD_SECONDS = 2.0
"""Within which the client and every broker have heard of a topic or partition that is new."""

AGAIN_SECONDS = 0.05
"""Between looks whether they have."""

FRESH_SECONDS = 0.5
"""How old the end may be that is shown beside a full answer; whether there are any records is asked anew."""

MAX_SEEN = 10_000
"""Partitions whose bounds are kept for that."""

_NONE = (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)

_UNHEARD = (
    *_NONE,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._DESTROY_BROKER,
)
"""What a topic or partition that is new may still be answered with; or a broker that has just come back."""

_EARLIEST, _LATEST = -2, -1
"""What ListOffsets of Kafka's protocol takes for a time."""

T = TypeVar("T")


class Readers:
    """Those kept, by where they stopped; and a client that only asks, since answers wait behind what is being read.

    isolation: as of a Reader; `read_uncommitted` for what was written, whoever may see it.
    """

    def __init__(self, cluster: Cluster, isolation: str = "read_committed") -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._lock = threading.Lock()
        self._idle: OrderedDict[Place, Reader] = OrderedDict()
        self._seen: OrderedDict[tuple[str, int], tuple[int, int, float]] = OrderedDict()
        self._asking: Consumer | None = None
        self._is_closed = False

    def read(
        self, topic: str, partition: int, start: int, max_records: int, max_bytes: int
    ) -> tuple[tuple[RecordBatch, ...], int, int]:
        """From offset `start` on, and the bounds; no batches where there is nothing.

        Raises CommandFailed(OFFSET_GONE, NO_SUCH_TOPIC, NO_SUCH_PARTITION, UNAVAILABLE) or KafkaException.
        """
        with self._lock:
            reader = self._idle.pop((topic, partition, start), None)
        if reader is None:
            first, end = self.bounds(topic, partition)
            if start < first:
                raise CommandFailed(Fault.OFFSET_GONE, "", requested=start, earliest=first, latest=end)
            if start >= end:
                return (), first, end
            reader = Reader(self._cluster, (topic, partition, start), self._isolation)
        found = self._read(reader, max_records, max_bytes)
        first, end = self._recent(topic, partition)
        return found, min(first, start), max(end, found[-1].end if found else 0)

    def bounds(self, topic: str, partition: int) -> Bounds:
        """Of a partition, asked now.  Raises as `read` does."""
        found = self.all_bounds(topic, [partition])[0]
        with self._lock:
            self._seen[topic, partition] = (*found, time.monotonic())
            self._seen.move_to_end((topic, partition))
            if len(self._seen) > MAX_SEEN:
                self._seen.popitem(last=False)
        return found

    def known(self, topic: str, partition: int, seconds: float) -> Bounds | None:
        """Bounds that were asked for within so many seconds, by any thread."""
        first, end, at = self._seen.get((topic, partition), (0, 0, 0.0))
        return (first, end) if time.monotonic() - at < seconds else None

    def all_bounds(self, topic: str, partitions: list[int]) -> list[Bounds]:
        """Of several partitions, in their order."""
        if len(partitions) == 1:
            return [self._watermarks(topic, partitions[0])]
        starts = self._offsets(topic, partitions, _EARLIEST)
        return list(zip(starts, self._offsets(topic, partitions, _LATEST), strict=True))

    def seek(self, topic: str, partition: int, timestamp: int) -> int:
        """The offset of the first record at or after that time in us, which is Kafka's ms; the end if there is none."""
        found = self._offsets(topic, [partition], max(0, timestamp // 1000))[0]
        return self.bounds(topic, partition)[1] if found < 0 else found

    def forget(self, topic: str) -> list[Reader]:
        """The topic is gone, or another.  The readers that were there, to be closed in a thread."""
        with self._lock:
            for seen in [seen for seen in self._seen if seen[0] == topic]:
                del self._seen[seen]
            return [self._idle.pop(place) for place in list(self._idle) if place[0] == topic]

    def idle(self) -> list[Reader]:
        """Readers that nobody came back to, taken out; to be closed in a thread."""
        late = time.monotonic() - IDLE_SECONDS
        with self._lock:
            return [self._idle.pop(place) for place, reader in list(self._idle.items()) if reader.left < late]

    def close(self) -> None:
        """Release them all."""
        with self._lock:
            self._is_closed = True
            readers, self._idle = self._idle, OrderedDict()
            asking, self._asking = self._asking, None
        for reader in readers.values():
            reader.close()
        if asking is not None:
            asking.close()

    def _read(self, reader: Reader, max_records: int, max_bytes: int) -> tuple[RecordBatch, ...]:
        topic, partition, _ = reader.place
        try:
            found = reader.read(max_records, max_bytes, lambda: self.bounds(topic, partition))
        except BaseException:
            reader.close()
            raise
        self._keep(reader)
        return found

    def _keep(self, reader: Reader) -> None:
        reader.left = time.monotonic()
        with self._lock:
            surplus = [self._idle.pop(reader.place)] if reader.place in self._idle else []
            self._idle[reader.place] = reader
            if len(self._idle) > MAX_READERS:
                surplus.append(self._idle.popitem(last=False)[1])
            if self._is_closed:
                surplus.append(self._idle.pop(reader.place))
        for other in surplus:
            other.close()

    def _recent(self, topic: str, partition: int) -> Bounds:
        return self.known(topic, partition, FRESH_SECONDS) or self.bounds(topic, partition)

    # -- asking

    def _watermarks(self, topic: str, partition: int) -> Bounds:
        def ask(client: Consumer) -> Bounds | None:
            return client.get_watermark_offsets(TopicPartition(topic, partition), timeout=ANSWER_SECONDS)

        return self._ask(topic, ask)

    def _offsets(self, topic: str, partitions: list[int], at: int) -> list[int]:
        """By time in ms, or what stands for the earliest or latest; -1 = behind the last."""
        wanted = [TopicPartition(topic, partition, at) for partition in partitions]

        def ask(client: Consumer) -> list[int]:
            found = client.offsets_for_times(wanted, timeout=ANSWER_SECONDS)
            for each in found:
                if each.error is not None:
                    raise KafkaException(each.error)
            return [each.offset for each in found]

        return self._ask(topic, ask)

    def _ask(self, topic: str, question: Callable[[Consumer], T | None]) -> T:
        """An answer, also if the client has not heard of the topic or partition yet."""
        client = self._client()
        until = time.monotonic() + HEARD_SECONDS
        while True:
            try:
                answer = question(client)
            except KafkaException as error:
                if not is_code(error, *_UNHEARD) or time.monotonic() > until:
                    raise
                _check(client, topic)
                time.sleep(AGAIN_SECONDS)
                continue
            if answer is None:
                raise CommandFailed(Fault.UNAVAILABLE, f"Kafka did not say where {topic} ends")
            return answer

    def _client(self) -> Consumer:
        with self._lock:
            if self._is_closed:
                raise CommandFailed(Fault.UNAVAILABLE, "the gateway is closing")
            if self._asking is None:
                told = self._cluster.settings(**SHARED, **{"isolation.level": self._isolation})
                self._asking = Consumer(told)
            return self._asking


def _check(client: Consumer, topic: str) -> None:
    """Have the client hear of a topic.  Raises CommandFailed(NO_SUCH_TOPIC)."""
    found = client.list_topics(topic, timeout=ANSWER_SECONDS).topics.get(topic)
    if found is None or (found.error is not None and is_code(KafkaException(found.error), *_NONE)):
        raise CommandFailed(Fault.NO_SUCH_TOPIC, f"Kafka has no topic {topic}")
