"""Who wrote what others read, and what is lost between the two.

Answers tell at which offsets records were written and read, and where they overlap it is known who read whose.  Some
wires say no offsets: an Iggy server's answer to a send is empty, and tables are read by key.  What was read and is
of nobody whose offsets are known is then put to the one who can have written it, `certain` being false; to `several`
if there are more, and to `?` if nobody did while the capture ran.  A topic named by its number stays `#N`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gateway import dialects
from gateway.dialects.fidelity import FIELDS, journey
from gateway.pipeline.jobs import job
from gateway.pipeline.traffic import CONNECTION, asked, capture_options, commands, failed, missing, save, table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS = (
    *CONNECTION,
    *("dialect", "peer", "principal", "kind", "namespace", "topic", "records", "runs", "outcome"),
)
"""Of commands, that are needed."""

WRITE = ("Publish", "MapPut", "MapAdd", "MapRemove")
READ = ("Fetch", "Follow", "Take", "Peek", "MapGet", "MapScan")

STRETCH = 1024
"""Offsets that are looked at together: two runs are compared only where they share a stretch."""

SEVERAL, UNKNOWN = "several", "?"

TOPIC = ("namespace", "topic")


def transform(frame: DataFrame) -> DataFrame:
    """Commands -> a row for each writer and reader of a topic, who are dialect and client both.

    written: records that the writer wrote to the topic, to whoever.
    read:    of those, how many the reader was given; as often as it was.
    certain: offsets say so.
    losses:  what is declared to be lost between those two dialects, `field way` each; null = one of them is not known.

    A writer whom nobody read has a row without a reader, and `read` is 0.
    """
    from pyspark.sql import functions as F

    rows = asked(frame).where(~failed()).where("records > 0")
    writes = _as(rows.where(F.col("kind").isin(*WRITE)), "writer")
    reads = _as(rows.where(F.col("kind").isin(*READ)), "reader")
    known = _known(_spread(writes, "writer"), _spread(reads, "reader"))
    paths = known.withColumn("certain", F.lit(True)).unionByName(_presumed(writes, reads, known))
    written = writes.groupBy(*TOPIC, "writer_dialect", "writer").agg(F.sum("records").alias("written"))
    found = written.join(paths, [*TOPIC, "writer_dialect", "writer"], "full")
    found = found.join(_losses(frame.sparkSession), ["writer_dialect", "reader_dialect"], "left")
    return found.select(
        *TOPIC,
        *("writer_dialect", "writer", "reader_dialect", "reader"),
        *(F.coalesce(name, F.lit(0)).alias(name) for name in ("written", "read")),
        *("certain", "losses"),
    ).orderBy(*TOPIC, F.desc("written"), F.desc("read"), "writer", "reader")


def _as(rows: DataFrame, role: str) -> DataFrame:
    """Of commands: topic, who, how many records, and which."""
    from pyspark.sql import functions as F

    who = F.col("dialect").alias(f"{role}_dialect"), F.col("client").alias(role)
    return rows.select(*TOPIC, *who, "kind", "records", "runs")


def _spread(rows: DataFrame, role: str) -> DataFrame:
    """Runs of offsets, cut at stretches: `stretch`, and from where to where in it, the end not included."""
    from pyspark.sql import functions as F

    runs = rows.select(*TOPIC, f"{role}_dialect", role, F.explode("runs").alias("run"))
    first, end = F.col("run.first"), F.col("run.first") + F.col("run.records")
    stretches = F.explode(F.sequence(F.floor(first / STRETCH), F.floor((end - 1) / STRETCH))).alias("stretch")
    cut = runs.select(*TOPIC, f"{role}_dialect", role, "run", stretches)
    return cut.select(
        *TOPIC,
        *(f"{role}_dialect", role, "stretch", F.col("run.partition").alias("partition")),
        F.greatest(first, F.col("stretch") * STRETCH).alias(f"{role}_from"),
        F.least(end, (F.col("stretch") + 1) * STRETCH).alias(f"{role}_to"),
    )


def _known(writes: DataFrame, reads: DataFrame) -> DataFrame:
    """Who read whose records, by their offsets."""
    from pyspark.sql import functions as F

    both = F.least("writer_to", "reader_to") - F.greatest("writer_from", "reader_from")
    overlap = writes.join(reads, [*TOPIC, "partition", "stretch"]).withColumn("both", both).where("both > 0")
    return overlap.groupBy(*TOPIC, "writer_dialect", "writer", "reader_dialect", "reader").agg(
        F.sum("both").alias("read")
    )


def _presumed(writes: DataFrame, reads: DataFrame, known: DataFrame) -> DataFrame:
    """What was read beside that, of whoever may have written it."""
    from pyspark.sql import functions as F

    reader = [*TOPIC, "reader_dialect", "reader"]
    total = reads.groupBy(*reader).agg(F.sum("records").alias("total"), F.sum(_told(True)).alias("told"))
    rest = total.join(known.groupBy(*reader).agg(F.sum("read").alias("found")), reader, "left")
    placed = F.col("told") - F.coalesce("found", F.lit(0))
    unplaced = F.col("total") - F.col("told")
    silent = rest.select(*reader, placed.alias("read")).join(_writers(writes.where("size(runs) = 0")), [*TOPIC], "left")
    anybody = rest.select(*reader, unplaced.alias("read")).join(_writers(writes), [*TOPIC], "left")
    presumed = silent.unionByName(anybody).where("read > 0")
    names = [F.coalesce(name, F.lit(UNKNOWN)).alias(name) for name in ("writer_dialect", "writer")]
    grouped = presumed.select(*reader, *names, "read").groupBy(*reader, "writer_dialect", "writer")
    return grouped.agg(F.sum("read").alias("read")).withColumn("certain", F.lit(False))


def _told(placed: bool) -> Column:
    """The records of a read whose offsets are known."""
    from pyspark.sql import functions as F

    return F.when((F.size("runs") > 0) == F.lit(placed), F.col("records")).otherwise(0)


def _writers(writes: DataFrame) -> DataFrame:
    """Of each topic the one who wrote it, or that it was several."""

    grouped = writes.groupBy(*TOPIC)
    return grouped.agg(*(_one(name).alias(name) for name in ("writer_dialect", "writer")))


def _one(name: str) -> Column:
    from pyspark.sql import functions as F

    return (
        F.when(F.count_distinct("writer_dialect", "writer") == 1, F.first(name))
        .when(F.count_distinct(name) == 1, F.first(name))
        .otherwise(SEVERAL)
    )


def losses(writer: str, reader: str) -> list[str] | None:
    """What is declared to be lost of records of one dialect that another reads: `field way`; None = not declared."""
    known = dialects.names()
    if writer not in known or reader not in known:
        return None
    said, shown = dialects.load(writer).fidelity, dialects.load(reader).fidelity
    if said is None or shown is None:
        return None
    fates = {field: journey(said.writing[field], shown.reading[field]) for field in FIELDS}
    return [f"{field} {fate.way}" for field, fate in fates.items() if fate.way in ("partly", "changed", "dropped")]


def _losses(spark: SparkSession) -> DataFrame:
    pairs = [(one, other, losses(one, other)) for one in dialects.names() for other in dialects.names()]
    return spark.createDataFrame(pairs, "writer_dialect string, reader_dialect string, losses array<string>")


@capture_options
@click.option("--to", default="", metavar="DIRECTORY", help="Write the table as Parquet, into a new folder there.")
def run(spark: SparkSession, *, places: tuple[str, ...], skip: bool = False, to: str = "") -> str:
    """Who wrote what others read, and what is lost on the way."""
    frame = commands(spark, places, COLUMNS, skip=skip).persist()
    try:
        found = transform(frame)
        save(found, to, "lineage")
        return f"{table(found, 100)}{missing(frame)}".rstrip()
    finally:
        frame.unpersist()


main = job(run)
