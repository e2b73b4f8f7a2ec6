"""Spark in processes of its own on loopback: a standalone cluster of two workers, and a Spark Connect server.

Only processes started here are ended here, by their own handle.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

from gateway.pipeline.java import settle
from system.processes import ROOT, environment, until

HOME = Path(pyspark.__file__).parent
"""The pip package has no scripts that start a cluster, but all classes."""

START_SECONDS = 60.0
STOP_SECONDS = 30.0

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
_LOOPBACK = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")


def settings(imports: Path = ROOT) -> dict[str, str]:
    """The environment of a Spark process: this Python, loopback, a Java that is there."""
    ours = environment(imports, PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    settle(ours)
    return ours


class Started:
    """A process of Spark and its log."""

    def __init__(self, command: Sequence[str], log: Path, **more: str) -> None:
        self.log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=settings() | more
            )

    def wait_for(self, pattern: str) -> str:
        """The first group of what it logs."""
        until(lambda: self._process.poll() is not None or re.search(pattern, self.said), START_SECONDS, pattern)
        found = re.search(pattern, self.said)
        assert found is not None, f"it ended:\n{self.said[-5000:]}"
        return found[1]

    @property
    def said(self) -> str:
        """All it has logged."""
        return self.log.read_text(errors="replace")

    def stop(self) -> None:
        """SIGTERM, then SIGKILL."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_SECONDS)


@contextmanager
def _all_stopped(started: list[Started]) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        for each in started:
            error.add_note(f"{each.log}:\n{each.said[-3000:]}")
        raise
    finally:
        for each in reversed(started):
            each.stop()


@contextmanager
def standalone(directory: Path) -> Iterator[tuple[str, Started]]:
    """A master and two workers of one core each: the master's URL, and the master."""
    command, memory = str(HOME / "bin" / "spark-class"), {"SPARK_DAEMON_MEMORY": "256m"}
    started: list[Started] = []
    with _all_stopped(started):
        started.append(Started([command, _MASTER, *_LOOPBACK], directory / "master.log", **memory))
        url = started[0].wait_for(r"Starting Spark master at (spark://\S+)")
        for at in range(2):
            place = ("--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"worker-{at}"))
            log = directory / f"worker-{at}.log"
            started.append(Started([command, _WORKER, *_LOOPBACK, *place, url], log, **memory))
        for worker in started[1:]:
            worker.wait_for(r"(Successfully registered) with master")
        yield url, started[0]


@contextmanager
def connect(directory: Path) -> Iterator[str]:
    """A Spark Connect server: where it is."""
    conf = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    conf |= {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": "0"}
    asked = ["--class", _CONNECT, "--master", "local[2]", *_confs(conf), "spark-internal"]
    started: list[Started] = []
    with _all_stopped(started):
        command = [str(HOME / "bin" / "spark-submit"), *asked]
        started.append(Started(command, directory / "connect.log", SPARK_CONNECT_MODE="0"))
        yield f"sc://{started[0].wait_for(r'Spark Connect server started at: (127.0.0.1:[0-9]+)')}"


def _confs(conf: Mapping[str, str]) -> list[str]:
    return [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
