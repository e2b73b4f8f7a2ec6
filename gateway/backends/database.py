"""One SQLite file: its schema, how changes are saved in it, and how state and records come back.

Knows no thread and no reactor.  A batch is a row of its own, never a record: 35,000 rows of 16 KB a second were
measured, 450,000 of single records.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import google_crc32c
import msgspec

from gateway.core import changes as c
from gateway.core.changes import Change
from gateway.core.commands import TopicSettings
from gateway.core.faults import CommandFailed, Fault
from gateway.core.idempotence import FORGET_AFTER, MANY
from gateway.core.records import Encoding, RecordBatch
from gateway.core.state import State

OFFSET_BITS = 40
"""Of a batch's position, the rest is the partition's number.  2^40 records of one partition are more than the largest
SQLite file of this page size (70 TB) can hold at 64 bytes a record."""

CAPACITY = 1 << OFFSET_BITS
MAX_PARTITION_NUMBER = (1 << 63 - OFFSET_BITS) - 1

_LAYOUT = 1
"""The user_version of files laid out like this."""

_SCHEMA = """
CREATE TABLE batches (
    position INTEGER PRIMARY KEY,  -- partition number << 40 | offset of the first record
    count INTEGER NOT NULL,
    timestamp INTEGER NOT NULL,    -- of the first record, us since the epoch
    crc INTEGER NOT NULL,          -- see _checksum
    encoding TEXT NOT NULL,
    origin TEXT NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE namespaces (id INTEGER PRIMARY KEY, name TEXT NOT NULL, created INTEGER NOT NULL);
CREATE TABLE topics (
    namespace INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT NOT NULL, created INTEGER NOT NULL,
    settings BLOB NOT NULL, PRIMARY KEY (namespace, id)
) WITHOUT ROWID;
CREATE TABLE partitions (
    number INTEGER PRIMARY KEY, namespace INTEGER NOT NULL, topic INTEGER NOT NULL, idx INTEGER NOT NULL,
    created INTEGER NOT NULL, first INTEGER NOT NULL DEFAULT 0, end INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0, timestamp INTEGER NOT NULL DEFAULT 0, gone INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX gone ON partitions (number) WHERE gone;
CREATE TABLE producers (
    number INTEGER NOT NULL, producer BLOB NOT NULL, epoch INTEGER NOT NULL, last INTEGER NOT NULL,
    heard INTEGER NOT NULL, PRIMARY KEY (number, producer)
) WITHOUT ROWID;
CREATE TABLE offsets (
    number INTEGER NOT NULL, kind TEXT NOT NULL, reader TEXT NOT NULL, offset INTEGER NOT NULL,
    PRIMARY KEY (number, kind, reader)
) WITHOUT ROWID;
CREATE TABLE groups (
    namespace INTEGER NOT NULL, topic INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT NOT NULL,
    created INTEGER NOT NULL, generation INTEGER NOT NULL, PRIMARY KEY (namespace, topic, id)
) WITHOUT ROWID;
CREATE TABLE numbered (kind TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""

_CHECKED = struct.Struct(">qqq")
"""What a checksum covers besides name and body: position, count, timestamp."""

_Row = tuple[int, int, int, int, str, str, bytes]
_BATCH = "SELECT position, count, timestamp, crc, encoding, origin, body FROM batches"
_settings = msgspec.msgpack.Decoder(TopicSettings).decode
_pack = msgspec.msgpack.encode


class Unusable(Exception):
    """The data directory cannot be used; the text says why and what to do."""


def claim(directory: Path) -> int:
    """Make the directory and take it for this process.  Returns the descriptor that holds the claim.

    Raises Unusable if another process has it or it cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(directory / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unusable(f"cannot use {directory} for data: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise Unusable(f"{directory} is in use by another gateway; stop it or name another directory") from error
    return lock


def connect(path: Path) -> sqlite3.Connection:
    """A connection, for any thread but one at a time.  Raises Unusable if the file is not a database."""
    try:
        connection = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise Unusable(f"{path} cannot be opened: {error}") from error
    try:
        connection.execute("PRAGMA page_size = 16384")  # 4096 halves the batches a second, measured
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 16384")  # if `fold` does not keep up
    except sqlite3.Error as error:
        connection.close()
        raise Unusable(f"{path} cannot be opened: {error}") from error
    return connection


def start(path: Path, now: int) -> tuple[sqlite3.Connection, State, State]:
    """The file, made if there is none, and the state in it, twice.  Raises Unusable, and then nothing stays open."""
    connection = connect(path)
    try:
        prepare(connection)
        forget(connection, now)
        return connection, load(connection, now), load(connection, now)
    except Unusable:
        connection.close()
        raise


def prepare(connection: sqlite3.Connection) -> None:
    """Lay out a new file.  Raises Unusable if the file is not ours or damaged."""
    try:
        (layout,) = connection.execute("PRAGMA user_version").fetchone()
        if layout == 0:
            connection.executescript(f"BEGIN;{_SCHEMA}PRAGMA user_version = {_LAYOUT};COMMIT")
        elif layout != _LAYOUT:
            raise Unusable(f"the data has layout {layout}, this version reads layout {_LAYOUT}")
    except sqlite3.Error as error:
        raise Unusable(f"the data file cannot be read: {error}") from error


def save(connection: sqlite3.Connection, changes: list[Change], now: int) -> None:
    """Store changes in their order, within the transaction that is open."""
    appended: list[c.Appended] = []
    for change in changes:
        if isinstance(change, c.Appended):
            appended.append(change)
            continue
        if appended:
            _save_appended(connection, appended, now)
            appended = []
        statement, values = _SAVE[type(change)](change)
        connection.execute(statement, values)
    if appended:
        _save_appended(connection, appended, now)


def _save_appended(connection: sqlite3.Connection, appended: list[c.Appended], now: int) -> None:
    connection.executemany("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?)", map(_row, appended))
    ends: dict[int, tuple[int, int, int]] = {}
    for change in appended:
        batch = change.batch
        size = len(batch.body) + (ends[change.number][1] if change.number in ends else 0)
        ends[change.number] = batch.base + batch.count, size, batch.timestamp + batch.count - 1
    connection.executemany(
        "UPDATE partitions SET end = ?, bytes = bytes + ?, timestamp = ? WHERE number = ?",
        [(*end, number) for number, end in ends.items()],
    )
    producers = [(change.number, *producer, now) for change in appended for producer in change.producers]
    if producers:
        connection.executemany("INSERT OR REPLACE INTO producers VALUES (?, ?, ?, ?, ?)", producers)


def _row(change: c.Appended) -> tuple[object, ...]:
    batch = change.batch
    position = change.number << OFFSET_BITS | batch.base
    name = batch.encoding.name
    crc = _checksum(name, batch.body, position, batch.count, batch.timestamp)
    return position, batch.count, batch.timestamp, crc, name, batch.origin, batch.body


@cache
def _name_sum(name: str) -> int:
    return int(google_crc32c.value(name.encode()))


def _intact(row: _Row) -> bool:
    position, count, timestamp, crc, name, _, body = row
    try:
        return _checksum(name, body, position, count, timestamp) == crc
    except (TypeError, struct.error):  # damage can make a number a text
        return False


def _checksum(name: str, body: bytes, position: int, count: int, timestamp: int) -> int:
    """CRC-32C of the encoding's name, the body, and where and when the batch stands: all that a reader relies on."""
    summed = google_crc32c.extend(_name_sum(name), body)
    return int(google_crc32c.extend(summed, _CHECKED.pack(position, count, timestamp)))


Statement = tuple[str, tuple[object, ...]]

_SAVE: dict[type, Callable[..., Statement]] = {
    c.Numbered: lambda at: ("INSERT OR REPLACE INTO numbered VALUES (?, ?)", (at.kind, at.value)),
    c.NamespaceSet: lambda at: ("INSERT INTO namespaces VALUES (?, ?, ?)", (at.id, at.name, at.created)),
    c.NamespaceDeleted: lambda at: ("DELETE FROM namespaces WHERE id = ?", (at.id,)),
    c.TopicSet: lambda at: (
        "INSERT OR REPLACE INTO topics VALUES (?, ?, ?, ?, ?)",
        (at.namespace, at.id, at.name, at.created, _pack(at.settings)),
    ),
    c.TopicDeleted: lambda at: ("DELETE FROM topics WHERE namespace = ? AND id = ?", (at.namespace, at.id)),
    c.PartitionCreated: lambda at: (
        "INSERT INTO partitions (number, namespace, topic, idx, created) VALUES (?, ?, ?, ?, ?)",
        (at.number, at.namespace, at.topic, at.index, at.created),
    ),
    c.PartitionDeleted: lambda at: ("UPDATE partitions SET gone = 1 WHERE number = ?", (at.number,)),
    c.GroupSet: lambda at: (
        "INSERT OR REPLACE INTO groups VALUES (?, ?, ?, ?, ?, ?)",
        (at.namespace, at.topic, at.id, at.name, at.created, at.generation),
    ),
    c.GroupDeleted: lambda at: (
        "DELETE FROM groups WHERE namespace = ? AND topic = ? AND id = ?",
        (at.namespace, at.topic, at.id),
    ),
    c.OffsetSet: lambda at: (
        "INSERT OR REPLACE INTO offsets VALUES (?, ?, ?, ?)",
        (at.number, at.kind, at.reader, at.offset),
    ),
    c.OffsetForgotten: lambda at: (
        "DELETE FROM offsets WHERE number = ? AND kind = ? AND reader = ?",
        (at.number, at.kind, at.reader),
    ),
}


def sweep(connection: sqlite3.Connection, most: int = 256) -> bool:
    """Remove some of what a deleted partition left behind.  Returns whether there may be more.

    A partition of many gigabytes must not hold up the writes of others, so its rows go a few at a time.
    """
    row = connection.execute("SELECT number FROM partitions WHERE gone LIMIT 1").fetchone()
    if row is None:
        return False
    cursor = connection.execute(
        "DELETE FROM batches WHERE position IN (SELECT position FROM batches WHERE position BETWEEN ? AND ? LIMIT ?)",
        (*_positions(row[0]), most),
    )
    if cursor.rowcount < most:
        for table in ("producers", "offsets", "partitions"):
            connection.execute(f"DELETE FROM {table} WHERE number = ?", row)
    return True


def fold(connection: sqlite3.Connection) -> None:
    """Put what is in the write-ahead log into the file, as far as nobody is in the way."""
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def forget(connection: sqlite3.Connection, now: int) -> None:
    """Remove the producers that `core.idempotence` forgets.  Raises Unusable if the file is damaged."""
    try:
        full = "SELECT number FROM producers GROUP BY number HAVING count(*) > ?"
        for (number,) in connection.execute(full, (MANY,)).fetchall():
            connection.execute(
                "DELETE FROM producers WHERE number = ?1 AND heard < ?2 AND producer NOT IN"
                " (SELECT producer FROM producers WHERE number = ?1 ORDER BY heard DESC LIMIT ?3)",
                (number, now - FORGET_AFTER, MANY),
            )
    except sqlite3.Error as error:
        raise Unusable(f"the data file is damaged ({error}); restore it from a copy") from error


def load(connection: sqlite3.Connection, now: int) -> State:
    """The state as it was saved.  now: us since the epoch.

    Raises Unusable if what is there does not fit together.
    """
    state = State(CAPACITY, MAX_PARTITION_NUMBER)
    try:
        state.apply(list(_saved(connection)))
        for number, first, end, size, timestamp in connection.execute(
            "SELECT number, first, end, bytes, timestamp FROM partitions WHERE NOT gone"
        ):
            partition = state.partitions[number]
            partition.start, partition.end, partition.bytes = first, end, size
            partition.topic.timestamp = max(partition.topic.timestamp, timestamp)
            _check_end(connection, number, first, end)
        for number, producer, epoch, last, heard in connection.execute("SELECT * FROM producers ORDER BY heard"):
            if number in state.partitions:
                state.partitions[number].producers.heard(producer, epoch, last, heard)
    except Unusable:
        raise
    except Exception as error:  # every row was written by us: whatever does not fit is damage
        raise Unusable(f"the data file is damaged ({error}); restore it from a copy") from error
    return state


def read(
    connection: sqlite3.Connection, encodings: Mapping[str, Encoding], number: int, start: int
) -> Iterator[RecordBatch]:
    """The batches of a partition from the one that holds offset `start` on.

    Raises CommandFailed(UNAVAILABLE) at one that is damaged or in an encoding this process does not know.
    """
    low, high = _positions(number)
    (first,) = connection.execute(
        "SELECT max(position) FROM batches WHERE position BETWEEN ? AND ?", (low, low | start)
    ).fetchone()
    rows = connection.execute(
        f"{_BATCH} WHERE position BETWEEN ? AND ? ORDER BY position", (low if first is None else first, high)
    )
    return (_batch(row, encodings) for row in rows)


def seek(connection: sqlite3.Connection, number: int, start: int, end: int, timestamp: int) -> int:
    """Offset in start..end of the first record at or after that time; times rise with offsets."""
    base = number << OFFSET_BITS
    while start < end:
        middle = (start + end) // 2
        row: tuple[int, int, int] | None = connection.execute(
            "SELECT position, count, timestamp FROM batches "
            "WHERE position BETWEEN ? AND ? ORDER BY position DESC LIMIT 1",
            (base, base | middle),
        ).fetchone()
        if row is None:  # deleted meanwhile
            return end
        offset, count, first = row[0] - base, row[1], row[2]
        if timestamp < first:
            end = offset
        elif timestamp >= first + count:
            start = offset + count
        else:
            return offset + timestamp - first
    return start


def _positions(number: int) -> tuple[int, int]:
    return number << OFFSET_BITS, number << OFFSET_BITS | CAPACITY - 1


def _saved(connection: sqlite3.Connection) -> Iterator[Change]:
    yield from (c.Numbered(*row) for row in connection.execute("SELECT kind, value FROM numbered"))
    yield from (c.NamespaceSet(*row) for row in connection.execute("SELECT id, name, created FROM namespaces"))
    topics = "SELECT namespace, id, name, created, settings FROM topics"
    for namespace, id, name, created, settings in connection.execute(topics):
        yield c.TopicSet(namespace, id, name, created, _settings(settings))
    partitions = "SELECT number, namespace, topic, idx, created FROM partitions WHERE NOT gone ORDER BY idx"
    yield from (c.PartitionCreated(*row) for row in connection.execute(partitions))
    groups = "SELECT namespace, topic, id, name, created, generation FROM groups"
    yield from (c.GroupSet(*row) for row in connection.execute(groups))
    offsets = "SELECT number, kind, reader, offset FROM offsets JOIN partitions USING (number) WHERE NOT gone"
    yield from (c.OffsetSet(*row) for row in connection.execute(offsets))


def _check_end(connection: sqlite3.Connection, number: int, first: int, end: int) -> None:
    """Records are there up to the end that was saved with them."""
    row = connection.execute(
        "SELECT position, count FROM batches WHERE position BETWEEN ? AND ? ORDER BY position DESC LIMIT 1",
        _positions(number),
    ).fetchone()
    stored = first if row is None else row[0] - (number << OFFSET_BITS) + row[1]
    if stored != end:
        raise Unusable(f"the data file is damaged (partition {number} ends at {stored}, not {end}); restore a copy")


def _batch(row: _Row, encodings: Mapping[str, Encoding]) -> RecordBatch:
    position, count, timestamp, _, name, origin, body = row
    offset = position & CAPACITY - 1
    encoding = encodings.get(name)
    if encoding is None:
        raise CommandFailed(Fault.UNAVAILABLE, f"records at offset {offset} are in the unknown encoding {name}")
    if not _intact(row):
        raise CommandFailed(Fault.UNAVAILABLE, f"the records at offset {offset} are damaged on disk")
    return RecordBatch(encoding, body, count, offset, timestamp, origin)
