"""The server's half of a Cursus connection: what is negotiated holds for what comes after it; and the life of a stream.

Source: protocol page, section 4; what a time-out counts from is the broker's stream manager's.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.core.commands import Acks, Follow, Next, Publish
from gateway.core.faults import CommandFailed, Fact, Fault
from gateway.core.records import Encoding, RecordBatch
from gateway.core.replies import Done
from gateway.dialects.cursus.negotiation import STRUCTURED_ERRORS
from gateway.dialects.cursus.pushing import KEEPALIVE, encode_end, lowest
from gateway.dialects.cursus.terms import CursusSettings, CursusTerms, Negotiation, Spoken
from gateway.dialects.cursus.unpacking import unpacking
from gateway.dialects.dialect import Dialect, Refusal, Request, Settings
from gateway.dialects.session import Call, Listener, ServerSession

KEEPALIVE_SECONDS = 3.0
"""Between signs of life, whatever else is sent.  The broker takes 5, and `cursus-client` gives a stream up that has
been silent for 5: with a clock that is looked at once a second, ours has to be well below."""

STALLED_SECONDS = 1800.0
"""How long the peer of a stream may read nothing.  The broker counts from its last write that went out, a sign of life
included, so a peer that reads is never out of time."""

_GONE = (Fault.NO_SUCH_TOPIC, Fault.NO_SUCH_PARTITION, Fault.NO_SUCH_NAMESPACE)

StreamKey = tuple[str, int, str]
"""Topic, partition, group."""


class Stream:
    """What a connection is once a STREAM was accepted.

    key:   None = it has no group, and nobody takes its place.
    next:  the offset it sends next; before the first records, the lowest that can be.
    due:   when the next sign of life is.
    drawn: when the peer was last known to read.
    """

    __slots__ = ("drawn", "due", "key", "next")

    def __init__(self, command: Follow, now: float) -> None:
        start = command.start
        named = str(start.reader.name) if isinstance(start, Next) else ""
        self.key = (str(command.topic.name), command.partition, named) if named else None
        self.next = lowest(command)
        self.due = now + KEEPALIVE_SECONDS
        self.drawn = now


class CursusSession(ServerSession):
    """Answers NEGOTIATE itself, and once a STREAM was accepted hears no requests and sends until the stream ends.

    The terms change as soon as a NEGOTIATE is read, and every request remembers the terms it was read under: so
    requests behind it in one chunk are under the new ones and requests before it under the old, whenever their answers
    are written.

    stream: None = it is still in its requests.
    """

    terms: CursusTerms

    def __init__(self, listener: CursusListener, terms: CursusTerms) -> None:
        super().__init__(listener, terms)
        self.stream: Stream | None = None
        self._streams = listener.streams

    # -- requests

    def receive(self, data: bytes, now: float) -> list[Call]:
        """See ServerSession."""
        self.terms.room = self.terms.limit
        return super().receive(data, now)

    def calls(self, request: Request) -> list[Call]:
        """See ServerSession."""
        command = request.command
        self.sparing = isinstance(command, Publish) and command.acks is Acks.NONE
        if not isinstance(request.context, Negotiation):
            proof = request.context.proof if isinstance(request.context, Spoken) else None
            return [Call(self._ticket(), request, proof)]
        self.answer(Call(self._ticket(), request), Done())
        self.terms.structured_errors = STRUCTURED_ERRORS in request.context.enabled
        return []

    def refuse(self, refusal: Refusal) -> None:
        """See ServerSession."""
        self.sparing = False
        super().refuse(refusal)

    def spares(self, call: Call) -> bool:
        """Publishing without acks: the Go SDK never reads the answers, and would be waited for to the end of time."""
        command = call.request.command
        return isinstance(command, Publish) and command.acks is Acks.NONE

    # -- a stream

    def begun(self, call: Call) -> None:
        """See ServerSession.  Of the streams of one key the newest goes on."""
        assert isinstance(call.request.command, Follow), "nothing else begins"
        self.deafen()
        stream = self.stream = Stream(call.request.command, self._since)
        if self.closing:  # while it waited for its turn
            self.say(encode_end("stopped", stream.next, {}))
        elif stream.key is not None:
            replaced = self._streams.get(stream.key)
            self._streams[stream.key] = self
            if replaced is not None:
                replaced.end("replaced")
                replaced.wake()

    def push(self, call: Call, batch: RecordBatch) -> None:
        """See ServerSession."""
        if self.stream is not None and not self.closing:
            super().push(call, batch)
            self.stream.next = batch.end

    def ended(self, call: Call, failure: CommandFailed) -> None:
        """See ServerSession.  A topic that is deleted does not end its streams: they stay, and stay silent."""
        if failure.fault is Fault.OFFSET_GONE:
            self.end("offset_out_of_range", failure.facts)
        elif failure.fault not in _GONE:
            self.end("error")

    @property
    def quiet(self) -> bool:
        """See ServerSession."""
        return self.stream is None and not self._frames.pending

    def tick(self, now: float) -> None:
        """See ServerSession."""
        super().tick(now)
        stream = self.stream
        if stream is None or self.closing:
            return
        if self.unread:
            if now - stream.drawn > STALLED_SECONDS:
                self.end("timeout")
            return
        stream.drawn = now
        if now >= stream.due:
            self.say(KEEPALIVE)
            stream.due += KEEPALIVE_SECONDS
            if stream.due <= now:  # we were late by more than one; those are not made up for
                stream.due = now + KEEPALIVE_SECONDS

    def close(self, reason: str) -> None:
        """See ServerSession.  A stream that is not ended by anything else says that it is stopped."""
        if self.stream is None:
            super().close(reason)
        else:
            self.end("stopped")

    def end(self, reason: str, bounds: Mapping[str, Fact] | None = None) -> None:
        """Say why the stream ends, and hang up.  reason: in the words of the broker."""
        assert self.stream is not None, "there is no stream"
        if self.closing:
            return
        self.say(encode_end(reason, self.stream.next, bounds or {}))
        self._forget()
        super().close(f"the stream ended: {reason}")

    def lost(self) -> None:
        """See ServerSession."""
        self._forget()

    def _forget(self) -> None:
        if self.stream is not None and self.stream.key is not None and self._streams.get(self.stream.key) is self:
            del self._streams[self.stream.key]


class CursusListener(Listener):
    """streams: who sends what of its streams; each key is sent by one connection of this listener."""

    def __init__(self, dialect: Dialect, settings: Settings, encodings: Mapping[str, Encoding]) -> None:
        super().__init__(dialect, settings, encodings)
        assert isinstance(settings, CursusSettings), "a Cursus listener has CursusSettings"
        unpacking(settings.compression)  # what it needs is loaded now, and not with the first connection
        self.streams: dict[StreamKey, CursusSession] = {}

    def session(self, address: str = "127.0.0.1:0") -> CursusSession:
        """See Listener."""
        terms = self.terms(address)
        assert isinstance(terms, CursusTerms), "a Cursus listener has CursusTerms"
        return CursusSession(self, terms)
