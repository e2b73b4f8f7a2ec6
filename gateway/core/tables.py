"""A topic read as a table: the latest value of each key.

Latest is by (timestamp, partition, offset), where a timestamp is the record's own or, without one, its place in the
batch.  So it does not matter in which order batches are added, nor whether one is added twice: a table is read from the
log while new batches arrive, and comes to the same after every restart.

A key is never forgotten: behind a tombstone, or a record that has expired, an older record must not come back.  What a
table holds is therefore one entry for every key that its log ever had, and the values of those that are alive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import islice

import msgspec
from sortedcontainers import SortedList  # type: ignore[import-untyped]

from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import RecordBatch

_PARTITION_BITS = 17
"""MAX_PARTITIONS fits."""

_OFFSET_BITS = 63


class Entry(msgspec.Struct, frozen=True, gc=False):
    """What is known of a key.

    order:  of the latest record: timestamp, partition and offset as one number, which is compared.
    value:  None = it has none, or none any more.
    expiry: us since the epoch from which on it has none, 0 = never.
    """

    order: int
    value: bytes | None
    expiry: int = 0

    @property
    def timestamp(self) -> int:
        """us since the epoch; -1 = there was no record."""
        return self.order >> _PARTITION_BITS + _OFFSET_BITS


NOTHING = Entry(-1, None)


class Table:
    """The latest value of each key.  now: us since the epoch; for a table time does not go back.

    expiring: when values come to an end, with their keys; while there are none, `now` does not matter.
    """

    __slots__ = ("_alive", "_entries", "_keys", "expiring")

    def __init__(self) -> None:
        self._entries: dict[bytes, Entry] = {}
        self._alive = 0
        self.expiring: list[tuple[int, bytes]] = []
        self._keys: SortedList | None = None  # of those alive, from when somebody wants them in order

    def add(self, partition: int, batch: RecordBatch) -> None:
        """Take in what was appended to a partition, by its index.  Records without a key are nothing here.

        Fails, as the batch's encoding does, before anything was taken in.
        """
        place = partition << _OFFSET_BITS
        for offset, timestamp, record in batch.rows():
            if record.key:
                order = timestamp << _PARTITION_BITS + _OFFSET_BITS | place | offset
                self._put(record.key, Entry(order, record.value, record.expiry))

    def merge(self, other: Table) -> None:
        """Take in what another table of the same topic has."""
        for key, entry in other._entries.items():
            self._put(key, entry)

    def look(self, key: bytes, now: int) -> Entry:
        """What is known of a key; its value is None if it has none now."""
        self._expire(now)
        return self._entries.get(key, NOTHING)

    def get(self, key: bytes, now: int) -> bytes | None:
        """The value of a key, None = it has none."""
        if self.expiring:
            self._expire(now)
        entry = self._entries.get(key)
        return None if entry is None else entry.value

    def size(self, now: int) -> int:
        """How many keys have a value."""
        self._expire(now)
        return self._alive

    def alive(self, now: int) -> list[bytes]:
        """The keys that have a value."""
        self._expire(now)
        return [key for key, entry in self._entries.items() if entry.value is not None]

    def scan(
        self, now: int, after: bytes | None = None, limit: int = 0, keys: Iterable[bytes] | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Keys with their values in key order, to be used before anything is added.

        after: only keys behind this one.  limit: 0 = as many as there are.  keys: only these, None = all.
        """
        self._expire(now)
        chosen = self._ordered(after) if keys is None else self._sorted(keys, after)
        for key in islice(chosen, limit or None):
            value = self._entries[key].value
            assert value is not None, "only keys that are alive"
            yield key, value

    def _ordered(self, after: bytes | None) -> Iterator[bytes]:
        if self._keys is None:
            self._keys = SortedList(key for key, entry in self._entries.items() if entry.value is not None)
        found: Iterator[bytes] = self._keys.irange(after, inclusive=(False, True))
        return found

    def _sorted(self, keys: Iterable[bytes], after: bytes | None) -> Iterator[bytes]:
        wanted = {key for key in keys if after is None or key > after}
        return iter(sorted(key for key in wanted if self._entries.get(key, NOTHING).value is not None))

    def _put(self, key: bytes, entry: Entry) -> None:
        known = self._entries.get(key, NOTHING)
        if known.order >= entry.order:
            return
        self._entries[key] = entry
        if (known.value is None) is not (entry.value is None):
            self._show(key, entry.value is not None)
        if entry.expiry and entry.value is not None:
            self._expire_later(key, entry.expiry)

    def _show(self, key: bytes, alive: bool) -> None:
        self._alive += 1 if alive else -1
        if self._keys is not None:
            self._keys.add(key) if alive else self._keys.remove(key)

    def _expire_later(self, key: bytes, expiry: int) -> None:
        heappush(self.expiring, (expiry, key))
        if len(self.expiring) > 2 * len(self._entries) + 64:  # most are of records that were replaced
            entries = self._entries.items()
            self.expiring = [(at.expiry, key) for key, at in entries if at.expiry and at.value is not None]
            heapify(self.expiring)

    def _expire(self, now: int) -> None:
        expiring = self.expiring
        while expiring and expiring[0][0] <= now:
            expiry, key = heappop(expiring)
            entry = self._entries[key]
            if entry.value is not None and entry.expiry == expiry:
                self._entries[key] = Entry(entry.order, None)
                self._show(key, False)


Part = tuple[int, int, int, Iterable[RecordBatch]]
"""Of a log: index of the partition, where it starts and ends, and its batches from the start on."""


def tabulate(parts: Iterable[Part]) -> Table:
    """The table of a log.  Raises CommandFailed(UNAVAILABLE) if not all of it is there or can be read."""
    table = Table()
    for index, next, end, batches in parts:
        for batch in batches:
            if next >= end or batch.base > next:
                break
            try:
                table.add(index, batch.cut(next - batch.base, batch.count))
            except CommandFailed as failure:
                detail = f"the records of partition {index} at offset {batch.base} cannot be read: {failure}"
                raise CommandFailed(Fault.UNAVAILABLE, detail) from failure
            next = batch.end
        if next < end:
            raise CommandFailed(Fault.UNAVAILABLE, f"the records of partition {index} at offset {next} are missing")
    return table
