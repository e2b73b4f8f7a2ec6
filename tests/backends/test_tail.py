"""gateway.backends.tail: the newest records of every partition, and only as many as were allowed."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from gateway.backends.tail import Tail
from gateway.core.changes import Appended, Change, OffsetSet, PartitionDeleted
from gateway.core.records import CANONICAL, RecordBatch

SIZE = 10


def batch(base: int, count: int = 2, size: int = SIZE) -> RecordBatch:
    return RecordBatch(CANONICAL, b"x" * size, count, base, 100 + base)


def filled(limit: int | None, batches: int, number: int = 1) -> Tail:
    tail = Tail(limit)
    tail.absorb([Appended(number, batch(2 * at)) for at in range(batches)])
    return tail


def bases(tail: Tail, start: int, number: int = 1) -> list[int] | None:
    found = tail.read(number, start)
    return None if found is None else [batch.base for batch in found]


def test_without_a_limit_everything_is_there() -> None:
    tail = filled(None, 100)
    assert bases(tail, 0) == list(range(0, 200, 2))
    assert bases(tail, 199) == [198]


def test_reading_begins_with_the_batch_that_holds_the_offset() -> None:
    tail = filled(None, 5)
    assert bases(tail, 4) == bases(tail, 5) == [4, 6, 8]


def test_with_a_limit_the_oldest_go_first() -> None:
    tail = filled(3 * SIZE, 10)
    assert bases(tail, 14) == [14, 16, 18]
    assert bases(tail, 13) is None


def test_the_newest_stays_however_large() -> None:
    tail = Tail(SIZE)
    tail.absorb([Appended(1, batch(0)), Appended(1, batch(2, size=1000))])
    assert bases(tail, 2) == [2]
    assert bases(tail, 0) is None


def test_the_limit_is_for_all_partitions_together() -> None:
    tail = Tail(2 * SIZE)
    tail.absorb([Appended(1, batch(0)), Appended(2, batch(0)), Appended(1, batch(2)), Appended(2, batch(2))])
    assert (bases(tail, 2, 1), bases(tail, 2, 2)) == ([2], [2])
    assert (bases(tail, 0, 1), bases(tail, 0, 2)) == (None, None)


def test_a_partition_without_records_is_not_there() -> None:
    assert filled(None, 1).read(7, 0) is None
    assert filled(None, 1).seek(7, 0) is None


def test_what_is_deleted_is_not_there_any_more_and_makes_room() -> None:
    tail = filled(4 * SIZE, 4)
    assert tail.absorb([PartitionDeleted(1), OffsetSet(2, "group", "g", 1), Appended(2, batch(0))]) == {1, 2}
    assert tail.read(1, 7) is None
    tail.absorb([Appended(2, batch(2 * at)) for at in range(1, 4)])
    assert bases(tail, 0, 2) == [0, 2, 4, 6]


def test_a_time_is_found_between_the_records_that_are_there() -> None:
    tail = filled(None, 3)
    assert [tail.seek(1, time) for time in (99, 100, 101, 102, 105, 106, 999)] == [None, 0, 1, 2, 5, 6, 6]


def test_a_time_between_two_batches_is_that_of_the_next_record() -> None:
    tail = Tail()
    tail.absorb(
        [Appended(1, RecordBatch(CANONICAL, b"", 2, 0, 100)), Appended(1, RecordBatch(CANONICAL, b"", 2, 2, 200))]
    )
    assert tail.seek(1, 150) == 2


def test_a_time_before_the_oldest_record_here_is_somebody_elses_to_find() -> None:
    tail = filled(2 * SIZE, 5)
    assert tail.seek(1, 105) is None
    assert tail.seek(1, 106) == 6


appends = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(0, 30)), max_size=60)


@given(appends, st.integers(0, 100))
def test_what_it_has_it_has_whole_and_it_keeps_to_its_limit(made: list[tuple[int, int, int]], limit: int) -> None:
    tail = Tail(limit)
    logs: dict[int, list[RecordBatch]] = {1: [], 2: [], 3: []}
    for number, count, size in made:
        log = logs[number]
        log.append(batch(log[-1].end if log else 0, count, size))
        changes: list[Change] = [Appended(number, log[-1])]
        assert tail.absorb(changes) == {number}
    held = 0
    for number, log in logs.items():
        end = log[-1].end if log else 0
        for start in range(end):
            expected = [batch for batch in log if batch.end > start]
            found = tail.read(number, start)
            assert found is None or list(found) == expected
        kept = [batch for batch in log if tail.read(number, batch.base) is not None]
        assert kept == log[len(log) - len(kept) :], "without a gap up to the newest"
        held += sum(len(batch.body) for batch in kept)
    newest = made[-1][2] if made else 0
    assert held <= max(limit, newest)
