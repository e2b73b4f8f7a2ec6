"""The newest batches of every partition, in memory: all of them, or as many as fit a bound."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator

from gateway.core.changes import Appended, Change, PartitionDeleted
from gateway.core.records import RecordBatch


class _Log:
    """Batches of one partition, oldest first and without a gap; the first `gone` of the lists are given up."""

    __slots__ = ("bases", "batches", "gone")

    def __init__(self) -> None:
        self.bases: list[int] = []
        self.batches: list[RecordBatch] = []
        self.gone = 0

    def drop_oldest(self) -> None:
        self.gone += 1
        if self.gone * 2 > len(self.bases):  # now and then, so that dropping stays cheap
            del self.bases[: self.gone], self.batches[: self.gone]
            self.gone = 0


class Tail:
    """What was appended last.

    limit: bytes of bodies kept over all partitions, oldest out first; None = everything is kept.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._logs: dict[int, _Log] = {}
        self._ages: deque[tuple[_Log, int]] = deque()
        self._held = 0

    def absorb(self, changes: list[Change]) -> set[int]:
        """Take in what was appended, give up what was deleted.  Returns the partitions concerned, by number."""
        touched: set[int] = set()
        for change in changes:
            kind = type(change)
            if kind is Appended:
                self._append(change.number, change.batch)  # type: ignore[union-attr]
            elif kind is PartitionDeleted:
                self._logs.pop(change.number, None)  # type: ignore[union-attr]
            else:
                continue
            touched.add(change.number)  # type: ignore[union-attr]
        return touched

    def read(self, number: int, start: int) -> Iterator[RecordBatch] | None:
        """The batches from the one that holds offset `start` on; None if that one is not here."""
        log = self._logs.get(number)
        if log is None:
            return None
        at = bisect_right(log.bases, start) - 1
        if at < log.gone:
            return None
        return (log.batches[index] for index in range(at, len(log.batches)))

    def seek(self, number: int, timestamp: int) -> int | None:
        """Offset of the first record at or after that time; None if it may be older than what is here, or not yet."""
        log = self._logs.get(number)
        if log is None or log.gone == len(log.batches) or log.batches[log.gone].timestamp > timestamp:
            return None
        at = bisect_right(log.batches, timestamp, lo=log.gone, key=lambda batch: batch.timestamp) - 1
        batch = log.batches[at]
        return batch.base + min(batch.count, timestamp - batch.timestamp)

    def _append(self, number: int, batch: RecordBatch) -> None:
        log = self._logs.get(number)
        if log is None:
            log = self._logs[number] = _Log()
        log.bases.append(batch.base)
        log.batches.append(batch)
        if self._limit is None:
            return
        size = len(batch.body)
        self._ages.append((log, size))
        self._held += size
        while self._held > self._limit and len(self._ages) > 1:
            oldest, size = self._ages.popleft()
            oldest.drop_oldest()
            self._held -= size
