"""Members of consumer groups, and a book in which they write what they were given.

`LineMember` and `FrameMember` are small clients in threads, written from the protocol pages; `RealConsumer` is a client
as its project publishes it, in a process.
"""

from __future__ import annotations

import re
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
from typing import IO, NamedTuple

import msgspec

from system.peers import TIMEOUT, Frames, Lines, Row, Stream, batch, rows
from system.processes import ROOT, environment

BEAT_SECONDS = 0.5
"""Between heartbeats; a member that is not heard of for 10 s is dropped."""

MOST = 50
"""Records that a member takes and commits at a time."""


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


class Fenced(Exception):
    """The gateway says that the group is not what the member thinks."""


class Worker(threading.Thread):
    """Does its work over one connection until it is told to end; connects again when it is cut off."""

    def __init__(self, name: str, port: int) -> None:
        super().__init__(name=name, daemon=True)
        self._port = port
        self._gone = threading.Event()
        self._peer: Stream | None = None
        self._failure: BaseException | None = None

    def run(self) -> None:
        """See Thread."""
        while not self._gone.is_set():
            try:
                with self._connect() as self._peer:
                    self._work()
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

    def _connect(self) -> Stream:
        raise NotImplementedError

    def _work(self) -> None:
        raise NotImplementedError


class Flow(Worker):
    """Writes records without end, ten at a time to each partition in turn: in partition p at offset n it is `p.n`."""

    def __init__(self, port: int, topic: str, partitions: int) -> None:
        super().__init__("flow", port)
        self._topic = topic
        self._partitions = partitions

    def _connect(self) -> Frames:
        return Frames(self._port)

    def _work(self) -> None:
        peer = self._peer
        assert isinstance(peer, Frames)
        ends = peer.ends(self._topic)
        while not self._gone.wait(0.005):
            partition = min(ends, key=lambda at: (ends[at], at))
            sent = [Row(0, 0, "", "", 0, f"{partition}.{ends[partition] + at}") for at in range(10)]
            assert peer.publish(batch(self._topic, partition, sent)).status == "OK"
            ends[partition] += len(sent)


class Member(Worker):
    """Joins, reads what it owns in small pieces and commits each, and joins again when it is fenced.

    generation, owned: since it last joined.
    """

    def __init__(self, name: str, book: Book, port: int, group: str, topic: str) -> None:
        super().__init__(name, port)
        self.generation = 0
        self.owned: tuple[int, ...] = ()
        self._book = book
        self._group = group
        self._topic = topic
        self._next: dict[int, int] = {}

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
        with self._connect() as self._peer:
            self._say_goodbye()

    def _work(self) -> None:
        while not self._gone.is_set():
            try:
                self._enter()
                self._take_part()
            except Fenced:
                self.owned = ()

    def _enter(self) -> None:
        generation, owned = self._join()
        self._next = {partition: self._offset(partition) for partition in owned}
        self._book.owned(self.name, generation, owned)
        self.generation, self.owned = generation, owned

    def _take_part(self) -> None:
        due = 0.0
        while not self._gone.is_set():
            if time.monotonic() >= due:
                self._beat()
                due = time.monotonic() + BEAT_SECONDS
            taken = {partition: following for partition in self.owned if (following := self._take(partition))}
            if not taken:
                self._gone.wait(0.02)
                continue
            self._commit(taken)
            for partition, following in taken.items():
                self._book.committed(self.generation, partition, following)

    def _take(self, partition: int) -> int:
        """Read on in a partition.  Returns the offset that follows, 0 if there was nothing."""
        found = self._records(partition, self._next[partition])[:MOST]
        for offset, value in found:
            assert offset >= self._next[partition] and value == f"{partition}.{offset}"  # higher: others have committed
            self._book.read(Read(self.name, self.generation, partition, offset))
            self._next[partition] = offset + 1
        return self._next[partition] if found else 0

    def _join(self) -> tuple[int, tuple[int, ...]]:
        raise NotImplementedError

    def _offset(self, partition: int) -> int:
        raise NotImplementedError

    def _beat(self) -> None:
        raise NotImplementedError

    def _records(self, partition: int, offset: int) -> list[tuple[int, str]]:
        raise NotImplementedError

    def _commit(self, offsets: Mapping[int, int]) -> None:
        raise NotImplementedError

    def _say_goodbye(self) -> None:
        raise NotImplementedError


