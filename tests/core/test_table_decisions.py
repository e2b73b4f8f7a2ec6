"""gateway.core.table_decisions and queues: what is appended, what is refused, and what is taken."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gateway.core import changes as c
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core import table_decisions
from gateway.core.decisions import perform
from gateway.core.faults import CommandFailed, Fault
from gateway.core.partitioners import PARTITIONERS, fnv1a_32
from gateway.core.queues import QUEUE
from gateway.core.records import CANONICAL, Record, RecordBatch, canonical
from gateway.core.state import State
from gateway.core.table_decisions import BATCH_BYTES, untabled
from gateway.core.tables import Table
from gateway.core.views import answer

USERS = q.Topic("default", "users")
NOW = 1_000_000
BIGGEST = (1 << 63) - 1


@pytest.fixture
def state() -> State:
    """A topic of three partitions, in which there is nothing."""
    state = State()
    perform(state, q.CreateTopic(USERS, 3), NOW)
    return state


def ask(state: State, command: Any, now: int = NOW) -> r.Reply:
    return perform(state, command, now)[0]


def appended(state: State, command: Any, now: int = NOW) -> list[tuple[int, int, Record]]:
    """(partition, timestamp, record) of all that a command appends."""
    _, changes = perform(state, command, now)
    batches = [(state.partitions[made.number], made.batch) for made in changes if isinstance(made, c.Appended)]
    return [
        (partition.index, timestamp, record) for partition, batch in batches for _, timestamp, record in batch.rows()
    ]


def fault(state: State, command: Any, now: int = NOW) -> Fault:
    changes = list(state.numbered.items()), [at.end for at in state.partitions.values()]
    with pytest.raises(CommandFailed) as caught:
        perform(state, command, now)
    assert (list(state.numbered.items()), [at.end for at in state.partitions.values()]) == changes
    return caught.value.fault


def publish(state: State, *records: Record, partition: int = 0, topic: q.Topic = USERS) -> None:
    perform(state, q.Publish(topic, partition, canonical(list(records))), NOW)


# -- what is appended


def test_a_value_is_a_canonical_record_where_its_key_hashes_to(state: State) -> None:
    [(partition, timestamp, record)] = appended(state, q.MapPut(USERS, b"k", b"v", 1.5))
    assert (partition, timestamp) == (fnv1a_32(b"k") % 3, NOW)
    assert record == Record(b"k", b"v", expiry=NOW + 1_500_000)
    _, [change] = perform(state, q.MapPut(USERS, b"k", b"v"), NOW)
    assert isinstance(change, c.Appended)
    assert (change.batch.encoding, change.batch.origin, change.batch.timestamp) == (CANONICAL, "table", NOW + 1)


def test_a_topic_that_names_a_partitioner_is_obeyed(state: State) -> None:
    named = q.Topic("default", "named")
    perform(state, q.CreateTopic(named, 5, q.TopicSettings(partitioner="xxh32")), NOW)
    for key in (b"a", b"b", b"c", b"d"):
        [(partition, _, _)] = appended(state, q.MapAdd(named, key, 1))
        assert partition == PARTITIONERS["xxh32"](key, 5)


def test_what_replaces_a_record_that_claims_a_later_time_claims_one_too(state: State) -> None:
    for at, command in enumerate(
        (
            q.MapPut(USERS, b"k", b"2", only=q.IfEquals(b"1")),
            q.MapAdd(USERS, b"k", 1),
            q.MapRemove(USERS, b"k"),
            q.MapPut(USERS, b"k", b"9", only=q.IfAbsent()),
            q.MapClear(USERS),
        )
    ):
        if not at:
            publish(state, Record(b"k", b"1", timestamp=NOW * 5))
            state.topic(USERS).table = rebuilt(state, [Record(b"k", b"1", timestamp=NOW * 5)])
        [(_, timestamp, _)] = appended(state, command)
        assert timestamp == NOW * 5 + 1 + at
    assert state.topic(USERS).timestamp < NOW + 10, "only records say so, the topic goes on"


def rebuilt(state: State, records: list[Record]) -> Table:
    """As if read from the first partition."""
    table = Table()
    table.add(0, canonical(records).appended(0, NOW))
    return table


def test_at_the_end_of_time_the_last_one_to_write_in_its_partition_wins(state: State) -> None:
    state.topic(USERS).table = Table()
    publish(state, Record(b"k", b"1", timestamp=BIGGEST), partition=fnv1a_32(b"k") % 3)
    assert ask(state, q.MapAdd(USERS, b"k", 1)) == r.Count(2)
    assert ask(state, q.MapAdd(USERS, b"k", 1)) == r.Count(3)


def test_clearing_appends_a_tombstone_for_each_key_in_batches_that_can_be_read(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_decisions, "MAX_RECORDS", 10)
    keys = [b"%d" % at for at in range(100)] + [b"long" * (BATCH_BYTES // 4) + b"%d" % at for at in range(6)]
    for key in keys:
        ask(state, q.MapPut(USERS, key, b"v"))
    publish(state, Record(None, b"no key"))
    ends = {at.index: at.end for at in state.topic(USERS).partitions}
    table = state.topic(USERS).table = Table()
    for at, key in enumerate(keys):
        table.add(0, canonical([Record(key, b"v")]).appended(at, NOW + at))
    reply, changes = perform(state, q.MapClear(USERS), NOW * 2)
    assert reply == r.Count(106)
    batches = [change.batch for change in changes if isinstance(change, c.Appended)]
    rows = sorted(row for batch in batches for row in ((at, record.key) for _, at, record in batch.rows()))
    assert [at for at, _ in rows] == list(range(NOW * 2, NOW * 2 + 106)), "times rise within a topic"
    assert sorted(key for _, key in rows if key) == sorted(keys)
    assert all(record.value is None for batch in batches for record in batch.records())
    assert max(batch.count for batch in batches) == 10
    assert max(len(batch.body) for batch in batches) < 3 * BATCH_BYTES
    assert {at.index: at.end - ends[at.index] for at in state.topic(USERS).partitions} == {
        at: sum(fnv1a_32(key) % 3 == at for key in keys) for at in range(3)
    }
    assert ask(state, q.MapClear(USERS)) == r.Count(0)


# -- conditions


def test_conditions_look_at_what_is_there_and_say_it(state: State) -> None:
    puts: list[tuple[Any, bytes, r.MapChanged]] = [
        (q.IfPresent(), b"1", r.MapChanged(False)),
        (q.IfAbsent(), b"1", r.MapChanged(True)),
        (q.IfAbsent(), b"2", r.MapChanged(False, b"1")),
        (q.IfPresent(), b"3", r.MapChanged(True)),
        (q.IfEquals(b"1"), b"4", r.MapChanged(False, b"3")),
        (q.IfEquals(b"3"), b"", r.MapChanged(True)),
        (q.IfEquals(b""), b"7", r.MapChanged(True)),
        (q.IfCount(8), b"9", r.MapChanged(False, b"7")),
        (q.IfCount(7), b"-1", r.MapChanged(True)),
    ]
    for only, value, expected in puts:
        assert ask(state, q.MapPut(USERS, b"k", value, only=only)) == expected
    assert ask(state, q.MapPut(USERS, b"n", b"5", only=q.IfCount(0))) == r.MapChanged(True), "a missing one is 0"
    assert ask(state, q.MapPut(USERS, b"k", b"x", previous=True)) == r.MapChanged(True, b"-1")
    assert ask(state, q.MapPut(USERS, b"k", b"y", only=q.IfPresent(), previous=True)) == r.MapChanged(True, b"x")
    assert ask(state, q.MapPut(USERS, b"new", b"y", previous=True)) == r.MapChanged(True, None)
    assert fault(state, q.MapPut(USERS, b"k", b"1", only=q.IfCount(0))) is Fault.NOT_A_NUMBER


def test_what_is_not_there_is_not_removed(state: State) -> None:
    assert ask(state, q.MapPut(USERS, b"k", b"v", 1.0, q.IfAbsent())) == r.MapChanged(True)
    assert appended(state, q.MapRemove(USERS, b"other")) == []
    assert ask(state, q.MapRemove(USERS, b"k", q.IfEquals(b"w"))) == r.MapChanged(False, b"v")
    assert ask(state, q.MapRemove(USERS, b"k", q.IfEquals(b"v"))) == r.MapChanged(True, b"v")
    assert ask(state, q.MapRemove(USERS, b"k")) == r.MapChanged(False)
    assert ask(state, q.MapPut(USERS, b"k", b"v", 1.0, q.IfAbsent())) == r.MapChanged(True)
    assert ask(state, q.MapRemove(USERS, b"k"), NOW + 1_000_000) == r.MapChanged(False), "it has expired"


def test_a_lock_is_free_when_its_time_is_over_and_not_before(state: State) -> None:
    def lock(owner: bytes, now: int) -> r.Reply:
        return ask(state, q.MapPut(USERS, b"lock", owner, 2.0, q.IfAbsent()), now)

    assert lock(b"a", NOW) == r.MapChanged(True)
    assert lock(b"b", NOW + 1_999_999) == r.MapChanged(False, b"a")
    assert lock(b"b", NOW + 2_000_000) == r.MapChanged(True)
    assert ask(state, q.MapRemove(USERS, b"lock", q.IfEquals(b"a")), NOW + 2_000_001) == r.MapChanged(False, b"b")


# -- counters


def test_a_counter_is_a_number_in_decimal_from_end_to_end(state: State) -> None:
    assert ask(state, q.MapAdd(USERS, b"n", 5)) == r.Count(5)
    assert ask(state, q.MapAdd(USERS, b"n", -7)) == r.Count(-2)
    assert appended(state, q.MapAdd(USERS, b"n", 0))[0][2] == Record(b"n", b"-2")
    assert ask(state, q.MapAdd(USERS, b"n", -BIGGEST + 1)) == r.Count(-BIGGEST - 1)
    assert fault(state, q.MapAdd(USERS, b"n", -1)) is Fault.NOT_A_NUMBER
    assert ask(state, q.MapAdd(USERS, b"m", BIGGEST)) == r.Count(BIGGEST)
    assert fault(state, q.MapAdd(USERS, b"m", 1)) is Fault.NOT_A_NUMBER
    assert fault(state, q.MapAdd(USERS, b"m", BIGGEST + 1)) is Fault.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"-",
        b"-0",
        b"+1",
        b"01",
        b" 1",
        b"1\n",
        b"1_0",
        b"x",
        b"\xd9\xa1",
        b"9223372036854775808",
        b"-" + b"9" * 30,
    ],
)
def test_what_is_written_otherwise_is_no_counter(state: State, value: bytes) -> None:
    state.topic(USERS).table = Table()
    ask(state, q.MapPut(USERS, b"n", value))
    assert fault(state, q.MapAdd(USERS, b"n", 1)) is Fault.NOT_A_NUMBER


@pytest.mark.parametrize("value", [b"0", b"-1", b"9223372036854775807", b"-9223372036854775808"])
def test_what_was_put_as_a_number_is_one(state: State, value: bytes) -> None:
    state.topic(USERS).table = Table()
    ask(state, q.MapPut(USERS, b"n", value))
    assert ask(state, q.MapAdd(USERS, b"n", 0)) == r.Count(int(value))


def test_a_counter_lives_no_longer_for_being_added_to(state: State) -> None:
    state.topic(USERS).table = Table()
    ask(state, q.MapPut(USERS, b"n", b"5", 1.0))
    assert ask(state, q.MapAdd(USERS, b"n", 1), NOW + 999_999) == r.Count(6)
    assert ask(state, q.MapAdd(USERS, b"n", 1), NOW + 1_000_000) == r.Count(1)
    assert ask(state, q.MapAdd(USERS, b"n", 1), NOW * 100) == r.Count(2)


# -- what is refused, and what is made


@pytest.mark.parametrize("topic", [USERS, q.Topic("default", "new")])
def test_what_can_never_be_done_makes_no_topic_either(state: State, topic: q.Topic) -> None:
    for odd in (
        q.MapPut(topic, b"", b"v", create=1),
        q.MapAdd(topic, b"", 1, create=1),
        q.MapPut(topic, b"k", b"v", -1.0, create=1),
        q.MapPut(topic, b"k", b"v", math.inf, create=1),
        q.MapPut(topic, b"k", b"v", math.nan, create=1),
        q.MapAdd(topic, b"k", 1 << 63, create=1),
    ):
        assert fault(state, odd) is Fault.INVALID_ARGUMENT
    assert fault(state, q.MapRemove(topic, b"")) is Fault.INVALID_ARGUMENT
    assert len(state.namespace("default").topics) == 1


def test_a_topic_is_made_where_that_is_asked_for(state: State) -> None:
    for at, command in enumerate(
        (
            q.MapPut(q.Topic("default", "t0"), b"k", b"v", create=2),
            q.MapPut(q.Topic("default", "t1"), b"k", b"v", only=q.IfAbsent(), create=2),
            q.MapAdd(q.Topic("default", "t2"), b"k", 1, create=2),
        )
    ):
        assert untabled(state, command) is None
        perform(state, command, NOW)
        assert len(state.topic(q.Topic("default", f"t{at}")).partitions) == 2


def test_without_a_topic_or_room_nothing_is_written(state: State) -> None:
    nowhere = q.Topic("default", "nowhere")
    writes = [
        q.MapPut(nowhere, b"k", b"v"),
        q.MapAdd(nowhere, b"k", 1),
        q.MapRemove(nowhere, b"k"),
        q.MapClear(nowhere),
    ]
    for command in writes:
        assert untabled(state, command) is None
        assert fault(state, command) is Fault.NO_SUCH_TOPIC
    perform(state, q.CreateTopic(nowhere, 0), NOW)
    assert fault(state, q.MapPut(nowhere, b"k", b"v")) is Fault.NO_SUCH_PARTITION
    small = State(capacity=1)
    perform(small, q.CreateTopic(USERS, 1), NOW)
    ask(small, q.MapPut(USERS, b"k", b"v"))
    assert fault(small, q.MapPut(USERS, b"k", b"v")) is Fault.PARTITION_FULL


def test_only_what_looks_needs_the_table(state: State) -> None:
    topic = state.topic(USERS)
    looks = [
        q.MapPut(USERS, b"k", b"v", only=q.IfAbsent()),
        q.MapPut(USERS, b"k", b"v", previous=True),
        q.MapRemove(USERS, b"k"),
        q.MapAdd(USERS, b"k", 1),
        q.MapClear(USERS),
    ]
    assert [untabled(state, command) for command in looks] == [topic] * 5
    assert untabled(state, q.MapPut(USERS, b"k", b"v")) is None
    assert untabled(state, q.CreateTopic(USERS, 1)) is None
    topic.table = Table()
    assert [untabled(state, command) for command in looks] == [None] * 5


def test_a_table_goes_with_a_partition_and_with_what_cannot_be_read(state: State) -> None:
    topic = state.topic(USERS)
    topic.table = Table()
    perform(state, q.CreatePartitions(USERS, 1), NOW)
    assert topic.table is not None
    perform(state, q.DeletePartitions(USERS, 1), NOW)
    assert topic.table is None
    topic.table = Table()
    perform(state, q.Publish(USERS, 0, RecordBatch(CANONICAL, b"\xff", 1)), NOW)
    assert (topic.table, topic.partitions[0].end) == (None, 1)


# -- queues

TASKS = q.Topic("default", "tasks")


@pytest.fixture
def tasks(state: State) -> State:
    """A queue of three."""
    perform(state, q.CreateTopic(TASKS, 1), NOW)
    publish(state, *(Record(value=b"%d" % at) for at in range(3)), topic=TASKS)
    return state


def test_a_queue_is_taken_one_by_one_to_its_end(tasks: State) -> None:
    assert [ask(tasks, q.Advance(TASKS)) for _ in range(5)] == [r.Count(at) for at in (0, 1, 2, -1, -1)]
    publish(tasks, Record(), topic=TASKS)
    assert answer(tasks, q.QueueSize(TASKS)) == r.Count(1)
    assert ask(tasks, q.Advance(TASKS)) == r.Count(3)


def test_the_cursor_of_a_queue_is_that_of_a_group_as_any_other(tasks: State) -> None:
    assert answer(tasks, q.QueueSize(TASKS)) == r.Count(3)
    ask(tasks, q.Advance(TASKS))
    assert answer(tasks, q.FetchOffsets(TASKS, QUEUE)) == r.CommittedOffsets({0: 1}, {0: 3})
    ask(tasks, q.CommitOffsets(TASKS, QUEUE, {0: 2}))
    assert ask(tasks, q.Advance(TASKS)) == r.Count(2)
    ask(tasks, q.CommitOffsets(TASKS, QUEUE, {0: 0}))
    assert ask(tasks, q.Advance(TASKS)) == r.Count(0)
    ask(tasks, q.CommitOffsets(TASKS, QUEUE, {0: q.MAX_OFFSET}))
    assert answer(tasks, q.QueueSize(TASKS)) == ask(tasks, q.QueueClear(TASKS)) == r.Count(0)
    assert ask(tasks, q.Advance(TASKS)) == r.Count(-1)
    ask(tasks, q.DeleteGroup(TASKS, "queue"))
    assert ask(tasks, q.Advance(TASKS)) == r.Count(0)


def test_a_cursor_below_the_start_goes_on_there(tasks: State) -> None:
    tasks.topic(TASKS).partitions[0].start = 2
    assert answer(tasks, q.QueueSize(TASKS)) == r.Count(1)
    assert ask(tasks, q.Advance(TASKS)) == r.Count(2)


def test_a_queue_is_emptied_at_once(tasks: State) -> None:
    ask(tasks, q.Advance(TASKS))
    assert ask(tasks, q.QueueClear(TASKS)) == r.Count(2)
    assert ask(tasks, q.QueueClear(TASKS)) == r.Count(0)
    assert ask(tasks, q.Advance(TASKS)) == r.Count(-1)
    assert answer(tasks, q.FetchOffsets(TASKS, QUEUE)) == r.CommittedOffsets({0: 3}, {0: 3})


@pytest.mark.parametrize("kind", [q.Advance, q.QueueClear, q.QueueSize])
def test_a_topic_of_several_partitions_is_no_queue(tasks: State, kind: Any) -> None:
    def asked(topic: q.Topic) -> CommandFailed:
        with pytest.raises(CommandFailed) as caught:
            answer(tasks, kind(topic)) if kind is q.QueueSize else perform(tasks, kind(topic), NOW)
        return caught.value

    assert asked(USERS).fault is Fault.UNSUPPORTED
    assert asked(USERS).detail == "a queue has one partition, users has 3"
    assert asked(q.Topic("default", "nowhere")).fault is Fault.NO_SUCH_TOPIC
