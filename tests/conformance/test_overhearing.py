"""Captured requests and answers beside the scripts of client cases."""

from __future__ import annotations

from functools import cache

import pytest

import wire
from gateway import dialects
from gateway.conformance.attempts import Finding
from gateway.conformance.comparing import reading
from gateway.conformance.openings import Openings
from gateway.conformance.overhearing import Overhearing
from gateway.conformance.patterns import blanks_of, fill, pattern
from gateway.conformance.scripts import scripts
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical, registry
from gateway.core.replies import Outcome, Published
from gateway.dialects import Listener, Request
from gateway.dialects.cursus.terms import Produced
from net.peers import produce

ENCODINGS = registry(encoding for name in dialects.names() for encoding in dialects.load(name).encodings)
SECOND = 1_000_000

PING, OK = wire.steps("iggy", "IGY-C1.1")
ORDERS = q.Topic("default", "orders")
NO_NUMBER = wire.steps("pipe", "PIP-C1.12", topic="t-abcdef", id="7")[0].replace(b" 2 ", b" x ")
"""Where a partition should be."""


@cache
def listener(dialect: str, **settings: str) -> Listener:
    spoken = dialects.load(dialect)
    return spoken.open(spoken.settings(**settings), ENCODINGS)


@cache
def openings(made: Listener) -> Openings:
    return Openings(scripts(made))


class Talk:
    """A connection of which that is captured; a second passes from one thing to the next."""

    def __init__(self, made: Listener, *, whole: bool = True) -> None:
        self.hearing = Overhearing(made.dialect, openings(made), whole=whole)
        self.terms = made.terms("127.0.0.1:0")
        self.time = 0
        self._dialect = made.dialect
        self._tickets = 0

    def ask(self, frame: bytes, answer: bytes | None = None, after: float = 1.0) -> None:
        self.time += int(after * SECOND)
        self._tickets += 1
        request = self._dialect.decode_request(frame, self.terms)
        self.hearing.heard(self._tickets, self.time, frame, request, self.terms)
        if answer is not None:
            self.hearing.answered(self._tickets, self.time + 100, answer)

    def found(self) -> dict[str, str]:
        return {finding.case: finding.verdict for finding in self.hearing.take()}

    def only(self, case: str) -> Finding:
        (found,) = [finding for finding in self.hearing.take() if finding.case == case]
        return found


def pipe(asked: bytes, answer: bytes | None) -> Talk:
    talk = Talk(listener("pipe"))
    talk.ask(asked, answer)
    return talk


def produced(topic: str) -> list[bytes]:
    """A request and its answer."""
    return wire.steps("pipe", "PIP-C1.1", topic=topic, id="7")


def ended(outcome: Outcome) -> bytes:
    """That request, answered otherwise."""
    return wire.reply("pipe", Request(produce(b"user1", b"created"), "7"), outcome)


def iggy(*frames: bytes, generation: str = "g2c") -> Talk:
    """Each request with its answer."""
    talk = Talk(listener("iggy", generation=generation))
    for asked, answer in zip(frames[::2], frames[1::2], strict=True):
        talk.ask(asked, answer)
    return talk


def published(text: str, sequence: int, epoch: int = 5, producer: str = "p1", *, idempotent: bool = False) -> Request:
    """A batch of one record."""
    record = Record(None, text.encode(), producer=producer.encode(), epoch=epoch, sequence=sequence)
    how = Produced("PUBLISH", False, record.producer, epoch, sequence, sequence, idempotent, batched=True)
    return Request(q.Publish(ORDERS, 0, canonical([record])), None, how)


def batch(text: str, sequence: int, epoch: int = 5, producer: str = "p1", *, idempotent: bool = False) -> bytes:
    said = published(text, sequence, epoch, producer, idempotent=idempotent)
    return wire.request("cursus", said.command, None, said.context)


def ack(sequence: int) -> bytes:
    return wire.reply("cursus", published("a", sequence), Published(0, sequence - 1, sequence - 1))


# -- what is exercised


