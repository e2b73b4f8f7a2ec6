"""Drives our own client half of a dialect, which is what there is where no client can be had.

Arguments: host:port, dialect, and settings of a listener as JSON.  Its one call is

    ask       `commands`, expressions as gateway.conformance.vectors reads them, one after the other; each is answered
              before the next is sent.  `pipelined` true: all are sent at once.  A failure ends it, unless `anyhow` is
              true
"""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from gateway import dialects
from gateway.conformance.drivers import lines
from gateway.conformance.expressions import evaluate
from gateway.core.commands import Command
from gateway.core.faults import CommandFailed
from gateway.core.records import registry
from gateway.core.replies import Outcome
from gateway.pipeline.asking import Connection
from gateway.pipeline.places import Place

SECONDS = 10.0
"""How long an answer may take."""


class Driver:
    """One connection, made at the first call."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._encodings = registry(each for name in dialects.names() for each in dialects.load(name).encodings)
        self._connection: Connection | None = None

    def call(self, call: dict[str, Any]) -> object:
        """What each command came to.  Raises CommandFailed."""
        if self._connection is None:
            self._connection = Connection(self._place)
        commands: list[Command] = [evaluate(text, self._encodings) for text in call["commands"]]  # type: ignore[misc]
        if call.get("pipelined"):
            tags = [self._connection.send(command) for command in commands]
            return [repr(outcome) for outcome in self._connection.answers(tags)]
        return [repr(self._ask(self._connection, command, bool(call.get("anyhow")))) for command in commands]

    def _ask(self, connection: Connection, command: Command, anyhow: bool) -> Outcome:
        outcome = connection.answer(connection.send(command))
        if isinstance(outcome, CommandFailed) and not anyhow:
            raise outcome
        return outcome


def main(address: str, dialect: str, settings: str) -> None:
    """The program."""
    found = json.loads(settings)
    options = ",".join(f"{name}={value}" for name, value in found.items())
    endpoint = f"{dialect}[{options}]=tcp:{address}" if options else f"{dialect}=tcp:{address}"
    lines.introduce("ours", ["ask"], found)
    lines.serve(Driver(Place(endpoint, seconds=SECONDS)).call)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else msgspec.json.encode({}).decode())
