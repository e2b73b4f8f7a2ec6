"""Which partition of its topic a row goes to.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from gateway.core.partitioners import PARTITIONERS

DEFAULT_PARTITIONER = "fnv1a_32"
"""What V1 and the grid take for keys, so that a key of Spark's is where theirs is; the other wires' clients choose."""

_KEYS = 1 << 16
"""Keys of which the partition is kept in mind."""


def check_partitioner(name: str) -> str:
    """The name.  Raises ValueError, with a sentence."""
    if name not in PARTITIONERS:
        raise ValueError(f"partitioner is one of {', '.join(PARTITIONERS)}, not {name!r}")
    return name


class Placing(msgspec.Struct, frozen=True):
    """Where rows go: to the partition that they say, else to their key's, else to all in turn.

    topic:       its name, for sentences.
    count:       its partitions.
    partitioner: for keys.
    """

    topic: str
    count: int
    partitioner: str = DEFAULT_PARTITIONER

    def places(
        self, partitions: Sequence[int | None] | None, keys: Sequence[bytes | None] | None, turn: int, count: int
    ) -> list[int]:
        """The partition of each of `count` rows.  partitions, keys: of each row, None = no row says one.

        turn: rows before these, which makes the turns of one Spark partition the same whenever it is written.
        Raises ValueError, with a sentence, for a partition that there is not.
        """
        if partitions is None and keys is None:
            return [(turn + at) % self.count for at in range(count)]
        found: list[int | None] = [None] * count
        if keys is not None:
            found = [None if key is None else self._by_key(key) for key in keys]
        if partitions is not None:
            said = zip(partitions, found, strict=True)
            found = [other if partition is None else self._checked(partition) for partition, other in said]
        return [(turn + at) % self.count if place is None else place for at, place in enumerate(found)]

    def _by_key(self, key: bytes) -> int:
        return _hashed(self.partitioner, key, self.count)

    def _checked(self, partition: int) -> int:
        if not 0 <= partition < self.count:
            raise ValueError(
                f"a row is for partition {partition} of {self.topic}, which has {self.count}; the option"
                " createPartitions says how many a new topic gets"
            )
        return partition


@lru_cache(_KEYS)
def _hashed(partitioner: str, key: bytes, count: int) -> int:
    return PARTITIONERS[partitioner](key, count)
