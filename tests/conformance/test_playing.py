"""A case is played step by step, and ruled on at the first step that is not met."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.conformance.cases import Case, Closed, Expect, HangUp, Pause, Send, Silence, Step
from gateway.conformance.patterns import pattern
from gateway.conformance.playing import LINGER, Dial, Drop, Play, Ruling, Write


def measure(held: bytes | bytearray, start: int, scanned: int) -> int:
    """A byte of length, and that many."""
    return held[start] + 1 if len(held) > start else 0


def send(form: str, on: str = "a") -> Send:
    return Send(on, pattern(form))


def expect(form: str, on: str = "a", *lenient: str) -> Expect:
    return Expect(on, pattern(form), 2.0, tuple(map(pattern, lenient)))


class Played:
    """A play, and what it has had done."""

    def __init__(self, *steps: Step, **how: Any) -> None:
        case = Case(id="TST-1", dialect="none", level="MUST", name="", source="", role="server", steps=steps)
        self.play = Play(case, {"topic": b"abc"}, measure, **how)
        self.dialed: list[str] = []
        self.wrote: list[tuple[bytes, ...]] = []
        self.dropped: list[str] = []
        self.halves: list[bool] = []
        self.play.begin(100.0)
        self._do()

    def got(self, octets: bytes, at: float = 0.0, on: str = "a") -> Ruling | None:
        self.play.received(on, octets, 100.0 + at)
        return self._do()

    def tick(self, at: float) -> Ruling | None:
        self.play.tick(100.0 + at)
        return self._do()

    def ended(self, at: float = 0.0, *, clean: bool = True) -> Ruling | None:
        self.play.ended("a", 100.0 + at, clean=clean)
        return self._do()

    def _do(self) -> Ruling | None:
        for action in self.play.take():
            match action:
                case Dial(on=on):
                    self.dialed.append(on)
                case Write(chunks=chunks):
                    self.wrote.append(chunks)
                case Drop(on=on, half=half):
                    self.dropped.append(on)
                    self.halves.append(half)
        return self.play.ruling


def test_what_was_wanted_passes_once_nothing_came_behind_it() -> None:
    played = Played(send("'hi' {topic}"), expect("02 'ok'"))
    assert (played.dialed, played.wrote) == (["a"], [(b"hiabc",)])
    assert played.got(b"\2o") is None and played.got(b"k") is None
    ruling = played.tick(LINGER)
    assert ruling is not None and (ruling.verdict, ruling.ending) == ("PASS", "open")
    assert [crossing.what for crossing in ruling.crossings] == ["sent", "got", "got"]
    assert played.dropped == ["a"]


def test_another_frame_fails_and_the_byte_is_pointed_at() -> None:
    ruling = Played(send("00"), expect("02 'ok'")).got(b"\2ox")
    assert ruling is not None
    assert (ruling.verdict, ruling.step, ruling.at, ruling.wanted, ruling.got) == ("FAIL", 1, 2, "'k'", b"\2ox")


def test_an_answer_that_does_not_come_or_not_whole_fails_in_time() -> None:
    assert Played(send("00"), expect("02 'ok'")).tick(1.9) is None
    played = Played(send("00"), expect("02 'ok'"))
    assert played.play.deadline == 102.0
    ruling = played.tick(2.0)
    assert ruling is not None and (ruling.verdict, ruling.why) == ("FAIL", "nothing came within 2 s")
    played = Played(send("00"), expect("02 'ok'"))
    played.got(b"\3ok")
    ruling = played.tick(2.0)
    assert ruling is not None and (ruling.at, ruling.wanted) == (0, "02 6f 6b"[:2])


def test_what_nobody_asked_for_fails() -> None:
    for steps in ((expect("01 'a'"),), (expect("01 'a'"), Silence("a", 1.0))):
        played = Played(*steps)
        ruling = played.got(b"\1a\1b") or played.tick(LINGER)
        assert ruling is not None and ruling.verdict == "FAIL" and ruling.got == b"\1b"


def test_silence_is_kept_as_long_as_it_says() -> None:
    played = Played(Silence("a", 1.0))
    assert played.tick(0.9) is None
    played.tick(1.0)
    assert played.tick(1.0 + LINGER).verdict == "PASS"  # type: ignore[union-attr]
    ruling = Played(Silence("a", 1.0)).got(b"\1a", 0.5)
    assert ruling is not None and ruling.verdict == "FAIL"


@pytest.mark.parametrize(("clean", "ending"), [(True, "closed"), (False, "reset")])
def test_hanging_up_is_wanted_where_it_is_and_how_is_said(clean: bool, ending: str) -> None:
    played = Played(send("00"), Closed("a", 1.0))
    played.ended(0.5, clean=clean)
    ruling = played.tick(0.6)
    assert ruling is not None and (ruling.verdict, ruling.ending) == ("PASS", ending)
    ruling = Played(send("00"), expect("01 'a'")).ended()
    assert ruling is not None and (ruling.verdict, ruling.why) == ("FAIL", "the connection was closed instead")
    ruling = Played(send("00"), Closed("a", 1.0)).tick(1.0)
    assert ruling is not None and ruling.why == "it did not hang up within 1 s"


def test_a_pause_keeps_what_comes_for_the_next_step() -> None:
    played = Played(Pause("a", 0.5), expect("01 'a'"))
    assert played.got(b"\1a", 0.1) is None
    played.tick(0.5)
    assert played.tick(0.5 + LINGER).verdict == "PASS"  # type: ignore[union-attr]


def test_the_other_forms_of_an_answer_are_lenient() -> None:
    played = Played(expect("01 'a'", "a", "01 'A'"))
    played.got(b"\1A")
    assert played.tick(LINGER).verdict == "LENIENT"  # type: ignore[union-attr]


def test_who_says_that_it_does_not_know_this_has_not_implemented_it() -> None:
    ruling = Played(expect("01 'a'"), foreign=[pattern("01 '?'")]).got(b"\1?")
    assert ruling is not None and ruling.verdict == "UNIMPLEMENTED"


def test_what_is_sent_is_cut_as_it_is_to_be() -> None:
    assert Played(send("0102 'ab'"), way="bytes").wrote == [(b"\1", b"\2", b"a", b"b")]
    assert Played(send("0102 'ab'"), way="fields").wrote == [(b"\1\2", b"ab")]


def test_all_that_can_be_sent_at_once_is_and_answers_keep_their_order() -> None:
    steps = (send("01"), expect("01 {x:1}"), send("02"), expect("01 'b'"), send("{x}"), expect("01 'c'"))
    played = Played(*steps, way="merged")
    assert played.wrote == [(b"\1\2",)]
    played.got(b"\1a\1b")
    assert played.wrote == [(b"\1\2",), (b"a",)]
    played.got(b"\1c")
    assert played.tick(LINGER).verdict == "PASS"  # type: ignore[union-attr]


def test_tagged_answers_may_come_in_any_order() -> None:
    played = Played(send("01"), expect("01 'a'"), send("02"), expect("01 'b'"), way="merged", tagged=True)
    played.got(b"\1b\1a")
    assert played.tick(LINGER).verdict == "PASS"  # type: ignore[union-attr]


def test_a_connection_is_made_when_it_is_first_used_and_left_when_told() -> None:
    played = Played(send("01"), HangUp("a"), send("02", "b"), expect("01 'a'", "b"))
    assert (played.dialed, played.dropped) == (["a", "b"], ["a"])


def test_who_sends_no_more_still_reads() -> None:
    played = Played(send("01"), HangUp("a", half=True), expect("01 'a'"), Closed("a", 1.0))
    assert played.halves == [True]
    played.got(b"\1a")
    played.ended()
    assert played.tick(LINGER).verdict == "PASS"  # type: ignore[union-attr]
    assert played.halves == [True, False]


@pytest.mark.parametrize(
    ("said", "verdict"), [(b"", "PASS"), (b"\1a", "LENIENT"), (b"\1b", "FAIL"), (b"\1a\1a", "FAIL")]
)
def test_what_may_be_said_before_hanging_up_is_accepted_and_nothing_behind_it(said: bytes, verdict: str) -> None:
    played = Played(send("01"), Closed("a", 1.0, (pattern("01 'a'"),)))
    if said:
        played.got(said)
    ruling = played.ended(0.1) or played.tick(0.2)
    assert ruling is not None and ruling.verdict == verdict


def test_what_cannot_be_played_says_nothing_of_who_is_judged() -> None:
    played = Played(send("00"))
    played.play.broke("no way")
    assert played.play.ruling is not None and played.play.ruling.verdict == "ERROR"
