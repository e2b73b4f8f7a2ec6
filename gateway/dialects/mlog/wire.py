"""Frames of mlog <-> requests, commands and replies, for either role: u16 type, u32 length, payload, big-endian.

A frame that the project could not read ends the connection, as it does there.  One that it could read and would not
answer, which leaves its clients hanging, is answered with an RPCError.  Source: protocol page, section 1.
"""

from __future__ import annotations

import struct

from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import RecordBatch
from gateway.core.replies import Outcome
from gateway.dialects.dialect import Refusal, Request, Terms
from gateway.dialects.mlog import fields as m
from gateway.dialects.mlog.answers import SHOWN, UNDERSTOOD
from gateway.dialects.mlog.asking import said_by
from gateway.dialects.mlog.coding import Coding, coding_of
from gateway.dialects.mlog.converting import batches_of, rows_of
from gateway.dialects.mlog.faults import UNKNOWN, code_of, failure_of, refused, words_of
from gateway.dialects.mlog.layout import Message
from gateway.dialects.mlog.requests import MEANINGS
from gateway.dialects.mlog.terms import HEAD, MAX_FRAME, MAX_PAYLOAD, PLAIN, Asked, MlogTerms

_head = struct.Struct(">HI")

_TELLING = frozenset({m.REPLICATE, m.CREATE_TOPIC, m.FETCH_STREAM, m.APPLY_ISR})
"""Requests that say what their command does not; reads do where they are a replica's."""


def measure(held: bytes | bytearray, start: int, scanned: int) -> int:
    """See frames.Measure."""
    return 0 if len(held) - start < HEAD else HEAD + int(_head.unpack_from(held, start)[1])


# -- requests


def decode_request(frame: bytes, terms: Terms) -> Request | Refusal:
    """One whole frame -> Request, or Refusal; the context of either is what is `Asked`."""
    assert isinstance(terms, MlogTerms), "an mlog connection has MlogTerms"
    if not HEAD <= len(frame) <= MAX_FRAME or measure(frame, 0, 0) != len(frame):
        return Refusal(CommandFailed(Fault.MALFORMED, "not one frame"), closing=True)
    type: int = _head.unpack_from(frame)[0]
    if type >= len(m.MESSAGES):
        return Refusal(CommandFailed(Fault.MALFORMED, f"no message has the type {type}"), closing=True)
    payload = frame[HEAD:]
    asked = PLAIN[coding_of(payload), type]
    if type not in m.REQUESTS or (type == m.FETCH_STREAM and not terms.fetch_stream):
        return Refusal(refused(Fault.UNSUPPORTED, f"unsupported: message type {type}", UNKNOWN), context=asked)
    try:
        message = asked.coding.read(payload, m.MESSAGES[type])
    except ValueError as error:  # a text that is no UTF-8 is one too
        failure = refused(Fault.MALFORMED, f"unreadable {asked.coding.name}: {_brief(error)}", UNKNOWN)
        return Refusal(failure, closing=terms.strict_close, context=asked)
    try:
        return Request(MEANINGS[type](message, terms), None, _context(asked, message, terms))
    except CommandFailed as refusal:
        return Refusal(refusal, context=asked)


def _context(asked: Asked, message: Message, terms: MlogTerms) -> Asked:
    """What is asked, with the request itself where its answer needs it; else nothing is held."""
    if asked.type in _TELLING:
        return Asked(asked.coding, asked.type, message)
    if isinstance(message, m.FetchRequest | m.FetchBatchRequest) and (message.replica or _unsaid(message, terms)):
        return Asked(asked.coding, asked.type, message)
    if isinstance(message, m.ProduceBatchRequest) and None in (message.values or ()):
        return Asked(asked.coding, asked.type, message)
    return asked


def _unsaid(message: m.FetchRequest | m.FetchBatchRequest, terms: MlogTerms) -> bool:
    return not message.offset and not terms.fetch_zero_is_committed


def _brief(error: Exception) -> str:
    """Without what the peer wrote: the text of a UnicodeDecodeError has none either."""
    return "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)[:100]


def encode_request(request: Request, terms: Terms) -> bytes:
    """The frame that asks for a command, in the coding of its context or else of the terms.

    Raises CommandFailed: UNSUPPORTED, UNREPRESENTABLE.
    """
    assert isinstance(terms, MlogTerms), "an mlog connection has MlogTerms"
    type, message = said_by(request, terms)
    return _framed(type, message, _coding(request, terms))


