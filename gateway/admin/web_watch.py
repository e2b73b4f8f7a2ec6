"""Looks at the process for all who want to see it: at most once a second, and never without a bound."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec
from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from gateway.admin.view import GroupRow, View
from gateway.admin.web_delay import Delay
from gateway.admin.web_once import Once
from gateway.admin.web_rows import (
    SHOWN,
    Counted,
    GroupShown,
    Shown,
    Snapshot,
    Stored,
    counted,
    faults_shown,
    group_shown,
    listener_shown,
    losses_shown,
    plain,
    sessions_shown,
    topic_shown,
)
from gateway.admin.web_tally import Key, Tally
from gateway.backends.wall import microseconds
from gateway.core.faults import CommandFailed, Fault

T = TypeVar("T")

EVERY = 0.9
"""Seconds between two looks; less than one, so that who comes every second sees something new."""

SHARE = 10.0
"""A list that took t seconds is good for ten times that: looking costs no more than a tenth of the time."""

READY_SECONDS = 1.0
"""Within which the backend must answer to be well."""

LOOK_SECONDS = 5.0
"""Within which it must have listed what it holds."""

MAX_GROUPS = 1000
"""Groups whose lag is asked for: it takes a question each."""

_NOTHING = Stored(Shown([], 0), Shown([], 0))


class Watch:
    """view: what there is to see.  delay: how late the reactor is.  now: the wall clock in us since the epoch.

    stored: what the backend holds.  snapshots: all there is to see.
    """

    _log = Logger()

    def __init__(self, view: View, delay: Delay, clock: IReactorTime, now: Callable[[], int] = microseconds) -> None:
        self._view = view
        self._delay = delay
        self._clock = clock
        self._now = now
        self._last = _NOTHING
        self._rest_until = 0.0
        self._ends: dict[Key, int] = {}
        self._ends_at: float | None = None
        self._counted: dict[str, Counted] = {}
        self._counted_at = 0.0
        self._answering = Once(self._ask, clock, EVERY)
        self.stored = Once(self._ask_stored, clock, EVERY)
        self.snapshots = Once(self._look, clock, EVERY)

    def close(self) -> None:
        """Look no more."""
        for once in (self.snapshots, self.stored, self._answering):
            once.close()

    # -- readiness

    async def ready(self) -> str:
        """Why it is not, "" = it is."""
        if not self._view.ready():
            return "draining"
        for commits in self._view.commits:
            if commits.problem:
                return plain(f"the store cannot be written: {commits.problem}")
        return await self._answering.get()

    async def _ask(self) -> str:
        _, problem = await self._bounded(_if_supported(self._view.node()), READY_SECONDS)
        return problem

    async def _bounded(self, asked: Coroutine[Deferred[Any], Any, T], seconds: float) -> tuple[T | None, str]:
        """What was asked for, or why it did not come."""
        try:
            return await Deferred.fromCoroutine(asked).addTimeout(seconds, self._clock), ""
        except CancelledError:
            raise
        except TimeoutError:
            return None, f"the store does not answer within {seconds:g} s"
        except CommandFailed as failure:
            return None, plain(f"the store fails: {failure}")
        except Exception:
            self._log.failure("the store could not be looked at")
            return None, "a defect in the gateway; see its log"

    # -- what the backend holds

    async def _ask_stored(self) -> Stored:
        began = self._clock.seconds()
        if began < self._rest_until:
            return self._last
        stored, problem = await self._bounded(self._list(), LOOK_SECONDS)
        if stored is None:
            self._last = msgspec.structs.replace(self._last, problem=problem)
        else:
            now = self._clock.seconds()
            self._last, self._rest_until = stored, now + SHARE * (now - began)
        return self._last

    async def _list(self) -> Stored:
        tally = await self._tally()
        groups, total = await self._groups(sorted(tally.namespaces))
        lags: dict[tuple[str, str], int] = {}
        for group in groups:
            if group.lag is not None:
                lags[group.namespace, group.topic] = max(group.lag, lags.get((group.namespace, group.topic), 0))
        return Stored(
            Shown([topic_shown(weighed, lags) for weighed in tally.busiest], len(tally.ends)),
            Shown(groups, total),
            *(tally.partitions, tally.records, tally.bytes, tally.rate),
            lag=sum(group.lag or 0 for group in groups),
            looked_at=len(groups),
        )

    async def _tally(self) -> Tally:
        """What topics hold."""
        now, last = self._clock.seconds(), self._ends_at
        tally = Tally(self._ends, None if last is None or now <= last else now - last)
        await _if_supported(self._view.each_topic(tally.add))
        self._ends, self._ends_at = tally.ends, now
        return tally

    async def _groups(self, namespaces: Sequence[str]) -> tuple[list[GroupShown], int]:
        """Those looked at, the furthest behind first; and how many there are."""
        found = await _if_supported(self._view.groups_of(namespaces)) or []
        rows: list[GroupRow] = []
        for group in found[:MAX_GROUPS]:
            try:
                rows.append(await self._view.lag(group))
            except CommandFailed as failure:
                if failure.fault in (Fault.UNAVAILABLE, Fault.TIMEOUT):
                    raise
                rows.append(GroupRow(group, None))  # it went away meanwhile, or nobody knows what it committed
        rows.sort(key=lambda row: -1 if row.lag is None else row.lag, reverse=True)
        return [group_shown(row) for row in rows], len(found)

    # -- all of it

    async def _look(self) -> Snapshot:
        ready = await self.ready()
        stored = await self.stored.get()
        view, now = self._view, self._clock.seconds()
        listeners = view.listeners()
        before, seconds = self._counted, now - self._counted_at
        self._counted, self._counted_at = {row.name: counted(row) for row in listeners}, now
        return Snapshot(
            *(self._now(), view.version, view.started, ready, view.durability, self._delay.recent),
            stored=msgspec.structs.replace(stored, groups=Shown(stored.groups.rows[:SHOWN], stored.groups.total)),
            listeners=[listener_shown(row, before.get(row.name), seconds) for row in listeners],
            sessions=sessions_shown(view.sessions()),
            losses=losses_shown(view.losses()),
            faults=faults_shown(view.faults()),
        )


async def _if_supported(asked: Coroutine[Deferred[Any], Any, T]) -> T | None:
    """None where the backend has no such thing; it answered, so it is well."""
    try:
        return await asked
    except CommandFailed as failure:
        if failure.fault is not Fault.UNSUPPORTED:
            raise
        return None
