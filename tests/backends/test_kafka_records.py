"""gateway.backends.kafka.records: a record is the same record when it comes back from Kafka."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.strategies import naturals, plain_names, wide_records
from gateway.backends.kafka import records as k
from gateway.core.commands import MAX_OFFSET
from gateway.core.records import CANONICAL, Header, HeaderKind, Record

NOW = 1_700_000_000_123_456

# What strategies.headers rarely hits on: names that look like ours, and those that Kafka cannot have.
names = st.sampled_from([b"gw.", b"gw.id", b"gw.kinds", b"gw.key", b"gw.h2.6162", b"gw.hx", b"a\0b", b"\xff", b""])
tricky = st.builds(Header, names, st.binary(max_size=4), st.just(HeaderKind.TEXT), st.sampled_from(HeaderKind))
tricky_records = st.builds(
    msgspec.structs.replace,
    wide_records,
    headers=st.lists(tricky, max_size=4).map(tuple),
    schema_version=st.integers(-(1 << 63), (1 << 64) - 1),
    origin_timestamp=st.integers(-(1 << 63), (1 << 64) - 1),
)

# What a program that knows nothing of us may send, names like ours included.
our_names = st.sampled_from(
    [*k._READ, k.KEY, k.KINDS, k.ORIGIN, "gw.h2.6162", "gw.h2.6", "gw.h99.61", "gw.else", "gw."]
)
foreign_values = st.none() | st.binary(max_size=20) | st.sampled_from([b"01", b"-1", b"7", b"\x02", b"\x63", b"9" * 30])
foreign_headers = st.lists(st.tuples(our_names | st.text(max_size=5), foreign_values), max_size=5)
keys_and_values = st.none() | st.binary(max_size=5)


class Read:
    """A message as the client gives it."""

    def __init__(self, offset: int, content: k.Content, at: int) -> None:
        self._offset = offset
        self._content = content
        self._at = at

    def key(self) -> bytes | None:
        return self._content[0]

    def value(self) -> bytes | None:
        return self._content[1]

    def headers(self) -> Sequence[tuple[str, bytes | None]] | None:
        return self._content[2] or None

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, self._at


# -- there and back


@given(wide_records | tricky_records, plain_names)
def test_every_field_of_a_record_comes_back_as_it_was(record: Record, origin: str) -> None:
    assert k.read(*k.write(record, origin)) == (record, origin)


@given(wide_records | tricky_records)
def test_a_header_is_in_what_kafka_can_carry(record: Record) -> None:
    key, value, headers = k.write(record)
    assert (key, value) == (record.key or None, record.value)
    for name, octets in headers:
        assert "\0" not in name
        assert name.encode().decode() == name
        assert isinstance(octets, bytes)


def test_bytes_and_text_are_kafkas_own_headers() -> None:
    named = Header(b"type", b"json", HeaderKind.TEXT), Header("größe".encode(), b"\0\xff")
    assert k.write(Record(b"k", b"v", named[1:])) == (b"k", b"v", [("größe", b"\0\xff")])
    assert k.write(Record(b"k", b"v", named))[2] == [("type", b"json"), ("größe", b"\0\xff"), ("gw.kinds", b"\x02\x01")]


def test_a_plain_record_has_no_headers_at_all() -> None:
    assert k.write(Record(b"k", b"v")) == (b"k", b"v", [])
    assert k.write(Record(None, None)) == (None, None, [])


def test_what_an_idempotent_producer_says_is_in_headers_that_any_tool_shows() -> None:
    record = Record(b"k", b"v", producer=b"p1", epoch=3, sequence=42)
    assert k.write(record, "cursus")[2] == [
        ("gw.pid", b"p1"),
        ("gw.epoch", b"3"),
        ("gw.seq", b"42"),
        ("gw.origin", b"cursus"),
    ]


def test_a_name_like_ours_is_written_apart() -> None:
    record = Record(headers=(Header(b"gw.seq", b"9"),))
    assert k.write(record)[2] == [("gw.h2.67772e736571", b"9")]
    assert k.read(*k.write(record))[0] == record


# -- programs that know nothing of us


@given(keys_and_values, keys_and_values, foreign_headers)
def test_any_message_is_a_record_that_can_be_stored_and_written_again(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    record, origin = k.read(key, value, headers)
    batch = k.batches([Read(5, (key, value, headers), 1)])[0]  # type: ignore[arg-type]
    assert CANONICAL.walk(batch.body) == 1
    assert batch.records() == [record]
    assert k.read(*k.write(record, origin)) == (record, origin)


@given(keys_and_values, keys_and_values, st.lists(st.tuples(st.text(max_size=5), foreign_values), max_size=5))
def test_a_message_without_headers_of_ours_is_what_it_says(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    found = tuple(Header(name.encode(), octets or b"") for name, octets in headers)
    assert k.read(key, value, headers) == (Record(key or None, value, found), "")


def test_an_empty_key_is_none_and_no_value_is_a_tombstone() -> None:
    assert k.read(b"", None, None) == (Record(None, None), "")


def test_repeated_headers_keep_their_order() -> None:
    repeated = [("a", b"1"), ("b", b"\xff"), ("a", None)]
    assert k.read(None, b"", repeated)[0].headers == (Header(b"a", b"1"), Header(b"b", b"\xff"), Header(b"a", b""))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gw.seq", b" 7"),
        ("gw.seq", b"7_0"),
        ("gw.seq", b"-7"),
        ("gw.seq", b"9" * 20),
        ("gw.seq", None),
        ("gw.id", b"short"),
        ("gw.schema", b"9" * 25),
        ("gw.kinds", b"\x02\x02"),
        ("gw.h2.zz", b""),
        ("gw.h2.6162", b""),  # the name would be `ab`, which we do not write apart
        ("gw.unheard", b"x"),
    ],
)
def test_what_we_would_not_have_written_so_is_a_header_of_the_user(name: str, value: bytes | None) -> None:
    record, _ = k.read(None, b"", [(name, value)])
    assert record == Record(headers=(Header(name.encode(), value or b""),))


def test_a_field_that_is_said_twice_is_the_first() -> None:
    record, _ = k.read(None, b"", [("gw.seq", b"1"), ("gw.seq", b"2")])
    assert record == Record(sequence=1, headers=(Header(b"gw.seq", b"2"),))


def test_headers_that_the_client_cannot_read_cost_the_headers_alone() -> None:
    class Unreadable(Read):
        def headers(self) -> Sequence[tuple[str, bytes | None]] | None:
            return [(b"\xff".decode(), b"")]

    records = k.batches([Unreadable(0, (b"k", b"v", []), 1)])[0].records()
    assert records == [Record(b"k", b"v", (Header(b"gw.unreadable", b""),))]


# -- time


@given(st.builds(Record, timestamp=naturals))
def test_the_time_of_a_message_is_the_records_own_but_never_one_to_come(record: Record) -> None:
    at = k.milliseconds(record, NOW)
    assert 1 <= at <= NOW // 1000
    if 1000 <= record.timestamp <= NOW:
        assert at == record.timestamp // 1000


def test_a_record_without_a_time_gets_the_one_of_the_gateway() -> None:
    assert k.milliseconds(Record(), NOW) == NOW // 1000


# -- batches


@given(st.lists(st.tuples(wide_records, plain_names, st.integers(0, 2), st.integers(1, 2)), max_size=20))
def test_batches_have_every_record_at_its_offset_with_its_millisecond_and_dialect(
    sent: list[tuple[Record, str, int, int]],
) -> None:
    messages, expected, offset = [], [], 100
    for record, origin, gap, at in sent:
        offset += 1 + gap
        messages.append(Read(offset, k.write(record, origin), at))
        expected.append((offset, record, origin, at))
    found = k.batches(messages)
    rows = [(offset, record, batch.origin, time) for batch in found for offset, time, record in batch.rows()]
    assert [row[:3] for row in rows] == [row[:3] for row in expected]
    for (_, record, _, time), (*_, at) in zip(rows, expected, strict=True):
        assert time == record.timestamp or time // 1000 == at


def test_a_batch_ends_where_an_offset_is_left_out() -> None:
    content = k.write(Record(b"k", b"v"))
    found = k.batches([Read(offset, content, 7) for offset in (0, 1, 2, 5, 6, MAX_OFFSET)])
    assert [(batch.base, batch.count, batch.timestamp) for batch in found] == [
        (0, 3, 7000),
        (5, 2, 7005),
        (MAX_OFFSET, 1, 7807),
    ]


def test_a_time_is_the_same_from_wherever_a_record_is_read_and_rises_within_its_millisecond() -> None:
    messages = [Read(offset, k.write(Record(value=b"v")), 7) for offset in range(990, 1010)]
    times = [time for batch in k.batches(messages) for _, time, _ in batch.rows()]
    assert times == [*range(7990, 8000), *range(7000, 7010)]
    assert [time for batch in k.batches(messages[5:]) for _, time, _ in batch.rows()] == times[5:]


def test_messages_without_a_time_are_served_all_the_same() -> None:
    assert k.batches([Read(0, (None, b"old", []), -1)])[0].timestamp == 0


def test_no_messages_are_no_batches() -> None:
    assert k.batches([]) == ()


@given(wide_records | tricky_records)
def test_the_size_of_a_message_is_never_said_too_small(record: Record) -> None:
    key, value, headers = k.write(record, "cursus")
    wire = len(key or b"") + len(value or b"") + sum(len(name.encode()) + len(octets) for name, octets in headers)
    assert k.size((key, value, headers)) >= wire + 70
