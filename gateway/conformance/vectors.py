"""The cases beside a dialect, `vectors/*.toml`: what they say, and what of one does not hold.

A case is bytes and what they mean, written down without our codecs.  Its keys:

    name       a promise in one sentence, unique in the dialect
    source     where the bytes are known from
    when       request frames: hex, { text = "utf-8" } or { frame = "utf-8 after its u32be length" }, or a list of these
    then       reply frames, the same forms; absent = not compared, "" = the dialect says nothing
    command    what `when` means, an expression; a list of them where `when` has several frames
    outcome    how the command ended, an expression; a list likewise
    refusal    instead of both: the Fault for which decode_request refuses the frame; `then` is what the peer is told
    closing    with refusal: the connection ends
    roles      which halves of the dialect can do it, default both: ["server", "client"]
    tag        the peer's correlation value, compared as text
    settings   fields of the dialect's Settings
    advertise  what the node says of itself, default "localhost:9000"

Hex may be broken into lines and hold `#` comments.  An expression is a Python literal or constructor call and is read
with `ast`, never run: see `evaluate`.
"""

from __future__ import annotations

import ast
import enum
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from itertools import takewhile
from typing import Literal, TypeVar

import msgspec

from gateway.core import commands, faults, records, replies
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding
from gateway.dialects import Dialect, Refusal, Request, Terms
from gateway.dialects.frames import Measure

E = TypeVar("E", bound=enum.Enum)
Role = Literal["server", "client"]
Form = str | dict[str, str] | list[str | dict[str, str]]


class BadCase(ValueError):
    """A case that cannot be read.  The text names the file and the case, and the column where it is an expression."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One case as the module's docstring describes it; expressions are kept as they were written."""

    file: str
    name: str
    source: str
    when: bytes
    then: bytes | None
    command: str | None
    outcome: str | None
    refusal: Fault | None
    closing: bool
    roles: tuple[Role, ...]
    tag: str | None
    settings: dict[str, object]
    advertise: str

    def commands(self, encodings: Mapping[str, Encoding]) -> list[object]:
        """What each request frame means.  Raises BadCase."""
        return self._evaluated("command", self.command, encodings)

    def outcomes(self, encodings: Mapping[str, Encoding]) -> list[object]:
        """How each request ended; empty if the case does not say.  Raises BadCase."""
        return self._evaluated("outcome", self.outcome, encodings)

    def _evaluated(self, key: str, text: str | None, encodings: Mapping[str, Encoding]) -> list[object]:
        if text is None:
            return []
        try:
            value = evaluate(text, encodings)
        except ValueError as error:
            raise BadCase(f"{self.file}: {self.name}: {key}: {error}") from error
        return value if isinstance(value, list) else [value]


# -- reading files


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A case as TOML has it."""

    name: str
    source: str
    when: Form
    then: Form | None = None
    command: str | None = None
    outcome: str | None = None
    refusal: str | None = None
    closing: bool = False
    roles: tuple[Role, ...] = ("server", "client")
    tag: int | str | None = None
    settings: dict[str, object] = {}
    advertise: str = "localhost:9000"


def load(name: str) -> list[Case]:
    """Every case of the dialect of that name, by file.  Raises BadCase for the first that cannot be read."""
    folder = resources.files(f"gateway.dialects.{name}").joinpath("vectors")
    if not folder.is_dir():
        return []
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    cases = [case for file in files for case in parse(f"{name}/vectors/{file.name}", file.read_text("utf-8"))]
    seen: dict[str, str] = {}
    for case in cases:
        if case.name in seen:
            raise BadCase(f"{case.file}: {case.name}: {seen[case.name]} has a case of that name")
        seen[case.name] = case.file
    return cases


def parse(file: str, text: str) -> list[Case]:
    """The cases of one file; `file` is what errors call it.  Raises BadCase."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadCase(f"{file}: {error}") from error
    if set(document) - {"case"}:
        raise BadCase(f"{file}: nothing but [[case]] belongs here, there is {sorted(set(document) - {'case'})}")
    rows = document.get("case", [])
    if not isinstance(rows, list):
        raise BadCase(f"{file}: case is a list of tables, [[case]]")
    return [_case(file, number, row) for number, row in enumerate(rows, 1)]


def _case(file: str, number: int, row: dict[str, object]) -> Case:
    where = f"{file}: {row.get('name', f'case {number}')}"
    try:
        fields = msgspec.convert(row, _Row)
        return _checked(
            Case(
                file=file,
                name=fields.name,
                source=fields.source,
                when=_octets(fields.when),
                then=None if fields.then is None else _octets(fields.then),
                command=fields.command,
                outcome=fields.outcome,
                refusal=None if fields.refusal is None else _member(Fault, fields.refusal),
                closing=fields.closing,
                roles=fields.roles,
                tag=None if fields.tag is None else str(fields.tag),
                settings=fields.settings,
                advertise=fields.advertise,
            )
        )
    except ValueError as error:  # msgspec.ValidationError is one
        raise BadCase(f"{where}: {error}") from error


