"""The mlog dialect piece by piece: what our client says, failures and reconnecting, batches, losses."""

from __future__ import annotations

import pytest

import wire
from dialects.mlog_messages import terms
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import CANONICAL, Header, Record, RecordBatch, canonical, registry
from gateway.dialects import ClientSession, Refusal, Request
from gateway.dialects.mlog import DIALECT, replication, spec
from gateway.dialects.mlog import fields as m
from gateway.dialects.mlog.answers import fitting
from gateway.dialects.mlog.coding import CODINGS, JSON, PROTOBUF, Coding
from gateway.dialects.mlog.faults import CODES, RECONNECT, failure_of, should_reconnect
from gateway.dialects.mlog.replication import Row
from gateway.dialects.mlog.requests import NOBODY
from gateway.dialects.mlog.terms import MAX_FRAME, MAX_PAYLOAD, Asked, MlogSettings
from gateway.dialects.mlog.wire import (
    decode_push,
    decode_reply,
    decode_request,
    encode_push,
    encode_reply,
    encode_request,
    measure,
)

TOPIC = q.Topic("default", "orders")
GROUP = q.Group("billing")
codings = pytest.mark.parametrize("coding", CODINGS.values(), ids=CODINGS)


def framed(number: int, payload: bytes) -> bytes:
    return spec.FRAME.build({"type": number, "payload": payload})


def asked(command: q.Command, context: Asked | None = None, **said: object) -> tuple[int, dict[str, object]]:
    """Type and fields of what our client says."""
    return spec.read_request(encode_request(Request(command, None, context), terms(**said)))


def stored(*records: Record, base: int = 0, origin: str = "mlog") -> RecordBatch:
    batch = canonical(list(records), origin)
    return RecordBatch(CANONICAL, batch.body, batch.count, base, 1_000, origin)


def test_the_hint_asks_for_the_topics() -> None:
    """It is a template, and JSON has braces of its own."""
    hint = DIALECT.hint.format(host="127.0.0.1", port=9094)
    assert hint == r"printf '\0\31\0\0\0\2{}' | nc -w 1 127.0.0.1 9094 | tail -c +7"


# -- what our client says


def test_one_record_is_produced_alone_and_an_empty_one_in_a_batch() -> None:
    assert asked(q.Publish(TOPIC, 0, canonical([Record(value=b"hi")]))) == (
        2,
        {"Topic": "orders", "Value": b"hi", "Acks": 1},
    )
    assert asked(q.Publish(TOPIC, q.Balanced(), canonical([Record(value=b"")]), q.Acks.ALL)) == (
        4,
        {"Topic": "orders", "Values": [b""], "Acks": 2},
    )


@pytest.mark.parametrize(
    ("command", "id", "offset", "count"),
    [
        (q.Fetch(TOPIC, 0, 0), NOBODY, 0, 500),
        (q.Fetch(TOPIC, 0, q.Next(GROUP), 7), "billing", 0, 7),
        (q.Fetch(TOPIC, 0, 5, 70_000, reader=GROUP), "billing", 5, 500),
    ],
)
def test_where_nobody_commits_offset_0_is_the_first(command: q.Fetch, id: str, offset: int, count: int) -> None:
    fields = {"Topic": "orders", "Id": id, "Offset": offset, "MaxCount": count, "ReplicaNodeID": ""}
    assert asked(command) == (m.FETCH_BATCH, fields)


@pytest.mark.parametrize("start", [0, 1, q.MAX_OFFSET])
@pytest.mark.parametrize("reader", [None, q.Consumer(7)])
def test_an_offset_that_nobody_reads_from_is_itself_at_the_other_end(start: int, reader: q.Reader | None) -> None:
    heard = decode_request(encode_request(Request(q.Fetch(TOPIC, 0, start, 10, reader=reader)), terms()), terms())
    assert isinstance(heard, Request)
    assert heard.command == q.Fetch(TOPIC, 0, start, 10, 3 << 20)


def test_who_does_not_want_acks_gets_one_from_a_server() -> None:
    """The project's own stores the record, and answers that it did not."""
    publish = q.Publish(TOPIC, 0, canonical([Record(value=b"hi")]), q.Acks.NONE)
    assert asked(publish)[1]["Acks"] == 1
    assert asked(publish, Asked(JSON, m.PRODUCE))[1]["Acks"] == 0


