"""What clients of mlog get from a gateway, in either coding: topics, records, offsets, leaders, replicas, streams."""

from __future__ import annotations

from typing import TypeVar

import pytest
from twisted.internet.task import Clock

from dialects.mlog_messages import terms
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical
from gateway.dialects.mlog import fields as m
from gateway.dialects.mlog import replication
from gateway.dialects.mlog.coding import CODINGS, Coding
from gateway.dialects.mlog.layout import Message
from gateway.dialects.mlog.spec import FRAME
from gateway.dialects.mlog.wire import measure
from net.peers import Client, Node

M = TypeVar("M", bound=Message)
NOW = 1_700_000_000_000_000


def node_of(**said: object) -> Node:
    clock = Clock()
    return Node(MemoryBackend(clock, lambda: NOW), "mlog", clock, advertise="gateway:9094", **said)


@pytest.fixture
def node() -> Node:
    return node_of()


class Speaker:
    """A client as the Go one is: one request, then the next frame."""

    def __init__(self, node: Node, coding: Coding) -> None:
        self.peer = node.connect()
        self.coding = coding

    def tell(self, number: int, message: Message) -> None:
        self.peer.send(FRAME.build({"type": number, "payload": self.coding.write(message)}))

    def hear(self) -> list[tuple[int, Message]]:
        data, found = self.peer.read(), []
        while data:
            size = measure(data, 0, 0)
            frame, data = FRAME.parse(data[:size]), data[size:]
            found.append((frame.type, self.coding.read(frame.payload, m.MESSAGES[frame.type])))
        return found

    def ask(self, number: int, message: Message, answer: type[M]) -> M:
        self.tell(number, message)
        ((type, heard),) = self.hear()
        assert type == number + 1, heard
        assert isinstance(heard, answer)
        return heard

    def fail(self, number: int, message: Message) -> int:
        self.tell(number, message)
        ((type, heard),) = self.hear()
        assert type == 20
        assert isinstance(heard, m.RPCErrorResponse)
        assert heard.message
        return heard.code

    def make(self, topic: str = "orders") -> None:
        self.ask(16, m.CreateTopicRequest(topic, 1), m.CreateTopicResponse)

    def send(self, *values: bytes) -> m.ProduceBatchResponse:
        return self.ask(4, m.ProduceBatchRequest("orders", list(values), 1), m.ProduceBatchResponse)

    def batch(self, offset: int, count: int = 100, id: str = "", replica: str = "") -> list[tuple[int, bytes]]:
        asked = m.FetchBatchRequest("orders", id, offset, count, replica)
        entries = self.ask(8, asked, m.FetchBatchResponse).entries
        return [(entry.offset, entry.value or b"") for entry in entries or [] if entry is not None]


@pytest.fixture(params=CODINGS.values(), ids=CODINGS)
def speaker(request: pytest.FixtureRequest, node: Node) -> Speaker:
    return Speaker(node, request.param)


def execute(node: Node, command: q.Command) -> r.Reply:
    reply = node.port.backend.execute(command, Session(99))
    assert not hasattr(reply, "addCallback")
    return reply  # type: ignore[return-value]  # memory answers at once


# -- topics and leaders


def test_a_topic_is_made_listed_and_deleted(speaker: Speaker) -> None:
    assert not speaker.ask(25, m.ListTopicsRequest(), m.ListTopicsResponse).topics
    made = speaker.ask(16, m.CreateTopicRequest("orders", 3), m.CreateTopicResponse)
    assert (made.topic, made.replica_node_ids or []) == ("orders", [])
    assert speaker.fail(16, m.CreateTopicRequest("orders", 1)) == 12
    (topic,) = speaker.ask(25, m.ListTopicsRequest(), m.ListTopicsResponse).topics or []
    assert (topic.name, topic.leader, topic.leader_epoch, topic.replicas or []) == ("orders", "node-1", 1, [])
    assert speaker.ask(18, m.DeleteTopicRequest("orders"), m.DeleteTopicResponse).topic == "orders"
    assert speaker.fail(18, m.DeleteTopicRequest("orders")) == 3


def test_who_leads_is_where_clients_can_dial(speaker: Speaker) -> None:
    assert speaker.fail(21, m.FindTopicLeaderRequest("orders")) == 3
    speaker.make()
    leader = speaker.ask(21, m.FindTopicLeaderRequest("orders"), m.FindTopicLeaderResponse)
    raft = speaker.ask(23, m.FindRaftLeaderRequest(), m.FindRaftLeaderResponse)
    assert leader.leader_addr == raft.raft_leader_addr == "gateway:9094"


