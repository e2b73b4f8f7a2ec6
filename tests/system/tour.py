"""The tour of the README as something to run: its blocks, their steps, and what each is said to print."""

from __future__ import annotations

import re
from typing import NamedTuple

SHOWN = "#=> "
"""What stands before a line of expected output, behind the commands of a block."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Start(NamedTuple):
    """`make run &`."""


class Kill(NamedTuple):
    """`pkill -KILL -f 'PATTERN'`: what the pattern is meant to find is killed, and nothing else on this machine."""

    pattern: str


class Script(NamedTuple):
    """Lines for bash."""

    text: str


class Block(NamedTuple):
    """shown: the last lines on standard output, in order."""

    steps: list[Start | Kill | Script]
    shown: list[str]


def blocks(markdown: str, heading: str) -> list[Block]:
    """The sh blocks of one section, up to the next heading of its level.  Raises ValueError if there is no such."""
    level, _, _ = heading.partition(" ")
    _, found, rest = f"\n{markdown}".partition(f"\n{heading}\n")
    if not found:
        raise ValueError(f"no section {heading!r}")
    section = re.split(rf"^{level} ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    return [_block(body) for language, body in _FENCE.findall(section) if language == "sh"]


def _block(body: str) -> Block:
    lines = body.splitlines()
    shown = [line.removeprefix(SHOWN) for line in lines if line.startswith(SHOWN)]
    steps: list[Start | Kill | Script] = []
    for line in lines:
        step = _step(line)
        if isinstance(step, Script) and steps and isinstance(steps[-1], Script):
            steps[-1] = Script(steps[-1].text + step.text)
        else:
            steps.append(step)
    return Block(steps, shown)


def _step(line: str) -> Start | Kill | Script:
    if line.strip() == "make run &":
        return Start()
    if found := re.fullmatch(r"\s*pkill -KILL -f '([^']+)'\s*", line):
        return Kill(found[1])
    return Script(f"{line}\n")
