"""The last frames of each connection, for the day on which its peer breaks the protocol."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from gateway.capture.row import Row
from gateway.core.faults import Fault

BREACHES = frozenset({Fault.MALFORMED, Fault.TOO_LARGE, Fault.UNSUPPORTED})
"""What is wrong with a frame, and not with what it asks for."""

QUIET_SECONDS = 60.0
"""Between two reports: who breaks the protocol does it again and again."""

WEIGHT = 250
"""Bytes that a row takes in memory beside its frame."""

SHOWN = 4096
"""Bytes that are kept of a frame which has no room in its ring."""


class Ring:
    """Of one connection, trimmed by halves.  size: bytes that its rows take."""

    __slots__ = ("_most", "_rows", "size")

    def __init__(self, most: int) -> None:
        self._most = most // 2
        self._rows: deque[Row] = deque()
        self.size = 0

    def add(self, row: Row) -> None:
        """One more; the oldest are forgotten."""
        weight = WEIGHT + len(row.frame)
        if weight > self._most:
            row = msgspec.structs.replace(row, frame=row.frame[:SHOWN], note=_cut(row))
            weight = WEIGHT + len(row.frame)
        self._rows.append(row)
        self.size += weight
        if self.size > 2 * self._most:
            self.trim(self._most)

    def trim(self, most: int) -> None:
        """Forget the oldest until the rest takes no more than that, but for the newest."""
        rows = self._rows
        while self.size > most and len(rows) > 1:
            self.size -= WEIGHT + len(rows.popleft().frame)

    def take(self) -> list[Row]:
        """All of them; it is empty then."""
        rows, self._rows, self.size = list(self._rows), deque(), 0
        return rows


def _cut(row: Row) -> str:
    cut = f"cut, it has {len(row.frame)} bytes" if len(row.frame) > SHOWN else ""
    return "; ".join(each for each in (row.note, cut) if each)


class Rings:
    """Of all connections.  most: bytes of one.  total: of all of them together, as of the last `tick`."""

    def __init__(self, most: int, total: int) -> None:
        self._most = most
        self._total = total
        self._rings: dict[int, Ring] = {}

    def enter(self, connection: int) -> Ring:
        """The ring of a new connection."""
        ring = self._rings[connection] = Ring(self._most)
        return ring

    def leave(self, connection: int) -> None:
        """The connection is gone."""
        self._rings.pop(connection, None)

    def tick(self) -> None:
        """Keep within the bound."""
        if sum(ring.size for ring in self._rings.values()) > self._total:
            share = self._total // len(self._rings)
            for ring in self._rings.values():
                ring.trim(share)


class Seldom:
    """Says yes at most once in so many seconds."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._next = float("-inf")

    def now(self) -> bool:
        """Whether it may be now; if so, not again for a while."""
        now = self._clock()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True
