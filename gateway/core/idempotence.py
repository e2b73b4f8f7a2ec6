"""Which records of a batch are new, judged by their producers' sequence numbers.  Source: Cursus, section 3."""

from __future__ import annotations

from gateway.core.commands import MAX_OFFSET
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Run

FORGET_AFTER = 30 * 60 * 1_000_000
"""us of silence after which a producer may be forgotten (the Cursus broker's own figure), where there are many."""

MANY = 10_000
"""Producers of one partition that are remembered however long they are silent.  They take 3 MB of memory: so who comes
back hours later to send again what he may have sent before, as a Spark job does that was down, is recognized.
"""


class Producers:
    """(epoch, last sequence) of the producers of one partition, least recently heard of first."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[int, int, int]] = {}

    def heard(self, producer: bytes, epoch: int, last: int, now: int) -> None:
        """The producer has got as far as `last`.  Forgets who was silent for long, if there are many others."""
        known = self._known
        known.pop(producer, None)
        known[producer] = epoch, last, now
        while len(known) > MANY and known[oldest := next(iter(known))][2] < now - FORGET_AFTER:
            del known[oldest]

    def knows(self, producer: bytes) -> bool:
        """Whether it is remembered."""
        return producer in self._known

    def admit(self, runs: list[Run]) -> tuple[list[tuple[int, int]], dict[bytes, tuple[int, int]]]:
        """What to store of a batch: ranges of record indices, and how far each producer is then.

        Raises CommandFailed: SEQUENCE_GAP, STALE_EPOCH.  Nothing is remembered yet.
        """
        after: dict[bytes, tuple[int, int]] = {}
        ranges: list[tuple[int, int]] = []
        at = 0
        for run in runs:
            skip = self._judge(run, after) if run.first else 0
            if skip < run.count:
                if ranges and ranges[-1][1] == at + skip:
                    ranges[-1] = ranges[-1][0], at + run.count
                else:
                    ranges.append((at + skip, at + run.count))
            at += run.count
        return ranges, after

    def _judge(self, run: Run, after: dict[bytes, tuple[int, int]]) -> int:
        """How many records at the front of the run are duplicates."""
        epoch, last = after.get(run.producer) or self._known.get(run.producer, (run.epoch, 0, 0))[:2]
        producer = run.producer.decode("utf-8", "replace")
        if run.first + run.count - 1 > MAX_OFFSET:
            raise CommandFailed(Fault.INVALID_ARGUMENT, f"a sequence number is at most {MAX_OFFSET}")
        if run.epoch < epoch:
            raise CommandFailed(Fault.STALE_EPOCH, producer=producer, current=epoch, got=run.epoch)
        if run.epoch > epoch and run.first != last + 1:
            # A new epoch starts again at 1.  Going on where the old one stopped loses nothing either: cursus-client
            # 0.1.0 takes the second of the clock as its epoch and never restarts its count.
            last = 0
        if run.first > last + 1:
            raise CommandFailed(Fault.SEQUENCE_GAP, producer=producer, expected=last + 1, got=run.first)
        final = run.first + run.count - 1
        after[run.producer] = run.epoch, max(last, final)
        return min(run.count, last + 1 - run.first)
