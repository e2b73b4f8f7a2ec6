"""gateway.bench.tally: every reply is counted once, wherever reads cut the stream, and a wrong one is noticed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.bench import BenchFailed
from gateway.bench.tally import Marked, Same, Sized, Tally

MARKED = Marked(b"|OK|")
SIZED = Sized(7, b"abc")
SAME = Same(b"abcdefg")


def counted(tally: Tally, chunks: Iterable[bytes]) -> int:
    """Fed through one buffer that is longer than any read and keeps the bytes of earlier ones, as in the generator."""
    counter, held, total = tally.counter(), bytearray(b"|OK|" * 100), 0
    for chunk in chunks:
        held[: len(chunk)] = chunk
        total += counter.feed(held, len(chunk))
    counter.finish()
    return total


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    """The stream in pieces, none of them empty."""
    edges = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[first:last] for first, last in pairwise(edges)]


@given(st.integers(0, 20), st.lists(st.integers(0, 400)))
def test_marked_replies_are_counted_wherever_the_stream_is_cut(replies: int, places: list[int]) -> None:
    stream = b"".join(b"%d|OK|%d\n" % (number, number) for number in range(replies))
    assert counted(MARKED, cut(stream, places)) == replies


def test_an_error_is_no_marked_reply() -> None:
    assert counted(MARKED, [b"1|OK|0\n", b"2|ERR|no\n", b"3|OK|0\n"]) == 2


def test_a_marker_over_many_tiny_reads_is_one_reply() -> None:
    assert counted(MARKED, [b"|", b"O", b"K", b"|", b"O", b"K", b"x"]) == 1


@given(st.integers(0, 20), st.lists(st.integers(0, 140)))
def test_sized_replies_are_counted_wherever_the_stream_is_cut(replies: int, places: list[int]) -> None:
    assert counted(SIZED, cut(b"abcdefg" * replies, places)) == replies


@pytest.mark.parametrize(
    "stream",
    [b"xbcdefg", b"abcdefgabXdefgabcdefg"[:14], b"abcdefg" * 5 + b"error!!"],
    ids=["the first", "the second of two", "the last of many"],
)
def test_a_sized_reply_with_another_head_is_refused(stream: bytes) -> None:
    with pytest.raises(BenchFailed, match="not the reply that was expected"):
        counted(SIZED, [stream])


def test_a_stream_that_ends_within_a_sized_reply_is_refused() -> None:
    with pytest.raises(BenchFailed, match="no whole number of replies"):
        counted(SIZED, [b"abcdefgabcd"])


@given(st.integers(0, 20), st.lists(st.integers(0, 140)))
def test_replies_that_are_all_the_same_are_counted_wherever_the_stream_is_cut(replies: int, places: list[int]) -> None:
    assert counted(SAME, cut(b"abcdefg" * replies, places)) == replies


@given(st.integers(0, 139), st.lists(st.integers(0, 140)))
def test_one_wrong_byte_anywhere_in_replies_that_are_all_the_same_is_refused(at: int, places: list[int]) -> None:
    stream = bytearray(b"abcdefg" * 20)
    stream[at] ^= 1
    with pytest.raises(BenchFailed, match="not the replies that were expected"):
        counted(SAME, cut(bytes(stream), places))


def test_a_stream_that_ends_within_a_reply_that_should_be_the_same_is_refused() -> None:
    with pytest.raises(BenchFailed, match="ended within a reply"):
        counted(SAME, [b"abcdefgabcd"])
