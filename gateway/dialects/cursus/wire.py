"""Cursus v1 frames: u32 big-endian length, then a BA7C batch or text, which may stand in an envelope of u16+topic.

Which of them it is, is decided as the broker does it, in this order: a batch; text whose first word is a command; an
envelope, whose topic nobody looks at.  Source: protocol page, section 1.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from gateway.core.commands import Fetch, Publish
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Outcome, Published, Records
from gateway.dialects.cursus.acks import said_of, write_ack, write_failed_ack
from gateway.dialects.cursus.answers import word_of, write_answer
from gateway.dialects.cursus.asking import write_request
from gateway.dialects.cursus.batch import MAGIC, read_batch, write_records
from gateway.dialects.cursus.commands import read_command
from gateway.dialects.cursus.faults import ack_error, failure_text, refusal_text
from gateway.dialects.cursus.hearing import read_answer
from gateway.dialects.cursus.terms import CursusTerms
from gateway.dialects.cursus.text import BLANKS, refused
from gateway.dialects.dialect import Refusal, Request, Terms

MAX_FRAME = 4 + (64 << 20)
"""Bytes, length included: what the seed, Java and Python send.  The broker of today takes a quarter of it."""

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
        if size <= _SHORT and frame.startswith(_REPEATED, 4) and b"token=" not in frame:
            return _read_again(frame[4:], terms.namespace, terms.structured_errors)
        return _read_text(frame[4:], terms.namespace, terms.structured_errors)
    except CommandFailed as failure:
        return Refusal(failure)


def _no_frame(frame: bytes) -> Refusal:
    if frame == WIRE_V2:
        return Refusal(CommandFailed(Fault.UNSUPPORTED, "Wire v2 is not served"), closing=True)
    return Refusal(CommandFailed(Fault.MALFORMED, "the length does not fit the frame"), closing=True)


def _read_text(payload: bytes, namespace: str, structured: bool) -> Request:
    if not payload.startswith(b"\0\0"):  # the envelope of all clients; no command begins like that
        request = _read_line(payload, namespace, structured)
        if request is not None:
            return request
    if len(payload) < 2:
        raise refused('decode_failed reason="data too short"')
    begin = 2 + (payload[0] << 8 | payload[1])
    if begin > len(payload):
        raise refused('decode_failed reason="invalid topic length"')
    request = _read_line(payload[begin:].strip(BLANKS), namespace, structured)
    if request is None:  # the broker hangs up; but where the next frame begins is known
        raise refused("malformed_input reason=missing_topic_or_payload")
    return request


def _read_line(text: bytes, namespace: str, structured: bool) -> Request | None:
    word, *args = text.split(None, 1) or (b"",)
    return read_command(word, args[0].rstrip() if args else b"", namespace, structured)


_SHORT = 256
_REPEATED = tuple(
    envelope + word
    for word in (b"HEARTBEAT", b"CONSUME", b"FETCH_OFFSET", b"METADATA", b"FIND_COORDINATOR", b"LIST", b"HELP")
    for envelope in (b"\0\0", b"")
)
"""Polling clients say these again and again, to the byte: a heartbeat is read in 0.35 us instead of 3.  What may hold a
secret is not remembered.
"""

_read_again = lru_cache(4096)(_read_text)


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
