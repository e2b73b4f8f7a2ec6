"""The job `report`: trends of captured commands, and their pictures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.capture.rows import Row
from gateway.pipeline import trends
from gateway.pipeline.jobs import report
from gateway.pipeline.page import Report, Table, page
from gateway.pipeline.plots import (
    DARK,
    LIGHT,
    NARROW,
    WIDE,
    Commands,
    Lag,
    Latency,
    Look,
    Plot,
    Shape,
    Throughput,
    picture,
)
from gateway.pipeline.trends import SECOND, Steps, steps_between
from pipeline.captured import STARTED, after, commands, run, talk, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = Steps(STARTED, SECOND, 5)
HOSTILE = "<script>alert(1)</script>$x^{$_\x1b[31m"


@pytest.mark.parametrize(
    ("seconds", "width"),
    [(0, 0.01), (1, 0.01), (1.3, 0.02), (60, 0.5), (3600, 30), (86400, 900), (400 * 86400, 4 * 86400)],
)
def test_steps_are_of_a_length_that_people_count(seconds: float, width: float) -> None:
    last = STARTED + 12_345 + int(seconds * SECOND)
    steps = steps_between(STARTED + 12_345, last)
    assert steps.width == width * SECOND and steps.first % steps.width == 0 and steps.count <= trends.MOST + 1
    assert steps.first <= STARTED + 12_345 and steps.first + (steps.count - 1) * steps.width <= last
    assert last < steps.first + steps.count * steps.width


def test_throughput_is_what_was_asked_and_moved_in_each_step(spark: SparkSession) -> None:
    rows = commands(
        spark,
        {"kind": "Publish", "time": after(0.1), **run(0, 5)},
        {"kind": "Publish", "time": after(0.9), **run(0, 5), "outcome": "SEQUENCE_GAP"},
        {
            "kind": "Follow",
            "time": after(3.2),
            **run(0, 7),
            "pushed": True,
            "bytes_in": None,
            "bytes_out": 100,
            "outcome": None,
        },
        {"kind": "Fetch", "time": after(3.3), "dialect": "iggy", **run(0, 2)},
        {"missing": "gap", "time": after(4)},
    )
    found = {(row.step, row.dialect): row for row in trends.throughput(rows, STEPS).collect()}
    assert {key: (row.asked, row.failed, row.written, row.read) for key, row in found.items()} == {
        (0, "pipe"): (2, 1, 5, 0),
        (3, "pipe"): (0, 0, 0, 7),
        (3, "iggy"): (1, 0, 0, 2),
    }
    assert (found[3, "pipe"].bytes_in, found[3, "pipe"].bytes_out) == (0, 100)
    drawn = report.throughput(found.values(), STEPS)
    assert drawn.commands == {"pipe": [2, 0, 0, 0, 0], "iggy": [0, 0, 0, 1, 0]}
    assert (drawn.written, drawn.read) == ([5, 0, 0, 0, 0], [0, 0, 0, 9, 0])


def test_lag_is_what_was_written_and_not_committed_step_by_step(spark: SparkSession) -> None:
    """Two partitions, two readers; one begins late, one commits nothing of a partition."""
    group = {"kind": "CommitOffsets", "reader": "group:g"}
    rows = commands(
        spark,
        {"kind": "Publish", "time": after(0.1), "ends": {0: 10}},
        {"kind": "Publish", "time": after(1.1), "ends": {1: 4}},
        {**group, "time": after(1.2), "committed": {0: 6}},
        {**group, "time": after(1.3), "committed": {0: 7}},
        {**group, "time": after(2.2), "committed": {1: 9}},
        {**group, "time": after(2.3), "committed": {0: 99}, "outcome": "OFFSET_REGRESSION"},
        {"kind": "Publish", "time": after(3.1), "ends": {0: 20}},
        {**group, "time": after(4.1), "committed": {0: 20}},
        {"kind": "FetchOffsets", "reader": "consumer:c", "time": after(3.5), "committed": {0: 1}},
    )
    found = trends.lag(rows, STEPS).collect()
    assert {(row.reader, row.step): row.lag for row in found} == {
        **{("group:g", 1): 3, ("group:g", 2): 3, ("group:g", 3): 13, ("group:g", 4): 0},
        **{("consumer:c", 3): 19, ("consumer:c", 4): 19},
    }
    drawn = report.lag(found, STEPS)
    assert drawn.readers == {"orders  consumer:c": [None, None, None, 19, 19], "orders  g": [None, 3, 3, 13, 0]}


def test_latency_has_a_value_only_where_something_was_answered(spark: SparkSession) -> None:
    rows = commands(
        spark,
        *({"time": after(0.5), "latency_us": at} for at in range(1, 101)),
        {"time": after(2.5), "latency_us": 0, "kind": "Fetch"},
        {"time": after(3.5), "latency_us": None, "outcome": None},
    )
    drawn = report.latency(trends.latency(rows, STEPS).collect(), STEPS)
    assert drawn.trend == {
        "p50": [50, None, 1, None, None],
        "p95": [95, None, 1, None, None],
        "p99": [99, None, 1, None, None],
    }
    kinds = report.by_command(trends.latency_by_kind(rows).collect())
    assert kinds.kinds == [("pipe Ping", 50, 95, 99), ("pipe Fetch", 1, 1, 1)]


# -- pictures

PLOTS: dict[str, Plot] = {
    "Throughput": Throughput(STEPS, {"pipe": [1, 2, 3, 4, 5], HOSTILE: [0] * 5}, [1.5] * 5, [0] * 5),
    "Latency": Latency(STEPS, {"p50": [1, None, 5, 9, 1], "p95": [None] * 5}),
    "Commands": Commands([("pipe Fetch", 1, 10, 1e6), (HOSTILE, 5, 5, 5)]),
    "Lag": Lag(STEPS, {"orders  日本": [None, 1, 2, 3, 4], HOSTILE * 9: [None] * 5}),
    "Nothing": Lag(STEPS, {}),
    "Quiet": Throughput(Steps(STARTED, SECOND, 1), {}, [0.0], [0.0]),
}


@pytest.mark.parametrize(("look", "shape"), [(LIGHT, WIDE), (DARK, NARROW)])
@pytest.mark.parametrize("name", PLOTS)
def test_the_same_picture_is_drawn_of_the_same(name: str, look: Look, shape: Shape) -> None:
    svg = picture(PLOTS[name], look, shape, "svg")
    assert svg == picture(PLOTS[name], look, shape, "svg") and look.card.encode() in svg
    if shape is WIDE:
        assert picture(PLOTS[name], look, shape, "png").startswith(b"\x89PNG")


def test_the_page_needs_nothing_else_and_has_no_words_of_clients_in_its_code() -> None:
    made = page(Report(HOSTILE, {"commands": HOSTILE}, PLOTS, [Table("by", ("a", "b"), [(HOSTILE, "1")], 1)], HOSTILE))
    assert "<script" not in made and "\x1b" not in made
    assert made.count("&lt;script&gt;") == 4 and 'class="lost"' in made
    sources = re.findall(r'(?:src|srcset|href)="([^"]{0,30})', made)
    assert len(sources) == 4 * len(PLOTS) and {source[:26] for source in sources} == {"data:image/svg+xml;base64,"}
    assert "http" not in re.sub(r'"data:[^"]*"', "", made) and "@import" not in made


def test_without_traffic_there_is_nothing_to_draw(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path, [[Row(STARTED, 1, "pipe", "pipe", "open", note="10.0.0.1:1")]])
    with pytest.raises(ValueError, match="there is no traffic in this capture"):
        report.run(spark, places=(str(tmp_path),), to=str(tmp_path / "report"))
    assert not (tmp_path / "report").exists()


def test_the_files_are_written(tmp_path: Path, spark: SparkSession) -> None:
    path = write(tmp_path / "captured", [talk(1, 30), talk(2, 30)])
    path.write_bytes(path.read_bytes() + b"\x28")
    said = report.run(spark, places=(str(path),), to=str(tmp_path / "report"))
    names = [f"{name}{ending}.png" for name in ("throughput", "latency", "commands", "lag") for ending in ("", "-dark")]
    assert {each.name for each in (tmp_path / "report").iterdir()} == {"report.html", *names}
    assert (
        said
        == f"missing in the capture: 1 torn (1 bytes of {path})\n{tmp_path}/report/report.html and 8 pictures beside it"
    )
    made = (tmp_path / "report" / "report.html").read_text()
    assert "<b>60</b>" in made and "10.0.0.2" in made and "1 torn" in made
