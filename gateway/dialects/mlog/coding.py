"""The two codings of a payload, and how a frame tells which it is in."""

from __future__ import annotations

from collections.abc import Callable

from gateway.dialects.mlog import go_json, protobuf
from gateway.dialects.mlog.go_values import is_object
from gateway.dialects.mlog.layout import M, Message


class Coding:
    """One of them.

    write: raises ValueError for text that is no Unicode.
    cost:  bytes that a record of so many bytes has at the most, among others in an answer.
    """

    __slots__ = ("_read", "cost", "name", "write")

    def __init__(
        self,
        name: str,
        write: Callable[[Message], bytes],
        read: Callable[[bytes, type[Message]], Message],
        cost: Callable[[int], int],
    ) -> None:
        self.name = name
        self.write = write
        self.cost = cost
        self._read = read

    def read(self, payload: bytes, kind: type[M]) -> M:
        """The message in a payload.  Raises ValueError."""
        message = self._read(payload, kind)
        assert isinstance(message, kind), "that is what was to be read"
        return message


# {"Offset":18446744073709551615,"Value":""}, and base64 of it; or tag and length, and tags of both fields.
JSON = Coding("json", go_json.write, go_json.read, lambda size: (size + 2) // 3 * 4 + 43)
PROTOBUF = Coding("protobuf", protobuf.write, protobuf.read, lambda size: size + 24)

CODINGS = {"json": JSON, "protobuf": PROTOBUF}

_BLANKS = b" \t\r\n"


def coding_of(payload: bytes) -> Coding:
    """JSON if its first byte that is no blank is a brace, else protobuf; an empty one is protobuf.

    A line feed is also the commonest first byte of protobuf (field 1 with a length), and a brace the length of a topic
    of 123 bytes or its first letter.  So where blanks come first, JSON has to be JSON to the end.
    """
    if payload[:1] == b"{":
        return JSON
    if payload[:1] and payload[0] in _BLANKS and payload.lstrip(_BLANKS)[:1] == b"{" and is_object(payload):
        return JSON
    return PROTOBUF
