"""The default backend: one SQLite file, written by a thread of its own with group commit.

Two states are kept.  The writer's is ahead: a command is decided on it, and everything that arrived while one
transaction was syncing is decided and saved in the next.  The visible one is what readers see: it follows when the
transaction has committed, so nobody reads a record that is not on disk, and an acknowledged write is never lost.
"""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer, IReactorFromThreads, IReactorTime
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.plugin import IPlugin
from twisted.python.threadpool import ThreadPool
from zope.interface import implementer

from gateway import __version__
from gateway.backends import database
from gateway.backends.fetching import Batches, Fetching
from gateway.backends.interface import IBackend, IBackendMaker, IFollower
from gateway.backends.tail import Tail
from gateway.backends.wall import microseconds
from gateway.core import commands as q
from gateway.core.changes import Change
from gateway.core.commands import Session
from gateway.core.decisions import perform, writes
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding, RecordBatch, select
from gateway.core.replies import Outcome, Reply
from gateway.core.state import Partition, State
from gateway.core.views import answer, describe_node

T = TypeVar("T")

TAIL_BYTES = 64 << 20
"""Record bodies kept in memory, so that a consumer at the end does not touch the disk."""

MAX_COMMIT = 1024
"""Commands in one transaction."""


_UNDECIDED = CommandFailed(Fault.INTERNAL, "not decided")


class _Write:
    """One command on its way through the writer."""

    __slots__ = ("command", "done", "outcome", "session")

    def __init__(self, command: q.Command, session: Session) -> None:
        self.command = command
        self.session = session
        self.done: Deferred[Reply] = Deferred()
        self.outcome: Outcome = _UNDECIDED


