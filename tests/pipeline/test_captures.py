"""The format `gateway-capture`: frames and commands of capture files, and what is said of files that are not whole."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import wire
from gateway.capture.rows import FIELDS, ListenerSaid, Row, captures
from gateway.pipeline import capture_columns
from gateway.pipeline.capture_columns import FRAMES
from gateway.pipeline.capture_files import Missing, rows_of
from gateway.pipeline.captures import CommandsReader, FramesReader, Options, found, options_of, processes
from gateway.pipeline.running import sentence
from pipeline.captured import STARTED, read, talk, write, wrote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_frames_are_the_rows_of_the_files_in_their_order(tmp_path: Path, spark: SparkSession) -> None:
    path = write(tmp_path, [talk(1), talk(2, lines=20)])
    frame = read(spark, tmp_path)
    assert frame.columns == list(FRAMES)
    got = frame.orderBy("number").collect()
    (file,) = captures([path])
    wanted = list(file)
    assert len(got) == len(wanted) == 50
    for number, (one, row) in enumerate(zip(got, wanted, strict=True)):
        assert (one.file, one.number, one.node) == (str(path), number, "here")
        assert round(one.time.timestamp() * 1e6) == row.time and round(one.started.timestamp() * 1e6) == STARTED
        assert [one[name] for name in FIELDS[1:]] == [getattr(row, name) for name in FIELDS[1:]]


def test_files_are_named_by_directory_by_pattern_and_one_by_one(tmp_path: Path, spark: SparkSession) -> None:
    one, other = write(tmp_path, [talk(1)]), write(tmp_path, [talk(2)], opened=5)
    assert read(spark, tmp_path).select("file").distinct().count() == 2
    assert read(spark, f"{tmp_path}/*000001*").select("file").distinct().collect()[0].file == str(one)
    assert read(spark, one, other, tmp_path).count() == 16, "each once"
    assert read(spark, f"file://{one}").count() == 8


def test_requests_come_with_their_answers(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path, [talk(3)])
    rows = read(spark, tmp_path, as_="commands").orderBy("time").collect()
    assert [(row.kind, row.outcome, row.latency_us, row.peer) for row in rows] == [
        ("Publish", "Published", 100 + at, "10.0.0.3:5000") for at in range(3)
    ]
    first = rows[0]
    assert (first.namespace, first.topic, first.partition, first.records) == ("default", "orders", 0, 1)
    assert [tuple(run) for row in rows for run in row.runs] == [(0, 0, 1), (0, 1, 1), (0, 2, 1)]
    assert first.ends == {0: 1} and (first.bytes_in, first.bytes_out) == (25, 34)
    assert first.frame == wire.request("pipe", wrote(0), 0) and first.verdict == "PASS" and '"key":"k"' in first.details
    assert "v0" not in first.details, "what records hold is not told"
    assert rows == read(spark, tmp_path, decoded="true").orderBy("time").collect()


def test_a_connection_goes_on_from_file_to_file(tmp_path: Path, spark: SparkSession) -> None:
    """A request in one, its answer in the next; and many connections, shared out over the files."""
    rows = [row for connection in range(1, 20) for row in talk(connection)]
    for at in range(0, len(rows), 37):
        write(tmp_path, [rows[at : at + 37]], opened=at)
    assert len(list(tmp_path.iterdir())) == 5
    got = read(spark, tmp_path, as_="commands").collect()
    assert sorted((row.connection, row.ticket, row.outcome) for row in got) == [
        (connection, ticket, "Published") for connection in range(1, 20) for ticket in range(3)
    ]
    assert {row.peer for row in got} == {f"10.0.0.{connection}:5000" for connection in range(1, 20)}


def test_connections_of_two_processes_are_not_confused(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path, [talk(1, close=False)[:-1]])
    write(tmp_path, [talk(1)], started=STARTED + 10**6, opened=10)
    got = read(spark, tmp_path, as_="commands").collect()
    assert len(processes(found([str(tmp_path)]))) == 2
    assert sorted(row.outcome or "" for row in got) == ["", *["Published"] * 5], "the last was not answered"


def test_only_columns_that_are_asked_for_are_made(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path, [talk(1)], listeners={"pipe": ListenerSaid("a dialect that is not here")})
    chosen = spark.read.schema("kind string, latency_us long").format("gateway-capture").option("as", "commands")
    assert [tuple(row) for row in chosen.load(str(tmp_path)).collect()] == [("Publish", 100 + at) for at in range(3)]
    everything = read(spark, tmp_path, as_="commands").collect()
    assert [(row.kind, row.details, row.verdict) for row in everything] == [("Publish", None, None)] * 3
    with pytest.raises(Exception, match="a capture has no column 'color'; it has file, number"):
        spark.read.schema("color string").format("gateway-capture").load(str(tmp_path)).collect()
    with pytest.raises(Exception, match="the column time is timestamp, not bigint"):
        spark.read.schema("time long").format("gateway-capture").load(str(tmp_path)).collect()


# -- files that are not whole


def test_what_is_before_a_torn_end_is_given_and_the_rest_is_said(tmp_path: Path, spark: SparkSession) -> None:
    path = write(tmp_path, [talk(1), talk(2), [row for at in range(3, 40) for row in talk(at)]])
    path.write_bytes(path.read_bytes()[:-50])
    rows = read(spark, tmp_path).orderBy("number").collect()
    assert [row.direction for row in rows].count("in") == 6 and rows[-1].direction == "torn"
    assert f"bytes of {path}" in rows[-1].note and len(rows) == 17
    commands = read(spark, tmp_path, as_="commands").collect()
    assert [row.missing for row in commands].count("torn") == 1 and len(commands) == 7
    with pytest.warns(UserWarning, match=r"captures: 1 torn; \d+ bytes were not read"):
        reader = FramesReader(Options((str(tmp_path),)), FRAMES)
        assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)) == 17


@pytest.mark.parametrize("left", [0, 3, 20])
def test_a_file_whose_process_died_before_its_first_row_is_torn(tmp_path: Path, spark: SparkSession, left: int) -> None:
    path = write(tmp_path, [talk(1)])
    path.write_bytes(path.read_bytes()[:left])
    assert [row.direction for row in read(spark, tmp_path).collect()] == ["torn"]


def damaged(tmp_path: Path) -> Path:
    """Four pieces, the third of which has a bit turned; two good files beside it."""
    path = write(tmp_path, [talk(at, lines=200) for at in range(1, 5)])
    octets = bytearray(path.read_bytes())
    octets[len(octets) * 5 // 8] ^= 0x10
    path.write_bytes(octets)
    write(tmp_path, [talk(10)], opened=1)
    write(tmp_path, [talk(11)], opened=2)
    return path


def test_damage_in_the_middle_is_a_sentence_and_can_be_skipped_and_counted(tmp_path: Path, spark: SparkSession) -> None:
    path = damaged(tmp_path)
    for form in ("frames", "commands"):
        with pytest.raises(Exception, match="mode=skip passes over") as failure:
            read(spark, tmp_path, as_=form).collect()
        assert sentence(failure.value).startswith("cannot read ") and f"bytes of {path}" in sentence(failure.value)
    rows = read(spark, tmp_path, mode="skip").collect()
    lost = [row for row in rows if row.direction == "damaged"]
    assert [row.file for row in lost] == [str(path)] and f"bytes of {path}" in lost[0].note
    assert {row.connection for row in rows if row.direction == "in"} == {1, 2, 10, 11}
    commands = read(spark, tmp_path, as_="commands", mode="skip")
    assert commands.where("missing = 'damaged'").count() == 1, "once, though all connections are in several parts"
    assert commands.where("missing IS NULL").count() == 406
    with pytest.warns(UserWarning, match=r"captures: 1 damaged; \d+ bytes were not read"):
        reader = CommandsReader(options_of({"path": str(tmp_path), "mode": "skip"}), {})
        for part in reader.partitions():
            list(reader.read(part))


def test_no_damage_goes_unnoticed(tmp_path: Path) -> None:
    """Every tenth byte of a file, changed alone: something is missing then, and that is said, or nothing is."""
    path = write(tmp_path, [talk(at, lines=5) for at in range(1, 4)])
    whole, dice = path.read_bytes(), random.Random(1)
    rows = [row for _, row in rows_of(path, skip=True, missing=[])]
    noticed = 0
    for at in range(0, len(whole), 10):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << dice.randrange(8))]) + whole[at + 1 :])
        missing: list[Missing] = []
        got = [row for _, row in rows_of(path, skip=True, missing=missing)]
        assert got == rows if not missing else got[-1].direction == missing[0].why, f"byte {at}"
        noticed += bool(missing)
    assert noticed > len(whole) / 10 * 0.9


@pytest.mark.parametrize("octets", [b"", b"no capture at all", bytes(5000)])
def test_a_file_that_is_none_is_a_sentence(tmp_path: Path, spark: SparkSession, octets: bytes) -> None:
    (tmp_path / "note.txt").write_bytes(octets)
    with pytest.raises(Exception, match="is no capture") as failure:
        read(spark, tmp_path / "note.txt").collect()
    assert sentence(failure.value).endswith("the option mode=skip passes over what is damaged")
    assert [row.direction for row in read(spark, tmp_path / "note.txt", mode="skip").collect()] == ["damaged"]


@pytest.mark.parametrize(
    ("place", "options", "said"),
    [
        ("nowhere", {}, "there is no file /.*/nowhere"),
        (".", {}, "has no files capture-"),
        ("hdfs://there/captured", {}, "captures are read from paths that every worker has, not from hdfs:"),
        (".", {"as": "rows"}, "as is frames, commands or cases, not 'rows'"),
        (".", {"mode": "ignore"}, "mode is fail or skip, not 'ignore'"),
        (".", {"as": "frames", "decoded": "true"}, "decoded is commands, and as=frames is not"),
    ],
)
def test_what_cannot_be_is_said(
    tmp_path: Path, spark: SparkSession, place: str, options: dict[str, str], said: str
) -> None:
    path = place if "://" in place else str(tmp_path / place)
    with pytest.raises(Exception, match=said):
        spark.read.format("gateway-capture").options(**options).load(path).collect()


def test_a_path_is_needed(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="say which files"):
        spark.read.format("gateway-capture").load().collect()


def test_a_long_frame_does_not_wait_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is given to Spark at once is bounded by bytes, too; here by few, so that nothing else is put to the test."""
    monkeypatch.setattr(capture_columns, "HEAVY", 8 << 10)
    rows = [Row(STARTED, 1, "pipe", "pipe", "in", bytes(3 << 10), at) for at in range(4)]
    reader = FramesReader(Options((str(write(tmp_path, [rows])),)), FRAMES)
    (part,) = reader.partitions()
    assert [batch.num_rows for batch in reader.read(part)] == [3, 1]