def test_a_topic_is_not_made_by_its_first_use(speaker: Speaker) -> None:
    assert speaker.fail(2, m.ProduceRequest("orders", b"v", 1)) == 3
    assert speaker.fail(4, m.ProduceBatchRequest("orders", [b"v"], 1)) == 3
    assert speaker.fail(6, m.FetchRequest("orders")) == 3
    assert speaker.fail(8, m.FetchBatchRequest("orders")) == 3
    assert speaker.fail(0, m.ReplicateRequest("orders")) == 3


@pytest.mark.parametrize(
    ("number", "message", "code"),
    [
        (2, m.ProduceRequest(), 1),
        (2, m.ProduceRequest("orders"), 5),
        (2, m.ProduceRequest("orders", b"v", 3), 15),
        (4, m.ProduceBatchRequest(), 1),
        (4, m.ProduceBatchRequest("orders"), 5),
        (6, m.FetchRequest(), 1),
        (8, m.FetchBatchRequest(), 1),
        (8, m.FetchBatchRequest("orders", offset=1 << 63), 6),
        (10, m.FetchRequest("orders"), 0),
        (12, m.CommitOffsetRequest(), 1),
        (14, m.FetchOffsetRequest(), 1),
        (16, m.CreateTopicRequest(), 2),
        (16, m.CreateTopicRequest("x" * 256), 2),
        (18, m.DeleteTopicRequest(), 2),
        (21, m.FindTopicLeaderRequest(), 1),
        (0, m.ReplicateRequest(), 1),
        (3, m.ProduceResponse(), 0),
        (28, m.ApplyIsrUpdateEventResponse(), 0),
    ],
)
def test_what_cannot_be_is_refused_and_the_connection_goes_on(
    speaker: Speaker, number: int, message: Message, code: int
) -> None:
    speaker.make()
    assert speaker.fail(number, message) == code
    assert speaker.batch(0) == []


# -- records


def test_offsets_are_dense_from_0(speaker: Speaker) -> None:
    speaker.make()
    assert speaker.ask(2, m.ProduceRequest("orders", b"a", 1), m.ProduceResponse).offset == 0
    assert speaker.ask(2, m.ProduceRequest("orders", b"b", 0), m.ProduceResponse).offset == 1
    sent = speaker.ask(4, m.ProduceBatchRequest("orders", [b"c", b"", b"\0\xff"], 2), m.ProduceBatchResponse)
    assert (sent.base_offset, sent.last_offset, sent.count) == (2, 4, 3)
    assert speaker.batch(0) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b""), (4, b"\0\xff")]
    assert speaker.batch(2, 2) == [(2, b"c"), (3, b"")]
    assert speaker.batch(2, 0) == [(2, b"c")]
    fetched = speaker.ask(6, m.FetchRequest("orders", "", 4), m.FetchResponse)
    assert fetched.entry == m.LogEntry(4, b"\0\xff")


def test_nothing_is_appended_when_acks_are_invalid(speaker: Speaker) -> None:
    speaker.make()
    assert speaker.fail(2, m.ProduceRequest("orders", b"v", 7)) == 15
    assert speaker.batch(0) == []


def test_past_the_end_is_code_6_for_one_record_and_for_replicas_and_nothing_for_many(speaker: Speaker) -> None:
    speaker.make()
    speaker.send(b"a")
    assert speaker.fail(6, m.FetchRequest("orders", "", 1)) == 6
    assert speaker.fail(6, m.FetchRequest("orders", "", 500)) == 6
    assert speaker.batch(1) == []
    assert speaker.batch(500) == []
    assert speaker.fail(8, m.FetchBatchRequest("orders", "", 1, 10, "node-2")) == 6


def test_offset_0_goes_on_after_the_last_commit(speaker: Speaker) -> None:
    speaker.make()
    speaker.send(b"a", b"b", b"c")
    assert speaker.batch(0, 1) == [(0, b"a")]
    assert speaker.ask(12, m.CommitOffsetRequest("orders", "", 2), m.CommitOffsetResponse).success
    assert speaker.batch(0) == speaker.batch(0, id="default") == [(2, b"c")]
    assert speaker.batch(0, id="other") == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert speaker.batch(1) == [(1, b"b"), (2, b"c")]
    assert speaker.batch(0, replica="node-2") == [(0, b"a"), (1, b"b"), (2, b"c")]
    fetched = speaker.ask(6, m.FetchRequest("orders"), m.FetchResponse)
    assert fetched.entry == m.LogEntry(2, b"c")


