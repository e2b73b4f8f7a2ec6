"""Frames of the native dialect <-> commands and replies.  The package's docstring says what they look like.

Decoding is typed throughout: msgspec builds nothing that the model has no place for, and believes no declared length.
That is also why batches are decoded by twins of the Structs that hold them: a field of type Encoding would be decoded
as "anything" first (64 MiB of empty maps are 4 GiB of dicts).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import reduce
from operator import or_
from types import GenericAlias
from typing import Annotated, Literal, get_args

import msgspec

from gateway.core.commands import Acks, Balanced, ByKey, Command, Ping, Publish, Topic
from gateway.core.faults import CommandFailed, Fact, Fault
from gateway.core.records import Encoding, RecordBatch, canonical
from gateway.core.replies import Done, Outcome, Records, Reply
from gateway.dialects.dialect import Refusal, Request, Tag, Terms
from gateway.dialects.native.answers import ANSWERS
from gateway.dialects.native.faults import told, understood
from gateway.dialects.native.ranges import out_of_range
from gateway.dialects.native.session import VERSION, Hello, NativeTerms

MAX_FRAME = (64 << 20) + 4
SHORT = (1 << 20) + 4
"""Bytes of the longest frame of a command that carries no records and no values.  Decoded, a map of offsets or labels
takes about 30 times its bytes."""

LONG = {"Publish", "MapPut", "MapRemove", "MapScan"}

KINDS = {kind.__name__ for kind in get_args(Command)}

_length = struct.Struct(">I")
_Tag = Annotated[int, msgspec.Meta(ge=0, le=0xFFFFFFFF)]


def measure(held: bytes | bytearray, start: int, scanned: int) -> int:
    """Bytes of the frame at `start`: u32be length, and that many.  For requests and replies."""
    if len(held) - start < 4:
        return 0
    size: int = _length.unpack_from(held, start)[0]
    return size + 4


# -- what is decoded


class _Batch(msgspec.Struct, frozen=True, array_like=True):
    """RecordBatch with the encoding's name."""

    encoding: str
    body: bytes
    count: int
    base: int = 0
    timestamp: int = 0
    origin: str = ""

    def known(self, terms: Terms) -> RecordBatch:
        encoding = terms.encodings.get(self.encoding)
        if encoding is None:
            raise CommandFailed(Fault.MALFORMED, f"no record encoding is called {self.encoding[:64]!r} here")
        return RecordBatch(encoding, self.body, self.count, self.base, self.timestamp, self.origin)


class _Publish(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag="Publish"):
    topic: Topic
    to: int | ByKey | Balanced
    batch: _Batch
    acks: Acks = Acks.LEADER
    create: int = 0


class _Records(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag="Records"):
    partition: int
    start: int
    end: int
    batches: tuple[_Batch, ...] = ()


def _tagged(union: object, twin: type[msgspec.Struct]) -> GenericAlias:
    """[tag, one of the union], where the Struct that has a twin is left to it."""
    kinds = [twin if kind.__name__ == twin.__struct_config__.tag else kind for kind in get_args(union)]
    return GenericAlias(tuple, (_Tag, reduce(or_, kinds)))


class _Envelope(msgspec.Struct, array_like=True):
    """As much of a frame as can be read of any."""

    tag: _Tag
    rest: msgspec.Raw = msgspec.Raw()


class _Kind(msgspec.Struct, array_like=True):
    """As much of a command."""

    kind: str


_Hello = tuple[Literal[0], Literal["hello"], int, tuple[str, ...]]
_Failure = tuple[_Tag, Literal["!"], str, str, dict[str, Fact]]
_Push = tuple[_Tag, Literal[">"], _Batch]

_command: Callable[[bytes], tuple[int, Command | _Publish]]
_command = msgspec.msgpack.Decoder(_tagged(Command, _Publish)).decode
_reply: Callable[[bytes], tuple[int, Reply | _Records]]
_reply = msgspec.msgpack.Decoder(_tagged(Reply, _Records)).decode
_hello = msgspec.msgpack.Decoder(_Hello).decode
_failure = msgspec.msgpack.Decoder(_Failure).decode
_push: Callable[[bytes], tuple[int, str, _Batch]] = msgspec.msgpack.Decoder(_Push).decode
_envelope = msgspec.msgpack.Decoder(_Envelope).decode
_kind = msgspec.msgpack.Decoder(_Kind).decode
_word = msgspec.msgpack.Decoder(str).decode

