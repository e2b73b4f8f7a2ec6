"""gateway.admin.tables: what a table promises at any width."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gateway.admin import doings, rows, shown
from gateway.admin.tables import Column, Table, fit, json_lines, lay_down, lay_out
from gateway.core.replies import PartitionDescription
from gateway.net.meters import BOUNDS, Latency

CELLS = st.text(st.characters(categories=["L", "N", "P"]), max_size=30)
ROWS = st.lists(st.fixed_dictionaries({"a": CELLS, "b": CELLS, "c": CELLS}), min_size=1, max_size=5)
COLUMNS = (Column("a", "A", least=4), Column("b", "B", least=3, rank=2), Column("c", "C", right=True, least=2, rank=1))


def table(items: list[dict[str, str]], columns: tuple[Column, ...] = COLUMNS) -> Table:
    return Table("things", columns, items, lambda item: item)


@given(ROWS, st.integers(4, 120))
def test_no_line_is_wider_than_the_terminal_whatever_script_it_is_in(items: list[dict[str, str]], width: int) -> None:
    laid = lay_out(table(items), width)
    assert len(laid.rows) == len(items)
    assert all(cell_len(line) <= width for line in [laid.titles, *laid.rows])


@given(ROWS)
def test_without_a_width_nothing_is_cut(items: list[dict[str, str]]) -> None:
    laid = lay_out(table(items), 0)
    for item, line in zip(items, laid.rows, strict=True):
        assert all(shown.text(value) in line for value in item.values())
    assert laid.notes == []


def test_columns_are_narrowed_before_any_is_left_out() -> None:
    items = [{"a": "a" * 20, "b": "b" * 20, "c": "c" * 20}]
    assert lay_out(table(items), 40).rows == ["aaaaaaaaaaa…  bbbbbbbbbbb…  ccccccccccc…"]
    assert lay_out(table(items), 13).rows == ["aaa…  bb…  c…"]
    narrow = lay_out(table(items), 12)
    assert narrow.rows == ["aaaa…  cccc…"] and narrow.notes == ["(no room for B)"]
    assert lay_out(table(items), 5).rows == ["aaaa…"]


def test_what_matters_most_stays_even_where_there_is_no_room() -> None:
    kept = fit((Column("a", "A"), Column("b", "B", rank=1)), {"a": 30, "b": 3}, 10)
    assert [(column.key, width) for column, width in kept] == [("a", 30)]


def test_numbers_stand_below_each_other() -> None:
    laid = lay_out(rows.partitions([PartitionDescription(n, 0, 10**n, 2048, 0) for n in (0, 5)]), 80)
    assert laid.titles == "PARTITION  START      END  RECORDS    BYTES"
    assert laid.rows[1] == "        5      0  100,000  100,000  2.0 KiB"


def test_facts_are_folded_into_the_width() -> None:
    columns = (Column("a", "first"), Column("b", "second thing"))
    assert list(lay_down(columns, {"a": "x" * 30, "b": "日本語" * 4}, 30)) == [
        "first         " + "x" * 16,
        "              " + "x" * 14,
        "second thing  " + "日本語日本語日本",
        "              " + "語日本語",
    ]


@given(ROWS | st.just([]))
def test_json_is_one_value_whatever_is_in_it(items: list[dict[str, str]]) -> None:
    assert json.loads("\n".join(json_lines([table(items)], None))) == items
    both = json.loads("\n".join(json_lines([table(items), Table("more", COLUMNS, [], lambda item: item)], {"x": 1})))
    assert both == {"x": 1, "things": items, "more": []}
    assert json.loads("\n".join(json_lines([], {"x": b"\xff"}))) == {"x": {"base64": "/w=="}}


@pytest.mark.parametrize(
    ("form", "value", "wanted"),
    [
        (shown.size, 0, "0 B"),
        (shown.size, 1023, "1023 B"),
        (shown.size, 1024, "1.0 KiB"),
        (shown.size, 5 << 40, "5.0 TiB"),
        (shown.span, 0.00035, "350 us"),
        (shown.span, 0.0021, "2.1 ms"),
        (shown.span, 8, "8.0 s"),
        (shown.span, 300, "5 min"),
        (shown.span, 11_400, "3 h 10 min"),
        (shown.span, 1_051_200, "12 d 4 h"),
        (shown.when, 1_800_000_000_250_000, "2027-01-15 08:00:00.250"),
        (shown.when, 1 << 62, "4611686018427387904"),
        (shown.text, None, "-"),
        (shown.text, (0, 2), "0, 2"),
        (shown.text, True, "yes"),
        (shown.count, 1_234_567, "1,234,567"),
        (rows.value, None, "(none)"),
        (rows.value, b"", ""),
    ],
)
def test_values_are_shown_as_people_read_them(form: object, value: object, wanted: str) -> None:
    assert callable(form) and form(value) == wanted


def test_a_long_value_is_cut_and_says_how_long_it_is() -> None:
    assert shown.octets(b"x" * 5000).endswith("x… (5,000 in all)")
    assert len(shown.text("y" * 10_000_000)) < 5000


def test_how_long_commands_take_is_said_as_a_bound() -> None:
    latency = Latency()
    for seconds in [0.0004] * 98 + [0.2] * 2:
        latency.observe(seconds)
    assert doings.within(latency, 0.5) == 0.0005 and doings.within(latency, 0.99) == 0.25
    latency.observe(BOUNDS[-1] + 1)
    assert doings.within(latency, 1.0) == float("inf")
    assert doings.within(None, 0.5) is None and doings.within(Latency(), 0.5) is None
