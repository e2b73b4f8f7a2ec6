"""gateway.dialects.native: nothing is lost, nothing is believed."""

from __future__ import annotations

import math
import re
import tracemalloc
from typing import get_args

import msgpack
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialects.strategies import commands, failures, replies, stored, wide_records
from gateway.conformance import vectors
from gateway.core import commands as c
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import CANONICAL, Encoding, Header, HeaderKind, Record, RecordBatch, canonical, registry
from gateway.core.replies import Outcome
from gateway.dialects import ClientSession, Refusal, Request, ServerSession
from gateway.dialects.native import DIALECT, NativeTerms, fields, hello, spec, wire
from gateway.dialects.native.answers import ANSWERS

BACKWARDS = Encoding(
    "backwards.v1",
    walk=lambda body: CANONICAL.walk(body[::-1]),
    stamp=lambda body, base, timestamp: body,
    cut=lambda body, first, last: CANONICAL.cut(body[::-1], first, last)[::-1],
    sizes=lambda body: CANONICAL.sizes(body[::-1]),
    runs=lambda body: CANONICAL.runs(body[::-1]),
    records=lambda body: CANONICAL.records(body[::-1]),
)
"""An encoding of some other dialect."""

KNOWN = registry([BACKWARDS])
ORDERS = c.Topic("default", "orders")

more = settings(max_examples=10 * settings().max_examples)


def session() -> ServerSession:
    return DIALECT.open(DIALECT.settings(), KNOWN).session()


def terms() -> NativeTerms:
    return NativeTerms(DIALECT.settings(), KNOWN)


def backwards(*records: Record) -> RecordBatch:
    return RecordBatch(BACKWARDS, canonical(list(records)).body[::-1], len(records), 7, 1_700_000_000_000_000, "pipe")


def frame(*values: object) -> bytes:
    """The array as msgpack's own library spells it."""
    body: bytes = msgpack.packb(values)
    return len(body).to_bytes(4, "big") + body


def decoded(data: bytes) -> Request | Refusal:
    return DIALECT.decode_request(data, terms())


def refused(data: bytes) -> Refusal:
    refusal = decoded(data)
    assert isinstance(refusal, Refusal)
    return refusal


def values(data: bytes) -> list[list[object]]:
    """The arrays of a stream of frames."""
    found = []
    while data:
        size = DIALECT.measure_reply(data, 0, 0)
        found.append(msgpack.unpackb(data[4:size], strict_map_key=False))
        data = data[size:]
    return found


# -- nothing is lost


@pytest.mark.parametrize("kind", commands(), ids=lambda kind: kind.__name__)
def test_a_command_arrives_as_it_was(kind: type[c.Command]) -> None:
    @given(commands(wide=True)[kind], st.integers(0, 0xFFFFFFFF))
    def holds(command: c.Command, tag: int) -> None:
        data = DIALECT.encode_request(Request(command, tag), terms())
        assert decoded(data) == Request(command, tag)
        parsed = spec.parse_request(data)
        assert parsed is not None
        assert parsed[:2] == (tag, kind.__name__)

    holds()


@pytest.mark.parametrize("kind", replies(), ids=lambda kind: kind.__name__)
def test_a_reply_arrives_as_it_was(kind: type[r.Reply]) -> None:
    asked = next(command for command, reply in ANSWERS.items() if reply is kind)

    @given(commands(wide=True)[asked], replies(wide=True)[kind], st.integers(0, 0xFFFFFFFF))
    def holds(command: c.Command, reply: r.Reply, tag: int) -> None:
        data = DIALECT.encode_reply(Request(command, tag), reply, terms())
        assert DIALECT.reply_tag is not None
        assert DIALECT.reply_tag(data) == tag
        assert DIALECT.decode_reply(Request(command, tag), data, terms()) == reply
        parsed = spec.parse_answer(data)
        assert parsed is not None
        assert parsed[:2] == (tag, kind.__name__)

    holds()


