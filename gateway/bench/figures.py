"""The arithmetic of the table: percentiles, medians over rounds, ratios within a round, and the goals."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from gateway.bench.measuring import Sample
from gateway.bench.scenario import Row


class Figure(msgspec.Struct, frozen=True):
    """One row over all rounds; every field is the median of the rounds.

    rate:     records or requests per second, `rates` those of each round.
    p50, p99: latency, us; `p50s` and `p99s` those of each round.
    to_echo, to_file: this rate to that of the reference row in the same round, None = not measured or not comparable.
    cpu_each: the server's CPU time for one request, us: what changes least when the machine is shared.
    server_cpu, generator_cpu: cores busy.
    """

    row: str
    unit: str
    rate: float
    rates: list[float]
    p50: float
    p99: float
    p50s: list[float]
    p99s: list[float]
    to_echo: float | None
    to_file: float | None
    cpu_each: float
    server_cpu: float
    generator_cpu: float


class Goal(msgspec.Struct, frozen=True):
    """One line of the last table of design/performance.md.

    number:  its number there, 0 = it is not one of them.
    of:      `rate`: ours to the reference's, more is better; `p50`, `p99`: us added to the reference's, less is better;
             `times`: ours to the reference's p50, less is better.
    """

    number: int
    about: str
    row: str
    against: str
    of: Literal["rate", "p50", "p99", "times"]
    floor: float
    aim: float


class Verdict(msgspec.Struct, frozen=True):
    """How a goal was met; unclear: nothing answers faster than the echo, so something else held the echo up."""

    goal: Goal
    value: float
    met: Literal["aim", "floor", "missed", "unclear"]


GOALS = (
    Goal(2, "durable batches : plain file", "cursus-batch/sqlite", "file-batch/file", "rate", 2.5, 5),
    Goal(5, "single records in memory : echo", "cursus-single/memory", "echo-8x64/echo", "rate", 0.15, 0.25),
    Goal(6, "cursus HEARTBEAT : echo", "cursus-heartbeat/memory", "echo-50x64/echo", "rate", 0.25, 0.4),
    Goal(6, "pipe OFFSET : echo", "pipe-offset/memory", "echo-50x64/echo", "rate", 0.25, 0.4),
    Goal(6, "iggy PING : echo", "iggy-ping/memory", "echo-50x64/echo", "rate", 0.25, 0.4),
    Goal(6, "grid map reads : echo", "grid-get/memory", "echo-8x64/echo", "rate", 0.25, 0.4),
    Goal(7, "ping-pong, p50 added to echo, us", "cursus-ping-pong/memory", "echo-ping-pong/echo", "p50", 20, 8),
    Goal(7, "ping-pong, p99 added to echo, us", "cursus-ping-pong/memory", "echo-ping-pong/echo", "p99", 50, 20),
    Goal(9, "cursus to iggy : to cursus", "iggy-poll-100-of-cursus/memory", "cursus-fetch/memory", "rate", 0.25, 0.45),
    Goal(9, "iggy to cursus : to iggy", "cursus-fetch-of-iggy/memory", "iggy-poll-100/memory", "rate", 0.25, 0.45),
    Goal(0, "captured : not, batches", "cursus-batch/captured-sqlite", "cursus-batch/sqlite", "rate", 0.85, 0.95),
    Goal(0, "captured : not, batches, memory", "cursus-batch/captured", "cursus-batch/memory", "rate", 0.85, 0.95),
    Goal(0, "captured : not, single", "cursus-single/captured-sqlite", "cursus-single/sqlite", "rate", 0.85, 0.95),
    Goal(0, "captured : not, single, memory", "cursus-single/captured", "cursus-single/memory", "rate", 0.85, 0.95),
    Goal(0, "captured : not, map reads", "grid-get/captured", "grid-get/memory", "rate", 0.85, 0.95),
    Goal(0, "two hops : one, p50 of a write", "cursus-ping-pong/remote", "cursus-ping-pong/memory", "times", 2.5, 2),
    Goal(0, "two hops : one, p50 of a read", "grid-get-ping-pong/remote", "grid-get-ping-pong/memory", "times", 2.5, 2),
)


def percentile(latencies: Sequence[int], part: float) -> float:
    """The value that `part` (0..1) of the latencies (ns) do not exceed, in us; 0 where there are none."""
    if not latencies:
        return 0.0
    ranked = sorted(latencies)
    return ranked[min(len(ranked) - 1, int(part * len(ranked)))] / 1000


def ratio(ours: Sequence[float], theirs: Sequence[float] | None) -> float | None:
    """The median over the rounds of ours to theirs, each within its round; None without a reference."""
    if not ours or not theirs:
        return None
    return statistics.median(our / their for our, their in zip(ours, theirs, strict=True))


def spread(rates: Sequence[float]) -> float:
    """How far the rounds lie apart, as a part of their median."""
    return (max(rates) - min(rates)) / statistics.median(rates)


def figure(row: Row, samples: Mapping[str, Sequence[Sample]]) -> Figure:
    """What is quoted of a row.  samples: by row name, those of each round in order."""
    own, records = samples[row.name], row.scenario.records or 1
    rates = [sample.rate for sample in own]
    p50s, p99s = ([percentile(sample.latencies, part) for sample in own] for part in (0.50, 0.99))

    def against(name: str) -> float | None:
        return ratio(rates, [sample.rate for sample in samples.get(name, ())])

    return Figure(
        row=row.name,
        unit=row.unit,
        rate=statistics.median(rates),
        rates=rates,
        p50=statistics.median(p50s),
        p99=statistics.median(p99s),
        p50s=p50s,
        p99s=p99s,
        to_echo=against(row.scenario.echo),
        to_file=against(row.scenario.file) if row.target == "sqlite" else None,
        cpu_each=statistics.median(sample.server_cpu * records / sample.rate * 1e6 for sample in own),
        server_cpu=statistics.median(sample.server_cpu for sample in own),
        generator_cpu=statistics.median(sample.generator_cpu for sample in own),
    )


def verdicts(figures: Sequence[Figure], goals: Sequence[Goal] = GOALS) -> list[Verdict]:
    """How the goals whose two rows were both measured were met."""
    by_name = {figure.row: figure for figure in figures}
    return [
        verdict(goal, by_name[goal.row], by_name[goal.against])
        for goal in goals
        if goal.row in by_name and goal.against in by_name
    ]


def verdict(goal: Goal, ours: Figure, theirs: Figure) -> Verdict:
    """How one goal was met."""
    if goal.of == "rate":
        share = ratio(ours.rates, theirs.rates) or 0.0
        return Verdict(goal, share, "aim" if share >= goal.aim else "floor" if share >= goal.floor else "missed")
    if goal.of == "times":
        times = ratio(ours.p50s, theirs.p50s) or 0.0
        return Verdict(goal, times, "aim" if times <= goal.aim else "floor" if times <= goal.floor else "missed")
    own, reference = (ours.p50s, theirs.p50s) if goal.of == "p50" else (ours.p99s, theirs.p99s)
    added = statistics.median(mine - plain for mine, plain in zip(own, reference, strict=True))
    if added < 0:
        return Verdict(goal, added, "unclear")
    return Verdict(goal, added, "aim" if added <= goal.aim else "floor" if added <= goal.floor else "missed")
