"""One after another, in the order in which they came.  Pure."""

from __future__ import annotations

from collections import deque

from twisted.internet.defer import Deferred


class Turns:
    """A lock for coroutines of which any number may wait.

    Twisted's DeferredLock hands itself on from within `release`, so that a few hundred that wait for nothing else are
    as many calls deep in each other; here it is handed on from one loop.
    """

    def __init__(self) -> None:
        self._waiting: deque[Deferred[None]] = deque()
        self._taken = False
        self._passing = False

    @property
    def idle(self) -> bool:
        """Whether nobody has it or waits for it."""
        return not self._taken and not self._waiting

    def take(self) -> Deferred[None]:
        """Fires when it is one's turn; then `give` must follow."""
        turn: Deferred[None] = Deferred()
        self._waiting.append(turn)
        self._pass()
        return turn

    def give(self) -> None:
        """The next may have it."""
        self._taken = False
        self._pass()

    def _pass(self) -> None:
        if self._passing:  # whoever is in the loop below goes on with it
            return
        self._passing = True
        try:
            while self._waiting and not self._taken:
                self._taken = True
                self._waiting.popleft().callback(None)
        finally:
            self._passing = False
