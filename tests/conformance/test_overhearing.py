"""Captured requests and answers beside the scripts of client cases."""

from __future__ import annotations

from functools import cache

import pytest

from gateway import dialects
from gateway.conformance.attempts import Finding
from gateway.conformance.comparing import reading
from gateway.conformance.openings import Openings
from gateway.conformance.overhearing import Overhearing
from gateway.conformance.patterns import blanks_of, pattern
from gateway.conformance.scripts import scripts
from gateway.core.records import registry
from gateway.dialects import Listener

ENCODINGS = registry(encoding for name in dialects.names() for encoding in dialects.load(name).encodings)
SECOND = 1_000_000

PING = "04000000 01000000"
OK = "00000000 00000000"


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


def pipe(*lines: str) -> Talk:
    """Each line with its answer."""
    talk = Talk(listener("pipe"))
    for asked, answer in zip(lines[::2], lines[1::2], strict=True):
        talk.ask(f"{asked}\n".encode(), f"{answer}\n".encode())
    return talk


def iggy(*frames: str, generation: str = "g2c") -> Talk:
    """The same, in hex; a name is 8 letters long there."""
    talk = Talk(listener("iggy", generation=generation))
    for asked, answer in zip(frames[::2], frames[1::2], strict=True):
        talk.ask(bytes.fromhex(asked), bytes.fromhex(answer))
    return talk


def batch(text: str, sequence: int, epoch: str = "00" * 7 + "05", producer: str = "p1") -> bytes:
    """Of one record, for the topic `orders`, as the Cursus page has it."""
    number = sequence.to_bytes(8, "big")
    head = b"\xba\x7c\0\6orders" + bytes(4) + b"\1" + b"1" + b"\0" + number + number + b"\0\0\0\1"
    said = len(producer).to_bytes(2, "big") + producer.encode()
    record = bytes(8) + number + said + b"\0\0" + bytes.fromhex(epoch) + len(text).to_bytes(4, "big") + text.encode()
    whole = head + record + bytes(16)
    return len(whole).to_bytes(4, "big") + whole


def ack(sequence: int, producer: str = "p1") -> bytes:
    text = (
        f'{{"status":"OK","last_offset":{sequence - 1},"producer_epoch":0,"producer_id":"{producer}",'
        f'"seq_start":{sequence},"seq_end":{sequence}}}'
    ).encode()
    return len(text).to_bytes(4, "big") + text


# -- what is exercised


def test_a_request_with_its_answer_passes_under_any_name() -> None:
    talk = pipe("V1|7|PRODUCE|any.topic user1:created", "V1|7|OK|partition=2 offset=0 hw=0")
    assert talk.found() == {"PIP-C1.1": "PASS"}


def test_an_answer_of_the_same_kind_will_do_where_nothing_follows() -> None:
    assert pipe("V1|7|PRODUCE|t user1:created", "V1|7|OK|partition=1 offset=57 hw=99").found() == {"PIP-C1.1": "PASS"}


def test_a_case_whose_answer_was_not_given_is_not_exercised() -> None:
    assert pipe("V1|7|PRODUCE|t user1:created", "V1|7|ERR|TOPIC_NOT_FOUND no").found() == {}
    talk = Talk(listener("pipe"))
    talk.ask(b"V1|7|PRODUCE|t user1:created\n")
    talk.hearing.ended(10 * SECOND)
    assert talk.found() == {}, "it was never answered"


def test_the_same_in_other_bytes_is_lenient_and_the_first_of_them_is_named() -> None:
    talk = pipe("V1|7|PRODUCE|orders  user1:created", "V1|7|OK|partition=2 offset=0 hw=0")
    found = talk.only("PIP-C1.1")
    assert found.verdict == "LENIENT" and found.frame == b"V1|7|PRODUCE|orders  user1:created\n"
    assert found.why.startswith("it says the same in other bytes, from byte 20 on")


def test_what_is_about_other_values_is_nobodys_case() -> None:
    assert pipe("V1|7|PRODUCE|orders user2:created", "V1|7|OK|partition=2 offset=0 hw=0").found() == {}


# -- several requests


def test_requests_are_followed_through_their_answers() -> None:
    talk = Talk(listener("cursus"))
    talk.ask(batch("a", 1), ack(1))
    assert talk.found() == {}, "it is not through"
    talk.ask(batch("b", 2), ack(2))
    assert talk.found() == {"CUR-C2.10": "PASS"}


