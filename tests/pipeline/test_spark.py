"""Spark starts here, on the Java that is there."""

from __future__ import annotations

from pyspark.sql import SparkSession


def test_a_session_counts(spark: SparkSession) -> None:
    assert spark.range(10).count() == 10
    assert spark.range(10).toPandas().shape == (10, 1)
