"""Tables and queues on every backend that keeps its log here, beside a plain dict; and what is peculiar to the file."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from twisted.internet.defer import maybeDeferred
from twisted.logger import capturedLogs
from twisted.python.failure import Failure

from backends.driving import PATIENCE, Driver, Reactor
from gateway.backends import database, sqlite
from gateway.backends.memory import MemoryBackend
from gateway.backends.sqlite import SqliteBackend
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core import tables
from gateway.core.commands import Session
from gateway.core.faults import Fault
from gateway.core.queues import QUEUE
from gateway.core.records import CANONICAL, Encoding, Record, RecordBatch, canonical, registry
from gateway.core.tables import Table

START = 1_700_000_000_000_000
USERS = q.Topic("default", "users")
TASKS = q.Topic("default", "tasks")
UNAVAILABLE = Fault.UNAVAILABLE, {}
ALL = 1 << 40

Pairs = dict[bytes, bytes]


def publish(*records: Record, to: int = 0, topic: q.Topic = USERS, create: int = 0) -> q.Publish:
    return q.Publish(topic, to, canonical(list(records), "test"), create=create)


def get(key: bytes) -> q.MapGet:
    return q.MapGet(USERS, key)


def swap(key: bytes, old: bytes, new: bytes) -> q.MapPut:
    return q.MapPut(USERS, key, new, only=q.IfEquals(old))


# -- one client and a plain dict

keys = st.sampled_from([b"a", b"b", b"c", b"d"])
values = st.sampled_from([b"", b"1", b"2", b"-30", b"x"])
seconds = st.sampled_from([0.0, 0.0, 0.000_010, 0.000_025])


class Plain(RuleBasedStateMachine):
    """What a table shows is what a dict would, whose entries expire."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.reactor = Reactor()
        self.plain: dict[bytes, tuple[bytes, int]] = {}
        self.client = self.open()
        self.client.ask(q.CreateTopic(USERS, 2))

    def open(self) -> Driver:
        return Driver(MemoryBackend(self.reactor, lambda: self.now), self.reactor)

    def there(self) -> Pairs:
        return {key: value for key, (value, expiry) in self.plain.items() if not 0 < expiry <= self.now}

    def set(self, key: bytes, value: bytes | None, ttl: float = 0.0) -> None:
        if value is None:
            self.plain.pop(key, None)
        else:
            self.plain[key] = value, self.now + int(ttl * 1_000_000) if ttl else 0

    @rule(key=keys, value=values, ttl=seconds, previous=st.booleans())
    def put(self, key: bytes, value: bytes, ttl: float, previous: bool) -> None:
        before = self.there().get(key) if previous else None
        assert self.client.ask(q.MapPut(USERS, key, value, ttl, previous=previous)) == r.MapChanged(True, before)
        self.set(key, value, ttl)

    @rule(key=keys, value=values, ttl=seconds, old=st.none() | values)
    def swap(self, key: bytes, value: bytes, ttl: float, old: bytes | None) -> None:
        before = self.there().get(key)
        only = q.IfAbsent() if old is None else q.IfEquals(old)
        outcome = self.client.ask(q.MapPut(USERS, key, value, ttl, only))
        assert outcome == (r.MapChanged(True) if before == old else r.MapChanged(False, before))
        if before == old:
            self.set(key, value, ttl)

    @rule(key=keys, only=st.none() | values)
    def remove(self, key: bytes, only: bytes | None) -> None:
        before = self.there().get(key)
        done = before is not None and only in (None, before)
        condition = q.Anyhow() if only is None else q.IfEquals(only)
        assert self.client.ask(q.MapRemove(USERS, key, condition)) == r.MapChanged(done, before)
        if done:
            self.set(key, None)

    @rule(key=keys, delta=st.integers(-5, 5))
    def add(self, key: bytes, delta: int) -> None:
        before = self.there().get(key, b"0")
        outcome = self.client.ask(q.MapAdd(USERS, key, delta))
        if before in (b"", b"x"):
            assert outcome == (Fault.NOT_A_NUMBER, {})
        else:
            assert outcome == r.Count(int(before) + delta)
            expiry = self.plain[key][1] if key in self.there() else 0
            self.plain[key] = b"%d" % (int(before) + delta), expiry

    @rule()
    def clear(self) -> None:
        assert self.client.ask(q.MapClear(USERS)) == r.Count(len(self.there()))
        self.plain.clear()

    @rule(key=keys, value=st.none() | values, at=st.integers(0, 9))
    def publish(self, key: bytes, value: bytes | None, at: int) -> None:
        partitions = len(self.client.ask(q.DescribeTopic(USERS)).partitions)
        if partitions:
            self.client.ask(publish(Record(None, b"no key"), Record(key, value), to=at % partitions))
            self.set(key, value)

    @rule(key=keys, value=values, ttl=seconds)
    def put_and_look_without_waiting(self, key: bytes, value: bytes, ttl: float) -> None:
        asked = (
            q.MapPut(USERS, key, value, ttl),
            get(key),
            q.MapAdd(USERS, b"n", 1),
            get(b"n"),
            q.MapRemove(USERS, b"n"),
        )
        before = int(self.there().get(b"n", b"0"))
        answers = [self.client.outcome(begun) for begun in [self.client.begin(command) for command in asked]]
        self.set(key, value, ttl)
        assert answers[0:2] == [r.MapChanged(True), r.MapValue(value)]
        assert answers[2] == r.Count(before + 1)
        assert answers[3] in (r.MapValue(b"%d" % (before + 1)), r.MapValue(None)), "at least the writes before it"
        self.set(b"n", None)

    @rule(passed=st.integers(1, 15))
    def wait(self, passed: int) -> None:
        self.now += passed

    @rule()
    def grow(self) -> None:
        if len(self.client.ask(q.DescribeTopic(USERS)).partitions) < 5:
            self.client.ask(q.CreatePartitions(USERS, 1))

    @rule()
    def shrink(self) -> None:
        """What was in the partition is gone, and what it had replaced is there again."""
        if len(self.client.ask(q.DescribeTopic(USERS)).partitions) > 1:
            self.client.ask(q.DeletePartitions(USERS, 1))
            self.plain = self.by_hand()

    def by_hand(self) -> dict[bytes, tuple[bytes, int]]:
        """The dict as the log has it."""
        rows = []
        for at in range(len(self.client.ask(q.DescribeTopic(USERS)).partitions)):
            for batch in self.client.ask(q.Fetch(USERS, at, 0, max_bytes=ALL)).batches:
                rows += [(timestamp, at, offset, record) for offset, timestamp, record in batch.rows() if record.key]
        latest = {record.key: record for *_, record in sorted(rows, key=lambda row: row[:3])}
        return {key: (record.value, record.expiry) for key, record in latest.items() if record.value is not None}

    @invariant()
    def agree(self) -> None:
        expected = self.there()
        assert self.client.ask(q.MapSize(USERS)) == r.Count(len(expected))
        assert self.client.ask(q.MapScan(USERS)) == r.MapEntries(tuple(sorted(expected.items())))
        found = {key: self.client.ask(get(key)).value for key in (b"a", b"b", b"c", b"d")}
        assert found == {key: expected.get(key) for key in found}
        kept = {key: value for key, (value, expiry) in self.by_hand().items() if not 0 < expiry <= self.now}
        assert kept == expected

    def teardown(self) -> None:
        self.client.close()


