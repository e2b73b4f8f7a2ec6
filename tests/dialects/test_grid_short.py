"""gateway.dialects.grid: what spares a request time changes nothing of its answer."""

from __future__ import annotations

import pytest

from dialects.grid_frames import ok, terms
from gateway.core.commands import MapGet, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import MapValue
from gateway.dialects import load
from gateway.dialects.dialect import Request
from gateway.dialects.grid.terms import Asked, NamedTopics
from gateway.dialects.topics import MOST_TOPICS

GRID = load("grid")
GET = MapGet(Topic("default", "users"), b"alice")
GOT = Asked("MAP_GET", 1)


def test_a_topic_is_made_once() -> None:
    topics = NamedTopics("shop")
    assert topics["bücher".encode()] == Topic("shop", "bücher")
    assert topics["bücher".encode()] is topics["bücher".encode()]


def test_no_more_topics_are_remembered_than_the_bound_and_all_are_found() -> None:
    topics = NamedTopics("shop")
    for number in range(3 * MOST_TOPICS):
        assert topics[b"%d" % number] == Topic("shop", str(number))
        assert len(topics) <= MOST_TOPICS
    assert topics[b"0"] == Topic("shop", "0")


def test_a_name_that_no_topic_can_have_is_not_remembered() -> None:
    topics = NamedTopics("shop")
    assert topics[b"x" * 256] == Topic("shop", "x" * 256)
    assert not topics


@pytest.mark.parametrize("name", [b"", b"\xff"])
def test_what_is_no_name_is_refused_each_time(name: bytes) -> None:
    topics = NamedTopics("shop")
    for _ in range(2):
        with pytest.raises(CommandFailed) as failed:
            topics[name]
        assert failed.value.fault is Fault.INVALID_NAME
    assert not topics


@pytest.mark.parametrize("value", [None, b"", b"Alice", b"x" * 2000])
def test_an_answer_is_the_same_where_it_might_have_been_compressed(value: bytes | None) -> None:
    plain, packing = terms(), terms(compression=("lz4",), compress_above=4000)
    packing.agree(packing.bitmap)
    assert packing.agreed
    answers = {GRID.encode_reply(Request(GET, 7, GOT), MapValue(value), at) for at in (plain, packing)}
    assert answers == {ok(7, value or b"", status="NOT_FOUND" if value is None else "OK", version=1)}


@pytest.mark.parametrize("context", [GOT, None], ids=["heard", "asked by us"])
@pytest.mark.parametrize("tag", ["7", -1, 1 << 32])
def test_what_is_no_correlation_id_is_not_sent(context: Asked | None, tag: int | str) -> None:
    with pytest.raises(CommandFailed) as failed:
        GRID.encode_reply(Request(GET, tag, context), MapValue(b"Alice"), terms())
    assert failed.value.fault is Fault.UNREPRESENTABLE
