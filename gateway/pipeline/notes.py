"""Records that jobs keep in Parquet files, and a few words in JSON beside them, wherever Spark can write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXPORTED = "_export"
"""The note that `export` leaves when it is done: what it found."""

INGESTED = "_ingest"
"""The note that `ingest` leaves when it begins: whose lake it is."""


def records_in(spark: SparkSession, path: str) -> DataFrame:
    """The records that `ingest` or `export` has written, in the columns of a topic.

    Without a schema Spark would take the topic `007` for a number.  Raises ValueError where neither has.
    """
    from gateway.pipeline.schema import SCHEMA

    if not any(exists(spark, beside(path, note)) for note in (EXPORTED, INGESTED)):
        raise ValueError(f"{path} was not written by ingest, nor by an export that has ended")
    return spark.read.schema(SCHEMA).parquet(path).select(*SCHEMA.names)  # a lake has `day` besides


def write_note(spark: SparkSession, path: str, value: object) -> None:
    """Write it, in place of what is there.  A name that begins with `_` keeps it out of the records beside it."""
    spark.sql("SELECT :text AS value", args={"text": json.dumps(value)}).write.mode("overwrite").text(path)


def read_note(spark: SparkSession, path: str) -> dict[str, Any] | None:
    """What was written there, None = nothing, or not to the end."""
    lines = [row.value for row in spark.read.text(path).collect()] if exists(spark, path) else []
    return cast(dict[str, Any], json.loads(lines[0])) if lines else None


def exists(spark: SparkSession, path: str) -> bool:
    """Whether anything is there."""
    from pyspark.errors import AnalysisException

    try:
        spark.read.text(path).schema  # noqa: B018  # which looks
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return False
        raise
    return True


def beside(directory: str, name: str) -> str:
    """The path of what is in a directory, which may be a URI."""
    return f"{directory.rstrip('/')}/{name}"
