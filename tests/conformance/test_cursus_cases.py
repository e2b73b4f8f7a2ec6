"""The cases of Cursus: they can be read, our gateway meets them, and it is known which statements none exercises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from conformance.judged import subject
from conformance.met import judged, misplaced, of_server, unmet, untried
from gateway.conformance.cases import load
from gateway.conformance.playing import WAYS
from gateway.core.commands import Authenticate
from gateway.net.users import new_password
from system.configured import Configured, listener
from system.loops import Loop
from system.processes import GatewayProcess

OPTIONAL = ["CUR-2.23.1", "CUR-2.23.2", "CUR-2.24.1", "CUR-2.24.2"]
"""Transactions and event sourcing, which are not served."""

UNTRIED = {
    "CUR-S4": "it takes 16 MiB of records",
    "CUR-S9": "it takes a minute",
    "CUR-S10": "the kit speaks no TLS",
    "CUR-S46": "when records that are too old go is the server's business",
    "CUR-S96": "rules are the server's business",
    "CUR-S136": "how to make a stream end otherwise is the server's business",
}
"""Statements that no case exercises, and why."""

SECRET = "correct-horse"


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop() as loop:
        yield loop


def test_our_gateway_meets_every_case_in_all_ways(loop: Loop, tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, "cursus", backend="memory") as gateway:
        results = judged(loop, subject(loop, "cursus", gateway.ports["cursus"]), of_server("cursus"))
    assert unmet(results, OPTIONAL) == []
    assert [each.case.id for each in results if each.verdict == "UNIMPLEMENTED"] == OPTIONAL
    assert all({ruling.way for ruling in each.rulings} == set(WAYS) for each in results if not each.case.whole)
    assert len(results) >= 120


def test_our_gateway_meets_every_must_on_disk(loop: Loop, tmp_path: Path) -> None:
    asked = [case for case in of_server("cursus") if case.level == "MUST"]
    with GatewayProcess(tmp_path, "cursus", backend="sqlite:records") as gateway:
        found = subject(loop, "cursus", gateway.ports["cursus"])
        assert unmet(judged(loop, found, asked, ("whole", "merged"))) == []


def test_where_one_has_to_log_in_our_gateway_meets_the_cases_of_that(loop: Loop, tmp_path: Path) -> None:
    asked = [case for case in load("cursus") if case.needs == {"login": True}]
    users = f'[users.ann]\npassword = "{new_password(SECRET, log_n=4).text()}"\n'
    text = 'backend.spec = "memory"\n' + listener("cursus", auth='"required"') + users
    with Configured(tmp_path, text) as gateway:
        met = subject(loop, "cursus", gateway.ports["cursus"])
        results = judged(loop, msgspec.structs.replace(met, login=Authenticate("plain", "ann", SECRET)), asked)
        nobody = judged(loop, met, asked)
    assert unmet(results) == []
    assert [each.verdict for each in results] == ["PASS"] * 4
    assert {(each.verdict, each.rulings) for each in nobody} == {("INFO", ())}, "without a login they are left out"


def test_it_is_known_which_statements_no_case_exercises() -> None:
    assert untried("cursus") == set(UNTRIED)


def test_what_a_must_exercises_is_a_must() -> None:
    assert misplaced("cursus") == []
