"""Running a backend without a reactor: its threads are real, its clock is not."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from gateway.backends.interface import IBackend
from gateway.core.commands import Command, Session
from gateway.core.faults import CommandFailed

PATIENCE = 30.0


@implementer(IReactorFromThreads)
class Reactor(Clock):
    """A clock that stands still, and a queue for what threads want done."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: queue.Queue[Callable[[], object]] = queue.Queue()

    def callFromThread(self, call: Callable[..., Any], *args: object, **kwargs: object) -> None:
        self._calls.put(lambda: call(*args, **kwargs))

    def getThreadPool(self) -> None:
        raise AssertionError("a backend owns its threads")

    def suggestThreadPoolSize(self, size: int) -> None:
        raise AssertionError("a backend owns its threads")

    def callInThread(self, call: Callable[..., Any], *args: object, **kwargs: object) -> None:
        raise AssertionError("a backend owns its threads")

    def wait(self, deferred: Deferred[Any]) -> Any:
        """Its result, or its failure raised; runs what threads ask for meanwhile."""
        results: list[Any] = []
        deferred.addBoth(results.append)
        while not results:
            self._calls.get(timeout=PATIENCE)()
        if isinstance(results[0], Failure):
            results[0].raiseException()
        return results[0]

    def idle(self) -> None:
        """Run what threads have asked for so far."""
        while not self._calls.empty():
            self._calls.get()()


class Driver:
    """One client of one backend, that waits for each answer."""

    def __init__(self, backend: IBackend, reactor: Reactor, session: Session | None = None) -> None:
        self.backend = backend
        self.reactor = reactor
        self.session = session or Session(1, "test")

    def begin(self, command: Command) -> Deferred[Any]:
        return maybeDeferred(self.backend.execute, command, self.session)

    def ask(self, command: Command) -> Any:
        """The reply, or the failure as a value (fault, facts)."""
        return self.outcome(self.begin(command))

    def outcome(self, begun: Deferred[Any]) -> Any:
        """The same, of what was begun."""
        try:
            return self.reactor.wait(begun)
        except CommandFailed as failure:
            return failure.fault, failure.facts

    def close(self) -> None:
        self.reactor.wait(maybeDeferred(self.backend.close))
