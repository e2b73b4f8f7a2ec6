"""Protobuf by hand: what comes back, what is skipped, and what hostile payloads cost."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.mlog_messages import any_without_nil
from gateway.dialects.mlog import fields as m
from gateway.dialects.mlog import go_json
from gateway.dialects.mlog.layout import Message
from gateway.dialects.mlog.protobuf import read, write

ORDERS = bytes.fromhex("0a066f7264657273")


def text(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


@given(any_without_nil)
def test_a_message_comes_back(message: Message) -> None:
    """But for what nobody can see on this wire: bytes that are nil are empty where they stand among others."""
    back = read(write(message), type(message))
    assert write(back) == write(message)
    assert read(write(back), type(message)) == back
    assert go_json.write(back).replace(b'""', b"null") == go_json.write(message).replace(b'""', b"null")


@pytest.mark.parametrize(
    ("message", "written"),
    [
        (m.RPCErrorResponse(-1), "08ffffffffffffffffff01"),
        (m.ReplicateResponse(leader_leo=-(1 << 63)), "2080808080808080808001"),
        (m.FetchOffsetResponse((1 << 64) - 1), "08ffffffffffffffffff01"),
        (m.FetchResponse(None), ""),
        (m.FetchResponse(m.LogEntry()), "0a00"),
        (m.FetchResponse(m.LogEntry(0, b"")), "0a00"),
        (m.FetchBatchResponse([m.LogEntry(), m.LogEntry(300)]), "0a000a0308ac02"),
        (m.ProduceBatchRequest("", [b"", None, b"a"]), "12001200120161"),
        (m.CreateTopicResponse("", ["", "a"]), "1200120161"),
        (m.CommitOffsetResponse(True), "0801"),
        (m.ListTopicsRequest(), ""),
    ],
)
def test_what_is_zero_is_left_out_and_what_is_among_others_is_not(message: Message, written: str) -> None:
    assert write(message).hex() == written


def test_a_message_that_comes_again_is_merged() -> None:
    payload = bytes.fromhex("0a020805") + bytes.fromhex("0a03120178")
    assert read(payload, m.FetchResponse) == m.FetchResponse(m.LogEntry(5, b"x"))


def test_what_is_too_wide_loses_its_upper_bits() -> None:
    high = bytes.fromhex("18ffffffffffffffffff01")
    assert read(high, m.ProduceRequest).acks == -1
    assert read(bytes.fromhex("1080808080" + "10"), m.CreateTopicRequest).replica_count == 0
    assert read(bytes.fromhex("20ffffffffffffffffff01"), m.FetchBatchRequest).max_count == (1 << 32) - 1
    assert read(bytes.fromhex("20ffffffffffffffffff01"), m.ReplicateResponse).leader_leo == -1


@given(st.binary(max_size=60))
def test_noise_is_refused_or_read(noise: bytes) -> None:
    for kind in (m.ProduceBatchRequest, m.ListTopicsResponse):
        try:
            message = read(noise, kind)
        except ValueError:
            continue
        assert read(write(message), kind) == read(write(read(write(message), kind)), kind)


@pytest.mark.parametrize(
    "payload",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x0a\x01\xff",
        b"\x00\x00",
        b"\x80\x80\x80\x80\x10\x00",
        b"\x09\x00",
        b"\x0d\x00",
        b"\x0c",
        b"\x0b\x14",
        b"\x0e",
        b"\x0f",
        b"\x13" * 65 + b"\x14" * 65,
        b"\x80" * 10,
    ],
)
def test_damage_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError):
        read(payload + ORDERS, m.FindTopicLeaderRequest)


@pytest.mark.parametrize(
    "payload",
    [
        b"\x12\x00" * 2_000_000,
        b"\x50\x00" * 2_000_000,
        b"\x13" * 4_000_000,
        b"\x80" * 4_000_000,
        b"\x0b\x0c" * 2_000_000,
    ],
    ids=["empty values", "unknown fields", "groups", "a number without its end", "empty groups"],
)
def test_what_is_meant_to_hurt_is_refused_in_bounded_time(payload: bytes) -> None:
    before = time.thread_time()
    with pytest.raises(ValueError):
        read(payload, m.ProduceBatchRequest)
    assert time.thread_time() - before < 2.0


def test_groups_within_groups_are_skipped() -> None:
    nested = b"\x13" * 64 + b"\x18\x01" + text(9, b"x") + b"\x14" * 64
    assert read(nested + ORDERS, m.FindTopicLeaderRequest) == m.FindTopicLeaderRequest("orders")
