"""gateway.dialects.cursus: batches, and the record encoding `cursus.v1`."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

import pytest
from construct import Int32sb, Int32ub
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gateway.core.commands import Fetch, Publish, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import CANONICAL, MAX_RECORDS, Header, Record, RecordBatch, Run, canonical, registry
from gateway.core.replies import Records
from gateway.dialects import Refusal, Request
from gateway.dialects.cursus import DIALECT, layout
from gateway.dialects.cursus.batch import MAGIC, MAX_BODY, MAX_REPLY
from gateway.dialects.cursus.converting import body_of
from gateway.dialects.cursus.layout import CURSUS_V1
from gateway.dialects.cursus.spec import BATCH, RECORD, Long, parse_records, parse_request
from gateway.dialects.dialect import Losses, Terms

ORDERS = Topic("default", "orders")
FETCH = Request(Fetch(ORDERS, 0, 0))
U64, I64 = 2**64 - 1, 2**63
EDGES = [0, 1, 255, 256, 65_535, 65_536, 2**24 - 2, 2**32 - 3, 2**56 - 1]


def terms() -> Terms:
    return DIALECT.open(DIALECT.settings(), registry(DIALECT.encodings)).terms("localhost:9000")


Fields = dict[str, int | bytes]

numbers = st.integers(0, U64) | st.sampled_from(EDGES)


def fields(producer: int, key: int, payload: int, event: int, metadata: int) -> st.SearchStrategy[Fields]:
    """One record whose strings are so long."""
    return st.fixed_dictionaries(
        {
            "offset": st.just(0) | numbers,
            "sequence": numbers,
            "producer": st.binary(min_size=producer, max_size=producer),
            "key": st.binary(min_size=key, max_size=key),
            "epoch": st.integers(-I64, I64 - 1),
            "payload": st.binary(min_size=payload, max_size=payload),
            "event_type": st.binary(min_size=event, max_size=event),
            "schema_version": st.integers(0, 2**32 - 1),
            "aggregate_version": numbers,
            "metadata": st.binary(min_size=metadata, max_size=metadata),
        }
    )


lengths = st.tuples(*[st.integers(0, 3)] * 5)
one = lengths.flatmap(lambda sizes: fields(*sizes))
uniform = lengths.flatmap(lambda sizes: st.lists(fields(*sizes), min_size=1, max_size=12))
mixed = st.lists(one, min_size=1, max_size=6)


@st.composite
def produced(draw: st.DrawFn) -> list[Fields]:
    """What a producer sends: mostly one producer and epoch, sequence numbers that mostly rise by one."""
    records = draw(uniform | mixed)
    first, producer, epoch = draw(numbers), records[0]["producer"], records[0]["epoch"]
    for at, record in enumerate(records):
        record["sequence"] = (first + at) & U64
        if len(record["producer"]) == len(producer):
            record["producer"] = producer
        record["epoch"] = epoch
    for at in draw(st.lists(st.integers(0, len(records) - 1), max_size=2)):
        name = draw(st.sampled_from(["sequence", "epoch", "producer"]))
        records[at][name] = {"sequence": 0, "epoch": 1, "producer": b"!" * len(records[at]["producer"])}[name]
    return records


batches = uniform | mixed | produced()


def body(records: list[Fields]) -> bytes:
    return b"".join(RECORD.build(record) for record in records)


NAMES = tuple(field.name for field in RECORD.subcons)


def by_spec(octets: bytes) -> list[Fields]:
    """What construct finds in a body."""
    parsed = parse_records(octets)
    assert parsed is not None
    return [{name: record[name] for name in NAMES} for record in parsed]


def as_fields(**said: int | bytes) -> Fields:
    blank = {name: b"" for name in ("producer", "key", "payload", "event_type", "metadata")}
    return {**blank, "offset": 0, "sequence": 0, "epoch": 0, "schema_version": 0, "aggregate_version": 0, **said}


def as_record(record: Fields) -> Record:
    return Record(
        record["key"] or None,
        record["payload"],
        producer=record["producer"],
        epoch=record["epoch"],
        sequence=record["sequence"],
        event_type=record["event_type"],
        schema_version=record["schema_version"],
        aggregate_version=record["aggregate_version"],
        metadata=record["metadata"],
    )


# -- the encoding and its specification


@given(batches)
def test_a_body_is_what_the_specification_says(records: list[Fields]) -> None:
    octets = body(records)
    assert CURSUS_V1.walk(octets) == len(records)
    assert CURSUS_V1.records(octets) == [as_record(record) for record in records]
    assert list(CURSUS_V1.sizes(octets)) == [len(RECORD.build(record)) for record in records]
    assert layout.last(octets) == len(octets) - len(RECORD.build(records[-1]))


@given(batches, st.sampled_from(EDGES) | st.integers(0, 2**63 - 1))
def test_stamping_writes_the_offsets_and_nothing_else(records: list[Fields], base: int) -> None:
    stamped = CURSUS_V1.stamp(body(records), base, 1)
    assert by_spec(stamped) == [{**record, "offset": base + at} for at, record in enumerate(records)]


@pytest.mark.parametrize("base", [0, 200, 65_000, 2**24 - 500, 2**32 - 500, 2**63 - 1000])
def test_stamping_a_long_batch_counts_through_every_byte(base: int) -> None:
    stamped = CURSUS_V1.stamp(bytes(layout.FIXED) * 1000, base, 0)
    assert [layout.offset(stamped, at) for at in range(0, len(stamped), layout.FIXED)] == list(range(base, base + 1000))


def test_stamping_as_many_records_as_there_may_be_counts_through_two_bytes() -> None:
    stamped = CURSUS_V1.stamp(bytes(layout.FIXED) * MAX_RECORDS, 65_535, 0)
    offsets = [layout.offset(stamped, at * layout.FIXED) for at in range(0, MAX_RECORDS, 997)]
    assert offsets == list(range(65_535, 65_535 + MAX_RECORDS, 997))


@given(batches, st.data())
def test_cutting_takes_whole_records(records: list[Fields], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(records)))
    last = data.draw(st.integers(first, len(records)))
    assert CURSUS_V1.cut(body(records), first, last) == body(records[first:last])


@given(batches)
@example([as_fields(sequence=U64, producer=b"p")] * 2)
@example([as_fields(sequence=U64, producer=b"p"), as_fields(sequence=0, producer=b"p")])
def test_runs_are_those_of_the_same_records_in_the_canonical_encoding(records: list[Fields]) -> None:
    expected = CANONICAL.runs(canonical([as_record(record) for record in records]).body)
    assert CURSUS_V1.runs(body(records)) == expected


def test_a_batch_of_one_producer_is_one_run() -> None:
    records = [as_fields(sequence=7 + at, producer=b"p", epoch=3) for at in range(300)]
    assert CURSUS_V1.runs(body(records)) == [Run(b"p", 3, 7, 300)]
    assert CURSUS_V1.runs(body([{**record, "sequence": 0} for record in records])) == [Run(b"p", 3, 0, 300)]
    assert CURSUS_V1.runs(body([{**record, "producer": b""} for record in records])) == [Run(b"", 3, 0, 300)]


@given(batches, st.data())
def test_damaged_bodies_are_refused_by_both_or_by_none(records: list[Fields], data: st.DataObject) -> None:
    octets = bytearray(body(records))
    for _ in range(data.draw(st.integers(1, 2))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    octets = octets[: data.draw(st.just(len(octets)) | st.integers(0, len(octets)))]
    parsed = parse_records(bytes(octets))
    try:
        count = CURSUS_V1.walk(bytes(octets))
    except CommandFailed as failure:
        assert failure.fault is Fault.MALFORMED
        assert parsed is None
    else:
        assert parsed is not None
        assert count == len(parsed)
        assert CURSUS_V1.records(bytes(octets)) == [as_record(dict(record)) for record in parsed]


@given(st.binary(max_size=200))
def test_noise_is_no_body(noise: bytes) -> None:
    parsed = parse_records(noise)
    try:
        count = CURSUS_V1.walk(noise)
    except CommandFailed as failure:
        assert failure.fault is Fault.MALFORMED
        assert parsed is None
    else:
        assert count == len(parsed or ())


def test_a_body_may_be_empty_and_not_be_too_long() -> None:
    assert CURSUS_V1.walk(b"") == 0
    assert CURSUS_V1.stamp(b"", 7, 0) == b""
    assert CURSUS_V1.records(b"") == CURSUS_V1.sizes(b"") == CURSUS_V1.runs(b"") == []
    with pytest.raises(CommandFailed) as caught:
        CURSUS_V1.walk(bytes(layout.FIXED) * (MAX_RECORDS + 1))
    assert caught.value.fault is Fault.TOO_LARGE


# -- records of other dialects

everything = st.builds(
    Record,
    key=st.none() | st.binary(max_size=4),
    value=st.none() | st.binary(max_size=4),
    headers=st.just(()) | st.just((Header(b"h", b"v"),)),
    origin_timestamp=st.sampled_from([0, 1]),
    id=st.sampled_from([b"", bytes(16)]),
    producer=st.binary(max_size=4),
    epoch=st.integers(-I64, I64 - 1),
    sequence=st.integers(0, U64),
    event_type=st.binary(max_size=4),
    schema_version=st.integers(0, 2**32 - 1),
    aggregate_version=st.integers(0, U64),
    metadata=st.binary(max_size=4),
    expiry=st.sampled_from([0, 1]),
)


@given(st.lists(everything, max_size=5), st.integers(0, 2**63 - 10))
def test_records_of_other_dialects_keep_what_there_is_a_place_for_and_the_rest_is_counted(
    records: list[Record], base: int
) -> None:
    losses: Losses = Counter()
    batch = canonical(records, "iggy")
    octets = body_of(RecordBatch(CANONICAL, batch.body, batch.count, base, 1, "iggy"), losses)
    for at, (found, record) in enumerate(zip(by_spec(octets), records, strict=True)):
        assert found["offset"] == base + at
        assert as_record(found).key == (record.key or None)
        for name in ("producer", "epoch", "sequence", "event_type", "schema_version", "aggregate_version", "metadata"):
            assert found[name] == getattr(record, name)
        assert found["payload"] == (record.value or b"")
    lost = {name: sum(bool(getattr(record, name)) for record in records) for name in ("headers", "id", "expiry")}
    lost["origin_timestamp"] = sum(bool(record.origin_timestamp) for record in records)
    lost["tombstone"] = sum(record.value is None for record in records)
    assert +losses == +Counter({("iggy", "cursus", name): count for name, count in lost.items()})


def test_a_loss_of_unknown_origin_is_counted_all_the_same() -> None:
    losses: Losses = Counter()
    body_of(canonical([Record(b"k", None)]), losses)
    assert losses["?", "cursus", "tombstone"] == 1


def test_our_own_bodies_are_not_touched() -> None:
    batch = RecordBatch(CURSUS_V1, body([as_fields()]), 1)
    assert body_of(batch, Losses()) is batch.body


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (Record(b"k" * 65_536, b"v"), "key of 65536 bytes"),
        (Record(None, b"v", producer=b"p" * 65_536), "producer id of 65536 bytes"),
        (Record(None, b"v", event_type=b"e" * 65_536), "event type of 65536 bytes"),
        (Record(None, b"v", metadata=b"m" * 65_536), "metadata of 65536 bytes"),
        (Record(None, b"v", epoch=2**63), "a number"),
    ],
)
def test_what_a_record_cannot_hold_is_refused(record: Record, said: str) -> None:
    with pytest.raises(CommandFailed, match=said) as caught:
        body_of(canonical([record]), Losses())
    assert caught.value.fault is Fault.UNREPRESENTABLE


# -- batches that are produced


def batch_of(records: list[Fields]) -> bytes:
    """The payload of a batch, as the specification has it."""
    place = {"partition": 0, "acks": b"1"}
    numbers = {"idempotent": 0, "first": 0, "last": 0, "count": len(records)}
    built: bytes = BATCH.build(
        {"topic": ORDERS.name, "ahead": None, "place": place, **numbers, "records": records, "ignored": b""}
    )
    return built


def framed(payload: bytes) -> bytes:
    built: bytes = Long.build(payload)
    return built


def asked(payload: bytes) -> Publish:
    request = DIALECT.decode_request(framed(payload), terms())
    assert isinstance(request, Request), request
    assert isinstance(request.command, Publish)
    return request.command


@given(batches, st.binary(max_size=3))
def test_a_batch_is_its_records_whatever_follows_them(records: list[Fields], more: bytes) -> None:
    octets = body(records)
    assert asked(batch_of(records) + more).batch == RecordBatch(CURSUS_V1, octets, len(records), origin="cursus")


@given(batches, st.data())
def test_specification_and_fast_path_agree_on_damaged_batches(records: list[Fields], data: st.DataObject) -> None:
    payload = bytearray(batch_of(records))
    for _ in range(data.draw(st.integers(0, 2))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    frame = framed(bytes(payload[: data.draw(st.just(len(payload)) | st.integers(0, len(payload)))]))
    request = DIALECT.decode_request(frame, terms())
    parsed = parse_request(frame)
    assert (parsed is not None) is isinstance(request, Request), frame
    if isinstance(request, Request) and isinstance(request.command, Publish) and frame.startswith(MAGIC, 4):
        assert request.command.to == parsed.partition
        assert request.command.batch.count == parsed.count
        assert request.command.batch.body == b"".join(RECORD.build(record) for record in parsed.records)


@pytest.mark.parametrize("length", [0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF])
def test_a_payload_of_any_claimed_length_costs_nothing(length: int) -> None:
    octets = batch_of([as_fields(payload=b"xx")] * 2)
    claiming = octets.replace(Long.build(b"xx"), Int32ub.build(length) + b"xx", 1)
    assert claiming != octets
    assert isinstance(DIALECT.decode_request(framed(claiming), terms()), Refusal)


def test_a_hundred_thousand_records_may_be_claimed_but_have_to_be_there() -> None:
    octets, there = batch_of([as_fields()] * 3), 3 * layout.FIXED
    claiming = octets[: -there - Int32sb.sizeof()] + Int32sb.build(MAX_RECORDS) + octets[-there:]
    request = DIALECT.decode_request(framed(claiming), terms())
    assert isinstance(request, Refusal)
    assert request.failure.fault is Fault.MALFORMED
    assert "message[3]" in request.failure.detail


@given(batches)
def test_our_client_sends_what_it_was_given(records: list[Fields]) -> None:
    publish = Publish(ORDERS, 3, RecordBatch(CURSUS_V1, body(records), len(records), origin="cursus"))
    frame = DIALECT.encode_request(Request(publish), terms())
    parsed = parse_request(frame)
    assert parsed is not None
    assert DIALECT.decode_request(frame, terms()).command == publish
    assert (parsed.first, parsed.last) == (records[0]["sequence"], records[-1]["sequence"])


def test_our_client_sends_records_of_other_dialects_without_offsets() -> None:
    batch = canonical([Record(b"k", b"v"), Record(None, b"w")], "iggy")
    sent = asked(DIALECT.encode_request(Request(Publish(ORDERS, 0, batch)), terms())[4:]).batch
    assert [record["offset"] for record in by_spec(sent.body)] == [0, 0]
    assert sent.records() == batch.records()


def test_our_client_sends_no_empty_batch() -> None:
    with pytest.raises(CommandFailed) as caught:
        DIALECT.encode_request(Request(Publish(ORDERS, 0, canonical([]))), terms())
    assert caught.value.fault is Fault.EMPTY_BATCH


# -- batches that are read


def stored(records: list[Fields], base: int) -> RecordBatch:
    return RecordBatch(CURSUS_V1, body(records), len(records), origin="cursus").appended(base, 1)


def read(frame: bytes) -> Records:
    reply = DIALECT.decode_reply(FETCH, frame, terms())
    assert isinstance(reply, Records)
    return reply


@given(st.lists(batches, min_size=1, max_size=4), st.integers(0, 1000))
def test_a_read_is_one_batch_of_all_that_was_read(groups: list[list[Fields]], base: int) -> None:
    starts = list(accumulate((len(records) for records in groups), initial=base))
    found = tuple(stored(records, start) for records, start in zip(groups, starts, strict=False))
    frame = DIALECT.encode_reply(FETCH, Records(2, 0, 10_000, found), terms())
    parsed = parse_request(frame)
    assert parsed is not None
    assert (parsed.first, parsed.last) == (groups[0][0]["sequence"], groups[-1][-1]["sequence"])
    everything_read = RecordBatch(CURSUS_V1, b"".join(b.body for b in found), starts[-1] - base, base, origin="cursus")
    assert read(frame) == Records(2, 0, starts[-1], (everything_read,))


def test_batches_without_records_are_nothing() -> None:
    nothing = RecordBatch(CURSUS_V1, b"", 0)
    some = stored([as_fields(sequence=5)], 3)
    assert read(DIALECT.encode_reply(FETCH, Records(0, 0, 4, (nothing, some, nothing)), terms())).batches[0].base == 3
    assert read(DIALECT.encode_reply(FETCH, Records(0, 0, 4, (nothing,)), terms())) == Records(0, 0, 0)


@given(batches, st.sets(st.integers(0, 11), max_size=3))
def test_offsets_that_are_missing_part_the_batches(records: list[Fields], gaps: set[int]) -> None:
    offsets = [at + sum(gap < at for gap in gaps) * 10 for at in range(len(records))]
    placed = [{**record, "offset": offset} for record, offset in zip(records, offsets, strict=True)]
    batches_read = read(framed(batch_of(placed))).batches
    assert [batch.base + at for batch in batches_read for at in range(batch.count)] == offsets
    assert len(batches_read) == 1 + sum(gap < len(records) - 1 for gap in gaps)


def test_a_read_is_no_longer_than_the_go_client_takes() -> None:
    batch = stored([as_fields(payload=bytes(1 << 20), sequence=at) for at in range(1, 5)], 0)
    batches_stored = tuple(RecordBatch(CURSUS_V1, batch.body, 4, at * 4).appended(at * 4, 1) for at in range(5))
    frame = DIALECT.encode_reply(FETCH, Records(0, 0, 20, batches_stored), terms())
    assert len(frame) - 4 <= MAX_REPLY
    found = read(frame)
    assert sum(batch.count for batch in found.batches) == MAX_BODY // ((1 << 20) + layout.FIXED) == 15
    assert found.end == 15


@pytest.mark.parametrize("more", [0, 1])
def test_a_record_that_is_longer_goes_out_alone(more: int) -> None:
    huge = [as_fields(payload=bytes(MAX_REPLY + 1))]
    found = (stored(huge, 0), stored([as_fields()], 1))[: 1 + more]
    assert read(DIALECT.encode_reply(FETCH, Records(0, 0, 2, found), terms())).end == 1


def test_a_read_has_no_more_records_than_a_batch_can_hold() -> None:
    many = stored([as_fields()] * 60_000, 0)
    more = RecordBatch(CURSUS_V1, many.body, 60_000).appended(60_000, 1)
    frame = DIALECT.encode_reply(FETCH, Records(0, 0, 120_000, (many, more)), terms())
    assert read(frame).end == MAX_RECORDS


def test_a_partition_that_the_header_cannot_say_is_refused() -> None:
    with pytest.raises(CommandFailed) as caught:
        DIALECT.encode_reply(FETCH, Records(1 << 31, 0, 0), terms())
    assert caught.value.fault is Fault.UNREPRESENTABLE


@given(mixed)
def test_the_quick_looks_at_a_body_agree_with_the_loops(records: list[Fields]) -> None:
    assume(len({len(RECORD.build(record)) for record in records}) > 1)
    octets = body(records)
    assert layout.stride(octets) == 0
    assert not layout.rising(octets, 0)
    assert layout.positions(octets)[-1] == len(octets)
