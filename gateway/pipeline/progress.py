"""How far Spark is with what it was asked, in one line of a terminal that is gone afterwards."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from rich.console import Console
from rich.status import Status

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.shell.progress import ProgressHandler, StageInfo

SECONDS = 0.5
"""Between two looks."""


@contextmanager
def shown(spark: SparkSession, *, remote: bool) -> Iterator[None]:
    """Say on standard error what is being done, for as long as the block runs.

    remote: a Spark Connect server is asked, which tells less, by a call of its own.
    """
    with Console(stderr=True).status("starting") as status:
        if remote:
            spark.registerProgressHandler(cast("ProgressHandler", functools.partial(_tell, status)))
            yield
            return
        ended = threading.Event()
        looking = threading.Thread(target=_look, args=(spark, status, ended), daemon=True)
        looking.start()
        try:
            yield
        finally:
            ended.set()
            looking.join()


def _look(spark: SparkSession, status: Status, ended: threading.Event) -> None:
    while not ended.wait(SECONDS):
        status.update(streamed(spark) or staged(spark.sparkContext) or "at work")


def staged(context: SparkContext) -> str:
    """The stages that run and their tasks: `stage 3: 5/8 tasks`; "" = nothing runs."""
    tracker = context.statusTracker()
    stages = [(at, tracker.getStageInfo(at)) for at in sorted(tracker.getActiveStageIds())]
    return ", ".join(f"stage {at}: {one.numCompletedTasks}/{one.numTasks} tasks" for at, one in stages if one)


def streamed(spark: SparkSession) -> str:
    """The last batch of every stream that runs: `batch 12: 5,000 rows, 2,400 rows/s`; "" = there is none."""
    told = [query.lastProgress for query in spark.streams.active]
    return ", ".join(
        f"batch {each.batchId}: {each.numInputRows:,} rows, {each.processedRowsPerSecond:,.0f} rows/s"
        for each in told
        if each
    )


def _tell(
    status: Status, stages: Iterable[StageInfo] | None, inflight_tasks: int, operation_id: str | None, done: bool
) -> None:
    told = list(stages or ())
    completed, every = sum(at.num_completed_tasks for at in told), sum(at.num_tasks for at in told)
    status.update(f"{completed}/{every} tasks, {inflight_tasks} of them run")
