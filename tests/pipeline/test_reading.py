"""gateway.pipeline.reading: a batch read gives every record once, and says what it cannot give."""

from __future__ import annotations

import itertools
import logging
import pickle
import socket
import time
from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import wire
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Command
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical
from gateway.core.replies import Outcome
from gateway.pipeline import reading
from gateway.pipeline.asking import Connection
from gateway.pipeline.attempts import GatewayFailed
from gateway.pipeline.options import reading_of
from gateway.pipeline.places import Place
from gateway.pipeline.planning import Span
from gateway.pipeline.reading import BatchReader
from gateway.pipeline.schema import SCHEMA
from pipeline.scripted import HANG_UP, SILENCE, Log, Scripted
from system.processes import GatewayProcess

DIALECTS = ("native", "cursus", "pipe", "iggy", "mlog", "grid")
Values = list[tuple[int, int, bytes]]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """With the topics `one` and `two`, of as many partitions, 300 records in each partition."""
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), *DIALECTS, backend="memory") as running:
        with Connection(Place(at(running, "native"))) as connection:
            for name, partitions in (("one", 1), ("two", 2)):
                connection.ask(q.CreateTopic(q.Topic("default", name), partitions), r.TopicDescription)
                for partition in range(partitions):
                    for first in range(0, 300, 60):
                        batch = canonical([Record(b"k", value(partition, at)) for at in range(first, first + 60)])
                        connection.ask(q.Publish(q.Topic("default", name), partition, batch), r.Published)
        yield running


def at(gateway: GatewayProcess, dialect: str) -> str:
    return f"{dialect}=tcp:127.0.0.1:{gateway.ports[dialect]}"


def value(partition: int, offset: int) -> bytes:
    return b"%d/%d" % (partition, offset)


def every(partitions: int) -> Values:
    return [(partition, offset, value(partition, offset)) for partition in range(partitions) for offset in range(300)]


def reader(endpoint: str, topic: str, schema: StructType = SCHEMA, **options: str) -> BatchReader:
    said = {"endpoint": endpoint, "topic": topic, "timeoutSeconds": "5"} | options
    return BatchReader(reading_of(said), schema)


def values(reader: BatchReader) -> Values:
    """What its tasks read, one behind the other, in other processes for all they know."""
    found: Values = []
    for partition in reader.partitions():
        task, span = pickle.loads(pickle.dumps((reader, partition)))
        for frame in task.read(span):
            columns = [frame.column(name).to_pylist() for name in ("partition", "offset", "value")]
            found += zip(*columns, strict=True)
    return found


# -- a real gateway, in every dialect


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_can_be_asked_for_the_records(gateway: GatewayProcess, dialect: str) -> None:
    assert values(reader(at(gateway, dialect), "one")) == every(1)


@pytest.mark.parametrize("dialect", ["native", "cursus", "pipe", "iggy"])
def test_all_partitions_are_found_where_the_wire_knows_of_them(gateway: GatewayProcess, dialect: str) -> None:
    assert values(reader(at(gateway, dialect), "two")) == every(2)


@pytest.mark.parametrize("dialect", ["native", "cursus", "pipe", "iggy", "mlog"])
@pytest.mark.parametrize(("pattern", "count"), [("*", 2), ("tw*", 1), ("three*", 0)])
def test_patterns_mean_the_topics_that_fit(gateway: GatewayProcess, dialect: str, pattern: str, count: int) -> None:
    spans = reader(at(gateway, dialect), pattern).partitions()
    assert len({span.topic for span in spans if isinstance(span, Span)}) == count


def test_a_dialect_that_lists_no_topics_wants_a_name(gateway: GatewayProcess) -> None:
    with pytest.raises(GatewayFailed, match=r"topics cannot be listed .* so give one by its name"):
        reader(at(gateway, "grid"), "*").partitions()


