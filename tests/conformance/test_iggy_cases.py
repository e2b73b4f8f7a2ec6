"""The cases of Iggy: they can be read, our gateway meets them, and it is known which statements none exercises."""

from __future__ import annotations

import subprocess
import sys
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

LONG = ["IGY-1.4.1", "IGY-1.4.2"]
"""Our gateway says why it hangs up on a length that is too long; whether anything is said is not prescribed."""

UNTRIED = {
    "IGY-S68": "it takes 10 MiB",
    "IGY-S69": "it takes 400 headers",
    "IGY-S74": "that bytes are not those of another message cannot be said",
}

SECRET = "correct-horse"


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop() as loop:
        yield loop


def test_our_gateway_meets_every_case_in_all_ways(loop: Loop, tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, "iggy", backend="memory") as gateway:
        results = judged(loop, subject(loop, "iggy", gateway.ports["iggy"]), of_server("iggy"))
    assert unmet(results, LONG) == []
    assert [(each.case.id, each.verdict) for each in results if each.verdict != "PASS"] == [
        (id, "LENIENT") for id in LONG
    ]
    assert all({ruling.way for ruling in each.rulings} == set(WAYS) for each in results)
    assert len(results) >= 240


def test_our_gateway_meets_every_must_on_disk(loop: Loop, tmp_path: Path) -> None:
    asked = [case for case in of_server("iggy") if case.level == "MUST"]
    with GatewayProcess(tmp_path, "iggy", backend="sqlite:records") as gateway:
        found = subject(loop, "iggy", gateway.ports["iggy"])
        assert unmet(judged(loop, found, asked, ("merged",))) == []


@pytest.mark.parametrize(("generation", "least"), [("g0", 70), ("g2c", 130)])
def test_a_listener_of_one_generation_is_asked_what_it_speaks(
    loop: Loop, tmp_path: Path, generation: str, least: int
) -> None:
    with GatewayProcess(tmp_path, "iggy", backend="memory", settings={"iggy": {"generation": generation}}) as gateway:
        found = subject(loop, "iggy", gateway.ports["iggy"], generation=generation)
        results = judged(loop, found, of_server("iggy"), ("whole",))
    assert unmet(results, LONG) == []
    assert sum(each.verdict == "PASS" for each in results) >= least
    spoken = [each.case.settings.get("generation", "auto") for each in results if each.rulings]
    assert set(spoken) <= {generation, "auto"}


def test_where_one_has_to_log_in_our_gateway_meets_the_cases_of_that(loop: Loop, tmp_path: Path) -> None:
    asked = [case for case in load("iggy") if "login" in case.needs]
    users = f'[users.ann]\npassword = "{new_password(SECRET, log_n=4).text()}"\n'
    text = 'backend.spec = "memory"\n' + listener("iggy", auth='"required"') + users
    with Configured(tmp_path, text) as gateway:
        guest = subject(loop, "iggy", gateway.ports["iggy"])
        named = msgspec.structs.replace(guest, login=Authenticate("plain", "ann", SECRET), guest=False)
        results = judged(loop, named, asked)
        left_out = judged(loop, guest, asked)
    assert unmet(results) == []
    assert [each.verdict for each in results] == ["PASS"] * 8
    assert {(each.verdict, each.rulings) for each in left_out} == {("INFO", ())}, "nobody said who may log in"


def test_who_names_no_user_is_not_told_that_a_server_with_guests_does_not_look_at_logins(tmp_path: Path) -> None:
    [id, *_] = [case.id for case in load("iggy") if "login" in case.needs]
    with GatewayProcess(tmp_path, "iggy", backend="memory") as gateway:
        asked = ["--dialect", "iggy", "--connect", f"tcp:127.0.0.1:{gateway.ports['iggy']}", "--case", id]
        command = [sys.executable, "-m", "gateway.cli", "conformance", "server", *asked]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith(f"INFO          {id}"), done.stdout + done.stderr
    assert done.returncode == 0


def test_it_is_known_which_statements_no_case_exercises() -> None:
    assert untried("iggy") == set(UNTRIED)


def test_what_a_must_exercises_is_a_must() -> None:
    assert misplaced("iggy") == []
