"""Backends with threads of their own, driven without a reactor and by the real clock."""

from __future__ import annotations

import queue
import time
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from backends.driving import PATIENCE, Reactor


class LiveReactor(Reactor):
    """The real clock; what is due is done while somebody waits.

    longest: seconds that one call from a thread has taken: what a reactor would have stood still.
    """

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0.0

    def seconds(self) -> float:
        return time.monotonic()

    def wait(self, deferred: Deferred[Any]) -> Any:
        """Its result, or its failure raised; runs what threads ask for, and what is due, meanwhile."""
        results: list[Any] = []
        deferred.addBoth(results.append)
        deadline = time.monotonic() + PATIENCE
        while not results:
            assert time.monotonic() < deadline, "nothing has come of it"
            self.turn()
        if isinstance(results[0], Failure):
            results[0].raiseException()
        return results[0]

    def turn(self) -> None:
        """Run what threads ask for, for a moment, and what is due."""
        try:
            call = self._calls.get(timeout=0.01)
        except queue.Empty:
            pass
        else:
            begun = time.monotonic()
            call()
            self.longest = max(self.longest, time.monotonic() - begun)
        self.advance(0)

    def until(self, true: Any, seconds: float, what: str) -> None:
        """Go on until it is so; fails when the time is over."""
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
            self.turn()
