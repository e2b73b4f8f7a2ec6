"""Topics with records that say everything a record can say, and what is stored of them: asked for without Spark."""

from __future__ import annotations

import random

from gateway.core.commands import CreateTopic, Fetch, Publish, Topic, TopicSettings
from gateway.core.records import Header, HeaderKind, Record, canonical
from gateway.core.replies import Published, Records, TopicDescription
from gateway.pipeline.asking import Connection
from gateway.pipeline.places import Place
from system.processes import GatewayProcess

BATCH = 1000

_WORDS = (b"", b"a", b"\x00\xff", "žlutý kůň".encode(), b"x" * 200)
_KINDS = {
    HeaderKind.RAW: b"\x00\xfe",
    HeaderKind.TEXT: "été".encode(),
    HeaderKind.BOOL: b"\x01",
    HeaderKind.INT64: bytes(range(1, 9)),
    HeaderKind.UINT128: bytes(range(16)),
    HeaderKind.FLOAT64: bytes(range(8, 16)),
}


def place(gateway: GatewayProcess, dialect: str = "native", namespace: str = "default") -> Place:
    """Where a gateway listens for a dialect."""
    return Place(f"{dialect}=tcp:127.0.0.1:{gateway.ports[dialect]}", namespace)


def options(gateway: GatewayProcess, dialect: str = "native") -> dict[str, str]:
    """The same, as options of a data source and of a job."""
    return {"endpoint": place(gateway, dialect).endpoint}


def sample(count: int, seed: int, producer: bytes = b"") -> list[Record]:
    """Records of every shape.  producer: they are this one's, numbered from 1."""
    chance = random.Random(seed)
    return [_one(chance, at, producer) for at in range(count)]


def _one(chance: random.Random, at: int, producer: bytes) -> Record:
    key = chance.choice(_WORDS) or None
    record = Record(key, b"%d %s" % (at, chance.choice(_WORDS)), producer=producer, sequence=at + 1 if producer else 0)
    if at % 3:
        return record
    kinds = chance.choices(list(_KINDS), k=chance.randrange(4))
    return Record(
        key,
        chance.choice((None, *_WORDS)),
        tuple(Header(chance.choice(_WORDS[1:]), _KINDS[kind], kind) for kind in kinds),
        timestamp=chance.choice((0, 1_600_000_000_000_000 + at * 1000)),
        origin_timestamp=chance.choice((0, 1_500_000_000_000_001)),
        id=chance.choice((b"", chance.randbytes(16))),
        producer=producer,
        epoch=0,
        sequence=record.sequence,
        event_type=chance.choice(_WORDS),
        schema_version=chance.choice((0, 3)),
        aggregate_version=chance.choice((0, 1 << 40)),
        metadata=chance.choice(_WORDS),
        expiry=chance.choice((0, 4_000_000_000_000_000)),
    )


PLAIN = TopicSettings()


def fill(connection: Connection, topic: Topic, partitions: list[list[Record]], settings: TopicSettings = PLAIN) -> None:
    """Make the topic and publish these records to each of its partitions."""
    connection.ask(CreateTopic(topic, len(partitions), settings), TopicDescription)
    for partition, records in enumerate(partitions):
        for at in range(0, len(records), BATCH):
            connection.ask(Publish(topic, partition, canonical(records[at : at + BATCH], "native")), Published)


def stored(connection: Connection, topic: Topic, partition: int) -> list[Record]:
    """The records of a partition in order, each with its own time."""
    found: list[Record] = []
    while True:
        records = connection.ask(Fetch(topic, partition, len(found), max_bytes=8 << 20), Records)
        for batch in records.batches:
            found += [_timed(record, timestamp) for _, timestamp, record in batch.rows()]
        if len(found) >= records.end:
            return found


def _timed(record: Record, timestamp: int) -> Record:
    values = {name: getattr(record, name) for name in Record.__struct_fields__}
    return Record(**values | {"timestamp": timestamp})
