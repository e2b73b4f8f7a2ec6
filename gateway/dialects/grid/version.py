"""Versions of the project's library, as texts and as what can be compared."""

from __future__ import annotations

import re

_NUMBERS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,7}")


def parts(text: str) -> tuple[int, ...]:
    """The numbers that a version begins with, without zeros at their end; "1.4.0-rc1" is (1, 4).

    Raises ValueError for a text that begins with none.
    """
    found = _NUMBERS.match(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is no version such as 1.0.0")
    numbers = [int(part) for part in found[0].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
