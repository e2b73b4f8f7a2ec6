"""What flows through a gateway as data for Spark: topics as DataFrames, traffic as tables, jobs over both.

    from gateway.pipeline import register
    register(spark)
    orders = spark.read.format("gateway").option("topic", "orders").load()

A leaf: nothing in the gateway imports it, and it runs wherever this package and PySpark are installed, drivers and
workers alike.  docs/pipeline.md is the tour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Have the formats `gateway` and `gateway-capture` on a session, a remote one too."""
    from gateway.pipeline.captures import CaptureSource
    from gateway.pipeline.source import GatewaySource

    spark.dataSource.register(GatewaySource)
    spark.dataSource.register(CaptureSource)
