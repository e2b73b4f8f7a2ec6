"""What a verb says: one thing, or rows of many, or a sentence; as text for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from gateway.admin.shown import encoded, harmless
from gateway.admin.tables import Column, Row, Table, json_lines, lay_down, lay_out
from gateway.core.faults import CommandFailed


class Facts(msgspec.Struct, frozen=True):
    """One thing: what is known of it, by column."""

    columns: tuple[Column, ...]
    row: Row


class Answer(msgspec.Struct, frozen=True):
    """facts, then tables, then a sentence.  empty: the sentence instead of a table without rows."""

    facts: Facts | None = None
    tables: tuple[Table, ...] = ()
    sentence: str = ""
    empty: str = ""


class Line(msgspec.Struct, frozen=True):
    """One line of text.  kind: a row stays in one piece, prose may be wrapped between words."""

    text: str
    kind: Literal["row", "title", "prose"] = "row"


def told(answer: Answer, width: int) -> Iterator[Line]:
    """For people.  width: cells of the terminal, 0 = as wide as it gets."""
    if answer.facts is not None:
        yield from map(Line, lay_down(answer.facts.columns, answer.facts.row, width))
    for at, table in enumerate(answer.tables):
        if answer.facts is not None or at:
            yield Line("")
        yield from _table(table, width) if table.items else [prose(answer.empty)]
    if answer.sentence:
        yield prose(answer.sentence)


def prose(text: str) -> Line:
    """A sentence."""
    return Line(harmless(text), "prose")


def _table(table: Table, width: int) -> Iterator[Line]:
    laid = lay_out(table, width)
    yield Line(laid.titles, "title")
    yield from map(Line, laid.rows)
    yield from map(prose, laid.notes)


def written(answer: Answer) -> Iterator[Line]:
    """For programs: one JSON value."""
    if answer.facts is None and not answer.tables:
        yield Line(encoded({"said": answer.sentence}))
        return
    yield from map(Line, json_lines(answer.tables, None if answer.facts is None else answer.facts.row))


def refused(problem: Exception, as_json: bool) -> Line:
    """What could not be done, and why."""
    fault = problem.fault.name if isinstance(problem, CommandFailed) else "WRONG"
    detail = (problem.detail or problem.fault.value) if isinstance(problem, CommandFailed) else str(problem)
    if as_json:
        return Line(encoded({"fault": fault, "detail": detail}))
    return prose(f"{fault}: {detail}" if isinstance(problem, CommandFailed) else detail)
