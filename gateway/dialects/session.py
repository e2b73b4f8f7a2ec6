"""One connection as a pure machine: bytes in, calls out; outcomes in, bytes out.

Order, tickets, refusal and closing live here, once for all dialects.  Knows no socket and no clock: time is an
argument, in seconds of a clock that never goes back.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from gateway.core.commands import Authenticate, Command, Follow, Session, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding, RecordBatch
from gateway.core.replies import Outcome
from gateway.dialects.dialect import Dialect, Losses, Refusal, Request, Settings, Tag, Terms
from gateway.dialects.frames import FrameBuffer


class Call(msgspec.Struct, frozen=True, gc=False):
    """The peer asked; `answer(call, outcome)` must follow, once.

    proof: what it said of who asks: it is carried out as that principal, or it fails as this does.
    """

    ticket: int
    request: Request
    proof: Authenticate | None = None


def unheard() -> None:
    """The `wake` of a session that nobody carries."""


def uncounted(failure: CommandFailed) -> None:
    """The `counted` of a session that nobody carries."""


def permitted(what: str | None) -> None:
    """The `permit` of a session that nobody carries."""


def untold(sentence: str) -> None:
    """The `tell` of a session that nobody carries."""


class Tap(Protocol):
    """Sees all that crosses one connection, as it crosses.  Quick, and never raises."""

    def heard(self, ticket: int, frame: bytes, request: Request | Refusal) -> None:
        """A whole frame came in, and what it means.  ticket: what its answer will have, if there is to be one."""

    def answered(self, ticket: int, request: Request | Refusal, outcome: Outcome, data: bytes) -> None:
        """How it ended, and the bytes that say so: maybe none, maybe sent later than this."""

    def said(self, data: bytes) -> None:
        """Bytes that answer nothing: records that are pushed, signs of life."""


Topics = list[tuple[int, Topic]]
"""From which of some requests on it is which topic."""


class Glanced(msgspec.Struct, frozen=True):
    """Small reads of one kind that were answered at once, and all of them well.

    ticket: of the first; the next has the next.
    kind, reply: classes of the commands and of the replies.
    asked, told: their frames.
    """

    ticket: int
    kind: type
    reply: type
    asked: list[bytes]
    told: list[bytes]
    topics: Topics


class Bursts(Protocol):
    """Is told of what comes in and leaves together."""

    def came(self, size: int, now: float) -> None:
        """So many bytes came in at once; of what is heard now they are the end.  now: as `receive` has it."""

    def left(self, size: int) -> None:
        """So many bytes are sent now: all that was answered and said before, unless it waits for its turn."""

    def glanced(self, glanced: Glanced) -> None:
        """Small reads came in and were answered; `heard` and `answered` do not tell of them."""


class BurstTap(Bursts, Tap, Protocol):
    """A tap that is told of bursts, too.  Past one that is not, small reads are not answered."""


class Looking(msgspec.Struct, frozen=True):
    """How a session has a command that changes nothing carried out at once.

    execute: of the command and who asks; a Reply, or something that is none yet, or CommandFailed is raised.
    drop:    gives up what was no Reply: the command is to be asked in the usual way then.
    count:   of what kind and how many were answered so.
    """

    execute: Callable[[Command, Session], object]
    who: Session
    drop: Callable[[object], None]
    count: Callable[[type, int], None]


def unlooking() -> Looking | None:
    """The `looking` of a session that nobody carries."""
    return None


class Listener:
    """What the connections of one listening port share; a dialect with shared state inherits."""

    def __init__(self, dialect: Dialect, settings: Settings, encodings: Mapping[str, Encoding]) -> None:
        self.dialect = dialect
        self.settings = settings
        self.encodings = encodings
        self.losses: Losses = Counter()

    def session(self, address: str = "127.0.0.1:0") -> ServerSession:
        """The server's half of a new connection that came in on `address`, `host:port`."""
        return ServerSession(self, self.terms(address))

    def terms(self, address: str) -> Terms:
        """The terms a new connection starts with."""
        return self.dialect.terms(self.settings, self.encodings, advertise=address, losses=self.losses)


