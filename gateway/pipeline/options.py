"""What the options of a read say.  Their names may be in any case, as all of Spark's."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gateway.pipeline.places import Place, place_of
from gateway.pipeline.planning import EARLIEST, LATEST, Wanted, wanted_of

PER_PARTITION = 250_000
"""Records of one Spark task unless `recordsPerPartition` says otherwise; more are split evenly."""


class Reading(msgspec.Struct, frozen=True):
    """A read as it was asked for.

    topic:         `NAME`, `PREFIX*` or `*`.
    begin, end:    where a batch, or a new stream, begins, and where a batch ends.
    per_partition: the most records of one task.
    per_trigger:   the most records of one micro-batch, None = all there are.
    strict:        records that are not there any more are an error, and else skipped and counted.
    """

    place: Place
    topic: str
    begin: Wanted = EARLIEST
    end: Wanted = LATEST
    per_partition: int = PER_PARTITION
    per_trigger: int | None = None
    strict: bool = True


def reading_of(options: Mapping[str, str]) -> Reading:
    """What options ask for.  Raises ValueError, with a sentence."""
    topic = options.get("topic", "")
    if not topic:
        raise ValueError("option topic is missing: a topic's name, the beginning of names with * behind it, or * alone")
    per_trigger = options.get("maxRecordsPerTrigger")
    return Reading(
        place_of(options),
        topic,
        wanted_of("startingOffsets", options.get("startingOffsets", EARLIEST), EARLIEST, LATEST),
        wanted_of("endingOffsets", options.get("endingOffsets", LATEST), LATEST),
        _positive("recordsPerPartition", options.get("recordsPerPartition", str(PER_PARTITION))),
        None if per_trigger is None else _positive("maxRecordsPerTrigger", per_trigger),
        _flag("failOnDataLoss", options.get("failOnDataLoss", "true")),
    )


def _positive(name: str, text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0
    if not number:
        raise ValueError(f"{name} is a positive number, not {text!r}")
    return number


def _flag(name: str, text: str) -> bool:
    flag = {"true": True, "false": False}.get(text.strip().lower())
    if flag is None:
        raise ValueError(f"{name} is true or false, not {text!r}")
    return flag