@pytest.mark.parametrize(
    "second",
    [batch("b", 2, epoch="00" * 7 + "06"), batch("b", 2, producer="p2")],
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
    place = "02 08" + b"g-abcdef".hex() + "02 08" + b"o-abcdef".hex() + "02 08" + b"t-abcdef".hex()
    body = f"64000000 02 {place} 0000000000 05 0000000000000000 0a000000 00"
    poll = len(bytes.fromhex(body)).to_bytes(4, "little").hex() + body
    empty = "00000000 10000000 00000000 0000000000000000 00000000"
    header = "0000000000000000 01000000000000000000000000000000 0000000000000000 00401e18240a0600 00401e18240a0600"
    records = f"00000000 0000000000000000 01000000 {header} 00000000 05000000 0000000000000000" + b"hello".hex()
    full = "00000000" + len(bytes.fromhex(records)).to_bytes(4, "little").hex() + records
    assert "IGY-C1.29" in iggy(poll, empty, poll, full).found()
    assert "IGY-C1.29" not in iggy(poll, full, poll, empty).found()


# -- silence


def refused() -> Talk:
    """A batch that came with a stale epoch, which is not to be sent again for 1.2 seconds."""
    talk = Talk(listener("cursus"))
    first = bytearray(batch("hello", 1))
    first[20] = 1  # an idempotent producer
    text = b'{"status":"ERROR","last_offset":0,"producer_epoch":0,"producer_id":"p1","seq_start":0,"seq_end":0,'
    text += b'"error":"stale_producer_epoch producer=p1 current=9 got=1"}'
    talk.ask(bytes(first), len(text).to_bytes(4, "big") + text)
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
    first = bytearray(batch("hello", 1))
    first[20] = 1
    talk.ask(bytes(first), after=0.3)
    assert talk.found()["CUR-C3.3"] == "FAIL"
    other.ask(batch("more", 2), after=0.3)
    other.hearing.ended(other.time + 5 * SECOND)
    assert "CUR-C3.3" not in other.found()


# -- what cannot be known


def test_what_comes_first_is_known_only_of_a_connection_that_was_captured_from_its_beginning() -> None:
    assert iggy(PING, OK).found() == {"IGY-C1.1": "PASS"}
    late = Talk(listener("iggy", generation="g2c"), whole=False)
    late.ask(bytes.fromhex(PING), bytes.fromhex(OK))
    assert late.found() == {}
    assert "IGY-C1.1" not in iggy("08000000 c8000000 02 02 6f6e", OK, PING, OK).found()


def test_cases_are_those_of_the_generation_that_a_client_speaks() -> None:
    assert iggy(PING, OK, generation="g2b").found() == {"IGY-C2.1": "PASS"}
    talk = Talk(listener("iggy"))
    talk.ask(bytes.fromhex(PING), bytes.fromhex(OK))
    assert talk.found() == {}, "it has not logged in"
    talk.terms = listener("iggy", generation="g2c").terms("127.0.0.1:0")
    talk.ask(bytes.fromhex(PING), bytes.fromhex(OK))
    assert talk.found()["IGY-C1.1"] == "PASS", "now it is known what it was"


def test_a_request_whose_secret_was_taken_out_is_not_judged() -> None:
    talk = Talk(listener("cursus"))
    talk.ask(batch("a", 1), ack(1))
    talk.hearing.altered(9, talk.time, "Publish")
    talk.ask(batch("b", 2), ack(2))
    assert talk.found() == {}


def test_what_is_no_request_fails_the_case_that_it_is_most_like() -> None:
    talk = Talk(listener("pipe"))
    talk.ask(b"V1|7|CONSUME|t-abcdef x 0\n")
    ((case, verdict),) = talk.found().items()
    assert verdict == "FAIL" and case in {"PIP-C1.12", "PIP-C1.13"}
    talk.ask(b"GET / HTTP/1.1\n")
    assert talk.found() == {}, "like no case at all"


def test_hostile_requests_take_bounded_time() -> None:
    talk = Talk(listener("pipe"))
    for _ in range(300):
        talk.ask(b"V1|7|CONSUME|orders x 0\n")
    assert len(talk.hearing.take()) == 100
    talk.ask(b"V1|7|CONSUME|" + b"x" * 100_000 + b"\n")
    assert talk.found() == {}


@pytest.mark.parametrize(("dialect", "least"), [("cursus", 20), ("pipe", 20), ("grid", 20), ("mlog", 20)])
def test_most_cases_of_one_connection_can_be_seen_in_a_capture(dialect: str, least: int) -> None:
    found = scripts(listener(dialect))
    assert len(found) >= least
    assert all(script.turns and (script.silence is None or script.turns[-1].answer) for script in found)


# -- forms read with a blank for every name


def test_names_behind_lengths_are_as_long_as_these_say() -> None:
    form = pattern([{"size": "u8", "of": {"text": "{topic}"}}, {"size": "u8", "of": {"text": "{group}"}}, "{id:2}"])
    read = reading(form, {})
    assert read(b"\3a\1b\1cXY") == {"topic": b"a\1b", "group": b"c", "id": b"XY"}
    assert (
        read(b"\3a\1b\1cXYZ") is None
        and read(b"\3a\1b\2cXY") is None
        and read(b"") is None
        and read(b"\0\1cXY") is None
    )


def test_a_name_that_comes_twice_is_the_same_twice() -> None:
    form = pattern([{"text": "{topic} {n:int}"}, {"size": "u8", "of": {"text": "{topic}"}}])
    assert reading(form, {})(b"ab 7\2ab") == {"topic": b"ab", "n": b"7"}
    assert reading(form, {})(b"ab 7\2xy") is None


def test_what_was_kept_is_read_again_as_it_was() -> None:
    first, second = pattern("{id:4}"), pattern("ff {id}")
    read = reading(second, blanks_of(first))
    assert read(b"\xff1234") == {"id": b"1234"} and read(b"\xff123") is None
