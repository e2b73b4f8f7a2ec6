"""The scripts beside a dialect, `cases/*.toml`: what two ends say to each other, and what of it is judged.

A file holds tables `[[case]]`.  Their keys:

    id        never used for another one: `CUR-2.3.1`; the letters are the dialect's
    level     MUST, SHOULD or MAY
    name      a promise in one sentence
    source    where the rule is known from
    covers    statements of `statements*.toml` that it exercises
    role      who is judged: `server`, or `client`
    ask       of a client: what a person has to make it do
    do        of a client: the same for a driver, a table: the call's name under `call`, and its arguments; what it is
              to call after it is a list under `then`
    aside     of a client: kinds of requests that it may send at any time though the case is about them, too
    given     what has to be there before, commands as expressions (gateway.conformance.vectors); `{name}` is filled in
    needs     settings without which the listener cannot do it, as a listener has them; `{ any = [...] }` where one of
              several will do, the first of which says how its bytes are read; `login = true`: a server that lets in
              nobody but who it knows; one may log in as `{principal}` with `{secret}`
    names     name -> its text, each `?` in which becomes a letter or digit of the run's own; `topic`, `other` and
              `group` are there by themselves
    slow      it takes seconds; run with --slow only
    whole     it is not run in fragments as well
    alone     no other case is played meanwhile: it looks at what is everybody's, such as a list of all topics, twice
    steps     what happens, one after the other

A step is a table with one of these:

    send      a form (gateway.conformance.patterns) that the kit sends
    expect    a form that the judged end sends next, as one frame; `within` seconds, 2 by default
    again     beside expect, behind the send that it answers: true = that is sent once more, or a form = this is sent;
              what is said to it has to be the same to the byte, its blanks too
    shuffled  beside expect: true: this one and those next to it are on connections of their own, and who of them gets
              which of their forms is nobody's business
    lenient   beside expect: forms that are accepted, too, and are not canonical; beside closed: what may be said before
    silence   seconds in which the judged end sends nothing
    closed    seconds within which the judged end hangs up
    hangup    true: the kit hangs up
    finish    true: the kit sends no more, and still reads; of a server only
    pause     seconds in which nothing happens
    use       the name of a `[fragment.NAME]` with steps that several cases share

and `on`, the connection that is meant, "a" by default; it is made when it is first used.

A client is judged by what it sends of the kinds that its case awaits; everything else is answered as a gateway would
(gateway.conformance.hearings).  Its connections get their names in the order in which they first say what is awaited.
For it there is beside expect

    kind      what kind of request is awaited, a command's name; by default what the form is read as
    next      true: it is the next thing it says at all, but for what `aside` names
    after     seconds before which it must not come, counted from the step before

and beside silence `kinds`, those that are not to come, by default all that the case is about.  A request that says the
same as the form in other bytes is LENIENT by itself, so `lenient` is only for what means something else.

A table `[[unimplemented]]` has a form under `answer`: with such a frame a server says that it does not know a request.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from typing import Literal, TypeVar

import msgspec

from gateway.conformance.patterns import Form, Pattern, named, pattern
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
    kind: str = ""
    next: bool = False
    after: float = 0.0
    shuffled: bool = False


class Silence(msgspec.Struct, frozen=True, tag="silence"):
    """The judged end sends nothing for so many seconds; a client, nothing of these kinds."""

    on: str
    seconds: float
    kinds: tuple[str, ...] = ()


class Closed(msgspec.Struct, frozen=True, tag="closed"):
    """The judged end hangs up within so many seconds; before that it may say these."""

    on: str
    within: float
    lenient: tuple[Pattern, ...] = ()


class HangUp(msgspec.Struct, frozen=True, tag="hangup"):
    """The kit hangs up; half: it sends no more, and still reads."""

    on: str
    half: bool = False


class Pause(msgspec.Struct, frozen=True, tag="pause"):
    """Nothing happens for so many seconds; what comes meanwhile is kept for the next step."""

    on: str
    seconds: float


Step = Send | Expect | Silence | Closed | HangUp | Pause


class _Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says of a case beside its steps."""

    id: str
    level: Level
    name: str
    source: str
    role: Role
    covers: tuple[str, ...] = ()
    ask: str = ""
    do: dict[str, object] = {}
    aside: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    needs: dict[str, object] = {}
    names: dict[str, str] = {}
    slow: bool = False
    whole: bool = False
    alone: bool = False


