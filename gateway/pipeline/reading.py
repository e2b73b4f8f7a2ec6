"""The batch read of format `gateway`: offset ranges in parallel, the next answer under way while one is decoded."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import MAX_RECORDS, RecordBatch
from gateway.pipeline.arrow import Frames
from gateway.pipeline.asking import Connection
from gateway.pipeline.attempts import Attempts, GatewayFailed, told
from gateway.pipeline.finding import survey
from gateway.pipeline.options import Reading
from gateway.pipeline.planning import Missing, Span, Standing, spans, split

MAX_BYTES = 2 << 20
"""Of one answer: 15,000 records of 100 bytes, which take longer to decode than a round trip within a data center."""

WITHOUT_BOUND = 1 << 40
"""Bytes asked for on a wire that cannot say how many: what it sends is not to be thrown away."""

EMPTY = 2
"""Times that an answer without records is not believed."""

log = logging.getLogger(__name__)


class BatchReader(DataSourceReader):
    """A bounded read of the topics that are meant."""

    def __init__(self, reading: Reading, schema: StructType) -> None:
        self._reading = reading
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """One task for each partition that has records, more where it has many.  Raises ValueError, GatewayFailed."""
        reading, attempts = self._reading, Attempts(self._reading.place)
        try:
            found, missing = spans(there(reading, attempts), reading.begin, reading.end)
        finally:
            attempts.close()
        settle(missing, reading)
        return split(found, reading.per_partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow batches of one task.  Raises GatewayFailed."""
        return read(partition, self._reading, self._schema)


def there(reading: Reading, attempts: Attempts) -> dict[str, Standing]:
    """The topics that are meant, as they stand.  Raises GatewayFailed."""
    try:
        return attempts.carry(lambda connection: survey(connection, reading.topic))
    except CommandFailed as failure:
        raise explained(reading, failure) from failure


def explained(reading: Reading, failure: CommandFailed) -> GatewayFailed:
    """The same failure for who asked for that topic."""
    where = f"in the namespace {reading.place.namespace!r} of {reading.place.endpoint}"
    if failure.fault is Fault.NO_SUCH_TOPIC:
        return GatewayFailed(f"there is no topic {reading.topic!r} {where}")
    if failure.fault is Fault.UNSUPPORTED and reading.topic.endswith("*"):
        return GatewayFailed(f"topics cannot be listed {where}, so give one by its name: {failure.detail}")
    if failure.fault is Fault.TOO_LARGE:  # a length that was no length
        return GatewayFailed(f"{reading.place.endpoint}: {failure.detail}; is it the right port?")
    return told(reading.place, failure)


def settle(missing: Sequence[Missing], reading: Reading) -> None:
    """Records that are not there: an error, or a warning with their number.  Raises GatewayFailed."""
    if not missing:
        return
    why = "; ".join(one.why for one in missing)
    if reading.strict:
        raise GatewayFailed(
            f"data loss: {why} ({reading.place.endpoint}); with failOnDataLoss=false such records are skipped"
        )
    count = sum(one.count for one in missing)
    log.warning("%d records are skipped: %s (%s)", count, why, reading.place.endpoint)