@given(failures())
def test_a_failure_arrives_with_its_detail_and_facts(failure: CommandFailed) -> None:
    request = Request(c.Ping(), 3)
    data = DIALECT.encode_reply(request, failure, terms())
    back = DIALECT.decode_reply(request, data, terms())
    assert isinstance(back, CommandFailed)
    told = (failure.detail, failure.facts) if failure.fault is not Fault.INTERNAL else ("", {})
    assert (back.fault, back.detail, back.facts) == (failure.fault, *told)
    assert spec.parse_answer(data) == (3, "!", {"fault": failure.fault.name, "detail": told[0], "facts": told[1]})


@given(stored())
def test_a_push_arrives_as_it_was(batch: RecordBatch) -> None:
    request = Request(c.Follow(ORDERS, 0, c.First()), 3)
    assert DIALECT.encode_push is not None
    assert DIALECT.decode_push is not None
    data = DIALECT.encode_push(request, batch, terms())
    assert DIALECT.decode_push(request, data, terms()) == batch
    parsed = spec.parse_answer(data)
    assert parsed is not None
    assert parsed[:2] == (3, ">")


def test_what_msgpack_cannot_carry_is_said() -> None:
    with pytest.raises(CommandFailed) as caught:
        DIALECT.encode_request(Request(c.CreateNamespace("\ud800"), 1), terms())
    assert caught.value.fault is Fault.UNREPRESENTABLE


def test_a_batch_of_nothing_is_not_sent() -> None:
    with pytest.raises(CommandFailed) as caught:
        DIALECT.encode_request(Request(c.Publish(ORDERS, 0, canonical([])), 1), terms())
    assert caught.value.fault is Fault.EMPTY_BATCH


# -- the vocabulary


def by_place(cls: type[msgspec.Struct]) -> list[tuple[str, bool, bool]]:
    """(name, may be nil, may be left out) of the fields of a Struct."""
    return [
        (field.name, type(None) in get_args(field.type), not field.required) for field in msgspec.structs.fields(cls)
    ]


def by_table(table: str) -> list[tuple[str, bool, bool]]:
    split = [field.split(":") for field in table.split()]
    return [(name, kind.removesuffix("=").endswith("?"), kind.endswith("=")) for name, kind in split]


@pytest.mark.parametrize("kind", [*get_args(c.Command), *get_args(r.Reply)], ids=lambda kind: kind.__name__)
def test_the_tables_name_the_fields_in_their_order(kind: type[msgspec.Struct]) -> None:
    assert by_place(kind) == by_table((fields.COMMANDS | fields.REPLIES)[kind.__name__])


def test_the_tables_name_nothing_else() -> None:
    assert set(fields.COMMANDS) == {kind.__name__ for kind in get_args(c.Command)}
    assert set(fields.REPLIES) == {kind.__name__ for kind in get_args(r.Reply)}


@pytest.mark.parametrize(
    ("shape", "cls"),
    [
        ("topic", c.Topic),
        ("settings", c.TopicSettings),
        ("batch", RecordBatch),
        ("record", Record),
        ("header", Header),
        ("partition", r.PartitionDescription),
        ("bounds", r.PartitionOffsets),
        ("membership", r.MembershipDescription),
        ("process", r.ProcessDescription),
        ("member", r.MemberDescription),
    ],
)
def test_the_shapes_are_those_of_the_model(shape: str, cls: type[msgspec.Struct]) -> None:
    assert by_place(cls) == by_table(fields.SHAPES[shape])


@pytest.mark.parametrize(
    ("choice", "union"),
    [
        ("reader", get_args(c.Reader)),
        ("to", (c.ByKey, c.Balanced)),
        ("start", (c.FromTime, c.First, c.Last, c.Next)),
        ("liveness", (c.Heartbeats, c.WhileConnected)),
        ("put_if", (c.Anyhow, c.IfAbsent, c.IfPresent, c.IfEquals, c.IfCount)),
        ("remove_if", (c.Anyhow, c.IfEquals)),
    ],
)
def test_the_choices_are_those_of_the_model(choice: str, union: tuple[type[msgspec.Struct], ...]) -> None:
    assert {cls.__struct_config__.tag: by_place(cls) for cls in union} == {
        word: by_table(table) for word, table in fields.CHOICES[choice].items()
    }


