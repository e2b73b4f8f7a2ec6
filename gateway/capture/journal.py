"""Sheets on their way into files: encoded by the reactor, packed and written by a thread of its own.

Whoever gives rows hardly waits: what does not fit into the queue is dropped, a sheet at a time, and counted, and a row
says so.  A thread that wants the interpreter's lock stops the reactor, so it is given much at a time, and does all of
that in one call.  Where both share one core it may not get that lock for a second, since a reactor that reads and
writes gives it up often and is always the first to take it again: so the reactor rests while the queue is filling.

Files are not synced: what the kernel has survives the end of the process, not that of the machine.
"""

from __future__ import annotations

import errno
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import msgspec
import zstandard
from twisted.logger import Logger

from gateway.capture.gathering import Gathering
from gateway.capture.plan import CapturePlan
from gateway.capture.rings import Seldom
from gateway.capture.row import Row
from gateway.capture.rows import SUFFIX, Header, ListenerSaid
from gateway.capture.sheets import Sheet, sheet_of
from gateway.net.tapping import Journaled

SHEET = 1 << 19
"""Bytes that cross before they are made a sheet, and a zstd frame: few enough that they still are in the cache of the
processor's core.  With a quarter of it batches of 15 KB cost 1.7 us each more, single records 0.1."""

CHUNK = 1 << 20
"""Bytes of sheets that are handed to the thread at once.  With four times as many the reactor writes into buffers that
are in no cache any more, which costs 2 % of small requests; with half of it batches lose as much to the hand-over."""

MOST = 1 << 24
"""Bytes of sheets that are compressed and written at once, if so many wait."""

REST, REST_EVERY = 0.001, 0.02
"""Seconds that the reactor rests, and from one time to the next: 5 % at most, also where the disk is too slow."""

SPARE = 16
"""Buffers that are kept to be used again: fresh memory costs as much as encoding."""

ROOM = 1 << 20
"""Bytes of the largest of them."""

LEVEL = 1
"""Of zstd.  256 KiB of JSON take 0.4 ms and become a quarter; at level 3 they take 0.7 and become no smaller."""

COMPLAIN_SECONDS = 60.0
"""Between two sentences in the log about files that cannot be written."""


RUNNING, APART = "capture", "fault"
"""What the names of files begin with."""


Packed = list[bytes]
"""What is written one behind the other."""


class Source(msgspec.Struct, frozen=True):
    """Who captures: what of a header is the same in all files."""

    node: str
    gateway: str
    started: int
    listeners: Mapping[str, ListenerSaid]

    def header(self, opened: int) -> Header:
        """Of a file that is begun now."""
        return Header(self.node, self.gateway, self.started, opened, self.listeners)


class _Chunk(msgspec.Struct):
    """Encoded sheets, of so many rows and bytes, for the running file or, if `apart`, for one of their own."""

    sheets: list[bytearray] = []
    rows: int = 0
    size: int = 0
    apart: bool = False

    def add(self, sheet: bytearray, rows: int) -> None:
        """One more."""
        self.sheets.append(sheet)
        self.rows += rows
        self.size += len(sheet)

    def join(self, other: _Chunk) -> None:
        """All of another, behind."""
        self.sheets += other.sheets
        self.rows += other.rows
        self.size += other.size


