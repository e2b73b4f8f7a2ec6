"""What coordinators of groups are asked and what they answer, in Kafka's own words.  Pure: frames out, answers in.

librdkafka's AdminClient has these requests too, but aborts the whole process if the connection breaks while it asks a
coordinator (confluentinc/librdkafka issues 3663 and 4605, not fixed in 2.16: an assertion in `rd_kafka_enq_once`).

The versions are the newest without tagged fields: brokers from 2.1 to 4.x have all of them.
Source: https://kafka.apache.org/41/design/protocol, and the schemas in clients/src/main/resources/common/message.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")

OFFSET_COMMIT = 8, 5
OFFSET_FETCH = 9, 4
FIND_COORDINATOR = 10, 2
LEAVE_GROUP = 13, 1
DESCRIBE_GROUPS = 15, 2
DELETE_GROUPS = 42, 1
OFFSET_DELETE = 47, 0
"""Keys and versions."""

Committed = dict[str, dict[int, int]]
"""Topic -> partition -> next offset to read."""


class Seen:
    """A member as its coordinator sees it.  assignment: topic -> partitions."""

    __slots__ = ("assignment", "id")

    def __init__(self, id: str, assignment: Mapping[str, list[int]]) -> None:
        self.id = id
        self.assignment = assignment


class Refused(Exception):
    """An answer that says an error.  code: Kafka's number of it."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Words:
    """An answer, read from its beginning on.  Raises ValueError where it is too short."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._at = 0

    def _take(self, size: int) -> bytes:
        taken = self._answer[self._at : self._at + size]
        if len(taken) < size:
            raise ValueError(f"an answer of {len(self._answer)} bytes ends too early")
        self._at += size
        return taken

    def int16(self) -> int:
        """Two bytes."""
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        """Four."""
        return int.from_bytes(self._take(4), "big", signed=True)

    def int64(self) -> int:
        """Eight."""
        return int.from_bytes(self._take(8), "big", signed=True)

    def text(self) -> str:
        """With its length in two bytes; none is empty."""
        return self._take(max(0, self.int16())).decode()

    def body(self) -> bytes:
        """With its length in four; none is empty."""
        return self._take(max(0, self.int32()))

    def array(self, item: Callable[[], T]) -> list[T]:
        """As many as four bytes say, each read by `item`; none is empty."""
        return [item() for _ in range(max(0, self.int32()))]


def _text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _array(items: Iterable[bytes]) -> bytes:
    whole = list(items)
    return struct.pack(">i", len(whole)) + b"".join(whole)


def framed(what: tuple[int, int], body: bytes) -> bytes:
    """A request with its length before it, by the header of version 1."""
    request = struct.pack(">hhi", *what, 0) + _text("gateway") + body
    return struct.pack(">i", len(request)) + request


# -- one function to ask and one to read, each.  An answer is without its length; its header is the correlation id.


def find_coordinator(group: str) -> bytes:
    """Who coordinates a group?"""
    return framed(FIND_COORDINATOR, _text(group) + b"\0")


def found_coordinator(answer: bytes) -> tuple[str, int]:
    """Host and port.  Raises Refused."""
    words = _begun(answer)
    code, _, _ = words.int16(), words.text(), words.int32()
    _check(code)
    return words.text(), words.int32()


def offset_commit(group: str, topic: str, offsets: Mapping[int, int]) -> bytes:
    """Commit as nobody in particular: in no generation, without a name."""
    rows = _array(struct.pack(">iq", *at) + _text("") for at in offsets.items())
    return framed(OFFSET_COMMIT, _text(group) + struct.pack(">i", -1) + _text("") + _array([_text(topic) + rows]))


def offset_committed(answer: bytes) -> None:
    """Raises Refused."""
    words = _begun(answer)
    for codes in words.array(lambda: (words.text(), words.array(lambda: (words.int32(), words.int16())))):
        for _, code in codes[1]:
            _check(code)


def offset_fetch(group: str, topic: str | None = None, partitions: Iterable[int] = ()) -> bytes:
    """What did it commit?  No topic = everywhere."""
    indices = _array(struct.pack(">i", at) for at in partitions)
    wanted = struct.pack(">i", -1) if topic is None else _array([_text(topic) + indices])
    return framed(OFFSET_FETCH, _text(group) + wanted)


def offset_fetched(answer: bytes) -> Committed:
    """Raises Refused."""
    words = _begun(answer)

    def row() -> tuple[int, int]:
        index, offset, _, code = words.int32(), words.int64(), words.text(), words.int16()
        _check(code)
        return index, offset

    topics = words.array(lambda: (words.text(), words.array(row)))
    _check(words.int16())
    kept = {topic: {index: offset for index, offset in rows if offset >= 0} for topic, rows in topics}
    return {topic: rows for topic, rows in kept.items() if rows}


def offset_delete(group: str, topic: str, partitions: Iterable[int]) -> bytes:
    """Forget what was committed."""
    indices = _array(struct.pack(">i", at) for at in partitions)
    return framed(OFFSET_DELETE, _text(group) + _array([_text(topic) + indices]))


def offset_deleted(answer: bytes) -> None:
    """Raises Refused."""
    words = Words(answer)
    words.int32()
    _check(words.int16())
    words.int32()  # throttle time, which is after the code here
    for _, codes in words.array(lambda: (words.text(), words.array(lambda: (words.int32(), words.int16())))):
        for _, code in codes:
            _check(code)


def describe_groups(group: str) -> bytes:
    """Who is in a group?"""
    return framed(DESCRIBE_GROUPS, _array([_text(group)]))


def described_groups(answer: bytes) -> list[Seen]:
    """Its members.  Raises Refused."""
    words = _begun(answer)
    (found,) = words.array(lambda: _group(words))
    return found


def _group(words: Words) -> list[Seen]:
    _check(words.int16())
    for _ in ("id", "state", "kind of protocol", "protocol"):
        words.text()

    def member() -> Seen:
        id, _, _, _ = words.text(), words.text(), words.text(), words.body()
        return Seen(id, assigned(words.body()))

    return words.array(member)


def assigned(assignment: bytes) -> dict[str, list[int]]:
    """Topic -> partitions, of what the leader of a group has written for a member; nothing while it is shared out."""
    if not assignment:
        return {}
    words = Words(assignment)
    words.int16()
    return dict(words.array(lambda: (words.text(), words.array(words.int32))))


def leave_group(group: str, member: str) -> bytes:
    """Say for a member that it has left."""
    return framed(LEAVE_GROUP, _text(group) + _text(member))


def left_group(answer: bytes) -> None:
    """Raises Refused."""
    _check(_begun(answer).int16())


def delete_groups(group: str) -> bytes:
    """Forget a group."""
    return framed(DELETE_GROUPS, _array([_text(group)]))


def deleted_groups(answer: bytes) -> None:
    """Raises Refused."""
    words = _begun(answer)
    for _, code in words.array(lambda: (words.text(), words.int16())):
        _check(code)


def _begun(answer: bytes) -> Words:
    """After the correlation id and the throttle time."""
    words = Words(answer)
    words.int64()
    return words


def _check(code: int) -> None:
    if code:
        raise Refused(code)
