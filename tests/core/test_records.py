"""gateway.core.records: the canonical encoding, cutting and choosing, and what every encoding has to keep to."""

from __future__ import annotations

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.strategies import stored, wide_records
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import (
    CANONICAL,
    MAX_RECORDS,
    WIDTHS,
    Encoding,
    Header,
    HeaderKind,
    Record,
    RecordBatch,
    Run,
    canonical,
    registry,
    select,
)

several = st.lists(wide_records, max_size=6)


def batch(count: int, base: int = 0, size: int = 10) -> RecordBatch:
    """Records of about that size each, told apart by their keys."""
    return canonical([Record(b"%d" % (base + at), b"x" * size) for at in range(count)]).appended(base, 1000 + base)


def refused(body: bytes) -> Fault:
    with pytest.raises(CommandFailed) as caught:
        CANONICAL.walk(body)
    return caught.value.fault


# -- the canonical encoding


@given(several)
def test_records_come_back_as_they_were(records: list[Record]) -> None:
    whole = canonical(records, "native")
    assert (whole.encoding, whole.count, whole.base, whole.timestamp, whole.origin) == (
        CANONICAL,
        len(records),
        0,
        0,
        "native",
    )
    assert CANONICAL.walk(whole.body) == len(records)
    assert whole.records() == records


@given(several)
def test_the_body_is_msgpack_arrays_in_the_order_of_the_fields(records: list[Record]) -> None:
    rows = [
        [
            [[h.key, h.value, h.kind, h.key_kind] for h in value] if name == "headers" else value
            for name, value in fields
        ]
        for fields in (msgspec.structs.asdict(record).items() for record in records)
    ]
    assert msgpack.unpackb(canonical(records).body) == rows


@given(several, st.data())
def test_a_cut_has_the_records_between(records: list[Record], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(records)))
    last = data.draw(st.integers(first, len(records)))
    body = CANONICAL.cut(canonical(records).body, first, last)
    assert CANONICAL.records(body) == records[first:last]
    assert CANONICAL.walk(body) == last - first


@given(several)
def test_sizes_are_those_of_the_records_in_the_body(records: list[Record]) -> None:
    body = canonical(records).body
    assert len(body) - sum(CANONICAL.sizes(body)) == 1  # the head of an array of up to 15


def test_being_stored_changes_nothing_in_the_body() -> None:
    fresh = canonical([Record(b"k", b"v")], "pipe")
    assert fresh.appended(7, 1000) == RecordBatch(CANONICAL, fresh.body, 1, 7, 1000, "pipe")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x91",
        b"\x90\x90",
        b"\xc0",
        b"\x80",
        b"\xc1",
        b"\x91\xc0",
        b"\x91\x91\x01",
        msgpack.packb([[None, "x"]]),
        b"\x91" * 100_000,
        msgpack.packb([[]] * (MAX_RECORDS - 1))[:-1],
        msgpack.packb([[None, b"", [[b"k", b"v", 99]]]]),
        msgpack.packb([[None, b"", [], 0, 0, b"short"]]),
        msgpack.packb([[None, b"", [], 0, 0, b"x" * 17]]),
        canonical([Record(b"k", b"v")]).body[:-1],
        canonical([Record(), Record(timestamp=-1)]).body,
        canonical([Record(epoch=-1)]).body,
        canonical([Record(sequence=1 << 63)]).body,
        canonical([Record(expiry=1 << 63)]).body,
    ],
)
def test_a_body_that_is_not_whole_and_exact_is_malformed(body: bytes) -> None:
    assert refused(body) is Fault.MALFORMED


@given(st.binary(max_size=60))
def test_noise_is_walked_or_refused(body: bytes) -> None:
    try:
        assert CANONICAL.walk(body) == len(CANONICAL.records(body))
    except CommandFailed as failure:
        assert failure.fault in (Fault.MALFORMED, Fault.TOO_LARGE)


