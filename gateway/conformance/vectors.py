"""The cases beside a dialect, `vectors/*.toml`: what they say, and what of one does not hold.

A case is bytes and what they mean, written down without our codecs.  Its keys:

    name       a promise in one sentence, unique in the dialect
    source     where the bytes are known from
    when       request frames: hex, { text = "utf-8" } or { frame = "utf-8 after its u32be length" }, or a list of these
    then       reply frames, the same forms; absent = not compared, "" = the dialect says nothing
    command    what `when` means, an expression; a list of them where `when` has several frames
    outcome    how the command ended, an expression; a list likewise
    refusal    instead of both: the Fault for which decode_request refuses each frame; `then` is what the peer is told
    closing    with refusal: the connection ends
    exact      our client makes just that failure of `then`: its facts as well, and its detail if the outcome has one
    roles      which halves of the dialect can do it, default both: ["server", "client"]
    tag        the peer's correlation value, compared as text
    settings   fields of the dialect's Settings
    advertise  what the node says of itself, default "localhost:9000"

Hex may be broken into lines and hold `#` comments.  What an expression may hold: see `expressions.evaluate`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from itertools import takewhile
from typing import Literal

import msgspec

from gateway.conformance.expressions import evaluate, member
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding
from gateway.dialects import Dialect, Refusal, Request, Terms
from gateway.dialects.frames import Measure

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
    exact: bool
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
    exact: bool = False
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
                refusal=None if fields.refusal is None else member(Fault, fields.refusal),
                closing=fields.closing,
                exact=fields.exact,
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
    refusals = [each for each in asked if isinstance(each, Refusal)]
    if not asked or len(refusals) < len(asked):
        yield f"not refused: {asked}"
        return
    for number, refusal in enumerate(refusals, 1):
        if refusal.failure.fault is not case.refusal:
            yield f"frame {number} is refused with {refusal.failure}"
        if refusal.closing is not case.closing:
            yield f"closing is {refusal.closing}"
        if case.tag is not None and str(refusal.tag) != case.tag:
            yield f"tag is {refusal.tag!r}"
    if case.then is not None:
        told = b"".join(dialect.encode_reply(refusal, refusal.failure, terms) for refusal in refusals)
        yield from _different("then", told, case.then)


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
        yield from _unlike(dialect, case, _decoded(dialect, request, frame, terms), outcome)


def _decoded(dialect: Dialect, request: Request, frame: bytes, terms: Terms) -> object:
    try:
        return dialect.decode_reply(request, frame, terms)
    except CommandFailed as failure:
        return failure


def _unlike(dialect: Dialect, case: Case, got: object, wanted: object) -> Iterator[str]:
    if isinstance(got, CommandFailed) and isinstance(wanted, CommandFailed):
        if dialect.faults[got.fault] != dialect.faults[wanted.fault]:
            yield f"then says {got}, not {wanted}"
        elif case.exact:
            yield from _unequal("failure", [_all_of(got, wanted)], [_all_of(wanted, wanted)])
    else:
        yield from _unequal("outcome", [got], [wanted])


def _all_of(failure: CommandFailed, wanted: CommandFailed) -> tuple[object, ...]:
    return failure.fault, dict(failure.facts), failure.detail if wanted.detail else ""


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
