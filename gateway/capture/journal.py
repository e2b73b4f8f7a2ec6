"""Rows on their way into files: gathered by the reactor, packed and written by a thread of its own.

Whoever gives rows never waits: what does not fit into the queue is dropped, a chunk at a time, and counted, and a row
says so.  Files are
not synced: what the kernel has survives the end of the process, not that of the machine.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import msgspec
from twisted.logger import Logger

from gateway.capture.plan import CapturePlan
from gateway.capture.rings import WEIGHT, Seldom
from gateway.capture.rows import SUFFIX, Header, ListenerSaid, Packing, Row

CHUNK = 1 << 18
"""Bytes that are handed over at once, and become a zstd frame."""

COMPLAIN_SECONDS = 60.0
"""Between two sentences in the log about files that cannot be written."""


RUNNING, APART = "capture", "fault"
"""What the names of files begin with."""


class Source(msgspec.Struct, frozen=True):
    """Who captures: what of a header is the same in all files."""

    node: str
    gateway: str
    started: int
    listeners: Mapping[str, ListenerSaid]

    def header(self, opened: int) -> Header:
        """Of a file that is begun now."""
        return Header(self.node, self.gateway, self.started, opened, self.listeners)


class _Chunk(msgspec.Struct, frozen=True):
    """Rows for the running file or, if `apart`, for one of their own.  weight: bytes of the queue that they take."""

    rows: list[Row]
    weight: int
    apart: bool = False


class Journal:
    """Made and fed in the reactor's thread; nothing is written before `start`.

    wall:    ns since the epoch.  seconds: of a clock that never goes back.
    dropped: rows that did not fit into the queue.  Of `writer`, what has become of the others.
    """

    def __init__(
        self, plan: CapturePlan, source: Source, wall: Callable[[], int], seconds: Callable[[], float]
    ) -> None:
        self.dropped = 0
        self.writer = Writer(plan, source, wall, seconds)
        self._wall = wall
        self._room = plan.memory_bytes
        self._rows: list[Row] = []
        self._weight = 0
        self._given = 0
        self._missing = 0
        self._queue: SimpleQueue[_Chunk | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="capture", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def add(self, row: Row) -> None:
        """One more."""
        self._rows.append(row)
        self._weight += WEIGHT + len(row.frame)
        if self._weight > CHUNK:
            self.flush()

    def add_apart(self, rows: list[Row]) -> None:
        """Rows for a file of their own, unless the queue is full."""
        self._hand_over(rows, sum(WEIGHT + len(row.frame) for row in rows), apart=True)

    def flush(self) -> None:
        """Have what there is written now, unless the queue is full; to be called every second."""
        rows, weight = self._rows, self._weight
        if not rows and not self._missing:
            return
        self._rows, self._weight = [], 0
        if self._hand_over([self._gap(), *rows] if self._missing else rows, weight):
            self._missing = 0
        else:
            self._missing += len(rows)
            self.dropped += len(rows)

    def finish(self) -> None:
        """Nothing comes any more; `join` then waits until all is written."""
        self.flush()
        self._queue.put(None)

    def join(self) -> None:
        """Wait for the end of the thread: blocks."""
        self._thread.join()

    def _hand_over(self, rows: list[Row], weight: int, *, apart: bool = False) -> bool:
        if self._given + weight - self.writer.taken > self._room:
            return False
        self._given += weight
        self._queue.put(_Chunk(rows, weight, apart))
        return True

    def _gap(self) -> Row:
        return Row(self._wall() // 1000, 0, "", "", "gap", note=str(self._missing))

    def _run(self) -> None:
        while (chunk := self._queue.get()) is not None:
            self.writer.write(chunk.rows, chunk.weight, apart=chunk.apart)
        self.writer.close()


class Writer:
    """The files.  Lives in the journal's thread; others may read its numbers.

    taken:   bytes of the queue that are done with.
    written: rows in files, and `octets` the bytes they take.
    failed:  rows that could not be written.
    """

    _log = Logger()

    def __init__(
        self, plan: CapturePlan, source: Source, wall: Callable[[], int], seconds: Callable[[], float]
    ) -> None:
        self.taken = 0
        self.written = 0
        self.octets = 0
        self.failed = 0
        self._plan = plan
        self._source = source
        self._wall = wall
        self._seconds = seconds
        self._packing = Packing()
        self._directory = Path(plan.directory)
        self._file: int | None = None
        self._path: Path | None = None
        self._size = 0
        self._opened = 0.0
        self._number = 0
        self._complaints = Seldom(seconds, COMPLAIN_SECONDS)

    def prepare(self) -> None:
        """Make the directory.  Raises OSError where nothing can be written there."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(self._directory, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self._plan.directory)

    def write(self, rows: list[Row], weight: int, *, apart: bool = False) -> None:
        """A chunk.  What goes wrong is logged and counted, and the next chunk goes into a new file."""
        try:
            if apart:
                self._write_apart(rows)
            else:
                self._append(rows)
            self.written += len(rows)
        except OSError as error:
            self.close()
            self.failed += len(rows)
            self._complain(error)
        finally:
            self.taken += weight

    def close(self) -> None:
        """Close the running file, if there is one."""
        if self._file is not None:
            os.close(self._file)
            self._file = self._path = None

    def _append(self, rows: list[Row]) -> None:
        if self._file is not None and self._seconds() - self._opened > self._plan.rotate_seconds:
            self.close()
        if self._file is None:
            self._file, self._path, header = self._create(RUNNING)
            self._opened, self._size = self._seconds(), self._put(self._file, header)
        self._size += self._put(self._file, self._packing.rows(rows))
        if self._size >= self._plan.file_bytes:
            self.close()
            self._tidy()

    def _write_apart(self, rows: list[Row]) -> None:
        file, path, header = self._create(APART)
        try:
            self._put(file, header + self._packing.rows(rows))
        finally:
            os.close(file)
        self._log.warn("somebody broke a protocol; the last frames of the connection are in {path}", path=path)

    def _create(self, kind: str) -> tuple[int, Path, bytes]:
        """A new file, and what it begins with; readable by its owner alone, for it holds what others sent."""
        self.prepare()
        self._tidy()
        now = self._wall() // 1000
        began = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now // 1_000_000))
        while True:
            self._number += 1
            path = self._directory / f"{kind}-{began}.{now % 1_000_000:06}Z-{self._number:06}{SUFFIX}"
            try:
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                continue
            return file, path, self._packing.header(self._source.header(now))

    def _put(self, file: int, octets: bytes) -> int:
        left = memoryview(octets)
        while left:
            left = left[os.write(file, left) :]
        self.octets += len(octets)
        return len(octets)

    def _tidy(self) -> None:
        """Remove the oldest files until the rest and a new one are within the bound."""
        found = sorted((each.stat().st_mtime_ns, each) for each in self._directory.glob(f"*-*Z-*{SUFFIX}"))
        sizes = {path: path.stat().st_size for _, path in found}
        total = sum(sizes.values()) + min(self._plan.file_bytes, self._plan.total_bytes)
        for _, path in found:
            if total <= self._plan.total_bytes:
                return
            if path == self._path:
                continue
            path.unlink(missing_ok=True)
            total -= sizes[path]

    def _complain(self, error: OSError) -> None:
        if self._complaints.now():
            sentence = "capture: {reason}; {failed} rows could not be written so far"
            self._log.error(sentence, reason=error, failed=self.failed)
