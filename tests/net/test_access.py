"""gateway.net.access: one policy for every dialect, asked before anything is done."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical
from gateway.net.access import AccessRule, Guarded, Policy, fits, touches
from gateway.net.users import User, Users, new_password
from net.peers import Client, Node

ORDERS = q.Topic("default", "orders")
LOGS = q.Topic("default", "logs")
SALES = q.Topic("sales", "orders")


def session(principal: str | None = None) -> Session:
    return Session(1, "test", principal=principal)


class Place:
    """A memory behind rules, with a topic `orders` in two namespaces and `logs` in one."""

    def __init__(self, *rules: AccessRule) -> None:
        self.memory = MemoryBackend(Clock())
        self.guarded = Guarded(self.memory, Policy(rules))
        nobody = session()
        self.memory.execute(q.CreateNamespace("sales"), nobody)
        for topic in (ORDERS, LOGS, SALES):
            self.memory.execute(q.CreateTopic(topic, 1), nobody)

    def ask(self, command: q.Command, who: str | None = None) -> Any:
        """The reply, or the fault."""
        results: list[Any] = []
        try:
            reply = self.guarded.execute(command, session(who))
        except CommandFailed as failure:
            return failure.fault
        if isinstance(reply, Deferred):
            reply.addBoth(results.append)
            [reply] = results
        return reply


def published(topic: q.Topic, create: int = 0) -> q.Publish:
    return q.Publish(topic, 0, canonical([Record(value=b"v")], "test"), create=create)


def test_without_rules_everything_is_allowed() -> None:
    place = Place()
    assert isinstance(place.ask(published(ORDERS)), r.Published)
    assert isinstance(place.ask(q.DeleteNamespace("sales")), r.Done)


def test_the_first_rule_that_fits_decides_and_what_none_fits_is_refused() -> None:
    place = Place(
        AccessRule(False, ("ann",), ("Publish",), ("logs",)),
        AccessRule(True, ("ann",), ("*",), ("*",)),
        AccessRule(True, ("bob",), ("Fetch", "DescribeTopic"), ("orders",)),
    )
    assert isinstance(place.ask(published(ORDERS), "ann"), r.Published)
    assert place.ask(published(LOGS), "ann") is Fault.FORBIDDEN
    assert isinstance(place.ask(q.Fetch(ORDERS, 0, 0), "bob"), r.Records)
    assert place.ask(q.Fetch(LOGS, 0, 0), "bob") is Fault.FORBIDDEN
    assert place.ask(published(ORDERS), "bob") is Fault.FORBIDDEN
    assert place.ask(q.ListTopics("default"), "bob") is Fault.FORBIDDEN
    assert place.ask(q.ListTopics("default"), None) is Fault.FORBIDDEN


def test_who_has_not_logged_in_is_anonymous() -> None:
    place = Place(AccessRule(True, ("anonymous",), ("Fetch",), ("*",)))
    assert isinstance(place.ask(q.Fetch(ORDERS, 0, 0)), r.Records)
    assert place.ask(q.Fetch(ORDERS, 0, 0), "ann") is Fault.FORBIDDEN


def test_nobody_is_refused_to_log_in_to_leave_or_to_ask_whether_we_live() -> None:
    place = Place(AccessRule(False))
    for command in (q.Ping(), q.EndSession()):
        assert place.ask(command) is not Fault.FORBIDDEN


def test_who_has_logged_in_may_ask_where_we_are_and_nobody_else_nor_where_a_topic_is() -> None:
    place = Place(AccessRule(True, ("*",), ("*",), ("orders",)))
    assert isinstance(place.ask(q.FindLeader(), "ann"), r.Leader)
    assert place.ask(q.FindLeader()) is Fault.FORBIDDEN
    assert isinstance(place.ask(q.FindLeader(ORDERS), "ann"), r.Leader)
    assert place.ask(q.FindLeader(LOGS), "ann") is Fault.FORBIDDEN


def test_topics_of_other_namespaces_go_by_both_names() -> None:
    place = Place(AccessRule(True, topic=("sales/*",)))
    assert isinstance(place.ask(published(SALES)), r.Published)
    assert place.ask(published(ORDERS)) is Fault.FORBIDDEN
    assert isinstance(place.ask(q.ListTopics("sales")), r.Topics)
    assert place.ask(q.ListTopics("default")) is Fault.FORBIDDEN


def test_a_topic_by_number_is_the_topic_of_that_number() -> None:
    place = Place(AccessRule(True, topic=("logs", "sales/orders")))
    assert isinstance(place.ask(published(q.Topic("default", 2))), r.Published)
    assert place.ask(published(q.Topic("default", 1))) is Fault.FORBIDDEN
    assert isinstance(place.ask(published(q.Topic(1, 1))), r.Published)
    assert isinstance(place.ask(q.CreateTopic(q.Topic(1, "orders"), 1, if_exists=q.IfExists.KEEP)), r.TopicDescription)
    assert place.ask(q.CreateTopic(q.Topic(1, "others"), 1)) is Fault.FORBIDDEN
    assert place.ask(published(q.Topic("default", 77))) is Fault.NO_SUCH_TOPIC


def test_writing_to_a_topic_makes_it_only_where_making_it_is_allowed() -> None:
    place = Place(AccessRule(True, command=("Publish",)))
    assert place.ask(published(q.Topic("default", "new"), create=1)) is Fault.NO_SUCH_TOPIC
    assert isinstance(place.ask(published(ORDERS, create=1)), r.Published)


def test_a_read_that_commits_needs_leave_to_commit() -> None:
    place = Place(AccessRule(True, command=("Fetch",)))
    read = q.Fetch(ORDERS, 0, q.Next(q.Group("g")), commit=True)
    assert place.ask(read) is Fault.FORBIDDEN
    assert isinstance(Place(AccessRule(True, command=("Fetch", "CommitOffsets"))).ask(read), r.Records)


def test_a_topic_is_not_renamed_to_what_one_may_not_touch() -> None:
    place = Place(AccessRule(True, topic=("orders*",)))
    assert place.ask(q.AlterTopic(ORDERS, q.TopicSettings(), "logs2")) is Fault.FORBIDDEN
    assert isinstance(place.ask(q.AlterTopic(ORDERS, q.TopicSettings(), "orders2")), r.TopicDescription)


def test_a_namespace_is_deleted_only_by_who_may_delete_all_in_it() -> None:
    keep = AccessRule(False, topic=("sales/orders",))
    assert Place(keep, AccessRule(True)).ask(q.DeleteNamespace("sales")) is Fault.FORBIDDEN
    assert Place(keep, AccessRule(True)).ask(q.DeleteNamespace(1)) is Fault.FORBIDDEN
    assert isinstance(Place(AccessRule(True, topic=("sales/*",))).ask(q.DeleteNamespace("sales")), r.Done)


def test_a_group_is_shown_to_who_may_see_its_topic() -> None:
    place = Place(AccessRule(True, topic=("orders",)))
    for topic in (ORDERS, LOGS):
        place.memory.execute(q.CreateGroup(topic, f"g-{topic.name}"), session())
    assert isinstance(place.ask(q.DescribeGroup(q.Topic("default", ""), "g-orders")), r.GroupDescription)
    assert place.ask(q.DescribeGroup(q.Topic("default", ""), "g-logs")) is Fault.FORBIDDEN


def test_following_is_asked_for_too() -> None:
    place = Place(AccessRule(True, command=("Fetch",)))
    with pytest.raises(CommandFailed) as refused:
        place.guarded.follow(q.Follow(ORDERS, 0, 0), session(), None)  # type: ignore[arg-type]  # it gets nothing
    assert refused.value.fault is Fault.FORBIDDEN


def test_another_policy_holds_at_once() -> None:
    place = Place(AccessRule(True))
    assert isinstance(place.ask(published(ORDERS)), r.Published)
    place.guarded.policy = Policy([AccessRule(False)])
    assert place.ask(published(ORDERS)) is Fault.FORBIDDEN


names = st.text("ab/", max_size=5)


@given(names, names)
def test_a_pattern_touches_a_prefix_if_it_fits_some_name_that_begins_so(plain: str, prefix: str) -> None:
    for pattern in (plain, f"{plain}*"):
        some = [prefix + end for end in ("", "a", "b")] + [plain, plain + "a"]
        found = any(fits(pattern, name) for name in some if name.startswith(prefix))
        assert touches(pattern, prefix) or not found
    assert touches(f"{plain}*", plain) and touches(plain, plain)


def test_who_is_refused_a_topic_by_number_does_not_learn_its_name() -> None:
    place = Place(AccessRule(True, topic=("orders",)))
    place.memory.execute(q.CreateGroup(LOGS, "g"), session())
    asked: list[q.Command] = [
        q.DescribeTopic(q.Topic("default", 2)),
        q.DescribeGroup(q.Topic("default", ""), "g"),
        q.DeleteNamespace(1),
        q.Fetch(q.Topic(1, 1), 0, 0),
    ]
    for command in asked:
        with pytest.raises(CommandFailed) as refused:
            place.guarded.execute(command, session())
        assert refused.value.fault is Fault.FORBIDDEN
        assert not any(name in repr(refused.value) + repr(refused.value.facts) for name in ("logs", "sales", "orders"))


def test_sessions_are_listed_to_who_may_list_them_and_everybody_may_know_who_he_is() -> None:
    users = (User("ann", 1, new_password("horse", log_n=4)),)
    rules = Policy([AccessRule(True, ("ann",), ("ListSessions", "DescribeSession"))])
    guarded = Guarded(MemoryBackend(Clock()), rules)
    node = Node(guarded, "native", users=Users(users, lambda work: succeed(work())))
    first, second = Client(node), Client(node)
    mine = second.ask(q.DescribeSession())
    assert isinstance(mine, r.SessionDescription) and mine.id == second.peer.connection.who.id
    assert second.ask(q.DescribeSession(mine.id)) == mine
    for command in (q.ListSessions(), q.DescribeSession(first.peer.connection.who.id), q.Describe()):
        outcome = second.ask(command)
        assert isinstance(outcome, CommandFailed) and outcome.fault is Fault.FORBIDDEN
    second.ask(q.Authenticate("plain", "ann", "horse"))
    listed = second.ask(q.ListSessions())
    assert isinstance(listed, r.Sessions) and len(listed.sessions) == 2
    assert isinstance(second.ask(q.DescribeSession(first.peer.connection.who.id)), r.SessionDescription)


class Heard:
    """A follower that keeps what it gets."""

    def __init__(self) -> None:
        self.batches: list[Any] = []
        self.end: CommandFailed | None = None

    def deliver(self, batch: Any) -> None:
        self.batches.append(batch)

    def ended(self, failure: CommandFailed) -> None:
        self.end = failure


def test_a_stream_that_is_under_way_ends_where_another_policy_does_not_allow_it() -> None:
    clock = Clock()
    memory = MemoryBackend(clock)
    memory.execute(q.CreateTopic(ORDERS, 1), session())
    guarded, heard = Guarded(memory, Policy([AccessRule(True)])), Heard()
    guarded.follow(q.Follow(ORDERS, 0, 0), session("ann"), heard)  # type: ignore[arg-type]  # that is all it is
    for policy in (Policy([AccessRule(True, command=("Follow",))]), Policy([AccessRule(True, ("ben",))])):
        guarded.policy = policy
        memory.execute(published(ORDERS), session())
        clock.advance(1.0)
    assert len(heard.batches) == 1
    assert heard.end is not None and heard.end.fault is Fault.FORBIDDEN
    guarded.policy = Policy([AccessRule(True)])
    memory.execute(published(ORDERS), session())
    clock.advance(1.0)
    assert len(heard.batches) == 1, "and does not go on"