_UNREADABLE = (ValueError, RecursionError)
"""What msgspec raises: DecodeError and UnicodeDecodeError are ValueErrors."""


# -- requests


def decode_request(frame: bytes, terms: Terms) -> Request | Refusal:
    """One whole frame -> the command, or the hello as a Ping with its Hello for context, or why it is neither."""
    body = frame[4:]
    try:
        if len(frame) > SHORT and _kind_of(body) in KINDS - LONG:
            return _refused(body, Fault.TOO_LARGE, f"{len(frame)} bytes, {SHORT} is the limit for this command")
        tag, command = _command(body)
    except _UNREADABLE as error:
        return _greeting(body) or _no_command(body, error)
    if isinstance(command, _Publish):
        try:
            batch = _walked(command.batch.known(terms))
        except CommandFailed as failure:
            return Refusal(failure, tag)
        command = Publish(command.topic, command.to, batch, command.acks, command.create)
    if (complaint := out_of_range(command)) is not None:
        return Refusal(CommandFailed(Fault.INVALID_ARGUMENT, complaint), tag)
    return Request(command, tag)


def encode_request(request: Request, terms: Terms) -> bytes:
    """The frame of a command or, where that is the context, of a hello.

    Raises CommandFailed: UNREPRESENTABLE for text that is not Unicode, TOO_LARGE for more than MAX_FRAME bytes,
    INVALID_ARGUMENT and EMPTY_BATCH for what every server would refuse as that.
    """
    command, tag = request.command, request.tag or 0
    if isinstance(request.context, Hello):
        return _frame((tag, "hello", request.context.version, request.context.encodings))
    if (complaint := out_of_range(command)) is not None:
        raise CommandFailed(Fault.INVALID_ARGUMENT, complaint)
    if isinstance(command, Publish):
        if not command.batch.count:
            raise CommandFailed(Fault.EMPTY_BATCH)
        command = msgspec.structs.replace(command, batch=_readable(command.batch, terms))
    return _frame((tag, command))


def _walked(batch: RecordBatch) -> RecordBatch:
    count = batch.encoding.walk(batch.body)
    if count != batch.count:
        raise CommandFailed(Fault.MALFORMED, f"the batch has {count} records, not {batch.count}")
    if not count:
        raise CommandFailed(Fault.EMPTY_BATCH)
    return batch


def _greeting(body: bytes) -> Request | Refusal | None:
    try:
        tag, _, version, encodings = _hello(body if len(body) < SHORT else b"")
    except _UNREADABLE:
        return None
    if version != VERSION:
        text = f"version {VERSION} of the command model is spoken here, not {version}"
        return Refusal(CommandFailed(Fault.UNSUPPORTED, text), tag, closing=True)
    return Request(Ping(), tag, Hello(version, encodings))


def _no_command(body: bytes, error: Exception) -> Refusal:
    kind = _kind_of(body)
    if kind is None or kind in KINDS:
        return _refused(body, Fault.MALFORMED, str(error))
    return _refused(body, Fault.UNSUPPORTED, f"no command is called {kind[:64]!r}")


def _refused(body: bytes, fault: Fault, detail: str) -> Refusal:
    return Refusal(CommandFailed(fault, detail), reply_tag(b"...." + body) or 0)


def _kind_of(body: bytes) -> str | None:
    try:
        return _kind(_envelope(body).rest).kind
    except _UNREADABLE:
        return None


# -- answers


def encode_reply(request: Request | Refusal, outcome: Outcome, terms: Terms) -> bytes:
    """The frame that answers.  Raises CommandFailed(TOO_LARGE) for a reply of more than MAX_FRAME bytes."""
    tag = request.tag or 0
    if isinstance(outcome, CommandFailed):
        return _frame((tag, "!", *told(outcome)))
    if isinstance(request.context, Hello):
        return _frame((tag, "hello", VERSION, sorted(terms.encodings)))
    if isinstance(outcome, Records):
        batches = tuple([_readable(batch, terms) for batch in outcome.batches])
        outcome = Records(outcome.partition, outcome.start, outcome.end, batches)
    return _frame((tag, outcome))


