"""What the page shows, as values: one Snapshot is the whole page at one moment, and /state.json.

Times are us since the epoch, sizes bytes, rates a second.  A rate is None until two looks can be compared.  Lists hold
what is shown, their totals how many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from gateway.admin.view import GroupRow, ListenerRow, SessionRow
from gateway.core.replies import TopicDescription
from gateway.dialects import Losses
from gateway.net.meters import FaultSeen

SHOWN = 100
"""Rows of one table: topics by rate, groups by lag, the newest sessions."""

FAULTS_SHOWN = 20

T = TypeVar("T")


class Shown(msgspec.Struct, Generic[T], frozen=True):
    """rows: as many as are shown.  total: how many there are."""

    rows: list[T]
    total: int


class TopicShown(msgspec.Struct, frozen=True):
    """rate: records a second.  lag: of its group that is furthest behind, None = no group has committed."""

    namespace: str
    name: str
    partitions: int
    records: int
    bytes: int
    rate: float | None
    lag: int | None = None


class GroupShown(msgspec.Struct, frozen=True):
    """lag: None = it never committed."""

    namespace: str
    topic: str
    name: str
    members: int
    generation: int
    lag: int | None


class ListenerShown(msgspec.Struct, frozen=True):
    """commands_rate, in_rate, out_rate: commands and bytes a second.  The rest are numbers ever, but connections."""

    name: str
    dialect: str
    address: str
    tls: bool
    auth: str
    connections: int
    commands: int
    faults: int
    refused: int
    turned_away: int
    commands_rate: float | None
    in_rate: float | None
    out_rate: float | None


class LossShown(msgspec.Struct, frozen=True, rename={"origin": "from"}):
    """A field that was changed or dropped between two dialects so many times."""

    origin: str
    to: str
    field: str
    times: int


class FaultShown(msgspec.Struct, frozen=True):
    """A command that failed; kind "" = a frame that was no command."""

    at: int
    listener: str
    session: int
    kind: str
    fault: str
    detail: str


class Stored(msgspec.Struct, frozen=True):
    """What the backend holds.

    rate:        records a second of all topics.  lag: of all groups that were looked at.
    busiest:     every topic that is among the shown, by rate.  furthest: every group that was looked at, by lag.
    looked_at:   groups whose lag was asked for.
    problem:     why this is not as it is now, "" = it is.
    """

    topics: Shown[TopicShown]
    groups: Shown[GroupShown]
    partitions: int = 0
    records: int = 0
    bytes: int = 0
    rate: float | None = None
    lag: int = 0
    looked_at: int = 0
    problem: str = ""


class Snapshot(msgspec.Struct, frozen=True):
    """The whole page.

    ready:   "" = it serves; else why not.
    started: when the process was.
    delay:   seconds by which the reactor was late, at worst, of late.
    """

    at: int
    version: str
    started: int
    ready: str
    durability: str
    delay: float
    stored: Stored
    listeners: list[ListenerShown]
    sessions: Shown[SessionRow]
    losses: Shown[LossShown]
    faults: list[FaultShown]


class Weighed(msgspec.Struct, frozen=True):
    """A topic, with what it holds.  rate: records a second, None = not known yet."""

    topic: TopicDescription
    records: int
    bytes: int
    rate: float | None


Counted = tuple[int, int, int]
"""Of a listener: commands, bytes in, bytes out."""


def plain(text: str) -> str:
    """What clients said, as text that can be sent: halves of surrogate pairs become question marks."""
    return text.encode("utf-8", "replace").decode()


def topic_shown(weighed: Weighed, lags: Mapping[tuple[str, str], int]) -> TopicShown:
    """A topic as a row.  lags: by namespace and topic, as they are shown."""
    topic = weighed.topic
    place = plain(topic.namespace), plain(topic.name)
    partitions = len(topic.partitions)
    return TopicShown(*place, partitions, weighed.records, weighed.bytes, weighed.rate, lags.get(place))


def group_shown(row: GroupRow) -> GroupShown:
    """A group as a row."""
    group = row.group
    place = plain(group.namespace), plain(group.topic), plain(group.name)
    return GroupShown(*place, len(group.members), group.generation, row.lag)


def counted(row: ListenerRow) -> Counted:
    """What rates of a listener come from."""
    return sum(row.meter.asked.values()), row.meter.bytes_in, row.meter.bytes_out


def listener_shown(row: ListenerRow, before: Counted | None, seconds: float) -> ListenerShown:
    """A listener as a row.  before: what was counted so many seconds ago, None = nobody looked."""
    meter, now = row.meter, counted(row)
    rates: Sequence[float | None] = (None, None, None)
    if before is not None and seconds > 0:
        rates = [(new - old) / seconds for new, old in zip(now, before, strict=True)]
    sums = (meter.faults.values(), meter.refused.values(), meter.turned_away.values())
    place = row.name, row.dialect, row.address, row.tls, row.auth
    return ListenerShown(*place, row.connections, now[0], *map(sum, sums), *rates)


def sessions_shown(rows: Sequence[SessionRow]) -> Shown[SessionRow]:
    """The newest first."""
    shown = [
        msgspec.structs.replace(row, principal=None if row.principal is None else plain(row.principal))
        for row in reversed(rows[-SHOWN:])
    ]
    return Shown(shown, len(rows))


def losses_shown(losses: Losses) -> Shown[LossShown]:
    """The most frequent first."""
    shown = [LossShown(plain(origin), to, plain(field), n) for (origin, to, field), n in losses.most_common(SHOWN)]
    return Shown(shown, len(losses))


def faults_shown(seen: Iterable[FaultSeen]) -> list[FaultShown]:
    """The newest first.  seen: the newest last."""
    newest = list(seen)[: -FAULTS_SHOWN - 1 : -1]
    return [
        FaultShown(each.at, each.listener, each.session, each.kind, each.fault.name, plain(each.detail))
        for each in newest
    ]
