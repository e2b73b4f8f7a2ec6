"""Record values in a CONSUME answer, where LF ends the line and a comma ends the value.

The project's own producers cannot send LF or CR, so only records of other dialects hold them.  Commas they can send,
and then no reader can tell where the value ends (the SDKs split at each): `replace` leaves them, as Flux does.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gateway.core.faults import CommandFailed, Fault

_UNSAFE = re.compile(rb"[\n\r,]")
_ESCAPED = re.compile(rb"[\\\n\r,]")
_ESCAPE = {b"\\": rb"\\", b"\n": rb"\n", b"\r": rb"\r", b",": rb"\x2c"}  # no bare comma: the SDKs split before all else
_ESCAPES = re.compile(rb"\\(?:\\|n|r|x2c)")
_PLAIN = {escape: byte for byte, escape in _ESCAPE.items()}


def _replace(value: bytes) -> bytes:
    """LF and CR become a space each."""
    return value.replace(b"\n", b" ").replace(b"\r", b" ")


def _reject(value: bytes) -> bytes:
    """LF, CR or a comma: the answer is an error, and the reader has to ask past that record."""
    if _UNSAFE.search(value):
        raise CommandFailed(Fault.UNREPRESENTABLE, "a value holds LF, CR or a comma")
    return value


def _escape(value: bytes) -> bytes:
    r"""Backslash, LF, CR and comma become \\ \n \r \x2c."""
    return _ESCAPED.sub(lambda found: _ESCAPE[found[0]], value)


SHOW: dict[str, Callable[[bytes], bytes]] = {"replace": _replace, "reject": _reject, "escape": _escape}
"""Policy -> how a value is written."""


def unescape(value: bytes) -> bytes:
    """What `escape` was given; a backslash that begins no escape of ours stands for itself."""
    return _ESCAPES.sub(lambda found: _PLAIN[found[0]], value)
