"""How a store's commits go, as plain numbers: counted by the thread that commits, read by whoever shows them."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Callable
from time import monotonic

from gateway.net.meters import Latency

SIZES = tuple(1 << power for power in range(11))
"""Commands: the upper bounds of what the sizes of commits are counted in; one more counts what is larger."""

TRIED = 256 << 10
"""Bytes that a store must take again, and keep, before it is said to be well."""


class Sizes:
    """How often a commit had how many commands.  counts: by bound.  total: commands, of all of them."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(SIZES) + 1)
        self.total = 0

    def observe(self, commands: int) -> None:
        """Once more."""
        self.counts[bisect_left(SIZES, commands)] += 1
        self.total += commands


class Commits:
    """Of one store.  clock: seconds, never goes back.

    latency: seconds, of a transaction with its sync.  sizes: commands in it.
    failed:  transactions that the disk did not take.
    problem: why it did not take the last one, "" = it did.
    """

    __slots__ = ("clock", "failed", "latency", "problem", "sizes")

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        self.latency = Latency()
        self.sizes = Sizes()
        self.failed = 0
        self.problem = ""

    def took(self, began: float, commands: int) -> None:
        """One is on disk that began then."""
        self.latency.observe(self.clock() - began)
        self.sizes.observe(commands)
        self.problem = ""

    def refused(self, problem: str) -> None:
        """One is not."""
        self.failed += 1
        self.problem = problem


def insist(connection: sqlite3.Connection) -> None:
    """See whether the disk takes and keeps something again; raises sqlite3.Error if not.

    Without this a store that nobody writes to, since it is known to be full, would never be known to be well.
    """
    connection.execute("DROP TABLE IF EXISTS tried")
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("CREATE TABLE tried (body BLOB)")
        connection.execute("INSERT INTO tried VALUES (zeroblob(?))", (TRIED,))
        connection.execute("COMMIT")
    except Exception:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("DROP TABLE tried")
