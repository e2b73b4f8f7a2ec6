"""`gateway capture show`: rows for people, or as JSON for programs."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from gateway.capture.reading import Answers, Heard, Listeners, cut, following
from gateway.capture.rows import Capture, Header, NoCapture, Row
from gateway.capture.words import hexed, plain, words

ARROWS = {"in": "->", "out": "<-", "open": "++", "close": "--", "gap": "!!"}


class Shown(msgspec.Struct, frozen=True):
    """A row, and what it means in a few words; one line for each frame of it."""

    row: Row
    says: list[str]


def shown(files: Iterable[Capture]) -> Iterator[Shown]:
    """Every row of the files, in order.  Raises NoCapture."""
    talks = Talks()
    for file in files:
        for row in file:
            yield Shown(row, talks.says(file.header, row))


class Talks:
    """The connections that are open, as far as the rows tell."""

    def __init__(self) -> None:
        self._listeners = Listeners()
        self._talks: dict[tuple[int, int], tuple[Heard, Answers]] = {}

    def says(self, header: Header, row: Row) -> list[str]:
        """What a row means; nothing where that cannot be known."""
        key = header.started, row.connection
        if row.direction not in ("in", "out"):
            self._talks.pop(key, None)
            return []
        try:
            heard, answers = self._talks.get(key) or self._begin(header, row)
        except NoCapture:
            return []
        if row.direction == "in":
            request = heard.hear(row)
            return [] if request is None else [words(request)]
        return _answer(heard, answers, row)

    def _begin(self, header: Header, row: Row) -> tuple[Heard, Answers]:
        listener = self._listeners.make(header, row.listener)
        talk = Heard(listener), Answers(listener.dialect, listener.terms(""))
        self._talks[header.started, row.connection] = talk
        return talk


def _answer(heard: Heard, answers: Answers, row: Row) -> list[str]:
    request = heard.requests.pop(row.ticket, None) if row.ticket >= 0 else None
    says: list[str] = []
    for frame in cut(heard.dialect, row.frame):
        about = request or following(heard.dialect, heard.requests.values(), frame)
        if about is not None:
            said = answers.read(about, frame)
            says.append("a sign of life" if said is None else words(said))
    return says


# -- for people


def lines(one: Shown, *, octets: bool = False) -> Iterator[str]:
    """What is printed of a row."""
    row = one.row
    moment = datetime.fromtimestamp(row.time / 1e6, UTC).strftime("%H:%M:%S.%f")
    who = f"{plain(row.listener)}#{row.connection}" + (f" {plain(row.principal)}" if row.principal else "")
    yield f"{moment} {who:16} {ARROWS[row.direction]} {_what(row)}".rstrip()
    for says in one.says:
        yield f"                    {says}"
    if octets:
        for line in hexed(row.frame, 1 << 16):
            yield f"                    {line}"


def _what(row: Row) -> str:
    about = plain(" ".join(word for word in (row.kind, row.place) if word))
    note = f"({plain(row.note)})" if row.note else ""
    match row.direction:
        case "in":
            parts = [about or "no request", f"{len(row.frame)} bytes", note]
        case "out" if row.ticket >= 0:
            parts = [about, plain(row.outcome), f"{row.latency / 1000:.2f} ms", f"{len(row.frame)} bytes", note]
        case "out":
            parts = ["said", f"{len(row.frame)} bytes", note]
        case "gap":
            parts = [f"{plain(row.note)} rows are missing"]
        case _:
            parts = ["opened by " + plain(row.note) if row.direction == "open" else "closed"]
    return "  ".join(part for part in parts if part)


# -- for programs


def as_json(one: Shown) -> bytes:
    """One line: the fields of the row, its frame in base64, and what it says."""
    row = {name: getattr(one.row, name) for name in Row.__struct_fields__}
    return msgspec.json.encode({**row, "frame": base64.b64encode(one.row.frame).decode(), "says": one.says})
