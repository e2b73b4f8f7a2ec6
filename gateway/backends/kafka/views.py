"""Views: topics of Kafka as tables in memory, read from the log when somebody first looks and followed from then on.

A view holds what can be read (committed records) and is behind the log by milliseconds.  Of the same key that record is
the latest whose (timestamp, partition, offset) is highest; a timestamp is the record's own or else Kafka's millisecond,
so every gateway comes to the same.  Everything here is called in the reactor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from gateway.backends.kafka.reading import Reading
from gateway.backends.kafka.registry import Place
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical
from gateway.core.tables import NOTHING, Table

if TYPE_CHECKING:
    from gateway.backends.kafka.cluster import Cluster

MAX_VIEWS = 64
"""Topics followed at once; the one that was not asked about for longest goes when another is asked about."""

MAX_BYTES = 512 << 20
"""Of keys and values in all views together, likewise; a topic that has more by itself cannot be a table."""

ENTRY_BYTES = 200
"""What a key costs beside its bytes and those of its value."""

IDLE_SECONDS = 300.0
"""After which a view that nobody asked about is dropped."""

REFUSED_SECONDS = 60.0
"""After which a topic that is too big is tried again, and not for every question."""

FOLLOW_SECONDS = 5.0
"""One wait for records of a partition.  If Kafka is gone then, so is the view within the deadline of a read."""

READ_BYTES = 128 << 10
"""Read at once: what the reactor takes in within some 20 ms, however small the records."""

ARRIVE_SECONDS = 5.0
"""How long a write waits to come back from the log.  It takes longer only behind a transaction of another program that
is open, until the end of which nobody can read it."""

_NOBODY = Session(0)


Came = tuple[bytes | None, bool]
"""Of a record that has come: the value until then, and whether the record is the latest of its key now.  One is not if
another claims a later time, as that of a writer whose clock is ahead does."""


class _Watch:
    """A key that is being written here.  came: by partition and offset, every record of it meanwhile."""

    __slots__ = ("came", "writers")

    def __init__(self) -> None:
        self.writers = 0
        self.came: dict[tuple[int, int], Came] = {}


class View:
    """One topic.  table: what is known of it.

    next:     by partition, the offset behind what has been taken in.
    weight:   bytes of it, about.
    used:     when it was last asked about, in seconds of the reactor's clock.
    loading:  who waits for all there was at the start; None = it is here.
    failure:  why there can be none; it is kept for a while then.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.table = Table()
        self.next = [0] * place.partitions
        self.weight = 0
        self.used = 0.0
        self.loading: list[Deferred[None]] | None = []
        self.failure: CommandFailed | None = None
        self.running: list[Deferred[None]] = []
        self._watched: dict[bytes, _Watch] = {}
        self._awaited: list[tuple[int, int, Deferred[None]]] = []

    # -- what comes

    def absorb(self, partition: int, batches: Sequence[RecordBatch], now: int) -> None:
        """Take in what was read; what is known already is left out.  now: us since the epoch."""
        for batch in batches:
            known = max(0, self.next[partition] - batch.base)
            if known < batch.count:
                self._take(partition, batch.base + known, _timed(batch)[known:], now)
                self.next[partition] = batch.end
        if batches and self._awaited:
            self._wake()

    def weigh(self, now: int) -> int:
        """Count anew: of what has expired in between nobody took account."""
        self.weight = sum(self._held(key) for key in self.table.alive(now))
        return self.weight

    def _take(self, partition: int, base: int, records: list[Record], now: int) -> None:
        """A record of a key that is watched begins a portion, so that it can be seen what it changes."""
        starts = [at for at, record in enumerate(records) if record.key in self._watched] if self._watched else []
        self._add(partition, base, records[: starts[0] if starts else None])
        for at, end in zip(starts, [*starts[1:], len(records)], strict=False):
            key = records[at].key
            assert key is not None, "it is watched"
            before = self.table.look(key, now)
            self._add(partition, base + at, records[at:end])
            is_latest = self.table.look(key, now).order != before.order
            self._watched[key].came[partition, base + at] = before.value, is_latest

    def _add(self, partition: int, base: int, records: list[Record]) -> None:
        keys = {record.key for record in records if record.key}
        if not keys:
            return
        before = sum(map(self._held, keys))
        self.table.add(partition, canonical(records).appended(base, 0))
        self.weight += sum(map(self._held, keys)) - before

    def _held(self, key: bytes) -> int:
        entry = self.table.look(key, 0)
        return 0 if entry is NOTHING else ENTRY_BYTES + len(key) + len(entry.value or b"")

    # -- who waits for something to come

    def watch(self, key: bytes) -> None:
        """Take note of what each record of the key changes, until `came` has been asked as often."""
        self._watched.setdefault(key, _Watch()).writers += 1

    def came(self, key: bytes, partition: int, offset: int) -> Came | None:
        """What a record has changed, None if it has not come."""
        watch = self._watched[key]
        watch.writers -= 1
        if not watch.writers:
            del self._watched[key]
        return watch.came.get((partition, offset))

    def arrival(self, partition: int, offset: int) -> Deferred[None]:
        """Fires when the record there has been taken in, or no more will be."""
        there: Deferred[None] = Deferred()
        if self.next[partition] > offset or self.failure is not None:
            there.callback(None)
        else:
            self._awaited.append((partition, offset, there))
        return there

    def end(self, failure: CommandFailed) -> None:
        """Nothing more is taken in, for that reason; who waits for its own write is not kept waiting."""
        self.failure = failure
        for running in self.running:
            running.cancel()
        awaited, self._awaited = self._awaited, []
        for _, _, there in awaited:
            if not there.called:
                there.callback(None)
        self.loaded(failure)

    def loaded(self, failure: CommandFailed | None = None) -> None:
        """Tell who waits for the whole of it."""
        loading, self.loading = self.loading or [], None
        for there in loading:
            if not there.called:
                there.callback(None) if failure is None else there.errback(failure)

    def _wake(self) -> None:
        here = [there for partition, offset, there in self._awaited if self.next[partition] > offset]
        self._awaited = [waiting for waiting in self._awaited if self.next[waiting[0]] <= waiting[1]]
        for there in here:
            if not there.called:
                there.callback(None)


