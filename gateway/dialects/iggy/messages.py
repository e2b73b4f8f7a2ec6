"""SEND: a batch that arrives as one body and is kept as one, and how our client sends it.

    g0 to g1b  stream, topic, partitioning, messages to the end of the frame
    g2a on     u32 length of what follows up to and with the count, stream, topic, partitioning, u32 count, an index
               entry of 16 bytes for each message, the messages

Source: protocol page, sections 1 and 3.
"""

from __future__ import annotations

from gateway.core.commands import ByKey, Publish, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding, RecordBatch
from gateway.dialects.dialect import Terms
from gateway.dialects.iggy import codes as c
from gateway.dialects.iggy.converting import messages_of
from gateway.dialects.iggy.fields import U32, Values, read_fields, unsupported, write_fields
from gateway.dialects.iggy.generations import Generation
from gateway.dialects.iggy.layout_g0 import read_g0, write_g0
from gateway.dialects.iggy.layout_g2 import read_g2, write_g2
from gateway.dialects.iggy.places import bounded
from gateway.dialects.iggy.shape import prefix, weights


def read_send(frame: bytes, at: int, generation: Generation) -> Publish:
    """The command of a SEND whose payload begins at `at`.

    Raises CommandFailed, or what reading damaged bytes raises.
    """
    values, count, messages = (_read_indexed if generation.indexed else _read_plain)(frame, at, generation)
    to = values["to"]
    if isinstance(to, int) and to < 0:
        raise CommandFailed(Fault.NO_SUCH_PARTITION, "partitions are numbered from 1")
    key = to.key if isinstance(to, ByKey) else b""
    batch = RecordBatch(generation.encoding, prefix(key) + messages, count, origin="iggy")
    return Publish(Topic(values["stream"], values["topic"]), to, batch)


def _read_plain(frame: bytes, at: int, generation: Generation) -> tuple[Values, int, bytes]:
    values, at = read_fields(generation.requests[c.SEND], frame, at)
    return values, *read_g0(frame[at:])  # type: ignore[return-value]


def _read_indexed(frame: bytes, at: int, generation: Generation) -> tuple[Values, int, bytes]:
    length, at = U32.read(frame, at)
    values, end = read_fields(generation.requests[c.SEND], frame, at)
    count, end = U32.read(frame, end)
    if end != at + length:
        raise ValueError(f"the fields before the messages have {end - at} bytes, not {length}")
    return values, count, read_g2(generation.encoding, count, frame[end:])  # type: ignore[return-value]


def write_send(command: Publish, generation: Generation, terms: Terms) -> bytes:
    """The payload of a SEND.  Raises CommandFailed: UNSUPPORTED, UNREPRESENTABLE, TOO_LARGE."""
    if not command.batch.count:
        raise unsupported("a batch of nothing")
    if command.create:
        raise unsupported("making a topic with its first message")
    values = {"stream": command.topic.namespace, "topic": command.topic.name, "to": command.to}
    head = write_fields(generation.requests[c.SEND], values)
    said = command.to.key if isinstance(command.to, ByKey) else b""
    messages = messages_of(command.batch, generation.encoding, terms.losses, terms.policy, said)
    check_limits(generation.encoding, command.batch.count, messages)
    if not generation.indexed:
        return head + write_g0(messages)
    head += U32.write(command.batch.count)
    return U32.write(len(head)) + head + write_g2(generation.encoding, messages)


def check_limits(encoding: Encoding, count: int, messages: bytes) -> None:
    """Raise what becomes of messages that every server refuses: those up to 0.4 by hanging up without a word."""
    payloads, values = weights(encoding, messages)
    if not payloads:
        raise CommandFailed(Fault.UNREPRESENTABLE, "Iggy takes no batch whose payloads are all empty")
    bounded(count, payloads, values)
