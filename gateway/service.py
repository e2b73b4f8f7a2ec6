"""The one place that assembles a process: options, backend, listeners, and the order in which they start and stop."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, cast

from prometheus_client import CollectorRegistry
from twisted.application.service import Service
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.internet.error import CannotListenError
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
from gateway.admin.view import View
from gateway.backends import find_maker
from gateway.backends.interface import IBackend
from gateway.backends.wall import microseconds
from gateway.configuration import Configuration, ListenerPlan, Said, check_exposure, configure
from gateway.configuration.environment import CONFIG, PLUGINS
from gateway.core.records import registry
from gateway.held import check_held, server_endpoint, stop_accepting
from gateway.logging import form_of
from gateway.net.access import Guarded, Policy
from gateway.net.addresses import shown
from gateway.net.metrics import register
from gateway.net.port import SWEEP_SECONDS, Port
from gateway.net.security import Certificates, EitherFactory, with_tls
from gateway.net.server import Listening
from gateway.net.users import Users
from gateway.notify import Notifier

if TYPE_CHECKING:
    from gateway.admin.opening import Admin
    from gateway.capture.opening import OpenCapture

BACKLOG = 1024
"""Connections that the kernel may hold for us."""

MOST_FILES = 1 << 16
"""That this process asks for if it has fewer."""

DRAIN_SECONDS = 10.0
"""How long stopping waits for what is in flight."""

ENDPOINTS = "tcp:PORT, tcp:PORT:interface=ADDRESS, ssl:PORT:privateKey=FILE:certKey=FILE, unix:PATH"
"""What most operators may want of Twisted's server endpoints."""

PLACES = {
    "backend": ("backend", "spec"),
    "console": ("console", "endpoint"),
    "web": ("web", "endpoint"),
    "capture": ("capture", "directory"),
}
"""Option -> where in the file the same would be said."""


class Options(usage.Options):
    """What `gateway run` and `twistd gateway` are told.

    environment: of which GATEWAY_* counts, less than what is told here and more than the file.
    file:        where the configuration is.  configuration: all of it.
    log_form:    one of gateway.logging.FORMS.
    """

    optParameters = [  # noqa: RUF012  # usage.Options wants a list
        ["config", "c", None, "Configuration file (TOML)."],
        ["backend", "b", None, "Where records go: sqlite:DIRECTORY, memory, or a plugin's own."],
        ["plugins", None, None, "Directory with backends/*.py and dialects/NAME/ of your own."],
        ["console", None, None, "Endpoint of the admin console, such as tcp:2323:interface=127.0.0.1."],
        ["web", None, None, "Endpoint of metrics and page, such as tcp:8080:interface=127.0.0.1."],
        ["capture", None, None, "Directory for what crosses connections."],
        ["log-format", None, None, "text or json; text on a terminal, else json.  twistd has --logger instead."],
    ]

    optFlags = [  # noqa: RUF012  # likewise
        ["insecure", None, "Serve other machines without TLS or a login, too."],
    ]

    longdesc = (
        "Speaks several broker dialects over one store.  With no listener named every dialect listens on loopback."
    )

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._environment = dict(os.environ) if environment is None else environment
        self._listen: list[str] = []
        self.file: str | None = None
        self.configuration = Configuration()
        self.log_form = "text"

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
            plugins = self["plugins"] or self._environment.get(PLUGINS)
            if plugins:
                add_plugins(Path(plugins))
            self.file = self["config"] or self._environment.get(CONFIG)
            self.configuration = self.read()
            self.log_form = form_of(self["log-format"], self._environment)
            find_maker(self.configuration.backend)
            check_exposure(self.configuration)
        except ValueError as error:
            raise usage.UsageError(str(error)) from error

    def read(self) -> Configuration:
        """What is to be served, read anew each time.  Raises ValueError: where it is wrong, and what."""
        told = [Said(f"--{name}", place, self[name]) for name, place in PLACES.items() if self[name] is not None]
        if self["insecure"]:
            told.append(Said("--insecure", ("insecure",), True))
        return configure(self.file, self._environment, told, self._listen)