@pytest.mark.parametrize("kind", HeaderKind)
def test_a_header_is_as_wide_as_its_kind(kind: HeaderKind) -> None:
    for width in range(18):
        body = canonical([Record(), Record(headers=(Header(b"k", b"x" * width, kind),))]).body
        if width == WIDTHS.get(kind, width):
            assert CANONICAL.walk(body) == 2
        else:
            assert refused(body) is Fault.MALFORMED


def test_the_numbering_of_header_kinds_is_iggys() -> None:
    names = "RAW TEXT BOOL INT8 INT16 INT32 INT64 INT128 UINT8 UINT16 UINT32 UINT64 UINT128 FLOAT32 FLOAT64"
    assert [kind.name for kind in HeaderKind] == names.split()
    assert [kind.value for kind in HeaderKind] == list(range(1, 16))
    assert set(HeaderKind) - set(WIDTHS) == {HeaderKind.RAW, HeaderKind.TEXT}


def test_a_batch_has_a_bound() -> None:
    assert CANONICAL.walk(msgpack.packb([[]] * MAX_RECORDS)) == MAX_RECORDS
    assert refused(msgpack.packb([[]] * (MAX_RECORDS + 1))) is Fault.TOO_LARGE
    assert refused(msgpack.Packer().pack_array_header((1 << 32) - 1)) is Fault.TOO_LARGE


# -- runs


def made(producer: bytes, epoch: int, *sequences: int) -> list[Record]:
    return [Record(producer=producer, epoch=epoch, sequence=sequence) for sequence in sequences]


@pytest.mark.parametrize(
    ("records", "runs"),
    [
        ([], []),
        (made(b"", 0, 0, 0), [Run(b"", 0, 0, 2)]),
        (made(b"", 0, 4, 9), [Run(b"", 0, 0, 2)]),
        (made(b"p", 1, 5, 6, 7), [Run(b"p", 1, 5, 3)]),
        (made(b"p", 1, 5, 7), [Run(b"p", 1, 5, 1), Run(b"p", 1, 7, 1)]),
        (made(b"p", 1, 5, 5), [Run(b"p", 1, 5, 1), Run(b"p", 1, 5, 1)]),
        (made(b"p", 1, 5) + made(b"p", 2, 6), [Run(b"p", 1, 5, 1), Run(b"p", 2, 6, 1)]),
        (made(b"p", 1, 5) + made(b"q", 1, 6), [Run(b"p", 1, 5, 1), Run(b"q", 1, 6, 1)]),
        (made(b"p", 1, 0, 1), [Run(b"p", 1, 0, 1), Run(b"p", 1, 1, 1)]),
        (
            made(b"p", 1, 1) + made(b"", 0, 0) + made(b"p", 1, 2),
            [Run(b"p", 1, 1, 1), Run(b"", 0, 0, 1), Run(b"p", 1, 2, 1)],
        ),
    ],
)
def test_runs_are_what_one_producer_numbered_in_a_row(records: list[Record], runs: list[Run]) -> None:
    assert CANONICAL.runs(canonical(records).body) == runs


@given(several)
def test_runs_cover_every_record(records: list[Record]) -> None:
    runs = CANONICAL.runs(canonical(records).body)
    numbered = [(run.producer, run.epoch, run.first and run.first + at) for run in runs for at in range(run.count)]
    assert numbered == [
        (record.producer, record.epoch, record.sequence if record.producer else 0) for record in records
    ]


# -- a batch in its place


@given(stored())
def test_rows_number_and_time_the_records(whole: RecordBatch) -> None:
    rows = list(whole.rows())
    assert [offset for offset, _, _ in rows] == list(range(whole.base, whole.end))
    assert [record for _, _, record in rows] == whole.records()
    for at, (_, timestamp, record) in enumerate(rows):
        assert timestamp == (record.timestamp or whole.timestamp + at)


