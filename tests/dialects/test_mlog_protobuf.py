"""Protobuf by hand: that messages come back, and what hostile payloads cost.  The rest is in the vectors."""

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


@given(any_without_nil)
def test_a_message_comes_back(message: Message) -> None:
    """But for what nobody can see on this wire: bytes that are nil are empty where they stand among others."""
    back = read(write(message), type(message))
    assert write(back) == write(message)
    assert read(write(back), type(message)) == back
    assert go_json.write(back).replace(b'""', b"null") == go_json.write(message).replace(b'""', b"null")


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
        write(m.ProduceBatchRequest(values=[b""])) * 2_000_000,
        b"\x50\x00" * 2_000_000,
        b"\x13" * 4_000_000,
        b"\x80" * 4_000_000,
        b"\x0b\x0c" * 2_000_000,
        b"\x0b" * 65 + b"\x0c" * 65,
    ],
    ids=["empty values", "unknown fields", "groups", "a number without its end", "empty groups", "groups 65 deep"],
)
def test_what_is_meant_to_hurt_is_refused_in_bounded_time(payload: bytes) -> None:
    before = time.thread_time()
    with pytest.raises(ValueError):
        read(payload, m.ProduceBatchRequest)
    assert time.thread_time() - before < 2.0
