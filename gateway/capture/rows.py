"""The files that hold rows, and how they are read; the package's docstring says what they look like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import msgpack  # type: ignore[import-untyped]
import msgspec
import zstandard

from gateway.capture.row import FIELDS as FIELDS
from gateway.capture.row import Direction as Direction
from gateway.capture.row import Row as Row
from gateway.capture.sheets import Sheet, Unfolding

FORMAT = "gateway-capture"
VERSION = 1

SUFFIX = ".rows.zst"

MOST = 1 << 31
"""Bytes of one zstd frame, unpacked; we write some megabytes, and one frame of a client more."""

_READ = 1 << 20


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


class NoCapture(ValueError):
    """A file that is none of ours; the sentence is for the user."""


class Capture:
    """A file.  Its rows can be gone through more than once; torn: its end is missing, as far as was read.

    Raises NoCapture for what is none, OSError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = False
        self.header = self._header(next(self._values(), None))

    def __iter__(self) -> Iterator[Row]:
        for sheet in self.sheets():
            try:
                yield from Unfolding(sheet).rows()
            except (LookupError, ValueError) as error:
                raise NoCapture(f"{self.path} holds a sheet that is damaged: {error!r}") from None

    def sheets(self) -> Iterator[Sheet]:
        """What the rows are made of, for who only counts."""
        values = self._values()
        next(values, None)
        for value in values:
            try:
                yield msgspec.convert(value, Sheet)
            except msgspec.ValidationError as error:
                raise NoCapture(f"{self.path} holds what is no sheet: {error}") from None

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
