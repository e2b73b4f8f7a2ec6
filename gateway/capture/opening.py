"""A capture of everything that crosses the connections of a process: what service.py opens and closes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import time_ns
from typing import Literal

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from gateway import __version__
from gateway.capture.journal import Journal, Source
from gateway.capture.plan import CapturePlan
from gateway.capture.redaction import Redaction
from gateway.capture.ringing import RingTap
from gateway.capture.rings import QUIET_SECONDS, Ring, Rings, Seldom
from gateway.capture.row import Row
from gateway.capture.rows import ListenerSaid
from gateway.capture.taps import CaptureTap
from gateway.core.commands import Session
from gateway.dialects.session import Tap
from gateway.net.port import Port
from gateway.net.server import Listening

FLUSH_SECONDS = 1.0
"""What a killed process has not written, at most."""

Run = Callable[[Callable[[], None]], "Deferred[None]"]


def open_capture(
    plan: CapturePlan,
    port: Port,
    listeners: Iterable[Listening],
    *,
    node: str = "",
    started: int = 0,
    wall: Callable[[], int] = time_ns,
    run: Run = deferToThread,
) -> OpenCapture:
    """Begin to capture all connections that there are, and will be.  Raises OSError for a directory that cannot be had.

    node: what the process calls itself.  started: when it began, us since the epoch; 0 = now.
    wall: ns since the epoch.
    run:  waits for the end of the writing thread, away from the reactor.
    """
    capture = OpenCapture(plan, port, listeners, Source(node, __version__, started or wall() // 1000, {}), wall, run)
    capture.begin()
    return capture


class OpenCapture:
    """A capture that goes on until it is closed.

    journal: what becomes of the rows.  Its numbers are for the metrics, after the end as well.
    """

    _log = Logger()

    def __init__(
        self,
        plan: CapturePlan,
        port: Port,
        listeners: Iterable[Listening],
        source: Source,
        wall: Callable[[], int],
        run: Run,
    ) -> None:
        each = {listening.name: listening for listening in listeners}
        told = {name: _said(listening) for name, listening in each.items()}
        self.journal = Journal(plan, msgspec.structs.replace(source, listeners=told), wall, port.clock.seconds)
        self._all = plan.keep == "all"
        self._directory = plan.directory
        self._port = port
        self._wall = wall
        self._run = run
        self._rings = Rings(plan.ring_bytes, plan.memory_bytes)
        self._breaches = Seldom(port.clock.seconds, QUIET_SECONDS)
        self._redactions = {name: _redaction(listening) for name, listening in each.items()}
        self._timer = LoopingCall(self._tick)
        self._timer.clock = port.clock
        self._take_off: Callable[[], None] = _untapped

    def begin(self) -> None:
        """Put the taps on."""
        self.journal.writer.prepare()
        self.journal.start()
        self._timer.start(FLUSH_SECONDS, now=False)
        self._take_off = self._port.taps.add(_everybody, self._make, self._leave)
        self._port.taps.journals.append(self.journal.told)

    def close(self) -> Deferred[None]:
        """Take the taps off; fires when all is written."""
        self._take_off()
        if self._timer.running:
            self._timer.stop()
        self.journal.finish()
        return self._run(self.journal.join)

    def _make(self, who: Session) -> Tap:
        opened, redaction = self._of(who, "open", who.peer), self._redactions[who.listener]
        if self._all:
            journal = self.journal
            journal.gathered.enter(who)
            journal.add(opened)
            breach = lambda: self._tell(who)  # noqa: E731
            return CaptureTap(who, redaction, journal.gathered, breach, self._port.clock.seconds)
        ring = self._rings.enter(who.id)
        ring.add(opened)
        return RingTap(who, redaction, ring.add, lambda: self._write(ring), self._wall)

    def _leave(self, who: Session) -> None:
        """A connection is gone."""
        self._rings.leave(who.id)
        if self._all:
            self.journal.add(self._of(who, "close"))
            self.journal.gathered.leave(who.id)

    def _tell(self, who: Session) -> None:
        """The peer broke its protocol; what came before is in the files."""
        if self._breaches.now():
            self.journal.flush()
            where = f"connection {who.id} of the capture in {self._directory}"
            sentence = "{peer} broke the protocol of {listener}: {where}"
            self._log.warn(sentence, peer=who.peer, listener=who.listener, where=where)

    def _write(self, ring: Ring) -> None:
        """The peer broke its protocol; what came before is in its ring alone."""
        if self._breaches.now():
            self.journal.add_apart(ring.take())

    def _of(self, who: Session, happened: Literal["open", "close"], note: str = "") -> Row:
        now, principal = self._wall() // 1000, who.principal or ""
        return Row(now, who.id, who.dialect, who.listener, happened, principal=principal, note=note)

    def _tick(self) -> None:
        self._rings.tick()
        self.journal.flush()


def _said(listening: Listening) -> ListenerSaid:
    settings = msgspec.to_builtins(listening.listener.settings)
    assert isinstance(settings, dict), "settings are a Struct"
    return ListenerSaid(listening.listener.dialect.name, settings)


def _redaction(listening: Listening) -> Redaction:
    dialect = listening.listener.dialect
    return Redaction(dialect.name, dialect.encode_request, listening.listener.terms("127.0.0.1:0"))


def _everybody(who: Session) -> bool:
    return True


def _untapped() -> None:
    """There are no taps to take off."""
