"""gateway.dialects.cursus: what is peculiar to Cursus frames, text commands and their answers."""

from __future__ import annotations

import msgspec
import pytest
from construct import Int32ub
from hypothesis import given, settings
from hypothesis import strategies as st

import wire
from gateway.conformance import vectors
from gateway.core import commands as c
from gateway.core import replies as r
from gateway.core.commands import Acks, Group, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical, registry
from gateway.dialects import Refusal, Request, ServerSession
from gateway.dialects.cursus import DIALECT, spec
from gateway.dialects.cursus.answers import expressible
from gateway.dialects.cursus.faults import RETRYABLE, classified, structured
from gateway.dialects.cursus.layout import CURSUS_V1, FIXED
from gateway.dialects.cursus.moments import microseconds, moment
from gateway.dialects.cursus.negotiation import FEATURES
from gateway.dialects.cursus.terms import CursusTerms, Spoken
from gateway.dialects.cursus.text import atoi, parse_offset, parse_uint, quoted, syntax, unquoted
from gateway.dialects.cursus.wire import MAX_FRAME, _read_again

CASES = vectors.load("cursus")
ENCODINGS = registry(DIALECT.encodings)
ORDERS = Topic("default", "orders")
METADATA = Request(c.DescribeTopic(ORDERS))


def terms(**options: object) -> CursusTerms:
    found = DIALECT.open(DIALECT.settings(**options), ENCODINGS).terms("localhost:9000")
    assert isinstance(found, CursusTerms)
    return found


def session(**options: object) -> ServerSession:
    return DIALECT.open(DIALECT.settings(**options), ENCODINGS).session("localhost:9000")


def frames(data: bytes) -> list[bytes]:
    """What was said, frame by frame."""
    found = []
    while data:
        end = DIALECT.measure_reply(data, 0, 0)
        found.append(data[:end])
        data = data[end:]
    return found


def framed(payload: bytes) -> bytes:
    built: bytes = spec.Long.build(payload)
    return built


def enveloped(text: str) -> bytes:
    return framed(spec.Short.build(b"") + text.encode())


def read(frame: bytes, under: CursusTerms | None = None) -> Request | Refusal:
    return DIALECT.decode_request(frame, under or terms())


def asked(command: c.Command) -> bytes:
    return wire.request("cursus", command)


def put(name: str) -> Spoken:
    """How the command of that vector was put."""
    request = read(wire.said("cursus", name))
    assert isinstance(request, Request) and isinstance(request.context, Spoken)
    return request.context


def answer(request: Request, outcome: r.Outcome) -> bytes:
    return wire.reply("cursus", request, outcome)


# -- frames


def test_wire_v2_is_known_only_by_all_four_bytes_and_the_operator_is_told() -> None:
    peer = session()
    greeting = wire.said("cursus", "Wire v2 is refused without a word")
    assert peer.receive(greeting[:3], 0.0) == []
    assert not peer.closing
    assert peer.receive(greeting[3:], 0.0) == []
    assert peer.take() == b""
    assert peer.closing
    assert peer.reason == "UNSUPPORTED: Wire v2 is not served"


@pytest.mark.parametrize(
    ("options", "length"), [({}, MAX_FRAME - 3), ({"max_frame": 4 + (1 << 24)}, 0x01000001)], ids=["64 MiB", "V28"]
)
def test_a_frame_that_is_too_long_ends_the_connection_at_its_length_without_a_word(
    options: dict[str, int], length: int
) -> None:
    peer = session(**options)
    assert peer.receive(Int32ub.build(length), 0.0) == []
    assert peer.take() == b""
    assert peer.closing


def test_a_frame_of_64_mib_is_taken() -> None:
    peer = session()
    peer.receive(Int32ub.build(MAX_FRAME - 4), 0.0)
    assert not peer.closing


LISTING = asked(c.ListTopics("default"))


@pytest.mark.parametrize("frame", [b"", LISTING[:3], LISTING[:-1], LISTING + b"x"])
def test_bytes_that_are_no_frame_are_refused_for_good(frame: bytes) -> None:
    refusal = read(frame)
    assert isinstance(refusal, Refusal)
    assert refusal.closing
    assert DIALECT.encode_reply(refusal, refusal.failure, terms()) == b""