@pytest.mark.parametrize("dialect", ["native", "cursus", "pipe", "iggy", "mlog"])
def test_a_topic_that_does_not_exist_is_an_error(gateway: GatewayProcess, dialect: str) -> None:
    with pytest.raises(GatewayFailed, match=f"there is no topic 'three' in the namespace 'default' of {dialect}="):
        reader(at(gateway, dialect), "three").partitions()


def test_a_namespace_that_does_not_exist_is_an_error(gateway: GatewayProcess) -> None:
    with pytest.raises(GatewayFailed, match="there is no namespace 'sales'"):
        reader(at(gateway, "native"), "one", namespace="sales").partitions()


def test_large_partitions_are_many_tasks(gateway: GatewayProcess) -> None:
    split = reader(at(gateway, "native"), "two", recordsPerPartition="70")
    assert len(split.partitions()) == 10
    assert values(split) == every(2)


def test_a_read_goes_from_offset_to_offset(gateway: GatewayProcess) -> None:
    said = {"startingOffsets": '{"one": {"0": 59}}', "endingOffsets": '{"one": {"0": 241}}'}
    for dialect in DIALECTS:
        assert values(reader(at(gateway, dialect), "one", **said)) == every(1)[59:241]


def test_many_fetches_give_what_one_gives(gateway: GatewayProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", 500)
    assert values(reader(at(gateway, "native"), "one")) == every(1)


@pytest.mark.parametrize("said", [{"user": "iggy", "password": "wrong"}, {"user": "nobody", "password": "iggy"}])
def test_a_wrong_password_is_a_sentence(gateway: GatewayProcess, said: dict[str, str]) -> None:
    with pytest.raises(GatewayFailed, match="the user or the password is wrong"):
        reader(at(gateway, "iggy"), "one", **said).partitions()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("port", DIALECTS)
def test_another_dialect_at_the_port_is_a_sentence_and_no_hang(
    gateway: GatewayProcess, dialect: str, port: str
) -> None:
    if dialect == port:
        return
    began = time.monotonic()
    with pytest.raises(GatewayFailed, match=r"right port\?|spoken there\?|cannot be reached"):
        reader(f"{dialect}=tcp:127.0.0.1:{gateway.ports[port]}", "one", timeoutSeconds="0.2").partitions()
    assert time.monotonic() - began < 5


# -- through Spark


def test_spark_reads_every_record_once(gateway: GatewayProcess, spark: SparkSession) -> None:
    rows = (
        spark.read.format("gateway").options(endpoint=at(gateway, "native"), topic="*", recordsPerPartition=100).load()
    )
    assert rows.schema == SCHEMA
    assert rows.rdd.getNumPartitions() == 9
    found = sorted((row.topic, row.partition, row.offset, bytes(row.value)) for row in rows.collect())
    assert found == [(name, *row) for name, count in (("one", 1), ("two", 2)) for row in every(count)]


def test_spark_reads_the_columns_of_a_schema(gateway: GatewayProcess, spark: SparkSession) -> None:
    options = {"endpoint": at(gateway, "native"), "topic": "one"}
    rows = spark.read.format("gateway").schema("value binary, offset long").options(**options).load()
    assert [tuple(row) for row in rows.orderBy("offset").take(2)] == [(b"0/0", 0), (b"0/1", 1)]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("offset long, size long", "a topic has no column 'size'"),
        ("offset int", "the column offset is bigint, not int"),
    ],
)
def test_a_schema_that_means_nothing_is_refused(spark: SparkSession, schema: str, why: str) -> None:
    rows = spark.read.format("gateway").schema(schema).option("topic", "one")
    with pytest.raises(PySparkException, match=why):
        rows.load().collect()


@pytest.mark.parametrize(
    ("options", "why"), [({}, "option topic is missing"), ({"topic": "three"}, "there is no topic 'three'")]
)
def test_spark_shows_the_sentence(
    gateway: GatewayProcess, spark: SparkSession, options: dict[str, str], why: str
) -> None:
    with pytest.raises((AnalysisException, PySparkException), match=why):
        spark.read.format("gateway").options(endpoint=at(gateway, "native"), **options).load().collect()


