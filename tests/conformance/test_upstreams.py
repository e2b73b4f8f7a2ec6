"""docs/backends.md says what the dialects declare of their servers."""

from __future__ import annotations

from pathlib import Path

from gateway.conformance.upstreams import KINDS, LOCAL, MARK, declared, document
from gateway.core import commands as q


def test_the_page_in_docs_is_what_the_dialects_declare() -> None:
    page = (Path(__file__).parents[2] / "docs" / "backends.md").read_text()
    assert page.partition(MARK)[2] == document(declared()).partition(MARK)[2], "say `make docs`"


def test_every_command_has_a_row_with_a_word_for_every_dialect() -> None:
    page = document(declared())
    for kind in KINDS:
        [row] = [line for line in page.split("## How")[0].splitlines() if line.startswith(f"| `{kind.__name__}` |")]
        assert row.count("|") == len(declared()) + 2


def test_what_is_answered_here_is_a_command() -> None:
    assert set(LOCAL) <= set(KINDS)
    assert q.Publish not in LOCAL
