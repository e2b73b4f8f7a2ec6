"""gateway.dialects.grid.repeats: who asks the same again gets the same answer, and nothing is done twice."""

from __future__ import annotations

from typing import Any

import pytest

from dialects.grid_frames import cut, frame, i32, i64, listener, ok, one
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Outcome
from gateway.dialects import Call
from gateway.dialects.grid.numbers import OPCODES
from gateway.dialects.grid.repeats import MOST_WAITING
from gateway.dialects.grid.service import OPERATIONS
from gateway.dialects.grid.session import GridListener, GridSession

UP = frame(0x52, 1, b"m", sender=b"c1:7")
"""COUNTER_INCREMENT, which is not to be done twice."""

CHANGING = {
    0x01: b"",
    0x03: b"",
    0x06: b"",
    0x07: b"",
    0x08: b"",
    0x09: i32(0) * 2,
    0x0A: i64(5),
    0x0B: b"",
    0x20: b"",
    0x21: b"",
    0x24: b"",
    0x30: b"",
    0x40: b"",
    0x41: b"",
    0x44: b"",
    0x51: i64(1),
    0x52: b"",
    0x53: b"",
    0x54: i64(1),
    0x55: i64(1) * 2,
    0x60: b"",
    0x61: b"",
}
READING = {
    0x02: b"",
    0x04: b"",
    0x05: b"",
    0x0C: b"",
    0x0D: b"",
    0x0E: b"",
    0x0F: b"",
    0x22: b"",
    0x23: b"",
    0x31: b"",
    0x32: i64(0) + i32(1),
    0x42: b"",
    0x43: b"",
    0x50: b"",
    0x62: b"",
    0x71: b"",
}


class Grid:
    """One listener, whose sessions are at one time."""

    def __init__(self, **said: Any) -> None:
        made = listener(**said)
        assert isinstance(made, GridListener)
        self.listener = made
        self.now = 1000.0

    def session(self) -> GridSession:
        return self.listener.session("x:1")

    def ask(self, session: GridSession, data: bytes) -> list[Call]:
        return session.receive(data, self.now)

    def done(self, session: GridSession, data: bytes, outcome: Outcome) -> bytes:
        """The request is carried out, since nobody asked the same before."""
        (call,) = self.ask(session, data)
        session.answer(call, outcome)
        return session.take()


def repeated(tag: int, data: bytes = UP) -> bytes:
    """The same under another correlation id."""
    return data[:2] + tag.to_bytes(4, "big") + data[6:]


def key_for(opcode: int) -> bytes:
    return b"" if opcode == 0x21 else b"k"


@pytest.mark.parametrize("opcode", CHANGING, ids=hex)
def test_what_changes_something_is_done_once(opcode: int) -> None:
    grid = Grid()
    data = frame(opcode, 1, b"m", key_for(opcode), CHANGING[opcode], sender=b"c1:7")
    session = grid.session()
    (call,) = grid.ask(session, data)
    assert grid.ask(session, repeated(2, data)) == []
    other = frame(opcode, 3, b"m", key_for(opcode), CHANGING[opcode], sender=b"c1:8")
    assert len(grid.ask(session, other)) == 1
    session.answer(call, CommandFailed(Fault.BUSY))
    assert [said[2:6] for said in cut(session.take())] == [b"\0\0\0\1", b"\0\0\0\2"]


@pytest.mark.parametrize("opcode", READING, ids=hex)
def test_what_reads_is_read_again(opcode: int) -> None:
    grid = Grid()
    data = frame(opcode, 1, b"m", b"k", READING[opcode], sender=b"c1:7")
    assert len(grid.ask(grid.session(), data * 2)) == 2


def test_every_operation_is_one_or_the_other() -> None:
    told_apart = {OPCODES[name]: operation.changes for name, operation in OPERATIONS.items()}
    del told_apart[OPCODES["AUTH"]], told_apart[OPCODES["TOPIC_UNSUBSCRIBE"]]
    assert {opcode for opcode, changes in told_apart.items() if changes} == set(CHANGING)
    assert {opcode for opcode, changes in told_apart.items() if not changes} == set(READING)


