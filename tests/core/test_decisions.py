"""gateway.core.decisions and views: what a command changes, what it is refused for, and what is shown afterwards."""

from __future__ import annotations

import pytest

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.decisions import perform
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical
from gateway.core.state import State
from gateway.core.views import answer

ORDERS = q.Topic("default", "orders")
GROUP = q.Group("g")


@pytest.fixture
def state() -> State:
    """A topic of three partitions that end at 2, 0 and 1."""
    state = State()
    perform(state, q.CreateTopic(ORDERS, 3), 0)
    for partition, count in ((0, 2), (2, 1)):
        perform(state, q.Publish(ORDERS, partition, canonical([Record(value=b"v")] * count)), 0)
    return state


def commit(state: State, offsets: dict[int | None, int], **more: bool) -> r.Reply:
    return perform(state, q.CommitOffsets(ORDERS, GROUP, offsets, **more), 0)[0]  # type: ignore[arg-type]


def committed(state: State, *partitions: int) -> r.Reply:
    return answer(state, q.FetchOffsets(ORDERS, GROUP, partitions or None))


def failure(state: State, command: q.Command) -> CommandFailed:
    with pytest.raises(CommandFailed) as caught:
        perform(state, command, 0)
    return caught.value


# -- what is taken


@pytest.mark.parametrize(("name", "id", "taken"), [("sales", None, "name"), ("sales", 9, "name"), ("other", 7, "id")])
def test_of_a_namespace_that_exists_it_is_said_what_is_taken(
    state: State, name: str, id: int | None, taken: str
) -> None:
    perform(state, q.CreateNamespace("sales", 7), 0)
    refused = failure(state, q.CreateNamespace(name, id))
    assert (refused.fault, refused.facts) == (Fault.NAMESPACE_EXISTS, {"taken": taken})


@pytest.mark.parametrize(("name", "id", "taken"), [("orders", None, "name"), ("orders", 9, "name"), ("bills", 1, "id")])
def test_of_a_topic_that_exists_it_is_said_what_is_taken(state: State, name: str, id: int | None, taken: str) -> None:
    refused = failure(state, q.CreateTopic(q.Topic("default", name), 1, id=id))
    assert (refused.fault, refused.facts) == (Fault.TOPIC_EXISTS, {"taken": taken})


def test_a_topic_cannot_be_called_as_another_is(state: State) -> None:
    perform(state, q.CreateTopic(q.Topic("default", "bills"), 1), 0)
    refused = failure(state, q.AlterTopic(ORDERS, q.TopicSettings(), "bills"))
    assert (refused.fault, refused.facts) == (Fault.TOPIC_EXISTS, {"taken": "name"})


# -- committed offsets


def test_the_ends_of_all_partitions_that_were_asked_about_are_shown(state: State) -> None:
    commit(state, {0: 1})
    assert committed(state) == r.CommittedOffsets({0: 1}, {0: 2, 1: 0, 2: 1})
    assert committed(state, 2, 0) == r.CommittedOffsets({0: 1}, {2: 1, 0: 2})
    assert committed(state, 1) == r.CommittedOffsets({}, {1: 0})


def test_a_bounded_commit_goes_to_the_end_and_not_behind_it(state: State) -> None:
    assert commit(state, {0: 2, 1: 0}, bounded=True) == r.Done()
    for offsets in ({0: 3}, {1: 1}, {0: 1, 2: 2}, {0: -1}):
        with pytest.raises(CommandFailed) as refused:
            commit(state, offsets, bounded=True)  # type: ignore[arg-type]
        assert refused.value.fault is Fault.INVALID_OFFSET
    assert committed(state) == r.CommittedOffsets({0: 2, 1: 0}, {0: 2, 1: 0, 2: 1}), "all of a commit or nothing"


def test_a_commit_that_is_not_bounded_may_be_ahead_of_the_records(state: State) -> None:
    assert commit(state, {1: q.MAX_OFFSET}) == r.Done()
    assert committed(state, 1) == r.CommittedOffsets({1: q.MAX_OFFSET}, {1: 0})


def test_a_bounded_commit_may_still_go_back_unless_it_must_rise(state: State) -> None:
    commit(state, {0: 2})
    with pytest.raises(CommandFailed) as refused:
        commit(state, {0: 1}, bounded=True, rising=True)
    assert refused.value.facts == {"partition": 0, "current": 2, "requested": 1}
    assert commit(state, {0: 1}, bounded=True) == r.Done()


# -- namespaces with what is in them


def test_a_namespace_is_described_with_its_topics_where_that_is_asked_for(state: State) -> None:
    perform(state, q.CreateTopic(q.Topic("default", "a"), 0, id=9), 0)
    plain = answer(state, q.DescribeNamespace("default"))
    whole = answer(state, q.DescribeNamespace("default", contents=True))
    topics = answer(state, q.ListTopics("default"))
    assert isinstance(plain, r.NamespaceDescription) and isinstance(whole, r.NamespaceDescription)
    assert isinstance(topics, r.Topics)
    assert (plain.topics, plain.records, plain.contents) == (2, 3, ())
    assert [topic.id for topic in whole.contents] == [1, 9]
    assert (whole.topics, whole.contents) == (2, topics.topics)
    assert answer(state, q.DescribeNamespace("default")) == plain
