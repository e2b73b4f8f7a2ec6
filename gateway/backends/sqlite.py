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
from contextlib import suppress
from functools import partial
from itertools import chain
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
from gateway.backends.commits import Commits, insist
from gateway.backends.fetching import Batches, Fetching
from gateway.backends.grouping import Grouping, Look, concerns_members
from gateway.backends.interface import IBackend, IBackendMaker, IFollower
from gateway.backends.lines import Held, Line, Write
from gateway.backends.tabling import Tabling
from gateway.backends.tail import Tail
from gateway.backends.wall import microseconds
from gateway.core import commands as q
from gateway.core.changes import Appended, Change
from gateway.core.commands import Session, Written
from gateway.core.decisions import perform, writes
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding, RecordBatch, select
from gateway.core.replies import Outcome, Reply
from gateway.core.state import Partition, State, Topic
from gateway.core.table_decisions import TABLE_DECISIONS, untabled
from gateway.core.tables import Part, Table, tabulate
from gateway.core.views import answer, describe_node, each_topic, looks

T = TypeVar("T")

TAIL_BYTES = 64 << 20
"""Record bodies kept in memory, so that a consumer at the end does not touch the disk."""

CHECKPOINT_BYTES = 8 << 20
"""Record bodies after which the log is folded into the file, beside the writer: left to a COMMIT, it holds up everybody
who waits for that (p99 of batches 46 ms against half of it, measured)."""

WRITING = frozenset({q.Take, q.CommitOffsets, q.DeleteOffsets})
"""What may have to look first, and writes in any case."""

MAX_COMMIT = 1024
"""Commands in one transaction."""

INSIST_SECONDS = 1.0
"""How often a disk that did not take a transaction is tried when nobody else tries it."""


