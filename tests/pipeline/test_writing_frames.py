"""`df.write` and `df.writeStream` with format gateway, as a user of Spark has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from gateway.core.commands import CreateTopic, DescribeTopic, Fetch, Publish, Topic, TopicSettings
from gateway.core.records import Header, HeaderKind, Record, canonical
from gateway.core.replies import Published, Records, TopicDescription
from gateway.pipeline.asking import Connection
from gateway.pipeline.places import Place
from system.processes import GatewayProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), "native") as process:
        yield process


@pytest.fixture
def connection(gateway: GatewayProcess) -> Iterator[Connection]:
    with Connection(Place(endpoint(gateway))) as connection:
        yield connection


def endpoint(gateway: GatewayProcess) -> str:
    return f"native=tcp:127.0.0.1:{gateway.ports['native']}"


def stored(connection: Connection, name: str) -> list[list[Record]]:
    topic = Topic("default", name)
    count = len(connection.ask(DescribeTopic(topic), TopicDescription).partitions)
    found: list[list[Record]] = []
    for partition in range(count):
        batches = connection.ask(Fetch(topic, partition, 0, max_bytes=1 << 24), Records).batches
        found.append([record for batch in batches for record in batch.records()])
    return found


def save(rows: DataFrame, gateway: GatewayProcess, topic: str, **options: str) -> None:
    told = {"endpoint": endpoint(gateway), "topic": topic} | options
    rows.write.format("gateway").options(**told).mode("append").save()


def test_rows_become_records(spark: SparkSession, gateway: GatewayProcess, connection: Connection) -> None:
    rows = spark.createDataFrame([("k", "1"), (None, "2"), ("k", None)], "key string, value string")
    save(rows.coalesce(1), gateway, "plain")
    assert stored(connection, "plain") == [[Record(b"k", b"1"), Record(None, b"2"), Record(b"k", None)]]


def test_a_topic_read_and_written_is_the_same_topic(
    spark: SparkSession, gateway: GatewayProcess, connection: Connection
) -> None:
    topic = Topic("default", "original")
    connection.ask(CreateTopic(topic, 2), TopicDescription)
    headers = (Header(b"a", b"1", HeaderKind.TEXT), Header(b"\xff", b"\2", HeaderKind.UINT8, HeaderKind.RAW))
    for partition in range(2):
        records = [
            Record(
                b"%d" % at,
                b"value",
                headers,
                1000 + at,
                2000 + at,
                bytes(range(16)),
                b"p",
                7,
                at + 1,
                b"e",
                1,
                2,
                b"m",
                9,
            )
            for at in range(50)
        ]
        connection.ask(Publish(topic, partition, canonical([*records, Record(b"gone", None, timestamp=5)])), Published)
    read = spark.read.format("gateway").option("endpoint", endpoint(gateway)).option("topic", "original").load()
    ordered = read.repartition(2, "partition").sortWithinPartitions("offset")
    save(ordered, gateway, "copy", createPartitions="2")
    assert stored(connection, "copy") == stored(connection, "original")


def test_an_idempotent_topic_has_each_row_of_a_batch_write_once_and_two_writes_twice(
    spark: SparkSession, gateway: GatewayProcess, connection: Connection
) -> None:
    rows = spark.range(100).selectExpr("cast(id as string) as value").repartition(3)
    for times in (1, 2):
        save(rows, gateway, "checked", idempotent="true")
        values = [record.value for record in stored(connection, "checked")[0]]
        assert sorted(values) == sorted([b"%d" % at for at in range(100)] * times)


def test_what_cannot_be_written_fails_with_a_sentence(spark: SparkSession, gateway: GatewayProcess) -> None:
    with pytest.raises(PySparkException, match="a topic has no column 'id_of_it'"):
        save(spark.range(3).selectExpr("id as id_of_it", "'v' as value"), gateway, "refused")
    with pytest.raises(PySparkException, match="a row is for partition 7 of refused, which has 1"):
        save(spark.range(3).selectExpr("7 as partition", "'v' as value"), gateway, "refused")
    with pytest.raises(PySparkException, match="a topic is a log"):
        spark.range(3).selectExpr("'v' as value").write.format("gateway").mode("overwrite").save()
    with pytest.raises(PySparkException, match=r"within 0\.2 s"):
        save(spark.range(1).selectExpr("'v' as value"), gateway, "refused", endpoint=closed(), timeoutSeconds="0.2")


def closed() -> str:
    return "native=tcp:127.0.0.1:1"


def test_a_stream_into_a_topic_that_checks_nothing_fails_with_a_sentence(
    spark: SparkSession, gateway: GatewayProcess, connection: Connection, tmp_path: Path
) -> None:
    connection.ask(CreateTopic(Topic("default", "unchecked"), 1, TopicSettings()), TopicDescription)
    query = stream(spark, gateway, tmp_path, "unchecked")
    with pytest.raises(PySparkException, match="the topic unchecked is not idempotent"):
        query.processAllAvailable()
    assert stored(connection, "unchecked") == [[]]


def stream(spark: SparkSession, gateway: GatewayProcess, directory: Path, topic: str) -> StreamingQuery:
    (directory / "files").mkdir()
    (directory / "files" / "one.json").write_text("".join(json.dumps({"value": each}) + "\n" for each in "12"))
    rows = spark.readStream.schema(StructType().add("value", "string")).json(str(directory / "files"))
    told = {"endpoint": endpoint(gateway), "topic": topic, "checkpointLocation": str(directory / "checkpoint")}
    return rows.writeStream.format("gateway").options(**told).start()
