"""gateway.dialects.grid.spec: the grammar, and that the fast path reads and writes what it allows."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialects.grid_frames import GRID, MEANT, M, frame, i32, i64, ok, one, terms
from dialects.strategies import commands, failures, replies
from gateway.conformance import vectors
from gateway.core import commands as q
from gateway.core.faults import CommandFailed
from gateway.dialects import Request
from gateway.dialects.grid import spec
from gateway.dialects.grid.numbers import OPCODES
from gateway.dialects.grid.terms import Asked
from gateway.dialects.native.answers import ANSWERS

TERMS = terms()
many = settings(max_examples=10 * settings().max_examples)
HELLO = b"\0\x051.0.0" * 2 + i32(2) + i64(0)


def by_wire(data: bytes) -> bool:
    return isinstance(GRID.decode_request(data, terms()), Request)


def test_the_grammar_knows_every_operation_that_is_asked() -> None:
    asked = {number for number in OPCODES.values() if number < 0x80} - {OPCODES["PROTOCOL_HELLO_ACK"]}
    assert set(spec.OPERATIONS) == asked
    assert set(spec.ANSWERS) == set(OPCODES.values()) - asked


def test_the_cases_have_every_operation_and_every_status() -> None:
    cases = [case for case in vectors.load("grid") if not case.settings]
    asked = {case.when[1] for case in cases if case.refusal is None}
    assert asked == set(spec.OPERATIONS)
    assert {case.then[13] for case in cases if case.then} == set(range(11))


def test_the_fields_are_where_the_page_has_them() -> None:
    parsed = spec.parse_request(frame(0x0A, 5, b"s", b"k", i64(30_000) + b"v", sender=b"c1"))
    assert (parsed.head.opcode, parsed.head.correlation, parsed.head.version) == (0x0A, 5, 2)
    assert (parsed.body.name, parsed.body.sender, parsed.body.key) == (b"s", b"c1", b"k")
    assert (parsed.operation.name, parsed.operation.value.millis, parsed.operation.value.value) == ("s", 30_000, b"v")


def requests() -> st.SearchStrategy[bytes]:
    """Frames whose header is whole, and whose body is nearly what some operation wants."""
    values = (
        st.sampled_from([b"", i64(0), i64(-1), i64(5) + i32(1), i64(1) + i64(2), i32(0), i32(0) * 2, i32(-1), HELLO])
        | st.binary(max_size=20)
        | st.lists(st.binary(max_size=3), max_size=3).map(listed)
        | st.builds(hello, texts, texts, st.integers(-1, 3), st.integers(0, 9))
    )
    names = st.sampled_from([b"m", b"", "ü".encode(), b"\xff"]) | st.binary(max_size=3)
    keys = st.sampled_from([b"", b"k", i64(9)]) | st.binary(max_size=9)
    senders = st.none() | st.binary(max_size=3)
    numbers = st.sampled_from(sorted(OPCODES.values())) | st.integers(0, 255)
    versions = st.sampled_from([2, 2, 2, 0, 1, 3])
    flags = st.sampled_from([0, 0, 0, 0x08, 0xF0, 0x02, 0x04])
    return st.builds(made, numbers, names, keys, values, senders, versions, flags)


texts = st.sampled_from(["1.0.0", "1", "0.9", "2.0-rc1", "x", "", "1.0\0", "1.0😀"])


def hello(library: str, oldest: str, protocol: int, bits: int) -> bytes:
    sides = b"".join(len(text.encode()).to_bytes(2, "big") + text.encode() for text in (library, oldest))
    return sides + i32(protocol) + i64(bits)


def listed(items: list[bytes]) -> bytes:
    return i32(len(items)) + b"".join(i32(len(item)) + item for item in items)


def made(opcode: int, name: bytes, key: bytes, value: bytes, sender: bytes | None, version: int, flags: int) -> bytes:
    return frame(opcode, 1, name, key, value, sender=sender, version=version, flags=flags)


@many
@given(requests())
def test_the_grammar_and_the_fast_path_read_the_same_frames(data: bytes) -> None:
    assert (spec.parse_request(data) is not None) is by_wire(data)


@many
@given(
    st.binary(min_size=2, max_size=14),
    st.sampled_from([b"", b"\xc0\x80", b"\xed\xa0\xbd\xed\xb8\x80", b"\xe0\xa0\x80"]),
)
def test_they_agree_on_what_java_text_is(noise: bytes, whole: bytes) -> None:
    text = b"1.0" + whole + noise
    value = len(text).to_bytes(2, "big") + text + HELLO[7:]
    assert (spec.parse_request(frame(0x72, value=value)) is not None) is by_wire(frame(0x72, value=value))


@pytest.mark.parametrize("character", range(0x80, 0x100))
def test_they_agree_on_every_beginning_of_a_character(character: int) -> None:
    for rest in (b"", b"\x80", b"\x80\x80", b"\xa0\x80", b"\xa0\x80\xed\xb0\x80", b"\xb0\x80", b"\x80\x80\x80"):
        text = b"1.0" + bytes([character]) + rest
        data = frame(0x72, value=len(text).to_bytes(2, "big") + text + HELLO[7:])
        assert (spec.parse_request(data) is not None) is by_wire(data), text


@many
@given(st.one_of(list(commands(wide=True).values())))
def test_what_our_client_sends_is_in_the_grammar(command: q.Command) -> None:
    try:
        data = GRID.encode_request(Request(command, 1), TERMS)
    except CommandFailed:
        return
    assert spec.parse_request(data) is not None or not by_wire(data)


@pytest.mark.parametrize("name", MEANT)
def test_what_our_client_asks_by_name_is_in_the_grammar_and_so_is_the_answer(name: str) -> None:
    for command, outcome in MEANT[name]:
        request = Request(command, 1, Asked(opcode=name))
        assert spec.parse_request(GRID.encode_request(request, TERMS)) is not None
        assert spec.parse_answer(GRID.encode_reply(request, outcome, TERMS)) is not None


ASKED = [(name, command) for name, meant in MEANT.items() for command, _ in meant[:1]]


@many
@given(st.data())
def test_any_answer_is_in_the_grammar(data: st.DataObject) -> None:
    name, command = data.draw(st.sampled_from(ASKED))
    kind = ANSWERS[type(command)]
    outcome = data.draw(failures() | replies(wide=True)[kind])
    try:
        said = GRID.encode_reply(Request(command, 1, Asked(opcode=name)), outcome, TERMS)
    except CommandFailed:
        return
    parsed = spec.parse_answer(said)
    assert parsed is not None
    assert parsed.head.correlation == 1


def test_a_pushed_message_is_in_the_grammar() -> None:
    assert GRID.encode_push is not None
    parsed = spec.parse_answer(GRID.encode_push(Request(q.Follow(M, 0, 0), 3), one(b"x"), terms(topic_push=True)))
    assert (parsed.head.opcode, parsed.body.name, parsed.body.value) == (0x90, b"m", i64(0) + b"x")


def test_a_request_is_no_answer() -> None:
    assert spec.parse_answer(frame(0x01, 1, b"m", b"k")) is None
    assert spec.parse_answer(ok(1, status=11)) is None


def test_terms_of_other_settings_are_another_grammar() -> None:
    """The specification is that of a listener as it comes."""
    assert msgspec.structs.asdict(TERMS.grid) == msgspec.structs.asdict(GRID.settings())