def test_a_count_that_somebody_said_is_said_again() -> None:
    assert asked(q.Fetch(TOPIC, 0, 5, 70_000), Asked(JSON, m.FETCH_BATCH))[1]["MaxCount"] == 10_000


def test_a_server_whose_offset_0_is_0_is_not_asked_what_comes_next() -> None:
    with pytest.raises(CommandFailed) as caught:
        asked(q.Fetch(TOPIC, 0, q.Next(GROUP)), fetch_zero_is_committed=False)
    assert caught.value.fault is Fault.UNSUPPORTED


@codings
@pytest.mark.parametrize("subject", [TOPIC, None])
def test_an_empty_address_is_not_where_a_leader_is(coding: Coding, subject: q.Topic | None) -> None:
    """To whoever asked us it would be here."""
    number = m.FIND_RAFT_LEADER if subject is None else m.FIND_TOPIC_LEADER
    request = Request(q.FindLeader(subject), None, Asked(coding, number))
    outcome = decode_reply(request, framed(number + 1, coding.write(m.MESSAGES[number + 1]())), terms())
    assert isinstance(outcome, CommandFailed)
    assert outcome.fault is Fault.UNAVAILABLE


def test_no_failure_says_where_the_leader_is() -> None:
    """It has no place for that: FindTopicLeader and FindRaftLeader are asked."""
    for code in range(17):
        assert "leader" not in failure_of(code, "topic orders: leader is node-2 at 10.0.0.2:9094").facts
    assert failure_of(4, "not the leader").fault is Fault.NOT_LEADER


def test_nothing_is_sent_where_there_is_nothing_to_write() -> None:
    with pytest.raises(CommandFailed) as caught:
        asked(q.Publish(TOPIC, 0, canonical([])))
    assert caught.value.fault is Fault.EMPTY_BATCH


def test_our_client_speaks_protobuf_where_it_is_told_to() -> None:
    for command, name in (
        (q.FindLeader(TOPIC), "who leads a topic, in protobuf"),
        (q.FindLeader(), "an empty payload is protobuf"),
    ):
        assert wire.request("mlog", command, coding="protobuf") == wire.said("mlog", name)


SILENT: list[q.Command] = [
    q.Ping(),
    q.Describe(),
    q.Publish(TOPIC, 1, canonical([Record(value=b"v")])),
    q.Publish(TOPIC, 0, canonical([Record(value=b"v")]), create=1),
    q.Publish(q.Topic("other", "orders"), 0, canonical([Record(value=b"v")])),
    q.Publish(q.Topic("default", 7), 0, canonical([Record(value=b"v")])),
    q.Fetch(TOPIC, 1, 0),
    q.Fetch(TOPIC, None, q.Next(GROUP)),
    q.Fetch(TOPIC, 0, q.First()),
    q.Fetch(TOPIC, 0, q.Last(3)),
    q.Fetch(TOPIC, 0, q.Next(GROUP, 3)),
    q.Fetch(TOPIC, 0, q.Next(q.Consumer(7))),
    q.Fetch(TOPIC, 0, q.Next(q.Group(NOBODY))),
    q.Fetch(TOPIC, 0, q.Next(GROUP), commit=True),
    q.Fetch(TOPIC, 0, 0, create=1),
    q.Follow(TOPIC, 0, 0),
    q.CommitOffsets(TOPIC, q.Group(NOBODY), {0: 5}),
    q.CommitOffsets(TOPIC, GROUP, {1: 5}),
    q.CommitOffsets(TOPIC, GROUP, {0: 5, 1: 5}),
    q.CommitOffsets(TOPIC, GROUP, {}),
    q.CommitOffsets(TOPIC, GROUP, {0: 5}, "member", 1),
    q.CommitOffsets(TOPIC, GROUP, {0: 5}, rising=True),
    q.CommitOffsets(TOPIC, GROUP, {0: 5}, bounded=True),
    q.FetchOffsets(TOPIC, GROUP, (1,)),
    q.CreateTopic(TOPIC, 3),
    q.CreateTopic(TOPIC, 1, q.TopicSettings(cleanup="compact")),
    q.CreateTopic(TOPIC, 1, if_exists=q.IfExists.KEEP),
    q.CreateTopic(TOPIC, 1, id=5),
    q.ListTopics("other"),
]


