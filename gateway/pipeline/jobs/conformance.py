"""Captured clients judged by the cases of their dialects: what they say, and whether our own client would say it so.

Of the vectors, whose ids are paths such as `iggy/login/...`, each is exercised by every request of its shape: the same
command with the same choices (gateway.conformance.judging).  Of the client cases of the conformance kit, such as
IGY-C1.6, each is exercised by requests and answers as in its script (gateway.conformance.overhearing).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gateway import dialects
from gateway.conformance.judging import exercised
from gateway.pipeline.jobs import job
from gateway.pipeline.traffic import CONNECTION, asked, capture_options, commands, heard_cases, missing, save, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (*CONNECTION, *("dialect", "peer", "principal", "frame", "bytes_in", "verdict", "shape", "why"))
"""Of commands, that are needed."""

COLUMNS_FOUND = ("client", "dialect", "case", "shape", "verdict", "requests", "times", "why", "example")
"""Of what is found."""

WORST = ("INFO", "PASS", "LENIENT", "FAIL")
"""Verdicts; of several that of the last one here is the verdict."""

SHOWN = ("INFO", "LENIENT", "PASS", "FAIL")
"""The same of the kit's cases: a client that says it as the form has it may be told to say it otherwise, too."""

EXAMPLE = 4096
"""Bytes of a frame that are shown at most."""


def transform(frame: DataFrame, cases: DataFrame) -> DataFrame:
    """Commands and `cases_of` -> a verdict for each client and case.

    case:     its id, null = no case is about requests of this shape.
    verdict:  the worst of all its requests of this shape; requests, and as many of them as had it, are counted.
    example:  the shortest frame with that verdict, in hex; why: what is to be said of it.
    """
    from pyspark.sql import functions as F

    rank = F.array_position(F.array(*map(F.lit, WORST)), F.col("verdict")).alias("rank")
    example = F.hex(F.substring("frame", 1, EXAMPLE)).alias("example")
    heard = asked(frame).where("verdict IS NOT NULL")
    one = heard.select("client", "dialect", "shape", "verdict", "why", rank, example, "bytes_in")
    by_verdict = one.groupBy("client", "dialect", "shape", "verdict", "rank").agg(
        F.count("*").alias("times"),
        *(F.min_by(name, F.struct("bytes_in", "example")).alias(name) for name in ("why", "example")),
    )
    judged = by_verdict.groupBy("client", "dialect", "shape").agg(
        F.sum("times").alias("requests"),
        *(F.max_by(name, "rank").alias(name) for name in ("verdict", "times", "why", "example")),
    )
    found = judged.join(cases, ["dialect", "shape"], "left")
    said = found.select(*COLUMNS_FOUND)
    return said.orderBy("dialect", "client", "shape", "case")


def played(found: DataFrame) -> DataFrame:
    """Captures read as cases -> a verdict for each client and case of the kit, in the columns of `transform`.

    shape: empty.  requests: how often the case was exercised; times: with this verdict.
    """
    from pyspark.sql import functions as F

    rank = F.array_position(F.array(*map(F.lit, SHOWN)), F.col("verdict")).alias("rank")
    example = F.hex(F.substring("frame", 1, EXAMPLE)).alias("example")
    one = asked(found).select("client", "dialect", "case", "verdict", "times", "why", rank, example)
    by_verdict = one.groupBy("client", "dialect", "case", "verdict", "rank").agg(
        F.sum("times").alias("times"),
        *(F.min_by(name, F.struct(F.length("example"), "example")).alias(name) for name in ("why", "example")),
    )
    judged = by_verdict.groupBy("client", "dialect", "case").agg(
        F.sum("times").alias("requests"),
        *(F.max_by(name, "rank").alias(name) for name in ("verdict", "times", "why", "example")),
    )
    said = judged.withColumn("shape", F.lit("")).select(*COLUMNS_FOUND)
    return said.orderBy("dialect", "client", "case")


def cases_of(spark: SparkSession) -> DataFrame:
    """dialect, shape, case: of all dialects that there are here.  Raises gateway.conformance.vectors.BadCase."""
    rows = [(name, shape, case) for name in dialects.names() for shape, ids in exercised(name).items() for case in ids]
    return spark.createDataFrame(rows, "dialect string, shape string, case string")


@capture_options
@click.option("--to", default="", metavar="DIRECTORY", help="Write the table as Parquet, into a new folder there.")
@click.option("--all", "all_", is_flag=True, help="Print what passes, too.")
def run(spark: SparkSession, *, places: tuple[str, ...], skip: bool = False, to: str = "", all_: bool = False) -> str:
    """What captured clients say, judged by the cases."""
    from pyspark.sql import functions as F

    frame = commands(spark, places, COLUMNS, skip=skip).persist()
    kit = played(heard_cases(spark, places, skip=skip)).persist()
    try:
        found = transform(frame, cases_of(spark))
        save(found.unionByName(kit), to, "conformance")
        shapes = found.groupBy("dialect", "client", "verdict", "shape").agg(
            F.count("case").alias("cases"), F.first("requests").alias("requests"), F.first("why").alias("why")
        )
        vectors = f"{_summary(found)}\n{_shown(shapes, 'shape', all_)}"
        return f"{vectors}\ncases of the kit\n{_summary(kit)}\n{_shown(kit, 'case', all_)}{missing(frame)}".rstrip()
    finally:
        frame.unpersist()
        kit.unpersist()


def _shown(found: DataFrame, by: str, all_: bool) -> str:
    told = [name for name in ("dialect", "client", "verdict", by, "cases", "requests", "why") if name in found.columns]
    some = (found if all_ else found.where("verdict <> 'PASS'")).select(*told)
    return table(some.orderBy("dialect", "client", "verdict", by), 200)


def _summary(found: DataFrame) -> str:
    from pyspark.sql import functions as F

    verdicts = [F.count_if(F.col("verdict") == verdict).alias(verdict) for verdict in reversed(WORST)]
    cases = found.where("case IS NOT NULL").groupBy("dialect", "client").agg(F.count("*").alias("cases"), *verdicts)
    return table(cases.orderBy("dialect", "client"), 100)


main = job(run)
