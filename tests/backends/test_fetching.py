"""gateway.backends.fetching: where a read begins, how it waits, what a Follow delivers and how it ends."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from zope.interface import implementer

from gateway.backends.fetching import Batches, Fetching
from gateway.backends.interface import IFollower
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.commands import Command, Session
from gateway.core.decisions import perform
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical
from gateway.core.replies import CommittedOffsets, Records, Reply
from gateway.core.state import Partition, State

ORDERS = q.Topic("default", "orders")
GROUP, CONSUMER = q.Group("g"), q.Consumer("c")
START = 1_700_000_000_000_000


class Store:
    """A memory backend with a topic of one partition, and one client of it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.now = START
        self.backend = MemoryBackend(self.clock, lambda: self.now)
        self.session = Session(1)
        self.ask(q.CreateTopic(ORDERS, 1))

    def ask(self, command: Command) -> Any:
        reply = self.backend.execute(command, self.session)
        assert not isinstance(reply, Deferred)
        return reply

    def put(self, *values: bytes) -> None:
        self.ask(q.Publish(ORDERS, 0, canonical([Record(value=value) for value in values])))

    def values(self, start: q.Start, **more: Any) -> list[bytes]:
        return values_of(self.ask(q.Fetch(ORDERS, 0, start, **more)))

    def wait(self, start: q.Start, seconds: float = 10.0, **more: Any) -> list[Any]:
        """What a Fetch is answered with, in time."""
        outcomes: list[Any] = []
        reply = self.backend.execute(q.Fetch(ORDERS, 0, start, wait=seconds, **more), self.session)
        assert isinstance(reply, Deferred), "it was answered at once"
        reply.addBoth(outcomes.append)
        return outcomes

    def fault(self, command: Command) -> Fault:
        with pytest.raises(CommandFailed) as caught:
            self.backend.execute(command, self.session)
        return caught.value.fault

    def waiters(self) -> int:
        return sum(map(len, self.backend._fetching._waiting.values()))


@pytest.fixture
def store() -> Store:
    return Store()


def values_of(records: Records) -> list[bytes]:
    return [record.value or b"" for batch in records.batches for record in batch.records()]


# -- where a read begins


def test_an_offset_is_the_first_record_wanted(store: Store) -> None:
    store.put(b"a", b"b")
    store.put(b"c")
    assert store.values(1) == [b"b", b"c"]


def test_at_and_behind_the_end_there_is_nothing_yet(store: Store) -> None:
    store.put(b"a")
    assert store.ask(q.Fetch(ORDERS, 0, 1)) == Records(0, 0, 1)
    assert store.ask(q.Fetch(ORDERS, 0, q.MAX_OFFSET)) == Records(0, 0, 1)


@pytest.mark.parametrize("offset", [-1, q.MAX_OFFSET + 1])
def test_an_offset_that_cannot_be_is_refused(store: Store, offset: int) -> None:
    assert store.fault(q.Fetch(ORDERS, 0, offset)) is Fault.INVALID_OFFSET


def test_first_and_last_count_from_the_ends(store: Store) -> None:
    store.put(b"a", b"b")
    store.put(b"c")
    assert store.values(q.First()) == [b"a", b"b", b"c"]
    assert store.values(q.Last(2)) == [b"b", b"c"]
    assert store.values(q.Last(9)) == [b"a", b"b", b"c"]
    assert store.values(q.Last(0)) == []


def test_a_time_finds_the_first_record_at_or_after_it(store: Store) -> None:
    store.put(b"a", b"b")
    store.now = START + 100
    store.put(b"c")
    times = START - 1, START, START + 1, START + 2, START + 100, START + 101
    found = [store.values(q.FromTime(time)) for time in times]
    whole = [b"a", b"b", b"c"]
    assert found == [whole, whole, whole[1:], whole[2:], whole[2:], []]