@pytest.mark.parametrize("command", SILENT, ids=repr)
def test_what_it_has_no_words_for_it_does_not_guess(command: q.Command) -> None:
    with pytest.raises(CommandFailed) as caught:
        asked(command)
    assert caught.value.fault is Fault.UNSUPPORTED


UNREPRESENTABLE: list[q.Command] = [
    q.FindLeader(q.Topic("default", "")),
    q.FindLeader(q.Topic("default", "x" * 256)),
    q.FindLeader(q.Topic("default", "\ud800")),
    q.CommitOffsets(TOPIC, q.Group(""), {0: 1}),
    q.CommitOffsets(TOPIC, GROUP, {0: 1 << 63}),
    q.Publish(TOPIC, 0, canonical([Record(value=bytes(3 << 20))])),
]


@pytest.mark.parametrize("command", UNREPRESENTABLE, ids=lambda command: type(command).__name__)
def test_what_the_wire_cannot_carry_is_not_sent(command: q.Command) -> None:
    with pytest.raises(CommandFailed) as caught:
        asked(command)
    assert caught.value.fault is Fault.UNREPRESENTABLE


def test_a_replica_has_to_say_where_it_is() -> None:
    request = Request(q.Fetch(TOPIC, 0, q.Next(GROUP), 10), None, Asked(JSON, m.REPLICATE))
    with pytest.raises(CommandFailed) as caught:
        encode_request(request, terms())
    assert caught.value.fault is Fault.UNSUPPORTED


def test_a_request_that_was_asked_for_without_a_context_has_the_type_that_our_client_gives_it() -> None:
    frame = encode_reply(Request(q.FindLeader(TOPIC)), r.Leader("h:1"), terms())
    assert decode_reply(Request(q.FindLeader(TOPIC)), frame, terms()) == r.Leader("h:1")


def test_an_answer_to_something_else_is_none() -> None:
    request = Request(q.FindLeader(TOPIC), None, Asked(JSON, m.FIND_TOPIC_LEADER))
    for frame in (
        framed(24, JSON.write(m.FindRaftLeaderResponse("h:1"))),
        framed(22, b"{"),
        framed(22, b""),
        framed(20, b"[]"),
        framed(22, b"")[:2],
    ):
        with pytest.raises(CommandFailed) as caught:
            decode_reply(request, frame, terms())
        assert caught.value.fault is Fault.MALFORMED


@pytest.mark.parametrize("offsets", [(5, 5), (6, 5), (1 << 63,)])
def test_entries_whose_offsets_do_not_rise_are_no_answer(offsets: tuple[int, ...]) -> None:
    request = Request(q.Fetch(TOPIC, 0, 0), None, Asked(JSON, m.FETCH_BATCH))
    entries: list[m.LogEntry | None] = [m.LogEntry(offset, b"") for offset in offsets]
    with pytest.raises(CommandFailed):
        decode_reply(request, framed(9, JSON.write(m.FetchBatchResponse(entries))), terms())


# -- failures


def test_a_fault_that_passes_never_sends_a_client_to_another_node() -> None:
    passing = {Fault.BUSY, Fault.TIMEOUT, Fault.UNAVAILABLE, Fault.INTERNAL, Fault.FORBIDDEN, Fault.UNAUTHENTICATED}
    assert {fault for fault, code in CODES.items() if code in RECONNECT} == {
        Fault.NO_SUCH_NAMESPACE,
        Fault.NO_SUCH_TOPIC,
        Fault.NOT_LEADER,
    }
    assert not passing & {fault for fault, code in CODES.items() if code in RECONNECT}


@pytest.mark.parametrize("code", range(-1, 18))
def test_should_reconnect_knows_every_code(code: int) -> None:
    assert should_reconnect(failure_of(code, "what happened")) is (code in (3, 4, 11))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, False),
        (EOFError(), True),
        (ConnectionResetError(), True),
        (BrokenPipeError(), True),
        (ConnectionRefusedError(), True),
        (ConnectionAbortedError(), True),
        (TimeoutError(), True),
        (ValueError(), False),
        (FileNotFoundError(), False),
        (CommandFailed(Fault.UNAVAILABLE, "the connection was lost"), True),
        (CommandFailed(Fault.TIMEOUT), True),
        (CommandFailed(Fault.MALFORMED), False),
        (CommandFailed(Fault.NO_SUCH_TOPIC), False),
    ],
)
def test_should_reconnect_knows_what_happens_to_connections(error: BaseException | None, expected: bool) -> None:
    assert should_reconnect(error) is expected


