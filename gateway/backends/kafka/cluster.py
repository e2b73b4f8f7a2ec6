"""One Kafka as all parts of the backend share it: its settings, threads, topics and names.

Everything here is called in the reactor, but for the work that `call` does and what a thread gives `from_thread`.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads, IReactorTime
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from gateway.backends.kafka import names
from gateway.backends.kafka.catalog import Catalog
from gateway.backends.kafka.faults import failed, is_early
from gateway.backends.kafka.making import Making
from gateway.backends.kafka.registry import Place, Registry
from gateway.backends.kafka.workers import Workers
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding

T = TypeVar("T")

COMMAND_SECONDS = 10.0
"""Deadline of any command, beside what it asks to wait itself."""

INSIST_SECONDS = 0.02
"""Between attempts at what Kafka is not ready for."""

CLOSE_SECONDS = 4.0
"""For the threads to end."""

_SERVER = re.compile(r"(\[[0-9a-fA-F:]+\]|[^\s:,\[\]]+):(\d{1,5})")


def check_bootstrap(argument: str) -> str:
    """`HOST:PORT[,HOST:PORT...]` as it is.  Raises ValueError."""
    for server in argument.split(","):
        found = _SERVER.fullmatch(server.strip())
        if found is None or not 0 < int(found[2]) < 65536:
            raise ValueError(f"{server!r} is no HOST:PORT: say --backend kafka:127.0.0.1:9092")
    return argument


class Cluster:
    """bootstrap: `HOST:PORT[,HOST:PORT...]`.  now: the wall clock in us since the epoch.

    encodings: by name.
    registry:  ids and settings that all gateways share.
    catalog:   the topics there are.  making: what changes them.
    seconds:   COMMAND_SECONDS, for who must not import this module.
    closing:   set when threads should come to an end.
    trouble:   the last that Kafka's client said of a connection.
    """

    seconds = COMMAND_SECONDS
    _log = Logger()

    def __init__(
        self, bootstrap: str, encodings: Mapping[str, Encoding], reactor: IReactorTime, now: Callable[[], int]
    ) -> None:
        self.bootstrap = bootstrap
        self.encodings = encodings
        self.reactor = reactor
        self.now = now
        self._threads = cast(IReactorFromThreads, reactor)
        self.closing = threading.Event()
        self.trouble = ""
        self._closed = False
        self._admin: AdminClient | None = None
        self._making = threading.Lock()
        self._workers = Workers(reactor, self.from_thread, _translated, "kafka-call")
        self.catalog = Catalog(self)
        self.registry = Registry(self, self.catalog.registered)
        self.making = Making(self, self.registry, self.catalog)

    def start(self) -> None:
        """Begin to read the registry, and to look what topics there are."""
        self.registry.start()
        self.catalog.start()

    # -- Kafka's client

    def settings(self, **more: object) -> dict[str, object]:
        """Settings of librdkafka that every client of ours shares, and more; its log is twisted's."""
        shared: dict[str, object] = {
            "bootstrap.servers": self.bootstrap,
            "client.id": "gateway",
            "logger": _Words(self._log),
            "log.connection.close": False,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "socket.keepalive.enable": True,
            "socket.connection.setup.timeout.ms": 2000,
            "topic.metadata.refresh.interval.ms": 5000,
            "topic.metadata.propagation.max.ms": 2000,
        }
        return shared | more

    def admin(self) -> AdminClient:
        """The one that asks for all.  To be called in a thread."""
        with self._making:
            if self._admin is None:
                self._admin = AdminClient(self.settings(error_cb=self._heard))  # type: ignore[arg-type]  # all kinds
            return self._admin

    def _heard(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # which says no more than what was said before it
            self.trouble = error.str()

    def insist(self, work: Callable[[], T]) -> T:
        """In a thread: what Kafka says once it is ready for that, as when a partition's leader has begun to lead.

        Raises KafkaException: what asking again does not help, or has not helped for half the deadline.
        """
        until = time.monotonic() + self.seconds / 2
        while True:
            try:
                return work()
            except KafkaException as error:
                if not is_early(error) or time.monotonic() > until or self.closing.wait(INSIST_SECONDS):
                    raise

    # -- threads

    def call(self, work: Callable[[], T]) -> Deferred[T]:
        """What blocking work in a thread comes to.

        A KafkaException comes back as CommandFailed; TIMEOUT after COMMAND_SECONDS, and BUSY if too much waits already.
        """
        return self._workers.call(work, self.seconds)

    def from_thread(self, call: Callable[..., object], *args: object) -> None:
        """Call it in the reactor; not after the end."""
        if not self._closed:
            self._threads.callFromThread(self._unless_closed, call, args)

    def expire(
        self, waiting: Deferred[T], failure: Callable[[], CommandFailed], seconds: float = COMMAND_SECONDS
    ) -> None:
        """Fail what has not fired by then."""

        def over() -> None:
            if not waiting.called:
                waiting.errback(failure())

        deadline = self.reactor.callLater(seconds, over)

        def settled(result: T) -> T:
            if deadline.active():
                deadline.cancel()
            return result

        waiting.addBoth(settled)

    def within(self, work: Deferred[T], seconds: float = COMMAND_SECONDS) -> Deferred[T]:
        """What it comes to, or TIMEOUT; then, or when the wait is cancelled, the work goes on unheard."""
        if work.called and not work.paused:
            return work
        heard: Deferred[T] = Deferred()

        def tell(result: T | Failure) -> None:
            if not heard.called:
                heard.callback(result)  # a failure is handed on as one

        work.addBoth(tell)
        self.expire(heard, lambda: CommandFailed(Fault.TIMEOUT, f"not done within {seconds:g} s"), seconds)
        return heard

    def _unless_closed(self, call: Callable[..., object], args: tuple[object, ...]) -> None:
        if not self._closed:
            call(*args)

    # -- topics

    def place(self, topic: q.Topic) -> Place | Deferred[Place]:
        """The topic by name or id.  Fails with NO_SUCH_NAMESPACE, NO_SUCH_TOPIC, UNAVAILABLE.

        At once if it is known; for one that is not the broker is asked, since native programs make topics too.
        """
        return self.catalog.place(topic)

    def make(self, topic: q.Topic, partitions: int) -> Deferred[Place]:
        """The topic, made with so many partitions if there is none of that name."""
        return Deferred.fromCoroutine(self.making.made(topic, partitions))

    def watch(self, changed: Callable[[Place], None]) -> None:
        """Be told when a topic that was asked for has more partitions, or is gone (it has 0 then)."""
        self.catalog.watch(changed)

    # -- names

    def group_id(self, place: Place, name: str) -> str:
        """Kafka's group.id of a group of the topic.  Raises CommandFailed(INVALID_NAME)."""
        return names.group_id(place.namespace, name, self.registry)

    def consumer_id(self, place: Place, consumer: int | str) -> str:
        """The group.id that keeps a single consumer's offsets.  Raises CommandFailed(INVALID_NAME)."""
        return names.consumer_id(place.namespace, str(consumer), self.registry)

    # -- the end

    def close(self) -> Deferred[None]:
        """End every thread and client.  Fires within CLOSE_SECONDS or so, and nothing runs in the reactor after."""
        done: Deferred[None] = Deferred()
        self.closing.set()
        self.catalog.stop()
        self.registry.stop()
        self._workers.end()
        self._closed = True
        threading.Thread(target=self._end, args=(done,), name="kafka-close", daemon=True).start()
        return done

    def _end(self, done: Deferred[None]) -> None:
        self.registry.join(CLOSE_SECONDS)
        if self._workers.join(CLOSE_SECONDS / 4):
            self._admin = None
        self._threads.callFromThread(done.callback, None)


def _translated(error: BaseException) -> BaseException:
    if isinstance(error, TimeoutError):  # of a future of the admin client
        return CommandFailed(Fault.TIMEOUT, "Kafka did not answer in time")
    return failed(error) if isinstance(error, KafkaException) else error


class _Words:
    """What librdkafka logs, by the levels of syslog."""

    def __init__(self, log: Logger) -> None:
        self._log = log

    def log(self, level: int, form: str, *words: object) -> None:
        """As a logging.Logger is called."""
        self._log.emit(LogLevel.debug, "librdkafka: {line}", line=form % words if words else form)