class ServerSession:
    """The server's half.  `receive` never raises: a bad peer is not our defect.

    closing: hang up once every call is answered and the bytes are out; nothing more is read.
    reason:  why, for the log.
    held:    bytes that wait to be taken, and bytes of the answers in `early`.
    early:   answers that wait for an earlier one, by ticket.
    deaf:    what the peer sends is dropped: see `deafen`.
    unread:  the peer does not read, and bytes pile up on the way to it.  Who carries them says so.
    sparing: while `unread` the peer is heard all the same, since `spares` holds for what it last asked.
    wake:    tells who carries the bytes that there are some, or that the session is closing.  Only for what happens
             while nobody calls this session, such as another connection's doing.
    looking: says how to look at once, None if what was asked before has to begin first, or more must not be asked now.
             For a dialect whose smallest reads cost less than what carrying a call does.
    tap:     sees what crosses, None = nobody looks.
    bursts:  is told of bursts, None = nobody has to be.
    counted: hears of every frame that was no command.
    permit:  raises CommandFailed where who is there may not do what a dialect does beside a Command.  what: its name;
             only who may do everything may do it.  None = it is enough to have logged in where that has to be.
    tell:    a sentence for the operator's log, which adds who the peer is.  Never one with a secret in it.
    """

    def __init__(self, listener: Listener, terms: Terms) -> None:
        self.dialect = listener.dialect
        self.settings = listener.settings
        self.terms = terms
        self.closing = False
        self.reason = ""
        self.held = 0
        self.early: dict[int, bytes] = {}
        self.deaf = False
        self.unread = False
        self.sparing = False
        self.wake: Callable[[], None] = unheard
        self.permit: Callable[[str | None], None] = permitted
        self.tell: Callable[[str], None] = untold
        self.looking: Callable[[], Looking | None] = unlooking
        self.tap: Tap | None = None
        self.bursts: Bursts | None = None
        self.counted: Callable[[CommandFailed], None] = uncounted
        self._encode_reply = self.dialect.encode_reply
        self._tagged = self.dialect.tagged
        self._frames = FrameBuffer(self.dialect.measure_request, self.settings.max_frame or self.dialect.max_frame)
        self._since = 0.0
        self._issued = 0
        self._turn = 0
        self._out: list[bytes] = []

    @property
    def due(self) -> int:
        """Calls not answered yet, where order is kept; else 0."""
        return 0 if self.dialect.tagged else self._issued - self._turn - len(self.early)

    def receive(self, data: bytes, now: float) -> list[Call]:
        """What the peer asks with these bytes."""
        if self.closing or self.deaf:
            return []
        if self.bursts is not None:
            self.bursts.came(len(data), now)
        frames, failure = self._frames.feed(data)
        calls = self._calls(frames)
        if failure is not None and not self.closing:
            self.refuse(Refusal(failure, closing=True))
        if frames or self._frames.pending == len(data):
            self._since = now
        return calls

    def eof(self) -> list[Call]:
        """The peer will send no more; the session ends when it has its answers."""
        calls = [] if self.closing else self.last_words(self._frames.rest())
        self.close("the peer finished")
        return calls

    def last_words(self, rest: bytes) -> list[Call]:
        """What an unfinished frame at the end of the stream means: nothing, unless the dialect says otherwise."""
        return []

    def answer(self, call: Call, outcome: Outcome) -> None:
        """How a call ended.  Leaves at once or, in an untagged dialect, when everything before it has left."""
        if self.unread and self.spares(call):
            self._send(call.ticket, b"")
            return
        try:
            data = self._encode_reply(call.request, outcome, self.terms)
        except CommandFailed as failure:
            data = self._encode_reply(call.request, failure, self.terms)
        if self.tap is not None:
            self.tap.answered(call.ticket, call.request, outcome, data)
        if self._tagged or (call.ticket == self._turn and not self.early):  # the common cases of `_send`
            self.held += len(data)
            self._out.append(data)
            self._turn += 1
        else:
            self._send(call.ticket, data)

    def begun(self, call: Call) -> None:
        """A Follow was taken up.  In an untagged dialect nothing behind it is carried out before it ends."""

    def deafen(self) -> None:
        """Hear the peer no more: a Follow has begun that only ends with the connection.

        What it asked behind the Follow is dropped, answers to that included, and what it still sends is not looked at.
        """
        self.deaf = True
        self._frames.rest()
        self.held -= sum(map(len, self.early.values()))
        self.early.clear()

    def spares(self, call: Call) -> bool:
        """Whether the call is carried out for a peer that does not read, its answer being dropped."""
        return False

    def push(self, call: Call, batch: RecordBatch) -> None:
        """A batch for a Follow that was called."""
        assert self.dialect.encode_push is not None, f"{self.dialect.name} does not push"
        self.say(self.dialect.encode_push(call.request, batch, self.terms))

    def say(self, data: bytes) -> None:
        """Bytes that answer no call, such as a sign of life; they leave behind what is there to be taken."""
        if self.tap is not None:
            self.tap.said(data)
        self._out.append(data)
        self.held += len(data)

    def ended(self, call: Call, failure: CommandFailed) -> None:
        """A Follow that had begun goes no further.  What is said of it is the dialect's business."""
        self.close(str(failure))

    @property
    def quiet(self) -> bool:
        """Whether time changes nothing for it, as long as it hears nothing.  Who overrides `tick` says it, too."""
        return type(self).tick is ServerSession.tick and not self._frames.pending

    def tick(self, now: float) -> None:
        """Time passes: what was started and not finished may be given up, and a dialect may say something."""
        if self._frames.pending and now - self._since > self.settings.frame_seconds:
            self.close(f"a frame was not finished within {self.settings.frame_seconds:g} s")
            self._frames.rest()

    def lost(self) -> None:
        """The connection is gone.  A dialect whose listener knows of its sessions has it forget this one."""

    def stranger(self) -> str:
        """What kind of client has not logged in where it must, for the log."""
        return "it has not logged in"

    def known(self, principal: str) -> None:
        """Who the peer is was shown by its certificate.  For a dialect to which that matters."""

    def missed(self, call: Call, outcome: Outcome) -> None:
        """How a call ended whose peer is gone.  For a dialect whose clients come back to ask again."""

    def excuse(self, now: float) -> None:
        """We, not the peer, kept an unfinished frame waiting until now."""
        self._since = now

    def take(self) -> bytes:
        """The bytes to send now."""
        out = self._out
        if not out:
            return b""
        self._out = []
        data = out[0] if len(out) == 1 else b"".join(out)
        self.held -= len(data)
        if self.bursts is not None:
            self.bursts.left(len(data))
        return data

    def close(self, reason: str) -> None:
        """Read nothing more."""
        if not self.closing:
            self.closing, self.reason = True, reason

    def refuse(self, refusal: Refusal) -> None:
        """Answer what is no command, in its turn."""
        self.counted(refusal.failure)
        ticket = self._ticket()
        data = self.dialect.encode_reply(refusal, refusal.failure, self.terms)
        if self.tap is not None:
            self.tap.answered(ticket, refusal, refusal.failure, data)
        self._send(ticket, data)
        if refusal.closing:
            self.close(str(refusal.failure))

    def calls(self, request: Request) -> list[Call]:
        """What a request asks of the backend.  A dialect that answers some itself does so here."""
        return [Call(self._ticket(), request)]

    def _calls(self, frames: list[bytes]) -> list[Call]:
        found: list[Call] = []
        decode, terms = self.dialect.decode_request, self.terms
        for frame in frames:
            request = decode(frame, terms)
            if self.tap is not None:
                self.tap.heard(self._issued, frame, request)
            if isinstance(request, Request):
                found += self.calls(request)
            else:
                self.refuse(request)
            if self.closing:
                break
        return found

    def _glanced(self, kind: type, reply: type, asked: list[bytes], told: list[bytes], topics: Topics) -> None:
        """Small reads of a tagged dialect were answered past `calls` and `answer`."""
        if self.bursts is not None:
            self.bursts.glanced(Glanced(self._issued, kind, reply, asked, told, topics))
        self._issued += len(told)
        self._turn += len(told)
        data = b"".join(told)
        self._out.append(data)
        self.held += len(data)

    def _ticket(self) -> int:
        ticket = self._issued
        self._issued = ticket + 1
        return ticket

    def _send(self, ticket: int, data: bytes) -> None:
        self.held += len(data)
        if self.dialect.tagged:
            self._out.append(data)
            return
        assert ticket >= self._turn and ticket not in self.early, f"ticket {ticket} answered twice"
        if ticket != self._turn:
            self.early[ticket] = data
            return
        self._out.append(data)
        self._turn += 1
        while self._turn in self.early:
            self._out.append(self.early.pop(self._turn))
            self._turn += 1


