"""gateway.dialects.iggy.spec: the grammar, and that the fast path reads and writes what it allows."""

from __future__ import annotations

from struct import pack

import msgspec
import pytest
from construct import Container
from hypothesis import given, settings
from hypothesis import strategies as st

from dialects.strategies import commands, replies, wide_records
from gateway.conformance import vectors
from gateway.core import commands as c
from gateway.core import replies as r
from gateway.core.faults import CommandFailed
from gateway.core.records import canonical, registry
from gateway.core.replies import Outcome
from gateway.dialects import Request, Terms
from gateway.dialects.iggy import DIALECT
from gateway.dialects.iggy.spec import GENERATIONS, complaint, parse_grammar, parse_request, parse_response
from gateway.dialects.native.answers import ANSWERS

CASES = vectors.load("iggy")
ENCODINGS = registry(DIALECT.encodings)
BY_ID = "010401000000"
TARGET = bytes.fromhex(BY_ID + "010402000000")
"""Topic 2 of stream 1."""
SEEDS_CONSUMER = bytes.fromhex("0107000000")
CONSUMER = bytes.fromhex("01010407000000")

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


def frame_of(code: int, payload: bytes) -> bytes:
    return pack("<II", 4 + len(payload), code) + payload


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
        if parse_response(case.then or b"", int.from_bytes(case.when[4:8], "little"), generation_of(case)) is None
    ]
    assert wrong == []
    assert len(answered) > 100


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.then and len(case.then) > 8], ids=lambda case: case.name
)
def test_an_answer_that_lacks_a_byte_or_has_one_too_many_is_none(case: vectors.Case) -> None:
    code, reply = int.from_bytes(case.when[4:8], "little"), case.then or b""
    payload = reply[8:]
    for other in (payload[:-1], payload + b"\1"):
        assert parse_response(reply[:4] + pack("<I", len(other)) + other, code, generation_of(case)) is None
    assert parse_response(reply[:-1], code, generation_of(case)) is None
    assert parse_response(reply + b"\0", code, generation_of(case)) is None


def test_a_failure_has_no_payload() -> None:
    assert parse_response(bytes.fromhex("0500000000000000"), 200) is not None
    assert parse_response(bytes.fromhex("050000000100000000"), 200) is None


def test_an_answer_to_a_code_that_nobody_knows_is_none() -> None:
    assert parse_response(bytes(8), 999) is None


# -- what is read and refused all the same


def sent(*messages: tuple[bytes, bytes]) -> bytes:
    """A batch of the seed: headers and payload of each message."""
    body = (bytes(16) + pack("<I", len(h)) + h + pack("<I", len(p)) + p for h, p in messages)
    return frame_of(101, TARGET + b"\1\0" + b"".join(body))


def header(value: bytes) -> bytes:
    return pack("<I", 1) + b"k\1" + pack("<I", len(value)) + value


HEADERS = 401 * header(b"v" * 255) + header(b"v" * 145)
"""Exactly 100 KiB of values."""
MEBIBYTES = bytes(1 << 20)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (sent(), "no message, or too many"),
        (sent((b"", b""), (b"", b"")), "nothing but empty payloads"),
        (sent((HEADERS, b"x")), None),
        (sent((HEADERS, b"x"), (header(b"v"), b"x")), "too many bytes of headers"),
        (sent(*[(b"", MEBIBYTES)] * 10), None),
        (sent(*[(b"", MEBIBYTES)] * 10, (b"", b"x")), "too many bytes of payload"),
        (frame_of(100, SEEDS_CONSUMER + TARGET + pack("<IBQIB", 1, 1, 0, 0, 0)), "no messages wanted"),
        (frame_of(100, SEEDS_CONSUMER + TARGET + pack("<IBQIB", 0, 1, 0, 5, 0)), "a consumer without a partition"),
        (frame_of(120, SEEDS_CONSUMER + TARGET + pack("<I", 0)), "a consumer without a partition"),
        (frame_of(101, TARGET + pack("<BBI", 2, 4, 0) + bytes(20) + pack("<I", 1) + b"x"), "a partition 0"),
        (frame_of(100, SEEDS_CONSUMER + TARGET + pack("<IBQIB", 1, 1, 2**63 - 2, 5, 0)), None),
        (frame_of(100, SEEDS_CONSUMER + TARGET + pack("<IBQIB", 1, 2, 2**64 - 1, 5, 0)), None),
        (frame_of(100, SEEDS_CONSUMER + TARGET + pack("<IBQIB", 1, 1, 2**63 - 1, 5, 0)), "an offset that nothing has"),
        (frame_of(121, SEEDS_CONSUMER + TARGET + pack("<IQ", 1, 2**63 - 1)), "an offset that nothing has"),
        (frame_of(202, pack("<I", 1) + b"\1 "), "a name of which nothing is left, or too much"),
        (frame_of(202, pack("<IB", 1, 254) + "İ".encode() * 127), "a name of which nothing is left, or too much"),
        (frame_of(202, pack("<I", 0) + b"\1s"), "an id of 0"),
        (frame_of(302, bytes.fromhex(BY_ID) + pack("<III", 0, 3, 0) + b"\1t"), "an id of 0"),
        (frame_of(602, TARGET + pack("<I", 0)), "an id of 0"),
    ],
)
def test_what_a_server_refuses_is_read_first(frame: bytes, said: str | None) -> None:
    request = parse_grammar(frame)
    assert request is not None
    assert complaint(request) == said
    assert (parse_request(frame) is None) is (said is not None)
    assert by_wire(frame, "g0") is (said is None)