class Journal:
    """Made and fed in the reactor's thread; nothing is written before `start`.

    gathered: what crosses, until it is a sheet.
    wall:    ns since the epoch.  seconds: of a clock that never goes back.  rest: lets so many seconds pass.
    dropped: rows that did not fit into the queue.  Of `writer`, what has become of the others.
    """

    def __init__(
        self,
        plan: CapturePlan,
        source: Source,
        wall: Callable[[], int],
        seconds: Callable[[], float],
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self.dropped = 0
        self.gathered = Gathering(wall, seconds(), min(SHEET, plan.memory_bytes // 4), self._end)
        self.writer = Writer(plan, source, wall, seconds)
        self._wall = wall
        self._seconds = seconds
        self._room = plan.memory_bytes
        self._encode = msgspec.msgpack.Encoder().encode_into
        self._chunk = min(CHUNK, plan.memory_bytes // 4)
        self._ready = _Chunk()
        self._given = 0
        self._missing = 0
        self._most = min(MOST, plan.file_bytes // 4)
        self._rest = rest
        self._rested = seconds()
        self._queue: SimpleQueue[_Chunk | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="capture", daemon=True)

    def told(self) -> Journaled:
        """What has become of all rows so far."""
        writer = self.writer
        return Journaled(writer.written, writer.octets, self.dropped, writer.failed)

    @property
    def waiting(self) -> int:
        """Bytes of sheets that are not written yet."""
        return self._given - self.writer.taken

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def add(self, row: Row) -> None:
        """What is no frame, or has been a row before."""
        self.gathered.add(row, self._seconds())

    def add_apart(self, rows: list[Row]) -> None:
        """Rows for a file of their own, unless the queue is full."""
        chunk = _Chunk(apart=True)
        if self._encode_into(chunk, sheet_of(rows), len(rows)):
            self._queue.put(chunk)

    def flush(self) -> None:
        """Have what there is written now, unless the queue is full; to be called every second."""
        if self._missing or self.gathered.rows:
            self._end(self._seconds())
        if self._ready.sheets:
            self._hand_over()

    def finish(self) -> None:
        """Nothing comes any more; `join` then waits until all is written."""
        self.flush()
        self.flush()  # which says what the first had no room for
        self._queue.put(None)

    def join(self) -> None:
        """Wait for the end of the thread: blocks."""
        self._thread.join()

    def _end(self, now: float) -> None:
        """Have done with all that has gathered."""
        rows, sheet = self.gathered.rows, self.gathered.sheet(now)
        if self._missing:
            gap = Row(self._wall() // 1000, 0, "", "", "gap", note=str(self._missing))
            sheet.rows.insert(0, (0, gap))
        if self._encode_into(self._ready, sheet, rows):
            self._missing = 0
        else:
            self._missing += rows
            self.dropped += rows
        if self._ready.size >= self._chunk:
            self._hand_over()
        if self.waiting > self._room // 4 and now - self._rested > REST_EVERY:
            self._rested = now
            self._rest(REST)

    def _encode_into(self, chunk: _Chunk, sheet: Sheet, rows: int) -> bool:
        """False = there is no room."""
        spare = self.writer.spare
        encoded = spare.pop() if spare else bytearray()
        self._encode(sheet, encoded)
        if self.waiting + len(encoded) > self._room:
            return False
        self._given += len(encoded)
        chunk.add(encoded, rows)
        return True

    def _hand_over(self) -> None:
        self._queue.put(self._ready)
        self._ready = _Chunk()

    def _run(self) -> None:
        following: _Chunk | None = None
        while (chunk := following or self._queue.get()) is not None:
            following = self._join(chunk)
            self.writer.write(chunk)
        self.writer.close()

    def _join(self, chunk: _Chunk) -> _Chunk | None:
        """Put what else waits into it: who is late shall want the lock less often.  Returns what cannot be put in."""
        while chunk.size < self._most and not self._queue.empty():
            following = self._queue.get()
            if following is None:
                self._queue.put(None)
                return None
            if following.apart or chunk.apart:
                return following
            chunk.join(following)
        return None


class Writer:
    """The files.  Lives in the journal's thread; others may read its numbers.

    taken:   bytes of the queue that are done with.  spare: buffers that are not needed any more.
    written: rows in files, and `octets` the bytes they take.
    failed:  rows that could not be written.
    """

    _log = Logger()

    def __init__(
        self, plan: CapturePlan, source: Source, wall: Callable[[], int], seconds: Callable[[], float]
    ) -> None:
        self.taken = 0
        self.spare: deque[bytearray] = deque(maxlen=SPARE)
        self.written = 0
        self.octets = 0
        self.failed = 0
        self._plan = plan
        self._source = source
        self._wall = wall
        self._seconds = seconds
        self._compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
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

    def write(self, chunk: _Chunk) -> None:
        """A chunk.  What goes wrong is logged and counted, and the next goes into a new file."""
        try:
            packed = self._pack(chunk.sheets)
            if chunk.apart:
                self._write_apart(packed)
            else:
                self._append(packed)
            self.written += chunk.rows
        except OSError as error:
            self.close()
            self.failed += chunk.rows
            self._complain(error)
        finally:
            self.spare.extend(sheet for sheet in chunk.sheets if len(sheet) <= ROOM)
            self.taken += chunk.size

    def close(self) -> None:
        """Close the running file, if there is one."""
        if self._file is not None:
            os.close(self._file)
            self._file = self._path = None

    def _append(self, packed: Packed) -> None:
        if self._file is not None and self._seconds() - self._opened > self._plan.rotate_seconds:
            self.close()
        if self._file is None:
            self._file, self._path, header = self._create(RUNNING)
            self._opened, self._size = self._seconds(), self._put(self._file, [header])
        self._size += self._put(self._file, packed)
        if self._size >= self._plan.file_bytes:
            self.close()
            self._tidy()

    def _write_apart(self, packed: Packed) -> None:
        file, path, header = self._create(APART)
        try:
            self._put(file, [header, *packed])
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
            return file, path, self._compressor.compress(msgspec.msgpack.encode(self._source.header(now)))

    def _pack(self, sheets: list[bytearray]) -> Packed:
        """A zstd frame for each of them."""
        packed = self._compressor.multi_compress_to_buffer([*sheets])
        return [packed[at].tobytes() for at in range(len(packed))]

    def _put(self, file: int, pieces: Packed) -> int:
        size = sum(map(len, pieces))
        done = os.writev(file, pieces)
        if done < size:  # the disk is full, as the next try will tell
            left = memoryview(b"".join(pieces))[done:]
            while left:
                left = left[os.write(file, left) :]
        self.octets += size
        return size

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
