"""gateway.conformance.drivers: real clients do what the client cases ask for, and are judged as they were before."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from gateway.conformance.cases import load, statements
from gateway.conformance.clients import WAYS
from system.processes import ROOT

PROGRAM = Path(__file__).with_name("driven.py")
CLIENTS = ROOT / ".venv/clients"
SECONDS = 400.0

SAYS_THE_SAME = {"CUR-C2.11": "LENIENT"}  # a compressed batch is read, and is no batch of the page
NO_GENERATION = {"CUR-C4.17": "FAIL"}  # LEAVE_GROUP without one, which brokers refuse
NEVER_REJOINS = dict.fromkeys(["CUR-C4.10", "CUR-C4.11", "CUR-C4.12"], "FAIL")
NEVER_COMMITS = dict.fromkeys(["CUR-C4.13", "CUR-C4.14", "CUR-C4.15", "CUR-C4.16", "CUR-C4.17"], "FAIL")
NO_CONTROL = {"CUR-C5.3": "FAIL", "CUR-C5.4": "FAIL"}  # signs of life and STREAM_CONTROL are not known

NEW_EPOCHS = dict.fromkeys(["CUR-C2.3", "CUR-C2.10", "CUR-C3.10"], "FAIL")  # the time of each record, in seconds

REAL: dict[str, dict[str, str]] = {
    "cursus-client==0.1.0": SAYS_THE_SAME | NEW_EPOCHS | NEVER_REJOINS | NEVER_COMMITS | NO_CONTROL,
    "cursus-client==0.1.1": SAYS_THE_SAME | NO_GENERATION,
    "iggy-py==0.2.6": {"IGY-C4.24": "FAIL"},
    "iggy-py==0.4.0": {"IGY-C4.24": "FAIL"},
    "apache-iggy==0.5.0": {},
    "apache-iggy==0.6.0": {},
    "apache-iggy==0.7.0": {"IGY-C1.33": "FAIL"},
    "apache-iggy==0.8.0": {"IGY-C1.33": "FAIL"},
}
"""What is no PASS, of what the client can be made to do.  C1.33 and C4.24: cut off, it goes on without logging in."""

AT_LEAST = {"cursus-client": 50, "iggy-py": 22, "apache-iggy": 29}
"""Cases that each can be made to do."""


def driven(dialect: str, driver: str, path: Path | str, *ways: str) -> dict[str, list[str]]:
    command = [sys.executable, str(PROGRAM), dialect, driver, str(path), *ways]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def drive(client: str, *ways: str) -> dict[str, list[str]]:
    dialect = "cursus" if client.startswith("cursus") else "iggy"
    return driven(dialect, client.partition("==")[0].replace("-", "_"), CLIENTS / client, *ways)


def deviations(found: dict[str, list[str]]) -> dict[str, str]:
    return {id: verdict for id, (verdict, _) in found.items() if verdict not in ("PASS", "INFO")}


@pytest.mark.parametrize(
    "client", ["cursus-client==0.1.1", "iggy-py==0.4.0", "apache-iggy==0.5.0", "apache-iggy==0.8.0"]
)
def test_a_real_client_is_judged_as_it_was_before(client: str) -> None:
    found = drive(client, "whole")
    assert deviations(found) == REAL[client], {id: why for id, (_, why) in found.items() if why}
    assert Counter(verdict != "INFO" for verdict, _ in found.values())[True] >= AT_LEAST[client.partition("==")[0]]


@pytest.mark.long
@pytest.mark.parametrize("client", REAL)
def test_every_version_is_judged_the_same_each_time_and_however_the_answers_are_cut(client: str) -> None:
    first, second = drive(client, *WAYS), drive(client, *WAYS)
    assert {id: verdict for id, (verdict, _) in first.items()} == {id: verdict for id, (verdict, _) in second.items()}
    assert deviations(first) == REAL[client], {id: why for id, (_, why) in first.items() if why}


@pytest.mark.parametrize("dialect", ["pipe", "grid", "mlog"])
def test_our_own_client_half_passes_what_it_has_words_for(dialect: str) -> None:
    found = driven(dialect, "ours", "", "whole")
    assert deviations(found) == {}, {id: why for id, (_, why) in found.items() if why}
    assert Counter(verdict for verdict, _ in found.values())["PASS"] >= 20


def test_a_driver_without_its_client_is_said_to_be_that() -> None:
    command = [sys.executable, str(PROGRAM), "cursus", "cursus_client", str(ROOT / "tests"), "whole"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode != 0 and "No module named 'cursus'" in done.stderr


@pytest.mark.parametrize(("dialect", "count"), [("cursus", 25), ("iggy", 25), ("pipe", 20), ("grid", 20), ("mlog", 20)])
def test_there_are_cases_for_clients_and_each_covers_something(dialect: str, count: int) -> None:
    cases = [case for case in load(dialect) if case.role == "client"]
    known = {statement.id for statement in statements(dialect)}
    assert len(cases) >= count
    assert all(case.covers and set(case.covers) <= known and case.ask for case in cases)