def test_offset_0_is_the_first_where_the_listener_says_so() -> None:
    speaker = Speaker(node_of(fetch_zero_is_committed=False), CODINGS["json"])
    speaker.make()
    speaker.send(b"a", b"b")
    speaker.ask(12, m.CommitOffsetRequest("orders", "", 1), m.CommitOffsetResponse)
    assert speaker.batch(0) == [(0, b"a"), (1, b"b")]


def test_a_commit_is_kept_and_may_be_of_anything(speaker: Speaker) -> None:
    speaker.make()
    assert speaker.ask(14, m.FetchOffsetRequest("orders", "g"), m.FetchOffsetResponse).offset == 0
    for offset in (7, 1 << 40, 3):
        assert speaker.ask(12, m.CommitOffsetRequest("orders", "g", offset), m.CommitOffsetResponse).success
        assert speaker.ask(14, m.FetchOffsetRequest("orders", "g"), m.FetchOffsetResponse).offset == offset
    assert speaker.ask(14, m.FetchOffsetRequest("orders", "h"), m.FetchOffsetResponse).offset == 0


def test_a_commit_for_no_topic_succeeds_and_is_not_kept(speaker: Speaker) -> None:
    assert speaker.ask(12, m.CommitOffsetRequest("orders", "g", 5), m.CommitOffsetResponse).success
    assert speaker.ask(14, m.FetchOffsetRequest("orders", "g"), m.FetchOffsetResponse).offset == 0
    speaker.make()
    assert speaker.ask(14, m.FetchOffsetRequest("orders", "g"), m.FetchOffsetResponse).offset == 0


def test_an_id_is_a_group_of_all_dialects(node: Node, speaker: Speaker) -> None:
    speaker.make()
    speaker.send(b"a", b"b")
    topic = q.Topic("default", "orders")
    execute(node, q.CommitOffsets(topic, q.Group("billing"), {0: 1}))
    assert speaker.batch(0, id="billing") == [(1, b"b")]
    speaker.ask(12, m.CommitOffsetRequest("orders", "billing", 2), m.CommitOffsetResponse)
    assert execute(node, q.FetchOffsets(topic, q.Group("billing"))) == r.CommittedOffsets({0: 2}, {0: 2})


def test_of_a_topic_with_more_partitions_the_first_is_read_and_written(node: Node, speaker: Speaker) -> None:
    topic = q.Topic("default", "orders")
    execute(node, q.CreateTopic(topic, 3))
    execute(node, q.Publish(topic, 1, canonical([Record(value=b"elsewhere")])))
    execute(node, q.Publish(topic, 0, canonical([Record(b"key", b"here"), Record(b"key", None)], "pipe")))
    assert speaker.send(b"mine").base_offset == 2
    assert speaker.batch(0) == [(0, b"here"), (1, b""), (2, b"mine")]
    assert dict(node.listening.listener.losses) == {("pipe", "mlog", "key"): 2, ("pipe", "mlog", "tombstone"): 1}


def test_a_large_topic_is_read_to_its_end_in_answers_that_fit(speaker: Speaker) -> None:
    speaker.make()
    for _ in range(9):
        speaker.send(bytes(1_000_000))
    offset, answers = 0, []
    while found := speaker.batch(offset):
        answers.append(len(found))
        offset = found[-1][0] + 1
    assert offset == 9
    assert len(answers) == 3


# -- replicas


def test_a_replica_streams_batches_until_it_has_everything(speaker: Speaker) -> None:
    speaker.make()
    speaker.send(b"foo", b"barbaz", b"x")
    answer = speaker.ask(0, m.ReplicateRequest("orders", 0, 2, "node-2"), m.ReplicateResponse)
    assert (answer.topic, answer.end_of_stream, answer.leader_leo) == ("orders", False, 3)
    assert replication.decode(answer.raw_chunk or b"") == [(0, b"foo"), (1, b"barbaz")]
    answer = speaker.ask(0, m.ReplicateRequest("orders", 2, 0, "node-2"), m.ReplicateResponse)
    assert (answer.end_of_stream, replication.decode(answer.raw_chunk or b"")) == (True, [(2, b"x")])
    answer = speaker.ask(0, m.ReplicateRequest("orders", 3, 0, "node-2"), m.ReplicateResponse)
    assert (answer.end_of_stream, answer.raw_chunk or None) == (True, None)
    assert speaker.ask(27, m.ApplyIsrUpdateEventRequest("orders", "node-2", True), m.ApplyIsrUpdateEventResponse)


