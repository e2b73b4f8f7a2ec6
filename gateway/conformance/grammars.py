"""What the fuzz stage knows of a dialect: its specification, valid requests to begin with, and how it is spoken to.

The specifications are loaded here and nowhere else outside the tests.  They are of listeners as they come.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from gateway.conformance import cases as scripts
from gateway.conformance import vectors
from gateway.conformance.cases import Send
from gateway.conformance.patterns import Form, Pattern, fill, pattern
from gateway.core.commands import Authenticate
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import registry
from gateway.dialects import Dialect, Refusal, Request, Settings, Terms
from gateway.dialects.frames import FrameBuffer
from gateway.dialects.iggy.said import IggyTerms, asked_in
from gateway.dialects.iggy.session import NO_LENGTH

Names = Mapping[str, bytes]

REFUSED = Refusal(CommandFailed(Fault.MALFORMED, "no request"))


class Probe(msgspec.Struct, frozen=True):
    """A question whose answer is known to the byte, whatever was asked before it.  tag: of a tagged dialect."""

    ask: Form
    answer: Form
    tag: int | None = None


PROBES: Mapping[str, Probe] = {
    # protocol page, sections 1 and 2
    "cursus": Probe(
        {"frame": "METADATA topic={topic}"}, {"frame": "ERROR: topic_not_found {class:rest}topic={topic}{more:rest}"}
    ),
    # protocol page, section 1
    "pipe": Probe({"text": "V1|{topic}|OFFSET|{group} {topic} 0\n"}, {"text": "V1|{topic}|OK|offset=0\n"}),
    # protocol page, section 6: PING, the same in every generation
    "iggy": Probe("04000000 01000000", "00000000 00000000"),
    # protocol page, section 3: PING, which comes back with its value
    "grid": Probe(
        "dc 71 7fee1dea 00000008 00 0000 00 00 02 {topic}",
        "dc 80 7fee1dea 00000008 00 0000 00 00 02 {topic}",
        0x7FEE1DEA,
    ),
    # protocol page, sections 1 and 2: who leads what does not exist
    "mlog": Probe(
        ["0015", {"size": "u32be", "of": {"text": '{"Topic":"{topic}"}'}}],
        ["0014", {"size": "u32be", "of": {"text": '{"code":3,"message":"{why:rest}{topic}{more:rest}"}'}}],
    ),
}

Order = Literal["big", "little"]
LENGTHS: Mapping[str, tuple[int, Order, int]] = {
    "cursus": (0, "big", 4),
    "iggy": (0, "little", 4),
    "mlog": (2, "big", 6),
    "grid": (6, "big", 16),
}
"""Where the length of a frame stands, u32, its order, and where the bytes begin that it counts."""

LINES = frozenset({"pipe"})
"""Dialects whose frames are lines; the last one may end with the stream."""

LEGIBLE_TO_ITS_GRAMMAR = frozenset({"namespace", "advertise", "policy", "generation", "partitions"})
"""Settings that change nothing of what is a request, or that the specification is told."""


class Grammar:
    """One dialect, as it is fuzzed.

    seeds: valid requests, the shortest first.
    """

    def __init__(self, dialect: Dialect, settings: Settings, login: Authenticate | None = None) -> None:
        self.dialect = dialect
        self.settings = settings
        self.probe = PROBES[dialect.name]
        self._login = login
        self._encodings = registry(dialect.encodings)
        self._parse: Callable[..., object] = importlib.import_module(
            f"gateway.dialects.{dialect.name}.spec"
        ).parse_request
        self._foreign = bool(self.told().keys() - LEGIBLE_TO_ITS_GRAMMAR)
        self.seeds = sorted(set(self._valid()), key=lambda frame: (len(frame), frame))

    def told(self) -> dict[str, object]:
        """Settings that are not as they come."""
        usual, names = self.dialect.settings(), self.settings.__struct_fields__
        return {name: said for name in names if (said := getattr(self.settings, name)) != getattr(usual, name)}

    # -- the two ends

    def terms(self) -> Terms:
        """Of a new connection."""
        return self.dialect.open(self.settings, self._encodings).terms("")

    def greeting(self, terms: Terms) -> tuple[Request, bytes] | None:
        """What is said first on a connection, and as what; the answer to it has to be a success."""
        if self._login is None:
            return None
        request = Request(self._login)
        try:
            return request, self.dialect.encode_request(request, terms)
        except CommandFailed:  # there is no login in that generation
            return None

    def greeted(self) -> Terms:
        """Terms as they are behind a greeting."""
        terms = self.terms()
        greeting = self.greeting(terms)
        if greeting is not None and isinstance(terms, IggyTerms):
            terms.agree(asked_in(greeting[0], terms))
        return terms

    # -- what is a request

    def parse(self, frame: bytes, terms: Terms) -> object | None:
        """What the specification reads, None = it is no request."""
        if isinstance(terms, IggyTerms):
            return self._parse(frame, terms.candidates[0].name)
        return self._parse(frame)

    def refuses(self, frame: bytes, said: Request | Refusal, terms: Terms) -> bool:
        """Whether it is no request."""
        return self.parse(frame, terms) is None and (not self._foreign or isinstance(said, Refusal))

    def framed(self, octets: bytes) -> tuple[list[bytes], bytes]:
        """Whole frames, and what is left of it: a part of one, or one that is too long."""
        buffer = FrameBuffer(self.dialect.measure_request, self.settings.max_frame or self.dialect.max_frame)
        frames, _ = buffer.feed(octets)
        return frames, octets[sum(map(len, frames)) :]

    def at_its_end(self, rest: bytes) -> bytes:
        """A frame as it is read when nothing follows it: the last line may lack its end."""
        return rest + b"\n" if self.dialect.name in LINES and not rest.endswith(b"\n") else rest

    def heard(self, said: Request | Refusal, terms: Terms) -> None:
        """A server has read that: what follows may mean something else."""
        if isinstance(terms, IggyTerms) and isinstance(said, Request):
            terms.heard(said.context)

    def foreign(self, octets: bytes) -> bool:
        """Whether a connection that begins so speaks what a server of the dialect may know to be another protocol."""
        return self.dialect.name == "iggy" and octets.startswith(NO_LENGTH)

    def mended(self, octets: bytes) -> bytes:
        """As one frame: its length is right, or its line ends where it ends."""
        if self.dialect.name in LINES:
            return octets.replace(b"\n", b"") + b"\n"
        at, order, begin = LENGTHS[self.dialect.name]
        if len(octets) < begin:
            return octets
        return octets[:at] + (len(octets) - begin).to_bytes(4, order) + octets[at + 4 :]

    # -- what there is to begin with

    def _valid(self) -> Iterable[bytes]:
        terms = self.greeted()
        for octets in self._known():
            for frame in self.framed(octets)[0]:
                if isinstance(self.dialect.decode_request(frame, self.greeted()), Request) and self.parse(frame, terms):
                    yield frame

    def _known(self) -> Iterable[bytes]:
        """Requests of the vectors and of the cases of servers."""
        yield from (vector.when for vector in vectors.load(self.dialect.name))
        for case in scripts.load(self.dialect.name):
            names = {name: text.replace("?", "0").encode() for name, text in case.names.items()}
            if case.role == "server":
                yield from _sent([step.form for step in case.steps if isinstance(step, Send)], names)

    # -- what is answered, as cases say it

    def any_answer(self, frame: bytes, number: int = 0) -> Form:
        """What answers a request of the dialect, whatever it says.  number: of the step: a blank is known once."""
        match self.dialect.name:
            case "cursus":
                return {"size": "u32be", "of": {"text": f"{{answer{number}:rest}}"}}
            case "pipe":
                return {"text": f"V1|{{corr{number}:rest}}|{{answer{number}:rest}}\n"}
            case "iggy":
                return ["..*4", {"size": "u32le", "of": {"text": f"{{answer{number}:rest}}"}}]
            case "grid":
                return [f"dc .. {frame[2:6].hex()} ..*10", {"text": f"{{answer{number}:rest}}"}]
            case _:
                return ["..*2", {"size": "u32be", "of": {"text": f"{{answer{number}:rest}}"}}]

    def refusal(self, said: Request | Refusal, terms: Terms, number: int = 0) -> Form:
        """What answers what is no request.  Its code is that of the dialect's table; its words are not looked at."""
        refusal = said if isinstance(said, Refusal) else msgspec.structs.replace(REFUSED, tag=said.tag)
        octets = self.dialect.encode_reply(refusal, refusal.failure, terms)
        match self.dialect.name:
            case "cursus":
                return {"size": "u32be", "of": {"text": f"ERROR: {{why{number}:rest}}"}}
            case "pipe":
                return {"text": f"V1|{{corr{number}:rest}}|ERR|{{why{number}:rest}}\n"}
            case "iggy":
                return [octets[:4].hex(), {"size": "u32le", "of": {"text": f"{{why{number}:rest}}"}}]
            case "grid":
                return [f"{octets[:6].hex()} ..*4 {octets[10:16].hex()}", {"text": f"{{why{number}:rest}}"}]
            case _:
                return [octets[:2].hex(), {"size": "u32be", "of": {"text": f"{{why{number}:rest}}"}}]


def _sent(forms: Sequence[Pattern], names: Names) -> Iterable[bytes]:
    """What can be sent without an answer having been heard."""
    for form in forms:
        try:
            yield b"".join(fill(form, names))
        except ValueError:
            continue


def filled(form: Form, names: Names) -> bytes:
    """The bytes of a form without blanks."""
    return b"".join(fill(pattern(form), names))
