"""What holds on a Cursus connection, and what is remembered of a request until its answer is written."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gateway.core.records import Encoding
from gateway.dialects.dialect import Losses, Settings, Terms


class CursusTerms(Terms):
    """structured_errors: the peer has negotiated structured_errors_v1.

    There is no flag for the layout of the seed document: nobody sends it and every reader knows the real one, so data
    frames and acks are in the real layout on every connection, whatever the peer's own batches look like.
    """

    def __init__(
        self,
        settings: Settings,
        encodings: Mapping[str, Encoding],
        *,
        advertise: str = "127.0.0.1:0",
        losses: Losses | None = None,
    ) -> None:
        super().__init__(settings, encodings, advertise=advertise, losses=losses)
        self.structured_errors = False


class Spoken(msgspec.Struct, frozen=True, gc=False):
    """How a command was put.

    word:       in upper case.
    structured: errors had been negotiated to be structured when it came.  Answers may be written after a later
                NEGOTIATE has been read, so the terms cannot be asked then.
    """

    word: str
    structured: bool = False


class Consuming(Spoken, frozen=True, gc=False):
    """A CONSUME; who asks is not checked by anyone, and said again by our client."""

    member: str = ""
    generation: int | None = None


class Seeking(Spoken, frozen=True, gc=False):
    """A FIND_COORDINATOR; kind: `group` or `transaction`."""

    key: str = ""
    kind: str = "group"


class Negotiation(Spoken, frozen=True, gc=False):
    """A NEGOTIATE that succeeds.  features: as they were asked for; require: None = not said."""

    features: str = ""
    require: bool | None = None
    enabled: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()


class Produced(Spoken, frozen=True, gc=False):
    """A batch, or a PUBLISH.

    producer, epoch: of the last record.  first, last: sequence numbers of the first and last record.
    idempotent: the flag of the header, which decides nothing.  batched: it was a batch.
    """

    producer: bytes = b""
    epoch: int = 0
    first: int = 0
    last: int = 0
    idempotent: bool = False
    batched: bool = True
