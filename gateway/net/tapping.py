"""Who looks at what crosses which connections: any number of taps on each, put on and taken off at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeGuard

import msgspec

from gateway.core.commands import Session
from gateway.core.replies import Outcome
from gateway.dialects import Refusal, Request
from gateway.dialects.session import Bursts, BurstTap, Glanced, Tap

if TYPE_CHECKING:
    from gateway.net.server import Connection

Chosen = Callable[[Session], bool]
Make = Callable[[Session], Tap]
Leave = Callable[[Session], None]


def unmissed(who: Session) -> None:
    """The `leave` of who does not mind."""


class Journaled(msgspec.Struct, frozen=True):
    """What has become of what taps that write saw: rows that are in files, the bytes they take there, rows for which
    there was no room in memory, and rows that could not be written."""

    rows: int
    octets: int
    dropped: int
    failed: int


class Taps:
    """All that are wanted.  connections: those that there are.  journals: of those that write, for who counts."""

    def __init__(self, connections: Callable[[], Iterable[Connection]]) -> None:
        self._connections = connections
        self.journals: list[Callable[[], Journaled]] = []
        self._wanted: dict[object, tuple[Chosen, Make, Leave]] = {}

    def add(self, chosen: Chosen, make: Make, leave: Leave = unmissed) -> Callable[[], None]:
        """Have one on every connection that is chosen, now and from now on.  Returns what takes them off again.

        leave: told when a connection that was chosen is gone, before anything comes of that.
        """
        key = object()
        self._wanted[key] = chosen, make, leave
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
        for key, (chosen, make, _) in self._wanted.items():
            if chosen(connection.who):
                connection.put_on(key, make(connection.who))

    def left(self, connection: Connection) -> None:
        """A connection is gone."""
        for key, (_, _, leave) in self._wanted.items():
            if connection.wears(key):
                leave(connection.who)


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


class BothBursts:
    """Several that are told of bursts as one."""

    def __init__(self, taps: Iterable[Bursts]) -> None:
        self._taps = tuple(taps)

    def came(self, size: int, now: float) -> None:
        """See Bursts."""
        for tap in self._taps:
            tap.came(size, now)

    def left(self, size: int) -> None:
        """See Bursts."""
        for tap in self._taps:
            tap.left(size)

    def glanced(self, glance: Glanced) -> None:
        """See Bursts."""
        for tap in self._taps:
            tap.glanced(glance)


def sees_bursts(tap: Tap) -> TypeGuard[BurstTap]:
    """Whether small reads may be answered past it."""
    return hasattr(tap, "glanced")


def bursting(taps: Iterable[Tap]) -> Bursts | None:
    """One for all of those that see bursts."""
    several = [tap for tap in taps if sees_bursts(tap)]
    if len(several) == 1:
        return several[0]
    return BothBursts(several) if several else None
