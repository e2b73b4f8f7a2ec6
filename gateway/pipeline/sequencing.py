"""How a write that is done again stores nothing twice: what of it a topic has already, and what is still to come.

**Who writes.**  A Spark partition of a query is a producer of the gateway: its id is `QUERY/SPARK PARTITION`, its epoch
the number of the micro-batch plus 1, and it numbers its records from 1 in each partition of an idempotent topic.  The
gateway stores each number of an epoch once, so what is sent again, because an answer was lost or the gateway was
killed, is stored once.

**A batch that is written again**, after a driver or a task was killed, begins by asking how far its first attempt came
in each partition.  The gateway says so without storing anything: a number far too high is refused as a gap, and the
refusal names the next one.  If there is something, the records of this producer and epoch are read back, and those rows
that are among them are passed over; the rest is numbered on.  So the order of rows in a Spark partition may be another
than the first time, as it is behind a shuffle, and the batch may be cut otherwise, or the topic have more partitions.

**What it rests on**: that the same rows come to the same Spark partition again.  That holds as long as the source
gives them again (files, topics and logs do; a clock or a random number does not), and as they are split again in the
same way.  Files are split by the number of cores, so a stream from files that may come back on other cores fixes
`spark.sql.files.minPartitionNum`, or goes through `repartition(N, COLUMN)`.  If rows that were stored do not come
again, the batch fails and says how many: nothing of what it has written by then is lost or hidden, but it may be there
twice.  A second attempt that runs beside the first one (speculation) is safe where the order of rows is the same.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from gateway.core.commands import Fetch, LatestOffsets, Publish, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical
from gateway.core.replies import Offsets, Outcome, Records
from gateway.pipeline.asking import Connection

PROBE = 1 << 62
"""A sequence number that nobody comes to."""

WINDOW = 1 << 14
"""Offsets that are looked at at once, from the end of a partition backwards; each time twice as many."""


class Producer(msgspec.Struct, frozen=True):
    """Who writes, and the how manieth time: see above."""

    id: bytes
    epoch: int

    def wrote(self, record: Record, last: int) -> bool:
        """Whether it is one of this epoch's, with a number up to that one."""
        return record.producer == self.id and record.epoch == self.epoch and 0 < record.sequence <= last


def producer_of(query: str, partition: int, epoch: int) -> Producer:
    """That of a Spark partition."""
    return Producer(f"{query}/{partition}".encode(), epoch)


class Stored:
    """What an earlier attempt has stored already, as a bag of records; their place and number are no matter.

    A record takes some 100 bytes of memory here, whatever its length.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._left: Counter[int] = Counter(map(_digest, records))

    def __bool__(self) -> bool:
        return bool(self._left)

    def __len__(self) -> int:
        """How many were not taken out yet."""
        return self._left.total()

    def take(self, record: Record) -> bool:
        """Whether it is there; it is taken out then."""
        digest = _digest(record)
        times = self._left.get(digest, 0)
        if times > 1:
            self._left[digest] = times - 1
        elif times:
            del self._left[digest]
        return times > 0


_encode = msgspec.msgpack.Encoder().encode
_change = msgspec.structs.replace


def _digest(record: Record) -> int:
    """Of all that a row says."""
    said = _encode(_change(record, producer=b"", epoch=0, sequence=0))
    return int.from_bytes(hashlib.blake2b(said, digest_size=16).digest(), "big")


# -- asking


def last_numbers(connection: Connection, topic: Topic, partitions: int, producer: Producer) -> dict[int, int]:
    """Partition of an idempotent topic -> how far this producer came in this epoch; those where it did.

    Raises CommandFailed: STALE_EPOCH where a later epoch was written to already.
    """
    record = Record(producer=producer.id, epoch=producer.epoch, sequence=PROBE)
    probe = canonical([record])
    tags = [connection.send(Publish(topic, partition, probe)) for partition in range(partitions)]
    numbers = enumerate(map(_last, connection.answers(tags)))
    return {partition: last for partition, last in numbers if last}


def _last(outcome: Outcome) -> int:
    if not isinstance(outcome, CommandFailed):
        raise CommandFailed(Fault.INTERNAL, "the topic takes records with any number, so it is not idempotent")
    expected = outcome.facts.get("expected")
    if outcome.fault is not Fault.SEQUENCE_GAP or not isinstance(expected, int):
        raise outcome
    return expected - 1


def read_back(connection: Connection, topic: Topic, producer: Producer, numbers: dict[int, int]) -> Stored:
    """The records that the producer has stored in this epoch.  numbers: as `last_numbers` has it.

    Raises CommandFailed: OFFSET_GONE where some of them are not kept any more.
    """
    return Stored(
        record for partition, last in numbers.items() for record in _found(connection, topic, producer, partition, last)
    )


def _found(connection: Connection, topic: Topic, producer: Producer, partition: int, last: int) -> list[Record]:
    [bounds] = connection.ask(LatestOffsets(topic, partition), Offsets).offsets
    found: list[Record] = []
    end, window = bounds.end, WINDOW
    while len(found) < last and end > bounds.start:
        start = max(bounds.start, end - window)
        between = _between(connection, topic, partition, start, end)
        found += (record for record in between if producer.wrote(record, last))
        end, window = start, 2 * window
    if len(found) < last:
        raise CommandFailed(Fault.OFFSET_GONE, f"{last - len(found)} records of an earlier attempt are not kept")
    return found


def _between(connection: Connection, topic: Topic, partition: int, start: int, end: int) -> Iterator[Record]:
    while start < end:
        command = Fetch(topic, partition, start, max_records=end - start, max_bytes=1 << 22)
        batches = connection.ask(command, Records).batches
        for batch in batches:
            yield from batch.records()
        start = batches[-1].end if batches else end
