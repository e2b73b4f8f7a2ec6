"""The console over telnet (RFC 854): who leaves echo and lines to us gets a terminal, anybody else a plain stream.

Nothing is offered to who speaks first: a script that pipes its lines in gets the answers and not a byte more.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from twisted.conch.telnet import ECHO, NAWS, SGA, Telnet
from twisted.internet.interfaces import (
    IConsumer,
    IDelayedCall,
    IHalfCloseableProtocol,
    IPushProducer,
    IReactorTime,
)
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from gateway.admin.desk import MAX_WIDTH, Desk
from gateway.net.sockets import send

PAUSE = 0.3
"""Seconds that a peer has to say something before it is offered a terminal, and again to take that."""

OURS = frozenset({ECHO, SGA})
"""What we have to do for line editing (RFC 857, RFC 858)."""

THEIRS = frozenset({NAWS, SGA})
"""What we like the peer to do: say how big it is (RFC 1073)."""


@implementer(IPushProducer, IHalfCloseableProtocol)
class Teletype(Telnet):
    """One connection.  sit: somebody is there, and it is known what kind of.  gone: the connection is."""

    _log = Logger()

    def __init__(
        self, clock: IReactorTime, idle_seconds: float, sit: Callable[[Desk], None], gone: Callable[[Desk], None]
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # nothing in conch has types
        self.desk = Desk(self, clock, idle_seconds)
        self._clock = clock
        self._sit = sit
        self._gone = gone
        self._sits = False
        self._offered = False
        self._does: set[bytes] = set()
        self._waiting: IDelayedCall | None = None
        self.negotiationMap[NAWS] = self._size

    # -- what the transport tells us

    def connectionMade(self) -> None:
        """See IProtocol."""
        self._writer = IConsumer(self.transport)
        self._writer.registerProducer(self, True)
        self._waiting = self._clock.callLater(PAUSE, self._offer)

    def dataReceived(self, data: bytes) -> None:
        """See IProtocol.  Who does not speak telnet right is hung up on."""
        try:
            super().dataReceived(data)  # type: ignore[no-untyped-call]
        except (ValueError, IndexError) as error:  # from twisted.conch: an unknown command, an empty subnegotiation
            self._log.info("console: hung up on a peer that speaks no telnet: {error}", error=str(error))
            self.abort()

    def applicationDataReceived(self, data: bytes) -> None:
        """See Telnet: what is no command."""
        if not self._sits:
            if not self._offered:
                self.desk.script, self.desk.newline = True, b"\n"
            self._begin()
        self.desk.heard(data)

    def readConnectionLost(self) -> None:
        """The peer types no more, but reads."""
        self._begin()
        self.desk.ended()

    def writeConnectionLost(self) -> None:
        """The peer reads no more."""
        self.abort()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """See IProtocol."""
        super().connectionLost(reason)  # type: ignore[no-untyped-call]
        self._wait_no_more()
        self.desk.lost()
        self._gone(self.desk)

    def pauseProducing(self) -> None:
        """See IPushProducer."""
        self.desk.pause()

    def resumeProducing(self) -> None:
        """See IPushProducer."""
        self.desk.resume()

    def stopProducing(self) -> None:
        """connectionLost follows."""

    # -- what the desk wants (see Wire)

    def write(self, octets: bytes) -> None:
        """See Wire."""
        send(self.transport, octets.replace(b"\xff", b"\xff\xff"))  # at once: the process may end in this very turn

    def read(self, on: bool) -> None:
        """See Wire."""
        reader = IPushProducer(self.transport)
        reader.resumeProducing() if on else reader.pauseProducing()

    def close(self) -> None:
        """See Wire."""
        self._writer.unregisterProducer()
        assert self.transport is not None
        self.transport.loseConnection()

    def abort(self) -> None:
        """See Wire."""
        assert self.transport is not None
        self.transport.abortConnection()  # type: ignore[attr-defined]  # ITCPTransport, and TLS and UNIX have it too

    # -- options (RFC 855)

    def enableLocal(self, option: bytes) -> bool:
        """See Telnet: the peer wants us to do it, or lets us."""
        if option not in OURS:
            return False
        self._does.add(option)
        if self._does == OURS and not self._sits:  # in the midst of a talk it would not know where it is
            self.desk.use_terminal()
            self._clock.callLater(0, self._begin)  # its size is behind this, most often
        return True

    def disableLocal(self, option: bytes) -> None:
        """See Telnet.  Who wants to see nothing of what he types has his reasons."""
        self._does.discard(option)

    def enableRemote(self, option: bytes) -> bool:
        """See Telnet: the peer would do it."""
        return option in THEIRS

    def disableRemote(self, option: bytes) -> None:
        """See Telnet."""

    def _size(self, octets: list[bytes]) -> None:
        if len(octets) == 4:
            width, height = struct.unpack("!HH", b"".join(octets))
            self.desk.size(min(width, MAX_WIDTH), height)

    def _offer(self) -> None:
        self._offered = True
        for option in sorted(OURS):
            self.will(option).addErrback(_refused)  # type: ignore[no-untyped-call]
        self.do(NAWS).addErrback(_refused)  # type: ignore[no-untyped-call]
        self._waiting = self._clock.callLater(PAUSE, self._begin)

    def _begin(self) -> None:
        self._wait_no_more()
        if not self._sits and not self.desk.gone:
            self._sits = True
            self._sit(self.desk)

    def _wait_no_more(self) -> None:
        if self._waiting is not None and self._waiting.active():
            self._waiting.cancel()


def _refused(failure: Failure) -> None:
    """It was only an offer."""
