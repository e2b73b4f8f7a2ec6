"""Frames of the grid <-> commands and replies.  layout.py says what stands where, the operations what it means."""

from __future__ import annotations

import struct
from hashlib import blake2b

from gateway.core.commands import Command, Ping
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical
from gateway.core.replies import Done, Outcome
from gateway.dialects.dialect import Refusal, Request, Tag, Terms
from gateway.dialects.grid.faults import told, understood
from gateway.dialects.grid.hello import check, own_hello, read_hello, write_hello
from gateway.dialects.grid.layout import MAX_TAG, Frame, Head, cut, read_head, tag_of, write, write_plain
from gateway.dialects.grid.messages import values_of
from gateway.dialects.grid.operation import malformed, read_i64, sure, topic_of, write_i64, write_name
from gateway.dialects.grid.service import OPERATIONS, UNSUBSCRIBE, opcode_of
from gateway.dialects.grid.terms import HEAD, MAX_BODY, Asked, GridTerms, Hello, NoFrame, Unknown, grid_terms

HELLO, HELLO_ACK, MESSAGE = "PROTOCOL_HELLO", "PROTOCOL_HELLO_ACK", "TOPIC_MESSAGE"

MAX_FRAME = HEAD + MAX_BODY

_KEPT = {"PING": "value", UNSUBSCRIBE: "name"}
"""The field of a request that its answer, or the session, needs and its command does not say."""

_FOREIGN = Refusal(malformed("that is not the grid's protocol"), closing=True, context=NoFrame())

# -- requests


def decode_request(frame: bytes, terms: Terms) -> Request | Refusal:
    """One frame -> the command, or why it is none.  A hello is agreed on as it is read, and holds for what follows."""
    assert isinstance(terms, GridTerms), "a grid connection has GridTerms"
    try:
        magic, number, tag, size, _, _, _, _, version = head = read_head(frame)
    except struct.error:
        return _FOREIGN
    if magic != terms.magic or version not in terms.versions or size > terms.limit:
        return _not_taken(head, terms)
    opcode = terms.opcodes.name.get(number, "")
    operation = OPERATIONS.get(opcode)
    try:
        if operation is None:
            return _other(opcode, head, frame, terms)
        fields = cut(head, frame, terms)
        command = operation.read(fields, terms)
    except CommandFailed as failure:
        return Refusal(failure, tag, context=Asked(version=version))
    octets = getattr(fields, _KEPT[opcode]) if opcode in _KEPT else b""
    digest = _digest(fields) if operation.changes and fields.sender else b""
    return Request(command, tag, Asked(opcode, version, fields.sender, fields.key != b"", octets, digest))


def _not_taken(head: Head, terms: GridTerms) -> Refusal:
    """A frame whose header ends the connection."""
    magic, _, tag, size, _, _, _, _, version = head
    if magic != terms.magic:
        return _FOREIGN
    if version not in terms.versions:
        failure = malformed(f"version {version} is not spoken here")
        return Refusal(failure, tag, closing=True, context=NoFrame())
    failure = CommandFailed(Fault.TOO_LARGE, f"a body of {size} bytes, {terms.limit} is the limit")
    return Refusal(failure, tag, closing=True, context=Asked(version=version))


def _other(opcode: str, head: Head, frame: bytes, terms: GridTerms) -> Request | Refusal:
    """A hello, or what is no operation here."""
    _, number, tag, _, _, key, _, name, version = head
    if not opcode:
        failure = CommandFailed(Fault.UNSUPPORTED, f"no operation has the opcode {number:#04x} here")
        context = Unknown(version=version, number=number, name_length=name, key_length=key)
        return Refusal(failure, tag, context=context)
    if opcode != HELLO:
        raise CommandFailed(Fault.UNSUPPORTED, f"{opcode} is not served here")
    hello = read_hello(cut(head, frame, terms).value, opcode, version)
    check(hello, terms)
    terms.agree(hello.bitmap)
    return Request(Ping(), tag, hello)


