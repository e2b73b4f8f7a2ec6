"""gateway.dialects.pipe: brokers, replicas and roles, as the clients of one logical node see them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from backends.driving import PATIENCE, Driver, Reactor
from gateway.backends.memory import MemoryBackend
from gateway.backends.sqlite import SqliteBackend
from gateway.core.commands import (
    Command,
    CreateTopic,
    Fetch,
    First,
    IfExists,
    LatestOffsets,
    ListTopics,
    Ping,
    Publish,
    Session,
    Topic,
    TopicSettings,
)
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical, registry
from gateway.core.replies import (
    Count,
    Done,
    Offsets,
    PartitionDescription,
    PartitionOffsets,
    Published,
    Records,
    Reply,
    TopicDescription,
    Topics,
)
from gateway.dialects import Call, Request, ServerSession
from gateway.dialects.pipe import DIALECT, spec
from gateway.dialects.pipe import asides as a
from gateway.dialects.pipe.cluster import MAX_BROKERS, MAX_KEPT, Cluster
from gateway.dialects.pipe.cluster_replies import write_payload
from gateway.dialects.pipe.cluster_requests import READ
from gateway.dialects.pipe.session import PipeListener
from gateway.dialects.pipe.terms import PipeSettings, PipeTerms
from net.peers import Node, Peer, Scripted

ENCODINGS = registry([])
ORDERS = Topic("default", "orders")
LINES = [
    b"V1|1|REPLICA_FETCH|orders 0 1 -1\n",
    b"V1|2|BROKER_REPLICA_ACK|orders 0 2 7\n",
    b"V1|3|BROKER_FETCH|orders 0 1 0\n",
    b"V1|4|BROKER_FETCH|orders 0 1 0 256\n",
    b"V1|5|SET_PARTITION_ROLE|orders 0 follower\n",
    b"V1|6|ADMIN_CREATE_TOPIC|orders 3 2\n",
    b"V1|7|ADMIN_REGISTER_BROKER|1 localhost 9093 -4\n",
    b"V1|8|ADMIN_BROKER_HEARTBEAT|1\n",
    b"V1|9|ADMIN_RECONCILE_BROKER_HEALTH|1000\n",
    b"V1|10|ADMIN_FENCE_BROKER|1\n",
    b"V1|11|ADMIN_UNFENCE_BROKER|1\n",
    b"V1|12|ADMIN_SET_PARTITION_LEADER|orders 0 -1 0,1\n",
    b"V1|13|ADMIN_SET_PARTITION_LEADER|orders 0 0 ,\n",
    b"V1|14|ADMIN_ELECT_TOPIC_LEADERS|orders\n",
    b"V1|15|ADMIN_GET_METADATA|\n",
]
NO_LEADER = "ERR|NOT_LEADER|partition leader unavailable on this broker"

# keys of three partitions, and of twelve: those of user1 and a differ in either (FNV-1a, 32 bit)
USER1, A = {3: 2, 12: 5}, {3: 1, 12: 4}


def verb(line: bytes) -> str:
    return " ".join(line.decode().split("|")[2:]).strip()


def listening(**settings: object) -> PipeListener:
    listener = DIALECT.open(msgspec.convert(settings, PipeSettings), ENCODINGS)
    assert isinstance(listener, PipeListener)
    return listener


def terms_with(**settings: object) -> PipeTerms:
    terms = listening(**settings).terms("localhost:9092")
    assert isinstance(terms, PipeTerms)
    return terms


TERMS = terms_with()


def decoded(line: bytes) -> Request:
    request = DIALECT.decode_request(line, TERMS)
    assert isinstance(request, Request), request
    return request


class Broker:
    """A pipe listener before a memory backend, and one client of it."""

    def __init__(self, **settings: object) -> None:
        self.clock = Clock()
        self.backend = MemoryBackend(self.clock, lambda: 0)
        self.node = Node(self.backend, "pipe", self.clock, **settings)
        self.peer = self.node.connect()

    @property
    def cluster(self) -> Cluster:
        listener = self.node.listening.listener
        assert isinstance(listener, PipeListener)
        return listener.cluster

    def say(self, *requests: str, peer: Peer | None = None) -> list[str]:
        """What each is answered with, all of them sent in one piece; without what is the same in every line."""
        peer = peer or self.peer
        peer.send("".join(f"V1|{number}|{request}\n" for number, request in enumerate(requests)).encode())
        answers = peer.read().decode().splitlines()
        assert [answer.split("|", 2)[:2] for answer in answers] == [["V1", str(at)] for at in range(len(requests))]
        return [answer.split("|", 2)[2] for answer in answers]

    def ask(self, request: str, peer: Peer | None = None) -> str:
        [answer] = self.say(request, peer=peer)
        return answer

    def asks(self, *requests: str) -> list[str]:
        """The same, one after the other, each on a connection of its own."""
        return [self.ask(request, self.node.connect()) for request in requests]


# -- roles


FOLLOWING = [
    "SET_PARTITION_ROLE|orders 2 follower",
    "PRODUCE|orders user1:created",
    "PRODUCE|orders a:created",
    "SET_PARTITION_ROLE|orders 2 LEADER",
    "PRODUCE|orders user1:created",
]
FOLLOWED = [
    "OK|topic=orders partition=2 role=follower hw=-1",
    NO_LEADER,
    "OK|partition=1 offset=0 hw=0",
    "OK|topic=orders partition=2 role=leader hw=-1",
    "OK|partition=2 offset=0 hw=0",
]


def test_a_partition_that_is_followed_takes_no_records_until_it_is_led_again() -> None:
    broker = Broker()
    assert broker.asks(*FOLLOWING) == FOLLOWED
    assert broker.cluster.watched == {}


def test_many_lines_in_one_piece_mean_what_they_would_one_by_one() -> None:
    assert Broker().say(*FOLLOWING) == FOLLOWED


def test_the_last_of_several_roles_holds() -> None:
    broker = Broker()
    roles = [f"SET_PARTITION_ROLE|orders 2 {role}" for role in ("follower", "leader", "follower")]
    answers = broker.say(*roles, "PRODUCE|orders user1:v")
    assert [answer.split()[2] for answer in answers[:3]] == ["role=follower", "role=leader", "role=follower"]
    assert answers[3] == NO_LEADER
    assert broker.ask("PRODUCE|orders user1:v") == NO_LEADER
    assert broker.say(*roles[:2], "PRODUCE|orders user1:v")[2].startswith("OK|")
    assert broker.cluster.watched == {}


def test_the_answer_says_what_the_partition_holds() -> None:
    broker = Broker()
    broker.say("PRODUCE|orders user1:a", "PRODUCE|orders user1:b")
    assert broker.ask("SET_PARTITION_ROLE|orders 2 follower").endswith(" hw=1")
    assert broker.ask("CONSUME|orders 2 0") == "OK|messages=0:a,1:b hw=1"


@pytest.mark.parametrize("count", [3, 12])
def test_the_key_is_put_where_the_topic_has_it(count: int) -> None:
    broker = Broker()
    made = broker.ask(f"ADMIN_CREATE_TOPIC|orders {count} 1")
    assert made == f"OK|topic=orders partitions={count} replication_factor=1 term=1 index=2"
    assert broker.say(
        f"SET_PARTITION_ROLE|orders {USER1[count]} follower", "PRODUCE|orders user1:v", "PRODUCE|orders a:v"
    )[1:] == [NO_LEADER, f"OK|partition={A[count]} offset=0 hw=0"]


def test_a_topic_that_another_dialect_made_is_known_by_the_first_answer_about_it() -> None:
    broker = Broker()
    broker.backend.execute(CreateTopic(ORDERS, 12), Session(9))
    broker.ask("SET_PARTITION_ROLE|orders 5 follower")
    assert broker.say("PRODUCE|orders user1:v", "PRODUCE|orders a:v") == [NO_LEADER, "OK|partition=4 offset=0 hw=0"]


def test_partitions_that_came_since_are_known_by_the_next_answer_about_the_topic() -> None:
    broker = Broker()
    broker.asks("PRODUCE|orders user1:v", "SET_PARTITION_ROLE|orders 2 follower", "ADMIN_CREATE_TOPIC|other 12 1")
    assert broker.cluster.watched["orders"].partitions == 3
    broker.backend.execute(CreateTopic(ORDERS, 12, if_exists=IfExists.GROW), Session(9))
    broker.ask("REPLICA_FETCH|orders 1 1 0")
    assert broker.ask("PRODUCE|orders user1:v") == "OK|partition=5 offset=0 hw=0"
    broker.ask("ADMIN_CREATE_TOPIC|orders 1 1")
    assert broker.cluster.watched["orders"].partitions == 12


def test_what_was_said_of_a_topic_before_counts_for_its_first_role() -> None:
    broker = Broker()
    broker.ask("ADMIN_CREATE_TOPIC|orders 3 1")
    broker.backend.execute(CreateTopic(ORDERS, 12, if_exists=IfExists.GROW), Session(9))
    broker.ask("REPLICA_FETCH|orders 0 1 0")
    assert broker.say("SET_PARTITION_ROLE|orders 5 follower", "PRODUCE|orders user1:v")[1] == NO_LEADER


def test_a_topic_made_anew_behind_its_role_is_counted_by_the_answer_that_made_it() -> None:
    broker = Broker()
    broker.asks("SET_PARTITION_ROLE|orders 2 follower", "ADMIN_CREATE_TOPIC|orders 12 1")
    assert broker.ask("PRODUCE|orders user1:v") == "OK|partition=5 offset=0 hw=0"


def test_a_role_stops_those_who_copy_from_a_follower_or_report_to_it() -> None:
    broker = Broker()
    broker.ask("SET_PARTITION_ROLE|orders 2 follower")
    assert broker.say("BROKER_FETCH|orders 2 1 0", "REPLICA_FETCH|orders 2 1 0", "BROKER_REPLICA_ACK|orders 2 1 0") == [
        NO_LEADER,
        "ERR|BAD_REQUEST|partition is not leader",
        "ERR|BAD_REQUEST|partition is not leader",
    ]
    assert {answer[:3] for answer in broker.say("BROKER_FETCH|orders 1 1 0", "REPLICA_FETCH|orders 1 1 0")} == {"OK|"}
    assert broker.ask("REPLICA_FETCH|orders 2 3 0") == "ERR|BAD_REQUEST|invalid replica id"


@pytest.mark.parametrize("partition", [3, 99])
def test_a_partition_that_is_not_there_is_not_followed(partition: int) -> None:
    broker = Broker()
    for _ in range(2):
        said = broker.ask(f"SET_PARTITION_ROLE|orders {partition} follower")
        assert said == f"ERR|BAD_REQUEST|partition not found: topic=orders partition={partition}"
        assert broker.cluster.watched == {}
        broker.ask("PRODUCE|orders user1:v")


def test_a_topic_that_no_backend_takes_is_not_followed() -> None:
    broker = Broker()
    said = broker.ask(f"SET_PARTITION_ROLE|{'é' * 128} 0 follower")
    assert said == "ERR|BAD_REQUEST|the name is empty, too long or not legal here"
    assert broker.ask(f"SET_PARTITION_ROLE|{'é' * 127}o 0 follower").startswith("OK|")


class Halves:
    """Two connections to a backend that answers when the test says so."""

    def __init__(self) -> None:
        self.listener = listening()
        self.one, self.other = self.listener.session(), self.listener.session()

    def calls(self, session: ServerSession, line: str) -> list[Call]:
        return session.receive(f"V1|1|{line}\n".encode(), 0.0)

    def may_produce(self, session: ServerSession) -> bool:
        """Whether PRODUCE goes to the backend; it is answered either way."""
        calls = self.calls(session, "PRODUCE|orders user1:v")
        for call in calls:
            session.answer(call, Published(2, 0, 0))
        return bool(calls)


FOUND = Offsets(3, (PartitionOffsets(2, 0, 0),))


def test_for_others_a_role_holds_when_the_log_has_answered() -> None:
    halves = Halves()
    [call] = halves.calls(halves.one, "SET_PARTITION_ROLE|orders 2 follower")
    assert not halves.may_produce(halves.one)
    assert halves.may_produce(halves.other)
    halves.one.answer(call, FOUND)
    assert not halves.may_produce(halves.other)


@pytest.mark.parametrize("fault", [Fault.FORBIDDEN, Fault.UNAVAILABLE, Fault.NO_SUCH_PARTITION, Fault.INTERNAL])
def test_a_role_that_was_refused_holds_for_nobody(fault: Fault) -> None:
    halves = Halves()
    [call] = halves.calls(halves.one, "SET_PARTITION_ROLE|orders 2 follower")
    halves.one.answer(call, CommandFailed(fault))
    assert halves.may_produce(halves.one)
    assert halves.may_produce(halves.other)
    assert halves.listener.cluster.watched == {}


def test_a_role_that_could_not_be_taken_back_goes_on() -> None:
    halves = Halves()
    for role, outcome in (("follower", FOUND), ("leader", CommandFailed(Fault.UNAVAILABLE))):
        [call] = halves.calls(halves.one, f"SET_PARTITION_ROLE|orders 2 {role}")
        halves.one.answer(call, outcome)
    assert not halves.may_produce(halves.one)


def test_a_connection_that_is_lost_leaves_nothing_half_done() -> None:
    halves = Halves()
    [call] = halves.calls(halves.one, "SET_PARTITION_ROLE|orders 2 follower")
    halves.one.lost()
    assert halves.listener.cluster.watched == {}
    halves.one.answer(call, FOUND)
    assert halves.listener.cluster.watched == {}


def test_a_role_is_the_listeners() -> None:
    one, other = Broker(), Broker()
    one.ask("SET_PARTITION_ROLE|orders 2 follower")
    assert one.ask("PRODUCE|orders user1:v", one.node.connect()) == NO_LEADER
    assert other.ask("PRODUCE|orders user1:v").startswith("OK|")


def test_other_topics_and_requests_pass_by_a_role() -> None:
    broker = Broker()
    broker.ask("SET_PARTITION_ROLE|orders 2 follower")
    said = broker.say(
        "PRODUCE|bills user1:v", "OFFSET|g orders 2", "JOIN|g orders c", "SET_PARTITION_ROLE|bills 2 leader"
    )
    assert [answer[:3] for answer in said] == ["OK|"] * 4


def test_a_publish_that_is_not_by_key_is_not_looked_into() -> None:
    listener = listening()
    session = listener.session()
    [call] = session.receive(LINES[4], 0.0)
    session.answer(call, Offsets(3, (PartitionOffsets(0, 0, 0),)))
    request = Request(Publish(ORDERS, 0, canonical([Record()])))
    assert [call.request for call in session.calls(request)] == [request]


# -- replicas


def test_replicas_are_in_sync_as_long_as_they_lack_nothing_and_are_heard_of() -> None:
    broker = Broker()
    broker.say("PRODUCE|orders a:1", "PRODUCE|orders a:2")
    told = "OK|replica={} acked_offset={} hw=1 isr={} under_replicated={}".format
    assert broker.ask("REPLICA_FETCH|orders 1 2 0") == told(2, 0, "[0]", "true")
    assert broker.ask("REPLICA_FETCH|orders 1 2 1") == told(2, 1, "[0 2]", "false")
    assert broker.ask("REPLICA_FETCH|orders 1 1 9") == told(1, 9, "[0 1 2]", "false")
    broker.node.wait(10.0)
    assert broker.ask("REPLICA_FETCH|orders 1 1 -1") == told(1, -1, "[0 1 2]", "false")
    broker.node.wait(0.5)
    assert broker.ask("REPLICA_FETCH|orders 1 1 0") == told(1, 0, "[0 1]", "false")
    assert broker.ask("PRODUCE|orders a:3") == "OK|partition=1 offset=2 hw=2"
    assert broker.ask("REPLICA_FETCH|orders 1 1 1").endswith("hw=2 isr=[0] under_replicated=true")


def test_a_follower_of_the_project_copies_a_partition() -> None:
    broker = Broker()
    broker.say("PRODUCE|orders a:created", "PRODUCE|orders a:paid", "PRODUCE|orders a:sent")
    assert broker.asks(
        "BROKER_FETCH|orders 1 1 0 2",
        "BROKER_REPLICA_ACK|orders 1 1 1",
        "BROKER_FETCH|orders 1 1 2 2",
        "BROKER_REPLICA_ACK|orders 1 1 2",
        "BROKER_FETCH|orders 1 1 3 2",
    ) == [
        "OK|topic=orders partition=1 follower=1 hw=2 records=0:created,1:paid",
        "OK|topic=orders partition=1 follower=1 acked_offset=1 hw=2 isr=[0] under_replicated=true",
        "OK|topic=orders partition=1 follower=1 hw=2 records=2:sent",
        "OK|topic=orders partition=1 follower=1 acked_offset=2 hw=2 isr=[0 1] under_replicated=false",
        "OK|topic=orders partition=1 follower=1 hw=2 records=",
    ]


def test_a_follower_that_comes_before_the_first_record_finds_an_empty_partition() -> None:
    broker = Broker()
    assert broker.say("BROKER_FETCH|orders 2 1 0", "REPLICA_FETCH|orders 2 1 0", "ADMIN_GET_METADATA|") == [
        "OK|topic=orders partition=2 follower=1 hw=-1 records=",
        "OK|replica=1 acked_offset=0 hw=-1 isr=[0 1] under_replicated=false",
        "OK|topics=[] brokers=[0] fenced=[]",
    ]
    assert (
        broker.say("BROKER_FETCH|orders 3 1 0", "BROKER_REPLICA_ACK|orders 3 1 0")
        == ["ERR|BAD_REQUEST|invalid partition"] * 2
    )


def test_every_record_with_a_hundred_at_most_is_fetched_by_a_broker() -> None:
    broker = Broker()
    broker.say(*["PRODUCE|orders a:v"] * 150)
    for asked, got in (("0", 100), ("0 120", 120), ("0 max=7", 7), ("100", 50)):
        records = broker.ask(f"BROKER_FETCH|orders 1 1 {asked}").partition("records=")[2]
        assert len(records.split(",")) == got


def test_a_backend_that_says_nothing_of_the_partition_is_a_defect() -> None:
    session = listening().session()
    [call] = session.receive(LINES[0], 0.0)
    session.answer(call, Offsets(3, ()))
    assert session.take() == b"V1|1|ERR|BAD_REQUEST|internal error\n"


# -- administration


def test_a_cluster_is_set_up() -> None:
    broker = Broker()
    assert broker.asks(
        "ADMIN_CREATE_TOPIC|payments 2 2",
        "ADMIN_REGISTER_BROKER|0 127.0.0.1 9092",
        "ADMIN_REGISTER_BROKER|1 127.0.0.1 9093 100",
        "ADMIN_SET_PARTITION_LEADER|payments 1 1 1,0",
        "ADMIN_BROKER_HEARTBEAT|1",
        "ADMIN_GET_METADATA|",
    ) == [
        "OK|topic=payments partitions=2 replication_factor=2 term=1 index=2",
        "OK|broker_id=0 host=127.0.0.1 port=9092 term=1 index=3",
        "OK|broker_id=1 host=127.0.0.1 port=9093 term=1 index=4",
        "OK|topic=payments partition=1 leader=1 isr=[1 0] term=1 index=5",
        "OK|broker_id=1 heartbeat=ok term=1 index=6",
        "OK|topics=[payments] brokers=[0 1] fenced=[]",
    ]
    kept = broker.cluster.brokers[1]
    assert (kept.host, kept.port, kept.epoch) == ("127.0.0.1", 9093, 100)
    assert broker.cluster.layouts["payments"].leaders == {1: (1, (1, 0))}


def test_this_node_takes_records_whoever_the_table_says_leads() -> None:
    broker = Broker()
    broker.say("ADMIN_CREATE_TOPIC|orders 3 2", "ADMIN_SET_PARTITION_LEADER|orders 2 1 1", "ADMIN_FENCE_BROKER|0")
    assert broker.ask("PRODUCE|orders user1:v") == "OK|partition=2 offset=0 hw=0"


def test_indices_rise_in_the_order_of_requests() -> None:
    said = Broker().say(
        "ADMIN_CREATE_TOPIC|a 1 1",
        "ADMIN_REGISTER_BROKER|1 h 1",
        "ADMIN_CREATE_TOPIC|b 1 1",
        "ADMIN_SET_PARTITION_LEADER|a 0 1 1",
        "ADMIN_FENCE_BROKER|1",
    )
    assert [answer.partition("index=")[2] for answer in said] == ["2", "3", "4", "5", "6"]


def test_a_topic_is_created_once() -> None:
    broker = Broker()
    assert [answer.partition(" term")[0] for answer in broker.asks(*["ADMIN_CREATE_TOPIC|t 4 2"] * 2)] == [
        "OK|topic=t partitions=4 replication_factor=2"
    ] * 2
    assert broker.ask("ADMIN_CREATE_TOPIC|t 9 1").startswith("OK|topic=t partitions=4 replication_factor=1 ")
    assert broker.ask("ADMIN_CREATE_TOPIC|u 100001 1") == "ERR|BAD_REQUEST|a topic has 0 to 100000 partitions"
    assert broker.ask(f"ADMIN_CREATE_TOPIC|{'u' * 256} 1 1").startswith("ERR|BAD_REQUEST|the name is ")


def test_a_fenced_leader_is_replaced() -> None:
    broker = Broker()
    assert broker.asks(
        "ADMIN_CREATE_TOPIC|election 2 2",
        "ADMIN_REGISTER_BROKER|1 127.0.0.1 9093",
        "ADMIN_SET_PARTITION_LEADER|election 0 0 0,1",
        "ADMIN_ELECT_TOPIC_LEADERS|election",
        "ADMIN_FENCE_BROKER|0",
        "ADMIN_GET_METADATA|",
        "ADMIN_ELECT_TOPIC_LEADERS|election",
        "ADMIN_ELECT_TOPIC_LEADERS|election",
        "ADMIN_UNFENCE_BROKER|0",
        "ADMIN_ELECT_TOPIC_LEADERS|election",
    )[3:] == [
        "OK|topic=election elected_changes=0",
        "OK|broker_id=0 fenced=true term=1 index=5",
        "OK|topics=[election] brokers=[0 1] fenced=[0]",
        "OK|topic=election elected_changes=2",
        "OK|topic=election elected_changes=0",
        "OK|broker_id=0 fenced=false term=1 index=8",
        "OK|topic=election elected_changes=0",
    ]
    layout = broker.cluster.layouts["election"]
    assert (layout.leader, layout.leaders) == (1, {0: (1, (1,))})


def test_only_replicas_are_elected_and_where_there_is_none_nobody_is() -> None:
    broker = Broker()
    broker.asks("ADMIN_CREATE_TOPIC|t 5 2", "ADMIN_REGISTER_BROKER|2 h 1", "ADMIN_SET_PARTITION_LEADER|t 3 0 0,2")
    assert broker.say("ADMIN_FENCE_BROKER|0", "ADMIN_ELECT_TOPIC_LEADERS|t")[1] == "OK|topic=t elected_changes=5"
    layout = broker.cluster.layouts["t"]
    assert (layout.leader, layout.leaders) == (-1, {3: (-1, (0, 2))})
    assert broker.ask("ADMIN_ELECT_TOPIC_LEADERS|t") == "OK|topic=t elected_changes=0"
    assert broker.say("ADMIN_UNFENCE_BROKER|0", "ADMIN_ELECT_TOPIC_LEADERS|t")[1] == "OK|topic=t elected_changes=5"


def test_a_leader_that_is_no_replica_stays_as_long_as_it_may_lead() -> None:
    broker = Broker()
    broker.asks("ADMIN_CREATE_TOPIC|t 5 2", "ADMIN_REGISTER_BROKER|7 h 1", "ADMIN_SET_PARTITION_LEADER|t 3 7 7")
    assert broker.ask("ADMIN_ELECT_TOPIC_LEADERS|t") == "OK|topic=t elected_changes=0"
    assert broker.say("ADMIN_FENCE_BROKER|7", "ADMIN_ELECT_TOPIC_LEADERS|t")[1] == "OK|topic=t elected_changes=1"


def test_partitions_that_are_gone_elect_nobody() -> None:
    cluster = Cluster()
    cluster.lead("t", 5, 4, 9, (9,))
    cluster.lead("t", 5, 1, 9, ())
    assert cluster.elect("t", 3) == 1
    assert cluster.layouts["t"].leaders == {4: (9, (9,)), 1: (0, (0,))}


def test_a_topic_made_by_its_first_use_has_three_replicas_and_this_leader() -> None:
    broker = Broker()
    broker.asks("PRODUCE|orders user1:v", *(f"ADMIN_REGISTER_BROKER|{broker} h 1" for broker in (1, 2)))
    assert broker.ask("ADMIN_ELECT_TOPIC_LEADERS|orders") == "OK|topic=orders elected_changes=0"
    assert broker.cluster.layouts == {}
    broker.asks("ADMIN_FENCE_BROKER|0", "ADMIN_FENCE_BROKER|1")
    assert broker.ask("ADMIN_ELECT_TOPIC_LEADERS|orders") == "OK|topic=orders elected_changes=3"
    assert broker.cluster.layouts["orders"].leader == 2


def test_what_is_not_there_is_named() -> None:
    broker = Broker()
    broker.ask("ADMIN_CREATE_TOPIC|t 2 1")
    assert broker.asks(
        "ADMIN_SET_PARTITION_LEADER|u 0 0 0",
        "ADMIN_SET_PARTITION_LEADER|t 2 0 0",
        "ADMIN_ELECT_TOPIC_LEADERS|u",
        "ADMIN_FENCE_BROKER|3",
        "ADMIN_UNFENCE_BROKER|3",
        "ADMIN_BROKER_HEARTBEAT|3",
    ) == [
        "ERR|BAD_REQUEST|topic not found: u",
        "ERR|BAD_REQUEST|partition not found: topic=t partition=2",
        "ERR|BAD_REQUEST|topic not found: u",
        *["ERR|BAD_REQUEST|broker not found: 3"] * 3,
    ]


def test_a_topic_without_partitions_has_nothing_to_elect() -> None:
    broker = Broker()
    broker.backend.execute(CreateTopic(ORDERS, 0), Session(9))
    assert broker.ask("ADMIN_ELECT_TOPIC_LEADERS|orders") == "OK|topic=orders elected_changes=0"
    assert broker.ask("SET_PARTITION_ROLE|orders 0 follower").startswith("ERR|BAD_REQUEST|partition not found")


def test_brokers_that_are_silent_are_fenced_and_those_that_speak_are_not() -> None:
    broker = Broker()
    broker.asks("ADMIN_REGISTER_BROKER|1 h 1", "ADMIN_REGISTER_BROKER|2 h 1")
    broker.node.wait(1.5)
    assert broker.say("ADMIN_BROKER_HEARTBEAT|2", "ADMIN_RECONCILE_BROKER_HEALTH|1500")[1] == "OK|reconciled=0"
    broker.clock.advance(0.25)
    assert broker.say("ADMIN_RECONCILE_BROKER_HEALTH|1500", "ADMIN_GET_METADATA|") == [
        "OK|reconciled=1",
        "OK|topics=[] brokers=[0 1 2] fenced=[1]",
    ]
    assert broker.say("ADMIN_BROKER_HEARTBEAT|1", "ADMIN_GET_METADATA|")[1].endswith(" fenced=[]")
    assert broker.say("ADMIN_FENCE_BROKER|0", "ADMIN_FENCE_BROKER|1", "ADMIN_RECONCILE_BROKER_HEALTH|1000")[2] == (
        "OK|reconciled=2"
    )
    assert broker.ask("ADMIN_REGISTER_BROKER|9 h 1").endswith(" index=11")


def test_time_passes_without_requests_too() -> None:
    listener = listening()
    session = listener.session()
    session.receive(b"V1|1|ADMIN_REGISTER_BROKER|1 h 1\nV1|2|ADMIN_RECON", 5.0)
    session.tick(7.0)
    assert listener.cluster.now == 7.0
    session.receive(b"CILE_BROKER_HEALTH|2999\nV1|3|ADMIN_RECONCILE_BROKER_HEALTH|2999", 8.0)
    assert session.eof() == []
    assert [line.rpartition(b"|")[2] for line in session.take().splitlines()[1:]] == [b"reconciled=1", b"reconciled=0"]


def test_a_broker_that_registers_again_begins_anew() -> None:
    broker = Broker()
    broker.say("ADMIN_REGISTER_BROKER|1 h 1", "ADMIN_FENCE_BROKER|1", "ADMIN_REGISTER_BROKER|1 other 2")
    assert broker.ask("ADMIN_GET_METADATA|").endswith("brokers=[0 1] fenced=[]")
    assert broker.cluster.brokers[1].host == "other"


def test_topics_are_sorted_as_bytes_and_unlistable_names_left_out() -> None:
    broker = Broker()
    for name in ("b", "a", "B", "é", "two words", "a\u2003b", "[", "x]"):
        broker.backend.execute(CreateTopic(Topic("default", name), 1), Session(9))
    assert broker.ask("ADMIN_GET_METADATA|") == "OK|topics=[B a b é] brokers=[0] fenced=[]"


def test_an_administrator_without_utf8_gets_his_correlation_value_back() -> None:
    session = listening().session()
    calls = session.receive(
        b"V1|\xff|ADMIN_FENCE_BROKER|0\nV1|\xfe|ADMIN_GET_METADATA|\nV1|\xfd|REPLICA_FETCH|t 0 1 0\n", 0.0
    )
    session.answer(calls[0], Topics(()))
    session.answer(calls[1], Offsets(1, (PartitionOffsets(0, 0, 0),)))
    assert session.take() == (
        b"V1|\xff|OK|broker_id=0 fenced=true term=1 index=2\n"
        b"V1|\xfe|OK|topics=[] brokers=[0] fenced=[0]\n"
        b"V1|\xfd|OK|replica=1 acked_offset=0 hw=-1 isr=[0 1] under_replicated=false\n"
    )


def test_what_needs_no_log_is_answered_in_its_turn() -> None:
    backend = Scripted({Ping: Done()})
    node = Node(backend, "pipe")
    peer = node.connect()
    peer.send(b"V1|1|OFFSET|g t 0\nV1|2|ADMIN_FENCE_BROKER|0\nV1|3|ADMIN_FENCE_BROKER|9\nV1|4|OFFSET|g t 0\n")
    assert peer.read() == b""
    for deferred in reversed(backend.open):
        deferred.errback(CommandFailed(Fault.NO_SUCH_TOPIC))
    assert [line[:6] for line in peer.read().splitlines()] == [b"V1|1|O", b"V1|2|O", b"V1|3|E", b"V1|4|O"]
    assert Ping not in {type(command) for command in backend.asked}


def test_many_lines_in_one_piece_mean_what_they_would_one_by_one_where_commits_take_their_time(tmp_path: Path) -> None:
    reactor = Reactor()
    backend = SqliteBackend(tmp_path, ENCODINGS, reactor, lambda: 0)
    peer = Node(backend, "pipe", reactor).connect()
    said = {
        "PRODUCE|orders user1:v": "OK|partition=2 offset=0 hw=0",
        "SET_PARTITION_ROLE|orders 2 follower": "OK|topic=orders partition=2 role=follower hw=0",
        "PRODUCE|orders user1:w": NO_LEADER,
        "PRODUCE|orders a:w": "OK|partition=1 offset=0 hw=0",
        "ADMIN_CREATE_TOPIC|notes 2 1": "OK|topic=notes partitions=2 replication_factor=1 term=1 index=2",
        "ADMIN_REGISTER_BROKER|1 h 1": "OK|broker_id=1 host=h port=1 term=1 index=3",
        "BROKER_FETCH|orders 1 1 0": "OK|topic=orders partition=1 follower=1 hw=0 records=0:w",
        "ADMIN_GET_METADATA|": "OK|topics=[notes orders] brokers=[0 1] fenced=[]",
    }
    peer.send("".join(f"V1|1|{request}\n" for request in said).encode())
    answers: list[str] = []
    while len(answers) < len(said):
        answers += [line.removeprefix("V1|1|") for line in peer.read().decode().splitlines()]
        if len(answers) < len(said):
            reactor._calls.get(timeout=PATIENCE)()
    Driver(backend, reactor).close()
    assert answers == list(said.values())


# -- bounds


def test_there_are_so_many_brokers() -> None:
    cluster = Cluster()
    for broker in range(1, MAX_BROKERS):
        cluster.change(a.RegisterBroker(broker, "h", 1))
    with pytest.raises(CommandFailed, match="too many brokers"):
        cluster.change(a.RegisterBroker(MAX_BROKERS, "h", 1))
    assert cluster.change(a.RegisterBroker(1, "h", 2)) == Count(MAX_BROKERS + 1)


def test_there_are_so_many_followers() -> None:
    broker = Broker()
    broker.ask(f"ADMIN_CREATE_TOPIC|t {MAX_KEPT + 1} 1")
    roles = [f"SET_PARTITION_ROLE|t {partition} follower" for partition in range(MAX_KEPT + 1)]
    assert {answer[:3] for answer in broker.say(*roles[:MAX_KEPT])} == {"OK|"}
    assert broker.ask(roles[MAX_KEPT]) == "ERR|BAD_REQUEST|too many partitions with a role"
    assert not broker.node.listening.listener.session()._roles._follows("t", MAX_KEPT)  # type: ignore[attr-defined]
    assert broker.ask("SET_PARTITION_ROLE|t 0 leader")[:3] == broker.ask(roles[MAX_KEPT])[:3] == "OK|"


def test_there_are_so_many_leaders() -> None:
    cluster = Cluster()
    for partition in range(MAX_KEPT):
        cluster.lead("t", MAX_KEPT + 1, partition, 0, (0,))
    with pytest.raises(CommandFailed, match="too many partitions with a leader of their own"):
        cluster.lead("t", MAX_KEPT + 1, MAX_KEPT, 0, (0,))
    cluster.lead("t", MAX_KEPT + 1, 0, 1, ())
    assert cluster.layouts["t"].leaders[0] == (1, (0,))
    cluster.create("t", 1, 1)
    cluster.lead("t", 1, 0, 0, ())
    assert cluster.layouts["t"].leaders == {0: (0, ())}


def test_the_oldest_topic_is_forgotten_with_its_leaders() -> None:
    cluster = Cluster()
    for number in range(MAX_KEPT):
        cluster.lead(str(number), 1, 0, 7, (7,))
    cluster.create("new", 1, 1)
    assert "0" not in cluster.layouts
    cluster.lead("new", 1, 0, 7, (7,))
    assert len(cluster.layouts) == MAX_KEPT


def test_the_replicas_heard_of_longest_ago_are_forgotten() -> None:
    cluster = Cluster()
    for partition in range(MAX_KEPT + 1):
        assert cluster.acked("t", partition, 1, 5, 5) == (0, 1)
    assert cluster.acked("t", 1, 2, 5, 5) == (0, 1, 2)
    assert cluster.acked("t", 0, 2, 5, 5) == (0, 2)


def test_lists_and_hosts_have_an_end() -> None:
    broker = Broker()
    broker.ask("ADMIN_CREATE_TOPIC|t 1 1")
    numbers = ",".join(map(str, range(65)))
    assert broker.ask(f"ADMIN_SET_PARTITION_LEADER|t 0 0 {numbers}") == "ERR|BAD_REQUEST|isr has at most 64 brokers"
    assert broker.ask(f"ADMIN_SET_PARTITION_LEADER|t 0 0 {numbers[:-3]}").startswith("OK|")
    assert broker.ask(f"ADMIN_REGISTER_BROKER|1 {'h' * 256} 1") == "ERR|BAD_REQUEST|broker host is too long"
    assert broker.ask(f"ADMIN_REGISTER_BROKER|1 {'h' * 255} 1").startswith("OK|")


@pytest.mark.parametrize("line", [b"ADMIN_REGISTER_BROKER|1 \xff 1", b"ADMIN_ELECT_TOPIC_LEADERS|\xff"])
def test_names_that_are_no_utf8_are_refused(line: bytes) -> None:
    session = listening().session()
    assert session.receive(b"V1|1|" + line + b"\n", 0.0) == []
    assert session.take().endswith(b" must be UTF-8\n")


# -- as a client


def conversation(request: Request, reply: Reply) -> Reply | CommandFailed:
    """Both halves: the request as the server hears it, and what the client hears of the answer."""
    line = DIALECT.encode_request(request, TERMS)
    heard = decoded(line)
    assert (heard.command, heard.context) == (request.command, request.context)
    return DIALECT.decode_reply(request, DIALECT.encode_reply(heard, reply, TERMS), TERMS)


NAMES = st.text(st.characters(exclude_characters=spec.WHITE, exclude_categories=["Cs"]), min_size=1, max_size=9)
NATURALS = st.integers(0, 2**63 - 1)
POSITIVE = st.integers(1, 2**63 - 1)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
TOPICS = NAMES.map(lambda name: Topic("default", name))
PARTITIONS = st.builds(LatestOffsets, TOPICS, NATURALS)
ASKED = st.one_of(
    st.tuples(PARTITIONS, st.builds(a.ReplicaFetch, st.integers(1, 2), INTEGERS)),
    st.tuples(PARTITIONS, st.builds(a.ReplicaAck, st.integers(1, 2), INTEGERS)),
    st.tuples(PARTITIONS, st.builds(a.PartitionRole, st.booleans())),
    st.tuples(
        PARTITIONS,
        st.builds(a.PartitionLeader, st.integers(-1, 2**63 - 1), st.lists(INTEGERS, max_size=64).map(tuple)),
    ),
    st.tuples(st.builds(LatestOffsets, TOPICS, st.just(0)), st.just(a.Election())),
    st.tuples(st.builds(Fetch, TOPICS, NATURALS, NATURALS, POSITIVE), st.builds(a.BrokerFetch, INTEGERS)),
    st.tuples(
        st.builds(CreateTopic, TOPICS, POSITIVE, if_exists=st.just(IfExists.KEEP)), st.builds(a.Replication, POSITIVE)
    ),
    st.tuples(st.just(ListTopics("default")), st.just(a.Metadata())),
    st.tuples(st.just(Ping()), st.builds(a.RegisterBroker, NATURALS, NAMES, POSITIVE, INTEGERS)),
    st.tuples(st.just(Ping()), st.builds(a.BrokerHeartbeat, NATURALS)),
    st.tuples(st.just(Ping()), st.builds(a.ReconcileBrokers, POSITIVE)),
    st.tuples(st.just(Ping()), st.builds(a.FenceBroker, NATURALS, st.booleans())),
)


@given(ASKED)
def test_what_a_client_asks_is_what_the_server_hears(asked: tuple[Command, a.Aside]) -> None:
    line = DIALECT.encode_request(Request(asked[0], "7", asked[1]), TERMS)
    assert decoded(line) == Request(asked[0], "7", asked[1])
    assert spec.parse_request(line) is not None


def test_every_command_of_the_cluster_is_asked_by_somebody() -> None:
    kinds = {type(decoded(line).context) for line in LINES}
    assert {b"|".join(line.split(b"|")[2:3]) for line in LINES} == set(READ)
    assert kinds == {kind for kind in vars(a).values() if isinstance(kind, type) and issubclass(kind, a.Aside)} - {
        a.Aside,
        a.BrokerChange,
    }


def ends(partition: int, end: int) -> Offsets:
    """What a client knows of a partition: how many there are is not said."""
    return Offsets(partition + 1, (PartitionOffsets(partition, 0, end),))


def described(name: str, partitions: int = 0) -> TopicDescription:
    made = tuple(PartitionDescription(index, 0, 0, 0, 0) for index in range(partitions))
    return TopicDescription("default", name, 0, 0, TopicSettings(), made)


@given(PARTITIONS, st.sampled_from([a.ReplicaFetch(1, 5), a.ReplicaAck(2, -1), a.PartitionRole(True)]), NATURALS)
def test_the_end_of_a_partition_comes_through(command: LatestOffsets, aside: a.Aside, end: int) -> None:
    reply = ends(command.partition or 0, end)
    assert conversation(Request(command, "1", aside), reply) == reply


NUMBERED = [
    line for line in LINES if isinstance(decoded(line).context, a.BrokerChange | a.PartitionLeader | a.Election)
]


@given(st.sampled_from(NUMBERED), NATURALS)
def test_a_number_comes_through(line: bytes, value: int) -> None:
    assert conversation(decoded(line), Count(value)) == Count(value)


@given(st.lists(NAMES.filter(lambda name: not {"[", "]"} & set(name))))
def test_the_names_of_topics_come_through(names: list[str]) -> None:
    reply = Topics(tuple(described(name) for name in sorted(names)))
    assert conversation(Request(ListTopics("default"), "1", a.Metadata()), reply) == reply


def test_a_topic_that_was_made_comes_through() -> None:
    request = Request(CreateTopic(ORDERS, 5, if_exists=IfExists.KEEP), "1", a.Replication(2))
    assert conversation(request, described("orders", 3)) == described("orders", 3)


def test_creating_and_listing_topics_need_nothing_beside_them() -> None:
    create = Request(CreateTopic(ORDERS, 5, if_exists=IfExists.KEEP), "1")
    assert DIALECT.encode_request(create, TERMS) == b"V1|1|ADMIN_CREATE_TOPIC|orders 5 3\n"
    assert DIALECT.decode_reply(create, b"V1|1|OK|topic=orders partitions=2 index=9\n", TERMS) == described("orders", 2)
    listing = Request(ListTopics("default"), "1")
    assert DIALECT.encode_request(listing, TERMS) == b"V1|1|ADMIN_GET_METADATA|\n"
    assert DIALECT.decode_reply(listing, b"V1|1|OK|topics=[a] brokers=[0]\n", TERMS) == Topics((described("a"),))


@pytest.mark.parametrize(
    ("command", "aside"),
    [
        (LatestOffsets(ORDERS, 0), None),
        (Ping(), None),
        (Ping(), a.ReplicaFetch(1, 0)),
        (LatestOffsets(ORDERS), a.PartitionRole(True)),
        (LatestOffsets(Topic("elsewhere", "orders"), 0), a.PartitionRole(True)),
        (LatestOffsets(Topic("default", 7), 0), a.PartitionRole(True)),
        (Fetch(ORDERS, 0, 0), a.BrokerFetch(1)),
        (Fetch(ORDERS, None, 0, 5), a.BrokerFetch(1)),
        (Fetch(ORDERS, 0, First(), 5), a.BrokerFetch(1)),
        (Fetch(ORDERS, 0, 0, 5, commit=True), a.BrokerFetch(1)),
        (CreateTopic(ORDERS, 3), None),
        (CreateTopic(ORDERS, 3, if_exists=IfExists.GROW), None),
        (CreateTopic(ORDERS, 0, if_exists=IfExists.KEEP), None),
        (CreateTopic(ORDERS, 3, if_exists=IfExists.KEEP, id=7), None),
        (CreateTopic(ORDERS, 3, TopicSettings(idempotent=True), IfExists.KEEP), None),
        (ListTopics("elsewhere"), None),
    ],
)
def test_what_v1_has_no_words_for_is_unsupported(command: Command, aside: a.Aside | None) -> None:
    with pytest.raises(CommandFailed) as raised:
        DIALECT.encode_request(Request(command, "1", aside), TERMS)
    assert raised.value.fault is Fault.UNSUPPORTED


@pytest.mark.parametrize(
    "aside", [a.RegisterBroker(1, "", 1), a.RegisterBroker(1, "h", 2**63), a.RegisterBroker(1, "h", 1, -(2**63) - 1)]
)
def test_what_a_line_cannot_hold_is_unrepresentable(aside: a.Aside) -> None:
    with pytest.raises(CommandFailed) as raised:
        DIALECT.encode_request(Request(Ping(), "1", aside), TERMS)
    assert raised.value.fault is Fault.UNREPRESENTABLE


@pytest.mark.parametrize(
    ("line", "payload"),
    [
        (LINES[0], b"replica=1 acked_offset=0 isr=[0]"),
        (LINES[1], b"topic=t partition=0 hw=-2"),
        (LINES[4], b"topic=t hw=x"),
        (LINES[2], b"topic=t hw=0"),
        (LINES[2], b"topic=t records=0:a"),
        (LINES[2], b"hw=0 records=a"),
        (LINES[5], b"topic=t partitions=100001"),
        (LINES[5], b"topic=t index=3"),
        (LINES[6], b"broker_id=1"),
        (LINES[8], b"reconciled=-1"),
        (LINES[13], b"topic=t"),
        (LINES[14], b"brokers=[0]"),
        (LINES[14], b"topics=[a] brokers=[x]"),
        (LINES[14], b"topics=[\xff] brokers=[0]"),
    ],
)
def test_an_answer_that_does_not_say_what_was_asked_is_malformed(line: bytes, payload: bytes) -> None:
    request = decoded(line)
    with pytest.raises(CommandFailed) as raised:
        DIALECT.decode_reply(request, b"V1|%b|OK|%b\n" % (str(request.tag).encode(), payload), TERMS)
    assert raised.value.fault is Fault.MALFORMED


def test_records_that_were_not_asked_for_like_this_are_malformed() -> None:
    request = Request(Fetch(ORDERS, 0, First(), 5), "1", a.BrokerFetch(1))
    with pytest.raises(CommandFailed) as raised:
        DIALECT.decode_reply(request, b"V1|1|OK|hw=0 records=\n", TERMS)
    assert raised.value.fault is Fault.MALFORMED


@given(st.sampled_from(LINES), st.binary(max_size=40))
def test_noise_in_an_answer_is_malformed_and_nothing_else(line: bytes, noise: bytes) -> None:
    request = decoded(line)
    for payload in (noise, b"hw=1 index=1 reconciled=1 elected_changes=1 partitions=1 records=" + noise):
        try:
            DIALECT.decode_reply(request, b"V1|%b|OK|%b\n" % (str(request.tag).encode(), payload), TERMS)
        except CommandFailed as failure:
            assert failure.fault is Fault.MALFORMED


@pytest.mark.parametrize(
    "reply", [Done(), Count(1), FOUND, Records(0, 0, 0), Topics(())], ids=lambda r: type(r).__name__
)
@pytest.mark.parametrize("line", LINES, ids=verb)
def test_a_reply_of_the_wrong_kind_is_a_defect_that_is_not_told(line: bytes, reply: Reply) -> None:
    request = decoded(line)
    try:
        said = DIALECT.encode_reply(request, reply, TERMS)
    except CommandFailed as failure:
        said = DIALECT.encode_reply(request, failure, TERMS)
        assert said.endswith(b"|ERR|BAD_REQUEST|internal error\n")
    assert said.count(b"\n") == 1


def test_a_change_that_is_none_is_a_defect() -> None:
    with pytest.raises(CommandFailed) as raised:
        write_payload(Ping(), a.BrokerChange(), Count(1), TERMS)
    assert raised.value.fault is Fault.INTERNAL


@given(st.text(), st.sampled_from(LINES))
@example("", LINES[0])
@example("a\nb\u2028c \ud800", LINES[0])
def test_words_of_a_backend_are_one_line(detail: str, line: bytes) -> None:
    request = decoded(line)
    said = DIALECT.encode_reply(request, CommandFailed(Fault.INVALID_ARGUMENT, detail), TERMS)
    assert said.count(b"\n") == 1
    assert b"|ERR|BAD_REQUEST|" in said
    assert not said.endswith(b"|\n")


# -- the grammar and the fast path


@pytest.mark.parametrize("line", LINES, ids=verb)
def test_the_grammar_builds_the_line_that_it_has_read(line: bytes) -> None:
    assert spec.REQUEST.build({"line": spec.parse_request(line)}) == line
    assert DIALECT.encode_request(decoded(line), TERMS) == line


@pytest.mark.parametrize("line", LINES, ids=verb)
def test_the_grammar_builds_the_arguments_that_it_has_read(line: bytes) -> None:
    args = getattr(spec.parse_request(line), "args", None)
    words = b"".join(word + b" " for word in line.split(b"|")[3].split())
    assert spec.COMMANDS[line.split(b"|")[2].decode()].build(args) == words


def test_the_grammar_reads_the_same_names_and_numbers() -> None:
    said = [getattr(spec.parse_request(line), "args", {}) for line in LINES]
    values = [[value for name, value in args.items() if not name.startswith("_")] for args in said]
    assert values == [
        ["orders", 0, 1, -1],
        ["orders", 0, 2, 7],
        ["orders", 0, 1, 0, None],
        ["orders", 0, 1, 0, 256],
        ["orders", 0, "follower"],
        ["orders", 3, 2],
        [1, "localhost", 9093, -4],
        [1],
        [1000],
        [1],
        [1],
        ["orders", 0, -1, [0, 1]],
        ["orders", 0, 0, []],
        ["orders"],
        [],
    ]


def same(frame: bytes) -> bool:
    return (spec.parse_request(frame) is not None) == isinstance(DIALECT.decode_request(frame, TERMS), Request)


@given(st.sampled_from(LINES), st.data())
def test_the_grammar_and_the_fast_path_agree_on_damaged_lines_too(line: bytes, data: st.DataObject) -> None:
    frame = bytearray(line)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(frame) - 1))
        damage = data.draw(
            st.binary(max_size=2) | st.sampled_from([b" ", b"-", b",", b"\xc2\xa0", b"0", b"max=", b"|"])
        )
        frame[at : at + data.draw(st.integers(0, 2))] = damage
        if not frame:
            break
    assert same(bytes(frame))


WORDS = [
    "orders",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "-2",
    "+7",
    "leader",
    "Follower",
    "1,2",
    ",",
    "a,1",
    "max=5",
    "MAX=0",
    "max=",
]


@given(st.sampled_from(sorted(READ)), st.lists(st.sampled_from([*WORDS, "h" * 256, "1," * 65, "9" * 30]), max_size=6))
def test_the_grammar_and_the_fast_path_agree_on_any_arguments(verb: bytes, args: list[str]) -> None:
    assert same(b"V1|1|%b|%b\n" % (verb, " ".join(args).encode()))


def test_the_grammar_knows_every_command() -> None:
    assert set(READ) <= {verb.encode() for verb in spec.COMMANDS}