def test_twins_have_the_fields_of_what_they_stand_for() -> None:
    for twin, cls in ((wire._Publish, c.Publish), (wire._Records, r.Records), (wire._Batch, RecordBatch)):
        assert by_place(twin) == by_place(cls)
        assert [field.default for field in msgspec.structs.fields(twin)] == [
            field.default for field in msgspec.structs.fields(cls)
        ]


@pytest.mark.parametrize("kind", get_args(c.Command), ids=lambda kind: kind.__name__)
def test_a_command_is_answered_by_the_reply_that_its_docstring_names(kind: type[c.Command]) -> None:
    named = re.search(r"Answered by (\w+)", kind.__doc__ or "")
    assert (ANSWERS[kind].__name__ if kind in ANSWERS else None) == (named and named[1])


# -- the cases, seen by msgpack's own library


def test_the_cases_are_msgpack_in_its_shortest_spelling() -> None:
    compared = 0
    for case in vectors.load("native"):
        if case.refusal is None and "client" in case.roles:
            for stream in (case.when, case.then or b""):
                assert b"".join(frame(*value) for value in values(stream)) == stream, case.name
                compared += 1
    assert compared > 20


def test_the_body_in_the_cases_is_msgpack_of_records() -> None:
    [publish] = [case for case in vectors.load("native") if case.name.startswith("a batch is published")]
    [[_, command]] = values(publish.when)
    assert msgpack.unpackb(command[3][1]) == [  # type: ignore[index]
        [b"k1", b"hello", [], 0, 0, b"", b"", 0, 0, b"", 0, 0, b"", 0],
        [None, b"bye", [[b"h", b"\1\0\0\0", 6, 2]], 0, 0, b"", b"", 0, 0, b"", 0, 0, b"", 0],
    ]


# -- specification and fast path on frames that nobody would send


words = st.sampled_from(["", "default", "group", "next", "first", "key", "fail", "msgpack.v1", b"\x90", b"\x91\x90"])
numbers = st.integers(-(1 << 63), (1 << 64) - 1) | st.integers(-1, 16) | st.floats()
extensions = st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=4))
keys = st.integers(-1, 5) | st.text(max_size=2)
odd = st.recursive(
    st.none() | st.booleans() | numbers | words | st.binary(max_size=4) | extensions,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=2),
    max_leaves=6,
)


def changed(value: object, data: st.DataObject) -> object:
    """The value with something else in one place, one thing more or one thing less."""
    if not isinstance(value, list) or not value or data.draw(st.integers(0, 3)) == 0:
        return data.draw(odd)
    at = data.draw(st.integers(0, len(value) - 1))
    match data.draw(st.integers(0, 7)):
        case 0:
            return value[:at]
        case 1:
            return [*value[:at], data.draw(odd), *value[at:]]
        case 2:
            return [*value, data.draw(odd)]
    return [*value[:at], changed(value[at], data), *value[at + 1 :]]


@more
@given(st.one_of(list(commands(wide=True).values())), st.data())
def test_specification_and_fast_path_agree_on_changed_values(command: c.Command, data: st.DataObject) -> None:
    [whole] = values(DIALECT.encode_request(Request(command, 5), NativeTerms(DIALECT.settings(), registry([]))))
    strange = changed(whole, data)
    sent = frame(*strange) if isinstance(strange, list) else b"\0\0\0\1\xc0"
    by_wire = DIALECT.decode_request(sent, NativeTerms(DIALECT.settings(), registry([])))
    by_spec = spec.parse_request(sent)
    assert isinstance(by_wire, Request) is (by_spec is not None), by_wire
    if isinstance(by_wire, Request) and by_spec is not None:
        assert (by_wire.tag, type(by_wire.command).__name__) in ((*by_spec[:2],), (0, "Ping"))


@more
@given(st.lists(wide_records, min_size=1, max_size=3), st.data())
def test_specification_and_fast_path_agree_on_changed_records(records: list[Record], data: st.DataObject) -> None:
    strange = changed(msgpack.unpackb(canonical(records).body), data)
    count = len(strange) if isinstance(strange, list) else 1
    sent = frame(5, ["Publish", ["default", "orders"], 0, ["msgpack.v1", msgpack.packb(strange), count]])
    assert isinstance(decoded(sent), Request) is (spec.parse_request(sent) is not None)


