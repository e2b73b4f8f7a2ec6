"""What Iggy clients of every generation get from a gateway: streams, offsets, groups, and each other's messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent

import wire
from dialects.iggy_requests import IDS, REQUESTS
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Header, HeaderKind, Record, canonical, registry
from gateway.core.replies import Outcome
from gateway.dialects import ClientSession, Request, load
from gateway.dialects.iggy import codes
from gateway.dialects.iggy.generations import GENERATIONS
from gateway.dialects.iggy.said import Login
from gateway.dialects.iggy.spec import parse_response
from gateway.net.server import Listening
from net.peers import Client, Node, Peer

IGGY = load("iggy")
ENCODINGS = registry(encoding for name in ("iggy", "cursus") for encoding in load(name).encodings)
VERSIONS = {"g1a": None, "g1b_texts": "0.6.31", "g1b": "0.6.202", "g2a": "0.7.0", "g2b": "0.8.0", "g2c": "0.10.0"}
LATER = list(VERSIONS)
ALL = list(GENERATIONS)
TOPIC = q.Topic("shop", "orders")
ME = q.Consumer(7)
HERE = IPv4Address("TCP", "127.0.0.1", 54321)


class Speaker(Client):
    """A client of one generation; it has logged in, where there was a login."""

    def __init__(self, node: Node, generation: str = "g2c") -> None:
        self.peer: Peer = node.connect(address=HERE)
        listener = IGGY.open(IGGY.settings(generation=generation), ENCODINGS)  # type: ignore[call-arg]
        self.session = ClientSession(IGGY, listener.terms("127.0.0.1:1"))
        self.outcomes = {}
        self._issued = 0
        self.generation = generation
        if generation in VERSIONS:
            assert self.log_in() == r.Authenticated("iggy", 1)

    def log_in(self) -> Outcome:
        self._issued += 1
        command = q.Authenticate("plain", "iggy", "iggy")
        self.session.ask(Request(command, self._issued, Login(VERSIONS[self.generation])))
        self.peer.send(self.session.take())
        self.listen()
        return self.outcomes[self._issued]

    @property
    def ids(self) -> bool:
        """Whether a client chooses ids, and has to."""
        return self.generation == "g0"

    def make(self, partitions: int = 3) -> None:
        id = 1 if self.ids else None
        self.ask(q.CreateNamespace("shop", id))
        self.ask(q.CreateTopic(TOPIC, partitions, id=id))

    def send(self, *values: bytes, to: int | q.Balanced | q.ByKey = 0) -> Outcome:
        return self.ask(q.Publish(TOPIC, to, canonical([Record(value=value) for value in values])))

    def poll(self, partition: int | None = 0, start: q.Start = 0, count: int = 100, **said: object) -> r.Records:
        reader = cast(q.Reader, said.pop("reader", ME))
        return cast(r.Records, self.ask(q.Fetch(TOPIC, partition, start, count, reader=reader, **said)))  # type: ignore[arg-type]

    def values(self, partition: int | None = 0, start: q.Start = 0, count: int = 100, **said: object) -> list[bytes]:
        return [value for _, value in rows(self.poll(partition, start, count, **said))]

    def fault(self, command: q.Command) -> tuple[Fault, object]:
        outcome = self.ask(command)
        assert isinstance(outcome, CommandFailed), outcome
        return outcome.fault, outcome.facts.get("status")


def rows(records: r.Records) -> list[tuple[int, bytes]]:
    assert isinstance(records, r.Records), records
    return [(offset, record.value or b"") for batch in records.batches for offset, _, record in batch.rows()]


@pytest.fixture
def node() -> Node:
    clock = Clock()
    made = Node(MemoryBackend(clock, lambda: 1_700_000_000_000_000), "iggy", clock)
    made.listening = Listening("test", IGGY.open(IGGY.settings(), ENCODINGS))
    made.listening.port = made.port
    return made


@pytest.fixture(params=ALL)
def speaker(request: pytest.FixtureRequest, node: Node) -> Iterator[Speaker]:
    speaker = Speaker(node, request.param)
    speaker.make()
    yield speaker
    assert not speaker.peer.left


# -- streams and topics


def test_what_is_made_is_shown(speaker: Speaker) -> None:
    speaker.send(b"one", b"two")
    stream = speaker.ask(q.DescribeNamespace("shop"))
    assert isinstance(stream, r.NamespaceDescription)
    assert (stream.name, stream.topics, stream.records) == ("shop", 1, 2)
    assert [topic.name for topic in stream.contents] == ["orders"]
    topic = speaker.ask(q.DescribeTopic(TOPIC))
    assert isinstance(topic, r.TopicDescription)
    assert [(at.index, at.start, at.end) for at in topic.partitions] == [(0, 0, 2), (1, 0, 0), (2, 0, 0)]
    assert speaker.ask(q.DescribeTopic(q.Topic(stream.id, topic.id))) == msg(topic, str(stream.id))


def msg(topic: r.TopicDescription, stream: str) -> r.TopicDescription:
    return r.TopicDescription(stream, topic.name, topic.id, topic.created, topic.settings, topic.partitions)


def test_the_default_stream_is_there_beside_the_ones_that_clients_number(node: Node) -> None:
    speaker = Speaker(node, "g0")
    assert speaker.ask(q.CreateNamespace("first", 1)) == r.NamespaceDescription(1, "first", 0, 0, 0, 0)
    streams = speaker.ask(q.ListNamespaces())
    assert isinstance(streams, r.Namespaces)
    assert [(at.id, at.name) for at in streams.namespaces] == [(1, "first"), (0xFFFFFFFF, "default")]


def test_what_exists_and_what_is_missing_is_said_by_id_or_by_name(speaker: Speaker) -> None:
    id = 1 if speaker.generation not in ("g2b", "g2c") else None
    other = 2 if id else None
    assert speaker.fault(q.CreateNamespace("shop", other)) == (Fault.NAMESPACE_EXISTS, 1012)
    assert speaker.fault(q.CreateTopic(TOPIC, 1, id=other)) == (Fault.TOPIC_EXISTS, 2013)
    if id:
        assert speaker.fault(q.CreateNamespace("new", id)) == (Fault.NAMESPACE_EXISTS, 1011)
        assert speaker.fault(q.CreateTopic(q.Topic("shop", "new"), 1, id=id)) == (Fault.TOPIC_EXISTS, 2012)
    assert speaker.fault(q.DeleteNamespace("none")) == (Fault.NO_SUCH_NAMESPACE, 1010)
    assert speaker.fault(q.DeleteNamespace(99)) == (Fault.NO_SUCH_NAMESPACE, 1009)
    assert speaker.fault(q.DeleteTopic(q.Topic("shop", "none"))) == (Fault.NO_SUCH_TOPIC, 2011)
    assert speaker.fault(q.DeleteTopic(q.Topic("shop", 99))) == (Fault.NO_SUCH_TOPIC, 2010)
    assert speaker.fault(q.DeleteTopic(q.Topic(99, "orders"))) == (Fault.NO_SUCH_NAMESPACE, 1009)


def test_asking_about_what_is_missing_is_no_error_since_0_5(speaker: Speaker) -> None:
    missing = speaker.ask(q.DescribeNamespace("none"))
    assert isinstance(missing, CommandFailed)
    empty = speaker.generation not in ("g0", "g1a")
    assert missing.facts.get("status") == (None if empty else 1010)
    assert speaker.peer.read() == b""


def test_partitions_come_and_go(speaker: Speaker) -> None:
    untold = r.TopicDescription("shop", "orders", 0, 0, q.TopicSettings(), ())
    assert speaker.ask(q.CreatePartitions(TOPIC, 2)) == untold
    assert speaker.ask(q.DeletePartitions(TOPIC, 4)) == untold
    topic = speaker.ask(q.DescribeTopic(TOPIC))
    assert isinstance(topic, r.TopicDescription)
    assert len(topic.partitions) == 1
    assert speaker.ask(q.DeletePartitions(TOPIC, 100)) == untold
    assert speaker.fault(q.Publish(TOPIC, q.Balanced(), canonical([Record(value=b"v")]))) == (
        Fault.NO_SUCH_PARTITION,
        3008,
    )


@pytest.mark.parametrize("generation", LATER)
def test_the_limits_of_a_topic_come_back_as_they_were_set(node: Node, generation: str) -> None:
    speaker = Speaker(node, generation)
    speaker.ask(q.CreateNamespace("shop"))
    labels = {"compression": "gzip", "max_topic_size": "1000000", "replication_factor": "3"}
    settings = q.TopicSettings(retention_us=60_000_000, labels=labels)
    speaker.ask(q.CreateTopic(TOPIC, 1, settings))
    topic = speaker.ask(q.DescribeTopic(TOPIC))
    assert isinstance(topic, r.TopicDescription)
    assert topic.settings == settings


# -- messages


def test_messages_are_polled_as_they_were_sent(speaker: Speaker) -> None:
    headers = (Header(b"color", b"red", HeaderKind.TEXT), Header(b"n", bytes((5, 0, 0, 0)), HeaderKind.UINT32))
    records = [Record(value=b"one", headers=headers, id=bytes(15) + b"\7"), Record(value=b"two" * 9, id=b"\1" * 16)]
    assert speaker.ask(q.Publish(TOPIC, 1, canonical(records))) == r.Published(1, 0, 0), "the offsets are not said"
    polled = speaker.poll(1)
    got = [record for batch in polled.batches for record in batch.records()]
    assert [(at.value, at.headers, at.id) for at in got] == [(at.value, at.headers, at.id) for at in records]
    assert (polled.partition, polled.end) == (1, 2)


def test_a_message_without_an_id_gets_one_of_its_own(speaker: Speaker) -> None:
    speaker.send(*[b"%d" % n for n in range(20)])
    speaker.send(b"a", b"bc")
    ids = [record.id for batch in speaker.poll().batches for record in batch.records()]
    assert len(set(ids)) == 22
    assert all(len(id) == 16 for id in ids)


def test_the_five_ways_to_poll(speaker: Speaker) -> None:
    for first in range(0, 10, 2):
        speaker.send(b"%d" % first, b"%d" % (first + 1))
    times = [time for batch in speaker.poll().batches for _, time, _ in batch.rows()]
    assert times == sorted(set(times))
    assert speaker.values(0, 4, 3) == [b"4", b"5", b"6"]
    assert speaker.values(0, q.FromTime(times[7]), 5) == [b"7", b"8", b"9"]
    assert speaker.values(0, q.First(), 2) == [b"0", b"1"]
    assert speaker.values(0, q.Last(3), 3) == [b"7", b"8", b"9"]
    assert speaker.values(0, q.Next(ME), 4, commit=True) == [b"0", b"1", b"2", b"3"]
    assert speaker.values(0, q.Next(ME), 2) == [b"4", b"5"]
    assert speaker.values(0, q.Next(ME), 2) == [b"4", b"5"], "what was not committed comes again"
    assert speaker.values(0, 10) == []
    assert speaker.values(0, 500) == []


def test_any_poll_may_commit(speaker: Speaker) -> None:
    speaker.send(*[b"%d" % n for n in range(6)])
    assert speaker.values(0, 3, 2, commit=True) == [b"3", b"4"]
    assert speaker.values(0, q.Next(ME)) == [b"5"]
    assert speaker.values(0, 6, 2, commit=True) == []
    assert speaker.values(0, q.Next(ME)) == [b"5"], "nothing was read, so nothing is stored"


@pytest.mark.parametrize(
    ("generation", "partitioner", "partition"),
    [
        ("g0", "murmur3", 1),
        ("g1a", "xxh32_from_1", 0),
        ("g2a", "xxh32_from_1", 0),
        ("g2b", "xxh32", 1),
        ("g2c", "xxh32", 1),
    ],
)
def test_a_key_is_hashed_as_servers_of_that_time_do(
    node: Node, generation: str, partitioner: str, partition: int
) -> None:
    speaker = Speaker(node, generation)
    speaker.make()
    speaker.send(b"first", to=q.ByKey(b"k1", partitioner))
    assert [at for at in range(3) if speaker.values(at)] == [partition]


def test_a_balanced_batch_stays_whole_and_the_next_goes_on(speaker: Speaker) -> None:
    for n in range(3):
        speaker.send(b"a%d" % n, b"b%d" % n, to=q.Balanced())
    assert sorted(speaker.values(at)[0] for at in range(3)) == [b"a0", b"a1", b"a2"]
    assert all(len(speaker.values(at)) == 2 for at in range(3))


def test_wrong_polls_and_sends_are_told_so(speaker: Speaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "gateway.dialects.iggy.messages.check_limits", lambda *said: None
    )  # a client that does not look
    assert speaker.fault(q.Publish(TOPIC, 3, canonical([Record(value=b"v")]))) == (Fault.NO_SUCH_PARTITION, 3007)
    assert speaker.fault(q.Fetch(TOPIC, 3, 0, 1, reader=ME)) == (Fault.NO_SUCH_PARTITION, 3007)
    assert speaker.fault(q.Publish(TOPIC, 0, canonical([Record(value=b"")]))) == (Fault.EMPTY_BATCH, 4024)
    assert speaker.fault(q.Publish(TOPIC, 0, canonical([Record(value=bytes(11 << 20))]))) == (Fault.TOO_LARGE, 4022)
    assert speaker.values() == []


@pytest.mark.parametrize("reader", ALL)
@pytest.mark.parametrize("writer", ALL)
def test_what_one_generation_writes_every_other_reads(node: Node, writer: str, reader: str) -> None:
    speaker = Speaker(node, writer)
    speaker.make()
    header = Header(b"k", b"v", HeaderKind.TEXT)
    sent = [
        Record(value=b"%d" % n * (n % 3 + 1), headers=(header,) * (n % 2), id=bytes(15) + b"%c" % (n + 1))
        for n in range(12)
    ]
    speaker.ask(q.Publish(TOPIC, 0, canonical(sent)))
    got = [record for batch in Speaker(node, reader).poll().batches for record in batch.records()]
    assert [(at.value, at.headers, at.id) for at in got] == [(at.value, at.headers, at.id) for at in sent]


# -- offsets


def test_offsets_are_of_what_was_read_last(speaker: Speaker) -> None:
    speaker.send(b"0", b"1", b"2")
    never = speaker.ask(q.FetchOffsets(TOPIC, ME, (0,)))
    assert isinstance(never, r.CommittedOffsets)
    assert never.offsets == {}
    assert speaker.ask(q.CommitOffsets(TOPIC, ME, {0: 2})) == r.Done()
    assert speaker.ask(q.FetchOffsets(TOPIC, ME, (0,))) == r.CommittedOffsets({0: 2}, {0: 3})
    assert speaker.values(0, q.Next(ME)) == [b"2"]
    assert speaker.fault(q.CommitOffsets(TOPIC, ME, {0: 4})) == (Fault.INVALID_OFFSET, 4100)
    assert speaker.ask(q.FetchOffsets(TOPIC, q.Consumer(8), (0,))) != r.CommittedOffsets({0: 2}, {0: 3})


@pytest.mark.parametrize("generation", LATER)
def test_a_stored_offset_can_be_forgotten_once(node: Node, generation: str) -> None:
    speaker = Speaker(node, generation)
    speaker.make()
    speaker.send(b"0", b"1")
    speaker.ask(q.CommitOffsets(TOPIC, ME, {0: 1}))
    assert speaker.ask(q.DeleteOffsets(TOPIC, ME, (0,))) == r.Done()
    assert speaker.fault(q.DeleteOffsets(TOPIC, ME, (0,))) == (Fault.NO_SUCH_OFFSET, 3021)
    assert speaker.values(0, q.Next(ME)) == [b"0", b"1"]


# -- groups

TEAM = 5
GROUP = q.Group(TEAM)


def join(speaker: Speaker, create: bool = False) -> None:
    if create:
        name = "5" if speaker.generation == "g0" else "team"
        id = None if speaker.generation in ("g2b", "g2c") else TEAM
        speaker.ask(q.CreateGroup(TOPIC, name, id))
    assert speaker.ask(q.JoinGroup(TOPIC, TEAM, "", q.WhileConnected(), existing=True)) == r.Joined("", 0, ())


@pytest.mark.parametrize("generation", ["g0", "g1a", "g1b", "g2a"])
def test_members_share_the_partitions_and_hand_over(node: Node, generation: str) -> None:
    one, two = Speaker(node, generation), Speaker(node, generation)
    one.make()
    join(one, create=True)
    join(two)
    join(two)
    for partition in range(3):
        one.send(b"%d" % partition, to=partition)
    seen = {
        name: sorted(value for _ in range(6) for value in at.values(None, q.Next(GROUP), reader=GROUP, commit=True))
        for name, at in (("one", one), ("two", two))
    }
    assert sorted(seen["one"] + seen["two"]) == [b"0", b"1", b"2"]
    assert {len(seen["one"]), len(seen["two"])} == {1, 2}
    group = one.ask(q.DescribeGroup(TOPIC, TEAM))
    assert isinstance(group, r.GroupDescription)
    assert sorted(at for member in group.members for at in member.assignment) == [0, 1, 2]
    two.peer.lose()
    for partition in range(3):
        one.send(b"x%d" % partition, to=partition)
    late = sorted(value for _ in range(6) for value in one.values(None, q.Next(GROUP), reader=GROUP, commit=True))
    assert late == [b"x0", b"x1", b"x2"]


def test_a_member_leaves_once(speaker: Speaker) -> None:
    if speaker.generation in ("g2b", "g2c"):
        group: int | str = "team"
        speaker.ask(q.CreateGroup(TOPIC, "team"))
    else:
        group = TEAM
        speaker.ask(q.CreateGroup(TOPIC, "5" if speaker.generation == "g0" else "team", TEAM))
    assert speaker.ask(q.JoinGroup(TOPIC, group, "", q.WhileConnected(), existing=True)) == r.Joined("", 0, ())
    assert speaker.ask(q.LeaveGroup(TOPIC, group, "")) == r.Done()
    stranger = 5002 if speaker.generation == "g0" else 5006
    assert speaker.fault(q.LeaveGroup(TOPIC, group, "")) == (Fault.NOT_A_MEMBER, stranger)
    assert speaker.fault(q.Fetch(TOPIC, None, q.Next(q.Group(group)), 1)) == (Fault.NOT_A_MEMBER, stranger)
    assert speaker.ask(q.DeleteGroup(TOPIC, group)) == r.Done()
    missing = 5000 if isinstance(group, int) else 5003
    join = q.JoinGroup(TOPIC, group, "", q.WhileConnected(), existing=True)
    assert speaker.fault(join) == (Fault.NO_SUCH_GROUP, missing)


@pytest.mark.parametrize(("generation", "by_id"), [("g1b", 5001), ("g2a", 5001), ("g2c", 5004)])
def test_a_group_that_exists_is_so_by_name_for_who_goes_on_to_join_it(node: Node, generation: str, by_id: int) -> None:
    speaker = Speaker(node, generation)
    speaker.make()
    speaker.ask(q.CreateGroup(TOPIC, "team"))
    assert speaker.fault(q.CreateGroup(TOPIC, "team")) == (Fault.GROUP_EXISTS, 5004)
    if by_id == 5001:
        assert speaker.fault(q.CreateGroup(TOPIC, "other", 1)) == (Fault.GROUP_EXISTS, by_id)


def test_a_member_without_a_partition_gets_nothing(node: Node) -> None:
    one, two = Speaker(node, "g0"), Speaker(node, "g0")
    one.make(partitions=1)
    join(one, create=True)
    join(two)
    one.send(b"0")
    got = [at.values(None, q.Next(GROUP), reader=GROUP) for at in (one, two)]
    assert sorted(got) == [[], [b"0"]]


def test_a_member_stores_what_it_polled_last(node: Node) -> None:
    """In g0 a group's member cannot say of which partition."""
    one = Speaker(node, "g0")
    one.make(partitions=2)
    join(one, create=True)
    one.send(b"a", b"b", to=0)
    one.send(b"c", b"d", to=1)
    assert one.fault(q.CommitOffsets(TOPIC, GROUP, {None: 1})) == (Fault.NO_SUCH_PARTITION, 3007)
    first = one.poll(None, q.Next(GROUP), 1, reader=GROUP)
    assert one.ask(q.CommitOffsets(TOPIC, GROUP, {None: 1})) == r.Done()
    assert one.ask(q.FetchOffsets(TOPIC, GROUP, (None,))) == r.CommittedOffsets({}, {first.partition: 2})
    one.ask(q.CommitOffsets(TOPIC, GROUP, {None: 2}))
    assert one.ask(q.FetchOffsets(TOPIC, GROUP, (None,))) == r.CommittedOffsets(
        {first.partition: 2}, {first.partition: 2}
    )
    second = one.poll(None, q.Next(GROUP), 1, reader=GROUP)
    assert second.partition == 1 - first.partition


