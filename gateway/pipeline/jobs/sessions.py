"""Captured requests with their replies: how long each kind took whom, how often it failed, and who waited longest.

A request counts once, whatever became of it, as in `gateway_commands_total`; but what a connection answers by itself,
such as a greeting, is counted here alone.  Frames that are no command have the kind "".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gateway.pipeline.jobs import job
from gateway.pipeline.traffic import CONNECTION, asked, capture_options, commands, failed, missing, save, table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS = (
    *CONNECTION,
    *("time", "dialect", "listener", "peer", "principal", "kind", "outcome", "latency_us", "bytes_in", "bytes_out"),
)
"""Of commands, that are needed: nothing is decoded for them."""

PERCENTILES = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}
ACCURACY = 10_000
"""A percentile is off by no more than one part in so many of the rows."""


def transform(frame: DataFrame) -> DataFrame:
    """Commands -> a row for each dialect, kind and client: how many were asked, answered and failed, and latencies."""
    from pyspark.sql import functions as F

    grouped = asked(frame).groupBy("dialect", "kind", "client").agg(*_counts(), *_latencies(), *_bytes())
    return grouped.orderBy(F.desc("asked"), "dialect", "kind", "client")


def counts(frame: DataFrame) -> DataFrame:
    """Commands -> how many of each kind a listener was asked, and how they ended: `outcome`, null = not answered.

    What `gateway_commands_total`, `gateway_faults_total` and `gateway_refused_frames_total` count.
    """
    from pyspark.sql import functions as F

    rows = frame.where("missing IS NULL AND bytes_in IS NOT NULL")
    return rows.groupBy("listener", "dialect", "kind", "outcome").agg(F.count("*").alias("asked"))


def slowest(frame: DataFrame, most: int = 20) -> DataFrame:
    """Commands -> the connections whose requests took longest: by the 95th percentile of each, the worst first."""
    from pyspark.sql import functions as F

    opened = F.min("time").alias("first")
    lasted = (F.unix_micros(F.max("time")) - F.unix_micros(F.min("time"))) / 1e6
    slow = F.max_by("kind", "latency_us").alias("slowest_kind")
    waited = (F.sum("latency_us") / 1e6).alias("waited_seconds")
    grouped = asked(frame).groupBy(*CONNECTION, "dialect", "listener", "client")
    found = grouped.agg(opened, lasted.alias("seconds"), *_counts(), *_latencies(), waited, slow)
    return found.where("max_us IS NOT NULL").orderBy(F.desc("p95_us"), F.desc("max_us"), *CONNECTION).limit(most)


def _counts() -> list[Column]:
    from pyspark.sql import functions as F

    lost = F.sum(failed().cast("long"))
    return [
        F.count("bytes_in").alias("asked"),
        F.count("outcome").alias("answered"),
        lost.alias("failed"),
        F.try_divide(lost, F.count("outcome")).alias("error_rate"),
    ]


def _latencies() -> list[Column]:
    from pyspark.sql import functions as F

    parts = [F.percentile_approx("latency_us", at, ACCURACY).alias(name) for name, at in PERCENTILES.items()]
    return [*parts, F.max("latency_us").alias("max_us")]


def _bytes() -> list[Column]:
    from pyspark.sql import functions as F

    return [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("bytes_in", "bytes_out")]


@capture_options
@click.option("--slowest", "most", default=10, show_default=True, help="Connections in the list of slow ones.")
@click.option(
    "--to", default="", metavar="DIRECTORY", help="Write the tables as Parquet, each into a new folder there."
)
def run(spark: SparkSession, *, places: tuple[str, ...], skip: bool = False, most: int = 10, to: str = "") -> str:
    """Who asked what, how often, and how long it took."""
    frame = commands(spark, places, COLUMNS, skip=skip).persist()
    try:
        by_kind, slow = transform(frame), slowest(frame, most)
        save(by_kind, to, "latencies")
        save(slow, to, "slowest")
        shown = slow.drop("node", "started", "listener")
        return f"{table(by_kind, 50)}\nslowest connections\n{table(shown, most)}{missing(frame)}".rstrip()
    finally:
        frame.unpersist()


main = job(run)