def decode_reply(request: Request, frame: bytes, terms: Terms) -> Outcome:
    """What a frame says of a request.  The answer to a hello is Done, and `terms` then know what the server reads.

    Batches are taken as they are: the server walked them.  Raises CommandFailed(MALFORMED) for what is no reply of the
    kind that the command names, or has a record encoding unknown here.
    """
    body = frame[4:]
    if isinstance(request.context, Hello):
        return _greeted(body, terms)
    try:
        _, reply = _reply(body)
    except _UNREADABLE as error:
        return _failed(body, error)
    if isinstance(reply, _Records):
        batches = tuple([batch.known(terms) for batch in reply.batches])
        reply = Records(reply.partition, reply.start, reply.end, batches)
    if type(reply) is not ANSWERS.get(type(request.command)):
        raise CommandFailed(Fault.MALFORMED, f"{type(reply).__name__} does not answer {type(request.command).__name__}")
    return reply


def reply_tag(frame: bytes) -> Tag:
    """The tag of any frame, None if it has none."""
    try:
        return _envelope(frame[4:]).tag
    except _UNREADABLE:
        return None


def _greeted(body: bytes, terms: Terms) -> Outcome:
    try:
        _, _, version, encodings = _hello(body)
    except _UNREADABLE as error:
        return _failed(body, error)
    if version != VERSION:
        raise CommandFailed(Fault.UNSUPPORTED, f"version {version} of the command model is spoken there, not {VERSION}")
    assert isinstance(terms, NativeTerms)
    terms.agree(encodings)
    return Done()


def _failed(body: bytes, error: Exception) -> CommandFailed:
    try:
        _, _, name, detail, facts = _failure(body)
    except _UNREADABLE:
        raise CommandFailed(Fault.MALFORMED, f"no answer: {error}") from error
    return understood(name, detail, facts)


# -- pushes


def encode_push(request: Request, batch: RecordBatch, terms: Terms) -> bytes:
    """Frames with the records of a batch: one, or more where one would be longer than MAX_FRAME."""
    try:
        return _frame((request.tag or 0, ">", _readable(batch, terms)))
    except CommandFailed:
        if batch.count < 2:
            raise
    half = batch.count // 2
    return encode_push(request, batch.cut(0, half), terms) + encode_push(request, batch.cut(half, batch.count), terms)


def decode_push(request: Request, frame: bytes, terms: Terms) -> RecordBatch | CommandFailed | None:
    """A pushed frame -> its batch, or the failure that ends the Follow.

    Raises CommandFailed(MALFORMED) if it is neither.
    """
    try:
        _, _, batch = _push(frame[4:])
    except _UNREADABLE as error:
        return _failed(frame[4:], error)
    return batch.known(terms)


# -- what is encoded


def _named(value: object) -> str:
    assert isinstance(value, Encoding)
    return value.name


_encode = msgspec.msgpack.Encoder(enc_hook=_named).encode


def _frame(value: object) -> bytes:
    try:
        body = _encode(value)
    except (OverflowError, UnicodeEncodeError) as error:
        raise CommandFailed(Fault.UNREPRESENTABLE, str(error)) from error
    if len(body) + 4 > MAX_FRAME:
        raise CommandFailed(Fault.TOO_LARGE, f"a frame of {len(body) + 4} bytes, {MAX_FRAME} is the limit")
    return _length.pack(len(body)) + body


def _readable(batch: RecordBatch, terms: Terms) -> RecordBatch:
    """The batch in an encoding that the other end reads."""
    assert isinstance(terms, NativeTerms)
    if batch.encoding.name in terms.reads:
        return batch
    as_canonical = canonical(batch.records(), batch.origin)
    return msgspec.structs.replace(as_canonical, base=batch.base, timestamp=batch.timestamp)
