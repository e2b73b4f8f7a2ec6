"""One row, measured once: a fresh server, the load, and a look at what was really stored."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

import msgspec

from gateway.bench import BenchFailed, children, disk, frames
from gateway.bench.control import TOPIC, Control
from gateway.bench.generator import Job, Measured
from gateway.bench.scenario import Row, Scenario, Target
from gateway.capture.rows import captures
from gateway.capture.sheets import requests as count_requests

WARMUP = 0.5
"""Seconds before the measured time, at most."""


CAPTURED = 0.95
"""Of all requests, at least: what a capture drops on a machine that has too much to do costs it nothing."""


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
    kafka:     `host:port` of a broker; its topic `bench` is made and deleted again.
    """

    directory: Path
    seconds: float = 2.0
    generators: int = 1
    kafka: str = ""


def measure(row: Row, terms: Terms) -> Sample:
    """One row, once, on a server of its own that has seen nothing before.  Raises BenchFailed."""
    with tempfile.TemporaryDirectory(prefix="gateway-bench-", dir=terms.directory) as made:
        directory = Path(made)
        if row.target == "file":
            return _append(row.scenario, directory, terms)
        server_cpu, load_cpu = _cores(row)
        with ExitStack() as servers:
            command = _command(row.target, directory, terms, servers, server_cpu)
            server = servers.enter_context(children.serving(command, directory, server_cpu))
            measured = _drive(row, server, terms, load_cpu)
        if row.target in ("captured", "captured-sqlite"):
            _check_captured(directory / "captured", sum(part.total for part in measured))
    return _sample(row.scenario, measured)


def _command(target: Target, directory: Path, terms: Terms, servers: ExitStack, cpu: int | None) -> list[str]:
    """What starts the server, beside which others may have been started."""
    match target:
        case "echo":
            return children.echo()
        case "memory":
            return children.gateway("memory")
        case "captured":
            return children.gateway("memory", capture=directory / "captured")
        case "captured-sqlite":
            return children.gateway(f"sqlite:{directory / 'gateway'}", capture=directory / "captured")
        case "kafka":
            return children.gateway(f"kafka:{terms.kafka}")
        case "remote":
            behind = directory / "upstream"
            behind.mkdir()
            upstream = servers.enter_context(children.serving(children.gateway("memory", ["native"]), behind, cpu))
            return children.gateway(f"remote:native=tcp:127.0.0.1:{upstream.ports()['native']}")
    return children.gateway(f"sqlite:{directory / 'gateway'}")


def _cores(row: Row) -> tuple[int | None, int | None]:
    """Where server and load run.  One request at a time is twice as fast if the scheduler happens to put both on one
    core, and rounds then differ by a factor of two; apart they agree within a few percent."""
    cores = sorted(os.sched_getaffinity(0))
    apart = row.scenario.apart and row.target not in ("sqlite", "captured-sqlite", "kafka") and len(cores) > 1
    return (cores[0], cores[1]) if apart else (None, None)


def _append(scenario: Scenario, directory: Path, terms: Terms) -> Sample:
    body = frames.cursus_batch(TOPIC, 0, scenario.records)[4:]
    count, took = disk.appends(body, directory, terms.seconds)
    return Sample(count * scenario.records / (sum(took) / 1e9), took)


def _drive(row: Row, server: children.Server, terms: Terms, cpu: int | None) -> list[Measured]:
    scenario, ports = row.scenario, server.ports()
    with Control(ports) as control:
        if row.target == "kafka":  # which outlives us
            control.forget()
        load = scenario.load(control, scenario.connections)
        job = Job(
            port=ports[scenario.port],
            rings=load.rings,
            tally=load.tally,
            streams=load.streams,
            pushed=load.pushed,
            opening=load.opening,
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
        if row.target == "kafka":
            control.forget()
    return measured


def _check_stored(stored: int, acknowledged: int) -> None:
    if stored != acknowledged:
        raise BenchFailed(f"{acknowledged} records were acknowledged and {stored} are stored")


def _check_captured(directory: Path, requests: int) -> None:
    """Once the server has ended, which writes what it still has."""
    captured = sum(map(count_requests, (sheet for file in captures([directory]) for sheet in file.sheets())))
    if captured < CAPTURED * requests:
        raise BenchFailed(f"of {requests} requests {captured} were captured")


def _sample(scenario: Scenario, measured: list[Measured]) -> Sample:
    return Sample(
        rate=sum(part.replies / part.seconds for part in measured) * (scenario.records or 1),
        latencies=[latency for part in measured for latency in part.latencies],
        server_cpu=sum(part.server_cpu for part in measured) / len(measured),
        generator_cpu=sum(part.generator_cpu for part in measured),
    )
