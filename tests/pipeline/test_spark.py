"""Spark as it is started here, and what it says of what it does."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from gateway.pipeline.progress import staged, streamed
from gateway.pipeline.spark import is_local
from system.processes import until

SECONDS = 60.0


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local-cluster[2,1,1024]"])
def test_a_session_of_this_machine_alone_stays_on_loopback(master: str) -> None:
    assert is_local(master) and not is_local("spark://localhost:7077")


def test_a_session_has_what_the_jobs_count_on(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.range(10).toPandas().shape == (10, 1)


def test_progress_is_the_tasks_that_are_done_of_those_that_there_are(spark: SparkSession, tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    def wait(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            while batch.column(0)[0].as_py() >= 5 and not gate.exists():
                time.sleep(0.01)
            yield batch

    assert staged(spark.sparkContext) == ""
    counting = threading.Thread(target=spark.range(0, 10, 1, 2).mapInArrow(wait, "id long").collect)
    counting.start()
    try:
        until(lambda: ": 1/2 tasks" in staged(spark.sparkContext), SECONDS, "one of two tasks is done")
    finally:
        gate.touch()
        counting.join()


def test_progress_of_a_stream_is_its_last_batch(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "lines").write_text("a\nb\n")
    lines = spark.readStream.text(str(tmp_path / "in")).writeStream.format("noop")
    query = lines.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        until(lambda: streamed(spark).startswith("batch 0: 2 rows, "), SECONDS, "the batch is told")
    finally:
        query.stop()
    assert streamed(spark) == ""
