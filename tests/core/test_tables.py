"""gateway.core.tables: the latest value of each key, in whatever order a log is read."""

from __future__ import annotations

import tracemalloc

import hypothesis.strategies as st
import msgpack
import pytest
from hypothesis import given
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import CANONICAL, Record, RecordBatch, canonical
from gateway.core.tables import Table, tabulate

START = 1_000
LATER = 1 << 62

keys = st.sampled_from([b"", b"a", b"b", b"ab", b"\xff"])
records = st.builds(
    Record,
    key=st.none() | keys,
    value=st.none() | st.binary(max_size=3),
    timestamp=st.sampled_from([0, 0, 1, START + 3, START + 50]),
    expiry=st.sampled_from([0, 0, START + 5, START + 40]),
)
Place = tuple[int, int, int]
"""Time, partition, offset."""


def batch(*made: Record, base: int = 0, at: int = START) -> RecordBatch:
    return canonical(list(made)).appended(base, at)


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[int, RecordBatch]]:
    """Batches of up to three partitions, as they were appended."""
    ends, now, log = [0, 0, 0], START, []
    for some in draw(st.lists(st.lists(records, min_size=1, max_size=4), max_size=8)):
        partition = draw(st.integers(0, 2))
        log.append((partition, batch(*some, base=ends[partition], at=now)))
        ends[partition] += len(some)
        now += len(some) + draw(st.integers(0, 9))
    return log


def simply(log: list[tuple[int, RecordBatch]], now: int) -> dict[bytes, bytes]:
    """What a table is, said without one."""
    latest: dict[bytes, tuple[Place, Record]] = {}
    for partition, stored in log:
        for offset, timestamp, record in stored.rows():
            place = timestamp, partition, offset
            if record.key and (record.key not in latest or place > latest[record.key][0]):
                latest[record.key] = place, record
    return {
        key: record.value
        for key, (_, record) in latest.items()
        if record.value is not None and not 0 < record.expiry <= now
    }


def table(*log: tuple[int, RecordBatch]) -> Table:
    made = Table()
    for partition, stored in log:
        made.add(partition, stored)
    return made


def shown(made: Table, now: int = START) -> dict[bytes, bytes]:
    """All of it, the same whichever way one asks."""
    found = dict(made.scan(now))
    assert list(found) == sorted(found) and len(found) == made.size(now)
    assert sorted(made.alive(now)) == list(found)
    assert {key: made.get(key, now) for key in found} == found
    return found


