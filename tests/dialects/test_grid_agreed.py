"""gateway.dialects.grid: type-tagged text, hellos, and the compressed bodies that they agree on."""

from __future__ import annotations

import random
from typing import Any

import google_crc32c
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dialects.grid_frames import (
    GRID,
    MEANT,
    M,
    changed,
    decoded,
    flags_of,
    heard,
    ok,
    refused,
    session,
    terms,
)
from gateway.compression import load as compressor
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects import Request
from gateway.dialects.grid import numbers, spec
from gateway.dialects.grid.hello import read_utf, write_utf
from gateway.dialects.grid.tagged import TAGS, codec
from gateway.dialects.grid.terms import HEAD, Asked, GridTerms, Hello
from gateway.dialects.grid.version import parts

# -- type-tagged text


def tagged(policy: str, separator: str = "") -> tuple[Any, GridTerms]:
    at = terms(value_codec="loom_tagged", policy=policy, tag_separator=separator)
    return at.codec, at


@pytest.mark.parametrize("policy", ["replace", "reject", "escape"])
@pytest.mark.parametrize("separator", ["", ":"])
@given(st.binary(max_size=12).filter(lambda stored: not stored.startswith(b"\0S")))
@example(b"\0I42")
@example(b"\0")
@example(b"\0x")
def test_what_others_wrote_is_read_as_text_and_written_back_as_it_was(
    policy: str, separator: str, stored: bytes
) -> None:
    made, _ = tagged(policy, separator)
    shown = made.given(stored)
    if not stored.startswith(b"\0"):
        assert shown == b"S" + separator.encode() + stored
    assert made.taken(shown) == stored


@pytest.mark.parametrize("separator", ["", ":"])
@given(st.sampled_from([bytes([tag]) for tag in TAGS]), st.binary(max_size=12))
@example(b"S", b"\0I42")
@example(b"S", b"\0SI42")
@example(b"S", b"\0x")
def test_escape_keeps_every_type(separator: str, tag: bytes, text: bytes) -> None:
    made, at = tagged("escape", separator)
    wire = tag + separator.encode() + text
    assert made.given(made.taken(wire)) == wire
    assert not at.losses


@given(st.sampled_from([bytes([tag]) for tag in TAGS if tag != ord("S")]), st.binary(max_size=12))
def test_replace_keeps_the_text_and_counts_the_type_and_reject_refuses_it(tag: bytes, text: bytes) -> None:
    made, at = tagged("replace")
    assert made.taken(tag + text) == text
    assert made.given(text) == b"S" + text
    assert dict(at.losses) == {("grid", "?", "type"): 1}
    with pytest.raises(CommandFailed) as caught:
        tagged("reject")[0].taken(tag + text)
    assert caught.value.fault is Fault.UNREPRESENTABLE


@pytest.mark.parametrize("octets", [b"", b"s", b"42", b"\0S", b"X1"])
def test_what_begins_with_no_type_is_refused(octets: bytes) -> None:
    with pytest.raises(CommandFailed):
        tagged("escape")[0].taken(octets)


def test_a_missing_colon_is_refused() -> None:
    with pytest.raises(CommandFailed):
        tagged("replace", ":")[0].taken(b"Salice")


def test_an_opaque_codec_changes_nothing() -> None:
    plain = codec("opaque", "", "replace", terms().losses)
    assert plain.taken(b"I42") == plain.given(b"I42") == b"I42"


TAGGED_CASES = [name for name, ((command, _), *_) in MEANT.items() if hasattr(command, "topic")]


@pytest.mark.parametrize("name", TAGGED_CASES)
def test_every_operation_is_the_same_with_tags(name: str) -> None:
    at = terms(value_codec="loom_tagged")
    for command, outcome in MEANT[name]:
        request = Request(command, 1, Asked(opcode=name, sender=b"c1:7"))
        assert decoded(GRID.encode_request(request, at), at) == command
        assert GRID.decode_reply(request, GRID.encode_reply(request, outcome, at), at) == outcome


# -- hello


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_java_text_comes_back(text: str) -> None:
    written = write_utf(text)
    assert b"\0" not in written[2:]
    assert max(written[2:], default=0) < 0xF0
    assert read_utf(b"xx" + written + b"yy", 2) == (text, len(written) + 2)


def test_java_text_has_a_length_of_two_bytes() -> None:
    with pytest.raises(ValueError, match="more text"):
        write_utf("a" * 65_536)


