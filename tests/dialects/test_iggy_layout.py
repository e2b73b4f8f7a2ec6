"""gateway.dialects.iggy: the record encodings, against a reader and a writer that do one message at a time."""

from __future__ import annotations

import uuid
import zlib
from collections import Counter
from itertools import accumulate
from typing import Any

import msgspec
import pytest
import xxhash
from construct import (
    Construct,
    ConstructError,
    Container,
    GreedyBytes,
    GreedyRange,
    Int8ul,
    Prefixed,
    Terminated,
)
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import MAX_RECORDS, WIDTHS, Encoding, Header, HeaderKind, Record, RecordBatch, Run, canonical
from gateway.dialects.cursus.converting import body_of as cursus_body
from gateway.dialects.cursus.layout import CURSUS_V1
from gateway.dialects.dialect import Losses
from gateway.dialects.iggy import spec
from gateway.dialects.iggy.converting import messages_of
from gateway.dialects.iggy.headers import read_headers, write_headers
from gateway.dialects.iggy.layout_g0 import IGGY_G0, read_g0, write_g0
from gateway.dialects.iggy.layout_g2 import IGGY_G2B, IGGY_G2C, read_g2, width, write_g2
from gateway.dialects.iggy.shape import polled, prefix, split

ENCODINGS = [IGGY_G0, IGGY_G2B, IGGY_G2C]
LATER = [IGGY_G2B, IGGY_G2C]
U64 = 2**64 - 1
NOW = 1_700_000_000_000_000
EDGES = [0, 2**8 - 2, 2**16 - 3, 2**24 - 1, 2**32 - 2, 2**48 - 1, 2**56 - 1]

encodings = st.sampled_from(ENCODINGS)
later = st.sampled_from(LATER)


class Message(msgspec.Struct, frozen=True):
    """One message; `tail` stands for its headers, as they are on the wire."""

    payload: bytes
    id: bytes = bytes(16)
    origin: int = 0
    offset: int = 0
    timestamp: int = 0
    tail: bytes = b""
    checksum: int = 0


# -- the slow and obvious ones


def generation(encoding: Encoding) -> str:
    """The newest that it is of."""
    return {IGGY_G0: "g0", IGGY_G2B: "g2b", IGGY_G2C: "g2c"}[encoding]


def typed(encoding: Encoding) -> bool:
    return encoding is IGGY_G2C


KEY = "key" / Prefixed(Int8ul, GreedyBytes)
POLLED = {at: spec.polled_message(generation(at), GreedyBytes) for at in ENCODINGS}
SENT = {at: spec.sent_message(generation(at), GreedyBytes) for at in ENCODINGS}
BODIES = {at: KEY + "messages" / GreedyRange(POLLED[at]) + Terminated for at in ENCODINGS}
HEADERS = {kinds: spec.headers_of("g2c" if kinds else "g0") for kinds in (False, True)}


def parts(encoding: Encoding, at: Message) -> dict[str, object]:
    """By the names of the specification."""
    return {
        "checksum": zlib.crc32(at.payload) if encoding is IGGY_G0 else at.checksum,
        "id": at.id,
        "offset": at.offset,
        "state": 1,
        "timestamp": at.timestamp,
        "origin_timestamp": at.origin,
        "headers_length": len(at.tail),
        "payload_length": len(at.payload),
        "reserved": bytes(8 * typed(encoding)),
        "payload": at.payload,
        "headers": at.tail,
    }


def written(encoding: Encoding, at: Message) -> bytes:
    """A message in poll layout."""
    return POLLED[encoding].build(parts(encoding, at))


def sent(encoding: Encoding, messages: list[Message]) -> bytes:
    """What follows the partitioning of a SEND, or the count of messages."""
    octets = [SENT[encoding].build(parts(encoding, at)) for at in messages]
    ends = [] if encoding is IGGY_G0 else accumulate(map(len, octets))
    return b"".join([*(spec.INDEX.build({"end": end}) for end in ends), *octets])


