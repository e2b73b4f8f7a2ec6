"""How late the reactor is: what every connection waits for while something else holds it up."""

from __future__ import annotations

from collections import deque

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from gateway.net.meters import Latency

EVERY = 0.1
"""Seconds between two looks."""

RECENT = 20
"""Looks that `recent` is about: two seconds."""

KEPT = 600
"""Looks that `worst` is about: a minute, so that who reads it that often misses nothing."""


class Delay:
    """Asks to be called now and then, and counts how much later it is.

    latency: seconds late, of every look.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self.latency = Latency()
        self._clock = clock
        self._last: deque[float] = deque(maxlen=KEPT)
        self._due = clock.seconds() + EVERY
        self._call: IDelayedCall | None = clock.callLater(EVERY, self._look)

    @property
    def recent(self) -> float:
        """Seconds late at worst, in the last seconds."""
        return max(list(self._last)[-RECENT:], default=0.0)

    @property
    def worst(self) -> float:
        """The same of the last minute."""
        return max(self._last, default=0.0)

    def close(self) -> None:
        """Look no more."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _look(self) -> None:
        now = self._clock.seconds()
        late = max(0.0, now - self._due)
        self.latency.observe(late)
        self._last.append(late)
        self._due = now + EVERY
        self._call = self._clock.callLater(EVERY, self._look)
