"""How replies are counted while they stream in, as cheaply as Python can, and never an error taken for a success.

The generator shares two cores with the server it measures, so no reply is cut out of the stream: either every good
reply holds a marker that nothing else holds, and one C call counts it, or all replies are of one size, and bytes are
counted; where an error would have that size too, all of them are compared with what they should be.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from gateway.bench import BenchFailed


class Counter(Protocol):
    """Counts the replies of one connection."""

    def feed(self, held: bytearray, end: int) -> int:
        """How many more replies are good and whole with the next bytes of the stream, held[:end].

        Raises BenchFailed for a reply that is seen not to be the expected one.
        """

    def finish(self) -> None:
        """Raises BenchFailed if the stream ends inside a reply."""


class Marked(msgspec.Struct, frozen=True, tag="marked"):
    """Every good reply holds `marker` exactly once, and an error never does: what is not good is missed in the end."""

    marker: bytes

    def counter(self) -> Counter:
        """For one connection."""
        return MarkCounter(self.marker)


class Sized(msgspec.Struct, frozen=True, tag="sized"):
    """Every good reply has `size` bytes and begins with `head`."""

    size: int
    head: bytes

    def counter(self) -> Counter:
        """For one connection."""
        return SizeCounter(self.size, self.head)


class Same(msgspec.Struct, frozen=True, tag="same"):
    """Every good reply is exactly this."""

    reply: bytes

    def counter(self) -> Counter:
        """For one connection."""
        return SameCounter(self.reply)


Tally = Marked | Sized | Same


class MarkCounter:
    """Counts a marker, also where it lies across two reads."""

    def __init__(self, marker: bytes) -> None:
        self._marker = marker
        self._overlap = len(marker) - 1
        self._carry = b""

    def feed(self, held: bytearray, end: int) -> int:
        """See Counter."""
        overlap = self._overlap
        seam = self._carry + held[: min(end, overlap)]
        self._carry = bytes(held[end - overlap : end]) if end >= overlap else seam[max(0, len(seam) - overlap) :]
        return held.count(self._marker, 0, end) + seam.count(self._marker)

    def finish(self) -> None:
        """Nothing to say: a missing reply is missed by who counts."""


class SizeCounter:
    """Counts bytes, and looks at the head of the first and the last reply that begin in each read."""

    def __init__(self, size: int, head: bytes) -> None:
        self._size = size
        self._head = head
        self._received = 0

    def feed(self, held: bytearray, end: int) -> int:
        """See Counter."""
        size, before = self._size, self._received
        self._received = after = before + end
        first = -before % size
        last = after // size * size - before
        if last + len(self._head) > end:
            last -= size
        if first + len(self._head) <= end:
            self._check(held, first)
        if last > first:
            self._check(held, last)
        return after // size - before // size

    def finish(self) -> None:
        """See Counter."""
        if self._received % self._size:
            raise BenchFailed(f"{self._received} bytes came, which is no whole number of replies of {self._size} bytes")

    def _check(self, held: bytearray, at: int) -> None:
        if not held.startswith(self._head, at):
            raise BenchFailed(f"not the reply that was expected: {bytes(held[at : at + 120])!r}")


class SameCounter:
    """Counts bytes, and compares all of them: for replies of some dozens of bytes at the most."""

    def __init__(self, reply: bytes) -> None:
        self._reply = reply
        self._expected = reply
        self._received = 0

    def feed(self, held: bytearray, end: int) -> int:
        """See Counter."""
        size, before = len(self._reply), self._received
        self._received = after = before + end
        first = before % size
        if len(self._expected) < first + end:
            self._expected = self._reply * (1 + (first + end) // size)
        if not held.startswith(self._expected[first : first + end]):
            raise BenchFailed(f"not the replies that were expected: {bytes(held[:end][:120])!r}")
        return after // size - before // size

    def finish(self) -> None:
        """See Counter."""
        if self._received % len(self._reply):
            raise BenchFailed(f"the stream ended within a reply: {self._received} bytes came")