def received(encoding: Encoding, messages: list[Message]) -> bytes:
    """The same read by the functions under test."""
    if encoding is IGGY_G0:
        count, read = read_g0(sent(encoding, messages))
        assert count == len(messages)
        return read
    return read_g2(encoding, len(messages), sent(encoding, messages))


class Bad(Exception):
    """Not what the page describes."""


def parsed(grammar: Construct, octets: bytes) -> Any:
    """Raises Bad."""
    try:
        return grammar.parse(octets)
    except ConstructError as error:
        raise Bad from error


def slow_headers(tail: bytes, kinds: bool) -> list[Header]:
    """Every header.  Raises Bad."""
    found = parsed(HEADERS[kinds], tail).all
    return [Header(at.key.bytes, at.value.bytes, HeaderKind(at.kind), HeaderKind(at.key_kind)) for at in found]


def message_of(encoding: Encoding, at: Container) -> Message:
    """Raises Bad for headers that are none."""
    slow_headers(at.headers, typed(encoding))
    return Message(at.payload, at.id, at.get("origin_timestamp", 0), at.offset, at.timestamp, at.headers)


def sound(encoding: Encoding, at: Container) -> bool:
    """Whether it is as a body has it: with the checksum of its payload, or none."""
    if encoding is IGGY_G0:
        return bool(at.state == 1 and at.checksum == zlib.crc32(at.payload))
    return not at.checksum and not any(at.reserved)


def slow(encoding: Encoding, body: bytes) -> list[Message]:
    """Every message of a body.  Raises Bad."""
    found = parsed(BODIES[encoding], body).messages
    if not all(sound(encoding, at) for at in found):
        raise Bad
    return [message_of(encoding, at) for at in found]


def record(key: bytes, encoding: Encoding, at: Message) -> Record:
    headers = tuple(slow_headers(at.tail, typed(encoding)))
    return Record(key or None, at.payload, headers, 0, at.origin, at.id[::-1] if any(at.id) else b"")


# -- what to try


@st.composite
def header(draw: st.DrawFn, kinds: bool) -> Header:
    kind = draw(st.sampled_from(HeaderKind))
    width = WIDTHS.get(kind)
    value = st.binary(min_size=1, max_size=5) if width is None else st.binary(min_size=width, max_size=width)
    key_kind = draw(st.sampled_from([HeaderKind.TEXT, HeaderKind.RAW, HeaderKind.UINT16])) if kinds else HeaderKind.TEXT
    return Header(draw(st.binary(min_size=2, max_size=2)), draw(value), kind, key_kind)


@st.composite
def some_messages(draw: st.DrawFn, encoding: Encoding) -> list[Message]:
    """One to twelve messages, of one shape or of any, with ids, without, or both."""
    tails = st.lists(header(typed(encoding)), max_size=2).map(lambda at: write_headers(at, typed(encoding)))
    tails = draw(st.sampled_from([st.just(b""), tails, st.just(draw(tails))]))
    payloads = draw(st.sampled_from([st.binary(max_size=5), *(st.binary(min_size=n, max_size=n) for n in (1, 2, 7))]))
    ids = draw(st.sampled_from([st.just(bytes(16)), st.binary(min_size=16, max_size=16)]))
    ids = draw(
        st.sampled_from(
            [ids, ids | st.just(bytes(16)) | st.integers(0, 15).map(lambda n: bytes(n) + b"\1" + bytes(15 - n))]
        )
    )
    numbers = st.integers(0, U64) | st.just(0)
    origin = st.just(0) if encoding is IGGY_G0 else numbers
    stamped = draw(st.sampled_from([st.just(0), numbers]))
    one = st.builds(Message, payloads, ids, origin, stamped, stamped, tails)
    return draw(st.lists(one, min_size=1, max_size=12))


cases = encodings.flatmap(lambda at: st.tuples(st.just(at), st.binary(max_size=4), some_messages(at)))
sendings = encodings.flatmap(lambda at: st.tuples(st.just(at), some_messages(at)))


