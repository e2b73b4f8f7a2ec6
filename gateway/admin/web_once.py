"""Something that many want to know, asked for once for all of them, and not too often."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

T = TypeVar("T")


class Once(Generic[T]):
    """ask: what it takes to know.  seconds: how long an answer is good."""

    def __init__(
        self, ask: Callable[[], Coroutine[Deferred[Any], Any, T]], clock: IReactorTime, seconds: float
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._seconds = seconds
        self._fresh_until = 0.0
        self._asked: Deferred[T] | None = None
        self._waiting: list[Deferred[T]] = []
        self.known: T | None = None
        """The last answer, of whatever age."""

    def get(self) -> Deferred[T]:
        """The answer, no older than it may be.  Who gives up waiting for it may cancel; the others still get it."""
        wanted: Deferred[T] = Deferred(self._forget)
        self._waiting.append(wanted)
        if self.known is not None and self._clock.seconds() < self._fresh_until:
            self._tell(self.known)
        elif self._asked is None:
            asked = self._asked = Deferred.fromCoroutine(self._ask())
            asked.addCallbacks(self._learned, self._failed)
        return wanted

    def close(self) -> None:
        """Nobody gets an answer any more."""
        for wanted in list(self._waiting):
            wanted.cancel()
        if self._asked is not None:
            self._asked.cancel()

    def _learned(self, answer: T) -> None:
        self._fresh_until = self._clock.seconds() + self._seconds
        self._asked = None
        self._tell(answer)

    def _failed(self, failure: Failure) -> None:
        self._asked = None
        waiting, self._waiting = self._waiting, []
        for wanted in waiting:
            wanted.errback(failure)

    def _tell(self, answer: T) -> None:
        self.known = answer
        waiting, self._waiting = self._waiting, []
        for wanted in waiting:
            wanted.callback(answer)

    def _forget(self, wanted: Deferred[T]) -> None:
        if wanted in self._waiting:
            self._waiting.remove(wanted)