# -- limits


def test_a_payload_of_4_mib_is_taken_and_one_byte_more_ends_the_connection() -> None:
    least = JSON.write(m.FindTopicLeaderRequest("orders"))
    most = framed(21, least.ljust(MAX_PAYLOAD))
    session = DIALECT.open(MlogSettings(), registry([])).session("h:1")
    (call,) = session.receive(most, 0.0)
    assert call.request.command == q.FindLeader(TOPIC)
    assert len(most) == MAX_FRAME
    more = bytearray(most[:6])
    more[5] += 1
    session.receive(bytes(more), 0.0)
    session.answer(call, r.Leader("h:1"))
    assert session.closing
    assert session.take() == framed(22, JSON.write(m.FindTopicLeaderResponse("h:1")))


def test_a_batch_has_100_000_values_and_no_more() -> None:
    for count, kind in ((100_000, Request), (100_001, Refusal)):
        payload = JSON.write(m.ProduceBatchRequest("orders", [b""] * count, 1))
        assert isinstance(decode_request(framed(4, payload), terms()), kind)


def test_a_frame_that_is_not_one_is_refused_without_a_word() -> None:
    for frame in (b"", b"\0", framed(21, b"{}")[:-1], framed(21, b"{}") + b"x"):
        refusal = decode_request(frame, terms())
        assert isinstance(refusal, Refusal)
        assert refusal.closing
        assert encode_reply(refusal, refusal.failure, terms()) == b""


