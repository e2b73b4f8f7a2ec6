"""Clients of the two dialects that most tests of whole systems fill and read topics with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.records import Record, RecordBatch, canonical
from system.speaking import TIMEOUT, Speaking, Stream

__all__ = ["TIMEOUT", "Frames", "Lines", "Row", "Speaking", "Stream", "batch", "connected", "line", "rows", "topic"]


def topic(name: str) -> q.Topic:
    """The topic of that name, as dialects see it that have no namespaces."""
    return q.Topic("default", name)


def line(name: str, key: str, value: str) -> q.Publish:
    """A record as V1 writes it: to the partition of its key."""
    return q.Publish(topic(name), q.ByKey(key.encode(), "fnv1a_32"), canonical([Record(key.encode(), value.encode())]))


def connected(dialect: str, port: int) -> Speaking:
    """A connection on which everything may be asked."""
    peer = Speaking(dialect, port)
    try:
        if dialect == "iggy":
            peer.sure(q.Authenticate("plain", "iggy", "iggy"), r.Authenticated)
    except BaseException:
        peer.close()
        raise
    return peer


class Lines(Speaking):
    """V1 pipe text."""

    def __init__(self, port: int, timeout: float = TIMEOUT) -> None:
        super().__init__("pipe", port, timeout)

    def produce(self, name: str, key: str, value: str) -> tuple[int, int]:
        """Where the record went: its partition and offset."""
        published = self.sure(line(name, key, value), r.Published)
        return published.partition, published.base

    def consume(self, name: str, partition: int, offset: int) -> tuple[list[tuple[int, str]], int]:
        """(offset, value) of every record in one answer, and the highest offset there is."""
        found = self.sure(q.Fetch(topic(name), partition, offset), r.Records)
        return [(row.offset, row.value) for each in found.batches for row in rows(each)], found.end - 1

    def read_all(self, name: str, partition: int) -> list[str]:
        """Every value from offset 0 up to the highest, in answers as long as the gateway makes them."""
        values: list[str] = []
        while True:
            found, highest = self.consume(name, partition, len(values))
            assert [at for at, _ in found] == list(range(len(values), len(values) + len(found)))
            values += [value for _, value in found]
            if len(values) == highest + 1:
                return values
            assert found, f"nothing at {len(values)}, but {highest} is said to be there"

    def committed(self, group: str, name: str, partition: int) -> int:
        """The next offset that a group reads, 0 if it has committed none."""
        said = self.sure(q.FetchOffsets(topic(name), q.Group(group), (partition,)), r.CommittedOffsets)
        return said.offsets.get(partition, 0)


class Row(NamedTuple):
    """A record as Cursus has it; its offset is the gateway's business, so 0 is sent."""

    offset: int
    sequence: int
    producer: str
    key: str
    epoch: int
    value: str


class Frames(Speaking):
    """Cursus v1."""

    def __init__(self, port: int, timeout: float = TIMEOUT) -> None:
        super().__init__("cursus", port, timeout)

    def create(self, name: str, partitions: int, *, idempotent: bool = False) -> None:
        """A new topic, or more partitions of it."""
        settings = q.TopicSettings(idempotent=idempotent)
        made = self.sure(q.CreateTopic(topic(name), partitions, settings, q.IfExists.GROW), r.TopicDescription)
        assert (made.name, len(made.partitions)) == (name, partitions)

    def publish(self, sent: q.Publish) -> r.Published:
        """Where the batch went; fails if it did not."""
        return self.sure(sent, r.Published)

    def consume(self, name: str, partition: int, offset: int) -> list[Row]:
        """The records of one answer."""
        found = self.sure(q.Fetch(topic(name), partition, offset, max_bytes=1 << 30), r.Records)
        return [row for each in found.batches for row in rows(each)]

    def read_all(self, name: str, partition: int) -> list[Row]:
        """Every record from offset 0 on."""
        found: list[Row] = []
        while more := self.consume(name, partition, len(found)):
            assert [row.offset for row in more] == list(range(len(found), len(found) + len(more)))
            found += more
        return found

    def ends(self, name: str) -> dict[int, int]:
        """Partition -> the offset that is written next."""
        return {at.partition: at.end for at in self.sure(q.LatestOffsets(topic(name)), r.Offsets).offsets}

    def topics(self) -> list[str]:
        """The names of all there are, in order."""
        return sorted(each.name for each in self.sure(q.ListTopics("default"), r.Topics).topics)


def batch(name: str, partition: int, records: Iterable[Row]) -> q.Publish:
    """What a Cursus producer sends."""
    sent = [
        Record(
            row.key.encode() or None,
            row.value.encode(),
            producer=row.producer.encode(),
            epoch=row.epoch,
            sequence=row.sequence,
        )
        for row in records
    ]
    return q.Publish(topic(name), partition, canonical(sent))


def rows(batch: RecordBatch) -> list[Row]:
    """Its records."""
    return [
        Row(
            offset,
            record.sequence,
            record.producer.decode(),
            (record.key or b"").decode(),
            record.epoch,
            (record.value or b"").decode(),
        )
        for offset, _, record in batch.rows()
    ]
