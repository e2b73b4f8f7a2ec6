"""gateway.dialects.grid.terms: the topics that a connection remembers."""

from __future__ import annotations

import pytest

from gateway.core.commands import Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.grid.terms import MOST_TOPICS, Topics


def test_a_topic_is_made_once() -> None:
    topics = Topics("shop")
    assert topics["bücher".encode()] == Topic("shop", "bücher")
    assert topics["bücher".encode()] is topics["bücher".encode()]


def test_no_more_are_remembered_than_the_bound_and_all_are_found() -> None:
    topics = Topics("shop")
    for number in range(3 * MOST_TOPICS):
        assert topics[b"%d" % number] == Topic("shop", str(number))
        assert len(topics) <= MOST_TOPICS
    assert topics[b"0"] == Topic("shop", "0")


@pytest.mark.parametrize("name", [b"", b"\xff"])
def test_what_is_no_name_is_refused_each_time(name: bytes) -> None:
    topics = Topics("shop")
    for _ in range(2):
        with pytest.raises(CommandFailed) as failed:
            topics[name]
        assert failed.value.fault is Fault.INVALID_NAME
    assert not topics
