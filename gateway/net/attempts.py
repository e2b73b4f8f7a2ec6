"""Wrong logins, slowed: whoever tries many has to wait longer for each answer, right or wrong, on whatever connection.

Counted by where they come from; who has failed too often is looked at once at a time, however many connections ask.
The wait tells nothing: an unknown user costs as much as a wrong password.
"""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network, ip_address

FREE = 3
"""Wrong logins that cost nothing: people mistype."""

FIRST, LONGEST = 0.25, 8.0
"""Seconds before the answer to the next one, which double from one to the other."""

FORGET_SECONDS = 300.0
"""After so long without a wrong one, an address begins anew."""

MAX_KNOWN = 10_000
"""Addresses that are remembered; the one that failed longest ago is forgotten."""

MAX_UNDECIDED = 100
"""Logins from one address that may be under way at a time.  A password is checked in some tens of ms, so that many are
answered within the patience of their clients."""

HOME_BITS = 64
"""Of an IPv6 address: what one customer, or attacker, usually has all of."""


def origin(peer: str) -> str:
    """Whose logins count together.  peer: `host:port`, `[host]:port`, or what else describes where it is."""
    host = peer.rpartition(":")[0].strip("[]")
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not isinstance(address, IPv6Address) or address.ipv4_mapped is not None:
        return host
    return str(IPv6Network((address.packed, HOME_BITS), strict=False))


class Attempts:
    """Of one process."""

    def __init__(self) -> None:
        self._failed: dict[str, tuple[int, float]] = {}
        self._turns: dict[str, float] = {}
        self._undecided: dict[str, int] = {}

    def delay(self, address: str, now: float, patience: float = LONGEST) -> float:
        """Seconds before a login from there is looked at: its turn, if that is within its patience.

        Longer is the wait of who has no turn, because too many from there have one.
        """
        times, at = self._failed.get(address, (0, now))
        if now - at > FORGET_SECONDS or times < FREE:
            return 0.0
        turn = max(now, self._turns.get(address, now)) + min(LONGEST, FIRST * 2.0 ** (times - FREE))
        if turn - now <= patience:
            self._turns[address] = turn
        return turn - now

    def crowded(self, address: str) -> bool:
        """Whether as many are under way from there as may be."""
        return self._undecided.get(address, 0) >= MAX_UNDECIDED

    def begun(self, address: str) -> None:
        """One more is under way, until `ended`."""
        self._undecided[address] = self._undecided.get(address, 0) + 1

    def ended(self, address: str) -> None:
        """One that had begun was decided, or given up."""
        undecided = self._undecided.pop(address) - 1
        if undecided:
            self._undecided[address] = undecided

    def failed(self, address: str, now: float) -> None:
        """One more was wrong."""
        times, at = self._failed.pop(address, (0, now))
        if len(self._failed) >= MAX_KNOWN:
            self._forget(next(iter(self._failed)))
        self._failed[address] = (1 if now - at > FORGET_SECONDS else times + 1), now

    def passed(self, address: str) -> None:
        """One was right."""
        self._forget(address)

    def _forget(self, address: str) -> None:
        self._failed.pop(address, None)
        self._turns.pop(address, None)
