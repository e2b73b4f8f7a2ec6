"""What producers were told, and whether what is stored agrees with it.

A record's value says whose it is: `producer-sequence`.  A producer writes its sequence in order, retries what was not
acknowledged, and never sends anything else.
"""

from __future__ import annotations

import random
import threading
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Published
from gateway.dialects import load
from system.peers import TIMEOUT, Frames, Lines, Row, Speaking, batch, connected, line
from system.processes import GatewayProcess

Key = tuple[str, int]
"""(producer, sequence)."""

Place = tuple[int, int]
"""(partition, offset)."""


class Ledger:
    """The acknowledged set of any number of producers; they write it from threads of their own."""

    def __init__(self) -> None:
        self._sends: Counter[Key] = Counter()
        self._acknowledged: dict[Key, Place | None] = {}
        self._news = threading.Condition()

    @staticmethod
    def value(producer: str, sequence: int) -> str:
        """What the record holds."""
        return f"{producer}-{sequence}"

    def sent(self, producer: str, first: int, last: int) -> None:
        """These records are about to be sent, maybe again."""
        with self._news:
            self._sends.update((producer, sequence) for sequence in range(first, last + 1))

    def acknowledged(self, producer: str, first: int, last: int, place: Place | None = None) -> None:
        """The gateway has said that these records are stored; place: where it said the first of them is."""
        with self._news:
            for at, sequence in enumerate(range(first, last + 1)):
                self._acknowledged[producer, sequence] = None if place is None else (place[0], place[1] + at)
            self._news.notify_all()

    def retried(self, producer: str, sequence: int) -> bool:
        """Whether the record was sent more than once."""
        with self._news:
            return self._sends[producer, sequence] > 1

    @property
    def count(self) -> int:
        """Records acknowledged so far."""
        with self._news:
            return len(self._acknowledged)

    def wait(self, count: int, seconds: float = TIMEOUT) -> None:
        """Until so many more are acknowledged."""
        with self._news:
            wanted = len(self._acknowledged) + count
            assert self._news.wait_for(lambda: len(self._acknowledged) >= wanted, seconds), (
                f"{len(self._acknowledged)} of {wanted} records were acknowledged within {seconds:g} s"
            )

    def complaints(self, stored: Mapping[int, Sequence[str]], once: Collection[str]) -> list[str]:
        """What is wrong with what is stored; empty if nothing is.

        stored: partition -> the values in it, in order of their offsets.
        once:   producers whose records may be there once at most; those of others as often as they were sent.
        """
        places: dict[Key, list[Place]] = {}
        for partition, values in stored.items():
            for offset, value in enumerate(values):
                producer, _, sequence = value.rpartition("-")
                places.setdefault((producer, int(sequence)), []).append((partition, offset))
        with self._news:
            return [*self._lost(places), *self._strange(places, once), *_disordered(places)]

    def _lost(self, places: Mapping[Key, list[Place]]) -> Iterator[str]:
        for key, place in self._acknowledged.items():
            if key not in places:
                yield f"{key} was acknowledged and is not there"
            elif place is not None and place not in places[key]:
                yield f"{key} was acknowledged at {place} and is at {places[key]}"

    def _strange(self, places: Mapping[Key, list[Place]], once: Collection[str]) -> Iterator[str]:
        for key, found in places.items():
            most = min(self._sends[key], 1) if key[0] in once else self._sends[key]
            if len(found) > most:
                yield f"{key} was sent {self._sends[key]} times and is there {len(found)} times: {found}"


def _disordered(places: Mapping[Key, list[Place]]) -> Iterator[str]:
    """In each partition the records of a producer stand in the order of its sequence; repetitions may follow."""
    last: dict[tuple[str, int], int] = {}
    first = {(key[0], *place): key[1] for key, found in places.items() for place in _firsts(found)}
    for producer, partition, offset in sorted(first):
        sequence = first[producer, partition, offset]
        if sequence < last.get((producer, partition), 0):
            yield f"{producer} {sequence} is at {partition}, {offset}, behind {last[producer, partition]}"
        last[producer, partition] = sequence


def _firsts(found: list[Place]) -> list[Place]:
    return [min(place for place in found if place[0] == partition) for partition in {place[0] for place in found}]


class Refused(OSError):
    """The gateway did not store it and says so: it is stopping."""


class Batch(NamedTuple):
    """What is on its way."""

    first: int
    last: int
    command: q.Publish


