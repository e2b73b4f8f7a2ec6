"""Records of other encodings in a layout of Iggy; and what of them it has no place for.

A reader of this wire never sees a key.  Records are taken apart field by field, for all of a batch at once: looking at
one record after the other is twice the price.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding, RecordBatch
from gateway.dialects.iggy import layout_g0, layout_g2
from gateway.dialects.iggy.fidelity import POLLED, SENT
from gateway.dialects.iggy.headers import Blocks
from gateway.dialects.iggy.layout_g0 import IGGY_G0
from gateway.dialects.iggy.layout_g2 import G2B, G2C, IGGY_G2B, IGGY_G2C
from gateway.dialects.iggy.shape import split
from gateway.dialects.losses import Losses, lose

_WRITE: dict[Encoding, Callable[..., bytes]] = {
    IGGY_G0: layout_g0.write_messages,
    IGGY_G2B: partial(layout_g2.write_messages, G2B.fixed),
    IGGY_G2C: partial(layout_g2.write_messages, G2C.fixed),
}
"""Encoding -> how messages are written: offsets, times, ids, times of origin, values, blocks of headers."""


def messages_of(
    batch: RecordBatch, encoding: Encoding, losses: Losses, policy: str = "replace", sent: bytes | None = None
) -> bytes:
    """The messages of a batch in poll layout, with its offsets and times, no key; a body in `encoding` is only sliced.

    encoding: IGGY_G0, IGGY_G2B or IGGY_G2C.  What this wire has no place for is counted in `losses`.
    policy:   what becomes of text in headers that is not UTF-8.
    sent:     None = for a poll answer, joined; else for SEND, `write_g0(messages)` or `write_g2(encoding, messages)`,
              which says this key for all of them.
    Raises CommandFailed(UNREPRESENTABLE) for a number beyond 64 bits, and what policy `reject` refuses.
    """
    if batch.encoding is encoding:
        key, messages = split(batch.body)
        _count_keys([key] * batch.count if key else [], sent, batch.origin, losses)
        return messages
    columns = list(zip(*map(msgspec.structs.astuple, batch.records()), strict=True))
    keys, values, headers, own, origins, ids, *_ = columns  # in the order of core.records.Record
    blocks = Blocks(encoding is IGGY_G2C, policy)
    written = [blocks.write(each) if each else b"" for each in headers]
    moments = [moment or at for at, moment in enumerate(own, batch.timestamp)]
    texts = [value or b"" for value in values] if None in values else values
    try:
        messages = _WRITE[encoding](
            range(batch.base, batch.end), moments, [id[::-1] for id in ids], origins, texts, written
        )
    except struct.error as error:
        raise CommandFailed(Fault.UNREPRESENTABLE, "a number that this wire has no room for") from error
    (POLLED if sent is None else SENT).count_columns(columns, batch.origin, losses)
    _count_keys(keys, sent, batch.origin, losses)
    lost = {"headers": blocks.changed, "header_kinds": blocks.untyped}
    lost["origin_timestamp"] = batch.count - origins.count(0) if encoding is IGGY_G0 else 0
    for field in filter(lost.get, lost):
        lose(losses, batch.origin, "iggy", field, lost[field])
    return messages


def _count_keys(keys: Sequence[bytes | None], sent: bytes | None, origin: str, losses: Losses) -> None:
    """Keys of which the one that a SEND says is not one.  Those that no poll shows are in the tally."""
    if sent is not None and (times := sum([bool(key) and key != sent for key in keys])):
        lose(losses, origin, "iggy", "key", times)