# -- what is refused


@pytest.mark.parametrize(
    "command",
    [
        c.Fetch(ORDERS, -1, 0),
        c.Fetch(ORDERS, 0, 1 << 63),
        c.Fetch(ORDERS, 0, 0, max_bytes=-1),
        c.Fetch(ORDERS, 0, c.FromTime(-1)),
        c.Fetch(ORDERS, 0, c.Last(1 << 63)),
        c.Fetch(ORDERS, 0, c.Next(c.Group("g"), -1)),
        c.Fetch(ORDERS, 0, c.Next(c.Consumer(1 << 32))),
        c.Fetch(ORDERS, 0, 0, wait=-1.0),
        c.Fetch(ORDERS, 0, 0, wait=math.nan),
        c.Fetch(ORDERS, 0, 0, wait=math.inf),
        c.Fetch(c.Topic(-1, "t"), 0, 0),
        c.Fetch(c.Topic("n", 1 << 32), 0, 0),
        c.FindLeader(c.Topic("n", -1)),
        c.Publish(ORDERS, -1, canonical([Record()])),
        c.Publish(ORDERS, 0, msgspec.structs.replace(canonical([Record()]), base=-1)),
        c.CommitOffsets(ORDERS, c.Group("g"), {-1: 0}),
        c.CommitOffsets(ORDERS, c.Group("g"), {0: 1 << 63}),
        c.CommitOffsets(ORDERS, c.Group("g"), {None: 1 << 63}),
        c.CommitOffsets(ORDERS, c.Group("g"), {None: 1, -1: 0}),
        c.FetchOffsets(ORDERS, c.Group("g"), (0, -1)),
        c.FetchOffsets(ORDERS, c.Group("g"), (None, -1)),
        c.DeleteOffsets(ORDERS, c.Group("g"), (None, 1 << 63)),
        c.Fetch(ORDERS, 0, 0, reader=c.Group(1 << 32)),
        c.ListMemberships(-1),
        c.CreateTopic(ORDERS, 1, id=1 << 32),
        c.CreateTopic(ORDERS, 1, c.TopicSettings(retention_us=-1)),
        c.DeleteNamespace(1 << 32),
        c.ListGroups("n", -1),
        c.JoinGroup(ORDERS, "g", "m", c.Heartbeats(-0.5)),
        c.JoinGroup(ORDERS, "g", "m", c.WhileConnected(), resume=-1),
        c.MapPut(ORDERS, b"k", b"v", math.inf),
        c.MapAdd(ORDERS, b"k", 1 << 63),
        c.MapAdd(ORDERS, b"k", 1, create=-1),
        c.MapPut(ORDERS, b"k", b"v", only=c.IfCount(1 << 63)),
        c.DescribeSession(-1),
    ],
    ids=repr,
)
def test_a_number_out_of_range_is_refused_with_its_tag_and_our_client_does_not_send_it(command: c.Command) -> None:
    body = msgspec.msgpack.encode((9, command), enc_hook=lambda encoding: encoding.name)
    sent = len(body).to_bytes(4, "big") + body
    refusal = refused(sent)
    assert (refusal.failure.fault, refusal.tag, refusal.closing) == (Fault.INVALID_ARGUMENT, 9, False)
    assert spec.parse_request(sent) is None
    with pytest.raises(CommandFailed) as caught:
        DIALECT.encode_request(Request(command, 9), terms())
    assert caught.value.fault is Fault.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("sent", "fault", "tag"),
    [
        (frame(9, ["Teleport", 1, 2]), Fault.UNSUPPORTED, 9),
        (frame(9, ["Teleport" * 1000]), Fault.UNSUPPORTED, 9),
        (frame(9, ["Fetch"]), Fault.MALFORMED, 9),
        (frame(9, []), Fault.MALFORMED, 9),
        (frame(9, "Ping"), Fault.MALFORMED, 9),
        (frame(9, {"kind": "Ping"}), Fault.MALFORMED, 9),
        (frame(9, [1]), Fault.MALFORMED, 9),
        (frame(9), Fault.MALFORMED, 9),
        (frame(9, ["Ping"], None), Fault.MALFORMED, 9),
        (frame(9, ["MapGet", ["default", b"x"], b"k"]), Fault.MALFORMED, 9),
        (frame(-1, ["Ping"]), Fault.MALFORMED, 0),
        (frame(1 << 32, ["Ping"]), Fault.MALFORMED, 0),
        (frame("9", ["Ping"]), Fault.MALFORMED, 0),
        (frame(True, ["Ping"]), Fault.MALFORMED, 0),
        (frame(), Fault.MALFORMED, 0),
        (b"\0\0\0\0", Fault.MALFORMED, 0),
        (b"\0\0\0\3\xa2\xff\xff", Fault.MALFORMED, 0),
        (b"\0\0\0\5hello", Fault.MALFORMED, 0),
        (frame(9, ["CreateNamespace", "x"])[:-1] + b"\xff", Fault.MALFORMED, 9),
        (frame(0, "hello", "1", []), Fault.MALFORMED, 0),
    ],
)
def test_a_frame_that_is_no_request_costs_an_answer(sent: bytes, fault: Fault, tag: int) -> None:
    server = session()
    assert server.receive(sent, 0.0) == []
    [[answered, mark, name, detail, facts]] = values(server.take())
    assert (answered, mark, name, facts) == (tag, "!", fault.name, {})
    assert len(str(detail)) < 200
    assert not server.closing
    assert len(server.receive(frame(1, ["Ping"]), 0.0)) == 1


