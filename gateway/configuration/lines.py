"""Where in a TOML document everything is.  tomllib reads it; this only finds lines, of what tomllib has accepted.

Source: https://toml.io/en/v1.0.0
"""

from __future__ import annotations

import re
import tomllib

Place = tuple[str | int, ...]
"""Keys from the outside in; numbers, from 0, are places in an array."""

_BLANKS = re.compile(r"[ \t]*")
_BETWEEN = re.compile(r"(?:[\s,]|#[^\n]*)*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'""")
_LEAF = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}'  # two quotes may stand before the three that end it
    r"|'''(?:[^']|'{1,2}(?!'))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|[^,\]}#\n]+",
    re.DOTALL,
)


def find_lines(text: str) -> dict[Place, int]:
    """The line, from 1, of each table, key and element of an array.  text: what tomllib has accepted."""
    return _Scan(text).document()


class _Scan:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line, self._counted = 1, 0
        self._lines: dict[Place, int] = {}
        self._sizes: dict[Place, int] = {}

    def document(self) -> dict[Place, int]:
        table: Place = ()
        while self._next():
            if self._taken("[["):
                table = self._element()
                self._taken("]]")
            elif self._taken("["):
                table = self._table()
                self._taken("]")
            else:
                self._pair(table)
        return self._lines

    def _next(self) -> str:
        """What comes after blanks, line ends, commas and comments; "" = nothing does."""
        self._at = _found(_BETWEEN, self._text, self._at)
        return self._text[self._at : self._at + 1]

    def _taken(self, text: str) -> bool:
        self._at = _found(_BLANKS, self._text, self._at)
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _note(self, place: Place) -> None:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        self._lines.setdefault(place, self._line)

    def _key(self, table: Place) -> Place:
        """`a."b".c`, noting every part of it."""
        place, more = table, True
        while more:
            self._at = _found(_BLANKS, self._text, self._at)
            end = _found(_KEY, self._text, self._at)
            place = (*self._last(place), _name(self._text[self._at : end]))
            self._note(place)
            self._at = end
            more = self._taken(".")
        return place

    def _last(self, place: Place) -> Place:
        """Of an array of tables the one that keys belong to."""
        return (*place, self._sizes[place] - 1) if place in self._sizes else place

    def _table(self) -> Place:
        return self._last(self._key(()))

    def _element(self) -> Place:
        array = self._key(())
        self._sizes[array] = self._sizes.get(array, 0) + 1
        self._note(self._last(array))
        return self._last(array)

    def _pair(self, table: Place) -> None:
        place = self._key(table)
        self._taken("=")
        self._value(place)

    def _value(self, place: Place) -> None:
        if self._taken("["):
            self._array(place)
        elif self._taken("{"):
            while self._next() != "}":
                self._pair(place)
            self._at += 1
        else:
            self._at = _found(_LEAF, self._text, self._at)

    def _array(self, place: Place) -> None:
        size = 0
        while self._next() != "]":
            self._note((*place, size))
            self._value((*place, size))
            size += 1
        self._at += 1


def _found(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    if found is None:
        raise ValueError(f"no TOML at {at}")
    return found.end()


def _name(written: str) -> str:
    if written[:1] in "\"'":
        (name,) = tomllib.loads(f"{written} = 0")
        return name
    return written
