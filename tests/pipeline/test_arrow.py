"""gateway.pipeline.arrow: what a frame shows is what the record objects say, in every encoding there is."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from dialects.strategies import headers, wide_records
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import CANONICAL, Encoding, Header, HeaderKind, Record, RecordBatch, canonical, registry
from gateway.dialects import load, names
from gateway.dialects.cursus.converting import encode
from gateway.dialects.cursus.layout import CURSUS_V1
from gateway.dialects.iggy.converting import messages_of
from gateway.dialects.iggy.layout_g0 import IGGY_G0
from gateway.dialects.iggy.layout_g2 import IGGY_G2B, IGGY_G2C
from gateway.dialects.iggy.shape import prefix
from gateway.dialects.losses import Losses
from gateway.pipeline import arrow
from gateway.pipeline.arrow import Frames
from gateway.pipeline.schema import COLUMNS, KINDS, SCHEMA

Rows = list[dict[str, object]]

U64 = st.integers(0, (1 << 64) - 1)
SIGNED = st.integers(-(1 << 63), (1 << 64) - 1)

anything = st.builds(
    lambda record, origin, schema, version: msgspec.structs.replace(
        record, origin_timestamp=origin, schema_version=schema, aggregate_version=version
    ),
    wide_records,
    SIGNED,
    SIGNED,
    SIGNED,
)
"""What the canonical encoding holds, down to numbers that no dialect has."""

for_cursus = st.builds(
    Record,
    key=st.none() | st.binary(min_size=1, max_size=5),
    value=st.binary(max_size=40),
    producer=st.binary(max_size=4),
    epoch=st.integers(-(1 << 63), (1 << 63) - 1),
    sequence=U64,
    event_type=st.binary(max_size=3),
    schema_version=st.integers(0, (1 << 32) - 1),
    aggregate_version=U64,
    metadata=st.binary(max_size=3),
)


def for_iggy(record: Record, keys: bool) -> Record:
    """As much of it as Iggy can say: headers with a key and a value, in some layouts no other kinds of keys."""
    said = [header for header in record.headers if header.key and header.value]
    plain = tuple(header if keys else Header(header.key, header.value, header.kind) for header in said)
    return msgspec.structs.replace(record, headers=plain, key=None, value=record.value or b"")


texts = st.text(max_size=10).map(str.encode)
readable = st.builds(lambda header, key: msgspec.structs.replace(header, key=key), headers(), texts)
in_iggy = st.builds(
    Record,
    value=st.binary(max_size=40),
    headers=st.lists(headers() | readable, max_size=3).map(tuple),
    origin_timestamp=U64,
    id=st.just(b"") | st.binary(min_size=16, max_size=16),
)


def canonical_body(records: list[Record], key: bytes) -> bytes:
    return canonical(records).body


def cursus_body(records: list[Record], key: bytes) -> bytes:
    return b"".join(encode(enumerate(records), "cursus", Losses()))


def iggy_body(encoding: Encoding) -> Callable[[list[Record], bytes], bytes]:
    def body(records: list[Record], key: bytes) -> bytes:
        said = [for_iggy(record, encoding is IGGY_G2C) for record in records]
        return prefix(key) + messages_of(canonical(said), encoding, Losses())

    return body


ENCODINGS = registry(encoding for name in names() for encoding in load(name).encodings)
WRITERS: dict[str, tuple[Callable[[list[Record], bytes], bytes], st.SearchStrategy[Record]]] = {
    CANONICAL.name: (canonical_body, anything),
    CURSUS_V1.name: (cursus_body, for_cursus),
    **{encoding.name: (iggy_body(encoding), in_iggy) for encoding in (IGGY_G0, IGGY_G2B, IGGY_G2C)},
}
"""How each encoding comes by bodies here."""


@st.composite
def stored(draw: st.DrawFn, name: str, alike: bool) -> RecordBatch:
    """A batch as it stands in a partition; alike: its records have one shape, which is when bodies are strided."""
    write, records = WRITERS[name]
    if alike:
        record = draw(records)
        said = [record] * draw(st.integers(1, 12))
    else:
        said = draw(st.lists(records, min_size=1, max_size=8))
    body = write(said, draw(st.sampled_from([b"", b"key"])))
    origin = draw(st.sampled_from(["", "native", "cursus"]))
    sent = RecordBatch(ENCODINGS[name], body, len(said), origin=origin)
    return sent.appended(draw(st.integers(0, 1 << 40)), draw(st.just(0) | st.integers(1, 1 << 60)))


def expected(batches: list[RecordBatch], partition: int) -> Rows:
    """The same rows from record objects, one by one."""
    return [
        expected_row(batch, partition, offset, timestamp if batch.timestamp or record.timestamp else 0, record)
        for batch in batches
        for offset, timestamp, record in batch.rows()
    ]


def expected_row(batch: RecordBatch, partition: int, offset: int, timestamp: int, record: Record) -> dict[str, object]:
    numbered = bool(record.producer)
    return {
        "namespace": "default",
        "topic": "orders",
        "partition": partition,
        "offset": offset,
        "timestamp": timestamp or None,
        "key": record.key or None,
        "value": record.value,
        "headers": [expected_header(header) for header in record.headers],
        "origin_timestamp": signed(record.origin_timestamp) or None,
        "id": record.id or None,
        "producer": record.producer or None,
        "epoch": signed(record.epoch) if numbered or record.epoch else None,
        "sequence": signed(record.sequence) if numbered or record.sequence else None,
        "event_type": record.event_type or None,
        "schema_version": signed(record.schema_version) or None,
        "aggregate_version": signed(record.aggregate_version) or None,
        "metadata": record.metadata or None,
        "expiry": record.expiry or None,
        "origin": batch.origin or None,
    }


def expected_header(header: Header) -> dict[str, object]:
    try:
        key, raw = header.key.decode(), None
    except UnicodeDecodeError:
        key, raw = None, header.key
    kinds = {"kind": KINDS[header.kind], "key_kind": KINDS[header.key_kind]}
    return {"key": key, "value": header.value, "raw_key": raw} | kinds


def signed(number: int) -> int:
    """The long with those 64 bits."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def shown(frames: list[pa.RecordBatch]) -> Rows:
    rows: Rows = []
    for frame in frames:
        frame.validate(full=True)
        times = [index for index, field in enumerate(frame.schema) if pa.types.is_timestamp(field.type)]
        for index in times:
            frame = frame.set_column(index, frame.schema.names[index], frame.column(index).cast(pa.int64()))
        rows += frame.to_pylist()
    return rows


