"""Topics to a lake: Parquet files by namespace, topic and day, with each record once.

That it is once rests on two things: the source reads the same offsets again for a batch that was begun before, and the
lake's own log of batches (`_spark_metadata`) names the files that count.  Both know a batch by its number in the
checkpoint, so a lake has one checkpoint, inside it, and one ingest, which is remembered.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from gateway.pipeline.jobs import job, place_options
from gateway.pipeline.notes import INGESTED, beside, exists, read_note, write_note

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BY = ("namespace", "topic", "day")
"""The folders of a lake."""

_CHECKPOINT = "_checkpoint"
_DAY_US = 86_400_000_000


def transform(frame: DataFrame) -> DataFrame:
    """Records with the day (UTC) of their timestamp, whatever the time zone of the session."""
    from pyspark.sql import functions as F

    days = F.floor(F.unix_micros("timestamp") / _DAY_US).cast("int")
    return frame.withColumn("day", F.date_from_unix_date(days))


@place_options
@click.argument("path", metavar="LAKE")
@click.option("--topic", required=True, help="A topic, `PREFIX*`, or `*`.")
@click.option("--starting-offsets", default="", help="`earliest` (default), `latest`, or JSON; for a new lake alone.")
@click.option("--available-now", is_flag=True, help="End when everything there is now has been taken.")
@click.option("--every", default=10.0, show_default=True, help="Seconds from one batch to the next.")
@click.option("--max-records", default=1_000_000, show_default=True, help="In one batch.")
@click.option("--skip-lost", is_flag=True, help="Go on where records are gone already, and say how many.")
def run(
    spark: SparkSession,
    *,
    place: Mapping[str, str],
    path: str,
    topic: str,
    starting_offsets: str = "",
    available_now: bool = False,
    every: float = 10.0,
    max_records: int = 1_000_000,
    skip_lost: bool = False,
) -> str:
    """Take in topics until interrupted, or until there is no more.  Raises ValueError for another ingest's lake."""
    _claim(spark, path, place.get("namespace", "default"), topic)
    reading = {"topic": topic, "maxRecordsPerTrigger": str(max_records), "failOnDataLoss": str(not skip_lost).lower()}
    reading |= {"startingOffsets": starting_offsets} if starting_offsets else {}
    frame = spark.readStream.format("gateway").options(**place, **reading).load()
    writing = transform(frame).writeStream.format("parquet").partitionBy(*BY).option("path", path)
    writing = writing.option("checkpointLocation", beside(path, _CHECKPOINT)).queryName("ingest")
    trigger = (
        writing.trigger(availableNow=True) if available_now else writing.trigger(processingTime=f"{every} seconds")
    )
    return f"{_follow(trigger.start()):,} records into {path}"


def _claim(spark: SparkSession, path: str, namespace: str, topic: str) -> None:
    """Have the lake be of this ingest, and whole."""
    mine = {"namespace": namespace, "topic": topic}
    claimed = read_note(spark, beside(path, INGESTED))
    if claimed is None:
        if exists(spark, beside(path, "_spark_metadata")):
            raise ValueError(f"{path} was written by another stream; take a new directory")
        write_note(spark, beside(path, INGESTED), mine)
    elif claimed != mine:
        raise ValueError(
            f"{path} is the lake of {claimed['topic']!r} in the namespace {claimed['namespace']!r}:"
            " take another directory for other topics"
        )
    elif exists(spark, beside(path, "_spark_metadata")) and not exists(spark, beside(path, _CHECKPOINT)):
        raise ValueError(f"{path} has lost its checkpoint, without which nothing can be added; take a new directory")


def _follow(query: StreamingQuery) -> int:
    """Until it ends, or is interrupted.  Returns how many records it read."""
    rows: dict[int, int] = {}
    with _interrupted() as asked:
        while not query.awaitTermination(1) and not asked.is_set():
            _count(query, rows)
        if asked.is_set():
            query.stop()
    _count(query, rows)
    return sum(rows.values())


@contextlib.contextmanager
def _interrupted() -> Iterator[threading.Event]:
    """Set by Ctrl-C, so that nothing is torn in the middle of a call; in the main thread alone, which gets it."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.signal(signal.SIGINT, lambda *_: asked.set())
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def _count(query: StreamingQuery, rows: dict[int, int]) -> None:
    """A query remembers its last hundred batches."""
    for progress in query.recentProgress:
        rows[progress.batchId] = max(rows.get(progress.batchId, 0), progress.numInputRows)


main = job(run)
