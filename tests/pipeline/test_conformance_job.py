"""The job `conformance`: clients judged over captured commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway import dialects
from gateway.conformance.judging import exercised
from gateway.pipeline.jobs import conformance
from pipeline.captured import commands

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