def few(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(arrow, "FEW", count)


def test_every_encoding_is_among_those_that_are_compared() -> None:
    assert WRITERS.keys() == ENCODINGS.keys()


@pytest.mark.parametrize("name", sorted(WRITERS))
@pytest.mark.parametrize("alike", [True, False])
@given(data=st.data())
@settings(max_examples=20)
def test_a_frame_shows_what_the_records_say(name: str, alike: bool, data: st.DataObject) -> None:
    batches = data.draw(st.lists(stored(name, alike), min_size=1, max_size=3))
    with pytest.MonkeyPatch.context() as patch:
        few(patch, 1)  # so that the columns come from the buffers
        assert shown(list(Frames(SCHEMA, "default", "orders").of(3, batches))) == expected(batches, 3)


@given(st.lists(st.sampled_from(sorted(WRITERS)).flatmap(lambda name: stored(name, False)), max_size=8))
@settings(max_examples=20)
def test_batches_of_many_encodings_stay_in_order(batches: list[RecordBatch]) -> None:
    for count in (1, 6, 1000):
        with pytest.MonkeyPatch.context() as patch:
            few(patch, count)
            patch.setattr(arrow, "MANY", 4)
            assert shown(list(Frames(SCHEMA, "default", "orders").of(0, batches))) == expected(batches, 0)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_535, 65_536])
def test_keys_and_values_of_any_length_come_through(size: int) -> None:
    records = [Record(None, b"x" * size), Record(b"k" * size, None), Record(b"k", b""), Record()]
    batches = [
        canonical(records, "native").appended(7, 99),
        canonical([Record(b"last", b"x" * size)]).appended(11, 103),
    ]
    with pytest.MonkeyPatch.context() as patch:
        few(patch, 1)
        assert shown(list(Frames(SCHEMA, "default", "orders").of(0, batches))) == expected(batches, 0)


@pytest.mark.parametrize("name", sorted(WRITERS))
@given(data=st.data())
@settings(max_examples=20)
def test_a_damaged_body_is_refused_or_shown_as_its_records_are(name: str, data: st.DataObject) -> None:
    batch = data.draw(stored(name, data.draw(st.booleans())))
    body = bytearray(batch.body)
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    damaged = msgspec.structs.replace(batch, body=bytes(body))
    with pytest.MonkeyPatch.context() as patch:
        few(patch, 1)
        try:
            frames = list(Frames(SCHEMA, "default", "orders").of(0, [damaged]))
        except CommandFailed as failure:
            assert failure.fault is Fault.MALFORMED
            return
    assert shown(frames) == expected([damaged], 0)


@pytest.mark.parametrize("name", COLUMNS)
def test_only_the_columns_asked_for_are_made(name: str) -> None:
    chosen = StructType([SCHEMA[name]])
    batch = canonical([Record(b"k", b"v", (Header(b"h", b"1", HeaderKind.TEXT),))], "native").appended(5, 9)
    [frame] = Frames(chosen, "default", "orders").of(2, [batch])
    assert frame.schema.names == [name]
    assert shown([frame]) == [{name: expected([batch], 2)[0][name]}]
