"""Records of other encodings in a layout of Iggy; and what of them it has no place for.

A reader of this wire never sees a key.  In a body the one key that all records have is kept before the messages; in an
answer there is nothing to keep it in.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from functools import partial
from operator import attrgetter

from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding, Header, HeaderKind, Record, RecordBatch
from gateway.dialects.dialect import Losses
from gateway.dialects.iggy import layout_g0, layout_g2
from gateway.dialects.iggy.fields import MAX_SHORT
from gateway.dialects.iggy.headers import carried, write_headers
from gateway.dialects.iggy.layout_g0 import IGGY_G0
from gateway.dialects.iggy.layout_g2 import G2B, G2C, IGGY_G2B, IGGY_G2C
from gateway.dialects.iggy.shape import prefix, split

_Write = Callable[[int, int, Record, bytes], bytes]

_WRITE: dict[Encoding, _Write] = {
    IGGY_G0: layout_g0.write_message,
    IGGY_G2B: partial(layout_g2.write_message, G2B.fixed),
    IGGY_G2C: partial(layout_g2.write_message, G2C.fixed),
}
"""Encoding -> how one message is written: offset, timestamp, record, block of headers."""

_DROPPED = ("producer", "epoch", "sequence", "event_type", "schema_version", "aggregate_version", "metadata", "expiry")
_dropped = attrgetter(*_DROPPED)


def messages_of(batch: RecordBatch, encoding: Encoding, losses: Losses) -> bytes:
    """The messages of a batch in poll layout, with its offsets and times, no key; a body in `encoding` is only sliced.

    encoding: IGGY_G0, IGGY_G2B or IGGY_G2C.  What this wire has no place for is counted in `losses`; not so the key
    of a body that another generation wrote, which no reader of it would have seen either.
    For a poll answer, joined; for SEND, `write_g0(messages)` or `write_g2(encoding, messages)`.
    Raises CommandFailed(UNREPRESENTABLE) for a number beyond 64 bits.
    """
    if batch.encoding is encoding:
        return split(batch.body)[1]
    rows = list(batch.rows())
    if batch.encoding not in _WRITE:
        _count(losses, batch, "key", sum(record.key is not None for _, _, record in rows))
    return _write(batch, encoding, rows, losses)


def body_of(batch: RecordBatch, encoding: Encoding, losses: Losses) -> bytes:
    """The same as a body: one key of up to 255 bytes that all records have is kept before the messages."""
    if batch.encoding is encoding:
        return batch.body
    rows = list(batch.rows())
    keys = {record.key or b"" for _, _, record in rows}
    key = keys.pop() if len(keys) == 1 else b""
    if keys or len(key) > MAX_SHORT:
        key = b""
        _count(losses, batch, "key", sum(bool(record.key) for _, _, record in rows))
    return prefix(key) + _write(batch, encoding, rows, losses)


_Rows = list[tuple[int, int, Record]]


def _write(batch: RecordBatch, encoding: Encoding, rows: _Rows, losses: Losses) -> bytes:
    write, key_kinds, found = _WRITE[encoding], encoding is IGGY_G2C, [record for _, _, record in rows]
    _count_dropped(batch, found, encoding, losses)
    lost: Counter[str] = Counter()
    try:
        written = [
            write(offset, moment, record, _block(record.headers, key_kinds, lost) if record.headers else b"")
            for offset, moment, record in rows
        ]
    except struct.error as error:
        raise CommandFailed(Fault.UNREPRESENTABLE, "a number that this wire has no room for") from error
    for field, times in lost.items():
        _count(losses, batch, field, times)
    return b"".join(written)


def _count_dropped(batch: RecordBatch, records: list[Record], encoding: Encoding, losses: Losses) -> None:
    for field, values in zip(_DROPPED, zip(*map(_dropped, records), strict=True), strict=False):
        _count(losses, batch, field, sum(map(bool, values)))
    _count(losses, batch, "value", sum(record.value is None for record in records))
    if encoding is IGGY_G0:
        _count(losses, batch, "origin_timestamp", sum(record.origin_timestamp != 0 for record in records))


def _count(losses: Losses, batch: RecordBatch, field: str, times: int) -> None:
    if times:
        losses[batch.origin or "?", "iggy", field] += times


def _block(headers: tuple[Header, ...], key_kinds: bool, lost: Counter[str]) -> bytes:
    """Those headers for which there is room."""
    kept = [header for header in headers if carried(header, key_kinds)]
    lost["headers"] += len(headers) - len(kept)
    if not key_kinds:
        lost["key_kind"] += sum(header.key_kind is not HeaderKind.TEXT for header in kept)
    return write_headers(kept, key_kinds)
