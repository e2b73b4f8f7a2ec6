"""JSON as Go has it: that both ways of reading it agree, and what hostile ones cost.  The rest is in the vectors."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.mlog_messages import any_message
from gateway.dialects.mlog import fields as m
from gateway.dialects.mlog.coding import JSON, PROTOBUF, coding_of
from gateway.dialects.mlog.go_json import read, write
from gateway.dialects.mlog.go_values import MAX_VALUES, read_slowly
from gateway.dialects.mlog.layout import Message


@given(any_message)
def test_every_message_comes_back_by_either_way_of_reading(message: Message) -> None:
    payload = write(message)
    assert read(payload, type(message)) == read_slowly(payload, type(message)) == message
    assert coding_of(payload) is JSON


@given(st.binary(max_size=80))
def test_noise_is_refused_or_read_as_the_slow_way_reads_it(noise: bytes) -> None:
    for payload in (
        noise,
        write(m.ProduceBatchRequest("a", [noise])),
        write(m.ProduceBatchRequest("MARK")).replace(b"MARK", noise),
    ):
        read_as = []
        for way in (read, read_slowly):
            try:
                read_as.append(way(payload, m.ProduceBatchRequest))
            except ValueError:
                read_as.append(None)
        assert read_as[0] == read_as[1]


def leader(topic: str) -> bytes:
    return write(m.FindTopicLeaderRequest(topic))


HOSTILE = {
    "deep arrays": b'{"x":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "deep objects": b'{"x":' * 10_000 + b"1" + b"}" * 10_000,
    "nothing but opening": b"{" + b"[" * 4_000_000,
    "keys that nobody knows": b"{" + b",".join(b'"%d":0' % n for n in range(350_000)) + b"}",
    "one key again and again": b"{" + b",".join([leader("")[1:-1].lower()] * 370_000) + b"}",
    "empty values": write(m.ProduceBatchRequest("", [b""] * 1_300_000)),
    "a long number": write(m.ProduceRequest()).replace(b"0", b"1" * 4_000_000),
    "a text of backslashes": leader("\\" * 2_000_000).replace(b"\\", b"", 1),
    "a text that does not end": leader("a" * 4_000_000)[:-2],
    "a text of escapes that do not end": leader("\n" * 2_000_000)[:-2],
    "many blanks": b" " * 4_000_000 + b"{",
    "half of pairs": leader("\0" * 600_000).replace(b"0000", b"d800"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_meant_to_hurt_is_refused_in_bounded_time(name: str) -> None:
    before = time.thread_time()
    coding_of(HOSTILE[name])
    with pytest.raises(ValueError):
        read(HOSTILE[name], m.ProduceBatchRequest)
    assert time.thread_time() - before < 2.0


def test_what_is_large_and_honest_is_read() -> None:
    values: list[bytes | None] = [b"%d" % n for n in range(100_000)]
    payload = write(m.ProduceBatchRequest("orders", values, 1))
    assert len(payload) < 4 << 20
    assert read(payload, m.ProduceBatchRequest).values == values
    assert read(payload.replace(b"Topic", b"topic"), m.ProduceBatchRequest).values == values
    assert len(values) < MAX_VALUES


@pytest.mark.parametrize("name", ["keys that nobody knows", "deep arrays"])
def test_a_line_feed_before_what_is_no_json_to_its_end_is_protobuf(name: str) -> None:
    assert coding_of(b"\n" + HOSTILE[name]) is PROTOBUF
