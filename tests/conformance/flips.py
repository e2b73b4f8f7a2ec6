"""What crossed in a run, told again with one bit of an answer turned over: whether the case notices.

No socket and no clock are needed: a run of the cases is recorded once, over real sockets, and each Play is played again
out of what it got.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gateway.conformance.cases import unimplemented
from gateway.conformance.patterns import Pattern
from gateway.conformance.playing import Crossing, Play, Ruling
from gateway.conformance.results import Result
from gateway.conformance.servers import said_always, said_now
from gateway.dialects import load

FOREVER = 1000.0
"""Seconds after which every step has been waited for."""


class Flip(msgspec.Struct, frozen=True):
    """One bit of what came.  crossing: which of the ruling's.  at: byte of it.  bit: 0..7."""

    crossing: int
    at: int
    bit: int


class Told:
    """What crossed when a case was played for the first time, and how the second time went."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.ruling = result.rulings[0]
        self._dialect = load(result.case.dialect)
        self._foreign = unimplemented(result.case.dialect)
        self._steady = said_always(result.case, self.ruling.names)

    @property
    def octets(self) -> list[tuple[int, int]]:
        """All that came: (crossing, byte of it)."""
        crossings = enumerate(self.ruling.crossings)
        return [(at, byte) for at, each in crossings if each.what == "got" for byte in range(len(each.octets))]

    def again(self, flip: Flip | None = None) -> Ruling:
        """The ruling, had that bit been another one."""
        ruling = self._play(self.ruling, {}, flip)
        steady = said_always(self.result.case, ruling.names)
        if ruling.verdict != self.ruling.verdict or steady == self._steady:
            return ruling
        return self._play(self.result.rulings[1], steady)

    def unnoticed(self, flip: Flip) -> str | None:
        """The blanks that it is in, where the case comes to the same as without it; None = it does not."""
        ruling = self.again(flip)
        if ruling.verdict != self.ruling.verdict:
            return None
        return ", ".join(name for name, said in sorted(ruling.names.items()) if said != self.ruling.names.get(name))

    def _play(self, ruling: Ruling, steady: Mapping[str, Pattern], flip: Flip | None = None) -> Ruling:
        case, dialect = self.result.case, self._dialect
        own = {name: ruling.names[name] for name in (*case.names, "principal", "secret") if name in ruling.names}
        names = own | said_now(steady, own)
        play = Play(case, names, dialect.measure_reply, tagged=dialect.tagged, way=ruling.way, foreign=self._foreign)
        play.begin(0.0)
        for number, crossing in enumerate(ruling.crossings):
            turned = flip is not None and flip.crossing == number
            _tell(
                play, msgspec.structs.replace(crossing, octets=flipped(crossing.octets, flip)) if turned else crossing
            )
        _wait(play, FOREVER)
        assert play.ruling is not None
        return play.ruling


def flipped(octets: bytes, flip: Flip) -> bytes:
    """With that bit turned over."""
    return octets[: flip.at] + bytes((octets[flip.at] ^ 1 << flip.bit,)) + octets[flip.at + 1 :]


def _tell(play: Play, crossing: Crossing) -> None:
    if crossing.what in ("sent", "hung up"):  # it does that itself
        return
    _wait(play, crossing.at)
    if play.ruling is None and crossing.what == "got":
        play.received(crossing.on, crossing.octets, crossing.at)
    elif play.ruling is None:
        play.ended(crossing.on, crossing.at, clean=crossing.what == "was closed")


def _wait(play: Play, until: float) -> None:
    play.take()
    while play.ruling is None and play.deadline is not None and play.deadline <= until:
        play.tick(play.deadline)
        play.take()
