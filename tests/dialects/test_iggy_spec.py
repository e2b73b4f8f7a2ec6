"""gateway.dialects.iggy.spec: the grammar, and that the fast path reads and writes what it allows."""

from __future__ import annotations

import msgspec
import pytest
from construct import Container
from hypothesis import given, settings
from hypothesis import strategies as st

import wire
from dialects.iggy_requests import code_of
from dialects.strategies import commands, replies, wide_records
from gateway.conformance import vectors
from gateway.core import commands as c
from gateway.core import replies as r
from gateway.core.faults import CommandFailed
from gateway.core.records import WIDTHS, Header, HeaderKind, Record, canonical, registry
from gateway.core.replies import Outcome
from gateway.dialects import Request, Terms
from gateway.dialects.iggy import DIALECT
from gateway.dialects.iggy.spec import FRAME, GENERATIONS, complaint, parse_grammar, parse_request, parse_response
from gateway.dialects.native.answers import ANSWERS

CASES = vectors.load("iggy")
ENCODINGS = registry(DIALECT.encodings)
few = settings(max_examples=max(10, settings().max_examples // 5))
many = settings(max_examples=5 * settings().max_examples)
generations = pytest.mark.parametrize("generation", GENERATIONS)


def generation_of(case: vectors.Case) -> str:
    return str(case.settings.get("generation", "g0"))


def terms(generation: str) -> Terms:
    return DIALECT.open(msgspec.convert({"generation": generation}, DIALECT.settings), ENCODINGS).terms(
        "localhost:9000"
    )


TERMS = {generation: terms(generation) for generation in GENERATIONS}


def cases_of(generation: str) -> list[vectors.Case]:
    return [case for case in CASES if generation_of(case) == generation]


def by_wire(frame: bytes, generation: str) -> bool:
    return isinstance(DIALECT.decode_request(frame, TERMS[generation]), Request)


# -- the cases


def test_the_cases_are_of_every_generation() -> None:
    assert {generation_of(case) for case in CASES} == set(GENERATIONS)


def test_a_case_is_read_unless_it_is_a_refusal() -> None:
    wrong = [
        case.name
        for case in CASES
        if (parse_request(case.when, generation_of(case)) is None) is not (case.refusal is not None)
    ]
    assert wrong == []


def test_every_answer_of_a_case_is_one_by_the_specification() -> None:
    answered = [case for case in CASES if case.then and case.refusal is None]
    wrong = [
        case.name
        for case in answered
        if parse_response(case.then or b"", code_of(case.when, generation_of(case)), generation_of(case)) is None
    ]
    assert wrong == []
    assert len(answered) > 100


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.then and len(case.then) > 8 and case.refusal is None],
    ids=lambda case: case.name,
)
def test_an_answer_that_lacks_a_byte_or_has_one_too_many_is_none(case: vectors.Case) -> None:
    generation, reply = generation_of(case), case.then or b""
    code, payload = code_of(case.when, generation), reply[8:]
    for other in (payload[:-1], payload + b"\1"):
        assert parse_response(reply[:4] + FRAME.build(other), code, generation) is None
    assert parse_response(reply[:-1], code, generation) is None
    assert parse_response(reply + b"\0", code, generation) is None


def test_a_failure_has_no_payload() -> None:
    failed = wire.told("iggy", "users are known and not served: error 5")
    assert parse_response(failed, 200) is not None
    assert parse_response(failed[:4] + FRAME.build(b"\0"), 200) is None


def test_an_answer_to_a_code_that_nobody_knows_is_none() -> None:
    assert parse_response(bytes(8), 999) is None


# -- what is read and refused all the same


COMPLAINTS = {
    "a batch of no messages is error 4009": "no message, or too many",
    "a batch of nothing but empty payloads is error 4024": "nothing but empty payloads",
    "a poll for no messages is error 4009": "no messages wanted",
    "a consumer of the seed has to name its partition: error 3007": "a consumer without a partition",
    "a consumer of the seed that asks for its offset has to name its partition: error 3007": (
        "a consumer without a partition"
    ),
    "a message to a partition 0, where they count from 1, is error 3007": "a partition 0",
    "a poll from an offset that no message can have is error 4100": "an offset that nothing has",
    "an offset that no message can have is not stored: error 4100": "an offset that nothing has",
    "a name of nothing but white space is error 1013": "a name of which nothing is left, or too much",
    "a name whose small letters take more than 255 bytes is error 1013": "a name of which nothing is left, or too much",
    "a stream of the seed cannot have the id 0: error 1014": "an id of 0",
    "a topic of the seed cannot have the id 0: error 2016": "an id of 0",
    "a group of the seed cannot have the id 0: error 5003": "an id of 0",
}