@given(logs(), st.randoms(use_true_random=False), st.integers(START, START + 60))
def test_the_order_in_which_batches_are_added_does_not_matter(log, random, now) -> None:  # type: ignore[no-untyped-def]
    expected = simply(log, now)
    mixed = log + log[: len(log) // 2]
    random.shuffle(mixed)
    assert shown(table(*log), now) == shown(table(*mixed), now) == expected


@given(logs(), st.integers(0, 8), st.integers(START, START + 60))
def test_two_tables_of_parts_of_a_log_are_the_table_of_all_of_it(
    log: list[tuple[int, RecordBatch]], at: int, now: int
) -> None:
    for first, second in ((log[:at], log[at:]), (log[at:], log[:at])):
        merged = table(*first)
        merged.merge(table(*second))
        assert shown(merged, now) == simply(log, now)


@given(logs(), st.none() | keys, st.integers(0, 4), st.none() | st.lists(keys, max_size=4))
def test_a_scan_is_a_piece_of_what_is_there_in_order(
    log: list[tuple[int, RecordBatch]], after: bytes | None, limit: int, wanted: list[bytes] | None
) -> None:
    there = sorted(simply(log, START).items())
    expected = [
        (key, value) for key, value in there if (after is None or key > after) and (wanted is None or key in wanted)
    ]
    made = table(*log)
    assert list(made.scan(START, after, limit, wanted)) == (expected[:limit] if limit else expected)


class Passing(RuleBasedStateMachine):
    """A table that is looked at now and then while time passes, beside a plain dict."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.end = 0
        self.table = Table()
        self.plain: dict[bytes, tuple[bytes, int]] = {}

    @rule(key=st.sampled_from([b"a", b"b", b"c"]), value=st.none() | st.binary(max_size=2), ttl=st.integers(0, 9))
    def put(self, key: bytes, value: bytes | None, ttl: int) -> None:
        expiry = self.now + ttl if ttl else 0
        self.table.add(0, batch(Record(key, value, expiry=expiry), base=self.end, at=self.now))
        self.end += 1
        if value is None:
            self.plain.pop(key, None)
        else:
            self.plain[key] = value, expiry

    @rule(key=st.sampled_from([b"a", b"b", b"c"]))
    def put_something_older(self, key: bytes) -> None:
        if self.table.look(key, self.now).timestamp > 1:
            self.table.add(0, batch(Record(key, b"old", timestamp=1), base=self.end, at=self.now))
            self.end += 1

    @rule(passed=st.integers(1, 5))
    def wait(self, passed: int) -> None:
        self.now += passed

    @invariant()
    def agree(self) -> None:
        expected = {key: value for key, (value, expiry) in self.plain.items() if not 0 < expiry <= self.now}
        assert shown(self.table, self.now) == expected


TestPassing = Passing.TestCase


def test_behind_a_tombstone_and_behind_what_has_expired_nothing_older_comes_back() -> None:
    made = table((0, batch(Record(b"a", None), Record(b"b", b"new", expiry=START + 5), base=7)))
    assert shown(made, START) == {b"b": b"new"}
    assert shown(made, START + 5) == {}
    made.add(1, batch(Record(b"a", b"old"), Record(b"b", b"old"), at=START - 10))
    made.add(1, batch(Record(b"a", b"claims", timestamp=START - 1), base=2, at=START + 9))
    assert shown(made, START + 9) == {}
    made.add(1, batch(Record(b"a", b"newer"), base=3, at=START + 9))
    assert shown(made, START + 9) == {b"a": b"newer"}


def test_of_one_time_the_higher_partition_and_then_the_higher_offset_is_latest() -> None:
    same = [Record(b"a", b"%d" % at, timestamp=START) for at in range(3)]
    assert table((1, batch(same[0])), (0, batch(same[1], base=9))).get(b"a", START) == b"0"
    assert table((1, batch(same[0], same[1])), (1, batch(same[2], base=2))).get(b"a", START) == b"2"


def test_an_empty_value_is_a_value_and_an_empty_key_is_no_key() -> None:
    assert shown(table((0, batch(Record(b"a", b""), Record(b"", b"v"), Record(None, b"v"))))) == {b"a": b""}


def test_what_was_replaced_does_not_expire_in_place_of_what_replaced_it() -> None:
    made = table((0, batch(Record(b"a", b"1", expiry=START + 5), Record(b"a", b"2"))))
    assert shown(made, LATER) == {b"a": b"2"}


def test_a_batch_that_cannot_be_read_leaves_a_table_as_it_was() -> None:
    made = table((0, batch(Record(b"a", b"1"))))
    with pytest.raises(CommandFailed):
        made.add(0, RecordBatch(CANONICAL, msgpack.packb([[b"b", b"1"], -1]), 2, 1, START))
    assert shown(made) == {b"a": b"1"}


# -- what a table keeps


def test_a_table_keeps_a_key_once_however_often_it_was_written() -> None:
    tracemalloc.start()
    made = Table()
    for at in range(20_000):
        expiring = Record(b"key %d" % (at % 10), b"v" * 100, expiry=LATER + at)
        made.add(0, batch(expiring, base=at, at=START + at))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert made.size(START) == 10
    assert kept < 20_000, "ten entries, and the times at which a few of those replaced would have expired"


def test_of_a_key_that_is_gone_a_table_keeps_the_place_but_not_the_value() -> None:
    tracemalloc.start()
    made = Table()
    count = 2_000
    for at in range(count):
        made.add(0, batch(Record(b"%d" % at, b"v" * 1_000, expiry=START + at + 1), base=2 * at, at=START + at))
        if at % 2:
            made.add(0, batch(Record(b"%d" % at, None), base=2 * at + 1, at=START + at))
    assert made.size(LATER) == 0
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 400 * count
    made.add(0, batch(Record(b"7", b"old", timestamp=1), base=2 * count, at=LATER))
    assert made.get(b"7", LATER) is None


# -- the table of a log


def test_a_log_is_read_from_its_start_to_its_end_and_not_beyond() -> None:
    first, second, third = (batch(Record(b"%d" % at, b"v"), Record(b"x", b"%d" % at), base=2 * at) for at in range(3))
    assert shown(tabulate([(0, 1, 4, [first, second, third])])) == {b"1": b"v", b"x": b"1"}
    assert shown(tabulate([(0, 0, 0, [first]), (1, 0, 0, [])])) == {}


@pytest.mark.parametrize("present", [(0, 2), (0,), (1, 2), ()])
def test_a_log_with_a_hole_makes_no_table(present: tuple[int, ...]) -> None:
    batches = [batch(Record(b"k", b"v"), base=at) for at in present]
    with pytest.raises(CommandFailed) as caught:
        tabulate([(0, 0, 3, batches)])
    assert caught.value.fault is Fault.UNAVAILABLE


def test_a_log_that_cannot_be_read_makes_no_table() -> None:
    with pytest.raises(CommandFailed) as caught:
        tabulate([(0, 0, 1, [RecordBatch(CANONICAL, b"\xff", 1, 0, START)])])
    assert (caught.value.fault, "offset 0" in caught.value.detail) == (Fault.UNAVAILABLE, True)