@pytest.mark.parametrize("frame", [b"", wire.told("cursus", "METADATA shows the settings of a topic")[:-1]])
def test_an_answer_that_is_no_frame_is_malformed(frame: bytes) -> None:
    with pytest.raises(CommandFailed) as caught:
        DIALECT.decode_reply(METADATA, frame, terms())
    assert caught.value.fault is Fault.MALFORMED


# -- the specification


def test_the_specification_accepts_the_cases_that_are_served_and_no_others() -> None:
    for case in CASES:
        for frame in frames(case.when):
            assert (spec.parse_request(frame) is not None) is isinstance(read(frame), Request), case.name


VALUES = ["", "0", "1", "+7", "-1", "007", "9223372036854775807", "9223372036854775808", "18446744073709551616"]
VALUES += ["true", "False", "x", "a,b", "*", "compact", "Delete,Compact", "ACL", "hash_key", "read_committed", "."]
VALUES += ["P0:1", "0:1,P1:2", "P0:1,P0:1", "P-0:1", "P+1:1", "P0:+1", "P0:", "all", "structured_errors_v1", "é", "a/b"]
WORDS = sorted([*spec.FORMS, *spec.NOT_SERVED, "FOO"])
KEYS = sorted(key.decode() for key in spec.KEYS)

argument = st.builds("{}={}".format, st.sampled_from([*KEYS, "other", ""]), st.sampled_from(VALUES))
blanks = st.sampled_from([" ", "  ", "\t", "\r\n", "\v\f", "\x1c", "\0", "\xa0"])


