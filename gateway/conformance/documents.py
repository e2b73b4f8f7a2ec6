"""A report as a document: what `report.json` holds, and the other forms are made from.

A reader goes by `format` and `version`; new fields come behind the others.  `report.schema.json` says the same as JSON
Schema.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from gateway import __version__
from gateway.conformance.cases import Level, Role, statements
from gateway.conformance.pairs import PairRun
from gateway.conformance.playing import Ruling, Verdict, Way
from gateway.conformance.results import Result, Run
from gateway.conformance.trees import Shown, Talk
from gateway.dialects import load

FORMAT, VERSION = "gateway-conformance", 1


class WayDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one way of playing a case went; see playing.Ruling.  got is hex."""

    way: Way
    verdict: Verdict
    why: str = ""
    step: int = -1
    at: int = -1
    wanted: str = ""
    got: str = ""
    ending: str = "open"


class CaseDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """One case; frames: what crossed in the way that its verdict is from."""

    id: str
    level: Level
    name: str
    source: str
    verdict: Verdict
    why: str = ""
    ask: str = ""
    covers: tuple[str, ...] = ()
    ways: tuple[WayDocument, ...] = ()
    frames: tuple[Shown, ...] = ()


class Coverage(msgspec.Struct, frozen=True):
    """Statements of the dialect, how many of them the cases of this run exercised, and which they did not."""

    statements: int
    exercised: int
    missing: tuple[str, ...] = ()


class RunDocument(msgspec.Struct, frozen=True):
    """One dialect and role against one agent.  began: RFC 3339."""

    dialect: str
    role: Role
    agent: str
    began: str
    seconds: float
    counts: dict[Verdict, int]
    coverage: Coverage
    cases: tuple[CaseDocument, ...]


class FieldDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """One field of a record between two dialects; see pairs.Survived."""

    field: str
    verdict: Verdict
    declared: str
    how: str = ""
    sent: str = ""
    seen: str = ""
    why: str = ""


class PairDocument(msgspec.Struct, frozen=True):
    """What was written in one dialect and read in another.  began: RFC 3339."""

    writer: str
    reader: str
    began: str
    seconds: float
    fields: tuple[FieldDocument, ...]


class Document(msgspec.Struct, frozen=True):
    """A whole report.  kit: version of the gateway that made it."""

    runs: tuple[RunDocument, ...]
    pairs: tuple[PairDocument, ...] = ()
    kit: str = __version__
    format: str = FORMAT
    version: int = VERSION


def document(runs: Iterable[Run] = (), pairs: Iterable[PairRun] = ()) -> Document:
    """What came of them."""
    return Document(tuple(map(_run, runs)), tuple(map(_pair, pairs)))


def _pair(run: PairRun) -> PairDocument:
    fields = tuple(
        FieldDocument(at.field, at.verdict, at.declared.way, at.declared.how, at.sent, at.seen, at.why)
        for at in run.fields
    )
    return PairDocument(run.writer, run.reader, _moment(run.began), round(run.seconds, 3), fields)


def _moment(us: int) -> str:
    return datetime.fromtimestamp(us // 1_000_000, UTC).isoformat().replace("+00:00", "Z")


def _run(run: Run) -> RunDocument:
    cases = tuple(_case(run, each) for each in run.results)
    seconds = round(run.seconds, 3)
    return RunDocument(
        run.dialect, run.role, run.agent, _moment(run.began), seconds, run.counts(), _coverage(run), cases
    )


def _coverage(run: Run) -> Coverage:
    known = [statement.id for statement in statements(run.dialect)]
    played = {id for each in run.results if each.rulings for id in each.case.covers}
    missing = tuple(id for id in known if id not in played)
    return Coverage(len(known), len(known) - len(missing), missing)


def _case(run: Run, result: Result) -> CaseDocument:
    case, ruling = result.case, result.ruling
    return CaseDocument(
        case.id,
        case.level,
        case.name,
        case.source,
        result.verdict,
        result.why,
        case.ask,
        case.covers,
        tuple(map(_way, result.rulings)),
        () if ruling is None else _frames(run, result, ruling),
    )


def _way(ruling: Ruling) -> WayDocument:
    return WayDocument(
        ruling.way,
        ruling.verdict,
        ruling.why,
        ruling.step,
        ruling.at,
        ruling.wanted,
        ruling.got.hex(" "),
        ruling.ending,
    )


def _frames(run: Run, result: Result, ruling: Ruling) -> tuple[Shown, ...]:
    dialect = load(run.dialect)
    settings = msgspec.convert(result.case.settings, dialect.settings)
    return tuple(Talk(dialect, settings, run.role).shown(ruling.crossings))


def schema() -> dict[str, object]:
    """JSON Schema of a Document."""
    return msgspec.json.schema(Document)