# -- who is there


def test_clients_see_each_other(speaker: Speaker, node: Node) -> None:
    Speaker(node, "g0")
    me = speaker.ask(q.DescribeSession())
    assert isinstance(me, r.SessionDescription)
    sessions = speaker.ask(q.ListSessions())
    assert isinstance(sessions, r.Sessions)
    assert me.id in [at.id for at in sessions.sessions]
    assert len(sessions.sessions) == 2
    assert speaker.ask(q.DescribeSession(me.id)) == me
    assert speaker.fault(q.DescribeSession(4_000_000)) == (Fault.NO_SUCH_SESSION, 100)


def test_a_client_is_shown_with_its_groups(node: Node) -> None:
    one = Speaker(node, "g1b")
    one.make()
    join(one, create=True)
    me = one.ask(q.DescribeSession())
    assert isinstance(me, r.SessionDescription)
    assert [(at.namespace, at.topic, at.group) for at in me.memberships] == [(1, 1, TEAM)]


def test_the_node_counts_what_it_has(speaker: Speaker) -> None:
    speaker.send(b"one", b"two")
    node = speaker.ask(q.Describe())
    assert isinstance(node, r.NodeDescription)
    assert (node.namespaces, node.topics, node.partitions, node.records, node.sessions) == (2, 1, 3, 2, 1)
    assert node.process is not None
    assert node.process.memory > 1 << 20
    assert node.process.host


