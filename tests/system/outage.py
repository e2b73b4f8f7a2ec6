"""Clients that hold one connection through an outage of what is behind it, and remember what they were told.

Each has one request on its way at a time.  What was refused is sent again by the idempotent one alone: to the others
its outcome is unknown.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.replies import Outcome
from system.ledger import Ledger
from system.peers import TIMEOUT, Row, Speaking, batch, connected, line, topic

PAUSE, PAUSE_AFTER_REFUSAL = 0.002, 0.02
"""Seconds between an answer and the next request."""

LONG = 0.3
"""Seconds that no answer takes, if it comes at all."""


class Told(NamedTuple):
    """A request: when it was sent and answered, and how it was refused if it was."""

    began: float
    ended: float
    refusal: str | None

    @property
    def seconds(self) -> float:
        """That the answer took."""
        return self.ended - self.began


class Client(threading.Thread):
    """Asks until it is told to stop, over one connection; that this is cut off is a failure of its own."""

    dialect: str

    def __init__(self, name: str, port: int) -> None:
        super().__init__(name=name, daemon=True)
        self.told: list[Told] = []
        self._port = port
        self._sent: float | None = None
        self._over = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        """See Thread."""
        try:
            with connected(self.dialect, self._port) as peer:
                while not self._over.is_set():
                    began = self._sent = time.monotonic()
                    refusal = self._ask(peer)
                    self._sent = None
                    self.told.append(Told(began, time.monotonic(), refusal))
                    self._over.wait(PAUSE if refusal is None else PAUSE_AFTER_REFUSAL)
        except BaseException as failure:
            self._failure = failure

    def finish(self) -> None:
        """Let it hear its last answer; fails with what it met."""
        self._over.set()
        self.join(TIMEOUT)
        assert not self.is_alive(), f"{self.name} still waits"
        self.check()

    def check(self) -> None:
        """Raises what it met, if it met something."""
        if self._failure is not None:
            raise self._failure

    def waits(self) -> bool:
        """Whether its answer has been due for long."""
        self.check()
        sent = self._sent
        return sent is not None and time.monotonic() - sent > LONG

    def went_on(self, since: float) -> float:
        """Seconds from then to the first answer that is no refusal, infinite if there was none yet."""
        self.check()
        found = (told.ended - since for told in list(self.told) if told.refusal is None and told.ended >= since)
        return next(found, math.inf)

    @property
    def refusals(self) -> list[str]:
        """What it was refused with."""
        return [told.refusal for told in self.told if told.refusal is not None]

    @property
    def longest(self) -> float:
        """Seconds that an answer took at most."""
        return max(told.seconds for told in self.told)

    def _ask(self, peer: Speaking) -> str | None:
        """Ask for one thing.  Returns how it was refused, None = it was not."""
        raise NotImplementedError


class Writer(Client):
    """Writes numbered records into partition 0 of `orders`.  count: in a request."""

    again = False
    """Whether it sends again what was refused."""

    def __init__(self, name: str, port: int, ledger: Ledger, count: int = 1) -> None:
        super().__init__(name, port)
        self._ledger = ledger
        self._count = count
        self._first = 1

    def _ask(self, peer: Speaking) -> str | None:
        first, last = self._first, self._first + self._count - 1
        self._ledger.sent(self.name, first, last)
        refused = refusal(peer.ask(self._command(range(first, last + 1))), r.Published)
        if refused is None:
            self._ledger.acknowledged(self.name, first, last)
        if refused is None or not self.again:
            self._first = last + 1
        return refused

    def _command(self, numbers: range) -> q.Publish:
        raise NotImplementedError


class CursusWriter(Writer):
    """Idempotent: batches with an id, an epoch and sequence numbers."""

    dialect = "cursus"
    again = True

    def _command(self, numbers: range) -> q.Publish:
        return batch("orders", 0, [Row(0, at, self.name, "", 1, self._ledger.value(self.name, at)) for at in numbers])


class LineWriter(Writer):
    """V1, which writes to the partition of a key."""

    dialect = "pipe"

    def _command(self, numbers: range) -> q.Publish:
        [number] = numbers
        return line("orders", "key", self._ledger.value(self.name, number))


class SpokenWriter(Writer):
    """Any other dialect."""

    def __init__(self, dialect: str, name: str, port: int, ledger: Ledger) -> None:
        super().__init__(name, port, ledger)
        self.dialect = dialect

    def _command(self, numbers: range) -> q.Publish:
        [number] = numbers
        return batch("orders", 0, [Row(0, 0, "", "", 0, self._ledger.value(self.name, number))])


class SpokenReader(Client):
    """Asks for the last record of `orders`; asking twice changes nothing, so the proxy may."""

    def __init__(self, dialect: str, name: str, port: int) -> None:
        super().__init__(name, port)
        self.dialect = dialect

    def _ask(self, peer: Speaking) -> str | None:
        return refusal(peer.ask(q.Fetch(topic("orders"), 0, 0, 1)), r.Records)


def refusal(outcome: Outcome, expected: type) -> str | None:
    """The name of the fault; what is neither it nor as expected is a failure of the test."""
    if isinstance(outcome, expected):
        return None
    assert isinstance(outcome, Exception), outcome
    return str(outcome)


@contextmanager
def running(clients: Mapping[Client, str]) -> Iterator[Mapping[Client, str]]:
    """Clients that ask all the time, each with its dialect."""
    for client in clients:
        client.start()
    yield clients
    for client in clients:
        client.finish()
