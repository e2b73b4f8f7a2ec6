"""The kit as a server: real connections, of which a Hearing takes the requests that its case is about.

All others are answered by a gateway of its own, in memory, through the dialect's own session.  One session sees every
request, those of the case included, so logins, tags and the order of untagged answers stay what they are; a request of
the case waits in it for the answer that the script has for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IAddress, IDelayedCall, IPushProducer, IReactorTime
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import LoopingCall
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.python.failure import Failure
from zope.interface import implementer

from gateway.backends.interface import IBackend, IFollower
from gateway.backends.memory import MemoryBackend
from gateway.conformance.hearings import Hearing, Leave, Release, Say
from gateway.conformance.meanings import Heard
from gateway.conformance.playing import Ruling, Way
from gateway.core.commands import Authenticate, Command, Follow, Session, Verb
from gateway.core.records import Encoding
from gateway.core.replies import Answer, Outcome, Reply
from gateway.dialects import Dialect, Refusal, Request, Settings, Terms
from gateway.net.port import SWEEP_SECONDS, Port
from gateway.net.server import Connection, Listening
from gateway.net.sockets import tune


class Judged(Verb, frozen=True):
    """Stands in a session for a request of the case; it is answered when the script says so."""

    number: int


class Said(Answer, frozen=True):
    """The answer to one, as it is on the wire."""

    octets: bytes


@implementer(IBackend)
class Prompted:
    """Answers what is judged when it is told to, and everything else from memory."""

    durability = "memory"

    def __init__(self, clock: IReactorTime) -> None:
        self.memory = MemoryBackend(clock)
        self._waiting: dict[int, Deferred[Reply]] = {}
        self._ready: dict[int, Said] = {}

    def execute(self, command: Command, session: Session) -> Reply | Deferred[Reply]:
        """See IBackend."""
        if not isinstance(command, Judged):
            return self.memory.execute(command, session)
        said = self._ready.pop(command.number, None)
        if said is not None:
            return said  # type: ignore[return-value]  # a reply that only our own encoder meets
        waiting = self._waiting[command.number] = Deferred()
        return waiting

    def follow(self, command: Follow, session: Session, follower: IFollower) -> IPushProducer | Deferred[IPushProducer]:
        """See IBackend."""
        return self.memory.follow(command, session, follower)

    def answer(self, number: int, octets: bytes) -> None:
        """What the script has for that one."""
        waiting = self._waiting.pop(number, None)
        if waiting is None:
            self._ready[number] = Said(octets)
        elif not waiting.called:
            waiting.callback(Said(octets))  # type: ignore[arg-type]

    def close(self) -> None:
        """See IBackend."""
        for waiting in self._waiting.values():
            waiting.cancel()
        self.memory.close()


class Playing:
    """One Hearing on the connections that come in while it lasts.

    done: its ruling.  way: how what is said is cut, `whole` or `bytes`.
    """

    def __init__(
        self,
        hearing: Hearing,
        dialect: Dialect,
        settings: Settings,
        encodings: Mapping[str, Encoding],
        clock: IReactorTime,
        way: Way = "whole",
    ) -> None:
        self.done: Deferred[Ruling] = Deferred()
        self.hearing = hearing
        self.dialect = dialect
        self.settings = settings
        self.encodings = encodings
        self.clock = clock
        self.way = way
        self.backend = Prompted(clock)
        self.port = Port(self.backend, clock)
        self._links: list[Link] = []
        self._judged = 0
        self._alarm: IDelayedCall | None = None
        self._sweeping = LoopingCall(self.port.sweep)
        self._sweeping.clock = clock

    def begin(self) -> None:
        """What has to be there before is there, and the client is told what to do."""
        self._sweeping.start(SWEEP_SECONDS, now=False)
        self.hearing.begin(self.clock.seconds())
        self.go_on()

    def link(self) -> Link:
        """One more connection."""
        link = Link(self, len(self._links))
        self._links.append(link)
        return link

    def number(self) -> int:
        """Of the next request that is judged."""
        self._judged += 1
        return self._judged

    def go_on(self) -> None:
        """Do what the hearing says."""
        for deed in self.hearing.take():
            link = self._links[deed.link]
            match deed:
                case Say(octets=octets):
                    link.say(octets)
                case Release():
                    link.release()
                case Leave():
                    link.leave()
        if self._alarm is not None and self._alarm.active():
            self._alarm.cancel()
        if self.hearing.ruling is not None:
            if not self.done.called:
                self.done.callback(self.hearing.ruling)
        elif self.hearing.deadline is not None:
            self._alarm = self.clock.callLater(max(0.0, self.hearing.deadline - self.clock.seconds()), self._late)

    def close(self) -> None:
        """Hang up on everybody."""
        if self._alarm is not None and self._alarm.active():
            self._alarm.cancel()
        if self._sweeping.running:
            self._sweeping.stop()
        for link in self._links:
            link.leave()
        self.backend.close()

    def _late(self) -> None:
        self.hearing.tick(self.clock.seconds())
        self.go_on()


class Stage(Factory):
    """What a listening port of the kit makes: connections of whatever is played now; none while nothing is."""

    noisy = False

    def __init__(self) -> None:
        self.playing: Playing | None = None

    def buildProtocol(self, addr: IAddress | None) -> Protocol | None:
        """See IProtocolFactory.  None = Twisted hangs up."""
        return None if self.playing is None else self.playing.link()


class Link(ProtocolWrapper):
    """One connection: stands between the socket and the gateway's Connection, and sees what crosses."""

    def __init__(self, playing: Playing, number: int) -> None:
        self._playing = playing
        self._number = number
        self._hearing = playing.hearing
        self._stream = bytearray()
        self._open: deque[int] = deque()
        self._later: list[bytes] = []
        self._out: deque[bytes] = deque()
        self._read: Request | Refusal | None = None
        self._leaving = False
        self._turning = False
        self._scripted = False
        self._inner = self._connection(playing)
        super().__init__(WrappingFactory(Factory()), self._inner)

    def _connection(self, playing: Playing) -> Connection:
        """A gateway's, whose codec shows the hearing what it reads, and says what the script says."""
        dialect = msgspec.structs.replace(playing.dialect, decode_request=self._decode, encode_reply=self._encode)
        listening = Listening(dialect.name, dialect.open(playing.settings, playing.encodings), "none")
        listening.port = playing.port
        connection = listening.buildProtocol(None)
        assert connection is not None, "there is room for it"
        return connection

    # -- what crosses

    def makeConnection(self, transport: object) -> None:
        """See IProtocol."""
        tune(transport)  # type: ignore[arg-type]  # an ITransport
        super().makeConnection(transport)  # type: ignore[no-untyped-call]

    def dataReceived(self, data: bytes) -> None:
        """See IProtocol."""
        self._stream += data
        self._hearing.holding(self._number, bytes(self._stream))
        super().dataReceived(data)  # type: ignore[no-untyped-call]
        self._playing.go_on()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """See IProtocol."""
        super().connectionLost(reason)  # type: ignore[no-untyped-call]
        if not self._leaving:
            self._leaving = True
            clean = reason.check(ConnectionDone) is not None
            self._hearing.ended(self._number, self._playing.clock.seconds(), clean=clean)
            self._playing.go_on()

    def _decode(self, frame: bytes, terms: Terms) -> Request | Refusal:
        self._read = request = self._playing.dialect.decode_request(frame, terms)
        del self._stream[: len(frame)]
        self._hearing.holding(self._number, bytes(self._stream))
        if not self._hearing.heard(Heard(self._number, frame, request, terms), self._playing.clock.seconds()):
            return request
        number = self._playing.number()
        self._open.append(number)
        logs_in = isinstance(request, Request) and isinstance(request.command, Authenticate)
        context = request.context if logs_in else None  # what else it says is between the client and the script
        return Request(Judged(number), request.tag, context)  # type: ignore[arg-type]

    def _encode(self, request: Request | Refusal, outcome: Outcome, terms: Terms) -> bytes:
        if isinstance(request, Refusal):
            if request is not self._read:
                self._hearing.unreadable(self._number, request.failure, self._playing.clock.seconds())
        elif isinstance(request.command, Judged):
            return outcome.octets if isinstance(outcome, Said) else b""
        return self._playing.dialect.encode_reply(request, outcome, terms)

    # -- what is said

    def say(self, octets: bytes) -> None:
        """The answer to the oldest judged request; or, where all have one, more of it."""
        self._scripted = True
        if self._open:
            self._playing.backend.answer(self._open.popleft(), octets)
            self._inner.settle()
        elif self._inner.running:
            self._later.append(octets)  # the answer that it goes on with has not left yet
        else:
            self.write(octets)
        self._scripted = False

    def release(self) -> None:
        """No answers to what still waits for one."""
        while self._open:
            self._playing.backend.answer(self._open.popleft(), b"")
        self._inner.settle()

    def leave(self) -> None:
        """Hang up, when what was said is out."""
        self._leaving = True
        self.loseConnection()

    def write(self, data: bytes) -> None:
        """See ITransport."""
        if not self._scripted:
            self._hearing.answered(self._number, data, self._playing.clock.seconds())
        cut = self._playing.way == "bytes"
        self._out += [data[at : at + 1] for at in range(len(data))] if cut else [data]
        self._next()
        if self._later and not self._inner.running:
            later, self._later = self._later, []
            self._scripted = True
            self.writeSequence(later)
            self._scripted = False

    def writeSequence(self, data: Sequence[bytes]) -> None:
        """See ITransport."""
        for each in data:
            self.write(each)

    def loseConnection(self) -> None:
        """See ITransport."""
        self.disconnecting = 1
        if not self._out and self.transport is not None:
            self.transport.loseConnection()

    def _next(self) -> None:
        """One write a turn of the reactor, so that they leave apart."""
        if self._out and self.transport is not None and not self._turning:
            self.transport.write(self._out.popleft())
            if self._out:
                self._turning = True
                self._playing.clock.callLater(0, self._turn)
            elif self.disconnecting:
                self.transport.loseConnection()

    def _turn(self) -> None:
        self._turning = False
        if self.connected:
            self._next()
