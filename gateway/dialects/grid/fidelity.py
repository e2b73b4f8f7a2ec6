"""What the grid carries of a record."""

from __future__ import annotations

from gateway.dialects.fidelity import DROPPED, GIVEN, KEPT, UNSAID, Fate, Fidelity, fates

FIDELITY = Fidelity(
    writing=fates(
        UNSAID,
        value=KEPT,
        key=Fate("kept", "up to 65,535 bytes"),
        timestamp=GIVEN,
        partition=Fate("given", "the first"),
        offset=GIVEN,
    ),
    reading=fates(
        DROPPED,
        value=KEPT,
        tombstone=Fate("changed", "an empty value"),
        partition=Fate("partly", "records of the first only, others are never seen"),
        offset=Fate("kept", "as the sequence to go on from"),
    ),
    by=("TOPIC_PUBLISH, QUEUE_OFFER", "TOPIC_POLL, TOPIC_MESSAGE"),
    notes=(
        "Who takes from a queue sees values only, without an offset.",
        "Maps, sets, counters and locks show a key and the newest value of it, of all partitions, and nothing else of "
        "a record. Writing to them sets key and value, `MAP_PUT_WITH_TTL` the expiry too; removing writes a tombstone; "
        "a counter is decimal ASCII.",
        'With `value_codec = "loom_tagged"` types other than text are under `policy`: under `replace` the tag is taken '
        "off when they are written and counted as `type`, `reject` refuses them, `escape` keeps them behind a zero "
        "byte.",
    ),
)

WRITTEN = FIDELITY.writers("grid")
POLLED = FIDELITY.readers("grid")
