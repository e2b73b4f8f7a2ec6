"""The mlog specification against the fast path: every field of what both accept, and what neither does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialects.mlog_messages import messages, terms
from gateway.core.faults import CommandFailed
from gateway.dialects import Refusal, Request
from gateway.dialects.mlog import fields as m
from gateway.dialects.mlog import replication, spec
from gateway.dialects.mlog.coding import CODINGS, coding_of
from gateway.dialects.mlog.layout import layout
from gateway.dialects.mlog.wire import decode_request

SERVED = sorted(m.REQUESTS - {m.FETCH_STREAM})


def framed(number: int, payload: bytes) -> bytes:
    return spec.FRAME.build({"type": number, "payload": payload})


def test_the_specification_and_the_table_have_the_same_messages() -> None:
    assert sorted(spec.REQUESTS) == SERVED
    for number, text in spec.REQUESTS.items():
        names = [row.split()[0] for row in text.split(", ") if row]
        assert [field.name for field in layout(m.MESSAGES[number])] == names
        assert [field.number for field in layout(m.MESSAGES[number])] == list(range(1, len(names) + 1))


@settings(max_examples=5 * settings().max_examples)
@given(st.data())
def test_what_is_read_of_a_request_is_what_the_specification_reads(data: st.DataObject) -> None:
    number = data.draw(st.sampled_from(SERVED))
    kind = m.MESSAGES[number]
    coding = data.draw(st.sampled_from(list(CODINGS.values())))
    payload = bytearray(coding.write(data.draw(messages(kind))))
    for at in data.draw(st.lists(st.integers(0, max(0, len(payload) - 1)), max_size=2)) if payload else ():
        payload[at] = data.draw(st.integers(0, 255))
    try:
        message = coding_of(bytes(payload)).read(bytes(payload), kind)
    except ValueError:
        with pytest.raises((spec.ConstructError, ValueError)):
            spec.read_request(framed(number, bytes(payload)))
        return
    values = {field.name: getattr(message, field.attribute) for field in layout(kind)}
    assert spec.read_request(framed(number, bytes(payload))) == (number, values)


HOSTILE = {
    "deep arrays": b'{"x":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "rather deep arrays": b'{"x":' + b"[" * 64 + b"]" * 64 + b"}",
    "many keys": b"{" + b",".join([b'"x":0'] * 130_001) + b"}",
    "no number": b'{"x":NaN}',
    "half a pair": b'{"x":"\\ud800"}',
    "blanks and many keys": b"\n{" + b",".join([b'"x":0'] * 130_001) + b"}",
    "no JSON": b"\n{",
}


@pytest.mark.parametrize("payload", HOSTILE.values(), ids=HOSTILE)
def test_neither_takes_what_is_meant_to_hurt(payload: bytes) -> None:
    frame = framed(2, payload)
    assert spec.parse_request(frame) is None
    assert isinstance(decode_request(frame, terms()), Refusal)


@given(st.integers(0, 40), st.binary(max_size=30), st.integers(-2, 2))
def test_frames_are_accepted_by_both_or_neither(number: int, payload: bytes, more: int) -> None:
    frame = bytearray(framed(0, payload))
    frame[1] = number
    changed = bytes(frame[: len(frame) + more]) + bytes(max(0, more))
    accepted = isinstance(decode_request(changed, terms()), Request)
    assert (spec.parse_request(changed) is not None) is accepted


@given(st.integers(0, (1 << 63) - 10), st.lists(st.binary(max_size=20), min_size=1, max_size=5))
def test_a_replication_batch_is_what_the_specification_says(base: int, values: list[bytes]) -> None:
    batch = replication.encode(list(enumerate(values, base)))
    assert batch is not None
    found = spec.REPLICATION_BATCH.parse(batch)
    assert (found.base_offset, found.leader_epoch, found.last_offset_delta) == (base, 0, len(values) - 1)
    assert [(record.offset, record.value) for record in found.records] == list(enumerate(values, base))
    assert replication.decode(batch) == list(enumerate(values, base))


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=3), st.data())
def test_a_damaged_replication_batch_is_seen_by_both(values: list[bytes], data: st.DataObject) -> None:
    batch = bytearray(replication.encode(list(enumerate(values))) or b"")
    at = data.draw(st.sampled_from([*range(8, 12), *range(16, 20), *range(25, len(batch))]))
    batch[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CommandFailed):
        replication.decode(bytes(batch))
    with pytest.raises(spec.ConstructError):
        spec.REPLICATION_BATCH.parse(bytes(batch))