@pytest.mark.parametrize(
    ("batch", "fault"),
    [
        (["nobody.v1", b"\x91\x90", 1], Fault.MALFORMED),
        (["msgpack.v1", b"\x91", 1], Fault.MALFORMED),
        (["msgpack.v1", b"\x91\x90\x90", 1], Fault.MALFORMED),
        (["msgpack.v1", b"\x91\x90", 2], Fault.MALFORMED),
        (["msgpack.v1", b"\x91\x90", 0], Fault.MALFORMED),
        (["msgpack.v1", b"\x90", 0], Fault.EMPTY_BATCH),
        (["msgpack.v1", canonical([Record(id=b"short")]).body, 1], Fault.MALFORMED),
        (["msgpack.v1", canonical([Record(headers=(Header(b"h", b"12", HeaderKind.BOOL),))]).body, 1], Fault.MALFORMED),
        (["msgpack.v1", b"\xdd\x00\x01\x86\xa1" + b"\x90" * 100_001, 100_001], Fault.TOO_LARGE),
        (["backwards.v1", b"\x91\x90", 1], Fault.MALFORMED),
    ],
)
def test_a_batch_is_walked_before_anyone_else_sees_it(batch: list[object], fault: Fault) -> None:
    sent = frame(9, ["Publish", ["default", "orders"], 0, batch])
    refusal = refused(sent)
    assert (refusal.failure.fault, refusal.tag, refusal.closing) == (fault, 9, False)
    assert spec.parse_request(sent) is None


def test_an_encoding_that_is_registered_is_accepted() -> None:
    batch = backwards(Record(b"k", b"v"))
    request = decoded(frame(9, ["Publish", ["default", "orders"], 0, ["backwards.v1", batch.body, 1]]))
    assert isinstance(request, Request)
    assert isinstance(request.command, c.Publish)
    assert request.command.batch.encoding is BACKWARDS
    assert request.command.batch.records() == [Record(b"k", b"v")]


# -- bombs


