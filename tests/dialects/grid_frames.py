"""Frames of the grid as its specification builds and reads them, and listeners to send them to."""

from __future__ import annotations

from itertools import takewhile
from typing import Any, NamedTuple

import msgspec
from construct import BytesInteger, Container

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed
from gateway.core.records import Record, RecordBatch, canonical, registry
from gateway.core.replies import Outcome
from gateway.dialects import Listener, Refusal, Request, load
from gateway.dialects.grid import numbers, spec
from gateway.dialects.grid.session import GridSession
from gateway.dialects.grid.terms import Asked, GridTerms, grid_terms

GRID = load("grid")
M = q.Topic("default", "m")


i32, i64 = spec.Int32sb.build, spec.Int64sb.build

NAMES, STATUSES = numbers.opcodes({}).name, numbers.statuses({}).name


def frame(
    operation: str | int, tag: int = 1, name: bytes = b"", key: bytes = b"", value: bytes = b"", **said: Any
) -> bytes:
    """A frame as the specification has it.

    operation: its name, or a number that has none.  said: sender, the name of a status, version.
    """
    opcode = numbers.OPCODES[operation] if isinstance(operation, str) else operation
    sender = said.get("sender")
    head = Container(
        opcode=opcode,
        correlation=tag,
        flags=0 if sender is None else numbers.FLAGS["HAS_SENDER_ID"],
        key_length=len(key),
        status=numbers.STATUSES[said.get("status", "OK")],
        name_length=len(name),
        version=said.get("version", 2),
    )
    body: bytes = spec.BODY.build({"name": name, "sender": sender, "key": key, "value": value}, head=head)
    return bytes(spec.HEADER.build({**head, "length": len(body)})) + body


def place(field: str) -> tuple[int, int]:
    """Where that field of the header is, and bytes of it."""
    at = 0
    for each in takewhile(lambda each: each.name != field, spec.HEADER.subcons):
        at += each.sizeof()
    return at, getattr(spec.HEADER, field).sizeof()


def changed(data: bytes, **fields: int) -> bytes:
    """That frame with other numbers in its header, which may be none that the specification allows."""
    for field, number in fields.items():
        at, size = place(field)
        data = data[:at] + BytesInteger(size).build(number) + data[at + size :]
    return data


def asking(operation: str, tag: int = 1, sender: bytes | None = None) -> bytes:
    """The first of what that operation is MEANT for, as our client asks for it."""
    command, _ = MEANT[operation][0]
    return GRID.encode_request(Request(command, tag, Asked(opcode=operation, sender=sender)), terms())


def ok(tag: int = 1, value: bytes = b"", **said: Any) -> bytes:
    return frame("RESPONSE_OK", tag, value=value, **said)


def flags_of(data: bytes) -> int:
    at, _ = place("flags")
    return data[at]


class Answer(NamedTuple):
    """What a frame of a server says."""

    opcode: str
    tag: int
    status: str
    value: bytes


def heard(stream: bytes) -> list[Answer]:
    """The answers, as the specification reads them."""
    answers = []
    for data in cut(stream):
        parsed = spec.parse_answer(data)
        assert parsed is not None, data
        opcode = NAMES[parsed.head.opcode]
        answers.append(Answer(opcode, parsed.head.correlation, STATUSES[parsed.head.status], parsed.body.value))
    return answers


def cut(stream: bytes) -> list[bytes]:
    """Whole frames."""
    frames = []
    while stream:
        size = GRID.measure_reply(stream, 0, 0)
        assert 0 < size <= len(stream)
        frames.append(stream[:size])
        stream = stream[size:]
    return frames


def listener(**said: Any) -> Listener:
    return GRID.open(msgspec.convert(said, GRID.settings), registry([]))


def terms(**said: Any) -> GridTerms:
    return grid_terms(listener(**said).terms("localhost:9000"))


def session(**said: Any) -> GridSession:
    made = listener(**said).session("localhost:9000")
    assert isinstance(made, GridSession)
    return made


def decoded(data: bytes, at: GridTerms | None = None) -> q.Command:
    request = GRID.decode_request(data, terms() if at is None else at)
    assert isinstance(request, Request), request
    return request.command


def refused(data: bytes, at: GridTerms | None = None) -> CommandFailed:
    refusal = GRID.decode_request(data, terms() if at is None else at)
    assert isinstance(refusal, Refusal), refusal
    return refusal.failure


def one(value: bytes) -> RecordBatch:
    return canonical([Record(None, value)], "grid")


