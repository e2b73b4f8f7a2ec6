"""How servers are spoken to, and what may be asked of them twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint

from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding
from gateway.dialects import Dialect, Settings, Terms
from gateway.net.client import Bursts

COMMAND_SECONDS = 10.0
"""From asking to the answer, beside what a command itself says it would wait."""

REPEATABLE: frozenset[type] = frozenset(
    {
        *(q.Ping, q.Describe, q.DescribeSession, q.ListSessions, q.ListNamespaces, q.DescribeNamespace),
        *(q.ListTopics, q.DescribeTopic, q.LatestOffsets, q.FetchOffsets, q.ListGroups, q.DescribeGroup),
        *(q.SyncGroup, q.Heartbeat, q.MapGet, q.MapSize, q.MapScan, q.Peek, q.QueueSize, q.FindLeader),
    }
)
"""What may be asked twice."""

PASSING = frozenset({Fault.UNAVAILABLE, Fault.TIMEOUT, Fault.BUSY, Fault.NOT_LEADER})
"""What is the matter with a server now, and not with what it was asked."""


def repeatable(command: q.Command) -> bool:
    """Whether asking twice changes nothing."""
    if isinstance(command, q.Fetch):
        return not command.commit and not command.create and command.partition is not None
    return type(command) in REPEATABLE


class Unsent(CommandFailed):
    """UNAVAILABLE, and certain not to have been done: another server can be asked instead."""

    def __init__(self, detail: str) -> None:
        super().__init__(Fault.UNAVAILABLE, detail)


class Agreed:
    """What was agreed on with a server on the newest connection to it.  terms: None = nobody was there yet."""

    def __init__(self) -> None:
        self.terms: Terms | None = None


class Way(msgspec.Struct, frozen=True):
    """How servers are spoken to.

    random: 0..1, evenly.
    login:  what is said before anything else, None = nothing.
    reach:  host and port -> how that server is dialed, None = only the first one can be.
    bursts: around answers that come together.
    """

    dialect: Dialect
    settings: Settings
    encodings: Mapping[str, Encoding]
    clock: IReactorTime
    random: Callable[[], float]
    login: q.Authenticate | None = None
    reach: Callable[[str, int], IStreamClientEndpoint] | None = None
    bursts: Bursts = msgspec.field(default_factory=Bursts)

    def terms(self) -> Terms:
        """Of a new connection."""
        return self.dialect.open(self.settings, self.encodings).terms("")
