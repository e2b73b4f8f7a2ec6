"""gateway.bench.spark: `gateway bench --spark`, in a process of its own, since it starts and stops Spark itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from system.processes import ROOT, environment


@pytest.mark.long  # two starts of Spark: half a minute
def test_a_topic_is_measured_beside_parquet_and_ingest_takes_all_that_was_produced(tmp_path: Path) -> None:
    said = ["--spark", "--records=2000", "--rounds=1", "--seconds=0.2", f"--dir={tmp_path}", "--json"]
    command = [sys.executable, "-m", "gateway.cli", "bench", *said]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(ROOT), timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["records"] == 2000
    for kind in ("topic", "parquet"):
        assert {cores: len(rates["rates"]) for cores, rates in report[kind].items()} == {"1": 1, "2": 1}
    assert report["ingest"] > 0 and report["share"]["2"] > 0 and report["cpu_share"]["1"] > 0
    assert not list(tmp_path.iterdir()), "what it wrote is gone"
