"""gateway.backends.kafka.names: two things never go by one name in Kafka, and every name there is somebody's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.backends.kafka import names
from gateway.core.faults import CommandFailed, Fault

SHORT = st.text("ab._-", min_size=1, max_size=6)
"""Few characters, so that what could meet does."""

ANY = SHORT | st.text(max_size=300)

NAMESPACES = st.sets(SHORT.filter(lambda name: "." not in name and not name.startswith("__")), max_size=4)


@st.composite
def places(draw: st.DrawFn) -> tuple[str, str, set[str]]:
    registered = draw(NAMESPACES)
    return draw(st.sampled_from(["default", *sorted(registered)])), draw(ANY), registered


def legal(call: object, *args: object) -> str | None:
    try:
        return call(*args)  # type: ignore[operator,no-any-return]
    except CommandFailed as failure:
        assert failure.fault is Fault.INVALID_NAME
        assert failure.detail
        return None


@given(places())
def test_a_topic_is_found_again_by_its_name_in_kafka(place: tuple[str, str, set[str]]) -> None:
    namespace, name, registered = place
    kafka = legal(names.topic_name, namespace, name, registered)
    assert kafka is None or names.split_topic(kafka, registered) == (namespace, name)


@given(st.text("ab._-", min_size=1, max_size=8), NAMESPACES)
def test_every_topic_of_kafka_is_somebodys_or_hidden(kafka: str, registered: set[str]) -> None:
    split = names.split_topic(kafka, registered)
    if split is None:
        assert kafka.startswith("__")
    elif kafka not in (".", ".."):  # which are no topics in Kafka
        assert names.topic_name(*split, registered) == kafka


@given(places(), places())
def test_groups_and_consumers_of_two_names_are_two(
    one: tuple[str, str, set[str]], two: tuple[str, str, set[str]]
) -> None:
    registered = one[2] | two[2]
    things = [(make, *place[:2]) for make in (names.group_id, names.consumer_id) for place in (one, two)]
    made = {thing: legal(*thing, registered) for thing in things}
    ids = [id for id in made.values() if id is not None]
    assert len(ids) == len(set(ids))


@given(places())
def test_a_group_is_found_again_and_a_consumer_is_none(place: tuple[str, str, set[str]]) -> None:
    namespace, name, registered = place
    group = legal(names.group_id, namespace, name, registered)
    assert group is None or names.split_group(group, registered) == (namespace, name)
    consumer = legal(names.consumer_id, namespace, name, registered)
    assert consumer is None or names.split_group(consumer, registered) is None


@pytest.mark.parametrize(
    "namespace, name, kafka",
    [
        ("default", "orders", "orders"),
        ("sales", "orders", "sales.orders"),
        ("sales", "a.b", "sales.a.b"),
        ("default", "other.orders", "other.orders"),
        ("default", "sales.", "sales."),
        ("default", "a" * 249, "a" * 249),
        ("sales", "a" * 243, "sales." + "a" * 243),
    ],
)
def test_what_topics_are_called(namespace: str, name: str, kafka: str) -> None:
    assert names.topic_name(namespace, name, {"sales"}) == kafka


@pytest.mark.parametrize(
    "namespace, name",
    [
        ("default", "sales.orders"),
        ("default", ""),
        ("sales", ""),
        ("default", "."),
        ("default", ".."),
        ("default", "a b"),
        ("default", "caf\u00e9"),
        ("default", "a" * 250),
        ("sales", "a" * 244),
        ("default", "__consumer_offsets"),
    ],
)
def test_what_no_topic_can_be_called(namespace: str, name: str) -> None:
    with pytest.raises(CommandFailed) as caught:
        names.topic_name(namespace, name, {"sales"})
    assert caught.value.fault is Fault.INVALID_NAME


@pytest.mark.parametrize("name", ["a.b", "gw", "__x", "a b", "", "a" * 248])
def test_what_no_namespace_can_be_called(name: str) -> None:
    with pytest.raises(CommandFailed) as caught:
        names.check_namespace(name)
    assert caught.value.fault is Fault.INVALID_NAME


def test_a_namespace_is_refused_where_topics_of_default_would_fall_into_it() -> None:
    names.check_free("sales", ["orders", "sales", "sales.", "salesman.orders"])
    with pytest.raises(CommandFailed, match=r"sales\.orders"):
        names.check_free("sales", ["orders", "sales.orders"])


def test_names_that_kafka_cannot_tell_apart_are_refused() -> None:
    names.check_apart("a.b", ["a.b", "a-b", "ab"])
    with pytest.raises(CommandFailed, match="a_b"):
        names.check_apart("a.b", ["a_b"])
