"""gateway.dialects.grid.repeats: who asks the same again gets the same answer, and nothing is done twice."""

from __future__ import annotations

from typing import Any

import pytest

import wire
from dialects.grid_frames import MEANT, M, asking, changed, cut, flags_of, frame, heard, i64, listener, ok, one
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Outcome
from gateway.dialects import Call
from gateway.dialects.grid import numbers
from gateway.dialects.grid.repeats import MOST_WAITING
from gateway.dialects.grid.service import OPERATIONS
from gateway.dialects.grid.session import GridListener, GridSession
from gateway.dialects.grid.terms import Asked

SENDER = b"c1:7"
UP = asking("COUNTER_INCREMENT", 1, SENDER)
"""What is not to be done twice."""

READING = {
    *("MAP_GET", "MAP_CONTAINS", "MAP_SIZE", "MAP_KEYS", "MAP_VALUES", "MAP_SCAN", "MAP_GET_ALL"),
    *("QUEUE_PEEK", "QUEUE_SIZE", "TOPIC_SUBSCRIBE", "TOPIC_POLL", "SET_CONTAINS", "SET_SIZE"),
    *("COUNTER_GET", "LOCK_IS_LOCKED", "PING"),
}
CHANGING = MEANT.keys() - READING - {"AUTH"}


def login_of(name: str) -> bytes:
    return wire.request("grid", q.Authenticate("plain", name, "secret"), 1)


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


def up(name: bytes, key: bytes, sender: bytes) -> bytes:
    return frame("COUNTER_INCREMENT", 1, name, key, sender=sender)


def repeated(tag: int, data: bytes = UP) -> bytes:
    """The same under another correlation id."""
    return changed(data, correlation=tag)


@pytest.mark.parametrize("operation", sorted(CHANGING))
def test_what_changes_something_is_done_once(operation: str) -> None:
    grid = Grid()
    data = asking(operation, 1, SENDER)
    session = grid.session()
    (call,) = grid.ask(session, data)
    assert grid.ask(session, repeated(2, data)) == []
    assert len(grid.ask(session, asking(operation, 3, b"c1:8"))) == 1
    session.answer(call, CommandFailed(Fault.BUSY))
    assert [said.tag for said in heard(session.take())] == [1, 2]


@pytest.mark.parametrize("operation", sorted(READING))
def test_what_reads_is_read_again(operation: str) -> None:
    grid = Grid()
    assert len(grid.ask(grid.session(), asking(operation, 1, SENDER) * 2)) == 2


def test_every_operation_is_one_or_the_other() -> None:
    told_apart = {name: operation.changes for name, operation in OPERATIONS.items()}
    del told_apart["AUTH"], told_apart["TOPIC_UNSUBSCRIBE"]
    assert {name for name, changes in told_apart.items() if changes} == CHANGING
    assert {name for name, changes in told_apart.items() if not changes} == READING


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
    assert grid.ask(old, changed(UP, correlation=9, version=0)) == []
    assert old.take() == ok(9, i64(5), version=0)


