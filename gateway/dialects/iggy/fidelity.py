"""What Iggy carries of a record."""

from __future__ import annotations

from gateway.dialects.fidelity import DROPPED, GIVEN, KEPT, UNSAID, Fate, Fidelity, fates

FIDELITY = Fidelity(
    writing=fates(
        UNSAID,
        value=Fate("kept", "not all values of a batch empty"),
        key=Fate("kept", "the key of messages-key partitioning, 1 to 255 bytes, one for a batch"),
        headers=Fate("kept", "names and values of 1 to 255 bytes"),
        header_kinds=KEPT,
        timestamp=GIVEN,
        origin_timestamp=KEPT,
        id=Fate("kept", "given if there is none"),
        offset=GIVEN,
    ),
    reading=fates(
        DROPPED,
        value=KEPT,
        tombstone=Fate("changed", "an empty value"),
        headers=Fate("partly", "those with a name and a value of 1 to 255 bytes; see `policy` for text that is none"),
        header_kinds=KEPT,
        timestamp=KEPT,
        origin_timestamp=KEPT,
        id=Fate("kept", "zeros if there is none"),
    ),
    by=("SEND_MESSAGES", "POLL_MESSAGES"),
    notes=(
        "That is 0.9 and 0.10 (g2c). In 0.7 and 0.8 (g2a, g2b) names of headers have no kinds: they are counted as "
        "`header_kinds` if they are no text. Up to 0.6 (g0 to g1b) messages have no time of origin either.",
        "Partitions count from 1 up to 0.7 (g0 to g2a).",
        "Of two headers of one name a client may keep only the last: to it they are a map.",
    ),
)

SENT = FIDELITY.writers("iggy")
POLLED = FIDELITY.readers("iggy")
