"""What is measured: the table that a new load is added to, and the carrying out of one row.

A load is a function from a Control to requests and how to count their replies; a Scenario says how many connections
send it how deeply, and against which servers.  A row is a scenario on one server.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from gateway.bench import BenchFailed, children, disk, frames
from gateway.bench.control import TOPIC, Control
from gateway.bench.generator import Job, Measured
from gateway.bench.tally import Marked, Sized, Tally

WARMUP = 0.5
"""Seconds before the measured time, at most."""

BATCH = 100
"""Records in a batch."""

_FILLED = 1_000
"""Batches in the topic that is fetched from."""

Target = Literal["memory", "sqlite", "echo", "file"]
"""memory, sqlite: the gateway with that backend.  echo: the reference server.  file: appends of our own, no server."""


class Load(msgspec.Struct, frozen=True):
    """The requests of each connection, which repeats them in order, and how their replies are counted."""

    rings: list[list[bytes]]
    tally: Tally


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of load.

    load:    Control, number of connections -> Load; makes topics and groups where it needs them.
    port:    the listener it goes to.
    depth:   requests in flight on each connection.
    records: in each request, 0 = it is requests that are counted.
    stores:  what is acknowledged must be found in the topic afterwards.
    on:      the servers it is measured on.
    apart:   load and server keep to one core each, where the server has but one thread.
    echo:    the row of the reference under the same load.
    file:    the row of the plain file that durable figures are compared with.
    """

    name: str
    about: str
    load: Callable[[Control, int], Load]
    port: str
    connections: int
    depth: int
    on: tuple[Target, ...]
    records: int = 0
    stores: bool = False
    apart: bool = False
    echo: str = ""
    file: str = ""


class Row(msgspec.Struct, frozen=True):
    """A scenario on one server, called `scenario/server`."""

    scenario: Scenario
    target: Target

    @property
    def name(self) -> str:
        """As it is selected and shown."""
        return f"{self.scenario.name}/{self.target}"

    @property
    def unit(self) -> str:
        """What its rate counts."""
        return "records/s" if self.scenario.records else "requests/s"


class Sample(msgspec.Struct, frozen=True):
    """One row, once.

    rate:      records or requests per second.
    latencies: ns.
    server_cpu, generator_cpu: cores busy; 0 where there is no such process.
    """

    rate: float
    latencies: list[int]
    server_cpu: float = 0.0
    generator_cpu: float = 0.0


class Terms(msgspec.Struct, frozen=True):
    """How every row is measured.

    directory: where what is durable goes.
    """

    directory: Path
    seconds: float = 2.0
    generators: int = 1


# -- loads


def produce(records: int) -> Callable[[Control, int], Load]:
    """Cursus batches of so many records; each connection writes to a partition of its own."""

    def load(control: Control, connections: int) -> Load:
        control.create(connections)
        rings = [[frames.cursus_batch(TOPIC, partition, records)] for partition in range(connections)]
        return Load(rings, Marked(b'{"status":"OK","last_offset":'))

    return load


def fetch(control: Control, connections: int) -> Load:
    """CONSUME of a whole stored batch each, walking through the topic as a reader does."""
    control.create(1)
    control.fill(_FILLED, BATCH)
    ask = f"CONSUME topic={TOPIC} partition=0 offset=%d member=m autoOffsetReset=earliest batch={BATCH}"
    ring = [frames.cursus_text(ask % (number * BATCH)) for number in range(_FILLED)]
    return Load([ring] * connections, Sized(*frames.cursus_fetched(TOPIC, 0, BATCH)))


def heartbeat(control: Control, connections: int) -> Load:
    """HEARTBEAT of the one member of a group."""
    control.create(1)
    joined = control.ask(f"JOIN_GROUP topic={TOPIC} group=g member=m")
    found = re.search(r"generation=(\d+) member=(\S+)", joined)
    if not found:
        raise BenchFailed(f"JOIN_GROUP was answered {joined}")
    generation, member = found.groups()
    beat = frames.cursus_text(f"HEARTBEAT topic={TOPIC} group=g member={member} generation={generation}")
    answer = frames.framed(f"OK member={member} generation={generation}".encode())
    return Load([[beat]] * connections, Sized(len(answer), answer))


def pipe_produce(control: Control, connections: int) -> Load:
    """PRODUCE of one record; each connection has a key of its own, which chooses the partition."""
    control.create(connections)
    rings = [[frames.pipe_produce(TOPIC, f"k{connection}")] for connection in range(connections)]
    return Load(rings, Marked(b"|OK|partition="))


def pipe_offset(control: Control, connections: int) -> Load:
    """OFFSET of a group that has committed nothing."""
    control.create(1)
    answer = b"V1|1|OK|offset=0\n"
    return Load([[frames.pipe_line("OFFSET", f"g {TOPIC} 0")]] * connections, Sized(len(answer), answer))


def echoed(frame: bytes) -> Callable[[Control, int], Load]:
    """One frame, which comes back as it is."""
    return lambda control, connections: Load([[frame]] * connections, Sized(len(frame), frame[:64]))


# -- the table

SMALL = frames.framed(b"x" * 32)

GATEWAY: tuple[Target, ...] = ("sqlite", "memory")

