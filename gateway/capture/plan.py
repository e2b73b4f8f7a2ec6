"""What an operator says of a capture."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Bytes = Annotated[int, Meta(ge=1 << 16)]


class CapturePlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What crosses connections is written to files.

    directory:      where they are; made if it is not there.
    keep:           `all` = every frame; `faults` = only the last frames of a connection whose peer broke its protocol,
                    one file a minute at most.
    file_bytes:     after so many a file is closed and the next begun.
    total_bytes:    of all files in the directory; the oldest are removed.
    rotate_seconds: after so long a file is closed, however short it is.
    memory_bytes:   that may wait to be written; what does not fit is not captured, and counted.  With `faults` as many
                    may be in the rings of all connections.
    ring_bytes:     of the last frames that each connection has in its ring.
    """

    directory: Annotated[str, Meta(min_length=1)]
    keep: Literal["all", "faults"] = "all"
    file_bytes: Bytes = 64 << 20
    total_bytes: Bytes = 1 << 30
    rotate_seconds: Annotated[float, Meta(ge=1)] = 3600.0
    memory_bytes: Bytes = 64 << 20
    ring_bytes: Annotated[int, Meta(ge=1 << 10)] = 16 << 10
