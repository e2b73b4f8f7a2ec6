"""JSON as Go's encoding/json writes and reads it.  Checked against Go 1.26 itself.

Reading has two ways.  What our fields say exactly, as every Go client does, msgspec reads in one step.  Whatever it
will not have (keys in other letters, unknown ones, null for a number, a base64 text with line ends) is read token by
token in go_values, which alone decides what is refused.
"""

from __future__ import annotations

import re
from functools import cache

import msgspec

from gateway.dialects.mlog.go_values import MAX_VALUES, read_slowly
from gateway.dialects.mlog.layout import M, Message

_encode = msgspec.json.Encoder().encode
_special = re.compile(rb"[<>&]|\xe2\x80[\xa8\xa9]")


def write(message: Message) -> bytes:
    """The message as Go's Marshal has it: no blanks, no field left out, nil as null.

    Raises ValueError for text that is no Unicode.
    """
    try:
        payload = _encode(message)
    except UnicodeEncodeError as error:
        raise ValueError("text that is no Unicode") from error
    return _special.sub(_escaped, payload) if _special.search(payload) else payload


def _escaped(found: re.Match[bytes]) -> bytes:
    """Those stand in texts only, and Go escapes them there, so that JSON may stand in a web page."""
    return b"\\u%04x" % ord(found[0].decode())


def read(payload: bytes, kind: type[M]) -> M:
    """The message that Go's Unmarshal makes of it.

    What Go would take and this does not: text that is no UTF-8 or has half a surrogate pair (two names would become
    one), nesting beyond MAX_DEPTH, and more than MAX_VALUES values.  Raises ValueError.
    """
    if payload.count(b",") + payload.count(b"[") + payload.count(b"{") > MAX_VALUES:  # those in texts count too
        raise ValueError(f"more than {MAX_VALUES} values")
    try:
        message: M = _decoder(kind).decode(payload)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return read_slowly(payload, kind)
    return read_slowly(payload, kind) if b"-0" in payload else message  # Go's ParseUint takes no sign, msgspec does


@cache
def _decoder(kind: type[M]) -> msgspec.json.Decoder[M]:
    return msgspec.json.Decoder(kind)
