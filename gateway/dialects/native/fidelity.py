"""What the native dialect carries of a record: all of it."""

from __future__ import annotations

from gateway.dialects.fidelity import GIVEN, KEPT, Fidelity, fates

FIDELITY = Fidelity(
    writing=fates(KEPT, offset=GIVEN),
    reading=fates(KEPT),
    by=("Publish", "Fetch, Follow"),
    notes=("`MapPut`, `MapRemove` and `MapAdd` write key, value, tombstone and expiry.",),
)
