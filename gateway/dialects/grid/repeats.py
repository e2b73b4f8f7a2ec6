"""Answers that are kept for who asks again: who lost a connection repeats what it asked, sender id included.

One table for all connections of a listener.  Source: protocol page, section 2, "Idempotency".
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable

from gateway.core.faults import CommandFailed
from gateway.core.replies import MapChanged, Outcome, Records

Key = tuple[str | None, bytes]
"""Who asks, as proved by a login; and the digest of the request, sender id included."""

MOST_WAITING = 100
"""Repetitions that wait for one first attempt."""

Told = Callable[[Outcome], None]


class Attempt:
    """A request that is carried out, or was.

    outcome: None = it is under way.
    until:   when it is forgotten.
    waiting: who asked the same meanwhile.
    """

    __slots__ = ("key", "outcome", "size", "until", "waiting")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.outcome: Outcome | None = None
        self.until = math.inf
        self.size = 0
        self.waiting: list[Told] = []

    def tell(self, outcome: Outcome) -> None:
        """Everybody who waits."""
        waiting, self.waiting = self.waiting, []
        for told in waiting:
            told(outcome)


class Repeats:
    """Attempts by what they are; the one that was asked about longest ago goes first.

    now:  seconds, of a clock that never goes back.
    held: bytes of values in what is kept.
    """

    def __init__(self, seconds: float, entries: int, octets: int) -> None:
        self.now = 0.0
        self.held = 0
        self._seconds = seconds
        self._entries = entries
        self._octets = octets
        self._attempts: OrderedDict[Key, Attempt] = OrderedDict()

    def __len__(self) -> int:
        return len(self._attempts)

    def pass_to(self, now: float) -> None:
        """Time has passed; what is at the front and out of date goes."""
        self.now = max(self.now, now)
        attempts = self._attempts
        while attempts and (oldest := next(iter(attempts.values()))).until <= self.now:
            self._forget(oldest)

    def find(self, key: Key) -> Attempt | None:
        """The attempt that this is a repetition of."""
        attempt = self._attempts.get(key)
        if attempt is not None and attempt.until <= self.now:
            self._forget(attempt)
            return None
        if attempt is not None:
            self._attempts.move_to_end(key)
        return attempt

    def begin(self, key: Key) -> Attempt | None:
        """A first attempt; None where nothing is kept."""
        if not self._seconds:
            return None
        attempt = self._attempts[key] = Attempt(key)
        self._shrink()
        return attempt

    def end(self, attempt: Attempt, outcome: Outcome) -> None:
        """How it ended.  A failure is told and not kept: to try again is what it asks for."""
        if isinstance(outcome, CommandFailed):
            self._forget(attempt)
        else:
            self._keep(attempt, outcome)
        attempt.tell(outcome)

    def _keep(self, attempt: Attempt, outcome: Outcome) -> None:
        attempt.outcome = outcome
        attempt.until = self.now + self._seconds
        if self._attempts.get(attempt.key) is attempt:
            size = _size(outcome)
            self.held += size - attempt.size
            attempt.size = size
            self._shrink()

    def _shrink(self) -> None:
        attempts = self._attempts
        while attempts and (len(attempts) > self._entries or self.held > self._octets):
            self._forget(next(iter(attempts.values())))

    def _forget(self, attempt: Attempt) -> None:
        if self._attempts.get(attempt.key) is attempt:
            del self._attempts[attempt.key]
            self.held -= attempt.size


def _size(outcome: Outcome) -> int:
    """Bytes of the values in it."""
    if isinstance(outcome, Records):
        return sum(len(batch.body) for batch in outcome.batches)
    return len(outcome.previous or b"") if isinstance(outcome, MapChanged) else 0
