"""gateway.net.roster: who is connected, as those who are connected see it."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

import gateway
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import (
    Authenticated,
    MembershipDescription,
    Memberships,
    NodeDescription,
    ProcessDescription,
    SessionDescription,
    Sessions,
)
from net.peers import Client, Node, Scripted

ORDERS = q.Topic("default", "orders")
SALES = q.Topic("default", "sales")
COUNTED = NodeDescription("memory", "1", "memory", 5, 1, 2, 3, 4, 5, 6)


def memory() -> Node:
    clock = Clock()
    return Node(MemoryBackend(clock), "native", clock)


def sessions(client: Client) -> tuple[SessionDescription, ...]:
    listed = client.ask(q.ListSessions())
    assert isinstance(listed, Sessions)
    return listed.sessions


def described(client: Client, session: int | None = None) -> SessionDescription:
    found = client.ask(q.DescribeSession(session))
    assert isinstance(found, SessionDescription)
    return found


def join(topic: q.Topic, group: str, create: int = 1) -> q.JoinGroup:
    return q.JoinGroup(topic, group, "", q.WhileConnected(), create=create)


def test_everybody_who_is_connected_is_listed_oldest_first() -> None:
    node = memory()
    first, second = Client(node), Client(node)
    assert [session.id for session in sessions(second)] == [1, 2]
    first.peer.lose()
    third = Client(node)
    assert [session.id for session in sessions(third)] == [2, 3], "an id is not given twice"
    assert len(node.port.roster) == 2


def test_a_session_is_described_with_its_dialect_listener_and_peer() -> None:
    node = memory()
    client, other = Client(node), Client(node)
    mine = described(client)
    assert mine.opened > 0
    assert mine == SessionDescription(1, "native", "test", "192.168.1.1:54321", None, mine.opened)
    assert described(other, 1) == mine


def test_a_session_that_is_gone_is_described_to_nobody() -> None:
    node = memory()
    Client(node).peer.lose()
    outcome = Client(node).ask(q.DescribeSession(1))
    assert isinstance(outcome, CommandFailed)
    assert outcome.fault is Fault.NO_SUCH_SESSION


def test_without_a_user_store_everybody_is_who_they_say() -> None:
    client = Client(memory())
    assert client.ask(q.Authenticate("plain", "ann", "secret")) == Authenticated("ann", 1)
    assert described(client).principal == "ann"


# -- what groups they are in


def test_sessions_are_described_with_the_groups_they_are_in() -> None:
    node = memory()
    first, second, third = Client(node), Client(node), Client(node)
    for client, topic, group in ((first, ORDERS, "g"), (third, ORDERS, "g"), (first, SALES, "h")):
        assert not isinstance(client.ask(join(topic, group)), CommandFailed)
    namespace = q.DEFAULT_NAMESPACE_ID
    in_g, in_h = MembershipDescription(1, namespace, 1, 1), MembershipDescription(1, namespace, 2, 1)
    assert [set(session.memberships) for session in sessions(second)] == [
        {in_g, in_h},
        set(),
        {MembershipDescription(3, namespace, 1, 1)},
    ]
    assert set(described(second, 1).memberships) == {in_g, in_h}
    assert described(second).memberships == ()
    assert not isinstance(first.ask(q.LeaveGroup(ORDERS, "g", "")), CommandFailed)
    assert described(second, 1).memberships == (in_h,)
    first.peer.lose()
    assert [session.memberships for session in sessions(second)] == [(), (MembershipDescription(3, namespace, 1, 1),)]


def test_members_that_live_by_heartbeats_are_of_no_session() -> None:
    client = Client(memory())
    client.ask(q.JoinGroup(ORDERS, "g", "m", q.Heartbeats(10.0), create=1))
    assert described(client).memberships == ()


def test_a_backend_may_take_its_time_to_say_who_is_in_which_groups() -> None:
    backend = Scripted()
    node = Node(backend, "native")
    client, other = Client(node), Client(node)
    one, all_ = client.begin(q.DescribeSession(), q.ListSessions())
    assert backend.asked == [q.ListMemberships(1), q.ListMemberships(None)]
    other.peer.lose()
    of_both = (MembershipDescription(1, 7, 8, 9), MembershipDescription(2, 7, 8, 9))
    backend.answer(Memberships(of_both[:1]), 1)
    backend.answer(Memberships(of_both))
    client.listen()
    mine = client.outcomes[one]
    assert isinstance(mine, SessionDescription)
    assert mine.memberships == of_both[:1]
    assert client.outcomes[all_] == Sessions((mine,)), "who left meanwhile is not listed"


@pytest.mark.parametrize("at_once", [True, False])
def test_where_the_backend_knows_of_no_groups_nobody_is_in_one(at_once: bool) -> None:
    unsupported = CommandFailed(Fault.UNSUPPORTED)
    backend = Scripted({q.ListMemberships: unsupported} if at_once else {})
    client = Client(Node(backend, "native"))
    tags = client.begin(q.DescribeSession(), q.ListSessions())
    for waiting in backend.open:
        waiting.errback(unsupported)
    client.listen()
    mine, listed = (client.outcomes[tag] for tag in tags)
    assert isinstance(mine, SessionDescription)
    assert mine.memberships == ()
    assert listed == Sessions((mine,))


def test_a_backend_that_cannot_say_now_who_is_in_which_groups_is_not_taken_to_know_of_none() -> None:
    client = Client(Node(Scripted({q.ListMemberships: CommandFailed(Fault.UNAVAILABLE)}), "native"))
    outcome = client.ask(q.ListSessions())
    assert isinstance(outcome, CommandFailed)
    assert outcome.fault is Fault.UNAVAILABLE


# -- the node


def test_a_node_is_described_with_its_sessions_and_its_process() -> None:
    node = memory()
    client, other = Client(node), Client(node)
    client.ask(q.CreateTopic(ORDERS, 3))
    found = client.ask(q.Describe())
    assert isinstance(found, NodeDescription)
    assert (found.node, found.version, found.topics, found.partitions) == ("memory", gateway.__version__, 1, 3)
    assert found.sessions == 2
    assert found.process is not None
    assert found.process.memory > 1 << 20
    other.peer.lose()
    again = client.ask(q.Describe())
    assert isinstance(again, NodeDescription)
    assert again.sessions == 1


@pytest.mark.parametrize("at_once", [True, False])
def test_what_the_backend_counts_is_left_as_it_is(at_once: bool) -> None:
    backend = Scripted({q.Describe: COUNTED} if at_once else {})
    client = Client(Node(backend, "native"))
    (tag,) = client.begin(q.Describe())
    backend.answer(COUNTED)
    client.listen()
    found = client.outcomes[tag]
    assert isinstance(found, NodeDescription)
    assert isinstance(found.process, ProcessDescription)
    assert found == NodeDescription(
        *(getattr(COUNTED, name) for name in COUNTED.__struct_fields__[:10]), 1, found.process
    )


def test_a_node_that_cannot_be_described_is_not() -> None:
    client = Client(Node(Scripted({q.Describe: CommandFailed(Fault.UNAVAILABLE)}), "native"))
    outcome = client.ask(q.Describe())
    assert isinstance(outcome, CommandFailed)
    assert outcome.fault is Fault.UNAVAILABLE


def test_only_what_it_must_reaches_the_backend() -> None:
    backend = Scripted({q.ListMemberships: Memberships(()), q.Describe: COUNTED})
    client = Client(Node(backend, "native"))
    asked = (q.ListSessions(), q.DescribeSession(), q.Describe(), q.Authenticate("plain", "ann", "secret"), q.Logout())
    for command in asked:
        client.ask(command)
    assert backend.asked == [q.ListMemberships(None), q.ListMemberships(1), q.Describe()]
