"""gateway.dialects.pipe: consumer groups end to end, as V1 clients and their neighbors of other dialects see them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from twisted.internet.task import Clock

from backends.driving import PATIENCE, Driver, Reactor
from gateway.backends.memory import MemoryBackend
from gateway.backends.sqlite import SqliteBackend
from gateway.core.commands import CreateTopic, Heartbeats, JoinGroup, Session, Topic, WhileConnected
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import registry
from gateway.core.replies import Joined
from gateway.dialects.pipe import DIALECT
from gateway.dialects.pipe.cluster import MAX_KEPT, Cluster
from gateway.dialects.pipe.terms import PipeSettings
from net.peers import Node

ORDERS = Topic("default", "orders")
STALE = "ERR|GENERATION_MISMATCH|stale generation"
STRANGER = "ERR|GENERATION_MISMATCH|unknown member"
NO_GROUP = "ERR|GENERATION_MISMATCH|group not found"
NOT_OWNER = "ERR|GENERATION_MISMATCH|partition not assigned to member"


class Team:
    """A pipe listener before a memory backend; every request comes on a connection of its own, as followers send it."""

    def __init__(self, **settings: object) -> None:
        self.clock = Clock()
        self.backend = MemoryBackend(self.clock, lambda: 0)
        self.node = Node(self.backend, "pipe", self.clock, **settings)

    def ask(self, request: str) -> str:
        """What stands behind the correlation value in the one line that answers."""
        peer = self.node.connect()
        peer.send(f"V1|7|{request}\n".encode())
        answer = peer.read().decode()
        peer.lose()
        assert answer.startswith("V1|7|") and answer.count("\n") == 1
        return answer[5:-1]

    def asks(self, *requests: str) -> list[str]:
        return [self.ask(request) for request in requests]

    def join(self, member: str, more: str = "") -> str:
        """`generation [partitions]`."""
        said = self.ask(f"JOIN|team orders {member}{more}")
        assert said.startswith("OK|generation=")
        return said.removeprefix("OK|generation=").replace("assigned=", "")

    def neighbor(self, member: str, **more: Any) -> Joined:
        """A member that speaks another dialect."""
        joined = self.backend.execute(JoinGroup(ORDERS, "team", member, Heartbeats(10.0), **more), Session(99))
        assert isinstance(joined, Joined)
        return joined


def test_the_first_member_has_everything_in_generation_two() -> None:
    team = Team()
    assert (
        team.asks("JOIN|team orders consumer-a", "SYNC|team orders consumer-a 2")
        == ["OK|generation=2 assigned=[0 1 2]"] * 2
    )
    assert team.ask("HEARTBEAT|team orders consumer-a 2") == "OK|heartbeat=ok"


def test_a_member_that_joins_again_stays_in_its_generation() -> None:
    team = Team()
    assert [team.join("a"), team.join("a"), team.join("b"), team.join("a"), team.join("b")] == [
        *["2 [0 1 2]"] * 2,
        "3 [1]",
        "3 [0 2]",
        "3 [1]",
    ]


def test_members_that_name_no_assignor_take_turns_in_the_order_of_their_names() -> None:
    team = Team(partitions=7)
    for member in "cab":
        team.join(member)
    assert [team.join(member) for member in "abc"] == ["4 [0 3 6]", "4 [1 4]", "4 [2 5]"]


def test_more_members_than_partitions_leave_some_with_nothing() -> None:
    team = Team()
    for member in "abc":
        team.join(member)
    assert team.join("d") == "5 []"
    assert team.ask("SYNC|team orders d 5") == "OK|generation=5 assigned=[]"


def test_range_gives_blocks_and_the_first_members_one_more() -> None:
    team = Team(partitions=5)
    assert team.join("a", " assignor=range") == "2 [0 1 2 3 4]"
    assert team.join("b", " Assignor=Range") == "3 [3 4]"
    assert team.ask("SYNC|team orders a 3") == "OK|generation=3 assigned=[0 1 2]"


def test_another_assignor_is_another_generation() -> None:
    team = Team(partitions=4)
    team.join("a")
    team.join("b")
    assert team.join("a", " assignor=round_robin") == "3 [0 2]"
    assert team.join("a", " assignor=range") == "4 [0 1]"
    assert team.ask("HEARTBEAT|team orders b 3") == STALE
    assert team.join("b") == "4 [2 3]"


def test_a_member_that_names_no_assignor_leaves_that_of_the_others() -> None:
    team = Team(partitions=4)
    assert [team.join("a", " assignor=range"), team.join("b")] == ["2 [0 1 2 3]", "3 [2 3]"]
    for _ in range(3):
        assert [team.join("a", " assignor=range"), team.join("b")] == ["3 [0 1]", "3 [2 3]"]


def test_members_of_other_dialects_and_ours_do_not_take_the_assignor_from_each_other() -> None:
    team = Team(partitions=4)
    team.backend.execute(CreateTopic(ORDERS, 4), Session(9))
    assert team.neighbor("n").assignment == (0, 1, 2, 3)
    assert team.join("v") == "3 [1 3]", "a V1 member is here for the first time: by turns"
    for _ in range(3):
        assert (team.neighbor("n").generation, team.join("v")) == (2, "3 [1 3]")
    assert team.neighbor("n", assignor="range").assignment == (0, 1)
    for _ in range(3):
        assert (team.join("v"), team.neighbor("n", assignor="range").generation) == ("4 [2 3]", 3)


def test_a_connected_member_shares_with_ours() -> None:
    team = Team()
    team.join("v")
    command = JoinGroup(ORDERS, "team", "w", WhileConnected())
    assert team.backend.execute(command, Session(99)) == Joined("w", 2, (1,))
    assert team.join("v") == "3 [0 2]"


def test_joining_makes_the_topic() -> None:
    team = Team(partitions=2)
    assert team.ask("JOIN|team bills a") == "OK|generation=2 assigned=[0 1]"
    assert team.ask("CONSUME|bills 1 0") == "OK|messages= hw=-1"


def test_a_join_that_failed_has_not_chosen_for_the_group() -> None:
    session = DIALECT.open(msgspec.convert({}, PipeSettings), registry([])).session()
    line = b"V1|1|JOIN|team orders a\n"
    for outcome in (CommandFailed(Fault.UNAVAILABLE), Joined("a", 1, ())):
        [call] = session.receive(line, 0.0)
        assert call.request.command.assignor == "round_robin"  # type: ignore[union-attr]
        session.answer(call, outcome)
    [call] = session.receive(line, 0.0)
    assert call.request.command.assignor == ""  # type: ignore[union-attr]
    [call] = session.receive(b"V1|1|JOIN|team bills a\n", 0.0)
    assert call.request.command.assignor == "round_robin"  # type: ignore[union-attr]


def test_the_group_that_was_joined_longest_ago_is_forgotten() -> None:
    cluster = Cluster()
    for number in range(MAX_KEPT + 1):
        cluster.assign("orders", str(number))
    assert [cluster.assigned("orders", name) for name in ("0", "1")] == [False, True]


@pytest.mark.parametrize("verb", ["SYNC", "HEARTBEAT", "LEAVE"])
def test_who_is_asked_for_has_to_be_there(verb: str) -> None:
    team = Team()
    for topic in ("orders", "bills"):
        assert team.ask(f"{verb}|team {topic} a 2") == NO_GROUP
    team.join("a")
    assert team.asks(
        f"{verb}|other orders a 2", f"{verb}|team bills a 2", f"{verb}|team orders b 2", f"{verb}|team orders a 1"
    ) == [NO_GROUP, NO_GROUP, STRANGER, STALE]
    assert team.ask("HEARTBEAT|team orders a 2") == "OK|heartbeat=ok"


def test_a_member_that_leaves_leaves_its_partitions() -> None:
    team = Team()
    team.join("a")
    team.join("b")
    assert team.ask("LEAVE|team orders b 3") == "OK|left=true"
    assert team.ask("LEAVE|team orders b 4") == STRANGER
    assert team.ask("COMMIT|team orders a 3 0 1") == STALE
    assert team.join("a") == "4 [0 1 2]"
    assert team.ask("LEAVE|team orders a 4") == "OK|left=true"
    assert team.join("a") == "6 [0 1 2]"


@pytest.mark.parametrize("members", [("consumer-a",), ("consumer-a", "consumer-b")])
def test_nobody_leaves_for_another_whose_name_begins_alike(members: tuple[str, ...]) -> None:
    team = Team()
    for member in members:
        generation = team.join(member).split()[0]
    assert team.ask(f"LEAVE|team orders consumer {generation}") == STRANGER
    assert team.ask(f"HEARTBEAT|team orders {members[0]} {generation}") == "OK|heartbeat=ok"
    named = team.neighbor("consumer", distinct=True)
    assert team.ask(f"LEAVE|team orders consumer {named.generation + 1}") == STRANGER
    assert team.ask(f"LEAVE|team orders {named.member} {named.generation + 1}") == "OK|left=true"


def test_only_the_owner_commits_and_only_in_its_generation() -> None:
    team = Team()
    team.join("a")
    team.join("b")
    assert team.asks(
        "COMMIT|team orders a 3 0 42",
        "COMMIT|team orders a 3 1 42",
        "COMMIT|team orders a 3 99 42",
        "COMMIT|team orders a 2 0 43",
        "COMMIT|team orders c 3 0 43",
        "COMMIT|other orders a 3 0 43",
        "COMMIT|team bills a 3 0 43",
    ) == ["OK|committed=true", NOT_OWNER, NOT_OWNER, STALE, STRANGER, NO_GROUP, NO_GROUP]
    assert team.asks("OFFSET|team orders 0", "OFFSET|team orders 1", "OFFSET|other orders 0") == [
        "OK|offset=42",
        "OK|offset=0",
        "OK|offset=0",
    ]


def test_a_commit_of_the_first_form_is_stored_without_a_look_at_the_group() -> None:
    team = Team()
    team.ask("PRODUCE|orders user1:v")
    assert team.asks("COMMIT|team orders 1 42", "COMMIT|team orders 1 7", "OFFSET|team orders 1") == [
        "OK|committed=true",
        "OK|committed=true",
        "OK|offset=7",
    ]
    assert team.join("a") == "2 [0 1 2]"
    assert team.asks("COMMIT|team orders 1 8", "COMMIT|team orders a 2 1 9", "OFFSET|team orders 1") == [
        "OK|committed=true",
        "OK|committed=true",
        "OK|offset=9",
    ]


def test_a_member_that_is_silent_for_more_than_ten_seconds_is_out() -> None:
    team = Team()
    team.join("a")
    team.join("b")
    team.node.wait(4.0)
    assert team.ask("SYNC|team orders b 3") == "OK|generation=3 assigned=[1]"
    team.node.wait(6.0)
    assert team.ask("COMMIT|team orders a 3 0 1") == "OK|committed=true", "ten seconds are not more than ten"
    team.node.wait(0.5)
    assert team.ask("HEARTBEAT|team orders b 3") == STALE
    assert team.ask("COMMIT|team orders a 4 0 2") == STRANGER, "a commit is no sign of life"
    assert team.join("b") == "4 [0 1 2]"
    assert team.join("a") == "5 [0 2]"


def test_when_all_are_out_the_next_one_begins_where_they_stopped() -> None:
    team = Team()
    team.join("a")
    team.ask("COMMIT|team orders a 2 0 5")
    team.node.wait(60.0)
    assert team.join("b") == "4 [0 1 2]"
    assert team.ask("OFFSET|team orders 0") == "OK|offset=5"


def test_members_live_by_their_heartbeats_and_not_by_their_connections() -> None:
    team = Team()
    team.join("a")
    team.join("b")
    for _ in range(30):
        team.node.wait(2.0)
        assert team.asks("HEARTBEAT|team orders a 3", "HEARTBEAT|team orders b 3") == ["OK|heartbeat=ok"] * 2


def test_a_group_shares_the_partitions_that_a_topic_really_has() -> None:
    team = Team()
    team.ask("ADMIN_CREATE_TOPIC|orders 4 1")
    team.join("a")
    assert team.join("b") == "3 [1 3]"


def test_a_store_that_takes_its_time_says_the_same(tmp_path: Path) -> None:
    reactor = Reactor()
    backend = SqliteBackend(tmp_path, registry([]), reactor, lambda: 0)
    peer = Node(backend, "pipe", reactor).connect()
    for request, answer in {
        "JOIN|team orders a": "OK|generation=2 assigned=[0 1 2]",
        "HEARTBEAT|team orders a 2": "OK|heartbeat=ok",
        "JOIN|team orders b": "OK|generation=3 assigned=[1]",
        "SYNC|team orders a 3": "OK|generation=3 assigned=[0 2]",
        "COMMIT|team orders a 3 0 5": "OK|committed=true",
        "COMMIT|team orders a 3 1 5": NOT_OWNER,
        "COMMIT|team orders 1 6": "OK|committed=true",
        "OFFSET|team orders 0": "OK|offset=5",
        "OFFSET|team orders 1": "OK|offset=6",
        "LEAVE|team orders b 3": "OK|left=true",
        "SYNC|team orders a 4": "OK|generation=4 assigned=[0 1 2]",
    }.items():
        peer.send(f"V1|1|{request}\n".encode())
        while not (said := peer.read()):
            reactor._calls.get(timeout=PATIENCE)()
        assert said.decode() == f"V1|1|{answer}\n"
    Driver(backend, reactor).close()


def test_a_group_of_another_topic_has_committed_nothing_here() -> None:
    team = Team()
    team.asks("PRODUCE|bills k:v", "PRODUCE|orders k:v", "COMMIT|team bills 0 1")
    assert team.ask("OFFSET|team bills 0") == "OK|offset=1"
    assert team.ask("OFFSET|team orders 0") == "OK|offset=0"