def _framed(type: int, message: Message, coding: Coding) -> bytes:
    try:
        payload = coding.write(message)
    except ValueError as error:
        raise CommandFailed(Fault.UNREPRESENTABLE, str(error)) from error
    if len(payload) > MAX_PAYLOAD:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"a payload of {len(payload)} bytes, {MAX_PAYLOAD} is the limit")
    return _head.pack(type, len(payload)) + payload


def _coding(request: Request | Refusal, terms: MlogTerms) -> Coding:
    return request.context.coding if isinstance(request.context, Asked) else terms.coding


# -- answers


def encode_reply(request: Request | Refusal, outcome: Outcome, terms: Terms) -> bytes:
    """The frame that answers; b"" for what ends the connection.

    Raises CommandFailed(UNREPRESENTABLE) for what does not fit a frame, such as one record of more than 3 MiB in JSON.
    """
    assert isinstance(terms, MlogTerms), "an mlog connection has MlogTerms"
    if isinstance(outcome, CommandFailed):
        return _failed(request, outcome, terms)
    assert isinstance(request, Request), "a refusal has no other outcome than its failure"
    asked = _asked(request, terms)
    message = SHOWN[asked.type](request, outcome, asked, terms)
    type = m.RPC_ERROR if isinstance(message, m.RPCErrorResponse) else asked.type + 1
    return _framed(type, message, asked.coding)


def _failed(request: Request | Refusal, failure: CommandFailed, terms: MlogTerms) -> bytes:
    if isinstance(request, Refusal) and request.closing:
        return b""
    words = words_of(failure, request).encode("utf-8", "replace").decode()
    return _framed(m.RPC_ERROR, m.RPCErrorResponse(code_of(failure, request), words), _coding(request, terms))


def _asked(request: Request, terms: MlogTerms) -> Asked:
    if isinstance(request.context, Asked):
        return request.context
    return PLAIN[terms.coding, said_by(request, terms)[0]]


def decode_reply(request: Request, frame: bytes, terms: Terms) -> Outcome:
    """What an answer says.  Raises CommandFailed(MALFORMED) if it is none to that request."""
    assert isinstance(terms, MlogTerms), "an mlog connection has MlogTerms"
    asked = _asked(request, terms)
    answer = _understood(asked, frame)
    if isinstance(answer, CommandFailed):
        return answer
    return UNDERSTOOD[asked.type](request, answer, terms)


def _understood(asked: Asked, frame: bytes) -> Message | CommandFailed:
    type, payload = int.from_bytes(frame[:2], "big"), frame[HEAD:]
    if measure(frame, 0, 0) != len(frame) or type not in (asked.type + 1, m.RPC_ERROR):
        raise CommandFailed(Fault.MALFORMED, f"a frame of type {type} is no answer to type {asked.type}")
    try:
        message = asked.coding.read(payload, m.MESSAGES[type])
    except ValueError as error:
        raise CommandFailed(Fault.MALFORMED, f"unreadable {asked.coding.name}: {_brief(error)}") from error
    return failure_of(message.code, message.message) if isinstance(message, m.RPCErrorResponse) else message


# -- pushes


def encode_push(request: Request, batch: RecordBatch, terms: Terms) -> bytes:
    """A frame for each record.  Raises CommandFailed(UNREPRESENTABLE) for one too long."""
    assert isinstance(terms, MlogTerms), "an mlog connection has MlogTerms"
    coding = _coding(request, terms)
    entries = [m.LogEntry(*row) for row in rows_of((batch,), terms.losses)]
    return b"".join([_framed(m.FETCH_STREAM + 1, m.FetchResponse(entry), coding) for entry in entries])


def decode_push(request: Request, frame: bytes, terms: Terms) -> RecordBatch | CommandFailed | None:
    """A frame of a stream -> its record, None = there is none yet, CommandFailed = the end.

    Raises CommandFailed(MALFORMED).
    """
    assert isinstance(terms, MlogTerms) and isinstance(request.command, q.Follow), "only a Follow is pushed to"
    answer = _understood(_asked(request, terms), frame)
    if isinstance(answer, CommandFailed):
        return answer
    assert isinstance(answer, m.FetchResponse), "nothing else has that type"
    entry = answer.entry
    return None if entry is None else batches_of([(entry.offset, entry.value or b"")])[0]
