"""A gateway that is broken on purpose: a proxy before a whole one, which damages answers on their way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.endpoints import clientFromString
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from gateway.dialects.frames import FrameBuffer, Measure
from system.loops import Loop

CLOSE = b"close"
"""In place of frames: hang up instead."""

Damage = Callable[[Sequence[bytes]], Sequence[bytes | float]]
"""Frames of one connection so far held -> what is sent of them; a number = seconds to wait before what follows; an
empty answer = hold them until more is there."""


class Broken:
    """Listens on `port` of loopback, in the loop's thread."""

    def __init__(self, loop: Loop, behind: int, measure: Measure, damage: Damage) -> None:
        self._loop = loop
        self._listening = loop.call(self._listen, behind, measure, damage)
        self.port: int = self._listening.getHost().port

    def close(self) -> None:
        """Listen no more."""
        self._loop.call(self._listening.stopListening)

    def _listen(self, behind: int, measure: Measure, damage: Damage) -> object:
        reactor = self._loop.reactor
        factory = Factory.forProtocol(lambda: _Near(reactor, behind, measure, damage))
        factory.noisy = False
        return reactor.listenTCP(0, factory, interface="127.0.0.1")  # type: ignore[attr-defined]


class _Near(Protocol):
    """The client's side."""

    def __init__(self, reactor: object, behind: int, measure: Measure, damage: Damage) -> None:
        self._reactor = reactor
        self._behind = behind
        self._frames = FrameBuffer(measure, 1 << 30)
        self._damage = damage
        self._held: list[bytes] = []
        self._waiting: list[bytes] = []
        self._far: _Far | None = None
        self._delay = 0.0

    def connectionMade(self) -> None:
        factory = Factory.forProtocol(lambda: _Far(self))
        factory.noisy = False
        clientFromString(self._reactor, f"tcp:127.0.0.1:{self._behind}").connect(factory).addCallback(self._connected)

    def _connected(self, far: _Far) -> None:
        self._far = far
        for data in self._waiting:
            far.transport.write(data)  # type: ignore[union-attr]

    def dataReceived(self, data: bytes) -> None:
        if self._far is None:
            self._waiting.append(data)
        else:
            self._far.transport.write(data)  # type: ignore[union-attr]

    def answered(self, data: bytes) -> None:
        frames, _ = self._frames.feed(data)
        self._held += frames
        if self._held and (sent := self._damage(self._held)):
            self._held = []
            for each in sent:
                if isinstance(each, float):
                    self._delay += each
                else:
                    self._reactor.callLater(self._delay, self._send, each)  # type: ignore[attr-defined]

    def _send(self, data: bytes) -> None:
        if data == CLOSE:
            self.transport.loseConnection()  # type: ignore[union-attr]
        else:
            self.transport.write(data)  # type: ignore[union-attr]

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._far is not None:
            self._far.transport.loseConnection()  # type: ignore[union-attr]


class _Far(Protocol):
    """The gateway's side."""

    def __init__(self, near: _Near) -> None:
        self._near = near

    def dataReceived(self, data: bytes) -> None:
        self._near.answered(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._near.transport.loseConnection()  # type: ignore[union-attr]