def _digest(fields: Frame) -> bytes:
    """Equal for requests that are equal but for their correlation id and how they are compressed."""
    parts = fields.name, fields.sender or b"", fields.key, fields.value
    lengths = struct.pack(">B4I", fields.opcode, *map(len, parts))
    return blake2b(b"".join((lengths, *parts)), digest_size=16).digest()


def encode_request(request: Request, terms: Terms) -> bytes:
    """The frame of a command.  Raises CommandFailed: UNSUPPORTED, UNREPRESENTABLE, TOO_LARGE."""
    terms = grid_terms(terms)
    asked = request.context if isinstance(request.context, Asked) else Asked(version=terms.grid.versions[0])
    if isinstance(asked, Hello):
        return _frame(HELLO, request, asked, terms, value=write_hello(asked))
    opcode = asked.opcode or opcode_of(request.command, terms)
    parts = OPERATIONS[opcode].write(request.command, asked, terms)
    name = asked.octets if opcode == UNSUBSCRIBE else _name(request.command, terms)
    return _frame(opcode, request, asked, terms, name=name, key=parts.key, value=parts.value)


def _name(command: Command, terms: GridTerms) -> bytes:
    topic = getattr(command, "topic", None)
    return b"" if topic is None else write_name(topic, terms)


def _frame(
    opcode: str, request: Request, asked: Asked, terms: GridTerms, *, name: bytes = b"", key: bytes = b"", value: bytes
) -> bytes:
    frame = Frame(
        opcode=terms.opcodes.code[opcode],
        tag=_tag(request),
        version=asked.version,
        name=name,
        sender=asked.sender,
        key=key,
        value=value,
    )
    return write(frame, terms, plain=opcode == HELLO)


def _tag(request: Request | Refusal) -> int:
    tag = request.tag or 0
    if not isinstance(tag, int) or not 0 <= tag <= MAX_TAG:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"the correlation id {tag!r}")
    return tag


# -- answers


def encode_reply(request: Request | Refusal, outcome: Outcome, terms: Terms) -> bytes:
    """The frame that answers, with the version of the request; nothing to what is not the grid's protocol.

    Raises CommandFailed: UNREPRESENTABLE, TOO_LARGE for an answer beyond the limit, NOT_A_NUMBER for a counter.
    """
    assert isinstance(terms, GridTerms), "a grid connection has GridTerms"
    asked = request.context
    if type(asked) is not Asked or not asked.opcode or isinstance(outcome, CommandFailed):
        return _encode_reply(request, outcome, terms)
    command = request.command  # type: ignore[union-attr]  # a refusal has no other outcome than its failure
    status, value = "OK", asked.octets
    if asked.opcode != "PING":
        status, value = OPERATIONS[asked.opcode].answer.show(command, outcome, terms)
    if terms.agreed or len(value) > terms.limit:
        return write(Frame(terms.ok, _tag(request), asked.version, terms.statuses.code[status], value=value), terms)
    return write_plain(request.tag, asked.version, terms.statuses.code[status], value, terms)


def _encode_reply(request: Request | Refusal, outcome: Outcome, terms: GridTerms) -> bytes:
    """The same for what is no plain answer to what was asked: a failure, a hello, what a client has asked."""
    asked = request.context if isinstance(request.context, Asked) else Asked(version=terms.grid.versions[0])
    if isinstance(asked, NoFrame):
        return b""
    opcode, status, value = _said(request, asked, outcome, terms)
    code, shown = terms.opcodes.code[opcode], terms.statuses.code[status]
    failed = isinstance(outcome, CommandFailed)  # which can be said in any case, and shortly
    answer = Frame(code, _tag(request), asked.version, shown, value=value)
    return write(answer, terms, plain=opcode == HELLO_ACK or failed, bounded=not failed)


