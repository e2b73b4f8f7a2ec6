"""LZ4 frame format, version 1.6: one frame."""

from __future__ import annotations

import lz4.frame

from gateway.compression import Compressor, broken, too_large


def compress(body: bytes) -> bytes:
    """One frame."""
    return bytes(lz4.frame.compress(body))


def decompress(data: bytes, limit: int) -> bytes:
    """See Compressor."""
    inflate = lz4.frame.LZ4FrameDecompressor()
    try:
        body = bytes(inflate.decompress(data, max_length=limit + 1))
    except RuntimeError as error:
        raise broken("lz4", error) from error
    if len(body) > limit:
        raise too_large(limit)
    if not inflate.eof or inflate.unused_data:
        raise broken("lz4")
    return body


COMPRESSOR = Compressor(name="lz4", magic=b"\x04\x22\x4d\x18", compress=compress, decompress=decompress)
