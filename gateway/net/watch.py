"""Whom a sweep looks at: time changes something for few connections, and the many others cost nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.net.server import Connection


class Watch:
    """The connections of one process that have something to wait for.

    active: those that did something since the last sweep, and those that have a deadline every moment of which counts.
    """

    def __init__(self) -> None:
        self.active: set[Connection] = set()
        self._resting: dict[Connection, int] = {}
        self._due: dict[int, set[Connection]] = {}

    def rest(self, connection: Connection, until: float) -> None:
        """Nothing changes for it before then, on the clock of `take`.  Who rests already is looked at when it was to
        be, and may rest again: whoever is heard need not say so."""
        if connection not in self._resting:
            second = self._resting[connection] = int(until)
            self._due.setdefault(second, set()).add(connection)

    def forget(self, connection: Connection) -> None:
        """It is gone."""
        self.active.discard(connection)
        second = self._resting.pop(connection, None)
        if second is not None:
            self._due[second].discard(connection)

    def take(self, now: float) -> set[Connection]:
        """Who is to be looked at now; nobody is watched afterwards who is not put here again."""
        taken, self.active = self.active, set()
        for second in [second for second in self._due if second <= now]:
            for connection in self._due.pop(second):
                del self._resting[connection]
                taken.add(connection)
        return taken