# -- connections


def test_requests_sent_at_once_are_answered_in_order_and_each_in_its_coding(node: Node) -> None:
    json, protobuf = CODINGS["json"], CODINGS["protobuf"]
    speaker = Speaker(node, json)
    speaker.make()
    for n in range(50):
        speaker.coding = json if n % 2 else protobuf
        speaker.tell(2, m.ProduceRequest("orders", b"%d" % n, 1))
    data = speaker.peer.read()
    for n in range(50):
        size = measure(data, 0, 0)
        coding = json if n % 2 else protobuf
        assert coding.read(data[6:size], m.ProduceResponse).offset == n
        data = data[size:]
    assert data == b""


# -- streams


def test_a_stream_sends_what_is_there_and_what_comes(speaker: Speaker) -> None:
    node = node_of(fetch_stream=True)
    writer, reader = Speaker(node, speaker.coding), Speaker(node, speaker.coding)
    writer.make()
    writer.send(b"a", b"b")
    reader.tell(10, m.FetchRequest("orders", "", 1))
    assert reader.hear() == [(11, m.FetchResponse(m.LogEntry(1, b"b")))]
    writer.send(b"c", b"d")
    assert reader.hear() == [(11, m.FetchResponse(m.LogEntry(at, value))) for at, value in ((2, b"c"), (3, b"d"))]
    reader.tell(25, m.ListTopicsRequest())
    assert reader.hear() == [], "a stream never ends, and nothing else is heard on it"
    writer.ask(18, m.DeleteTopicRequest("orders"), m.DeleteTopicResponse)
    ((number, error),) = reader.hear()
    assert (number, error.code if isinstance(error, m.RPCErrorResponse) else None) == (20, 3)
    assert reader.peer.left


def test_a_stream_of_nothing_is_an_error(speaker: Speaker) -> None:
    reader = Speaker(node_of(fetch_stream=True), speaker.coding)
    assert reader.fail(10, m.FetchRequest("orders")) == 3
    assert reader.fail(10, m.FetchRequest()) == 1


# -- our own client


@pytest.mark.parametrize("coding", CODINGS)
def test_our_client_and_our_server_understand_each_other(coding: str) -> None:
    node = node_of(fetch_stream=True)
    client = Client(node)
    client.session.terms = terms(coding=coding, fetch_stream=True)
    topic = q.Topic("default", "orders")
    made = client.ask(q.CreateTopic(topic, 1))
    assert isinstance(made, r.TopicDescription)
    assert client.ask(q.Publish(topic, 0, canonical([Record(value=b"a"), Record(value=b"")]))) == r.Published(0, 0, 1)
    assert client.ask(q.Publish(topic, q.Balanced(), canonical([Record(value=b"c")]))) == r.Published(0, 2, 2)
    assert client.ask(q.CommitOffsets(topic, q.Group("g"), {0: 2})) == r.Done()
    assert client.ask(q.FetchOffsets(topic, q.Group("g"))) == r.CommittedOffsets({0: 2})
    assert client.ask(q.FindLeader(topic)) == client.ask(q.FindLeader()) == r.Leader("gateway:9094")
    assert [read(client, start) for start in (0, 1, q.Next(q.Group("g")), 3)] == [
        [b"a", b"", b"c"],
        [b"", b"c"],
        [b"c"],
        [],
    ]
    listed = client.ask(q.ListTopics("default"))
    assert isinstance(listed, r.Topics)
    assert [at.name for at in listed.topics] == ["orders"]
    assert client.ask(q.DeleteTopic(topic)) == r.Done()
    missing = client.ask(q.Fetch(topic, 0, 0))
    assert isinstance(missing, CommandFailed)
    assert missing.fault is Fault.NO_SUCH_TOPIC


def read(client: Client, start: q.Start) -> list[bytes | None]:
    records = client.ask(q.Fetch(q.Topic("default", "orders"), 0, start))
    assert isinstance(records, r.Records)
    return [record.value for batch in records.batches for record in batch.records()]
