"""What Cursus carries of a record."""

from __future__ import annotations

from gateway.dialects.fidelity import DROPPED, GIVEN, KEPT, UNSAID, Fate, Fidelity, fates

_ALIKE = {
    **dict.fromkeys(("value", "producer", "epoch", "sequence", "schema_version", "aggregate_version"), KEPT),
    **dict.fromkeys(("key", "event_type", "metadata"), Fate("kept", "up to 65,535 bytes")),
}

FIDELITY = Fidelity(
    writing=fates(UNSAID, **_ALIKE, timestamp=GIVEN, offset=GIVEN),
    reading=fates(DROPPED, **_ALIKE, tombstone=Fate("changed", "an empty value")),
    by=("a batch", "CONSUME, STREAM"),
    notes=(
        "A text `PUBLISH` writes value, key, producer, epoch and sequence; blanks around the value are taken off.",
        "`LIST` and `LIST_GROUPS` leave out names with blanks, commas or `message=` in them, under any policy: "
        "changed, they would be the names of something else. In other text answers `policy` says what becomes of "
        "blanks.",
    ),
)

LOST = FIDELITY.readers("cursus")
"""In either direction: what a producer cannot say is what a reader does not see."""