def test_a_repetition_gets_the_answer_under_its_own_correlation_id_on_any_connection() -> None:
    grid = Grid()
    first, second = grid.session(), grid.session()
    assert grid.done(first, UP, r.Count(5)) == ok(1, i64(5))
    assert grid.ask(first, repeated(2)) == []
    assert first.take() == ok(2, i64(5))
    assert grid.ask(second, repeated(0xFFFFFFFF)) == []
    assert second.take() == ok(0xFFFFFFFF, i64(5))


def test_a_repetition_is_answered_in_its_own_version() -> None:
    grid = Grid()
    grid.done(grid.session(), UP, r.Count(5))
    old = grid.session()
    assert grid.ask(old, frame(0x52, 9, b"m", sender=b"c1:7", version=0)) == []
    assert old.take() == ok(9, i64(5), version=0)


@pytest.mark.parametrize(
    "other",
    [
        frame(0x52, 1, b"m", sender=b"c1:8"),
        frame(0x53, 1, b"m", sender=b"c1:7"),
        frame(0x52, 1, b"n", sender=b"c1:7"),
        frame(0x52, 1, b"m", b"k", sender=b"c1:7"),
        frame(0x52, 1, b"m"),
        frame(0x52, 1, b"m", sender=b""),
    ],
)
def test_another_request_is_no_repetition(other: bytes) -> None:
    grid = Grid()
    session = grid.session()
    grid.done(session, UP, r.Count(5))
    assert len(grid.ask(session, other)) == 1


def test_the_bounds_between_fields_count() -> None:
    grid = Grid()
    session = grid.session()
    grid.done(session, frame(0x01, 1, b"m", b"ab", b"c", sender=b"c1:7"), r.MapChanged(True))
    assert len(grid.ask(session, frame(0x01, 1, b"m", b"a", b"bc", sender=b"c1:7"))) == 1


def test_who_sends_no_sender_id_is_served_each_time() -> None:
    grid = Grid()
    assert len(grid.ask(grid.session(), frame(0x52, 1, b"m") * 3)) == 3


def test_repetitions_wait_for_the_first_attempt() -> None:
    grid = Grid()
    first, second = grid.session(), grid.session()
    woken: list[str] = []
    second.wake = lambda: woken.append("second")
    (call,) = grid.ask(first, UP)
    assert grid.ask(first, repeated(2)) == []
    assert grid.ask(second, repeated(3)) == []
    assert (first.take(), second.take(), woken) == (b"", b"", [])
    first.answer(call, r.Count(5))
    assert first.take() == ok(1, i64(5)) + ok(2, i64(5))
    assert second.take() == ok(3, i64(5))
    assert woken == ["second"]
    grid.now += 60.0
    assert len(grid.ask(second, repeated(4))) == 1, "60 s after it was answered it is forgotten"


def test_a_first_attempt_that_takes_longer_than_a_minute_is_waited_for() -> None:
    grid = Grid()
    session = grid.session()
    poll = frame(0x21, 1, b"m", i64(600_000), sender=b"c1:7")
    (call,) = grid.ask(session, poll)
    grid.now += 500.0
    session.tick(grid.now)
    assert grid.ask(session, repeated(2, poll)) == []
    session.answer(call, r.Records(0, 0, 1, (one(b"x"),)))
    assert session.take() == ok(1, b"x") + ok(2, b"x")


def test_one_who_left_is_not_told() -> None:
    grid = Grid()
    first, second = grid.session(), grid.session()
    (call,) = grid.ask(first, UP)
    grid.ask(second, repeated(2))
    second.lost()
    first.answer(call, r.Count(5))
    assert second.take() == b""
    assert second.held == 0


def test_so_many_may_wait_and_no_more() -> None:
    grid = Grid()
    session = grid.session()
    (call,) = grid.ask(session, UP)
    assert grid.ask(session, UP * (MOST_WAITING + 1)) == []
    (busy,) = cut(session.take())
    assert busy[1] == 0x83
    session.answer(call, r.Count(5))
    assert len(cut(session.take())) == MOST_WAITING + 1


