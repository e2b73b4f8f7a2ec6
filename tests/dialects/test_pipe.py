"""gateway.dialects.pipe: what is peculiar to V1 lines."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import wire
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
from gateway.core.records import Header, Record, canonical, registry
from gateway.core.replies import CommittedOffsets, Done, Joined, Outcome, Published, Records, Reply
from gateway.dialects import ClientSession, Refusal, Request, ServerSession
from gateway.dialects.pipe import DIALECT, spec
from gateway.dialects.pipe.faults import CODES, WORDS
from gateway.dialects.pipe.terms import PipeSettings, PipeTerms
from gateway.dialects.pipe.text import integer, trim, words
from gateway.dialects.pipe.values import SHOW, unescape

CASES = vectors.load("pipe")
ENCODINGS = registry([])
ORDERS = Topic("default", "orders")
TOO_LONG = wire.told("pipe", "a server that could not read the correlation value still refused our request")
OFFSET = FetchOffsets(ORDERS, Group("g"), (1,))
FETCH = Fetch(ORDERS, 2, 0)
MINE = [f"pipe/vectors/{name}.toml" for name in ("consume", "envelope", "groups", "offsets", "produce")]
ASKED = [case for case in CASES if case.file in MINE and case.command is not None and "client" in case.roles]
LINES = [*dict.fromkeys(case.when for case in ASKED)]
ANSWERED = [
    *dict.fromkeys((case.when, case.then) for case in ASKED if case.then and "CommandFailed" not in str(case.outcome))
]


def terms_with(settings: PipeSettings | None = None) -> PipeTerms:
    terms = DIALECT.open(settings or PipeSettings(), ENCODINGS).terms("localhost:9092")
    assert isinstance(terms, PipeTerms)
    return terms


TERMS = terms_with()


def connect(**settings: object) -> ServerSession:
    return DIALECT.open(msgspec.convert(settings, PipeSettings), ENCODINGS).session()


def answered(command: Command, outcome: Reply | CommandFailed, **settings: object) -> Outcome:
    """What a client hears of the outcome, through a session."""
    session, request = connect(**settings), Request(command, "1")
    [call] = session.receive(DIALECT.encode_request(request, TERMS), 0.0)
    session.answer(call, outcome)
    return DIALECT.decode_reply(request, session.take(), TERMS)


def fault_in(outcome: Outcome) -> Fault:
    assert isinstance(outcome, CommandFailed)
    return outcome.fault


def decoded(line: bytes) -> Command:
    request = DIALECT.decode_request(line, TERMS)
    assert isinstance(request, Request), request
    return request.command


def fault_of(command: Command, terms: PipeTerms = TERMS) -> Fault:
    with pytest.raises(CommandFailed) as raised:
        DIALECT.encode_request(Request(command, "1"), terms)
    return raised.value.fault


def publish(record: Record, to: ByKey | Balanced | int | None = None) -> Publish:
    to = ByKey(record.key or b"", "fnv1a_32") if to is None else to
    return Publish(ORDERS, to, canonical([record], "pipe"), Acks.LEADER, 3)


def asking(command: Command, tag: str = "1", terms: PipeTerms = TERMS) -> bytes:
    return DIALECT.encode_request(Request(command, tag), terms)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_written_case_holds(case: vectors.Case) -> None:
    assert vectors.check(DIALECT, case, ENCODINGS) == []


# -- lines


@pytest.mark.parametrize("end", [b"", b"\n", b"more"])
def test_a_line_of_65536_bytes_closes_after_what_was_asked_before_it(end: bytes) -> None:
    session = connect()
    [call] = session.receive(asking(OFFSET) + b"x" * 65_536 + end, 0.0)
    assert session.closing
    assert session.receive(asking(OFFSET, "2"), 0.0) == []
    assert session.take() == b""
    session.answer(call, CommittedOffsets({1: 1}))
    assert session.take() == wire.reply("pipe", Request(OFFSET, "1"), CommittedOffsets({1: 1})) + TOO_LONG
    assert session.eof() == []


def test_a_listener_may_have_another_limit() -> None:
    session = connect(max_frame=len(asking(OFFSET)))
    assert len(session.receive(asking(OFFSET), 0.0)) == 1
    session = connect(max_frame=len(asking(OFFSET)) - 1)
    assert session.receive(asking(OFFSET), 0.0) == []
    assert session.take() == TOO_LONG
    assert session.closing


def test_a_long_line_is_not_searched_twice() -> None:
    assert DIALECT.measure_request(b"..a\nbc\n", 2, 0) == 2
    assert DIALECT.measure_request(b"..a\nbc\n", 2, 2) == 5
    assert DIALECT.measure_request(b"..a\nbc", 2, 2) == 0


@pytest.mark.parametrize(
    "frame", [b"", b"\n\n", asking(OFFSET)[:-1], asking(OFFSET).replace(b" ", b"\n"), asking(OFFSET) * 2]
)
def test_what_is_not_one_line_is_no_request(frame: bytes) -> None:
    refusal = DIALECT.decode_request(frame, TERMS)
    assert isinstance(refusal, Refusal)
    said = DIALECT.encode_reply(refusal, refusal.failure, TERMS)
    assert said == wire.told("pipe", "a blank line is a request of too few parts")


@given(st.binary(max_size=60) | st.builds(asking(OFFSET)[:5].__add__, st.binary(max_size=60)))
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
@example(b"\xe2" + "\u00a0".encode() + b"\xff")
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


# -- faults


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name)
def test_a_failure_is_one_line_of_known_code_that_comes_back_as_that_code(fault: Fault) -> None:
    failure = CommandFailed(fault, "KeyError\nin /srv/gateway")
    said = DIALECT.encode_reply(Request(Ping(), "1"), failure, TERMS)
    parts: Any = spec.parse_reply(said)
    assert (parts.corr, parts.code, parts.message) == ("1", CODES[fault], WORDS[fault])
    back = fault_in(DIALECT.decode_reply(Request(Ping(), "1"), said, TERMS))
    assert (CODES[back], WORDS[back]) == (CODES[fault], WORDS[fault])


# -- groups and offsets, as a server that knows them by name alone


@pytest.mark.parametrize("fault", ["NO_SUCH_TOPIC", "NO_SUCH_PARTITION", "NO_SUCH_GROUP", "NO_SUCH_OFFSET"])
def test_the_offset_of_what_is_not_there_is_0(fault: str) -> None:
    assert answered(OFFSET, CommandFailed(Fault[fault])) == CommittedOffsets({})


def test_an_offset_that_cannot_be_looked_up_is_not_0() -> None:
    assert fault_in(answered(OFFSET, CommandFailed(Fault.UNAVAILABLE))) is Fault.NOT_LEADER


@pytest.mark.parametrize(
    "command",
    [
        SyncGroup(ORDERS, "g", "c", 1),
        Heartbeat(ORDERS, "g", "c", 1),
        LeaveGroup(ORDERS, "g", "c", 1),
        CommitOffsets(ORDERS, Group("g"), {1: 42}, "c", 1),
    ],
    ids=lambda command: type(command).__name__,
)
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (Fault.NO_SUCH_TOPIC, Fault.NO_SUCH_GROUP),
        (Fault.OTHER_TOPIC, Fault.NO_SUCH_GROUP),
        (Fault.NO_SUCH_GROUP, Fault.NO_SUCH_GROUP),
        (Fault.STALE_GENERATION, Fault.STALE_GENERATION),
        (Fault.NOT_A_MEMBER, Fault.NOT_A_MEMBER),
        (Fault.NO_SUCH_PARTITION, Fault.NOT_OWNER),
        (Fault.NOT_OWNER, Fault.NOT_OWNER),
    ],
)
def test_a_member_whose_group_is_gone_is_made_to_join_again(command: Command, fault: Fault, told: Fault) -> None:
    assert fault_in(answered(command, CommandFailed(fault))) is told


def test_joining_a_group_of_another_topic_is_not_answered_with_join_again() -> None:
    joining = JoinGroup(ORDERS, "g", "c", Heartbeats(10.0))
    assert fault_in(answered(joining, CommandFailed(Fault.OTHER_TOPIC, expected="a", actual="b"))) is Fault.OTHER_TOPIC


def test_an_unfenced_commit_to_no_topic_is_an_error() -> None:
    commit = CommitOffsets(ORDERS, Group("g"), {1: 42})
    assert fault_in(answered(commit, CommandFailed(Fault.NO_SUCH_TOPIC))) is Fault.NO_SUCH_TOPIC


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


def test_after_a_rejected_value_the_connection_lives() -> None:
    session = connect(policy="reject")
    [call] = session.receive(asking(FETCH), 0.0)
    session.answer(call, Records(0, 0, 1, (canonical([Record(None, b"a,b")], "grid"),)))
    assert session.take() == wire.reply("pipe", call.request, CommandFailed(Fault.UNREPRESENTABLE))
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
        [call] = session.receive(asking(FETCH), 0.0)
        session.answer(call, Records(0, 0, 1, (canonical([Record(None, b"a\n")], "grid"),)))
    assert dict(listener.losses) == {("grid", "pipe", "value"): 2}


def test_a_reply_of_the_wrong_kind_is_a_defect_that_is_not_told() -> None:
    assert fault_in(answered(FETCH, Done())) is Fault.INTERNAL


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
        st.sampled_from([JoinGroup(ORDERS, "g", "consumer-a", Heartbeats()), SyncGroup(ORDERS, "g", "consumer-a", 1)]),
        st.builds(
            Joined,
            st.just("consumer-a"),
            st.integers(0, 2**63 - 2),
            st.lists(st.integers(0, 99_999)).map(tuple),
        ),
    ),
    st.tuples(
        st.sampled_from(
            [
                Heartbeat(ORDERS, "g", "c", 1),
                LeaveGroup(ORDERS, "g", "c", 1),
                CommitOffsets(ORDERS, Group("g"), {1: 42}),
                CommitOffsets(ORDERS, Group("g"), {1: 42}, "c", 1),
            ]
        ),
        st.just(Done()),
    ),
    st.tuples(
        st.just(OFFSET),
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
    for number in range(5000):
        client.ask(Request(OFFSET, str(number)))
    for call in server.receive(client.take(), 0.0):
        server.answer(call, CommittedOffsets({1: int(str(call.request.tag)) + 1}))
    answers = client.receive(server.take())
    assert [outcome for _, outcome in answers] == [CommittedOffsets({1: number + 1}) for number in range(5000)]


def test_an_answer_that_is_no_line_is_malformed() -> None:
    told = wire.reply("pipe", Request(OFFSET, "9"), CommittedOffsets({1: 1}))
    for frame in (b"", told[:-1], told[:9] + b"\n" + told[9:]):
        with pytest.raises(CommandFailed) as raised:
            DIALECT.decode_reply(Request(OFFSET, "9"), frame, TERMS)
        assert raised.value.fault is Fault.MALFORMED


@pytest.mark.parametrize("command", [Ping(), Fetch(ORDERS, 0, First()), FetchOffsets(ORDERS, Group("g"))])
def test_an_ok_to_what_cannot_be_asked_is_malformed(command: Command) -> None:
    with pytest.raises(CommandFailed) as raised:
        DIALECT.decode_reply(Request(command, "2"), wire.told("pipe", "an offset past the end is no error"), TERMS)
    assert raised.value.fault is Fault.MALFORMED


@given(st.sampled_from(ANSWERED), st.integers(0, 60), st.binary(max_size=40))
def test_noise_in_an_answer_is_malformed_and_nothing_else(pair: tuple[bytes, bytes], cut: int, noise: bytes) -> None:
    asked, told = pair
    request = DIALECT.decode_request(asked, TERMS)
    assert isinstance(request, Request)
    for frame in (told[:cut] + noise + b"\n", told[:-1] + noise + b"\n"):
        try:
            DIALECT.decode_reply(request, frame, TERMS)
        except CommandFailed as failure:
            assert failure.fault is Fault.MALFORMED


@pytest.mark.parametrize(
    ("command", "offsets"),
    [
        (Fetch(ORDERS, 2, 4, max_records=2), [4, 7]),
        (Fetch(ORDERS, 2, 4, max_bytes=1), [4]),
        (Fetch(ORDERS, 2, 5), [7, 8]),
        (Fetch(ORDERS, 2, 8), [8]),
        (Fetch(ORDERS, 2, 9), []),
    ],
)
def test_a_client_keeps_the_limits_that_the_wire_cannot_say(command: Fetch, offsets: list[int]) -> None:
    told = wire.told("pipe", "offsets with a gap are two batches")
    reply = DIALECT.decode_reply(Request(command, "2"), told, TERMS)
    assert isinstance(reply, Records)
    assert all(batch.count > 0 for batch in reply.batches)
    assert [offset for batch in reply.batches for offset, _, _ in batch.rows()] == offsets


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
        DIALECT.encode_request(Request(OFFSET, tag), TERMS)
    assert raised.value.fault is Fault.UNREPRESENTABLE


def test_a_line_at_which_the_server_would_hang_up_is_not_sent() -> None:
    room = 65_536 - len(asking(publish(Record(b"k", b""))))
    assert len(DIALECT.encode_request(Request(publish(Record(b"k", b"v" * room)), "1"), TERMS)) == 65_536
    assert fault_of(publish(Record(b"k", b"v" * (room + 1)))) is Fault.TOO_LARGE


@pytest.mark.parametrize("key", [b"k", None])
def test_a_record_that_may_go_anywhere_goes_where_its_key_does(key: bytes | None) -> None:
    """A V1 server has no other way to choose."""
    assert asking(publish(Record(key, b"v"), to=Balanced())) == asking(publish(Record(key, b"v")))


RICH = Record(b"k", None, (Header(b"h", b"1"),), event_type=b"paid", expiry=5)


def test_what_a_request_leaves_behind_is_counted() -> None:
    terms = terms_with()
    assert asking(publish(RICH), terms=terms) == asking(publish(Record(b"k", b"")))
    DIALECT.encode_request(Request(Publish(ORDERS, ByKey(b"k", ""), canonical([RICH], "grid")), "1"), terms)
    lost = ("headers", "event_type", "expiry", "tombstone")
    assert dict(terms.losses) == {(origin, "pipe", field): 1 for origin in ("pipe", "grid") for field in lost}


def test_what_a_request_would_leave_behind_may_be_refused_instead() -> None:
    terms = terms_with(PipeSettings(policy="reject"))
    assert fault_of(publish(RICH), terms) is Fault.UNREPRESENTABLE
    assert asking(publish(Record(b"k", b"v")), terms=terms) == asking(publish(Record(b"k", b"v")))


def test_a_request_without_a_tag_goes_under_0() -> None:
    assert DIALECT.encode_request(Request(OFFSET), TERMS) == asking(OFFSET, "0")


# -- the grammar and the fast path


@pytest.mark.parametrize("line", LINES, ids=repr)
def test_the_grammar_reads_the_same_names_and_numbers(line: bytes) -> None:
    parts, command = spec.parse_request(line), decoded(line)
    args = getattr(parts, "args", None)
    assert args is not None
    assert args.topic == command.topic.name  # type: ignore[union-attr]
    match command:
        case Publish(to=ByKey(key=key), batch=batch):
            assert args.message.encode("utf-8", "surrogateescape") == key + b":" + (batch.records()[0].value or b"")
        case Fetch():
            assert (args.partition, args.offset) == (command.partition, command.start)
        case CommitOffsets(reader=Group(name=group)):
            assert (args.group, {args.partition: args.offset}) == (group, command.offsets)
            assert args.get("consumer_id") == command.member
        case FetchOffsets(reader=Group(name=group)):
            assert (args.group, (args.partition,)) == (group, command.partitions)
        case JoinGroup():
            assert (args.group, args.consumer_id) == (command.group, command.member)
            assert args.assignor == (f"assignor={command.assignor}" if command.assignor else None)
        case SyncGroup() | Heartbeat() | LeaveGroup():
            assert (args.group, args.consumer_id) == (command.group, command.member)
            assert args.generation == (command.generation or 0) + 1


@pytest.mark.parametrize("line", LINES, ids=repr)
def test_the_grammar_builds_the_line_that_it_has_read(line: bytes) -> None:
    assert spec.REQUEST.build({"line": spec.parse_request(line)}) == line


@pytest.mark.parametrize(
    "name",
    [
        "an answer to PRODUCE says something",
        "a code that there is not yet is no reason to hang up, and its words may hold pipes",
        "an answer of two parts is malformed",
        "an answer of another version is malformed",
        "an answer is OK or ERR",
    ],
)
def test_the_grammar_has_no_other_answers(name: str) -> None:
    assert spec.parse_reply(wire.told("pipe", name)) is None


@pytest.mark.parametrize("told", [told for _, told in ANSWERED], ids=repr)
def test_the_grammar_has_the_answers_that_there_are_and_each_is_one_line(told: bytes) -> None:
    assert spec.parse_reply(told) is not None
    assert spec.parse_reply(told[:-1]) is spec.parse_reply(told * 2) is None


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
    said = {"version": "V1", "corr": "1", "command": verb, "words": " ".join(args).encode(), "args": None}
    assert same(spec.REQUEST.build({"line": said}))


# -- settings


@pytest.mark.parametrize("name", ["partitions", "consume_max_bytes", "ack_all"])
def test_settings_that_make_no_sense_are_refused(name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({name: 0}, PipeSettings)
