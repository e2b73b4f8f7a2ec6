"""gateway.pipeline.streaming: a stream reads every record once, in batches as large as asked for."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.records import Record, canonical
from gateway.pipeline.asking import Connection
from gateway.pipeline.attempts import GatewayFailed
from gateway.pipeline.options import reading_of
from gateway.pipeline.places import Place
from gateway.pipeline.schema import SCHEMA
from gateway.pipeline.streaming import StreamReader
from pipeline.scripted import Log, Scripted
from system.processes import GatewayProcess


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), "native", "cursus", backend="memory") as running:
        yield running


class Topic:
    """A topic of the gateway, which tests write to."""

    def __init__(self, gateway: GatewayProcess, name: str, partitions: int = 2) -> None:
        self.name = name
        self.endpoint = f"native=tcp:127.0.0.1:{gateway.ports['native']}"
        self._topic = q.Topic("default", name)
        self._ask(q.CreateTopic(self._topic, partitions), r.TopicDescription)

    def write(self, partition: int, count: int) -> None:
        batch = canonical([Record(None, b"%d" % at) for at in range(count)])
        self._ask(q.Publish(self._topic, partition, batch), r.Published)

    def grow(self) -> None:
        self._ask(q.CreatePartitions(self._topic, 1), r.TopicDescription)

    def again(self, partitions: int = 2) -> None:
        """Deleted and made again."""
        self._ask(q.DeleteTopic(self._topic), r.Done)
        self._ask(q.CreateTopic(self._topic, partitions), r.TopicDescription)

    def delete(self) -> None:
        self._ask(q.DeleteTopic(self._topic), r.Done)

    def _ask(self, command: q.Command, kind: type) -> None:
        with Connection(Place(self.endpoint)) as connection:
            connection.ask(command, kind)


def reader(made: Topic, **options: str) -> StreamReader:
    said = {"endpoint": made.endpoint, "topic": made.name, "timeoutSeconds": "10"} | options
    return StreamReader(reading_of(said), SCHEMA)


def step(
    stream: StreamReader, start: dict[str, object], limit: int | None = None
) -> tuple[dict[str, object], list[tuple[int, int]]]:
    """One micro-batch, as Spark makes them: offsets go through JSON.  Where it ends, and which records it had."""
    end = json.loads(
        json.dumps(stream.latestOffset(start, ReadAllAvailable() if limit is None else ReadMaxRows(limit)))
    )
    found = []
    for span in stream.partitions(start, end):
        for frame in stream.read(span):
            found += zip(*(frame.column(name).to_pylist() for name in ("partition", "offset")), strict=True)
    return end, found


# -- the reader as Spark drives it


def test_batches_follow_each_other_and_take_no_more_than_the_limit(gateway: GatewayProcess) -> None:
    topic = Topic(gateway, "limited")
    topic.write(0, 25)
    topic.write(1, 3)
    stream = reader(topic, maxRecordsPerTrigger="10")
    assert stream.getDefaultReadLimit() == ReadMaxRows(10)
    at, found, sizes = stream.initialOffset(), [], []
    while (batch := step(stream, at, 10))[1]:
        at = batch[0]
        found += batch[1]
        sizes.append(len(batch[1]))
    assert sizes == [10, 10, 8]
    assert sorted(found) == [(0, at) for at in range(25)] + [(1, at) for at in range(3)]
    assert batch[0] == at, "nothing new is the same offset"
    stream.stop()


def test_all_that_is_available_may_be_asked_for_whatever_the_option_says(gateway: GatewayProcess) -> None:
    topic = Topic(gateway, "available")
    topic.write(0, 25)
    stream = reader(topic, maxRecordsPerTrigger="10")
    assert len(step(stream, stream.initialOffset())[1]) == 25
    stream.stop()


def test_without_the_option_there_is_no_limit(gateway: GatewayProcess) -> None:
    assert reader(Topic(gateway, "unlimited")).getDefaultReadLimit() == ReadAllAvailable()


def test_available_now_ends_at_what_there_was(gateway: GatewayProcess) -> None:
    topic = Topic(gateway, "now")
    topic.write(0, 5)
    stream = reader(topic)
    at = stream.initialOffset()
    stream.prepareForTriggerAvailableNow()
    topic.write(0, 5)
    at, found = step(stream, at, 3)
    at, more = step(stream, at, 3)
    assert [*found, *more] == [(0, offset) for offset in range(5)]
    assert step(stream, at, 3) == (at, [])
    stream.stop()


def test_partitions_and_topics_made_later_are_read_from_their_first_record(gateway: GatewayProcess) -> None:
    topic = Topic(gateway, "growing")
    topic.write(0, 5)
    stream = reader(topic, topic="growing*", startingOffsets="latest")
    at = stream.initialOffset()
    assert step(stream, at) == (at, [])
    topic.grow()
    topic.write(2, 3)
    other = Topic(gateway, "growing-too", 1)
    other.write(0, 2)
    at, found = step(stream, at)
    assert sorted(found) == [(0, 0), (0, 1), (2, 0), (2, 1), (2, 2)]
    topic.write(0, 1)
    assert step(stream, at)[1] == [(0, 5)]
    stream.stop()


def test_a_batch_that_is_read_again_by_another_process_is_the_same_batch(gateway: GatewayProcess) -> None:
    topic = Topic(gateway, "again")
    topic.write(0, 5)
    stream = reader(topic)
    start = stream.initialOffset()
    end, found = step(stream, start)
    stream.stop()
    topic.write(0, 5)
    topic.grow()
    resumed = reader(topic)
    assert [(span.partition, span.start, span.end) for span in resumed.partitions(start, end)] == [(0, 0, 5)]
    _, more = step(resumed, end)
    assert [*found, *more] == [(0, offset) for offset in range(10)]
    resumed.stop()


def test_how_far_it_could_be_is_reported(gateway: GatewayProcess) -> None:
    topic = Topic(gateway, "reported", 1)
    topic.write(0, 5)
    stream = reader(topic)
    assert stream.reportLatestOffset() is None
    at = stream.initialOffset()
    stream.latestOffset(at, ReadMaxRows(2))
    reported = stream.reportLatestOffset()
    assert reported is not None and reported["reported"]["next"] == {"0": 5}
    stream.stop()


@pytest.mark.parametrize("dialect", ["native", "cursus"])
def test_a_topic_that_was_made_again_is_a_loss(gateway: GatewayProcess, dialect: str) -> None:
    topic = Topic(gateway, f"remade-{dialect}")
    topic.write(0, 5)
    stream = reader(topic, endpoint=f"{dialect}=tcp:127.0.0.1:{gateway.ports[dialect]}")
    at, _ = step(stream, stream.initialOffset())
    topic.again()
    with pytest.raises(GatewayFailed, match=r"data loss: .*failOnDataLoss=false"):
        stream.latestOffset(at, ReadAllAvailable())
    stream.stop()


def test_a_topic_that_was_made_again_is_read_where_that_is_wanted(
    gateway: GatewayProcess, caplog: pytest.LogCaptureFixture
) -> None:
    topic = Topic(gateway, "wanted")
    topic.write(0, 5)
    stream = reader(topic, failOnDataLoss="false")
    at, _ = step(stream, stream.initialOffset())
    topic.again()
    topic.write(0, 2)
    at, found = step(stream, at)
    assert found == [(0, 0), (0, 1)]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "'wanted' was deleted and made again" in caplog.text
    assert step(stream, at) == (at, [])
    stream.stop()


def test_a_topic_that_is_gone_is_a_loss_of_a_pattern_too(gateway: GatewayProcess) -> None:
    topic = Topic(gateway, "gone")
    stream = reader(topic, topic="gone*")
    at = stream.initialOffset()
    topic.delete()
    with pytest.raises(GatewayFailed, match="the topic 'gone' does not exist any more"):
        stream.latestOffset(at, ReadAllAvailable())
    stream.stop()


def test_records_deleted_before_a_batch_reads_them_are_a_loss() -> None:
    there = Log([canonical([Record(None, b"v") for _ in range(10)]).appended(0, 9)])
    with Scripted(there.answer) as server:
        said = {"endpoint": server.endpoint, "topic": "orders"}
        stream = StreamReader(reading_of(said), SCHEMA)
        start = stream.initialOffset()
        there.drop(4)
        with pytest.raises(
            GatewayFailed, match="data loss: orders/0 begins at offset 4 now, so 4 records from offset 0 on"
        ):
            step(stream, start)
        skipping = StreamReader(reading_of(said | {"failOnDataLoss": "false"}), SCHEMA)
        assert step(skipping, start)[1] == [(0, offset) for offset in range(4, 10)]
        stream.stop()
        skipping.stop()


def test_a_checkpoint_of_something_else_is_refused(gateway: GatewayProcess) -> None:
    with pytest.raises(ValueError, match="the checkpoint has no offsets of the format gateway"):
        reader(Topic(gateway, "foreign")).latestOffset({"index": 3}, ReadAllAvailable())


# -- through Spark


def run(spark: SparkSession, topic: Topic, directory: Path, **options: str) -> list[int]:
    """One run of a query to the end of what there is.  How many records each of its batches had."""
    stream = spark.readStream.format("gateway").options(endpoint=topic.endpoint, topic=topic.name, **options).load()
    out = stream.writeStream.format("parquet").option("checkpointLocation", str(directory / "checkpoint"))
    query = out.trigger(availableNow=True).start(str(directory / "lake"))
    query.awaitTermination(120)
    assert not query.isActive
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def lake(spark: SparkSession, directory: Path) -> list[tuple[int, int, bytes]]:
    rows = spark.read.parquet(str(directory / "lake")).select("partition", "offset", "value").collect()
    return sorted((row.partition, row.offset, bytes(row.value)) for row in rows)


def test_a_query_resumes_from_its_checkpoint_with_nothing_lost_or_repeated(
    gateway: GatewayProcess, spark: SparkSession, tmp_path: Path
) -> None:
    topic = Topic(gateway, "resumed")
    topic.write(0, 25)
    topic.write(1, 5)
    assert run(spark, topic, tmp_path, maxRecordsPerTrigger="20") == [20, 10]
    topic.write(1, 7)
    topic.grow()
    topic.write(2, 3)
    newest = max((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink()  # the last batch is done again
    run(spark, topic, tmp_path, maxRecordsPerTrigger="20")
    expected = [(partition, at) for partition, count in enumerate((25, 12, 3)) for at in range(count)]
    assert [row[:2] for row in lake(spark, tmp_path)] == expected


def test_a_query_fails_with_the_sentence(gateway: GatewayProcess, spark: SparkSession, tmp_path: Path) -> None:
    topic = Topic(gateway, "failing")
    topic.write(0, 5)
    run(spark, topic, tmp_path)
    topic.again()
    with pytest.raises(StreamingQueryException, match="data loss: the topic 'failing' was deleted and made again"):
        run(spark, topic, tmp_path)
