"""`export` and `load`: what comes back is what was there, record by record, here and on another backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from gateway.core.commands import CreateTopic, DescribeTopic, Publish, Topic, TopicSettings
from gateway.core.faults import CommandFailed
from gateway.core.records import Record, canonical
from gateway.core.replies import Published, TopicDescription
from gateway.pipeline.asking import Connection
from gateway.pipeline.jobs import export, load
from pipeline.filling import fill, options, place, sample, stored
from system.kafka import Broker
from system.processes import GatewayProcess

ORDERS = Topic("default", "orders")
SETTINGS = TopicSettings(retention_us=10**15 * 4, cleanup="delete", partitioner="murmur3", labels={"owner": "me"})


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("here"), "native") as gateway:
        yield gateway


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("there"), "native") as gateway:
        yield gateway


def describe(connection: Connection, topic: Topic) -> TopicDescription:
    return connection.ask(DescribeTopic(topic), TopicDescription)


@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_what_is_loaded_is_what_was_exported_record_by_record(
    spark: SparkSession, here: GatewayProcess, there: GatewayProcess, tmp_path: Path, count: int
) -> None:
    topic, directory = Topic("default", f"orders-{count}"), str(tmp_path / "exported")
    shares = [count // 2, count // 4, 0, count // 4]
    with Connection(place(here)) as source, Connection(place(there)) as target:
        fill(source, topic, [sample(share, at) for at, share in enumerate(shares)], SETTINGS)
        said = export.run(spark, place=options(here), topic=topic.name, path=directory)
        assert said == f"{count:,} records of 1 topics in {directory}"
        assert load.run(spark, place=options(there), path=directory) == f"{count:,} records into {topic.name}"
        for partition, share in enumerate(shares):
            before = stored(source, topic, partition)
            assert len(before) == share
            assert stored(target, topic, partition) == before
        assert describe(target, topic).settings == describe(source, topic).settings == SETTINGS


def test_an_idempotent_topic_comes_back_as_one_with_its_producers_as_they_were(
    spark: SparkSession, here: GatewayProcess, there: GatewayProcess, tmp_path: Path
) -> None:
    topic, directory = Topic("default", "numbered"), str(tmp_path / "exported")
    with Connection(place(here)) as source, Connection(place(there)) as target:
        fill(source, topic, [sample(1500, 7, producer=b"till-1")], TopicSettings(idempotent=True))
        export.run(spark, place=options(here), topic="numbered", path=directory)
        assert load.run(spark, place=options(there), path=directory) == "1,500 records into numbered"
        assert stored(target, topic, 0) == stored(source, topic, 0)
        assert describe(target, topic).settings.idempotent
        fresh = Publish(topic, 0, canonical([Record(value=b"v", producer=b"till-2", sequence=1)], "native"))
        assert [target.ask(fresh, Published).duplicate for _ in range(2)] == [False, True]


def test_several_topics_move_at_once_and_one_of_them_under_another_name(
    spark: SparkSession, here: GatewayProcess, there: GatewayProcess, tmp_path: Path
) -> None:
    directory = str(tmp_path / "exported")
    with Connection(place(here)) as source, Connection(place(there, namespace="moved")) as target:
        for name in ("many-a", "many-b", "many-none"):
            fill(source, Topic("default", name), [[Record(b"k", name.encode())] if name != "many-none" else []])
        assert export.run(spark, place=options(here), topic="many-*", path=directory).startswith(
            "2 records of 3 topics"
        )
        into = options(there) | {"namespace": "moved"}
        assert len(load.run(spark, place=into, path=directory).splitlines()) == 3
        assert [stored(target, Topic("moved", f"many-{name}"), 0)[0].value for name in "ab"] == [b"many-a", b"many-b"]
        assert len(describe(target, Topic("moved", "many-none")).partitions) == 1
        load.run(spark, place=into, path=directory, topic="many-b", name="other")
        assert [record.value for record in stored(target, Topic("moved", "other"), 0)] == [b"many-b"]
    with pytest.raises(ValueError, match=r"has no topic few; it has many-a, many-b, many-none"):
        load.run(spark, place=into, path=directory, topic="few")
    with pytest.raises(ValueError, match=r"--as names one topic, and \* means 3"):
        load.run(spark, place=into, path=directory, name="other")


def test_a_topic_with_records_is_added_to_only_on_demand(
    spark: SparkSession, here: GatewayProcess, tmp_path: Path
) -> None:
    directory, topic = str(tmp_path / "exported"), Topic("default", "again")
    with Connection(place(here)) as connection:
        fill(connection, topic, [sample(30, 3), []])
        before = stored(connection, topic, 0)
        export.run(spark, place=options(here), topic="again", path=directory)
        with pytest.raises(ValueError, match="again has records already; --append adds to them"):
            load.run(spark, place=options(here), path=directory)
        assert stored(connection, topic, 0) == before
        load.run(spark, place=options(here), path=directory, append=True)
        assert stored(connection, topic, 0) == before + before


def test_a_topic_with_fewer_partitions_is_refused(spark: SparkSession, here: GatewayProcess, tmp_path: Path) -> None:
    directory = str(tmp_path / "exported")
    with Connection(place(here)) as connection:
        fill(connection, Topic("default", "wide"), [[], [Record(b"k", b"v")]])
        export.run(spark, place=options(here), topic="wide", path=directory)
        connection.ask(CreateTopic(Topic("default", "narrow"), 1), TopicDescription)
        with pytest.raises(ValueError, match="narrow is there and has 1 partitions, not 2"):
            load.run(spark, place=options(here), path=directory, name="narrow")


def test_an_export_that_did_not_end_is_not_loaded(spark: SparkSession, here: GatewayProcess, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="was not written by an export that has ended"):
        load.run(spark, place=options(here), path=str(tmp_path))


def test_a_topic_that_is_not_there_is_not_exported(spark: SparkSession, here: GatewayProcess, tmp_path: Path) -> None:
    for pattern in ("nothing", "nothing-*"):
        with pytest.raises(CommandFailed, match="NO_SUCH_TOPIC"):
            export.run(spark, place=options(here), topic=pattern, path=str(tmp_path / "exported"))
    assert not list(tmp_path.iterdir())


def test_topics_move_into_kafka(spark: SparkSession, here: GatewayProcess, kafka: Broker, tmp_path: Path) -> None:
    directory, topic = str(tmp_path / "exported"), Topic("default", "to-kafka")
    with (
        GatewayProcess(tmp_path, "native", backend=f"kafka:{kafka.address}") as migrated,
        Connection(place(here)) as source,
        Connection(place(migrated)) as target,
    ):
        fill(source, topic, [sample(3000, 11), sample(2000, 12), []], TopicSettings(retention_us=0))
        export.run(spark, place=options(here), topic="to-kafka", path=directory)
        assert load.run(spark, place=options(migrated), path=directory) == "5,000 records into to-kafka"
        for partition in range(3):
            before = [in_milliseconds(record) for record in stored(source, topic, partition)]
            assert [in_milliseconds(record) for record in stored(target, topic, partition)] == before


def in_milliseconds(record: Record) -> Record:
    """Kafka's own times have no parts of a millisecond."""
    return msgspec.structs.replace(record, timestamp=record.timestamp // 1000)
