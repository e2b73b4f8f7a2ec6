"""Rows as what they mean: each captured connection is heard again by the server's half of its dialect."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

import msgspec

from gateway import dialects
from gateway.capture.rows import Header, ListenerSaid, NoCapture, Row
from gateway.core.commands import Follow, Ping
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding, RecordBatch, registry
from gateway.core.replies import Outcome
from gateway.dialects import Dialect, Listener, Refusal, Request, ServerSession, Terms
from gateway.dialects.frames import FrameBuffer

MOST = 100_000
"""Requests of a connection that wait for their answers."""

Said = Outcome | RecordBatch | None
"""What an answer says; None = only that the peer lives."""


class Listeners:
    """The listeners of captured processes, made again from the headers."""

    def __init__(self) -> None:
        known = {name: dialects.load(name) for name in dialects.names()}
        self.encodings: Mapping[str, Encoding] = registry(
            encoding for dialect in known.values() for encoding in dialect.encodings
        )
        self._made: dict[tuple[int, str], Listener] = {}

    def make(self, header: Header, name: str) -> Listener:
        """Of that name.  Raises NoCapture if it cannot be known how it speaks."""
        key = header.started, name
        if key not in self._made:
            said = header.listeners.get(name)
            if said is None:
                raise NoCapture(f"the header does not say what the listener {name!r} is")
            self._made[key] = listener_of(said, self.encodings)
        return self._made[key]


def listener_of(said: ListenerSaid, encodings: Mapping[str, Encoding]) -> Listener:
    """Raises NoCapture for a dialect, or a setting, that is not known here."""
    try:
        dialect = dialects.load(said.dialect)
        settings = msgspec.convert(said.settings, dialect.settings)
    except KeyError:
        raise NoCapture(f"there is no dialect {said.dialect!r} here; it may be in a folder for --plugins") from None
    except ValueError as error:
        raise NoCapture(f"the settings of {said.dialect} cannot be read: {error}") from None
    return dialect.open(settings, encodings)


class Ear:
    """The server's half of one connection: what a request frame means, and by which terms."""

    def __init__(self, listener: Listener) -> None:
        self._session: ServerSession = listener.session("127.0.0.1:0")
        self._session.tap = self
        self.dialect: Dialect = listener.dialect
        self.terms = self._session.terms
        self._last: Request | Refusal | None = None

    def hear(self, row: Row) -> Request | Refusal | None:
        """What a row `in` means, None if its frame is left out or is not cut as it was."""
        self._last = None
        if row.frame:
            self._session.receive(row.frame, row.time / 1e6)
            self._session.take()
            self._session.closing = False
        return self._last

    # -- as a Tap

    def heard(self, ticket: int, frame: bytes, request: Request | Refusal) -> None:
        """See Tap."""
        self._last = request

    def answered(self, ticket: int, request: Request | Refusal, outcome: Outcome, data: bytes) -> None:
        """See Tap.  What the session answers by itself was captured too."""

    def said(self, data: bytes) -> None:
        """See Tap."""


class Heard(Ear):
    """What the client of one connection asks.

    requests: by ticket, those that were not answered yet, the oldest first.
    """

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self.requests: OrderedDict[int, Request | Refusal] = OrderedDict()

    def hear(self, row: Row) -> Request | Refusal | None:
        """As of an Ear, and it is kept."""
        request = super().hear(row)
        if request is not None:
            self.requests[row.ticket] = request
            if len(self.requests) > MOST:
                self.requests.popitem(last=False)
        return request


class Unread(CommandFailed):
    """What is no answer to what was asked."""

    def __str__(self) -> str:
        return f"no answer: {self.detail or self.fault.value}"


class Answers:
    """What answers say, by the client's half of the dialect.  terms: what it and the server have agreed on."""

    def __init__(self, dialect: Dialect, terms: Terms) -> None:
        self.dialect = dialect
        self.terms = terms

    def read(self, request: Request | Refusal, frame: bytes) -> Said:
        """One frame.  A CommandFailed is what it says; an Unread is why it cannot be read."""
        asked = _asked(request)
        push = self.dialect.decode_push if isinstance(asked.command, Follow) else None
        try:
            return (push or self.dialect.decode_reply)(asked, frame, self.terms)
        except CommandFailed as failure:
            return Unread(failure.fault, failure.detail)
        except Exception as error:  # the peer may be anything, and what is no whole frame is never given to a dialect
            return Unread(Fault.MALFORMED, repr(error))


def _asked(request: Request | Refusal) -> Request:
    """What is no command was answered with a failure, and every command's answer may be one."""
    return request if isinstance(request, Request) else Request(Ping(), request.tag, request.context)


def cut(dialect: Dialect, data: bytes) -> list[bytes]:
    """The frames of an answer, or of what was pushed; a rest that is none as the last of them."""
    if not data:
        return []
    frames = FrameBuffer(dialect.measure_reply, 1 << 31)
    found, _ = frames.feed(data)
    rest = frames.rest()
    return [*found, rest] if rest else found


def following(dialect: Dialect, requests: Iterable[Request | Refusal], frame: bytes) -> Request | None:
    """The Follow that a pushed frame belongs to."""
    follows = [each for each in requests if isinstance(each, Request) and isinstance(each.command, Follow)]
    if dialect.reply_tag is not None:
        tag = dialect.reply_tag(frame)
        return next((each for each in follows if each.tag == tag), None)
    return follows[0] if follows else None
