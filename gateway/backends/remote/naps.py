"""Pauses that end with the backend: whoever is in one then is told that there is no more to be had."""

from __future__ import annotations

from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from gateway.backends.remote.ways import Unsent


class Naps:
    """Every pause of one backend."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._napping: set[Deferred[None]] = set()
        self._closed = False

    def __call__(self, seconds: float) -> Deferred[None]:
        """Fires after so long; fails UNAVAILABLE once the backend is closed."""
        if self._closed:
            return fail(_over())
        nap: Deferred[None] = deferLater(self._clock, seconds, lambda: None)
        self._napping.add(nap)
        return nap.addBoth(self._woken, nap)

    def close(self) -> None:
        """Everybody wakes."""
        self._closed = True
        for nap in list(self._napping):
            nap.cancel()

    def _woken(self, outcome: None, nap: Deferred[None]) -> None:
        self._napping.discard(nap)
        if self._closed:
            raise _over()
        return outcome


def _over() -> Unsent:
    return Unsent("the gateway is stopping")
