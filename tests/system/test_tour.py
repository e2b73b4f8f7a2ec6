"""The README's tour and what follows it do what they say, command by command, on the default ports of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from gateway import dialects
from system.processes import ROOT, GatewayProcess, environment, until
from system.tour import SHOWN, Block, Kill, Script, Start, blocks

HEADING = "## A one-minute tour"
NEXT = "## One topic, six dialects"
"""What a reader goes on with while the gateway of the tour still runs."""

SECONDS = 300.0
"""For one script; one of them installs something from the network."""

GATEWAY = (str(Path(sys.executable).with_name("gateway")), "run")
"""What `make run` starts."""

NETCAT = f"""#!{sys.executable}
import socket, sys
words = [word for word in sys.argv[1:] if not word.startswith("-")]
host, port = words[-2:]
with socket.create_connection((host, int(port)), 10) as peer:
    peer.sendall(sys.stdin.buffer.read())
    peer.settimeout(1)
    try:
        while octets := peer.recv(65536):
            sys.stdout.buffer.write(octets)
    except TimeoutError:
        pass
"""
"""`nc -w 1 HOST PORT` and `nc -q1 HOST PORT`, for machines that have none: a fresh one has Python and make alone."""


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """The environment of somebody who follows the tour in a fresh checkout, `tmp_path`."""
    venv.create(tmp_path / ".venv", with_pip=True)
    path = f"{tmp_path / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    if shutil.which("nc") is None:
        netcat = tmp_path / ".venv" / "bin" / "nc"
        netcat.write_text(NETCAT)
        netcat.chmod(0o755)
    return environment(PATH=path)


def output(script: str, directory: Path, shell: dict[str, str]) -> bytes:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=directory,
        env=shell,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{script}{done.stdout.decode()}{done.stderr.decode()}"
    return done.stdout


def walk(tour: list[Block], gateway: GatewayProcess, directory: Path, shell: dict[str, str]) -> None:
    """Every step in turn; the gateway stands in for `make run`, which would want a checkout of its own.

    It runs already when the tour begins, so the first start has been made.
    """
    for block in tour:
        out = b""
        for step in block.steps:
            match step:
                case Start():
                    if not gateway.runs:
                        gateway.start()
                case Kill(pattern):
                    assert re.search(pattern, gateway.command_line()), f"pkill -f {pattern!r} would not find it"
                    gateway.kill()
                case Script(text):
                    out += output(text, directory, shell)
        assert out.decode().splitlines()[-len(block.shown) :] == block.shown or not block.shown


def section(heading: str) -> list[Block]:
    return blocks((ROOT / "README.md").read_text(encoding="utf-8"), heading)


def test_every_command_of_the_tour_prints_what_the_readme_says(tmp_path: Path, shell: dict[str, str]) -> None:
    tour, examples = section(HEADING), section(NEXT)
    steps = [step for block in tour for step in block.steps]
    assert steps[0] == Start() and any(block.shown for block in tour)
    with GatewayProcess(tmp_path, backend="", command=GATEWAY, imports=None) as gateway:
        walk(tour, gateway, tmp_path, shell)
        walk(examples, gateway, tmp_path, shell)


def test_there_is_an_example_of_every_dialect_that_prints_something() -> None:
    examples = section(NEXT)
    assert all(block.shown and len(block.steps) == 1 for block in examples), "one line to paste, and what comes of it"
    dialed = {int(port) for block in examples for port in re.findall(r"127\.0\.0\.1 (\d+)", str(block.steps))}
    assert dialed == {dialects.load(name).port for name in dialects.names()}


def test_make_run_starts_the_gateway_as_the_tour_is_tested_with_it() -> None:
    said = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "run"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert said.stdout.splitlines()[-1] == ".venv/bin/gateway run", said.stderr


HEARD = {
    "cursus": b"count=0 topics=",
    "grid": b"OK",
    "iggy": b"d   e   f   a   u   l   t",
    "mlog": b"Topics",
    "pipe": b"messages=0:world",
}
"""What a dialect's hint ends with, or has in it where lengths and ids are around it."""


def test_what_the_gateway_says_to_try_can_be_tried(tmp_path: Path, shell: dict[str, str]) -> None:
    """In the order in which it is said; what one of them writes, others find."""
    hinted = [name for name in dialects.names() if dialects.load(name).hint]
    assert hinted == list(HEARD)
    with GatewayProcess(tmp_path, *dialects.names(), backend="memory", command=GATEWAY, imports=None) as gateway:
        until(lambda: sum(line.startswith("try: ") for line in gateway.said) == len(HEARD), 10.0, "what to try")
        tries = [line.removeprefix("try: ") for line in gateway.said if line.startswith("try: ")]
        for (name, heard), command in zip(HEARD.items(), tries, strict=True):
            assert f" {gateway.ports[name]}" in command
            assert heard in output(f"{command}\n", tmp_path, shell), command


README = f"""# Name

```sh
make test
```

{HEADING}

Start it:

```sh
make run &
```
```python
print("not for bash")
```
```sh
printf 'a\\nb\\nc\\n'
# a remark
{SHOWN}b
{SHOWN}c
```
```sh
pkill -KILL -f 'gateway run'
make run &
cat <<'END'
{SHOWN}x
END
```

### Deeper

```sh
true
```

## Next

```sh
false
```
"""


def test_blocks_are_those_of_the_section_cut_into_steps() -> None:
    first, second, third, fourth = blocks(README, HEADING)
    assert first == Block([Start()], [])
    assert second == Block([Script(f"printf 'a\\nb\\nc\\n'\n# a remark\n{SHOWN}b\n{SHOWN}c\n")], ["b", "c"])
    assert third == Block([Kill("gateway run"), Start(), Script(f"cat <<'END'\n{SHOWN}x\nEND\n")], ["x"])
    assert fourth == Block([Script("true\n")], [])
    with pytest.raises(ValueError, match="no section '## Tour'"):
        blocks(README, "## Tour")


@pytest.mark.parametrize("shown", ["b", "a\nb", "b\nc\nd", "c "])
def test_a_block_that_prints_something_else_is_found(tmp_path: Path, shown: str) -> None:
    gateway = GatewayProcess(tmp_path)
    right = Block([Script("printf 'a\\nb\\nc\\n'\n")], ["b", "c"])
    walk([right], gateway, tmp_path, environment())
    with pytest.raises(AssertionError):
        walk([right._replace(shown=shown.split("\n"))], gateway, tmp_path, environment())
    with pytest.raises(AssertionError):
        walk([Block([Script("false | cat\n")], [])], gateway, tmp_path, environment())