def read(span: InputPartition, reading: Reading, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The records of a task; of one without a Span, which Spark makes where there are none, nothing.

    Raises GatewayFailed.
    """
    if not isinstance(span, Span):
        return
    frames = Frames(schema, reading.place.namespace, span.topic)
    try:
        for batches in Course(span, reading, Attempts(reading.place)).batches():
            yield from frames.of(span.partition, batches)
    except CommandFailed as failure:
        raise explained(reading, failure) from failure


class Course:
    """One way through a span: fetches one behind the other, each asked for as soon as the one before is there."""

    def __init__(self, span: Span, reading: Reading, attempts: Attempts) -> None:
        self._span = span
        self._reading = reading
        self._attempts = attempts
        self._next = span.start
        self._empty = 0
        self._due: tuple[Connection, int] | None = None
        dialect = reading.place.spoken.dialect
        upstream = dialect.upstream
        assert upstream is not None, "what a place speaks can be asked"
        if q.Fetch not in upstream.commands:
            raise GatewayFailed(f"{dialect.name} has no words to read records by their offsets, so nothing can be read")
        self._bounded = "max_bytes" not in upstream.unsaid.get(q.Fetch, {})
        self._exact = q.Fetch not in upstream.unheard  # it says where the partition begins
        self._topic = q.Topic(reading.place.namespace, span.id if span.id and self._exact else span.topic)

    def batches(self) -> Iterator[list[RecordBatch]]:
        """All records of the span, in order.  Raises CommandFailed, GatewayFailed."""
        try:
            while self._next < self._span.end:
                try:
                    records = self._answer()
                except CommandFailed as failure:
                    self._overcome(failure)
                    continue
                if found := self._within(records):
                    self._attempts.succeeded()
                    self._empty = 0
                    self._ask_on()
                    yield found
        finally:
            self._attempts.close()

    # -- asking

    def _fetch(self) -> q.Fetch:
        left = self._span.end - self._next
        if self._bounded:
            return q.Fetch(self._topic, self._span.partition, self._next, left, MAX_BYTES)
        return q.Fetch(self._topic, self._span.partition, self._next, min(left, MAX_RECORDS), WITHOUT_BOUND)

    def _answer(self) -> r.Records:
        """To the fetch that is due; one is sent if none is.  Raises CommandFailed."""
        self._attempts.begin()
        due, self._due = self._due, None
        connection, tag = due or (self._attempts.connection, None)
        outcome = connection.answer(connection.send(self._fetch()) if tag is None else tag)
        if isinstance(outcome, CommandFailed):
            raise outcome
        assert isinstance(outcome, r.Records), "a Fetch is answered by Records"
        return outcome

    def _ask_on(self) -> None:
        """The next fetch, which is answered while Spark has what came before."""
        if self._next >= self._span.end:
            return
        try:
            connection = self._attempts.connection
            self._due = connection, connection.send(self._fetch())
        except CommandFailed:  # is seen again when it is asked for
            self._attempts.close()

    def _overcome(self, failure: CommandFailed) -> None:
        """Try again, or go on behind what is gone.  Raises CommandFailed, GatewayFailed."""
        if failure.fault is Fault.OFFSET_GONE:
            self._gone(self._earliest(failure))
        elif failure.fault in (Fault.NO_SUCH_TOPIC, Fault.NO_SUCH_PARTITION):
            self._lose(self._span.end, f"{self._span.place} was deleted before it was read")
        else:
            self._attempts.pause(failure)

    # -- what is not there

    def _earliest(self, failure: CommandFailed) -> int:
        """The first offset that is still there; the end of the span where nobody says."""
        earliest = failure.facts.get("earliest")
        if isinstance(earliest, int):
            return earliest
        try:
            offsets = self._attempts.ask(q.LatestOffsets(self._topic, self._span.partition), r.Offsets).offsets
        except CommandFailed as other:
            if other.fault is not Fault.UNSUPPORTED:
                raise
            return self._span.end
        return offsets[0].start

    def _gone(self, earliest: int) -> None:
        """What is before an offset is not there any more."""
        if earliest > self._next:
            self._lose(earliest, f"{self._span.place} begins at offset {earliest} now")
        else:
            self._lose(self._span.end, f"{self._span.place} has no offset {self._next} any more")

    def _lose(self, offset: int, why: str) -> None:
        """Go on at that offset.  Raises GatewayFailed where that is not wanted."""
        offset = min(offset, self._span.end)
        count = offset - self._next
        settle([Missing(count, f"{why}, so {count} records from offset {self._next} on are not there")], self._reading)
        self._next = offset

    def _within(self, records: r.Records) -> list[RecordBatch]:
        """What of an answer belongs to the span and was not read before; the course goes on behind it."""
        found = []
        if records.start > self._next:
            self._gone(records.start)
        for batch in records.batches:
            if batch.base > self._next and not self._exact:  # else the store says itself that it left some out
                self._lose(batch.base, f"{self._span.place} goes on at offset {batch.base}")
            first, last = max(0, self._next - batch.base), min(batch.count, self._span.end - batch.base)
            if first < last:
                found.append(batch.cut(first, last))
                self._next = batch.base + last
        if not found:
            self._nothing(records)
        return found

    def _nothing(self, records: r.Records) -> None:
        """There should be records and none came: asked again twice, since a server may lag behind its own word."""
        if any(batch.base >= self._span.end for batch in records.batches):
            self._next = self._span.end  # the rest of the span was left out by the store
        elif self._exact and records.end <= self._next:
            self._lose(self._span.end, f"{self._span.place} ends at offset {records.end} now")
        elif self._empty < EMPTY:
            self._empty += 1
            self._attempts.pause(CommandFailed(Fault.UNAVAILABLE, f"nothing came from offset {self._next} on"))
        elif self._exact:
            log.warning("%s has no records from %d up to %d", self._span.place, self._next, self._span.end)
            self._next = self._span.end  # as in a store that numbers more than records: Kafka's marks of transactions
        else:
            self._lose(self._span.end, f"nothing comes from offset {self._next} on")