@pytest.mark.parametrize("name", COMPLAINTS)
def test_what_a_server_refuses_is_read_first(name: str) -> None:
    judged(wire.said("iggy", name), COMPLAINTS[name])


def judged(frame: bytes, said: str | None) -> None:
    request = parse_grammar(frame)
    assert request is not None
    assert complaint(request) == said
    assert (parse_request(frame) is None) is (said is not None)
    assert by_wire(frame, "g0") is (said is None)


HEADER = Header(b"k", b"v" * 255, HeaderKind.RAW)
HEADERS = (HEADER,) * 401 + (Header(b"k", b"v" * 145, HeaderKind.RAW),)
"""Exactly 100 KiB of values."""


@pytest.mark.parametrize(
    ("most", "more", "said"),
    [
        ([Record(value=b"x", headers=HEADERS)], Record(value=b"x", headers=(HEADER,)), "too many bytes of headers"),
        ([Record(value=bytes(1 << 20))] * 10, Record(value=b"x"), "too many bytes of payload"),
    ],
    ids=["headers", "payload"],
)
def test_a_batch_has_as_much_as_it_may_have_and_no_more(most: list[Record], more: Record, said: str) -> None:
    full = publish(most)
    judged(full, None)
    judged(one_more(full, more), said)


def test_a_batch_has_at_most_a_hundred_thousand_messages() -> None:
    message = Container(payload=b"x", headers=Container(all=[]))
    full = publish([Record(value=b"x")] * 100_000)
    for frame, count, said in (
        (full, 100_000, None),
        (one_more(full, Record(value=b"x")), 100_001, "no message, or too many"),
    ):
        payload = Container(partitioning=Container(kind=1), messages=[message] * count)
        assert complaint(Container(code=101, generation="g0", payload=payload)) == said
        assert by_wire(frame, "g0") is (said is None)


def one_more(frame: bytes, record: Record) -> bytes:
    """As the seed has it: one message behind the other."""
    return FRAME.build(frame[4:] + publish([record, record])[len(publish([record])) :])


def publish(records: list[Record]) -> bytes:
    return wire.request("iggy", c.Publish(c.Topic(1, 2), c.Balanced(), canonical(records)), generation="g0")


# -- specification and fast path


def damaged(frame: bytes, data: st.DataObject) -> bytes:
    """Code and payload with bytes changed, put in or taken out, or cut off; the length is that of what is left."""
    body = bytearray(frame[4:])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(0, len(body) - 1)))
        match data.draw(st.sampled_from(["change", "change", "change", "insert", "delete", "cut"])):
            case "change" if body:
                body[at] = data.draw(st.integers(0, 255))
            case "insert":
                body.insert(at, data.draw(st.integers(0, 255)))
            case "delete":
                del body[at : at + data.draw(st.integers(1, 4))]
            case "cut":
                del body[at:]
    return FRAME.build(bytes(body))


def agreed(frame: bytes, generation: str) -> None:
    assert DIALECT.measure_request(frame, 0, 0) == len(frame)
    request, parts = DIALECT.decode_request(frame, TERMS[generation]), parse_request(frame, generation)
    assert isinstance(request, Request) is (parts is not None), f"{request}: {frame.hex()}"
    if parts is not None and isinstance(request, Request) and isinstance(request.command, c.Publish):
        assert request.command.batch.count == len(parts.payload.messages)


@generations
def test_specification_and_fast_path_accept_the_same_frames(generation: str) -> None:
    for case in CASES:
        if len(case.when) > 4:
            agreed(case.when, generation)


@generations
def test_specification_and_fast_path_agree_on_damaged_frames(generation: str) -> None:
    frames = sorted({case.when for case in cases_of(generation)}, key=lambda frame: (len(frame), frame))

    @many
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        agreed(damaged(data.draw(st.sampled_from(frames)), data), generation)

    holds()


kinds = st.sampled_from(HeaderKind)
lengths = st.sampled_from([1, 1, 1, 2, 255])


@st.composite
def header(draw: st.DrawFn) -> Header:
    kind = draw(kinds)
    return Header(b"k" * draw(lengths), b"v" * WIDTHS.get(kind, draw(lengths)), kind)


