"""Records of other encodings in a layout of Iggy; and what of them it has no place for.

A reader of this wire never sees a key.  Records are taken apart field by field, for all of a batch at once: looking at
one record after the other is twice the price.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding, Header, HeaderKind, RecordBatch
from gateway.dialects.dialect import Losses
from gateway.dialects.iggy import layout_g0, layout_g2
from gateway.dialects.iggy.headers import carried, write_headers
from gateway.dialects.iggy.layout_g0 import IGGY_G0
from gateway.dialects.iggy.layout_g2 import G2B, G2C, IGGY_G2B, IGGY_G2C
from gateway.dialects.iggy.shape import split

_WRITE: dict[Encoding, Callable[..., bytes]] = {
    IGGY_G0: layout_g0.write_messages,
    IGGY_G2B: partial(layout_g2.write_messages, G2B.fixed),
    IGGY_G2C: partial(layout_g2.write_messages, G2C.fixed),
}
"""Encoding -> how messages are written: offsets, times, ids, times of origin, values, blocks of headers."""

_DROPPED = ("producer", "epoch", "sequence", "event_type", "schema_version", "aggregate_version", "metadata", "expiry")
_UNSET: dict[type, object] = {bytes: b"", int: 0}


def messages_of(batch: RecordBatch, encoding: Encoding, losses: Losses) -> bytes:
    """The messages of a batch in poll layout, with its offsets and times, no key; a body in `encoding` is only sliced.

    encoding: IGGY_G0, IGGY_G2B or IGGY_G2C.  What this wire has no place for is counted in `losses`; not so the key
    of a body that another generation wrote, which no reader of it would have seen either.
    For a poll answer, joined; for SEND, `write_g0(messages)` or `write_g2(encoding, messages)`.
    Raises CommandFailed(UNREPRESENTABLE) for a number beyond 64 bits.
    """
    if batch.encoding is encoding:
        return split(batch.body)[1]
    columns = zip(*map(msgspec.structs.astuple, batch.records()), strict=True)
    keys, values, headers, own, origins, ids, *dropped = columns  # in the order of core.records.Record
    lost = Counter({field: _set(column) for field, column in zip(_DROPPED, dropped, strict=True)})
    lost["key"] = 0 if batch.encoding in _WRITE else batch.count - keys.count(None)
    lost["value"] = values.count(None)
    lost["origin_timestamp"] = _set(origins) if encoding is IGGY_G0 else 0
    blocks = _blocks(headers, encoding is IGGY_G2C, lost)
    for field, times in lost.items():
        if times:
            losses[batch.origin or "?", "iggy", field] += times
    moments = [moment or at for at, moment in enumerate(own, batch.timestamp)]
    texts = [value or b"" for value in values] if lost["value"] else values
    try:
        return _WRITE[encoding](range(batch.base, batch.end), moments, [id[::-1] for id in ids], origins, texts, blocks)
    except struct.error as error:
        raise CommandFailed(Fault.UNREPRESENTABLE, "a number that this wire has no room for") from error


def _set(column: tuple[object, ...]) -> int:
    """How many records have the field at all."""
    return len(column) - column.count(_UNSET[type(column[0])])


def _blocks(headers: Sequence[tuple[Header, ...]], key_kinds: bool, lost: Counter[str]) -> list[bytes]:
    if not any(headers):
        return [b""] * len(headers)
    return [_block(each, key_kinds, lost) if each else b"" for each in headers]


def _block(headers: tuple[Header, ...], key_kinds: bool, lost: Counter[str]) -> bytes:
    """Those headers for which there is room."""
    kept = [header for header in headers if carried(header, key_kinds)]
    lost["headers"] += len(headers) - len(kept)
    if not key_kinds:
        lost["key_kind"] += sum(header.key_kind is not HeaderKind.TEXT for header in kept)
    return write_headers(kept, key_kinds)
