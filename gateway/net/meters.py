"""What a listener has done, as plain numbers: whoever shows them reads them, nobody who counts waits for that."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque

import msgspec

from gateway.core.faults import CommandFailed, Fault

BOUNDS = (
    0.00005,
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
"""Seconds: the upper bounds of what latencies are counted in; one more counts what is longer."""

REMEMBERED = 100
"""The last faults that are kept, of all listeners together."""


class Latency:
    """How often something took how long.  counts: by bound.  total: seconds, of all of them."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Once more."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


class FaultSeen(msgspec.Struct, frozen=True):
    """A command that failed.  at: us since the epoch.  session: the number of the connection.  kind: of command."""

    at: int
    listener: str
    session: int
    kind: str
    fault: Fault
    detail: str


class Meter:
    """Of one listener.

    asked:   commands by kind, each once however it ended.
    faults:  how many failed, by kind and fault.
    refused: frames that were no commands, by fault.
    latency: by kind: of every command that had to be waited for, and of one of each chunk that was answered at once.
    bytes_in, bytes_out, accepted, closed: bytes and connections, ever.
    turned_away: by the limit that was met.
    """

    __slots__ = (
        "accepted",
        "asked",
        "bytes_in",
        "bytes_out",
        "closed",
        "faults",
        "latency",
        "refused",
        "turned_away",
    )

    def __init__(self) -> None:
        self.asked: Counter[type] = Counter()
        self.faults: Counter[tuple[type, Fault]] = Counter()
        self.refused: Counter[Fault] = Counter()
        self.latency: dict[type, Latency] = {}
        self.turned_away: Counter[str] = Counter()
        self.bytes_in = 0
        self.bytes_out = 0
        self.accepted = 0
        self.closed = 0

    def took(self, kind: type, seconds: float) -> None:
        """A command was answered so long after it was asked."""
        latency = self.latency.get(kind)
        if latency is None:
            latency = self.latency[kind] = Latency()
        latency.observe(seconds)


class Faults:
    """The last ones, newest last."""

    def __init__(self) -> None:
        self._seen: deque[FaultSeen] = deque(maxlen=REMEMBERED)

    def add(self, at: int, listener: str, session: int, kind: str, failure: CommandFailed) -> None:
        """One more; the oldest is forgotten."""
        self._seen.append(FaultSeen(at, listener, session, kind, failure.fault, failure.detail[:200]))

    def last(self) -> list[FaultSeen]:
        """All that are remembered."""
        return list(self._seen)