def _checked(case: Case) -> Case:
    if not case.name or not case.source:
        raise ValueError("name and source cannot be empty")
    if not case.roles:
        raise ValueError("roles names nobody")
    if (case.command is None) == (case.refusal is None):
        raise ValueError("one of command and refusal is needed, and only one")
    if case.refusal is not None and case.outcome is not None:
        raise ValueError("a refusal has no outcome")
    if case.closing and case.refusal is None:
        raise ValueError("closing says something of a refusal, there is none")
    if case.command is not None and case.then is not None and case.outcome is None:
        raise ValueError("then needs an outcome that it answers")
    return case


def _octets(form: Form) -> bytes:
    if isinstance(form, list):
        return b"".join(_octets(part) for part in form)
    if isinstance(form, str):
        return bytes.fromhex(" ".join(line.split("#")[0] for line in form.splitlines()))
    match form:
        case {"text": text, **rest} if not rest:
            return text.encode()
        case {"frame": text, **rest} if not rest:
            body = text.encode()
            return len(body).to_bytes(4, "big") + body
    raise ValueError(f"bytes are hex, {{ text = }} or {{ frame = }}, not {form}")


# -- expressions


class _Placed(ValueError):
    """What is wrong with an expression, the column named."""


def evaluate(text: str, encodings: Mapping[str, Encoding]) -> object:
    """The value that an expression stands for.

    It may hold literals, tuples, lists, dicts, negative numbers, members of the enumerations of core (`Fault.BUSY`),
    calls of the Structs of core.commands, replies and records, of CommandFailed and of `canonical`, `hex("00 ff")` for
    bytes and `encoding("msgpack.v1")` for one of `encodings`.  Raises ValueError, naming the column (from 1), for
    anything else.
    """
    try:
        return _value(ast.parse(text.replace("\n", " ").strip(), mode="eval").body, encodings)
    except SyntaxError as error:
        raise ValueError(f"column {error.offset}: {error.msg}") from error


def _value(node: ast.expr, encodings: Mapping[str, Encoding]) -> object:
    try:
        return _read(node, encodings)
    except _Placed:
        raise
    except (TypeError, ValueError) as error:
        raise _Placed(f"column {node.col_offset + 1}: {error}") from error


def _read(node: ast.expr, encodings: Mapping[str, Encoding]) -> object:
    match node:
        case ast.Constant(value=None | bool() | int() | float() | str() | bytes() as value):
            return value
        case ast.Tuple(elts=elements):
            return tuple(_value(element, encodings) for element in elements)
        case ast.List(elts=elements):
            return [_value(element, encodings) for element in elements]
        case ast.Dict(keys=keys, values=values) if None not in keys:
            pairs = zip(keys, values, strict=True)
            return {_value(key, encodings): _value(value, encodings) for key, value in pairs if key}
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Attribute(value=ast.Name(id=name), attr=member) if name in _ENUMS:
            return _member(_ENUMS[name], member)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            named = {keyword.arg: _value(keyword.value, encodings) for keyword in keywords if keyword.arg}
            if len(named) == len(keywords):
                return _made(name, [_value(arg, encodings) for arg in args], named, encodings)
    raise ValueError(f"{ast.unparse(node)} is not allowed here")


def _made(name: str, args: list[object], named: dict[str, object], encodings: Mapping[str, Encoding]) -> object:
    match name, args:
        case "hex", [str(text)] if not named:
            return bytes.fromhex(text)
        case "encoding", [str(text)] if not named:
            if text not in encodings:
                raise ValueError(f"there is no record encoding {text!r}, only {', '.join(sorted(encodings))}")
            return encodings[text]
    if name not in _CALLS:
        raise ValueError(f"{name}() is not known here")
    made: object = _CALLS[name](*args, **named)
    return made


def _member(members: type[E], name: str) -> E:
    if name not in members.__members__:
        raise ValueError(f"there is no {members.__name__}.{name}")
    return members[name]


_NAMED = [item for module in (commands, replies, records, faults) for item in vars(module).items()]
_ENUMS = {name: value for name, value in _NAMED if isinstance(value, type) and issubclass(value, enum.Enum)}
_CALLS = {
    name: value
    for name, value in _NAMED
    if name == "canonical" or (isinstance(value, type) and issubclass(value, msgspec.Struct | CommandFailed))
}


# -- judging


def check(dialect: Dialect, case: Case, encodings: Mapping[str, Encoding]) -> list[str]:
    """What of the case does not hold, a sentence each with the file and the case; empty = all is well.  Never raises.

    As a server: the frames decode to the command (or the refusal), and the outcome encodes to `then`.  As a client:
    the decoded request encodes to `when`, and `then` decodes to the outcome; failures are equal if their codes are.
    """
    found: list[str] = []
    try:
        settings = msgspec.convert(case.settings, dialect.settings)
        terms = dialect.open(settings, encodings).terms(case.advertise)
        found += _found(dialect, case, encodings, terms)
    except BadCase as error:
        return [str(error)]
    except Exception as error:  # whatever a codec raises is a finding about this case, not the end of the run
        found.append(f"raised {error!r}")
    return [f"{case.file}: {case.name}: {complaint}" for complaint in found]