class Case(_Said, frozen=True, kw_only=True):
    """One case, as the module's docstring describes it."""

    dialect: str
    steps: tuple[Step, ...]

    def lacks(self, settings: object) -> str:
        """The first need that is not met by the settings of a listener, for people; "" = they are as it needs them."""
        for name, wanted in self.needs.items():
            has = msgspec.json.encode(getattr(settings, name, None))
            if name != LOGIN and has not in map(msgspec.json.encode, _several(wanted)):
                return f"{name} = {' or '.join(map(repr, _several(wanted)))}"
        return ""

    @property
    def settings(self) -> dict[str, object]:
        """Those that its bytes are read by."""
        return {name: _several(wanted)[0] for name, wanted in self.needs.items() if name != LOGIN}


LOGIN = "login"
"""What is needed of a server, but is no setting of a listener."""


def _several(wanted: object) -> list[object]:
    match wanted:
        case {"any": [*several], **rest} if several and not rest:
            return several
    return [wanted]


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a dialect prescribes.  id: `CUR-S12`.  where: the section that says so."""

    id: str
    level: Level
    text: str
    where: str


# -- reading files


class _Row(_Said, frozen=True, kw_only=True, forbid_unknown_fields=True):
    steps: list[dict[str, object]]


class _Named(msgspec.Struct, frozen=True):
    """What may stand beside expect: all of a client, but for the last."""

    kind: str = ""
    next: bool = False
    after: float = 0.0
    shuffled: bool = False


class _Fragment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    steps: list[dict[str, object]]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    case: list[_Row] = []
    fragment: dict[str, _Fragment] = {}
    unimplemented: list[dict[str, object]] = []


class _Statements(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    statement: list[Statement] = []


STATEMENTS = "statements"
"""How the names of files with statements begin; all other files hold cases."""


def load(dialect: str) -> list[Case]:
    """Every case of a dialect, by id.  Raises BadCase for the first that cannot be read."""
    files = {name: _read(name, text, _File) for name, text in _texts(dialect).items() if not _states(name)}
    fragments = _fragments(dialect, files.values())
    cases = [_case(dialect, name, row, fragments) for name, file in files.items() for row in file.case]
    known = {statement.id for statement in statements(dialect)}
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise BadCase(f"{dialect}: two cases are called {case.id}")
        seen.add(case.id)
        if strangers := set(case.covers) - known:
            raise BadCase(
                f"{dialect}: {case.id} covers {', '.join(sorted(strangers))}, which {STATEMENTS}*.toml do not have"
            )
    return sorted(cases, key=lambda case: _sorting(case.id))


def parse(dialect: str, name: str, text: str) -> list[Case]:
    """The cases of one file that stands elsewhere.  Raises BadCase."""
    file = _read(name, text, _File)
    fragments = _fragments(dialect, [file])
    return [_case(dialect, name, row, fragments) for row in file.case]


def _fragments(dialect: str, files: Iterable[_File]) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = {}
    for name, fragment in (pair for file in files for pair in file.fragment.items()):
        if name in found:
            raise BadCase(f"{dialect}: two fragments are called {name!r}")
        found[name] = fragment.steps
    return found


def statements(dialect: str) -> list[Statement]:
    """What a dialect prescribes.  Raises BadCase."""
    files = [_read(name, text, _Statements) for name, text in _texts(dialect).items() if _states(name)]
    return [statement for file in files for statement in file.statement]


def unimplemented(dialect: str) -> list[Pattern]:
    """What a server of the dialect says to a request that it does not know.  Raises BadCase."""
    files = [_read(name, text, _File) for name, text in _texts(dialect).items() if not _states(name)]
    return [_form(row["answer"]) for file in files for row in file.unimplemented]


def _states(name: str) -> bool:
    return name.startswith(STATEMENTS)


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
        if row.role == "client" and any("again" in step for step in row.steps):
            raise ValueError("a client is not asked, so not again")  # noqa: TRY301
        if row.role == "client" and any(isinstance(step, HangUp) and step.half for step in steps):
            raise ValueError("finish is for the cases of a server")  # noqa: TRY301
    except (ValueError, TypeError) as error:
        raise BadCase(f"{dialect}/cases/{file}: {row.id}: {error}") from error
    fields = {name: getattr(row, name) for name in row.__struct_fields__ if name != "steps"}
    return Case(dialect=dialect, **{**fields, "steps": steps, "names": NAMES | row.names})


def _steps(
    rows: list[dict[str, object]], fragments: Mapping[str, list[dict[str, object]]], within: str = "again"
) -> Iterator[Step]:
    """within: the fragment, so that what is kept in one has a name of its own."""
    before: Step | None = None
    for number, row in enumerate(rows):
        if "use" in row:
            name = row["use"]
            if len(row) != 1 or not isinstance(name, str) or name not in fragments:
                raise ValueError(f"{row}: use names a fragment, there are {', '.join(sorted(fragments))}")
            yield from _steps(fragments[name], fragments, f"{within}_{number}")
        elif again := row.get("again"):
            yield from _twice(row, before, again, prefix=f"{within}_{number}_")
        else:
            before = _step(dict(row))
            yield before


def _twice(row: dict[str, object], before: Step | None, again: object, prefix: str) -> Iterator[Step]:
    """An answer, what is asked next, and the same answer."""
    step = _step({key: value for key, value in row.items() if key != "again"})
    if not isinstance(step, Expect) or not isinstance(before, Send) or step.on != before.on:
        raise ValueError(f"{row}: again stands beside an expect behind its send")  # of a file
    lenient = tuple(named(form, f"{prefix}or_{at}_") for at, form in enumerate(step.lenient))
    step = msgspec.structs.replace(step, form=named(step.form, prefix), lenient=lenient)
    yield from (step, before if again is True else Send(step.on, _form(again)), step)


def _step(row: dict[str, object]) -> Step:
    on = str(row.pop("on", "a"))
    match row:
        case {"send": form, **rest} if not rest:
            return Send(on, _form(form))
        case {"expect": form, **rest} if rest.keys() <= {"within", "lenient", "kind", "next", "after", "shuffled"}:
            others = tuple(map(_form, _listed(rest.pop("lenient", []))))
            within = _seconds(rest.pop("within", WITHIN))
            named = msgspec.convert(rest, _Named)
            return Expect(on, _form(form), within, others, named.kind, named.next, named.after, named.shuffled)
        case {"silence": seconds, **rest} if rest.keys() <= {"kinds"}:
            return Silence(on, _seconds(seconds), msgspec.convert(rest.get("kinds", []), tuple[str, ...]))
        case {"closed": seconds, **rest} if rest.keys() <= {"lenient"}:
            return Closed(on, _seconds(seconds), tuple(map(_form, _listed(rest.get("lenient", [])))))
        case {"pause": seconds, **rest} if not rest:
            return Pause(on, _seconds(seconds))
        case {"hangup": True, **rest} if not rest:
            return HangUp(on)
        case {"finish": True, **rest} if not rest:
            return HangUp(on, half=True)
    raise ValueError(f"a step is send, expect, silence, closed, hangup, finish, pause or use, not {row}")


def _form(value: object) -> Pattern:
    return pattern(msgspec.convert(value, str | dict[str, object] | list))


def _listed(value: object) -> list[Form]:
    return msgspec.convert(value, list)


def _seconds(value: object) -> float:
    return msgspec.convert(value, float)


def _sorting(id: str) -> list[tuple[int, str]]:
    """`CUR-2.10` behind `CUR-2.9`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in id.replace("-", ".").split(".")]
