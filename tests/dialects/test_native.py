"""gateway.dialects.native: nothing is lost, nothing is believed."""

from __future__ import annotations

import math
import re
import tracemalloc
from io import BytesIO
from typing import get_args

import msgpack
import msgspec
import pytest
from construct import Int32ub
from hypothesis import given, settings
from hypothesis import strategies as st

from dialects.strategies import commands, failures, replies, stored, wide_records
from gateway.conformance import vectors
from gateway.core import commands as c
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import CANONICAL, Encoding, Header, Record, RecordBatch, canonical, registry
from gateway.core.replies import Outcome
from gateway.dialects import ClientSession, Refusal, Request, ServerSession
from gateway.dialects.native import DIALECT, Hello, NativeTerms, fields, hello, spec, wire
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
CASES = vectors.load("native")

more = settings(max_examples=10 * settings().max_examples)


def session() -> ServerSession:
    return DIALECT.open(DIALECT.settings(), KNOWN).session()


def speaking() -> NativeTerms:
    return NativeTerms(DIALECT.settings(), KNOWN)


def backwards(*records: Record) -> RecordBatch:
    return RecordBatch(BACKWARDS, canonical(list(records)).body[::-1], len(records), 7, 1_700_000_000_000_000, "pipe")


def enclosed(body: bytes) -> bytes:
    return bytes(spec.FRAME.build({"message": body}))


def asked(command: c.Command, tag: int = 1, context: object = None, terms: NativeTerms | None = None) -> bytes:
    return DIALECT.encode_request(Request(command, tag, context), terms or speaking())


def decoded(data: bytes) -> Request | Refusal:
    return DIALECT.decode_request(data, speaking())


def refused(data: bytes) -> Refusal:
    refusal = decoded(data)
    assert isinstance(refusal, Refusal)
    return refusal


def split(data: bytes) -> list[bytes]:
    """The frames of a stream."""
    found = []
    while data:
        size = DIALECT.measure_reply(data, 0, 0)
        found.append(data[:size])
        data = data[size:]
    return found


def refusal_in(data: bytes) -> tuple[int, str, str]:
    """Tag, fault and detail of the one frame, which says that something failed."""
    parsed = spec.parse_answer(data)
    assert parsed is not None
    tag, kind, said = parsed
    assert kind == "!"
    return tag, said["fault"], said["detail"]


# -- nothing is lost


@pytest.mark.parametrize("kind", commands(), ids=lambda kind: kind.__name__)
def test_a_command_arrives_as_it_was(kind: type[c.Command]) -> None:
    @given(commands(wide=True)[kind], st.integers(0, 0xFFFFFFFF))
    def holds(command: c.Command, tag: int) -> None:
        data = DIALECT.encode_request(Request(command, tag), speaking())
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
        data = DIALECT.encode_reply(Request(command, tag), reply, speaking())
        assert DIALECT.reply_tag is not None
        assert DIALECT.reply_tag(data) == tag
        assert DIALECT.decode_reply(Request(command, tag), data, speaking()) == reply
        parsed = spec.parse_answer(data)
        assert parsed is not None
        assert parsed[:2] == (tag, kind.__name__)

    holds()


@given(failures())
def test_a_failure_arrives_with_its_detail_and_facts(failure: CommandFailed) -> None:
    request = Request(c.Ping(), 3)
    data = DIALECT.encode_reply(request, failure, speaking())
    back = DIALECT.decode_reply(request, data, speaking())
    assert isinstance(back, CommandFailed)
    told = (failure.detail, failure.facts) if failure.fault is not Fault.INTERNAL else ("", {})
    assert (back.fault, back.detail, back.facts) == (failure.fault, *told)
    assert spec.parse_answer(data) == (3, "!", {"fault": failure.fault.name, "detail": told[0], "facts": told[1]})


