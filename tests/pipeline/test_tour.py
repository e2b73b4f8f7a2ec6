"""docs/pipeline.md does what it says: five commands as typed, on the default ports of this machine."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.pipeline.jobs import JOBS
from gateway.pipeline.options import reading_of
from gateway.pipeline.places import place_of
from gateway.pipeline.writing import target_of
from system.processes import ROOT, STOP_SECONDS
from system.test_newcomer import Typist
from system.test_tour import NETCAT
from system.tour import Script, blocks

PAGE = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
HEADING = "## Five commands to a plot"


@pytest.fixture
def typist(tmp_path: Path) -> Iterator[Typist]:
    """Somebody who has installed the package, and has `nc`."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "gateway").symlink_to(Path(sys.executable).with_name("gateway"))
    if shutil.which("nc") is None:
        (programs / "nc").write_text(NETCAT)
        (programs / "nc").chmod(0o755)
    typing = Typist(tmp_path)
    yield typing
    if typing.gateway is not None:
        with typing.gateway:
            typing.gateway.kill()


def test_five_commands_go_from_a_gateway_to_a_plot(typist: Typist, tmp_path: Path) -> None:
    typed = blocks(PAGE, HEADING)
    assert len(typed) == 5 and all(len(block.steps) == 1 for block in typed)
    for block in typed:
        [step] = block.steps
        assert isinstance(step, Script)
        said = typist.type(step.text)
        assert said[-len(block.shown) :] == block.shown or not block.shown, step.text
    for name in ("throughput", "latency", "lag"):
        assert (tmp_path / "report" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"(pipeline-{name}.png)" in PAGE and (ROOT / "docs" / f"pipeline-{name}.png").is_file()
    assert "<html" in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert typist.gateway is not None
    typist.gateway.terminate()
    assert typist.gateway.wait(STOP_SECONDS) == 0


def test_every_job_is_in_its_table() -> None:
    assert re.findall(r"^\| `(\w+) [A-Z]", PAGE, re.MULTILINE) == list(JOBS)


def test_the_options_of_its_table_are_those_there_are() -> None:
    listed = re.findall(r"^\| (`[^|]+`) \| (?:both|(?:batch |stream )?(?:read|write)) \|", PAGE, re.MULTILINE)
    named = {name for cell in listed for name in re.findall(r"`(\w+)`", cell)}
    asked: set[str] = set()

    class Options(dict[str, str]):
        def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
            asked.add(name)
            return super().get(name, default)

    given = Options(topic="orders")
    reading_of(given)
    target_of(given, stream=False)
    place_of(given)
    assert named == asked
