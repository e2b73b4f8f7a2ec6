"""gateway.net.roster: who is connected, as those who are connected see it."""

from __future__ import annotations

from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Authenticated, SessionDescription, Sessions
from net.peers import Client, Node, Scripted


def test_everybody_who_is_connected_is_listed_oldest_first() -> None:
    node = Node(Scripted(), "native")
    first, second = Client(node), Client(node)
    sessions = second.ask(q.ListSessions())
    assert isinstance(sessions, Sessions)
    assert [session.id for session in sessions.sessions] == [1, 2]
    first.peer.lose()
    third = Client(node)
    sessions = third.ask(q.ListSessions())
    assert isinstance(sessions, Sessions)
    assert [session.id for session in sessions.sessions] == [2, 3], "an id is not given twice"
    assert len(node.port.roster) == 2


def test_a_session_is_described_with_its_dialect_listener_and_peer() -> None:
    node = Node(Scripted(), "native")
    client, other = Client(node), Client(node)
    mine = client.ask(q.DescribeSession())
    assert isinstance(mine, SessionDescription)
    assert mine.opened > 0
    assert mine == SessionDescription(1, "native", "test", "192.168.1.1:54321", None, mine.opened)
    assert other.ask(q.DescribeSession(1)) == mine


def test_a_session_that_is_gone_is_described_to_nobody() -> None:
    node = Node(Scripted(), "native")
    Client(node).peer.lose()
    outcome = Client(node).ask(q.DescribeSession(1))
    assert isinstance(outcome, CommandFailed)
    assert outcome.fault is Fault.NO_SUCH_SESSION


def test_without_a_user_store_everybody_is_who_they_say() -> None:
    client = Client(Node(Scripted(), "native"))
    assert client.ask(q.Authenticate("plain", "ann", "secret")) == Authenticated("ann", 1)
    mine = client.ask(q.DescribeSession())
    assert isinstance(mine, SessionDescription)
    assert mine.principal == "ann"


def test_what_the_roster_answers_does_not_reach_the_backend() -> None:
    backend = Scripted()
    client = Client(Node(backend, "native"))
    for command in (q.ListSessions(), q.DescribeSession(), q.Authenticate("plain", "ann", "secret")):
        client.ask(command)
    assert backend.asked == []
