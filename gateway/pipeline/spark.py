"""Starting a Spark session with the formats registered: here, on a cluster, or on a Spark Connect server."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.pipeline import register
from gateway.pipeline.java import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
LOGGING = Path(__file__).with_name("log4j2.properties")
"""Errors alone, on standard error."""


def session(
    name: str = "gateway",
    *,
    master: str = "local[*]",
    remote: str = "",
    packages: Sequence[str] = (),
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """The Spark session of this process, with the formats registered; the one that runs already if there is one.

    master:   where Spark runs: `local[*]`, `spark://HOST:PORT`, `yarn`, `k8s://...`.
    remote:   `sc://HOST:PORT` of a Spark Connect server, in place of a master.
    packages: Maven coordinates of what else Spark should have.
    conf:     settings of Spark, which come before ours.

    Raises ValueError, with a sentence, where there is no Java to run it on.
    """
    from pyspark.sql import SparkSession

    chosen = _settings(master, remote) | ({"spark.jars.packages": ",".join(packages)} if packages else {})
    chosen |= conf or {}
    builder = SparkSession.builder.appName(name)
    if remote:
        builder = builder.remote(remote)
    else:
        _prepare(master)
        builder = builder.master(master)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    register(made)
    return made


def is_local(master: str) -> bool:
    """Whether everything runs on this machine."""
    return master == "local" or master.startswith(("local[", "local-cluster["))


def _settings(master: str, remote: str) -> dict[str, str]:
    """What the jobs count on, and what suits one machine."""
    wanted = {"spark.sql.session.timeZone": "UTC", "spark.sql.execution.arrow.pyspark.enabled": "true"}
    if remote:
        return wanted
    wanted |= {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"}
    wanted |= {"spark.ui.showConsoleProgress": "false"}
    if is_local(master):
        wanted |= {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK, "spark.ui.enabled": "false"}
    return wanted


def _prepare(master: str) -> None:
    """The environment, which the JVM and the workers' Python get as it is when they start."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    settle(os.environ)
