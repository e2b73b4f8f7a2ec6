"""Members of consumer groups, and a book in which they write what they were given.

`LineMember` and `FrameMember` are small clients in threads; `RealConsumer` is a client as its project publishes it, in
a process.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, TypeVar

import msgspec

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.cursus.terms import Consuming
from system.peers import TIMEOUT, Row, Speaking, batch, rows, topic
from system.processes import ROOT, environment

BEAT_SECONDS = 0.5
"""Between heartbeats; a member that is not heard of for 10 s is dropped."""

MOST = 50
"""Records that a member takes and commits at a time."""


R = TypeVar("R")


# -- the book


class Read(NamedTuple):
    """A record that a member got, believing itself in that generation."""

    member: str
    generation: int
    partition: int
    offset: int


class Book:
    """What the members of one group owned, read and committed.  They write it from threads of their own.

    Generations are counted as Cursus shows them.
    """

    def __init__(self) -> None:
        self._owners: dict[tuple[int, int], set[str]] = defaultdict(set)
        self._reads: list[Read] = []
        self._committed: dict[tuple[int, int], int] = {}
        self._again: list[str] = []
        self._lock = threading.Lock()

    def owned(self, member: str, generation: int, partitions: Iterable[int]) -> None:
        """The member was told that it owns these."""
        with self._lock:
            for partition in partitions:
                self._owners[generation, partition].add(member)

    def read(self, read: Read) -> None:
        """The member got a record."""
        with self._lock:
            self._reads.append(read)
            if read.offset < self._committed.get((read.generation, read.partition), 0):
                self._again.append(f"{read} came after its commit")

    def committed(self, generation: int, partition: int, following: int) -> None:
        """A commit in that generation was accepted: `following` is the next offset to read."""
        with self._lock:
            known = self._committed.get((generation, partition), 0)
            self._committed[generation, partition] = max(known, following)

    def count(self, *members: str) -> int:
        """Records that those read, each as often as it was."""
        with self._lock:
            return sum(read.member in members for read in self._reads)

    def reached(self) -> dict[int, int]:
        """Partition -> the highest offset committed in any generation."""
        found: dict[int, int] = {}
        with self._lock:
            for (_, partition), following in self._committed.items():
                found[partition] = max(found.get(partition, 0), following)
        return found

    def complaints(self, ends: Mapping[int, int]) -> list[str]:
        """What must not be; empty if nothing is.  ends: partition -> the offset that is written next."""
        with self._lock:
            return [*self._shared(), *self._read_by_others(), *self._again, *self._stale(), *self._missing(ends)]

    def _shared(self) -> Iterator[str]:
        for (generation, partition), members in self._owners.items():
            if len(members) > 1:
                yield f"{partition} is owned by {sorted(members)} in generation {generation}"

    def _read_by_others(self) -> Iterator[str]:
        for read in self._reads:
            owners = self._owners.get((read.generation, read.partition), set())
            if owners != {read.member}:
                yield f"{read}, which is owned by {sorted(owners)}"

    def _stale(self) -> Iterator[str]:
        """What an earlier generation committed is not for a later one."""
        for read in self._reads:
            for (generation, partition), following in self._committed.items():
                if partition == read.partition and generation < read.generation and read.offset < following:
                    yield f"{read}, but {following} was committed in generation {generation}"

    def _missing(self, ends: Mapping[int, int]) -> Iterator[str]:
        found = {(read.partition, read.offset) for read in self._reads}
        for partition, end in ends.items():
            if missing := [offset for offset in range(end) if (partition, offset) not in found]:
                yield f"nobody read {len(missing)} records of {partition}, the first at {missing[0]}"


# -- small clients


FENCING = (Fault.STALE_GENERATION, Fault.NOT_OWNER, Fault.NOT_A_MEMBER, Fault.NO_SUCH_GROUP)


class Fenced(Exception):
    """The gateway says that the group is not what the member thinks."""


class Worker(threading.Thread):
    """Does its work over one connection until it is told to end; connects again when it is cut off."""

    dialect: str

    def __init__(self, name: str, port: int) -> None:
        super().__init__(name=name, daemon=True)
        self._port = port
        self._gone = threading.Event()
        self._peer: Speaking | None = None
        self._failure: BaseException | None = None

    def run(self) -> None:
        """See Thread."""
        while not self._gone.is_set():
            try:
                with Speaking(self.dialect, self._port) as self._peer:
                    self._work(self._peer)
            except (OSError, EOFError):
                self._gone.wait(0.02)
            except BaseException as failure:
                self._failure = failure
                return

    def finish(self) -> None:
        """Let it come to its end; fails with what it met."""
        self._gone.set()
        self.join(TIMEOUT)
        assert not self.is_alive(), f"{self.name} does not end"
        self.check()

    def check(self) -> None:
        """Raises what it met, if it met something."""
        if self._failure is not None:
            raise self._failure

    def _work(self, peer: Speaking) -> None:
        raise NotImplementedError


class Flow(Worker):
    """Writes records without end, ten at a time to each partition in turn: in partition p at offset n it is `p.n`."""

    dialect = "cursus"

    def __init__(self, port: int, topic: str, partitions: int) -> None:
        super().__init__("flow", port)
        self._topic = topic
        self._partitions = partitions

    def _work(self, peer: Speaking) -> None:
        ends = {at.partition: at.end for at in peer.sure(q.LatestOffsets(topic(self._topic)), r.Offsets).offsets}
        while not self._gone.wait(0.005):
            partition = min(ends, key=lambda at: (ends[at], at))
            sent = [Row(0, 0, "", "", 0, f"{partition}.{ends[partition] + at}") for at in range(10)]
            peer.sure(batch(self._topic, partition, sent), r.Published)
            ends[partition] += len(sent)


class Member(Worker):
    """Joins, reads what it owns in small pieces and commits each, and joins again when it is fenced.

    generation, owned: since it last joined.
    """

    def __init__(self, name: str, book: Book, port: int, group: str, name_of_topic: str) -> None:
        super().__init__(name, port)
        self.generation = 0
        self.owned: tuple[int, ...] = ()
        self._book = book
        self._group = group
        self._topic = topic(name_of_topic)
        self._next: dict[int, int] = {}
        self._member = name
        self._who = (self._topic, group, name, 0)

    def die(self) -> None:
        """End at once, without a word to the gateway."""
        self._gone.set()
        if self._peer is not None:
            with suppress(OSError):
                self._peer.socket.shutdown(socket.SHUT_RDWR)
        self.finish()

    def leave(self) -> None:
        """End, and say so."""
        self.finish()
        with Speaking(self.dialect, self._port) as peer:
            peer.sure(q.LeaveGroup(*self._who), r.Done)

    def _work(self, peer: Speaking) -> None:
        while not self._gone.is_set():
            try:
                self._enter(peer)
                self._take_part(peer)
            except Fenced:
                self.owned = ()

    def _enter(self, peer: Speaking) -> None:
        joined = self._ask(peer, self._joining(), r.Joined)
        self._member = joined.member
        self._who = (self._topic, self._group, joined.member, joined.generation)
        synced = self._ask(peer, q.SyncGroup(*self._who), r.Joined)
        assert (synced.generation, synced.assignment) == (joined.generation, joined.assignment)
        self._next = {partition: self._offset(peer, partition) for partition in joined.assignment}
        self._book.owned(self.name, joined.generation, joined.assignment)
        self.generation, self.owned = joined.generation, joined.assignment

    def _take_part(self, peer: Speaking) -> None:
        due = 0.0
        while not self._gone.is_set():
            if time.monotonic() >= due:
                self._ask(peer, q.Heartbeat(*self._who), r.Done)
                due = time.monotonic() + BEAT_SECONDS
            taken = {partition: following for partition in self.owned if (following := self._take(peer, partition))}
            if not taken:
                self._gone.wait(0.02)
                continue
            self._commit(peer, taken)
            for partition, following in taken.items():
                self._book.committed(self.generation, partition, following)

    def _take(self, peer: Speaking, partition: int) -> int:
        """Read on in a partition.  Returns the offset that follows, 0 if there was nothing."""
        found = [row for each in self._read(peer, partition).batches for row in rows(each)][:MOST]
        for row in found:
            assert row.offset >= self._next[partition]  # higher: others have committed
            assert row.value == f"{partition}.{row.offset}"
            self._book.read(Read(self.name, self.generation, partition, row.offset))
            self._next[partition] = row.offset + 1
        return self._next[partition] if found else 0

    def _offset(self, peer: Speaking, partition: int) -> int:
        command = q.FetchOffsets(self._topic, q.Group(self._group), (partition,))
        return self._ask(peer, command, r.CommittedOffsets).offsets.get(partition, 0)

    def _ask(self, peer: Speaking, command: q.Command, expected: type[R], context: object = None) -> R:
        """The reply.  Raises Fenced."""
        outcome = peer.ask(command, context)
        if isinstance(outcome, CommandFailed) and outcome.fault in FENCING:
            raise Fenced(str(outcome))
        assert isinstance(outcome, expected), f"{command} was answered {outcome!r}"
        return outcome

    def _joining(self) -> q.JoinGroup:
        raise NotImplementedError

    def _read(self, peer: Speaking, partition: int) -> r.Records:
        raise NotImplementedError

    def _commit(self, peer: Speaking, offsets: Mapping[int, int]) -> None:
        reader, (*_, member, generation) = q.Group(self._group), self._who
        self._ask(peer, q.CommitOffsets(self._topic, reader, {**offsets}, member, generation), r.Done)


class LineMember(Member):
    """V1, which reads as nobody in particular, and commits a partition at a time."""

    dialect = "pipe"

    def _joining(self) -> q.JoinGroup:
        return q.JoinGroup(self._topic, self._group, self.name, q.Heartbeats(), "range")

    def _read(self, peer: Speaking, partition: int) -> r.Records:
        return peer.sure(q.Fetch(self._topic, partition, self._next[partition]), r.Records)

    def _commit(self, peer: Speaking, offsets: Mapping[int, int]) -> None:
        for partition, following in offsets.items():
            super()._commit(peer, {partition: following})


class FrameMember(Member):
    """Cursus, which is given its name, and reads as a member."""

    dialect = "cursus"

    def _joining(self) -> q.JoinGroup:
        return q.JoinGroup(self._topic, self._group, self._member, q.Heartbeats(), distinct=True)

    def _read(self, peer: Speaking, partition: int) -> r.Records:
        start = q.Next(q.Group(self._group), self._next[partition])
        said = Consuming("CONSUME", member=self._member, generation=self.generation)
        return self._ask(peer, q.Fetch(self._topic, partition, start, MOST), r.Records, said)


# -- real clients

CLIENTS = Path(sys.prefix) / "clients"
"""Where `make` puts each version of each client, apart from the others (tests/clients.txt)."""


class Shown(NamedTuple):
    """A record as a real consumer showed it, and what it believed of its group meanwhile."""

    generation: int
    partitions: tuple[int, ...]
    offset: int
    value: str


class RealConsumer:
    """cursus-client of one version in a process of its own, see cursus_consumer.py.  Leaving the block kills it."""

    def __init__(self, client: str, name: str, port: int, group: str, topic: str, mode: str) -> None:
        folder = CLIENTS / client
        assert folder.is_dir(), f"{folder} is not there: run `make .venv/tested`"
        program = Path(__file__).with_name("cursus_consumer.py")
        self.name = name
        self._shown: list[Shown] = []
        self._generation = 0
        self._news = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, program, f"127.0.0.1:{port}", topic, group, name, mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(folder),
            cwd=ROOT,
            text=True,
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._hear, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def __enter__(self) -> RealConsumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        said = self._end()
        if error is not None:
            error.add_note(f"{self.name} showed {len(self._shown)} records and said:\n{said[-5000:]}")

    @property
    def shown(self) -> list[Shown]:
        """The records so far."""
        with self._news:
            return list(self._shown)

    @property
    def generation(self) -> int:
        """Of its last join, 0 before the first."""
        with self._news:
            return self._generation

    def wait(self, count: int, seconds: float = TIMEOUT) -> None:
        """Until it has shown so many records."""
        with self._news:
            enough = self._news.wait_for(lambda: len(self._shown) >= count, seconds)
            assert enough, f"{self.name} showed {len(self._shown)} of {count} records within {seconds:g} s"

    def stop(self) -> None:
        """Have it close, and so leave the group; fails if it had anything to complain of."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        status = self._process.wait(TIMEOUT)
        assert (status, self._end()) == (0, "")

    def kill(self) -> None:
        """SIGKILL.  Fails if it had ended by itself."""
        self._process.kill()
        assert self._process.wait(TIMEOUT) == -signal.SIGKILL
        self._end()

    def _end(self) -> str:
        """Wait until it is gone, and heard to the end.  Returns what it said on standard error."""
        assert self._process.stderr is not None and self._process.stdin is not None
        self._process.wait(TIMEOUT)
        self._reader.join(TIMEOUT)
        said = "" if self._process.stderr.closed else self._process.stderr.read()
        self._process.stderr.close()
        self._process.stdin.close()
        return said

    def _hear(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                if not line.endswith("]\n"):
                    return  # it was killed in the middle of it
                words = msgspec.json.decode(line)
                with self._news:
                    if len(words) == 1:
                        self._generation = words[0]
                    else:
                        self._shown.append(msgspec.convert(words, Shown))
                    self._news.notify_all()
