"""Compressed bodies, once a hello has agreed on them: LZ4 (frame format) and Zstandard, in an integrity envelope.

The envelope is `u32 length · u32 CRC32C · compressed`, both of what was compressed.  We always write it; a body that is
flagged as compressed and not as having one is taken as it is.  Source: protocol page, section 3; what the two
algorithms are in detail is ours.
"""

from __future__ import annotations

import struct

import google_crc32c

from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.grid.terms import GridTerms

_envelope = struct.Struct(">II")

FLAG_OF = {"lz4": "COMPRESSED_LZ4", "zstd": "COMPRESSED_ZSTD"}
"""Algorithm -> the flag that marks it."""


def packed(body: bytes, terms: GridTerms) -> tuple[int, bytes]:
    """Flags, and the body that goes with them: as it is if it is short or compressing it gains nothing."""
    if len(body) < terms.grid.compress_above:
        return 0, body
    name, compressor = next(iter(terms.agreed.items()))
    smaller = _envelope.pack(len(body), google_crc32c.value(body)) + compressor.compress(body)
    if len(smaller) >= len(body):
        return 0, body
    return terms.flags[FLAG_OF[name]] | terms.flags["COMPRESSION_INTEGRITY"], smaller


def unpacked(flags: int, body: bytes, terms: GridTerms) -> bytes:
    """The body that was compressed.

    Raises CommandFailed: UNSUPPORTED for what was not agreed on, TOO_LARGE and BUSY before anything is decompressed
    that would be too much, MALFORMED for anything that is not whole.
    """
    named = [name for name, flag in FLAG_OF.items() if flags & terms.flags[flag]]
    if not named:
        return body
    if not terms.agreed.keys() >= set(named):
        raise CommandFailed(Fault.UNSUPPORTED, f"a body in {' and '.join(named)}, which no hello has agreed on")
    if len(named) > 1:
        raise CommandFailed(Fault.MALFORMED, f"a body in {' and '.join(named)} at once")
    inside = _checked if flags & terms.flags["COMPRESSION_INTEGRITY"] else _bare
    found = inside(named[0], body, terms)
    if terms.room is not None:
        terms.room -= len(found)
    return found


def _checked(name: str, body: bytes, terms: GridTerms) -> bytes:
    if len(body) < _envelope.size:
        raise CommandFailed(Fault.MALFORMED, "a compressed body without its envelope")
    length, checksum = _envelope.unpack_from(body)
    if length > _bound(length, terms):
        raise _no_room()
    try:
        found = terms.agreed[name].decompress(body[_envelope.size :], length)
    except CommandFailed as failure:
        raise CommandFailed(Fault.MALFORMED, failure.detail) from failure
    if len(found) != length:
        raise CommandFailed(Fault.MALFORMED, f"{len(found)} bytes when decompressed, {length} announced")
    if google_crc32c.value(found) != checksum:
        raise CommandFailed(Fault.MALFORMED, "the checksum of a compressed body is wrong")
    return found


def _bare(name: str, body: bytes, terms: GridTerms) -> bytes:
    bound = _bound(0, terms)
    try:
        return terms.agreed[name].decompress(body, bound)
    except CommandFailed as failure:
        if failure.fault is Fault.TOO_LARGE and bound < terms.limit:
            raise _no_room() from failure
        raise


def _bound(announced: int, terms: GridTerms) -> int:
    """How much may come out now.  Raises CommandFailed(TOO_LARGE) for more than could ever."""
    if announced > terms.limit:
        raise CommandFailed(Fault.TOO_LARGE, f"{announced} bytes when decompressed, {terms.limit} is the limit")
    return terms.limit if terms.room is None else max(0, terms.room)


def _no_room() -> CommandFailed:
    return CommandFailed(Fault.BUSY, "too much to decompress at once; retry")