def test_a_request_with_its_answer_passes_under_any_name() -> None:
    talk = pipe(*produced("any.topic"))
    assert talk.found() == {"PIP-C1.1": "PASS"}


def test_an_answer_of_the_same_kind_will_do_where_nothing_follows() -> None:
    assert pipe(produced("t")[0], ended(Published(1, 57, 57))).found() == {"PIP-C1.1": "PASS"}


def test_a_case_whose_answer_was_not_given_is_not_exercised() -> None:
    assert pipe(produced("t")[0], ended(CommandFailed(Fault.NO_SUCH_TOPIC, "no"))).found() == {}
    talk = pipe(produced("t")[0], None)
    talk.hearing.ended(10 * SECOND)
    assert talk.found() == {}, "it was never answered"


def test_the_same_in_other_bytes_is_lenient_and_the_first_of_them_is_named() -> None:
    asked, answer = produced("orders")
    wide = asked.replace(b" ", b"  ")
    found = pipe(wide, answer).only("PIP-C1.1")
    assert found.verdict == "LENIENT" and found.frame == wide
    assert found.why.startswith("it says the same in other bytes, from byte 20 on")


def test_what_is_about_other_values_is_nobodys_case() -> None:
    assert pipe(wire.request("pipe", produce(b"user2", b"created"), "7"), produced("t")[1]).found() == {}


# -- several requests


def test_requests_are_followed_through_their_answers() -> None:
    talk = Talk(listener("cursus"))
    talk.ask(batch("a", 1), ack(1))
    assert talk.found() == {}, "it is not through"
    talk.ask(batch("b", 2), ack(2))
    assert talk.found() == {"CUR-C2.10": "PASS"}


@pytest.mark.parametrize(
    "second",
    [batch("b", 2, epoch=6), batch("b", 2, producer="p2")],
    ids=["epoch", "producer"],
)
def test_what_a_client_has_to_keep_and_does_not_fails(second: bytes) -> None:
    talk = Talk(listener("cursus"))
    talk.ask(batch("a", 1), ack(1))
    talk.ask(second)
    found = talk.only("CUR-C2.10")
    assert found.verdict == "FAIL" and found.frame == second and "than before" in found.why


def test_another_request_than_the_next_is_held_against_nobody() -> None:
    talk = Talk(listener("cursus"))
    talk.ask(batch("a", 1), ack(1))
    talk.ask(batch("else", 2), ack(2))
    talk.ask(batch("b", 3), ack(3))
    assert talk.found() == {}, "who knows what it was told to send"


def test_an_answer_that_is_still_on_its_way_proves_nothing() -> None:
    talk = Talk(listener("cursus"))
    talk.ask(batch("a", 1))
    talk.ask(batch("b", 2, producer="p2"))
    assert talk.found() == {}


def test_an_answer_that_later_requests_depend_on_has_to_be_the_scripts() -> None:
    """An empty poll is asked for again; one that was not empty may be, for all that anybody knows."""
    poll, empty, _, full = wire.steps("iggy", "IGY-C1.29", topic="t-abcdef", other="o-abcdef", group="g-abcdef")
    assert "IGY-C1.29" in iggy(poll, empty, poll, full).found()
    assert "IGY-C1.29" not in iggy(poll, full, poll, empty).found()


# -- silence


def refused() -> Talk:
    """A batch that came with a stale epoch, which is not to be sent again for 1.2 seconds."""
    talk = Talk(listener("cursus"))
    talk.ask(*wire.steps("cursus", "CUR-C3.3", topic="orders", pid="p1", epoch="\0" * 7 + "\5"))
    return talk


def test_silence_is_over_when_its_time_is() -> None:
    talk = refused()
    assert "CUR-C3.3" not in talk.found()
    talk.hearing.ended(talk.time + 2 * SECOND)
    assert talk.found()["CUR-C3.3"] == "PASS"


def test_of_a_silence_whose_end_was_not_captured_nothing_is_said() -> None:
    talk = refused()
    talk.hearing.ended(talk.time + SECOND)
    assert "CUR-C3.3" not in talk.found()


