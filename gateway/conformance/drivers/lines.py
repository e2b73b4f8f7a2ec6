"""What all drivers do: introduce themselves, hear calls, tell results.  Imports nothing but the standard library."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version

Call = Callable[[dict[str, object]], object]
"""Makes the client do what a call says.  Returns what JSON can say of the result."""


def introduce(client: str, calls: list[str], settings: Mapping[str, object], address: str = "") -> None:
    """Say who this is.  address: `host:port` that the client dials whatever it is told."""
    try:
        found = version(client)
    except PackageNotFoundError:
        found = ""
    tell({"client": client, "version": found, "calls": calls, "settings": dict(settings), "address": address})


def version_of(client: str) -> tuple[int, ...]:
    """The version that is on the path."""
    return tuple(int(part) for part in version(client).split(".") if part.isdigit())


def serve(call: Call) -> None:
    """Hear calls until there are no more, then end without waiting for threads of the client."""
    for line in sys.stdin:
        try:
            tell(["ok", call(json.loads(line))])
        except BaseException as failure:  # a panic of a client in Rust is no Exception
            tell(["error", type(failure).__name__, str(failure)])
    end()


def tell(said: object) -> None:
    """One line."""
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def end() -> None:
    """Some clients abort now and then when the interpreter ends: their threads still want it."""
    sys.stdout.flush()
    os._exit(0)
