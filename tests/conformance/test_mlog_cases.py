"""The cases of mlog: they can be read, our gateway meets them, and it is known which statements none exercises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.judged import subject
from conformance.met import judged, misplaced, of_server, unmet, untried
from gateway.conformance.playing import WAYS
from system.loops import Loop
from system.processes import GatewayProcess

UNTRIED = {
    "MLG-S66": "other cases make topics at the same time",
    "MLG-S90": "it takes five minutes",
    "MLG-S91": "it takes 4 MiB of records",
    "MLG-S92": "a single node leads everything, and no request makes it fail within",
}
"""Statements that no case exercises, and why."""

OTHER = {
    "strict_close": True,
    "fetch_zero_is_committed": False,
    "strict_replicas": True,
    "fetch_stream": True,
    "node_id": "node-7",
}
"""Settings of a listener, each another one than it has by itself."""

NEEDY = ["MLG-1.3.2", "MLG-1.3.3", "MLG-1.3.4", "MLG-1.3.5", "MLG-1.5.3", "MLG-1.7.7", "MLG-3.2.1"]
"""Cases that need such a listener."""


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop() as loop:
        yield loop


def test_our_gateway_meets_every_case_in_all_ways(loop: Loop, tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, "mlog", backend="memory") as gateway:
        results = judged(loop, subject(loop, "mlog", gateway.ports["mlog"]), of_server("mlog"))
    assert unmet(results) == []
    assert [each.case.id for each in results if each.verdict != "PASS"] == NEEDY
    assert all({ruling.way for ruling in each.rulings} == set(WAYS) for each in results if each.case.id not in NEEDY)
    assert len(results) >= 80


def test_our_gateway_meets_every_must_on_disk(loop: Loop, tmp_path: Path) -> None:
    asked = [case for case in of_server("mlog") if case.level == "MUST"]
    with GatewayProcess(tmp_path, "mlog", backend="sqlite:records") as gateway:
        assert unmet(judged(loop, subject(loop, "mlog", gateway.ports["mlog"]), asked, ("whole", "merged"))) == []


def test_a_listener_with_other_settings_meets_the_cases_that_need_it(loop: Loop, tmp_path: Path) -> None:
    asked = [case for case in of_server("mlog") if case.id in NEEDY]
    with GatewayProcess(tmp_path, "mlog", backend="memory", settings={"mlog": OTHER}) as gateway:
        results = judged(loop, subject(loop, "mlog", gateway.ports["mlog"], **OTHER), asked)
    assert unmet(results) == []
    assert [each.verdict for each in results] == ["PASS"] * len(NEEDY)


def test_it_is_known_which_statements_no_case_exercises() -> None:
    assert untried("mlog") == set(UNTRIED)


def test_what_a_must_exercises_is_a_must() -> None:
    assert misplaced("mlog") == []
