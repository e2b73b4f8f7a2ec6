"""Where the fields of a request begin: what its specification reads, seen while it reads it; of text, its words.

Bytes that a specification takes out and reads again elsewhere remember where they stood, so what is laid out within a
length, or within a value, is cut as well.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from construct import core

LEGIBLE = re.compile(rb"[\t\r\n -~]{8,}")
"""So much text in a row is cut into words."""

_WORDS = re.compile(rb"[A-Za-z0-9_.+-]+|[^A-Za-z0-9_.+-]")


class _Octets(bytes):
    """Bytes of a frame.  at: where in it they begin."""

    at: int


class _Stream(io.BytesIO):
    """Stands for every stream that construct makes.  marks: where what was read begins and ends, of all of them."""

    marks: set[int] = set()  # noqa: RUF012  # replaced for each frame, see _recording

    def __init__(self, octets: bytes = b"", *_: object) -> None:
        super().__init__(octets)
        self._at = octets.at if isinstance(octets, _Octets) else None

    def read(self, size: int | None = -1, /) -> bytes:
        """See io.BytesIO."""
        begin = self.tell()
        octets = super().read(size)
        if self._at is None or not octets:
            return octets
        self.marks.update((self._at + begin, self._at + begin + len(octets)))
        return _placed(octets, self._at + begin)

    @staticmethod
    def from_reading(stream: io.BytesIO, length: int, path: str) -> _Stream:
        """As construct's own, which knows of no places beyond one frame in another."""
        return _Stream(core.stream_read(stream, length, path))


def _placed(octets: bytes, at: int) -> _Octets:
    placed = _Octets(octets)
    placed.at = at
    return placed


@contextmanager
def _recording() -> Iterator[set[int]]:
    """In the block, construct reads from streams that take down where.  One thread at a time."""
    usual = core.io, core.BytesIOWithOffsets
    marks = _Stream.marks = set()
    core.io, core.BytesIOWithOffsets = SimpleNamespace(BytesIO=_Stream), _Stream
    try:
        yield marks
    finally:
        core.io, core.BytesIOWithOffsets = usual


def cut(frame: bytes, parse: Callable[[bytes], object]) -> list[bytes]:
    """The fields of a frame, which make it up; parse: what reads it with construct, as far as it is a request."""
    with _recording() as marks:
        parse(_placed(frame, 0))
    for text in LEGIBLE.finditer(frame):
        marks.update(text.start() + word.start() for word in _WORDS.finditer(text[0]))
        marks.add(text.end())
    edges = sorted(marks - {0, len(frame)})
    return [frame[begin:end] for begin, end in zip([0, *edges], [*edges, len(frame)], strict=True)]
