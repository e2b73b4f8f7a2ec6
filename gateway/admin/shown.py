"""What others chose, made harmless for a terminal; and numbers, times and sizes as people read them.

Two ways to write a text: `harmless` keeps all that a terminal only prints, `word` besides can be typed back (words.py).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum

from rich.cells import cell_len, set_cell_size

from gateway.core.commands import DEFAULT_NAMESPACE

NOTHING = "-"
"""Where there is no value."""

ELLIPSIS = "…"

LONGEST = 4096
"""Characters of one value that are shown; JSON has all of it."""

_PLAIN = re.compile(r"[ -~]*").fullmatch


def harmless(text: str) -> str:
    r"""Nothing in it does anything to a terminal: controls (C0, DEL, C1), marks that turn the direction of writing or
    have no width, and unpaired surrogates are written `\x1b`, `\u202e`.  Line ends, too.
    """
    return text if _PLAIN(text) else "".join(map(_harmless, text))


def word(text: str) -> str:
    r"""A name as it can be typed: harmless, `\` and `"` with a `\` before them, in quotes if it has spaces."""
    return _quoted(_escaped(text))


def octets(value: bytes) -> str:
    r"""Bytes as text, where they are UTF-8; what is not is written `\xff`."""
    return brief(_escaped(value[: LONGEST + 1].decode("utf-8", "surrogateescape")), len(value))


def topic_name(namespace: int | str, name: int | str) -> str:
    """`NAME`, or `NAMESPACE/NAME` where that is not the default one or the name alone would be read so."""
    if namespace == DEFAULT_NAMESPACE and "/" not in str(name):
        return word(str(name))
    return _quoted(f"{_escaped(str(namespace), '/')}/{_escaped(str(name))}")


def cut(text: str, width: int) -> str:
    """No wider than that many cells of a terminal."""
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)).rstrip() + ELLIPSIS[:width]


def brief(text: str, whole: int = 0) -> str:
    """Not more than LONGEST characters; then it says how many there are.  whole: of what the text is the beginning."""
    whole = max(whole, len(text))
    return text if max(whole, len(text)) <= LONGEST else f"{text[:LONGEST]}{ELLIPSIS} ({whole:,} in all)"


def text(value: object) -> str:
    """Any value of a table: words for what is no text."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, bytes):
        return octets(value)
    if isinstance(value, list | tuple):
        return ", ".join(map(text, value)) or NOTHING
    if isinstance(value, Mapping):
        return ", ".join(f"{text(key)}={text(each)}" for key, each in value.items()) or NOTHING
    return brief(harmless(value.name if isinstance(value, Enum) else str(value)))


def count(value: object) -> str:
    """`12,345`."""
    return f"{value:,}" if isinstance(value, int | float) else text(value)


def size(value: object) -> str:
    """Bytes: `1.5 MiB`."""
    if not isinstance(value, int | float):
        return text(value)
    if value < 1024:
        return f"{value} B"
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:,.1f} TiB"


def span(value: object) -> str:
    """Seconds: `350 us`, `2.1 ms`, `8.0 s`, `5 min`, `3 h 10 min`, `12 d 4 h`."""
    if not isinstance(value, int | float):
        return text(value)
    if value < 1:
        return f"{value * 1e6:.0f} us" if value < 0.001 else f"{value * 1e3:.1f} ms"
    if value < 60:
        return f"{value:.1f} s"
    minutes = int(value) // 60
    hours, days = minutes // 60, minutes // 1440
    if days:
        return f"{days} d {hours % 24} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"


def when(value: object) -> str:
    """us since the epoch, in UTC: `2026-03-01 12:00:01.250`.  The number itself where the calendar ends."""
    if not isinstance(value, int):
        return text(value)
    try:
        return datetime.fromtimestamp(value / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        return str(value)


def encoded(value: object) -> str:
    """JSON on one line, in ASCII, with nothing in it that a terminal obeys.

    Bytes are text, or `{"base64": ...}` where they are no UTF-8; an enum is its name.
    """
    return json.dumps(value, default=_known)


def _known(value: object) -> object:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    return value.name if isinstance(value, Enum) else str(value)


def _harmless(ch: str) -> str:
    if ch.isprintable():
        return ch
    number = ord(ch)
    if number < 0x80:
        return f"\\x{number:02x}"
    if 0xDC80 <= number <= 0xDCFF:  # a byte that was no UTF-8 (PEP 383)
        return f"\\x{number - 0xDC00:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _escaped(text: str, special: str = "") -> str:
    """special: characters that mean something where it stands, written by their number."""
    return "".join(f"\\x{ord(ch):02x}" if ch in special else f"\\{ch}" if ch in '\\"' else _harmless(ch) for ch in text)


def _quoted(escaped: str) -> str:
    return f'"{escaped}"' if " " in escaped or not escaped else escaped