class _Writer(threading.Thread):
    """The only one that changes the file.

    committed: called in this thread after each transaction, with what it did.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        state: State,
        encodings: Mapping[str, Encoding],
        now: Callable[[], int],
        committed: Callable[[list[Write], list[Change]], None],
    ) -> None:
        super().__init__(name="sqlite-writer", daemon=True)
        self.queue: queue.SimpleQueue[Write | None] = queue.SimpleQueue()
        self.commits = Commits()
        self._connection = connection
        self._state: State | None = state
        self._encodings = encodings
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
            elif self.commits.problem and not ended:
                self._insist()
            sweeping = self._sweep()
        self._connection.close()

    def _gather(self, sweeping: bool) -> tuple[list[Write], bool]:
        """Everything that waits, at least one if there is nothing else to do; and whether the end was among it."""
        work: list[Write] = []
        patience = INSIST_SECONDS if self.commits.problem else None
        try:
            while len(work) < MAX_COMMIT:
                write = self.queue.get(block=not work and not sweeping, timeout=patience)
                if write is None:
                    return work, True
                work.append(write)
                if self.queue.empty():
                    break
        except queue.Empty:
            pass
        return work, False

    def _transact(self, work: list[Write]) -> list[Change]:
        """Decide and save all of it; each write gets its outcome.  Returns what changed."""
        now = self._now()
        changes: list[Change] = []
        try:
            if self._state is None:
                self._state = database.load(self._connection, now)
            for write in work:
                write.outcome = self._perform(self._state, write, now, changes)
            if changes:
                began = self.commits.clock()
                self._save(changes, now)
                self.commits.took(began, len(work))
        except (sqlite3.Error, database.Unusable) as error:
            self._log.error("cannot write: {error}", error=error)
            self.commits.refused(str(error))
            self._state = None  # it is ahead of the file; read again when there is more to write
            failure = CommandFailed(Fault.UNAVAILABLE, f"the store cannot be written: {error}")
            for write in work:
                if not isinstance(write.outcome, CommandFailed):
                    write.outcome = failure
            return []
        except Exception:
            self._state = None
            if len(work) > 1:  # a defect costs the command that shows it, not its neighbors
                return [change for write in work for change in self._transact([write])]
            self._log.failure("{kind} could not be stored", kind=type(work[0].command).__name__)
            work[0].outcome = CommandFailed(Fault.INTERNAL)
            return []
        return changes

    def _perform(self, state: State, write: Write, now: int, changes: list[Change]) -> Outcome:
        try:
            command = write.command
            if type(command) in TABLE_DECISIONS and (topic := untabled(state, command)) is not None:
                topic.table = self._tabulate(topic, changes)
            reply, made = perform(state, command, now)
        except CommandFailed as failure:
            return failure
        changes += made
        return reply

    def _tabulate(self, topic: Topic, unsaved: list[Change]) -> Table:
        """The table of a topic, as it is in the file and in changes that are not there yet."""

        def parts() -> Iterator[Part]:
            for at in topic.partitions:
                saved = database.read(self._connection, self._encodings, at.number, at.start)
                behind = [made.batch for made in unsaved if isinstance(made, Appended) and made.number == at.number]
                yield at.index, at.start, at.end, chain(saved, behind)

        try:
            return tabulate(parts())
        except CommandFailed as failure:
            raise failure.with_traceback(None) from None  # it would keep a read transaction of this connection open

    def _save(self, changes: list[Change], now: int) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            database.save(self._connection, changes, now)
            self._connection.execute("COMMIT")
        except Exception:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _insist(self) -> None:
        """So that who looks after readiness learns that there is room again."""
        with suppress(sqlite3.Error, database.Unusable):
            insist(self._connection)
            if self._state is None:
                self._state = database.load(self._connection, self._now())
            self.commits.problem = ""
            self._log.info("can write again")

    def _sweep(self) -> bool:
        try:
            return database.sweep(self._connection)
        except sqlite3.Error as error:
            self._log.error("cannot remove deleted records: {error}", error=error)
            return False


@implementer(IBackend)
class SqliteBackend:
    """directory: where the file is, made if absent.  now: the wall clock in us since the epoch.

    commits: how they go; the one writer's.

    Raises database.Unusable.
    """

    durability = "fsync"
    immediate = True
    _log = Logger()

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
            connection, self._state, ahead = database.start(self._path, self._started)
        except database.Unusable:
            os.close(self._lock)
            raise
        self.topics = partial(each_topic, self._state)
        self._tail = Tail(TAIL_BYTES)
        self._newest: dict[Session, Write] = {}
        self._lines: dict[Session, Line] = {}
        self._grouping = Grouping(self._state, reactor, now, self._write_besides)
        self._fetching = Fetching(self._state, self, reactor, self._write_besides, self._grouping.turn)
        self._tabling = Tabling(self._state, now, self._load, reactor, self._write, self._fetching, self._hold)
        self._looks: dict[type, Look] = {
            **looks(self._state),
            **self._grouping.verbs,
            **self._tabling.verbs,
            q.Fetch: cast(Look, self._fetching.fetch),
            q.Describe: self._describe,
        }
        self._reads = {kind: look for kind, look in self._looks.items() if kind not in WRITING}
        self._readers = ThreadPool(minthreads=0, maxthreads=2, name="sqlite-reader")
        self._readers.start()
        self._idle_readers: list[sqlite3.Connection] = []
        self._closing = False
        self._unfolded = 0
        self._writer = _Writer(connection, ahead, encodings, now, self._committed)
        self.commits = (self._writer.commits,)
        self._writer.start()

    def execute(self, command: q.Command, session: Session) -> Reply | Deferred[Reply]:
        """See IBackend."""
        look = self._reads.get(type(command))
        newest, lines = self._newest, self._lines
        if look is None or (newest and session in newest) or (lines and session in lines):
            return self._execute(command, session)
        return look(command, session)

    def _execute(self, command: q.Command, session: Session) -> Reply | Deferred[Reply]:
        """What writes, or stands behind a write of its session."""
        line = self._lines.get(session)
        if writes(command) and not concerns_members(command):
            return self._write(command, session) if line is None else self._write_later(command, session, line)
        if type(command) is q.Take:
            return self._tabling.take(command, session) if line is None else self._take_later(command, session, line)
        free = session not in self._newest and line is None
        if isinstance(command, q.CommitOffsets) and None not in command.offsets and line is None:
            try:
                return self._write(self._grouping.resolved(command, session), session)
            except CommandFailed:
                if free:
                    raise  # else what the session wrote before may make it right
        return self._read(command, session) if free else self._read_later(command, session)

    def follow(
        self, command: q.Follow, session: Session, follower: IFollower
    ) -> IPushProducer | Deferred[IPushProducer]:
        """See IBackend."""
        return self._fetching.follow(command, session, follower)

    def close(self) -> Deferred[None]:
        """See IBackend."""
        self._closing = True
        return self._in_thread(self._end_writer).addCallback(self._end)

    def read(self, number: int, start: int, max_records: int, max_bytes: int) -> Batches | Deferred[Batches]:
        """See fetching.Log."""
        batches = self._tail.read(number, start)
        if batches is not None:
            return tuple(select(batches, start, max_records, max_bytes))
        end = self._state.partitions[number].end

        def stored(connection: sqlite3.Connection) -> Batches:
            batches = database.read(connection, self._encodings, number, start)
            return tuple(select(_readable(end, batches), start, max_records, max_bytes))

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
        look = self._looks.get(type(command))
        return answer(self._state, command) if look is None else look(command, session)

    def _describe(self, command: q.Describe, session: Session) -> Reply:
        return describe_node(self._state, "sqlite", __version__, self.durability, self._started)

    # -- writing

    def _write(self, command: Written, session: Session) -> Deferred[Reply]:
        if self._closing:
            raise CommandFailed(Fault.UNAVAILABLE, "the gateway is stopping")
        write = self._newest[session] = Write(command, session)
        self._writer.queue.put(write)
        return write.done

    def _write_later(self, command: Written, session: Session, line: Line) -> Deferred[Reply]:
        """Behind what looks, and before what stands behind it."""
        turn = line.enter(self._newest.get(session))
        return turn.addCallback(lambda ignored: self._write_besides(command, session))

    def _take_later(self, command: q.Take, session: Session, line: Line) -> Deferred[Reply]:
        def take(ignored: None) -> Reply | Deferred[Reply]:
            taken = self._tabling.take(command, session)
            line.hold(self._newest[session])
            return taken

        return line.enter(self._newest.get(session)).addCallback(take)

    def _write_besides(self, command: Written, session: Session) -> Deferred[Reply]:
        """What something that looked, or looked first, came to write; what stands behind it in line sees that, too."""
        done = self._write(command, session)
        line = self._lines.get(session)
        if line is not None:
            line.hold(self._newest[session])
        return done

    def _committed(self, work: list[Write], changes: list[Change]) -> None:
        """In the writer's thread."""
        IReactorFromThreads(self._reactor).callFromThread(self._show, work, changes)

    def _show(self, work: list[Write], changes: list[Change]) -> None:
        """Let readers see what was committed, then tell the writers, then those who wait for either."""
        self._state.apply(changes)
        touched = self._tail.absorb(changes)
        self._grouping.changed(changes)
        newest = self._newest
        for write in work:
            if newest[write.session] is write:
                del newest[write.session]
        for write in work:
            if isinstance(write.outcome, CommandFailed):
                write.done.errback(write.outcome)
            else:
                write.done.callback(write.outcome)
        self._fetching.wake(touched)
        self._fold(changes)
        for write in work:
            self._release(write)

    def _fold(self, changes: list[Change]) -> None:
        """Now and then, put what is in the write-ahead log where it belongs, in another thread than the writer's."""
        self._unfolded += sum(len(change.batch.body) for change in changes if isinstance(change, Appended))
        if self._unfolded >= CHECKPOINT_BYTES and not self._closing:
            self._unfolded = -1 << 62  # no other before this one is done
            folded = self._in_thread(lambda: self._with_reader(database.fold))
            folded.addErrback(lambda failure: self._log.warn("not folded: {failure}", failure=failure.value))
            folded.addBoth(self._folded)

    def _folded(self, result: object) -> None:
        self._unfolded = 0

    # -- reading

    def _read_later(self, command: q.Command, session: Session) -> Deferred[Reply]:
        """What a session reads after a write of its own shows that write, so it waits for the commit."""
        turn = self._line(session).enter(self._newest.get(session))
        return turn.addCallback(lambda ignored: self._read(command, session))

    def _line(self, session: Session) -> Line:
        line = self._lines.get(session)
        if line is None:
            line = self._lines[session] = Line()
        return line

    def _hold(self, session: Session) -> Callable[[], None]:
        """A look of the session takes time: what it asks for next waits until what is returned is called."""
        begun = Held(session)
        self._line(session).hold(begun)
        return partial(self._release, begun)

    def _release(self, begun: Held) -> None:
        line = begun.line
        if line is not None:
            begun.line = None
            if line.move():
                del self._lines[begun.session]

    def _load(self, topic: Topic) -> Table | Deferred[Table]:
        logs = [(at.index, at.number, at.start, at.end) for at in topic.partitions]

        def load(connection: sqlite3.Connection) -> Table:
            read = database.read
            return tabulate((at, start, end, read(connection, self._encodings, n, start)) for at, n, start, end in logs)

        if not any(end > start for _, _, start, end in logs):
            return Table()
        return self._in_thread(lambda: self._with_reader(load))

    def _with_reader(self, use: Callable[[sqlite3.Connection], T]) -> T:
        """In a reading thread: use a connection nobody else is using."""
        connection = self._reader()
        try:
            return use(connection)
        except sqlite3.Error as error:
            raise CommandFailed(Fault.UNAVAILABLE, f"the store cannot be read: {error}") from error
        finally:
            self._idle_readers.append(connection)

    def _reader(self) -> sqlite3.Connection:
        with suppress(IndexError):
            return self._idle_readers.pop()
        try:
            return database.connect(self._path)
        except database.Unusable as error:
            raise CommandFailed(Fault.UNAVAILABLE, str(error)) from error

    def _in_thread(self, work: Callable[[], T]) -> Deferred[T]:
        return deferToThreadPool(IReactorFromThreads(self._reactor), self._readers, work)

    def _end_writer(self) -> None:
        """In a reading thread: what was accepted is written first."""
        self._writer.queue.put(None)
        self._writer.join()

    def _end(self, ignored: None) -> None:
        self._readers.stop()
        while self._idle_readers:
            self._idle_readers.pop().close()
        os.close(self._lock)


def _readable(end: int, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    """Only what was visible when the read was asked for, up to a damaged batch; that one fails where it is first."""
    none = True
    try:
        for batch in batches:
            if batch.base >= end:
                return
            yield batch
            none = False
    except CommandFailed:
        if none:
            raise


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
