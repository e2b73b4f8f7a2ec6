"""DataFrames into topics: `df.write.format("gateway")` and `df.writeStream.format("gateway")`.

    orders.write.format("gateway").option("topic", "orders").mode("append").save()
    orders.writeStream.format("gateway").option("topic", "orders").option("checkpointLocation", ...).start()

**Columns** are those of `schema.COLUMNS`; one that is not among them is refused.  Only `value` has to be there, and a
null in it is a tombstone.  `key`, `value`, `producer`, `event_type` and `metadata` may be text, which stands for its
UTF-8; of `headers`, `key` and `value` are enough.  `namespace`, `offset` and `origin` are ignored: the namespace is
that of the option, the rest is the gateway's to say.  `topic` is ignored where the option `topic` says where all rows
go, and says it for each row where that is missing.  So what was read from a topic is written as it was.

**Options** beside those of places.py:

    topic             where all rows go, "" = where the column `topic` says
    createPartitions  partitions of a topic that is not there yet and is made, 1
    partitioner       how a key chooses its partition where the topic has no partitioner of its own: one of
                      core.partitioners, fnv1a_32
    idempotent        of a batch write: a topic that is made is idempotent, false
    orderBy           columns, with commas between, by which the rows of a Spark partition are sorted, in memory; none

A row goes to the partition that it says, else to that of its key, else they take turns.

**In which order.**  Rows of one Spark partition come to stand in their order.  Spark says nothing about the order of
several of them, nor, in a stream, about that of the files of one micro-batch.  Who wants the order of another topic has
all rows of a partition in one Spark partition, and these sorted:

    rows.repartition(8, "partition").writeStream.format("gateway").option("orderBy", "offset")

**How often.**  A stream is written exactly once: its topic is idempotent, made so if there is none, refused if it is
not.  sequencing.py says how and what that rests on.  A batch write to an idempotent topic is exactly once over the
retries of its tasks; begun anew it is another write.  To any other topic it is at least once: what a task had published
before it was tried again, or before a connection broke, may be there twice.  A write that fails leaves what it has
published.  In an idempotent topic the producer, epoch and sequence of a record are this write's, whatever the columns
say; elsewhere they are written as they are, and numbers mean nothing.

**Leave.**  Where access rules hold, a write needs DescribeTopic and Publish, CreateTopic if the topic may not be there,
and, in idempotent topics, LatestOffsets and Fetch for looking at what an earlier attempt has stored.

**Other dialects** than native take a batch write, with the losses that they declare (docs/translation.md), and as far
as their wire has the words: see each `upstream.py`.  A topic of a wire that cannot say how many partitions it has is
taken to have one.  Iggy's keys are lost, since rows go to partitions by number.  V1 chooses partitions itself and takes
a record at a time.  Streams want native: no other wire says whether a topic is idempotent and how far a producer came.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from gateway.core.commands import MAX_PARTITIONS, CreateTopic, DescribeTopic, IfExists, Topic, TopicSettings
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import TopicDescription
from gateway.pipeline.asking import Connection
from gateway.pipeline.attempts import Attempts, told
from gateway.pipeline.places import Place, place_of
from gateway.pipeline.placing import DEFAULT_PARTITIONER, Placing, check_partitioner
from gateway.pipeline.rows import Rows, check_columns
from gateway.pipeline.sending import Outbox
from gateway.pipeline.sequencing import Producer, Stored, last_numbers, producer_of, read_back

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""Local properties of a task of a stream."""


class Target(msgspec.Struct, frozen=True):
    """Where rows go, as the options say it.  topic: "" = where each row says.  order: columns to sort by."""

    place: Place
    topic: str
    partitions: int
    partitioner: str
    idempotent: bool
    order: tuple[str, ...] = ()

    @property
    def tells(self) -> bool:
        """Whether it says all of a topic and of a refusal: only native does."""
        return self.place.spoken.dialect.name == "native"


def target_of(options: Mapping[str, str], stream: bool) -> Target:
    """Raises ValueError, with a sentence."""
    topic = options.get("topic", "")
    if "*" in topic:
        raise ValueError(f"rows are written to one topic, not to {topic!r}")
    target = Target(
        place_of(options),
        topic,
        _partitions(options.get("createPartitions", "1")),
        check_partitioner(options.get("partitioner", DEFAULT_PARTITIONER)),
        stream or _truth("idempotent", options.get("idempotent", "false")),
        tuple(name.strip() for name in options.get("orderBy", "").split(",") if name.strip()),
    )
    if target.idempotent and not target.tells:
        what = "a stream is" if stream else "idempotent topics are"
        raise ValueError(f"{what} written over native alone, not over {target.place.spoken.dialect.name}")
    return target