def test_versions_are_compared_by_their_numbers() -> None:
    assert parts("1.0.0") == parts("1") == parts("1.0-beta") == (1,)
    assert parts("0.0") == ()
    assert parts("1.10") > parts("1.9.9")


def greet(at: GridTerms, bitmap: int) -> bytes:
    hello = Hello(opcode="PROTOCOL_HELLO", bitmap=bitmap)
    return GRID.encode_request(Request(q.Ping(), 1, hello), at)


@pytest.mark.parametrize(
    ("names", "bits", "theirs", "answered", "agreed"),
    [
        ([], {}, (1 << 64) - 1, 0, []),
        (["lz4"], {}, 0, 1 << 7, []),
        (["lz4"], {}, 1 << 7, 1 << 7, ["lz4"]),
        (["zstd", "lz4"], {}, 0x180, 0x180, ["zstd", "lz4"]),
        (["zstd", "lz4"], {"zstd": 63}, 1 << 63, 1 << 63 | 1 << 7, ["zstd"]),
    ],
)
def test_what_both_ends_have_is_agreed_on(
    names: list[str], bits: dict[str, int], theirs: int, answered: int, agreed: list[str]
) -> None:
    at = terms(compression=names, feature_bits=bits)
    request = GRID.decode_request(greet(at, theirs), at)
    assert isinstance(request, Request)
    assert list(at.agreed) == agreed
    said = GRID.encode_reply(request, r.Done(), at)
    assert int.from_bytes(said[-8:], "big") == answered
    ours = terms(compression=names, feature_bits=bits)
    assert GRID.decode_reply(request, said, ours) == r.Done()
    assert list(ours.agreed) == names


def test_a_server_that_is_too_old_for_us_is_told_apart() -> None:
    at = terms(hello={"version": "2.0.0", "min": "2.0.0"})
    request = Request(q.Ping(), 1, Hello(opcode="PROTOCOL_HELLO"))
    said = GRID.encode_reply(request, r.Done(), terms())
    with pytest.raises(CommandFailed) as caught:
        GRID.decode_reply(request, said, at)
    assert caught.value.fault is Fault.UNSUPPORTED


# -- compressed bodies

FLAGS = {name: numbers.FLAGS[f"COMPRESSED_{name.upper()}"] for name in ("lz4", "zstd")}
INTEGRITY = numbers.FLAGS["COMPRESSION_INTEGRITY"]
algorithms = pytest.mark.parametrize("name", FLAGS)
BIG = b"abcd" * 1000

ENVELOPE = spec.Int32ub[2]
"""Length and checksum of what was compressed."""

BEHIND = HEAD + ENVELOPE.sizeof()


def agreed(*names: str, **said: Any) -> GridTerms:
    at = terms(compression=names, **said)
    at.agree(at.bitmap)
    return at


def squeezed(name: str, value: bytes = BIG) -> bytes:
    """A MAP_PUT with a compressed body in an envelope."""
    return GRID.encode_request(Request(q.MapPut(M, b"k", value), 1), agreed(name))


def enveloped(
    data: bytes, length: int | None = None, checksum: int | None = None, inside: bytes | None = None
) -> bytes:
    """That frame with something else in its envelope or behind it."""
    own = ENVELOPE.parse(data[HEAD:])
    envelope = ENVELOPE.build([length or own[0], checksum or own[1]])
    return with_body(data, envelope + (data[BEHIND:] if inside is None else inside))


def bare(name: str, data: bytes) -> bytes:
    """That frame without its envelope."""
    return changed(with_body(data, data[BEHIND:]), flags=FLAGS[name])


def with_body(data: bytes, body: bytes) -> bytes:
    return changed(data[:HEAD], length=len(body)) + body


@algorithms
def test_bodies_are_compressed_once_that_was_agreed(name: str) -> None:
    at = agreed(name)
    data = squeezed(name)
    assert len(data) < 300
    assert flags_of(data) == FLAGS[name] | INTEGRITY
    body = compressor(name).decompress(data[BEHIND:], 5000)
    assert body == b"mk" + BIG
    assert ENVELOPE.parse(data[HEAD:]) == [len(body), google_crc32c.value(body)]
    assert decoded(data, at) == q.MapPut(M, b"k", BIG, create=1)
    request = Request(q.MapGet(M, b"k"), 1)
    said = GRID.encode_reply(request, r.MapValue(BIG), at)
    assert len(said) < 300
    assert GRID.decode_reply(request, said, at) == r.MapValue(BIG)
    assert refused(data).fault is Fault.UNSUPPORTED


