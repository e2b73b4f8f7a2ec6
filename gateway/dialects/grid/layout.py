"""Frames of the grid <-> their fields.  Big-endian throughout.  Source: protocol page, section 1.

0  u8   magic            11  u16  length of the key
1  u8   opcode           13  u8   status, 0 in requests
2  u32  correlation id   14  u8   length of the name
6  u32  length of body   15  u8   version
10 u8   flags            16       body: name, sender id with its length if there is the flag, key, value
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import msgspec

from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.dialect import Tag
from gateway.dialects.frames import Measure
from gateway.dialects.grid import packing
from gateway.dialects.grid.terms import HEAD, GridTerms

_head = struct.Struct(">BBIIBHBBB")
_outline = struct.Struct(">6xI5xB")  # length of body, version
_u32 = struct.Struct(">I")

MAX_KEY = 0xFFFF
MAX_NAME = 0xFF
MAX_TAG = 0xFFFFFFFF

Head = tuple[int, int, int, int, int, int, int, int, int]
"""The header, field by field."""


class Frame(msgspec.Struct, frozen=True, gc=False):
    """What a frame says.

    sender: the sender id, None = without the flag.
    """

    opcode: int
    tag: int
    version: int
    status: int = 0
    name: bytes = b""
    sender: bytes | None = None
    key: bytes = b""
    value: bytes = b""


def measure(held: bytes | bytearray, start: int, scanned: int) -> int:
    """Bytes of the frame at `start`, by its header.  For requests and answers; whether it is a frame, nobody asks."""
    if len(held) - start < HEAD:
        return 0
    size: int = _u32.unpack_from(held, start + 6)[0]
    return HEAD + size


def measure_strictly(terms: GridTerms) -> Measure:
    """The same for a server, which takes what begins like no frame as one, for decode_request to say so.

    Of a frame that is too long the header is taken alone, so that it can be answered with its correlation id.
    """
    magic, versions, most = terms.magic, terms.versions, terms.limit

    def measure(held: bytes | bytearray, start: int, scanned: int) -> int:
        left = len(held) - start
        if held[start] != magic:
            return min(left, HEAD + most)
        if left < HEAD:
            return 0
        body, version = _outline.unpack_from(held, start)
        return HEAD if body > most or version not in versions else HEAD + body

    return measure


def tag_of(frame: bytes) -> int:
    """The correlation id."""
    tag: int = _u32.unpack_from(frame, 2)[0]
    return tag


read_head: Callable[[bytes], Head] = _head.unpack_from
"""The header.  Raises struct.error for fewer than its 16 bytes."""


def cut(head: Head, frame: bytes, terms: GridTerms) -> Frame:
    """A frame with the fields of its body, as it was before it was compressed.

    Raises CommandFailed: MALFORMED if it is shorter than they are, and what unpacking raises: UNSUPPORTED, TOO_LARGE,
    BUSY, MALFORMED.
    """
    _, opcode, tag, _, flags, key_length, status, name_length, version = head
    name_end = HEAD + name_length
    key_end = name_end + key_length
    if flags & terms.telling or key_end > len(frame):
        return _cut_step_by_step(head, packing.unpacked(flags, frame[HEAD:], terms), terms)
    return Frame(opcode, tag, version, status, frame[HEAD:name_end], None, frame[name_end:key_end], frame[key_end:])


def _cut_step_by_step(head: Head, body: bytes, terms: GridTerms) -> Frame:
    _, opcode, tag, _, flags, key_length, status, name_length, version = head
    name, at = _cut(body, 0, name_length)
    sender = None
    if flags & terms.flags["HAS_SENDER_ID"]:
        width = terms.grid.sender_len_width
        length, at = _cut(body, at, width)
        sender, at = _cut(body, at, int.from_bytes(length, "big"))
    key, at = _cut(body, at, key_length)
    return Frame(opcode, tag, version, status, name, sender, key, body[at:])


def _cut(body: bytes, start: int, length: int) -> tuple[bytes, int]:
    end = start + length
    if end > len(body):
        raise CommandFailed(Fault.MALFORMED, f"a body of {len(body)} bytes ends within a field that needs {end}")
    return body[start:end], end


def write(frame: Frame, terms: GridTerms, *, plain: bool = False, bounded: bool = True) -> bytes:
    """The bytes of a frame; compressed if that was agreed and pays, unless `plain`.

    Raises CommandFailed: UNREPRESENTABLE for a field that is too long, TOO_LARGE for a body beyond the limit if
    `bounded`.
    """
    flags, sender = 0, b""
    if frame.sender is not None:
        flags, sender = terms.flags["HAS_SENDER_ID"], _with_length(frame.sender, terms.grid.sender_len_width)
    for length, most in ((len(frame.name), MAX_NAME), (len(frame.key), MAX_KEY)):
        if length > most:
            raise CommandFailed(Fault.UNREPRESENTABLE, f"{length} bytes of a name or key, {most} is the most")
    body = b"".join((frame.name, sender, frame.key, frame.value))
    if bounded and len(body) > terms.limit:
        raise CommandFailed(Fault.TOO_LARGE, f"a body of {len(body)} bytes, {terms.limit} is the limit")
    if not plain and terms.agreed:
        packed, body = packing.packed(body, terms)
        flags |= packed
    lengths = len(body), flags, len(frame.key), frame.status, len(frame.name)
    return _head.pack(terms.magic, frame.opcode, frame.tag, *lengths, frame.version) + body


def write_plain(tag: Tag, version: int, status: int, value: bytes, terms: GridTerms) -> bytes:
    """The same of a RESPONSE_OK that is within the limit and not compressed.

    Raises CommandFailed(UNREPRESENTABLE) for another tag than a correlation id.
    """
    try:
        return _head.pack(terms.magic, terms.ok, tag or 0, len(value), 0, 0, status, 0, version) + value
    except struct.error as error:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"the correlation id {tag!r}") from error


def _with_length(sender: bytes, width: int) -> bytes:
    if len(sender) >> 8 * width:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"a sender id of {len(sender)} bytes")
    return len(sender).to_bytes(width, "big") + sender