def _partitions(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_PARTITIONS:
        raise ValueError(f"createPartitions is 1 to {MAX_PARTITIONS}, not {text!r}")
    return int(text)


def _truth(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{name} is true or false, not {text!r}")
    return text.lower() == "true"


# -- what Spark calls


@dataclasses.dataclass
class Written(WriterCommitMessage):
    """What a task did.  found: rows that an earlier attempt had stored already."""

    published: int
    found: int


class BatchWriter(DataSourceArrowWriter):
    """Of `df.write`.  Raises ValueError, with a sentence, for what cannot be written."""

    def __init__(self, schema: StructType, options: Mapping[str, str], overwrite: bool) -> None:
        _check_mode(overwrite)
        self._target = target_of(options, stream=False)
        self._job = uuid.uuid4().hex
        _check_rows(schema, self._target)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """The rows of one Spark partition."""
        task = TaskContext.get()
        assert task is not None, "it is called in a task"
        return write(self._target, producer_of(self._job, task.partitionId(), 1), iterator, stream=False)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All there is was answered for already."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was published stays."""


class StreamWriter(DataSourceStreamArrowWriter):
    """Of `df.writeStream`.  Raises ValueError, with a sentence, for what cannot be written."""

    def __init__(self, schema: StructType, options: Mapping[str, str], overwrite: bool) -> None:
        _check_mode(overwrite)
        self._target = target_of(options, stream=True)
        _check_rows(schema, self._target)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """The rows of one Spark partition of a micro-batch."""
        task = TaskContext.get()
        assert task is not None, "it is called in a task"
        query, batch = task.getLocalProperty(QUERY), task.getLocalProperty(BATCH)
        if query is None or batch is None:
            raise ValueError("this Spark does not tell its tasks the query and the batch; 4.2 and later do")
        return write(self._target, producer_of(query, task.partitionId(), int(batch) + 1), iterator, stream=True)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All there is was answered for already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What was published stays, and is known again when the batch is written again."""


def _check_mode(overwrite: bool) -> None:
    if overwrite:
        raise ValueError('a topic is a log, to which rows are added: use mode("append"), or outputMode("append")')


def _check_rows(schema: StructType, target: Target) -> None:
    check_columns(schema, needs_topic=not target.topic)
    for name in target.order:
        if name not in schema.names or name == "headers":
            raise ValueError(f"orderBy: there is no column {name!r} to sort by")


# -- one task


def write(target: Target, producer: Producer, batches: Iterable[pa.RecordBatch], *, stream: bool) -> Written:
    """Publish rows, and wait until all are answered for.

    producer: who writes, where the topic is idempotent.  stream: where it is not, nothing is written.
    Raises ValueError and GatewayFailed, with a sentence.
    """
    drains: dict[str, Drain] = {}
    attempts = Attempts(target.place)
    try:
        for batch in _sorted(batches, target.order):
            for name, part in _by_topic(target.topic, batch):
                if name not in drains:
                    drains[name] = Drain(attempts, target, name, producer, stream)
                drains[name].add(part)
        for drain in drains.values():
            drain.finish()
    except CommandFailed as failure:
        raise _explained(failure, target, producer) from failure
    finally:
        attempts.close()
    return Written(sum(drain.published for drain in drains.values()), sum(drain.found for drain in drains.values()))


def _sorted(batches: Iterable[pa.RecordBatch], order: tuple[str, ...]) -> Iterable[pa.RecordBatch]:
    if not order or not (held := list(batches)):
        return batches
    found: list[pa.RecordBatch] = (
        pa.Table.from_batches(held).sort_by([(name, "ascending") for name in order]).to_batches(_ROWS)
    )
    return found


_ROWS = 10_000
"""Of one batch behind a sort, as many as Spark has in its own."""


def _by_topic(topic: str, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows for each topic, in their order."""
    if topic:
        yield topic, batch
        return
    column = batch.column("topic")
    for name in pc.unique(column).to_pylist():
        if not name:
            raise ValueError("a row says no topic, nor does the option topic")
        yield name, batch.filter(pc.equal(column, name))


class Drain:
    """Takes the rows that one task has for one topic.  Raises CommandFailed, and ValueError with a sentence."""

    def __init__(self, attempts: Attempts, target: Target, name: str, producer: Producer, stream: bool) -> None:
        self._topic = Topic(target.place.namespace, name)
        found = attempts.carry(lambda connection: _described(connection, self._topic, target))
        settings = TopicSettings() if found is None else found.settings
        if stream and not settings.idempotent:
            raise ValueError(_NOT_IDEMPOTENT.format(name))
        count = 0 if found is None else len(found.partitions)
        if not count and target.tells:
            raise ValueError(f"the topic {name} has no partitions")
        self._placing = Placing(name, count or 1, settings.partitioner or target.partitioner)
        self._attempts = attempts
        self._producer = producer if settings.idempotent else None
        self._numbers: dict[int, int] = {}
        self._stored = attempts.carry(self._look_back)
        self._outbox: Outbox | None = None
        self._turn = 0
        self.published = 0
        self.found = 0

    def _look_back(self, connection: Connection) -> Stored:
        if self._producer is None:
            return Stored()
        self._numbers = last_numbers(connection, self._topic, self._placing.count, self._producer)
        return read_back(connection, self._topic, self._producer, self._numbers)

    def add(self, batch: pa.RecordBatch) -> None:
        """Publish these rows, but for those that an earlier attempt stored."""
        rows = Rows(batch)
        if self._outbox is None:
            self._outbox = Outbox(self._attempts, self._topic, open_=rows.partitions is None)
        places = self._placing.places(rows.partitions, rows.keys, self._turn, rows.count)
        self._turn += rows.count
        for place, chosen in _by_place(places, self._new(rows)).items():
            records = rows.records(chosen, **self._numbered(place, len(chosen)))
            self._outbox.put(place, records)
            self.published += len(records)

    def _new(self, rows: Rows) -> Iterable[int]:
        """The rows that are not stored yet."""
        if not self._stored:
            return range(rows.count)
        new = [at for at, record in enumerate(rows.records()) if not self._stored.take(record)]
        self.found += rows.count - len(new)
        return new

    def _numbered(self, place: int, count: int) -> dict[str, Iterable[object]]:
        if self._producer is None:
            return {}
        first = self._numbers.get(place, 0) + 1
        self._numbers[place] = first + count - 1
        return {
            "producer": [self._producer.id] * count,
            "epoch": [self._producer.epoch] * count,
            "sequence": range(first, first + count),
        }

    def finish(self) -> None:
        """There are no more rows: wait until all are answered for."""
        if self._outbox is not None:
            self._outbox.finish()
        if self._stored:
            raise ValueError(_OTHER_ROWS.format(len(self._stored), self._topic.name))


_NOT_IDEMPOTENT = (
    "the topic {} is not idempotent, so a stream into it could store records twice: choose another, or one that is not"
    " there yet and will be made so"
)

_OTHER_ROWS = (
    "{} records that an earlier attempt at this batch stored in {} are not among the rows of this one, so some rows may"
    " be there twice: the source gives other rows than before, or splits them otherwise; docs/pipeline.md says how to"
    " keep it from that"
)


def _by_place(places: list[int], rows: Iterable[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(places[row], []).append(row)
    return found


def _described(connection: Connection, topic: Topic, target: Target) -> TopicDescription | None:
    """The topic, made if there is none; None where the wire has no words for topics, and makes them when written to."""
    try:
        return connection.ask(DescribeTopic(topic), TopicDescription)
    except CommandFailed as failure:
        if failure.fault is Fault.UNSUPPORTED:
            return None
        if failure.fault is not Fault.NO_SUCH_TOPIC:
            raise
    settings = TopicSettings(idempotent=target.idempotent)
    return connection.ask(CreateTopic(topic, target.partitions, settings, IfExists.KEEP), TopicDescription)


def _explained(failure: CommandFailed, target: Target, producer: Producer) -> Exception:
    if failure.fault is Fault.STALE_EPOCH:
        current = failure.facts.get("current")
        newer = f"batch {current - 1}" if isinstance(current, int) else "a later batch"
        return ValueError(
            f"this is batch {producer.epoch - 1} of a stream of which {newer} was written already: a task of an earlier"
            " run is still at work, or the checkpoint is an older copy of itself"
        )
    if failure.fault is Fault.OFFSET_GONE:
        return ValueError(f"what an earlier attempt at this batch stored cannot be looked at: {failure}")
    return told(target.place, failure)
