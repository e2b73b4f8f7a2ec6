"""Key -> partition, each function named by its hash.  Who uses which is said beside it."""

from __future__ import annotations

from collections.abc import Callable

import mmh3
import xxhash

Partitioner = Callable[[bytes, int], int]


def fnv1a_32(key: bytes) -> int:
    """FNV-1a, 32 bit.  http://www.isthe.com/chongo/tech/comp/fnv/"""
    value = 0x811C9DC5
    for byte in key:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def fnv1a_64(key: bytes) -> int:
    """FNV-1a, 64 bit."""
    value = 0xCBF29CE484222325
    for byte in key:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def murmur3_128(key: bytes) -> int:
    """MurmurHash3 x64 128 bit with seed 0, second half first, as Iggy before 0.0.32 takes it."""
    low, high = mmh3.hash64(key, seed=0, x64arch=True, signed=False)
    return high << 64 | low


def xxh32(key: bytes) -> int:
    """xxHash, 32 bit, seed 0."""
    return xxhash.xxh32_intdigest(key, seed=0)


PARTITIONERS: dict[str, Partitioner] = {
    "fnv1a_32": lambda key, count: fnv1a_32(key) % count,  # pipe, grid
    "fnv1a_64": lambda key, count: fnv1a_64(key) % count,  # Cursus text publish and aggregates
    "murmur3": lambda key, count: (murmur3_128(key) - 1) % count,  # Iggy G0, whose partitions count from 1
    "xxh32_from_1": lambda key, count: (xxh32(key) - 1) % count,  # Iggy G1a to G2a, where they still do
    "xxh32": lambda key, count: xxh32(key) % count,  # Iggy from G2b on
}
"""Name -> partition, from 0.  Where partitions count from 1, the remainder is the number and 0 stands for the last."""