class PlainSqlite(Plain):
    """The same, stopped in good order or not."""

    def open(self) -> Driver:
        self.directory = Path(tempfile.mkdtemp())
        return self.reopen()

    def reopen(self) -> Driver:
        backend = SqliteBackend(self.directory, registry([]), self.reactor, lambda: self.now)
        return Driver(backend, self.reactor)

    @rule()
    def restart(self) -> None:
        self.client.close()
        self.client = self.reopen()

    @rule()
    def crash(self) -> None:
        """What is in the files at any moment is all that was acknowledged."""
        copied = Path(tempfile.mkdtemp())
        for name in ("gateway.sqlite3", "gateway.sqlite3-wal"):
            shutil.copy(self.directory / name, copied / name)
        self.teardown()
        self.directory = copied
        self.client = self.reopen()

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.directory)


TestPlain = Plain.TestCase
TestPlainSqlite = PlainSqlite.TestCase
TestPlain.settings = TestPlainSqlite.settings = settings(stateful_step_count=30, report_multiple_bugs=False)


# -- several clients


class House:
    """A backend, and as many sessions as are asked for."""

    def __init__(self, make: Callable[[Reactor, Callable[[], int]], Any]) -> None:
        self.now = START
        self.reactor = Reactor()
        self._make = make
        self._sessions = 0
        self.backend = self.made()

    def made(self) -> Any:
        return self._make(self.reactor, lambda: self.now)

    def client(self) -> Driver:
        self._sessions += 1
        return Driver(self.backend, self.reactor, Session(self._sessions))

    def close(self) -> None:
        self.client().close()

    def reopen(self) -> Driver:
        self.close()
        self.backend = self.made()
        return self.client()


