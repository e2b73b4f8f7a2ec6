"""`gateway bench --spark`: how fast Spark reads a topic, beside Parquet files of the same rows, on one core and on two.

Both are read whole into nothing, in turn, so that whatever else the machine does hits both.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from gateway.bench import BenchFailed
from gateway.bench.children import gateway, serving
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed
from gateway.core.records import Record, RecordBatch, canonical

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from gateway.pipeline.places import Place
    from gateway.pipeline.planning import At

AIM, FLOOR = 0.45, 0.25
"""Of Parquet's rate, on two cores."""

CORES = (2, 1)

PARTITIONS = 2
BATCH = 1_000
"""Records published at once."""

AHEAD = 20
"""Batches that are published before the first of them is answered."""

WARM = 2
"""Reads of each kind that are not counted: the JVM compiles while it runs."""

STUCK = 120.0
"""Seconds in which `ingest` has to get to the end of what was produced."""

READ, TAKEN = "bench", "bench-ingest"
"""Topics: the one that is read, and the one that is produced to while `ingest` runs."""

_TICK = os.sysconf("SC_CLK_TCK")


class Rates(msgspec.Struct, frozen=True):
    """One kind of read: rows/s of each round, and us of CPU for a row, of all processes."""

    rates: list[float]
    cpu: list[float]


class Measured(msgspec.Struct, frozen=True):
    """All of one run, by cores.

    share, cpu_share: the topic's part of Parquet's rate; by the clock, and by the CPU time that both take.
    ingest:           records/s from the first one produced to the last one in the lake, on two cores.
    """

    records: int
    topic: dict[int, Rates]
    parquet: dict[int, Rates]
    share: dict[int, float]
    cpu_share: dict[int, float]
    ingest: float


def main(records: int, rounds: int, seconds: float, directory: Path, as_json: bool) -> None:
    """Measure and say so.  Raises BenchFailed."""
    with tempfile.TemporaryDirectory(dir=directory, prefix="gateway-spark-") as held:
        try:
            measured = measure(records, rounds, seconds, Path(held))
        except CommandFailed as failure:
            raise BenchFailed(f"the gateway did not do as it was asked: {failure}") from failure
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(measured)).decode())
    else:
        _show(measured)


def measure(records: int, rounds: int, seconds: float, directory: Path) -> Measured:
    """Everything, on a gateway of its own.  seconds: how long a producer goes on while `ingest` runs."""
    from gateway.pipeline.places import Place

    topic, parquet, taken = {}, {}, 0.0
    with serving(gateway(f"sqlite:{directory / 'records'}", ("native",)), directory) as server:
        place = Place(f"native=tcp:127.0.0.1:{server.ports()['native']}")
        _produce(place, READ, lambda sent: sent < records)
        for cores in CORES:
            with _spark(cores) as spark:
                topic[cores], parquet[cores] = _beside(spark, place, records, rounds, directory / f"files-{cores}")
                taken = taken or _ingest(spark, place, seconds, directory / "lake")
    share = {cores: _share(topic[cores].rates, parquet[cores].rates) for cores in CORES}
    cpu_share = {cores: _share(parquet[cores].cpu, topic[cores].cpu) for cores in CORES}
    return Measured(records, topic, parquet, share, cpu_share, taken)


def _share(some: list[float], whole: list[float]) -> float:
    return statistics.median([one / other for one, other in zip(some, whole, strict=True)])


@contextmanager
def _spark(cores: int) -> Iterator[SparkSession]:
    from gateway.pipeline.spark import session

    made = session("gateway bench", master=f"local[{cores}]", conf={"spark.driver.memory": "2g"})
    try:
        yield made
    finally:
        made.stop()


# -- reading


def _beside(spark: SparkSession, place: Place, records: int, rounds: int, files: Path) -> tuple[Rates, Rates]:
    """The topic, and Parquet files of it, in turn."""

    def topic() -> DataFrame:
        return spark.read.format("gateway").options(endpoint=place.endpoint, topic=READ).load()

    topic().write.parquet(str(files))
    if (count := spark.read.parquet(str(files)).count()) != records:
        raise BenchFailed(f"{count} of {records} records were read")
    both = (Rates([], []), topic), (Rates([], []), lambda: spark.read.parquet(str(files)))
    for number in range(WARM + rounds):
        for rates, read in both:
            seconds, busy = _into_nothing(read)
            if number >= WARM:
                rates.rates.append(records / seconds)
                rates.cpu.append(busy / records * 1e6)
    return both[0][0], both[1][0]


def _into_nothing(read: Callable[[], DataFrame]) -> tuple[float, float]:
    """Seconds by the clock, and of CPU."""
    began, busy = time.perf_counter(), _busy()
    read().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began, _busy() - busy


def _busy() -> float:
    """Seconds of CPU that this process and all that come from it have had."""
    return sum(_ticks(process) for process in _family(os.getpid())) / _TICK


