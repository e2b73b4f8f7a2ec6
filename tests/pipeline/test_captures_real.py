"""Real clients, captured: the jobs tell the same of them as the gateway itself does."""

from __future__ import annotations

import re
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import wire
from gateway.core.faults import Fault
from gateway.pipeline.jobs import conformance, lineage, report, sessions
from gateway.pipeline.traffic import commands
from system.peers import Lines
from system.processes import COMMAND, GatewayProcess
from system.test_capture import MESSAGES, cursus_session, iggy_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = 10_000
"""That the Cursus client writes, and reads twice."""

Counts = Counter[tuple[str, ...]]


NO_NUMBER = "a partition that is no number is refused"
MISTAKE = wire.said("pipe", NO_NUMBER)


class Captured(NamedTuple):
    """A capture, and what the gateway counted meanwhile."""

    place: str
    metrics: str

    def counted(self, name: str, *labels: str) -> Counts:
        """A metric by those labels."""
        found: Counts = Counter()
        for said, value in re.findall(rf"^gateway_{name}_total{{(.*)}} (\S+)$", self.metrics, re.MULTILINE):
            told = dict(re.findall(r'(\w+)="([^"]*)"', said))
            found[tuple(told[label] for label in labels)] += int(float(value))
        return found


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Captured]:
    """cursus-client, apache-iggy, and a V1 peer that makes mistakes."""
    directory = tmp_path_factory.mktemp("captured")
    command = (*COMMAND, "--capture=captured", "--web=tcp:0:interface=127.0.0.1")
    with GatewayProcess(directory, "cursus", "iggy", "pipe", command=command) as running:
        cursus_session(running)
        iggy_session(running)
        with Lines(running.ports["pipe"]) as lines:
            lines.send(MISTAKE)
            lines.exactly(len(wire.told("pipe", NO_NUMBER)))
            lines.consume("nothing", 0, 0)
        with urllib.request.urlopen(f"http://127.0.0.1:{running.ports['web']}/metrics", timeout=10) as shown:
            metrics = shown.read().decode()
        assert running.terminate() == 0
    yield Captured(str(directory / "captured"), metrics)


def counted(rows: DataFrame, *columns: str) -> Counts:
    return Counter(
        {
            tuple(row[name] for name in columns): row.asked
            for row in rows.groupBy(*columns).sum("asked").withColumnRenamed("sum(asked)", "asked").collect()
        }
    )


def test_sessions_counts_what_the_gateway_counted(captured: Captured, spark: SparkSession) -> None:
    frame = commands(spark, [captured.place], sessions.COLUMNS).persist()
    asked = sessions.counts(frame).persist()
    wanted = captured.counted("commands", "listener", "dialect", "kind")
    assert counted(asked.where("kind <> ''"), "listener", "dialect", "kind") == wanted
    assert wanted["iggy", "iggy", "CommitOffsets"] > MESSAGES and wanted["cursus", "cursus", "Publish"] > 10
    faults = asked.where("kind <> ''").where(asked.outcome.isin([fault.name for fault in Fault]))
    wanted = captured.counted("faults", "listener", "kind", "fault")
    assert counted(faults, "listener", "kind", "outcome") == wanted
    assert wanted["iggy", "DescribeTopic", "NO_SUCH_TOPIC"] == 1
    refused = captured.counted("refused_frames", "listener", "fault")
    assert counted(asked.where("kind = ''"), "listener", "outcome") == refused == {("pipe", "MALFORMED"): 1}
    by_client = sessions.transform(frame).collect()
    assert {(row.dialect, row.client) for row in by_client} == {
        *(("cursus", "127.0.0.1"), ("iggy", "iggy@127.0.0.1"), ("pipe", "127.0.0.1")),
    }
    assert sum(row.asked for row in by_client) == captured.counted("commands").total() + 1
    assert all(0 <= row.p50_us <= row.p95_us <= row.p99_us <= row.max_us for row in by_client if row.answered)
    asked.unpersist()
    frame.unpersist()


def test_lineage_counts_every_record_that_was_read(captured: Captured, spark: SparkSession) -> None:
    frame = commands(spark, [captured.place], lineage.COLUMNS).persist()
    cursus, iggy = lineage.transform(frame).collect()
    frame.unpersist()
    assert (cursus.namespace, cursus.topic, cursus.writer_dialect) == ("default", "orders", "cursus")
    assert (cursus.written, cursus.read, cursus.certain) == (RECORDS, 2 * RECORDS, True), "polled, and streamed"
    assert (iggy.namespace, iggy.topic, iggy.writer, iggy.written) == ("shop", "orders", "iggy@127.0.0.1", MESSAGES)
    assert iggy.read >= 2 * MESSAGES + 60 and not iggy.certain, "what Iggy answers to a send says no offset"


def test_real_clients_break_no_case(captured: Captured, spark: SparkSession) -> None:
    frame = commands(spark, [captured.place], conformance.COLUMNS)
    found = conformance.transform(frame, conformance.cases_of(spark)).collect()
    by_shape = {(row.dialect, row.shape): row for row in found}
    failed = [row for row in found if row.verdict == "FAIL"]
    assert {(row.dialect, row.example) for row in failed} == {("pipe", MISTAKE.hex().upper())}
    assert by_shape["cursus", "JoinGroup(liveness=Heartbeats, distinct, exclusive)"].verdict == "PASS"
    assert by_shape["iggy", "Publish(iggy.g2c, several records, acks=LEADER)"].verdict == "PASS"
    lenient = {
        dialect: {shape for (at, shape), row in by_shape.items() if at == dialect and row.verdict == "LENIENT"}
        for dialect in ("cursus", "iggy")
    }
    assert lenient == {
        "cursus": {"Fetch(start=Next(reader=Group))", "Follow(start=Next(reader=Group))"},  # other keys come first
        "iggy": {"CreateTopic(if_exists=FAIL)"},  # never expires: 0 there, and all ones here
    }
    assert by_shape["iggy", "Authenticate"].verdict == "INFO", "its secret is not in the capture"
    assert all(row.case is None or row.case.startswith(f"{row.dialect}/") for row in found)


def test_a_report_is_drawn_of_it(captured: Captured, spark: SparkSession, tmp_path: Path) -> None:
    said = report.run(spark, places=(captured.place,), to=str(tmp_path))
    assert said == f"{tmp_path}/report.html and 8 pictures beside it"
    made = (tmp_path / "report.html").read_text()
    assert f"<b>{RECORDS + MESSAGES:,}</b>" in made, "written"
    assert f"<b>{captured.counted('commands').total() + 1:,}</b>" in made
