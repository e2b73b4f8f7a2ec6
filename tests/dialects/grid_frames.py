"""Frames of the grid put together by hand, and listeners to send them to."""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed
from gateway.core.records import Record, RecordBatch, canonical, registry
from gateway.core.replies import Outcome
from gateway.dialects import Listener, Refusal, Request, load
from gateway.dialects.grid.session import GridSession
from gateway.dialects.grid.terms import GridTerms, grid_terms

GRID = load("grid")
M = q.Topic("default", "m")


def frame(opcode: int, tag: int = 1, name: bytes = b"", key: bytes = b"", value: bytes = b"", **said: Any) -> bytes:
    """said: status, flags, version, magic; sender = its bytes; body = all of it, whatever its fields are."""
    sender, flags, inside = said.get("sender"), said.get("flags", 0), b""
    if sender is not None:
        flags, inside = flags | 1, len(sender).to_bytes(2, "big") + sender
    body = said.get("body", name + inside + key + value)
    head = struct.pack(">BBIIBHBB", said.get("magic", 0xDC), opcode, tag, len(body), flags, len(key), 0, len(name))
    status, version = bytes([said.get("status", 0)]), bytes([said.get("version", 2)])
    return head[:13] + status + head[14:] + version + bytes(body)


def ok(tag: int = 1, value: bytes = b"", status: int = 0, **said: Any) -> bytes:
    return frame(0x80, tag, value=value, status=status, **said)


def i32(number: int) -> bytes:
    return struct.pack(">i", number)


def i64(number: int) -> bytes:
    return struct.pack(">q", number)


def cut(stream: bytes) -> list[bytes]:
    """Whole frames."""
    frames = []
    while stream:
        size = 16 + int.from_bytes(stream[6:10], "big")
        assert len(stream) >= size
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
