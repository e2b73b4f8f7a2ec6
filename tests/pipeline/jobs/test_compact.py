"""`compact` shows what the map of that name shows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from gateway.core.commands import ByKey, CreateTopic, MapGet, MapPut, MapRemove, MapScan, Publish, Topic
from gateway.core.records import Record, canonical
from gateway.core.replies import MapChanged, MapEntries, MapValue, Published, TopicDescription
from gateway.core.tables import Table
from gateway.pipeline.asking import Connection
from gateway.pipeline.jobs import compact
from gateway.pipeline.schema import SCHEMA
from pipeline.filling import options, place
from system.processes import GatewayProcess, until

USERS = Topic("default", "users")


def at(us: int) -> datetime:
    return datetime.fromtimestamp(us / 1e6, UTC)


def row(
    key: bytes | None, value: bytes | None, timestamp: int, partition: int, offset: int, expiry: int | None = None
) -> tuple[object, ...]:
    said: dict[str, object] = {"namespace": "default", "topic": "users", "partition": partition, "offset": offset}
    said |= {"timestamp": at(timestamp), "key": key, "value": value, "headers": []}
    said |= {"expiry": None if expiry is None else at(expiry)}
    return tuple(said.get(name) for name in SCHEMA.names)


def test_the_latest_by_time_then_partition_then_offset_wins(spark: SparkSession) -> None:
    rows = [
        row(b"a", b"old", 10, 2, 9),
        row(b"a", b"new", 11, 0, 0),
        row(b"b", b"low", 10, 0, 7),
        row(b"b", b"high", 10, 1, 3),
        row(b"c", b"first", 10, 1, 4),
        row(b"c", b"second", 10, 1, 5),
    ]
    table = compact.transform(spark.createDataFrame(rows, SCHEMA), now=100)
    assert dict(table.select("key", "value").collect()) == {b"a": b"new", b"b": b"high", b"c": b"second"}
    assert table.columns[:3] == ["namespace", "topic", "key"] and set(table.columns) == set(SCHEMA.names)


def test_a_tombstone_or_an_expired_record_hides_what_was_before(spark: SparkSession) -> None:
    rows = [
        row(b"gone", b"x", 10, 0, 0),
        row(b"gone", None, 11, 0, 1),
        row(b"over", b"x", 10, 0, 2),
        row(b"over", b"y", 11, 0, 3, expiry=100),
        row(b"soon", b"x", 12, 0, 4, expiry=101),
        row(None, b"no key", 13, 0, 5),
        row(b"empty", b"", 14, 0, 6),
    ]
    table = compact.transform(spark.createDataFrame(rows, SCHEMA), now=100)
    assert dict(table.select("key", "value").collect()) == {b"soon": b"x", b"empty": b""}


def test_any_records_give_what_a_table_of_the_gateway_gives(spark: SparkSession) -> None:
    chance, table, rows = random.Random(5), Table(), []
    for partition in range(3):
        for offset in range(400):
            key, value = b"%d" % chance.randrange(90), chance.choice((None, b"", b"%d" % offset))
            timestamp, expiry = chance.randrange(1, 50), chance.choice((0, 0, 20, 70))
            rows.append(row(key, value, timestamp, partition, offset, expiry=expiry or None))
            batch = canonical([Record(key, value, timestamp=timestamp, expiry=expiry)])
            table.add(partition, batch.appended(offset, timestamp))
    found = compact.transform(spark.createDataFrame(rows, SCHEMA), now=50).orderBy("key")
    assert [tuple(each) for each in found.select("key", "value").collect()] == list(table.scan(now=50))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("tables"), "native", "grid", "cursus", "pipe") as running:
        yield running


def write(grid: Connection, *others: Connection) -> None:
    """Puts, removes and times to live of the grid, with what other dialects publish between them."""
    for number in range(300):
        grid.ask(MapPut(USERS, b"user-%d" % (number % 120), b"grid-%d" % number), MapChanged)
        other = others[number % len(others)]
        record = Record(b"user-%d" % (number * 7 % 150), b"published-%d" % number)
        other.ask(Publish(USERS, ByKey(record.key or b"", "fnv1a_32"), canonical([record])), Published)
    for number in range(0, 120, 5):
        grid.ask(MapRemove(USERS, b"user-%d" % number), MapChanged)
    for number in range(0, 120, 9):
        grid.ask(MapPut(USERS, b"user-%d" % number, b"short", ttl=1.0), MapChanged)
        grid.ask(MapPut(USERS, b"later-%d" % number, b"long", ttl=1000.0), MapChanged)


def test_the_table_is_the_map_of_the_grid_key_for_key(
    spark: SparkSession, gateway: GatewayProcess, tmp_path: Path
) -> None:
    with Connection(place(gateway)) as native, Connection(place(gateway, "grid")) as grid:
        native.ask(CreateTopic(USERS, 3), TopicDescription)
        with Connection(place(gateway, "cursus")) as cursus, Connection(place(gateway, "pipe")) as pipe:
            write(grid, cursus, pipe, native)
        until(lambda: grid.ask(MapGet(USERS, b"user-0"), MapValue).value is None, 10.0, "a time to live is over")
        directory = str(tmp_path / "table")
        said = compact.run(spark, place=options(gateway), topic="users", path=directory)
        shown = list(grid.ask(MapScan(USERS), MapEntries).entries)
    table = spark.read.parquet(directory).orderBy("key")
    assert [(bytes(each.key), bytes(each.value)) for each in table.collect()] == shown
    assert said == f"{len(shown)} keys in {directory}" and len(shown) > 100
