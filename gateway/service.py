"""The one place that assembles a process: options, backend, listeners, and the order in which they start and stop."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn, TextIO, cast

from prometheus_client import CollectorRegistry
from twisted.application.service import Service
from twisted.internet import endpoints
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.internet.interfaces import (
    IListeningPort,
    IProtocolFactory,
    IReactorCore,
    IReactorFromThreads,
    IReactorTime,
)
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python import usage
from twisted.python.failure import Failure

from gateway import __version__, backends, compression, dialects
from gateway.backends import find_maker
from gateway.backends.interface import IBackend
from gateway.configuration import Configuration, ListenerPlan, default_listeners, parse_listen, read_configuration
from gateway.core.records import registry
from gateway.net.metrics import register
from gateway.net.port import SWEEP_SECONDS, Port
from gateway.net.security import EitherFactory, with_tls
from gateway.net.server import Listening
from gateway.net.users import Users

BACKLOG = 1024
"""Connections that the kernel may hold for us."""

DRAIN_SECONDS = 10.0
"""How long stopping waits for what is in flight."""

ENDPOINTS = "tcp:PORT, tcp:PORT:interface=ADDRESS, ssl:PORT:privateKey=FILE:certKey=FILE, unix:PATH"
"""What most operators may want of Twisted's server endpoints."""


class Options(usage.Options):
    """What `gateway run` and `twistd gateway` are told."""

    optParameters = [  # noqa: RUF012  # usage.Options wants a list
        ["config", "c", None, "Configuration file (TOML)."],
        ["backend", "b", None, "Where records go: sqlite:DIRECTORY, memory, or a plugin's own."],
        ["plugins", None, None, "Directory with backends/*.py and dialects/NAME/ of your own."],
    ]

    longdesc = "Speaks several broker dialects over one store.  With no --listen every dialect listens on loopback."

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._listen: list[str] = []
        self.configuration = Configuration()

    def opt_listen(self, value: str) -> None:
        """DIALECT=ENDPOINT, such as cursus=tcp:9000:interface=127.0.0.1.  May be given several times."""
        self._listen.append(value)

    opt_l = opt_listen

    def opt_version(self) -> None:
        """Display the version of the gateway and exit."""
        say(f"gateway, version {__version__}")
        raise SystemExit(0)

    def postOptions(self) -> None:
        """Refuse what cannot work, with a sentence that says what can."""
        try:
            if self["plugins"] is not None:
                add_plugins(Path(self["plugins"]))
            told = read_configuration(self["config"]) if self["config"] else Configuration()
            listeners = parse_listen(self._listen) or told.listeners or default_listeners()
            backend = told.backend if self["backend"] is None else self["backend"]
            self.configuration = Configuration(listeners, backend, told.users)
            find_maker(self.configuration.backend)
        except ValueError as error:
            raise usage.UsageError(str(error)) from error


def makeService(options: Options) -> GatewayService:
    """The service for these options; nothing is opened yet."""
    from twisted.internet import reactor

    service = GatewayService(options.configuration, cast(IReactorTime, reactor))
    reactor.callWhenRunning(take_signals, reactor, service)
    reactor.callWhenRunning(service.announce)  # who reads `ready` may send a signal at once
    return service


class GatewayService(Service):
    """One gateway process: ports first, then the backend; on the way out the other way round.

    Ports are bound before privileges are shed, the data directory is made after.

    metrics: what is counted in this process.
    """

    _log = Logger()

    def __init__(self, configuration: Configuration, clock: IReactorTime) -> None:
        self._configuration = configuration
        self._clock = clock
        self._factories: list[Listening] = []
        self._ports: list[IListeningPort] = []
        self._port: Port | None = None
        self._sweep: LoopingCall | None = None
        self._backend: IBackend | None = None
        self.metrics = CollectorRegistry()

    def privilegedStartService(self) -> None:
        """Open every port, or say which one cannot be and exit."""
        spoken = {plan.dialect.name: plan.dialect for plan in self._configuration.listeners}
        known = {name: dialects.load(name) for name in dialects.names()} | spoken
        self._encodings = registry(encoding for dialect in known.values() for encoding in dialect.encodings)
        for plan in self._configuration.listeners:
            factory = Listening(plan.name, plan.dialect.open(plan.settings, self._encodings), plan.auth)
            self._factories.append(factory)
            try:
                self._open(plan, factory)
            except Exception as error:  # each endpoint type fails in its own way, all for the operator to mend
                _refuse(f"cannot listen for {plan.name} on {plan.endpoint}: {error}")
        register(self.metrics, [factory.listener for factory in self._factories])

    def startService(self) -> None:
        """Open the store and begin to serve."""
        super().startService()  # type: ignore[no-untyped-call]
        maker, argument = find_maker(self._configuration.backend)
        try:
            backend = self._backend = maker.make(argument, self._encodings, self._clock)
        except ValueError as error:
            _refuse(str(error))
        self._port = Port(backend, self._clock, users=Users(self._configuration.users))
        for factory in self._factories:
            factory.port = self._port
        self._sweep = LoopingCall(self._port.sweep)
        self._sweep.clock = self._clock
        self._sweep.start(SWEEP_SECONDS, now=False)
        _keep_memory()

    def stopService(self) -> Deferred[None]:
        """Stop accepting, finish what is in flight, close connections, then the backend."""
        super().stopService()  # type: ignore[no-untyped-call]
        return Deferred.fromCoroutine(self._stop())

    def _open(self, plan: ListenerPlan, factory: Listening) -> None:
        outer: IProtocolFactory = factory
        if plan.tls is not None:
            outer = with_tls(factory, plan.tls.certificate, plan.tls.key, self._clock)
            if plan.tls.plaintext:
                outer = EitherFactory(factory, outer, self._clock)
        try:
            endpoint = endpoints.serverFromString(self._clock, _with_backlog(plan.endpoint))
        except (ValueError, TypeError) as error:
            raise ValueError(f"that is no endpoint such as {ENDPOINTS}") from error
        opened = endpoint.listen(outer)
        failures: list[Failure] = []
        opened.addCallbacks(self._ports.append, failures.append)
        if failures:
            failures[0].raiseException()

    def hurry(self) -> None:
        """Hang up on whoever still waits for answers."""
        if self._port is not None:
            self._port.abort()

    async def _stop(self) -> None:
        await DeferredList([maybeDeferred(port.stopListening) for port in self._ports])
        if self._sweep is not None:
            self._sweep.stop()
        if self._port is not None:
            deadline = self._clock.callLater(DRAIN_SECONDS, self._port.abort)
            await self._port.drain()
            if deadline.active():
                deadline.cancel()
        if self._backend is not None:
            await maybeDeferred(self._backend.close)

    def announce(self) -> None:
        """Say what listens where, and that we are ready."""
        assert self._backend is not None
        say(f"storing in {self._configuration.backend}, durability {self._backend.durability}")
        hints = []
        for plan, port in zip(self._configuration.listeners, self._ports, strict=True):
            host, number = _host_port(port)
            say(f"listening {plan.dialect.name} {host}:{number}" if number else f"listening {plan.dialect.name} {host}")
            if plan.dialect.hint and number and plan.tls is None:
                hints.append(plan.dialect.hint.format(host=host.strip("[]"), port=number))
        for line in _logins(self._configuration):
            say(line)
        say("ready")
        for hint in hints:
            say(f"try: {hint}")


