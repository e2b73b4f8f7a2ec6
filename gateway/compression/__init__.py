"""Compressed bodies: one module an algorithm, each exporting COMPRESSOR; a file in DIR/compression of a plugin folder
adds one.

What comes out is bounded: a peer's kilobyte that stands for a gigabyte is refused at the limit, before it is there.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

import msgspec

from gateway.core.faults import CommandFailed, Fault


class Compressor(msgspec.Struct, frozen=True, kw_only=True):
    """One algorithm.

    magic:      the bytes its output begins with, b"" = none: it is used only where a listener names it.
    compress:   any bytes.
    decompress: what `compress` gave, and the most bytes that may come out.  Raises CommandFailed: TOO_LARGE when more
                would, MALFORMED for anything that is not whole.
    """

    name: str
    magic: bytes
    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes, int], bytes]


def names() -> list[str]:
    """Every algorithm there is, in alphabetical order."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> Compressor:
    """The algorithm of that name.  Raises KeyError if there is none."""
    if name not in names():
        raise KeyError(name)
    compressor = importlib.import_module(f"{__name__}.{name}").COMPRESSOR
    assert isinstance(compressor, Compressor), f"gateway/compression/{name}.py exports no COMPRESSOR"
    return compressor


def too_large(limit: int) -> CommandFailed:
    """What `decompress` raises when more than `limit` bytes would come out."""
    return CommandFailed(Fault.TOO_LARGE, f"more than {limit} bytes when decompressed")


def broken(name: str, why: object = "it ends early") -> CommandFailed:
    """What `decompress` raises for bytes that are not what the algorithm writes."""
    return CommandFailed(Fault.MALFORMED, f"not a whole {name} body: {why}")
