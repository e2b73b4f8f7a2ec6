"""Real clients that do what client cases ask for, against a gateway that runs: no kit is in between."""

from __future__ import annotations

import json
import os
import random
import re
import string
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from gateway import dialects
from gateway.conformance.cases import Case, load
from gateway.conformance.expressions import evaluate
from gateway.conformance.prompts import calls_of, filled, said
from gateway.core.commands import Command
from gateway.core.faults import CommandFailed
from gateway.core.records import registry
from system.processes import ROOT, GatewayProcess
from system.speaking import Speaking

CLIENTS = ROOT / ".venv/clients"
KIT = ROOT / "tests/conformance/driven.py"
SECONDS = 60.0
"""For one case; a Cursus producer takes two."""

LINGER = 0.8
"""Seconds for which a client stays when it has done everything: cases want silence for up to 0.6."""

AT_ONCE = 4

ENCODINGS = registry(each for name in dialects.names() for each in dialects.load(name).encodings)


def cases(dialect: str, *ids: str) -> list[Case]:
    found = [case for case in load(dialect) if case.id in ids]
    assert len(found) == len(ids), "there are such cases"
    return found


def begin_kit(client: str, some: Sequence[Case]) -> subprocess.Popen[str]:
    """The kit has that client do them; what it says at its end is {id: [verdict, why]} as JSON."""
    driver = client.partition("==")[0].replace("-", "_")
    words = [some[0].dialect, driver, str(CLIENTS / client), "whole", *(case.id for case in some)]
    return subprocess.Popen([sys.executable, str(KIT), *words], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def do_all(running: GatewayProcess, client: str, some: Sequence[Case]) -> None:
    """What they ask for, each by a client of its own, under names of its own; and the gateway has what they need."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda case: _do(running, client, case), some))


def _do(running: GatewayProcess, client: str, case: Case) -> None:
    dice = random.Random(case.id)
    letters = string.ascii_lowercase + string.digits
    names = {name: re.sub(r"\?", lambda _: dice.choice(letters), text).encode() for name, text in case.names.items()}
    with Speaking("native", running.ports["native"]) as native:
        for expression in case.given:
            outcome = native.ask(cast(Command, evaluate(said(expression, names), ENCODINGS)))
            assert not isinstance(outcome, CommandFailed), (case.id, expression, outcome)
    calls = [*(filled(call, names) for call in calls_of(case)), {"call": "wait", "seconds": LINGER}]
    _drive(running.ports[case.dialect], client, case.dialect, calls)


def _drive(port: int, client: str, dialect: str, calls: Sequence[object]) -> None:
    module = f"gateway.conformance.drivers.{client.partition('==')[0].replace('-', '_')}"
    imports = os.pathsep.join(map(str, (CLIENTS / client, ROOT)))
    driver = subprocess.Popen(
        [sys.executable, "-P", "-m", module, f"127.0.0.1:{port}", dialect, "{}"],
        env={**os.environ, "PYTHONPATH": imports, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        heard = driver.communicate("".join(f"{json.dumps(call)}\n" for call in calls), timeout=SECONDS)[0]
    finally:
        driver.kill()
        driver.wait()
    assert heard.count("\n") == len(calls) + 1, f"an introduction, and a line for each call: {heard}"