def test_what_is_said_again_in_a_silence_fails_and_what_is_new_does_not() -> None:
    talk, other = refused(), refused()
    talk.ask(batch("hello", 1, idempotent=True), after=0.3)
    assert talk.found()["CUR-C3.3"] == "FAIL"
    other.ask(batch("more", 2), after=0.3)
    other.hearing.ended(other.time + 5 * SECOND)
    assert "CUR-C3.3" not in other.found()


# -- what cannot be known


def test_what_comes_first_is_known_only_of_a_connection_that_was_captured_from_its_beginning() -> None:
    assert iggy(PING, OK).found() == {"IGY-C1.1": "PASS"}
    late = Talk(listener("iggy", generation="g2c"), whole=False)
    late.ask(PING, OK)
    assert late.found() == {}
    first = wire.request("iggy", q.DescribeNamespace("on"), generation="g2c")
    assert "IGY-C1.1" not in iggy(first, OK, PING, OK).found()


def test_cases_are_those_of_the_generation_that_a_client_speaks() -> None:
    assert iggy(PING, OK, generation="g2b").found() == {"IGY-C2.1": "PASS"}
    talk = Talk(listener("iggy"))
    talk.ask(PING, OK)
    assert talk.found() == {}, "it has not logged in"
    talk.terms = listener("iggy", generation="g2c").terms("127.0.0.1:0")
    talk.ask(PING, OK)
    assert talk.found()["IGY-C1.1"] == "PASS", "now it is known what it was"


def test_a_request_whose_secret_was_taken_out_is_not_judged() -> None:
    talk = Talk(listener("cursus"))
    talk.ask(batch("a", 1), ack(1))
    talk.hearing.altered(9, talk.time, "Publish")
    talk.ask(batch("b", 2), ack(2))
    assert talk.found() == {}


def test_what_is_no_request_fails_the_case_that_it_is_most_like() -> None:
    talk = Talk(listener("pipe"))
    talk.ask(NO_NUMBER)
    ((case, verdict),) = talk.found().items()
    assert verdict == "FAIL" and case in {"PIP-C1.12", "PIP-C1.13"}
    talk.ask(b"GET / HTTP/1.1\n")
    assert talk.found() == {}, "like no case at all"


def test_hostile_requests_take_bounded_time() -> None:
    talk = Talk(listener("pipe"))
    for _ in range(300):
        talk.ask(NO_NUMBER)
    assert len(talk.hearing.take()) == 100
    talk.ask(NO_NUMBER.replace(b" ", b"x" * 50_000))
    assert talk.found() == {}


@pytest.mark.parametrize(("dialect", "least"), [("cursus", 20), ("pipe", 20), ("grid", 20), ("mlog", 20)])
def test_most_cases_of_one_connection_can_be_seen_in_a_capture(dialect: str, least: int) -> None:
    found = scripts(listener(dialect))
    assert len(found) >= least
    assert all(script.turns and (script.silence is None or script.turns[-1].answer) for script in found)


# -- forms read with a blank for every name


def test_names_behind_lengths_are_as_long_as_these_say() -> None:
    form = pattern([{"size": "u8", "of": {"text": "{topic}"}}, {"size": "u8", "of": {"text": "{group}"}}, "{id:2}"])
    names = {"topic": b"a\1b", "group": b"c", "id": b"XY"}
    said, read = b"".join(fill(form, names)), reading(form, {})
    assert read(said) == names
    assert [read(other) for other in (said + b"Z", said[:4] + b"\2" + said[5:], b"", b"\0" + said[4:])] == [None] * 4


def test_a_name_that_comes_twice_is_the_same_twice() -> None:
    form = pattern([{"text": "{topic} {n:int}"}, {"size": "u8", "of": {"text": "{topic}"}}])
    assert reading(form, {})(b"ab 7\2ab") == {"topic": b"ab", "n": b"7"}
    assert reading(form, {})(b"ab 7\2xy") is None


def test_what_was_kept_is_read_again_as_it_was() -> None:
    first, second = pattern("{id:4}"), pattern("ff {id}")
    read = reading(second, blanks_of(first))
    assert read(b"\xff1234") == {"id": b"1234"} and read(b"\xff123") is None