class _Writer(threading.Thread):
    """The only one that changes the file.

    committed: called in this thread after each transaction, with what it did.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        state: State,
        now: Callable[[], int],
        committed: Callable[[list[_Write], list[Change]], None],
    ) -> None:
        super().__init__(name="sqlite-writer", daemon=True)
        self.queue: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._connection = connection
        self._state: State | None = state
        self._now = now
        self._committed = committed
        self._log = Logger(namespace=__name__)

    def run(self) -> None:
        """Until None is queued."""
        ended = False
        sweeping = True
        while not ended:
            work, ended = self._gather(sweeping)
            if work:
                self._committed(work, self._transact(work))
            sweeping = self._sweep()
        self._connection.close()

    def _gather(self, sweeping: bool) -> tuple[list[_Write], bool]:
        """Everything that waits, at least one if there is nothing else to do; and whether the end was among it."""
        work: list[_Write] = []
        try:
            while len(work) < MAX_COMMIT:
                write = self.queue.get(block=not work and not sweeping)
                if write is None:
                    return work, True
                work.append(write)
                if self.queue.empty():
                    break
        except queue.Empty:
            pass
        return work, False

    def _transact(self, work: list[_Write]) -> list[Change]:
        """Decide and save all of it; each write gets its outcome.  Returns what changed."""
        now = self._now()
        changes: list[Change] = []
        try:
            if self._state is None:
                self._state = database.load(self._connection, now)
            for write in work:
                write.outcome = self._perform(self._state, write, now, changes)
            if changes:
                self._save(changes, now)
        except (sqlite3.Error, database.Unusable) as error:
            self._log.error("cannot write: {error}", error=error)
            self._state = None  # it is ahead of the file; read again when there is more to write
            failure = CommandFailed(Fault.UNAVAILABLE, f"the store cannot be written: {error}")
            for write in work:
                if not isinstance(write.outcome, CommandFailed):
                    write.outcome = failure
            return []
        return changes

    def _perform(self, state: State, write: _Write, now: int, changes: list[Change]) -> Outcome:
        try:
            reply, made = perform(state, write.command, now)
        except CommandFailed as failure:
            return failure
        except Exception:
            self._log.failure("a command could not be decided")
            return CommandFailed(Fault.INTERNAL)
        changes += made
        return reply

    def _save(self, changes: list[Change], now: int) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            database.save(self._connection, changes, now)
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _sweep(self) -> bool:
        try:
            return database.sweep(self._connection)
        except sqlite3.Error as error:
            self._log.error("cannot remove deleted records: {error}", error=error)
            return False


@implementer(IBackend)
class SqliteBackend:
    """directory: where the file is, made if absent.  now: the wall clock in us since the epoch.

    Raises database.Unusable.
    """

    durability = "fsync"

    def __init__(
        self,
        directory: Path,
        encodings: Mapping[str, Encoding],
        reactor: IReactorTime,
        now: Callable[[], int] = microseconds,
    ) -> None:
        self._lock = database.claim(directory)
        self._path = directory / "gateway.sqlite3"
        self._encodings = encodings
        self._reactor = reactor
        self._started = now()
        try:
            connection = database.connect(self._path)
            database.prepare(connection)
            self._state = database.load(connection, self._started)
        except database.Unusable:
            os.close(self._lock)
            raise
        self._tail = Tail(TAIL_BYTES)
        self._pending: dict[Session, int] = {}
        self._held: dict[Session, list[Callable[[], None]]] = {}
        self._fetching = Fetching(self._state, self, reactor, self.execute)
        self._readers = ThreadPool(minthreads=0, maxthreads=2, name="sqlite-reader")
        self._readers.start()
        self._idle_readers: list[sqlite3.Connection] = []
        self._closing = False
        self._writer = _Writer(connection, database.load(connection, self._started), now, self._committed)
        self._writer.start()

    def execute(self, command: q.Command, session: Session) -> Reply | Deferred[Reply]:
        """See IBackend."""
        if writes(command):
            return self._write(command, session)
        if session in self._pending:
            return self._read_later(command, session)
        return self._read(command, session)

    def follow(
        self, command: q.Follow, session: Session, follower: IFollower
    ) -> IPushProducer | Deferred[IPushProducer]:
        """See IBackend."""
        return self._fetching.follow(command, session, follower)

    def close(self) -> Deferred[None]:
        """See IBackend."""
        self._closing = True
        closed = self._in_thread(self._close)
        return closed.addCallback(lambda ignored: self._readers.stop())

    def read(self, number: int, start: int, max_records: int, max_bytes: int) -> Batches | Deferred[Batches]:
        """See fetching.Log."""
        batches = self._tail.read(number, start)
        if batches is not None:
            return tuple(select(batches, start, max_records, max_bytes))
        end = self._state.partitions[number].end

        def stored(connection: sqlite3.Connection) -> Batches:
            batches = database.read(connection, self._encodings, number, start)
            return tuple(select(_until(end, batches), start, max_records, max_bytes))

        return self._in_thread(lambda: self._with_reader(stored))

    def seek(self, partition: Partition, timestamp: int) -> int | Deferred[int]:
        """See fetching.Log."""
        found = self._tail.seek(partition.number, timestamp)
        if found is not None:
            return found
        number, start, end = partition.number, partition.start, partition.end
        return self._in_thread(
            lambda: self._with_reader(lambda reader: database.seek(reader, number, start, end, timestamp))
        )

    def _read(self, command: q.Command, session: Session) -> Reply | Deferred[Reply]:
        if isinstance(command, q.Fetch):
            return cast("Reply | Deferred[Reply]", self._fetching.fetch(command, session))
        if isinstance(command, q.Describe):
            return describe_node(self._state, "sqlite", __version__, self.durability, self._started)
        return answer(self._state, command)

    # -- writing

    def _write(self, command: q.Command, session: Session) -> Deferred[Reply]:
        if self._closing:
            raise CommandFailed(Fault.UNAVAILABLE, "the gateway is stopping")
        write = _Write(command, session)
        self._pending[session] = self._pending.get(session, 0) + 1
        self._writer.queue.put(write)
        return write.done

    def _committed(self, work: list[_Write], changes: list[Change]) -> None:
        """In the writer's thread."""
        IReactorFromThreads(self._reactor).callFromThread(self._show, work, changes)

    def _show(self, work: list[_Write], changes: list[Change]) -> None:
        """Let readers see what was committed, then tell the writers, then those who wait for either."""
        self._state.apply(changes)
        touched = self._tail.absorb(changes)
        pending = self._pending
        for write in work:
            left = pending[write.session] - 1
            if left:
                pending[write.session] = left
            else:
                del pending[write.session]
        for write in work:
            if isinstance(write.outcome, CommandFailed):
                write.done.errback(write.outcome)
            else:
                write.done.callback(write.outcome)
        self._fetching.wake(touched)
        for session in [session for session in self._held if session not in pending]:
            for again in self._held.pop(session):
                again()

    # -- reading

    def _read_later(self, command: q.Command, session: Session) -> Deferred[Reply]:
        """What a session reads after a write of its own shows that write, so it waits for the commit."""
        done: Deferred[None] = Deferred()
        self._held.setdefault(session, []).append(lambda: None if done.called else done.callback(None))
        return done.addCallback(lambda ignored: self._read(command, session))

    def _with_reader(self, use: Callable[[sqlite3.Connection], T]) -> T:
        """In a reading thread: use a connection nobody else is using."""
        try:
            connection = self._idle_readers.pop()
        except IndexError:
            connection = database.connect(self._path)
        try:
            return use(connection)
        except sqlite3.Error as error:
            raise CommandFailed(Fault.UNAVAILABLE, f"the store cannot be read: {error}") from error
        finally:
            self._idle_readers.append(connection)

    def _in_thread(self, work: Callable[[], T]) -> Deferred[T]:
        return deferToThreadPool(IReactorFromThreads(self._reactor), self._readers, work)

    def _close(self) -> None:
        """In a reading thread."""
        self._writer.queue.put(None)
        self._writer.join()
        while self._idle_readers:
            self._idle_readers.pop().close()
        os.close(self._lock)


def _until(end: int, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    """Only what was visible when the read was asked for."""
    for batch in batches:
        if batch.base >= end:
            return
        yield batch


@implementer(IPlugin, IBackendMaker)
class _Maker:
    name = "sqlite"
    usage = "sqlite:DIRECTORY"

    def make(self, argument: str, encodings: Mapping[str, Encoding], reactor: IReactorTime) -> IBackend:
        """See IBackendMaker."""
        try:
            return SqliteBackend(Path(argument or "gateway-data"), encodings, reactor)
        except database.Unusable as error:
            raise ValueError(str(error)) from error


maker = _Maker()
