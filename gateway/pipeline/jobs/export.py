"""Topics to Parquet files that `load` can bring back: all that a record says, and how each topic was set up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click
import msgspec

from gateway.pipeline.asking import Connection
from gateway.pipeline.jobs import job, place_options
from gateway.pipeline.jobs.topics import found
from gateway.pipeline.notes import EXPORTED, beside, write_note
from gateway.pipeline.places import place_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def transform(frame: DataFrame) -> DataFrame:
    """Records in all their columns and the order in which they were read: as `load` and people want them."""
    from gateway.pipeline.schema import SCHEMA

    return frame.select(*SCHEMA.names)


@place_options
@click.argument("topic")
@click.argument("path", metavar="DIRECTORY")
@click.option("--overwrite", is_flag=True, help="Replace what is there.")
@click.option("--skip-lost", is_flag=True, help="Go on where records are gone already, and say how many.")
def run(
    spark: SparkSession,
    *,
    place: Mapping[str, str],
    topic: str,
    path: str,
    overwrite: bool = False,
    skip_lost: bool = False,
) -> str:
    """What there is now of a topic, `PREFIX*` or `*`.  The note that makes it whole is written last."""
    where = place_of(place)
    with Connection(where) as connection:
        topics = found(connection, topic)
    reading = {"topic": topic, "failOnDataLoss": str(not skip_lost).lower()}
    frame = spark.read.format("gateway").options(**place, **reading).load()
    transform(frame).write.mode("overwrite" if overwrite else "error").parquet(path)
    note = {"namespace": where.namespace, "topics": msgspec.to_builtins(topics)}
    write_note(spark, beside(path, EXPORTED), note)
    return f"{spark.read.parquet(path).count():,} records of {len(topics):,} topics in {path}"


main = job(run)
