"""What jobs over captured traffic have in common: its commands as a DataFrame, who asked, and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import click

from gateway.core.faults import Fault

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CONNECTION = ("node", "started", "connection")
"""Columns that name a connection."""

SHOWN = 40
"""Letters of a cell that are printed."""


def capture_options(run: Callable[..., str]) -> Callable[..., str]:
    """Arguments and options that say which capture; the function gets `places` and `skip`."""
    run = click.option("--skip", is_flag=True, help="Pass over what is damaged, and say how much.")(run)
    return click.argument("places", nargs=-1, required=True, metavar="FILE|DIRECTORY...")(run)


def commands(spark: SparkSession, places: Sequence[str], columns: Iterable[str], *, skip: bool = False) -> DataFrame:
    """Those columns of captured commands.  What is not asked for is not decoded."""
    from gateway.pipeline.capture_columns import COMMANDS, schema_of

    schema = schema_of({name: COMMANDS[name] for name in dict.fromkeys((*columns, "missing", "note"))})
    reading = spark.read.format("gateway-capture").schema(schema)
    return reading.options(**{"as": "commands", "mode": "skip" if skip else "fail"}).load(list(places))


def heard_cases(spark: SparkSession, places: Sequence[str], *, skip: bool = False) -> DataFrame:
    """What came of the cases of clients on each captured connection."""
    reading = spark.read.format("gateway-capture")
    return reading.options(**{"as": "cases", "mode": "skip" if skip else "fail"}).load(list(places))


def asked(frame: DataFrame) -> DataFrame:
    """The commands alone, with who asked: `client` is USER@HOST, or HOST of who has not logged in, for a whole
    connection as it was known at last; `?` is the host of one that was there before the capture.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    whole = Window.partitionBy(*CONNECTION)
    host = F.coalesce(F.regexp_replace(F.max("peer").over(whole), ":[0-9]+$", ""), F.lit("?"))
    who = F.max("principal").over(whole)
    client = F.when(who == "", host).otherwise(F.concat(who, F.lit("@"), host))
    return frame.where("missing IS NULL").withColumn("client", client)


def failed(outcome: str = "outcome") -> Column:
    """Whether an answer says a fault."""
    from pyspark.sql import functions as F

    return F.coalesce(F.col(outcome).isin([fault.name for fault in Fault]), F.lit(False))


def missing(frame: DataFrame) -> str:
    """A line on what is missing in a capture, "" = nothing."""
    from pyspark.sql import functions as F

    lost = frame.where("missing IS NOT NULL").groupBy("missing")
    found = lost.agg(F.count("*").alias("times"), F.first("note").alias("note")).orderBy("missing").collect()
    said = [f"{row.times} {row.missing} ({row.note}{', ...' if row.times > 1 else ''})" for row in found]
    return f"missing in the capture: {'; '.join(said)}\n" if said else ""


def save(frame: DataFrame, directory: str, name: str) -> None:
    """As Parquet, in a new folder of that directory; nowhere if that is "".  Spark complains if it is there."""
    if directory:
        frame.write.parquet(f"{directory.rstrip('/')}/{name}")


# -- for people


def table(frame: DataFrame, most: int = 20) -> str:
    """The first rows in columns, numbers to the right."""
    rows = [[_cell(value) for value in row] for row in frame.limit(most).collect()]
    kinds = [kind for _, kind in frame.dtypes]
    heads = [name.replace("_", " ") for name in frame.columns]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    pads = [str.ljust if kind == "string" or "<" in kind or kind == "timestamp" else str.rjust for kind in kinds]
    cells = [[pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)] for row in (heads, *rows)]
    return "".join(f"{'  '.join(row).rstrip()}\n" for row in cells)


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case float():
            return f"{value:,.4g}"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case list():
            return _cut("; ".join(map(str, value)))
    return _cut(str(value))


def _cut(text: str) -> str:
    plain = "".join(letter if letter.isprintable() else "?" for letter in text)
    return plain if len(plain) <= SHOWN else f"{plain[: SHOWN - 3]}..."
