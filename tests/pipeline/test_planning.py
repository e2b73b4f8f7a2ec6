"""gateway.pipeline.planning: what is read, of what there is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pipeline.planning import (
    At,
    Span,
    Standing,
    beginning,
    between,
    forward,
    lost,
    offset_of,
    position_of,
    shares,
    spans,
    split,
    wanted_of,
)

ORDERS = Standing(7, 100, {0: (0, 10), 1: (5, 20)})
WORDS = ("earliest", "latest")


def moved(standing: Standing, **bounds: tuple[int, int]) -> Standing:
    return Standing(standing.id, standing.created, {int(name[1:]): at for name, at in bounds.items()})


# -- what was asked


@pytest.mark.parametrize("text", ["earliest", " EARLIEST "])
def test_words_are_in_any_case(text: str) -> None:
    assert wanted_of("startingOffsets", text, *WORDS) == "earliest"


@pytest.mark.parametrize(
    "text", ["", "soon", "[1]", '{"orders": 1}', '{"orders": {"a": 1}}', '{"orders": {"0": -1}}', "[" * 100_000]
)
def test_what_is_no_offset_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"^startingOffsets is earliest or latest, or offsets such as"):
        wanted_of("startingOffsets", text, *WORDS)


def test_offsets_are_said_by_topic_and_partition() -> None:
    assert wanted_of("startingOffsets", '{"orders": {"0": 12}}', *WORDS) == {"orders": {0: 12}}


# -- a batch


def test_all_there_is_is_read_from_the_first_record_kept() -> None:
    assert spans({"orders": ORDERS}, "earliest", "latest") == (
        [Span("orders", 7, 0, 0, 10), Span("orders", 7, 1, 5, 20)],
        [],
    )


def test_partitions_that_are_not_named_are_read_whole() -> None:
    found, missing = spans({"orders": ORDERS}, {"orders": {1: 8}}, {"orders": {0: 3}})
    assert found == [Span("orders", 7, 0, 0, 3), Span("orders", 7, 1, 8, 20)]
    assert not missing


def test_a_partition_without_records_is_no_task() -> None:
    assert spans({"orders": Standing(7, 1, {0: (4, 4)})}, "earliest", "latest") == ([], [])
    assert spans({"orders": ORDERS}, "latest", "latest") == ([], [])


def test_deleted_records_are_counted() -> None:
    found, missing = spans({"orders": ORDERS}, {"orders": {1: 2}}, "latest")
    assert found[1] == Span("orders", 7, 1, 5, 20)
    assert [(one.count, one.why) for one in missing] == [(3, "3 records of orders/1 from offset 2 on are deleted")]


@pytest.mark.parametrize(("begin", "end", "count"), [(30, None, 0), (0, 25, 15), (12, 25, 13)])
def test_an_offset_behind_the_end_is_missing(begin: int, end: int | None, count: int) -> None:
    wanted = "latest" if end is None else {"orders": {0: end}}
    _, missing = spans({"orders": ORDERS}, {"orders": {0: begin}}, wanted)
    assert [one.count for one in missing] == [count]
    assert missing[0].why.startswith("orders/0 ends at 10, ")


def test_an_end_before_the_beginning_is_refused() -> None:
    with pytest.raises(ValueError, match="endingOffsets has 2 for orders/0, which is before 3"):
        spans({"orders": ORDERS}, {"orders": {0: 3}}, {"orders": {0: 2}})


@pytest.mark.parametrize(
    ("wanted", "why"), [({"payments": {0: 1}}, "topic 'payments'"), ({"orders": {2: 1}}, "partition 2")]
)
def test_what_is_named_and_not_there_is_refused(wanted: dict[str, dict[int, int]], why: str) -> None:
    with pytest.raises(ValueError, match=f"^startingOffsets names the {why}"):
        spans({"orders": ORDERS}, wanted, "latest")
    with pytest.raises(ValueError, match=f"^endingOffsets names the {why}"):
        spans({"orders": ORDERS}, "earliest", wanted)


@given(st.integers(0, 1 << 40), st.integers(1, 5000), st.integers(1, 700))
def test_pieces_are_the_whole_and_even(start: int, total: int, most: int) -> None:
    pieces = split([Span("orders", 7, 1, start, start + total)], most)
    sizes = [piece.end - piece.start for piece in pieces]
    assert [piece.start for piece in pieces] == [start, *(piece.end for piece in pieces)][:-1]
    assert sum(sizes) == total and max(sizes) <= most and max(sizes) - min(sizes) <= 1


# -- a stream


def test_a_position_is_one_text_and_comes_back() -> None:
    position = {"b": At(2, 20, {10: 5, 9: 4}, {10: 1}), "a": At(1, 10, {0: 1})}
    text = json.dumps(offset_of(position))
    assert text == (
        '{"a": {"id": 1, "created": 10, "next": {"0": 1}, "first": {}}, '
        '"b": {"id": 2, "created": 20, "next": {"9": 4, "10": 5}, "first": {"10": 1}}}'
    )
    assert position_of(json.loads(text)) == position


@pytest.mark.parametrize(
    "offset", [{"orders": 1}, {"orders": {"id": 1}}, {"orders": {"id": 1, "created": 1, "next": 1}}]
)
def test_the_checkpoint_of_something_else_is_refused(offset: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^the checkpoint has no offsets of the format gateway"):
        position_of(offset)


def test_a_stream_begins_where_it_was_told() -> None:
    assert beginning({"orders": ORDERS}, "earliest") == {"orders": At(7, 100, {0: 0, 1: 5})}
    assert beginning({"orders": ORDERS}, "latest") == {"orders": At(7, 100, {0: 10, 1: 20})}
    assert beginning({"orders": ORDERS}, {"orders": {1: 6}}) == {"orders": At(7, 100, {0: 0, 1: 6})}


def test_a_batch_takes_all_or_no_more_than_the_limit() -> None:
    begin = beginning({"orders": ORDERS}, "earliest")
    assert forward(begin, {"orders": ORDERS}, None) == {"orders": At(7, 100, {0: 10, 1: 20})}
    assert between(begin, forward(begin, {"orders": ORDERS}, 8)) == [
        Span("orders", 7, 0, 0, 4),
        Span("orders", 7, 1, 5, 9),
    ]


def test_nothing_new_is_the_same_position() -> None:
    grown = moved(ORDERS, p0=(0, 10), p1=(5, 20), p2=(3, 4))
    at = forward(beginning({"orders": ORDERS}, "latest"), {"orders": grown}, None)
    assert at["orders"].first == {2: 3}
    assert offset_of(forward(at, {"orders": grown}, None)) == offset_of(at)


def test_new_partitions_and_topics_are_read_from_their_first_record_though_the_stream_began_at_the_end() -> None:
    begin = beginning({"orders": ORDERS}, "latest")
    grown = {"orders": moved(ORDERS, p0=(0, 10), p1=(5, 20), p2=(3, 9)), "new": Standing(8, 200, {0: (0, 2)})}
    end = forward(begin, grown, None)
    assert between(begin, end) == [Span("new", 8, 0, 0, 2), Span("orders", 7, 2, 3, 9)]
    assert forward(end, grown, None) == end
    assert between(end, end) == []


def test_a_limit_leaves_the_rest_of_a_new_partition_for_the_next_batch() -> None:
    begin = beginning({}, "earliest")
    there = {"new": Standing(8, 200, {0: (3, 9)})}
    first = forward(begin, there, 4)
    second = forward(first, there, 4)
    assert between(begin, first) == [Span("new", 8, 0, 3, 7)]
    assert between(first, second) == [Span("new", 8, 0, 7, 9)]


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (None, "the topic 'orders' does not exist any more"),
        (Standing(8, 100, ORDERS.bounds), "the topic 'orders' was deleted and made again"),
        (Standing(7, 101, ORDERS.bounds), "the topic 'orders' was deleted and made again"),
        (moved(ORDERS, p0=(0, 10)), "the partition orders/1 does not exist any more"),
        (moved(ORDERS, p0=(0, 9), p1=(5, 20)), "orders/0 ends at 9, which was read up to 10"),
    ],
)
def test_what_a_stream_has_lost_is_said(now: Standing | None, why: str) -> None:
    at = forward({}, {"orders": ORDERS}, None)
    assert not lost(at, {"orders": ORDERS})
    assert [one.why for one in lost(at, {} if now is None else {"orders": now})] == [why]


def test_a_topic_that_was_made_again_is_read_from_its_first_record() -> None:
    at = forward({}, {"orders": ORDERS}, None)
    again = {"orders": Standing(8, 300, {0: (0, 4), 1: (0, 30)})}
    end = forward(at, again, None)
    assert between(at, end) == [Span("orders", 8, 0, 0, 4), Span("orders", 8, 1, 0, 30)]
    assert not lost(end, again)


@given(st.dictionaries(st.integers(), st.integers(0, 50), max_size=8), st.integers(1, 200))
def test_shares_are_the_limit_and_as_even_as_can_be(waiting: dict[int, int], limit: int) -> None:
    taken = shares(waiting, limit)
    assert sum(taken.values()) == min(limit, sum(waiting.values()))
    assert all(0 <= taken[key] <= waiting[key] for key in waiting)
    cut = [taken[key] for key in waiting if taken[key] < waiting[key]]
    assert not cut or max(taken.values()) - min(cut) <= 1
