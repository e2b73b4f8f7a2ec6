"""The job `lineage`: who wrote what others read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway import dialects
from gateway.dialects.fidelity import FIELDS, journey
from gateway.pipeline.jobs import lineage
from pipeline.captured import commands, run

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession


def wrote(who: int, first: int, records: int, **more: Any) -> dict[str, Any]:
    return client(who) | {"kind": "Publish", "outcome": "Published", **run(first, records)} | more


def read(who: int, first: int, records: int, **more: Any) -> dict[str, Any]:
    return client(who) | {"kind": "Fetch", "outcome": "Records", **run(first, records)} | more


def client(who: int) -> dict[str, Any]:
    return {"connection": who, "peer": f"c{who}:1"}


MANY = 10 * lineage.STRETCH + 7
GOT = {"dialect": "grid", "kind": "MapGet", "outcome": "MapValue", "records": 1}
SILENT = {"dialect": "iggy", "runs": []}

TOPICS: dict[str, list[dict[str, Any]]] = {
    "plain": [wrote(1, 0, 10), wrote(2, 10, 5), read(3, 0, 12), read(4, 14, 1)],
    "apart": [
        wrote(1, 0, 10) | run(0, 10, 1),
        wrote(1, 0, 10, namespace="shop"),
        read(3, 0, 10),
    ],
    "again": [wrote(1, 3, MANY), read(2, 0, MANY), read(2, 0, MANY), read(3, MANY, 9)],
    "silent": [wrote(1, 0, 8, **SILENT), wrote(2, 8, 2), read(3, 0, 10)],
    "several": [wrote(1, 0, 8, **SILENT), wrote(2, 0, 1, **SILENT), read(3, 0, 9)],
    "table": [wrote(1, 0, 10), client(2) | GOT],
    "nothing": [wrote(1, 0, 10, outcome="SEQUENCE_GAP"), read(2, 0, 0, runs=[]), client(3) | {"kind": "Ping"}],
    "losses": [wrote(5, 0, 1, dialect="native"), read(2, 0, 1), read(6, 0, 1, dialect="strange")],
}
"""What happened to each topic."""

Paths = dict[str, list["Row"]]


@pytest.fixture(scope="module")
def paths(spark: SparkSession) -> Paths:
    """What comes of all of it together, by topic: one transform, which takes some seconds however little there is."""
    rows = [{"topic": topic} | row for topic, happened in TOPICS.items() for row in happened]
    found = lineage.transform(commands(spark, *rows)).collect()
    return {topic: [row for row in found if row.topic == topic] for topic in TOPICS}


def told(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [(row.writer, row.reader, row.written, row.read, row.certain) for row in rows]


def test_offsets_say_whose_records_were_read(paths: Paths) -> None:
    assert told(paths["plain"]) == [
        ("c1", "c3", 10, 10, True),
        ("c2", "c3", 5, 2, True),
        ("c2", "c4", 5, 1, True),
    ]


def test_partitions_and_namespaces_are_apart(paths: Paths) -> None:
    assert told(paths["apart"]) == [
        ("c1", None, 10, 0, None),
        ("?", "c3", 0, 10, False),
        ("c1", None, 10, 0, None),
    ]
    assert [row.namespace for row in paths["apart"]] == ["default", "default", "shop"]


def test_what_is_read_again_counts_again_and_long_runs_are_compared_piece_by_piece(paths: Paths) -> None:
    assert told(paths["again"]) == [
        ("c1", "c2", MANY, 2 * (MANY - 3), True),
        ("c1", "c3", MANY, 3, True),
        ("?", "c2", 0, 6, False),
        ("?", "c3", 0, 6, False),
    ]


def test_a_writer_that_is_told_no_offsets_is_presumed_where_nobody_else_can_have_written(paths: Paths) -> None:
    assert told(paths["silent"]) == [("c1", "c3", 8, 8, False), ("c2", "c3", 2, 2, True)]
    (read_,) = [row for row in paths["several"] if row.reader == "c3"]
    assert (read_.writer_dialect, read_.writer, read_.read, read_.losses) == (
        "iggy",
        "several",
        9,
        lineage.losses("iggy", "pipe"),
    )


def test_a_table_that_is_read_by_key_has_the_writers_of_its_topic(paths: Paths) -> None:
    (path,) = paths["table"]
    assert (path.writer_dialect, path.writer, path.reader_dialect, path.read) == ("pipe", "c1", "grid", 1)
    assert path.certain is False


def test_what_failed_or_moved_nothing_is_no_path(paths: Paths) -> None:
    assert paths["nothing"] == []


@pytest.mark.parametrize("writer", dialects.names())
def test_losses_are_those_that_are_declared(writer: str) -> None:
    for reader in dialects.names():
        said, shown = dialects.load(writer).fidelity, dialects.load(reader).fidelity
        assert said is not None and shown is not None
        lost = dict(each.split() for each in lineage.losses(writer, reader) or [])
        for field in FIELDS:
            way = journey(said.writing[field], shown.reading[field]).way
            assert lost.get(field, way) == way and (field in lost) is (way in ("partly", "changed", "dropped"))


def test_a_path_has_the_losses_of_its_dialects(paths: Paths) -> None:
    found = {row.reader_dialect: row.losses for row in paths["losses"]}
    assert found == {"pipe": lineage.losses("native", "pipe"), "strange": None}
    assert "headers dropped" in found["pipe"]
