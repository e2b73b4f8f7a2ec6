"""Tables fitted to a width: columns that may be narrow give way first, then those that matter least are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from rich.cells import cell_len

from gateway.admin.shown import cut, encoded, text

GAP = "  "

MOST_ROWS = 1000
"""That a table shows; JSON has all."""

Row = Mapping[str, Any]


class Column(msgspec.Struct, frozen=True):
    """key: in the row, and in JSON.  form: how a value is shown.

    least: cells to which it may be narrowed, 0 = it may not be.
    rank:  what is left out where there is no room: the highest first, 0 never.
    """

    key: str
    title: str
    form: Callable[[object], str] = text
    right: bool = False
    least: int = 0
    rank: int = 0


class Table(msgspec.Struct, frozen=True):
    """Rows of one kind.  name: in JSON.  items: what the rows are of.  row: one of them, by column key.

    more: what to type to see those behind MOST_ROWS.
    """

    name: str
    columns: tuple[Column, ...]
    items: Sequence[Any]
    row: Callable[[Any], Row]
    more: str = "--json shows all"

    def rows(self) -> Iterator[Row]:
        """All of them, each made when it is wanted."""
        return map(self.row, self.items)


class Laid(msgspec.Struct, frozen=True):
    """A table as lines.  notes: what of it is not there."""

    titles: str
    rows: list[str]
    notes: list[str]


def lay_out(table: Table, width: int) -> Laid:
    """width: cells of the terminal, 0 = as wide as it gets."""
    rows = [table.row(item) for item in table.items[:MOST_ROWS]]
    cells = {column.key: [column.form(row[column.key]) for row in rows] for column in table.columns}
    widest = {column.key: max(map(cell_len, [column.title, *cells[column.key]])) for column in table.columns}
    fitted = fit(table.columns, widest, width)
    kept = [column.key for column, _ in fitted]
    left_out = [column.title for column in table.columns if column.key not in kept]
    more = len(table.items) - len(rows)
    return Laid(
        _line(fitted, [column.title for column, _ in fitted]),
        [_line(fitted, [cells[key][at] for key in kept]) for at in range(len(rows))],
        ([f"(no room for {', '.join(left_out)})"] if left_out else [])
        + ([f"({more:,} more; {table.more})"] if more else []),
    )


def lay_down(columns: Sequence[Column], row: Row, width: int) -> Iterator[str]:
    """One row as lines of `title  value`, for a thing that has only one."""
    margin = max(cell_len(column.title) for column in columns)
    for column in columns:
        value = column.form(row[column.key])
        room = max(width - margin - len(GAP), 8) if width else max(cell_len(value), 1)
        for at, part in enumerate(_folded(value, room)):
            yield f"{(column.title if at == 0 else ''):<{margin}}{GAP}{part}".rstrip()


def fit(columns: Sequence[Column], widest: Mapping[str, int], width: int) -> list[tuple[Column, int]]:
    """Which columns there is room for, and how wide each is then."""
    kept = list(columns)
    while True:
        least = sum(narrowest(column, widest[column.key]) for column in kept)
        if not width or least + len(GAP) * (len(kept) - 1) <= width:
            break
        last = max(kept, key=lambda column: column.rank)
        if last.rank == 0:
            break
        kept.remove(last)
    widths = {column.key: widest[column.key] for column in kept}
    _narrow(kept, widths, width - len(GAP) * (len(kept) - 1) if width else 0)
    return [(column, widths[column.key]) for column in kept]


def json_lines(tables: Iterable[Table], only: Row | None) -> Iterator[str]:
    """The facts as an object, or the rows of the one table as an array, or both together; a row is a line."""
    tables = list(tables)
    if only is None and len(tables) == 1:
        yield from _array(tables[0], "", "")
        return
    facts = [f"{encoded(key)}: {encoded(value)}" for key, value in (only or {}).items()]
    yield "{" + ", ".join(facts) + ("," if facts and tables else "" if tables else "}")
    for at, table in enumerate(tables):
        yield from _array(table, f"{encoded(table.name)}: ", "}" if at == len(tables) - 1 else ",")


def _array(table: Table, before: str, after: str) -> Iterator[str]:
    if not table.items:
        yield f"{before}[]{after}"
        return
    yield f"{before}["
    for at, row in enumerate(table.rows()):
        yield encoded(dict(row)) + ("," if at < len(table.items) - 1 else "")
    yield f"]{after}"


def narrowest(column: Column, width: int) -> int:
    """Cells to which a column of that width may be narrowed: its title is always whole."""
    return min(max(column.least, cell_len(column.title)), width) if column.least else width


def _narrow(columns: Sequence[Column], widths: dict[str, int], room: int) -> None:
    """The widest of those that may be narrowed give way, cell by cell, until all fit or none can any more."""
    while room and sum(widths.values()) > room:
        able = [column for column in columns if widths[column.key] > narrowest(column, widths[column.key])]
        if not able:
            return
        widths[max(able, key=lambda column: widths[column.key]).key] -= 1


def _line(fitted: Sequence[tuple[Column, int]], cells: Iterable[str]) -> str:
    parts = []
    for (column, width), cell in zip(fitted, cells, strict=True):
        shown = cut(cell, width)
        pad = " " * (width - cell_len(shown))
        parts.append(pad + shown if column.right else shown + pad)
    return GAP.join(parts).rstrip()


def _folded(value: str, room: int) -> Iterator[str]:
    """Lines of at most that many cells."""
    line, used = "", 0
    for ch in value:
        wide = cell_len(ch)
        if used + wide > room and line:
            yield line
            line, used = "", 0
        line, used = line + ch, used + wide
    yield line
