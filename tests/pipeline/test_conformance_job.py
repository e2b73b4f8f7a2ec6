"""The job `conformance`: clients judged over captured commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import wire
from gateway import dialects
from gateway.conformance.judging import exercised
from gateway.pipeline.capture_columns import CASES, schema_of
from gateway.pipeline.jobs import conformance
from pipeline.captured import BEGAN, commands, read, told, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASE: dict[str, Any] = dict.fromkeys(CASES) | {"node": "here", "started": BEGAN, "time": BEGAN, "connection": 1}
CASE |= {"dialect": "pipe", "listener": "pipe", "principal": ""}
PING, BAD = "Ping", "refused MALFORMED: x"


def said(verdict: str, frame: bytes, shape: str = PING, why: str | None = None, **more: Any) -> dict[str, Any]:
    return {"verdict": verdict, "shape": shape, "why": why, "frame": frame, "bytes_in": len(frame), **more}


def test_of_each_client_and_case_the_worst_verdict_is_given_with_its_shortest_example(spark: SparkSession) -> None:
    cases = spark.createDataFrame(
        [("pipe", PING, "pipe/a/one"), ("pipe", PING, "pipe/a/two"), ("iggy", PING, "i/b/c")],
        "dialect string, shape string, case string",
    )
    rows = commands(
        spark,
        said("PASS", b"P\n"),
        said("LENIENT", b"PING  \n", why="long"),
        said("LENIENT", b"PING \n", why="short"),
        said("INFO", b""),
        said("PASS", b"PASS\n", peer="10.0.0.2:1", connection=2),
        said("FAIL", b"\xff\x00", BAD, "what"),
        {"verdict": None, "frame": b"not judged"},
        {"missing": "gap", "verdict": None},
    )
    found = [tuple(row) for row in conformance.transform(rows, cases).collect()]
    assert found == [
        ("10.0.0.1", "pipe", "pipe/a/one", PING, "LENIENT", 4, 2, "short", b"PING \n".hex().upper()),
        ("10.0.0.1", "pipe", "pipe/a/two", PING, "LENIENT", 4, 2, "short", b"PING \n".hex().upper()),
        ("10.0.0.1", "pipe", None, BAD, "FAIL", 1, 1, "what", "FF00"),
        ("10.0.0.2", "pipe", "pipe/a/one", PING, "PASS", 1, 1, None, b"PASS\n".hex().upper()),
        ("10.0.0.2", "pipe", "pipe/a/two", PING, "PASS", 1, 1, None, b"PASS\n".hex().upper()),
    ]


def test_the_cases_are_those_of_all_dialects(spark: SparkSession) -> None:
    found = conformance.cases_of(spark).collect()
    assert {row.dialect for row in found} == {*dialects.names()}
    assert {row.case for row in found if row.dialect == "iggy" and row.shape == "Ping"} == {*exercised("iggy")["Ping"]}


def test_of_each_client_and_case_of_the_kit_what_fails_is_the_verdict_then_what_passes(
    spark: SparkSession, tmp_path: Path
) -> None:
    row = CASE | {"peer": "10.0.0.1:7", "case": "A-1"}
    rows = [
        row | {"verdict": "PASS", "times": 5, "frame": b"long"},
        row | {"verdict": "PASS", "times": 2, "frame": b"P", "connection": 2, "peer": "10.0.0.1:8"},
        row | {"verdict": "LENIENT", "times": 9, "why": "other bytes", "frame": b"L"},
        row | {"verdict": "PASS", "times": 1, "case": "A-2", "frame": b"Q"},
        row | {"verdict": "FAIL", "times": 1, "case": "A-2", "why": "it is another", "frame": b"\xff"},
        row | {"verdict": None, "case": "", "missing": "gap"},
    ]
    made = spark.createDataFrame([tuple(each.values()) for each in rows], schema_of(CASES))
    assert [tuple(found) for found in conformance.played(made).collect()] == [
        ("10.0.0.1", "pipe", "A-1", "", "PASS", 16, 7, None, b"P".hex().upper()),
        ("10.0.0.1", "pipe", "A-2", "", "FAIL", 2, 1, "it is another", "FF"),
    ]


def test_a_capture_is_read_as_cases(spark: SparkSession, tmp_path: Path) -> None:
    name = "a record is produced, and the answer says where it is and how far the partition is committed"
    write(tmp_path, [told([(wire.said("pipe", name), wire.told("pipe", name))])])
    (found,) = [row for row in read(spark, tmp_path, as_="cases").collect() if row.case == "PIP-C1.1"]
    assert (found.dialect, found.peer, found.verdict, found.times) == ("pipe", "10.0.0.1:5000", "PASS", 1)
    assert bytes(found.frame) == wire.said("pipe", name)
    said = conformance.run(spark, places=(str(tmp_path),), all_=True)
    assert "cases of the kit" in said and "PIP-C1.1" in said
