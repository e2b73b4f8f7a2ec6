"""The latest value of each key of a topic, as a table: what the map of that name shows in the grid dialect."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import click

from gateway.pipeline.jobs import job, place_options
from gateway.pipeline.notes import records_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OF = ("namespace", "topic", "key")
ORDER = ("timestamp", "partition", "offset")
"""Which record of a key is the latest, as core.tables has it."""


def transform(frame: DataFrame, now: int) -> DataFrame:
    """One row for each key that has a value, with its latest record.

    now: us since the epoch; a record that has expired by then hides its key, as a tombstone does.
    """
    from pyspark.sql import functions as F

    rest = [name for name in frame.columns if name not in OF]
    latest = F.max_by(F.struct(*rest), F.struct(*ORDER)).alias("latest")
    found = frame.where(F.col("key").isNotNull()).groupBy(*OF).agg(latest).select(*OF, "latest.*")
    alive = F.col("expiry").isNull() | (F.unix_micros("expiry") > F.lit(now))
    return found.where(F.col("value").isNotNull() & alive)


@place_options
@click.argument("topic")
@click.argument("path", metavar="TABLE")
@click.option("--from", "source", default="", help="What `export` or `ingest` wrote, in place of a gateway.")
@click.option("--overwrite", is_flag=True, help="Replace what is there.")
def run(
    spark: SparkSession,
    *,
    place: Mapping[str, str],
    topic: str,
    path: str,
    source: str = "",
    overwrite: bool = False,
    clock: Callable[[], float] = time.time,
) -> str:
    """Write the table, as the gateway would show it now, to Parquet files."""
    from pyspark.sql import functions as F

    if source:
        frame = records_in(spark, source).where(F.col("topic") == topic)
    else:
        frame = spark.read.format("gateway").options(**place, topic=topic).load()
    table = transform(frame, int(clock() * 1e6))
    table.write.mode("overwrite" if overwrite else "error").parquet(path)
    return f"{spark.read.parquet(path).count():,} keys in {path}"


main = job(run)
