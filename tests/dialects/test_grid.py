"""gateway.dialects.grid: settings, tables, what has no words, and what is seen of messages."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.grid_frames import (
    GRID,
    MEANT,
    M,
    cut,
    decoded,
    frame,
    i64,
    listener,
    one,
    terms,
)
from dialects.strategies import commands
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Header, Record, RecordBatch, canonical
from gateway.core.replies import Outcome
from gateway.dialects import ClientSession, Request
from gateway.dialects.grid import numbers
from gateway.dialects.grid.terms import Asked, GridTerms

PING = Request(q.Ping(), 1)


def shown(outcome: Outcome) -> tuple[int, list[tuple[int, bytes | None]]]:
    """Where to go on, and the messages by their sequences."""
    assert isinstance(outcome, r.Records)
    return outcome.end, [(offset, record.value) for batch in outcome.batches for offset, _, record in batch.rows()]


def fault_of(command: q.Command, at: GridTerms | None = None, tag: int | str = 1) -> Fault:
    with pytest.raises(CommandFailed) as caught:
        GRID.encode_request(Request(command, tag), terms() if at is None else at)
    return caught.value.fault


# -- settings


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"opcodes": {"MAP_GTE": 7}}, "opcodes: there is no 'MAP_GTE'; there are MAP_PUT, MAP_GET"),
        ({"opcodes": {"MAP_GET": 256}}, r"opcodes: MAP_GET is 256, and it has to be 0\.\.255"),
        ({"opcodes": {"MAP_GET": -1}}, "opcodes: MAP_GET is -1"),
        ({"opcodes": {"MAP_GET": 1}}, "opcodes: MAP_PUT and MAP_GET are both 1"),
        ({"opcodes": {"RAFT_VOTE": 0xF0, "WAN_SYNC": 0xF0}}, "opcodes: RAFT_VOTE and WAN_SYNC are both 240"),
        ({"opcodes": {"CLUSTER_PING": 0x70}}, "opcodes: AUTH and CLUSTER_PING are both 112"),
        ({"status": {"FINE": 7}}, "status: there is no 'FINE'"),
        ({"status": {"OK": 1}}, "status: OK and NOT_FOUND are both 1"),
        ({"status": {"RAFT_OK": 77}}, "status: there is no 'RAFT_OK'"),
        ({"flags": {"HAS_SENDER_ID": 0x30}}, "flags: HAS_SENDER_ID is 0x30, and a flag is one bit"),
        ({"flags": {"HAS_SENDER_ID": 0}}, "flags: HAS_SENDER_ID is 0x00, and a flag is one bit"),
        ({"flags": {"HAS_SENDER_ID": 2}}, "flags: HAS_SENDER_ID and COMPRESSED_LZ4 are both 2"),
        ({"feature_bits": {"lz4": 64}}, r"feature_bits: lz4 is 64, and it has to be 0\.\.63"),
        ({"feature_bits": {"snappy": 1}}, "feature_bits: there is no 'snappy'; there are lz4, zstd"),
        ({"compression": ["gzip"]}, "Invalid enum value 'gzip'"),
        ({"sender_len_width": 3}, "Invalid enum value 3"),
        ({"magic": 256}, "<= 255"),
        ({"versions": []}, "length >= 1"),
        ({"max_body": 1}, ">= 64"),
        ({"hello": {"version": "new"}}, "'new' is no version such as 1.0.0"),
        ({"hello": {"colour": "red"}}, "unknown field"),
    ],
)
def test_settings_that_do_not_fit_are_told_in_a_sentence(said: dict[str, object], sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=sentence):
        msgspec.convert(said, GRID.settings)


@pytest.mark.parametrize("seed", range(3))
def test_any_table_of_numbers_will_do(seed: int) -> None:
    """Every operation is asked and answered in numbers that were dealt anew; nobody has the old ones in mind."""
    dealt = random.Random(seed)
    opcodes = dict(zip(numbers.OPCODES, dealt.sample(range(256), len(numbers.OPCODES)), strict=True))
    statuses = dict(zip(numbers.STATUSES, dealt.sample(range(256), len(numbers.STATUSES)), strict=True))
    flags = dict(zip(numbers.FLAGS, dealt.sample([1 << bit for bit in range(8)], 4), strict=True))
    at = terms(opcodes=opcodes, status=statuses, flags=flags)
    asked = 0
    for name in numbers.OPCODES:
        context = Asked(opcode=name, sender=b"c1:7")
        for command, outcome in MEANT.get(name, []):
            asked += 1
            data = GRID.encode_request(Request(command, 9, context), at)
            assert (data[1], data[10]) == (opcodes[name], flags["HAS_SENDER_ID"])
            request = GRID.decode_request(data, at)
            assert isinstance(request, Request)
            assert request.command == command
            said = GRID.encode_reply(request, outcome, at)
            assert said[1] == opcodes["RESPONSE_OK"]
            assert GRID.decode_reply(request, said, at) == outcome
            said = GRID.encode_reply(request, CommandFailed(Fault.BUSY), at)
            assert (said[1], said[13]) == (opcodes["RESPONSE_SERVER_BUSY"], statuses["BUSY"])
    assert asked >= 40


# -- names, keys, times


def test_what_has_no_words_is_said_so() -> None:
    batch = one(b"x")
    for command in [
        q.Describe(),
        q.Authenticate("token", "ann", "t"),
        q.MapSize(q.Topic("other", "m")),
        q.MapSize(q.Topic("default", 7)),
        q.MapPut(M, b"k", b"v", previous=True),
        q.MapPut(M, b"k", b"v", only=q.IfAbsent(), previous=True),
        q.MapPut(M, b"k", b"v", 1.0, only=q.IfAbsent()),
        q.MapPut(M, b"k", b"v", only=q.IfCount(1)),
        q.MapPut(M, b"k", b"01", only=q.IfCount(1)),
        q.MapPut(M, b"k", b"1", 1.0, only=q.IfCount(1)),
        q.MapPut(M, b"k", b"1", -1.0, only=q.IfCount(1)),
        q.MapRemove(M, b"k", q.IfEquals(b"v")),
        q.MapScan(M, b"a", keys=(b"b",)),
        q.MapScan(M, keys=(b"b",), values=False),
        q.MapScan(M, b"a", values=False),
        q.Publish(M, 1, batch),
        q.Publish(M, 0, canonical([Record(), Record()])),
        q.Fetch(M, 1, 0),
        q.Fetch(M, 0, q.First()),
        q.Fetch(M, 0, 0, commit=True),
        q.Fetch(M, None, 0, reader=q.Group("g")),
        q.Follow(M, 0, 0),
        q.LatestOffsets(M, 1),
    ]:
        assert fault_of(command) is Fault.UNSUPPORTED, command
    pushing = terms(topic_push=True)
    for command in [
        q.LatestOffsets(M, 0),
        q.Follow(M, 1, 0),
        q.Follow(M, 0, q.First()),
        q.Follow(M, 0, q.Last(3)),
    ]:
        assert fault_of(command, pushing) is Fault.UNSUPPORTED, command
    assert fault_of(q.MapPut(M, b"k", b"v", 1.0), terms(ttl_mode="none")) is Fault.UNSUPPORTED


def test_a_counter_is_set_if_it_is_another_by_its_number() -> None:
    data = GRID.encode_request(Request(q.MapPut(M, b"n", b"-3", only=q.IfCount(2)), 1), terms())
    assert decoded(data) == q.MapPut(M, b"n", b"-3", only=q.IfCount(2), create=1)


def test_what_does_not_fit_is_said_so() -> None:
    for command in [
        q.MapSize(q.Topic("default", "")),
        q.MapSize(q.Topic("default", "m" * 256)),
        q.MapSize(q.Topic("default", "\ud800")),
        q.Authenticate("plain", "\ud800", ""),
        q.MapGet(M, b""),
        q.MapGet(M, b"k" * 65_536),
        q.MapAdd(M, b"k", 1 << 63),
        q.MapPut(M, b"k", b"v", -1.0),
        q.MapScan(M, limit=-1),
    ]:
        assert fault_of(command) is Fault.UNREPRESENTABLE, command
    assert fault_of(q.Ping(), tag=-1) is Fault.UNREPRESENTABLE
    assert fault_of(q.Ping(), tag="x") is Fault.UNREPRESENTABLE
    assert fault_of(q.MapPut(M, b"k", bytes(64)), terms(max_body=64)) is Fault.TOO_LARGE
    narrow = terms(sender_len_width=1)
    with pytest.raises(CommandFailed, match="a sender id of 256 bytes"):
        GRID.encode_request(Request(q.MapGet(M, b"k"), 1, Asked(sender=bytes(256))), narrow)


def test_a_record_goes_to_the_partition_there_is() -> None:
    keyed = canonical([Record(b"k", b"v")])
    for to in (0, q.Balanced(), q.ByKey(b"k", "fnv1a_32"), q.ByKey(b"other", "murmur3")):
        data = GRID.encode_request(Request(q.Publish(M, to, keyed), 1), terms())
        assert decoded(data) == q.Publish(M, 0, canonical([Record(b"k", b"v")], "grid"), create=1)


def test_the_ends_of_all_partitions_are_the_end_of_the_one_there_is() -> None:
    every, first = Request(q.LatestOffsets(M), 1), Request(q.LatestOffsets(M, 0), 1)
    assert GRID.encode_request(every, terms()) == GRID.encode_request(first, terms())
    ends = r.Offsets(1, (r.PartitionOffsets(0, 0, 9),))
    assert GRID.decode_reply(every, GRID.encode_reply(first, ends, terms()), terms()) == ends


def test_a_scan_goes_on_after_the_key_that_was_said() -> None:
    for command in (q.MapScan(M, b"a"), q.MapScan(M, b"a", 3), q.MapScan(M, None, 3), q.MapScan(M, keys=())):
        assert decoded(GRID.encode_request(Request(command, 1), terms())) == command


def test_who_reads_is_not_told_where_nothing_is_committed() -> None:
    data = GRID.encode_request(Request(q.Fetch(M, 0, 5, 3, reader=q.Group("g")), 1), terms())
    assert decoded(data) == q.Fetch(M, 0, 5, 3)


def test_a_client_keeps_the_limits_that_the_server_did_not() -> None:
    three = canonical([Record(value=value) for value in (b"a", b"b", b"c")])
    batch = RecordBatch(three.encoding, three.body, 3, 5)
    said = GRID.encode_reply(Request(q.Fetch(M, 0, 5), 1), r.Records(0, 0, 8, (batch,)), terms())

    def offsets(**limits: int) -> list[int]:
        end, messages = shown(GRID.decode_reply(Request(q.Fetch(M, 0, 5, **limits), 1), said, terms()))
        assert end == 8
        return [offset for offset, _ in messages]

    assert offsets() == offsets(max_records=3) == [5, 6, 7]
    assert offsets(max_records=2) == [5, 6]
    assert offsets(max_bytes=1) == [5]


@pytest.mark.parametrize(("seconds", "millis"), [(0.0004, 1), (0.5, 500), (30.0, 30_000), (1e12, 0xFFFFFFFF * 1000)])
def test_times_are_whole_milliseconds(seconds: float, millis: int) -> None:
    data = GRID.encode_request(Request(q.Take(M, seconds), 1), terms())
    assert decoded(data) == q.Take(M, millis / 1000)


def test_sizes_beyond_a_number_of_four_bytes_are_the_largest() -> None:
    request = Request(q.MapSize(M), 1)
    said = GRID.encode_reply(request, r.Count(1 << 40), terms())
    assert GRID.decode_reply(request, said, terms()) == r.Count(2**31 - 1)
    with pytest.raises(CommandFailed, match="-1 of something"):
        GRID.encode_reply(request, r.Count(-1), terms())
    with pytest.raises(CommandFailed, match="in 64 bits"):
        GRID.encode_reply(Request(q.MapAdd(M, b"k", 1), 1), r.Count(1 << 63), terms())


def test_a_reply_of_another_kind_is_a_defect() -> None:
    with pytest.raises(CommandFailed, match="Done where Count belongs"):
        GRID.encode_reply(Request(q.MapSize(M), 1), r.Done(), terms())


@given(st.sampled_from(["value_prefix_i64", "value_suffix_i64"]), st.integers(1, 10**12), st.binary(max_size=20))
def test_a_time_to_live_is_kept_to_the_millisecond(mode: str, millis: int, value: bytes) -> None:
    at = terms(ttl_mode=mode)
    data = GRID.encode_request(Request(q.MapPut(M, b"k", value, millis / 1000), 1), at)
    assert decoded(data, at) == q.MapPut(M, b"k", value, millis / 1000, create=1)


# -- what a client hears


def redirected(address: str) -> Outcome:
    """What our client makes of being sent there."""
    said = GRID.encode_reply(PING, CommandFailed(Fault.NOT_LEADER), listener().terms(address))
    return GRID.decode_reply(PING, said, terms())


@pytest.mark.parametrize("address", ["127.0.0.1:5701", "grid-2.example.org:5703", "[::1]:5701"])
def test_a_redirect_says_who_leads(address: str) -> None:
    outcome = redirected(address)
    assert isinstance(outcome, CommandFailed)
    assert (outcome.fault, outcome.facts) == (Fault.NOT_LEADER, {"leader": address})


@pytest.mark.parametrize(
    "words", ["", "nobody leads", "10.0.0.5", "a b:1", "h:x", ":1", "h:123456", "h:0", "h:65536", "ü:1"]
)
def test_a_redirect_to_nowhere_says_nobody(words: str) -> None:
    outcome = redirected(words)
    assert isinstance(outcome, CommandFailed)
    assert (outcome.fault, outcome.detail, outcome.facts) == (Fault.NOT_LEADER, words, {})


def test_a_long_explanation_is_cut() -> None:
    said = GRID.encode_reply(PING, CommandFailed(Fault.INVALID_ARGUMENT, "ü" * 5000), terms())
    assert len(said) == 16 + 2048


# -- what a reader of messages does not see

RICH = Record(
    b"k",
    b"v",
    headers=(Header(b"h", b"1"),),
    timestamp=1,
    origin_timestamp=2,
    id=bytes(15) + b"\1",
    producer=b"p",
    epoch=1,
    sequence=1,
    event_type=b"e",
    schema_version=1,
    aggregate_version=1,
    metadata=b"m",
    expiry=9,
)
LOST = {
    "headers",
    "timestamp",
    "origin_timestamp",
    "id",
    "producer",
    "epoch",
    "sequence",
    "event_type",
    "schema_version",
    "aggregate_version",
    "metadata",
    "expiry",
}


@pytest.mark.parametrize("command", [q.Take(M), q.Peek(M), q.Fetch(M, 0, 0)])
def test_readers_see_values_and_the_rest_is_counted(command: q.Command) -> None:
    at = terms()
    batch = canonical([RICH], "iggy")
    request = Request(command, 1)
    said = GRID.encode_reply(request, r.Records(0, 0, 1, (batch,)), at)
    assert shown(GRID.decode_reply(request, said, at)) == (1, [(0, b"v")])
    assert dict(at.losses) == {("iggy", "grid", field): 1 for field in LOST | {"key"}}
    at.losses.clear()
    tombstone = canonical([Record(None, None)])
    GRID.encode_reply(request, r.Records(0, 0, 1, (tombstone,)), at)
    assert dict(at.losses) == {("?", "grid", "tombstone"): 1}


def test_what_a_request_has_no_place_for_is_counted_or_refused() -> None:
    at = terms()
    GRID.encode_request(Request(q.Publish(M, 0, canonical([RICH])), 1), at)
    assert dict(at.losses) == {("?", "grid", field): 1 for field in LOST}
    assert fault_of(q.Publish(M, 0, canonical([RICH])), terms(policy="reject")) is Fault.UNREPRESENTABLE


def test_a_poll_is_answered_with_as_many_messages_as_have_room() -> None:
    at = terms(max_body=64)
    batches = (canonical([Record(value=b"a" * 20), Record(value=b"b" * 20)]), canonical([Record(value=b"c" * 30)]))
    batches = (batches[0], RecordBatch(batches[1].encoding, batches[1].body, 1, 2))
    request = Request(q.Fetch(M, 0, 0), 1)
    said = GRID.encode_reply(request, r.Records(0, 0, 3, batches), at)
    assert shown(GRID.decode_reply(request, said, at)) == (1, [(0, b"a" * 20)])
    again = GRID.encode_reply(request, r.Records(0, 0, 3, (batches[1],)), at)
    assert shown(GRID.decode_reply(Request(q.Fetch(M, 0, 2), 1), again, at)) == (3, [(2, b"c" * 30)])
    with pytest.raises(CommandFailed, match="64 is the limit"):
        GRID.encode_reply(request, r.Records(0, 0, 1, (canonical([Record(value=bytes(60))]),)), at)


def test_the_bounds_of_another_partition_are_no_answer() -> None:
    with pytest.raises(CommandFailed) as caught:
        GRID.encode_reply(Request(q.LatestOffsets(M, 0), 1), r.Offsets(1, (r.PartitionOffsets(1, 0, 1),)), terms())
    assert caught.value.fault is Fault.NO_SUCH_PARTITION


def test_messages_are_pushed_one_by_one_and_come_back() -> None:
    at = terms(topic_push=True)
    request = Request(q.Follow(M, 0, 5), 7)
    batch = canonical([Record(value=b"a"), Record(b"k", b"")])
    pushed = GRID.encode_push and GRID.encode_push(request, RecordBatch(batch.encoding, batch.body, 2, 5), at)
    assert pushed
    first, second = cut(pushed)
    client = ClientSession(GRID, at)
    client.ask(request)
    assert decoded(client.take(), at) == request.command
    assert client.receive(first + second) == [
        (request, RecordBatch(batch.encoding, one(value).body, 1, sequence, 0, "grid"))
        for sequence, value in [(5, b"a"), (6, b"")]
    ]
    (ended,) = client.receive(GRID.encode_reply(request, CommandFailed(Fault.NO_SUCH_TOPIC), at))
    assert isinstance(ended[1], CommandFailed)
    assert ended[1].fault is Fault.NO_SUCH_TOPIC


@pytest.mark.parametrize(
    "pushed",
    [
        frame("TOPIC_MESSAGE", 1, b"n", value=i64(1)),
        frame("PROTOCOL_HELLO_ACK"),
        frame("TOPIC_MESSAGE", 1, b"m", value=b"1"),
    ],
    ids=["of another topic", "a hello", "without a sequence"],
)
def test_what_is_pushed_and_no_message_is_malformed(pushed: bytes) -> None:
    assert GRID.decode_push is not None
    with pytest.raises(CommandFailed):
        GRID.decode_push(Request(q.Follow(M, 0, 5), 1), pushed, terms(topic_push=True))


def test_a_follow_begins_where_the_topic_ends_or_at_a_sequence() -> None:
    at = terms(topic_push=True)
    for command in (q.Follow(M, 0, q.Last(0)), q.Follow(M, 0, 5)):
        assert decoded(GRID.encode_request(Request(command, 1), at), at) == command


@given(st.one_of(list(commands(wide=True).values())))
def test_whatever_our_client_says_is_read_as_what_it_is(command: q.Command) -> None:
    at = terms()
    try:
        data = GRID.encode_request(Request(command, 1), at)
    except CommandFailed as failure:
        assert failure.fault in (Fault.UNSUPPORTED, Fault.UNREPRESENTABLE)
        return
    assert type(decoded(data, at)) is type(command)
