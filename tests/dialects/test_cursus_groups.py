"""gateway.dialects.cursus: consumer groups, in the words of the broker, over a connection and the memory backend."""

from __future__ import annotations

import json
import re

import pytest
from twisted.internet.task import Clock

from gateway.backends.memory import MemoryBackend
from gateway.dialects.cursus import DIALECT
from net.peers import Node, Peer

JAVA = re.compile(r"OK generation=(\d+) member=(\S+) assignments=\[([0-9 ]*)\]")
"""What Java wants the whole answer to a JOIN_GROUP to be."""


class Client:
    """Says one thing at a time, every one on a connection of its own, as Java and Python do."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.node = Node(MemoryBackend(self.clock, lambda: 1_000_000), "cursus", self.clock)
        self.say("CREATE topic=orders partitions=2")
        self.say("CREATE topic=bills partitions=1")

    def say(self, text: str) -> str:
        peer: Peer = self.node.connect()
        peer.send((len(text) + 2).to_bytes(4, "big") + b"\0\0" + text.encode())
        answer = peer.read()
        assert DIALECT.measure_reply(answer, 0, 0) == len(answer), "one frame"
        assert not peer.left
        peer.lose()
        return answer[4:].decode()

    def join(self, member: str, topic: str = "orders", group: str = "g") -> tuple[int, str, str]:
        """(generation, member, partitions)."""
        found = JAVA.fullmatch(self.say(f"JOIN_GROUP topic={topic} group={group} member={member}"))
        assert found is not None
        return int(found[1]), found[2], found[3]

    def heartbeat(self, member: str, generation: int) -> str:
        return self.say(f"HEARTBEAT topic=orders group=g member={member} generation={generation}")

    def commit(self, partition: int, offset: int, generation: int, member: str, topic: str = "orders") -> str:
        where = f"topic={topic} partition={partition} group=g offset={offset}"
        return self.say(f"COMMIT_OFFSET {where} generation={generation} member={member}")


@pytest.fixture
def client() -> Client:
    return Client()


def test_a_member_has_the_name_it_gave_with_four_digits(client: Client) -> None:
    generation, member, owned = client.join("c1")
    assert (generation, owned) == (1, "0 1")
    assert re.fullmatch(r"c1-\d{4}", member)


def test_members_share_the_partitions_in_the_order_of_their_names(client: Client) -> None:
    _, first, _ = client.join("c1")
    generation, second, owned = client.join("c2")
    assert (generation, owned) == (2, "1")
    assert client.heartbeat(first, 1) == f"ERROR: GEN_MISMATCH current=2 requested=1 group=g member={first}"
    assert client.say(f"SYNC_GROUP topic=orders group=g member={first} generation=2") == (
        f"OK generation=2 member={first} assignments=[0]"
    )
    assert client.heartbeat(second, 2) == f"OK member={second} generation=2"
    assert client.join("c3")[2] == "", "more members than partitions"


def test_a_member_may_join_in_the_seeds_order(client: Client) -> None:
    assert JAVA.fullmatch(client.say("JOIN_GROUP orders g c1"))


def test_sync_group_in_a_generation_that_is_over(client: Client) -> None:
    _, member, _ = client.join("c1")
    client.join("c2")
    assert client.say(f"SYNC_GROUP topic=orders group=g member={member} generation=1") == (
        f"ERROR: GEN_MISMATCH current=2 requested=1 group=g member={member}"
    )


def test_a_member_that_comes_back_goes_on_where_it_was(client: Client) -> None:
    _, member, _ = client.join("c1")
    again = f"JOIN_GROUP topic=orders group=g member={member} generation=1"
    client.clock.advance(9)
    assert client.say(again) == f"OK generation=1 member={member} assignments=[0 1] resumed=true"
    client.clock.advance(9)
    assert client.heartbeat(member, 1) == f"OK member={member} generation=1", "coming back was a sign of life"
    client.join("c2")
    assert client.say(again) == f"ERROR: GEN_MISMATCH current=2 requested=1 group=g member={member}"
    client.clock.advance(11)
    assert client.say(again) == f"ERROR: member_not_found member={member} group=g"
    assert client.say(again.replace("group=g", "group=h")) == "ERROR: group_not_found group=h"


def test_a_member_that_is_silent_is_dropped_after_ten_seconds(client: Client) -> None:
    _, member, _ = client.join("c1")
    client.clock.advance(10)
    assert client.heartbeat(member, 1).startswith("OK ")
    client.clock.advance(10.1)
    assert client.heartbeat(member, 1) == f"ERROR: member_not_found member={member} group=g"


def test_a_group_is_bound_to_its_first_topic(client: Client) -> None:
    _, member, _ = client.join("c1")
    other = "ERROR: topic_not_assigned_to_group expected=orders actual=bills"
    for line in (
        "JOIN_GROUP topic=bills group=g member=c2",
        "REGISTER_GROUP topic=bills group=g",
        "SUBSCRIBE topic=bills group=g",
        "SUBSCRIBE bills g",
        "FETCH_OFFSET topic=bills partition=0 group=g",
        f"HEARTBEAT topic=bills group=g member={member} generation=1",
        f"SYNC_GROUP topic=bills group=g member={member} generation=1",
        f"JOIN_GROUP topic=bills group=g member={member} generation=1",
        f"BATCH_COMMIT topic=bills group=g member={member} generation=1 P0:1",
    ):
        assert client.say(line) == other, line
    assert client.commit(0, 1, 1, member, topic="bills") == other


@pytest.mark.parametrize(
    "line",
    [
        "HEARTBEAT topic=orders group=x member=m generation=1",
        "SYNC_GROUP topic=orders group=x member=m generation=1",
        "LEAVE_GROUP topic=orders group=x member=m",
        "FETCH_OFFSET topic=orders partition=0 group=x",
        "COMMIT_OFFSET topic=orders partition=0 group=x offset=1 generation=1 member=m",
        "BATCH_COMMIT topic=orders group=x member=m generation=1 P0:1",
    ],
)
def test_a_group_that_is_not_there(client: Client, line: str) -> None:
    assert client.say(line) == "ERROR: group_not_found group=x"


@pytest.mark.parametrize(
    "line",
    [
        "JOIN_GROUP topic=x group=g member=m",
        "REGISTER_GROUP topic=x group=g",
        "SUBSCRIBE topic=x group=g",
        "FETCH_OFFSET topic=x partition=0 group=g",
    ],
)
def test_a_topic_that_is_not_there(client: Client, line: str) -> None:
    assert client.say(line) == "ERROR: topic_not_found topic=x"


def test_a_group_that_may_not_be_called_so(client: Client) -> None:
    for line in ("JOIN_GROUP topic=orders group={} member=m", "REGISTER_GROUP topic=orders group={}"):
        assert client.say(line.format("g" * 256)) == (
            'ERROR: register_group_failed reason="invalid group or member name"'
        )


def test_commits_are_fenced(client: Client) -> None:
    _, first, _ = client.join("c1")
    _, second, _ = client.join("c2")
    assert client.commit(0, 3, 2, first) == "OK"
    assert client.commit(0, 3, 2, first) == "OK", "the same once more is fine"
    assert client.commit(0, 2, 2, first) == (
        'ERROR: offset_regression reason="offset regression group=g topic=orders partition=0 current=3 got=2"'
    )
    assert client.commit(0, 4, 1, first) == f"ERROR: GEN_MISMATCH current=2 requested=1 group=g member={first}"
    assert client.commit(0, 4, 2, second) == f"ERROR: NOT_OWNER partition=0 member={second} group=g generation=2"
    assert client.commit(7, 4, 2, first) == f"ERROR: NOT_OWNER partition=7 member={first} group=g generation=2"
    assert client.commit(0, 4, 2, "stranger") == "ERROR: member_not_found member=stranger group=g"
    assert client.say("FETCH_OFFSET topic=orders partition=0 group=g") == "OK offset=3"


def test_a_batch_of_commits_is_made_whole_or_not_at_all(client: Client) -> None:
    _, member, _ = client.join("c1")
    batch = f"BATCH_COMMIT topic=orders group=g member={member} generation=1"
    assert client.say(f"{batch} P0:3,P1:1") == "OK batched=2"
    assert client.say(f"{batch} 0:4") == "OK batched=1", "as the clients 0.1.0 write it"
    assert client.say(f"{batch} P0:9,P1:0").startswith("ERROR: offset_regression ")
    assert client.say(f"{batch} P0:9,P7:1") == f"ERROR: NOT_OWNER partition=7 member={member} group=g generation=1"
    assert client.say(f"{batch} P0:5,P0:6") == "ERROR: duplicate_partition partition=0 group=g topic=orders"
    assert client.say("FETCH_OFFSET topic=orders partition=0 group=g") == "OK offset=4"
    assert client.say("FETCH_OFFSET topic=orders partition=1 group=g") == "OK offset=1"


def test_a_commit_in_the_seeds_order_registers_its_group(client: Client) -> None:
    assert client.say("COMMIT orders new 0 9") == "OK"
    assert client.say("FETCH_OFFSET topic=orders partition=0 group=new") == "OK offset=9"
    assert client.say("COMMIT orders new 0 8").startswith("ERROR: offset_regression ")
    assert client.say("LIST_GROUPS") == "OK count=1 groups=new"


def test_who_leaves_makes_room_for_the_others(client: Client) -> None:
    _, first, _ = client.join("c1")
    _, second, _ = client.join("c2")
    leave = f"LEAVE_GROUP topic=orders group=g member={first}"
    assert client.say(f"{leave} generation=1") == f"ERROR: GEN_MISMATCH current=2 requested=1 group=g member={first}"
    assert client.say(f"{leave} generation=2") == f"OK group=g member={first} left=true"
    assert client.say(f"{leave} generation=3") == f"ERROR: member_not_found member={first} group=g"
    assert client.say(f"SYNC_GROUP topic=orders group=g member={second} generation=3") == (
        f"OK generation=3 member={second} assignments=[0 1]"
    )


@pytest.mark.parametrize("line", ["LEAVE_GROUP topic=orders group=g member=c1", "LEAVE_GROUP orders g c1"])
def test_who_leaves_under_its_own_name_is_the_newest_of_that_name(client: Client, line: str) -> None:
    """Without a generation, as Java and Python send it, and under the name before the digits, as the seed has it."""
    _, first, _ = client.join("c1")
    client.join("c1")
    assert client.say(line) == "OK group=g member=c1 left=true"
    assert client.heartbeat(first, 3) == f"OK member={first} generation=3"
    assert client.say(line) == "OK group=g member=c1 left=true"
    assert client.say(line) == "ERROR: member_not_found member=c1 group=g"


def test_groups_are_registered_listed_and_described(client: Client) -> None:
    assert client.say("LIST_GROUPS") == "OK count=0 groups="
    assert client.say("REGISTER_GROUP topic=orders group=g") == "OK group=g topic=orders registered=true"
    assert client.say("REGISTER_GROUP topic=orders group=g") == "OK group=g topic=orders registered=true"
    assert client.say("SUBSCRIBE topic=bills group=h") == "OK group=h topic=bills subscribed=true"
    assert client.say("LIST_GROUPS") == "OK count=2 groups=g,h"
    assert client.say("FETCH_OFFSET topic=orders partition=0 group=g") == "OK offset=0"
    status = json.loads(client.say("GROUP_STATUS group=g"))
    assert (status["state"], status["generation"], status["members"]) == ("Dead", 0, [])
    assert client.say("GROUP_STATUS group=x") == "ERROR: group_status_failed reason=\"group 'x' not found\""


def test_the_status_of_a_group_with_members(client: Client) -> None:
    _, member, _ = client.join("c1")
    assert client.say("GROUP_STATUS group=g") == (
        '{"status":"OK","group_name":"g","topic_name":"orders","state":"Stable","generation":1,"member_count":1,'
        f'"partition_count":2,"members":[{{"member_id":"{member}","last_heartbeat":"1970-01-01T00:00:01Z",'
        '"assignments":[0,1]}],"last_rebalance":"1970-01-01T00:00:01Z"}'
    )


def test_members_share_the_partitions_that_a_topic_has_grown(client: Client) -> None:
    _, member, _ = client.join("c1")
    client.say("CREATE topic=orders partitions=3")
    assert client.heartbeat(member, 1) == f"ERROR: GEN_MISMATCH current=2 requested=1 group=g member={member}"
    assert client.say(f"SYNC_GROUP topic=orders group=g member={member} generation=2") == (
        f"OK generation=2 member={member} assignments=[0 1 2]"
    )


def test_groups_go_with_their_topic(client: Client) -> None:
    client.join("c1")
    client.say("DELETE topic=orders")
    assert client.say("LIST_GROUPS") == "OK count=0 groups="
    client.say("CREATE topic=orders partitions=2")
    assert client.join("c1", "bills")[0] == 1
