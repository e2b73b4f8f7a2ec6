"""Frames of Iggy <-> requests, commands and replies, for either role.

A request is u32 length of what follows, u32 code, payload; an answer u32 status, u32 length of the payload, payload;
all little-endian.  What the payload holds is a matter of the generation: generations.py.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Authenticated, Done, Outcome
from gateway.dialects.dialect import Refusal, Request, Terms
from gateway.dialects.iggy import codes as c
from gateway.dialects.iggy.asking import ASKING, authenticate
from gateway.dialects.iggy.faults import failure_of, status_of
from gateway.dialects.iggy.fields import TEXT8, TEXT32, Values, read_fields, unsupported, write_fields
from gateway.dialects.iggy.generations import Generation
from gateway.dialects.iggy.messages import read_send, write_send
from gateway.dialects.iggy.reading import UNREADABLE, reply_of
from gateway.dialects.iggy.requests import MEANINGS, fetch
from gateway.dialects.iggy.said import IggyTerms, Login, Narrowed, asked_in, generation_of
from gateway.dialects.iggy.showing import payload_of

MAX_FRAME = (16 << 20) + 4
"""Bytes of the longest frame: a SEND has 10 MiB of payloads and 100 KiB of headers at the most, and what is around
them.  The server itself knows no limit."""

HEAD = 8
"""Bytes before a payload."""

_u32 = struct.Struct("<I")
_two = struct.Struct("<II")

MAX_TEXT = 512
"""Bytes of the text of an error, in generations that have one."""

OK = bytes(8)
"""The answer of what is done and has nothing more to say: status 0, no payload."""

EMPTY = (c.PING, c.GET_STATS, c.GET_CLUSTER_METADATA, c.GET_ME, c.GET_CLIENTS, c.GET_STREAMS, c.LOGOUT, c.GET_CLIENT)
"""Whose payload is exactly what it should be; behind all others' fields anything may stand."""


def measure_request(held: bytes | bytearray, start: int, scanned: int) -> int:
    """See frames.Measure."""
    return 0 if len(held) - start < 4 else 4 + int(_u32.unpack_from(held, start)[0])


def measure_reply(held: bytes | bytearray, start: int, scanned: int) -> int:
    """See frames.Measure."""
    return 0 if len(held) - start < HEAD else HEAD + int(_u32.unpack_from(held, start + 4)[0])


# -- requests


def decode_request(frame: bytes, terms: Terms) -> Request | Refusal:
    """One whole frame -> Request, or Refusal with the status that answers it.  Its context is a Generation, or what a
    login or a narrowing says of it.
    """
    assert isinstance(terms, IggyTerms), "an Iggy connection has IggyTerms"
    if len(frame) < HEAD:
        return Refusal(CommandFailed(Fault.MALFORMED, "a frame without a code"), context=terms.candidates[0])
    if len(terms.candidates) > 1:
        return _narrowed(frame, terms)
    if len(frame) == HEAD:
        return _bare(frame, terms.candidates[0])
    return _decoded(frame, terms.candidates[0], terms.poll_bytes, strict=False)


@lru_cache(256)
def _bare(frame: bytes, generation: Generation) -> Request | Refusal:
    """What a frame without payload means, such as PING: always the same, so it is made once."""
    return _decoded(frame, generation, 0, strict=False)


def _narrowed(frame: bytes, terms: IggyTerms) -> Request | Refusal:
    """Read in the generations in question that fit exactly; in the likeliest if none does."""
    read = [(at, _decoded(frame, at, terms.poll_bytes, strict=True)) for at in terms.candidates]
    fitting = [(at, request) for at, request in read if not _misread(request)]
    if not fitting:
        return read[0][1]
    request = fitting[0][1]
    if isinstance(request, Refusal) or isinstance(request.context, Login):
        return request
    return Request(request.command, None, Narrowed(tuple(at for at, _ in fitting)))


def _misread(request: Request | Refusal) -> bool:
    return isinstance(request, Refusal) and request.failure.fault is Fault.MALFORMED


def _decoded(frame: bytes, generation: Generation, poll_bytes: int, *, strict: bool) -> Request | Refusal:
    """strict: nothing may stand behind the fields."""
    code: int = _u32.unpack_from(frame, 4)[0]
    try:
        if code == c.POLL or code in MEANINGS:
            return _request(code, frame, generation, poll_bytes, strict)
        if code == c.SEND:
            return Request(read_send(frame, HEAD, generation), None, generation)
        failure = _unknown(code)
    except CommandFailed as error:
        failure = error
    except UNREADABLE as error:
        failure = CommandFailed(Fault.MALFORMED, f"code {code}: {_why(error)}")
    return Refusal(failure, context=generation)


def _request(code: int, frame: bytes, generation: Generation, poll_bytes: int, strict: bool) -> Request:
    context: object = generation
    if code == c.LOGIN:
        values, context, end = _login(frame, strict)
    else:
        fields = generation.requests.get(code)
        if fields is None:
            raise CommandFailed(Fault.UNSUPPORTED, f"code {code} came after this generation")
        values, end = read_fields(fields, frame, HEAD)  # type: ignore[assignment]
    if code == c.LOGIN_WITH_TOKEN:
        context = Login(None, token=True)
    if end != len(frame) and (strict or code in EMPTY):
        raise CommandFailed(Fault.MALFORMED, f"code {code}: {len(frame) - end} bytes too many")
    if code == c.POLL:
        return Request(fetch(values, generation, poll_bytes), None, context)
    return Request(MEANINGS[code](values, generation), None, context)


