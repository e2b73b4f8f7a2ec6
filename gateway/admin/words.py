r"""What was typed: a line cut into words, and what a word names.

Words are parted by spaces; quotes keep spaces in them.  `\x1b` is a byte, `\u202e` a character, and any other character
behind a `\` is itself: all that shown.py writes can be typed back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gateway.core.commands import DEFAULT_NAMESPACE, Topic

_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_SLASH = re.compile(r"((?:\\.|[^\\/])*)/(.*)", re.DOTALL)


class Wrong(Exception):
    """What was typed cannot be: a sentence for who typed it."""


def split(line: str) -> list[str]:
    r"""The words of a line, with their `\` still in them.  Raises Wrong for a quote or a `\` that nothing follows."""
    words: list[str] = []
    begun: list[str] | None = None
    quoted = False
    at = iter(line)
    for ch in at:
        if ch == " " and not quoted:
            words += [] if begun is None else ["".join(begun)]
            begun = None
            continue
        begun = begun or []
        if ch == '"':
            quoted = not quoted
        elif ch == "\\":
            begun += (ch, _after(at))
        else:
            begun.append(ch)
    if quoted:
        raise Wrong('a " has no second one')
    return words if begun is None else [*words, "".join(begun)]


def octets(word: str) -> bytes:
    """The bytes that a word means.  Raises Wrong."""
    parts: list[bytes] = []
    end = 0
    for found in _ESCAPE.finditer(word):
        parts += _utf8(word[end : found.start()]), _meant(found)
        end = found.end()
    return b"".join([*parts, _utf8(word[end:])])


def name(word: str) -> str:
    """The text that a word means.  Raises Wrong."""
    try:
        return octets(word).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise Wrong("a name is text, and those bytes are no UTF-8") from error


def topic(word: str) -> Topic:
    """`NAME` in the default namespace, or `NAMESPACE/NAME`.  Raises Wrong."""
    apart = _SLASH.fullmatch(word)
    return Topic(DEFAULT_NAMESPACE, name(word)) if apart is None else Topic(name(apart[1]), name(apart[2]))


def number(word: str, what: str) -> int:
    """A whole number from 0.  Raises Wrong."""
    if not (word.isascii() and word.isdigit() and len(word) <= 19):
        raise Wrong(f"{what} is a whole number, not {word}")
    return int(word)


def _after(rest: Iterator[str]) -> str:
    ch = next(rest, None)
    if ch is None:
        raise Wrong("nothing follows the last \\")
    return ch


def _meant(found: re.Match[str]) -> bytes:
    octet, short, long, itself = found.groups()
    if octet is not None:
        return bytes.fromhex(octet)
    if itself is not None:
        return _utf8(itself)
    number = int(short or long, 16)
    if number > 0x10FFFF:
        raise Wrong(f"{found[0]} is no character")
    return _utf8(chr(number))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
