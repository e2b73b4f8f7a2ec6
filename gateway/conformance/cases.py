"""The scripts beside a dialect, `cases/*.toml`: what two ends say to each other, and what of it is judged.

A file holds tables `[[case]]`.  Their keys:

    id        never used for another one: `CUR-2.3.1`; the letters are the dialect's
    level     MUST, SHOULD or MAY
    name      a promise in one sentence
    source    where the rule is known from
    covers    statements of `statements.toml` that it exercises
    role      who is judged: `server`, or `client`
    ask       of a client: what a person has to make it do
    do        of a client: the same for a driver, a table: the call's name under `call`, and its arguments
    given     what has to be there before, commands as expressions (gateway.conformance.vectors); `{name}` is filled in
    needs     settings without which the listener cannot do it, as a listener has them
    names     name -> its text, each `?` in which becomes a letter or digit of the run's own; `topic`, `other` and
              `group` are there by themselves
    slow      it takes seconds; run with --slow only
    whole     it is not run in fragments as well
    steps     what happens, one after the other

A step is a table with one of these:

    send      a form (gateway.conformance.patterns) that the kit sends
    expect    a form that the judged end sends next, as one frame; `within` seconds, 2 by default
    lenient   beside expect: forms that are accepted, too, and are not canonical
    silence   seconds in which the judged end sends nothing
    closed    seconds within which the judged end hangs up
    hangup    true: the kit hangs up
    pause     seconds in which nothing happens
    use       the name of a `[fragment.NAME]` with steps that several cases share

and `on`, the connection that is meant, "a" by default; it is made when it is first used.

A table `[[unimplemented]]` has a form under `answer`: with such a frame a server says that it does not know a request.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Literal, TypeVar

import msgspec

from gateway.conformance.patterns import Form, Pattern, pattern
from gateway.conformance.vectors import BadCase

F = TypeVar("F")
Level = Literal["MUST", "SHOULD", "MAY"]
Role = Literal["server", "client"]

WITHIN = 2.0
"""Seconds that an answer may take unless its step says otherwise."""

NAMES = {"topic": "t-??????", "other": "o-??????", "group": "g-??????"}


class Send(msgspec.Struct, frozen=True, tag="send"):
    """The kit sends this."""

    on: str
    form: Pattern


class Expect(msgspec.Struct, frozen=True, tag="expect"):
    """The judged end sends one frame like this, or like one of `lenient`."""

    on: str
    form: Pattern
    within: float
    lenient: tuple[Pattern, ...] = ()


class Silence(msgspec.Struct, frozen=True, tag="silence"):
    """The judged end sends nothing for so many seconds."""

    on: str
    seconds: float


class Closed(msgspec.Struct, frozen=True, tag="closed"):
    """The judged end hangs up within so many seconds."""

    on: str
    within: float


class HangUp(msgspec.Struct, frozen=True, tag="hangup"):
    """The kit hangs up."""

    on: str


class Pause(msgspec.Struct, frozen=True, tag="pause"):
    """Nothing happens for so many seconds; what comes meanwhile is kept for the next step."""

    on: str
    seconds: float


Step = Send | Expect | Silence | Closed | HangUp | Pause


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One case, as the module's docstring describes it."""

    id: str
    dialect: str
    level: Level
    name: str
    source: str
    role: Role
    steps: tuple[Step, ...]
    covers: tuple[str, ...] = ()
    ask: str = ""
    do: dict[str, object] = {}
    given: tuple[str, ...] = ()
    needs: dict[str, object] = {}
    names: dict[str, str] = {}
    slow: bool = False
    whole: bool = False


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a dialect prescribes.  id: `CUR-S12`.  where: the section that says so."""

    id: str
    level: Level
    text: str
    where: str


# -- reading files


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    level: Level
    name: str
    source: str
    role: Role
    steps: list[dict[str, object]]
    covers: tuple[str, ...] = ()
    ask: str = ""
    do: dict[str, object] = {}
    given: tuple[str, ...] = ()
    needs: dict[str, object] = {}
    names: dict[str, str] = {}
    slow: bool = False
    whole: bool = False


class _Fragment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    steps: list[dict[str, object]]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    case: list[_Row] = []
    fragment: dict[str, _Fragment] = {}
    unimplemented: list[dict[str, object]] = []


class _Statements(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    statement: list[Statement] = []


STATEMENTS = "statements.toml"


def load(dialect: str) -> list[Case]:
    """Every case of a dialect, by id.  Raises BadCase for the first that cannot be read."""
    files = {name: _read(name, text, _File) for name, text in _texts(dialect).items() if name != STATEMENTS}
    fragments = {name: fragment.steps for file in files.values() for name, fragment in file.fragment.items()}
    cases = [_case(dialect, name, row, fragments) for name, file in files.items() for row in file.case]
    known = {statement.id for statement in statements(dialect)}
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise BadCase(f"{dialect}: two cases are called {case.id}")
        seen.add(case.id)
        if strangers := set(case.covers) - known:
            raise BadCase(
                f"{dialect}: {case.id} covers {', '.join(sorted(strangers))}, which {STATEMENTS} does not have"
            )
    return sorted(cases, key=lambda case: _sorting(case.id))


def statements(dialect: str) -> list[Statement]:
    """What a dialect prescribes.  Raises BadCase."""
    text = _texts(dialect).get(STATEMENTS)
    return [] if text is None else _read(STATEMENTS, text, _Statements).statement


def unimplemented(dialect: str) -> list[Pattern]:
    """What a server of the dialect says to a request that it does not know.  Raises BadCase."""
    files = [_read(name, text, _File) for name, text in _texts(dialect).items() if name != STATEMENTS]
    return [_form(row["answer"]) for file in files for row in file.unimplemented]


def _texts(dialect: str) -> dict[str, str]:
    folder = resources.files(f"gateway.dialects.{dialect}").joinpath("cases")
    if not folder.is_dir():
        return {}
    return {
        file.name: file.read_text("utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".toml")
    }


def _read(name: str, text: str, kind: type[F]) -> F:
    try:
        return msgspec.convert(tomllib.loads(text), kind)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise BadCase(f"{name}: {error}") from error


def _case(dialect: str, file: str, row: _Row, fragments: Mapping[str, list[dict[str, object]]]) -> Case:
    try:
        steps = tuple(_steps(row.steps, fragments))
        if row.role == "client" and not row.ask:
            raise ValueError("a client has to be made to do something: ask says what")  # noqa: TRY301
    except (ValueError, TypeError) as error:
        raise BadCase(f"{dialect}/cases/{file}: {row.id}: {error}") from error
    fields = {name: getattr(row, name) for name in row.__struct_fields__ if name != "steps"}
    return Case(dialect=dialect, **{**fields, "steps": steps, "names": NAMES | row.names})


def _steps(rows: list[dict[str, object]], fragments: Mapping[str, list[dict[str, object]]]) -> Iterator[Step]:
    for row in rows:
        if "use" in row:
            name = row["use"]
            if len(row) != 1 or not isinstance(name, str) or name not in fragments:
                raise ValueError(f"{row}: use names a fragment, there are {', '.join(sorted(fragments))}")
            yield from _steps(fragments[name], fragments)
        else:
            yield _step(dict(row))


def _step(row: dict[str, object]) -> Step:
    on = str(row.pop("on", "a"))
    match row:
        case {"send": form, **rest} if not rest:
            return Send(on, _form(form))
        case {"expect": form, **rest} if rest.keys() <= {"within", "lenient"}:
            others = rest.get("lenient", [])
            return Expect(on, _form(form), _seconds(rest.get("within", WITHIN)), tuple(map(_form, _listed(others))))
        case {"silence": seconds, **rest} if not rest:
            return Silence(on, _seconds(seconds))
        case {"closed": seconds, **rest} if not rest:
            return Closed(on, _seconds(seconds))
        case {"pause": seconds, **rest} if not rest:
            return Pause(on, _seconds(seconds))
        case {"hangup": True, **rest} if not rest:
            return HangUp(on)
    raise ValueError(f"a step is send, expect, silence, closed, hangup, pause or use, not {row}")


def _form(value: object) -> Pattern:
    return pattern(msgspec.convert(value, str | dict[str, object] | list))


def _listed(value: object) -> list[Form]:
    return msgspec.convert(value, list)


def _seconds(value: object) -> float:
    return msgspec.convert(value, float)


def _sorting(id: str) -> list[tuple[int, str]]:
    """`CUR-2.10` behind `CUR-2.9`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in id.replace("-", ".").split(".")]
