"""The cases of pipe: they can be read, our gateway meets them, and it is known which statements none exercises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.judged import subject
from conformance.met import judged, misplaced, of_server, unmet, untried
from gateway.conformance.playing import WAYS
from system.loops import Loop
from system.processes import GatewayProcess

LONG = "PIP-1.4.1"
"""Our gateway says why it hangs up on a long line; Flux hangs up."""

UNTRIED = {"PIP-S38": "it is about records that were written in another dialect"}


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop() as loop:
        yield loop


@pytest.mark.parametrize("backend", ["memory", "sqlite:records"])
def test_our_gateway_meets_every_case_in_all_ways(loop: Loop, tmp_path: Path, backend: str) -> None:
    with GatewayProcess(tmp_path, "pipe", backend=backend) as gateway:
        results = judged(loop, subject(loop, "pipe", gateway.ports["pipe"]), of_server("pipe"))
    assert unmet(results, [LONG]) == []
    assert [(each.case.id, each.verdict) for each in results if each.verdict != "PASS"] == [(LONG, "LENIENT")]
    assert all({ruling.way for ruling in each.rulings} == set(WAYS) for each in results if not each.case.whole)
    assert len(results) >= 50


def test_partitions_that_a_case_counts_on_are_those_of_the_listener(loop: Loop, tmp_path: Path) -> None:
    counting = [case for case in of_server("pipe") if case.needs == {"partitions": 3}]
    with GatewayProcess(tmp_path, "pipe", backend="memory", settings={"pipe": {"partitions": 5}}) as gateway:
        found = subject(loop, "pipe", gateway.ports["pipe"], partitions=5)
        assert {each.verdict for each in judged(loop, found, counting, ("whole",))} == {"INFO"}
        others = [case for case in of_server("pipe") if not case.needs]
        assert unmet(judged(loop, found, others, ("whole",)), [LONG]) == []


def test_it_is_known_which_statements_no_case_exercises() -> None:
    assert untried("pipe") == set(UNTRIED)


def test_what_a_must_exercises_is_a_must() -> None:
    assert misplaced("pipe") == []
