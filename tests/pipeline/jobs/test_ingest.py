"""`ingest`: topics in a lake, each record once, and one ingest to a lake."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from gateway.core.commands import Publish, Topic
from gateway.core.records import Record, canonical
from gateway.core.replies import Published
from gateway.pipeline.asking import Connection
from gateway.pipeline.jobs import ingest
from gateway.pipeline.notes import records_in
from pipeline.clusters import settings
from pipeline.filling import fill, options, place, sample, stored
from system.processes import GatewayProcess, until

SECONDS = 120.0

DAY_1, DAY_2 = (int(datetime(2024, 2, day, 23, 59, 59, 999999, UTC).timestamp() * 1e6) for day in (28, 29))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("ingested"), "native") as running:
        yield running


def take(spark: SparkSession, gateway: GatewayProcess, lake: str, topic: str, max_records: int = 1000) -> str:
    """All there is now."""
    return ingest.run(
        spark, place=options(gateway), path=lake, topic=topic, available_now=True, max_records=max_records
    )


def rows(spark: SparkSession, lake: str, topic: str) -> list[Row]:
    """The places and values of the records in a lake, in order."""
    found = records_in(spark, lake).where(f"topic = '{topic}'").orderBy("partition", "offset")
    return found.select("partition", "offset", "key", "value").collect()


def expected(connection: Connection, topic: Topic, partitions: int) -> list[tuple[object, ...]]:
    return [
        (partition, offset, record.key, record.value)
        for partition in range(partitions)
        for offset, record in enumerate(stored(connection, topic, partition))
    ]


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland"])
def test_the_day_is_that_of_utc_whatever_the_time_zone_of_the_session(spark: SparkSession, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        times = spark.createDataFrame([(0,), (DAY_1,), (DAY_1 + 1,), (DAY_2,)], "us long")
        frame = times.selectExpr("timestamp_micros(us) AS timestamp")
        days = [row.day for row in ingest.transform(frame).collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert days == [date(1970, 1, 1), date(2024, 2, 28), date(2024, 2, 29), date(2024, 2, 29)]


def test_a_second_run_adds_what_came_since_and_nothing_twice(
    spark: SparkSession, gateway: GatewayProcess, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    orders, numeric = Topic("default", "in-orders"), Topic("default", "in-007")
    with Connection(place(gateway)) as connection:
        fill(connection, orders, [sample(1500, 1), sample(700, 2)])
        fill(connection, numeric, [[Record(b"k", b"old", timestamp=DAY_1), Record(b"k", b"older", timestamp=DAY_2)]])
        assert take(spark, gateway, lake, "in-*") == f"2,202 records into {lake}"
        connection.ask(Publish(orders, 1, canonical([Record(b"k", b"new")], "native")), Published)
        assert take(spark, gateway, lake, "in-*") == f"1 records into {lake}"
        assert take(spark, gateway, lake, "in-*") == f"0 records into {lake}"
        for topic, partitions in ((orders, 2), (numeric, 1)):
            assert [tuple(row) for row in rows(spark, lake, str(topic.name))] == expected(connection, topic, partitions)
    folders = {path.name for path in Path(lake, "namespace=default", "topic=in-007").iterdir()}
    assert folders == {"day=2024-02-28", "day=2024-02-29"}


def test_a_lake_is_of_one_ingest(spark: SparkSession, gateway: GatewayProcess, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    with Connection(place(gateway)) as connection:
        fill(connection, Topic("default", "mine"), [[Record(b"k", b"v")]])
    take(spark, gateway, lake, "mine")
    with pytest.raises(ValueError, match="is the lake of 'mine' in the namespace 'default': take another"):
        take(spark, gateway, lake, "min*")
    shutil.rmtree(Path(lake, "_checkpoint"))
    with pytest.raises(ValueError, match="has lost its checkpoint"):
        take(spark, gateway, lake, "mine")


def test_what_another_stream_has_written_is_no_lake(
    spark: SparkSession, gateway: GatewayProcess, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    (lake / "_spark_metadata").mkdir(parents=True)
    (lake / "_spark_metadata" / "0").write_text("v1\n")
    with pytest.raises(ValueError, match="was written by another stream"):
        take(spark, gateway, str(lake), "mine")
    with pytest.raises(ValueError, match="was not written by ingest"):
        records_in(spark, str(lake))


def test_an_ingest_that_goes_on_takes_what_comes_and_ends_well_when_interrupted(
    gateway: GatewayProcess, spark: SparkSession, tmp_path: Path
) -> None:
    lake, topic = tmp_path / "lake", Topic("default", "going-on")
    asked = ["ingest", str(lake), "--topic=going-on", "--every=0.1", f"--endpoint={options(gateway)['endpoint']}"]
    with Connection(place(gateway)) as connection:
        fill(connection, topic, [[Record(b"k", b"first")]])
        command = [sys.executable, "-m", "gateway.cli", "pipeline", *asked, "--master=local[1]"]
        with subprocess.Popen(
            command, env=settings(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as running:
            try:
                until((lake / "_checkpoint" / "commits" / "0").exists, SECONDS, "the first batch")
                connection.ask(Publish(topic, 0, canonical([Record(b"k", b"second")], "native")), Published)
                until((lake / "_checkpoint" / "commits" / "1").exists, SECONDS, "the second batch")
                running.send_signal(signal.SIGINT)
                said, errors = running.communicate(timeout=SECONDS)
            finally:
                running.kill()
    assert (running.returncode, said) == (0, f"2 records into {lake}\n"), errors
    assert "Traceback" not in errors
    assert [row.value for row in rows(spark, str(lake), "going-on")] == [b"first", b"second"]
