"""Producers of the ledger in more dialects, all writing into one topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical
from system.ledger import Batch, Ledger, Place, Producer, Refused, producers
from system.peers import TIMEOUT, Stream
from system.processes import GatewayProcess
from system.speaking import Speaking

TOPIC = q.Topic("default", "orders")

SPOKEN = {"iggy": 0, "native": 1, "grid": 0}
"""Dialect -> the partition its producer writes to; to the grid a topic has no other than 0."""

DIALECTS = ("cursus", "pipe", *SPOKEN)

T = TypeVar("T")

STOPPING = {Fault.UNAVAILABLE, Fault.BUSY}
"""What a gateway that stops says, in the words of its dialects."""


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
        self._partition = partition

    def _connect(self) -> Speaking:
        stream = Speaking(self.name, self._port)
        try:
            if self.name == "iggy":
                _sure(stream.ask(q.Authenticate("plain", "iggy", "iggy")), r.Authenticated)
        except BaseException:
            stream.close()
            raise
        return stream

    def _make(self) -> Batch:
        [number] = self._take(1)
        return Batch(number, number, b"")  # what goes over the wire is the stream's business

    def _send(self, stream: Stream, sent: Batch) -> None:
        self._ledger.sent(self.name, sent.first, sent.last)

    def _hear(self, stream: Stream, sent: Batch) -> None:
        assert isinstance(stream, Speaking)
        record = Record(value=self._ledger.value(self.name, sent.first).encode())
        said = stream.ask(q.Publish(TOPIC, self._partition, canonical([record])))
        published = _sure(said, r.Published)
        exact = self.name == "native"  # the other two do not say where it went
        self._ledger.acknowledged(
            self.name, sent.first, sent.last, (published.partition, published.base) if exact else None
        )


def of_many_dialects(ledger: Ledger, gateway: GatewayProcess) -> list[Producer]:
    """Those of `producers`, of which a to d are idempotent, and one of each of SPOKEN."""
    spoken = [SpokenProducer(name, ledger, gateway.ports[name], at) for name, at in SPOKEN.items()]
    return [*producers(ledger, gateway), *spoken]


def _sure(outcome: object, expected: type[T]) -> T:
    """The reply.  Raises Refused where the gateway is stopping."""
    if isinstance(outcome, CommandFailed) and outcome.fault in STOPPING:
        raise Refused(str(outcome))
    assert isinstance(outcome, expected), outcome
    return outcome
