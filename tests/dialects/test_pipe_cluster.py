"""gateway.dialects.pipe: brokers, replicas and roles, as the clients of one logical node see them.

What their lines look like, the vectors beside the dialect say; what one client sees of them, its cases in cluster.toml.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import wire
from dialects.pipe_peers import (
    LISTED,
    Asked,
    Broker,
    alive,
    copy,
    create,
    elect,
    fence,
    follow,
    join,
    lead,
    led_by,
    of,
    place,
    produce,
    reconcile,
    register,
    request,
)
from gateway.conformance import vectors
from gateway.core.commands import (
    Command,
    CreateTopic,
    Fetch,
    FetchOffsets,
    First,
    Group,
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
    CommittedOffsets,
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
from gateway.dialects.pipe.cluster_requests import MAX_MESSAGES, READ
from gateway.dialects.pipe.faults import CODES
from gateway.dialects.pipe.session import PipeListener
from gateway.dialects.pipe.terms import PipeSettings
from net.peers import Client, Node, Scripted

ENCODINGS = registry([])
ORDERS = of("orders")
FILES = {"pipe/vectors/admin.toml", "pipe/vectors/replicas.toml"}
ASKED_FOR = [
    case for case in vectors.load("pipe") if case.file in FILES and case.command is not None and "client" in case.roles
]
LINES = [*dict.fromkeys(case.when for case in ASKED_FOR)]
ANSWERED = [(case.when, case.then) for case in ASKED_FOR if case.then and "CommandFailed" not in str(case.outcome)]

# keys of three partitions, and of twelve: those of user1 and a differ in either (FNV-1a, 32 bit)
USER1, A = {3: 2, 12: 5}, {3: 1, 12: 4}


def verb(line: bytes) -> str:
    return " ".join(line.decode("utf-8", "replace").split("|")[2:]).strip()


def listening() -> PipeListener:
    listener = DIALECT.open(PipeSettings(), ENCODINGS)
    assert isinstance(listener, PipeListener)
    return listener


TERMS = listening().terms("localhost:9092")


def decoded(line: bytes) -> Request:
    request = DIALECT.decode_request(line, TERMS)
    assert isinstance(request, Request), request
    return request


def ends(partition: int, end: int) -> Offsets:
    """What a client knows of a partition: how many there are is not said."""
    return Offsets(partition + 1, (PartitionOffsets(partition, 0, end),))


def described(name: str, partitions: int = 0) -> TopicDescription:
    made = tuple(PartitionDescription(index, 0, 0, 0, 0) for index in range(partitions))
    return TopicDescription("default", name, 0, 0, TopicSettings(), made)


def listed(*names: str) -> Topics:
    return Topics(tuple(map(described, names)))


def put(partition: int, offset: int = 0) -> Published:
    return Published(partition, offset, offset)


# -- roles


def test_a_role_leaves_nothing_behind_when_it_is_taken_back() -> None:
    broker = Broker()
    assert broker.asks(follow(2), produce(b"user1"), produce(b"a"), lead(2), produce(b"user1")) == [
        *(ends(2, 0), Fault.NOT_LEADER, put(1), ends(2, 0), put(2)),
    ]
    assert broker.cluster.watched == {}


def test_the_last_of_several_roles_holds() -> None:
    broker = Broker()
    roles = [follow(2), lead(2), follow(2)]
    assert broker.say(*roles, produce(b"user1")) == [*[ends(2, 0)] * 3, Fault.NOT_LEADER]
    assert broker.ask(produce(b"user1")) is Fault.NOT_LEADER
    assert broker.say(*roles[:2], produce(b"user1"))[2] == put(2)
    assert broker.cluster.watched == {}


def test_the_answer_says_what_the_partition_holds_and_it_can_still_be_read() -> None:
    broker = Broker()
    broker.say(produce(b"user1", b"a"), produce(b"user1", b"b"))
    assert broker.ask(follow(2)) == ends(2, 2)
    records = broker.ask(Fetch(ORDERS, 2, 0))
    assert isinstance(records, Records)
    assert [record.value for batch in records.batches for record in batch.records()] == [b"a", b"b"]


@pytest.mark.parametrize("count", [3, 12])
def test_the_key_is_put_where_the_topic_has_it(count: int) -> None:
    broker = Broker()
    assert broker.ask(create("orders", count)) == described("orders", count)
    assert broker.say(follow(USER1[count]), produce(b"user1"), produce(b"a"))[1:] == [Fault.NOT_LEADER, put(A[count])]


def test_a_topic_that_another_dialect_made_is_known_by_the_first_answer_about_it() -> None:
    broker = Broker()
    broker.backend.execute(CreateTopic(ORDERS, 12), Session(9))
    broker.ask(follow(5))
    assert broker.say(produce(b"user1"), produce(b"a")) == [Fault.NOT_LEADER, put(4)]


def test_partitions_that_came_since_are_known_by_the_next_answer_about_the_topic() -> None:
    broker = Broker()
    broker.asks(produce(b"user1"), follow(2), create("other", 12))
    assert broker.cluster.watched["orders"].partitions == 3
    broker.backend.execute(CreateTopic(ORDERS, 12, if_exists=IfExists.GROW), Session(9))
    broker.ask(place(1, a.ReplicaFetch(1, 0)))
    assert broker.ask(produce(b"user1")) == put(5)
    broker.ask(create("orders", 1))
    assert broker.cluster.watched["orders"].partitions == 12


def test_what_was_said_of_a_topic_before_counts_for_its_first_role() -> None:
    broker = Broker()
    broker.ask(create("orders", 3))
    broker.backend.execute(CreateTopic(ORDERS, 12, if_exists=IfExists.GROW), Session(9))
    broker.ask(place(0, a.ReplicaFetch(1, 0)))
    assert broker.say(follow(5), produce(b"user1"))[1] is Fault.NOT_LEADER


def test_a_topic_made_anew_behind_its_role_is_counted_by_the_answer_that_made_it() -> None:
    broker = Broker()
    broker.asks(follow(2), create("orders", 12))
    assert broker.ask(produce(b"user1")) == put(5)


def test_a_role_stops_those_who_report_to_a_follower() -> None:
    broker = Broker()
    broker.ask(follow(2))
    for aside in (a.ReplicaFetch(1, 0), a.ReplicaAck(1, 0)):
        assert broker.why(place(2, aside)) == "partition is not leader"
        assert broker.ask(place(1, aside)) == ends(1, 0)
    assert broker.say(copy(2), copy(1)) == [Fault.NOT_LEADER, Records(1, 0, 0)]
    assert broker.why(place(2, a.ReplicaFetch(3, 0))) == "invalid replica id"


@pytest.mark.parametrize("partition", [3, 99])
def test_a_partition_that_is_not_there_is_not_followed(partition: int) -> None:
    broker = Broker()
    for _ in range(2):
        assert broker.why(follow(partition)) == f"partition not found: topic=orders partition={partition}"
        assert broker.cluster.watched == {}
        broker.ask(produce(b"user1"))


def test_a_topic_that_no_backend_takes_is_not_followed() -> None:
    broker = Broker()
    assert broker.ask(follow(0, "é" * 128)) is Fault.INVALID_NAME
    assert broker.ask(follow(0, "é" * 127 + "o")) == ends(0, 0)


class Halves:
    """Two connections to a backend that answers when the test says so."""

    def __init__(self) -> None:
        self.listener = listening()
        self.one, self.other = self.listener.session(), self.listener.session()

    def calls(self, session: ServerSession, asked: Asked) -> list[Call]:
        return session.receive(DIALECT.encode_request(request(asked, "1"), TERMS), 0.0)

    def may_produce(self, session: ServerSession) -> bool:
        """Whether PRODUCE goes to the backend; it is answered either way."""
        calls = self.calls(session, produce(b"user1"))
        for call in calls:
            session.answer(call, put(2))
        return bool(calls)


FOUND = Offsets(3, (PartitionOffsets(2, 0, 0),))


def test_for_others_a_role_holds_when_the_log_has_answered() -> None:
    halves = Halves()
    [call] = halves.calls(halves.one, follow(2))
    assert not halves.may_produce(halves.one)
    assert halves.may_produce(halves.other)
    halves.one.answer(call, FOUND)
    assert not halves.may_produce(halves.other)


@pytest.mark.parametrize("fault", [Fault.FORBIDDEN, Fault.UNAVAILABLE, Fault.NO_SUCH_PARTITION, Fault.INTERNAL])
def test_a_role_that_was_refused_holds_for_nobody(fault: Fault) -> None:
    halves = Halves()
    [call] = halves.calls(halves.one, follow(2))
    halves.one.answer(call, CommandFailed(fault))
    assert halves.may_produce(halves.one)
    assert halves.may_produce(halves.other)
    assert halves.listener.cluster.watched == {}


def test_a_role_that_could_not_be_taken_back_goes_on() -> None:
    halves = Halves()
    for asked, outcome in ((follow(2), FOUND), (lead(2), CommandFailed(Fault.UNAVAILABLE))):
        [call] = halves.calls(halves.one, asked)
        halves.one.answer(call, outcome)
    assert not halves.may_produce(halves.one)


def test_a_connection_that_is_lost_leaves_nothing_half_done() -> None:
    halves = Halves()
    [call] = halves.calls(halves.one, follow(2))
    halves.one.lost()
    assert halves.listener.cluster.watched == {}
    halves.one.answer(call, FOUND)
    assert halves.listener.cluster.watched == {}


def test_a_role_is_the_listeners() -> None:
    one, other = Broker(), Broker()
    one.ask(follow(2))
    assert one.asks(produce(b"user1")) == [Fault.NOT_LEADER]
    assert other.ask(produce(b"user1")) == put(2)


def test_other_topics_and_requests_pass_by_a_role() -> None:
    broker = Broker()
    broker.ask(follow(2))
    said = broker.say(
        produce(b"user1", topic="bills"), FetchOffsets(ORDERS, Group("g"), (2,)), join("c"), lead(2, "bills")
    )
    assert not [answer for answer in said if isinstance(answer, Fault)]


def test_a_publish_that_is_not_by_key_is_not_looked_into() -> None:
    halves = Halves()
    [call] = halves.calls(halves.one, follow(0))
    halves.one.answer(call, Offsets(3, (PartitionOffsets(0, 0, 0),)))
    publish = Request(Publish(ORDERS, 0, canonical([Record()])))
    assert [call.request for call in halves.one.calls(publish)] == [publish]


# -- replicas


def test_replicas_are_in_sync_as_long_as_they_lack_nothing_and_are_heard_of() -> None:
    cluster = Cluster()
    assert cluster.acked("t", 1, 2, offset=0, last=1) == (0,)
    assert cluster.acked("t", 1, 2, offset=1, last=1) == (0, 2)
    assert cluster.acked("t", 1, 1, offset=9, last=1) == (0, 1, 2)
    cluster.now = 10.0
    assert cluster.acked("t", 1, 1, offset=-1, last=1) == (0, 1, 2)
    cluster.now = 10.5
    assert cluster.acked("t", 1, 1, offset=0, last=1) == (0, 1)
    assert cluster.acked("t", 1, 1, offset=1, last=2) == (0,)


def test_a_follower_that_comes_before_the_first_record_finds_an_empty_partition() -> None:
    broker = Broker()
    assert broker.say(copy(2), place(2, a.ReplicaFetch(1, 0)), LISTED) == [Records(2, 0, 0), ends(2, 0), listed()]
    for asked in (copy(3), place(3, a.ReplicaAck(1, 0))):
        assert broker.ask(asked) is Fault.NO_SUCH_PARTITION


def test_every_record_with_a_hundred_at_most_is_fetched_by_a_broker() -> None:
    broker = Broker()
    broker.say(*[produce(b"a")] * 150)
    for asked, got in ((copy(1), MAX_MESSAGES), (copy(1, 0, 120), 120), (copy(1, 0, 7), 7), (copy(1, 100), 50)):
        records = broker.ask(asked)
        assert isinstance(records, Records)
        assert sum(batch.count for batch in records.batches) == got


def test_a_backend_that_says_nothing_of_the_partition_is_a_defect() -> None:
    halves = Halves()
    [call] = halves.calls(halves.one, place(0, a.ReplicaFetch(1, -1)))
    halves.one.answer(call, Offsets(3, ()))
    assert halves.one.take() == wire.reply("pipe", call.request, CommandFailed(Fault.INTERNAL))


# -- administration


def test_a_cluster_is_set_up() -> None:
    broker = Broker()
    assert broker.asks(
        create("payments", 2, 2),
        register(0, "127.0.0.1", 9092),
        register(1, "127.0.0.1", 9093, 100),
        led_by("payments", 1, 1, 1, 0),
        alive(1),
        LISTED,
    ) == [described("payments", 2), Count(3), Count(4), Count(5), Count(6), listed("payments")]
    assert broker.cluster.shown() == ((0, 1), ())
    kept = broker.cluster.brokers[1]
    assert (kept.host, kept.port, kept.epoch) == ("127.0.0.1", 9093, 100)
    assert broker.cluster.layouts["payments"].leaders == {1: (1, (1, 0))}


def test_this_node_takes_records_whoever_the_table_says_leads() -> None:
    broker = Broker()
    broker.say(create("orders", 3, 2), led_by("orders", 2, 1, 1), fence(0))
    assert broker.ask(produce(b"user1")) == put(2)


def test_indices_rise_in_the_order_of_requests() -> None:
    broker = Broker()
    said = broker.say(create("a", 1), register(1), create("b", 1), led_by("a", 0, 1, 1), fence(1))
    assert said == [described("a", 1), Count(3), described("b", 1), Count(5), Count(6)]


def test_a_topic_is_created_once() -> None:
    broker = Broker()
    assert broker.asks(create("t", 4, 2), create("t", 4, 2), create("t", 9)) == [described("t", 4)] * 3
    assert broker.why(create("u", 100_001)) == "a topic has 0 to 100000 partitions"
    assert broker.ask(create("u" * 256, 1)) is Fault.INVALID_NAME


def test_a_fenced_leader_is_replaced() -> None:
    broker = Broker()
    assert broker.asks(
        create("election", 2, 2),
        register(1),
        led_by("election", 0, 0, 0, 1),
        elect("election"),
        fence(0),
        elect("election"),
        elect("election"),
        fence(0, fenced=False),
        elect("election"),
    )[3:] == [Count(0), Count(5), Count(2), Count(0), Count(8), Count(0)]
    layout = broker.cluster.layouts["election"]
    assert (layout.leader, layout.leaders) == (1, {0: (1, (1,))})


def test_who_is_fenced_is_shown() -> None:
    halves = Halves()
    halves.calls(halves.one, register(1))
    halves.calls(halves.one, fence(1))
    halves.one.take()
    [call] = halves.calls(halves.other, LISTED)
    halves.other.answer(call, listed("t"))
    shown = Request(LISTED[0], "1", a.Metadata((0, 1), (1,)))  # type: ignore[index]  # a command and what is beside it
    assert halves.other.take() == wire.reply("pipe", shown, listed("t"))


def test_only_replicas_are_elected_and_where_there_is_none_nobody_is() -> None:
    broker = Broker()
    broker.asks(create("t", 5, 2), register(2), led_by("t", 3, 0, 0, 2))
    assert broker.say(fence(0), elect("t"))[1] == Count(5)
    layout = broker.cluster.layouts["t"]
    assert (layout.leader, layout.leaders) == (-1, {3: (-1, (0, 2))})
    assert broker.ask(elect("t")) == Count(0)
    assert broker.say(fence(0, fenced=False), elect("t"))[1] == Count(5)


def test_a_leader_that_is_no_replica_stays_as_long_as_it_may_lead() -> None:
    broker = Broker()
    broker.asks(create("t", 5, 2), register(7), led_by("t", 3, 7, 7))
    assert broker.ask(elect("t")) == Count(0)
    assert broker.say(fence(7), elect("t"))[1] == Count(1)


def test_partitions_that_are_gone_elect_nobody() -> None:
    cluster = Cluster()
    cluster.lead("t", 5, 4, 9, (9,))
    cluster.lead("t", 5, 1, 9, ())
    assert cluster.elect("t", 3) == 1
    assert cluster.layouts["t"].leaders == {4: (9, (9,)), 1: (0, (0,))}


def test_a_topic_made_by_its_first_use_has_three_replicas_and_this_leader() -> None:
    broker = Broker()
    broker.asks(produce(b"user1"), register(1), register(2))
    assert broker.ask(elect("orders")) == Count(0)
    assert broker.cluster.layouts == {}
    broker.asks(fence(0), fence(1))
    assert broker.ask(elect("orders")) == Count(3)
    assert broker.cluster.layouts["orders"].leader == 2


def test_a_topic_without_partitions_has_nothing_to_elect() -> None:
    broker = Broker()
    broker.backend.execute(CreateTopic(ORDERS, 0), Session(9))
    assert broker.ask(elect("orders")) == Count(0)
    assert broker.why(follow(0)).startswith("partition not found")


def test_brokers_that_are_silent_are_fenced_and_those_that_speak_are_not() -> None:
    broker = Broker()
    broker.asks(register(1), register(2))
    broker.node.wait(1.5)
    assert broker.say(alive(2), reconcile(1500))[1] == Count(0)
    broker.clock.advance(0.25)
    assert broker.ask(reconcile(1500)) == Count(1)
    assert broker.cluster.shown() == ((0, 1, 2), (1,))
    broker.ask(alive(1))
    assert broker.cluster.shown() == ((0, 1, 2), ())
    assert broker.say(fence(0), fence(1), reconcile(1000))[2] == Count(2)
    assert broker.ask(register(9)) == Count(11)


def test_time_passes_without_requests_too() -> None:
    listener = listening()
    session = listener.session()
    first = wire.request("pipe", Ping(), 1, a.RegisterBroker(1, "h", 1))
    rest = b"".join(wire.request("pipe", Ping(), tag, a.ReconcileBrokers(2999)) for tag in (2, 3))
    session.receive(first + rest[:9], 5.0)
    session.tick(7.0)
    assert listener.cluster.now == 7.0
    session.receive(rest[9:-1], 8.0)
    assert session.eof() == []
    assert session.take().splitlines(keepends=True)[1:] == [
        wire.reply("pipe", Request(Ping(), tag, a.ReconcileBrokers(2999)), Count(count))
        for tag, count in ((2, 1), (3, 0))
    ]


def test_a_broker_that_registers_again_begins_anew() -> None:
    broker = Broker()
    broker.say(register(1), fence(1), register(1, "other", 2))
    assert broker.cluster.shown() == ((0, 1), ())
    assert broker.cluster.brokers[1].host == "other"


def test_topics_are_sorted_as_bytes_and_unlistable_names_left_out() -> None:
    broker = Broker()
    for name in ("b", "a", "B", "é", "two words", "a\u2003b", "[", "x]"):
        broker.backend.execute(CreateTopic(of(name), 1), Session(9))
    assert broker.ask(LISTED) == listed("B", "a", "b", "é")


def test_what_needs_no_log_is_answered_in_its_turn() -> None:
    backend = Scripted({Ping: Done()})
    client = Client(Node(backend, "pipe"))
    looking = FetchOffsets(of("t"), Group("g"), (0,))
    for number, asked in enumerate((looking, fence(0), fence(9), looking)):
        client.session.ask(request(asked, str(number)))
    client.peer.send(client.session.take())
    assert client.peer.read() == b""
    for deferred in reversed(backend.open):
        deferred.errback(CommandFailed(Fault.NO_SUCH_TOPIC))
    first, fenced, unknown, last = [outcome for _, outcome in client.session.receive(client.peer.read())]
    assert (first, fenced, last) == (CommittedOffsets({}), Count(2), CommittedOffsets({}))
    assert isinstance(unknown, CommandFailed)
    assert Ping not in {type(command) for command in backend.asked}


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
    broker.ask(create("t", MAX_KEPT + 1))
    roles = [follow(partition, "t") for partition in range(MAX_KEPT + 1)]
    assert not [answer for answer in broker.say(*roles[:MAX_KEPT]) if isinstance(answer, Fault)]
    assert broker.why(roles[MAX_KEPT]) == "too many partitions with a role"
    assert not broker.node.listening.listener.session()._roles._follows("t", MAX_KEPT)  # type: ignore[attr-defined]
    assert broker.say(lead(0, "t"), roles[MAX_KEPT]) == [ends(0, 0), ends(MAX_KEPT, 0)]


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
    broker.ask(create("t", 1))
    assert broker.why(led_by("t", 0, 0, *range(65))) == "isr has at most 64 brokers"
    assert broker.ask(led_by("t", 0, 0, *range(64))) == Count(3)
    assert broker.why(register(1, "h" * 256)) == "broker host is too long"
    assert broker.ask(register(1, "h" * 255)) == Count(4)


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


@pytest.mark.parametrize(
    ("asked", "reply"),
    [
        ((CreateTopic(ORDERS, 5, if_exists=IfExists.KEEP), a.Replication(3)), described("orders", 2)),
        ((ListTopics("default"), a.Metadata()), listed("a", "b")),
    ],
)
def test_creating_and_listing_topics_need_nothing_beside_them(asked: tuple[Command, a.Aside], reply: Reply) -> None:
    plain, whole = Request(asked[0], "1"), Request(asked[0], "1", asked[1])
    assert DIALECT.encode_request(plain, TERMS) == DIALECT.encode_request(whole, TERMS)
    assert DIALECT.decode_reply(plain, DIALECT.encode_reply(whole, reply, TERMS), TERMS) == reply


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


def test_records_that_were_not_asked_for_like_this_are_malformed() -> None:
    request = Request(Fetch(ORDERS, 0, First(), 5), "9", a.BrokerFetch(1))
    with pytest.raises(CommandFailed) as raised:
        DIALECT.decode_reply(request, wire.told("pipe", "a broker that is up to date is given nothing"), TERMS)
    assert raised.value.fault is Fault.MALFORMED


@given(st.sampled_from(ANSWERED), st.integers(0, 80), st.binary(max_size=40))
def test_noise_in_an_answer_is_malformed_and_nothing_else(pair: tuple[bytes, bytes], cut: int, noise: bytes) -> None:
    line, told = pair
    for frame in (told[:cut] + noise + b"\n", told[:-1] + noise + b"\n"):
        try:
            DIALECT.decode_reply(decoded(line), frame, TERMS)
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
        assert failure.fault is Fault.INTERNAL
        said = DIALECT.encode_reply(request, failure, TERMS)
        assert said == DIALECT.encode_reply(request, CommandFailed(Fault.INTERNAL), TERMS)
    assert said.count(b"\n") == 1


def test_a_change_that_is_none_is_a_defect() -> None:
    with pytest.raises(CommandFailed) as raised:
        write_payload(Ping(), a.BrokerChange(), Count(1), TERMS)
    assert raised.value.fault is Fault.INTERNAL


@given(st.text(), st.sampled_from(LINES))
@example("", LINES[0])
@example("a\nb\u2028c \ud800", LINES[0])
def test_words_of_a_backend_are_one_line(detail: str, line: bytes) -> None:
    said = DIALECT.encode_reply(decoded(line), CommandFailed(Fault.INVALID_ARGUMENT, detail), TERMS)
    parts: Any = spec.parse_reply(said)
    assert (parts.code, parts.message != "") == (CODES[Fault.INVALID_ARGUMENT], True)


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


def spoken(request: Request) -> list[object]:
    """The arguments of a request as the grammar has them."""
    command, aside = request.command, request.context
    match command, aside:
        case LatestOffsets(), a.Election():
            return [command.topic.name]
        case LatestOffsets(), a.PartitionRole():
            return [command.topic.name, command.partition, "follower" if aside.follower else "leader"]
        case LatestOffsets(), a.PartitionLeader():
            return [command.topic.name, command.partition, aside.leader, [*aside.isr]]
        case LatestOffsets(), a.ReplicaFetch():
            return [command.topic.name, command.partition, aside.replica, aside.offset]
        case Fetch(), a.BrokerFetch():
            most = None if command.max_records == MAX_MESSAGES else command.max_records
            return [command.topic.name, command.partition, aside.follower, command.start, most]
        case CreateTopic(), a.Replication():
            return [command.topic.name, command.partitions, aside.replicas]
        case Ping(), a.RegisterBroker():
            return [aside.broker, aside.host, aside.port, aside.epoch or None]
        case Ping(), a.ReconcileBrokers():
            return [aside.timeout]
        case Ping(), a.BrokerHeartbeat() | a.FenceBroker():
            return [aside.broker]
    assert command == ListTopics("default")
    return []


@pytest.mark.parametrize("line", LINES, ids=verb)
def test_the_grammar_reads_the_same_names_and_numbers(line: bytes) -> None:
    args: Any = spec.parse_request(line)
    assert [value for name, value in args.args.items() if not name.startswith("_")] == spoken(decoded(line))


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
    said = {"version": "V1", "corr": "1", "command": verb.decode(), "words": " ".join(args).encode(), "args": None}
    assert same(spec.REQUEST.build({"line": said}))


def test_the_grammar_knows_every_command() -> None:
    assert set(READ) <= {verb.encode() for verb in spec.COMMANDS}
