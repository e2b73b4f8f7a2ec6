"""Who looks at what crosses which connections: any number of taps on each, put on and taken off at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gateway.core.commands import Session
from gateway.core.replies import Outcome
from gateway.dialects import Refusal, Request
from gateway.dialects.session import Tap

if TYPE_CHECKING:
    from gateway.net.server import Connection

Chosen = Callable[[Session], bool]
Make = Callable[[Session], Tap]


class Taps:
    """All that are wanted.  connections: those that there are."""

    def __init__(self, connections: Callable[[], Iterable[Connection]]) -> None:
        self._connections = connections
        self._wanted: dict[object, tuple[Chosen, Make]] = {}

    def add(self, chosen: Chosen, make: Make) -> Callable[[], None]:
        """Have one on every connection that is chosen, now and from now on.  Returns what takes them off again."""
        key = object()
        self._wanted[key] = chosen, make
        for connection in self._connections():
            if chosen(connection.who):
                connection.put_on(key, make(connection.who))

        def take_off() -> None:
            self._wanted.pop(key, None)
            for connection in self._connections():
                connection.take_off(key)

        return take_off

    def entered(self, connection: Connection) -> None:
        """A connection was made."""
        for key, (chosen, make) in self._wanted.items():
            if chosen(connection.who):
                connection.put_on(key, make(connection.who))


class Both:
    """Several taps as one."""

    def __init__(self, taps: Iterable[Tap]) -> None:
        self._taps = tuple(taps)

    def heard(self, ticket: int, frame: bytes, request: Request | Refusal) -> None:
        """See Tap."""
        for tap in self._taps:
            tap.heard(ticket, frame, request)

    def answered(self, ticket: int, request: Request | Refusal, outcome: Outcome, data: bytes) -> None:
        """See Tap."""
        for tap in self._taps:
            tap.answered(ticket, request, outcome, data)

    def said(self, data: bytes) -> None:
        """See Tap."""
        for tap in self._taps:
            tap.said(data)


def together(taps: Iterable[Tap]) -> Tap | None:
    """One tap for all, None = nobody looks."""
    several = list(taps)
    return several[0] if len(several) == 1 else Both(several) if several else None