@given(stored())
def test_a_push_arrives_as_it_was(batch: RecordBatch) -> None:
    request = Request(c.Follow(ORDERS, 0, c.First()), 3)
    assert DIALECT.encode_push is not None
    assert DIALECT.decode_push is not None
    data = DIALECT.encode_push(request, batch, speaking())
    assert DIALECT.decode_push(request, data, speaking()) == batch
    parsed = spec.parse_answer(data)
    assert parsed is not None
    assert parsed[:2] == (3, ">")


def test_what_msgpack_cannot_carry_is_said() -> None:
    with pytest.raises(CommandFailed) as caught:
        DIALECT.encode_request(Request(c.CreateNamespace("\ud800"), 1), speaking())
    assert caught.value.fault is Fault.UNREPRESENTABLE


def test_a_batch_of_nothing_is_not_sent() -> None:
    with pytest.raises(CommandFailed) as caught:
        DIALECT.encode_request(Request(c.Publish(ORDERS, 0, canonical([])), 1), speaking())
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
    for case in CASES:
        if case.refusal is None and len(case.roles) == 2:
            for data in split(case.when + (case.then or b"")):
                assert enclosed(msgpack.packb(msgpack.unpackb(data[4:], strict_map_key=False))) == data, case.name
                compared += 1
    assert compared > 20


def test_the_body_of_a_batch_is_msgpack_of_records() -> None:
    [publish] = [case for case in CASES if case.name.startswith("a batch is published")]
    request = decoded(publish.when)
    assert isinstance(request, Request)
    assert isinstance(request.command, c.Publish)
    assert msgpack.unpackb(request.command.batch.body) == [
        [*fields[:2], [[*msgspec.structs.astuple(header)] for header in record.headers], *fields[3:]]
        for record in request.command.batch.records()
        for fields in [msgspec.structs.astuple(record)]
    ]


# -- specification and fast path on frames that nobody would send


def publish(batch: RecordBatch) -> bytes:
    """A frame with that batch, be it as it may: what msgspec makes of the command, without a look at it."""
    command = c.Publish(ORDERS, 0, batch)
    return enclosed(msgspec.msgpack.encode((5, command), enc_hook=lambda encoding: encoding.name))


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
    whole = asked(command, 5, terms=NativeTerms(DIALECT.settings(), registry([])))
    strange = changed(msgpack.unpackb(whole[4:], strict_map_key=False), data)
    sent = enclosed(msgpack.packb(strange if isinstance(strange, list) else None))
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
    sent = publish(RecordBatch(CANONICAL, msgpack.packb(strange), count))
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
    sent = enclosed(body)
    refusal = refused(sent)
    assert (refusal.failure.fault, refusal.tag, refusal.closing) == (Fault.INVALID_ARGUMENT, 9, False)
    assert spec.parse_request(sent) is None
    with pytest.raises(CommandFailed) as caught:
        asked(command, 9)
    assert caught.value.fault is Fault.INVALID_ARGUMENT


REFUSED = [case for case in CASES if case.refusal is not None]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_a_frame_that_is_no_request_costs_an_answer(case: vectors.Case) -> None:
    server = session()
    assert server.receive(case.when, 0.0) == []
    for frame, answer in zip(split(case.when), split(server.take()), strict=True):
        tag, fault, detail = refusal_in(answer)
        assert (tag, fault) == (refused(frame).tag, case.refusal.name if case.refusal else "")
        assert len(detail) < 200
        assert spec.parse_request(frame) is None
    assert server.closing is case.closing
    assert len(server.receive(asked(c.Ping()), 0.0)) == (not case.closing)


def test_an_encoding_that_is_registered_is_accepted_and_walked_before_anyone_else_sees_it() -> None:
    batch = backwards(Record(b"k", b"v"))
    request = decoded(publish(batch))
    assert isinstance(request, Request)
    assert isinstance(request.command, c.Publish)
    assert request.command.batch.encoding is BACKWARDS
    assert request.command.batch.records() == [Record(b"k", b"v")]
    refusal = refused(publish(msgspec.structs.replace(batch, body=canonical([Record(b"k", b"v")]).body)))
    assert (refusal.failure.fault, refusal.tag, refusal.closing) == (Fault.MALFORMED, 5, False)