def _login(frame: bytes, strict: bool) -> tuple[Values, Login, int]:
    """Who logs in, and what that says of the client; it has a version if there is anything behind the password."""
    user, at = TEXT8.read(frame, HEAD)
    password, at = TEXT8.read(frame, at)
    values: Values = {"user": user, "password": password}
    if at == len(frame):
        return values, Login(None), at
    version, at = TEXT32.read(frame, at)
    remark, at = TEXT32.read(frame, at)
    return values, Login(version, remark), at


def _why(error: Exception) -> str:
    match error:
        case UnicodeDecodeError():
            return "a text that is not UTF-8"
        case ValueError() if str(error):
            return str(error)
    return "the payload is cut short"


def _unknown(code: int) -> CommandFailed:
    if code in c.UNSERVED:
        return CommandFailed(Fault.UNSUPPORTED, c.UNSERVED[code])
    return CommandFailed(Fault.MALFORMED, f"no command has the code {code}")


def encode_request(request: Request, terms: Terms) -> bytes:
    """The frame that asks for a command in the generation of the terms; before a login see said.asked_in.

    Raises CommandFailed: UNSUPPORTED, UNREPRESENTABLE.
    """
    generation = asked_in(request, terms)
    try:
        code, payload = _asked(request, generation, terms)
    except struct.error as error:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"a number out of range: {error}") from error
    return _two.pack(4 + len(payload), code) + payload


def _asked(request: Request, generation: Generation, terms: Terms) -> tuple[int, bytes]:
    command = request.command
    if isinstance(command, q.Publish):
        return c.SEND, write_send(command, generation, terms)
    if isinstance(command, q.Authenticate):
        login = request.context if isinstance(request.context, Login) else None
        code, values = authenticate(command, generation, login)
    elif (ask := ASKING.get(type(command))) is not None:
        code, values = ask(command, generation)
    else:
        raise unsupported(type(command).__name__)
    if code not in generation.requests:
        raise unsupported(f"code {code} in generation {generation.name}")
    return code, write_fields(generation.requests[code], values)


# -- answers


def encode_reply(request: Request | Refusal, outcome: Outcome, terms: Terms) -> bytes:
    """The frame that answers.  Raises CommandFailed(UNREPRESENTABLE) for a name or a number that has no room."""
    if type(outcome) is Done:
        return OK
    assert isinstance(terms, IggyTerms), "an Iggy connection has IggyTerms"
    generation = generation_of(request.context, terms)
    if isinstance(outcome, CommandFailed):
        return _failed(outcome, request, generation)
    assert isinstance(request, Request), "a refusal has no other outcome than its failure"
    try:
        payload = payload_of(request.command, outcome, generation, terms)
    except struct.error as error:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"a number out of range: {error}") from error
    return _two.pack(0, len(payload)) + payload


_ABOUT: dict[type, tuple[Fault, ...]] = {
    q.DescribeNamespace: (Fault.NO_SUCH_NAMESPACE,),
    q.DescribeTopic: (Fault.NO_SUCH_NAMESPACE, Fault.NO_SUCH_TOPIC),
    q.DescribeGroup: (Fault.NO_SUCH_NAMESPACE, Fault.NO_SUCH_TOPIC, Fault.NO_SUCH_GROUP, Fault.OTHER_TOPIC),
}
"""Questions, and what may be missing without being an error in generations that answer with nothing then."""


def _failed(failure: CommandFailed, request: Request | Refusal, generation: Generation) -> bytes:
    status = _status(failure, request, generation)
    if not status or not generation.texts:
        return _two.pack(status, 0)
    text = failure.fault.value if failure.fault is Fault.INTERNAL else failure.detail or failure.fault.value
    octets = text.encode(errors="replace")[:MAX_TEXT]
    return _two.pack(status, 4 + len(octets)) + _u32.pack(len(octets)) + octets


def _status(failure: CommandFailed, request: Request | Refusal, generation: Generation) -> int:
    command = request.command if isinstance(request, Request) else None
    if generation.empties and failure.fault in _ABOUT.get(type(command), ()):
        return 0
    return status_of(failure, request, generation)


def decode_reply(request: Request, frame: bytes, terms: Terms) -> Outcome:
    """What an answer says.  Raises CommandFailed(MALFORMED).

    After a login that succeeds the terms know its generation: what is asked from then on is said in that.
    """
    assert isinstance(terms, IggyTerms), "an Iggy connection has IggyTerms"
    status: int = _u32.unpack_from(frame)[0]
    generation = asked_in(request, terms)
    if status:
        return failure_of(status, generation, frame[HEAD + 4 :].decode(errors="replace"))
    outcome = reply_of(request.command, frame[HEAD:], generation)
    if isinstance(outcome, Authenticated):
        terms.agree(generation)
    return outcome
