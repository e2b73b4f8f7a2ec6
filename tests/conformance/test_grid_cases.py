"""The cases of the grid: they can be read, our gateway meets them, and it is known which statements none exercises."""

from __future__ import annotations

import tomllib
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

UNTRIED = {
    "GRD-S25": "a single node leads everything",
    "GRD-S26": "when a server has too much to do is its own business",
    "GRD-S27": "no request makes a server fail within",
    "GRD-S55": "it takes a minute",
    "GRD-S104": "when messages that are too old go is the server's business",
}
"""Statements that no case exercises, and why."""

OTHERS = {
    "pushing": """
    compression = ["lz4", "zstd"]
    topic_push = true
    put_returns = "previous"
    ttl_mode = "value_suffix_i64"
    sender_len_width = 1
    opcodes = { CLUSTER_PING = 122 }
    """,
    "tagging": """
    value_codec = "loom_tagged"
    ttl_mode = "none"
    sender_len_width = 4
    """,
}
"""Settings of listeners, each another one than it has by itself."""

NEEDY = {
    "pushing": [
        *("GRD-1.4.2", "GRD-1.4.6", "GRD-3.1.2", "GRD-3.1.16"),
        *(f"GRD-2.2.{number}" for number in range(1, 7)),
        *(f"GRD-3.3.{number}" for number in range(9, 12)),
    ],
    "tagging": ["GRD-1.4.3", "GRD-3.1.17", "GRD-3.1.25"],
}
"""The cases that need such a listener."""

SECRET = "correct-horse"


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop() as loop:
        yield loop


def test_our_gateway_meets_every_case_in_all_ways(loop: Loop, tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, "grid", backend="memory") as gateway:
        results = judged(loop, subject(loop, "grid", gateway.ports["grid"]), of_server("grid"))
    needy = {id for ids in NEEDY.values() for id in ids}
    assert unmet(results) == []
    assert {each.case.id for each in results if each.verdict != "PASS"} == needy
    assert all(
        {ruling.way for ruling in each.rulings} == set(WAYS)
        for each in results
        if not each.case.whole | (each.case.id in needy)
    )
    assert len(results) >= 120


def test_listeners_with_other_settings_meet_the_cases_that_need_them(loop: Loop, tmp_path: Path) -> None:
    sections = [listener("grid").replace("[listener.grid]", f"[listener.{name}]") + OTHERS[name] for name in OTHERS]
    with Configured(tmp_path, 'backend.spec = "memory"\n' + "".join(sections)) as gateway:
        ports = [int(line.rpartition(":")[2]) for line in gateway.said if line.startswith("listening grid ")]
        for seed, (name, port) in enumerate(zip(OTHERS, ports, strict=True)):
            asked = [case for case in of_server("grid") if case.id in NEEDY[name]]
            results = judged(loop, subject(loop, "grid", port, **tomllib.loads(OTHERS[name])), asked, seed=seed)
            assert unmet(results) == []
            assert [each.verdict for each in results] == ["PASS"] * len(NEEDY[name])


def test_our_gateway_meets_every_must_on_disk(loop: Loop, tmp_path: Path) -> None:
    asked = [case for case in of_server("grid") if case.level == "MUST"]
    with GatewayProcess(tmp_path, "grid", backend="sqlite:records") as gateway:
        assert unmet(judged(loop, subject(loop, "grid", gateway.ports["grid"]), asked, ("whole", "merged"))) == []


def test_where_one_has_to_log_in_our_gateway_meets_the_cases_of_that(loop: Loop, tmp_path: Path) -> None:
    asked = [case for case in load("grid") if case.needs.get("login")]
    users = f'[users.ann]\npassword = "{new_password(SECRET, log_n=4).text()}"\n'
    text = 'backend.spec = "memory"\n' + listener("grid", auth='"required"') + users
    with Configured(tmp_path, text) as gateway:
        met = subject(loop, "grid", gateway.ports["grid"])
        results = judged(loop, msgspec.structs.replace(met, login=Authenticate("plain", "ann", SECRET)), asked)
    assert unmet(results) == []
    assert [each.verdict for each in results] == ["PASS"] * 4


def test_it_is_known_which_statements_no_case_exercises() -> None:
    assert untried("grid") == set(UNTRIED)


def test_what_a_must_exercises_is_a_must() -> None:
    assert misplaced("grid") == []
