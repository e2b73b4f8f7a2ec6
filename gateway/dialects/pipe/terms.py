"""What an operator may say of a pipe listener, and the terms of one connection."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gateway.core.commands import MAX_PARTITIONS
from gateway.dialects.dialect import Settings, Terms

MAX_FRAME = 65_536
"""Bytes of the longest request with its LF: the server's line reader gives up at a line of 65,536 without it
(Go's bufio.Scanner with its default buffer; pipe.md section 1)."""


class PipeSettings(Settings, frozen=True, kw_only=True):
    """`max_frame` counts the LF.  `policy` is for values that hold LF, CR or a comma; see values.py.

    partitions:          of a topic made by its first PRODUCE, CONSUME or JOIN (Flux: FLUX_NUM_PARTITIONS).
    consume_max_records: in one CONSUME answer, 0 = no limit.  Flux has none.
    consume_max_bytes:   of record bodies in one CONSUME answer.  Flux has no limit either, so an answer there may be
                         the whole partition; every reader goes on from its last offset + 1, so stopping early is seen
                         by nobody.
    """

    partitions: Annotated[int, Meta(ge=1, le=MAX_PARTITIONS)] = 3
    consume_max_records: Annotated[int, Meta(ge=0)] = 0
    consume_max_bytes: Annotated[int, Meta(ge=1)] = 1 << 20


class PipeTerms(Terms):
    """The settings, at hand; the two ends agree on nothing else."""

    def begin(self, settings: Settings) -> None:
        """See Terms."""
        assert isinstance(settings, PipeSettings), "a pipe listener has PipeSettings"
        self.partitions = settings.partitions
        self.consume_max_records = settings.consume_max_records
        self.consume_max_bytes = settings.consume_max_bytes
        self.max_frame = settings.max_frame or MAX_FRAME