def test_next_goes_on_where_the_reader_committed_but_not_below_its_floor(store: Store) -> None:
    store.put(b"a", b"b", b"c")
    assert store.values(q.Next(GROUP)) == [b"a", b"b", b"c"]
    assert store.values(q.Next(GROUP, floor=1)) == [b"b", b"c"]
    store.ask(q.CommitOffsets(ORDERS, GROUP, {0: 1}))
    assert store.values(q.Next(GROUP)) == [b"b", b"c"]
    assert store.values(q.Next(GROUP, floor=2)) == [b"c"]
    assert store.values(q.Next(q.Consumer("g"))) == [b"a", b"b", b"c"], "a consumer of that name is somebody else"


def test_a_topic_is_made_for_a_fetch_that_says_so() -> None:
    store = Store()
    other = q.Topic("default", "other")
    assert store.fault(q.Fetch(other, 0, 0)) is Fault.NO_SUCH_TOPIC
    assert store.ask(q.Fetch(other, 2, 0, create=3)) == Records(2, 0, 0)
    assert len(store.ask(q.DescribeTopic(other)).partitions) == 3
    assert store.ask(q.Fetch(other, 2, 0, create=9)) == Records(2, 0, 0)


# -- committing


def committed(store: Store) -> dict[int, int]:
    reply = store.ask(q.FetchOffsets(ORDERS, CONSUMER))
    assert isinstance(reply, CommittedOffsets)
    return reply.offsets


def test_a_fetch_that_commits_goes_on_next_time(store: Store) -> None:
    store.put(b"a", b"b", b"c")
    start = q.Next(CONSUMER)
    assert store.values(start, max_records=2, commit=True) == [b"a", b"b"]
    assert committed(store) == {0: 2}
    assert store.values(start, max_records=2, commit=True) == [b"c"]
    assert store.values(start, max_records=2, commit=True) == []
    assert committed(store) == {0: 3}


def test_who_does_not_say_who_reads_commits_nothing(store: Store) -> None:
    store.put(b"a")
    store.values(0, commit=True)
    assert store.values(q.Next(CONSUMER)) == [b"a"]
    assert committed(store) == {}


@pytest.mark.parametrize(
    ("start", "value", "offset"), [(1, b"b", 2), (q.First(), b"a", 1), (q.Last(1), b"c", 3), (q.FromTime(0), b"a", 1)]
)
def test_a_reader_commits_from_wherever_it_reads(store: Store, start: q.Start, value: bytes, offset: int) -> None:
    store.put(b"a", b"b", b"c")
    assert store.values(start, max_records=1, commit=True, reader=CONSUMER) == [value]
    assert committed(store) == {0: offset}
    assert store.values(start, max_records=1, reader=CONSUMER) == [value]
    assert store.values(3, commit=True, reader=CONSUMER) == []
    assert committed(store) == {0: offset}, "neither who does not commit nor who finds nothing changes it"


def test_a_reader_goes_before_the_one_of_the_start(store: Store) -> None:
    store.put(b"a", b"b")
    assert store.values(q.Next(GROUP), max_records=1, commit=True, reader=CONSUMER) == [b"a"]
    assert committed(store) == {0: 1}
    assert store.values(q.Next(GROUP)) == [b"a", b"b"]


def test_a_wait_from_an_offset_commits_what_it_brought(store: Store) -> None:
    outcomes = store.wait(1, commit=True, reader=CONSUMER)
    store.put(b"a", b"b")
    assert values_of(outcomes[0]) == [b"b"]
    assert committed(store) == {0: 2}


# -- partitions in turn


def join(store: Store, partitions: int = 3) -> None:
    """The session becomes a member of the group, with some partitions that have nothing in them."""
    store.ask(q.CreatePartitions(ORDERS, partitions - 1))
    store.ask(q.JoinGroup(ORDERS, GROUP.name, "", q.WhileConnected()))


@pytest.mark.parametrize("start", [0, q.First(), q.Last(5), q.FromTime(0), q.Next(CONSUMER)])
def test_a_group_reads_its_partitions_in_turn_from_wherever_it_says(store: Store, start: q.Start) -> None:
    join(store)
    fetch = q.Fetch(ORDERS, None, start, reader=GROUP, commit=True)
    assert [store.ask(fetch).partition for _ in range(4)] == [0, 1, 2, 0]
    for partition in range(3):
        store.ask(q.Publish(ORDERS, partition, canonical([Record(value=b"%d" % partition)])))
    assert [(store.ask(fetch).partition, values_of(store.ask(fetch))) for _ in range(2)] == [(1, [b"2"]), (0, [b"1"])]
    assert store.ask(q.FetchOffsets(ORDERS, GROUP)).offsets == {0: 1, 1: 1, 2: 1}


