"""`gateway pipeline`: what it says without Spark, with the Java that it brings, and when something goes wrong."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from pyspark.sql import SparkSession

from gateway.pipeline.commands import main
from gateway.pipeline.jobs import JOBS
from gateway.pipeline.notes import EXPORTED, write_note
from gateway.pipeline.running import sentence
from gateway.pipeline.schema import SCHEMA
from system.processes import environment

COMMAND = (sys.executable, "-m", "gateway.cli", "pipeline")
SECONDS = 120.0


def test_help_lists_the_jobs_and_imports_no_spark() -> None:
    code = (
        "import sys; from gateway.pipeline.commands import main; main(['--help']);"
        "sys.exit(' '.join({'pyspark', 'pyarrow', 'numpy'} & {name.partition('.')[0] for name in sys.modules}) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.partition("Jobs:\n")[2].splitlines() if line[2:3] != " "] == list(
        JOBS
    )


def test_each_job_is_a_command_with_a_transform() -> None:
    for name in JOBS:
        module = importlib.import_module(f"gateway.pipeline.jobs.{name}")
        assert isinstance(module.main, click.Command) and module.main.name == name
        assert callable(module.run) and callable(module.transform)


def test_without_pyspark_a_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert main(["compact", "users", "table"]) == 1
    assert capsys.readouterr().err == ("gateway pipeline: it runs on Spark: pip install 'polyglot-gateway[pipeline]'\n")


@pytest.mark.parametrize("asked", [["no-such-job"], ["compact"], ["compact", "a", "b", "--conf", "no-equals-sign"]])
def test_what_is_asked_wrongly_is_2(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(asked) == 2
    assert "Error: " in capsys.readouterr().err


def test_an_error_is_said_without_the_traceback_that_spark_has_around_it(spark: SparkSession) -> None:
    nowhere = {"endpoint": "native=tcp:127.0.0.1:1", "topic": "x", "timeoutSeconds": "1"}
    with pytest.raises(Exception, match="Traceback") as raised:
        spark.read.format("gateway").options(**nowhere).load().count()
    assert "native=tcp:127.0.0.1:1" in sentence(raised.value)
    assert "\n" not in sentence(raised.value)
    assert sentence(raised.value).endswith("Connection refused")
    streaming = spark.readStream.format("gateway").options(**nowhere).load().writeStream.format("noop").start()
    with pytest.raises(Exception, match="STREAM_FAILED") as raised:
        streaming.awaitTermination()
    assert sentence(raised.value).endswith("Connection refused")
    with pytest.raises(Exception, match="PATH_NOT_FOUND") as raised:
        spark.read.parquet("/none/such")
    assert "Path does not exist: file:/none/such" in sentence(raised.value)


@pytest.fixture
def without_java(tmp_path: Path) -> dict[str, str]:
    """The environment of this machine if no Java were installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for at in os.environ["PATH"].split(os.pathsep):
        for program in Path(at).iterdir() if Path(at).is_dir() else ():
            if not program.name.startswith("java") and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    ours = environment(Path(__file__).parents[2], PATH=str(folder))
    return {name: value for name, value in ours.items() if not name.startswith(("JAVA", "SPARK"))}


def test_with_no_java_on_the_machine_a_job_runs_on_the_one_that_came_along(
    spark: SparkSession, without_java: dict[str, str], tmp_path: Path
) -> None:
    exported, table = str(tmp_path / "exported"), str(tmp_path / "table")
    values = {"namespace": "default", "topic": "users", "partition": 0, "headers": []}
    rows = [values | {"offset": at, "key": b"%d" % (at % 7), "value": b"%d" % at} for at in range(70)]
    spark.createDataFrame([tuple(row.get(name) for name in SCHEMA.names) for row in rows], SCHEMA).write.parquet(
        exported
    )
    write_note(spark, f"{exported}/{EXPORTED}", {})
    asked = [*COMMAND, "compact", "users", table, "--from", exported, "--master", "local[1]"]
    done = subprocess.run(asked, env=without_java, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout) == (0, f"7 keys in {table}\n"), done.stderr
    found = spark.read.parquet(table).select("key", "value").collect()
    assert {bytes(key): bytes(value) for key, value in found} == {b"%d" % at: b"%d" % (63 + at) for at in range(7)}