def cost(sent: bytes) -> int:
    """Bytes that decoding takes at its peak, beyond the frame."""
    server = session()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    server.receive(sent, 0.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert values(server.take())[0][1] == "!"
    return peak - before


def raw(*pieces: bytes) -> bytes:
    body = b"".join(pieces)
    return len(body).to_bytes(4, "big") + body


PUBLISH = bytes.fromhex("92 01 94 a7") + b"Publish" + bytes.fromhex("92 a1 61 a1 62 00 93")


@pytest.mark.parametrize("nest", [b"\x91", b"\x81\x00", b"\xdd\x00\x00\x00\x01"])
@pytest.mark.parametrize(
    "before",
    [b"", b"\x92", b"\x92\x01", b"\x92\x01\x92\xa6MapGet", PUBLISH, b"\x92\x01\x92\xa4Ping", b"\x94\x00\xa5hello\x01"],
)
def test_depth_is_refused_at_the_cost_of_the_frame(before: bytes, nest: bytes) -> None:
    sent = raw(before, nest * 200_000)
    assert cost(sent) < 5 * len(sent)


@pytest.mark.parametrize("head", [b"\xdd", b"\xdf", b"\xc6", b"\xdb", b"\xc9"])
@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"\x92\x01",
        b"\x92\x01\x92\xa6MapGet",
        b"\x92\x01\x94\xacFetchOffsets\x92\xa1a\xa1b\x92\xa5group\xa1g",
        b"\x92\x01\x94\xadCommitOffsets\x92\xa1a\xa1b\x92\xa5group\xa1g",
        PUBLISH,
        PUBLISH + b"\xaamsgpack.v1",
        b"\x94\x00\xa5hello\x01",
    ],
)
def test_a_declared_length_is_not_believed(before: bytes, head: bytes) -> None:
    for length in (0x7FFFFFFF, 0xFFFFFFFF):
        assert cost(raw(before, head, length.to_bytes(4, "big"), b"\x00" * 50)) < 100_000


def test_things_that_do_not_belong_there_are_not_built() -> None:
    empties = b"\x80" * 1_000_000
    sent = raw(PUBLISH, b"\xdd", len(empties).to_bytes(4, "big"), empties, b"\xc4\x02\x91\x90\x01")
    assert cost(sent) < 5 * len(sent)


def test_a_batch_of_too_many_records_is_refused_before_they_are_built() -> None:
    body = b"\xdd" + (1_000_000).to_bytes(4, "big") + b"\x90" * 1_000_000
    sent = raw(PUBLISH, b"\xaamsgpack.v1\xc6", len(body).to_bytes(4, "big"), body, b"\xce\x00\x0f\x42\x40")
    assert cost(sent) < 5 * len(sent)


def test_only_what_carries_records_and_values_may_be_long() -> None:
    long = frame(9, ["ListGroups", "n" * wire.SHORT])
    refusal = refused(long)
    assert (refusal.failure.fault, refusal.tag, refusal.closing) == (Fault.TOO_LARGE, 9, False)
    assert spec.parse_request(long) is None
    offsets = c.CommitOffsets(ORDERS, c.Group("g"), dict.fromkeys(range(1 << 20, (1 << 20) + 200_000), 0))
    long = DIALECT.encode_request(Request(offsets, 9), terms())
    assert cost(long) < 5 * len(long)
    value = b"v" * wire.SHORT
    for command in (c.MapPut(ORDERS, b"k", value), c.Publish(ORDERS, 0, canonical([Record(b"k", value)]))):
        sent = DIALECT.encode_request(Request(command, 9), terms())
        assert decoded(sent) == Request(command, 9)
        assert spec.parse_request(sent) is not None
    assert refused(frame(9, ["Teleport", b"x" * wire.SHORT])).failure.fault is Fault.UNSUPPORTED
    assert refused(frame(0, "hello", 1, ["x" * wire.SHORT])).failure.fault is Fault.MALFORMED


@pytest.mark.parametrize("command", [c.Advance(ORDERS), c.Regenerate(ORDERS, "g", 1)], ids=repr)
def test_what_a_store_is_told_by_its_backend_no_peer_can_say(command: c.Advance | c.Regenerate) -> None:
    sent = msgspec.msgpack.encode((9, command))
    failure = refused(len(sent).to_bytes(4, "big") + sent).failure
    assert (failure.fault, failure.detail) == (Fault.UNSUPPORTED, f"no command is called {type(command).__name__!r}")


# -- hello


