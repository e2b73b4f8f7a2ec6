"""A reactor in a thread of its own, for tests that wait for what happens in it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.threads import blockingCallFromThread

T = TypeVar("T")

PATIENCE = 20.0
"""Seconds for it to end."""


class Loop:
    """A reactor of our own, in a thread: the tests' clients are on the other side of it."""

    def __init__(self) -> None:
        self.reactor = EPollReactor()
        self._thread = threading.Thread(target=self.reactor.run, args=(False,), daemon=True)

    def __enter__(self) -> Loop:
        self._thread.start()
        return self

    def __exit__(self, *of: object) -> None:
        self.reactor.callFromThread(self.reactor.stop)
        self._thread.join(PATIENCE)

    def call(self, work: Callable[..., Deferred[T] | T], *args: object) -> T:
        """What it comes to, in the reactor."""
        return blockingCallFromThread(self.reactor, lambda: maybeDeferred(work, *args))  # type: ignore[no-any-return]