def test_a_batch_has_at_most_a_hundred_thousand_messages() -> None:
    message = Container(payload=b"x", headers=Container(all=[]))
    for count, said in ((100_000, None), (100_001, "no message, or too many")):
        payload = Container(partitioning=Container(kind=1), messages=[message] * count)
        assert complaint(Container(code=101, generation="g0", payload=payload)) == said
        assert by_wire(sent(*[(b"", b"x")] * count), "g0") is (said is None)


def test_later_generations_choose_an_id_themselves() -> None:
    assert parse_request(frame_of(202, pack("<I", 0) + b"\1s"), "g1a") is not None


def test_a_later_consumer_without_a_partition_has_the_first() -> None:
    poll = frame_of(100, CONSUMER + TARGET + pack("<BIBQIB", 0, 0, 1, 0, 5, 0))
    assert parse_request(poll, "g2c") is not None
    assert by_wire(poll, "g2c")


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
    return pack("<I", len(body)) + bytes(body)


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


short = st.binary(max_size=4)
lengths = st.sampled_from([0, 1, 1, 1, 2, 255, 256])
kinds = st.integers(0, 17)
WIDE = {3: 1, 4: 1, 5: 2, 6: 4, 7: 8, 8: 16, 9: 1, 10: 2, 11: 4, 12: 8, 13: 16, 14: 4, 15: 8}


@st.composite
def value(draw: st.DrawFn) -> tuple[int, bytes]:
    """A kind and the bytes of it, nearly always as many as it has."""
    kind = draw(kinds)
    length = WIDE.get(kind, draw(lengths)) if draw(st.integers(0, 9)) else draw(lengths)
    return kind, b"v" * length


@st.composite
def messages(draw: st.DrawFn, generation: str) -> bytes:
    """One message, nearly always well formed."""
    headers = b""
    for _ in range(draw(st.integers(0, 2))):
        (key_kind, key), (kind, octets) = draw(value()), draw(value())
        headers += bytes([key_kind]) * (generation == "g2c") + pack("<I", len(key)) + key + bytes([kind])
        headers += pack("<I", len(octets)) + octets
    payload, identity, slip = draw(short), bytes(15) + draw(st.binary(min_size=1, max_size=1)), draw(st.integers(0, 40))
    size = len(headers) + {0: 1, 1: -1}.get(slip, 0) * bool(headers)
    if generation == "g0":
        return identity + pack("<I", size) + headers + pack("<I", len(payload)) + payload
    return bytes(8) + identity + bytes(24) + pack("<II", size, len(payload)) + bytes(8) + payload + headers


PARTITIONINGS = [b"\1\0", b"\2\4\1\0\0\0", b"\3\2k1", b"\3\0", b"\1\1k", b"\2\1\1", b"\4\0"]


@st.composite
def batches(draw: st.DrawFn, generation: str) -> bytes:
    """A SEND frame, nearly always well formed."""
    sent = draw(st.lists(messages(generation), max_size=3))
    place = TARGET + draw(st.sampled_from(PARTITIONINGS[:3] * 4 + PARTITIONINGS))
    if generation == "g0":
        return frame_of(101, place + b"".join(sent))
    slip = draw(st.integers(0, 40))
    index, end = b"", 0
    for message in sent:
        end += len(message) + (slip == 0)
        index += pack("<IIQ", slip == 1, end, slip == 2)
    count = len(sent) + (slip == 3) - (slip == 4) * bool(sent)
    return frame_of(101, pack("<I", len(place) + 4 + (slip == 5)) + place + pack("<I", count) + index + b"".join(sent))


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
any_names = names | st.text(st.characters(codec="utf-8"), max_size=3)


@given(any_names, st.sampled_from(["g0", "g2c"]))
def test_specification_and_fast_path_agree_on_names(name: str, generation: str) -> None:
    octets = name.encode()[:255]
    number = pack("<I", 1) if generation == "g0" else b""
    agreed(frame_of(202, number + bytes([len(octets)]) + octets), generation)
    agreed(frame_of(200, b"\2" + bytes([len(octets)]) + octets), generation)


# -- what we write


def requests_of(generation: str) -> dict[int, Request]:
    """A request of each code that there are cases of."""
    decoded = [(case.when, DIALECT.decode_request(case.when, TERMS[generation])) for case in cases_of(generation)]
    return {int.from_bytes(frame[4:8], "little"): asked for frame, asked in decoded if isinstance(asked, Request)}


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