class Views:
    """Every topic that is followed, by its ids."""

    _log = Logger()

    def __init__(self, cluster: Cluster, reading: Reading) -> None:
        self._cluster = cluster
        self._reading = reading
        self._views: dict[str, View] = {}
        self._sweep = LoopingCall(self._drop_idle)
        self._sweep.clock = cluster.reactor
        self._sweep.start(IDLE_SECONDS / 10, now=False)
        cluster.watch(self._changed)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._views)

    def known(self, place: Place) -> View | None:
        """The view of a topic if there is one, whole or on the way to it."""
        view = self._views.get(place.scope)
        return None if view is None or view.failure is not None else view

    def ready(self, place: Place) -> View | None:
        """The view of a topic if it is whole."""
        view = self._views.get(place.scope)
        if view is None or view.loading is not None or view.failure is not None:
            return None
        view.used = self._cluster.reactor.seconds()
        return view

    async def of(self, place: Place) -> View:
        """The view of a topic, whole.  Raises CommandFailed: UNAVAILABLE, BUSY; UNSUPPORTED if it is too big."""
        view = self._views.get(place.scope) or self._begin(place)
        view.used = self._cluster.reactor.seconds()
        if view.failure is not None:
            raise CommandFailed(view.failure.fault, view.failure.detail)
        if view.loading is not None:
            there: Deferred[None] = Deferred()
            view.loading.append(there)
            await there
        return view

    async def catch_up(self, view: View) -> None:
        """Take in all there is at this moment."""
        for partition in range(len(view.next)):
            while view.failure is None and (batches := await self._read(view, partition, 0.0)):
                self._absorb(view, partition, batches)

    def close(self) -> None:
        """Follow nothing more."""
        self._sweep.stop()
        for scope in list(self._views):
            self._drop(scope, CommandFailed(Fault.UNAVAILABLE, "the gateway is closing"))

    # -- one view, from its begin to its end

    def _begin(self, place: Place) -> View:
        while len(self._views) >= MAX_VIEWS:
            self._drop_one(None)
        view = self._views[place.scope] = View(place)
        self._run(view, self._load(view))
        return view

    async def _load(self, view: View) -> None:
        place = view.place
        asked = q.LatestOffsets(q.Topic(place.namespace_id, place.id))
        bounds = await self._reading.latest(asked, _NOBODY)
        assert isinstance(bounds, r.Offsets), "so that is answered"
        for at in bounds.offsets[: len(view.next)]:
            view.next[at.partition] = at.start
        await self.catch_up(view)
        view.loaded()
        for partition in range(len(view.next)):
            self._run(view, self._follow(view, partition))

    async def _follow(self, view: View, partition: int) -> None:
        while view.failure is None:
            self._absorb(view, partition, await self._read(view, partition, FOLLOW_SECONDS))

    async def _read(self, view: View, partition: int, wait: float) -> tuple[RecordBatch, ...]:
        start = view.next[partition]
        return (await self._reading.read(view.place, partition, start, 0, READ_BYTES, wait))[0]

    def _run(self, view: View, work: object) -> None:
        running: Deferred[None] = Deferred.fromCoroutine(work)  # type: ignore[arg-type]  # a coroutine
        if view.failure is None:
            view.running.append(running)
        running.addErrback(self._failed, view)

    def _absorb(self, view: View, partition: int, batches: tuple[RecordBatch, ...]) -> None:
        if view.failure is None:
            view.absorb(partition, batches, self._cluster.now())
            if batches and self._weight() > MAX_BYTES:
                self._make_room(view)

    def _failed(self, failure: Failure, view: View) -> None:
        """A view that cannot be kept up is dropped; whoever asks next has it read anew, and hears what is wrong."""
        if isinstance(failure.value, CancelledError) or view.failure is not None:
            return
        if not isinstance(failure.value, CommandFailed):
            self._log.failure("{name} cannot be a table", name=view.place.kafka, failure=failure)
        said = failure.value if isinstance(failure.value, CommandFailed) else CommandFailed(Fault.INTERNAL)
        if said.fault is Fault.OFFSET_GONE:
            said = CommandFailed(Fault.UNAVAILABLE, "records went while they were being read")
        self._drop(view.place.scope, said)

    # -- room

    def _weight(self) -> int:
        return sum(view.weight for view in self._views.values())

    def _make_room(self, view: View) -> None:
        now = self._cluster.now()
        if sum(each.weigh(now) for each in self._views.values()) <= MAX_BYTES:
            return
        while self._weight() > MAX_BYTES and len(self._views) > 1:
            self._drop_one(view)
        if view.weight > MAX_BYTES:
            view.used = self._cluster.reactor.seconds()
            view.table, view.weight = Table(), 0
            view.end(CommandFailed(Fault.UNSUPPORTED, f"a table has at most {MAX_BYTES} bytes of keys and values"))

    def _drop_one(self, spared: View | None) -> None:
        """The one that was not asked about for longest.  Raises CommandFailed(BUSY) if all are being read."""
        idle = [view for view in self._views.values() if view.loading is None and view is not spared]
        if not idle and spared is None:
            raise CommandFailed(Fault.BUSY, f"{MAX_VIEWS} tables are being read")
        oldest = min(idle or [view for view in self._views.values() if view is not spared], key=lambda view: view.used)
        self._drop(oldest.place.scope, CommandFailed(Fault.BUSY, "there are too many tables"))

    def _drop_idle(self) -> None:
        now = self._cluster.reactor.seconds()
        for scope, view in list(self._views.items()):
            if now - view.used > (IDLE_SECONDS if view.failure is None else REFUSED_SECONDS) and view.loading is None:
                self._drop(scope, CommandFailed(Fault.UNAVAILABLE, "nobody asked"))

    def _drop(self, scope: str, failure: CommandFailed) -> None:
        self._views.pop(scope).end(failure)

    def _changed(self, place: Place) -> None:
        """A topic is gone, or has more partitions: it is read anew when somebody asks."""
        if place.scope in self._views:
            self._drop(place.scope, CommandFailed(Fault.UNAVAILABLE, "its partitions have changed"))


def _timed(batch: RecordBatch) -> list[Record]:
    """The records, each with a time of its own: Kafka's, which is of milliseconds, and the same for all in a batch.

    What a batch adds to it for a record's place depends on how much was read at once, which every reader does anew.
    """
    timestamp = max(1, batch.timestamp // 1000 * 1000)
    return [
        record if record.timestamp or not record.key else msgspec.structs.replace(record, timestamp=timestamp)
        for record in batch.records()
    ]
