"""Opens what people look at a process through: the console and the page, each where it was said."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from twisted.internet import endpoints
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IReactorTime
from twisted.python.failure import Failure

from gateway.admin.console import console_factory, ssh_factory
from gateway.admin.plan import ConsolePlan, WebPlan
from gateway.admin.view import View
from gateway.admin.web import Page
from gateway.net.descriptions import unseal
from gateway.net.security import Certificates, with_tls


class Admin:
    """Of one process.  registry: what `/metrics` shows.

    certificates: of those that listen with TLS.
    """

    def __init__(self, view: View, registry: CollectorRegistry, clock: IReactorTime) -> None:
        self._view = view
        self._clock = clock
        self._opened: list[tuple[str, IListeningPort, str]] = []
        self.certificates: list[Certificates] = []
        self._page = Page(view, registry, clock)  # whose metrics the console shows, too

    def open(self, console: ConsolePlan | None, web: WebPlan | None) -> None:
        """Open what is wanted.  Raises ValueError, with a sentence, for an endpoint that cannot be listened on."""
        if console is not None and console.endpoint:
            factory = console_factory(self._view, console.idle_seconds, self._clock)
            self._listen("console", console.endpoint, factory, "gateway console {host}:{port}")
        if console is not None and console.ssh:
            keys = console.host_key, console.authorized_keys
            factory = ssh_factory(self._view, *keys, console.idle_seconds, self._clock)
            self._listen("ssh", console.ssh, factory, "ssh -p {port} admin@{host}")
        if web is not None and web.endpoint:
            self._listen("web", web.endpoint, self._page.site, "open http://{host}:{port}/")

    def opened(self) -> list[tuple[str, IListeningPort, str]]:
        """Name, port, and what to type to look at it."""
        return self._opened

    async def close(self) -> None:
        """Nobody looks any more."""
        await DeferredList([maybeDeferred(port.stopListening) for _, port, _ in self._opened])
        await self._page.close()

    def _listen(self, name: str, endpoint: str, factory: IProtocolFactory, hint: str) -> None:
        sealed = unseal(endpoint)
        if sealed is not None:
            self.certificates.append(Certificates(sealed.certificate, sealed.key))
            endpoint, factory = sealed.endpoint, with_tls(factory, self.certificates[-1], self._clock)
        try:
            opened: Deferred[IListeningPort] = endpoints.serverFromString(self._clock, endpoint).listen(factory)
        except (LookupError, ValueError, TypeError) as error:
            raise ValueError(f"{name}: {endpoint} is no endpoint such as tcp:2323:interface=127.0.0.1") from error
        failures: list[Failure] = []
        opened.addCallbacks(lambda port: self._opened.append((name, port, hint)), failures.append)
        if failures:
            raise ValueError(f"cannot listen for {name} on {endpoint}: {failures[0].getErrorMessage()}")
