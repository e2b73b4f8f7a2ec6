"""What V1 carries of a record."""

from __future__ import annotations

from gateway.dialects.fidelity import DROPPED, GIVEN, KEPT, UNSAID, Fate, Fidelity, fates

FIDELITY = Fidelity(
    writing=fates(
        UNSAID,
        value=Fate("kept", "without white space"),
        key=Fate("kept", "without white space or a colon"),
        timestamp=GIVEN,
        partition=GIVEN,
        offset=GIVEN,
    ),
    reading=fates(
        DROPPED,
        value=Fate("partly", "LF and CR become a space each, a comma looks like the next record; see `policy`"),
        tombstone=Fate("changed", "an empty value"),
        partition=KEPT,
        offset=KEPT,
    ),
    by=("PRODUCE", "CONSUME"),
    notes=(
        '`policy = "reject"` answers a CONSUME of a value with LF, CR or a comma with an error; under `escape`, '
        r"backslash, LF, CR and comma are written `\\`, `\n`, `\r` and `\x2c`, and nothing of a value is lost to who "
        "takes that back.",
    ),
)

PRODUCED = FIDELITY.writers("pipe")
CONSUMED = FIDELITY.readers("pipe")
