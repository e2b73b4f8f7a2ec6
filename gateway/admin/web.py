"""The web of a gateway, to look at and never to change: metrics, health, and one page that is live.

    /          the page            /metrics     for Prometheus
    /events    it, every second    /livez       200 while the process runs
    /state.json  it, once          /readyz      200 while it serves, 503 and why not
    /version   what runs

Nothing here asks who looks, so it belongs on loopback or behind something that asks.  A browser on this machine is made
to fetch from here by any page it shows, under a name that its author has pointed here: on loopback only addresses and
`localhost` are answered.
"""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable
from http.client import responses
from importlib.resources import files
from ipaddress import ip_address

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.resource import IResource, Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

import twisted
from gateway.admin.events import Readers
from gateway.admin.metrics import Metrics
from gateway.admin.view import View
from gateway.admin.web_delay import Delay
from gateway.admin.web_watch import Watch
from gateway.net.addresses import is_loopback

MAX_CONNECTIONS = 200
"""One more is hung up on."""

LAST_SECONDS = 1.0

IDLE_SECONDS = 30.0
"""After which a connection that asks nothing, or does not finish asking, is closed."""

HEADERS = {
    b"Server": b"gateway",
    b"Content-Security-Policy": b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    b"X-Content-Type-Options": b"nosniff",
    b"Referrer-Policy": b"no-referrer",
    b"Cross-Origin-Resource-Policy": b"same-origin",
    b"Cache-Control": b"no-store",
}
"""Of every answer."""

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
PAGE = {
    "": ("index.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
"""Path -> file and what it is."""


class Answer(msgspec.Struct, frozen=True):
    """What a path is answered with."""

    body: bytes
    kind: str = TEXT
    status: int = 200


class Asked(Resource):
    """A path.  answer: makes the answer; it may wait."""

    _log = Logger()

    def __init__(self, answer: Callable[[], Awaitable[Answer]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._answer = answer

    def getChild(self, path: bytes, request: Request) -> IResource:
        """Nothing is below it."""
        return MISSING

    def render(self, request: Request) -> int:
        """See IResource."""
        if request.method not in (b"GET", b"HEAD"):
            request.setHeader(b"Allow", b"GET, HEAD")
            _send(Answer(b"nothing here can be changed\n", status=405), request)
            return NOT_DONE_YET
        answering = Deferred.fromCoroutine(self._tell(request))
        request.notifyFinish().addErrback(lambda gone: answering.cancel())
        answering.addErrback(self._failed, request)
        return NOT_DONE_YET

    async def _tell(self, request: Request) -> None:
        _send(await self._answer(), request)

    def _failed(self, failure: Failure, request: Request) -> None:
        if not failure.check(CancelledError):
            self._log.failure("{path} cannot be shown", failure=failure, path=request.path)
            _send(Answer(b"a defect in the gateway; see its log\n", status=500), request)


class Live(Asked):
    """The path of the events."""

    def __init__(self, readers: Readers) -> None:
        super().__init__(self._full)
        self._readers = readers

    def render(self, request: Request) -> int:
        """See IResource."""
        if request.method == b"GET" and self._readers.admit(request):
            return NOT_DONE_YET
        return super().render(request)

    async def _full(self) -> Answer:
        return Answer(b"as many are looking on as may\n", status=503)


class Channel(HTTPChannel):
    """A connection that is counted.  site: set by it."""

    site: Web

    def abort(self) -> None:
        """Hang up, whatever has not been read."""
        assert self.transport is not None
        self.transport.abortConnection()  # type: ignore[attr-defined]  # ITCPTransport, and TLS has it too

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """See IProtocol."""
        self.site.gone(self)
        super().connectionLost(reason)  # type: ignore[no-untyped-call]


class Nothing:
    """Where bodies of requests go: they mean nothing here."""

    def write(self, data: bytes) -> None:
        """See io.RawIOBase, here and below."""

    def read(self, most: int = -1) -> bytes:
        """Of nothing there is nothing."""
        return b""

    def tell(self) -> int:
        """At its beginning, which is its end."""
        return 0

    def seek(self, offset: int, whence: int = 0) -> None:
        """There is no other place."""

    def close(self) -> None:
        """It stays what it is."""


class Web(Site):
    """The connections, and what holds for every path.  root: the paths."""

    protocol = Channel  # type: ignore[assignment]  # Twisted's own also speaks HTTP/2, over TLS only
    noisy = False

    def __init__(self, root: Resource, clock: IReactorTime) -> None:
        super().__init__(root, timeout=IDLE_SECONDS, reactor=clock)  # type: ignore[no-untyped-call]
        self._channels: set[Channel] = set()
        self._empty: Deferred[None] | None = None

    async def close(self) -> None:
        """Hang up on everybody; who does not take the last words within LAST_SECONDS does not get them."""
        if not self._channels:
            return
        empty = self._empty = Deferred()
        deadline = self.reactor.callLater(LAST_SECONDS, self._abort)
        for channel in list(self._channels):
            channel.loseConnection()  # type: ignore[no-untyped-call]
        await empty
        if deadline.active():
            deadline.cancel()

    def _abort(self) -> None:
        for channel in list(self._channels):
            channel.abort()

    def gone(self, channel: Channel) -> None:
        """A connection ended."""
        self._channels.discard(channel)
        if self._empty is not None and not self._channels:
            self._empty.callback(None)
            self._empty = None

    def buildProtocol(self, addr: IAddress | None) -> Channel | None:  # type: ignore[override]  # see `protocol`
        """See IProtocolFactory.  None = there are as many as there may be."""
        if len(self._channels) >= MAX_CONNECTIONS:
            return None
        channel: Channel = super().buildProtocol(addr)  # type: ignore[no-untyped-call]
        self._channels.add(channel)
        return channel

    def getContentFile(self, length: int | None) -> Nothing:
        """See twisted.web.server.Request.gotLength."""
        return Nothing()

    def getResourceFor(self, request: Request) -> IResource:
        """See Site."""
        for name, value in HEADERS.items():
            request.setHeader(name, value)
        if is_loopback(request.getHost()) and not _here(request.getRequestHostname()):
            return ELSEWHERE
        found: IResource = super().getResourceFor(request)  # type: ignore[no-untyped-call]
        return found

    def log(self, request: Request) -> None:  # type: ignore[override]  # what a Site has are these
        """Who looks is not worth a line."""

    def startFactory(self) -> None:
        """Without the log of Site."""


class Page:
    """All of it, for as long as the process runs.

    registry: gets what is counted here, beside what it has.  site: what to listen with.
    """

    def __init__(self, view: View, registry: CollectorRegistry, clock: IReactorTime) -> None:
        self._registry = registry
        self._delay = Delay(clock)
        self._metrics = Metrics(registry, view, self._delay)
        self._watch = Watch(view, self._delay, clock)
        self._readers = Readers(lambda: Deferred.fromCoroutine(self._snapshot()), clock)
        self.site = Web(self._tree(_version(view)), clock)

    async def close(self) -> None:
        """Hang up on everybody, and look no more."""
        self._readers.close()
        self._watch.close()
        self._delay.close()
        self._metrics.close()
        await self.site.close()

    def _tree(self, version: Answer) -> Resource:
        root = Asked(_missing)
        for path, (name, kind) in PAGE.items():
            root.putChild(path.encode(), Asked(_constant(Answer(_file(name), kind))))
        root.putChild(b"metrics", Asked(self._measured))
        root.putChild(b"livez", Asked(_constant(Answer(b"alive\n"))))
        root.putChild(b"readyz", Asked(self._ready))
        root.putChild(b"version", Asked(_constant(version)))
        root.putChild(b"state.json", Asked(self._state))
        root.putChild(b"events", Live(self._readers))
        return root

    async def _measured(self) -> Answer:
        self._metrics.ready = not await self._watch.ready()
        self._metrics.stored = await self._watch.stored.get()
        return Answer(generate_latest(self._registry), CONTENT_TYPE_LATEST)

    async def _ready(self) -> Answer:
        problem = await self._watch.ready()
        return Answer(f"{problem}\n".encode(), status=503) if problem else Answer(b"ready\n")

    async def _state(self) -> Answer:
        return Answer(await self._snapshot(), JSON)

    async def _snapshot(self) -> bytes:
        return msgspec.json.encode(await self._watch.snapshots.get())


def _send(answer: Answer, request: Request) -> None:
    request.setResponseCode(answer.status, responses[answer.status].encode())
    request.setHeader(b"Content-Type", answer.kind.encode())
    request.setHeader(b"Content-Length", b"%d" % len(answer.body))
    request.write(answer.body)
    request.finish()


def _constant(answer: Answer) -> Callable[[], Awaitable[Answer]]:
    async def same() -> Answer:
        return answer

    return same


_missing = _constant(Answer(b"there is no such page; try /\n", status=404))
MISSING = Asked(_missing)
ELSEWHERE = Asked(_constant(Answer(b"ask for http://localhost or for an address, not for another name\n", status=421)))


def _here(host: bytes) -> bool:
    """Whether a Host is this machine whoever looks it up."""
    name = host.decode("ascii", "replace").strip("[]")
    try:
        ip_address(name)
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
    return True


def _file(name: str) -> bytes:
    return (files("gateway.admin") / "page" / name).read_bytes()


def _version(view: View) -> Answer:
    said = {
        "version": view.version,
        "started": view.started,
        "durability": view.durability,
        "python": platform.python_version(),
        "twisted": twisted.__version__,
    }
    return Answer(msgspec.json.encode(said), JSON)
