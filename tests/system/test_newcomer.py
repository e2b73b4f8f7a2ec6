"""docs/newcomer.md does what it says, command by command as typed, on the default ports of this machine."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from system.needed import require
from system.processes import ROOT, START_SECONDS, STOP_SECONDS, environment
from system.tour import Script, blocks

PAGE = ROOT / "docs" / "newcomer.md"
HEADING = "## The ten"
SECONDS = 300.0
"""For one command; one of them installs something from the network."""


class Typist:
    """Types the commands of the page into a shell in a directory that has been cloned into.

    What it started with `&` is ended with the block.
    """

    def __init__(self, directory: Path) -> None:
        self.gateway: subprocess.Popen[str] | None = None
        self._directory = directory
        self._shell = environment(PATH=f"{directory / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}")

    def type(self, command: str) -> list[str]:
        """The lines it prints; fails if it does not end well."""
        started = re.fullmatch(r"(.*) &\n", command)
        if started:
            return self._start(shlex.split(started[1]))
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self._directory,
            env=self._shell,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}{done.stdout}{done.stderr}"
        return done.stdout.splitlines()

    def _start(self, line: list[str]) -> list[str]:
        complaints = self._directory / "complaints"
        with complaints.open("wb") as log:
            self.gateway = subprocess.Popen(
                line, cwd=self._directory, env=self._shell, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.gateway.stdout is not None
        said: list[str] = []
        for each in self.gateway.stdout:
            said.append(each.rstrip("\n"))
            if said[-1] == "ready":
                return said
        ended = self.gateway.wait(START_SECONDS)
        raise AssertionError(f"it ended with {ended}, and said {said}, and {complaints.read_text()}")


@pytest.fixture
def typist(tmp_path: Path) -> Iterator[Typist]:
    """A clone as `make .venv` leaves it: it would install from the network what is installed here already."""
    venv.create(tmp_path / ".venv", with_pip=True)
    (tmp_path / ".venv" / "bin" / "gateway").symlink_to(Path(sys.executable).with_name("gateway"))
    for name in ("Makefile", "setup.cfg", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv" / "installed").touch()
    typing = Typist(tmp_path)
    yield typing
    if typing.gateway is not None:
        with typing.gateway:
            typing.gateway.kill()


def test_ten_commands_make_a_gateway_with_tls_two_users_a_rule_and_a_page(typist: Typist) -> None:
    require("openssl", "curl")
    typed = blocks(PAGE.read_text(encoding="utf-8"), HEADING)
    assert len(typed) == 10 and all(len(block.steps) == 1 for block in typed)
    for block in typed:
        [step] = block.steps
        assert isinstance(step, Script)
        said = typist.type(step.text)
        assert said[: len(block.shown)] == block.shown, step.text
    assert typist.type("curl -s http://127.0.0.1:8080/readyz") == ["ready"]
    assert "<title>gateway</title>" in typist.type("curl -s http://127.0.0.1:8080/")
    assert typist.gateway is not None
    typist.gateway.terminate()
    assert typist.gateway.wait(STOP_SECONDS) == 0
