"""The oldest PySpark that is promised does everything that the data source does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from gateway.core.commands import Topic
from gateway.core.records import Record
from gateway.pipeline.asking import Connection
from pipeline.clusters import settings
from pipeline.filling import fill, place, sample, stored
from system.processes import ROOT, GatewayProcess

OLDEST = "pyspark==4.2.0"
CLIENTS = ROOT / ".venv" / "clients"
"""Where `make` puts each version of each client, apart from the others (tests/clients.txt)."""

SECONDS = 170.0
"""For a driver, where other things run beside it."""


def test_it_is_the_one_that_is_installed_and_promised() -> None:
    assert OLDEST in (ROOT / "tests" / "clients.txt").read_text().split()
    assert "pyspark[connect]>=4.2\n" in (ROOT / "setup.cfg").read_text()


def test_topics_are_read_and_written_at_once_and_as_streams(tmp_path: Path) -> None:
    script = str(Path(__file__).with_name("four_ways.py"))
    older = settings() | {"PYTHONPATH": f"{CLIENTS / OLDEST}{os.pathsep}{ROOT}"}
    with GatewayProcess(tmp_path, "native") as gateway, Connection(place(gateway)) as connection:
        fill(connection, Topic("default", "orders"), [sample(700, 1), sample(500, 2)])
        told = [sys.executable, script, place(gateway).endpoint, str(tmp_path)]
        done = subprocess.run(told, env=older, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        lake = tmp_path / "lake"
        assert done.stdout == f"4.2.0: 1200 records\n1,200 records into {lake}\n"
        batches = [path for path in (lake / "_spark_metadata").iterdir() if path.name.isdecimal()]
        assert len(batches) == 3, "400 records at a time"
        for partition in range(2):
            orders = stored(connection, Topic("default", "orders"), partition)
            assert stored(connection, Topic("default", "copied"), partition) == orders
            streamed = stored(connection, Topic("default", "streamed"), partition)
            assert list(map(unnumbered, streamed)) == list(map(unnumbered, orders))


def unnumbered(record: Record) -> Record:
    """A stream numbers its records, as their producer."""
    return msgspec.structs.replace(record, producer=b"", epoch=0, sequence=0)
