"""gateway.backends.routes: several backends behind one are as one, and each keeps to its own topics."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, rule
from twisted.internet.defer import CancelledError, Deferred, fail, maybeDeferred
from twisted.internet.task import Clock

from backends.driving import PATIENCE, Driver, Reactor
from backends.test_contract import START, by_connection, commands, on_orders, queues, tables
from gateway.backends import find_maker
from gateway.backends.memory import MemoryBackend
from gateway.backends.routes import parse
from gateway.backends.routes.backend import Routes
from gateway.backends.routes.patterns import Patterns
from gateway.backends.sqlite import SqliteBackend
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical, registry

OWNERS = {"orders": 1, "x.*": 1, "*": 0, "sales/b": 1, "sales/x*": 1}
HIGH = 1 << 24
NOWHERE = 3 * HIGH + 1
"""A topic's number that no route gives."""

ORDERS = q.Topic("default", "orders")
USERS = q.Topic("default", "users")


def publish(topic: q.Topic, value: bytes = b"v", create: int = 1) -> q.Publish:
    return q.Publish(topic, 0, canonical([Record(value=value)]), create=create)


def values(reply: Any) -> list[bytes | None]:
    return [record.value for batch in reply.batches for record in batch.records()]


class Later:
    """A backend that carries out at once and, while it is slow, answers when it is told to."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.durability = "memory"
        self.slow = False
        self.broken: CommandFailed | None = None
        self.asked: list[q.Command] = []
        self.pending: list[Callable[[], None]] = []
        self.cancelled = 0
        self.closed = False

    def execute(self, command: q.Command, session: q.Session) -> Any:
        self.asked.append(command)
        if self.broken is not None:
            raise self.broken
        if not self.slow:
            return self.backend.execute(command, session)
        done: Deferred[Any] = Deferred(self._cancelled)
        reply = maybeDeferred(self.backend.execute, command, session)
        self.pending.append(lambda: None if done.called else reply.chainDeferred(done))
        return done

    def follow(self, command: q.Follow, session: q.Session, follower: Any) -> Any:
        return self.backend.follow(command, session, follower)

    def close(self) -> Deferred[None] | None:
        self.closed = True
        return None if self.broken is None else fail(self.broken)

    def _cancelled(self, done: Deferred[Any]) -> None:
        self.cancelled += 1
        done.errback(CancelledError())


class House:
    """Routes over backends in memory, and one client of them."""

    def __init__(self, owners: dict[str, int] | None = None, now: Callable[[], int] = lambda: START) -> None:
        self.reactor = Reactor()
        owners = {"orders*": 1, "*": 0} if owners is None else owners
        self.parts = [Later(MemoryBackend(self.reactor, now)) for _ in range(max(owners.values()) + 1)]
        self.routes = Routes(Patterns(owners), self.parts, now)
        self.client = Driver(self.routes, self.reactor)
        self.ask = self.client.ask
        self.begin = self.client.begin

    def behind(self, route: int) -> Driver:
        """Who asks one backend and not the others."""
        return Driver(self.parts[route].backend, self.reactor, q.Session(9))

    def slow(self, *routes: int) -> None:
        for route in routes:
            self.parts[route].slow = True

    def answer(self, route: int) -> None:
        """Let a slow backend give the answer it has owed longest."""
        self.parts[route].pending.pop(0)()


# -- patterns

prefixes = st.text("ab/.", max_size=4)


@given(
    st.dictionaries(prefixes.map(lambda prefix: f"{prefix}*") | prefixes.filter(bool), st.integers(0, 3), max_size=8),
    st.text("ab/.c", min_size=1, max_size=8),
    st.sampled_from(["default", "a", "ab"]),
)
def test_the_most_specific_pattern_owns_a_name(owners: dict[str, int], name: str, namespace: str) -> None:
    owners = {"*": 0, **owners}
    full = name if namespace == "default" else f"{namespace}/{name}"
    starred = [pattern[:-1] for pattern in owners if pattern.endswith("*")]
    longest = max((prefix for prefix in starred if full.startswith(prefix)), key=len)
    patterns = Patterns(owners)
    assert patterns.owner(namespace, name) == owners.get(full, owners[f"{longest}*"])
    assert patterns.owner(namespace, name) in patterns.owners(namespace)
    assert owners["*"] in patterns.owners(namespace)


def test_a_namespace_goes_to_those_who_could_own_topics_of_it() -> None:
    patterns = Patterns({"*": 0, "sales/*": 1, "s*": 2, "orders": 3, "sales/x": 4, "salesmen*": 5})
    assert patterns.owners("sales") == [0, 1, 2, 4]
    assert patterns.owners("ops") == [0]
    assert patterns.owners("default") == [0, 1, 2, 3, 4, 5]


def test_matching_takes_one_step_a_letter_at_most() -> None:
    """Many prefixes of one another, and a name that is as long as names get."""
    patterns = Patterns({"*": 0, **{f"{'a' * length}*": length for length in range(1, 255)}})
    branch, depth = patterns._prefixes, 0
    while branch.branches:
        [branch] = branch.branches.values()
        depth += 1
    assert depth == 254
    assert patterns.owner("default", "a" * 255) == 254
    assert patterns.owner("default", "b" * 255) == 0


# -- what an operator writes


def test_routes_stand_between_commas_or_semicolons() -> None:
    assert parse("a*=memory,*=sqlite:./d") == {"a*": "memory", "*": "sqlite:./d"}
    assert parse("a*=kafka:h:1,i:2; *=remote:pipe=tcp:h:7;") == {"a*": "kafka:h:1,i:2", "*": "remote:pipe=tcp:h:7"}


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("", "a route is PATTERN=SPEC"),
        ("*", "a route is PATTERN=SPEC"),
        ("=memory;*=memory", "a route is PATTERN=SPEC"),
        ("a=;*=memory", "a route is PATTERN=SPEC"),
        ("a*=kafka:h:1,i:2,*=memory", "put ; between routes"),
        ("a*=memory;a*=memory;*=memory", r"two routes have the pattern a\*"),
        ("a*=memory", "for all other topics"),
        ("a*b=memory;*=memory", "a pattern is a name"),
        ("**=memory;*=memory", "a pattern is a name"),
        ("a=routes:*=memory;*=memory", "cannot be routed to"),
        ("a=nonsense:1;*=memory", "there is no backend 'nonsense'"),
        ("a=memory:1;*=memory", "memory backend takes no argument"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(argument: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make(f"routes:{argument}")


def make(spec: str) -> Any:
    maker, argument = find_maker(spec)
    return maker.make(argument, registry([]), Reactor())


def test_the_same_store_twice_is_one_backend(tmp_path: Path) -> None:
    reactor = Reactor()
    maker, argument = find_maker(f"routes:a*=sqlite:{tmp_path}/one;b=sqlite:{tmp_path}/one;*=sqlite:{tmp_path}/two")
    routes: Any = maker.make(argument, registry([]), reactor)
    try:
        assert len(routes._backends) == 2
        client = Driver(routes, reactor)
        for name in ("a1", "b", "c"):
            assert isinstance(client.ask(publish(q.Topic("default", name))), r.Published)
        ids = {topic.name: topic.id for topic in client.ask(q.ListTopics("default")).topics}
        assert ids == {"c": 1, "a1": HIGH + 1, "b": HIGH + 2}
    finally:
        reactor.wait(routes.close())


def test_what_was_made_in_vain_is_let_go(tmp_path: Path) -> None:
    reactor = Reactor()
    maker, argument = find_maker(f"routes:a*=memory:1;*=sqlite:{tmp_path}")
    with pytest.raises(ValueError, match="takes no argument"):
        maker.make(argument, registry([]), reactor)
    reactor._calls.get(timeout=PATIENCE)()  # the first store says that it has closed
    again = SqliteBackend(tmp_path, registry([]), reactor)
    reactor.wait(again.close())


# -- whose topics are whose


def test_each_topic_is_kept_by_its_owner_alone() -> None:
    house = House()
    for topic in (ORDERS, USERS):
        assert isinstance(house.ask(publish(topic)), r.Published)
    assert [topic.name for topic in house.behind(0).ask(q.ListTopics("default")).topics] == ["users"]
    assert [topic.name for topic in house.behind(1).ask(q.ListTopics("default")).topics] == ["orders"]


def test_numbers_tell_the_route_and_can_be_asked_for() -> None:
    house = House()
    for topic in (ORDERS, USERS):
        house.ask(publish(topic))
    listed = house.ask(q.ListTopics("default")).topics
    assert [(topic.name, topic.id) for topic in listed] == [("users", 1), ("orders", HIGH + 1)]
    for topic in listed:
        for reference in (q.Topic("default", topic.id), q.Topic(q.DEFAULT_NAMESPACE_ID, topic.id)):
            assert house.ask(q.DescribeTopic(reference)) == topic
            assert house.ask(q.Fetch(reference, 0, 0)).end == 1
            assert house.ask(q.FindLeader(reference)) == r.Leader()
    assert house.ask(q.DescribeTopic(q.Topic("default", NOWHERE))) == (Fault.NO_SUCH_TOPIC, {})
    assert house.ask(q.DescribeTopic(q.Topic("default", HIGH + 2))) == (Fault.NO_SUCH_TOPIC, {})


def test_a_number_is_looked_up_once() -> None:
    house = House()
    house.ask(publish(ORDERS))
    by_number = q.Topic(q.DEFAULT_NAMESPACE_ID, HIGH + 1)
    for _ in range(3):
        assert isinstance(house.ask(publish(by_number)), r.Published)
    asked = [type(command) for part in house.parts for command in part.asked]
    assert asked == [q.Publish, q.DescribeTopic, q.Publish, q.Publish, q.Publish]


def test_a_topic_whose_name_another_owns_is_not_there() -> None:
    house = House()
    house.behind(0).ask(publish(ORDERS))
    house.behind(1).ask(publish(USERS))
    house.behind(1).ask(q.JoinGroup(USERS, "g", "m", q.Heartbeats()))
    assert house.ask(q.ListTopics("default")) == r.Topics(())
    assert house.ask(q.ListGroups("default")) == r.Groups(())
    assert house.ask(q.DescribeGroup(q.Topic("default", ""), "g")) == (Fault.NO_SUCH_GROUP, {})
    for topic in (ORDERS, USERS, q.Topic("default", 1), q.Topic("default", HIGH + 1)):
        assert house.ask(q.DescribeTopic(topic)) == (Fault.NO_SUCH_TOPIC, {})
        assert house.ask(publish(topic, create=0)) == (Fault.NO_SUCH_TOPIC, {})
    described = house.ask(q.Describe())
    assert (described.topics, described.records, described.groups) == (0, 0, 0)
    assert house.ask(q.DescribeNamespace("default")).topics == 0


def test_a_number_can_be_chosen_for_topics_of_the_widest_route_alone() -> None:
    house = House()
    assert house.ask(q.CreateTopic(USERS, 1, id=7)).id == 7
    assert house.ask(q.CreateTopic(ORDERS, 1, id=7)) == (Fault.INVALID_ARGUMENT, {})
    assert house.ask(q.CreateTopic(q.Topic("default", "u"), 1, id=HIGH)) == (Fault.INVALID_ARGUMENT, {})
    assert [topic.name for topic in house.ask(q.ListTopics("default")).topics] == ["users"]


def test_a_topic_numbered_too_high_is_not_shown_and_serves_by_name() -> None:
    house = House()
    house.behind(1).ask(q.CreateTopic(ORDERS, 1, id=HIGH + 5))
    assert house.ask(q.DescribeTopic(ORDERS)) == (Fault.UNSUPPORTED, {})
    assert house.ask(q.ListTopics("default")) == r.Topics(())
    assert isinstance(house.ask(publish(ORDERS)), r.Published)


def test_a_topic_is_not_renamed_to_another_owner() -> None:
    house = House()
    house.ask(publish(USERS))
    by_number = q.Topic("default", 1)
    for topic in (USERS, by_number):
        assert house.ask(q.AlterTopic(topic, q.TopicSettings(), "orders")) == (Fault.UNSUPPORTED, {})
        assert house.ask(q.AlterTopic(topic, q.TopicSettings(), "users")).name == "users"
    assert house.ask(q.AlterTopic(USERS, q.TopicSettings(), "people")).name == "people"
    assert house.ask(q.DescribeTopic(by_number)).name == "people"


# -- namespaces


def test_a_namespace_is_where_topics_of_it_can_be() -> None:
    house = House({"*": 0, "sales/o*": 1, "orders": 2})
    assert house.ask(q.CreateNamespace("sales", 9)).id == 9
    assert [len(house.behind(route).ask(q.ListNamespaces()).namespaces) for route in range(3)] == [2, 2, 1]
    house.ask(publish(q.Topic(9, "orders")))
    house.ask(publish(q.Topic("sales", "users")))
    described = house.ask(q.DescribeNamespace(9, contents=True))
    assert (described.name, described.topics, described.records) == ("sales", 2, 2)
    assert [topic.id for topic in described.contents] == [1, HIGH + 1]
    assert house.ask(q.ListTopics(9)).topics == described.contents
    assert [at.id for at in house.ask(q.ListNamespaces()).namespaces] == [9, q.DEFAULT_NAMESPACE_ID]
    assert house.ask(q.DeleteNamespace(9)) == r.Done()
    assert [len(house.behind(route).ask(q.ListNamespaces()).namespaces) for route in range(3)] == [1, 1, 1]


def test_a_namespace_that_a_route_lacks_is_made_when_it_is_needed() -> None:
    house = House({"*": 0, "sales/o*": 1})
    house.behind(0).ask(q.CreateNamespace("sales"))
    house.behind(1).ask(q.CreateNamespace("ops"))
    orders = q.Topic("sales", "orders")
    assert isinstance(house.ask(publish(orders)), r.Published)
    house.behind(1).ask(q.DeleteNamespace("sales"))
    assert house.ask(publish(orders)) == (Fault.NO_SUCH_NAMESPACE, {})  # which is how it is found to be gone
    assert isinstance(house.ask(publish(orders)), r.Published)
    assert house.ask(publish(q.Topic("ops", "o"))) == (Fault.NO_SUCH_NAMESPACE, {})
    assert house.ask(q.ListGroups("ops")) == (Fault.NO_SUCH_NAMESPACE, {})


def test_namespaces_go_by_their_names_where_numbers_differ() -> None:
    house = House({"*": 0, "sales/o*": 1})
    house.behind(1).ask(q.CreateNamespace("other"))
    sales = house.ask(q.CreateNamespace("sales")).id
    session = q.JoinGroup(q.Topic(sales, "orders"), "g", "", q.WhileConnected(), create=1)
    assert isinstance(house.ask(session), r.Joined)
    [member] = house.ask(q.ListMemberships()).memberships
    assert (member.session, member.namespace, member.topic) == (1, sales, HIGH + 1)
    assert house.ask(q.EndSession()) == r.Done()
    assert house.ask(q.ListMemberships()) == r.Memberships(())


def test_a_namespace_that_one_store_refuses_is_not_made() -> None:
    house = House({"*": 0, "sales/o*": 1})
    house.parts[1].broken = CommandFailed(Fault.INVALID_NAME, "not here")
    assert house.ask(q.CreateNamespace("sales")) == (Fault.INVALID_NAME, {})
    house.parts[1].broken = None
    assert len(house.ask(q.ListNamespaces()).namespaces) == 1


def test_deleting_a_namespace_spares_what_clients_do_not_see() -> None:
    house = House({"*": 0, "sales/o*": 1})
    house.ask(q.CreateNamespace("sales"))
    house.ask(publish(q.Topic("sales", "orders")))
    house.behind(1).ask(publish(q.Topic("sales", "users")))
    assert house.ask(q.DeleteNamespace("sales")) == r.Done()
    assert [topic.name for topic in house.behind(1).ask(q.ListTopics("sales")).topics] == ["users"]
    house.ask(q.CreateNamespace("sales"))
    house.behind(0).ask(publish(q.Topic("sales", "orders")))
    assert house.ask(q.DeleteNamespace("sales")) == (Fault.UNSUPPORTED, {})
    assert house.ask(q.DeleteNamespace("default")) == (Fault.INVALID_ARGUMENT, {})


# -- groups


def test_a_group_without_a_topic_is_looked_for_in_all() -> None:
    house = House()
    anywhere = q.Topic("default", "")
    house.ask(publish(USERS))
    house.ask(publish(ORDERS))
    joined = house.ask(q.JoinGroup(ORDERS, "team", "m", q.Heartbeats()))
    assert house.ask(q.DescribeGroup(anywhere, "team")).topic == "orders"
    assert house.ask(q.Heartbeat(anywhere, "team", "m", joined.generation)) == r.Done()
    assert house.ask(q.DescribeGroup(anywhere, "nobody")) == (Fault.NO_SUCH_GROUP, {})
    house.ask(q.CreateGroup(ORDERS, "7"))
    house.ask(q.CreateGroup(ORDERS, "other", 7))
    assert house.ask(q.DescribeGroup(anywhere, 7)).name == "7"  # numbers of groups are those of one topic
    house.parts[0].broken = CommandFailed(Fault.UNAVAILABLE)
    assert house.ask(q.DescribeGroup(anywhere, "team")).topic == "orders"
    assert house.ask(q.DescribeGroup(anywhere, "nobody")) == (Fault.UNAVAILABLE, {})


def test_an_exclusive_group_is_alone_among_the_topics_of_its_backend() -> None:
    house = House()
    orders2 = q.Topic("default", "orders.2")
    house.ask(q.JoinGroup(ORDERS, "team", "m", q.Heartbeats(), create=1, exclusive=True))
    join = q.JoinGroup(orders2, "team", "m", q.Heartbeats(), create=1, exclusive=True)
    assert house.ask(join) == (Fault.OTHER_TOPIC, {"expected": "orders", "actual": "orders.2"})
    described = q.DescribeGroup(q.Topic("default", HIGH + 2), "team")
    assert house.ask(described) == (Fault.OTHER_TOPIC, {"expected": "orders", "actual": str(HIGH + 2)})
    elsewhere = q.JoinGroup(USERS, "team", "m", q.Heartbeats(), create=1, exclusive=True)
    assert isinstance(house.ask(elsewhere), r.Joined)
    assert [group.topic for group in house.ask(q.ListGroups("default")).groups] == ["orders", "users"]
    assert [group.topic for group in house.ask(q.ListGroups("default", HIGH + 1)).groups] == ["orders"]
    assert [group.topic for group in house.ask(q.ListGroups("default", "users")).groups] == ["users"]


# -- one that is slow, one that fails


def test_a_slow_backend_holds_up_nobody_else() -> None:
    house = House()
    house.slow(1)
    waiting = house.begin(publish(ORDERS))
    assert isinstance(house.ask(publish(USERS)), r.Published)
    assert not waiting.called
    house.answer(1)
    assert isinstance(house.reactor.wait(waiting), r.Published)


def test_one_backend_that_fails_does_not_touch_topics_of_another() -> None:
    house = House()
    house.ask(publish(USERS))
    house.ask(publish(ORDERS))
    house.parts[1].broken = CommandFailed(Fault.UNAVAILABLE)
    assert house.ask(publish(ORDERS)) == (Fault.UNAVAILABLE, {})
    assert isinstance(house.ask(publish(USERS)), r.Published)
    assert isinstance(house.ask(q.JoinGroup(USERS, "g", "m", q.Heartbeats(), exclusive=True)), r.Joined)
    assert house.ask(q.DescribeTopic(q.Topic(q.DEFAULT_NAMESPACE_ID, 1))).name == "users"
    assert house.ask(q.ListTopics("default")) == (Fault.UNAVAILABLE, {})  # what was left out would look deleted
    house.parts[1].broken = None
    assert len(house.ask(q.ListTopics("default")).topics) == 2


def test_all_are_told_that_a_session_is_over_also_if_one_fails() -> None:
    house = House()
    house.ask(q.JoinGroup(ORDERS, "g", "", q.WhileConnected(), create=1))
    house.parts[0].broken = CommandFailed(Fault.UNAVAILABLE)
    assert house.ask(q.EndSession()) == (Fault.UNAVAILABLE, {})
    house.parts[0].broken = None
    assert house.ask(q.ListMemberships()) == r.Memberships(())


def test_writes_of_a_session_keep_their_order_where_a_topic_has_to_be_looked_up() -> None:
    house = House()
    house.ask(publish(ORDERS, b"0"))
    house.slow(1)
    begun = [house.begin(publish(q.Topic("default", HIGH + 1), b"1")), house.begin(publish(ORDERS, b"2"))]
    other = house.routes.execute(publish(ORDERS, b"of another session"), q.Session(2))
    while house.parts[1].pending:
        house.answer(1)
    assert [house.reactor.wait(one).base for one in begun] == [2, 3]
    assert isinstance(other, Deferred)
    house.parts[1].slow = False
    assert values(house.ask(q.Fetch(ORDERS, 0, 1))) == [b"of another session", b"1", b"2"]


def test_a_wait_given_up_is_given_up_and_a_write_is_still_made() -> None:
    house = House()
    house.ask(publish(ORDERS, b"0"))
    house.slow(1)
    by_number = q.Topic("default", HIGH + 1)
    dropped: list[Any] = []
    looked_up = house.begin(publish(by_number, b"1"))
    in_line = house.begin(publish(ORDERS, b"2"))
    for one in (looked_up, in_line):
        one.addErrback(dropped.append)
        one.cancel()
    while house.parts[1].pending:
        house.parts[1].pending.pop(0)()
    assert len(dropped) == 2
    house.parts[1].slow = False
    assert values(house.ask(q.Fetch(ORDERS, 0, 0))) == [b"0", b"1", b"2"]


def test_cancelling_reaches_whoever_waits() -> None:
    house = House()
    house.ask(publish(ORDERS))
    by_number = q.Topic("default", HIGH + 1)
    house.slow(1)
    waiting = house.begin(q.Fetch(by_number, 0, 1, wait=60.0))
    house.answer(1)
    waiting.addErrback(lambda failure: None)
    waiting.cancel()
    assert house.parts[1].cancelled == 1


class Following:
    def __init__(self) -> None:
        self.values: list[bytes | None] = []

    def deliver(self, batch: RecordBatch) -> None:
        self.values += [record.value for record in batch.records()]

    def ended(self, failure: CommandFailed) -> None:
        raise failure


@pytest.mark.parametrize("reference", ["orders", HIGH + 1])
def test_records_are_followed_where_they_are(reference: int | str) -> None:
    house = House()
    house.ask(publish(ORDERS, b"1"))
    follower = Following()
    begun: Any = house.routes.follow(q.Follow(q.Topic("default", reference), 0, 0), q.Session(1), follower)
    producer = house.reactor.wait(begun) if isinstance(begun, Deferred) else begun
    house.reactor.advance(0)
    house.ask(publish(ORDERS, b"2"))
    assert follower.values == [b"1", b"2"]
    producer.stopProducing()
    with pytest.raises(CommandFailed):
        gone = house.routes.follow(q.Follow(q.Topic("default", NOWHERE), 0, 0), q.Session(1), follower)
        house.reactor.wait(gone)  # type: ignore[arg-type]


# -- all of them together


@pytest.mark.parametrize(
    ("levels", "weakest"),
    [
        (["fsync", "memory"], "memory"),
        (["replicated", "fsync"], "fsync"),
        (["fsync", "os"], "os"),
        (["fsync", "hearsay"], "hearsay"),
        (["replicated", "replicated"], "replicated"),
    ],
)
def test_durability_is_that_of_the_weakest(levels: list[str], weakest: str) -> None:
    parts = [Later(MemoryBackend(Clock())) for _ in levels]
    for part, level in zip(parts, levels, strict=True):
        part.durability = level
    routes = Routes(Patterns({"*": 0, "a": 1}), parts)
    assert routes.durability == weakest
    assert Driver(routes, Reactor()).ask(q.Describe()).durability == weakest


def test_closing_closes_all_and_says_if_one_could_not() -> None:
    house = House({"*": 0, "a": 1, "b": 2})
    house.parts[1].broken = CommandFailed(Fault.INTERNAL)
    with pytest.raises(CommandFailed):
        house.client.close()
    assert [part.closed for part in house.parts] == [True, True, True]


# -- beside the model

HERE = Patterns(OWNERS)
LOOKED_AT_TWICE = (
    q.Describe | q.ListNamespaces | q.DescribeNamespace | q.ListTopics | q.ListGroups | q.ListMemberships | q.EndSession
)
"""What is put together of several answers, and in a burst may show what was asked behind it."""


def plain(value: Any) -> Any:
    """A reply without what differs by design: numbers of topics, names of nodes, and the order by these numbers."""
    match value:
        case r.TopicDescription():
            return msgspec.structs.replace(value, id=0)
        case r.Topics():
            return sorted(map(plain, value.topics), key=lambda topic: topic.name)
        case r.NamespaceDescription():
            return plain(r.Topics(value.contents)), msgspec.structs.replace(value, contents=())
        case r.Memberships():
            return sorted((at.session, at.namespace, at.group) for at in value.memberships)
        case r.NodeDescription():
            return msgspec.structs.replace(value, node="")
        case (Fault.OTHER_TOPIC, _):  # said where the other topic is of the same backend
            return Fault.NO_SUCH_GROUP, {}
    return value


def fault(outcome: Any) -> Fault | None:
    return outcome[0] if isinstance(outcome, tuple) else None


class BesideOne(RuleBasedStateMachine):
    """Two clients of one backend, two of routes over two backends."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.house = House(OWNERS, self.clock)
        self.one: Any = MemoryBackend(self.house.reactor, self.clock)
        self.model = self.clients(self.one, [self.one])
        self.tested = self.clients(self.house.routes, [part.backend for part in self.house.parts])

    def clock(self) -> int:
        return self.now

    def clients(self, backend: Any, coordinating: list[Any]) -> list[Driver]:
        numbers = itertools.count(1)
        for one in coordinating:
            one._grouping._coordinator._suffix = lambda: f"{next(numbers):04d}"
        return [Driver(backend, self.house.reactor, q.Session(id)) for id in (1, 2)]

    which = st.integers(0, 1)

    @rule(command=commands | by_connection | st.just(q.Describe()), client=which)
    def ask(self, command: q.Command, client: int) -> None:
        self.compare(command, client)

    @rule(command=tables.map(on_orders) | queues.map(on_orders), client=which)
    def use_a_table(self, command: q.Command, client: int) -> None:
        self.compare(command, client)

    @rule(burst=st.lists(commands, min_size=2, max_size=8), client=which, data=st.data())
    def ask_without_waiting(self, burst: list[q.Command], client: int, data: st.DataObject) -> None:
        """Answers come in any order, and each command still means what it meant in its place."""
        asked = [pair for pair in (self.pair(command, True) for command in burst) if pair is not None]
        self.house.slow(0, 1)
        begun = [self.tested[client].begin(theirs) for _, theirs in asked]
        parts = self.house.parts
        while owing := [at for at, part in enumerate(parts) if part.pending]:
            owed = parts[data.draw(st.sampled_from(owing))].pending
            owed.pop(data.draw(st.integers(0, len(owed) - 1)))()
        for part in parts:
            part.slow = False
        for (command, _), deferred in zip(asked, begun, strict=True):
            assert deferred.called
            was_there = self.exists(command)
            expected = self.model[client].ask(command)
            outcome = self.tested[client].outcome(deferred)
            if not isinstance(command, LOOKED_AT_TWICE):
                self.same(command, was_there, outcome, expected)

    @rule(microseconds=st.integers(1, 30))
    def wait(self, microseconds: int) -> None:
        self.now += microseconds

    @rule(seconds=st.floats(0.5, 6))
    def fall_silent(self, seconds: float) -> None:
        self.house.reactor.advance(seconds)

    @rule()
    def every_number_finds_its_topic(self) -> None:
        for namespace in self.tested[0].ask(q.ListNamespaces()).namespaces:
            topics = self.tested[0].ask(q.ListTopics(namespace.id)).topics
            assert len({topic.id for topic in topics}) == len(topics)
            for topic in topics:
                assert topic.id >> 24 == HERE.owner(namespace.name, topic.name)
                assert self.tested[1].ask(q.DescribeTopic(q.Topic(namespace.id, topic.id))) == topic

    def compare(self, command: q.Command, client: int) -> None:
        pair = self.pair(command)
        if pair is None:
            return
        mine, theirs = pair
        there = self.exists(mine)
        self.same(mine, there, self.tested[client].ask(theirs), self.model[client].ask(mine))

    def same(self, command: q.Command, there: bool, outcome: Any, expected: Any) -> None:
        if not there and fault(outcome) in (Fault.NO_SUCH_TOPIC, Fault.NO_SUCH_NAMESPACE):
            assert fault(expected) is not None  # maybe another one, which was looked at first
        elif isinstance(command, q.DescribeGroup) and not command.topic.name and fault(expected) is None:
            assert outcome.name == expected.name  # it may be that of another topic, if there are several
        else:
            assert plain(outcome) == plain(expected)

    # -- what to ask of each

    def pair(self, command: q.Command, burst: bool = False) -> tuple[q.Command, q.Command] | None:
        """The command for the model and the same for the routes, None if they have to differ in it.

        In a burst nobody knows what will be numbered how.
        """
        if getattr(command, "exclusive", False):
            command = msgspec.structs.replace(command, exclusive=False)
        field = "subject" if isinstance(command, q.FindLeader) else "topic"
        topic = getattr(command, field, None)
        if not isinstance(topic, q.Topic):
            return command, command
        if burst and isinstance(topic.name, int) and self.find(topic) is None:
            topic = q.Topic(topic.namespace, "b")
            command = msgspec.structs.replace(command, **{field: topic})
        theirs = msgspec.structs.replace(command, **{field: q.Topic(topic.namespace, self.reference(topic))})
        if isinstance(command, q.AlterTopic) and self.moves(command):
            if not burst:
                outcome = self.tested[0].ask(theirs)
                assert fault(outcome) is Fault.UNSUPPORTED or not self.exists(command)
            return None
        return command, theirs

    def find(self, topic: q.Topic) -> Any:
        try:
            return self.one._state.find(topic)
        except CommandFailed:
            return None

    def exists(self, command: q.Command) -> bool:
        topic = getattr(command, "topic", None)
        topic = getattr(command, "subject", None) if topic is None else topic
        return not isinstance(topic, q.Topic) or self.find(topic) is not None

    def moves(self, command: q.AlterTopic) -> bool:
        """Whether a topic would go from one owner to another."""
        found = self.find(command.topic)
        if found is None:
            return True
        owners = {HERE.owner(found.namespace.name, name) for name in (found.name, command.name or found.name)}
        return len(owners) == 2

    def reference(self, topic: q.Topic) -> int | str:
        """How clients of the routes refer to it."""
        if isinstance(topic.name, str):
            return topic.name
        found = self.find(topic)
        if found is None:
            return NOWHERE
        route = HERE.owner(found.namespace.name, found.name)
        state = self.house.parts[route].backend._state
        there = state.find(q.Topic(found.namespace.name, found.name))
        assert there is not None, "it has what the model has"
        number: int = there.id
        return number + route * HIGH


TestBesideOne = BesideOne.TestCase
TestBesideOne.settings = settings(stateful_step_count=30, report_multiple_bugs=False)
