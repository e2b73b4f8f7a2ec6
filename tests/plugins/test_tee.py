"""plugins/backends/tee.py: two stores that are alike, of which clients see one."""

from __future__ import annotations

import gc
import importlib.util
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from twisted.internet.defer import Deferred, fail, maybeDeferred, succeed
from twisted.internet.interfaces import IPushProducer
from twisted.logger import LogEvent, capturedLogs
from twisted.python.failure import Failure
from zope.interface import implementer

from backends.driving import Driver, Reactor
from gateway.backends.interface import IBackend, IFollower
from gateway.backends.memory import MemoryBackend
from gateway.backends.sqlite import SqliteBackend
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical, registry
from gateway.core.replies import Reply
from system.peers import Frames, Lines, Row, batch
from system.processes import COMMAND, ROOT, GatewayProcess

TOPIC = q.Topic("default", "orders")
ONCE = q.Topic("default", "once")
MANY = 1 << 20
WITH_PLUGINS = (*COMMAND, "--plugins", str(ROOT / "plugins"))


@pytest.fixture(scope="module")
def tee() -> Iterator[ModuleType]:
    """The module, loaded as a file: it is no part of the gateway's packages."""
    spec = importlib.util.spec_from_file_location("tee", ROOT / "plugins" / "backends" / "tee.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["tee"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["tee"]


@implementer(IBackend)
class Store:
    """A memory backend that notes what it is asked, and may be told how to answer.

    rule: command -> what to answer instead, None = as usual.
    """

    durability = "memory"

    def __init__(self, reactor: Reactor) -> None:
        self.asked: list[q.Command] = []
        self.closed = False
        self.rule: Callable[[q.Command], Deferred[Reply] | None] = lambda command: None
        self._memory = MemoryBackend(reactor, lambda: 0)

    def execute(self, command: q.Command, session: Session) -> Reply | Deferred[Reply]:
        self.asked.append(command)
        told = self.rule(command)
        return self._memory.execute(command, session) if told is None else told

    def follow(
        self, command: q.Follow, session: Session, follower: IFollower
    ) -> IPushProducer | Deferred[IPushProducer]:
        return self._memory.follow(command, session, follower)

    def close(self) -> None:
        self.closed = True


class Pair:
    """A tee over two stores; `one` and `two` ask them behind its back."""

    def __init__(self, tee: ModuleType) -> None:
        reactor = Reactor()
        self.first, self.second = Store(reactor), Store(reactor)
        self.tee: IBackend = tee.Tee(self.first, self.second)
        self.ask = Driver(self.tee, reactor).ask
        self.one, self.two = Driver(self.first, reactor).ask, Driver(self.second, reactor).ask

    def publish(self, *records: Record, to: object = 0, **more: Any) -> Any:
        return self.ask(q.Publish(TOPIC, to, canonical(list(records)), **more))  # type: ignore[arg-type]

    def stored(self, ask: Callable[[q.Command], Any]) -> list[tuple[int, int, Record]]:
        """(partition, offset, record) of everything in the topic."""
        found = []
        for at in range(len(ask(q.DescribeTopic(TOPIC)).partitions)):
            for each in ask(q.Fetch(TOPIC, at, 0, max_bytes=MANY)).batches:
                found += [(at, offset, record) for offset, _, record in each.rows()]
        return found

    def alike(self) -> list[tuple[int, int, Record]]:
        """What both have; fails if they differ."""
        found = self.stored(self.one)
        assert self.stored(self.two) == found
        return found


@pytest.fixture
def pair(tee: ModuleType) -> Pair:
    return Pair(tee)


def numbered(first: int, last: int, epoch: int = 1) -> list[Record]:
    return [Record(value=b"%d" % at, producer=b"p", epoch=epoch, sequence=at) for at in range(first, last + 1)]


# -- copies


def test_the_second_gets_every_record_where_the_first_put_it(pair: Pair) -> None:
    pair.ask(q.CreateTopic(TOPIC, 3))
    assert pair.one(q.Publish(TOPIC, q.Balanced(), canonical([Record()]))).partition == 0
    pair.two(q.Publish(TOPIC, 0, canonical([Record()])))  # the same, but the turn of the second has not moved on
    places = [pair.publish(Record(value=b"%d" % at), to=q.Balanced()).partition for at in range(5)]
    places += [pair.publish(Record(b"k", b"v"), to=q.ByKey(b"k", "fnv1a_32")).partition]
    places += [pair.publish(Record(value=b"2"), to=2).partition]
    assert sorted([0, *places]) == sorted(partition for partition, _, _ in pair.alike())


def test_a_topic_that_a_record_makes_is_made_in_both_with_as_many_partitions(pair: Pair) -> None:
    assert pair.publish(Record(b"k", b"v"), to=q.ByKey(b"k", "fnv1a_32"), create=3) == r.Published(0, 0, 0)
    assert pair.alike() == [(0, 0, Record(b"k", b"v"))]
    assert pair.one(q.DescribeTopic(TOPIC)) == pair.two(q.DescribeTopic(TOPIC))


def test_a_topic_that_is_read_or_joined_into_being_is_made_in_both_even_if_that_fails(pair: Pair) -> None:
    other, third = q.Topic("default", "other"), q.Topic("default", "third")
    assert pair.ask(q.Fetch(TOPIC, 0, 0, create=3)) == r.Records(0, 0, 0)
    assert pair.ask(q.JoinGroup(other, "g", "m", q.Heartbeats(10.0), create=2)).generation == 1
    assert pair.ask(q.Fetch(third, 7, 0, create=3))[0] is Fault.NO_SUCH_PARTITION
    for topic in (TOPIC, other, third):
        assert pair.two(q.DescribeTopic(topic)) == pair.one(q.DescribeTopic(topic))
    with capturedLogs() as events:
        nameless = q.Topic("default", "n" * 256)
        assert pair.ask(q.Fetch(nameless, 0, 0, create=3))[0] is Fault.INVALID_NAME
    assert events == [], "neither made it"


def test_what_the_first_refuses_the_second_does_not_hear_of(pair: Pair) -> None:
    assert pair.publish(Record())[0] is Fault.NO_SUCH_TOPIC
    assert pair.ask(q.DeleteTopic(TOPIC))[0] is Fault.NO_SUCH_TOPIC
    pair.ask(q.CreateTopic(TOPIC, 1))
    reader = q.Group("g")
    assert pair.ask(q.CommitOffsets(TOPIC, reader, {0: 5}, rising=True)) == r.Done()
    assert pair.ask(q.CommitOffsets(TOPIC, reader, {0: 4}, rising=True))[0] is Fault.OFFSET_REGRESSION
    assert [type(command) for command in pair.second.asked] == [q.CreateTopic, q.CommitOffsets]


def test_reading_is_the_affair_of_the_first(pair: Pair) -> None:
    pair.ask(q.CreateTopic(TOPIC, 1))
    pair.publish(Record(value=b"v"))
    heard = len(pair.second.asked)
    assert pair.ask(q.Fetch(TOPIC, 0, 0)).batches[0].records() == [Record(value=b"v")]
    assert pair.ask(q.ListTopics("default")) == pair.one(q.ListTopics("default"))
    assert len(pair.second.asked) == heard


def test_producers_that_repeat_themselves_are_recognised_in_both(pair: Pair) -> None:
    pair.ask(q.CreateTopic(TOPIC, 1, q.TopicSettings(idempotent=True)))
    assert pair.publish(*numbered(1, 3)) == r.Published(0, 0, 2)
    assert pair.publish(*numbered(1, 3)).duplicate
    assert not pair.publish(*numbered(2, 5)).duplicate, "of these two are new"
    assert pair.publish(*numbered(7, 7))[0] is Fault.SEQUENCE_GAP
    assert [record.value for _, _, record in pair.alike()] == [b"1", b"2", b"3", b"4", b"5"]
    assert pair.two(q.Publish(TOPIC, 0, canonical(numbered(1, 5)))).duplicate, "the second could take over"
    assert pair.two(q.Publish(TOPIC, 0, canonical(numbered(1, 1, epoch=0))))[0] is Fault.STALE_EPOCH


def test_offsets_are_copied_however_they_are_committed(pair: Pair) -> None:
    pair.ask(q.CreateTopic(TOPIC, 3))
    pair.publish(Record(value=b"v"), to=0)
    joined = pair.ask(q.JoinGroup(TOPIC, "g", "m", q.Heartbeats(10.0)))
    fenced = q.CommitOffsets(TOPIC, q.Group("g"), {0: 1, 2: 5}, "m", joined.generation)
    assert pair.ask(fenced) == r.Done()
    assert pair.ask(q.CommitOffsets(TOPIC, q.Consumer("c"), {1: 7})) == r.Done()
    assert pair.ask(q.Fetch(TOPIC, 0, q.Next(q.Group("h")), commit=True)).batches
    for reader, offsets in ((q.Group("g"), {0: 1, 2: 5}), (q.Consumer("c"), {1: 7}), (q.Group("h"), {0: 1})):
        asked = q.FetchOffsets(TOPIC, reader, (0, 1, 2))
        assert pair.two(asked) == pair.one(asked) == r.CommittedOffsets(offsets, {0: 1, 1: 0, 2: 0})


def test_tables_are_written_in_both_and_each_decides_for_itself(pair: Pair) -> None:
    assert pair.ask(q.MapPut(TOPIC, b"k", b"v", create=3)) == r.MapChanged(True)
    assert pair.ask(q.MapPut(TOPIC, b"k", b"w", only=q.IfAbsent())) == r.MapChanged(False, b"v")
    assert pair.ask(q.MapAdd(TOPIC, b"n", 5)) == r.Count(5)
    assert pair.ask(q.MapRemove(TOPIC, b"k")) == r.MapChanged(True, b"v")
    assert pair.ask(q.MapAdd(TOPIC, b"n", -7)) == r.Count(-2)
    assert [record.value for _, _, record in pair.alike()].count(None) == 1
    assert pair.two(q.MapScan(TOPIC)) == pair.ask(q.MapScan(TOPIC)) == r.MapEntries(((b"n", b"-2"),))
    assert pair.two(q.MapPut(TOPIC, b"n", b"x")) == r.MapChanged(True), "behind the back of the first"
    with capturedLogs() as events:
        assert pair.ask(q.MapAdd(TOPIC, b"n", 1)) == r.Count(-1)
    assert [event["kind"] for event in events] == ["MapAdd"]
    assert pair.two(q.MapGet(TOPIC, b"n")) == r.MapValue(b"x")
    assert pair.ask(q.MapClear(TOPIC)) == r.Count(1)
    assert pair.two(q.MapSize(TOPIC)) == r.Count(0)


def test_what_is_taken_is_taken_from_both_once(pair: Pair) -> None:
    pair.ask(q.CreateTopic(TOPIC, 1))
    assert pair.ask(q.Take(TOPIC)).batches == ()
    pair.publish(*(Record(value=b"%d" % at) for at in range(5)))
    for at in range(2):
        assert pair.ask(q.Take(TOPIC, wait=5.0)).batches[0].records() == [Record(value=b"%d" % at)]
    assert pair.ask(q.Peek(TOPIC)) == pair.two(q.Peek(TOPIC))
    assert pair.ask(q.QueueSize(TOPIC)) == pair.two(q.QueueSize(TOPIC)) == r.Count(3)
    assert pair.ask(q.QueueClear(TOPIC)) == r.Count(3)
    assert pair.two(q.QueueSize(TOPIC)) == r.Count(0)


# -- the partition that a member was given last, which only the first knows


GROUP = q.Group("g")
READ = q.Fetch(TOPIC, None, 0, reader=GROUP)


def commit(offset: int, **more: Any) -> q.CommitOffsets:
    return q.CommitOffsets(TOPIC, GROUP, {None: offset}, **more)


def joined(pair: Pair) -> r.Joined:
    """A member of the group, whose topic has two partitions with a record each."""
    pair.ask(q.CreateTopic(TOPIC, 2))
    for partition in (0, 1):
        pair.publish(Record(value=b"v"), to=partition)
    found = pair.ask(q.JoinGroup(TOPIC, "g", "m", q.WhileConnected()))
    assert isinstance(found, r.Joined)
    return found


def offsets(pair: Pair) -> dict[int, int]:
    """What is committed in both; fails if they differ."""
    found = pair.one(q.FetchOffsets(TOPIC, GROUP))
    assert pair.two(q.FetchOffsets(TOPIC, GROUP)) == found
    assert isinstance(found, r.CommittedOffsets)
    return found.offsets


def test_a_commit_of_the_partition_held_is_copied_for_that_partition(pair: Pair) -> None:
    generation = joined(pair).generation
    pair.ask(READ)
    assert pair.ask(commit(1, bounded=True)) == r.Done()
    assert offsets(pair) == {0: 1}
    pair.ask(READ)
    assert pair.ask(commit(1, member="m", generation=generation)) == r.Done()
    assert offsets(pair) == {0: 1, 1: 1}
    assert pair.ask(q.CommitOffsets(TOPIC, GROUP, {None: 0, 0: 0})) == r.Done()
    assert offsets(pair) == {0: 0, 1: 0}
    assert pair.ask(q.DeleteOffsets(TOPIC, GROUP, (0, None))) == r.Done()
    assert offsets(pair) == {}


def test_a_fetch_in_turn_is_copied_with_what_it_commits(pair: Pair) -> None:
    joined(pair)
    fetch = q.Fetch(TOPIC, None, 0, commit=True, reader=GROUP)
    assert [pair.ask(fetch).partition for _ in range(2)] == [0, 1]
    assert offsets(pair) == {0: 1, 1: 1}
    assert pair.ask(q.Fetch(TOPIC, 1, q.First(), commit=True, reader=q.Consumer("c"))).batches
    asked = q.FetchOffsets(TOPIC, q.Consumer("c"))
    assert pair.two(asked) == pair.one(asked) == r.CommittedOffsets({1: 1}, {0: 1, 1: 1})


def test_what_holds_no_partition_is_refused_by_the_first_and_not_copied(pair: Pair) -> None:
    pair.ask(q.CreateTopic(TOPIC, 1))
    heard = len(pair.second.asked)
    with capturedLogs() as events:
        assert pair.ask(commit(1))[0] is Fault.NO_SUCH_GROUP
        assert pair.ask(q.DeleteOffsets(TOPIC, GROUP, (None,)))[0] is Fault.NO_SUCH_GROUP
        pair.ask(q.JoinGroup(TOPIC, "g", "m", q.WhileConnected()))
        assert pair.ask(commit(1))[0] is Fault.NO_SUCH_PARTITION
        pair.ask(READ)
        assert pair.ask(commit(1, bounded=True))[0] is Fault.INVALID_OFFSET
        assert pair.ask(q.CommitOffsets(TOPIC, q.Consumer("c"), {None: 1}))[0] is Fault.INVALID_ARGUMENT
        gc.collect()  # a failure that nobody takes is logged when it is collected
    assert len(pair.second.asked) == heard
    assert events == []


def test_a_partition_that_the_first_does_not_tell_is_not_copied_and_that_is_logged(pair: Pair) -> None:
    joined(pair)
    pair.ask(READ)
    away = CommandFailed(Fault.UNAVAILABLE, "the disk is full")
    pair.first.rule = lambda command: fail(away) if isinstance(command, q.FetchOffsets) else None
    with capturedLogs() as events:
        assert pair.ask(commit(1)) == r.Done()
    assert [(event["kind"], "disk is full" in told(event)) for event in events] == [("CommitOffsets", True)]
    pair.first.rule = lambda command: None
    assert pair.one(q.FetchOffsets(TOPIC, GROUP, (0,))).offsets == {0: 1}


def test_a_commit_is_of_what_was_held_when_it_was_asked_also_between_other_commands(
    tee: ModuleType, tmp_path: Path
) -> None:
    reactor, encodings = Reactor(), registry([])
    stores = [SqliteBackend(tmp_path / name, encodings, reactor, lambda: 0) for name in ("a", "b")]
    one = Driver(tee.Tee(*stores), reactor)
    one.ask(q.CreateTopic(TOPIC, 3))
    one.ask(q.JoinGroup(TOPIC, "g", "", q.WhileConnected()))
    put = q.Publish(TOPIC, 0, canonical([Record()]))
    begun = [one.begin(each) for each in (put, READ, commit(0), READ, put, commit(0), READ, put)]
    assert all(not isinstance(one.outcome(each), tuple) for each in begun)
    for store in stores:
        found = Driver(store, reactor).ask(q.FetchOffsets(TOPIC, GROUP))
        assert found == r.CommittedOffsets({0: 0, 1: 0}, {0: 3, 1: 0, 2: 0})
    one.close()


# -- a second that is slow or broken


def test_a_write_is_answered_when_both_have_it(pair: Pair) -> None:
    pair.ask(q.CreateTopic(TOPIC, 1))
    slow: Deferred[Reply] = Deferred()
    pair.second.rule = lambda command: slow
    answer = pair.tee.execute(q.Publish(TOPIC, 0, canonical([Record()])), Session(1))
    assert isinstance(answer, Deferred) and not answer.called
    slow.callback(r.Done())
    told: list[object] = []
    answer.addCallback(told.append)
    assert told == [r.Published(0, 0, 0)]


def broken_at_once(command: q.Command) -> Deferred[Reply]:
    raise CommandFailed(Fault.UNAVAILABLE, "the disk is full")


def broken_later(command: q.Command) -> Deferred[Reply]:
    return fail(CommandFailed(Fault.UNAVAILABLE, "the disk is full"))


def defective(command: q.Command) -> Deferred[Reply]:
    raise ZeroDivisionError("the disk is full")


@pytest.mark.parametrize("rule", [broken_at_once, broken_later, defective])
def test_a_second_that_fails_fails_nobody_and_is_logged(
    pair: Pair, rule: Callable[[q.Command], Deferred[Reply]]
) -> None:
    pair.ask(q.CreateTopic(TOPIC, 1))
    pair.second.rule = rule
    with capturedLogs() as events:
        assert pair.publish(Record(value=b"v")) == r.Published(0, 0, 0)
        assert pair.ask(q.CommitOffsets(TOPIC, q.Group("g"), {0: 1})) == r.Done()
        assert pair.ask(q.Fetch(q.Topic("default", "other"), 7, 0, create=3))[0] is Fault.NO_SUCH_PARTITION
    assert [(event["kind"], "disk is full" in told(event)) for event in events] == [
        ("Publish", True),
        ("CommitOffsets", True),
        ("Fetch", True),
    ]
    assert len(pair.stored(pair.one)) == 1
    pair.second.rule = lambda command: None
    assert pair.stored(pair.two) == []


def told(event: LogEvent) -> str:
    """The line in the log."""
    return str(event["log_format"]).format(**{key: str(value) for key, value in event.items()})


def test_a_first_that_answers_later_is_copied_then(pair: Pair) -> None:
    pair.ask(q.CreateTopic(TOPIC, 1))
    heard = len(pair.second.asked)
    first, broken = Deferred[Reply](), Deferred[Reply]()
    answers = iter([first, broken])
    pair.first.rule = lambda command: next(answers)
    writes = [maybeDeferred(pair.tee.execute, q.Publish(TOPIC, 0, canonical([Record()])), Session(1)) for _ in range(2)]
    assert len(pair.second.asked) == heard
    first.callback(r.Published(0, 0, 0))
    assert len(pair.second.asked) == heard + 1
    failures: list[object] = []
    writes[1].addBoth(failures.append)
    broken.errback(CommandFailed(Fault.UNAVAILABLE))
    [failed] = failures
    assert isinstance(failed, Failure) and isinstance(failed.value, CommandFailed)
    assert failed.value.fault is Fault.UNAVAILABLE
    assert len(pair.second.asked) == heard + 1


def test_closing_closes_both(pair: Pair) -> None:
    closed: list[object] = []
    maybeDeferred(pair.tee.close).addCallback(closed.append)
    assert (closed, pair.first.closed, pair.second.closed) == ([None], True, True)


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("memory", "tee wants two backends"),
        ("memory+nothing", "there is no backend 'nothing'; there are kafka:"),
        ("memory+memory:x", "the memory backend takes no argument"),
    ],
)
def test_what_cannot_be_made_is_refused_with_a_sentence(tee: ModuleType, argument: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        tee.maker.make(argument, registry([]), Reactor())


def test_it_is_made_of_what_its_argument_names(tee: ModuleType) -> None:
    backend = tee.maker.make("memory+memory", registry([]), Reactor())
    assert backend.durability == "memory"
    assert succeed(backend.execute(q.ListTopics("default"), Session(1))).result == r.Topics(())


# -- with a gateway around it


def fill(gateway: GatewayProcess) -> None:
    """Write in both dialects, commit in all their ways, and repeat what was written."""
    with Lines(gateway.ports["pipe"]) as lines, Frames(gateway.ports["cursus"]) as frames:
        frames.create("orders", 4)
        frames.create("once", 2, idempotent=True)
        for number in range(40):
            for name in ("orders", "lines"):
                lines.produce(name, f"k{number % 7}", f"v-{number}")
            frames.publish(batch("orders", number % 4, [Row(0, 0, "p", "", 0, f"t-{number}")]))
        for first in (1, 11, 1, 6, 21):
            sent = [Row(0, at, "p", "k", 1, f"n-{at}") for at in range(first, first + 10)]
            frames.publish(batch("once", 1, sent))
        lines.sure(q.CommitOffsets(TOPIC, q.Group("seed"), {1: 3}), r.Done)
        v1 = lines.sure(q.JoinGroup(TOPIC, "v1", "m", q.Heartbeats()), r.Joined)
        lines.sure(q.CommitOffsets(TOPIC, q.Group("v1"), {2: 4}, v1.member, v1.generation), r.Done)
        joining = q.JoinGroup(ONCE, "frames", "m", q.Heartbeats(), distinct=True, exclusive=True)
        joined = frames.sure(joining, r.Joined)
        for offsets, expected in (({0: 0, 1: 7}, r.Done), ({1: 6}, CommandFailed), ({1: 9}, r.Done)):
            group = q.Group("frames")
            fence = joined.member, joined.generation
            frames.sure(q.CommitOffsets(ONCE, group, offsets, *fence, rising=True), expected)


GROUPS = {"seed": "orders", "v1": "orders", "frames": "once"}
"""Group -> its topic."""


class Look(NamedTuple):
    """What a gateway has: the records of each partition of each topic, and what was committed."""

    rows: dict[tuple[str, int], list[Row]]
    offsets: dict[tuple[str, str, int], int]


def look(gateway: GatewayProcess) -> Look:
    with Lines(gateway.ports["pipe"]) as lines, Frames(gateway.ports["cursus"]) as frames:
        places = [(name, at) for name in frames.topics() for at in frames.ends(name)]
        asked = [(group, *place) for place in places for group in GROUPS if GROUPS[group] == place[0]]
        return Look(
            {place: frames.read_all(*place) for place in places},
            {which: lines.committed(*which) for which in asked},
        )


def test_two_stores_behind_one_gateway_hold_the_same_and_either_goes_on_alone(tmp_path: Path) -> None:
    dialects = ("cursus", "pipe")
    with GatewayProcess(tmp_path, *dialects, backend="tee:sqlite:A+sqlite:B", command=WITH_PLUGINS) as gateway:
        fill(gateway)
        seen = look(gateway)
        assert gateway.terminate() == 0
    counts: Counter[str] = Counter()
    for (topic, _), rows in seen.rows.items():
        counts[topic] += len(rows)
    assert counts == {"lines": 40, "once": 30, "orders": 80}
    assert {place: offset for place, offset in seen.offsets.items() if offset} == {
        ("seed", "orders", 1): 3,
        ("v1", "orders", 2): 4,
        ("frames", "once", 1): 9,
    }
    for store in ("A", "B"):
        with GatewayProcess(tmp_path, *dialects, backend=f"sqlite:{store}") as gateway:
            assert look(gateway) == seen, store
            with Frames(gateway.ports["cursus"]) as frames:
                again = batch("once", 1, [Row(0, at, "p", "k", 1, f"n-{at}") for at in range(21, 32)])
                assert frames.publish(again).last == 30, "the producer is known there"