@pytest.mark.parametrize(
    "fetch",
    [
        q.Fetch(ORDERS, None, 0),
        q.Fetch(ORDERS, None, q.Next(CONSUMER)),
        q.Fetch(ORDERS, None, q.Next(GROUP), reader=CONSUMER),
    ],
)
def test_only_a_group_has_turns(store: Store, fetch: q.Fetch) -> None:
    join(store)
    assert store.fault(fetch) is Fault.INVALID_ARGUMENT


def test_who_waits_at_a_partition_stays_there_as_long_as_it_is_its_own(store: Store) -> None:
    join(store)
    outcomes: list[Any] = []
    waiting = store.backend.execute(q.Fetch(ORDERS, None, 0, wait=10.0, reader=GROUP), store.session)
    assert isinstance(waiting, Deferred)
    waiting.addBoth(outcomes.append)
    assert store.ask(q.FetchOffsets(ORDERS, GROUP, (None,))).ends == {0: 0}
    store.put(b"a")
    assert (outcomes[0].partition, values_of(outcomes[0])) == (0, [b"a"])
    assert store.ask(q.FetchOffsets(ORDERS, GROUP, (None,))).ends == {0: 1}


def test_who_waits_at_a_partition_that_becomes_anothers_goes_on_elsewhere(store: Store) -> None:
    join(store, 2)
    outcomes: list[Any] = []
    fetch = q.Fetch(ORDERS, None, 0, wait=10.0, reader=GROUP)
    assert store.ask(q.Fetch(ORDERS, None, 0, reader=GROUP)).partition == 0
    waiting = store.backend.execute(fetch, store.session)
    assert isinstance(waiting, Deferred)
    waiting.addBoth(outcomes.append)
    store.backend.execute(q.JoinGroup(ORDERS, GROUP.name, "z", q.WhileConnected()), Session(2))
    store.ask(q.Publish(ORDERS, 1, canonical([Record(value=b"theirs")])))
    assert outcomes == [], "no record is handed to two members"
    store.put(b"mine")
    assert (outcomes[0].partition, values_of(outcomes[0])) == (0, [b"mine"])


# -- waiting


def test_a_wait_is_over_when_records_come(store: Store) -> None:
    outcomes = store.wait(0)
    assert outcomes == []
    store.put(b"a")
    assert values_of(outcomes[0]) == [b"a"]
    assert store.waiters() == 0
    assert store.clock.getDelayedCalls() == []


def test_who_finds_records_does_not_wait(store: Store) -> None:
    store.put(b"a")
    assert store.values(0, wait=10.0) == [b"a"]


def test_a_wait_is_over_in_time_and_says_how_far_the_partition_goes(store: Store) -> None:
    store.put(b"a")
    outcomes = store.wait(5, 10.0)
    store.clock.advance(9)
    store.put(b"b")
    assert outcomes == []
    store.clock.advance(1)
    assert outcomes == [Records(0, 0, 2)]
    assert store.waiters() == 0


def test_records_elsewhere_do_not_end_a_wait(store: Store) -> None:
    store.ask(q.CreateTopic(q.Topic("default", "other"), 1))
    outcomes = store.wait(0)
    store.ask(q.Publish(q.Topic("default", "other"), 0, canonical([Record()])))
    assert outcomes == []


def test_a_wait_for_a_time_goes_on_past_older_records(store: Store) -> None:
    outcomes = store.wait(q.FromTime(START + 50))
    store.put(b"old")
    assert outcomes == []
    store.clock.advance(6)
    store.now = START + 60
    store.put(b"new")
    assert values_of(outcomes[0]) == [b"new"]