def test_a_topic_without_records_is_an_empty_frame(gateway: GatewayProcess, spark: SparkSession) -> None:
    options = {"endpoint": at(gateway, "native"), "topic": "one", "startingOffsets": "latest"}
    assert spark.read.format("gateway").options(**options).load().count() == 0


# -- what is not there any more


def log() -> Log:
    batches = [
        canonical([Record(None, value(0, base + at)) for at in range(10)]).appended(base, 9 + base)
        for base in range(0, 50, 10)
    ]
    return Log(batches)


def offsets(reader: BatchReader) -> list[int]:
    return [offset for _, offset, _ in values(reader)]


def test_deleted_records_fail_a_read_that_asks_for_them() -> None:
    there = log()
    there.drop(20)
    with Scripted(there.answer) as server:
        said = reader(server.endpoint, "orders", startingOffsets='{"orders": {"0": 5}}')
        with pytest.raises(
            GatewayFailed,
            match=r"data loss: 15 records of orders/0 from offset 5 on are deleted .*failOnDataLoss=false",
        ):
            said.partitions()


def test_deleted_records_are_skipped_and_counted_where_that_is_wanted(caplog: pytest.LogCaptureFixture) -> None:
    there = log()
    there.drop(20)
    with Scripted(there.answer) as server:
        said = {"startingOffsets": '{"orders": {"0": 5}}', "failOnDataLoss": "false"}
        assert offsets(reader(server.endpoint, "orders", **said)) == list(range(20, 50))
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "15 records are skipped" in caplog.text


class Racing:
    """Records are deleted while they are read: before the second Fetch all before an offset."""

    def __init__(self, offset: int) -> None:
        self.log = log()
        self._offset = offset
        self._fetches = 0

    def answer(self, command: Command) -> Outcome:
        self._fetches += isinstance(command, q.Fetch)
        if self._fetches == 2:
            self.log.drop(self._offset)
        return self.log.answer(command)


def test_records_deleted_in_the_middle_of_a_read_fail_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", 1)
    with (
        Scripted(Racing(30).answer) as server,
        pytest.raises(GatewayFailed, match="data loss: orders/0 begins at offset 30 now, so 29"),
    ):
        values(reader(server.endpoint, "orders"))


@pytest.mark.parametrize(("offset", "left"), [(30, [0, *range(30, 50)]), (50, [0]), (70, [0])])
def test_records_deleted_in_the_middle_of_a_read_are_skipped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, offset: int, left: list[int]
) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", 1)
    with Scripted(Racing(offset).answer) as server:
        assert offsets(reader(server.endpoint, "orders", failOnDataLoss="false")) == left
    assert f"{min(offset, 50) - 1} records are skipped" in caplog.text


def test_a_topic_made_again_while_it_is_read_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", 1)
    racing = Racing(0)

    def answer(command: Command) -> Outcome:
        if len(server.asked) > 2:
            racing.log.id = 8
        return racing.log.answer(command)

    with Scripted(answer) as server, pytest.raises(GatewayFailed, match="orders/0 was deleted before it was read"):
        values(reader(server.endpoint, "orders"))


def test_a_partition_that_became_shorter_is_a_loss() -> None:
    there = log()

    def answer(command: Command) -> Outcome:
        if isinstance(command, q.Fetch):
            there.batches, there.end = there.batches[:2], 20
        return there.answer(command)

    with (
        Scripted(answer) as server,
        pytest.raises(GatewayFailed, match="orders/0 ends at offset 20 now, so 30 records"),
    ):
        values(reader(server.endpoint, "orders"))


def test_what_a_store_leaves_out_is_no_loss() -> None:
    there = log()
    del there.batches[2]
    with Scripted(there.answer) as server:
        assert offsets(reader(server.endpoint, "orders")) == [*range(20), *range(30, 50)]
        said = {"endingOffsets": '{"orders": {"0": 25}}'}
        assert offsets(reader(server.endpoint, "orders", **said)) == list(range(20))


# -- a gateway that goes away


