"""gateway.dialects.grid.session: order, refusals, what a missing topic means, whose a lock is."""

from __future__ import annotations

import pytest

import wire
from dialects.grid_frames import (
    GRID,
    MEANT,
    M,
    asking,
    changed,
    frame,
    heard,
    listener,
    ok,
    session,
    terms,
)
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Reply
from gateway.dialects import Request, ServerSession
from gateway.dialects.grid.terms import HEAD

PING = frame("PING")

# -- the session


def test_an_unknown_opcode_is_told_once_a_connection() -> None:
    told: list[str] = []
    made = session()
    made.tell = told.append
    stream = frame(0xEE, 1, b"name", b"ke") + frame(0xEE, 2) + frame("PING", 3) + frame(0xEF, 4)
    assert [call.request.tag for call in made.receive(stream, 0.0)] == [3]
    assert [said.status for said in heard(made.take())] == ["UNSUPPORTED"] * 3
    assert [sentence.split(";")[0] for sentence in told] == [
        "asked for the unknown opcode 0xee with a name of 4 bytes and a key of 2",
        "asked for the unknown opcode 0xef with a name of 0 bytes and a key of 0",
    ]
    assert not made.closing


@pytest.mark.parametrize(
    "stream",
    [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"G", changed(PING, version=9) + PING, b"\0" * 300_000],
)
def test_who_speaks_something_else_is_hung_up_on_without_a_word(stream: bytes) -> None:
    made = session()
    assert made.receive(PING + stream, 0.0)[0].request.command == q.Ping()
    assert made.take() == b""
    assert made.closing
    assert made.receive(PING, 0.0) == []


def test_a_frame_that_is_too_long_is_answered_with_its_own_correlation_id() -> None:
    made = session(max_body=1000)
    data = frame("MAP_PUT", 77, b"m", b"k", bytes(999), version=1)
    assert made.receive(data[: HEAD - 1], 0.0) == []
    assert made.take() == b""
    made.receive(data[HEAD - 1 : HEAD], 0.0)
    words = b"a body of 1001 bytes, 1000 is the limit"
    assert made.take() == frame("RESPONSE_ERROR", 77, value=words, status="TOO_LARGE", version=1)
    assert made.closing


def test_answers_leave_as_they_are_ready() -> None:
    made = session()
    poll, ping = made.receive(asking("QUEUE_POLL") + frame("PING", value=b"?"), 0.0)
    made.answer(ping, r.Done())
    assert made.take() == ok(1, b"?")
    made.answer(poll, r.Records(0, 0, 0))
    assert made.take() == ok(1, status="NOT_FOUND"), "a correlation id that was open twice is answered twice"


NOTHING = {
    r.MapValue: r.MapValue(None),
    r.MapChanged: r.MapChanged(False),
    r.MapEntries: r.MapEntries(()),
    r.Count: r.Count(0),
    r.Records: r.Records(0, 0, 0),
    r.Offsets: r.Offsets(1, (r.PartitionOffsets(0, 0, 0),)),
}
LEFT_ALONE = [
    name
    for name, ((command, outcome), *_) in MEANT.items()
    if type(outcome) in NOTHING and not getattr(command, "create", 0)
]
"""Operations that make no topic."""


@pytest.mark.parametrize("fault", [Fault.NO_SUCH_TOPIC, Fault.NO_SUCH_NAMESPACE])
def test_where_there_is_no_topic_there_is_nothing_in_it(fault: Fault) -> None:
    made = session()

    def missed(data: bytes) -> tuple[bytes, Request]:
        (call,) = made.receive(data, 0.0)
        made.answer(call, CommandFailed(fault))
        assert isinstance(call.request, Request)
        return made.take(), call.request

    assert len(LEFT_ALONE) == 25
    for operation in LEFT_ALONE:
        nothing: Reply = NOTHING[type(MEANT[operation][0][1])]
        said, request = missed(asking(operation))
        assert said == GRID.encode_reply(request, nothing, made.terms), operation
    said, request = missed(wire.request("grid", q.Fetch(M, 0, 4, 1), 1))
    assert said == GRID.encode_reply(request, r.Records(0, 0, 4), made.terms), "nothing yet, and so one stays there"
    (failed,) = heard(missed(asking("MAP_PUT"))[0])
    assert failed.opcode == "RESPONSE_ERROR", "a put that did not make its map has failed"


def test_locks_without_a_sender_belong_to_their_connection() -> None:
    here = listener()
    one, two = here.session("x:1"), here.session("x:1")
    taking, giving = frame("LOCK_TRY", name=b"door"), frame("LOCK_UNLOCK", name=b"door")

    def asked(made: ServerSession, data: bytes, now: float) -> q.Command:
        (call,) = made.receive(data, now)
        return call.request.command

    first, second = b"connection 1 since 1000000", b"connection 2 since 2000000"
    door = q.Topic("default", "door")
    assert asked(one, taking, 1.0) == q.MapPut(door, b"door", first, only=q.IfAbsent(), create=1)
    assert asked(two, taking, 2.0) == q.MapPut(door, b"door", second, only=q.IfAbsent(), create=1)
    assert asked(one, giving, 3.0) == q.MapRemove(door, b"door", q.IfEquals(first))
    assert asked(two, giving, 4.0) == q.MapRemove(door, b"door", q.IfEquals(second))


def test_who_has_said_half_a_frame_is_not_quiet() -> None:
    made = session()
    assert made.quiet
    made.receive(PING[: HEAD - 1], 0.0)
    assert not made.quiet
    made.receive(PING[HEAD - 1 :], 0.0)
    assert made.quiet


def test_a_frame_of_no_length_is_not_measured_before_its_header_is_there() -> None:
    assert GRID.measure_request(PING[: HEAD - 1], 0, 0) == 0
    assert GRID.reply_tag is not None
    assert GRID.reply_tag(PING[: HEAD - 1]) is None
    with pytest.raises(CommandFailed, match="not the grid's protocol"):
        GRID.decode_reply(Request(q.Ping(), 1), PING[: HEAD - 1], terms())
