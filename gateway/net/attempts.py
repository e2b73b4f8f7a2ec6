"""Wrong logins, slowed: whoever tries many has to wait longer for each answer, right or wrong, on whatever connection.

Counted by the address they come from.  The wait tells nothing: an unknown user costs as much as a wrong password.
"""

from __future__ import annotations

FREE = 3
"""Wrong logins that cost nothing: people mistype."""

FIRST, LONGEST = 0.25, 8.0
"""Seconds before the answer to the next one, which double from one to the other."""

FORGET_SECONDS = 300.0
"""After so long without a wrong one, an address begins anew."""

MAX_KNOWN = 10_000
"""Addresses that are remembered; the one that failed longest ago is forgotten."""


class Attempts:
    """Of one process."""

    def __init__(self) -> None:
        self._failed: dict[str, tuple[int, float]] = {}

    def delay(self, address: str, now: float) -> float:
        """Seconds before a login from there is looked at."""
        times, at = self._failed.get(address, (0, now))
        if now - at > FORGET_SECONDS or times < FREE:
            return 0.0
        return min(LONGEST, FIRST * 2.0 ** (times - FREE))

    def failed(self, address: str, now: float) -> None:
        """One more was wrong."""
        times, at = self._failed.pop(address, (0, now))
        if len(self._failed) >= MAX_KNOWN:
            del self._failed[next(iter(self._failed))]
        self._failed[address] = (1 if now - at > FORGET_SECONDS else times + 1), now

    def passed(self, address: str) -> None:
        """One was right."""
        self._failed.pop(address, None)