@pytest.mark.parametrize(
    "other",
    [
        asking("COUNTER_INCREMENT", 1, b"c1:8"),
        asking("COUNTER_DECREMENT", 1, SENDER),
        up(b"n", b"", SENDER),
        up(b"m", b"k", SENDER),
        asking("COUNTER_INCREMENT"),
        asking("COUNTER_INCREMENT", 1, b""),
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
    grid.done(session, frame("MAP_PUT", 1, b"m", b"ab", b"c", sender=SENDER), r.MapChanged(True))
    assert len(grid.ask(session, frame("MAP_PUT", 1, b"m", b"a", b"bc", sender=SENDER))) == 1


def test_who_sends_no_sender_id_is_served_each_time() -> None:
    grid = Grid()
    assert len(grid.ask(grid.session(), asking("COUNTER_INCREMENT") * 3)) == 3


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
    poll = wire.request("grid", q.Take(M, 600.0), 1, Asked(sender=SENDER))
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
    (busy,) = heard(session.take())
    assert busy.opcode == "RESPONSE_SERVER_BUSY"
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
        grid.done(session, asking("COUNTER_INCREMENT", 1, b"%d" % tag), r.Count(1))
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
    grid.done(session, asking("COUNTER_INCREMENT", 1, b"c1:8"), r.Count(6))
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
    a, b, c = (asking("COUNTER_INCREMENT", 1, sender) for sender in (b"a", b"b", b"c"))
    grid.done(session, a, r.Count(1))
    grid.done(session, b, r.Count(2))
    assert grid.ask(session, a) == []
    grid.done(session, c, r.Count(3))
    assert grid.ask(session, a) == []
    assert len(grid.ask(session, b)) == 1


@pytest.mark.parametrize(
    ("operation", "outcome"),
    [
        ("MAP_GET_AND_REMOVE", r.MapChanged(True, bytes(60))),
        ("QUEUE_POLL", r.Records(0, 0, 1, (one(bytes(60)),))),
    ],
)
def test_the_values_in_answers_are_bounded_too(operation: str, outcome: r.Reply) -> None:
    grid = Grid(repeat_bytes=200)
    session = grid.session()
    for sender in (b"c1:1", b"c1:2", b"c1:3", b"c1:4"):
        grid.done(session, asking(operation, 1, sender), outcome)
    assert 0 < grid.listener.repeats.held <= 200
    assert grid.ask(session, asking(operation, 1, b"c1:4")) == []
    assert len(grid.ask(session, asking(operation, 1, b"c1:1"))) == 1
    grid.now += 60.0
    session.tick(grid.now)
    assert grid.listener.repeats.held == 0


def test_one_answer_that_is_larger_than_all_may_be_is_not_kept() -> None:
    grid = Grid(repeat_bytes=10)
    session = grid.session()
    data = asking("MAP_GET_AND_REMOVE", 1, SENDER)
    assert grid.done(session, data, r.MapChanged(True, bytes(60))) == ok(1, bytes(60))
    assert len(grid.listener.repeats) == 0


def test_an_attempt_that_had_to_make_room_is_answered_like_any() -> None:
    grid = Grid(repeat_entries=1)
    session = grid.session()
    (call,) = grid.ask(session, UP)
    assert grid.ask(session, repeated(2)) == []
    grid.done(session, asking("COUNTER_INCREMENT", 9, b"z"), r.Count(3))
    session.answer(call, r.Count(5))
    assert session.take() == ok(1, i64(5)) + ok(2, i64(5))
    (call,) = grid.ask(session, UP)
    grid.done(session, asking("COUNTER_INCREMENT", 9, b"y"), r.Count(3))
    session.answer(call, CommandFailed(Fault.BUSY))
    assert len(grid.listener.repeats) == 1


def test_a_failure_is_told_and_not_kept() -> None:
    grid = Grid()
    session = grid.session()
    (call,) = grid.ask(session, UP)
    grid.ask(session, repeated(2))
    session.answer(call, CommandFailed(Fault.BUSY))
    assert [said.opcode for said in heard(session.take())] == ["RESPONSE_SERVER_BUSY"] * 2
    assert grid.done(session, UP, r.Count(5)) == ok(1, i64(5))


def test_a_miss_is_an_answer_like_any() -> None:
    grid = Grid()
    session = grid.session()
    data = asking("MAP_DELETE", 1, SENDER)
    assert grid.done(session, data, CommandFailed(Fault.NO_SUCH_TOPIC)) == ok(1, status="NOT_FOUND")
    assert grid.ask(session, data) == []
    assert session.take() == ok(1, status="NOT_FOUND")


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

    def logged_in(name: str) -> GridSession:
        session = grid.session()
        (call,) = grid.ask(session, login_of(name))
        session.answer(call, r.Authenticated(name))
        session.take()
        return session

    ann = logged_in("ann")
    grid.done(ann, UP, r.Count(5))
    assert len(grid.ask(grid.session(), UP)) == 1
    assert len(grid.ask(logged_in("bob"), UP)) == 1
    assert grid.ask(logged_in("ann"), UP) == []


def test_what_is_asked_behind_a_login_is_no_repetition_of_what_nobody_asked() -> None:
    grid = Grid()
    session = grid.session()
    login, asked = grid.ask(session, login_of("ann") + UP)
    session.answer(login, r.Authenticated("ann"))
    session.answer(asked, r.Count(5))
    assert len(grid.ask(grid.session(), UP)) == 1
    other = grid.session()
    (login,) = grid.ask(other, login_of("eve"))
    other.answer(login, CommandFailed(Fault.BAD_CREDENTIALS))
    other.take()
    again = asking("COUNTER_INCREMENT", 1, b"e:1")
    assert grid.done(other, again, r.Count(1)) == ok(1, i64(1))
    assert grid.ask(other, again) == [], "nobody again"


def test_a_repetition_may_be_compressed_when_the_first_was_not() -> None:
    grid = Grid(compression=["lz4"], compress_above=0)
    first, second = grid.session(), grid.session()
    value = b"abcd" * 100
    data = asking("MAP_GET_AND_REMOVE", 1, SENDER)
    assert grid.done(first, data, r.MapChanged(True, value)) == ok(1, value)
    second.terms.agree(1 << 7)
    assert grid.ask(second, data) == []
    said = second.take()
    assert flags_of(said) == numbers.FLAGS["COMPRESSED_LZ4"] | numbers.FLAGS["COMPRESSION_INTEGRITY"]
    assert len(said) < 100