@given(stored(), st.data())
def test_a_cut_keeps_offsets_times_and_origin(whole: RecordBatch, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, whole.count - 1))
    last = data.draw(st.integers(first + 1, whole.count))
    part = whole.cut(first, last)
    assert list(part.rows()) == list(whole.rows())[first:last]
    assert (part.count, part.origin) == (last - first, whole.origin)


def test_a_cut_of_everything_is_the_batch_itself() -> None:
    whole = batch(3)
    assert whole.cut(0, 3) is whole


# -- select


@st.composite
def partitions(draw: st.DrawFn) -> list[RecordBatch]:
    """Stored batches, in order and without gaps."""
    base, found = draw(st.integers(0, 5)), []
    for count in draw(st.lists(st.integers(1, 4), max_size=5)):
        found.append(batch(count, base, draw(st.integers(0, 30))))
        base += count
    return found


@given(partitions(), st.integers(0, 30), st.integers(0, 12), st.integers(0, 300))
def test_a_fetch_gets_what_follows_its_offset_within_both_limits(
    batches: list[RecordBatch], start: int, max_records: int, max_bytes: int
) -> None:
    rows = [row for batch in batches for row in batch.rows() if row[0] >= start]
    found = list(select(batches, start, max_records, max_bytes))
    got = [row for batch in found for row in batch.rows()]
    assert got == rows[: len(got)]
    assert bool(got) is bool(rows)
    assert len(got) <= (max_records or len(rows))
    assert len(got) <= 1 or sum(len(batch.body) for batch in found) <= max_bytes + len(found)


def naive(batches: list[RecordBatch], start: int, max_records: int) -> list[int]:
    offsets = [offset for batch in batches for offset, _, _ in batch.rows() if offset >= start]
    return offsets[: max_records or None]


@given(partitions(), st.integers(0, 30), st.integers(0, 12))
def test_without_a_limit_in_bytes_it_gets_all_of_it(batches: list[RecordBatch], start: int, max_records: int) -> None:
    found = select(batches, start, max_records, 1 << 30)
    assert [offset for batch in found for offset, _, _ in batch.rows()] == naive(batches, start, max_records)


@given(partitions(), st.integers(0, 200))
def test_bytes_are_used_as_far_as_whole_batches_go(batches: list[RecordBatch], max_bytes: int) -> None:
    found = list(select(batches, 0, 0, max_bytes))
    if found and len(found) < len(batches) and found[-1].count == batches[len(found) - 1].count:
        used = sum(len(batch.body) for batch in found)
        assert used + len(batches[len(found)].body) > max_bytes


def test_one_record_is_given_even_if_it_is_too_long() -> None:
    [found] = select([batch(3, size=1000)], 1, 0, 10)
    assert [offset for offset, _, _ in found.rows()] == [1]


def test_a_batch_is_cut_to_what_fits_only_if_it_is_the_first() -> None:
    batches = [batch(2, 0, 50), batch(5, 2, 50)]
    one = len(canonical(batches[0].records()[:1]).body) - 1
    assert [part.count for part in select(batches, 0, 0, 2 * one + 1 + 3 * one)] == [2]
    assert [part.count for part in select(batches, 2, 0, 3 * one)] == [3]
    assert list(select(batches, 7, 0, 1000)) == []


# -- encodings


def test_a_registry_knows_the_canonical_encoding_and_its_own() -> None:
    other = named("other.v1")
    assert registry([]) == {"msgpack.v1": CANONICAL}
    assert registry([other, other, CANONICAL]) == {"msgpack.v1": CANONICAL, "other.v1": other}
    assert repr(other) == "<encoding other.v1>"


def test_two_encodings_cannot_have_one_name() -> None:
    with pytest.raises(ValueError, match=r"two record encodings are called other\.v1"):
        registry([named("other.v1"), named("other.v1")])
    with pytest.raises(ValueError, match=r"msgpack\.v1"):
        registry([named("msgpack.v1")])


def named(name: str) -> Encoding:
    parts = {part: getattr(CANONICAL, part) for part in ("walk", "stamp", "cut", "sizes", "runs", "records")}
    return Encoding(name, **parts)