def body_with(encoding: Encoding, key: bytes, messages: list[Message]) -> bytes:
    return bytes([len(key)]) + key + b"".join(written(encoding, at) for at in messages)


def plain(encoding: Encoding, count: int, id: bytes = bytes(16)) -> list[Message]:
    """So many messages of one shape."""
    return [Message(b"%09d" % at, id) for at in range(count)]


# -- reading bodies


@given(cases, st.data())
def test_what_the_fast_functions_find_is_what_one_message_at_a_time_finds(
    case: tuple[Encoding, bytes, list[Message]], data: st.DataObject
) -> None:
    encoding, key, messages = case
    body = body_with(encoding, key, messages)
    assert slow(encoding, body) == messages
    assert encoding.walk(body) == len(messages)
    assert list(encoding.sizes(body)) == [len(written(encoding, at)) for at in messages]
    assert encoding.runs(body) == [Run(b"", 0, 0, len(messages))]
    assert encoding.records(body) == [record(key, encoding, at) for at in messages]
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(messages))] * 2)))
    assert encoding.cut(body, first, last) == body_with(encoding, key, messages[first:last])


@given(cases, st.sampled_from(EDGES) | st.integers(0, 2**62), st.sampled_from([*EDGES, NOW]))
def test_a_stamp_changes_offsets_times_and_missing_ids_and_nothing_else(
    case: tuple[Encoding, bytes, list[Message]], base: int, timestamp: int
) -> None:
    encoding, key, messages = case
    body = body_with(encoding, key, messages)
    upper = xxhash.xxh64_intdigest(body) & 0xFFFF_FFFF_FFFF_0FFF | 0x8000
    expected = []
    for index, at in enumerate(messages):
        made = uuid.UUID(int=upper << 64 | 2 << 62 | timestamp + index).bytes[::-1]
        id = at.id if any(at.id) else made
        expected.append(Message(at.payload, id, at.origin, base + index, timestamp + index, at.tail))
    assert encoding.stamp(body, base, timestamp) == body_with(encoding, key, expected)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("edge", [2**8, 2**16, 2**32])