def test_short_bodies_and_those_that_gain_nothing_are_left_as_they_are() -> None:
    at = agreed("lz4", "zstd")
    noise = random.Random(1).randbytes(4000)
    for value in (b"a" * 1021, noise):
        request = Request(q.MapPut(M, b"k", value), 1)
        assert GRID.encode_request(request, at) == GRID.encode_request(request, terms())
    assert flags_of(GRID.encode_request(Request(q.MapPut(M, b"k", b"a" * 1022), 1), at)) == FLAGS["lz4"] | INTEGRITY
    first = agreed("zstd", "lz4")
    assert flags_of(GRID.encode_request(Request(q.MapPut(M, b"k", BIG), 1), first)) == FLAGS["zstd"] | INTEGRITY


def test_hellos_are_never_compressed() -> None:
    at = agreed("lz4", compress_above=0, hello={"version": "1.0.0" + "x" * 500})
    assert flags_of(greet(at, 0)) == 0
    request = GRID.decode_request(greet(at, 1 << 7), at)
    assert isinstance(request, Request)
    assert flags_of(GRID.encode_reply(request, r.Done(), at)) == 0


@algorithms
def test_a_body_without_the_envelope_is_taken_too(name: str) -> None:
    assert decoded(bare(name, squeezed(name)), agreed(name)) == q.MapPut(M, b"k", BIG, create=1)


@algorithms
@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"checksum": 1}, "the checksum of a compressed body is wrong"),
        ({"length": 4001}, "more than 4001 bytes when decompressed"),
        ({"length": 5000}, "4002 bytes when decompressed, 5000 announced"),
        ({"inside": b"nonsense"}, "not a whole"),
    ],
)
def test_a_compressed_body_that_is_not_whole_is_a_bad_request(name: str, said: dict[str, Any], words: str) -> None:
    at = agreed("lz4", "zstd")
    failure = refused(enveloped(squeezed(name), **said), at)
    assert failure.fault is Fault.MALFORMED
    assert words in failure.detail


@algorithms
def test_a_compressed_body_is_something_in_one_algorithm_and_has_its_envelope(name: str) -> None:
    data, at = squeezed(name), agreed("lz4", "zstd")
    for wrong, words in [
        (with_body(bare(name, data), b""), "not a whole"),
        (with_body(data, data[HEAD : BEHIND - 1]), "a compressed body without its envelope"),
        (changed(data, flags=sum(FLAGS.values())), "a body in lz4 and zstd at once"),
    ]:
        failure = refused(wrong, at)
        assert failure.fault is Fault.MALFORMED
        assert words in failure.detail


@algorithms
def test_bombs_are_refused_before_they_go_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = squeezed(name, bytes(1 << 20))
    at = agreed(name, max_body=100_000)
    assert refused(bare(name, bomb), at).fault is Fault.TOO_LARGE
    assert refused(enveloped(bomb, length=100_000), at).fault is Fault.MALFORMED, "it is longer than it says"
    asked: list[int] = []
    real = at.agreed[name]

    def watched(data: bytes, limit: int) -> bytes:
        asked.append(limit)
        return real.decompress(data, limit)

    at.agreed[name] = msgspec.structs.replace(real, decompress=watched)
    assert refused(bomb, at).fault is Fault.TOO_LARGE
    assert asked == [], "what is announced is too much already"


@algorithms
@pytest.mark.parametrize("checked", [False, True])
def test_many_small_bombs_cost_no_more_than_one(name: str, checked: bool) -> None:
    made = session(compression=[name], max_body=10_000)
    made.terms.agree(made.terms.bitmap)
    data = squeezed(name, bytes(6000))
    if not checked:
        data = bare(name, data)
    assert [call.request.tag for call in made.receive(data * 3, 0.0)] == [1]
    first, second = heard(made.take())
    assert (first.opcode, first.status) == ("RESPONSE_SERVER_BUSY", "BUSY")
    assert second == first
    assert len(made.receive(data, 1.0)) == 1, "the next read has room again"
    assert not made.closing


def test_who_says_hello_may_compress_what_follows_in_the_same_read() -> None:
    made = session(compression=["lz4"])
    at = agreed("lz4")
    stream = greet(at, 1 << 7) + GRID.encode_request(Request(q.MapPut(M, b"k", BIG), 2), at)
    (call,) = made.receive(stream, 0.0)
    assert call.request.command == q.MapPut(M, b"k", BIG, create=1)
    (hello,) = heard(made.take())
    assert hello.opcode == "PROTOCOL_HELLO_ACK"
    made.answer(call, r.MapChanged(True))
    assert made.take() == ok(2)