def greet(server: ServerSession, *names: str, version: int = 1) -> list[list[object]]:
    assert server.receive(frame(0, "hello", version, list(names)), 0.0) == []
    return values(server.take())


def fetched(server: ServerSession, batch: RecordBatch) -> list[object]:
    """The batch as the peer gets it: encoding, body, count, base, timestamp, origin."""
    [call] = server.receive(frame(5, ["Fetch", ["default", "orders"], 0, 7]), 0.0)
    server.answer(call, r.Records(0, 0, 9, (batch,)))
    [[tag, [kind, partition, start, end, [found]]]] = values(server.take())  # type: ignore[misc]
    assert (tag, kind, partition, start, end) == (5, "Records", 0, 0, 9)
    return found  # type: ignore[no-any-return]


def test_who_says_nothing_gets_the_canonical_encoding_and_loses_nothing() -> None:
    batch = backwards(Record(b"k", b"v", timestamp=3), Record(None, b"w", (Header(b"a", b"b"),)))
    encoding, body, *rest = fetched(session(), batch)
    assert encoding == "msgpack.v1"
    assert rest == [2, 7, 1_700_000_000_000_000, "pipe"]
    assert CANONICAL.records(body) == batch.records()  # type: ignore[arg-type]


def test_who_reads_an_encoding_gets_it_untouched() -> None:
    server, batch = session(), backwards(Record(b"k", b"v"))
    assert greet(server, "backwards.v1", "unheard.of") == [[0, "hello", 1, ["backwards.v1", "msgpack.v1"]]]
    assert fetched(server, batch)[:2] == ["backwards.v1", batch.body]


def test_another_version_is_refused_and_the_connection_ends() -> None:
    server = session()
    [[tag, mark, fault, detail, _]] = greet(server, version=2)
    assert (tag, mark, fault) == (0, "!", "UNSUPPORTED")
    assert spec.parse_request(frame(0, "hello", 2, [])) is None
    assert detail == "version 1 of the command model is spoken here, not 2"
    assert server.closing
    assert server.receive(frame(1, ["Ping"]), 0.0) == []


def test_a_hello_that_comes_late_changes_nothing() -> None:
    server, batch = session(), backwards(Record(b"k", b"v"))
    greet(server)
    [[tag, mark, fault, *_]] = greet(server, "backwards.v1")
    assert (tag, mark, fault) == (0, "!", "MALFORMED")
    assert fetched(server, batch)[0] == "msgpack.v1"
    server = session()
    assert len(server.receive(frame(1, ["Ping"]), 0.0)) == 1
    assert greet(server, "backwards.v1")[0][1:3] == ["!", "MALFORMED"]
    assert not server.closing


def exchange(client: ClientSession, server: ServerSession) -> list[tuple[Request, Outcome]]:
    """What the client sent goes to the server; what that answers by itself comes back."""
    assert server.receive(client.take(), 0.0) == []
    return client.receive(server.take())


def test_a_client_that_greets_learns_what_the_server_reads() -> None:
    client, server = ClientSession(DIALECT, terms()), session()
    greeting = hello(client.terms)
    client.ask(greeting)
    assert exchange(client, server) == [(greeting, r.Done())]
    publish = Request(c.Publish(ORDERS, 0, backwards(Record(b"k", b"v"))), 1)
    client.ask(publish)
    [call] = server.receive(client.take(), 0.0)
    assert call.request == publish


def test_a_client_that_does_not_greet_sends_the_canonical_encoding() -> None:
    publish = c.Publish(ORDERS, 0, backwards(Record(b"k", b"v")))
    request = decoded(DIALECT.encode_request(Request(publish, 1), terms()))
    assert isinstance(request, Request)
    assert isinstance(request.command, c.Publish)
    assert request.command.batch.encoding is CANONICAL
    assert list(request.command.batch.rows()) == list(publish.batch.rows())


def test_a_client_tells_another_version_from_noise() -> None:
    client = ClientSession(DIALECT, terms())
    for answer, fault in (
        (frame(0, "!", "UNSUPPORTED", "version 2 is spoken here", {}), Fault.UNSUPPORTED),
        (frame(0, "hello", 2, []), Fault.UNSUPPORTED),
        (frame(0, "hello", "1", []), Fault.MALFORMED),
    ):
        client.ask(hello(client.terms))
        [(_, outcome)] = client.receive(answer)
        assert isinstance(outcome, CommandFailed)
        assert outcome.fault is fault


