"""A driver in a process of its own: told what to have its client do, and ended when the case is over."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import IReactorProcess
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

import gateway

DRIVERS = {"cursus": "cursus_client", "iggy": "apache_iggy"}
"""Dialect -> the driver that is meant where none is named; `ours` for all others."""

MOST_COMPLAINT = 2000
"""Bytes of a driver's complaints that are kept."""


class Undriven(Exception):
    """A driver cannot be used; the text says why."""


class Introduction(msgspec.Struct, frozen=True):
    """What a driver says first.

    settings: of a listener, that its client goes with.  calls: what it can be made to do.
    address:  `host:port` that the client dials whatever it is told, "" = any.
    """

    client: str
    version: str
    calls: tuple[str, ...]
    settings: dict[str, object]
    address: str = ""

    @property
    def name(self) -> str:
        """What to call the client in reports."""
        return f"{self.client} {self.version}".strip()


class Driver:
    """How one is started.

    name:   a module of gateway.conformance.drivers.
    path:   where the client's package is, None = it is where ours is.
    """

    def __init__(
        self, name: str, path: Path | None, dialect: str, settings: Mapping[str, object], reactor: IReactorProcess
    ) -> None:
        self._module = f"gateway.conformance.drivers.{name}"
        self._path = path
        self._words = [dialect, msgspec.json.encode(dict(settings)).decode()]
        self._reactor = reactor

    def start(self, address: str, calls: Sequence[object], remark: Callable[[str], None]) -> Driven:
        """Have its client do that.  remark: told what it says of each call."""
        driven = Driven(calls, remark)
        # Without -P the folder of the module is looked in first, which has modules named as the clients are.
        command = [sys.executable, "-P", "-m", self._module, address, *self._words]
        self._reactor.spawnProcess(driven, sys.executable, command, env=self._environment())
        return driven

    async def introduce(self) -> Introduction:
        """Who it is.  Raises Undriven."""
        driven = self.start("127.0.0.1:9", [], lambda _: None)
        try:
            return await driven.introduced
        finally:
            await driven.end()

    def _environment(self) -> dict[str, str]:
        ours = Path(gateway.__file__).parents[1]
        path = [str(each) for each in (self._path, ours) if each is not None]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"}


class Driven(ProcessProtocol):
    """A driver that runs.  introduced: what it said of itself, or Undriven."""

    def __init__(self, calls: Sequence[object], remark: Callable[[str], None]) -> None:
        self.introduced: Deferred[Introduction] = Deferred()
        self._calls = calls
        self._remark = remark
        self._heard = b""
        self._complaints = b""
        self._over: Deferred[None] = Deferred()

    def connectionMade(self) -> None:
        """See IProcessProtocol."""
        assert self.transport is not None
        for call in self._calls:
            self.transport.write(msgspec.json.encode(call) + b"\n")

    def outReceived(self, data: bytes) -> None:
        """See IProcessProtocol."""
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            if not self.introduced.called:
                self._introduced(line)
            else:
                self._remark(line.decode(errors="replace"))

    def errReceived(self, data: bytes) -> None:
        """See IProcessProtocol."""
        self._complaints = (self._complaints + data)[-MOST_COMPLAINT:]

    def processEnded(self, reason: Failure) -> None:
        """See IProcessProtocol."""
        complaint = self._complaints.decode(errors="replace").strip()
        if not self.introduced.called:
            self.introduced.errback(Undriven(complaint or "it ended without a word"))
            self.introduced.addErrback(lambda failure: None)
        if complaint:
            self._remark(complaint.splitlines()[-1])
        self._over.callback(None)

    def end(self) -> Deferred[None]:
        """It is gone when this fires."""
        try:
            assert self.transport is not None
            self.transport.signalProcess("KILL")
        except ProcessExitedAlready:
            pass
        return self._over

    def _introduced(self, line: bytes) -> None:
        try:
            self.introduced.callback(msgspec.json.decode(line, type=Introduction))
        except msgspec.DecodeError as error:
            self.introduced.errback(Undriven(f"what it says first is no introduction: {error}"))