SCENARIOS = (
    Scenario(
        name="echo-batch",
        about=f"frames of the size of a batch of {BATCH}",
        load=echoed(frames.cursus_batch(TOPIC, 0, BATCH)),
        port="echo",
        connections=8,
        depth=16,
        records=BATCH,
        on=("echo",),
    ),
    Scenario(
        name="echo-8x64",
        about=f"frames of {len(SMALL)} bytes",
        load=echoed(SMALL),
        port="echo",
        connections=8,
        depth=64,
        on=("echo",),
    ),
    Scenario(
        name="echo-50x64",
        about=f"frames of {len(SMALL)} bytes",
        load=echoed(SMALL),
        port="echo",
        connections=50,
        depth=64,
        on=("echo",),
    ),
    Scenario(
        name="echo-ping-pong",
        about=f"frames of {len(SMALL)} bytes, one at a time",
        load=echoed(SMALL),
        port="echo",
        connections=1,
        depth=1,
        apart=True,
        on=("echo",),
    ),
    Scenario(
        name="file-batch",
        about=f"append of a batch of {BATCH}, then fdatasync, in one process",
        load=produce(BATCH),
        port="",
        connections=1,
        depth=1,
        records=BATCH,
        on=("file",),
    ),
    Scenario(
        name="cursus-batch",
        about=f"produce, batches of {BATCH} records of {frames.PAYLOAD} bytes",
        load=produce(BATCH),
        port="cursus",
        connections=8,
        depth=16,
        records=BATCH,
        stores=True,
        on=GATEWAY,
        echo="echo-batch/echo",
        file="file-batch/file",
    ),
    Scenario(
        name="cursus-single",
        about="produce, batches of one record",
        load=produce(1),
        port="cursus",
        connections=8,
        depth=64,
        records=1,
        stores=True,
        on=GATEWAY,
        echo="echo-8x64/echo",
    ),
    Scenario(
        name="cursus-ping-pong",
        about="produce, one record, one at a time",
        load=produce(1),
        port="cursus",
        connections=1,
        depth=1,
        records=1,
        stores=True,
        apart=True,
        on=GATEWAY,
        echo="echo-ping-pong/echo",
    ),
    Scenario(
        name="cursus-fetch",
        about=f"CONSUME of {BATCH} records a request",
        load=fetch,
        port="cursus",
        connections=1,
        depth=4,
        records=BATCH,
        on=GATEWAY,
    ),
    Scenario(
        name="cursus-heartbeat",
        about="HEARTBEAT of a member of a group",
        load=heartbeat,
        port="cursus",
        connections=50,
        depth=64,
        on=("memory",),
        echo="echo-50x64/echo",
    ),
    Scenario(
        name="pipe-produce",
        about="PRODUCE, one record a line",
        load=pipe_produce,
        port="pipe",
        connections=8,
        depth=64,
        records=1,
        stores=True,
        on=GATEWAY,
        echo="echo-8x64/echo",
    ),
    Scenario(
        name="pipe-offset",
        about="OFFSET, as cheap as a heartbeat",
        load=pipe_offset,
        port="pipe",
        connections=50,
        depth=64,
        on=("memory",),
        echo="echo-50x64/echo",
    ),
)


def rows(only: tuple[str, ...] = ()) -> list[Row]:
    """Every row, or those whose name has one of these in it."""
    every = [Row(scenario, target) for scenario in SCENARIOS for target in scenario.on]
    return [row for row in every if not only or any(part in row.name for part in only)]


# -- carrying one out


def measure(row: Row, terms: Terms) -> Sample:
    """One row, once, on a server of its own that has seen nothing before.  Raises BenchFailed."""
    with tempfile.TemporaryDirectory(prefix="gateway-bench-", dir=terms.directory) as made:
        directory = Path(made)
        if row.target == "file":
            return _append(row.scenario, directory, terms)
        server_cpu, load_cpu = _cores(row)
        with children.serving(_command(row.target, directory), directory, server_cpu) as server:
            measured = _drive(row.scenario, server, terms, load_cpu)
    return _sample(row.scenario, measured)


def _command(target: Target, directory: Path) -> list[str]:
    if target == "echo":
        return children.echo()
    return children.gateway("memory" if target == "memory" else f"sqlite:{directory / 'gateway'}")


def _cores(row: Row) -> tuple[int | None, int | None]:
    """Where server and load run.  One request at a time is twice as fast if the scheduler happens to put both on one
    core, and rounds then differ by a factor of two; apart they agree within a few percent."""
    cores = sorted(os.sched_getaffinity(0))
    apart = row.scenario.apart and row.target != "sqlite" and len(cores) > 1
    return (cores[0], cores[1]) if apart else (None, None)


def _append(scenario: Scenario, directory: Path, terms: Terms) -> Sample:
    body = frames.cursus_batch(TOPIC, 0, scenario.records)[4:]
    count, took = disk.appends(body, directory, terms.seconds)
    return Sample(count * scenario.records / (sum(took) / 1e9), took)


def _drive(scenario: Scenario, server: children.Server, terms: Terms, cpu: int | None) -> list[Measured]:
    ports = server.ports()
    with Control(ports.get("cursus", 0)) as control:
        load = scenario.load(control, scenario.connections)
        job = Job(
            port=ports[scenario.port],
            rings=load.rings,
            tally=load.tally,
            depth=scenario.depth,
            warmup=min(WARMUP, terms.seconds),
            seconds=terms.seconds,
            every=max(1, scenario.depth // 4),
            server=server.process,
            cpu=cpu,
        )
        measured = children.generate(job, terms.generators)
        if scenario.stores:
            _check_stored(control.stored(), scenario.records * sum(part.total for part in measured))
    return measured


def _check_stored(stored: int, acknowledged: int) -> None:
    if stored != acknowledged:
        raise BenchFailed(f"{acknowledged} records were acknowledged and {stored} are stored")


def _sample(scenario: Scenario, measured: list[Measured]) -> Sample:
    return Sample(
        rate=sum(part.replies / part.seconds for part in measured) * (scenario.records or 1),
        latencies=[latency for part in measured for latency in part.latencies],
        server_cpu=sum(part.server_cpu for part in measured) / len(measured),
        generator_cpu=sum(part.generator_cpu for part in measured),
    )