def _said(request: Request | Refusal, asked: Asked, outcome: Outcome, terms: GridTerms) -> tuple[str, str, bytes]:
    if isinstance(outcome, CommandFailed):
        return told(outcome, terms)
    assert isinstance(request, Request), "a refusal has no other outcome than its failure"
    if isinstance(asked, Hello):
        return HELLO_ACK, "OK", write_hello(own_hello(terms))
    opcode = opcode_of(request.command, terms)
    if opcode == "PING":
        return "RESPONSE_OK", "OK", asked.octets
    return "RESPONSE_OK", *OPERATIONS[opcode].answer.show(request.command, outcome, terms)


def decode_reply(request: Request, frame: bytes, terms: Terms) -> Outcome:
    """What an answer says.  After the answer to a hello, `terms` know what was agreed on.

    Raises CommandFailed: MALFORMED for what is no answer to that request, and what unpacking it raises.
    """
    terms = grid_terms(terms)
    opcode, fields = _heard(frame, terms)
    status = terms.statuses.name.get(fields.status, "")
    context = request.context
    if opcode == HELLO_ACK and isinstance(context, Hello):
        theirs = read_hello(fields.value, opcode, fields.version)
        check(theirs, terms)
        terms.agree(theirs.bitmap)
        return Done()
    if opcode != "RESPONSE_OK":
        if opcode not in _FAILURES:
            raise malformed(f"{opcode} answers nothing that was asked")
        return understood(opcode, status, fields.value, request.command)
    asked = context.opcode if isinstance(context, Asked) else ""
    if isinstance(context, Hello):
        raise malformed("a hello is not answered with RESPONSE_OK")
    name = asked or opcode_of(request.command, terms)
    return OPERATIONS[name].answer.hear(request.command, status, fields.value, terms)


_FAILURES = ("RESPONSE_ERROR", "RESPONSE_REDIRECT", "RESPONSE_SERVER_BUSY", "RESPONSE_SEQUENCE_LOST")


def _heard(frame: bytes, terms: GridTerms) -> tuple[str, Frame]:
    """The name of an answer's opcode, and its fields."""
    if len(frame) < HEAD or frame[0] != terms.grid.magic:
        raise malformed("that is not the grid's protocol")
    head = read_head(frame)
    number, version = head[1], head[-1]
    if version not in terms.versions:
        raise malformed(f"version {version} is not spoken here")
    return terms.opcodes.name.get(number, f"the opcode {number:#04x}"), cut(head, frame, terms)


def reply_tag(frame: bytes) -> Tag:
    """The correlation id of any frame, None if there is not enough of it."""
    return tag_of(frame) if len(frame) >= HEAD else None


# -- pushes


def encode_push(request: Request, batch: RecordBatch, terms: Terms) -> bytes:
    """A TOPIC_MESSAGE for every record: i64 sequence, then the message.  They answer nothing, so the version is ours.

    Raises CommandFailed(TOO_LARGE).
    """
    terms = grid_terms(terms)
    name = _name(request.command, terms)
    frames = [
        Frame(
            opcode=terms.opcodes.code[MESSAGE],
            tag=_tag(request),
            version=terms.grid.versions[0],
            name=name,
            value=write_i64(sequence) + value,
        )
        for sequence, value in enumerate(values_of(batch.records(), batch.origin, terms), batch.base)
    ]
    return b"".join([write(frame, terms) for frame in frames])


def decode_push(request: Request, frame: bytes, terms: Terms) -> RecordBatch | CommandFailed | None:
    """A message -> its batch; None = the subscription has begun; or the failure that ends it.

    Raises CommandFailed(MALFORMED).
    """
    terms = grid_terms(terms)
    opcode, fields = _heard(frame, terms)
    if opcode == "RESPONSE_OK":
        return None
    if opcode in _FAILURES:
        return understood(opcode, terms.statuses.name.get(fields.status, ""), fields.value, request.command)
    if opcode != MESSAGE or topic_of(fields, terms) != getattr(request.command, "topic", None):
        raise malformed(f"{opcode} is no message of that topic")
    sequence, message = read_i64(fields.value[:8], "a sequence"), terms.codec.taken(fields.value[8:])
    batch = sure(canonical([Record(None, message)], "grid"), RecordBatch)
    return RecordBatch(batch.encoding, batch.body, 1, sequence, 0, "grid")
