"""Compressed frames: clients compress the body of a batch whole, before it is framed, and nothing marks it.

So it is told by its first bytes, which no text command and no batch begins with.  An algorithm whose output has no
such bytes is tried only where a listener names it, and only on what is nothing else.  Source: protocol page, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from gateway import compression
from gateway.compression import Compressor
from gateway.core.faults import CommandFailed
from gateway.dialects.cursus.text import quoted, refused


class Unpacking(msgspec.Struct, frozen=True):
    """How the frames of a listener may be compressed.

    known:  magic -> algorithm.
    magics: all of them.
    named:  the algorithm without magic that the listener names, None = none.
    """

    known: Mapping[bytes, Compressor]
    magics: tuple[bytes, ...]
    named: Compressor | None = None


def unpacking(name: str) -> Unpacking:
    """For a listener that names this algorithm, "" = none.  Raises ValueError with a sentence."""
    return _unpacking(name, tuple(compression.__path__))


@lru_cache
def _unpacking(name: str, places: tuple[str, ...]) -> Unpacking:
    """places: where algorithms are looked for; a plugin folder may have been added since the last time."""
    every = [compression.load(known) for known in compression.names()]
    known = {compressor.magic: compressor for compressor in every if compressor.magic}
    if not name:
        return Unpacking(known, tuple(known))
    if name not in compression.names():
        raise ValueError(f"there is no compression {name!r}; there are {', '.join(compression.names())}")
    named = compression.load(name)
    return Unpacking(known, tuple(known), None if named.magic else named)


def by_magic(unpacking: Unpacking, payload: bytes) -> Compressor:
    """The algorithm of a payload that begins with one of the magics."""
    return next(compressor for magic, compressor in unpacking.known.items() if payload.startswith(magic))


def unpacked(compressor: Compressor, payload: bytes, limit: int) -> bytes:
    """What was compressed, at most `limit` bytes.  Raises CommandFailed with the words to say."""
    try:
        return compressor.decompress(payload, limit)
    except CommandFailed as failure:
        raise refused(f"decode_failed reason={quoted(failure.detail)}", failure.fault) from failure