@pytest.mark.parametrize("count", [1, 3, 4, 5, 300])
def test_numbers_are_right_across_the_edge_of_a_byte(encoding: Encoding, edge: int, count: int) -> None:
    body = body_with(encoding, b"", plain(encoding, count))
    stamped = slow(encoding, encoding.stamp(body, edge - count // 2, edge * 2 - count // 2))
    assert [at.offset for at in stamped] == list(range(edge - count // 2, edge - count // 2 + count))
    assert [at.timestamp for at in stamped] == list(range(edge * 2 - count // 2, edge * 2 - count // 2 + count))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("count", [2, 20])
def test_ids_that_are_made_are_uuids_of_version_8_and_differ(encoding: Encoding, count: int) -> None:
    body = body_with(encoding, b"", plain(encoding, count))
    ids = [at.id for moment in (NOW, NOW + count) for at in encoding.records(encoding.stamp(body, 0, moment))]
    assert len(set(ids)) == 2 * count
    assert {(uuid.UUID(bytes=id).version, uuid.UUID(bytes=id).variant) for id in ids} == {(8, uuid.RFC_4122)}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_stamped_body_keeps_its_ids_when_it_is_stamped_again(encoding: Encoding) -> None:
    once = encoding.stamp(body_with(encoding, b"k", plain(encoding, 9)), 7, NOW)
    again = encoding.stamp(once, 70, NOW + 70)
    assert [at.id for at in encoding.records(again)] == [at.id for at in encoding.records(once)]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_body_of_any_number_of_messages_is_one(encoding: Encoding, count: int) -> None:
    body = body_with(encoding, b"", plain(encoding, count))
    assert encoding.walk(body) == count == len(encoding.records(body)) == len(list(encoding.sizes(body)))
    assert encoding.cut(encoding.stamp(body, 1, 1), 0, 0) == b"\0"


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("payload", [b"x", b"different"])
def test_no_body_has_more_messages_than_a_batch_may_have(encoding: Encoding, payload: bytes) -> None:
    whole = written(encoding, Message(b"x")) * (MAX_RECORDS - 1) + written(encoding, Message(payload))
    assert encoding.walk(b"\0" + whole) == MAX_RECORDS
    with pytest.raises(CommandFailed) as caught:
        encoding.walk(b"\0" + whole + written(encoding, Message(b"x")))
    assert caught.value.fault is Fault.TOO_LARGE


# -- damage


@st.composite
def damaged(draw: st.DrawFn, octets: bytes) -> bytes:
    """Cut short, lengthened, or with up to three bytes changed."""
    match draw(st.integers(0, 2)):
        case 0:
            return octets[: draw(st.integers(0, len(octets)))]
        case 1:
            at = draw(st.integers(0, len(octets)))
            return octets[:at] + draw(st.binary(min_size=1, max_size=9)) + octets[at:]
    out = bytearray(octets)
    for at in draw(st.lists(st.integers(0, len(out) - 1), min_size=1, max_size=3)):
        out[at] = draw(st.sampled_from([0, 1, 2, 255]) | st.integers(0, 255))
    return bytes(out)


@given(cases, st.data())
def test_a_damaged_body_is_refused_where_one_message_at_a_time_refuses_it(
    case: tuple[Encoding, bytes, list[Message]], data: st.DataObject
) -> None:
    encoding, key, messages = case
    agrees(encoding, data.draw(damaged(body_with(encoding, key, messages))))


@given(encodings, st.binary(max_size=200))
@example(IGGY_G0, b"")
@example(IGGY_G2C, b"\1")
def test_noise_is_no_body(encoding: Encoding, noise: bytes) -> None:
    agrees(encoding, noise)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("count", [2, 6])
def test_every_byte_counts(encoding: Encoding, count: int) -> None:
    tail = write_headers([Header(b"k", b"v")], typed(encoding))
    body = body_with(encoding, b"", [Message(b"abc", tail=tail)] * count)
    for at in range(len(body)):
        for byte in (0, 1, 4, 255):
            agrees(encoding, body[:at] + bytes([byte]) + body[at + 1 :])


def agrees(encoding: Encoding, body: bytes) -> None:
    """That walk says of a body what the slow reader says."""
    try:
        expected: int | Fault = len(slow(encoding, body))
    except Bad:
        expected = Fault.MALFORMED
    assert walked(encoding, body) == expected


def walked(encoding: Encoding, body: bytes) -> int | Fault:
    try:
        return encoding.walk(body)
    except CommandFailed as failure:
        return failure.fault


# -- SEND


@given(sendings)
def test_what_a_client_sends_is_kept_but_for_what_it_has_no_say_in(case: tuple[Encoding, list[Message]]) -> None:
    encoding, messages = case
    assume(any(at.payload for at in messages))
    kept = [msgspec.structs.replace(at, offset=0, timestamp=0) for at in messages]
    assert received(encoding, messages) == b"".join(written(encoding, at) for at in kept)


@given(sendings)
def test_messages_that_are_sent_on_are_what_was_sent(case: tuple[Encoding, list[Message]]) -> None:
    encoding, messages = case
    assume(any(at.payload for at in messages))
    original = sent(encoding, [msgspec.structs.replace(at, offset=0, timestamp=0) for at in messages])
    named = [at if any(at.id) else msgspec.structs.replace(at, id=b"\7" * 16) for at in messages]
    if encoding is IGGY_G0:
        assert write_g0(received(encoding, messages)) == original
        stamped = IGGY_G0.stamp(prefix(b"") + received(encoding, named), 5, NOW)
        assert write_g0(split(stamped)[1]) == sent(encoding, named)
    else:
        assert write_g2(encoding, received(encoding, messages)) == original
        stamped = encoding.stamp(prefix(b"") + received(encoding, named), 5, NOW)
        assert write_g2(encoding, split(stamped)[1]) == write_g2(encoding, received(encoding, named))


@given(st.sampled_from(LATER).flatmap(lambda at: st.tuples(st.just(at), some_messages(at))), st.data())
def test_a_checksum_and_reserved_bytes_of_a_client_are_not_kept(
    case: tuple[Encoding, list[Message]], data: st.DataObject
) -> None:
    encoding, messages = case
    assume(any(at.payload for at in messages))
    summed = [msgspec.structs.replace(at, checksum=data.draw(st.integers(0, U64))) for at in messages]
    assert received(encoding, summed) == received(encoding, messages)
    if encoding is IGGY_G2C:
        octets = bytearray(sent(encoding, messages))
        octets[16 * len(messages) + 60] = 9
        assert read_g2(encoding, len(messages), bytes(octets)) == received(encoding, messages)


@given(sendings, st.data())
def test_a_damaged_send_is_refused_where_one_message_at_a_time_refuses_it(
    case: tuple[Encoding, list[Message]], data: st.DataObject
) -> None:
    encoding, messages = case
    octets = data.draw(damaged(sent(encoding, messages)))
    count = len(messages) + data.draw(st.sampled_from([0, 0, 0, -1, 1]))
    try:
        expected: object = slow_send(encoding, count, octets)
    except Bad:
        expected = Fault.MALFORMED
    assert outcome(encoding, count, octets) == expected


def slow_send(encoding: Encoding, count: int, octets: bytes) -> object:
    """The messages in poll layout, or the server's number of what is wrong with them.  Raises Bad."""
    index = "index" / spec.INDEX[0 if encoding is IGGY_G0 else count]
    found = parsed(index + "messages" / GreedyRange(SENT[encoding]) + Terminated, octets)
    begin = 16 * len(found.index)
    if encoding is not IGGY_G0 and [at.end + begin for at in found.index] != [at.end for at in found.messages]:
        raise Bad
    messages = [message_of(encoding, Container(at, offset=0, timestamp=0)) for at in found.messages]
    if not any(at.payload for at in messages):
        return 4024 if messages else 4009
    return b"".join(written(encoding, at) for at in messages)


def outcome(encoding: Encoding, count: int, octets: bytes) -> object:
    try:
        return read_g0(octets)[1] if encoding is IGGY_G0 else read_g2(encoding, count, octets)
    except CommandFailed as failure:
        return failure.fault if failure.fault is Fault.MALFORMED else failure.facts["status"]


def refused(encoding: Encoding, messages: list[Message]) -> tuple[Fault, object]:
    with pytest.raises(CommandFailed) as caught:
        received(encoding, messages)
    return caught.value.fault, caught.value.facts.get("status")


MIB = 1 << 20


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_payloads_of_a_send_have_10_mib_together(encoding: Encoding) -> None:
    for many in (1, 5):
        most = [Message(bytes(2 * MIB))] * 5 if many == 5 else [Message(bytes(10 * MIB))]
        assert received(encoding, most)
        assert refused(encoding, [*most[1:], Message(bytes(len(most[0].payload) + 1))]) == (Fault.TOO_LARGE, 4022)
    assert refused(encoding, [Message(bytes(2 * MIB + 1))] * 5) == (Fault.TOO_LARGE, 4022)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_header_values_of_a_send_have_100_kib_together(encoding: Encoding) -> None:
    full = write_headers([Header(b"k", bytes(250))], typed(encoding))
    rest = write_headers([Header(b"k", bytes(150))], typed(encoding))
    more = write_headers([Header(b"k", bytes(151))], typed(encoding))
    most = [Message(b"x", tail=full)] * 409  # 102 250 bytes
    assert received(encoding, [*most, Message(b"x", tail=rest)])
    assert refused(encoding, [*most, Message(b"x", tail=more)]) == (Fault.TOO_LARGE, 4017)
    assert refused(encoding, [Message(b"x", tail=full)] * 410) == (Fault.TOO_LARGE, 4017)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_send_needs_a_message_and_a_payload(encoding: Encoding) -> None:
    assert refused(encoding, []) == (Fault.EMPTY_BATCH, 4009)
    for count in (1, 3, 7):
        assert refused(encoding, [Message(b"")] * count) == (Fault.EMPTY_BATCH, 4024)
        assert received(encoding, [*[Message(b"")] * count, Message(b"x")])


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_send_has_no_more_messages_than_a_batch_may_have(encoding: Encoding) -> None:
    for count, status in ((MAX_RECORDS, None), (MAX_RECORDS + 1, 4023)):
        messages = written(encoding, Message(b"x")) * count
        octets = write_g0(messages) if encoding is IGGY_G0 else write_g2(encoding, messages)
        assert outcome(encoding, count, octets) == (status or messages)


@given(st.sampled_from(LATER).flatmap(lambda at: st.tuples(st.just(at), some_messages(at))))
def test_the_first_entry_of_the_index_tells_how_long_heads_are(case: tuple[Encoding, list[Message]]) -> None:
    encoding, messages = case
    assert width(len(messages), sent(encoding, messages)) == (56 if encoding is IGGY_G2B else 64)


@pytest.mark.parametrize(("count", "rest"), [(0, b""), (1, bytes(16)), (1, bytes(72)), (2, bytes(87)), (9, bytes(80))])
def test_what_has_no_such_entry_has_no_width(count: int, rest: bytes) -> None:
    assert width(count, rest) == 0


# -- answers, read


@given(sendings)
def test_a_batch_of_an_answer_has_the_offsets_and_times_of_its_messages(case: tuple[Encoding, list[Message]]) -> None:
    encoding, messages = case
    octets = b"".join(written(encoding, at) for at in messages)
    found = [row for batch in polled(encoding, octets) for row in batch.rows()]
    assert [(row[0], row[2]) for row in found] == [(at.offset, record(b"", encoding, at)) for at in messages]
    assert all(0 <= row[1] - at.timestamp < len(messages) for row, at in zip(found, messages, strict=True))


@given(sendings, st.sampled_from([*EDGES, 2**62]), st.integers(0, 2**62))
def test_messages_that_follow_each_other_are_one_batch(
    case: tuple[Encoding, list[Message]], base: int, timestamp: int
) -> None:
    encoding, messages = case
    stamped = RecordBatch(encoding, body_with(encoding, b"", messages), len(messages), 0, 0, "iggy").appended(
        base, timestamp
    )
    assert polled(encoding, split(stamped.body)[1]) == [stamped]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_nothing_polled_is_no_batch(encoding: Encoding) -> None:
    assert polled(encoding, b"") == []


@pytest.mark.parametrize("count", [1, 9])
def test_states_and_checksums_that_others_write_are_set_right(count: int) -> None:
    good = b"".join(written(IGGY_G0, at) for at in plain(IGGY_G0, count))
    bad = bytearray(good)
    for at in range(0, len(bad), len(good) // count):
        bad[at + 8], bad[at + 33] = 20, bad[at + 33] ^ 1
    assert polled(IGGY_G0, bytes(bad)) == polled(IGGY_G0, good)
    assert len(polled(IGGY_G0, good)) == count  # none has an offset


@given(sendings, st.data())
def test_a_damaged_answer_is_refused_or_read(case: tuple[Encoding, list[Message]], data: st.DataObject) -> None:
    encoding, messages = case
    octets = data.draw(damaged(b"".join(written(encoding, at) for at in messages)))
    try:
        batches = polled(encoding, octets)
    except CommandFailed as failure:
        assert failure.fault is Fault.MALFORMED
    else:
        assert all(len(slow(encoding, at.body)) == at.count for at in batches)
        assert sum(len(at.body) - 1 for at in batches) == len(octets)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_offsets_at_the_end_of_64_bits_do_not_rise(encoding: Encoding) -> None:
    octets = b"".join(written(encoding, Message(b"x", offset=U64, timestamp=U64)) for _ in range(5))
    assert [(at.count, at.base, at.timestamp) for at in polled(encoding, octets)] == [(1, U64, U64)] * 5


# -- keys and headers


@given(st.binary(max_size=255), st.binary(max_size=20))
def test_a_key_is_split_off_again(key: bytes, messages: bytes) -> None:
    assert split(prefix(key) + messages) == (key, messages)


@given(st.booleans().flatmap(lambda kinds: st.tuples(st.just(kinds), st.lists(header(kinds), max_size=5))))
def test_headers_are_read_as_they_were_written(case: tuple[bool, list[Header]]) -> None:
    kinds, headers = case
    block = write_headers(headers, kinds)
    assert read_headers(block, kinds) == tuple(headers) == tuple(slow_headers(block, kinds))


@given(st.booleans().flatmap(lambda kinds: st.tuples(st.just(kinds), st.lists(header(kinds), max_size=2))), st.data())
def test_damaged_headers_are_refused_where_they_are_damaged(
    case: tuple[bool, list[Header]], data: st.DataObject
) -> None:
    kinds, headers = case
    block = data.draw(damaged(write_headers([*headers, Header(b"k", b"v")], kinds)))
    try:
        expected = tuple(slow_headers(block, kinds))
    except Bad:
        with pytest.raises(CommandFailed, match="MALFORMED"):
            read_headers(block, kinds)
    else:
        assert read_headers(block, kinds) == expected


@pytest.mark.parametrize("kinds", [True, False])
def test_a_header_key_or_value_has_1_to_255_bytes(kinds: bool) -> None:
    encoding = IGGY_G2C if kinds else IGGY_G0
    for key, value, good in ((1, 1, 1), (255, 255, 1), (0, 1, 0), (1, 0, 0), (256, 1, 0), (1, 256, 0)):
        block = write_headers([Header(bytes(key), bytes(value))], kinds)
        body = body_with(encoding, b"", [Message(b"", tail=block)])
        assert walked(encoding, body) == (good or Fault.MALFORMED)


@pytest.mark.parametrize("kinds", [True, False])
def test_headers_that_end_early_or_are_not_of_their_kind_are_refused(kinds: bool) -> None:
    whole = write_headers([Header(b"k", b"v")], kinds)
    unknown = bytearray(whole)
    unknown[whole.index(b"k") + 1] = 0
    wide = write_headers([Header(b"k", b"vv", HeaderKind.BOOL)], kinds)
    for block in (*(whole[:end] for end in range(1, len(whole))), bytes(unknown), wide):
        with pytest.raises(CommandFailed, match="MALFORMED"):
            read_headers(block, kinds)


# -- converting

LOST = ("producer", "epoch", "sequence", "event_type", "schema_version", "aggregate_version", "metadata", "expiry")
small = st.integers(0, 3)
any_header = st.builds(
    Header,
    st.binary(max_size=3) | st.just(bytes(256)),
    st.binary(max_size=3) | st.just(bytes(256)),
    st.sampled_from([HeaderKind.RAW, HeaderKind.TEXT]),
    st.sampled_from([HeaderKind.TEXT, HeaderKind.RAW, HeaderKind.UINT16]),
) | header(False)
any_records = st.lists(
    st.builds(
        Record,
        key=st.none() | st.sampled_from([b"", b"a", b"b"]),
        value=st.none() | st.binary(max_size=3),
        headers=st.lists(any_header, max_size=2).map(tuple),
        timestamp=small,
        origin_timestamp=small,
        id=st.just(b"") | st.binary(min_size=16, max_size=16).filter(any),
        **{name: st.binary(max_size=1) for name in ("producer", "event_type", "metadata")},
        **{name: small for name in ("epoch", "sequence", "schema_version", "aggregate_version", "expiry")},
    ),
    min_size=1,
    max_size=8,
)


def carried(encoding: Encoding, at: Header) -> bool:
    fits = 1 <= len(at.key) <= 255 and 1 <= len(at.value) <= 255
    return fits and not (typed(encoding) and at.key_kind is HeaderKind.UINT16 and len(at.key) != 2)


def readable(encoding: Encoding, at: Header) -> Header:
    """With text that clients can read."""
    key, value = (octets.decode(errors="replace").encode() for octets in (at.key, at.value))
    named = key if at.key_kind is HeaderKind.TEXT or not typed(encoding) else at.key
    return Header(named, value if at.kind is HeaderKind.TEXT else at.value, at.kind, at.key_kind)


def converted(encoding: Encoding, at: Record, key: bytes | None, lost: Counter[str]) -> Record:
    """What is left of a record; what is not is counted."""
    lost.update(name for name in LOST if getattr(at, name))
    lost["tombstone"] += at.value is None
    lost["origin_timestamp"] += encoding is IGGY_G0 and at.origin_timestamp > 0
    shown = [readable(encoding, header) for header in at.headers]
    headers = [header for header in shown if carried(encoding, header)]
    lost["headers"] += tuple(headers) != at.headers
    if not typed(encoding):
        lost["header_kinds"] += any(header.key_kind is not HeaderKind.TEXT for header in headers)
        headers = [Header(header.key, header.value, header.kind) for header in headers]
    origin = 0 if encoding is IGGY_G0 else at.origin_timestamp
    return Record(key, at.value or b"", tuple(headers), 0, origin, at.id)


def counted(lost: Counter[str], origin: str) -> Losses:
    return Losses({(origin, "iggy", name): times for name, times in lost.items() if times})


@given(encodings, any_records)
def test_canonical_records_are_converted_and_what_is_lost_is_counted(encoding: Encoding, records: list[Record]) -> None:
    batch = canonical(records)
    batch = RecordBatch(batch.encoding, batch.body, batch.count, 40, NOW, "native")
    lost, losses = Counter(key=sum(bool(at.key) for at in records)), Losses()
    expected = [converted(encoding, at, None, lost) for at in records]
    messages = messages_of(batch, encoding, losses)
    assert encoding.records(prefix(b"") + messages) == expected
    assert [(at.offset, at.timestamp) for at in slow(encoding, prefix(b"") + messages)] == [
        (offset, timestamp) for offset, timestamp, _ in batch.rows()
    ]
    assert +losses == counted(lost, "native")
    assert encoding.walk(prefix(b"") + messages) == len(records)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_cursus_records_are_converted_and_what_is_lost_is_counted(encoding: Encoding) -> None:
    records = [Record(b"k", b"v%d" % at, producer=b"p", sequence=at, event_type=b"e") for at in range(6)]
    body = cursus_body(canonical(records), Losses())
    batch = RecordBatch(CURSUS_V1, body, 6, 10, NOW, "cursus")
    losses = Losses()
    messages = messages_of(batch, encoding, losses)
    assert [(at.offset, at.timestamp, at.payload) for at in slow(encoding, b"\0" + messages)] == [
        (10 + at, NOW + at, b"v%d" % at) for at in range(6)
    ]
    assert losses == counted(Counter(key=6, producer=6, sequence=5, event_type=6), "cursus")


@given(cases, encodings)
def test_a_generation_reads_what_another_wrote(case: tuple[Encoding, bytes, list[Message]], other: Encoding) -> None:
    encoding, key, messages = case
    body = encoding.stamp(body_with(encoding, key, messages), 3, NOW)
    batch = RecordBatch(encoding, body, len(messages), 3, NOW, "iggy")
    lost, losses = Counter[str](), Losses()
    expected = [converted(other, at, None, lost) for at in encoding.records(body)]
    read = other.records(b"\0" + messages_of(batch, other, losses))
    if other is encoding:
        assert not losses
        assert messages_of(batch, other, losses) == split(body)[1]
        return
    assert read == expected
    assert +losses == counted(lost, "iggy")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_number_beyond_64_bits_cannot_be_said(encoding: Encoding) -> None:
    batch = canonical([Record(None, b"x")])
    with pytest.raises(CommandFailed) as caught:
        messages_of(RecordBatch(batch.encoding, batch.body, 1, 0, 1 << 64, "native"), encoding, Losses())
    assert caught.value.fault is Fault.UNREPRESENTABLE
