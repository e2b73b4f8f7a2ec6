"""What every dialect promises, whatever it speaks: adding a folder to gateway/dialects is enough to be held to it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dialects.strategies import commands, failures, replies
from gateway.conformance import vectors
from gateway.core import commands as c
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding, registry
from gateway.core.replies import Outcome
from gateway.dialects import Call, ClientSession, Dialect, Listener, Refusal, Request, ServerSession, Terms, load, names
from gateway.dialects.native.answers import ANSWERS

NAMES = names()

more = settings(max_examples=3 * settings().max_examples)

FACTS: dict[Fault, dict[str, int | str]] = {
    Fault.NAMESPACE_EXISTS: {"taken": "id"},
    Fault.TOPIC_EXISTS: {"taken": "id"},
    Fault.NO_SUCH_PARTITION: {"partition": 7, "partitions": 3},
    Fault.FEWER_PARTITIONS: {"current": 3, "requested": 2},
    Fault.OFFSET_GONE: {"requested": 1, "earliest": 5, "latest": 9},
    Fault.OFFSET_REGRESSION: {"partition": 0, "current": 5, "requested": 4},
    Fault.SEQUENCE_GAP: {"producer": "p", "expected": 4, "got": 6},
    Fault.STALE_EPOCH: {"producer": "p", "current": 2, "got": 1},
    Fault.OTHER_TOPIC: {"expected": "a", "actual": "b"},
    Fault.NOT_A_MEMBER: {"member": "m"},
    Fault.STALE_GENERATION: {"current": 2, "requested": 1},
    Fault.NOT_OWNER: {"partition": 0, "generation": 2},
}


@dataclass
class Subject:
    """One dialect with its cases, and what the tests ask of them."""

    dialect: Dialect
    encodings: dict[str, Encoding] = field(init=False)

    def __post_init__(self) -> None:
        self.encodings = registry(self.dialect.encodings)

    def listener(self, **options: object) -> Listener:
        return self.dialect.open(msgspec.convert(options, self.dialect.settings), self.encodings)

    def terms(self, **options: object) -> Terms:
        return self.listener(**options).terms("localhost:9000")

    def session(self, **options: object) -> ServerSession:
        return self.listener(**options).session("localhost:9000")

    @cached_property
    def cases(self) -> list[vectors.Case]:
        return vectors.load(self.dialect.name)

    @cached_property
    def plain(self) -> list[vectors.Case]:
        """Cases that hold on a listener as it comes, and leave the connection alive."""
        return [case for case in self.cases if not case.settings and not play(self.session(), [case.when]).closing]

    @cached_property
    def frames(self) -> list[bytes]:
        """Every request frame of the plain cases, refused ones included."""
        return self._frames(self.plain)

    def _frames(self, cases: list[vectors.Case]) -> list[bytes]:
        found: list[bytes] = []
        for case in cases:
            start = 0
            while start < len(case.when):
                size = self.dialect.measure_request(case.when, start, 0)
                found.append(case.when[start : start + size])
                start += size
        return found

    @cached_property
    def requests(self) -> list[Request]:
        """What of them is a request."""
        return self._requests(self.frames)

    @cached_property
    def said_by_clients(self) -> list[Request]:
        """What of these our own client says."""
        return self._requests(self._frames([case for case in self.plain if "client" in case.roles]))

    def _requests(self, frames: list[bytes]) -> list[Request]:
        decoded = [self.dialect.decode_request(frame, self.terms()) for frame in frames]
        return [request for request in decoded if isinstance(request, Request)]

    @cached_property
    def asking(self) -> list[bytes]:
        """Frames that make one Call each, and are answered with a frame; by length."""
        return sorted((frame for frame in self.frames if self._is_asking(frame)), key=len)

    def _is_asking(self, frame: bytes) -> bool:
        calls = self.session().receive(frame, 0.0)
        return len(calls) == 1 and self.said(calls[0].request, CommandFailed(Fault.UNAVAILABLE)) != b""

    def said(self, request: Request, outcome: Outcome) -> bytes:
        return self.dialect.encode_reply(request, outcome, self.terms())

    def cut(self, replies: bytes) -> list[bytes]:
        """Reply frames."""
        found = []
        while replies:
            size = self.dialect.measure_reply(replies, 0, 0)
            assert 0 < size <= len(replies), "no whole frame"
            found.append(replies[:size])
            replies = replies[size:]
        return found


@dataclass
class Played:
    """What became of a stream."""

    calls: list[Call]
    out: bytes
    closing: bool


def play(session: ServerSession, chunks: Iterable[bytes]) -> Played:
    """A stream whose calls are answered as they come: that the backend is away."""
    calls: list[Call] = []
    out = b""
    for chunk in chunks:
        new = session.receive(chunk, 0.0)
        for call in new:
            session.answer(call, CommandFailed(Fault.UNAVAILABLE))
        calls += new
        out += session.take()
    return Played(calls, out, session.closing)


def parts(stream: bytes, cuts: Sequence[int]) -> list[bytes]:
    return [stream[start:end] for start, end in pairwise([0, *sorted(cuts), len(stream)])]


SUBJECTS: dict[str, Subject] = {}


@pytest.fixture(params=NAMES, scope="module")
def subject(request: pytest.FixtureRequest) -> Subject:
    if request.param not in SUBJECTS:
        SUBJECTS[request.param] = Subject(load(request.param))
    return SUBJECTS[request.param]


def test_dialects_are_found_by_name() -> None:
    assert sorted(NAMES) == NAMES
    assert {load(name).name for name in NAMES} == set(NAMES)
    with pytest.raises(KeyError):
        load("esperanto")


# -- cases


def test_every_case_holds_in_its_roles(subject: Subject) -> None:
    complaints = [line for case in subject.cases for line in vectors.check(subject.dialect, case, subject.encodings)]
    assert complaints == []


def test_there_are_cases_for_either_role_and_for_refusals(subject: Subject) -> None:
    assert len(subject.cases) >= 12
    assert [case for case in subject.cases if case.refusal is not None]
    for role in ("server", "client"):
        assert [case for case in subject.cases if role in case.roles and case.then and case.outcome], role


def test_a_case_comes_back_as_the_same_kind_of_reply(subject: Subject) -> None:
    compared = 0
    for case in subject.cases:
        outcomes, terms = case.outcomes(subject.encodings), subject.terms(**case.settings)
        if len(outcomes) == 1 and "client" in case.roles:
            request = subject.dialect.decode_request(case.when, terms)
            assert isinstance(request, Request)
            if frame := subject.dialect.encode_reply(request, outcomes[0], terms):  # type: ignore[arg-type]
                assert type(subject.dialect.decode_reply(request, frame, terms)) is type(outcomes[0]), case.name
                compared += 1
    assert compared


# -- faults


def test_every_fault_has_a_code(subject: Subject) -> None:
    assert set(subject.dialect.faults) == set(Fault)


@pytest.mark.parametrize("fault", Fault)
def test_a_fault_comes_back_with_the_same_code(subject: Subject, fault: Fault) -> None:
    faults = subject.dialect.faults
    for request in subject.requests:
        for facts in ({}, FACTS.get(fault, {})):
            frame = subject.said(request, CommandFailed(fault, "what happened", **facts))
            if frame:
                back = subject.dialect.decode_reply(request, frame, subject.terms())
                assert isinstance(back, CommandFailed), (request, frame)
                assert faults[back.fault] == faults[fault], (request, frame)


def test_the_detail_of_a_defect_is_not_told(subject: Subject) -> None:
    for request in subject.requests:
        frame = subject.said(request, CommandFailed(Fault.INTERNAL, "hunter2", where="hunter2"))
        assert b"hunter2" not in frame, request


# -- round trips


POLICIES = ("reject", "replace", "escape")

NAMING = ("topic", "group", "key", "value", "member", "namespace", "principal", "mechanism", "name", "delta")
"""Fields that say what a command is about: a dialect carries them or has no words for the command."""


def again(dialect: Dialect, command: c.Command, terms: Terms, tag: int | None) -> c.Command | None:
    """What comes out at the other end; None if the dialect has no words for it."""
    try:
        frame = dialect.encode_request(Request(command, tag), terms)
    except CommandFailed as failure:
        assert failure.fault in (Fault.UNSUPPORTED, Fault.UNREPRESENTABLE), failure
        return None
    assert dialect.measure_request(frame, 0, 0) == len(frame), f"not one frame: {frame!r}"
    request = dialect.decode_request(frame, terms)
    assert isinstance(request, Request), f"{request.failure} of {frame!r}"
    assert request.tag == tag or not dialect.tagged
    return request.command


@pytest.mark.parametrize("kind", commands(), ids=lambda kind: kind.__name__)
def test_a_command_arrives_as_it_was_meant(subject: Subject, kind: type[c.Command]) -> None:
    terms, tag = subject.terms(policy="reject"), 7 if subject.dialect.tagged else None

    @given(commands()[kind])
    def holds(command: c.Command) -> None:
        arrived = again(subject.dialect, command, terms, tag)
        if arrived is None:
            return
        assert type(arrived) is kind
        for name in NAMING:
            if name == "topic" and isinstance(arrived, c.DescribeGroup) and not arrived.topic.name:
                continue  # a dialect whose groups have one topic each need not name it
            assert getattr(arrived, name, None) == getattr(command, name, None), name
        assert again(subject.dialect, arrived, terms, tag) == arrived, "a second journey changes it"

    holds()


@pytest.mark.parametrize("policy", POLICIES)
def test_no_name_and_no_value_breaks_out_of_its_frame(subject: Subject, policy: str) -> None:
    dialect, terms, tag = subject.dialect, subject.terms(policy=policy), 7 if subject.dialect.tagged else None

    @more
    @given(st.one_of(list(commands(wide=True).values())))
    def holds(command: c.Command) -> None:
        try:
            frame = dialect.encode_request(Request(command, tag), terms)
        except CommandFailed as failure:
            assert failure.fault in (Fault.UNSUPPORTED, Fault.UNREPRESENTABLE), failure
            return
        assert dialect.measure_request(frame, 0, 0) == len(frame), f"not one frame: {frame!r}"
        arrived = dialect.decode_request(frame, terms)
        assert isinstance(arrived, Refusal) or type(arrived.command) is type(command)

    holds()


@pytest.mark.parametrize("wide", [False, True], ids=["plain", "wide"])
@pytest.mark.parametrize("policy", POLICIES)
def test_any_answer_is_one_frame_or_a_failure(subject: Subject, policy: str, wide: bool) -> None:
    dialect, terms, answers = subject.dialect, subject.terms(policy=policy), replies(wide)

    @more
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(subject.requests))
        kind = ANSWERS.get(type(request.command))
        outcome = data.draw(failures() if kind is None else failures() | answers[kind])
        try:
            frame = dialect.encode_reply(request, outcome, terms)
            assert not frame or dialect.measure_reply(frame, 0, 0) == len(frame), f"not one frame: {frame!r}"
            back = dialect.decode_reply(request, frame, terms) if frame else outcome
        except CommandFailed:
            return
        assert isinstance(back, CommandFailed) >= isinstance(outcome, CommandFailed), "a failure reads as a success"

    holds()


# -- streams


def alike(subject: Subject, one: Played, other: Played) -> bool:
    """The same calls; the same replies, in the same order where order is what tells them apart."""
    if [call.request for call in one.calls] != [call.request for call in other.calls]:
        return False
    if subject.dialect.tagged:
        return sorted(subject.cut(one.out)) == sorted(subject.cut(other.out))
    return one.out == other.out


def test_a_short_session_may_be_split_anywhere(subject: Subject) -> None:
    stream = b""
    for frame in subject.frames:
        stream += frame if len(stream) + len(frame) <= 600 else b""
    whole = play(subject.session(), [stream])
    assert whole.calls
    for at in range(1, len(stream)):
        assert alike(subject, play(subject.session(), parts(stream, [at])), whole), at
    assert alike(subject, play(subject.session(), [bytes([byte]) for byte in stream]), whole)


def test_a_long_session_may_be_split_anywhere(subject: Subject) -> None:
    stream = b"".join(subject.frames)
    whole = play(subject.session(), [stream])

    @more
    @given(st.lists(st.integers(0, len(stream)), max_size=20))
    def holds(cuts: list[int]) -> None:
        assert alike(subject, play(subject.session(), parts(stream, cuts)), whole)

    holds()


def test_five_thousand_requests_in_one_chunk_are_five_thousand_calls(subject: Subject) -> None:
    frame = subject.asking[0]
    played = play(subject.session(), [frame * 5000])
    assert len(played.calls) == 5000
    assert len(subject.cut(played.out)) == 5000


def test_replies_find_their_requests_whatever_order_the_backend_keeps(subject: Subject) -> None:
    faults = [Fault.UNAVAILABLE, Fault.NO_SUCH_TOPIC, Fault.BUSY, Fault.FORBIDDEN]
    request = subject.session().receive(subject.asking[0], 0.0)[0].request
    tags = (11, 12, 13, 14) if subject.dialect.tagged else (request.tag,) * 4
    asked = [msgspec.structs.replace(request, tag=tag) for tag in tags]
    session, terms = subject.session(), subject.terms()
    calls = session.receive(b"".join(subject.dialect.encode_request(request, terms) for request in asked), 0.0)
    said = [subject.said(call.request, CommandFailed(fault)) for call, fault in zip(calls, faults, strict=True)]
    left = []
    for at in (2, 0, 3, 1):
        session.answer(calls[at], CommandFailed(faults[at]))
        left.append(session.take())
    if subject.dialect.tagged:
        assert subject.dialect.reply_tag is not None
        assert left == [said[2], said[0], said[3], said[1]]
        assert [subject.dialect.reply_tag(frame) for frame in left] == [13, 11, 14, 12]
    else:
        assert left == [b"", said[0], b"", said[1] + said[2] + said[3]]


# -- bad input


def held(session: ServerSession) -> int:
    return session._frames.pending


def test_noise_costs_at_most_the_connection(subject: Subject) -> None:
    @more
    @given(st.lists(st.binary(max_size=200), max_size=8))
    def holds(chunks: list[bytes]) -> None:
        session = subject.session(max_frame=300)
        for chunk in chunks:
            play(session, [chunk])
            assert held(session) <= 300
        session.tick(1000.0)
        session.eof()

    holds()


def test_damage_costs_at_most_the_connection(subject: Subject) -> None:
    @more
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        session = subject.session()
        for frame in data.draw(st.lists(st.sampled_from(subject.frames), min_size=1, max_size=3)):
            play(session, [damaged(frame, data)])
        session.tick(1000.0)
        session.eof()

    holds()


def test_a_client_survives_whatever_it_is_answered(subject: Subject) -> None:
    tag = 1 if subject.dialect.tagged else None

    @more
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        request = msgspec.structs.replace(data.draw(st.sampled_from(subject.said_by_clients)), tag=tag)
        client = ClientSession(subject.dialect, subject.terms())
        client.ask(request)
        replied = subject.said(request, CommandFailed(Fault.UNAVAILABLE))
        answers = client.receive(data.draw(st.binary(max_size=60) | st.just(damaged(replied, data))))
        assert len(answers) + len(client.lost(CommandFailed(Fault.UNAVAILABLE))) == 1

    holds()


def damaged(frame: bytes, data: st.DataObject) -> bytes:
    """One to three bytes of it are others."""
    broken = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 3)) if broken else 0):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    return bytes(broken)


def test_specification_and_fast_path_accept_the_same_frames(subject: Subject) -> None:
    spec = importlib.import_module(f"gateway.dialects.{subject.dialect.name}.spec")
    for frame in subject.frames:
        by_wire = isinstance(subject.dialect.decode_request(frame, subject.terms()), Request)
        assert (spec.parse_request(frame) is not None) is by_wire, frame


def test_specification_and_fast_path_agree_on_damaged_frames_too(subject: Subject) -> None:
    spec = importlib.import_module(f"gateway.dialects.{subject.dialect.name}.spec")

    @settings(max_examples=10 * settings().max_examples)
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        frame = damaged(data.draw(st.sampled_from(subject.frames)), data)
        assume(subject.dialect.measure_request(frame, 0, 0) == len(frame))
        by_wire = isinstance(subject.dialect.decode_request(frame, subject.terms()), Request)
        assert (spec.parse_request(frame) is not None) is by_wire, frame

    holds()


def test_a_frame_beyond_the_limit_ends_the_connection_and_what_came_before_is_answered(subject: Subject) -> None:
    short, long = subject.asking[0], subject.asking[-1]
    assert len(long) > len(short)
    session = subject.session(max_frame=len(short))
    played = play(session, [short + long + short])
    assert len(played.calls) == 1
    assert played.closing
    assert held(session) == 0
    assert subject.said(played.calls[0].request, CommandFailed(Fault.UNAVAILABLE)) in played.out
    assert play(session, [short]).calls == []


def test_a_frame_that_is_never_finished_is_given_up_in_time(subject: Subject) -> None:
    session = subject.session(frame_seconds=10.0)
    frame = next(frame for frame in subject.asking if len(frame) > 2)
    session.receive(frame[:1], 100.0)
    session.receive(frame[1:-1], 109.0)
    session.tick(110.0)
    assert not session.closing
    session.tick(110.1)
    assert session.closing
    assert "10 s" in session.reason
    assert play(session, [frame[-1:]]).calls == []
    assert held(session) == 0


def test_a_connection_between_frames_is_left_alone(subject: Subject) -> None:
    session = subject.session(frame_seconds=10.0)
    play(session, [subject.asking[0]])
    session.tick(10_000.0)
    assert not session.closing
