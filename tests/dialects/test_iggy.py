"""An Iggy connection without a backend: which generation it speaks, and what becomes of bytes that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wire
from dialects.iggy_requests import IDS, REQUESTS
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical, registry
from gateway.core.replies import Authenticated, Done, NamespaceDescription
from gateway.dialects import Request, ServerSession, load
from gateway.dialects.iggy.generations import GENERATIONS
from gateway.dialects.iggy.said import IggyTerms, Login
from gateway.dialects.iggy.spec import FRAME, parse_response
from gateway.dialects.iggy.wire import MAX_FRAME

IGGY = load("iggy")
ENCODINGS = registry(IGGY.encodings)
STREAM = NamespaceDescription(1, "s", 0, 0, 0, 0)
PING = wire.request("iggy", q.Ping())
OK = wire.reply("iggy", Request(q.Ping()), Done())


def terms(generation: str = "auto") -> IggyTerms:
    made = IGGY.open(IGGY.settings(generation=generation), ENCODINGS).terms("localhost:8090")  # type: ignore[call-arg]
    assert isinstance(made, IggyTerms)
    return made


def session(generation: str = "auto") -> ServerSession:
    return IGGY.open(IGGY.settings(generation=generation), ENCODINGS).session("localhost:8090")  # type: ignore[call-arg]


def frame(command: q.Command, generation: str, context: object = None) -> bytes:
    """As a client of that generation asks."""
    return IGGY.encode_request(Request(command, None, context), terms(generation))


def login(version: str | None) -> bytes:
    generation = "g1a" if version is None else "g2c"
    return frame(q.Authenticate("plain", "iggy", "iggy"), generation, Login(version))


def commands(at: ServerSession, data: bytes) -> list[q.Command]:
    return [call.request.command for call in at.receive(data, 0.0)]


def candidates(at: ServerSession) -> list[str]:
    assert isinstance(at.terms, IggyTerms)
    return [generation.name for generation in at.terms.candidates]


def publish(generation: str, to: int = 0) -> bytes:
    batch = canonical([Record(value=b"one"), Record(value=b"three")])
    return frame(q.Publish(q.Topic(1, 1), to, batch), generation)


def poll(generation: str) -> bytes:
    return frame(q.Fetch(q.Topic("s", "t"), 1, q.First(), 10, reader=q.Consumer(1)), generation)


# -- which generation


@pytest.mark.parametrize(
    ("version", "generation"),
    [
        (None, "g1a"),
        ("0.5.0", "g1b_texts"),
        ("0.6.12", "g1b_texts"),
        ("0.6.51", "g1b_texts"),
        ("0.6.102", "g1b"),
        ("0.6.202", "g1b"),
        ("0.7.0", "g2a"),
        ("0.8.0", "g2b"),
        ("0.9.0", "g2c"),
        ("0.10.0", "g2c"),
    ],
)
def test_a_login_says_the_generation(version: str | None, generation: str) -> None:
    at = session()
    assert commands(at, PING + login(version)) == [q.Ping(), q.Authenticate("plain", "iggy", "iggy")]
    assert candidates(at) == [generation]
    created = commands(at, frame(q.CreateNamespace("orders"), generation))
    assert created == [q.CreateNamespace("orders")]


def test_who_does_not_log_in_speaks_as_the_seed() -> None:
    at = session()
    assert commands(at, PING + frame(q.CreateNamespace("s", 7), "g0")) == [q.Ping(), q.CreateNamespace("s", 7)]
    assert candidates(at) == ["g0"]


def test_what_follows_a_login_in_one_chunk_is_read_in_its_generation() -> None:
    at = session()
    made, sent = frame(q.CreateNamespace("s"), "g2c"), publish("g2c")
    _, _, create, send = at.receive(PING + login("0.10.0") + made + sent, 0.0)
    assert create.request.command == q.CreateNamespace("s")
    assert isinstance(send.request.command, q.Publish)
    assert send.request.command.batch.encoding.name == "iggy.g2c"


def test_an_answer_is_in_the_generation_of_its_request_whoever_logs_in_meanwhile() -> None:
    at = session()
    early, logged_in = at.receive(frame(q.CreateNamespace("s", 1), "g0") + login("0.10.0"), 0.0)
    at.answer(early, STREAM)
    at.answer(logged_in, Authenticated("iggy", 1))
    assert at.take() == OK + wire.told("iggy", "a client logs in and says that it is 0.10.0: apache-iggy 0.8.0")


def test_a_version_nobody_knows_leaves_all_generations_that_say_one() -> None:
    at = session()
    assert commands(at, login("Go/1.22"))
    assert candidates(at) == ["g2c", "g1b", "g2a", "g2b"]


def test_a_token_leaves_all_generations_with_a_login() -> None:
    at = session()
    assert commands(at, frame(q.Authenticate("token", "", "secret"), "g2c")) == [q.Authenticate("token", "", "secret")]
    assert candidates(at) == ["g2c", "g1b", "g2a", "g2b", "g1a"]


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        (PING, ["g2c", "g1b", "g2a", "g2b"]),
        (frame(q.ListNamespaces(), "g2c"), ["g2c", "g1b", "g2a", "g2b"]),
        (frame(q.CreateNamespace("s"), "g2c"), ["g2c", "g2b"]),
        (frame(q.CreateNamespace("s"), "g1b"), ["g1b", "g2a"]),
        (poll("g2b"), ["g2c", "g2b"]),
        (poll("g1b"), ["g1b", "g2a"]),
        (frame(q.CommitOffsets(q.Topic(1, 1), q.Group("g"), {1: 5}), "g2b"), ["g2c", "g2b"]),
        (frame(q.FetchOffsets(q.Topic(1, 1), q.Group("g"), (1,)), "g1b"), ["g1b", "g2a"]),
        (frame(q.CreateGroup(q.Topic(1, 1), "g"), "g1b"), ["g1b", "g2a"]),
        (frame(q.CreateGroup(q.Topic(1, 1), "g"), "g2c"), ["g2c", "g2b"]),
        (publish("g2c"), ["g2c"]),
        (publish("g2a"), ["g2a", "g2b"]),
        (publish("g1b"), ["g1b"]),
    ],
)
def test_requests_narrow_what_a_login_left_open(asked: bytes, left: list[str]) -> None:
    at = session()
    at.receive(login("?"), 0.0)
    assert len(commands(at, asked)) == 1
    assert candidates(at) == left


def test_what_is_narrowed_stays_so_and_is_answered_so() -> None:
    at = session()
    at.receive(login("?"), 0.0)
    at.receive(frame(q.CreateNamespace("s"), "g1b") + publish("g2a"), 0.0)
    assert candidates(at) == ["g2a"]
    (call,) = at.receive(poll("g2a"), 0.0)
    assert call.request.command == q.Fetch(q.Topic("s", "t"), 1, q.First(), 10, 8 << 20, reader=q.Consumer(1))
    assert len(commands(at, login("0.10.0"))) == 1
    assert candidates(at) == ["g2c"]


def test_what_fits_no_generation_in_question_is_refused_and_narrows_nothing() -> None:
    at = session()
    at.receive(login("?"), 0.0)
    assert commands(at, FRAME.build(frame(q.CreateNamespace("s"), "g2c")[4:-1])) == []
    assert candidates(at) == ["g2c", "g1b", "g2a", "g2b"]
    assert not at.closing


def test_a_listener_may_say_the_generation_itself() -> None:
    at = session("g2b")
    assert commands(at, login("0.6.0") + frame(q.CreateNamespace("s"), "g2b"))[1:] == [q.CreateNamespace("s")]
    assert candidates(at) == ["g2b"]


# -- frames that are no requests


def test_there_is_a_case_of_every_code() -> None:
    assert {code for _, code, _ in REQUESTS} == set(GENERATIONS["g2c"].requests)


@pytest.mark.parametrize(("generation", "code", "data"), REQUESTS, ids=IDS)
def test_a_payload_that_ends_too_early_costs_a_status_and_nothing_else(generation: str, code: int, data: bytes) -> None:
    for size in range(8, len(data)):
        at = session(generation)
        calls = at.receive(FRAME.build(data[4:size]) + PING, 0.0)
        if len(calls) == 1:  # else the rest was not needed: it begins with a smaller request
            answer = parse_response(at.take(), code, generation)
            assert answer is not None and answer.status
        assert calls[-1].request.command == q.Ping()
        assert not at.closing


@given(st.lists(st.binary(min_size=4, max_size=60).filter(lambda frame: frame[:4] != bytes(4)), max_size=6))
def test_noise_in_frames_is_answered_frame_by_frame(payloads: list[bytes]) -> None:
    at = session()
    calls = at.receive(PING + b"".join(map(FRAME.build, payloads)), 0.0)
    for call in calls:
        at.answer(call, CommandFailed(Fault.UNAVAILABLE))
    assert len(at.take()) == 8 * (1 + len(payloads))
    assert not at.closing


@pytest.mark.parametrize("length", range(4))
def test_a_frame_without_a_code_is_answered_and_the_connection_lives(length: int) -> None:
    at = session()
    ping, again = at.receive(PING + FRAME.build(bytes(length)) + PING, 0.0)
    at.answer(ping, Done())
    at.answer(again, Done())
    too_short = wire.told("iggy", "a frame that is too short for a code is error 3, and the connection lives")
    assert at.take() == OK + too_short + OK


def test_a_length_over_the_limit_ends_the_connection() -> None:
    at = session()
    assert len(commands(at, PING + FRAME.build(bytes(MAX_FRAME))[:4])) == 1
    assert at.closing


def test_the_longest_frame_is_waited_for() -> None:
    at = session()
    assert commands(at, FRAME.build(bytes(MAX_FRAME - 4))[:4]) == []
    assert not at.closing


# -- Iggy 0.11

VSR_HEAD = bytes(48)
"""Of every frame."""


@pytest.mark.parametrize("chunk", [1, 3, 4, 48])
def test_the_framing_of_0_11_is_hung_up_on_with_a_sentence_for_the_operator(chunk: int) -> None:
    told: list[str] = []
    at = session()
    at.tell = told.append
    for start in range(0, len(VSR_HEAD), chunk):
        assert at.receive(VSR_HEAD[start : start + chunk], 0.0) == []
    assert at.closing
    assert at.take() == b""
    assert len(told) == 1
    assert "0.11" in told[0]


# -- what cannot be said


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(
    "command",
    [
        q.LatestOffsets(q.Topic(1, 1)),
        q.Follow(q.Topic(1, 1), 0, 0),
        q.MapGet(q.Topic(1, 1), b"k"),
        q.JoinGroup(q.Topic(1, 1), 1, "me", q.WhileConnected(), existing=True),
        q.JoinGroup(q.Topic(1, 1), 1, "", q.Heartbeats(), existing=True),
        q.LeaveGroup(q.Topic(1, 1), 1, "me"),
        q.CommitOffsets(q.Topic(1, 1), q.Consumer(1), {0: 0}),
        q.CommitOffsets(q.Topic(1, 1), q.Consumer(1), {0: 1, 1: 1}),
        q.CommitOffsets(q.Topic(1, 1), q.Group(1), {0: 1}, "me", 3),
        q.FetchOffsets(q.Topic(1, 1), q.Consumer(1)),
        q.Fetch(q.Topic(1, 1), None, 0, reader=q.Consumer(1)),
        q.Fetch(q.Topic(1, 1), 0, q.Last(5), 3),
        q.CreateTopic(q.Topic(1, "t"), 1, if_exists=q.IfExists.GROW, id=1),
        q.CreateTopic(q.Topic(1, "t"), 1, q.TopicSettings(idempotent=True), id=1),
        q.Authenticate("kerberos", "me", "secret"),
        q.Publish(q.Topic(1, 1), q.ByKey(b"k", "fnv1a_32"), canonical([Record(value=b"v")])),
    ],
    ids=repr,
)
def test_what_the_protocol_has_no_words_for_is_unsupported(command: q.Command, generation: str) -> None:
    with pytest.raises(CommandFailed) as failure:
        frame(command, generation)
    assert failure.value.fault is Fault.UNSUPPORTED


@pytest.mark.parametrize(("generation", "name"), [("g0", "Orders"), ("g1a", "my orders"), ("g2c", ""), ("g2c", "a=b")])
def test_a_name_that_a_server_would_change_or_refuse_is_not_sent(generation: str, name: str) -> None:
    with pytest.raises(CommandFailed) as failure:
        frame(q.CreateNamespace(name, None if generation == "g2c" else 1), generation)
    assert failure.value.fault is Fault.UNREPRESENTABLE


@given(st.text(min_size=1, max_size=300))
def test_a_name_is_taken_as_it_is_or_as_one_lower_name_or_refused(name: str) -> None:
    """Up to g1a, as the servers of that time do; after, no name is changed."""
    octets = name.encode()[:255]
    for generation, lowered in (("g0", True), ("g1a", True), ("g1b", False), ("g2c", False)):
        blank = frame(q.CreateNamespace("x" * len(octets), None if generation == "g2c" else 1), generation)
        request = IGGY.decode_request(blank[: -len(octets)] + octets, terms(generation))
        if isinstance(request, Request):
            assert isinstance(request.command, q.CreateNamespace)
            given_name = octets.decode()
            assert request.command.name == (".".join(given_name.lower().split()) if lowered else given_name)
        else:
            assert request.failure.fault in (Fault.INVALID_NAME, Fault.MALFORMED)