class LineMember(Member):
    """V1 (pipe.md, section 1): JOIN, SYNC, HEARTBEAT, CONSUME, COMMIT.  Generations are shown one higher there."""

    _shown = 0

    def _connect(self) -> Lines:
        return Lines(self._port)

    def _ask(self, command: str) -> str:
        peer = self._peer
        assert isinstance(peer, Lines)
        answer = peer.ask(f"V1|1|{command}".encode()).decode()
        if answer.startswith("V1|1|ERR|GENERATION_MISMATCH|"):
            raise Fenced(answer)
        assert answer.startswith("V1|1|OK|"), f"{command!r} was answered {answer!r}"
        return answer[8:]

    def _join(self) -> tuple[int, tuple[int, ...]]:
        joined = self._ask(f"JOIN|{self._group} {self._topic} {self.name} assignor=range")
        self._shown, _ = shown = _membership(joined)
        assert _membership(self._ask(f"SYNC|{self._who()}")) == shown
        return self._shown - 1, shown[1]

    def _who(self) -> str:
        return f"{self._group} {self._topic} {self.name} {self._shown}"

    def _offset(self, partition: int) -> int:
        return int(self._ask(f"OFFSET|{self._group} {self._topic} {partition}").removeprefix("offset="))

    def _beat(self) -> None:
        assert self._ask(f"HEARTBEAT|{self._who()}") == "heartbeat=ok"

    def _records(self, partition: int, offset: int) -> list[tuple[int, str]]:
        peer = self._peer
        assert isinstance(peer, Lines)
        return peer.consume(self._topic, partition, offset)[0]

    def _commit(self, offsets: Mapping[int, int]) -> None:
        for partition, following in offsets.items():
            assert self._ask(f"COMMIT|{self._who()} {partition} {following}") == "committed=true"

    def _say_goodbye(self) -> None:
        assert self._ask(f"LEAVE|{self._who()}") == "left=true"


_REJOIN = ("GEN_MISMATCH", "NOT_OWNER", "member_not_found", "group_not_found")


class FrameMember(Member):
    """Cursus (cursus.md, sections 2 and 4): JOIN_GROUP, SYNC_GROUP, HEARTBEAT, CONSUME, BATCH_COMMIT."""

    _member = ""

    def _connect(self) -> Frames:
        return Frames(self._port)

    def _ask(self, command: str) -> str:
        peer = self._peer
        assert isinstance(peer, Frames)
        answer = peer.call(command)
        if any(answer.startswith(f"ERROR: {word}") for word in _REJOIN):
            raise Fenced(answer)
        assert answer.startswith("OK"), f"{command!r} was answered {answer!r}"
        return answer

    def _join(self) -> tuple[int, tuple[int, ...]]:
        place = f"topic={self._topic} group={self._group}"
        answer = self._ask(f"JOIN_GROUP {place} member={self._member or self.name}")
        found = re.fullmatch(r"OK generation=\d+ member=(\S+) assignments=\[[\d ]*\]", answer)
        assert found is not None, answer
        self._member = found[1]
        joined = _membership(answer)
        assert _membership(self._ask(f"SYNC_GROUP {place} member={self._member} generation={joined[0]}")) == joined
        return joined

    def _who(self) -> str:
        return f"topic={self._topic} group={self._group} member={self._member} generation={self.generation}"

    def _offset(self, partition: int) -> int:
        answer = self._ask(f"FETCH_OFFSET topic={self._topic} partition={partition} group={self._group}")
        return int(answer.removeprefix("OK offset="))

    def _beat(self) -> None:
        assert self._ask(f"HEARTBEAT {self._who()}") == f"OK member={self._member} generation={self.generation}"

    def _records(self, partition: int, offset: int) -> list[tuple[int, str]]:
        peer = self._peer
        assert isinstance(peer, Frames)
        line = f"\0\0CONSUME {self._who()} partition={partition} offset={offset} batch={MOST}"
        return [(row.offset, row.value) for row in rows(peer.ask(line.encode()), self._topic, partition)]

    def _commit(self, offsets: Mapping[int, int]) -> None:
        entries = ",".join(f"P{partition}:{following}" for partition, following in offsets.items())
        assert self._ask(f"BATCH_COMMIT {self._who()} {entries}") == f"OK batched={len(offsets)}"

    def _say_goodbye(self) -> None:
        assert self._ask(f"LEAVE_GROUP {self._who()}") == f"OK group={self._group} member={self._member} left=true"


def _membership(answer: str) -> tuple[int, tuple[int, ...]]:
    """Generation and partitions in the answer to a JOIN or SYNC."""
    found = re.search(r"generation=(\d+) .*\[([\d ]*)\]", answer)
    assert found is not None, answer
    return int(found[1]), tuple(map(int, found[2].split()))


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