@st.composite
def batches(draw: st.DrawFn, generation: str) -> bytes:
    """A SEND frame; in some a number is one too high or too low, or a byte is any other."""
    record = st.builds(
        Record,
        value=st.binary(max_size=4),
        headers=st.lists(header(), max_size=2).map(tuple),
        id=st.binary(min_size=16, max_size=16),
    )
    records = draw(st.lists(record, min_size=1, max_size=3).filter(lambda drawn: any(each.value for each in drawn)))
    to = draw(st.sampled_from([c.Balanced(), 0, c.ByKey(b"k1", "murmur3" if generation == "g0" else "xxh32")]))
    body = bytearray(wire.request("iggy", c.Publish(c.Topic(1, 2), to, canonical(records)), generation=generation)[4:])
    at = draw(st.integers(4, len(body) - 1))
    body[at] = draw(st.sampled_from([body[at], (body[at] + 1) % 256, (body[at] - 1) % 256]) | st.integers(0, 255))
    return FRAME.build(bytes(body))


@pytest.mark.parametrize("generation", ["g0", "g2c"])
def test_specification_and_fast_path_agree_on_batches(generation: str) -> None:
    @many
    @given(batches(generation))
    def holds(frame: bytes) -> None:
        agreed(frame, generation)

    holds()


names = st.sampled_from(
    ["a", "My  Stream", "Поток", "a/b", " ", "\x1c", "\x85", "\u3000", "a\n", "é" * 128, "x" * 255, "_-."]
)
any_names = names | st.text(st.characters(codec="utf-8"), min_size=1, max_size=3)


@given(any_names, st.sampled_from(["g0", "g2c"]))
def test_specification_and_fast_path_agree_on_names(name: str, generation: str) -> None:
    octets = name.encode()[:255]
    blank = "x" * len(octets)
    for command in (c.CreateNamespace(blank, 1 if generation == "g0" else None), c.DescribeNamespace(blank)):
        agreed(wire.request("iggy", command, generation=generation)[: -len(octets)] + octets, generation)


# -- what we write


def requests_of(generation: str) -> dict[int, Request]:
    """A request of each code that there are cases of."""
    decoded = [(case.when, DIALECT.decode_request(case.when, TERMS[generation])) for case in cases_of(generation)]
    return {code_of(frame, generation): asked for frame, asked in decoded if isinstance(asked, Request)}


@generations
@pytest.mark.parametrize("kind", commands(), ids=lambda kind: kind.__name__)
def test_our_client_asks_what_the_specification_reads(generation: str, kind: type[c.Command]) -> None:
    @few
    @given(commands()[kind])
    def holds(command: c.Command) -> None:
        try:
            frame = DIALECT.encode_request(Request(command), TERMS[generation])
        except CommandFailed:
            return
        assert parse_grammar(frame, generation) is not None, frame.hex()

    holds()


@generations
@given(st.data())
def test_our_client_sends_what_the_specification_reads(generation: str, data: st.DataObject) -> None:
    some = st.lists(wide_records, min_size=1, max_size=3).filter(lambda drawn: any(record.value for record in drawn))
    records = data.draw(some)
    to = data.draw(st.just(c.Balanced()) | st.integers(0, 9))
    frame = DIALECT.encode_request(Request(c.Publish(c.Topic(1, 2), to, canonical(records))), TERMS[generation])
    request = parse_grammar(frame, generation)
    assert request is not None, frame.hex()
    assert [message.payload for message in request.payload.messages] == [record.value or b"" for record in records]


@pytest.mark.parametrize("generation", [at for at in GENERATIONS if at != "g1b_texts"])  # answers as g1b does
@pytest.mark.parametrize("wide", [False, True], ids=["plain", "wide"])
def test_our_answers_are_what_the_specification_reads(generation: str, wide: bool) -> None:
    answers, holding, answered = replies(wide), TERMS[generation], set()

    def reads(code: int, request: Request, outcome: Outcome) -> None:
        if isinstance(outcome, r.NamespaceDescription):
            outcome = msgspec.structs.replace(
                outcome, topics=len(outcome.contents)
            )  # as it is where they are asked for
        try:
            reply = DIALECT.encode_reply(request, outcome, holding)
        except CommandFailed:
            return
        answered.add(code)
        assert parse_response(reply, code, generation) is not None, (outcome, reply.hex())

    for code, request in requests_of(generation).items():

        @few
        @given(st.just(code), st.just(request), answers[ANSWERS[type(request.command)]])
        def holds(code: int, request: Request, outcome: Outcome) -> None:
            reads(code, request, outcome)

        holds()
    assert answered == set(requests_of(generation))
    assert {100, 101, 202, 302} <= answered
