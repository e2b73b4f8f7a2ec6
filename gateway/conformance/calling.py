"""Trials on real connections, one after another, for a thread that waits for them."""

from __future__ import annotations

from threading import Event
from typing import cast

from twisted.internet.interfaces import IDelayedCall, IReactorFromThreads, ITCPTransport
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure as Broken

from gateway.conformance.servers import Subject
from gateway.conformance.trials import Failure, Trial
from gateway.net.sockets import tune

MORE = 5.0
"""Seconds that connecting may take, beside what a trial takes."""


BRIEFLY = 0.2
"""Seconds for a request that itself says that its answer may take its time: silence is no failure then."""


class Gone(Exception):
    """Nobody answers there any more."""


class Interrupted(BaseException):
    """Nobody waits for an answer any more; it goes past all who look for failures."""


class Caller:
    """Makes a connection for each trial."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._stopped = False
        self._line: _Line | None = None

    def attempt(self, trial: Trial, patience: float) -> Failure | None:
        """What comes of it within so many seconds.  Raises Gone, Interrupted.  Not for the reactor's thread."""
        line = _Line(trial, self._subject, patience)
        cast(IReactorFromThreads, self._subject.clock).callFromThread(self._begin, line)
        if not line.done.wait(patience + MORE):
            raise Gone("a connection was not made within 5 s")
        if self._stopped:
            raise Interrupted
        if line.gone:
            raise Gone(line.gone)
        return trial.failure

    def stop(self) -> None:
        """Nobody waits any more.  To be called in the reactor's thread."""
        self._stopped = True
        if self._line is not None:
            self._line.done.set()

    def _begin(self, line: _Line) -> None:
        self._line = line
        line.dial()


class _Line(Protocol):
    """One connection.  done: it is over, and `gone` says why it could not be made."""

    def __init__(self, trial: Trial, subject: Subject, patience: float) -> None:
        self.done = Event()
        self.gone = ""
        self._trial = trial
        self._subject = subject
        self._patience = patience
        self._alarm: IDelayedCall | None = None

    def dial(self) -> None:
        factory = Factory.forProtocol(lambda: self)
        factory.noisy = False
        self._subject.endpoint.connect(factory).addErrback(self._unmade)

    def _unmade(self, failure: Broken) -> None:
        self.gone = f"nobody listens any more: {failure.getErrorMessage()}"
        self.done.set()

    def connectionMade(self) -> None:
        """See IProtocol."""
        tune(self.transport)
        self._alarm = self._subject.clock.callLater(self._patience, self._late)
        self._go_on()

    def dataReceived(self, data: bytes) -> None:
        """See IProtocol."""
        self._trial.received(data)
        self._go_on()

    def connectionLost(self, reason: Broken = connectionDone) -> None:
        """See IProtocol."""
        self._trial.ended()
        self._end()

    def _late(self) -> None:
        self._trial.late()
        self._go_on()

    def _go_on(self) -> None:
        assert self.transport is not None, "there is a connection"
        if self._trial.over:
            self._end()
            self.transport.abortConnection()  # type: ignore[attr-defined]  # ITransport has no such thing
            return
        octets, self._trial.to_send = self._trial.to_send, b""
        if octets:
            self.transport.write(octets)
        if octets and self._trial.waits and self._alarm is not None:
            self._alarm.reset(BRIEFLY)
        if octets and self._trial.finishing:
            ITCPTransport(self.transport).loseWriteConnection()

    def _end(self) -> None:
        if self._alarm is not None and self._alarm.active():
            self._alarm.cancel()
        self.done.set()