def take_signals(running: IReactorCore, service: GatewayService) -> None:
    """TERM and INT end the process in good order and with status 0; a second one does not wait for clients.

    Twisted's own answer to a second signal is a traceback, and twistd's to any is to die of it.
    """
    asked: list[bool] = []

    def stop() -> None:
        if not asked:
            running.stop()
        else:
            service.hurry()
        asked.append(True)

    def caught(number: int, frame: object) -> None:
        IReactorFromThreads(running).callFromThread(stop)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, caught)


def add_plugins(directory: Path) -> None:
    """Find backends, dialects and compressors in that directory too.  Raises ValueError if it has none of them."""
    places = {"backends": backends.__path__, "dialects": dialects.__path__, "compression": compression.__path__}
    found = {place: path for place, path in places.items() if (directory / place).is_dir()}
    if not found:
        raise ValueError(f"{directory} has none of the folders {', '.join(places)}")
    for place, path in found.items():
        if str(directory / place) not in path:
            path.append(str(directory / place))


def say(line: str) -> None:
    """A line for the person or script that started us, past any log that took standard output over."""
    out = cast("TextIO | None", sys.__stdout__)
    if out is not None:
        out.write(f"{line}\n")
        out.flush()


def _refuse(sentence: str) -> NoReturn:
    err = cast("TextIO | None", sys.__stderr__)  # under twistd sys.stderr is the log
    if err is not None:
        err.write(f"gateway: {sentence}\n")
    raise SystemExit(2)


def _host_port(port: IListeningPort) -> tuple[str, int]:
    address = port.getHost()
    if isinstance(address, IPv6Address):
        return f"[{address.host}]", address.port
    if isinstance(address, IPv4Address):
        return address.host, address.port
    return os.fsdecode(getattr(address, "name", b"")), 0


def _logins(configuration: Configuration) -> list[str]:
    """Who may log in where nobody was named."""
    accepted = {
        plan.dialect.name: plan.dialect.development
        for plan in configuration.listeners
        if plan.dialect.development is not None and plan.auth != "none" and not configuration.users
    }
    others = "from this machine only; name users in [users.NAME] for others"
    return [f"{dialect}: log in as {user} / {password}, {others}" for dialect, (user, password) in accepted.items()]


def _with_backlog(endpoint: str) -> str:
    """The description, with room for a crowd that connects at once unless it says how much there is.

    Java and Python clients of Cursus dial for every request; of Twisted's own 50 places they use up each in a moment,
    and whoever finds none tries again after a second.
    """
    kind = endpoint.partition(":")[0]
    return endpoint if kind not in ("tcp", "tcp6", "ssl") or "backlog=" in endpoint else f"{endpoint}:backlog={BACKLOG}"


def _keep_memory() -> None:
    """Keep big buffers instead of giving them back after each use, and leave what is loaded out of collections.

    Without the first, glibc maps and unmaps memory for every large read: 1.4 times the durable throughput, 2 times that
    of memory, measured.  Elsewhere than on glibc there is nothing to set.
    """
    m_trim_threshold, m_mmap_threshold = -1, -3
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(m_mmap_threshold, 64 << 20)
        mallopt(m_trim_threshold, 256 << 20)
    gc.collect()
    gc.freeze()
