"""gateway.dialects.pipe: consumer groups as neighbors of other dialects see them, and as time passes.

What one client sees of them, the cases beside the dialect say: groups.toml.
"""

from __future__ import annotations

from typing import Any

import pytest

import wire
from dialects.pipe_peers import Asked, Broker, create, join, of
from gateway.core.commands import (
    CommitOffsets,
    CreateTopic,
    Fetch,
    FetchOffsets,
    Group,
    Heartbeat,
    Heartbeats,
    JoinGroup,
    LeaveGroup,
    Session,
    SyncGroup,
    WhileConnected,
)
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import registry
from gateway.core.replies import CommittedOffsets, Done, Joined, Records, Reply
from gateway.dialects import Call
from gateway.dialects.pipe import DIALECT
from gateway.dialects.pipe.cluster import MAX_KEPT, Cluster
from gateway.dialects.pipe.terms import PipeSettings

ORDERS = of("orders")


class Team(Broker):
    """Every request comes on a connection of its own, as followers send it."""

    def told(self, asked: Asked) -> Reply | Fault:
        [answer] = self.asks(asked)
        return answer

    def join(self, member: str, assignor: str = "") -> tuple[int, tuple[int, ...]]:
        """Generation and partitions."""
        joined = self.told(join(member, assignor))
        assert isinstance(joined, Joined)
        return joined.generation, joined.assignment

    def beat(self, member: str, generation: int) -> Reply | Fault:
        return self.told(Heartbeat(ORDERS, "team", member, generation))

    def leave(self, member: str, generation: int) -> Reply | Fault:
        return self.told(LeaveGroup(ORDERS, "team", member, generation))

    def commit(self, member: str, generation: int, partition: int, offset: int) -> Reply | Fault:
        return self.told(CommitOffsets(ORDERS, Group("team"), {partition: offset}, member, generation))

    def neighbor(self, member: str, **more: Any) -> Joined:
        """A member that speaks another dialect."""
        joined = self.backend.execute(JoinGroup(ORDERS, "team", member, Heartbeats(10.0), **more), Session(99))
        assert isinstance(joined, Joined)
        return joined


def test_a_member_that_names_no_assignor_leaves_that_of_the_others() -> None:
    team = Team(partitions=4)
    assert [team.join("a", "range"), team.join("b")] == [(1, (0, 1, 2, 3)), (2, (2, 3))]
    for _ in range(3):
        assert [team.join("a", "range"), team.join("b")] == [(2, (0, 1)), (2, (2, 3))]


def test_members_of_other_dialects_and_ours_do_not_take_the_assignor_from_each_other() -> None:
    team = Team(partitions=4)
    team.backend.execute(CreateTopic(ORDERS, 4), Session(9))
    assert team.neighbor("n").assignment == (0, 1, 2, 3)
    assert team.join("v") == (2, (1, 3)), "a V1 member is here for the first time: by turns"
    for _ in range(3):
        assert (team.neighbor("n").generation, team.join("v")) == (2, (2, (1, 3)))
    assert team.neighbor("n", assignor="range").assignment == (0, 1)
    for _ in range(3):
        assert (team.join("v"), team.neighbor("n", assignor="range").generation) == ((3, (2, 3)), 3)


def test_a_connected_member_shares_with_ours() -> None:
    team = Team()
    team.join("v")
    command = JoinGroup(ORDERS, "team", "w", WhileConnected())
    assert team.backend.execute(command, Session(99)) == Joined("w", 2, (1,))
    assert team.join("v") == (2, (0, 2))


def test_joining_makes_the_topic() -> None:
    team = Team(partitions=2)
    assert team.told(join("a", topic="bills")) == Joined("a", 1, (0, 1))
    assert team.told(Fetch(of("bills"), 1, 0)) == Records(1, 0, 0)


def test_a_join_that_failed_has_not_chosen_for_the_group() -> None:
    session = DIALECT.open(PipeSettings(), registry([])).session()

    def called(topic: str) -> Call:
        [call] = session.receive(wire.request("pipe", join("a", topic=topic), "1"), 0.0)
        return call

    for outcome in (CommandFailed(Fault.UNAVAILABLE), Joined("a", 1, ())):
        call = called("orders")
        assert call.request.command == join("a", "round_robin")
        session.answer(call, outcome)
    assert called("orders").request.command == join("a")
    assert called("bills").request.command == join("a", "round_robin", "bills")


def test_the_group_that_was_joined_longest_ago_is_forgotten() -> None:
    cluster = Cluster()
    for number in range(MAX_KEPT + 1):
        cluster.assign("orders", str(number))
    assert [cluster.assigned("orders", name) for name in ("0", "1")] == [False, True]


@pytest.mark.parametrize("members", [("consumer-a",), ("consumer-a", "consumer-b")])
def test_nobody_leaves_for_another_whose_name_begins_alike(members: tuple[str, ...]) -> None:
    team = Team()
    for member in members:
        generation, _ = team.join(member)
    assert team.leave("consumer", generation) is Fault.NOT_A_MEMBER
    assert team.beat(members[0], generation) == Done()
    named = team.neighbor("consumer", distinct=True)
    assert team.leave("consumer", named.generation) is Fault.NOT_A_MEMBER
    assert team.leave(named.member, named.generation) == Done()


def test_a_member_that_is_silent_for_more_than_ten_seconds_is_out() -> None:
    team = Team()
    team.join("a")
    team.join("b")
    team.node.wait(4.0)
    assert team.told(SyncGroup(ORDERS, "team", "b", 2)) == Joined("b", 2, (1,))
    team.node.wait(6.0)
    assert team.commit("a", 2, 0, 1) == Done(), "ten seconds are not more than ten"
    team.node.wait(0.5)
    assert team.beat("b", 2) is Fault.STALE_GENERATION
    assert team.commit("a", 3, 0, 2) is Fault.NOT_A_MEMBER, "a commit is no sign of life"
    assert team.join("b") == (3, (0, 1, 2))
    assert team.join("a") == (4, (0, 2))


def test_when_all_are_out_the_next_one_begins_where_they_stopped() -> None:
    team = Team()
    team.join("a")
    team.commit("a", 1, 0, 5)
    team.node.wait(60.0)
    assert team.join("b") == (3, (0, 1, 2))
    assert team.told(FetchOffsets(ORDERS, Group("team"), (0,))) == CommittedOffsets({0: 5})


def test_members_live_by_their_heartbeats_and_not_by_their_connections() -> None:
    team = Team()
    team.join("a")
    team.join("b")
    for _ in range(30):
        team.node.wait(2.0)
        assert team.beat("a", 2) == team.beat("b", 2) == Done()


def test_a_group_shares_the_partitions_that_a_topic_really_has() -> None:
    team = Team()
    team.told(create("orders", 4))
    team.join("a")
    assert team.join("b") == (2, (1, 3))
