"""How to replay, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from twisted.internet.interfaces import IStreamClientEndpoint

from gateway.capture.rows import Row


class Unreachable(Exception):
    """The target cannot be connected to; the sentence is for the user."""


class Difference(msgspec.Struct, frozen=True):
    """The first answer that is another.  captured, now: bytes of it; what they say stands in `says`."""

    row: Row
    why: str
    captured: bytes = b""
    now: bytes = b""
    says: tuple[str, str] = ("", "")


class Report(msgspec.Struct):
    """What came of a replay.

    requests: sent.  compared: answers, of which `equal` are equal to the byte.  records: that were pushed.
    unsent:   requests whose frames were left out of the capture.  skipped: rows of dialects without a target.
    missing:  rows that the capture had lost, as far as it knows.
    """

    connections: int = 0
    requests: int = 0
    compared: int = 0
    equal: int = 0
    records: int = 0
    unsent: int = 0
    skipped: int = 0
    missing: int = 0
    difference: Difference | None = None


class Plan(msgspec.Struct, frozen=True):
    """How to replay.

    targets: dialect -> where its server is.
    secrets: user -> what to log in with.  Others log in as the dialect's first user if they are that, else with what
             is left of the secret.
    compare: stop at the first answer that differs.
    speed:   1 = as slow as it was, 2 = twice as fast, 0 = at once.
    """

    targets: Mapping[str, IStreamClientEndpoint]
    secrets: Mapping[str, str] = {}
    compare: bool = True
    speed: float = 0.0
