"""gateway.bench.figures: what is quoted of the rounds, and against what."""

from __future__ import annotations

import pytest

from gateway.bench.figures import GOALS, Figure, Goal, figure, percentile, ratio, spread, verdict, verdicts
from gateway.bench.loads import Load
from gateway.bench.measuring import Sample
from gateway.bench.rows import SCENARIOS, rows
from gateway.bench.scenario import Row, Scenario
from gateway.bench.tally import Marked

OURS = Scenario(
    name="ours",
    about="",
    load=lambda control, connections: Load([], Marked(b"x")),
    port="cursus",
    connections=1,
    depth=1,
    records=100,
    on=("sqlite", "memory"),
    echo="theirs/echo",
    file="disk/file",
)


def samples(*rates: float) -> list[Sample]:
    return [Sample(rate, [number * 1000 for number in range(1, 101)], server_cpu=0.5) for rate in rates]


def quoted(row: str, rate: float, p50: float = 0.0, p99: float = 0.0) -> Figure:
    return Figure(row, "requests/s", rate, [rate], p50, p99, [p50], [p99], None, None, 0.0, 0.0, 0.0)


def test_a_percentile_is_in_microseconds_and_is_one_of_the_latencies() -> None:
    latencies = [1000 * number for number in range(100, 0, -1)]
    assert percentile(latencies, 0.5) == 51
    assert percentile(latencies, 0.99) == 100
    assert percentile([7000], 0.99) == 7
    assert percentile([], 0.5) == 0


def test_a_ratio_is_taken_within_each_round() -> None:
    assert ratio([10, 100, 30], [10, 50, 10]) == 2  # 1, 2 and 3; the medians themselves are 30 and 10
    assert ratio([10], []) is None
    assert ratio([10], None) is None


def test_spread_is_a_part_of_the_median() -> None:
    assert spread([90, 100, 120]) == pytest.approx(0.3)


def test_a_figure_quotes_medians_and_both_ratios() -> None:
    measured = {
        "ours/sqlite": samples(100, 300, 200),
        "theirs/echo": samples(1000, 1000, 1000),
        "disk/file": samples(50, 50, 50),
    }
    one = figure(Row(OURS, "sqlite"), measured)
    assert (one.rate, one.p50, one.p99, one.server_cpu) == (200, 51, 100, 0.5)
    assert (one.to_echo, one.to_file) == (pytest.approx(0.2), 4)
    assert one.cpu_each == pytest.approx(250_000)  # half a core for two requests of 100 records a second
    assert one.unit == "records/s"


def test_only_durable_rows_are_compared_with_the_file_and_a_missing_reference_is_none() -> None:
    one = figure(Row(OURS, "memory"), {"ours/memory": samples(100), "disk/file": samples(50)})
    assert (one.to_echo, one.to_file) == (None, None)


@pytest.mark.parametrize(("rate", "met"), [(0.1, "missed"), (0.15, "floor"), (0.2, "floor"), (0.25, "aim")])
def test_a_rate_meets_a_goal_from_its_floor_and_its_aim_on(rate: float, met: str) -> None:
    goal = Goal(5, "", "a", "b", "rate", 0.15, 0.25)
    assert verdict(goal, quoted("a", rate), quoted("b", 1.0)).met == met


@pytest.mark.parametrize(
    ("p99", "met"), [(160, "missed"), (150, "floor"), (121, "floor"), (120, "aim"), (90, "unclear")]
)
def test_added_latency_meets_a_goal_up_to_its_floor_and_its_aim(p99: float, met: str) -> None:
    goal = Goal(7, "", "a", "b", "p99", 50, 20)
    assert verdict(goal, quoted("a", 1, 1, p99), quoted("b", 1, 1, 100)).met == met


def test_goals_are_judged_only_where_both_rows_were_measured() -> None:
    goal = Goal(5, "", "a", "b", "rate", 0.15, 0.25)
    assert verdicts([quoted("a", 1)], [goal]) == []
    assert [one.goal for one in verdicts([quoted("a", 1), quoted("b", 2)], [goal])] == [goal]


def test_every_reference_of_a_scenario_or_a_goal_is_a_row() -> None:
    names = {row.name for row in rows()}
    assert {one for scenario in SCENARIOS for one in (scenario.echo, scenario.file) if one} <= names
    assert {one for goal in GOALS for one in (goal.row, goal.against)} <= names


def test_a_ratio_compares_rows_that_count_the_same_under_the_same_load() -> None:
    by_name = {row.name: row for row in rows()}
    for row in by_name.values():
        echo = by_name.get(row.scenario.echo)
        if echo is not None:
            assert (row.scenario.connections, row.scenario.depth) == (echo.scenario.connections, echo.scenario.depth)
            assert max(row.scenario.records, 1) == max(echo.scenario.records, 1)


def test_reading_in_another_dialect_is_compared_under_the_same_load() -> None:
    by_name = {row.name: row for row in rows()}
    crossing = [(by_name[goal.row], by_name[goal.against]) for goal in GOALS if goal.number == 9]
    assert {cross.scenario.port for cross, _ in crossing} == {"iggy", "cursus"}  # both ways
    for cross, same in crossing:
        assert cross.scenario.port != same.scenario.port
        for field in ("connections", "depth", "records"):
            assert getattr(cross.scenario, field) == getattr(same.scenario, field)