YES, NO = r.MapChanged(True), r.MapChanged(False)
PUT = q.MapPut(M, b"k", b"v", create=1)
MEANT: dict[str, list[tuple[q.Command, Outcome]]] = {
    "MAP_PUT": [(PUT, YES)],
    "MAP_GET": [(q.MapGet(M, b"k"), r.MapValue(b"v")), (q.MapGet(M, b"k"), r.MapValue(None))],
    "MAP_DELETE": [(q.MapRemove(M, b"k"), YES), (q.MapRemove(M, b"k"), NO)],
    "MAP_CONTAINS": [(q.MapGet(M, b"k"), r.MapValue(b"")), (q.MapGet(M, b"k"), r.MapValue(None))],
    "MAP_SIZE": [(q.MapSize(M), r.Count(3))],
    "MAP_CLEAR": [(q.MapClear(M), r.Count(3))],
    "MAP_PUT_IF_ABSENT": [(q.MapPut(M, b"k", b"v", only=q.IfAbsent(), create=1), NO)],
    "MAP_REPLACE": [(q.MapPut(M, b"k", b"v", only=q.IfPresent()), NO)],
    "MAP_REPLACE_CAS": [(q.MapPut(M, b"k", b"v", only=q.IfEquals(b"u")), YES)],
    "MAP_PUT_WITH_TTL": [(q.MapPut(M, b"k", b"v", 1.5, create=1), YES)],
    "MAP_GET_AND_REMOVE": [(q.MapRemove(M, b"k"), r.MapChanged(True, b"v")), (q.MapRemove(M, b"k"), NO)],
    "MAP_KEYS": [(q.MapScan(M, values=False), r.MapEntries(((b"a", b""), (b"b", b""))))],
    "MAP_VALUES": [(q.MapScan(M), r.MapEntries(((b"", b"a"), (b"", b"b"))))],
    "MAP_SCAN": [(q.MapScan(M, b"a", 3), r.MapEntries(((b"b", b"2"),)))],
    "MAP_GET_ALL": [(q.MapScan(M, keys=(b"a", b"b")), r.MapEntries(((b"a", b"1"), (b"b", b"2"))))],
    "QUEUE_OFFER": [(q.Publish(M, 0, one(b"x"), create=1), r.Published(0, 0, 0))],
    "QUEUE_POLL": [
        (q.Take(M, 2.0), r.Records(0, 0, 1, (one(b"x"),))),
        (q.Take(M), r.Records(0, 0, 0)),
    ],
    "QUEUE_PEEK": [(q.Peek(M), r.Records(0, 0, 1, (one(b"x"),)))],
    "QUEUE_SIZE": [(q.QueueSize(M), r.Count(3))],
    "QUEUE_CLEAR": [(q.QueueClear(M), r.Count(3))],
    "TOPIC_PUBLISH": [(q.Publish(M, 0, one(b"x"), create=1), r.Published(0, 7, 7))],
    "TOPIC_SUBSCRIBE": [(q.LatestOffsets(M, 0), r.Offsets(1, (r.PartitionOffsets(0, 0, 9),)))],
    "TOPIC_POLL": [(q.Fetch(M, 0, 0, 5), r.Records(0, 0, 1, (one(b"x"),))), (q.Fetch(M, 0, 0), r.Records(0, 0, 0))],
    "SET_ADD": [(q.MapPut(M, b"e", b"", only=q.IfAbsent(), create=1), YES)],
    "SET_REMOVE": [(q.MapRemove(M, b"e"), NO)],
    "SET_CONTAINS": [(q.MapGet(M, b"e"), r.MapValue(None))],
    "SET_SIZE": [(q.MapSize(M), r.Count(3))],
    "SET_CLEAR": [(q.MapClear(M), r.Count(3))],
    "COUNTER_GET": [(q.MapGet(M, b"n"), r.MapValue(b"-12"))],
    "COUNTER_SET": [(q.MapPut(M, b"n", b"-12", create=1), YES)],
    "COUNTER_INCREMENT": [(q.MapAdd(M, b"n", 1, create=1), r.Count(4))],
    "COUNTER_DECREMENT": [(q.MapAdd(M, b"n", -1, create=1), r.Count(-4))],
    "COUNTER_ADD": [(q.MapAdd(M, b"n", 40, create=1), r.Count(44))],
    "COUNTER_CAS": [(q.MapPut(M, b"n", b"2", only=q.IfCount(-1), create=1), NO)],
    "LOCK_TRY": [(q.MapPut(M, b"l", b"c1", 2.5, only=q.IfAbsent(), create=1), YES)],
    "LOCK_UNLOCK": [(q.MapRemove(M, b"l", q.IfEquals(b"c1")), NO)],
    "LOCK_IS_LOCKED": [(q.MapGet(M, b"l"), r.MapValue(b""))],
    "AUTH": [(q.Authenticate("plain", "ann", "secret"), r.Authenticated("ann"))],
    "PING": [(q.Ping(), r.Done())],
}
"""Of each operation that our client could ask for, what it is answered with."""
