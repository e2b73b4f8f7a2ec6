"""gzip, RFC 1952: one member."""

from __future__ import annotations

import zlib

from gateway.compression import Compressor, broken, too_large

_GZIP = 16 + zlib.MAX_WBITS
"""wbits that make zlib read and write the gzip header and trailer."""


def compress(body: bytes) -> bytes:
    """One gzip member, the same bytes for the same body."""
    deflate = zlib.compressobj(wbits=_GZIP)
    return deflate.compress(body) + deflate.flush()


def decompress(data: bytes, limit: int) -> bytes:
    """See Compressor.  Bytes after the member are not a whole body."""
    inflate = zlib.decompressobj(wbits=_GZIP)
    try:
        body = inflate.decompress(data, limit + 1)
    except zlib.error as error:
        raise broken("gzip", error) from error
    if len(body) > limit:
        raise too_large(limit)
    if not inflate.eof or inflate.unused_data:
        raise broken("gzip")
    return body


COMPRESSOR = Compressor(name="gzip", magic=b"\x1f\x8b", compress=compress, decompress=decompress)