def made_sqlite(directory: Path, *encodings: Encoding) -> House:
    return House(lambda reactor, now: SqliteBackend(directory, registry(encodings), reactor, now))


@pytest.fixture(params=["memory", "sqlite"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    made = made_sqlite(tmp_path) if request.param == "sqlite" else House(MemoryBackend)
    yield made
    made.close()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[House]:
    """A backend of which everything is read from the file again."""
    made = made_sqlite(tmp_path / "data")
    yield made
    made.close()


def race(house: House, steps: list[Any]) -> None:
    """Each session asks what its generator yields, and sends it the answer; in turn, and at the same time."""
    ready: deque[tuple[Session, Any, Any]] = deque((Session(100 + at), step, None) for at, step in enumerate(steps))
    running = len(steps)

    errors: list[Failure] = []
    while running:
        if not ready:
            house.reactor._calls.get(timeout=PATIENCE)()
            continue
        session, step, reply = ready.popleft()
        try:
            asked = maybeDeferred(house.backend.execute, step.send(reply), session)
        except StopIteration:
            running -= 1
        else:
            asked.addCallback(lambda reply, *who: ready.append((*who, reply)), session, step)
            asked.addErrback(errors.append)
            assert not errors
    assert not errors


def test_two_sessions_that_compare_and_set_lose_no_update(house: House) -> None:
    house.client().ask(q.MapPut(USERS, b"n", b"0", create=3))
    lost = [0, 0]

    def increment(who: int) -> Any:
        for _ in range(5_000):
            done = False
            while not done:
                old = (yield get(b"n")).value
                done = (yield swap(b"n", old, b"%d" % (int(old) + 1))).done
                lost[who] += not done

    race(house, [increment(0), increment(1)])
    assert house.client().ask(get(b"n")) == r.MapValue(b"10000")
    assert sum(lost) > 1_000, "they did get in each other's way"


def test_many_sessions_add_to_a_counter(house: House) -> None:
    seen: list[int] = []

    def add() -> Any:
        for _ in range(100):
            seen.append((yield q.MapAdd(USERS, b"n", 1, create=2)).value)

    race(house, [add() for _ in range(50)])
    assert sorted(seen) == list(range(1, 5_001)), "each sum was given once"
    assert house.client().ask(get(b"n")) == r.MapValue(b"5000")


def test_a_lock_has_one_owner_at_a_time(house: House) -> None:
    owners: list[bytes] = []

    def lock(me: bytes) -> Any:
        for _ in range(50):
            while not (yield q.MapPut(USERS, b"lock", me, 1.0, q.IfAbsent(), create=1)).done:
                assert len(owners) <= 1
            owners.append(me)
            assert owners == [me]
            assert (yield get(b"lock")).value == me
            owners.remove(me)
            assert (yield q.MapRemove(USERS, b"lock", q.IfEquals(me))).done

    race(house, [lock(b"%d" % at) for at in range(4)])


# -- queues


def taken(outcome: Any) -> list[bytes | None]:
    assert isinstance(outcome, r.Records), outcome
    return [record.value for batch in outcome.batches for record in batch.records()]


def tasks(count: int, first: int = 0) -> q.Publish:
    return publish(*(Record(value=b"%d" % at) for at in range(first, first + count)), topic=TASKS, create=1)


def test_a_queue_is_looked_at_and_taken_in_order(house: House) -> None:
    client = house.client()
    client.ask(tasks(3))
    assert taken(client.ask(q.Peek(TASKS))) == [b"0"]
    assert [taken(client.ask(q.Take(TASKS))) for _ in range(2)] == [[b"0"], [b"1"]]
    assert taken(client.ask(q.Peek(TASKS))) == [b"2"]
    assert client.ask(q.QueueSize(TASKS)) == r.Count(1)
    assert taken(client.ask(q.Take(TASKS))) == [b"2"]
    assert client.ask(q.Take(TASKS)) == client.ask(q.Peek(TASKS)) == r.Records(0, 0, 3)
    client.ask(tasks(4, 3))
    assert client.ask(q.QueueClear(TASKS)) == r.Count(4)
    assert client.ask(q.Take(TASKS)) == r.Records(0, 0, 7)


def test_of_several_takers_each_record_goes_to_one(house: House) -> None:
    house.client().ask(tasks(500))
    got: list[list[bytes | None]] = [[] for _ in range(8)]

    def take(who: int) -> Any:
        while found := taken((yield q.Take(TASKS))):
            got[who] += found

    race(house, [take(who) for who in range(8)])
    assert sorted(int(value or b"") for each in got for value in each) == list(range(500))
    assert all(each == sorted(each, key=lambda value: int(value or b"")) for each in got)


def test_takers_that_wait_get_one_record_each_as_they_come(house: House) -> None:
    client = house.client()
    client.ask(q.CreateTopic(TASKS, 1))
    takers = [house.client() for _ in range(6)]
    waiting = [taker.begin(q.Take(TASKS, wait=10.0)) for taker in takers]
    waiting.append(takers[0].begin(q.Take(TASKS, wait=10.0)))
    client.ask(tasks(2))
    client.ask(tasks(3, 2))
    while sum(begun.called and not begun.paused for begun in waiting) < 5:
        house.reactor._calls.get(timeout=PATIENCE)()
    house.reactor.advance(10.0)
    answers = [taken(taker.outcome(begun)) for taker, begun in zip([*takers, takers[0]], waiting, strict=True)]
    assert sorted(answers) == [[], [], [b"0"], [b"1"], [b"2"], [b"3"], [b"4"]]
    assert house.reactor.getDelayedCalls() == []


def test_a_taker_that_has_given_up_takes_nothing(house: House) -> None:
    client, gone = house.client(), house.client()
    client.ask(q.CreateTopic(TASKS, 1))
    waiting = gone.begin(q.Take(TASKS, wait=10.0))
    waiting.addErrback(lambda failure: None)
    client.ask(q.Take(TASKS))  # by then it waits, whatever the store
    waiting.cancel()
    client.ask(tasks(1))
    assert client.ask(q.QueueSize(TASKS)) == r.Count(1)
    assert house.reactor.getDelayedCalls() == []


def test_a_queue_that_goes_away_ends_the_wait(house: House) -> None:
    client, taker = house.client(), house.client()
    client.ask(q.CreateTopic(TASKS, 1))
    waiting = taker.begin(q.Take(TASKS, wait=10.0))
    client.ask(q.Take(TASKS))
    client.ask(q.DeleteTopic(TASKS))
    assert taker.outcome(waiting)[0] is Fault.NO_SUCH_TOPIC


def test_a_group_called_queue_reads_on_where_takers_stopped(house: House) -> None:
    client = house.client()
    client.ask(tasks(4))
    client.ask(q.Take(TASKS))
    fetched = client.ask(q.Fetch(TASKS, 0, q.Next(QUEUE), max_records=1, commit=True))
    assert taken(fetched) == [b"1"]
    assert taken(client.ask(q.Take(TASKS))) == [b"2"]
    assert client.ask(q.DescribeGroup(TASKS, "queue")).members == ()


def test_a_session_takes_what_it_has_just_published(house: House) -> None:
    client = house.client()
    asked = (
        tasks(3),
        q.Take(TASKS),
        q.Peek(TASKS),
        q.Take(TASKS),
        q.QueueClear(TASKS),
        q.QueueSize(TASKS),
        q.Take(TASKS),
    )
    answers = [client.outcome(begun) for begun in [client.begin(command) for command in asked]]
    assert [taken(answers[at]) for at in (1, 3, 6)] == [[b"0"], [b"1"], []]
    assert answers[4:6] == [r.Count(1), r.Count(0)]


def test_a_topic_of_several_partitions_is_no_queue(house: House) -> None:
    client = house.client()
    client.ask(q.CreateTopic(TASKS, 2))
    for command in (q.Take(TASKS, wait=1.0), q.Peek(TASKS), q.QueueSize(TASKS), q.QueueClear(TASKS)):
        assert client.ask(command) == (Fault.UNSUPPORTED, {})


def test_queues_and_tables_of_no_topic_are_none(house: House) -> None:
    client = house.client()
    looks = [get(b"k"), q.MapSize(USERS), q.MapScan(USERS), q.Take(USERS), q.Peek(USERS), q.QueueSize(USERS)]
    writes = [q.MapPut(USERS, b"k", b"v"), swap(b"k", b"v", b"w"), q.MapAdd(USERS, b"k", 1), q.QueueClear(USERS)]
    for command in (*looks, *writes):
        assert client.ask(command)[0] is Fault.NO_SUCH_TOPIC
    assert client.ask(get(b""))[0] is Fault.INVALID_ARGUMENT


# -- what others write


def test_a_record_of_any_encoding_changes_the_table(tmp_path: Path) -> None:
    house = made_sqlite(tmp_path, BACKWARDS)
    client = house.client()
    client.ask(q.MapPut(USERS, b"k", b"v", create=3))
    assert client.ask(get(b"k")) == r.MapValue(b"v")
    said = canonical([Record(b"k", b"w"), Record(b"l", b"x")]).body[::-1]
    client.ask(q.Publish(USERS, 2, RecordBatch(BACKWARDS, said, 2)))
    for _ in range(2):
        assert client.ask(get(b"k")) == r.MapValue(b"w")
        assert client.ask(swap(b"l", b"x", b"x")) == r.MapChanged(True)
        client = house.reopen()
    house.close()
    house = made_sqlite(tmp_path)
    client = house.client()
    assert client.ask(get(b"k")) == UNAVAILABLE, "the encoding is not known any more"
    assert client.ask(swap(b"l", b"x", b"y")) == UNAVAILABLE
    assert client.ask(q.MapPut(USERS, b"l", b"y")) == r.MapChanged(True), "nobody has to look for that"
    house.close()


BACKWARDS = Encoding(
    "backwards.v1",
    walk=lambda body: CANONICAL.walk(body[::-1]),
    stamp=lambda body, base, timestamp: body,
    cut=lambda body, first, last: CANONICAL.cut(body[::-1], first, last)[::-1],
    sizes=lambda body: CANONICAL.sizes(body[::-1]),
    runs=lambda body: CANONICAL.runs(body[::-1]),
    records=lambda body: CANONICAL.records(body[::-1]),
)


def test_what_a_table_writes_can_be_fetched_as_records(house: House) -> None:
    client = house.client()
    client.ask(q.MapPut(USERS, b"k", b"v", 2.0, create=1))
    client.ask(q.MapRemove(USERS, b"k"))
    [first, second] = client.ask(q.Fetch(USERS, 0, 0)).batches
    assert first.records() + second.records() == [Record(b"k", b"v", expiry=START + 2_000_000), Record(b"k", None)]


# -- the file: reading it while others write


class Gate:
    """Holds up whoever reads the file, but for the writer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.reads = 0
        read = database.read

        def slowly(*given: Any) -> Any:
            if threading.current_thread().name != "sqlite-writer":
                self.reads += 1
                assert self.open.wait(30)
            return read(*given)

        monkeypatch.setattr(database, "read", slowly)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


def filled(house: House) -> Driver:
    """A table of which nothing is in memory, in two partitions."""
    client = house.client()
    client.ask(publish(Record(b"a", b"1"), Record(b"b", b"1"), create=2))
    client.ask(publish(Record(b"b", b"2"), Record(b"c", b"2"), to=1))
    return house.reopen()


def test_who_asks_while_a_table_is_read_waits_for_it_and_sees_what_came_meanwhile(files: House, gate: Gate) -> None:
    client = filled(files)
    others = [files.client() for _ in range(5)]
    asked = [
        other.begin(command)
        for other, command in zip(others, [get(b"a"), get(b"b"), get(b"c"), get(b"d"), q.MapSize(USERS)], strict=True)
    ]
    client.ask(publish(Record(b"a", b"3"), Record(b"d", b"3")))
    client.ask(q.MapRemove(USERS, b"c"))
    client.ask(publish(Record(b"b", b"older", timestamp=5)))
    assert not any(begun.called for begun in asked)
    gate.open.set()
    answers = [other.outcome(begun) for other, begun in zip(others, asked, strict=True)]
    assert answers == [r.MapValue(b"3"), r.MapValue(b"2"), r.MapValue(None), r.MapValue(b"3"), r.Count(3)]
    assert gate.reads == 2, "each partition once"


def test_what_its_session_asks_behind_a_look_waits_while_the_table_is_read(files: House, gate: Gate) -> None:
    client = filled(files)
    asked = [
        client.begin(command)
        for command in (
            q.MapSize(USERS),
            q.MapRemove(USERS, b"c"),
            q.MapSize(USERS),
            publish(Record(b"a", b"3")),
            get(b"a"),
            q.DeleteTopic(USERS),
            get(b"a"),
        )
    ]
    other = files.client()
    other.ask(q.MapPut(USERS, b"d", b"4"))
    assert not any(begun.called for begun in asked)
    gate.open.set()
    answers = [client.outcome(begun) for begun in asked]
    assert answers[:3] == [r.Count(4), r.MapChanged(True, b"2"), r.Count(3)]
    assert answers[4] == r.MapValue(b"3")
    assert answers[6][0] is Fault.NO_SUCH_TOPIC
    assert (files.backend._lines, files.backend._newest) == ({}, {})


def test_partitions_that_go_while_a_table_is_read_are_not_in_it(files: House, gate: Gate) -> None:
    client = filled(files)
    asked = files.client().begin(q.MapScan(USERS))
    client.ask(q.DeletePartitions(USERS, 1))
    for _ in range(3):  # the writer sweeps away what was in it
        client.ask(publish(Record(b"x", b"y"), topic=TASKS, create=1))
    gate.open.set()
    assert client.outcome(asked) == r.MapEntries(((b"a", b"1"), (b"b", b"1")))


def test_partitions_that_go_when_they_were_read_already_are_not_in_the_table_either(
    files: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, shown = threading.Event(), threading.Event()

    def tabulate(parts: Any) -> Table:
        table = tables.tabulate(parts)
        read.set()
        assert shown.wait(30)
        return table

    client = filled(files)
    monkeypatch.setattr(sqlite, "tabulate", tabulate)
    asked = files.client().begin(q.MapScan(USERS))
    assert read.wait(30)
    client.ask(q.DeletePartitions(USERS, 1))
    shown.set()
    assert client.outcome(asked) == r.MapEntries(((b"a", b"1"), (b"b", b"1")))


def test_a_topic_that_goes_while_its_table_is_read_has_none(files: House, gate: Gate) -> None:
    client = filled(files)
    first, second = (files.client().begin(get(b"a")) for _ in range(2))
    client.ask(q.DeleteTopic(USERS))
    gate.open.set()
    assert client.outcome(first)[0] is Fault.NO_SUCH_TOPIC
    client.ask(publish(Record(b"a", b"new"), create=1))
    assert client.outcome(second)[0] is Fault.NO_SUCH_TOPIC
    assert client.ask(get(b"a")) == r.MapValue(b"new")


def test_who_gives_up_while_a_table_is_read_is_nobodys_loss(files: House, gate: Gate) -> None:
    client = filled(files)
    first, second = (files.client().begin(get(b"a")) for _ in range(2))
    first.addErrback(lambda failure: None)
    with capturedLogs() as events:
        first.cancel()
        gate.open.set()
        assert client.outcome(second) == r.MapValue(b"1")
    assert events == []


# -- the file: what is wrong with it


def test_a_damaged_batch_costs_the_table_and_nothing_else(files: House, tmp_path: Path) -> None:
    client = filled(files)
    files.close()
    stranger = sqlite3.connect(tmp_path / "data" / "gateway.sqlite3", isolation_level=None)
    stranger.execute("UPDATE batches SET body = x'90' WHERE position >> 40 = (SELECT max(number) FROM partitions)")
    assert stranger.execute("SELECT changes()").fetchone() == (1,)
    stranger.close()
    files.backend = files.made()
    client = files.client()
    for command in (get(b"a"), q.MapSize(USERS), swap(b"a", b"1", b"2"), q.MapClear(USERS), get(b"a")):
        assert client.ask(command) == UNAVAILABLE
    assert client.ask(q.MapPut(USERS, b"a", b"9")) == r.MapChanged(True)
    assert client.ask(q.MapAdd(TASKS, b"n", 1, create=1)) == r.Count(1)
    client.ask(q.DeletePartitions(USERS, 1))
    assert client.ask(q.MapSize(USERS)) == r.Count(2)


def test_what_a_full_disk_did_not_take_is_not_in_the_table(files: House) -> None:
    client = files.client()
    client.ask(q.MapAdd(USERS, b"n", 1, create=1))
    connection = files.backend._writer._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with capturedLogs():
        assert client.ask(q.MapPut(USERS, b"n", b"x" * 100_000, only=q.IfEquals(b"1"))) == UNAVAILABLE
    connection.execute("PRAGMA max_page_count = 1000000")
    assert client.ask(get(b"n")) == r.MapValue(b"1")
    assert client.ask(q.MapAdd(USERS, b"n", 1)) == r.Count(2)


def test_a_table_is_decided_on_what_is_in_the_same_transaction(files: House) -> None:
    client = filled(files)
    asked = (
        publish(Record(b"a", b"5"), to=1),
        q.MapAdd(USERS, b"a", 1),
        q.DeletePartitions(USERS, 1),
        q.MapPut(USERS, b"c", b"new", only=q.IfAbsent()),
        q.CreatePartitions(USERS, 3),
        publish(Record(b"c", b"8"), to=3),
        q.MapAdd(USERS, b"c", 1),
    )
    answers = [client.outcome(begun) for begun in [client.begin(command) for command in asked]]
    assert [answers[at] for at in (1, 3, 6)] == [r.Count(6), r.MapChanged(True), r.Count(9)]
    assert client.ask(q.MapScan(USERS)) == files.reopen().ask(q.MapScan(USERS))


def test_a_table_is_read_past_what_is_kept_in_memory(files: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "TAIL_BYTES", 0)
    client = files.reopen()
    for at in range(50):
        client.ask(q.MapPut(USERS, b"%02d" % at, b"v", create=3))
    client.ask(tasks(5))
    assert len(client.ask(q.MapScan(USERS)).entries) == 50
    assert client.ask(q.MapScan(USERS, b"47", 1, values=False)) == r.MapEntries(((b"48", b""),))
    assert [taken(client.ask(q.Take(TASKS))) for _ in range(2)] == [[b"0"], [b"1"]]
    assert taken(files.reopen().ask(q.Take(TASKS))) == [b"2"]
