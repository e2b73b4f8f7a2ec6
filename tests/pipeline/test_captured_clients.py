"""Real clients do what cases of the kit ask for: a capture of it is judged as the kit judges them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from gateway.pipeline.jobs import conformance
from gateway.pipeline.traffic import heard_cases
from pipeline.doing import SECONDS, begin_kit, cases, do_all
from system.processes import COMMAND, GatewayProcess

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession


class Asked(NamedTuple):
    """What a client is made to do, and what comes of it.

    beside:    cases that are exercised on the way.
    hidden:    what a capture cannot show: a login, whose secret is not in it; an answer that our gateway does not give;
               several connections; and what is another case to the byte.
    deviating: what is no PASS, of what the capture shows.
    """

    client: str
    dialect: str
    done: tuple[str, ...]
    beside: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    deviating: dict[str, str] = {}  # noqa: RUF012  # never changed


def numbered(section: str, *numbers: int) -> tuple[str, ...]:
    return tuple(f"{section}.{number}" for number in numbers)


CURSUS = Asked(
    "cursus-client==0.1.1",
    "cursus",
    ("CUR-C1.1", *numbered("CUR-C2", *range(1, 12)), "CUR-C3.5", "CUR-C4.17", "CUR-C6.1"),
    beside=("CUR-C4.1",),
    hidden=("CUR-C2.11", "CUR-C3.5", "CUR-C4.17"),
)
OLDER = Asked(
    "cursus-client==0.1.0",
    "cursus",
    numbered("CUR-C2", 1, 3, 10),
    deviating={"CUR-C2.3": "FAIL", "CUR-C2.10": "FAIL"},  # the epoch of each record is the time
)
IGGY = Asked(
    "apache-iggy==0.8.0",
    "iggy",
    numbered("IGY-C1", 1, 2, 6, 7, 9, 10, 11, 12, 16, 17, 19, 20, 21, 22, 31),
    beside=("IGY-C1.26", "IGY-C1.28"),
    hidden=("IGY-C1.2", "IGY-C1.20"),
)


def capture(directory: Path, asked: Asked) -> str:
    with GatewayProcess(directory, asked.dialect, "native", command=(*COMMAND, "--capture=captured")) as running:
        do_all(running, asked.client, cases(asked.dialect, *asked.done))
        assert running.terminate() == 0
    return str(directory / "captured")


def judged(spark: SparkSession, place: str) -> dict[str, Row]:
    found = conformance.played(heard_cases(spark, [place])).collect()
    assert len({row.client.rpartition("@")[2] for row in found}) == 1
    return {row.case: row for row in found}


@pytest.mark.parametrize("asked", [CURSUS, OLDER, IGGY], ids=lambda asked: asked.client)
def test_a_captured_client_is_judged_as_the_kit_judges_it(asked: Asked, spark: SparkSession, tmp_path: Path) -> None:
    kit = begin_kit(asked.client, cases(asked.dialect, *asked.done, *asked.beside))
    try:
        found = judged(spark, capture(tmp_path, asked))
        told = {id: verdict for id, (verdict, _) in json.loads(kit.communicate(timeout=SECONDS)[0]).items()}
    finally:
        kit.kill()
        kit.wait()
    verdicts = {id: row.verdict for id, row in found.items()}
    both = verdicts.keys() & told.keys()
    same = {id: verdicts[id] for id in both} == {id: told[id] for id in both}
    assert same, {id: (verdicts[id], found[id].why, told[id]) for id in both if verdicts[id] != told[id]}
    assert set(asked.done) - verdicts.keys() == set(asked.hidden) and set(asked.beside) <= both
    assert len(asked.done) < 12 or len(both) >= 8
    assert {id: verdict for id, verdict in verdicts.items() if verdict != "PASS"} == asked.deviating
    assert all(row.example and 0 < row.times <= row.requests for row in found.values())
