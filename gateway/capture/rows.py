"""Rows and the files that hold them; the package's docstring says what they look like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Literal

import msgpack  # type: ignore[import-untyped]
import msgspec
import zstandard

FORMAT = "gateway-capture"
VERSION = 1

SUFFIX = ".rows.zst"

LEVEL = 1
"""Of zstd.  256 KiB of JSON take 0.4 ms and become a quarter; at level 3 they take 0.7 and become no smaller."""

MOST = 1 << 31
"""Bytes of one zstd frame, unpacked; we write some megabytes, and one frame of a client more."""

ROOM = 1 << 20
"""Bytes of the buffer that is used again."""

_READ = 1 << 20

Direction = Literal["in", "out", "open", "close", "gap"]


class ListenerSaid(msgspec.Struct, frozen=True):
    """What has to be known of a listener to read its frames.  settings: those of its dialect, as JSON has them."""

    dialect: str
    settings: dict[str, object] = {}


class Header(msgspec.Struct, frozen=True):
    """What a file begins with.  Times are us since the epoch."""

    node: str
    gateway: str
    started: int
    opened: int
    listeners: Mapping[str, ListenerSaid]
    format: str = FORMAT
    version: int = VERSION


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One frame, or one thing that happened.  See the package's docstring."""

    time: int
    connection: int
    dialect: str
    listener: str
    direction: Direction
    frame: bytes = b""
    ticket: int = -1
    kind: str = ""
    namespace: str = ""
    topic: str = ""
    outcome: str = ""
    latency: int = 0
    principal: str = ""
    note: str = ""

    @property
    def place(self) -> str:
        """What it is about, for people: the namespace only where it is not the usual one."""
        return self.topic if self.namespace in ("", "default") else f"{self.namespace}/{self.topic}".rstrip("/")


FIELDS = Row.__struct_fields__


class NoCapture(ValueError):
    """A file that is none of ours; the sentence is for the user."""


# -- writing


class Packing:
    """Makes zstd frames, in one thread.  Its buffer is used again and again: fresh memory costs as much as packing."""

    def __init__(self) -> None:
        self._compress = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress
        self._encode = msgspec.msgpack.Encoder().encode_into
        self._buffer = bytearray()

    def header(self, header: Header) -> bytes:
        """What a file begins with."""
        self._encode(header, self._buffer)
        return self._compress(self._buffer)

    def rows(self, rows: list[Row]) -> bytes:
        """Rows one after the other: encoded as one array, whose head is taken off; a tenth of the time of a loop."""
        self._encode(rows, self._buffer)
        head = 1 if len(rows) < 16 else 3 if len(rows) < 1 << 16 else 5
        with memoryview(self._buffer) as whole, whole[head:] as each:
            packed = self._compress(each)
        if len(self._buffer) > ROOM:
            self._buffer = bytearray()
        return packed


# -- reading


class Capture:
    """A file.  Its rows can be gone through more than once; torn: its end is missing, as far as was read.

    Raises NoCapture for what is none, OSError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = False
        self.header = self._header(next(self._values(), None))

    def __iter__(self) -> Iterator[Row]:
        values = self._values()
        next(values, None)
        for value in values:
            try:
                yield msgspec.convert(value, Row)
            except msgspec.ValidationError as error:
                raise NoCapture(f"{self.path} holds what is no row: {error}") from None

    def _header(self, value: object) -> Header:
        try:
            header = msgspec.convert(value, Header)
        except msgspec.ValidationError:
            raise NoCapture(f"{self.path} is no capture") from None
        if header.format != FORMAT:
            raise NoCapture(f"{self.path} is no capture")
        if header.version != VERSION:
            raise NoCapture(f"{self.path} is a capture of version {header.version}; this gateway reads {VERSION}")
        return header

    def _values(self) -> Iterator[object]:
        for plain in self._frames():
            unpacker = msgpack.Unpacker(max_buffer_size=MOST)
            unpacker.feed(plain)
            yield from unpacker

    def _frames(self) -> Iterator[bytes]:
        """What is in each zstd frame that is whole."""
        with self.path.open("rb") as file:
            rest = b""
            while rest or (rest := file.read(_READ)):
                plain, rest = self._frame(file, rest)
                if plain is None:
                    self.torn = True
                    return
                yield plain

    def _frame(self, file: BinaryIO, octets: bytes) -> tuple[bytes | None, bytes]:
        """The frame that these bytes begin with, None if it does not end; and what was read behind it."""
        unpacking = zstandard.ZstdDecompressor().decompressobj()
        pieces: list[bytes] = []
        try:
            while octets:
                pieces.append(unpacking.decompress(octets))
                if unpacking.eof:
                    return b"".join(pieces), unpacking.unused_data
                octets = file.read(_READ)
        except zstandard.ZstdError:
            return None, b""
        return None, b""


def captures(places: Iterable[str | Path]) -> list[Capture]:
    """The files, and all files of a capture in a directory, in the order in which they were begun.

    Raises NoCapture, OSError.
    """
    found: list[Path] = []
    for place in map(Path, places):
        inside = sorted(place.glob(f"capture-*{SUFFIX}")) if place.is_dir() else [place]
        if not inside:
            raise NoCapture(f"{place} has no files capture-*{SUFFIX}")
        found += inside
    return [Capture(path) for path in found]