class Failing:
    """Hangs up, or says a fault, at every nth Fetch."""

    def __init__(self, outcome: Outcome | str, nth: int) -> None:
        self.log = log()
        self._outcome = outcome
        self._nth = nth
        self._fetches = 0

    def answer(self, command: Command) -> Outcome | str:
        self._fetches += isinstance(command, q.Fetch)
        if isinstance(command, q.Fetch) and self._fetches % self._nth == 0:
            return self._outcome
        return self.log.answer(command)


@pytest.mark.parametrize("outcome", [HANG_UP, CommandFailed(Fault.UNAVAILABLE), CommandFailed(Fault.BUSY)])
def test_a_read_goes_on_where_it_was_when_a_gateway_comes_back(
    monkeypatch: pytest.MonkeyPatch, outcome: Outcome | str
) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", 1)
    with Scripted(Failing(outcome, 7).answer) as server:
        assert offsets(reader(server.endpoint, "orders")) == list(range(50))
        assert server.dialled > 5


def test_a_gateway_that_is_killed_and_started_again_is_read_to_the_end(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", 1000)
    with GatewayProcess(tmp_path_factory.mktemp("killed"), "native") as running:
        topic = q.Topic("default", "orders")
        with Connection(Place(at(running, "native"))) as connection:
            connection.ask(q.CreateTopic(topic, 1), r.TopicDescription)
            batch = canonical([Record(None, value(0, at)) for at in range(1000)])
            connection.ask(q.Publish(topic, 0, batch), r.Published)
        said = reader(at(running, "native"), "orders", timeoutSeconds="30")
        [span] = said.partitions()
        found: list[int] = []
        for nth, frame in enumerate(said.read(span)):
            found += frame.column("offset").to_pylist()
            if nth in (0, 2):
                running.kill()
                running.start()
    assert found == list(range(1000))


@pytest.mark.parametrize(
    ("outcome", "why"), [(HANG_UP, "did not come back within 0.5 s"), (SILENCE, "no answer within 0.5 s")]
)
def test_a_gateway_that_stays_away_is_an_error_in_time(outcome: str, why: str) -> None:
    began = time.monotonic()
    with Scripted(Failing(outcome, 1).answer) as server, pytest.raises(GatewayFailed, match=why):
        values(reader(server.endpoint, "orders", timeoutSeconds="0.5"))
    assert time.monotonic() - began < 5


def test_nobody_at_the_port_is_an_error_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(GatewayFailed, match="it cannot be reached"):
        reader(f"native=tcp:127.0.0.1:{port}", "orders", timeoutSeconds="0.3").partitions()


def test_an_answer_that_never_comes_to_its_end_is_an_error_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    begins = wire.request("native", q.CreateNamespace("x" * (1 << 20)), 1)[:4]  # as long as that
    trickle = itertools.chain([begins], itertools.repeat(b"\0"))
    with Scripted(log().answer) as server, Connection(Place(server.endpoint)) as connection:
        connection.place = Place(server.endpoint, seconds=0.01)
        monkeypatch.setattr(connection, "_some", lambda: next(trickle))
        with pytest.raises(CommandFailed, match="no answer within"):
            connection.ask(q.Ping(), r.Done)


def test_the_next_fetch_is_asked_for_while_the_last_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", 1)
    there = log()
    with Scripted(there.answer) as server:
        said = reader(server.endpoint, "orders")
        [span] = said.partitions()
        frames = said.read(span)
        next(frames)
        deadline = time.monotonic() + 10
        while sum(isinstance(command, q.Fetch) for command in server.asked) < 2:
            assert time.monotonic() < deadline, "one answer was taken, and no second one was asked for"
        assert [frame.num_rows for frame in frames] == [1] * 49


def test_a_batch_larger_than_the_bound_comes_whole() -> None:
    batch: RecordBatch = canonical([Record(None, b"x" * (3 << 20)) for _ in range(3)]).appended(0, 9)
    with Scripted(Log([batch]).answer) as server:
        assert offsets(reader(server.endpoint, "orders")) == [0, 1, 2]
