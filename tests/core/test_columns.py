"""gateway.core.columns: consecutive numbers as a loop would write them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.core.columns import columns
from gateway.core.records import MAX_RECORDS


def number_by_number(first: int, count: int) -> list[bytes]:
    return [bytes(number >> shift & 0xFF for number in range(first, first + count)) for shift in range(56, -8, -8)]


@given(st.one_of(*(st.integers(0, (1 << bits) - 5000) for bits in (16, 24, 32, 63, 64))), st.integers(1, 5000))
@example((1 << 64) - 5000, 5000)
@example((1 << 56) - 1, 2)
@example((1 << 16) - 1, 258)
def test_columns_are_the_bytes_of_the_numbers(first: int, count: int) -> None:
    assert list(columns(first, count)) == number_by_number(first, count)


@pytest.mark.parametrize("first", [0, 0xFFFF, 0xFFFFFF, (1 << 64) - MAX_RECORDS])
def test_the_largest_batch_can_begin_anywhere(first: int) -> None:
    assert list(columns(first, MAX_RECORDS)) == number_by_number(first, MAX_RECORDS)


def test_a_batch_read_column_by_column_from_the_last_is_little_endian() -> None:
    body = bytearray(3 * 10)
    for at, column in enumerate(reversed(list(columns(0x0102FF, 3)))):
        body[at::10] = column
    assert [struct.unpack_from("<Q", body, at)[0] for at in (0, 10, 20)] == [0x0102FF, 0x010300, 0x010301]
