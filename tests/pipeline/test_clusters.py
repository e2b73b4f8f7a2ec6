"""The same jobs on a cluster and by Spark Connect, with the same results as here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from gateway.core.commands import Topic
from gateway.pipeline.asking import Connection
from gateway.pipeline.jobs import compact, export, ingest, sessions
from gateway.pipeline.notes import records_in
from gateway.pipeline.schema import SCHEMA
from pipeline.clusters import connect, settings, standalone
from pipeline.filling import fill, options, place, sample
from system.processes import COMMAND, GatewayProcess

SECONDS = 170.0
SHARES = (3000, 2000, 1000)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """With a topic in it."""
    with GatewayProcess(tmp_path_factory.mktemp("served"), "native") as running:
        with Connection(place(running)) as connection:
            fill(connection, Topic("default", "users"), [sample(share, at) for at, share in enumerate(SHARES)])
        yield running


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a gateway wrote that is gone."""
    directory = tmp_path_factory.mktemp("captured")
    with GatewayProcess(directory, "native", command=(*COMMAND, "--capture=captured")) as running:
        for at in range(3):
            with Connection(place(running)) as connection:
                fill(connection, Topic("default", f"topic-{at}"), [sample(1000 * at, at)])
        assert running.terminate() == 0
    return str(directory / "captured")


def asked_of(gateway: GatewayProcess, captured: str, directory: Path) -> list[tuple[str, dict[str, object]]]:
    """Four jobs, and where their results go."""
    reading = {"place": options(gateway), "topic": "users"}
    return [
        ("ingest", reading | {"path": str(directory / "lake"), "available_now": True}),
        ("export", reading | {"path": str(directory / "exported")}),
        ("compact", reading | {"path": str(directory / "table")}),
        ("sessions", {"places": [captured], "to": str(directory / "sessions")}),
    ]


JOBS = {"ingest": ingest.run, "export": export.run, "compact": compact.run, "sessions": sessions.run}


def rows(frame: DataFrame) -> list[str]:
    """All of a frame, in order."""
    return sorted(row.json for row in frame.selectExpr("to_json(struct(*)) AS json").collect())


def results(spark: SparkSession, directory: Path) -> dict[str, list[str]]:
    """All rows of all of them, in order."""
    frames = {
        "lake": records_in(spark, str(directory / "lake")),
        "exported": records_in(spark, str(directory / "exported")),
        "table": spark.read.parquet(str(directory / "table")).select(*SCHEMA.names),
        "sessions": spark.read.parquet(str(directory / "sessions" / "latencies")),
    }
    return {name: rows(frame) for name, frame in frames.items()}


def test_a_cluster_of_two_workers_comes_to_the_same_results(
    spark: SparkSession, gateway: GatewayProcess, captured: str, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    said = [JOBS[name](spark, **how) for name, how in asked_of(gateway, captured, here)]
    with standalone(tmp_path) as (url, master):
        conf = {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
        conf |= {"spark.driver.host": "127.0.0.1"}
        told = json.dumps({"master": url, "conf": conf, "jobs": asked_of(gateway, captured, there)})
        script = [sys.executable, str(Path(__file__).with_name("driven.py")), told]
        done = subprocess.run(script, env=settings(), capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        assert len(set(re.findall(r"Launching executor \S+ on worker (\S+)", master.said))) == 2
    assert done.stdout == "".join(f"{line}\n" for line in said).replace(str(here), str(there))
    expected = results(spark, here)
    assert results(spark, there) == expected
    assert [len(expected[name]) for name in ("lake", "exported")] == [sum(SHARES)] * 2
    assert all(expected.values())


def run(*asked: str) -> subprocess.CompletedProcess[str]:
    """`gateway pipeline ...`, in a process of its own."""
    command = [sys.executable, "-m", "gateway.cli", "pipeline", *asked]
    return subprocess.run(command, env=settings(), capture_output=True, text=True, timeout=SECONDS, check=False)


def test_jobs_run_by_spark_connect_and_fail_with_a_sentence(
    spark: SparkSession, gateway: GatewayProcess, tmp_path: Path
) -> None:
    exported, table, lake = (str(tmp_path / name) for name in ("exported", "table", "lake"))
    at = f"--endpoint={options(gateway)['endpoint']}"
    with connect(tmp_path) as url:
        done = [
            run("export", "users", exported, at, "--remote", url),
            run("ingest", lake, "--topic=users", "--available-now", at, "--remote", url),
        ]
        failed = run("compact", "nobody", table, at, "--remote", url)
    assert [each.returncode for each in done] == [0, 0], [each.stderr for each in done]
    count = f"{sum(SHARES):,} records"
    assert [each.stdout for each in done] == [f"{count} of 1 topics in {exported}\n", f"{count} into {lake}\n"]
    assert rows(records_in(spark, exported)) == rows(records_in(spark, lake))
    assert failed.returncode == 1 and failed.stdout == ""
    assert failed.stderr.startswith("gateway pipeline: there is no topic 'nobody' in the namespace 'default'")
    assert failed.stderr.count("\n") == 1
