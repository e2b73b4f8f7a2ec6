"""Zstandard, RFC 8878: one frame."""

from __future__ import annotations

import zstandard

from gateway.compression import Compressor, broken, too_large

MAX_WINDOW = 1 << 27
"""Bytes of history a frame may ask us to keep (128 MiB, zstd's own default for decoders)."""


def compress(body: bytes) -> bytes:
    """One frame that says its size."""
    return zstandard.ZstdCompressor().compress(body)


def decompress(data: bytes, limit: int) -> bytes:
    """See Compressor.  A frame that says its size is held to it; one that does not is read up to the limit first."""
    inflate = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
    try:
        size = zstandard.get_frame_parameters(data).content_size
        if size == zstandard.CONTENTSIZE_UNKNOWN:
            size = len(inflate.stream_reader(data).read(limit + 1))
        if size > limit:
            raise too_large(limit)
        return inflate.decompress(data, max_output_size=max(size, 1), allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise broken("zstd", error) from error


COMPRESSOR = Compressor(name="zstd", magic=b"\x28\xb5\x2f\xfd", compress=compress, decompress=decompress)
