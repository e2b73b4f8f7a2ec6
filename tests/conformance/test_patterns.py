"""Forms with blanks: what they say is sent and found again, and where bytes part from them is pointed at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.conformance.comparing import Unlike, compare
from gateway.conformance.patterns import Form, fill, named, pattern

NAMES = {"topic": b"t-abc"}
REPLY: Form = [{"frame": "OK topic={topic} n={n:int} m={m:word} end"}, "0102 {id:4} ..*2"]


def said(form: Form, **names: bytes) -> bytes:
    return b"".join(fill(pattern(form), {**NAMES, **names}))


def reply(n: bytes = b"12", topic: bytes = b"t-abc", behind: bytes = b"\1\2abcdzz") -> bytes:
    text = b"OK topic=%b n=%b m=foo end" % (topic, n)
    return len(text).to_bytes(4, "big") + text + behind


def test_octets_are_hex_text_and_blanks_and_may_have_comments() -> None:
    assert said("0001 'or d' {topic}  # the name\nff") == b"\0\1or dt-abc\xff"


def test_lengths_are_of_what_stands_behind_them() -> None:
    assert said({"size": "u16le", "of": ["'a'", {"frame": "{topic}"}]}) == b"\x0a\0a\0\0\0\5t-abc"


def test_a_length_may_stand_apart_from_what_it_is_of_and_is_not_compared() -> None:
    form: Form = [
        {"length": "u16be", "of": "{topic} 'ab'"},
        "'key'",
        {"size": "u8", "of": [{"length": "u8", "of": "00"}]},
    ]
    assert said(form) == b"\0\7key\1\1"
    assert compare(pattern(form), b"??key\1?", NAMES) == {}
    assert compare(pattern(form), b"?", NAMES) == Unlike(1, "a length of 2 bytes")


def test_braces_that_are_no_blanks_are_themselves() -> None:
    assert said({"text": '{"a":{},"t":"{topic}"}'}) == b'{"a":{},"t":"t-abc"}'


def test_what_blanks_say_is_kept() -> None:
    assert compare(pattern(REPLY), reply(), NAMES) == {"n": b"12", "m": b"foo", "id": b"abcd"}


def test_what_was_kept_has_to_come_again() -> None:
    assert compare(pattern(REPLY), reply(), {**NAMES, "id": b"abcd"}) == {"n": b"12", "m": b"foo"}
    parted = compare(pattern(REPLY), reply(), {**NAMES, "id": b"abce"})
    assert parted == Unlike(len(reply()) - 3, "'e'")
    assert isinstance(compare(pattern({"text": "{n:int} {n:int}"}), b"1 2", {}), Unlike)


@pytest.mark.parametrize(
    ("octets", "at", "wanted"),
    [
        (reply(topic=b"t-abd"), 17, "'c'"),
        (reply(n=b"x"), 21, "{n:int}"),
        (b"\0\0\0\x1e" + reply()[4:], 3, "00 00 00 1d"),
        (reply()[:-1], len(reply()) - 1, "2 bytes"),
        (reply() + b"?", len(reply()), "nothing more"),
        (b"", 0, "a length of 4 bytes"),
    ],
)
def test_the_byte_is_pointed_at_where_they_part(octets: bytes, at: int, wanted: str) -> None:
    assert compare(pattern(REPLY), octets, NAMES) == Unlike(at, wanted)


@given(st.data())
def test_every_flipped_byte_that_is_no_blank_is_found_and_pointed_at(data: st.DataObject) -> None:
    form = pattern([{"frame": "OK {topic} 7"}, "00 ff 'text'"])
    octets = bytearray(b"".join(fill(form, NAMES)))
    at = data.draw(st.integers(0, len(octets) - 1))
    octets[at] ^= data.draw(st.integers(1, 255))
    parted = compare(form, bytes(octets), NAMES)
    assert isinstance(parted, Unlike) and parted.at == at


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ("0", "column 1: '0' is no hex"),
        ("00 {Name:4}", "column 4"),
        ({"size": "u24be", "of": "00"}, "bytes are hex"),
        ({"text": "a", "frame": "b"}, "bytes are hex"),
    ],
)
def test_what_is_no_form_is_said_in_a_sentence(form: Form, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        pattern(form)


def test_a_blank_that_nothing_is_known_of_cannot_be_sent() -> None:
    with pytest.raises(ValueError, match=r"nothing is known of \{id\}"):
        fill(pattern("{id:4}"), {})


@pytest.mark.parametrize(
    ("kind", "legal", "illegal"),
    [
        ("text", ["", "a b, ä €"], [b"a\nb", b"\xff", b"\xc3"]),
        ("time", ["2026-11-20T19:10:48Z", "2026-11-20T19:10:48.244653+01:00"], [b"2026-11-20 19:10:48Z", b"", b"now"]),
    ],
)
def test_kinds_of_text_take_what_they_say(kind: str, legal: list[str], illegal: list[bytes]) -> None:
    form = pattern({"text": f"<{{said:{kind}=}}>"})
    for text in legal:
        assert compare(form, f"<{text}>".encode(), {}) == {"said": text.encode()}
    for octets in illegal:
        assert isinstance(compare(form, b"<" + octets + b">", {}), Unlike)


def test_blanks_side_by_side_are_told_apart_by_their_lengths() -> None:
    texts: Form = [{"size": "u32le", "of": {"text": f"{{{name}:text}}"}} for name in ("one", "two", "three")]
    octets = b"".join(len(text).to_bytes(4, "little") + text for text in (b"vm", b"", b"Debian GNU/Linux"))
    said = {"one": b"vm", "two": b"", "three": b"Debian GNU/Linux", "behind": b"\1\0\0\0x"}
    assert compare(pattern([texts, {"text": "{behind:rest}"}]), octets + b"\1\0\0\0x", {}) == said
    longer = b"\3" + octets[1:]
    assert isinstance(compare(pattern(texts), longer, {}), Unlike)


def test_what_has_no_name_can_get_one() -> None:
    form = named(pattern(["..*2 {id:4=}", {"size": "u8", "of": ".."}]), "some")
    assert compare(form, b"abwxyz\1c", {}) == {"some1": b"ab", "id": b"wxyz", "some2": b"c"}
