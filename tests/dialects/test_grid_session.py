"""gateway.dialects.grid.session: order, refusals, what a missing topic means, whose a lock is."""

from __future__ import annotations

import struct

import pytest

from dialects.grid_frames import (
    GRID,
    cut,
    frame,
    i32,
    i64,
    listener,
    ok,
    session,
)
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects import ServerSession

# -- the session


def test_an_unknown_opcode_is_told_once_a_connection() -> None:
    told: list[str] = []
    made = session()
    made.tell = told.append
    stream = frame(0xEE, 1, b"name", b"ke") + frame(0xEE, 2) + frame(0x71, 3) + frame(0xEF, 4)
    assert [call.request.tag for call in made.receive(stream, 0.0)] == [3]
    assert [said[13] for said in cut(made.take())] == [6, 6, 6]
    assert [sentence.split(";")[0] for sentence in told] == [
        "asked for the unknown opcode 0xee with a name of 4 bytes and a key of 2",
        "asked for the unknown opcode 0xef with a name of 0 bytes and a key of 0",
    ]
    assert not made.closing


@pytest.mark.parametrize(
    "stream",
    [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"G", frame(1, name=b"m", version=9) + frame(0x71), b"\0" * 300_000],
)
def test_who_speaks_something_else_is_hung_up_on_without_a_word(stream: bytes) -> None:
    made = session()
    assert made.receive(frame(0x71) + stream, 0.0)[0].request.command == q.Ping()
    assert made.take() == b""
    assert made.closing
    assert made.receive(frame(0x71), 0.0) == []


def test_a_frame_that_is_too_long_is_answered_with_its_own_correlation_id() -> None:
    made = session(max_body=1000)
    head = struct.pack(">BBIIBHBBB", 0xDC, 1, 77, 1001, 0, 1, 0, 1, 1)
    assert made.receive(head[:15], 0.0) == []
    assert made.take() == b""
    made.receive(head[15:], 0.0)
    assert made.take() == frame(0x81, 77, value=b"a body of 1001 bytes, 1000 is the limit", status=5, version=1)
    assert made.closing


def test_answers_leave_as_they_are_ready() -> None:
    made = session()
    poll, ping = made.receive(frame(0x21, 1, b"jobs", i64(60_000)) + frame(0x71, 1, value=b"?"), 0.0)
    made.answer(ping, r.Done())
    assert made.take() == ok(1, b"?")
    made.answer(poll, r.Records(0, 0, 0))
    assert made.take() == ok(1, status=1), "a correlation id that was open twice is answered twice"


@pytest.mark.parametrize("fault", [Fault.NO_SUCH_TOPIC, Fault.NO_SUCH_NAMESPACE])
def test_where_there_is_no_topic_there_is_nothing_in_it(fault: Fault) -> None:
    made = session()
    for opcode, key, value, said in [
        (0x02, b"k", b"", ok(1, status=1)),
        (0x03, b"k", b"", ok(1, status=1)),
        (0x04, b"k", b"", ok(1, b"\0", 2)),
        (0x05, b"", b"", ok(1, i32(0))),
        (0x06, b"", b"", ok(1, i32(0))),
        (0x08, b"k", b"v", ok(1, b"\0", 2)),
        (0x09, b"k", i32(0) * 2, ok(1, b"\0", 2)),
        (0x0B, b"k", b"", ok(1, status=1)),
        (0x0C, b"", b"", ok(1, i32(0))),
        (0x0D, b"", b"", ok(1, i32(0))),
        (0x0E, b"", b"", ok(1, i32(0))),
        (0x0F, b"", b"", ok(1, i32(0))),
        (0x21, b"", b"", ok(1, status=1)),
        (0x22, b"", b"", ok(1, status=1)),
        (0x23, b"", b"", ok(1, i32(0))),
        (0x24, b"", b"", ok(1, i32(0))),
        (0x31, b"", b"", ok(1, i64(0))),
        (0x32, b"", i64(4) + i32(1), ok(1, i64(4) + i32(0))),
        (0x41, b"e", b"", ok(1, b"\0", 2)),
        (0x42, b"e", b"", ok(1, b"\0", 2)),
        (0x43, b"", b"", ok(1, i32(0))),
        (0x44, b"", b"", ok(1, i32(0))),
        (0x50, b"", b"", ok(1, i64(0))),
        (0x61, b"", b"", ok(1, b"\0", 2)),
        (0x62, b"", b"", ok(1, b"\0", 2)),
    ]:
        (call,) = made.receive(frame(opcode, 1, b"none", key, value), 0.0)
        made.answer(call, CommandFailed(fault))
        assert made.take() == said, hex(opcode)
    (call,) = made.receive(frame(0x01, 1, b"none", b"k"), 0.0)
    made.answer(call, CommandFailed(fault))
    assert made.take()[1] == 0x81, "a put that did not make its map has failed"


def test_locks_without_a_sender_belong_to_their_connection() -> None:
    here = listener()
    one, two = here.session("x:1"), here.session("x:1")
    taking, giving = frame(0x60, name=b"door"), frame(0x61, name=b"door")

    def asked(made: ServerSession, data: bytes, now: float) -> q.Command:
        (call,) = made.receive(data, now)
        return call.request.command

    first, second = b"connection 1 since 1000000", b"connection 2 since 2000000"
    door = q.Topic("default", "door")
    assert asked(one, taking, 1.0) == q.MapPut(door, b"door", first, only=q.IfAbsent(), create=1)
    assert asked(two, taking, 2.0) == q.MapPut(door, b"door", second, only=q.IfAbsent(), create=1)
    assert asked(one, giving, 3.0) == q.MapRemove(door, b"door", q.IfEquals(first))
    assert asked(two, giving, 4.0) == q.MapRemove(door, b"door", q.IfEquals(second))


def test_a_frame_of_no_length_is_not_measured_before_its_header_is_there() -> None:
    assert GRID.measure_request(frame(0x71)[:15], 0, 0) == 0
    assert GRID.reply_tag is not None
    assert GRID.reply_tag(frame(0x71)[:15]) is None
