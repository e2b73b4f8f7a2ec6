"""What mlog carries of a record: its value."""

from __future__ import annotations

from gateway.dialects.fidelity import DROPPED, GIVEN, KEPT, UNSAID, Fate, Fidelity, fates

FIDELITY = Fidelity(
    writing=fates(UNSAID, value=KEPT, timestamp=GIVEN, partition=Fate("given", "the first"), offset=GIVEN),
    reading=fates(
        DROPPED,
        value=KEPT,
        tombstone=Fate("changed", "an empty value"),
        partition=Fate("partly", "records of the first only, others are never seen"),
    ),
    by=("Produce, ProduceBatch", "Fetch, FetchBatch, ReplicateStream"),
)

LOST = FIDELITY.readers("mlog")
"""In either direction: what a producer cannot say is what a reader does not see."""
