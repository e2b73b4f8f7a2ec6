"""The replication batch: 25 bytes that say what follows, then records.

i64 base offset, i32 bytes of the records, i32 leader epoch, u32 CRC-32 (IEEE) of the records, u8 attributes, i32 last
offset less the base; and of each record i64 offset, i32 size, value.  Big-endian.  Source: protocol page, section 3.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from gateway.core.commands import MAX_OFFSET
from gateway.core.faults import CommandFailed, Fault

Row = tuple[int, bytes]
"""(offset, value)"""

_head = struct.Struct(">qiiIBi")
_record = struct.Struct(">qi")

HEAD = _head.size
RECORD = _record.size
"""Bytes before a value."""

_MAX_DELTA = (1 << 31) - 1


def encode(rows: Sequence[Row]) -> bytes | None:
    """Records as one batch, None if there are none.  Offsets rise, and by less than 2^31 in all.

    Raises CommandFailed(UNREPRESENTABLE).
    """
    if not rows:
        return None
    first, last = rows[0][0], rows[-1][0]
    if not 0 <= last - first <= _MAX_DELTA or last > MAX_OFFSET:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"offsets {first} to {last} in one replication batch")
    records = b"".join([part for offset, value in rows for part in (_record.pack(offset, len(value)), value)])
    return _head.pack(first, len(records), 0, zlib.crc32(records), 0, last - first) + records


def decode(batch: bytes) -> list[Row]:
    """The records of a batch.  One whose size is negative or too long ends the list, as it does in the project.

    Raises CommandFailed(MALFORMED) for a length or a checksum that does not fit.
    """
    if len(batch) < HEAD:
        raise CommandFailed(Fault.MALFORMED, f"a replication batch of {len(batch)} bytes")
    _, length, _, crc, _, _ = _head.unpack_from(batch)
    if length != len(batch) - HEAD:
        raise CommandFailed(Fault.MALFORMED, f"a replication batch of {len(batch) - HEAD} bytes says {length}")
    if zlib.crc32(memoryview(batch)[HEAD:]) != crc:
        raise CommandFailed(Fault.MALFORMED, "the checksum of a replication batch does not fit")
    return _rows(batch)


def _rows(batch: bytes) -> list[Row]:
    rows: list[Row] = []
    at = HEAD
    while len(batch) - at >= RECORD:
        offset, size = _record.unpack_from(batch, at)
        at += RECORD
        if not 0 <= size <= len(batch) - at:
            break
        rows.append((offset, batch[at : at + size]))
        at += size
    return rows