def _family(process: int) -> Iterator[int]:
    yield process
    try:
        listed = [path.read_text() for path in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:  # it has ended meanwhile
        return
    for child in " ".join(listed).split():
        yield from _family(int(child))


def _ticks(process: int) -> int:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))  # its own, and of those it has waited for; proc(5)


# -- producing


def _produce(place: Place, topic: str, more: Callable[[int], bool]) -> int:
    """Publish batches as long as it says so of the number so far.  Returns how many records that were."""
    from gateway.pipeline.asking import Connection

    batches = [_batch(number) for number in range(8)]
    sent, due = 0, deque[int]()
    with Connection(place) as connection:
        where = q.Topic(place.namespace, topic)
        connection.ask(q.CreateTopic(where, PARTITIONS, if_exists=q.IfExists.KEEP), r.TopicDescription)
        while more(sent):
            nth = sent // BATCH
            due.append(connection.send(q.Publish(where, nth % PARTITIONS, batches[nth % len(batches)])))
            sent += BATCH
            if len(due) > AHEAD:
                _published(connection.answer(due.popleft()))
        for outcome in connection.answers(due):
            _published(outcome)
    return sent


def _published(outcome: r.Outcome) -> None:
    if isinstance(outcome, CommandFailed):
        raise outcome


def _batch(number: int) -> RecordBatch:
    """Orders of 100 bytes, by keys of several lengths."""
    return canonical([_record(number * BATCH + at) for at in range(BATCH)], "native")


def _record(number: int) -> Record:
    value = b'{"order":%d,"amount":%d,"note":"' % (number, number % 977)
    return Record(b"user%d" % (number * 7919 % 50_000), value.ljust(98, b".") + b'"}')


# -- ingest


def _ingest(spark: SparkSession, place: Place, seconds: float, lake: Path) -> float:
    """Records/s of the job `ingest`, with a producer running beside it."""
    from gateway.pipeline.jobs import ingest

    _produce(place, TAKEN, lambda sent: False)
    options = {"place": {"endpoint": place.endpoint}, "path": str(lake), "topic": TAKEN, "every": 0.0}
    job = threading.Thread(target=ingest.run, args=(spark,), kwargs=options)
    job.start()
    query = _begun(spark, job)
    try:
        began = time.monotonic()
        sent = _produce(place, TAKEN, lambda sent: time.monotonic() - began < seconds)
        _wait(lambda: _read(query) >= sent or not job.is_alive(), "the end of what was produced")
        took = time.monotonic() - began
    finally:
        query.stop()
        job.join(STUCK)
    if (count := spark.read.parquet(str(lake)).count()) != sent:
        raise BenchFailed(f"{sent} records were produced, and {count} are in the lake")
    return sent / took


def _begun(spark: SparkSession, job: threading.Thread) -> StreamingQuery:
    _wait(lambda: spark.streams.active or not job.is_alive(), "the beginning of a query")
    if not spark.streams.active:
        raise BenchFailed("ingest ended before it began")
    return spark.streams.active[0]


def _read(query: StreamingQuery) -> int:
    """How many records it has taken; it remembers its last hundred batches."""
    ends = [source.endOffset for progress in query.recentProgress[-1:] for source in progress.sources]
    return sum(offset for end in ends if end for at in _position(end) for offset in at.next.values())


def _position(end: str) -> list[At]:
    from gateway.pipeline.planning import position_of

    return list(position_of(msgspec.json.decode(end)).values())


def _wait(true: Callable[[], object], what: str) -> None:
    until = time.monotonic() + STUCK
    while not true():
        if time.monotonic() > until:
            raise BenchFailed(f"ingest did not come to {what} within {STUCK:g} s")
        time.sleep(0.05)


# -- for a person


def _show(measured: Measured) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(f"{measured.records:,} records of 100 bytes", no_wrap=True)
    for title in ("topic rows/s", "cpu us", "parquet rows/s", "cpu us", "share", "by cpu"):
        table.add_column(title, justify="right", no_wrap=True)
    for cores in sorted(CORES):
        figures = [f"{cores} core{'s' * (cores > 1)}"]
        for rates in (measured.topic[cores], measured.parquet[cores]):
            figures += [f"{statistics.median(rates.rates):,.0f}", f"{statistics.median(rates.cpu):.2f}"]
        table.add_row(*figures, f"{measured.share[cores]:.0%}", f"{measured.cpu_share[cores]:.0%}")
    console = Console(width=120)
    console.print(table)
    share = measured.share[2]
    met = "met" if share >= AIM else "above the floor" if share >= FLOOR else "MISSED"
    one, two = (statistics.median(measured.topic[cores].rates) for cores in (1, 2))
    console.print(f"share on two cores {share:.0%}; aim {AIM:.0%}, floor {FLOOR:.0%}: {met}", highlight=False)
    console.print(f"two cores read {two / one:.2f} times as fast as one", highlight=False)
    console.print(f"ingest with a producer beside it: {measured.ingest:,.0f} records/s", highlight=False)
