"""One Spark session for all tests: a start takes five seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.pipeline.spark import session
from system.kafka import kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["kafka"]

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs that live for seconds: compiling well takes longer than what is run (40 s of CPU or 25 s for compact's)."""


@pytest.fixture(scope="session", autouse=True)
def quick() -> Iterator[None]:
    """What every JVM that is started from here on is told, in whatever process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", os.environ.get("JDK_JAVA_OPTIONS", QUICK))
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores of this machine."""
    warehouse: Path = tmp_path_factory.mktemp("warehouse")
    made = session(
        "tests",
        master="local[2]",
        conf={
            "spark.sql.warehouse.dir": str(warehouse),
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
        },
    )
    yield made
    made.stop()