def _found(dialect: Dialect, case: Case, encodings: Mapping[str, Encoding], terms: Terms) -> Iterator[str]:
    frames = _frames(case, "when", dialect.measure_request, case.when)
    asked = [dialect.decode_request(frame, terms) for frame in frames]
    if case.refusal is not None:
        yield from _refused(dialect, case, asked, terms)
        return
    requests = [request for request in asked if isinstance(request, Request)]
    if len(requests) < len(asked):
        yield from (f"refused: {refusal.failure}" for refusal in asked if isinstance(refusal, Refusal))
        return
    yield from _unequal("command", [request.command for request in requests], case.commands(encodings))
    if case.tag is not None:
        yield from (f"tag is {request.tag!r}" for request in requests if str(request.tag) != case.tag)
    if "server" in case.roles:
        yield from _served(dialect, case, requests, case.outcomes(encodings), terms)
    if "client" in case.roles:
        yield from _asked(dialect, case, requests, case.outcomes(encodings), terms)


def _refused(dialect: Dialect, case: Case, asked: Sequence[Request | Refusal], terms: Terms) -> Iterator[str]:
    if len(asked) != 1 or not isinstance(asked[0], Refusal):
        yield f"not refused: {asked}"
        return
    refusal = asked[0]
    if refusal.failure.fault is not case.refusal:
        yield f"refused with {refusal.failure}"
    if refusal.closing is not case.closing:
        yield f"closing is {refusal.closing}"
    if case.tag is not None and str(refusal.tag) != case.tag:
        yield f"tag is {refusal.tag!r}"
    if case.then is not None:
        yield from _different("then", dialect.encode_reply(refusal, refusal.failure, terms), case.then)


def _served(
    dialect: Dialect, case: Case, requests: Sequence[Request], outcomes: Sequence[object], terms: Terms
) -> Iterator[str]:
    if case.then is None:
        return
    if len(outcomes) != len(requests):
        yield f"{len(requests)} requests, {len(outcomes)} outcomes"
        return
    yield from _different("then", b"".join(map(_replier(dialect, terms), requests, outcomes)), case.then)


def _replier(dialect: Dialect, terms: Terms) -> Callable[[Request, object], bytes]:
    def reply(request: Request, outcome: object) -> bytes:
        """As ServerSession.answer does: what the wire cannot carry is answered as that failure."""
        try:
            return dialect.encode_reply(request, outcome, terms)  # type: ignore[arg-type]  # as the case has it
        except CommandFailed as failure:
            return dialect.encode_reply(request, failure, terms)

    return reply


def _asked(
    dialect: Dialect, case: Case, requests: Sequence[Request], outcomes: Sequence[object], terms: Terms
) -> Iterator[str]:
    sent = b"".join(dialect.encode_request(request, terms) for request in requests)
    yield from _different("when, as our client sends it,", sent, case.when)
    if not case.then:
        return
    frames = _frames(case, "then", dialect.measure_reply, case.then)
    if not len(frames) == len(outcomes) == len(requests):
        yield f"{len(requests)} requests, {len(frames)} reply frames, {len(outcomes)} outcomes"
        return
    for request, frame, outcome in zip(requests, frames, outcomes, strict=True):
        yield from _unlike(dialect, _decoded(dialect, request, frame, terms), outcome)


def _decoded(dialect: Dialect, request: Request, frame: bytes, terms: Terms) -> object:
    try:
        return dialect.decode_reply(request, frame, terms)
    except CommandFailed as failure:
        return failure


def _unlike(dialect: Dialect, got: object, wanted: object) -> Iterator[str]:
    if isinstance(got, CommandFailed) and isinstance(wanted, CommandFailed):
        if dialect.faults[got.fault] != dialect.faults[wanted.fault]:
            yield f"then says {got}, not {wanted}"
    else:
        yield from _unequal("outcome", [got], [wanted])


def _frames(case: Case, key: str, measure: Measure, octets: bytes) -> list[bytes]:
    frames: list[bytes] = []
    start = 0
    while start < len(octets):
        size = measure(octets, start, 0)
        if not 0 < size <= len(octets) - start:
            where = f"{case.file}: {case.name}: {key}"
            raise BadCase(f"{where}: the frame at byte {start} is not whole: {_shown(octets[start:])}")
        frames.append(octets[start : start + size])
        start += size
    return frames


def _unequal(what: str, got: Sequence[object], wanted: Sequence[object]) -> Iterator[str]:
    if list(got) != list(wanted):
        yield f"{what} is {', '.join(map(repr, got))}, not {', '.join(map(repr, wanted))}"


def _different(what: str, got: bytes, wanted: bytes) -> Iterator[str]:
    if got != wanted:
        at = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(got, wanted, strict=False)))
        yield f"{what} differs from byte {at} on: {_shown(got)}, not {_shown(wanted)}"


def _shown(octets: bytes) -> str:
    return repr(octets.decode()) if octets.isascii() and octets.strip().decode().isprintable() else octets.hex(" ", -4)