@pytest.mark.parametrize("seconds", [59.9, 60.0])
def test_an_answer_is_kept_for_a_minute(seconds: float) -> None:
    grid = Grid()
    session = grid.session()
    grid.done(session, UP, r.Count(5))
    grid.now += seconds
    assert len(grid.ask(session, UP)) == (seconds >= 60.0)


def test_asking_again_does_not_keep_it_longer() -> None:
    grid = Grid()
    session = grid.session()
    grid.done(session, UP, r.Count(5))
    for _ in range(5):
        grid.now += 11.9
        assert grid.ask(session, UP) == []
    grid.now += 0.6
    assert len(grid.ask(session, UP)) == 1


def test_time_forgets_even_if_nobody_asks() -> None:
    grid = Grid(repeat_seconds=5.0)
    session = grid.session()
    for tag in range(3):
        grid.done(session, frame(0x52, 1, b"m", sender=b"%d" % tag), r.Count(1))
    assert len(grid.listener.repeats) == 3
    session.tick(1005.0)
    assert len(grid.listener.repeats) == 0
    session.tick(900.0)
    assert grid.listener.repeats.now == 1005.0, "a clock that another connection read earlier does not turn it back"


def test_what_is_out_of_date_behind_something_younger_is_not_found() -> None:
    grid = Grid()
    session = grid.session()
    grid.done(session, UP, r.Count(5))
    grid.now += 30.0
    grid.done(session, frame(0x52, 1, b"m", sender=b"c1:8"), r.Count(6))
    assert grid.ask(session, UP) == []
    grid.now += 30.0
    assert len(grid.listener.repeats) == 2
    assert len(grid.ask(session, UP)) == 1


def test_nothing_is_kept_where_the_operator_says_so() -> None:
    grid = Grid(repeat_seconds=0)
    session = grid.session()
    grid.done(session, UP, r.Count(5))
    assert len(grid.ask(session, UP * 2)) == 2
    assert len(grid.listener.repeats) == 0


def test_the_one_that_was_asked_about_longest_ago_makes_room() -> None:
    grid = Grid(repeat_entries=2)
    session = grid.session()
    a, b, c = (frame(0x52, 1, b"m", sender=sender) for sender in (b"a", b"b", b"c"))
    grid.done(session, a, r.Count(1))
    grid.done(session, b, r.Count(2))
    assert grid.ask(session, a) == []
    grid.done(session, c, r.Count(3))
    assert grid.ask(session, a) == []
    assert len(grid.ask(session, b)) == 1


@pytest.mark.parametrize(
    ("data", "outcome"),
    [
        (frame(0x0B, 1, b"m", b"k", sender=b"c1:7"), r.MapChanged(True, bytes(60))),
        (frame(0x21, 1, b"m", sender=b"c1:7"), r.Records(0, 0, 1, (one(bytes(60)),))),
    ],
)
def test_the_values_in_answers_are_bounded_too(data: bytes, outcome: r.Reply) -> None:
    grid = Grid(repeat_bytes=200)
    session = grid.session()
    for sender in (b"c1:1", b"c1:2", b"c1:3", b"c1:4"):
        grid.done(session, data.replace(b"c1:7", sender), outcome)
    assert 0 < grid.listener.repeats.held <= 200
    assert grid.ask(session, data.replace(b"c1:7", b"c1:4")) == []
    assert len(grid.ask(session, data.replace(b"c1:7", b"c1:1"))) == 1
    grid.now += 60.0
    session.tick(grid.now)
    assert grid.listener.repeats.held == 0


def test_one_answer_that_is_larger_than_all_may_be_is_not_kept() -> None:
    grid = Grid(repeat_bytes=10)
    session = grid.session()
    data = frame(0x0B, 1, b"m", b"k", sender=b"c1:7")
    assert grid.done(session, data, r.MapChanged(True, bytes(60))) == ok(1, bytes(60))
    assert len(grid.listener.repeats) == 0


def test_an_attempt_that_had_to_make_room_is_answered_like_any() -> None:
    grid = Grid(repeat_entries=1)
    session = grid.session()
    (call,) = grid.ask(session, UP)
    assert grid.ask(session, repeated(2)) == []
    grid.done(session, frame(0x52, 9, b"m", sender=b"z"), r.Count(3))
    session.answer(call, r.Count(5))
    assert session.take() == ok(1, i64(5)) + ok(2, i64(5))
    (call,) = grid.ask(session, UP)
    grid.done(session, frame(0x52, 9, b"m", sender=b"y"), r.Count(3))
    session.answer(call, CommandFailed(Fault.BUSY))
    assert len(grid.listener.repeats) == 1


