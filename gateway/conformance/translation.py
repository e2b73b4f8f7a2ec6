"""docs/translation.md: what becomes of every field of a record between every two dialects.

Made from what the dialects declare (dialects/fidelity.py); `make docs` writes it, and a test compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gateway import dialects
from gateway.dialects.fidelity import FIELDS, PLACE, Fate, Fates, Fidelity, journey

SHOWN = {
    "kept": "kept",
    "partly": "partly",
    "changed": "changed",
    "dropped": "**dropped**",
    "unsaid": "·",
    "given": "given",
}
"""How a fate looks in a table."""

GROUPS = {
    "value": ("value",),
    "key": ("key",),
    "headers": ("headers", "header_kinds"),
    "times": ("timestamp", "origin_timestamp"),
    "id": ("id",),
    "producer": ("producer", "epoch", "sequence"),
    "event": ("event_type", "schema_version", "aggregate_version", "metadata"),
    "tables": ("tombstone", "expiry"),
}
"""Fields that go together, for the overview."""

INTRODUCTION = """\
# What becomes of a record between dialects

<!-- Made from the dialects' own declarations by `make docs`; a test compares it with them. -->

A record that one dialect wrote is the same record in every other. But no wire has a place for everything: here is what
is lost on the way, field by field, for every pair. The gateway stores all that the writer said; what is lost is lost in
the answer to a reader, and another reader may see it.

| word | meaning |
|---|---|
| kept | readers see what was written |
| partly | kept, but for what the table says; counted where it happens |
| changed | readers see something else, always; counted |
| **dropped** | the reader's wire has no place for it; counted where it was set |
| given | no producer of that dialect can write it: the gateway gives one to every record, and readers see that |
| · | no producer of that dialect can write it, or readers of this one would not see what was given |

What is counted is in `gateway_translation_loss_total{from,to,field}`, one for each record and field each time it is
read; `partition` and `offset` never are. `from` is `table` for what table commands wrote (maps, counters and locks),
and `?` where nobody knows. A record that is read in the dialect that wrote it loses nothing that its own servers would
show, so what those drop too, such as the key in V1, is not counted.

Values that a wire cannot carry are under the `policy` of the listener that is read from: `replace` (as the tables say),
`reject` (an error instead of the answer) or `escape` (in a form that can be taken back).
"""

Told = dict[str, Fidelity]
"""Those dialects that declare it, by name."""


def told() -> dict[str, Fidelity | None]:
    """What the dialects that there are declare."""
    return {name: dialects.load(name).fidelity for name in dialects.names()}


def document(said: Mapping[str, Fidelity | None]) -> str:
    """The whole page."""
    declared = {name: fidelity for name, fidelity in said.items() if fidelity is not None}
    parts = [INTRODUCTION, _overview(declared), _writing(declared)]
    parts += [_target(name, declared) for name in declared]
    silent = [f"`{name}`" for name in said if name not in declared]
    parts += [f"## Not declared\n\nNothing is said of {', '.join(silent)}.\n"] if silent else []
    return "\n".join(parts)


def _overview(declared: Told) -> str:
    lines = ["## Overview", ""]
    lines += [
        "What readers (columns) do not see as it was written (rows): groups of fields, in brackets those of which"
    ]
    lines += ["only some values are changed.", ""]
    rows = [[f"**{a}**", *(_lost(declared[a], declared[b]) for b in declared)] for a in declared]
    lines += _table(["written in", *(f"read in [{name}](#read-in-{name})" for name in declared)], rows)
    return "\n".join([*lines, ""])


def _lost(writer: Fidelity, reader: Fidelity) -> str:
    """The groups of which something is changed or dropped, those that are only partly lost in brackets."""
    found = []
    for group, fields in GROUPS.items():
        ways = {journey(writer.writing[field], reader.reading[field]).way for field in fields}
        if ways & {"changed", "dropped"}:
            found.append(group)
        elif "partly" in ways:
            found.append(f"({group})")
    return ", ".join(found) or "—"


def _writing(declared: Told) -> str:
    """What can be written at all."""
    lines = ["## What producers can write", ""]
    lines += [f"- `{name}`: {fidelity.by[0]}" for name, fidelity in declared.items()] + [""]
    rows = [[f"`{field}`", meaning, *_ways(at.writing[field] for at in declared.values())] for field, meaning in _all()]
    lines += _table(["field", "what it is", *declared], rows)
    limits = [f"- `{name}`: {'; '.join(said)}." for name, at in declared.items() if (said := _limits(at.writing))]
    return "\n".join([*lines, "", *limits, ""])


def _target(name: str, declared: Told) -> str:
    """What readers of one dialect see."""
    reader = declared[name]
    lines = [f"## Read in {name}", "", f"By {reader.by[1]}; a column for each dialect that may have written it.", ""]
    rows = [
        [f"`{field}`", *_ways(journey(at.writing[field], reader.reading[field]) for at in declared.values())]
        for field, _ in _all()
    ]
    remarks = [*(f"{limit}." for limit in _limits(reader.reading)), *reader.notes]
    lines += [*_table(["field", *declared], rows), "", *(f"- {remark}" for remark in remarks), ""]
    return "\n".join(lines if remarks else lines[:-1])


def _all() -> list[tuple[str, str]]:
    return [*FIELDS.items(), *PLACE.items()]


def _ways(fates: Iterable[Fate]) -> list[str]:
    return [SHOWN[fate.way] for fate in fates]


def _limits(fates: Fates) -> list[str]:
    """What the tables have no room for; fields of which the same is said go together."""
    said: dict[str, list[str]] = {}
    for field, fate in fates.items():
        if fate.how:
            said.setdefault(f"{fate.way}, {fate.how}", []).append(f"`{field}`")
    return [f"{', '.join(fields)}: {what}" for what, fields in said.items()]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def main() -> None:
    """Write the page of this checkout."""
    page = Path(__file__).parents[2] / "docs" / "translation.md"
    page.write_text(document(told()))


if __name__ == "__main__":
    main()
