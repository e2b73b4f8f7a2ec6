"""How much of the process one connection, or one user, may take."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Most = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0)]

GRACE = 2.0
"""Seconds that a backend has beyond `command_seconds` to say itself what keeps it, before the connection gives up."""

MAX_KNOWN = 10_000
"""Users, or addresses of those who are nobody, whose rate is kept; the one not seen for longest is forgotten."""


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """connections: of all listeners together; one more is hung up on.

    in_flight:       commands of one connection that are carried out at a time; then it is read no further.
    buffered_bytes:  of records that one connection is writing, or about to read; likewise.
    requests_per_second: of one user, or of one address without a login, 0 = as many as they like; more are BUSY.  A
                     second's worth may come at once.
    frame_seconds:   a frame that is not whole after this is a reason to hang up.
    idle_seconds:    so is silence, unless something is under way; 0 = never.
    command_seconds: a command that has no answer after this, beside what it says it would wait, fails TIMEOUT.
    """

    connections: Most = 10_000
    in_flight: Most = 1024
    buffered_bytes: Most = 16 << 20
    requests_per_second: Annotated[float, Meta(ge=0)] = 0.0
    frame_seconds: Annotated[float, Meta(gt=0)] = 10.0
    idle_seconds: Seconds = 0.0
    command_seconds: Annotated[float, Meta(gt=0)] = 10.0


class Rates:
    """Who has asked how often of late.  rate: a second, more than 0."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._most = max(rate, 1.0)
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, who: str, now: float) -> bool:
        """Whether one more request is within the rate; it is counted if so."""
        left, at = self._left.pop(who, (self._most, now))
        left = min(self._most, left + (now - at) * self._rate)
        within = left >= 1.0
        if len(self._left) >= MAX_KNOWN:
            del self._left[next(iter(self._left))]
        self._left[who] = (left - 1.0 if within else left), now
        return within
