"""What an operator may say of a Cursus listener, what holds on a connection, and what is remembered of a request until
its answer is written.
"""

from __future__ import annotations

import msgspec

from gateway.core.commands import Authenticate
from gateway.dialects.cursus.unpacking import unpacking
from gateway.dialects.dialect import Settings, Terms
from gateway.dialects.topics import Topics

MAX_FRAME = 4 + (64 << 20)
"""Bytes, length included: what the seed, Java and Python send.  The broker of today takes a quarter of it."""


class CursusSettings(Settings, frozen=True, kw_only=True):
    """compression: a name in gateway.compression.  What its algorithm writes is known by the first bytes, named or not;
    one whose output has none to be known by has to be named, and is tried on a frame that is neither a batch nor a text
    command nor begins like another algorithm's output.  If that fails, the frame is answered as if nothing was named.
    """

    compression: str = ""

    def __post_init__(self) -> None:
        """Raises ValueError for a compression that there is not."""
        if self.compression:
            unpacking(self.compression)


class CursusTerms(Terms):
    """structured_errors: the peer has negotiated structured_errors_v1.
    unpacking: how frames may be compressed.
    limit:     bytes that may come out of one compressed frame: as many as a frame may have that is not.
    room:      bytes that may come out of all that a session has read at once, None = nobody keeps count.  A socket read
               full of small bombs costs no more than one of them.
    topics:    by the names that producers have said.

    There is no flag for the layout of the seed document: nobody sends it and every reader knows the real one, so data
    frames and acks are in the real layout on every connection, whatever the peer's own batches look like.
    """

    def begin(self, settings: Settings) -> None:
        """See Terms."""
        assert isinstance(settings, CursusSettings), "a Cursus listener has CursusSettings"
        self.structured_errors = False
        self.unpacking = unpacking(settings.compression)
        self.limit = (settings.max_frame or MAX_FRAME) - 4
        self.room: int | None = None
        self.topics = Topics(self.namespace)


class Claiming(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """proof: who asks, said in the command's own line; None = nobody in particular."""

    proof: Authenticate | None = None


class Spoken(Claiming, frozen=True, gc=False):
    """How a command was put.

    word:       in upper case.
    structured: errors had been negotiated to be structured when it came.  Answers may be written after a later
                NEGOTIATE has been read, so the terms cannot be asked then.
    """

    word: str
    structured: bool = False


class Consuming(Spoken, frozen=True, gc=False):
    """A CONSUME or STREAM; who asks is not checked by anyone, and said again by our client.

    nobody: its group was the one that stands for none.
    """

    member: str = ""
    generation: int | None = None
    nobody: bool = False


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