def test_a_wait_in_pieces_is_not_longer_than_was_asked_for(store: Store) -> None:
    outcomes = store.wait(q.FromTime(START + 50), 10.0)
    for _ in range(3):
        store.clock.advance(3)
        store.put(b"old")
    store.clock.advance(0.5)
    assert outcomes == []
    store.clock.advance(0.5)
    assert outcomes == [Records(0, 0, 3)]


def test_of_two_that_wait_as_one_reader_one_gets_the_record(store: Store) -> None:
    waiting = [store.wait(q.Next(GROUP), commit=True) for _ in range(2)]
    store.put(b"a")
    assert [len(outcomes) for outcomes in waiting] == [1, 0]
    store.put(b"b")
    assert [values_of(outcomes[0]) for outcomes in waiting] == [[b"a"], [b"b"]]


def test_a_wait_commits_what_it_brought(store: Store) -> None:
    outcomes = store.wait(q.Next(CONSUMER), commit=True)
    assert committed(store) == {}
    store.put(b"a", b"b")
    assert values_of(outcomes[0]) == [b"a", b"b"]
    assert committed(store) == {0: 2}


def test_a_wait_that_is_given_up_leaves_nothing_behind(store: Store) -> None:
    waiting = store.backend.execute(q.Fetch(ORDERS, 0, 0, wait=10.0), store.session)
    assert isinstance(waiting, Deferred)
    waiting.addErrback(lambda failure: None)
    waiting.cancel()
    assert store.waiters() == 0
    assert store.clock.getDelayedCalls() == []
    store.put(b"a")


def drop_topic(store: Store) -> None:
    store.ask(q.DeleteTopic(ORDERS))


def drop_partition(store: Store) -> None:
    store.ask(q.DeletePartitions(ORDERS, 1))


@pytest.mark.parametrize(
    ("drop", "fault", "facts"),
    [
        (drop_topic, Fault.NO_SUCH_TOPIC, {}),
        (drop_partition, Fault.NO_SUCH_PARTITION, {"partition": 0, "partitions": 0}),
    ],
)
def test_a_wait_ends_with_what_it_waits_on(
    store: Store, drop: Callable[[Store], None], fault: Fault, facts: dict[str, int]
) -> None:
    outcomes = store.wait(0)
    drop(store)
    failure = outcomes[0].value
    assert (failure.fault, failure.facts) == (fault, facts)
    assert store.waiters() == 0


# -- following


