"""gateway.dialects.grid.spec: the grammar, and that the fast path reads and writes what it allows."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest
from construct import GreedyBytes, Prefixed, PrefixedArray
from hypothesis import given, settings
from hypothesis import strategies as st

import wire
from dialects.grid_frames import GRID, MEANT, M, changed, frame, i32, i64, ok, one, terms
from dialects.strategies import commands, failures, replies
from gateway.conformance import vectors
from gateway.core import commands as q
from gateway.core.faults import CommandFailed
from gateway.dialects import Request
from gateway.dialects.grid import spec
from gateway.dialects.grid.hello import write_utf
from gateway.dialects.grid.numbers import OPCODES, STATUSES
from gateway.dialects.grid.terms import HEAD, Asked, Hello
from gateway.dialects.native.answers import ANSWERS

TERMS = terms()
many = settings(max_examples=10 * settings().max_examples)
LISTED = PrefixedArray(spec.Int32sb, Prefixed(spec.Int32sb, GreedyBytes))


def hello(**said: Any) -> bytes:
    """The value of a hello, as our client says it."""
    return wire.request("grid", q.Ping(), 1, Hello(opcode="PROTOCOL_HELLO", **said))[HEAD:]


HELLO = hello()
TEXT = Prefixed(spec.Int16ub, GreedyBytes)
BEHIND = len(TEXT.build(b"1.0.0"))
"""Where in HELLO its second text begins."""


def greeting(release: bytes) -> bytes:
    return frame("PROTOCOL_HELLO", value=TEXT.build(release) + HELLO[BEHIND:])


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
    assert {case.then[13] for case in cases if case.then and "server" in case.roles} == set(range(11))


SENT = Asked(opcode="MAP_PUT_WITH_TTL", sender=b"c1", version=1)


def test_the_fields_are_where_the_page_has_them() -> None:
    parsed = spec.parse_request(wire.request("grid", q.MapPut(q.Topic("default", "s"), b"k", b"v", 30.0), 5, SENT))
    assert (parsed.head.opcode, parsed.head.correlation) == (OPCODES["MAP_PUT_WITH_TTL"], 5)
    assert parsed.head.version == 1
    assert (parsed.body.name, parsed.body.sender, parsed.body.key) == (b"s", b"c1", b"k")
    assert (parsed.operation.name, parsed.operation.value.millis, parsed.operation.value.value) == ("s", 30_000, b"v")


def requests() -> st.SearchStrategy[bytes]:
    """Frames whose header is whole, and whose body is nearly what some operation wants."""
    values = (
        st.sampled_from([b"", i64(0), i64(-1), i64(5) + i32(1), i64(1) + i64(2), i32(0), i32(0) * 2, i32(-1), HELLO])
        | st.binary(max_size=20)
        | st.lists(st.binary(max_size=3), max_size=3).map(LISTED.build)
        | st.builds(hello, release=texts, oldest=texts, protocol=st.integers(-1, 3), bitmap=st.integers(0, 9))
    )
    names = st.sampled_from([b"m", b"", "ü".encode(), b"\xff"]) | st.binary(max_size=3)
    keys = st.sampled_from([b"", b"k", i64(9)]) | st.binary(max_size=9)
    senders = st.none() | st.binary(max_size=3)
    numbers = st.sampled_from(sorted(OPCODES.values())) | st.integers(0, 255)
    versions = st.sampled_from([2, 2, 2, 0, 1, 3])
    flags = st.sampled_from([0, 0, 0, 0x08, 0xF0, 0x02, 0x04])
    return st.builds(made, numbers, names, keys, values, senders, versions, flags)


texts = st.sampled_from(["1.0.0", "1", "0.9", "2.0-rc1", "x", "", "1.0\0", "1.0😀"])


def made(opcode: int, name: bytes, key: bytes, value: bytes, sender: bytes | None, version: int, flags: int) -> bytes:
    flags |= sender is not None
    return changed(frame(opcode, 1, name, key, value, sender=sender), version=version, flags=flags)


@many
@given(requests())
def test_the_grammar_and_the_fast_path_read_the_same_frames(data: bytes) -> None:
    assert (spec.parse_request(data) is not None) is by_wire(data)


@many
@given(
    st.binary(min_size=2, max_size=14),
    st.sampled_from(["", "\0", "😀", "\u0800"]),
)
def test_they_agree_on_what_java_text_is(noise: bytes, whole: str) -> None:
    data = greeting(b"1.0" + TEXT.parse(write_utf(whole)) + noise)
    assert (spec.parse_request(data) is not None) is by_wire(data)


@pytest.mark.parametrize("character", range(0x80, 0x100))
def test_they_agree_on_every_beginning_of_a_character(character: int) -> None:
    whole = TEXT.parse(write_utf("\U00010000"))
    endings = [bytes(rest) for count in range(4) for rest in product((0x80, 0xA0, 0xB0), repeat=count)]
    for rest in (*endings, *(whole[at:] for at in range(len(whole)))):
        data = greeting(b"1.0" + bytes([character]) + rest)
        assert (spec.parse_request(data) is not None) is by_wire(data), rest


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
    assert (parsed.head.opcode, parsed.body.name) == (OPCODES["TOPIC_MESSAGE"], b"m")
    assert parsed.body.value == i64(0) + b"x"


def test_a_request_is_no_answer() -> None:
    assert spec.parse_answer(frame("MAP_PUT", 1, b"m", b"k")) is None
    assert spec.parse_answer(changed(ok(), status=max(STATUSES.values()) + 1)) is None


def test_terms_of_other_settings_are_another_grammar() -> None:
    """The specification is that of a listener as it comes."""
    assert msgspec.structs.asdict(TERMS.grid) == msgspec.structs.asdict(GRID.settings())