# -- bombs


def cost(sent: bytes) -> int:
    """Bytes that decoding takes at its peak, beyond the frame."""
    server = session()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    server.receive(sent, 0.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    refusal_in(server.take())
    return peak - before


def places(body: bytes) -> list[int]:
    """Where each value of a message begins; it has only short arrays."""
    stream, found = BytesIO(body), []

    def walk() -> None:
        found.append(stream.tell())
        head = body[stream.tell()]
        if spec.HEADS[head][0] == "array":
            stream.read(1)
            for _ in range(head % 16):
                walk()
        else:
            spec.MSGPACK.parse_stream(stream)

    walk()
    return found


SOME = [
    asked(c.Ping())[4:],
    asked(c.MapGet(ORDERS, b"k"))[4:],
    asked(c.FetchOffsets(ORDERS, c.Group("g"), (0,)))[4:],
    asked(c.CommitOffsets(ORDERS, c.Group("g"), {0: 1}))[4:],
    asked(c.Publish(ORDERS, c.ByKey(b"k", "fnv1a_32"), canonical([Record()])))[4:],
    DIALECT.encode_request(hello(speaking()), speaking())[4:],
]
BEGUN = [*dict.fromkeys(body[:at] for body in SOME for at in places(body))]
"""Messages up to a place where a value belongs."""

NIL = {"head": 0xC0, "body": None}
NESTS = {
    "arrays": msgpack.packb([None])[:-1],
    "maps": msgpack.packb({0: None})[:-1],
    "long arrays": spec.MSGPACK.build({"head": 0xDD, "body": [NIL]})[:-1],
}
LONG = {"array 32": 0xDD, "map 32": 0xDF, "bin 32": 0xC6, "str 32": 0xDB, "ext 32": 0xC9}
"""What msgpack calls them, and their first byte; their length follows."""


@pytest.mark.parametrize("nest", NESTS)
def test_depth_is_refused_at_the_cost_of_the_frame(nest: str) -> None:
    for before in BEGUN:
        sent = enclosed(before + NESTS[nest] * 100_000)
        assert cost(sent) < 5 * len(sent), before


@pytest.mark.parametrize("head", LONG)
def test_a_declared_length_is_not_believed(head: str) -> None:
    for before in BEGUN:
        for length in (0x7FFFFFFF, 0xFFFFFFFF):
            sent = enclosed(before + bytes([LONG[head]]) + Int32ub.build(length) + bytes(50))
            assert cost(sent) < 100_000, before


def test_things_that_do_not_belong_there_are_not_built() -> None:
    body = asked(c.Publish(ORDERS, 0, canonical([Record()])))[4:]
    at = body.index(msgpack.packb("msgpack.v1"))
    behind = body[at:].removeprefix(msgpack.packb("msgpack.v1"))
    sent = enclosed(body[:at] + msgpack.packb([{}] * 1_000_000) + behind)
    assert cost(sent) < 5 * len(sent)


def test_a_batch_of_too_many_records_is_refused_before_they_are_built() -> None:
    sent = publish(RecordBatch(CANONICAL, msgpack.packb([[]] * 1_000_000), 1_000_000))
    assert cost(sent) < 5 * len(sent)
    sent = publish(RecordBatch(CANONICAL, msgpack.packb([[]] * 100_001), 100_001))
    assert refused(sent).failure.fault is Fault.TOO_LARGE
    assert spec.parse_request(sent) is None


def test_only_what_carries_records_and_values_may_be_long() -> None:
    long = asked(c.ListGroups("n" * wire.SHORT), 9)
    refusal = refused(long)
    assert (refusal.failure.fault, refusal.tag, refusal.closing) == (Fault.TOO_LARGE, 9, False)
    assert spec.parse_request(long) is None
    offsets = c.CommitOffsets(ORDERS, c.Group("g"), dict.fromkeys(range(1 << 20, (1 << 20) + 200_000), 0))
    long = asked(offsets, 9)
    assert cost(long) < 5 * len(long)
    value = b"v" * wire.SHORT
    for command in (c.MapPut(ORDERS, b"k", value), c.Publish(ORDERS, 0, canonical([Record(b"k", value)]))):
        sent = asked(command, 9)
        assert decoded(sent) == Request(command, 9)
        assert spec.parse_request(sent) is not None
    unknown = asked(c.MapPut(ORDERS, b"k", value)).replace(b"MapPut", b"MapPot", 1)
    assert refused(unknown).failure.fault is Fault.UNSUPPORTED
    assert refused(asked(c.Ping(), 0, Hello(1, ("x" * wire.SHORT,)))).failure.fault is Fault.MALFORMED


@pytest.mark.parametrize("command", [c.Advance(ORDERS), c.Regenerate(ORDERS, "g", 1)], ids=repr)
def test_what_a_store_is_told_by_its_backend_no_peer_can_say(command: c.Advance | c.Regenerate) -> None:
    failure = refused(enclosed(msgspec.msgpack.encode((9, command)))).failure
    assert (failure.fault, failure.detail) == (Fault.UNSUPPORTED, f"no command is called {type(command).__name__!r}")


# -- hello


def connected(*names: str) -> tuple[ClientSession, ServerSession]:
    """Both ends of a connection; the client has greeted with these encodings, if there are any."""
    client, server = ClientSession(DIALECT, speaking()), session()
    if names:
        assert exchange(client, server, Request(c.Ping(), 0, Hello(1, names))) == r.Done()
    return client, server


def exchange(client: ClientSession, server: ServerSession, request: Request) -> Outcome | RecordBatch:
    """What the server answers by itself."""
    client.ask(request)
    assert server.receive(client.take(), 0.0) == []
    [(answered, outcome)] = client.receive(server.take())
    assert answered == request
    return outcome


def fetched(client: ClientSession, server: ServerSession, batch: RecordBatch) -> RecordBatch:
    """The batch as the peer gets it."""
    client.ask(Request(c.Fetch(ORDERS, 0, 7), 5))
    [call] = server.receive(client.take(), 0.0)
    server.answer(call, r.Records(0, 0, 9, (batch,)))
    [(_, reply)] = client.receive(server.take())
    assert isinstance(reply, r.Records)
    assert (reply.partition, reply.start, reply.end) == (0, 0, 9)
    [found] = reply.batches
    return found


def test_who_says_nothing_gets_the_canonical_encoding_and_loses_nothing() -> None:
    batch = backwards(Record(b"k", b"v", timestamp=3), Record(None, b"w", (Header(b"a", b"b"),)))
    found = fetched(*connected(), batch)
    assert found.encoding is CANONICAL
    assert (found.count, found.base, found.timestamp, found.origin) == (2, 7, 1_700_000_000_000_000, "pipe")
    assert found.records() == batch.records()


def test_who_reads_an_encoding_gets_it_untouched() -> None:
    client, server = connected("backwards.v1", "unheard.of")
    batch = backwards(Record(b"k", b"v"))
    assert fetched(client, server, batch) == batch
    assert client.terms.reads == {"backwards.v1", "msgpack.v1"}  # type: ignore[attr-defined]  # NativeTerms


def test_a_hello_that_comes_late_changes_nothing() -> None:
    client, server = connected("msgpack.v1")
    late = Request(c.Ping(), 0, Hello(1, ("backwards.v1",)))
    outcome = exchange(client, server, late)
    assert isinstance(outcome, CommandFailed)
    assert outcome.fault is Fault.MALFORMED
    assert fetched(client, server, backwards(Record(b"k", b"v"))).encoding is CANONICAL
    server = session()
    assert len(server.receive(asked(c.Ping()), 0.0)) == 1
    assert server.receive(asked(c.Ping(), 0, Hello(1, ("backwards.v1",))), 0.0) == []
    assert refusal_in(server.take())[:2] == (0, "MALFORMED")
    assert not server.closing


def test_a_client_that_greets_learns_what_the_server_reads() -> None:
    client, server = connected()
    assert exchange(client, server, hello(client.terms)) == r.Done()
    publish = Request(c.Publish(ORDERS, 0, backwards(Record(b"k", b"v"))), 1)
    client.ask(publish)
    [call] = server.receive(client.take(), 0.0)
    assert call.request == publish


def test_a_client_that_does_not_greet_sends_the_canonical_encoding() -> None:
    publish = c.Publish(ORDERS, 0, backwards(Record(b"k", b"v")))
    request = decoded(asked(publish))
    assert isinstance(request, Request)
    assert isinstance(request.command, c.Publish)
    assert request.command.batch.encoding is CANONICAL
    assert list(request.command.batch.rows()) == list(publish.batch.rows())


# -- answers


def test_a_follow_is_pushed_to_and_its_end_is_said() -> None:
    client, server = connected("backwards.v1")
    client.ask(Request(c.Follow(ORDERS, 0, c.First()), 4))
    [call] = server.receive(client.take(), 0.0)
    batch = backwards(Record(b"k", b"v"))
    server.push(call, batch)
    server.ended(call, CommandFailed(Fault.NO_SUCH_TOPIC, "deleted"))
    push, end = split(server.take())
    assert not server.closing
    assert DIALECT.decode_push is not None
    assert DIALECT.decode_push(call.request, push, client.terms) == batch
    assert refusal_in(end) == (4, "NO_SUCH_TOPIC", "deleted")
    last = DIALECT.decode_push(call.request, end, client.terms)
    assert isinstance(last, CommandFailed)
    assert last.fault is Fault.NO_SUCH_TOPIC
    with pytest.raises(CommandFailed):
        DIALECT.decode_push(
            call.request, DIALECT.encode_reply(Request(c.Ping(), 4), r.Done(), client.terms), client.terms
        )


def test_a_push_that_is_too_long_for_one_frame_comes_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME", 300)
    assert DIALECT.encode_push is not None
    assert DIALECT.decode_push is not None
    request = Request(c.Follow(ORDERS, 0, c.First()), 3)
    batch = canonical([Record(b"%d" % at, b"x" * 60) for at in range(7)]).appended(10, 1000)
    rows, data, count = [], DIALECT.encode_push(request, batch, speaking()), 0
    while data:
        size = DIALECT.measure_reply(data, 0, 0)
        part = DIALECT.decode_push(request, data[:size], speaking())
        assert isinstance(part, RecordBatch)
        rows += list(part.rows())
        data, count = data[size:], count + 1
    assert rows == list(batch.rows())
    assert count > 2
    with pytest.raises(CommandFailed) as caught:
        DIALECT.encode_push(request, canonical([Record(b"", b"x" * 300)]), speaking())
    assert caught.value.fault is Fault.TOO_LARGE


def test_a_reply_that_no_client_would_take_is_answered_as_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME", 300)
    server = session()
    [call] = server.receive(asked(c.MapGet(ORDERS, b"k"), 5), 0.0)
    server.answer(call, r.MapValue(b"x" * 300))
    assert refusal_in(server.take())[:2] == (5, "TOO_LARGE")


def test_facts_may_have_any_name() -> None:
    failure, request = CommandFailed(Fault.BUSY), Request(c.Ping(), 1)
    failure.facts.update({"self": 1, "fault": "x", "detail": 2})
    back = DIALECT.decode_reply(request, DIALECT.encode_reply(request, failure, speaking()), speaking())
    assert isinstance(back, CommandFailed)
    assert back.facts == {"self": 1, "fault": "x", "detail": 2}
