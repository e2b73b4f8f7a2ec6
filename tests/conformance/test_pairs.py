"""Every pair of dialects through a running gateway: what survives is what is declared."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from twisted.internet.defer import Deferred

from conformance.judged import subject
from gateway.conformance.pairs import Pair, Survived
from gateway.conformance.reporting import read
from gateway.conformance.servers import Subject
from gateway.dialects import names
from gateway.dialects.fidelity import FIELDS, KEPT, UNSAID
from system.loops import Loop
from system.processes import ROOT, GatewayProcess

ITS = {"iggy": {"generation": "g2c"}}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("pairs"), *names(), backend="memory", settings=ITS) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop() as loop:
        yield loop


def judged(loop: Loop, writer: Subject, reader: Subject, seed: int = 0) -> dict[str, Survived]:
    async def all_fields() -> dict[str, Survived]:
        return {each.field: each async for each in pair.judged()}

    pair = loop.call(Pair, writer, reader, seed)
    try:
        return loop.call(lambda: Deferred.fromCoroutine(all_fields()))
    finally:
        loop.call(pair.close)


@pytest.mark.parametrize("reader", names())
@pytest.mark.parametrize("writer", names())
def test_what_survives_is_what_is_declared(gateway: GatewayProcess, loop: Loop, writer: str, reader: str) -> None:
    ends = [subject(loop, name, gateway.ports[name], **ITS.get(name, {})) for name in (writer, reader)]
    found = judged(loop, *ends, seed=names().index(writer) * 10 + names().index(reader))
    assert list(found) == list(FIELDS)
    assert [each for each in found.values() if each.verdict not in ("PASS", "INFO")] == []
    assert found["value"].verdict == "PASS"


def test_what_is_lost_against_the_declaration_fails(gateway: GatewayProcess, loop: Loop) -> None:
    pipe, mlog = (subject(loop, name, gateway.ports[name]) for name in ("pipe", "mlog"))
    assert mlog.dialect.fidelity is not None
    boast = msgspec.structs.replace(mlog.dialect.fidelity, reading=dict(mlog.dialect.fidelity.reading) | {"key": KEPT})
    boaster = msgspec.structs.replace(mlog, dialect=msgspec.structs.replace(mlog.dialect, fidelity=boast))
    found = judged(loop, pipe, boaster, seed=100)
    assert [each.field for each in found.values() if each.verdict == "FAIL"] == ["key"]
    assert (found["key"].sent, found["key"].seen) == ("b'k'", "None")


def test_the_command_says_what_became_of_each_field(gateway: GatewayProcess, tmp_path: Path) -> None:
    ends = [
        f"--write=cursus=tcp:127.0.0.1:{gateway.ports['cursus']}",
        f"--read=pipe=tcp:127.0.0.1:{gateway.ports['pipe']}",
    ]
    command = [sys.executable, "-m", "gateway.cli", "conformance", "pair", *ends, "--report", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines[: len(FIELDS)]] == list(FIELDS)
    [said] = read(tmp_path / "report.json").pairs
    assert {at.field for at in said.fields if at.declared == UNSAID.way} and (tmp_path / "index.html").exists()


def test_where_nobody_answers_that_is_said() -> None:
    ends = ["--write=cursus=tcp:127.0.0.1:1", "--read=pipe=tcp:127.0.0.1:1"]
    command = [sys.executable, "-m", "gateway.cli", "conformance", "pair", *ends]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "cannot be reached" in done.stderr) == (3, True)
