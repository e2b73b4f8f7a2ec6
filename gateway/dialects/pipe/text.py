"""Text as the Go server takes it: what is white space, what is a number.  On bytes, since bytes pass untouched."""

from __future__ import annotations

import re

MAX_INT = (1 << 63) - 1

# unicode.IsSpace of Go, in UTF-8.  Right for bytes that are no UTF-8 as well: each sequence begins with a byte that can
# only begin one, which is where Go, too, starts again after a bad one.
_SPACES = re.compile(
    rb"(?:[\t-\r ]|\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80)+"
)


def trim(text: bytes) -> bytes:
    """Without the white space around it: strings.TrimSpace."""
    if text.isascii():
        return text.strip()
    start, end = 0, len(text)
    for run in _SPACES.finditer(text):  # one pass; a search for spaces before the end would be quadratic
        if run.start() == 0:
            start = run.end()
        if run.end() == len(text):
            end = run.start()
    return text[start:end]


def words(text: bytes) -> list[bytes]:
    """What white space separates: strings.Fields."""
    return text.split() if text.isascii() else [word for word in _SPACES.split(text) if word]


def integer(text: bytes) -> int | None:
    """A decimal 64-bit number with or without a sign, None if it is none: strconv.Atoi."""
    digits = text[1:] if text[:1] in (b"+", b"-") else text
    if not digits.isdigit():
        return None
    if len(digits) > 18:
        digits = digits.lstrip(b"0") or b"0"
        if len(digits) > 19:
            return None
    value = -int(digits) if text[:1] == b"-" else int(digits)
    return value if -MAX_INT - 1 <= value <= MAX_INT else None
