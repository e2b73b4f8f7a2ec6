"""Snappy in the framing of the xerial Java library: magic, two version numbers, then blocks of u32be length + snappy.

Source: SnappyOutputStream of snappy-java; the blocks are the raw format of google/snappy's format_description.txt.
"""

from __future__ import annotations

import struct

import cramjam

from gateway.compression import Compressor, broken, too_large

_MAGIC = b"\x82SNAPPY\x00"
_VERSIONS = struct.Struct(">II")
_LENGTH = struct.Struct(">I")
_BLOCK = 32 << 10
"""Bytes of a body in one block, as the Java library cuts them."""


def compress(body: bytes) -> bytes:
    """Version 1, compatible with version 1."""
    blocks = [bytes(cramjam.snappy.compress_raw(body[at : at + _BLOCK])) for at in range(0, len(body), _BLOCK)]
    return _MAGIC + _VERSIONS.pack(1, 1) + b"".join(_LENGTH.pack(len(block)) + block for block in blocks)


def decompress(data: bytes, limit: int) -> bytes:
    """See Compressor.  Each block says its size, which is looked at before any of it is made."""
    at, out, left = len(_MAGIC) + _VERSIONS.size, [], limit
    if len(data) < at:
        raise broken("snappy")
    try:
        while at < len(data):
            (length,) = _LENGTH.unpack_from(data, at)
            block = data[at + 4 : at + 4 + length]
            left -= cramjam.snappy.decompress_raw_len(block)
            if left < 0:
                raise too_large(limit)
            if len(block) != length:
                raise broken("snappy")
            out.append(bytes(cramjam.snappy.decompress_raw(block)))
            at += 4 + length
    except (struct.error, cramjam.DecompressionError) as error:
        raise broken("snappy", error) from error
    return b"".join(out)


COMPRESSOR = Compressor(name="snappy", magic=_MAGIC, compress=compress, decompress=decompress)
