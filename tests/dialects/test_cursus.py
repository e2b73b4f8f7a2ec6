"""gateway.dialects.cursus: what is peculiar to Cursus frames, text commands and their answers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.conformance import vectors
from gateway.core import commands as c
from gateway.core import replies as r
from gateway.core.commands import Acks, Group, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical, registry
from gateway.dialects import Call, Refusal, Request, ServerSession
from gateway.dialects.cursus import DIALECT, spec
from gateway.dialects.cursus.answers import expressible
from gateway.dialects.cursus.errors import failure_of
from gateway.dialects.cursus.faults import CODES, structured
from gateway.dialects.cursus.layout import CURSUS_V1
from gateway.dialects.cursus.moments import microseconds, moment
from gateway.dialects.cursus.negotiation import FEATURES
from gateway.dialects.cursus.terms import Consuming, CursusTerms, Produced
from gateway.dialects.cursus.text import atoi, parse_offset, parse_uint, quoted, syntax, unquoted
from gateway.dialects.cursus.wire import MAX_FRAME, _read_again

CASES = vectors.load("cursus")
ENCODINGS = registry(DIALECT.encodings)
ORDERS = Topic("default", "orders")
METADATA = Request(c.DescribeTopic(ORDERS))
HEARTBEAT = c.Heartbeat(ORDERS, "g", "m", 1)


def terms(**options: object) -> CursusTerms:
    found = DIALECT.open(DIALECT.settings(**options), ENCODINGS).terms("localhost:9000")
    assert isinstance(found, CursusTerms)
    return found


def session(**options: object) -> ServerSession:
    return DIALECT.open(DIALECT.settings(**options), ENCODINGS).session("localhost:9000")


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def enveloped(text: str) -> bytes:
    return framed(b"\0\0" + text.encode())


def texts(data: bytes) -> list[str]:
    """The payloads of frames."""
    found = []
    while data:
        end = DIALECT.measure_reply(data, 0, 0)
        found.append(data[4:end].decode())
        data = data[end:]
    return found


def read(text: str) -> Request | Refusal:
    return DIALECT.decode_request(enveloped(text), terms())


def said(text: str) -> str:
    """The answer to a command that is refused."""
    refusal = read(text)
    assert isinstance(refusal, Refusal), refusal
    [answer] = texts(DIALECT.encode_reply(refusal, refusal.failure, terms()))
    return answer


def answer(request: Request, outcome: r.Outcome, **options: object) -> str:
    [text] = texts(DIALECT.encode_reply(request, outcome, terms(**options)))
    return text


def heard(command: c.Command, text: str) -> r.Outcome:
    """What our client makes of an answer."""
    return DIALECT.decode_reply(Request(command), framed(text.encode()), terms())


# -- frames


def test_wire_v2_is_refused_at_its_first_bytes_with_a_reason() -> None:
    peer = session()
    assert peer.receive(bytes.fromhex("435253320002010000"), 0.0) == []
    assert peer.take() == b""
    assert peer.closing
    assert peer.reason == "UNSUPPORTED: Wire v2 is not served"


def test_wire_v2_is_known_only_by_all_four_bytes() -> None:
    peer = session()
    peer.receive(b"CRS", 0.0)
    assert not peer.closing
    peer.receive(b"2", 0.0)
    assert peer.closing


@pytest.mark.parametrize(
    ("options", "length"), [({}, MAX_FRAME - 3), ({"max_frame": 4 + (1 << 24)}, 0x01000001)], ids=["64 MiB", "V28"]
)
def test_a_frame_that_is_too_long_ends_the_connection_at_its_length_without_a_word(
    options: dict[str, int], length: int
) -> None:
    peer = session(**options)
    assert peer.receive(length.to_bytes(4, "big"), 0.0) == []
    assert peer.take() == b""
    assert peer.closing


def test_a_frame_of_64_mib_is_taken() -> None:
    peer = session()
    peer.receive((MAX_FRAME - 4).to_bytes(4, "big"), 0.0)
    assert not peer.closing


@pytest.mark.parametrize("frame", [b"", b"\0\0\0", b"\0\0\0\5LIST", b"\0\0\0\3LIST"])
def test_bytes_that_are_no_frame_are_refused_for_good(frame: bytes) -> None:
    refusal = DIALECT.decode_request(frame, terms())
    assert isinstance(refusal, Refusal)
    assert refusal.closing
    assert DIALECT.encode_reply(refusal, refusal.failure, terms()) == b""


@pytest.mark.parametrize("frame", [b"", b"\0\0\0\3OK"])
def test_an_answer_that_is_no_frame_is_malformed(frame: bytes) -> None:
    with pytest.raises(CommandFailed) as caught:
        DIALECT.decode_reply(METADATA, frame, terms())
    assert caught.value.fault is Fault.MALFORMED


def test_magic_without_a_topic_is_no_batch() -> None:
    refusal = DIALECT.decode_request(framed(b"\xba\x7c\0\0" + bytes(40)), terms())
    assert isinstance(refusal, Refusal)
    assert refusal.failure.detail == 'ERROR: decode_failed reason="invalid topic length"'


# -- the specification


def test_the_specification_accepts_the_cases_that_are_served_and_no_others() -> None:
    terms_of = terms()
    for case in CASES:
        served = isinstance(DIALECT.decode_request(case.when, terms_of), Request)
        assert (spec.parse_request(case.when) is not None) is served, case.name


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
@given(lines(), st.sampled_from([b"", b"\0\0", b"\0\5admin", b"\0\1"]))
def test_specification_and_fast_path_accept_the_same_commands(line: str, envelope: bytes) -> None:
    frame = framed(envelope + line.encode())
    request = DIALECT.decode_request(frame, terms())
    assert (spec.parse_request(frame) is not None) is isinstance(request, Request), request


@given(lines(), st.data())
def test_specification_and_fast_path_agree_on_damaged_commands(line: str, data: st.DataObject) -> None:
    payload = bytearray(b"\0\0" + line.encode())
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
    assert len(texts(peer.take())) + len(calls) == 1
    assert not peer.closing


# -- text


def test_names_that_differ_are_different_topics() -> None:
    names = ["a", "A", "a\x1cb", "a\xa0b", "a\0b", "a=b", "a,b", "é", "e\u0301"]
    found = {
        request.command.topic.name for name in names if isinstance(request := read(f"METADATA topic={name}"), Request)
    }
    assert found == set(names)


def test_a_message_may_be_any_bytes_and_names_may_not() -> None:
    request = DIALECT.decode_request(framed(b"\0\0PUBLISH topic=t producerId=p message=\xff\x00a"), terms())
    assert isinstance(request, Request)
    assert request.command.batch.records()[0].value == b"\xff\x00a"


@pytest.mark.parametrize(
    "word",
    [
        *("APPEND_STREAM", "READ_STREAM", "SAVE_SNAPSHOT", "READ_SNAPSHOT", "STREAM_VERSION", "TXN_STATUS"),
        *("INIT_PRODUCER_ID", "BEGIN_TXN", "TXN_PUBLISH", "SEND_OFFSETS_TO_TXN", "END_TXN"),
    ],
)
def test_a_command_that_is_not_served_is_called_by_its_name(word: str) -> None:
    assert said(f"{word} topic=t key=k message=x") == f"ERROR: unsupported command={word}"
    assert said(word.lower()) == f"ERROR: unsupported command={word}"


def test_a_key_that_a_record_cannot_hold_is_refused() -> None:
    text = said(f"PUBLISH topic=t producerId=p key={'k' * 65_536} message=x")
    assert text == 'ERROR: unrepresentable reason="key of 65536 bytes; this wire carries 65535"'


def test_commands_without_arguments_say_what_is_missing() -> None:
    assert said("CREATE") == 'ERROR: missing_topic expected="CREATE topic=<name> [partitions=<N>]"'
    assert said("DELETE") == 'ERROR: missing_topic expected="DELETE topic=<name>"'
    assert said("CONSUME") == "ERROR: invalid_consume_syntax"
    assert said("COMMIT") == "ERROR: missing_topic command=COMMIT"
    assert said("metadata") == "ERROR: missing_topic command=METADATA"


def test_a_negotiation_may_not_ask_too_much() -> None:
    many = ",".join(f"f{number}" for number in range(65))
    assert 'reason="feature request exceeds 64 entries"' in said(f"NEGOTIATE version=1 features={many}")
    assert 'reason="feature request exceeds 4096 bytes"' in said(f"NEGOTIATE version=1 features={'f' * 4097}")


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
    asked = [f"HEARTBEAT topic=orders group=g member=m{number} generation=1" for number in range(5000)]
    calls = peer.receive(b"".join(map(enveloped, asked)), 0.0)
    assert len(calls) == 5000
    for call in reversed(calls):
        peer.answer(call, r.Done())
    assert texts(peer.take()) == [f"OK member=m{number} generation=1" for number in range(5000)]


def test_errors_are_structured_from_the_negotiation_on_whenever_they_are_written() -> None:
    peer = session()
    missing, unknown = enveloped("METADATA topic=t"), enveloped("METADATA")
    agree = enveloped("NEGOTIATE version=1 features=structured_errors_v1")
    drop = enveloped("NEGOTIATE version=1 features=")
    calls = peer.receive(missing + unknown + agree + missing + unknown + drop + missing + unknown, 0.0)
    assert len(calls) == 3
    for call in reversed(calls):
        peer.answer(call, CommandFailed(Fault.NO_SUCH_TOPIC))
    plain = ["ERROR: topic_not_found topic=t", "ERROR: missing_topic command=METADATA"]
    assert texts(peer.take()) == [
        *plain,
        "OK protocol_version=1 enabled=structured_errors_v1 unsupported=",
        "ERROR: topic_not_found class=not_found retryable=false topic=t",
        "ERROR: missing_topic class=validation retryable=false command=METADATA",
        "OK protocol_version=1 enabled= unsupported=",
        *plain,
    ]


def test_a_negotiation_waits_for_its_turn() -> None:
    peer = session()
    [call] = peer.receive(enveloped("METADATA topic=t") + enveloped("NEGOTIATE version=1"), 0.0)
    assert peer.take() == b""
    peer.answer(call, CommandFailed(Fault.NO_SUCH_TOPIC))
    assert len(texts(peer.take())) == 2


def test_a_negotiation_that_fails_changes_nothing() -> None:
    peer = session()
    peer.receive(enveloped("NEGOTIATE version=1 features=structured_errors_v1,x require_features=true"), 0.0)
    peer.receive(enveloped("METADATA"), 0.0)
    assert texts(peer.take())[1] == "ERROR: missing_topic command=METADATA"


@pytest.mark.parametrize(
    "text",
    [
        "STREAM topic=t",
        "PUBLISH topic=t producerId=p key=k acks=9 message=x",
        "NEGOTIATE version=2",
        "CREATE topic=.",
    ],
)
def test_structured_errors_name_their_class_once(text: str) -> None:
    peer = session()
    peer.receive(enveloped("NEGOTIATE version=1 features=*") + enveloped(text), 0.0)
    assert texts(peer.take())[1].count(" class=validation retryable=false") == 1


@pytest.mark.parametrize(
    ("code", "classes"),
    [
        ("NOT_LEADER", "routing retryable=true"),
        ("busy", "availability retryable=true"),
        ("GEN_MISMATCH", "fencing retryable=false"),
        ("offset_regression", "conflict retryable=false"),
        ("authentication_required", "authorization retryable=false"),
        ("group_not_found", "not_found retryable=false"),
        ("invalid_acks", "validation retryable=false"),
        ("distribution_not_enabled", "validation retryable=false"),
        ("command_failed", "internal retryable=false"),
    ],
)
def test_the_class_of_an_error_says_whether_to_try_again(code: str, classes: str) -> None:
    assert structured(f"ERROR: {code}") == f"ERROR: {code} class={classes}"
    assert structured(f"ERROR: {code} a=b") == f"ERROR: {code} class={classes} a=b"


def test_what_may_be_tried_again_says_so_to_everybody() -> None:
    for fault in (Fault.BUSY, Fault.TIMEOUT, Fault.UNAVAILABLE):
        text = answer(METADATA, CommandFailed(fault))
        assert text == f"ERROR: {CODES[fault]} class=availability retryable=true"


def test_a_repeated_frame_is_read_under_the_terms_of_its_connection() -> None:
    frame = enveloped("METADATA topic=t")
    plain = DIALECT.decode_request(frame, terms())
    other = DIALECT.decode_request(frame, terms(namespace="other"))
    agreed = terms()
    agreed.structured_errors = True
    assert isinstance(plain, Request) and isinstance(other, Request)
    assert plain == DIALECT.decode_request(frame, terms())
    assert other.command == c.DescribeTopic(Topic("other", "t"))
    assert DIALECT.decode_request(frame, agreed).context.structured


@pytest.mark.parametrize(
    "text", ["AUTH principal=p token=hunter2", "CONSUME topic=t partition=0 offset=0 member=m auth_token=hunter2"]
)
def test_secrets_are_neither_shown_nor_remembered(text: str) -> None:
    before = _read_again.cache_info().currsize
    assert "hunter2" not in repr(read(text))
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
        request = read(f"METADATA topic={name}")
        assert isinstance(request, Request)
        assert request.command == c.DescribeTopic(Topic("default", name))


LABELLED = r.TopicDescription("default", "orders", 1, 1, c.TopicSettings(labels={"read_acl": "a b"}), ())


@pytest.mark.parametrize(("policy", "shown"), [("replace", "a_b"), ("escape", r"a\u0020b")])
def test_a_value_with_blanks_is_one_word_in_an_answer(policy: str, shown: str) -> None:
    assert f"read_acl={shown} " in answer(Request(c.CreateTopic(ORDERS, 1)), LABELLED, policy=policy)


def test_a_value_with_blanks_may_be_refused() -> None:
    with pytest.raises(CommandFailed) as caught:
        answer(Request(c.CreateTopic(ORDERS, 1)), LABELLED, policy="reject")
    assert caught.value.fault is Fault.UNREPRESENTABLE


def test_begun_hours_of_retention_are_shown_as_whole_ones() -> None:
    described = r.TopicDescription("default", "orders", 1, 1, c.TopicSettings(retention_us=1), ())
    assert "retention_hours=1 " in answer(Request(c.CreateTopic(ORDERS, 1)), described)


def test_describe_shows_only_the_settings_there_are() -> None:
    described = r.TopicDescription(
        "default", "t", 1, 1, c.TopicSettings(7_200_000_000, 9, labels={"read_acl": "a,b", "write_acl": "c"}), ()
    )
    text = answer(Request(c.DescribeTopic(ORDERS)), described)
    for part in ('"retention_hours": 2', '"retention_bytes": 9', '"read_acl": [', '"write_acl": ['):
        assert part in text
    found = heard(c.DescribeTopic(ORDERS), text)
    assert isinstance(found, r.TopicDescription)
    assert found.settings == described.settings


def test_a_reply_that_answers_another_command_is_a_defect() -> None:
    with pytest.raises(CommandFailed) as caught:
        answer(METADATA, r.Count(1))
    assert caught.value.fault is Fault.INTERNAL


def test_an_ack_names_any_producer() -> None:
    body = bytes(16) + b'\0\3a"\xff\0\0' + bytes(28)
    frame = framed(b"\xba\x7c\0\6orders" + bytes(4) + b"\x011\0" + bytes(19) + b"\1" + body)
    request = DIALECT.decode_request(frame, terms())
    assert isinstance(request, Request), request
    text = answer(request, r.Published(0, 0, 0))
    assert '"producer_id":"a\\"\ufffd"' in text
    assert heard(request.command, text) == r.Published(0, 0, 0)


def test_a_failure_of_a_command_that_was_never_spoken_is_told_all_the_same() -> None:
    assert answer(Request(c.QueueSize(ORDERS)), CommandFailed(Fault.UNSUPPORTED)) == (
        "ERROR: unsupported command=QueueSize"
    )


def test_facts_that_are_none_do_no_harm() -> None:
    fetch = Request(c.Fetch(ORDERS, 7, 0))
    failure = CommandFailed(Fault.NO_SUCH_PARTITION, partition=7, partitions="many")
    assert (
        answer(fetch, failure) == "ERROR: command_failed reason=\"partition 7 out of range for topic 'orders' (0-0)\""
    )


def test_other_failures_name_what_the_command_named() -> None:
    commit = Request(c.CommitOffsets(ORDERS, Group("g"), {0: 1}, "m", 3, rising=True))
    assert answer(commit, CommandFailed(Fault.NOT_A_MEMBER)) == "ERROR: member_not_found member=m group=g"
    fetch = Request(c.Fetch(ORDERS, 0, c.Next(Group("g"), 5)))
    assert answer(fetch, CommandFailed(Fault.INVALID_OFFSET)) == (
        'ERROR: command_failed reason="invalid offset value: 5"'
    )
    assert answer(METADATA, CommandFailed(Fault.NOT_LEADER)) == "ERROR: NOT_LEADER LEADER_IS localhost:9000"
    assert answer(METADATA, CommandFailed(Fault.INVALID_ARGUMENT, "no")) == 'ERROR: invalid_argument reason="no"'


# -- what our client understands

BATCH = c.Publish(ORDERS, 2, canonical([Record(None, b"x")] * 3))


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ('{"status":"OK","last_offset":9}', r.Published(2, 7, 9)),
        ('{"status":"PARTIAL","last_offset":9,"seq_start":4,"seq_end":6}', r.Published(2, 7, 9)),
        ('{ "status" : "OK", "last_offset" : 1, "leader" : "h:1", "error" : "" }', r.Published(2, 0, 1)),
        ("OK", r.Published(2, 0, 0)),
    ],
)
def test_acks_of_all_ages_are_understood(text: str, outcome: r.Reply) -> None:
    assert heard(BATCH, text) == outcome


def test_an_ack_of_some_of_the_records_is_a_failure() -> None:
    failure = heard(BATCH, '{"status":"PARTIAL","last_offset":9,"seq_start":4,"seq_end":5}')
    assert isinstance(failure, CommandFailed)
    assert (failure.fault, failure.detail) == (Fault.UNAVAILABLE, "2 of 3 records were stored, up to 9")


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("ERROR: NOT_LEADER LEADER_IS 10.0.0.2:9000", {"leader": "10.0.0.2:9000"}),
        ("ERROR: NOT_LEADER class=routing retryable=true LEADER_IS h:1", {"leader": "h:1"}),
        ("ERROR: NOT_LEADER LEADER_IS [::1]:9000", {"leader": "[::1]:9000"}),
        ("ERROR: NOT_COORDINATOR host=h port=1", {"leader": "h:1"}),
        ("ERROR: NOT_COORDINATOR class=routing retryable=true host=h port=1", {"leader": "h:1"}),
        ('{"status":"ERROR","leader":"h:1","error":"NOT_LEADER"}', {"leader": "h:1"}),
        ('{"status":"ERROR","leader":"h:1","error":"NOT_LEADER LEADER_IS h:2"}', {"leader": "h:2"}),
        ("ERROR: NOT_LEADER LEADER_IS ", {}),
        ("ERROR: NOT_LEADER LEADER_IS nobody", {}),
        ("ERROR: NOT_PARTITION_LEADER", {}),
        ("ERROR: NOT_COORDINATOR host= port=1", {}),
        ("ERROR: NOT_COORDINATOR host=h port=x", {}),
        ('{"status":"ERROR","leader":"","error":"NOT_LEADER"}', {}),
    ],
)
def test_who_is_not_the_leader_may_say_who_is(text: str, facts: dict[str, str]) -> None:
    failure = heard(BATCH, text)
    assert isinstance(failure, CommandFailed)
    assert (failure.fault, failure.facts) == (Fault.NOT_LEADER, facts)


def test_nothing_but_another_leader_is_a_reason_to_go_elsewhere() -> None:
    failure = heard(HEARTBEAT, "ERROR: member_not_found member=m group=g host=h port=1 LEADER_IS h:1")
    assert isinstance(failure, CommandFailed)
    assert failure.facts == {"member": "m"}


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        ("idempotency gap for producer p: expected 2, got 4", Fault.SEQUENCE_GAP),
        ("idempotency error", Fault.SEQUENCE_GAP),
        ("first message must have seqNum 1", Fault.SEQUENCE_GAP),
        ("stale_producer_epoch producer=p current=2 got=1", Fault.STALE_EPOCH),
        ("producer_fenced", Fault.STALE_EPOCH),
        ("topic_not_found topic=t", Fault.NO_SUCH_TOPIC),
        ("something else", Fault.INTERNAL),
    ],
)
def test_an_ack_that_is_an_error_says_which(error: str, fault: Fault) -> None:
    failure = heard(BATCH, f'{{"status":"ERROR","error":"{error}"}}')
    assert isinstance(failure, CommandFailed)
    assert failure.fault is fault


@pytest.mark.parametrize(
    ("text", "fault", "facts"),
    [
        (
            "ERROR: GEN_MISMATCH current=2 requested=1 group=g member=m",
            Fault.STALE_GENERATION,
            {"current": 2, "requested": 1, "member": "m"},
        ),
        ("ERROR: GEN_MISMATCH class=fencing retryable=false current=2", Fault.STALE_GENERATION, {"current": 2}),
        ("REBALANCE_REQUIRED", Fault.STALE_GENERATION, {}),
        ("ERROR: malformed_input reason=missing_topic_or_payload", Fault.UNSUPPORTED, {}),
        ("ERROR: missing_generation command=LEAVE_GROUP", Fault.UNSUPPORTED, {}),
        ("ERROR group_not_found: g", Fault.NO_SUCH_GROUP, {}),
        ("ERROR: topic_not_assigned_to_group expected=7 actual=b", Fault.OTHER_TOPIC, {"expected": "7", "actual": "b"}),
        (
            "ERROR: OFFSET_OUT_OF_RANGE requested=1 earliest=5 latest=9",
            Fault.OFFSET_GONE,
            {"requested": 1, "earliest": 5, "latest": 9},
        ),
        (
            "ERROR: NOT_OWNER partition=7 member=m group=g generation=1",
            Fault.NOT_OWNER,
            {"partition": 7, "generation": 1, "member": "m"},
        ),
        (
            "ERROR: command_failed reason=\"partition 9 out of range for topic 'T' (0-1)\"",
            Fault.NO_SUCH_PARTITION,
            {"partition": 9, "partitions": 2},
        ),
        (
            'ERROR: offset_regression reason="offset regression group=g topic=t partition=0 current=2 got=1"',
            Fault.OFFSET_REGRESSION,
            {"partition": 0, "current": 2, "requested": 1},
        ),
        (
            'ERROR: broker_error reason="acks=1 publish failed: sync publish failed: '
            'idempotency gap for producer p: expected 2, got 9"',
            Fault.SEQUENCE_GAP,
            {"producer": "p", "expected": 2, "got": 9},
        ),
        ("ERROR: missing_topic command=METADATA", Fault.MALFORMED, {}),
        ('ERROR: unknown_command command="LIST topic=T"', Fault.UNSUPPORTED, {}),
        ("ERROR: invalid_anything value=1", Fault.INVALID_ARGUMENT, {}),
        ("ERROR: no_raft_leader", Fault.UNAVAILABLE, {}),
        ("ERROR: NOT_AUTHORIZED_FOR_TOPIC operation=read topic=t", Fault.FORBIDDEN, {}),
    ],
)
def test_errors_of_all_ages_are_understood(text: str, fault: Fault, facts: dict[str, int | str]) -> None:
    failure = heard(HEARTBEAT, text)
    assert isinstance(failure, CommandFailed)
    assert (failure.fault, failure.facts) == (fault, facts)


def test_an_error_that_nobody_knows_is_internal_with_its_text() -> None:
    failure = failure_of('ERROR: coordinator_error reason="disk on fire"')
    assert failure.fault is Fault.INTERNAL
    assert "disk on fire" in failure.detail


@pytest.mark.parametrize(
    ("command", "text", "outcome"),
    [
        (c.FetchOffsets(ORDERS, Group("g"), (3,)), "7", r.CommittedOffsets({3: 7})),
        (c.FetchOffsets(ORDERS, Group("g"), (3,)), "OK offset=0", r.CommittedOffsets({})),
        (c.SyncGroup(ORDERS, "g", "m", 4), "OK assignments=[0 1]", r.Joined("m", 4, (0, 1))),
        (
            c.JoinGroup(ORDERS, "g", "m", c.Heartbeats()),
            "OK generation=1 member=m-1 assignments=[0,1]",
            r.Joined("m-1", 1, (0, 1)),
        ),
        (c.ListGroups("default"), "OK count=0 groups=", r.Groups(())),
        (c.LatestOffsets(ORDERS), "OK topic=orders partitions=0 offsets=", r.Offsets(0, ())),
        (
            c.LatestOffsets(ORDERS),
            "OK topic=orders partitions=1 offsets=P0:earliest=1:latest=2",
            r.Offsets(1, (r.PartitionOffsets(0, 1, 2),)),
        ),
    ],
)
def test_answers_of_all_ages_are_understood(command: c.Command, text: str, outcome: r.Reply) -> None:
    assert heard(command, text) == outcome


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (METADATA.command, "YES"),
        (METADATA.command, "OKAY topic=t partitions=1"),
        (METADATA.command, "OK topic=orders"),
        (METADATA.command, "OK topic=orders partitions=1000001"),
        (METADATA.command, "OK topic=orders partitions=-1"),
        (METADATA.command, "OK topic=orders partitions=1 retention_hours=x"),
        (METADATA.command, '{"topic":1}'),
        (HEARTBEAT, '{"status":"OK"}'),
        (BATCH, '{"status":"MAYBE"}'),
        (BATCH, "not JSON"),
        (c.JoinGroup(ORDERS, "g", "m", c.Heartbeats()), "OK generation=1 member=m"),
        (c.JoinGroup(ORDERS, "g", "m", c.Heartbeats()), "OK assignments=[]"),
        (c.LatestOffsets(ORDERS), "OK topic=orders partitions=1 offsets=P0"),
        (c.FetchOffsets(ORDERS, Group("g"), (0,)), "OK"),
        (c.Take(ORDERS), "OK"),
    ],
)
def test_an_answer_to_something_else_is_malformed(command: c.Command, text: str) -> None:
    with pytest.raises(CommandFailed) as caught:
        heard(command, text)
    assert caught.value.fault is Fault.MALFORMED


def test_a_data_frame_that_was_not_asked_for_is_malformed() -> None:
    frame = next(case.then for case in CASES if "empty batch" in case.name and case.then)
    with pytest.raises(CommandFailed) as caught:
        DIALECT.decode_reply(METADATA, frame, terms())
    assert caught.value.fault is Fault.MALFORMED
    with pytest.raises(CommandFailed):
        DIALECT.decode_reply(METADATA, framed(b"OK \xff"), terms())


def test_a_group_of_another_topic_is_not_the_group_that_was_meant() -> None:
    text = '{"group_name":"g","topic_name":"bills","members":null}'
    assert isinstance(heard(c.DescribeGroup(Topic("default", "bills"), "g"), text), r.GroupDescription)
    failure = heard(c.DescribeGroup(ORDERS, "g"), text)
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


def sent(command: c.Command, **options: object) -> bytes:
    return DIALECT.encode_request(Request(command), terms(**options))


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (c.Ping(), "HELP"),
        (c.FindLeader(), "FIND_COORDINATOR group=default-group"),
        (c.DescribeTopic(ORDERS), "DESCRIBE topic=orders"),
        (
            c.Fetch(ORDERS, 1, 5),
            "CONSUME topic=orders partition=1 offset=5 group=gateway-never-commits member=gateway batch=100000",
        ),
        (
            c.Fetch(ORDERS, 1, c.Next(Group("g")), 10, wait=0.0001),
            "CONSUME topic=orders partition=1 offset=0 group=g member=gateway batch=10 wait_ms=1",
        ),
        (
            c.Follow(ORDERS, 1, c.Next(Group("g")), 10),
            "STREAM topic=orders partition=1 offset=0 group=g member=gateway batch=10",
        ),
        (
            c.Follow(ORDERS, 1, c.Next(Group("g")), 8192),
            "STREAM topic=orders partition=1 offset=0 group=g member=gateway",
        ),
        (c.CommitOffsets(ORDERS, Group("g"), {0: 1}), "COMMIT orders g 0 1"),
        (
            c.CommitOffsets(ORDERS, Group("g"), {0: 1, 2: 3}, "m", 4),
            "BATCH_COMMIT topic=orders group=g member=m generation=4 P0:1,P2:3",
        ),
    ],
)
def test_our_client_has_a_word_for_what_no_peer_has_spoken(command: c.Command, text: str) -> None:
    assert sent(command) == enveloped(text)


def test_our_client_creates_in_the_envelope_of_the_clients() -> None:
    assert sent(c.CreateTopic(ORDERS, 2, if_exists=c.IfExists.GROW)) == framed(
        b"\0\5adminCREATE topic=orders partitions=2"
    )


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
        sent(command)
    assert caught.value.fault is Fault.UNSUPPORTED


def as_text(command: c.Command) -> bytes:
    """A Publish that was heard as text, said again."""
    return DIALECT.encode_request(Request(command, None, Produced("PUBLISH", batched=False)), terms())


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
    [with_acks, without] = [sent(c.Publish(ORDERS, 0, ONE, acks)) for acks in (Acks.LEADER, Acks.NONE)]
    assert without == with_acks


def test_who_reads_for_nobody_is_not_held_up_by_what_somebody_committed() -> None:
    for line, kind in (("CONSUME", c.Fetch), ("STREAM", c.Follow)):
        text = f"{line} topic=orders partition=1 offset=5 group=gateway-never-commits member=gateway batch=10"
        request = DIALECT.decode_request(enveloped(text), terms())
        assert isinstance(request, Request)
        assert isinstance(request.command, kind)
        assert request.command.start == 5
        assert DIALECT.encode_request(request, terms()) == enveloped(text)


def test_a_read_of_the_seed_is_said_again_as_it_was() -> None:
    request = Request(c.Follow(ORDERS, 1, 5), None, Consuming("STREAM"))
    assert DIALECT.encode_request(request, terms()) == enveloped("STREAM orders 1 5")


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
        sent(command)
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
        DIALECT.encode_request(Request(command, None, Consuming("STREAM")), terms())
    assert caught.value.fault is Fault.UNREPRESENTABLE


def test_our_client_sends_no_frame_that_no_server_takes() -> None:
    body = CURSUS_V1.stamp(bytes(28) + (MAX_FRAME).to_bytes(4, "big") + bytes(MAX_FRAME + 16), 0, 0)
    with pytest.raises(CommandFailed) as caught:
        sent(c.Publish(ORDERS, 0, RecordBatch(CURSUS_V1, body, 1)))
    assert caught.value.fault is Fault.TOO_LARGE


def test_a_record_of_another_dialect_may_be_published_as_text() -> None:
    batch = canonical([Record(b"k1", b"hello world", producer=b"p1", epoch=-1, sequence=9)], "iggy")
    frame = as_text(c.Publish(ORDERS, c.ByKey(b"k1", "fnv1a_64"), batch, Acks.NONE))
    assert frame[6:] == b"PUBLISH topic=orders producerId=p1 acks=0 seqNum=9 epoch=-1 key=k1 message=hello world"
    request = DIALECT.decode_request(frame, terms())
    assert isinstance(request, Request)
    assert request.command.batch.records() == batch.records()


def test_features_are_offered_as_far_as_their_commands_are_served() -> None:
    assert "structured_errors_v1" in FEATURES
    assert "stream_control_v1" in FEATURES
    assert "event_sourcing_v1" not in FEATURES
    assert list(FEATURES) == sorted(FEATURES)
    assert {name.encode() for name in FEATURES} == spec.SERVED


def test_a_call_is_answered_by_its_own_word() -> None:
    peer = session()
    [call] = peer.receive(enveloped("SUBSCRIBE topic=orders group=g"), 0.0)
    assert isinstance(call, Call)
    peer.answer(call, r.GroupDescription("default", "orders", "g", 1, 0, 2))
    assert texts(peer.take()) == ["OK group=g topic=orders subscribed=true"]
