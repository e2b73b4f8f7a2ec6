"""gateway.configuration.lines: every key of a TOML document is found where an editor shows it."""

from __future__ import annotations

import datetime
import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.configuration.lines import Place, find_lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", {}),
        ("# a = 1\n\n  a = 1 # b = 2\nb=2", {("a",): 3, ("b",): 4}),
        ("[a.b]\nc = 1\n[a]\nd = 2", {("a",): 1, ("a", "b"): 1, ("a", "b", "c"): 2, ("a", "d"): 4}),
        ("a . 'b c' . \"d.\\u0065\" = 1", {("a",): 1, ("a", "b c"): 1, ("a", "b c", "d.e"): 1}),
        ("[ \"a]\" . '[b' ]\nc = 1", {("a]",): 1, ("a]", "[b"): 1, ("a]", "[b", "c"): 2}),
        (
            "[[a]]\nb = 1\n[[a]]\nb = 2\n[a.c]\nd = 3\n[[a.e]]\nf = 4\n[[a.e]]",
            {
                ("a",): 1,
                ("a", 0): 1,
                ("a", 0, "b"): 2,
                ("a", 1): 3,
                ("a", 1, "b"): 4,
                ("a", 1, "c"): 5,
                ("a", 1, "c", "d"): 6,
                ("a", 1, "e"): 7,
                ("a", 1, "e", 0): 7,
                ("a", 1, "e", 0, "f"): 8,
                ("a", 1, "e", 1): 9,
            },
        ),
        (
            "a = [ # first\n 1, # ]\n { b = '}', c.d = [2,\n3] },\n]\ne = {}",
            {
                ("a",): 1,
                ("a", 0): 2,
                ("a", 1): 3,
                ("a", 1, "b"): 3,
                ("a", 1, "c"): 3,
                ("a", 1, "c", "d"): 3,
                ("a", 1, "c", "d", 0): 3,
                ("a", 1, "c", "d", 1): 4,
                ("e",): 6,
            },
        ),
        (
            'a = """\nx = 1\n"" \\""" "\n"""""\nb = \'\'\'\n\\\'\'\n[c]\n\'\'\'\'\'\nd = "\\"#"\ne = \'#"\'',
            {("a",): 1, ("b",): 5, ("d",): 9, ("e",): 10},
        ),
        ("a = 1979-05-27 07:32:00Z\r\nb = [-inf, 1e3, 0x1F,]\r\nc = ''\r\nd = \"\"", None),
    ],
)
def test_every_key_is_found_on_its_line(text: str, lines: dict[Place, int] | None) -> None:
    tomllib.loads(text)
    if lines is None:
        lines = {("a",): 1, ("b",): 2, ("b", 0): 2, ("b", 1): 2, ("b", 2): 2, ("c",): 3, ("d",): 4}
    assert find_lines(text) == lines


STRINGS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
LEAVES = STRINGS | st.integers(-9, 9) | st.booleans() | st.just(1.5) | st.just(datetime.date(2026, 11, 20))
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3), max_leaves=8
)


def written(value: object, broken: str) -> str:
    """As TOML; between the elements of arrays stands `broken`."""
    if isinstance(value, dict):
        inside = (f"{json.dumps(key, ensure_ascii=False)} = {written(one, broken)}" for key, one in value.items())
        return f"{{{', '.join(inside)}}}"
    if isinstance(value, list):
        return f"[{f',{broken}'.join(written(one, broken) for one in value)}]"
    return value.isoformat() if isinstance(value, datetime.date) else json.dumps(value, ensure_ascii=False)


def places(value: object, place: Place) -> set[Place]:
    """Of all that is in a value, itself included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {place}.union(*(places(one, (*place, key)) for key, one in inner))


@given(
    st.dictionaries(STRINGS, st.dictionaries(STRINGS, VALUES, max_size=3), max_size=3), st.sampled_from(["", "\n#]\n"])
)
def test_whatever_tomllib_reads_is_found_and_nothing_else(tables: dict[str, dict[str, object]], broken: str) -> None:
    text, headers = "", {}
    for name, table in tables.items():
        headers[name] = text.count("\n") + 1
        text += f"[{json.dumps(name, ensure_ascii=False)}]\n"
        text += "".join(
            f"{json.dumps(key, ensure_ascii=False)} = {written(one, broken)}\n" for key, one in table.items()
        )
    read = tomllib.loads(text)
    found = find_lines(text)
    assert set(found) == places(read, ()) - {()}
    assert {name: found[name,] for name in tables} == headers
    for place, line in found.items():
        if isinstance(place[-1], str):
            assert json.dumps(place[-1], ensure_ascii=False) in text.splitlines()[line - 1]


def test_a_long_file_takes_a_moment() -> None:
    """Not the square of its length: this is 100,000 keys."""
    text = "".join(f"[users.u{at}]\ntokens = ['a', 'b']\n" for at in range(25_000))
    assert find_lines(text)["users", "u24999", "tokens", 1] == 50_000