@pytest.mark.parametrize("generation", ["g2b", "g2c"])
def test_the_cluster_is_this_node(node: Node, generation: str) -> None:
    leader = Speaker(node, generation).ask(q.FindLeader())
    assert isinstance(leader, r.Leader)
    assert leader.address.rpartition(":")[2].isdigit()


def test_who_asks_for_the_cluster_before_clients_did_is_told_too(speaker: Speaker) -> None:
    speaker.peer.send(wire.request("iggy", q.FindLeader(), generation="g2c"))
    answer = parse_response(speaker.peer.read(), codes.GET_CLUSTER_METADATA, speaker.generation)
    assert answer is not None
    assert "gateway" in answer.payload.cluster.name


# -- where a login is required


def shut(generation: str) -> Node:
    node = Node(MemoryBackend(Clock()), IGGY, auth="required", generation=generation)
    node.listening.listener.encodings = ENCODINGS
    return node


@pytest.mark.parametrize(("generation", "code", "data"), REQUESTS, ids=IDS)
def test_nothing_but_ping_and_login_is_done_for_who_did_not_log_in(generation: str, code: int, data: bytes) -> None:
    peer = shut(generation).connect(address=HERE)
    with capturedLogs() as events:
        peer.send(data + data)
        answers = peer.read()
    one = answers[: IGGY.measure_reply(answers, 0, 0)]
    answer = parse_response(one, code, generation)
    assert answer is not None
    if code in (codes.PING, codes.LOGIN, codes.LOGIN_WITH_TOKEN):
        assert answer.status in (0, 42), "a login is judged"
        assert all("was refused" in formatEvent(event) for event in events)
        assert len(events) == (2 if answer.status else 0), "each wrong login is told"
    else:
        text = "log in first" if generation in ("g1a", "g1b_texts") else None
        assert (answer.status, answer.payload.get("text")) == (40, text)
        assert answers == one * 2
        assert len(events) == 1, "the log says it once"
    assert not peer.left


def test_the_log_names_the_generation_that_cannot_log_in() -> None:
    peer = shut("auto").connect(address=HERE)
    with capturedLogs() as events:
        peer.send(wire.request("iggy", q.ListNamespaces()))
        assert peer.read() == wire.told("iggy", "who has to log in first gets error 40, g0")
    (line,) = [formatEvent(event) for event in events]
    assert "g0" in line
    assert "login" in line
    login = "a client logs in and says that it is 0.10.0: apache-iggy 0.8.0"
    peer.send(wire.said("iggy", login))
    peer.send(wire.request("iggy", q.ListNamespaces()))
    assert peer.read().startswith(wire.told("iggy", login)), "it may still log in"
