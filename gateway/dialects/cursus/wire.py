"""Cursus v1 frames: u32 big-endian length, then a BA7C batch or text, which may stand in an envelope of u16+topic.

Which of them it is, is decided as the broker does it, in this order: a batch; text whose first word is a command; an
envelope, whose topic nobody looks at.  What begins like the output of a compressor is decompressed before that, once.
Source: protocol page, sections 1 and 3.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from gateway.compression import Compressor
from gateway.core.commands import Fetch, Follow, Publish
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Outcome, Published, Records
from gateway.dialects.cursus.acks import said_of, write_ack, write_failed_ack
from gateway.dialects.cursus.answers import word_of, write_answer
from gateway.dialects.cursus.asking import write_request
from gateway.dialects.cursus.batch import MAGIC, read_batch, write_records
from gateway.dialects.cursus.commands import read_command
from gateway.dialects.cursus.faults import ack_error, failure_text, refusal_text
from gateway.dialects.cursus.hearing import read_answer
from gateway.dialects.cursus.pushing import end_text, lowest
from gateway.dialects.cursus.terms import MAX_FRAME, CursusTerms
from gateway.dialects.cursus.text import BLANKS
from gateway.dialects.cursus.unpacking import by_magic, unpacked
from gateway.dialects.dialect import Refusal, Request, Terms

WIRE_V2 = b"CRS2"
"""How a connection in Wire v2 begins; as a length it would be 1.1 GB."""

_length = struct.Struct(">I")


def measure(held: bytes | bytearray, start: int, scanned: int) -> int:
    """Bytes of the frame at `start`; the first bytes of Wire v2 are a frame of their own, to be refused."""
    if len(held) - start < 4:
        return 0
    if held[start : start + 4] == WIRE_V2:
        return 4
    size: int = _length.unpack_from(held, start)[0]
    return size + 4


# -- the server


def decode_request(frame: bytes, terms: Terms) -> Request | Refusal:
    """One whole frame -> what it asks.  Never raises."""
    assert isinstance(terms, CursusTerms), "a Cursus listener has CursusTerms"
    size = len(frame) - 4
    if size < 0 or _length.unpack_from(frame)[0] != size:
        return _no_frame(frame)
    try:
        if frame.startswith(MAGIC, 4) and size >= 6 and 0 < (frame[6] << 8 | frame[7]) <= size - 2:
            return read_batch(frame, terms)
        if size <= _SHORT and frame.startswith(_REPEATED, 4):
            return _read_again(frame[4:], terms.namespace, terms.structured_errors)
        if frame.startswith(terms.unpacking.magics, 4):
            payload = frame[4:]
            return _read_unpacked(_unpacked(payload, by_magic(terms.unpacking, payload), terms), terms)
        return _read_text(frame[4:], terms.namespace, terms.structured_errors)
    except _Secret as secret:
        return secret.asked
    except _NoCommand as failure:
        return _read_unknown(frame[4:], failure, terms)
    except CommandFailed as failure:
        return Refusal(failure)


def _no_frame(frame: bytes) -> Refusal:
    if frame == WIRE_V2:
        return Refusal(CommandFailed(Fault.UNSUPPORTED, "Wire v2 is not served"), closing=True)
    return Refusal(CommandFailed(Fault.MALFORMED, "the length does not fit the frame"), closing=True)


class _NoCommand(CommandFailed):
    """A payload that is neither a batch nor text of ours: it has the words for the peer all the same."""

    def __init__(self, text: str) -> None:
        super().__init__(Fault.MALFORMED, f"ERROR: {text}")


def _read_text(payload: bytes, namespace: str, structured: bool) -> Request:
    if not payload.startswith(b"\0\0"):  # the envelope of all clients; no command begins like that
        request = _read_line(payload, namespace, structured)
        if request is not None:
            return request
    if len(payload) < 2:
        raise _NoCommand('decode_failed reason="data too short"')
    begin = 2 + (payload[0] << 8 | payload[1])
    if begin > len(payload):
        raise _NoCommand('decode_failed reason="invalid topic length"')
    request = _read_line(payload[begin:].strip(BLANKS), namespace, structured)
    if request is None:  # the broker hangs up; but where the next frame begins is known
        raise _NoCommand("malformed_input reason=missing_topic_or_payload")
    return request


def _unpacked(payload: bytes, compressor: Compressor, terms: CursusTerms) -> bytes:
    body = unpacked(compressor, payload, terms.limit if terms.room is None else terms.room)
    if terms.room is not None:
        terms.room -= len(body)
    return body


def _read_unpacked(body: bytes, terms: CursusTerms) -> Request:
    """What was in a compressed payload.  It is not looked at whether that is compressed again."""
    if body.startswith(MAGIC) and len(body) >= 6 and 0 < (body[2] << 8 | body[3]) <= len(body) - 2:
        return read_batch(_length.pack(len(body)) + body, terms)
    return _read_text(body, terms.namespace, terms.structured_errors)


def _read_unknown(payload: bytes, failure: CommandFailed, terms: CursusTerms) -> Request | Refusal:
    """A payload that is nothing as it stands, which may be due to the algorithm that the listener names."""
    if terms.unpacking.named is None or payload.startswith(terms.unpacking.magics):
        return Refusal(failure)
    try:
        body = _unpacked(payload, terms.unpacking.named, terms)
    except CommandFailed as other:
        return Refusal(other if other.fault is Fault.TOO_LARGE else failure)
    try:
        return _read_unpacked(body, terms)
    except CommandFailed as other:
        return Refusal(other)


def _read_line(text: bytes, namespace: str, structured: bool) -> Request | None:
    word, *args = text.split(None, 1) or (b"",)
    return read_command(word, args[0].rstrip() if args else b"", namespace, structured)


_SHORT = 256
_REPEATED = tuple(
    envelope + word
    for word in (b"HEARTBEAT", b"CONSUME", b"FETCH_OFFSET", b"METADATA", b"FIND_COORDINATOR", b"LIST", b"HELP")
    for envelope in (b"\0\0", b"")
)
"""Polling clients say these again and again, to the byte: a heartbeat is read in 0.35 us instead of 3."""


class _Secret(Exception):
    """A request that may hold a secret: raised, it is not remembered."""

    def __init__(self, asked: Request) -> None:
        self.asked = asked


@lru_cache(4096)
def _read_again(payload: bytes, namespace: str, structured: bool) -> Request:
    request = _read_text(payload, namespace, structured)
    if b"token=" in payload:
        raise _Secret(request)
    return request


def encode_reply(request: Request | Refusal, outcome: Outcome, terms: Terms) -> bytes:
    """The frame that answers a request.  To who does not speak v1, or sends more than is taken, nothing is said.

    Raises CommandFailed(UNREPRESENTABLE) for what the wire cannot carry.
    """
    assert isinstance(terms, CursusTerms), "a Cursus listener has CursusTerms"
    command = request.command if isinstance(request, Request) else None
    if isinstance(request, Refusal):
        if request.closing:
            return b""
        payload = refusal_text(request.failure, terms.structured_errors).encode("utf-8", "replace")
    elif isinstance(outcome, CommandFailed):
        payload = _failed(request, outcome, terms)
    elif isinstance(outcome, Published) and isinstance(command, Publish):
        payload = write_ack(request, outcome)
    elif isinstance(outcome, Records) and isinstance(command, Fetch):
        pieces = write_records(command, outcome, terms)
        return b"".join((_length.pack(sum(map(len, pieces))), *pieces))
    else:
        payload = write_answer(request, outcome, terms)
    return _length.pack(len(payload)) + payload


def _failed(request: Request, failure: CommandFailed, terms: CursusTerms) -> bytes:
    word = word_of(request)
    if isinstance(request.command, Follow) and failure.fault is Fault.OFFSET_GONE:
        return end_text("offset_out_of_range", lowest(request.command), failure.facts).encode()
    if word == "PUBLISH" and said_of(request).batched and (error := ack_error(request, failure)) is not None:
        return write_failed_ack(request, error)
    return failure_text(request, failure, word, terms.advertise).encode("utf-8", "replace")


# -- the client


def encode_request(request: Request, terms: Terms) -> bytes:
    """The frame that asks.  Raises CommandFailed: UNSUPPORTED, UNREPRESENTABLE (see asking.py), TOO_LARGE."""
    assert isinstance(terms, CursusTerms), "a Cursus listener has CursusTerms"
    payload = write_request(request, terms)
    if len(payload) + 4 > MAX_FRAME:
        raise CommandFailed(Fault.TOO_LARGE, f"a frame of {len(payload) + 4} bytes, {MAX_FRAME} is the limit")
    return _length.pack(len(payload)) + payload


def decode_reply(request: Request, frame: bytes, terms: Terms) -> Outcome:
    """One whole reply frame -> what it says to that request.  Raises CommandFailed(MALFORMED)."""
    assert isinstance(terms, CursusTerms), "a Cursus listener has CursusTerms"
    if len(frame) < 4 or _length.unpack_from(frame)[0] != len(frame) - 4:
        raise CommandFailed(Fault.MALFORMED, "the length does not fit the frame")
    return read_answer(request, frame, terms)
