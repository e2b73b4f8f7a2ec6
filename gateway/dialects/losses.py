"""What was lost on the way from one dialect to another, counted."""

from __future__ import annotations

from collections import Counter

Losses = Counter[tuple[str, str, str]]
"""(from dialect, to dialect, field) -> in how many records the field was changed or dropped on the way.  Fields are
those of fidelity.FIELDS, and `type` for the type tags of the grid."""

UNKNOWN = "?"
"""The dialect of who did not say."""

MOST = 1000
"""Places counted apart.  Who says where a record is from is a client of the native dialect, and it may say anything."""


def lose(losses: Losses, origin: str, to: str, field: str, times: int = 1) -> None:
    """Count records whose field was changed or dropped.  origin: the dialect that wrote them, "" = not known."""
    place = (origin or UNKNOWN, to, field)
    if len(losses) >= MOST and place not in losses:
        place = (UNKNOWN, to, field)
    losses[place] += times
