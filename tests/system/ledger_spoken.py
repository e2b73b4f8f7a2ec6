"""Producers of the ledger in more dialects, all writing into one topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gateway.core import commands as q
from gateway.core.records import Record, canonical
from gateway.core.replies import Published
from system.ledger import Batch, Ledger, Place, Producer, producers
from system.peers import TIMEOUT, topic
from system.processes import GatewayProcess

SPOKEN = {"iggy": 0, "native": 1, "grid": 0}
"""Dialect -> the partition its producer writes to; to the grid a topic has no other than 0."""

DIALECTS = ("cursus", "pipe", *SPOKEN)


class CountingLedger(Ledger):
    """A ledger that knows how many records of each producer are acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self._count: Counter[str] = Counter()

    def acknowledged(self, producer: str, first: int, last: int, place: Place | None = None) -> None:
        """See Ledger."""
        with self._news:
            self._count[producer] += last + 1 - first
        super().acknowledged(producer, first, last, place)

    def copy(self) -> Ledger:
        """What is acknowledged now, and whatever is sent from now on, too."""
        copied = Ledger()
        with self._news:
            copied._sends, copied._acknowledged = self._sends, dict(self._acknowledged)
        return copied

    def wait_each(self, names: Iterable[str], count: int) -> None:
        """Until so many more of each are acknowledged."""
        with self._news:
            wanted = {name: self._count[name] + count for name in names}
            done = self._news.wait_for(lambda: all(self._count[name] >= wanted[name] for name in wanted), TIMEOUT)
            assert done, f"wanted {wanted} within {TIMEOUT:g} s, and has {self._count}"


class SpokenProducer(Producer):
    """A producer of any dialect, with our own client half; what it retries may be there twice."""

    window = 1

    def __init__(self, dialect: str, ledger: Ledger, port: int, partition: int) -> None:
        super().__init__(dialect, ledger, port)
        self.dialect = dialect
        self._partition = partition

    def _make(self) -> Batch:
        [number] = self._take(1)
        record = Record(value=self._ledger.value(self.name, number).encode())
        return Batch(number, number, q.Publish(topic("orders"), self._partition, canonical([record])))

    def _place(self, sent: Batch, said: Published) -> Place | None:
        """The other two do not say where it went."""
        return super()._place(sent, said) if self.name == "native" else None


def of_many_dialects(ledger: Ledger, gateway: GatewayProcess) -> list[Producer]:
    """Those of `producers`, of which a to d are idempotent, and one of each of SPOKEN."""
    spoken = [SpokenProducer(name, ledger, gateway.ports[name], at) for name, at in SPOKEN.items()]
    return [*producers(ledger, gateway), *spoken]
