"""Captured commands over time: throughput, latency and lag in steps of equal length.

Every transform here takes the commands and a `Steps`, and gives rows with a column `step`, counted from 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.pipeline.jobs.lineage import READ, WRITE
from gateway.pipeline.traffic import failed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MOST = 120
"""Steps of a trend, about: more cannot be told apart in a plot."""

WIDTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200)
"""Seconds of a step, as people count them."""

ACCURACY = 10_000
SECOND = 1_000_000


class Steps(msgspec.Struct, frozen=True):
    """first: us since the epoch.  width: us.  count: how many there are."""

    first: int
    width: int
    count: int


def steps_between(first: int, last: int) -> Steps:
    """Steps over a time, both in us since the epoch; they begin at a multiple of their width."""
    seconds = (last - first) / SECOND
    fitting = (width for width in WIDTHS if seconds / width <= MOST)
    width = int(next(fitting, 86400 * max(1, -(-int(seconds) // (86400 * MOST)))) * SECOND)
    begin = first - first % width
    return Steps(begin, width, (last - begin) // width + 1)


def span(frame: DataFrame) -> Steps | None:
    """The steps that the commands of a capture fill; None = there are none."""
    from pyspark.sql import functions as F

    times = F.unix_micros("time")
    row = frame.where("missing IS NULL").agg(F.min(times).alias("first"), F.max(times).alias("last")).collect()[0]
    return None if row.first is None else steps_between(row.first, row.last)


def throughput(frame: DataFrame, steps: Steps) -> DataFrame:
    """For each step and dialect: commands `asked` and `failed`, records `written` and `read`, bytes."""
    from pyspark.sql import functions as F

    written, read = (_records(kinds) for kinds in (WRITE, READ))
    return (
        _stepped(frame, steps)
        .groupBy("step", "dialect")
        .agg(
            F.count("bytes_in").alias("asked"),
            F.sum(failed().cast("long")).alias("failed"),
            F.sum(written).alias("written"),
            F.sum(read).alias("read"),
            *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("bytes_in", "bytes_out")),
        )
    )


def _records(kinds: tuple[str, ...]) -> Column:
    from pyspark.sql import functions as F

    return F.when(F.col("kind").isin(*kinds) & ~failed(), F.col("records")).otherwise(0)


def latency(frame: DataFrame, steps: Steps) -> DataFrame:
    """For each step in which something was answered: `p50_us`, `p95_us`, `p99_us`."""
    return _stepped(frame, steps).where("latency_us IS NOT NULL").groupBy("step").agg(*percentiles())


def latency_by_kind(frame: DataFrame) -> DataFrame:
    """The same for each dialect and kind, those that were asked most first."""
    from pyspark.sql import functions as F

    rows = frame.where("missing IS NULL AND latency_us IS NOT NULL AND kind <> ''")
    found = rows.groupBy("dialect", "kind").agg(F.count("*").alias("answered"), *percentiles())
    return found.orderBy(F.desc("answered"), "dialect", "kind")


def percentiles() -> list[Column]:
    """Of `latency_us`."""
    from pyspark.sql import functions as F

    named = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}
    return [F.percentile_approx("latency_us", at, ACCURACY).alias(name) for name, at in named.items()]


def lag(frame: DataFrame, steps: Steps) -> DataFrame:
    """For each step, topic and reader: `lag`, the records that it had not committed when the step was over.

    From the first step on in which it is known what the reader has committed.  How far a partition goes is known as far
    as answers tell: too little of that, and a lag is too short, never too long.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    place = ["namespace", "topic", "partition"]
    rows = _stepped(frame, steps).where(~failed()).drop("partition")
    ends = _each(rows, "ends").groupBy(*place, "step").agg(F.max("offset").alias("end"))
    commits = _each(rows.where("reader IS NOT NULL"), "committed", "reader")
    commits = commits.groupBy(*place, "reader", "step").agg(F.max_by("offset", "time").alias("committed"))
    begun = commits.groupBy(*place, "reader").agg(F.min("step").alias("begun"))
    grid = begun.select(
        *place, "reader", F.explode(F.sequence(F.lit(0), F.lit(steps.count - 1))).alias("step"), "begun"
    )
    grid = grid.join(ends, [*place, "step"], "left").join(commits, [*place, "reader", "step"], "left")
    so_far = Window.partitionBy(*place, "reader").orderBy("step").rowsBetween(Window.unboundedPreceding, 0)
    committed = F.last("committed", ignorenulls=True).over(so_far)
    behind = F.greatest(F.coalesce(F.max("end").over(so_far), committed) - committed, F.lit(0))
    known = grid.withColumn("behind", behind).where("step >= begun")
    return known.groupBy("step", "namespace", "topic", "reader").agg(F.sum("behind").alias("lag"))


def _each(rows: DataFrame, column: str, *more: str) -> DataFrame:
    """A row for each entry of a map of offsets by partition."""
    from pyspark.sql import functions as F

    return rows.select("namespace", "topic", *more, "step", "time", F.explode(column).alias("partition", "offset"))


def _stepped(frame: DataFrame, steps: Steps) -> DataFrame:
    from pyspark.sql import functions as F

    step = F.floor((F.unix_micros("time") - steps.first) / steps.width).cast("int")
    return frame.where("missing IS NULL").withColumn("step", step)