def test_a_failure_is_told_and_not_kept() -> None:
    grid = Grid()
    session = grid.session()
    (call,) = grid.ask(session, UP)
    grid.ask(session, repeated(2))
    session.answer(call, CommandFailed(Fault.BUSY))
    first, second = cut(session.take())
    assert (first[1], second[1]) == (0x83, 0x83)
    assert grid.done(session, UP, r.Count(5)) == ok(1, i64(5))


def test_a_miss_is_an_answer_like_any() -> None:
    grid = Grid()
    session = grid.session()
    data = frame(0x03, 1, b"m", b"k", sender=b"c1:7")
    assert grid.done(session, data, CommandFailed(Fault.NO_SUCH_TOPIC)) == ok(1, status=1)
    assert grid.ask(session, data) == []
    assert session.take() == ok(1, status=1)


def test_who_repeats_what_a_lost_connection_asked_gets_the_answer_that_it_would_have_got() -> None:
    grid = Grid()
    first, second, third = grid.session(), grid.session(), grid.session()
    (call,) = grid.ask(first, UP)
    first.lost()
    assert grid.ask(second, repeated(2)) == []
    assert second.take() == b"", "the first attempt is still under way"
    first.missed(call, r.Count(5))
    assert second.take() == ok(2, i64(5))
    assert grid.ask(third, repeated(3)) == []
    assert third.take() == ok(3, i64(5))
    assert first.take() == b""


def test_what_a_lost_connection_asked_and_was_not_done_is_done_for_who_repeats_it() -> None:
    grid = Grid()
    first, second = grid.session(), grid.session()
    (call,) = grid.ask(first, UP)
    first.lost()
    first.missed(call, CommandFailed(Fault.UNAVAILABLE))
    assert len(grid.ask(second, repeated(2))) == 1


def test_answers_are_for_those_who_could_have_asked() -> None:
    grid = Grid()

    def logged_in(name: bytes) -> GridSession:
        session = grid.session()
        (call,) = grid.ask(session, frame(0x70, 1, b"", name, b"secret"))
        session.answer(call, r.Authenticated(name.decode()))
        session.take()
        return session

    ann = logged_in(b"ann")
    grid.done(ann, UP, r.Count(5))
    assert len(grid.ask(grid.session(), UP)) == 1
    assert len(grid.ask(logged_in(b"bob"), UP)) == 1
    assert grid.ask(logged_in(b"ann"), UP) == []


def test_what_is_asked_behind_a_login_is_no_repetition_of_what_nobody_asked() -> None:
    grid = Grid()
    session = grid.session()
    login, asked = grid.ask(session, frame(0x70, 1, b"", b"ann", b"secret") + UP)
    session.answer(login, r.Authenticated("ann"))
    session.answer(asked, r.Count(5))
    assert len(grid.ask(grid.session(), UP)) == 1
    other = grid.session()
    (login,) = grid.ask(other, frame(0x70, 1, b"", b"eve", b"guess"))
    other.answer(login, CommandFailed(Fault.BAD_CREDENTIALS))
    other.take()
    assert grid.done(other, frame(0x52, 1, b"m", sender=b"e:1"), r.Count(1)) == ok(1, i64(1))
    assert grid.ask(other, frame(0x52, 1, b"m", sender=b"e:1")) == [], "nobody again"


def test_a_repetition_may_be_compressed_when_the_first_was_not() -> None:
    grid = Grid(compression=["lz4"], compress_above=0)
    first, second = grid.session(), grid.session()
    value = b"abcd" * 100
    data = frame(0x0B, 1, b"m", b"k", sender=b"c1:7")
    assert grid.done(first, data, r.MapChanged(True, value)) == ok(1, value)
    second.terms.agree(1 << 7)
    assert grid.ask(second, data) == []
    said = second.take()
    assert said[10] == 0x0A
    assert len(said) < 100