def makeService(options: Options) -> GatewayService:
    """The service for these options; nothing is opened yet."""
    from twisted.internet import reactor

    # Twisted's clock is the wall's, which jumps; nothing has been put on it yet.
    cast(Any, reactor).seconds = time.monotonic
    service = GatewayService(options.configuration, cast(IReactorTime, reactor), options.read)
    reactor.callWhenRunning(take_signals, reactor, service)
    reactor.callWhenRunning(service.announce)  # who reads `ready` may send a signal at once
    return service


class GatewayService(Service):
    """One gateway process: ports first, then the backend; on the way out the other way round.

    Ports are bound before privileges are shed, the data directory is made after.

    again:   reads the configuration anew, for `reload`.
    metrics: what is counted in this process.
    """

    _log = Logger()

    def __init__(
        self, configuration: Configuration, clock: IReactorTime, again: Callable[[], Configuration] | None = None
    ) -> None:
        self._configuration = configuration
        self._clock = clock
        self._again = again or (lambda: configuration)
        self._certificates: list[Certificates] = []
        self._guarded: Guarded | None = None
        self._capture: OpenCapture | None = None
        self._admin: Admin | None = None
        self._started = microseconds()
        self._factories: list[Listening] = []
        self._ports: list[IListeningPort] = []
        self._port: Port | None = None
        self._sweep: LoopingCall | None = None
        self._backend: IBackend | None = None
        self._systemd = Notifier(os.environ, clock)
        self._serving = f"serving {', '.join(plan.name for plan in configuration.listeners)}"
        self.metrics = CollectorRegistry()

    def privilegedStartService(self) -> None:
        """Open every port, or say which one cannot be and exit."""
        _allow_files()
        spoken = {plan.dialect.name: plan.dialect for plan in self._configuration.listeners}
        known = {name: dialects.load(name) for name in dialects.names()} | spoken
        self._encodings = registry(encoding for dialect in known.values() for encoding in dialect.encodings)
        for plan in self._configuration.listeners:
            listener = plan.dialect.open(plan.settings, self._encodings)
            factory = Listening(plan.name, listener, plan.auth, tls=plan.tls is not None, allow=plan.allow)
            self._factories.append(factory)
            try:
                self._open(plan, factory)
            except Exception as error:  # each endpoint type fails in its own way, all for the operator to mend
                _refuse(f"cannot listen for {plan.name} on {plan.endpoint}: {error}")
        register(self.metrics, [factory.listener for factory in self._factories])

    def startService(self) -> None:
        """Open the store and begin to serve."""
        super().startService()  # type: ignore[no-untyped-call]
        told = self._configuration
        told.backend_settings.export(os.environ)
        maker, argument = find_maker(told.backend)
        try:
            backend = self._backend = maker.make(argument, self._encodings, self._clock)
        except ValueError as error:
            _refuse(str(error))
        self._guarded = Guarded(backend, Policy(told.access)) if told.access else None
        self._port = Port(self._guarded or backend, self._clock, told.limits, Users(told.users))
        self._port.principals = told.principals
        for factory in self._factories:
            factory.port = self._port
        self._sweep = LoopingCall(self._port.sweep)
        self._sweep.clock = self._clock
        self._sweep.start(SWEEP_SECONDS, now=False)
        self._open_for_people(backend, self._port)
        _keep_memory()

    def _open_for_people(self, backend: IBackend, port: Port) -> None:
        """Console, page and capture."""
        told, clock = self._configuration, self._clock
        try:
            if told.capture is not None:
                from gateway.capture.opening import open_capture

                node = told.node.name
                self._capture = open_capture(told.capture, port, self._factories, node=node, started=self._started)
            if told.console is not None or told.web is not None:
                from gateway.admin.opening import Admin

                listeners = lambda: zip(self._factories, self._addresses(), strict=True)  # noqa: E731
                view = View(port, backend, listeners, clock, self._started, self._end)
                self._admin = Admin(view, self.metrics, clock)
                self._admin.open(told.console, told.web)
        except (OSError, ValueError, CannotListenError) as error:
            _refuse(str(error))

    def _end(self) -> None:
        IReactorCore(self._clock).stop()

    def _addresses(self) -> list[str]:
        return [shown(port.getHost()) for port in self._ports]

    def reload(self) -> None:
        """Read certificates, users and access rules again; whatever is wrong with them is told, and the old ones stay.

        Other things in the configuration, and whether there are access rules at all, count from the next start on.
        """
        self._systemd.reloading()
        self._systemd.ready(self._serving if self._read_again() else "what was to be read again is wrong; see the log")

    def _read_again(self) -> bool:
        try:
            told = self._again()
            for certificates in [*self._certificates, *(self._admin.certificates if self._admin is not None else ())]:
                certificates.reload()
        except ValueError as error:
            self._log.error("not read again: {error}", error=error)
            return False
        assert self._port is not None, "it has been started"
        self._port.users = Users(told.users)
        self._port.principals = told.principals
        if self._guarded is not None:
            self._guarded.policy = Policy(told.access)
        self._log.info("certificates, users and access rules were read again")
        return True

    def stopService(self) -> Deferred[None]:
        """Stop accepting, finish what is in flight, close connections, then the backend."""
        super().stopService()  # type: ignore[no-untyped-call]
        return Deferred.fromCoroutine(self._stop())

    def _open(self, plan: ListenerPlan, factory: Listening) -> None:
        outer: IProtocolFactory = factory
        if plan.tls is not None:
            files = plan.tls.certificate, plan.tls.key, plan.tls.client_ca
            certificates = Certificates(*files, required=plan.tls.client == "required")
            self._certificates.append(certificates)
            outer = with_tls(factory, certificates, self._clock)
            if plan.tls.plaintext:
                outer = EitherFactory(factory, outer, self._clock)
        try:
            endpoint = server_endpoint(self._clock, _with_backlog(plan.endpoint))
        except (ValueError, TypeError) as error:
            raise ValueError(f"that is no endpoint such as {ENDPOINTS}") from error
        opened = endpoint.listen(outer)
        failures: list[Failure] = []
        opened.addCallbacks(self._ports.append, failures.append)
        if failures:
            failures[0].raiseException()
        if not self._configuration.insecure:
            check_held(plan, self._ports[-1].getHost())

    def hurry(self) -> None:
        """Hang up on whoever still waits for answers."""
        if self._port is not None:
            self._port.abort()

    async def _stop(self) -> None:
        self._systemd.stopping()
        plans = self._configuration.listeners
        await DeferredList([stop_accepting(plan, port) for plan, port in zip(plans, self._ports, strict=False)])
        if self._sweep is not None:
            self._sweep.stop()
        if self._port is not None:
            deadline = self._clock.callLater(DRAIN_SECONDS, self._port.abort)
            await self._port.drain()
            if deadline.active():
                deadline.cancel()
        if self._capture is not None:
            await self._capture.close()
        if self._backend is not None:
            await maybeDeferred(self._backend.close)
        if self._admin is not None:
            await self._admin.close()
        self._systemd.close()

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
        for name, admin, hint in self._admin.opened() if self._admin is not None else ():
            host, number = _host_port(admin)
            say(f"listening {name} {host}:{number}" if number else f"listening {name} {host}")
            if number:
                hints.append(hint.format(host=host, port=number))
        for line in _logins(self._configuration):
            say(line)
        say("ready")
        self._systemd.ready(self._serving)
        for hint in hints:
            say(f"try: {hint}")


def take_signals(running: IReactorCore, service: GatewayService) -> None:
    """TERM and INT end the process in good order and with status 0; a second one does not wait for clients.  HUP has
    certificates, users and access rules read again.

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

    def hung_up(number: int, frame: object) -> None:
        IReactorFromThreads(running).callFromThread(service.reload)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, caught)
    signal.signal(signal.SIGHUP, hung_up)
    running.addSystemEventTrigger("after", "shutdown", _ignore_signals)


def _ignore_signals() -> None:
    """All is done.  Python takes its own answers to signals away before it ends, and one that came then would have the
    process die of it; to ignore them is what it leaves."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


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
    return endpoint if kind not in ("tcp", "tcp6") or "backlog=" in endpoint else f"{endpoint}:backlog={BACKLOG}"


def _allow_files() -> None:
    """Have as many files as we may, up to MOST_FILES: each connection is one, and from a shell there are 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


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