class Producer(threading.Thread):
    """Writes until it is told to stop, and then until all it has sent is acknowledged; connects again when cut off."""

    dialect: str
    window = 4
    """Frames that are on their way at a time."""

    def __init__(self, name: str, ledger: Ledger, port: int) -> None:
        super().__init__(name=name, daemon=True)
        self._ledger = ledger
        self._port = port
        self._next = 1
        self._open: deque[Batch] = deque()
        self._stopping = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        """See Thread."""
        try:
            while not (self._stopping.is_set() and not self._open):
                try:
                    with self._connect() as stream:
                        self._produce(stream)
                except (OSError, EOFError):
                    self._stopping.wait(0.01)
        except BaseException as failure:
            self._failure = failure

    def stop(self) -> None:
        """Send nothing new."""
        self._stopping.set()

    def finish(self) -> None:
        """Wait for the end; fails if there is none, or with what the producer met."""
        self.stop()
        self.join(TIMEOUT)
        if self._failure is not None:
            raise self._failure
        assert not self.is_alive(), f"{self.name} still waits for {len(self._open)} acknowledgements"

    def _produce(self, peer: Speaking) -> None:
        for sent in self._open:
            self._send(peer, sent)
        while True:
            while len(self._open) < self.window and not self._stopping.is_set():
                self._open.append(self._make())
                self._send(peer, self._open[-1])
            if not self._open:
                return
            self._hear(peer, self._open[0])
            self._open.popleft()

    def _send(self, peer: Speaking, sent: Batch) -> None:
        self._ledger.sent(self.name, sent.first, sent.last)
        peer.begin([sent.command])

    def _hear(self, peer: Speaking, sent: Batch) -> None:
        request, said = peer.next()
        assert request.command is sent.command
        codes = load(self.dialect).faults
        if isinstance(said, CommandFailed) and codes[said.fault] in {codes[fault] for fault in STOPPING}:
            raise Refused(str(said))
        assert isinstance(said, Published), f"{sent.first}..{sent.last}: {said!r}"
        self._ledger.acknowledged(self.name, sent.first, sent.last, self._place(sent, said))

    def _place(self, sent: Batch, said: Published) -> Place | None:
        """Where the first record is, None = that cannot be known."""
        return said.partition, said.base

    def _take(self, count: int) -> range:
        """The next sequence numbers."""
        taken = range(self._next, self._next + count)
        self._next += count
        return taken

    def _connect(self) -> Speaking:
        return connected(self.dialect, self._port)

    def _make(self) -> Batch:
        raise NotImplementedError


STOPPING = (Fault.UNAVAILABLE, Fault.BUSY)
"""What a gateway that stops says, in the words of its dialects."""


class BatchProducer(Producer):
    """An idempotent Cursus producer: one id and epoch, batches of 1 to 40 records in one partition."""

    dialect = "cursus"

    def __init__(self, name: str, ledger: Ledger, port: int, topic: str, partition: int) -> None:
        super().__init__(name, ledger, port)
        self._topic = topic
        self._partition = partition
        self._random = random.Random(name)

    def _make(self) -> Batch:
        taken = self._take(self._random.randint(1, 40))
        rows = [Row(0, number, self.name, "", 1, self._ledger.value(self.name, number)) for number in taken]
        return Batch(taken[0], taken[-1], batch(self._topic, self._partition, rows))

    def _place(self, sent: Batch, said: Published) -> Place | None:
        retried = self._ledger.retried(self.name, sent.first)  # then the offset may be that of the end
        return None if retried else super()._place(sent, said)


class LineProducer(Producer):
    """A V1 producer, which cannot be told apart from a new one: what it retries may be there twice."""

    dialect = "pipe"
    window = 16

    def __init__(self, name: str, ledger: Ledger, port: int, topic: str) -> None:
        super().__init__(name, ledger, port)
        self._topic = topic

    def _make(self) -> Batch:
        [number] = self._take(1)
        return Batch(number, number, line(self._topic, f"key{number % 7}", self._ledger.value(self.name, number)))


PARTITIONS = 3
"""Of the topic `orders`."""


def producers(ledger: Ledger, gateway: GatewayProcess) -> list[Producer]:
    """Four idempotent ones, two of them in one partition, and two that are not, all of them in one topic."""
    cursus, pipe = gateway.ports["cursus"], gateway.ports["pipe"]
    with Frames(cursus) as peer:
        peer.create("orders", PARTITIONS, idempotent=True)
    batches = [BatchProducer(name, ledger, cursus, "orders", at % PARTITIONS) for at, name in enumerate("abcd")]
    return [*batches, LineProducer("v", ledger, pipe, "orders"), LineProducer("w", ledger, pipe, "orders")]


def stored(gateway: GatewayProcess, partitions: int = PARTITIONS) -> dict[int, list[str]]:
    """Every value there is, the same to readers of both dialects."""
    with Frames(gateway.ports["cursus"]) as frames, Lines(gateway.ports["pipe"]) as lines:
        found = {at: [row.value for row in frames.read_all("orders", at)] for at in range(partitions)}
        assert {at: lines.read_all("orders", at) for at in range(partitions)} == found
    return found
