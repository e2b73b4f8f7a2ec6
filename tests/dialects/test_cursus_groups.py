"""gateway.dialects.cursus: how long members of groups last, over connections and the memory backend.

What a group's commands are answered is in gateway/dialects/cursus/cases, groups, offsets and seed.
"""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.commands import Command, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Done, Groups, Joined, Outcome
from net.peers import Client, Node

ORDERS, BILLS = Topic("default", "orders"), Topic("default", "bills")


class Member:
    """Asks one thing at a time, everything on a connection of its own, as Java and Python do."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.node = Node(MemoryBackend(self.clock, lambda: 1_000_000), "cursus", self.clock)
        self.grow(ORDERS, 2)
        self.grow(BILLS, 1)

    def ask(self, command: Command) -> Outcome:
        client = Client(self.node)
        answer = client.ask(command)
        client.peer.lose()
        return answer

    def grow(self, topic: Topic, partitions: int) -> None:
        self.ask(q.CreateTopic(topic, partitions, if_exists=q.IfExists.GROW))

    def join(self, member: str, topic: Topic = ORDERS) -> Joined:
        joined = self.ask(q.JoinGroup(topic, "g", member, q.Heartbeats(), distinct=True))
        assert isinstance(joined, Joined)
        return joined

    def sync(self, joined: Joined, generation: int) -> Outcome:
        return self.ask(q.SyncGroup(ORDERS, "g", joined.member, generation))

    def beat(self, joined: Joined) -> Outcome:
        return self.ask(q.Heartbeat(ORDERS, "g", joined.member, joined.generation))


@pytest.fixture
def member() -> Member:
    return Member()


def fault(outcome: Outcome) -> Fault:
    assert isinstance(outcome, CommandFailed)
    return outcome.fault


def test_a_member_that_syncs_has_given_a_sign_of_life(member: Member) -> None:
    joined = member.join("c1")
    member.clock.advance(9)
    assert member.sync(joined, 1) == Joined(joined.member, 1, (0, 1))
    member.clock.advance(9)
    assert member.beat(joined) == Done()


def test_a_member_that_is_silent_is_dropped_after_ten_seconds(member: Member) -> None:
    joined = member.join("c1")
    member.clock.advance(10)
    assert member.beat(joined) == Done()
    member.clock.advance(10.1)
    assert fault(member.beat(joined)) is Fault.NOT_A_MEMBER


def test_members_share_the_partitions_that_a_topic_has_grown(member: Member) -> None:
    joined = member.join("c1")
    member.grow(ORDERS, 3)
    assert fault(member.beat(joined)) is Fault.STALE_GENERATION
    assert member.sync(joined, 2) == Joined(joined.member, 2, (0, 1, 2))


def test_groups_go_with_their_topic(member: Member) -> None:
    member.join("c1")
    member.ask(q.DeleteTopic(ORDERS))
    assert member.ask(q.ListGroups("default")) == Groups(())
    assert member.join("c1", BILLS).generation == 1


@pytest.mark.parametrize(
    "command",
    [
        q.JoinGroup(ORDERS, "g" * 256, "m", q.Heartbeats(), distinct=True),
        q.CreateGroup(ORDERS, "g" * 256, if_exists=q.IfExists.KEEP),
    ],
)
def test_a_group_whose_name_is_too_long_is_none(member: Member, command: Command) -> None:
    assert fault(member.ask(command)) is Fault.INVALID_NAME
