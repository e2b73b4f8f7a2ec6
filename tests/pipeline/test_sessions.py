"""The job `sessions`: latencies, errors and slow connections of captured commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.pipeline.jobs import sessions
from gateway.pipeline.traffic import missing, table
from pipeline.captured import after, commands

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_latencies_are_by_dialect_command_and_client(spark: SparkSession) -> None:
    fetches = [{"kind": "Fetch", "outcome": "Records", "latency_us": at} for at in range(1, 101)]
    others = [
        {"kind": "Fetch", "outcome": "NO_SUCH_TOPIC", "latency_us": 1000},
        {"kind": "Fetch", "outcome": None, "latency_us": None, "bytes_out": None},
        {
            "kind": "Fetch",
            "connection": 2,
            "peer": "10.0.0.2:77",
            "dialect": "iggy",
            "principal": "ann",
            "latency_us": 7,
        },
    ]
    one, other = sessions.transform(commands(spark, *fetches, *others)).collect()
    assert (one.dialect, one.kind, one.client) == ("pipe", "Fetch", "10.0.0.1")
    assert (one.asked, one.answered, one.failed, one.error_rate) == (102, 101, 1, 1 / 101)
    assert (one.p50_us, one.p95_us, one.p99_us, one.max_us) == (51, 96, 100, 1000)
    assert (one.bytes_in, one.bytes_out) == (1020, 2020)
    assert (other.client, other.asked, other.error_rate, other.max_us) == ("ann@10.0.0.2", 1, 0, 7)


def test_who_asked_is_who_the_connection_turned_out_to_be(spark: SparkSession) -> None:
    rows = [
        {"principal": "", "kind": "Authenticate"},
        {"principal": "ann", "kind": "Ping"},
        {"connection": 2, "peer": "[::1]:80"},
        {"connection": 3, "peer": None},
    ]
    found = {(row.client, row.kind) for row in sessions.transform(commands(spark, *rows)).collect()}
    assert found == {("ann@10.0.0.1", "Authenticate"), ("ann@10.0.0.1", "Ping"), ("[::1]", "Ping"), ("?", "Ping")}


def test_what_was_pushed_or_is_missing_is_no_request(spark: SparkSession) -> None:
    rows = commands(
        spark,
        {"kind": "Follow", "outcome": None, "latency_us": None, "bytes_out": None},
        {"kind": "Follow", "outcome": None, "latency_us": None, "bytes_in": None, "bytes_out": 500, "pushed": True},
        {"missing": "gap", "note": "12", "kind": "", "outcome": None, "bytes_in": None, "bytes_out": None},
    )
    (follow,) = sessions.transform(rows).collect()
    assert (follow.asked, follow.answered, follow.bytes_out, follow.error_rate, follow.p50_us) == (
        1,
        0,
        500,
        None,
        None,
    )
    assert [tuple(row) for row in sessions.counts(rows).collect()] == [("pipe", "pipe", "Follow", None, 1)]
    assert missing(rows) == "missing in the capture: 1 gap (12)\n"
    assert sessions.slowest(rows).collect() == []


def test_the_connection_that_waited_longest_comes_first(spark: SparkSession) -> None:
    quick = [{"connection": 1, "latency_us": 10, "time": after(at)} for at in range(20)]
    slow = [{"connection": 2, "latency_us": 10 * at, "time": after(at), "kind": f"K{at}"} for at in range(20)]
    once = [{"connection": 3, "latency_us": 5000, "time": after(3)}]
    found = sessions.slowest(commands(spark, *quick, *slow, *once)).collect()
    assert [(row.connection, row.p95_us, row.max_us) for row in found] == [(3, 5000, 5000), (2, 180, 190), (1, 10, 10)]
    assert (found[1].slowest_kind, found[1].seconds, found[1].asked) == ("K19", 19.0, 20)
    assert found[1].waited_seconds == sum(10 * at for at in range(20)) / 1e6 and found[1]["first"] == after(0)
    assert len(sessions.slowest(commands(spark, *quick, *slow), most=1).collect()) == 1


def test_a_table_shows_what_clients_chose_harmlessly(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [("\x1b[31m" + "x" * 60, 1234567, None, 0.5, [1, 2])],
        "name string, n long, no long, at double, some array<int>",
    )
    head, row = table(rows).splitlines()
    assert head.split() == ["name", "n", "no", "at", "some"]
    assert row.startswith("?[31mxxxx") and row.split()[1:] == ["1,234,567", "-", "0.5", "1;", "2"]
    assert row.isprintable() and "..." in row
