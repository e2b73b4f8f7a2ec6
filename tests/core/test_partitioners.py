"""gateway.core.partitioners: the hashes of five clients, by answers known from elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.partitioners import PARTITIONERS, fnv1a_32, fnv1a_64, murmur3_128


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", 0x811C9DC5),  # the offset basis
        (b"a", 0xE40C292C),  # http://www.isthe.com/chongo/src/fnv/test_fnv.c
        (b"foobar", 0xBF9CF968),  # the same
        (b"k1", 0x983D80C1),
    ],
)
def test_fnv1a_of_32_bits(key: bytes, value: int) -> None:
    assert fnv1a_32(key) == value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", 0xCBF29CE484222325),
        (b"a", 0xAF63DC4C8601EC8C),
        (b"foobar", 0x85944171F73967E8),
        (b"k1", 0x08BE0F07B56224C1),
    ],
)
def test_fnv1a_of_64_bits(key: bytes, value: int) -> None:
    assert fnv1a_64(key) == value


def test_murmur3_puts_its_second_half_first() -> None:
    assert murmur3_128(b"k1") == 0xF51EAA11E82EF5188FF1825F5A8325FA
    assert murmur3_128(b"") == 0


@pytest.mark.parametrize(
    ("key", "partition"),
    [("user1", 2), ("user2", 2), ("user-1", 1), ("a", 1), ("key", 1), ("", 1), ("42", 2), ("héllo", 0)],
)
def test_the_pipe_protocols_own_examples_with_three_partitions(key: str, partition: int) -> None:
    assert PARTITIONERS["fnv1a_32"](key.encode(), 3) == partition


LARGE = 1 << 200
"""So many partitions that the hash itself comes out."""


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("fnv1a_32", b"k1", 0x983D80C1),
        ("fnv1a_64", b"k1", 0x08BE0F07B56224C1),
        ("murmur3", b"k1", 0xF51EAA11E82EF5188FF1825F5A8325FA - 1),
        ("xxh32_from_1", b"k1", 0x06C1973E - 1),
        ("xxh32", b"k1", 0x06C1973E),
        ("xxh32", b"key-1", 0x39636A09),
        ("xxh32", b"", 0x02CC5D05),  # xxHash's own test, seed 0
    ],
)
def test_each_name_stands_for_its_hash(name: str, key: bytes, value: int) -> None:
    assert PARTITIONERS[name](key, LARGE) == value
    assert PARTITIONERS[name](key, 7) == value % 7


@pytest.mark.parametrize(
    ("name", "key", "of_3", "of_10"),
    [
        ("murmur3", b"k1", 2, 6),
        ("murmur3", b"key-1", 1, 8),
        ("xxh32_from_1", b"k1", 1, 2),
        ("xxh32_from_1", b"k0", 3, 5),
    ],
)
def test_where_partitions_count_from_1_no_remainder_is_the_last(name: str, key: bytes, of_3: int, of_10: int) -> None:
    assert PARTITIONERS[name](key, 3) == of_3 - 1
    assert PARTITIONERS[name](key, 10) == of_10 - 1


@given(st.sampled_from(sorted(PARTITIONERS)), st.binary(max_size=40), st.integers(1, 100_000))
def test_every_key_has_one_partition_that_exists(name: str, key: bytes, count: int) -> None:
    assert PARTITIONERS[name](key, count) in range(count)
    assert PARTITIONERS[name](key, 1) == 0