@codings
@pytest.mark.parametrize("size", [0, 1, 1000, 1_000_000])
def test_a_batch_of_answers_stops_before_4_mib(coding: Coding, size: int) -> None:
    values = [bytes(size)] * min(100_000, 6 * (1 << 20) // (size + 1))
    base = (1 << 63) - 1 - len(values)
    request = Request(q.Fetch(TOPIC, 0, base, 10), None, Asked(coding, m.FETCH_BATCH))
    batch = stored(*[Record(value=value) for value in values], base=base)
    frame = encode_reply(request, r.Records(0, 0, batch.end, (batch,)), terms())
    assert len(frame) <= MAX_FRAME
    answer = coding.read(frame[6:], m.FetchBatchResponse) if len(values) < 60_000 else None
    if answer is not None:
        assert answer.entries is not None
        assert [entry.offset for entry in answer.entries if entry] == list(range(base, base + len(answer.entries)))
        assert len(answer.entries) < len(values) or len(values) == 6
        assert (len(answer.entries) + 1) * coding.cost(size) > MAX_PAYLOAD - 64 or len(answer.entries) == len(values)


def test_a_record_that_no_answer_can_hold_is_a_failure_and_what_is_before_it_is_not() -> None:
    large = Record(value=bytes(3 << 20))
    request = Request(q.Fetch(TOPIC, 0, 0, 10), None, Asked(JSON, m.FETCH_BATCH))
    with pytest.raises(CommandFailed) as caught:
        encode_reply(request, r.Records(0, 0, 1, (stored(large),)), terms())
    assert caught.value.fault is Fault.UNREPRESENTABLE
    small = Record(value=b"x")
    both, alone = (r.Records(0, 0, 2, (stored(*records),)) for records in ((small, large), (small,)))
    assert encode_reply(request, both, terms()) == encode_reply(request, alone, terms())
    assert encode_reply(
        Request(q.Fetch(TOPIC, 0, 0, 10), None, Asked(PROTOBUF, m.FETCH_BATCH)),
        r.Records(0, 0, 1, (stored(large),)),
        terms(),
    )


@codings
def test_a_replication_batch_fits_its_answer(coding: Coding) -> None:
    batch = stored(*[Record(value=bytes(100_000))] * 60)
    request = Request(q.Fetch(q.Topic("default", "\x01" * 255), 0, 0, 60), None, Asked(coding, m.REPLICATE))
    frame = encode_reply(request, r.Records(0, 0, 60, (batch,)), terms())
    assert 3 << 20 < len(frame) <= MAX_FRAME
    answer = coding.read(frame[6:], m.ReplicateResponse)
    assert answer.raw_chunk is not None
    assert (len(replication.decode(answer.raw_chunk)) == 60, answer.end_of_stream, answer.leader_leo) == (
        False,
        False,
        60,
    )


def test_the_first_row_is_there_even_if_it_is_too_long() -> None:
    rows: list[Row] = [(0, bytes(10)), (1, b"")]
    assert fitting(rows, lambda size: size, 5) == rows[:1]
    assert fitting(rows, lambda size: size, 10) == rows
    assert fitting([], lambda size: size, 0) == []


# -- replication batches


@pytest.mark.parametrize(("first", "last"), [(0, 1 << 31), ((1 << 63) - 1, 1 << 63)])
def test_offsets_too_far_apart_or_too_high_are_no_batch(first: int, last: int) -> None:
    with pytest.raises(CommandFailed) as caught:
        replication.encode([(first, b""), (last, b"")])
    assert caught.value.fault is Fault.UNREPRESENTABLE


# -- streams


@codings
def test_a_stream_is_a_frame_for_each_record(coding: Coding) -> None:
    request = decode_request(framed(10, coding.write(m.FetchRequest("orders", "", 5))), terms(fetch_stream=True))
    assert isinstance(request, Request)
    assert request.command == q.Follow(TOPIC, 0, 5)
    pushed = encode_push(request, stored(Record(value=b"a"), Record(value=b""), base=5), terms(fetch_stream=True))
    first = pushed[: measure(pushed, 0, 0)]
    assert coding.read(first[6:], m.FetchResponse) == m.FetchResponse(m.LogEntry(5, b"a"))
    client = ClientSession(DIALECT, terms(fetch_stream=True))
    client.ask(request)
    batches = [batch for _, batch in client.receive(pushed)]
    assert [(batch.base, batch.records()) for batch in batches if isinstance(batch, RecordBatch)] == [
        (5, [Record(value=b"a")]),
        (6, [Record(value=b"")]),
    ]


def test_a_stream_ends_with_an_error_and_may_say_that_there_is_nothing_yet() -> None:
    request = Request(q.Follow(TOPIC, 0, 5))
    here = terms(fetch_stream=True)
    nothing = JSON.write(m.FetchResponse())
    assert decode_push(request, framed(11, nothing), here) is None
    ended = decode_push(request, framed(20, JSON.write(m.RPCErrorResponse(3, "gone"))), here)
    assert isinstance(ended, CommandFailed)
    assert ended.fault is Fault.NO_SUCH_TOPIC
    with pytest.raises(CommandFailed):
        decode_push(request, framed(7, nothing), here)


# -- losses


def test_what_this_wire_has_no_place_for_is_counted_and_only_that() -> None:
    full = Record(b"k", None, (Header(b"h", b"v"),), 0, 5, b"i" * 16, b"p", 1, 2, b"e", 3, 4, b"m", 6)
    batch = stored(full, Record(value=b"x"), Record(b"k", b"y"), origin="cursus")
    here = terms()
    request = Request(q.Fetch(TOPIC, 0, 0, 10), None, Asked(JSON, m.FETCH_BATCH))
    frame = encode_reply(request, r.Records(0, 0, 3, (batch,)), here)
    entries = JSON.read(frame[6:], m.FetchBatchResponse).entries or []
    assert [entry.value for entry in entries if entry] == [b"", b"x", b"y"]
    fields = "headers origin_timestamp id producer epoch sequence event_type schema_version aggregate_version"
    once = {("cursus", "mlog", name): 1 for name in [*fields.split(), "metadata", "expiry", "tombstone"]}
    assert dict(here.losses) == {**once, ("cursus", "mlog", "key"): 2}


def test_nothing_is_lost_of_what_it_wrote_itself() -> None:
    here = terms()
    request = Request(q.Fetch(TOPIC, 0, 0, 10), None, Asked(JSON, m.FETCH_BATCH))
    encode_reply(request, r.Records(0, 0, 1, (stored(Record(value=b"x")),)), here)
    encode_request(Request(q.Publish(TOPIC, 0, canonical([Record(value=b"x")], "mlog"))), here)
    assert not here.losses


def test_a_key_is_lost_on_the_way_to_a_server() -> None:
    here = terms()
    encode_request(Request(q.Publish(TOPIC, q.ByKey(b"k", "fnv1a_32"), canonical([Record(b"k", b"x")], "pipe"))), here)
    assert dict(here.losses) == {("pipe", "mlog", "key"): 1}
