"""The frames of a STREAM: batches, signs of life, and the end.  Source: protocol page, section 4."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from gateway.core.commands import Follow, Next
from gateway.core.faults import CommandFailed, Fact, Fault
from gateway.core.records import RecordBatch
from gateway.dialects.cursus.batch import MAGIC, read_data, write_pushes
from gateway.dialects.cursus.errors import CONTROL, failure_of
from gateway.dialects.cursus.terms import CursusTerms
from gateway.dialects.cursus.text import fields_of
from gateway.dialects.dialect import Request, Terms

KEEPALIVE = bytes(4)
"""A frame of nothing."""

_length = struct.Struct(">I")


def lowest(command: Follow) -> int:
    """The lowest offset that a stream may begin at; where it does, the commits of its group have a say in."""
    start = command.start.floor if isinstance(command.start, Next) else command.start
    return start if isinstance(start, int) else 0


# -- the server


def encode_push(request: Request, batch: RecordBatch, terms: Terms) -> bytes:
    """The frames that push a batch; b"" if it has no records, since an empty batch is never pushed.

    Raises CommandFailed(UNREPRESENTABLE).
    """
    command = request.command
    assert isinstance(command, Follow), "only a Follow is pushed to"
    payloads = write_pushes(command.topic, command.partition, batch, terms.losses)
    return b"".join(part for payload in payloads for part in (_length.pack(len(payload)), payload))


def end_text(reason: str, offset: int, bounds: Mapping[str, Fact]) -> str:
    """What a stream says at its end.

    reason: in the words of the broker.
    offset: the next one that it would have sent.
    bounds: for `offset_out_of_range`: requested, earliest and latest.
    """
    text = f"{CONTROL} type=CLOSE reason={reason} offset={offset}"
    if reason != "offset_out_of_range":
        return text
    requested, earliest, latest = (bounds.get(name, 0) for name in ("requested", "earliest", "latest"))
    return f"{text} requested={requested} earliest={earliest} latest={latest}"


def encode_end(reason: str, offset: int, bounds: Mapping[str, Fact]) -> bytes:
    """The frame that ends a stream: see `end_text`."""
    payload = end_text(reason, offset, bounds).encode()
    return _length.pack(len(payload)) + payload


# -- the client


def decode_push(request: Request, frame: bytes, terms: Terms) -> RecordBatch | CommandFailed | None:
    """A frame of a stream -> its records, None for a sign of life, CommandFailed for the end of it.

    Where the offsets of records have gaps (a broker leaves out what a transaction took back), a batch cannot hold them:
    that is an end too, UNREPRESENTABLE, rather than wrong offsets; a Fetch can read on from there.
    Raises CommandFailed(MALFORMED) for what is no frame of a stream.
    """
    assert isinstance(terms, CursusTerms), "a Cursus listener has CursusTerms"
    payload = frame[4:]
    if len(frame) < 4 or _length.unpack_from(frame)[0] != len(payload):
        raise CommandFailed(Fault.MALFORMED, "the length does not fit the frame")
    if payload.startswith(MAGIC):
        return _batch(frame)
    text = payload.decode("utf-8", "replace").strip()
    if not text or (text.startswith(CONTROL) and fields_of(text).get("type") != "CLOSE"):
        return None
    if not text.startswith((CONTROL, "ERROR")):
        raise CommandFailed(Fault.MALFORMED, f"not a frame of a stream: {text[:80]}")
    return failure_of(text)


def _batch(frame: bytes) -> RecordBatch | CommandFailed | None:
    _, batches = read_data(frame)
    if len(batches) > 1:
        return CommandFailed(Fault.UNREPRESENTABLE, f"records are missing after offset {batches[0].end - 1}")
    return batches[0] if batches else None
