"""gateway.dialects.pipe: what is peculiar to V1 lines."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.conformance import vectors
from gateway.core.commands import (
    Acks,
    Balanced,
    ByKey,
    Command,
    CommitOffsets,
    Consumer,
    Fetch,
    FetchOffsets,
    First,
    Group,
    Heartbeat,
    Heartbeats,
    JoinGroup,
    LeaveGroup,
    Ping,
    Publish,
    SyncGroup,
    Topic,
    WhileConnected,
)
from gateway.core.faults import CommandFailed, Fault
from gateway.core.partitioners import PARTITIONERS
from gateway.core.records import Header, Record, canonical, registry
from gateway.core.replies import CommittedOffsets, Done, Joined, Published, Records, Reply
from gateway.dialects import Call, ClientSession, Refusal, Request, ServerSession
from gateway.dialects.pipe import DIALECT, spec
from gateway.dialects.pipe.faults import CODES, WORDS
from gateway.dialects.pipe.terms import PipeSettings, PipeTerms
from gateway.dialects.pipe.text import integer, trim, words
from gateway.dialects.pipe.values import SHOW, unescape

CASES = vectors.load("pipe")
ENCODINGS = registry([])
ORDERS = Topic("default", "orders")
TOO_LONG = b"V1|0|ERR|BAD_REQUEST|line too long\n"
LINES = [
    b"V1|1|PRODUCE|orders user1:created acks=all\n",
    b"V1|2|CONSUME|orders 2 0\n",
    b"V1|3|JOIN|analytics orders consumer-a assignor=range\n",
    b"V1|4|SYNC|analytics orders consumer-a 2\n",
    b"V1|5|HEARTBEAT|analytics orders consumer-a 2\n",
    b"V1|6|LEAVE|analytics orders consumer-a 2\n",
    b"V1|7|COMMIT|analytics orders 1 42\n",
    b"V1|8|COMMIT|analytics orders consumer-a 2 1 42\n",
    b"V1|9|OFFSET|analytics orders 1\n",
]


def terms_with(settings: PipeSettings | None = None) -> PipeTerms:
    terms = DIALECT.open(settings or PipeSettings(), ENCODINGS).terms("localhost:9092")
    assert isinstance(terms, PipeTerms)
    return terms


TERMS = terms_with()


def connect(**settings: object) -> ServerSession:
    return DIALECT.open(msgspec.convert(settings, PipeSettings), ENCODINGS).session()


def offset_of(call: Call) -> Reply:
    """A backend that answers every OFFSET with its own correlation value."""
    assert isinstance(call.request.command, FetchOffsets)
    return CommittedOffsets({1: int(str(call.request.tag))})


def talk(session: ServerSession, data: bytes) -> bytes:
    for call in session.receive(data, 0.0):
        session.answer(call, offset_of(call))
    return session.take()


def answered(line: bytes, outcome: Reply | CommandFailed, **settings: object) -> bytes:
    session = connect(**settings)
    [call] = session.receive(line, 0.0)
    session.answer(call, outcome)
    return session.take()


def decoded(line: bytes) -> Command:
    request = DIALECT.decode_request(line, TERMS)
    assert isinstance(request, Request), request
    return request.command


def refused(line: bytes) -> bytes:
    refusal = DIALECT.decode_request(line, TERMS)
    assert isinstance(refusal, Refusal), refusal
    return DIALECT.encode_reply(refusal, refusal.failure, TERMS)


def fault_of(command: Command, terms: PipeTerms = TERMS) -> Fault:
    with pytest.raises(CommandFailed) as raised:
        DIALECT.encode_request(Request(command, "1"), terms)
    return raised.value.fault


def publish(record: Record, to: ByKey | Balanced | int | None = None) -> Publish:
    to = ByKey(record.key or b"", "fnv1a_32") if to is None else to
    return Publish(ORDERS, to, canonical([record], "pipe"), Acks.LEADER, 3)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_written_case_holds(case: vectors.Case) -> None:
    assert vectors.check(DIALECT, case, ENCODINGS) == []


# -- lines


def test_five_thousand_requests_in_one_chunk_are_answered_in_order() -> None:
    session = connect()
    chunk = b"".join(b"V1|%d|OFFSET|g orders 1\n" % number for number in range(5000))
    assert talk(session, chunk) == b"".join(b"V1|%d|OK|offset=%d\n" % (number, number) for number in range(5000))


def test_answers_leave_in_request_order_whatever_order_the_backend_has() -> None:
    session = connect()
    calls = session.receive(b"V1|1|OFFSET|g orders 1\nV1|2|PING|\nV1|3|OFFSET|g orders 1\n", 0.0)
    for call in reversed(calls):
        session.answer(call, offset_of(call))
    assert session.take() == (b"V1|1|OK|offset=1\nV1|2|ERR|UNKNOWN_COMMAND|unsupported command\nV1|3|OK|offset=3\n")


def test_one_byte_at_a_time_is_the_same_conversation() -> None:
    said = b"V1|1|OFFSET|g orders 1\r\n\nnonsense\nV1|2|offset|g orders 1\nV1|3|PRODUCE|orders\n"
    whole, slow = connect(), connect()
    assert b"".join(talk(slow, said[at : at + 1]) for at in range(len(said))) == talk(whole, said)


def test_a_last_line_without_lf_is_served() -> None:
    session = connect()
    assert session.receive(b"V1|1|OFFSET|g orders 1", 0.0) == []
    [call] = session.eof()
    session.answer(call, offset_of(call))
    assert session.take() == b"V1|1|OK|offset=1\n"
    assert session.closing


def test_a_last_line_that_is_no_request_is_told_so() -> None:
    session = connect()
    session.receive(b"V1|1|OFF", 0.0)
    assert session.eof() == []
    assert session.take() == b"V1|0|ERR|BAD_REQUEST|expected format V1|<correlation_id>|<command>|<args>\n"


def test_nothing_is_said_at_the_end_of_a_stream_that_ends_with_a_line() -> None:
    session = connect()
    assert talk(session, b"V1|1|OFFSET|g orders 1\n") == b"V1|1|OK|offset=1\n"
    assert session.eof() == []
    assert session.take() == b""


def test_a_line_of_65535_bytes_is_served() -> None:
    [call] = connect().receive(b"V1|1|PRODUCE|orders k:".ljust(65_535, b"v") + b"\n", 0.0)
    assert isinstance(call.request.command, Publish)
    assert len(call.request.command.batch.records()[0].value or b"") == 65_535 - 22


@pytest.mark.parametrize("end", [b"", b"\n", b"more"])
def test_a_line_of_65536_bytes_closes_after_what_was_asked_before_it(end: bytes) -> None:
    session = connect()
    calls = session.receive(b"V1|1|OFFSET|g orders 1\n" + b"x" * 65_536 + end, 0.0)
    assert session.closing
    assert session.receive(b"V1|2|OFFSET|g orders 1\n", 0.0) == []
    assert session.take() == b""
    session.answer(calls[0], offset_of(calls[0]))
    assert session.take() == b"V1|1|OK|offset=1\n" + TOO_LONG
    assert session.eof() == []


def test_a_line_that_grows_too_long_piece_by_piece_closes_once() -> None:
    session = connect()
    for _ in range(70):
        session.receive(b"x" * 1000, 0.0)
    assert session.closing
    assert session.take() == TOO_LONG


def test_a_listener_may_have_another_limit() -> None:
    session = connect(max_frame=24)
    assert talk(session, b"V1|1|OFFSET|g orders 01\n") == b"V1|1|OK|offset=1\n"
    assert talk(session, b"V1|2|OFFSET|g orders 001\n") == TOO_LONG
    assert session.closing


def test_a_long_line_is_not_searched_twice() -> None:
    assert DIALECT.measure_request(b"..a\nbc\n", 2, 0) == 2
    assert DIALECT.measure_request(b"..a\nbc\n", 2, 2) == 5
    assert DIALECT.measure_request(b"..a\nbc", 2, 2) == 0


@pytest.mark.parametrize("verb", ["PING", "ADMIN", "ADMIN_DELETE_TOPIC", "PRODUCE1", "PRODÜCE", "QUIT"])
def test_what_the_project_does_not_have_is_unknown(verb: str) -> None:
    assert refused(f"V1|5|{verb}|orders 1\n".encode()) == b"V1|5|ERR|UNKNOWN_COMMAND|unsupported command\n"


@pytest.mark.parametrize("frame", [b"", b"\n\n", b"V1|1|OFFSET|g orders 1", b"V1|1|OFFSET|g\norders 1\n"])
def test_what_is_not_one_line_is_no_request(frame: bytes) -> None:
    assert refused(frame).startswith(b"V1|0|ERR|BAD_REQUEST|expected format ")


@given(st.binary(max_size=60) | st.builds(b"V1|1|".__add__, st.binary(max_size=60)))
def test_noise_never_raises_and_is_answered_in_one_line(noise: bytes) -> None:
    session = connect()
    calls = session.receive(noise + b"\n", 0.0)
    said = session.take()
    assert len(calls) + said.count(b"\n") == noise.count(b"\n") + 1


# -- text as Go takes it

SPACED = st.lists(
    st.binary(max_size=3)
    | st.sampled_from([char.encode() for char in spec.WHITE])
    | st.sampled_from([b"a", b"\xc2", b"\xe2\x80", b"\x1c"])
).map(b"".join)


@given(SPACED)
@example(b"\xe2\xc2\xa0\xff")
def test_white_space_is_found_in_any_bytes_as_in_text(text: bytes) -> None:
    as_text = text.decode("utf-8", "surrogateescape")
    assert trim(text) == as_text.strip(spec.WHITE).encode("utf-8", "surrogateescape")
    assert b"".join(word + b" " for word in words(text)) == spec._laid_out(as_text, None)


@pytest.mark.parametrize("text", [b"", b"+", b"-", b"1_0", b" 1", b"1.0", b"0x1", "٣".encode(), b"9" * 19, b"1" * 5000])
def test_what_atoi_refuses_is_no_integer(text: bytes) -> None:
    assert integer(text) is None


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(["", "0", "0" * 5000]))
@example(0, "0" * 5000)
def test_every_64_bit_number_is_an_integer_with_any_zeros_before_it(value: int, zeros: str) -> None:
    assert integer(f"{'-' if value < 0 else '+'}{zeros}{abs(value)}".encode()) == value


@pytest.mark.parametrize("value", [-(2**63) - 1, 2**63])
def test_a_number_beyond_64_bits_is_no_integer(value: int) -> None:
    assert integer(b"%d" % value) is None


@pytest.mark.parametrize(("key", "partition"), [("user1", 2), ("user2", 2), ("user-1", 1), ("42", 2), ("héllo", 0)])
def test_a_key_goes_where_the_project_puts_it(key: str, partition: int) -> None:
    command = decoded(f"V1|1|PRODUCE|orders {key}:v\n".encode())
    assert isinstance(command, Publish)
    assert isinstance(command.to, ByKey)
    assert PARTITIONERS[command.to.partitioner](command.to.key, command.create) == partition


@pytest.mark.parametrize("line", [b"JOIN|\xff t c", b"JOIN|g \xff c", b"JOIN|g t \xff", b"OFFSET|\xff t 0"])
def test_names_that_are_no_utf8_are_refused(line: bytes) -> None:
    assert refused(b"V1|1|" + line + b"\n").endswith(b" must be UTF-8\n")


# -- faults


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name)
def test_a_failure_is_one_line_of_known_code_that_comes_back_as_that_code(fault: Fault) -> None:
    failure = CommandFailed(fault, "KeyError\nin /srv/gateway")
    line = DIALECT.encode_reply(Request(Ping(), "1"), failure, TERMS)
    assert line == f"V1|1|ERR|{CODES[fault]}|{WORDS[fault]}\n".encode()
    assert line.count(b"\n") == 1
    back = DIALECT.decode_reply(Request(Ping(), "1"), line, TERMS)
    assert isinstance(back, CommandFailed)
    assert CODES[back.fault] == CODES[fault]
    assert WORDS[back.fault] == WORDS[fault]


def test_no_code_is_invented() -> None:
    project = {"BAD_REQUEST", "UNKNOWN_COMMAND", "REPLICATION_TIMEOUT", "NOT_LEADER", "GENERATION_MISMATCH"}
    assert set(CODES) == set(Fault)
    assert set(CODES.values()) == project


@pytest.mark.parametrize("fault", [Fault.NOT_LEADER, Fault.UNAVAILABLE, Fault.BUSY])
def test_what_may_work_later_is_said_in_the_code_that_sdks_try_again(fault: Fault) -> None:
    said = answered(LINES[0], CommandFailed(fault, "the disk is full"))
    assert said == b"V1|1|ERR|NOT_LEADER|partition leader unavailable on this broker\n"


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        (b"BAD_REQUEST|topic has no partitions", Fault.INVALID_ARGUMENT),
        (b"GENERATION_MISMATCH|something new", Fault.STALE_GENERATION),
        (b"NOT_LEADER|partition leader unavailable on this broker", Fault.NOT_LEADER),
        (b"NOT_LEADER", Fault.NOT_LEADER),
        (b"REPLICATION_TIMEOUT|acks=all timeout", Fault.TIMEOUT),
        (b"QUOTA|too much|really", Fault.INTERNAL),
        (b"", Fault.INTERNAL),
    ],
)
def test_words_that_we_would_not_say_are_understood_by_their_code(said: bytes, fault: Fault) -> None:
    failure = DIALECT.decode_reply(Request(Ping(), "1"), b"V1|1|ERR|" + said + b"\n", TERMS)
    assert isinstance(failure, CommandFailed)
    assert failure.fault is fault


def test_an_unknown_code_is_kept_for_the_log() -> None:
    failure = DIALECT.decode_reply(Request(Ping(), "1"), b"V1|1|ERR|QUOTA|too much|really\n", TERMS)
    assert str(failure) == "INTERNAL: QUOTA: too much|really"


# -- groups and offsets, as a server that knows them by name alone


@pytest.mark.parametrize("fault", ["NO_SUCH_TOPIC", "NO_SUCH_PARTITION", "NO_SUCH_GROUP", "NO_SUCH_OFFSET"])
def test_the_offset_of_what_is_not_there_is_0(fault: str) -> None:
    assert answered(b"V1|1|OFFSET|g orders 99\n", CommandFailed(Fault[fault])) == b"V1|1|OK|offset=0\n"


def test_an_offset_that_cannot_be_looked_up_is_not_0() -> None:
    said = answered(b"V1|1|OFFSET|g orders 1\n", CommandFailed(Fault.UNAVAILABLE))
    assert said == b"V1|1|ERR|NOT_LEADER|partition leader unavailable on this broker\n"


@pytest.mark.parametrize("line", LINES[3:6] + LINES[7:8], ids=lambda line: line.split(b"|")[2].decode())
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault.NO_SUCH_TOPIC, b"group not found"),
        (Fault.OTHER_TOPIC, b"group not found"),
        (Fault.NO_SUCH_GROUP, b"group not found"),
        (Fault.STALE_GENERATION, b"stale generation"),
        (Fault.NOT_A_MEMBER, b"unknown member"),
        (Fault.NO_SUCH_PARTITION, b"partition not assigned to member"),
        (Fault.NOT_OWNER, b"partition not assigned to member"),
    ],
)
def test_a_member_whose_group_is_gone_is_made_to_join_again(line: bytes, fault: Fault, said: bytes) -> None:
    assert answered(line, CommandFailed(fault)).endswith(b"|ERR|GENERATION_MISMATCH|" + said + b"\n")


def test_joining_a_group_of_another_topic_is_not_answered_with_join_again() -> None:
    assert b"|BAD_REQUEST|" in answered(LINES[2], CommandFailed(Fault.OTHER_TOPIC, expected="a", actual="b"))


def test_an_unfenced_commit_to_no_topic_is_an_error() -> None:
    assert b"|BAD_REQUEST|" in answered(LINES[6], CommandFailed(Fault.NO_SUCH_TOPIC))


# -- values in answers


def consumed(value: bytes | None, policy: str, origin: str = "grid") -> tuple[bytes, PipeTerms]:
    terms = terms_with(PipeSettings(policy=policy))  # type: ignore[arg-type]
    reply = Records(0, 0, 2, (canonical([Record(None, b"plain"), Record(b"k", value)], origin),))
    return DIALECT.encode_reply(Request(Fetch(ORDERS, 0, 0), "1"), reply, terms), terms


@given(st.binary())
def test_a_replaced_value_never_breaks_the_line(value: bytes) -> None:
    line, terms = consumed(value, "replace")
    assert line.count(b"\n") == 1
    assert b"\r" not in line
    assert line.count(b",") == value.count(b",") + 1
    changed = b"\n" in value or b"\r" in value
    assert dict(terms.losses) == {("grid", "pipe", "key"): 1} | ({("grid", "pipe", "value"): 1} if changed else {})


@given(st.lists(st.binary() | st.text("\\,\n\rnrx2c:0").map(str.encode), max_size=4))
def test_escaped_values_come_back_exactly(values: list[bytes]) -> None:
    terms = terms_with(PipeSettings(policy="escape"))
    batches = (canonical([Record(None, value) for value in values], "pipe"),) if values else ()
    reply = Records(0, 0, len(values), batches)
    request = Request(Fetch(ORDERS, 0, 0), "1")
    line = DIALECT.encode_reply(request, reply, terms)
    assert line.count(b"\n") == 1
    assert line.count(b",") == max(0, len(values) - 1)
    assert DIALECT.decode_reply(request, line, terms) == reply


def test_an_escape_that_is_none_of_ours_stands_for_itself() -> None:
    assert unescape(rb"\d\\n\x2c\x2d" + b"\\") == rb"\d\n,\x2d" + b"\\"


@pytest.mark.parametrize("value", [b"a,b", b"a\nb", b"a\rb"])
def test_a_rejected_value_is_an_error_and_the_connection_lives(value: bytes) -> None:
    session = connect(policy="reject")
    [call] = session.receive(LINES[1], 0.0)
    session.answer(call, Records(0, 0, 1, (canonical([Record(None, value)], "grid"),)))
    assert session.take() == b"V1|2|ERR|BAD_REQUEST|the wire of this dialect cannot carry the value\n"
    assert not session.closing
    assert SHOW["reject"](b"a b") == b"a b"


def test_each_changed_value_is_counted_under_who_wrote_it() -> None:
    terms = terms_with()
    batches = (
        canonical([Record(None, b"a\n"), Record(None, b"b"), Record(None, b"c\r")], "cursus"),
        canonical([Record(None, b"d\n")]).appended(3, 0),
    )
    DIALECT.encode_reply(Request(Fetch(ORDERS, 0, 0), "1"), Records(0, 0, 4, batches), terms)
    assert dict(terms.losses) == {("cursus", "pipe", "value"): 2, ("?", "pipe", "value"): 1}


def test_losses_of_all_connections_of_a_listener_are_in_one_place() -> None:
    listener = DIALECT.open(PipeSettings(), ENCODINGS)
    for session in (listener.session(), listener.session()):
        [call] = session.receive(LINES[1], 0.0)
        session.answer(call, Records(0, 0, 1, (canonical([Record(None, b"a\n")], "grid"),)))
    assert dict(listener.losses) == {("grid", "pipe", "value"): 2}


def test_a_reply_of_the_wrong_kind_is_a_defect_that_is_not_told() -> None:
    assert answered(LINES[1], Done()) == b"V1|2|ERR|BAD_REQUEST|internal error\n"


# -- as a client

NAMES = st.text(st.characters(exclude_characters=spec.WHITE, exclude_categories=["Cs"]), min_size=1, max_size=9)
WORDS_OF = st.binary(max_size=20).filter(lambda value: words(b"." + value + b".") == [b"." + value + b"."])
KEYS = WORDS_OF.filter(lambda key: b":" not in key)
NUMBERS = st.integers(0, 2**63 - 1)
TOPICS = NAMES.map(lambda name: Topic("default", name))
TAGS = st.text(st.characters(exclude_characters=spec.WHITE + "|", exclude_categories=["Cs"]), min_size=1, max_size=9)
MEMBERSHIPS = st.tuples(TOPICS, NAMES, NAMES, st.integers(0, 2**63 - 2))
COMMANDS = st.one_of(
    st.builds(
        lambda topic, key, value, acks: Publish(
            topic, ByKey(key, "fnv1a_32"), canonical([Record(key or None, value)], "pipe"), acks, 3
        ),
        TOPICS,
        KEYS,
        WORDS_OF,
        st.sampled_from(Acks),
    ),
    st.builds(lambda topic, partition, offset: Fetch(topic, partition, offset, create=3), TOPICS, NUMBERS, NUMBERS),
    st.builds(
        lambda topic, group, member, assignor: JoinGroup(topic, group, member, Heartbeats(10.0), assignor, create=3),
        TOPICS,
        NAMES,
        NAMES,
        st.sampled_from(["", "range", "round_robin"]),
    ),
    MEMBERSHIPS.map(lambda who: SyncGroup(*who)),
    MEMBERSHIPS.map(lambda who: Heartbeat(*who)),
    MEMBERSHIPS.map(lambda who: LeaveGroup(*who)),
    st.builds(
        lambda who, partition, offset: CommitOffsets(who[0], Group(who[1]), {partition: offset}, *who[2:]),
        MEMBERSHIPS | st.tuples(TOPICS, NAMES),
        NUMBERS,
        NUMBERS,
    ),
    st.builds(lambda topic, group, partition: FetchOffsets(topic, Group(group), (partition,)), TOPICS, NAMES, NUMBERS),
)


@given(COMMANDS, TAGS)
def test_what_a_client_asks_is_what_the_server_hears(command: Command, tag: str) -> None:
    line = DIALECT.encode_request(Request(command, tag), TERMS)
    assert DIALECT.decode_request(line, TERMS) == Request(command, tag)
    assert DIALECT.measure_request(line, 0, 0) == len(line)
    assert spec.parse_request(line) is not None


def records(start: int, values: list[bytes]) -> Records:
    batch = canonical([Record(None, value) for value in values], "pipe").appended(start, 0)
    return Records(2, 0, batch.end, (batch,))


ANSWERS = st.one_of(
    st.tuples(st.just(publish(Record(b"k", b"v"))), st.builds(lambda p, o: Published(p, o, o), NUMBERS, NUMBERS)),
    st.tuples(
        st.sampled_from([decoded(LINES[2]), decoded(LINES[3])]),
        st.builds(
            Joined,
            st.just("consumer-a"),
            st.integers(0, 2**63 - 2),
            st.lists(st.integers(0, 99_999)).map(tuple),
        ),
    ),
    st.tuples(st.sampled_from([decoded(line) for line in LINES[4:8]]), st.just(Done())),
    st.tuples(
        st.just(decoded(LINES[8])),
        st.builds(CommittedOffsets, st.dictionaries(st.just(1), st.integers(1, 2**63 - 1))),
    ),
    st.builds(
        lambda start, values: (Fetch(ORDERS, 2, start), records(start, values)),
        st.integers(0, 2**62),
        st.lists(WORDS_OF.filter(lambda value: b"," not in value), min_size=1, max_size=5),
    ),
)


@given(ANSWERS, TAGS)
def test_what_the_server_answers_is_what_a_client_hears(pair: tuple[Command, Reply], tag: str) -> None:
    command, reply = pair
    line = DIALECT.encode_reply(Request(command, tag), reply, TERMS)
    assert DIALECT.decode_reply(Request(command, tag), line, TERMS) == reply
    assert spec.parse_reply(line) is not None


def test_both_halves_understand_each_other_over_a_stream() -> None:
    server, client = connect(), ClientSession(DIALECT, terms_with())
    for number in range(1, 100):
        client.ask(Request(FetchOffsets(ORDERS, Group("g"), (1,)), str(number)))
    answers = client.receive(talk(server, client.take()))
    assert [outcome for _, outcome in answers] == [CommittedOffsets({1: number}) for number in range(1, 100)]


def test_an_answer_to_another_request_is_malformed() -> None:
    with pytest.raises(CommandFailed) as raised:
        DIALECT.decode_reply(Request(decoded(LINES[8]), "9"), b"V1|8|OK|offset=1\n", TERMS)
    assert raised.value.fault is Fault.MALFORMED
    with pytest.raises(CommandFailed):
        DIALECT.decode_reply(Request(decoded(LINES[8]), "9"), b"V1|0|OK|offset=1\n", TERMS)


def test_a_server_that_could_not_read_the_correlation_value_still_refused_our_request() -> None:
    line = b"V1|0|ERR|BAD_REQUEST|line too long\n"
    failure = DIALECT.decode_reply(Request(decoded(LINES[8]), "9"), line, TERMS)
    assert isinstance(failure, CommandFailed)
    assert failure.fault is Fault.TOO_LARGE


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (LINES[0], b"OK"),
        (LINES[0], b"OK|offset=1"),
        (LINES[0], b"OK|partition=0 offset=x"),
        (LINES[0], b"OK|partition=0 offset=-1"),
        (LINES[0], b"MAYBE|partition=0 offset=1"),
        (LINES[1], b"OK|hw=3"),
        (LINES[1], b"OK|messages=0:a hw=many"),
        (LINES[1], b"OK|messages= hw=-2"),
        (LINES[1], b"OK|messages=a,b hw=1"),
        (LINES[1], b"OK|messages=-1:a hw=1"),
        (LINES[2], b"OK|generation=2"),
        (LINES[2], b"OK|generation=x assigned=[0]"),
        (LINES[2], b"OK|generation=2 assigned=[0,1]"),
        (LINES[4], b"OK|heartbeat=no"),
        (LINES[6], b"OK|committed=false"),
        (LINES[8], b"OK|offset="),
    ],
)
def test_an_answer_that_does_not_say_what_was_asked_is_malformed(line: bytes, answer: bytes) -> None:
    request = DIALECT.decode_request(line, TERMS)
    assert isinstance(request, Request)
    with pytest.raises(CommandFailed) as raised:
        DIALECT.decode_reply(request, b"V1|%b|%b\n" % (str(request.tag).encode(), answer), TERMS)
    assert raised.value.fault is Fault.MALFORMED


@pytest.mark.parametrize("frame", [b"", b"V1|9\n", b"V2|9|OK|offset=1\n", b"V1|9|OK|offset=1", b"V1|9|OK|off\nset=1\n"])
def test_an_answer_that_is_no_line_of_v1_is_malformed(frame: bytes) -> None:
    with pytest.raises(CommandFailed) as raised:
        DIALECT.decode_reply(Request(decoded(LINES[8]), "9"), frame, TERMS)
    assert raised.value.fault is Fault.MALFORMED


@pytest.mark.parametrize("command", [Ping(), Fetch(ORDERS, 0, First()), FetchOffsets(ORDERS, Group("g"))])
def test_an_ok_to_what_cannot_be_asked_is_malformed(command: Command) -> None:
    with pytest.raises(CommandFailed) as raised:
        DIALECT.decode_reply(Request(command, "1"), b"V1|1|OK|messages= offset=1\n", TERMS)
    assert raised.value.fault is Fault.MALFORMED


@given(st.sampled_from(LINES), st.binary(max_size=40))
def test_noise_in_an_answer_is_malformed_and_nothing_else(line: bytes, noise: bytes) -> None:
    request = DIALECT.decode_request(line, TERMS)
    assert isinstance(request, Request)
    for status in (b"", b"V1|%b|OK|" % str(request.tag).encode()):
        try:
            DIALECT.decode_reply(request, status + noise + b"\n", TERMS)
        except CommandFailed as failure:
            assert failure.fault is Fault.MALFORMED


def read(command: Fetch, payload: bytes) -> list[tuple[int, bytes | None]]:
    reply = DIALECT.decode_reply(Request(command, "1"), b"V1|1|OK|" + payload + b"\n", TERMS)
    assert isinstance(reply, Records)
    assert all(batch.count > 0 for batch in reply.batches)
    return [(offset, record.value) for batch in reply.batches for offset, _, record in batch.rows()]


def test_a_comma_before_what_is_no_higher_offset_belongs_to_the_value() -> None:
    rows = read(Fetch(ORDERS, 0, 0), b"messages=0:a,b,,1:c,0:d,1:d,:,2:e hw=2")
    assert rows == [(0, b"a,b,"), (1, b"c,0:d,1:d,:"), (2, b"e")]


def test_a_comma_before_a_higher_offset_cannot_be_told_from_the_next_message() -> None:
    assert read(Fetch(ORDERS, 0, 0), b"messages=0:a,7:b hw=0") == [(0, b"a"), (7, b"b")]


def test_a_client_keeps_the_limits_that_the_wire_cannot_say() -> None:
    payload = b"messages=3:a,4:b,9:c,10:d hw=10"
    assert [offset for offset, _ in read(Fetch(ORDERS, 0, 3, max_records=3), payload)] == [3, 4, 9]
    assert [offset for offset, _ in read(Fetch(ORDERS, 0, 3, max_bytes=1), payload)] == [3]
    assert [offset for offset, _ in read(Fetch(ORDERS, 0, 4), payload)] == [4, 9, 10]
    assert [offset for offset, _ in read(Fetch(ORDERS, 0, 9), payload)] == [9, 10]
    assert read(Fetch(ORDERS, 0, 11), payload) == []


@pytest.mark.parametrize(
    "command",
    [
        Ping(),
        publish(Record(b"k", b"v"), to=0),
        publish(Record(b"k", b"v"), to=ByKey(b"other", "fnv1a_32")),
        Publish(ORDERS, ByKey(b"", "fnv1a_32"), canonical([Record(), Record()])),
        Publish(Topic("elsewhere", "orders"), ByKey(b"", "fnv1a_32"), canonical([Record()])),
        Publish(Topic("default", 7), ByKey(b"", "fnv1a_32"), canonical([Record()])),
        Fetch(ORDERS, None, 0),
        Fetch(ORDERS, 0, First()),
        Fetch(ORDERS, 0, 0, commit=True),
        Fetch(ORDERS, 0, 0, commit=True, reader=Group("g")),
        JoinGroup(ORDERS, "g", "c", WhileConnected()),
        JoinGroup(ORDERS, "g", "c", Heartbeats(), distinct=True),
        JoinGroup(ORDERS, "g", "c", Heartbeats(), existing=True),
        JoinGroup(ORDERS, "g", "c", Heartbeats(), "sticky"),
        JoinGroup(ORDERS, 7, "c", Heartbeats()),
        LeaveGroup(ORDERS, "g", "c"),
        CommitOffsets(ORDERS, Consumer("c"), {0: 1}),
        CommitOffsets(ORDERS, Group("g"), {0: 1, 1: 1}),
        CommitOffsets(ORDERS, Group("g"), {None: 1}),
        CommitOffsets(ORDERS, Group("g"), {0: 1}, rising=True),
        CommitOffsets(ORDERS, Group("g"), {0: 1}, bounded=True),
        CommitOffsets(ORDERS, Group("g"), {0: 1}, member="c"),
        CommitOffsets(ORDERS, Group("g"), {0: 1}, generation=1),
        FetchOffsets(ORDERS, Group("g")),
        FetchOffsets(ORDERS, Group("g"), (0, 1)),
        FetchOffsets(ORDERS, Group("g"), (None,)),
    ],
)
def test_what_v1_has_no_words_for_is_unsupported(command: Command) -> None:
    assert fault_of(command) is Fault.UNSUPPORTED


@pytest.mark.parametrize(
    "command",
    [
        publish(Record(b"a:b", b"v")),
        publish(Record(b"a b", b"v")),
        publish(Record(b"k", b"hello world")),
        publish(Record(b"k", b"a\n")),
        publish(Record(b"k", "a\u2028".encode())),
        Fetch(Topic("default", ""), 0, 0),
        Fetch(Topic("default", "two words"), 0, 0),
        Fetch(Topic("default", "\ud800"), 0, 0),
        Fetch(ORDERS, -1, 0),
        Fetch(ORDERS, 0, 2**63),
        JoinGroup(ORDERS, "g", "", Heartbeats()),
        SyncGroup(ORDERS, "g", "c", -1),
        Heartbeat(ORDERS, "g", "c", -1),
        CommitOffsets(ORDERS, Group("g"), {0: 1}, "c", -1),
        CommitOffsets(ORDERS, Group("g"), {0: 1}, "c", 2**63 - 1),
    ],
)
def test_what_a_line_cannot_hold_is_unrepresentable(command: Command) -> None:
    assert fault_of(command) is Fault.UNREPRESENTABLE


@pytest.mark.parametrize("tag", ["", " 1", "1|2", "1\n2", "1\u2003"])
def test_a_correlation_value_that_a_line_cannot_hold_is_unrepresentable(tag: str) -> None:
    with pytest.raises(CommandFailed) as raised:
        DIALECT.encode_request(Request(decoded(LINES[8]), tag), TERMS)
    assert raised.value.fault is Fault.UNREPRESENTABLE


def test_a_line_at_which_the_server_would_hang_up_is_not_sent() -> None:
    room = 65_536 - len(b"V1|1|PRODUCE|orders k:\n")
    assert len(DIALECT.encode_request(Request(publish(Record(b"k", b"v" * room)), "1"), TERMS)) == 65_536
    assert fault_of(publish(Record(b"k", b"v" * (room + 1)))) is Fault.TOO_LARGE


@pytest.mark.parametrize("key", [b"k", None])
def test_a_record_that_may_go_anywhere_goes_where_its_key_does(key: bytes | None) -> None:
    """A V1 server has no other way to choose."""
    line = DIALECT.encode_request(Request(publish(Record(key, b"v"), to=Balanced()), "1"), TERMS)
    assert line == b"V1|1|PRODUCE|orders %b:v\n" % (key or b"")
    assert decoded(line) == publish(Record(key, b"v"))


RICH = Record(b"k", None, (Header(b"h", b"1"),), event_type=b"paid", expiry=5)


def test_what_a_request_leaves_behind_is_counted() -> None:
    terms = terms_with()
    assert DIALECT.encode_request(Request(publish(RICH), "1"), terms) == b"V1|1|PRODUCE|orders k:\n"
    DIALECT.encode_request(Request(Publish(ORDERS, ByKey(b"k", ""), canonical([RICH], "grid")), "1"), terms)
    lost = ("headers", "event_type", "expiry", "tombstone")
    assert dict(terms.losses) == {(origin, "pipe", field): 1 for origin in ("pipe", "grid") for field in lost}


def test_what_a_request_would_leave_behind_may_be_refused_instead() -> None:
    terms = terms_with(PipeSettings(policy="reject"))
    assert fault_of(publish(RICH), terms) is Fault.UNREPRESENTABLE
    assert DIALECT.encode_request(Request(publish(Record(b"k", b"v")), "1"), terms) == b"V1|1|PRODUCE|orders k:v\n"


def test_a_request_without_a_tag_goes_under_0() -> None:
    line = DIALECT.encode_request(Request(FetchOffsets(ORDERS, Group("g"), (1,))), TERMS)
    assert line == b"V1|0|OFFSET|g orders 1\n"


# -- the grammar and the fast path


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split(b"|")[2].decode())
def test_the_grammar_reads_the_same_names_and_numbers(line: bytes) -> None:
    parts, command = spec.parse_request(line), decoded(line)
    args = getattr(parts, "args", None)
    assert args is not None
    assert args.topic == command.topic.name  # type: ignore[union-attr]
    match command:
        case Publish(to=ByKey(key=key), batch=batch):
            assert args.message.encode() == key + b":" + (batch.records()[0].value or b"")
        case Fetch():
            assert (args.partition, args.offset) == (command.partition, command.start)
        case CommitOffsets(reader=Group(name=group)):
            assert (args.group, {args.partition: args.offset}) == (group, command.offsets)
            assert args.get("consumer_id") == command.member
        case FetchOffsets(reader=Group(name=group)):
            assert (args.group, (args.partition,)) == (group, command.partitions)
        case JoinGroup():
            assert (args.group, args.consumer_id) == (command.group, command.member)
            assert args.assignor == f"assignor={command.assignor}"
        case SyncGroup() | Heartbeat() | LeaveGroup():
            assert (args.group, args.consumer_id) == (command.group, command.member)
            assert args.generation == (command.generation or 0) + 1


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split(b"|")[2].decode())
def test_the_grammar_builds_the_line_that_it_has_read(line: bytes) -> None:
    assert spec.REQUEST.build({"line": spec.parse_request(line)}) == line


@pytest.mark.parametrize("line", [b"V1|1|OK\n", b"V1|1|ERR|QUOTA|x\n", b"V1|1|OK|a\nb\n", b"V1|1|OK|a", b"V2|1|OK|a\n"])
def test_the_grammar_has_no_other_answers(line: bytes) -> None:
    assert spec.parse_reply(line) is None


def same(frame: bytes) -> bool:
    return (spec.parse_request(frame) is not None) == isinstance(DIALECT.decode_request(frame, TERMS), Request)


@given(st.sampled_from(LINES), st.data())
def test_the_grammar_and_the_fast_path_agree_on_damaged_lines_too(line: bytes, data: st.DataObject) -> None:
    frame = bytearray(line)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(frame) - 1))
        damage = data.draw(st.binary(max_size=2) | st.sampled_from([b"|", b" ", b"\n", b"-", b":", b"\xc2\xa0", b"0"]))
        frame[at : at + data.draw(st.integers(0, 2))] = damage
        if not frame:
            break
    assert same(bytes(frame))


@given(
    st.sampled_from(sorted(spec.COMMANDS)),
    st.lists(st.sampled_from(["orders", "1", "-1", "+7", "k:v", ":", "acks=all", "ACKS=0", "acks=", "assignor=Range"])),
)
def test_the_grammar_and_the_fast_path_agree_on_any_arguments(verb: str, args: list[str]) -> None:
    assert same(f"V1|1|{verb}|{' '.join(args)}\n".encode())


# -- settings


@pytest.mark.parametrize("name", ["partitions", "consume_max_bytes", "ack_all"])
def test_settings_that_make_no_sense_are_refused(name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({name: 0}, PipeSettings)
