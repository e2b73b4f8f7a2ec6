"""A stream from a topic to Parquet and one from Parquet to a topic: each record once, whatever is killed meanwhile."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gateway.core.commands import CreateTopic, DescribeTopic, Fetch, Publish, Topic
from gateway.core.records import Record, canonical
from gateway.core.replies import Published, Records, TopicDescription
from gateway.pipeline.asking import Connection
from gateway.pipeline.places import Place
from pipeline.streams import READ, WRITTEN
from system.processes import ROOT, GatewayProcess, environment, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 2
PER_BATCH = 50
"""Records of each partition in a micro-batch."""

SECONDS = 180.0
"""For one run of the driver, at most; it takes 10 on two cores that do nothing else."""

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""What a JVM of a few seconds is better off with: a third less of a processor, measured."""


class Ordeal:
    """The directory of both streams, the gateway, and the driver that is killed again and again."""

    def __init__(self, directory: Path, gateway: GatewayProcess, batches: int, seed: int) -> None:
        self.gateway = gateway
        self.directory = directory
        self.batches = batches
        self._dice = random.Random(seed)
        self._driver: subprocess.Popen[str] | None = None

    @property
    def place(self) -> Place:
        return Place(f"native=tcp:127.0.0.1:{self.gateway.ports['native']}")

    def prepare(self) -> None:
        """Records in the one topic, and files for the other: what a topic would be exported as."""
        with Connection(self.place) as connection:
            connection.ask(CreateTopic(Topic("default", READ), PARTITIONS), TopicDescription)
            for partition in range(PARTITIONS):
                for batch in range(self.batches):
                    records = canonical([Record(value=value) for value in self.expected(partition, batch)])
                    connection.ask(Publish(Topic("default", READ), partition, records), Published)
        (self.directory / "files").mkdir()
        for batch in range(self.batches):
            for partition in range(PARTITIONS):
                path = self.directory / "files" / f"{batch:04}-{partition}.parquet"
                columns = {
                    "partition": pa.array([partition] * PER_BATCH, pa.int32()),
                    "offset": range(batch * PER_BATCH, (batch + 1) * PER_BATCH),
                    "value": self.expected(partition, batch),
                }
                pq.write_table(pa.table(columns), path)
                os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))  # the order in which Spark takes them

    def expected(self, partition: int, batch: int) -> list[bytes]:
        first = batch * PER_BATCH
        return [b"%d of %d" % (number, partition) for number in range(first, first + PER_BATCH)]

    def all_of(self, partition: int) -> list[bytes]:
        return [value for batch in range(self.batches) for value in self.expected(partition, batch)]

    # -- the driver

    def start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "pipeline.streams", self.place.endpoint, str(self.directory)]
        with (self.directory / "driver.log").open("a") as log:
            self._driver = subprocess.Popen(
                [*command, f"--records={PARTITIONS * PER_BATCH}", f"--files={PARTITIONS}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(None, PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}", JDK_JAVA_OPTIONS=JAVA),
                start_new_session=True,
                text=True,
            )
        return self._driver

    def kill(self) -> None:
        """SIGKILL to the driver: its JVM and the workers go with it, since they are of its group."""
        if self._driver is not None:
            if self._driver.poll() is None:
                os.killpg(self._driver.pid, signal.SIGKILL)
            self._driver.communicate()
            self._driver = None

    def commits(self, stream: str) -> int:
        """Micro-batches that were committed."""
        return sum(name.name.isdigit() for name in (self.directory / stream / "commits").glob("*"))

    def kill_at_random(self, hit_gateway: bool = False) -> None:
        """Let both get on by a batch or two at least, and kill what runs a moment later."""
        before = {stream: self.commits(stream) for stream in (READ, WRITTEN)}
        driver = self.start()
        more = self._dice.randint(1, 2)

        def far_enough() -> bool:
            assert driver.poll() is None, f"the driver was done before it was killed; it said {self.log()}"
            return all(self.commits(stream) >= before[stream] + more for stream in before)

        until(far_enough, SECONDS, f"{more} more batches; the driver said {self.log()}")
        time.sleep(self._dice.uniform(0, 0.4))
        if hit_gateway:
            self.gateway.kill()
            self.gateway.start()
            time.sleep(self._dice.uniform(0, 0.4))
        assert driver.poll() is None, f"the driver was done before it was killed; it said {self.log()}"
        self.kill()

    def uncommit(self) -> None:
        """As if the driver had died between a write and its commit."""
        for stream in (READ, WRITTEN):
            commits = self.directory / stream / "commits"
            newest = max((name for name in commits.glob("*") if name.name.isdigit()), key=lambda name: int(name.name))
            newest.unlink()
            (commits / f".{newest.name}.crc").unlink(missing_ok=True)  # which is not there yet if the kill was quick

    def finish(self) -> None:
        driver = self.start()
        said, _ = driver.communicate(timeout=SECONDS)
        assert said.split() == ["begun", "done"], self.log()
        self._driver = None

    def log(self) -> str:
        return (self.directory / "driver.log").read_text()[-3000:]


def undergo(ordeal: Ordeal, kills: int) -> Ordeal:
    ordeal.prepare()
    try:
        for kill in range(kills):
            ordeal.kill_at_random(hit_gateway=kill == kills // 2)
            if kill == kills - 1:
                ordeal.uncommit()
        ordeal.finish()
    finally:
        ordeal.kill()
    return ordeal


@pytest.fixture(scope="module", params=[3, pytest.param(10, marks=pytest.mark.long)], ids="{} kills".format)
def ordeal(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ordeal]:
    """Both streams at their end, after so many kills of their driver and one of the gateway."""
    directory = tmp_path_factory.mktemp("ordeal")
    with GatewayProcess(directory, "native") as gateway:
        yield undergo(Ordeal(directory, gateway, batches=4 * request.param + 4, seed=request.param), request.param)


def test_a_stream_from_a_topic_to_parquet_has_each_record_once_and_in_order(
    ordeal: Ordeal, spark: SparkSession
) -> None:
    rows = spark.read.parquet(str(ordeal.directory / "lake")).select("partition", "offset", "value").collect()
    for partition in range(PARTITIONS):
        found = sorted((row.offset, bytes(row.value)) for row in rows if row.partition == partition)
        assert found == list(enumerate(ordeal.all_of(partition)))


def test_a_stream_from_parquet_to_a_topic_has_each_record_once_and_in_order(ordeal: Ordeal) -> None:
    with Connection(ordeal.place) as connection:
        found = connection.ask(DescribeTopic(Topic("default", WRITTEN)), TopicDescription)
        assert found.settings.idempotent
        for partition in range(PARTITIONS):
            assert values(connection, partition) == ordeal.all_of(partition)


def values(connection: Connection, partition: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while batches := connection.ask(Fetch(Topic("default", WRITTEN), partition, len(found)), Records).batches:
        found += [record.value for batch in batches for record in batch.records()]
    return found
