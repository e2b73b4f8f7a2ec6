"""The rows of capture files, and what is missing of them: a torn end is usual, damage is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, cast

import msgspec
import zstandard

from gateway.capture.rows import SUFFIX, Capture, Direction, Header, Row

MAGIC = zstandard.FRAME_HEADER
"""What a zstd frame begins with."""

_READ = 1 << 20


class Missing(msgspec.Struct, frozen=True):
    """What a file does not give.

    why:    `torn`: its last piece is not whole, as where the process died or still writes.  `damaged`: anything else.
    octets: that were not read.
    """

    path: Path
    why: Literal["torn", "damaged"]
    octets: int
    reason: str = ""

    @property
    def note(self) -> str:
        """For its row."""
        return f"{self.octets} bytes of {self.path}" + (f": {self.reason}" if self.reason else "")


def rows_of(path: Path, *, skip: bool, missing: list[Missing]) -> Iterator[tuple[Header, Row]]:
    """The rows of a file; where some are missing, one of direction `torn` or `damaged` stands for them.

    missing: is added to.  Raises ValueError, with a sentence, for damage that is not to be skipped; OSError.
    """
    header, last = Header("", "", 0, 0, {}), 0
    lost: Missing | None
    try:
        capture = Capture(path)
        header = capture.header
        for row in capture:
            last = row.time
            yield header, row
        lost = _end(path) if capture.torn else None
    except ValueError as error:  # NoCapture is one, and what is no msgpack another
        lost = _begun(path) or Missing(path, "damaged", path.stat().st_size, str(error).removeprefix(f"{path} "))
    if lost is None:
        return
    if lost.why == "damaged" and not skip:
        raise ValueError(f"cannot read {lost.note}; the option mode=skip passes over what is damaged")
    missing.append(lost)
    yield header, Row(last or header.opened, 0, "", "", cast(Direction, lost.why), note=lost.note)


def summary(missing: Sequence[Missing]) -> str:
    """A sentence with the numbers."""
    counts = Counter(each.why for each in missing)
    octets = sum(each.octets for each in missing)
    files = " and ".join(f"{count} {why}" for why, count in sorted(counts.items()))
    return f"captures: {files}; {octets} bytes were not read: {'; '.join(each.note for each in missing[:5])}"


def _begun(path: Path) -> Missing | None:
    """A file of which not even the header was written."""
    with path.open("rb") as file:
        head = file.read(len(MAGIC))
    if not path.name.endswith(SUFFIX) or head != MAGIC[: len(head)]:
        return None
    lost = _end(path)
    return lost if lost.why == "torn" and lost.octets == path.stat().st_size else None


def _end(path: Path) -> Missing:
    """Why not all of a file could be read.

    Its end is torn if that is the beginning of one zstd frame and no more.  A frame whose damage hides its end goes on
    over the next ones, which are seen by how they begin: four bytes, by chance in one of a thousand torn ones of 4 MB.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        at, rest = 0, b""
        while rest or (rest := file.read(_READ)):
            unpacking = zstandard.ZstdDecompressor().decompressobj()
            taken, beyond = 0, rest
            try:
                while beyond and not unpacking.eof:
                    unpacking.decompress(beyond)
                    taken += len(beyond)
                    beyond = b"" if unpacking.eof else file.read(_READ)
            except zstandard.ZstdError as error:
                return Missing(path, "damaged", size - at, str(error))
            if not unpacking.eof:
                return _torn(path, at, size)
            rest = unpacking.unused_data
            at += taken - len(rest)
    return Missing(path, "torn", size - at)


def _torn(path: Path, at: int, size: int) -> Missing:
    with path.open("rb") as file:
        file.seek(at + 1)
        held = b""
        while more := file.read(_READ):
            held = held[-len(MAGIC) :] + more
            if MAGIC in held:
                return Missing(path, "damaged", size - at, "a piece of it does not end")
    return Missing(path, "torn", size - at)