# -- answers


def test_a_follow_is_pushed_to_and_its_end_is_said() -> None:
    server = session()
    [call] = server.receive(frame(4, ["Follow", ["default", "orders"], 0, ["first"]]), 0.0)
    batch = backwards(Record(b"k", b"v"))
    server.push(call, batch)
    server.ended(call, CommandFailed(Fault.NO_SUCH_TOPIC, "deleted"))
    [push, end] = values(server.take())
    assert push[:2] == [4, ">"]
    assert end == [4, "!", "NO_SUCH_TOPIC", "deleted", {}]
    assert not server.closing
    assert DIALECT.decode_push is not None
    last = DIALECT.decode_push(call.request, frame(*end), terms())
    assert isinstance(last, CommandFailed)
    assert last.fault is Fault.NO_SUCH_TOPIC
    with pytest.raises(CommandFailed):
        DIALECT.decode_push(call.request, frame(4, "?"), terms())


def test_a_push_that_is_too_long_for_one_frame_comes_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME", 300)
    assert DIALECT.encode_push is not None
    assert DIALECT.decode_push is not None
    request = Request(c.Follow(ORDERS, 0, c.First()), 3)
    batch = canonical([Record(b"%d" % at, b"x" * 60) for at in range(7)]).appended(10, 1000)
    rows, data, count = [], DIALECT.encode_push(request, batch, terms()), 0
    while data:
        size = DIALECT.measure_reply(data, 0, 0)
        part = DIALECT.decode_push(request, data[:size], terms())
        assert isinstance(part, RecordBatch)
        rows += list(part.rows())
        data, count = data[size:], count + 1
    assert rows == list(batch.rows())
    assert count > 2
    with pytest.raises(CommandFailed) as caught:
        DIALECT.encode_push(request, canonical([Record(b"", b"x" * 300)]), terms())
    assert caught.value.fault is Fault.TOO_LARGE


def test_a_reply_that_no_client_would_take_is_answered_as_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME", 300)
    server = session()
    [call] = server.receive(frame(5, ["MapGet", ["default", "users"], b"k"]), 0.0)
    server.answer(call, r.MapValue(b"x" * 300))
    assert values(server.take())[0][:3] == [5, "!", "TOO_LARGE"]


@pytest.mark.parametrize(
    "answer",
    [
        frame(1, ["Count", 1]),
        frame(1, ["Nonsense"]),
        frame(1, "!", "BUSY"),
        frame(1, ">", ["msgpack.v1", b"\x90", 0]),
        frame(1, ["Records", 0, 0, 0, [["nobody.v1", b"", 0]]]),
        b"\0\0\0\1\xc1",
    ],
)
def test_what_is_no_answer_to_the_request_is_malformed(answer: bytes) -> None:
    for command in (c.Ping(), c.Fetch(ORDERS, 0, 0)):
        with pytest.raises(CommandFailed) as caught:
            DIALECT.decode_reply(Request(command, 1), answer, terms())
        assert caught.value.fault is Fault.MALFORMED


def test_a_fault_that_is_not_known_here_is_kept_in_the_detail() -> None:
    answer = frame(1, "!", "OUT_OF_COFFEE", "refill", {"cups": 0})
    outcome = DIALECT.decode_reply(Request(c.Ping(), 1), answer, terms())
    assert isinstance(outcome, CommandFailed)
    assert (outcome.fault, outcome.detail) == (Fault.INTERNAL, "OUT_OF_COFFEE: refill")


def test_facts_may_have_any_name() -> None:
    answer = frame(1, "!", "BUSY", "", {"self": 1, "fault": "x", "detail": 2})
    outcome = DIALECT.decode_reply(Request(c.Ping(), 1), answer, terms())
    assert isinstance(outcome, CommandFailed)
    assert outcome.facts == {"self": 1, "fault": "x", "detail": 2}