class ClientSession:
    """The client's half: requests out, outcomes in, with the same functions.

    closing: the peer cannot be understood any more; every request still open has failed.
    """

    def __init__(self, dialect: Dialect, terms: Terms, limit: int = 0) -> None:
        self.dialect = dialect
        self.terms = terms
        self.closing = False
        self._frames = FrameBuffer(dialect.measure_reply, limit or dialect.max_frame)
        self._open: deque[Request] = deque()
        self._tagged: dict[Tag, Request] = {}
        self._out: list[bytes] = []

    def ask(self, request: Request) -> None:
        """Send a request.  Tagged dialects need a tag that is not in use.

        Raises CommandFailed(UNSUPPORTED) for what the dialect cannot say.
        """
        data = self.dialect.encode_request(request, self.terms)
        if self.dialect.tagged:
            assert request.tag not in self._tagged, f"tag {request.tag} is in use"
            self._tagged[request.tag] = request
        else:
            self._open.append(request)
        self._out.append(data)

    def receive(self, data: bytes) -> list[tuple[Request, Outcome | RecordBatch]]:
        """Requests that these bytes answer, and how.  A Follow gets batches until a failure ends it."""
        frames, failure = self._frames.feed(data)
        answers: list[tuple[Request, Outcome | RecordBatch]] = []
        for frame in frames:
            request = self._asked(frame)
            if request is None:
                failure = CommandFailed(Fault.MALFORMED, "an answer to nothing that was asked")
                break
            outcome = self._outcome(request, frame)
            if outcome is not None:
                answers.append((request, outcome))
            if outcome is not None and not isinstance(outcome, RecordBatch):
                self._close(request)
        return answers if failure is None else answers + self.lost(failure)

    def lost(self, failure: CommandFailed) -> list[tuple[Request, Outcome | RecordBatch]]:
        """The connection is of no use any more: what was asked and not answered fails like this."""
        self.closing = True
        open_ = [*self._open, *self._tagged.values()]
        self._open.clear()
        self._tagged.clear()
        return [(request, failure) for request in open_]

    def take(self) -> bytes:
        """The bytes to send now."""
        out, self._out = self._out, []
        return b"".join(out)

    def _asked(self, frame: bytes) -> Request | None:
        if self.dialect.reply_tag is not None:
            return self._tagged.get(self.dialect.reply_tag(frame))
        return self._open[0] if self._open else None

    def _close(self, request: Request) -> None:
        if self.dialect.tagged:
            del self._tagged[request.tag]
        else:
            self._open.popleft()

    def _outcome(self, request: Request, frame: bytes) -> Outcome | RecordBatch | None:
        """What the frame says, None = only that the peer lives."""
        push = self.dialect.decode_push if isinstance(request.command, Follow) else None
        try:
            return (push or self.dialect.decode_reply)(request, frame, self.terms)
        except CommandFailed as failure:
            return failure
