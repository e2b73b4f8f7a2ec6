"""Protobuf's wire format for the messages of mlog, by hand, on the table that JSON uses.

proto3: what is zero is not written, what is unknown is skipped, what comes again replaces what was there, and a message
that comes again is merged.  A known field with another wire type is unknown.
Source: protocol page, section 2; https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import msgspec

from gateway.dialects.mlog.go_values import MAX_DEPTH, MAX_VALUES
from gateway.dialects.mlog.layout import RANGES, Field, Kind, M, Message, layout

VARINT, FIXED64, LENGTH, GROUP, END_GROUP, FIXED32 = range(6)
"""Wire types."""

MAX_NUMBER = (1 << 29) - 1
"""The highest field number there is."""

_MASK = (1 << 64) - 1


# -- writing


def write(message: Message) -> bytes:
    """The message, its fields in order.  Raises ValueError for text that is no Unicode."""
    out = bytearray()
    for field in _layout(type(message)):
        value = getattr(message, field.attribute)
        if field.many:
            for item in value or ():
                _write(out, field, item)
        elif value or (field.kind is Kind.MESSAGE and value is not None):
            _write(out, field, value)
    return bytes(out)


_layout = cache(layout)


def _write(out: bytearray, field: Field, value: object) -> None:
    if isinstance(value, int):
        out += _varint(field.number << 3 | VARINT)
        out += _varint(value & _MASK)
        return
    octets = _octets(value)
    out += _varint(field.number << 3 | LENGTH)
    out += _varint(len(octets))
    out += octets


def _octets(value: object) -> bytes:
    if isinstance(value, Message):
        return write(value)
    if isinstance(value, str):
        return value.encode()
    return bytes(value or b"")  # type: ignore[call-overload, no-any-return]  # None among others is empty


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# -- reading

Values = dict[str, object]


def read(payload: bytes, kind: type[M]) -> M:
    """The message.  Raises ValueError, also for more than MAX_VALUES fields."""
    return _message(_Octets(payload), payload, kind, {})


class _Octets:
    """Counts the fields that are read of one payload, those of messages within it too."""

    def __init__(self, payload: bytes) -> None:
        self.left = MAX_VALUES

    def fields(self, octets: bytes) -> Iterator[tuple[int, int, int | bytes]]:
        """(number, wire type, value) of each field; groups are left out."""
        at, end = 0, len(octets)
        while at < end:
            number, wire, at = self._key(octets, at)
            if wire == GROUP:
                at = self._group(octets, at, number)
            else:
                value, at = _scalar(octets, at, wire)
                yield number, wire, value

    def _key(self, octets: bytes, at: int) -> tuple[int, int, int]:
        self.left -= 1
        if self.left < 0:
            raise ValueError(f"more than {MAX_VALUES} fields")
        key, at = _read_varint(octets, at)
        if not 1 <= key >> 3 <= MAX_NUMBER:
            raise ValueError(f"no field has the number {key >> 3}")
        return key >> 3, key & 7, at

    def _group(self, octets: bytes, at: int, number: int) -> int:
        """Where a group ends, which proto3 has no use for."""
        within = [number]
        while within:
            number, wire, at = self._key(octets, at)
            if wire == GROUP:
                within.append(number)
            elif wire == END_GROUP and number == within[-1]:
                within.pop()
            else:
                at = _scalar(octets, at, wire)[1]
            if len(within) > MAX_DEPTH:
                raise ValueError(f"nested deeper than {MAX_DEPTH}")
        return at


def _message(read: _Octets, octets: bytes, kind: type[M], known: Values) -> M:
    fields = _numbered(kind)
    for number, wire, value in read.fields(octets):
        field = fields.get(number)
        if field is None or wire != (LENGTH if field.kind in _SIZED else VARINT):
            continue
        if field.many:
            items = known.setdefault(field.attribute, [])
            assert isinstance(items, list), "nothing else is kept of it"
            items.append(_value(read, field, value, None))
        else:
            known[field.attribute] = _value(read, field, value, known.get(field.attribute))
    return kind(**known)


@cache
def _numbered(kind: type[Message]) -> dict[int, Field]:
    return {field.number: field for field in layout(kind)}


_SIZED = (Kind.TEXT, Kind.OCTETS, Kind.RAW, Kind.MESSAGE)


def _value(read: _Octets, field: Field, value: int | bytes, before: object) -> object:
    if isinstance(value, int):
        return value != 0 if field.kind is Kind.BOOL else _NARROW[field.kind](value)
    if field.kind is Kind.MESSAGE:
        assert field.of is not None, "a message is of some class"
        return _message(read, value, field.of, {} if before is None else msgspec.structs.asdict(before))  # type: ignore[arg-type]
    if field.kind is Kind.TEXT:
        return value.decode()
    return msgspec.Raw(value) if field.kind is Kind.RAW else value


def _narrow(low: int, high: int) -> Callable[[int], int]:
    """What is too wide loses its upper bits."""
    width = high - low + 1
    return lambda value: (value - low) % width + low


_NARROW = {kind: _narrow(low, high) for kind, (low, high) in RANGES.items()}


def _scalar(octets: bytes, at: int, wire: int) -> tuple[int | bytes, int]:
    if wire == VARINT:
        return _read_varint(octets, at)
    if wire == LENGTH:
        size, at = _read_varint(octets, at)
    elif wire in (FIXED32, FIXED64):
        size = 4 if wire == FIXED32 else 8
    else:
        raise ValueError(f"wire type {wire} out of place")
    if size > len(octets) - at:
        raise ValueError("cut short")
    return octets[at : at + size], at + size


def _read_varint(octets: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for byte in octets[at : at + 10]:
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            if value > _MASK:
                raise ValueError("a number of more than 64 bits")
            return value, at
        shift += 7
    raise ValueError("a number without its end")