@implementer(IFollower)
class Follower:
    """Keeps what it was given; `full` after so many batches, if it is said."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.batches: list[int] = []
        self.failures: list[CommandFailed] = []
        self.producer: Any = None
        self.full: int | None = None

    def deliver(self, batch: RecordBatch) -> None:
        self.got += [record.value or b"" for record in batch.records()]
        self.batches.append(batch.count)
        if self.full is not None and len(self.batches) >= self.full:
            self.producer.pauseProducing()

    def ended(self, failure: CommandFailed) -> None:
        self.failures.append(failure)

    @property
    def faults(self) -> list[Fault]:
        return [failure.fault for failure in self.failures]


def follow(store: Store, start: q.Start = q.First(), **more: Any) -> Follower:  # noqa: B008  # a value
    follower = Follower()
    follower.producer = store.backend.follow(q.Follow(ORDERS, 0, start, **more), store.session, follower)
    assert follower.got == [], "who follows has its producer before it has records"
    store.clock.advance(0)
    return follower


def test_a_follow_brings_what_is_there_and_what_comes(store: Store) -> None:
    store.put(b"a", b"b")
    follower = follow(store, 1)
    assert follower.got == [b"b"]
    store.put(b"c")
    store.put(b"d")
    assert follower.got == [b"b", b"c", b"d"]


def test_a_push_has_no_more_records_than_was_said(store: Store) -> None:
    store.put(b"a", b"b", b"c", b"d", b"e")
    assert follow(store, max_records=2).batches == [2, 2, 1]


def test_a_follow_can_begin_before_its_first_record(store: Store) -> None:
    follower = follow(store, q.Last(0))
    store.put(b"a")
    assert follower.got == [b"a"]


def test_a_paused_follow_brings_nothing_until_it_is_resumed(store: Store) -> None:
    follower = follow(store)
    follower.producer.pauseProducing()
    store.put(b"a")
    store.put(b"b")
    assert follower.got == []
    follower.producer.resumeProducing()
    assert follower.got == [b"a", b"b"]


def test_a_follow_that_is_paused_by_what_it_brought_stops_there(store: Store) -> None:
    for _ in range(5):
        store.put(b"x" * 1000)
    follower = Follower()
    follower.full = 2
    follower.producer = store.backend.follow(q.Follow(ORDERS, 0, q.First(), max_bytes=1), store.session, follower)
    store.clock.advance(0)
    assert follower.batches == [1, 1]


def test_a_stopped_follow_brings_nothing_and_waits_for_nothing(store: Store) -> None:
    follower = follow(store)
    follower.producer.stopProducing()
    store.put(b"a")
    assert follower.got == []
    assert store.waiters() == 0


def test_a_follow_that_is_stopped_before_its_first_turn_never_begins(store: Store) -> None:
    store.put(b"a")
    follower = Follower()
    producer = store.backend.follow(q.Follow(ORDERS, 0, 0), store.session, follower)
    assert not isinstance(producer, Deferred)
    producer.stopProducing()
    store.clock.advance(0)
    assert follower.got == []


@pytest.mark.parametrize(
    ("drop", "fault"), [(drop_topic, Fault.NO_SUCH_TOPIC), (drop_partition, Fault.NO_SUCH_PARTITION)]
)
@pytest.mark.parametrize("paused", [False, True])
def test_a_follow_ends_with_what_it_follows(
    store: Store, drop: Callable[[Store], None], fault: Fault, paused: bool
) -> None:
    """Also if there was more to read when it went."""
    follower = follow(store)
    if paused:
        follower.producer.pauseProducing()
        store.put(b"unread")
    drop(store)
    if paused:
        assert follower.faults == []
        follower.producer.resumeProducing()
    assert follower.faults == [fault]
    assert store.waiters() == 0


def test_a_follow_does_not_go_over_to_another_topic_of_the_name(store: Store) -> None:
    follower = follow(store)
    follower.producer.pauseProducing()
    drop_topic(store)
    store.ask(q.CreateTopic(ORDERS, 1))
    store.put(b"other")
    follower.producer.resumeProducing()
    assert follower.got == []
    assert follower.faults == [Fault.NO_SUCH_TOPIC]


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        (q.Follow(q.Topic("default", "nope"), 0, 0), Fault.NO_SUCH_TOPIC),
        (q.Follow(ORDERS, 1, 0), Fault.NO_SUCH_PARTITION),
        (q.Follow(ORDERS, 0, -1), Fault.INVALID_OFFSET),
    ],
)
def test_a_follow_that_cannot_begin_fails_as_a_fetch_does(store: Store, command: q.Follow, fault: Fault) -> None:
    with pytest.raises(CommandFailed) as caught:
        store.backend.follow(command, store.session, Follower())
    assert caught.value.fault is fault


# -- over a log that takes its time


class Disk:
    """A log of one partition whose reads are answered when the test says so."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.state = State()
        self.session = Session(1)
        self.reads: list[tuple[int, Deferred[Batches]]] = []
        self.seeks: list[Deferred[int]] = []
        self.turn: int | None = None
        self.fetching = Fetching(self.state, self, self.clock, self.write, lambda command, session, again: self.turn)
        self.write(q.CreateTopic(ORDERS, 1), self.session)

    def write(self, command: Command, session: Session) -> Reply:
        reply, changes = perform(self.state, command, START)
        self.fetching.wake({change.number for change in changes if hasattr(change, "number")})
        return reply

    def put(self) -> None:
        self.write(q.Publish(ORDERS, 0, batch(0)), self.session)

    def read(self, number: int, start: int, max_records: int, max_bytes: int) -> Deferred[Batches]:
        self.reads.append((start, Deferred()))
        return self.reads[-1][1]

    def seek(self, partition: Partition, timestamp: int) -> Deferred[int]:
        self.seeks.append(Deferred())
        return self.seeks[-1]

    def follow(self) -> Follower:
        follower = Follower()
        follower.producer = self.fetching.follow(q.Follow(ORDERS, 0, 0), self.session, follower)
        self.clock.advance(0)
        return follower


