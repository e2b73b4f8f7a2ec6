"""What crossed a connection, frame by frame, and what each frame means."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gateway.conformance.cases import Role
from gateway.conformance.playing import Crossing
from gateway.core.commands import Authenticate, Ping
from gateway.core.faults import CommandFailed
from gateway.core.records import Encoding, RecordBatch, registry
from gateway.dialects import Dialect, Refusal, Request, Settings
from gateway.dialects.frames import FrameBuffer

MOST = 64
"""Parts of one list that are shown."""


class Tree(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value and its parts, for people."""

    name: str
    says: str = ""
    parts: tuple[Tree, ...] = ()


class Shown(msgspec.Struct, frozen=True, omit_defaults=True):
    """A frame, or what became of a connection.

    at:   seconds since the case began.  step: number of the step, from 0.
    what: as in Crossing.  octets: hex.  means: None = it is no frame, or cannot be read.
    """

    at: float
    on: str
    what: str
    step: int
    octets: str = ""
    means: Tree | None = None


class Talk:
    """One case's connections, read again with both halves of the dialect.  role: who was judged."""

    def __init__(self, dialect: Dialect, settings: Settings, role: Role) -> None:
        self._dialect = dialect
        self._listener = dialect.open(settings, registry(dialect.encodings))
        self._asks = "sent" if role == "server" else "got"
        self._ends: dict[str, _End] = {}

    def shown(self, crossings: Iterable[Crossing]) -> Iterator[Shown]:
        """Frame by frame; what is no whole one comes behind the others."""
        last: dict[str, Crossing] = {}
        for crossing in crossings:
            last[crossing.on] = crossing
            if not crossing.octets:
                yield Shown(crossing.at, crossing.on, crossing.what, crossing.step)
                continue
            end = self._end(crossing.on)
            asks = crossing.what == self._asks
            frames, _ = (end.requests if asks else end.answers).feed(crossing.octets)
            for frame in frames:
                yield Shown(
                    crossing.at,
                    crossing.on,
                    crossing.what,
                    crossing.step,
                    frame.hex(" "),
                    end.asked(frame) if asks else end.answered(frame),
                )
        for on, end in self._ends.items():
            for asks, buffer in ((True, end.requests), (False, end.answers)):
                if rest := buffer.rest():
                    what = self._asks if asks else ("got" if self._asks == "sent" else "sent")
                    said = Tree("no whole frame", f"{len(rest)} bytes")
                    yield Shown(last[on].at, on, what, last[on].step, rest.hex(" "), said)

    def _end(self, on: str) -> _End:
        if on not in self._ends:
            self._ends[on] = _End(self._dialect, self._listener.terms("127.0.0.1:0"))
        return self._ends[on]


class _End:
    """One connection."""

    def __init__(self, dialect: Dialect, terms: object) -> None:
        self._dialect = dialect
        self._terms = terms
        self._open: deque[Request | Refusal] = deque()
        self._tagged: dict[object, Request | Refusal] = {}
        self.requests = FrameBuffer(dialect.measure_request, 1 << 31)
        self.answers = FrameBuffer(dialect.measure_reply, 1 << 31)

    def asked(self, frame: bytes) -> Tree | None:
        """What a request means."""
        try:
            request = self._dialect.decode_request(frame, self._terms)  # type: ignore[arg-type]  # the dialect's own
        except Exception as error:  # the frame may be anything
            return Tree("no request", str(error))
        self._open.append(request)
        self._tagged[request.tag] = request
        return tree("", request.command if isinstance(request, Request) else request.failure)

    def answered(self, frame: bytes) -> Tree | None:
        """What an answer means."""
        request = self._request(frame)
        asked = request if isinstance(request, Request) else Request(Ping(), None if request is None else request.tag)
        try:
            return tree("", self._dialect.decode_reply(asked, frame, self._terms))  # type: ignore[arg-type]
        except CommandFailed as failure:
            return Tree("no answer to that", failure.detail)
        except Exception as error:  # the same
            return Tree("no answer", str(error))

    def _request(self, frame: bytes) -> Request | Refusal | None:
        if self._dialect.reply_tag is None:
            return self._open.popleft() if self._open else None
        return self._tagged.get(self._dialect.reply_tag(frame))


def tree(name: str, value: object) -> Tree:
    """Any value of the model."""
    match value:
        case Authenticate():
            return Tree(name or "Authenticate", f"{value.mechanism}, {value.principal}")
        case CommandFailed():
            return Tree(name or value.fault.name, value.detail or value.fault.value)
        case Encoding():
            return Tree(name, value.name)
        case enum.Enum():
            return Tree(name, value.name)
        case RecordBatch():
            return Tree(name, f"{value.count} records, {value.encoding.name}", _records(value))
        case msgspec.Struct():
            kind = type(value).__name__
            parts = tuple(tree(each, getattr(value, each)) for each in value.__struct_fields__ if _says(value, each))
            return Tree(name or kind, kind if name else "", parts)
        case Mapping():
            return Tree(name, f"{len(value)}", tuple(tree(str(key), each) for key, each in list(value.items())[:MOST]))
        case tuple() | list():
            return Tree(name, f"{len(value)}", tuple(tree(f"[{at}]", each) for at, each in enumerate(value[:MOST])))
        case bytes():
            return Tree(name, repr(value[:256])[1:] + (f" of {len(value)} bytes" if len(value) > 256 else ""))
    return Tree(name, repr(value))


def _says(value: msgspec.Struct, field: str) -> bool:
    """Whether a field is other than it is by itself."""
    kind = type(value)
    at = kind.__struct_fields__.index(field) - len(kind.__struct_fields__) + len(kind.__struct_defaults__)
    return at < 0 or getattr(value, field) != kind.__struct_defaults__[at]


def _records(batch: RecordBatch) -> tuple[Tree, ...]:
    try:
        return tuple(tree(f"[{at}]", record) for at, record in enumerate(batch.records()[:MOST]))
    except CommandFailed as failure:
        return (Tree("no records", failure.detail),)
