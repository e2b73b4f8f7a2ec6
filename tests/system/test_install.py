"""What `pip install` gives, away from the checkout: a wheel of this source in a clean environment."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from gateway import __version__, dialects
from system.peers import Frames, Lines
from system.processes import ROOT, GatewayProcess, environment

LEFT_OUT = (
    *(".git", ".venv", ".hypothesis", ".coverage", ".*_cache", "__pycache__", "*.py[co]", "dropin.cache"),
    *("build", "dist", "*.egg-info", "gateway-data", "_trial_temp*", "twistd.pid", "twistd.log"),
)
"""What is no source: .gitignore, and .git itself."""

SECONDS = 300.0
"""For what uses the network."""

LOOK = """
import importlib.resources, json
import gateway
from gateway import dialects
from gateway.service import find_maker
found = {name: dialects.load(name).name for name in dialects.names()}
vectors = {
    f"{name}/{entry.name}": entry.read_text(encoding="utf-8")
    for name in found
    for entry in importlib.resources.files(f"gateway.dialects.{name}").joinpath("vectors").iterdir()
}
backends = [find_maker(spec)[0].name for spec in ("memory", "sqlite:records")]
print(json.dumps({"file": gateway.__file__, "dialects": found, "vectors": vectors, "backends": backends}))
"""


class Installed(NamedTuple):
    """wheel: the file.  prefix: the environment it is in.  elsewhere: an empty directory."""

    wheel: Path
    prefix: Path
    elsewhere: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A command of the environment, from elsewhere."""
        return run([str(self.prefix / "bin" / command[0]), *command[1:]], self.elsewhere)


def run(command: Sequence[str], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=directory, env=environment(), capture_output=True, text=True, timeout=SECONDS, check=False
    )


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    directory = tmp_path_factory.mktemp("install")
    source, prefix, elsewhere = directory / "source", directory / "environment", directory / "elsewhere"
    elsewhere.mkdir()
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*LEFT_OUT))
    said(run([sys.executable, "-m", "build", "--wheel", "--outdir", str(directory), str(source)], elsewhere))
    [wheel] = directory.glob("*.whl")
    venv.create(prefix, with_pip=True)
    said(run([str(prefix / "bin" / "python"), "-m", "pip", "install", "--quiet", str(wheel)], elsewhere))
    return Installed(wheel, prefix, elsewhere)


def test_the_wheel_holds_all_of_the_gateway_and_nothing_else(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    source = {str(path.relative_to(ROOT)) for path in (ROOT / "gateway").rglob("*.py")}
    shipped = ("**/vectors/*.toml", "**/cases/*.toml", "admin/page/*", "conformance/report/*", "pipeline/*.properties")
    beside = [{str(path.relative_to(ROOT)) for path in (ROOT / "gateway").glob(pattern)} for pattern in shipped]
    assert source and all(beside)
    assert found == source.union(*beside) | {"twisted/plugins/gateway_plugin.py"}


def test_every_dialect_backend_and_vector_is_found_without_the_test_extra(installed: Installed) -> None:
    assert installed.run("python", "-c", "import construct").returncode == 1
    found = json.loads(said(installed.run("python", "-W", "error", "-c", LOOK)))
    assert Path(found["file"]).is_relative_to(installed.prefix)
    assert found["dialects"] == {name: name for name in dialects.names()}
    assert found["backends"] == ["memory", "sqlite"]
    ours = (ROOT / "gateway" / "dialects").glob("*/vectors/*.toml")
    assert found["vectors"] == {f"{path.parts[-3]}/{path.name}": path.read_text(encoding="utf-8") for path in ours}
    assert {name.split("/")[0] for name in found["vectors"]} == set(dialects.names()), "every dialect has vectors"


def test_what_is_needed_is_declared(installed: Installed) -> None:
    assert said(installed.run("python", "-m", "pip", "check")) == "No broken requirements found.\n"


def test_the_command_says_its_version(installed: Installed) -> None:
    assert said(installed.run("gateway", "--version")) == f"gateway, version {__version__}\n"


def test_twistd_knows_the_gateway_and_its_options(installed: Installed) -> None:
    described = [line.split() for line in said(installed.run("twistd", "--help")).splitlines()]
    assert [line for line in described if line[:1] == ["gateway"]]
    options = said(installed.run("twistd", "gateway", "--help"))
    assert all(f"--{option}=" in options for option in ("listen", "backend", "config", "plugins"))
    assert said(installed.run("gateway", "run", "--help")).splitlines()[2:] == options.splitlines()[2:]


@pytest.mark.parametrize("command", [("gateway", "run"), ("twistd", "-n", "gateway")])
def test_an_unknown_backend_or_dialect_is_one_sentence_that_lists_those_there_are(
    installed: Installed, command: tuple[str, ...]
) -> None:
    for option, known in (("--backend=mongo", ("memory", "sqlite:")), ("--listen=amqp=tcp:0", dialects.names())):
        done = installed.run(*command, option)
        assert done.returncode in ({2} if command[0] == "gateway" else {1, 2})
        complaint = (done.stderr + done.stdout).strip().splitlines()[-1]
        assert all(name in complaint for name in known), complaint
        assert "Traceback" not in done.stderr + done.stdout
    assert list(installed.elsewhere.iterdir()) == []


@pytest.mark.parametrize("command", [("gateway", "run"), ("twistd", "--pidfile=", "-n", "gateway")])
def test_it_serves_and_stops_from_anywhere(installed: Installed, tmp_path: Path, command: tuple[str, ...]) -> None:
    program = (str(installed.prefix / "bin" / command[0]), *command[1:])
    with GatewayProcess(tmp_path, "pipe", "cursus", command=program, imports=None) as gateway:
        with Lines(gateway.ports["pipe"]) as lines, Frames(gateway.ports["cursus"]) as frames:
            lines.produce("orders", "key", "value")
            assert frames.read_all("orders", 1)[0].value == "value"
        assert gateway.terminate() == 0
        gateway.start()
        with Lines(gateway.ports["pipe"]) as lines:
            assert lines.read_all("orders", 1) == ["value"]
        assert gateway.terminate() == 0


def test_the_editable_install_of_this_environment_has_twistd_gateway_too(tmp_path: Path) -> None:
    """A flat layout would be an import finder, where Twisted does not look: see package_dir in setup.cfg."""
    twistd = str(Path(sys.executable).with_name("twistd"))
    described = [line.split() for line in said(run([twistd, "--help"], tmp_path)).splitlines()]
    assert [line for line in described if line[:1] == ["gateway"]]
    assert "--listen=" in said(run([twistd, "gateway", "--help"], tmp_path))


def test_nothing_of_ours_shadows_twisted() -> None:
    assert not (ROOT / "twisted" / "__init__.py").exists()
    assert not (ROOT / "twisted" / "plugins" / "__init__.py").exists()