@pytest.fixture
def disk() -> Disk:
    return Disk()


def batch(base: int) -> RecordBatch:
    return canonical([Record(value=b"%d" % base)]).appended(base, START)


def test_a_fetch_without_a_partition_is_of_the_one_whose_turn_it_is_or_of_none(disk: Disk) -> None:
    fetch = q.Fetch(ORDERS, None, q.Next(GROUP))
    assert disk.fetching.fetch(fetch, disk.session) == Records(0, 0, 0)
    disk.turn = 0
    disk.put()
    fetched = disk.fetching.fetch(fetch, disk.session)
    assert isinstance(fetched, Deferred)
    disk.reads[0][1].callback((batch(0),))
    assert values_of(fetched.result) == [b"0"]


def test_a_follow_reads_once_at_a_time(disk: Disk) -> None:
    disk.put()
    follower = disk.follow()
    disk.put()
    disk.put()
    assert [start for start, _ in disk.reads] == [0]
    disk.reads[0][1].callback((batch(0), batch(1)))
    assert follower.got == [b"0", b"1"]
    assert [start for start, _ in disk.reads] == [0, 2]


def test_what_was_read_for_a_follow_that_is_stopped_goes_nowhere(disk: Disk) -> None:
    disk.put()
    follower = disk.follow()
    follower.producer.stopProducing()
    disk.reads[0][1].callback((batch(0),))
    assert follower.got == []
    assert len(disk.reads) == 1


def test_a_read_that_fails_ends_the_follow(disk: Disk) -> None:
    disk.put()
    follower = disk.follow()
    disk.reads[0][1].errback(CommandFailed(Fault.UNAVAILABLE, "damaged"))
    assert follower.faults == [Fault.UNAVAILABLE]
    disk.put()
    assert len(disk.reads) == 1


def test_a_defect_in_a_read_ends_the_follow_and_is_logged(disk: Disk) -> None:
    disk.put()
    follower = disk.follow()
    with capturedLogs() as events:
        disk.reads[0][1].errback(ZeroDivisionError("broken"))
    assert follower.faults == [Fault.INTERNAL]
    assert follower.failures[0].detail == ""
    assert [str(event["log_failure"].value) for event in events] == ["broken"]


def test_records_that_are_not_where_they_should_be_end_the_follow(disk: Disk) -> None:
    disk.put()
    follower = disk.follow()
    disk.reads[0][1].callback(())
    assert follower.faults == [Fault.UNAVAILABLE]


def test_a_topic_deleted_under_a_read_ends_the_follow_as_such(disk: Disk) -> None:
    disk.put()
    follower = disk.follow()
    disk.write(q.DeleteTopic(ORDERS), disk.session)
    disk.reads[0][1].callback(())
    assert follower.faults == [Fault.NO_SUCH_TOPIC]


def test_a_fetch_that_was_woken_can_still_be_given_up(disk: Disk) -> None:
    waiting = disk.fetching.fetch(q.Fetch(ORDERS, 0, 0, wait=10.0), disk.session)
    assert isinstance(waiting, Deferred)
    outcomes: list[Any] = []
    waiting.addErrback(outcomes.append)
    disk.put()
    assert len(disk.reads) == 1
    with capturedLogs() as events:
        waiting.cancel()
        disk.reads.pop()[1].callback((batch(0),))
        gc.collect()  # a failure that nobody takes is logged when it is collected
    assert len(outcomes) == 1
    assert events == []


def test_a_topic_deleted_while_the_start_was_looked_for_is_not_read(disk: Disk) -> None:
    disk.put()
    fetched = disk.fetching.fetch(q.Fetch(ORDERS, 0, q.FromTime(START)), disk.session)
    assert isinstance(fetched, Deferred)
    outcomes: list[Any] = []
    fetched.addBoth(outcomes.append)
    disk.write(q.DeleteTopic(ORDERS), disk.session)
    disk.seeks[0].callback(0)
    assert outcomes[0].value.fault is Fault.NO_SUCH_TOPIC
    assert disk.reads == []
