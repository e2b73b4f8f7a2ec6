"""gateway.core.idempotence: a producer that sends again is recognized, one that skipped or was replaced is refused."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from gateway.core.faults import CommandFailed, Fault
from gateway.core.idempotence import FORGET_AFTER, MANY, Producers
from gateway.core.records import Run


def run(first: int, count: int = 1, epoch: int = 1, producer: bytes = b"p") -> Run:
    return Run(producer, epoch, first, count)


def send(producers: Producers, *runs: Run, now: int = 0) -> list[tuple[int, int]]:
    """What of a batch is new, remembered as a backend does."""
    ranges, after = producers.admit(list(runs))
    for producer, (epoch, last) in after.items():
        producers.heard(producer, epoch, last, now)
    return ranges


def refusal(producers: Producers, *runs: Run) -> tuple[Fault, dict[str, int | str]]:
    with pytest.raises(CommandFailed) as caught:
        producers.admit(list(runs))
    return caught.value.fault, caught.value.facts


def test_records_in_order_are_new() -> None:
    producers = Producers()
    assert send(producers, run(1, 3)) == [(0, 3)]
    assert send(producers, run(4, 2)) == [(0, 2)]


def test_a_batch_sent_again_is_not_stored_again() -> None:
    producers = Producers()
    send(producers, run(1, 3))
    assert send(producers, run(1, 3)) == []
    assert send(producers, run(2, 1)) == []
    assert send(producers, run(4, 1)) == [(0, 1)], "and takes nothing back"


def test_of_a_batch_that_overlaps_only_the_new_part_is_stored() -> None:
    producers = Producers()
    send(producers, run(1, 3))
    assert send(producers, run(2, 4)) == [(2, 4)]


def test_a_first_record_has_sequence_one() -> None:
    assert refusal(Producers(), run(2)) == (Fault.SEQUENCE_GAP, {"producer": "p", "expected": 1, "got": 2})


def test_a_gap_is_refused_and_nothing_is_remembered_of_the_batch() -> None:
    producers = Producers()
    send(producers, run(1))
    assert refusal(producers, run(2), run(4)) == (Fault.SEQUENCE_GAP, {"producer": "p", "expected": 3, "got": 4})
    assert send(producers, run(2)) == [(0, 1)]


def test_an_older_epoch_is_refused() -> None:
    producers = Producers()
    send(producers, run(1, epoch=5))
    assert refusal(producers, run(2, epoch=4)) == (Fault.STALE_EPOCH, {"producer": "p", "current": 5, "got": 4})


@pytest.mark.parametrize("first", [1, 4])
def test_a_newer_epoch_starts_again_or_goes_on(first: int) -> None:
    producers = Producers()
    send(producers, run(1, 3, epoch=1))
    assert send(producers, run(first, epoch=2)) == [(0, 1)]
    assert send(producers, run(first + 1, epoch=2)) == [(0, 1)]
    assert refusal(producers, run(4, epoch=1))[0] is Fault.STALE_EPOCH


def test_a_newer_epoch_cannot_start_in_the_middle() -> None:
    producers = Producers()
    send(producers, run(1, 3, epoch=1))
    assert refusal(producers, run(3, epoch=2)) == (Fault.SEQUENCE_GAP, {"producer": "p", "expected": 1, "got": 3})


def test_producers_do_not_know_of_each_other() -> None:
    producers = Producers()
    send(producers, run(1, 5))
    assert send(producers, run(1, producer=b"q"), run(6), run(2, producer=b"q")) == [(0, 3)]


def test_records_without_a_sequence_are_always_new() -> None:
    producers = Producers()
    assert send(producers, run(0, 2)) == [(0, 2)]
    assert send(producers, run(0, 2), run(1)) == [(0, 3)]
    assert send(producers, run(0, 2), run(1), run(0)) == [(0, 2), (3, 4)]


def test_a_producer_that_is_not_text_is_named_readably() -> None:
    assert refusal(Producers(), run(2, producer=b"\xff"))[1]["producer"] == "\N{REPLACEMENT CHARACTER}"


def crowd(producers: Producers, size: int, now: int) -> None:
    """So many others."""
    for number in range(size):
        send(producers, run(1, producer=b"other %d" % number), now=now)


def test_who_was_silent_for_a_year_is_remembered_where_there_are_not_many() -> None:
    producers = Producers()
    send(producers, run(1, 3), now=0)
    crowd(producers, MANY - 1, now=365 * 24 * 3_600_000_000)
    assert send(producers, run(3)) == []


def test_of_many_those_are_forgotten_who_were_silent_for_long() -> None:
    producers = Producers()
    send(producers, run(1, 3), now=0)
    crowd(producers, MANY, now=FORGET_AFTER)
    assert send(producers, run(3), now=FORGET_AFTER) == [], "not longer silent than that"
    send(producers, run(1, 3, producer=b"q"), now=FORGET_AFTER)
    crowd(producers, MANY, now=2 * FORGET_AFTER + 1)
    assert not producers.knows(b"p") and not producers.knows(b"q"), "MANY others are left"
    assert producers.knows(b"other 0") and producers.knows(b"other %d" % (MANY - 1))
    assert send(producers, run(1)) == [(0, 1)]


def test_however_many_there_are_who_was_heard_lately_is_remembered() -> None:
    producers = Producers()
    send(producers, run(1, 3), now=1)
    crowd(producers, 2 * MANY, now=FORGET_AFTER)
    assert send(producers, run(1, 3), now=FORGET_AFTER) == []


def test_who_is_heard_again_is_not_silent() -> None:
    producers = Producers()
    send(producers, run(1, 3), now=0)
    send(producers, run(1, producer=b"q"), now=1)
    send(producers, run(4), now=FORGET_AFTER)
    crowd(producers, MANY, now=FORGET_AFTER + 2)
    assert send(producers, run(4)) == []
    assert send(producers, run(1, producer=b"q")) == [(0, 1)]


sends = st.lists(
    st.lists(st.builds(run, st.integers(0, 8), st.integers(1, 4), st.integers(1, 2), st.sampled_from([b"p", b"q"]))),
    max_size=12,
)


@given(sends)
def test_however_batches_are_sent_what_is_stored_of_an_epoch_is_without_gap_and_repetition(
    batches: list[list[Run]],
) -> None:
    producers = Producers()
    stored: dict[tuple[bytes, int], list[int]] = {}
    for batch in batches:
        records = [(at.producer, at.epoch, at.first + n if at.first else 0) for at in batch for n in range(at.count)]
        try:
            ranges = send(producers, *batch)
        except CommandFailed:
            continue
        kept = [at for first, last in ranges for at in range(first, last)]
        assert kept == sorted(set(kept))
        assert {at for at, record in enumerate(records) if not record[2]} <= set(kept)
        for producer, epoch, sequence in (records[at] for at in kept):
            if sequence:
                stored.setdefault((producer, epoch), []).append(sequence)
    for sequences in stored.values():
        assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
