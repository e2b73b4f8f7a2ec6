"""What answers a batch and a PUBLISH: one JSON object, or `OK`.  Source: protocol page, section 3."""

from __future__ import annotations

from typing import cast

import msgspec

from gateway.core.commands import Acks, Publish
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Outcome, Published
from gateway.dialects.cursus.errors import failure_of
from gateway.dialects.cursus.terms import Produced
from gateway.dialects.dialect import Request


class Ack(msgspec.Struct, omit_defaults=True, gc=False):
    """The JSON that answers a batch, keys in this order; without leader and error where they are empty."""

    status: str
    last_offset: int
    producer_epoch: int
    producer_id: str
    seq_start: int
    seq_end: int
    leader: str = ""
    error: str = ""


_encode = msgspec.json.Encoder().encode


def write_ack(request: Request, reply: Published) -> bytes:
    """A batch without acks is answered too, since Java and Python wait for it; a text PUBLISH with `OK`."""
    said = said_of(request)
    if not said.batched and cast(Publish, request.command).acks is Acks.NONE:
        return b"OK"
    producer = said.producer.decode("utf-8", "replace")
    return _encode(Ack("OK", reply.last, said.epoch, producer, said.first, said.last))


def write_failed_ack(request: Request, error: str) -> bytes:
    """The ack of a batch that is out of sequence: the real broker hangs up, all clients stop cleanly at this."""
    said = said_of(request)
    producer = said.producer.decode("utf-8", "replace")
    return _encode(Ack("ERROR", 0, said.epoch, producer, said.first, said.last, "", error))


def said_of(request: Request) -> Produced:
    """What is known of a batch or PUBLISH."""
    return request.context if isinstance(request.context, Produced) else Produced("PUBLISH")


class _HeardAck(msgspec.Struct):
    """An ack as any broker may write it; what is missing is 0 or empty."""

    status: str = ""
    last_offset: int = 0
    seq_start: int = 0
    seq_end: int = 0
    leader: str = ""
    error: str = ""


_decode = msgspec.json.Decoder(_HeardAck).decode


def read_ack(command: Publish, text: str) -> Outcome:
    """What an ack says to a Publish.

    PARTIAL says how far it got by seq_end, and is a failure unless that is all; `OK` alone, to acks=0, says nothing of
    offsets.  Raises ValueError.
    """
    partition = command.to if isinstance(command.to, int) else 0
    if text == "OK":
        return Published(partition, 0, 0)
    ack = _decode(text)
    if ack.status == "ERROR":
        return _failed(ack)
    if ack.status not in ("OK", "PARTIAL"):
        raise ValueError(f"status {ack.status}")
    count = command.batch.count
    stored = count if ack.status == "OK" else ack.seq_end - ack.seq_start + 1
    if stored < count:
        return CommandFailed(Fault.UNAVAILABLE, f"{stored} of {count} records were stored, up to {ack.last_offset}")
    return Published(partition, max(ack.last_offset - count + 1, 0), ack.last_offset)


def _failed(ack: _HeardAck) -> CommandFailed:
    """The leader has a place of its own in an ack."""
    failure = failure_of(ack.error)
    if failure.fault is Fault.NOT_LEADER and ack.leader:
        failure.facts.setdefault("leader", ack.leader)
    return failure