def value(holds: spec.Holds) -> st.SearchStrategy[str]:
    """Mostly what the key may hold."""
    return st.sampled_from([text for text in VALUES if text and holds(text.encode())]) | st.sampled_from(VALUES)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Commands with what they need, mostly, and with other things."""
    word = draw(st.sampled_from(WORDS))
    form = spec.FORMS.get(word, spec.Form())
    parts = [f"{key}={draw(value(holds))}" for key, holds in form.must.items() if draw(st.integers(0, 9))]
    if not draw(st.integers(0, 3)):  # in the seed's order
        parts = [draw(value(form.must.get(key, bool))) for key in form.order.split()]
    else:
        optional = sorted({**form.may, **form.can}.items())
        for key, holds in draw(st.lists(st.sampled_from(optional), max_size=2)) if optional else []:
            parts.append(f"{key}={draw(value(holds))}")
        parts = draw(st.permutations(parts + draw(st.lists(argument, max_size=1))))
    parts += draw(st.lists(st.sampled_from(["P0:1,1:2", "group=g", *VALUES]), max_size=1))
    parts += ["message=x y"] if form.message and draw(st.integers(0, 5)) else []
    text = draw(st.sampled_from([word, word.lower(), word.title()]))
    for part in parts:
        text += draw(st.just(" ") | blanks) + part
    return text + draw(st.just("") | blanks)


@settings(max_examples=2000)
@given(lines(), st.sampled_from([b"", *map(spec.Short.build, (b"", b"admin")), spec.Short.build(b"x")[:-1]]))
def test_specification_and_fast_path_accept_the_same_commands(line: str, envelope: bytes) -> None:
    frame = framed(envelope + line.encode())
    request = DIALECT.decode_request(frame, terms())
    assert (spec.parse_request(frame) is not None) is isinstance(request, Request), request


@given(lines(), st.data())
def test_specification_and_fast_path_agree_on_damaged_commands(line: str, data: st.DataObject) -> None:
    payload = bytearray(spec.Short.build(b"") + line.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    frame = framed(bytes(payload))
    request = DIALECT.decode_request(frame, terms())
    assert (spec.parse_request(frame) is not None) is isinstance(request, Request), request


@given(lines())
def test_what_is_understood_can_be_said_again(line: str) -> None:
    request = DIALECT.decode_request(enveloped(line), terms())
    if isinstance(request, Request):
        frame = DIALECT.encode_request(request, terms())
        again = DIALECT.decode_request(frame, terms())
        assert isinstance(again, Request), again
        assert again.command == request.command
        assert DIALECT.encode_request(again, terms()) == frame


@given(st.binary(max_size=60))
def test_noise_in_a_frame_is_answered(noise: bytes) -> None:
    peer = session()
    calls = peer.receive(framed(noise), 0.0)
    assert len(frames(peer.take())) + len(calls) == 1
    assert not peer.closing


# -- text


def test_names_that_differ_are_different_topics() -> None:
    names = ["a", "A", "a\x1cb", "a\xa0b", "a\0b", "a=b", "a,b", "é", "e\u0301"]
    found = [read(asked(c.DescribeTopic(Topic("default", name)))) for name in names]
    assert [request.command.topic.name for request in found if isinstance(request, Request)] == names


def longer(name: str, word: bytes, by: bytes) -> CommandFailed:
    """What who sends the frame of that vector with a word of it longer is told, as our client understands it."""
    frame = wire.said("cursus", name)
    assert frame.count(word) == 1
    refusal = read(framed(frame[4:].replace(word, word + by)))
    assert isinstance(refusal, Refusal)
    failure = DIALECT.decode_reply(METADATA, DIALECT.encode_reply(refusal, refusal.failure, terms()), terms())
    assert isinstance(failure, CommandFailed)
    assert failure.fault is refusal.failure.fault
    return failure


def test_a_key_that_a_record_cannot_hold_is_refused() -> None:
    failure = longer("a text PUBLISH with a key goes where FNV-1a-64 of it says", b"k1", b"k" * 65_534)
    assert failure.fault is Fault.UNREPRESENTABLE
    assert "key of 65536 bytes; this wire carries 65535" in failure.detail


def test_a_negotiation_may_not_ask_for_more_than_4096_bytes() -> None:
    failure = longer("NEGOTIATE of more than 64 features is refused", b"f64", b"f" * 4096)
    assert failure.fault is Fault.INVALID_ARGUMENT
    assert "feature request exceeds 4096 bytes" in failure.detail


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"0", 0),
        (b"+5", 5),
        (b"-5", -5),
        (b"-0", 0),
        (b"0" * 5000 + b"7", 7),
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775808", -(2**63)),
        *((text, None) for text in (b"", b"+", b"1_0", b" 1", b"1.0", b"0x1", b"--1", "٣".encode(), b"9" * 5000)),
        (b"9223372036854775808", None),
        (b"-9223372036854775809", None),
    ],
)
def test_integers_are_those_of_go(text: bytes, value: int | None) -> None:
    assert atoi(text) == value


def test_unsigned_integers_are_those_of_go() -> None:
    assert parse_uint(b"18446744073709551615") == 2**64 - 1
    assert parse_uint(b"18446744073709551616") is None
    assert parse_uint(b"+1") is None
    assert parse_offset(b"9223372036854775807") == 2**63 - 1
    assert parse_offset(b"9223372036854775808") is None


def test_what_go_says_of_a_number() -> None:
    assert syntax("Atoi", b"-x") == '"strconv.Atoi: parsing \\"-x\\": invalid syntax"'
    assert syntax("Atoi", b"-99999999999999999999") == (
        '"strconv.Atoi: parsing \\"-99999999999999999999\\": value out of range"'
    )
    assert syntax("ParseUint", b"+1") == '"strconv.ParseUint: parsing \\"+1\\": invalid syntax"'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders", '"orders"'),
        ('a"b\\c', r'"a\"b\\c"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\0\x7f", r'"\x00\x7f"'),
        ("é\u200b\U000e0001", '"é\\u200b\\U000e0001"'),
    ],
)
def test_quotes_are_those_of_go(text: str, shown: str) -> None:
    assert quoted(text) == shown
    assert unquoted(shown) == text


@given(st.text(st.characters(codec="utf-8")))
def test_what_is_quoted_can_be_read_again(text: str) -> None:
    assert unquoted(quoted(text)) == text


def test_what_is_no_quotation_is_left_as_it_is() -> None:
    assert unquoted("plain") == "plain"
    assert unquoted('"') == '"'
    assert unquoted(r'"\q\UFFFFFFFF\Uffffffff"') == "qUFFFFFFFF\ufffd"


# -- sessions


def test_five_thousand_requests_in_one_chunk_are_answered_in_order() -> None:
    peer = session()
    beats = [c.Heartbeat(ORDERS, "g", f"m{number}", 1) for number in range(5000)]
    calls = peer.receive(b"".join(map(asked, beats)), 0.0)
    assert [call.request.command for call in calls] == beats
    for call in reversed(calls):
        peer.answer(call, r.Done())
    assert frames(peer.take()) == [answer(Request(beat), r.Done()) for beat in beats]


def test_errors_are_structured_from_the_negotiation_on_whenever_they_are_written() -> None:
    """And a negotiation waits for its turn."""
    peer = session()
    missing = asked(c.DescribeTopic(ORDERS))
    agree, drop = (wire.said("cursus", f"NEGOTIATE of {what}") for what in ("everything", "nothing"))
    calls = peer.receive(missing + agree + missing + drop + missing, 0.0)
    assert peer.take() == b""
    for call in reversed(calls):
        peer.answer(call, CommandFailed(Fault.NO_SUCH_TOPIC))
    plain = wire.told("cursus", "METADATA of a topic that is not there fails")
    first, _, second, _, third = frames(peer.take())
    assert first == third == plain
    assert second[4:].decode() == structured(plain[4:].decode()) != plain[4:].decode()


@pytest.mark.parametrize(
    ("code", "name", "retried"),
    [
        ("NOT_LEADER", "routing", True),
        ("busy", "availability", True),
        ("GEN_MISMATCH", "fencing", False),
        ("offset_regression", "conflict", False),
        ("authentication_required", "authorization", False),
        ("group_not_found", "not_found", False),
        ("invalid_acks", "validation", False),
        ("distribution_not_enabled", "validation", False),
        ("command_failed", "internal", False),
    ],
)
def test_the_class_of_an_error_says_whether_to_try_again(code: str, name: str, retried: bool) -> None:
    assert classified(code) == name
    assert (name in RETRYABLE) is retried


def test_a_repeated_frame_is_read_under_the_terms_of_its_connection() -> None:
    frame = asked(c.DescribeTopic(ORDERS))
    plain = DIALECT.decode_request(frame, terms())
    other = DIALECT.decode_request(frame, terms(namespace="other"))
    agreed = terms()
    agreed.structured_errors = True
    assert isinstance(plain, Request) and isinstance(other, Request)
    assert plain == DIALECT.decode_request(frame, terms())
    assert other.command == c.DescribeTopic(Topic("other", "orders"))
    assert DIALECT.decode_request(frame, agreed).context.structured


SECRET = c.Authenticate("plain", "p", "hunter2")


@pytest.mark.parametrize(
    ("command", "context"),
    [
        (SECRET, None),
        (c.Fetch(ORDERS, 0, 5), msgspec.structs.replace(put("CONSUME says who asks, as Java does"), proof=SECRET)),
    ],
    ids=["AUTH", "in the line"],
)
def test_secrets_are_neither_shown_nor_remembered(command: c.Command, context: object) -> None:
    frame, before = wire.request("cursus", command, context=context), _read_again.cache_info().currsize
    assert b"hunter2" in frame
    assert "hunter2" not in repr(read(frame))
    assert _read_again.cache_info().currsize == before


# -- answers


@pytest.mark.parametrize(
    ("name", "is_said"),
    [("a", True), ("é/b", True), ("a=b", True)]
    + [(name, False) for name in ("", "a b", "a,b", "a\tb", "a\x1cb", "xmessage=1")],
)
def test_only_names_that_can_be_said_are_listed(name: str, is_said: bool) -> None:
    assert expressible(name) is is_said
    if is_said:
        request = read(asked(c.DescribeTopic(Topic("default", name))))
        assert isinstance(request, Request)
        assert request.command == c.DescribeTopic(Topic("default", name))


def test_a_reply_that_answers_another_command_is_a_defect() -> None:
    with pytest.raises(CommandFailed) as caught:
        answer(METADATA, r.Count(1))
    assert caught.value.fault is Fault.INTERNAL


def test_a_failure_of_a_command_that_was_never_spoken_is_told_all_the_same() -> None:
    told = answer(Request(c.QueueSize(ORDERS)), CommandFailed(Fault.UNSUPPORTED))
    failure = DIALECT.decode_reply(METADATA, told, terms())
    assert isinstance(failure, CommandFailed)
    assert failure.fault is Fault.UNSUPPORTED
    assert "QueueSize" in failure.detail


# -- what our client understands


def test_an_answer_to_what_there_are_no_words_for_is_malformed() -> None:
    with pytest.raises(CommandFailed) as caught:
        DIALECT.decode_reply(Request(c.Take(ORDERS)), wire.told("cursus", "COMMIT_OFFSET as Python sends it"), terms())
    assert caught.value.fault is Fault.MALFORMED


def test_a_group_of_another_topic_is_not_the_group_that_was_meant() -> None:
    told = wire.told("cursus", "GROUP_STATUS is answered in JSON")
    found, failure = (
        DIALECT.decode_reply(Request(c.DescribeGroup(Topic("default", topic), "g")), told, terms())
        for topic in ("orders", "bills")
    )
    assert isinstance(found, r.GroupDescription)
    assert isinstance(failure, CommandFailed)
    assert failure.fault is Fault.NO_SUCH_GROUP


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01T00:00:00.123456789Z", 123_456),
        ("1970-01-01T01:00:00.5+01:00", 500_000),
        ("1969-12-31T23:00:01-01:00", 1_000_000),
        ("0001-01-01T00:00:00Z", 0),
        ("yesterday", 0),
    ],
)
def test_times_of_go_are_understood(text: str, us: int) -> None:
    assert microseconds(text) == us


@given(st.integers(0, 4_000_000_000_000_000))
def test_times_are_written_as_go_writes_them(us: int) -> None:
    assert microseconds(moment(us)) == us
    assert not moment(us).endswith(("0Z", ".Z")) or "." not in moment(us)


# -- what our client says


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (c.Ping(), "HELP lists what is served"),
        (c.FindLeader(), "FIND_COORDINATOR of nothing in particular, from our client"),
        (c.DescribeTopic(ORDERS), "DESCRIBE is answered with indented JSON"),
        (c.Fetch(ORDERS, 1, 5), "CONSUME for nobody of as many records as a batch can hold, from our client"),
        (
            c.Fetch(ORDERS, 1, c.Next(Group("g")), 10, wait=0.0001),
            "CONSUME that waits less than a millisecond waits one, from our client",
        ),
        (c.Follow(ORDERS, 0, c.Next(Group("g")), 100), "STREAM from what a group has committed, from our client"),
        (
            c.Follow(ORDERS, 0, c.Next(Group("g")), 8192),
            "STREAM of 8192 records at a time does not say so, from our client",
        ),
        (c.CommitOffsets(ORDERS, Group("g"), {0: 2}), "COMMIT in the seed's order, from our client"),
        (
            c.CommitOffsets(ORDERS, Group("g"), {0: 2, 1: 0}, "c1-2583", 1),
            "BATCH_COMMIT as Java and Python 0.1.1 send it",
        ),
        (
            c.CreateTopic(ORDERS, 2, if_exists=c.IfExists.GROW),
            "CREATE as Java and Python send it is answered with the topic's settings",
        ),
    ],
)
def test_our_client_has_a_word_for_what_no_peer_has_spoken(command: c.Command, name: str) -> None:
    assert asked(command) == wire.said("cursus", name)


ONE = canonical([Record(b"k", b"v", producer=b"p")])


@pytest.mark.parametrize(
    "command",
    [
        c.MapGet(ORDERS, b"k"),
        c.Authenticate("token", "p", "k"),
        c.CreateTopic(ORDERS, 2),
        c.CreateTopic(ORDERS, 2, if_exists=c.IfExists.KEEP),
        c.CreateTopic(ORDERS, 4, if_exists=c.IfExists.KEEP),
        c.CreateTopic(ORDERS, 2, if_exists=c.IfExists.GROW, id=7),
        c.DescribeTopic(Topic("default", 7)),
        c.DescribeTopic(Topic("other", "orders")),
        c.ListTopics("other"),
        c.FindLeader(ORDERS),
        c.Publish(ORDERS, 0, ONE, create=1),
        c.Publish(ORDERS, c.Balanced(), canonical([Record(None, b"v", producer=b"p")])),
        c.Publish(ORDERS, c.ByKey(b"k", "fnv1a_64"), ONE),
        c.Fetch(ORDERS, None, c.Next(Group("g"))),
        c.Fetch(ORDERS, 0, c.First()),
        c.Fetch(ORDERS, 0, c.Next(c.Consumer("x"))),
        c.Fetch(ORDERS, 0, c.Next(Group("g"), 5)),
        c.Fetch(ORDERS, 0, c.Next(Group("gateway-never-commits"))),
        c.Fetch(ORDERS, 0, c.Next(Group("g")), commit=True),
        c.Fetch(ORDERS, 0, 0, commit=True, reader=Group("g")),
        c.Fetch(ORDERS, 0, 0, create=1),
        c.CommitOffsets(ORDERS, Group("g"), {0: 1, 1: 1}),
        c.CommitOffsets(ORDERS, Group("g"), {None: 1}),
        c.CommitOffsets(ORDERS, Group("g"), {None: 1}, "m", 1),
        c.CommitOffsets(ORDERS, Group("g"), {0: 1}, "m", 1, bounded=True),
        c.CommitOffsets(ORDERS, Group("g"), {}, "m", 1),
        c.CommitOffsets(ORDERS, Group("g"), {0: 1}, "m"),
        c.FetchOffsets(ORDERS, Group("g")),
        c.FetchOffsets(ORDERS, Group("g"), (0, 1)),
        c.FetchOffsets(ORDERS, Group("g"), (None,)),
        c.CreateGroup(ORDERS, "g"),
        c.CreateGroup(ORDERS, "g", 7, c.IfExists.KEEP),
        c.ListGroups("default", "orders"),
        c.DescribeGroup(Topic("default", 7), "g"),
        c.JoinGroup(ORDERS, "g", "m", c.Heartbeats()),
        c.JoinGroup(ORDERS, "g", "m", c.WhileConnected(), distinct=True),
        c.JoinGroup(ORDERS, "g", "m", c.Heartbeats(), "range", distinct=True),
        c.JoinGroup(ORDERS, "g", "m", c.Heartbeats(), distinct=True, create=1),
        c.JoinGroup(ORDERS, "g", "m", c.Heartbeats(), distinct=True, resume=1),
        c.JoinGroup(ORDERS, "g", "m", c.Heartbeats(), distinct=True, existing=True),
        c.Follow(ORDERS, 0, c.First()),
        c.Follow(ORDERS, 0, c.Next(c.Consumer("x"))),
        c.Follow(ORDERS, 0, 5),
        c.Follow(ORDERS, 0, c.Next(Group("g"), 5)),
    ],
)
def test_what_the_protocol_has_no_words_for_is_unsupported(command: c.Command) -> None:
    with pytest.raises(CommandFailed) as caught:
        asked(command)
    assert caught.value.fault is Fault.UNSUPPORTED


def as_text(command: c.Command) -> bytes:
    """A Publish that was heard as text, said again."""
    return wire.request("cursus", command, context=put("a text PUBLISH without acks is answered OK"))


@pytest.mark.parametrize(
    "command",
    [
        c.Publish(ORDERS, c.Balanced(), ONE),
        c.Publish(ORDERS, c.ByKey(b"k", "murmur3"), ONE),
        c.Publish(ORDERS, c.ByKey(b"other", "fnv1a_64"), ONE),
        c.Publish(ORDERS, c.Balanced(), canonical([Record(None, b"v", producer=b"p")] * 2)),
    ],
)
def test_a_text_leaves_open_where_a_record_goes_only_as_the_broker_would_choose(command: c.Command) -> None:
    with pytest.raises(CommandFailed) as caught:
        as_text(command)
    assert caught.value.fault is Fault.UNSUPPORTED


def test_who_does_not_want_acks_gets_one_from_a_broker() -> None:
    """A real one answers without offsets, and corrupts the log of a partition that is written to in both ways."""
    [with_acks, without] = [asked(c.Publish(ORDERS, 0, ONE, acks)) for acks in (Acks.LEADER, Acks.NONE)]
    assert without == with_acks


def setting(**said: object) -> c.CreateTopic:
    return c.CreateTopic(ORDERS, 1, c.TopicSettings(**said), c.IfExists.GROW)


def publish(**fields: object) -> c.Publish:
    return c.Publish(ORDERS, c.Balanced(), canonical([Record(None, **{"value": b"v", "producer": b"p", **fields})]))


@pytest.mark.parametrize(
    "command",
    [
        c.DescribeTopic(Topic("default", "a b")),
        c.DescribeTopic(Topic("default", "")),
        c.DescribeTopic(Topic("default", "\ud800")),
        c.DescribeTopic(Topic("default", "xmessage=")),
        c.CreateTopic(ORDERS, 0, if_exists=c.IfExists.GROW),
        setting(retention_us=1),
        setting(cleanup="burn"),
        setting(partitioner="fnv1a_64"),
        setting(labels={"colour": "red"}),
        c.Publish(ORDERS, 1 << 31, ONE),
        c.Publish(ORDERS, -1, ONE),
        setting(labels={"partitioner": "dice"}),
        setting(labels={"replication_factor": "0"}),
        setting(event_sourcing=True, cleanup="compact"),
        c.CreateTopic(Topic("default", "a/b"), 1, if_exists=c.IfExists.GROW),
        c.Fetch(ORDERS, 0, -1),
        c.Fetch(ORDERS, 0, 1 << 63),
        c.CommitOffsets(Topic("default", "topic=x"), Group("g"), {0: 1}, rising=True),
    ],
)
def test_what_a_line_cannot_hold_is_unrepresentable(command: c.Command) -> None:
    with pytest.raises(CommandFailed) as caught:
        asked(command)
    assert caught.value.fault is Fault.UNREPRESENTABLE


@pytest.mark.parametrize(
    "command",
    [
        publish(value=b""),
        publish(value=b" v"),
        publish(value=None),
        publish(producer=b""),
        publish(producer=b"\xff"),
        publish(event_type=b"Up"),
    ],
)
def test_what_a_text_cannot_hold_is_unrepresentable(command: c.Command) -> None:
    with pytest.raises(CommandFailed) as caught:
        as_text(command)
    assert caught.value.fault is Fault.UNREPRESENTABLE


@pytest.mark.parametrize(
    "command", [c.Follow(ORDERS, 0, 1 << 63), c.Follow(Topic("default", "topic=x"), 0, 0)], ids=["offset", "topic"]
)
def test_what_the_seed_cannot_hold_is_unrepresentable(command: c.Command) -> None:
    with pytest.raises(CommandFailed) as caught:
        wire.request("cursus", command, context=put("STREAM in the seed's order, from our client"))
    assert caught.value.fault is Fault.UNREPRESENTABLE


def test_our_client_sends_no_frame_that_no_server_takes() -> None:
    [record] = spec.parse_records(bytes(FIXED)) or []
    body = spec.RECORD.build({**record, "payload": bytes(MAX_FRAME)})
    with pytest.raises(CommandFailed) as caught:
        asked(c.Publish(ORDERS, 0, RecordBatch(CURSUS_V1, body, 1)))
    assert caught.value.fault is Fault.TOO_LARGE


def test_a_record_of_another_dialect_may_be_published_as_text() -> None:
    batch = canonical([Record(b"k1", b"hello world", producer=b"p1", epoch=-1, sequence=9)], "iggy")
    frame = as_text(c.Publish(ORDERS, c.ByKey(b"k1", "fnv1a_64"), batch, Acks.NONE))
    assert frame == wire.said("cursus", "a text PUBLISH says all that a record has of producer, number, epoch and key")


def test_features_are_offered_as_far_as_their_commands_are_served() -> None:
    assert "structured_errors_v1" in FEATURES
    assert "stream_control_v1" in FEATURES
    assert "event_sourcing_v1" not in FEATURES
    assert list(FEATURES) == sorted(FEATURES)
    assert {name.encode() for name in FEATURES} == spec.SERVED
