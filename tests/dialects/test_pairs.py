"""A thousand records written in one dialect and read in another, for every pair, over connections that cut anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec
import pytest
from twisted.internet.task import Clock

import wire
from gateway import dialects
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.records import Header, HeaderKind, Record, canonical
from gateway.core.replies import Done, Published, Records, TopicDescription
from gateway.dialects.fidelity import Fates, journey
from net.peers import Client, Node

NAMES = dialects.names()
PAIRS = [(a, b) for a in NAMES for b in NAMES]

TOPIC = q.Topic("default", "orders")
MANY = 1000
SETTINGS: dict[str, dict[str, object]] = {"iggy": {"generation": "g2c"}, "pipe": {"policy": "escape"}}

AT_ONCE = {"cursus": 100, "iggy": 25, "mlog": 50, "native": 100}
"""Records that a producer sends in one request, 1 for those who are not here."""

WORDS = [b"a", b"10:", b"5:x,6:y", b"\xff\xfe", "\u00fc".encode(), b"|", b"message=", b"{}", b"\\n", b"\0"]
BREAKS = [b"\n", b"\r\n", b" ", b"\t", b"\n\n" + wire.told("pipe", "an answer to PRODUCE says something")]


class Cut(Client):
    """A client whose bytes arrive in pieces, and that gets its answers in pieces."""

    def __init__(self, node: Node, random: Random) -> None:
        super().__init__(node)
        self._random = random
        self._sent, self.peer.send = self.peer.send, self._send  # type: ignore[method-assign]

    def _send(self, data: bytes, chunk: int = 0) -> None:
        for piece in self._pieces(data):
            self._sent(piece)

    def listen(self) -> None:
        for piece in self._pieces(self.peer.read()):
            self.outcomes |= {request.tag: outcome for request, outcome in self.session.receive(piece)}

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        while data:
            size = self._random.choice((1, 2, 7, 100, 5000))
            yield data[:size]
            data = data[size:]


def node_of(name: str, backend: MemoryBackend, clock: Clock, like: Node | None = None, **said: object) -> Node:
    """A listener of that dialect, in the same process as another."""
    node = Node(backend, name, clock, **SETTINGS.get(name, {}) | said)
    if like is not None:
        node.port = node.listening.port = like.port
    return node


# -- what is written


def produced(name: str, random: Random) -> list[list[Record]]:
    """As many records as that dialect can tell apart, in the portions that it sends them in."""
    portion = AT_ONCE.get(name, 1)
    return [[*_portion(name, random, portion)] for _ in range(MANY // portion)]


def _portion(name: str, random: Random, count: int) -> Iterator[Record]:
    fates = declared(name)[0]
    key = _octets(name, random).replace(b":", b";")  # one for all of a SEND of Iggy
    for _ in range(count):
        if name != "iggy":
            key = random.choice((b"", _octets(name, random).replace(b":", b";")))
        keyed = (key or None) if fates["key"].way == "kept" else None
        headers = _headers(random) if fates["headers"].way == "kept" else ()
        yield Record(keyed, _octets(name, random), headers)


def _octets(name: str, random: Random) -> bytes:
    words = WORDS if name == "pipe" else WORDS + BREAKS
    return b"".join(random.choices(words, k=random.randint(1, 5)))


def _headers(random: Random) -> tuple[Header, ...]:
    each = (
        Header(b"trace", random.randbytes(16)),
        Header(b"text", "\u00fc, \n".encode(), HeaderKind.TEXT),
        Header(b"number", random.randbytes(4), HeaderKind.INT32),
        Header(random.randbytes(4), b"\1", HeaderKind.BOOL, HeaderKind.UINT32),
    )
    return tuple(random.sample(each, random.randint(0, 4)))


def publish(name: str, records: list[Record]) -> q.Publish:
    to: int | q.ByKey = 0
    if name in ("pipe", "iggy"):
        to = q.ByKey(records[0].key or b"", "fnv1a_32" if name == "pipe" else "xxh32")
    return q.Publish(TOPIC, to, canonical(records))


# -- what is read


def declared(name: str) -> tuple[Fates, Fates]:
    fidelity = dialects.load(name).fidelity
    assert fidelity is not None
    return fidelity.writing, fidelity.reading


def shown(a: str, b: str, record: Record) -> tuple[bytes | None, bytes | None, tuple[Header, ...]]:
    """Key, value and headers as the table says that they are seen."""
    writing, reading = declared(a)[0], declared(b)[1]
    kept = {field: journey(writing[field], reading[field]).way in ("kept", "partly") for field in writing}
    assert kept["value"]
    return record.key if kept["key"] else None, record.value, record.headers if kept["headers"] else ()


def fetched(client: Client, most: int) -> list[tuple[int, Record]]:
    """All there is, from the beginning, a portion after the other."""
    found: list[tuple[int, Record]] = []
    while len(found) < MANY:
        reply = client.ask(q.Fetch(TOPIC, 0, len(found), most, 1 << 20))
        assert isinstance(reply, Records), reply
        portion = [(offset, record) for batch in reply.batches for offset, _, record in batch.rows()]
        assert portion, f"nothing from {len(found)} on"
        found += portion
    return found


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])
def test_a_thousand_records_arrive_as_the_table_says(a: str, b: str) -> None:
    random, clock = Random(f"{a} to {b}"), Clock()
    backend = MemoryBackend(clock)
    writers = node_of(a, backend, clock)
    readers = node_of(b, backend, clock, writers)
    assert isinstance(backend.execute(q.CreateTopic(TOPIC, 1), q.Session(0)), TopicDescription)
    portions = produced(a, random)
    producer, consumer = Cut(writers, random), Cut(readers, random)
    tags = producer.begin(*(publish(a, records) for records in portions))
    producer.listen()
    assert all(isinstance(producer.outcomes[tag], Published | Done) for tag in tags)
    assert not producer.session.terms.losses, "it said all that it can"
    records = [record for portion in portions for record in portion]
    found = fetched(consumer, random.randint(40, 400))
    assert [offset for offset, _ in found] == list(range(MANY))
    assert [(at.key, at.value, at.headers) for _, at in found] == [shown(a, b, record) for record in records]
    assert not producer.peer.left and not consumer.peer.left


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])
def test_what_is_counted_of_a_thousand_records_is_what_the_reader_did_not_see(a: str, b: str) -> None:
    random, clock = Random(f"{b} from {a}"), Clock()
    backend = MemoryBackend(clock)
    writers = node_of(a, backend, clock)
    readers = node_of(b, backend, clock, writers)
    backend.execute(q.CreateTopic(TOPIC, 1), q.Session(0))
    portions = produced(a, random)
    Cut(writers, random).begin(*(publish(a, records) for records in portions))
    fetched(Cut(readers, random), MANY)
    losses = readers.listening.listener.losses
    records = [record for portion in portions for record in portion]
    lost = {field for field in ("key", "headers") if declared(b)[1][field].way == "dropped" and a != b}
    assert losses[a, b, "key"] == ("key" in lost) * sum(record.key is not None for record in records)
    assert losses[a, b, "headers"] == ("headers" in lost) * sum(bool(record.headers) for record in records)


ANYTHING = [bytes([at]) for at in range(256)] + [bytes(range(256)) * 4, "\u00fc\U0001f600".encode(), b""]


@pytest.mark.parametrize("policy", ["replace", "reject", "escape"])
@pytest.mark.parametrize("name", NAMES)
def test_any_octets_are_a_value_under_any_policy_but_in_lines(name: str, policy: str) -> None:
    clock = Clock()
    backend = MemoryBackend(clock)
    node = node_of(name, backend, clock, policy=policy)
    backend.execute(q.CreateTopic(TOPIC, 1), q.Session(0))
    values = ANYTHING
    if name == "pipe" and policy != "escape":
        values = [value for value in ANYTHING if not set(value) & set(b"\n\r,")]
    backend.execute(q.Publish(TOPIC, 0, canonical([Record(None, value) for value in values])), q.Session(0))
    reply = Cut(node, Random(name)).ask(q.Fetch(TOPIC, 0, 0, len(values)))
    assert isinstance(reply, Records)
    assert [record.value for batch in reply.batches for record in batch.records()] == values


def without_commas(record: Record) -> Record:
    """A comma looks like the end of a value to a reader of V1."""
    return msgspec.structs.replace(record, value=(record.value or b"").replace(b",", b";"))


@pytest.mark.parametrize("a", [name for name in NAMES if name != "pipe"])
def test_a_line_has_a_space_for_every_end_of_a_line_unless_told_otherwise(a: str) -> None:
    random, clock = Random(a), Clock()
    backend = MemoryBackend(clock)
    writers = node_of(a, backend, clock)
    readers = node_of("pipe", backend, clock, writers, policy="replace")
    backend.execute(q.CreateTopic(TOPIC, 1), q.Session(0))
    plain = [[without_commas(record) for record in portion] for portion in produced(a, random)]
    Cut(writers, random).begin(*(publish(a, records) for records in plain))
    records = [record for portion in plain for record in portion]
    spaced = [(record.value or b"").replace(b"\n", b" ").replace(b"\r", b" ") for record in records]
    assert [at.value for _, at in fetched(Cut(readers, random), MANY)] == spaced
    changed = sum(record.value != seen for record, seen in zip(records, spaced, strict=True))
    assert 0 < changed < MANY
    assert readers.listening.listener.losses[a, "pipe", "value"] == changed
