"""What can be done to the fields of a request so that it is another one, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

MUCH = 1024
"""Bytes of what is much longer."""

Fields = list[bytes]
Damage = Callable[[Fields, int, int, Fields], Fields]
"""damage(fields, at, number, other) -> fields.  at: the field that is meant.  number: 0..255, which way.  other: the
fields of another request."""

GARBLED = b"\xff\xc3\x28\x80"
"""No UTF-8, whatever stands around it."""

COUNTED = 8
"""Bytes of the longest field that is counted with."""


def _replaced(change: Callable[[bytes, int], bytes]) -> Damage:
    """That field is another one."""
    return lambda fields, at, number, _: [*fields[:at], change(fields[at], number), *fields[at + 1 :]]


def _flipped(field: bytes, number: int) -> bytes:
    at, bit = divmod(number % (8 * len(field)), 8) if field else (0, 0)
    return field[:at] + bytes(octet ^ 1 << bit for octet in field[at : at + 1]) + field[at + 1 :]


def _counted(step: int, order: Literal["big", "little"]) -> Callable[[bytes, int], bytes]:
    """A length or a count that is off; of digits, the number that they say."""

    def off(field: bytes, number: int) -> bytes:
        if field.isdigit():
            return str(max(0, int(field[:18]) + step)).encode()
        head, tail = field[:COUNTED], field[COUNTED:]
        return ((int.from_bytes(head, order) + step) % (1 << 8 * len(head) or 1)).to_bytes(len(head), order) + tail

    return off


def _huge(field: bytes, number: int) -> bytes:
    """As much as it can say, with or without a sign; of digits, more than 64 bits."""
    if field.isdigit():
        return b"9" * (1 + number % 40)
    return (b"\x7f" if number % 2 else b"\x80") + b"\xff" * (len(field) - 1)


def _stopped(fields: Fields, at: int, number: int, _: Fields) -> Fields:
    """Nothing comes behind the middle of it."""
    return [*fields[:at], fields[at][: number % (len(fields[at]) + 1)]]


def _swapped(fields: Fields, at: int, number: int, _: Fields) -> Fields:
    other = number % len(fields)
    fields[at], fields[other] = fields[other], fields[at]
    return fields


def _borrowed(fields: Fields, at: int, number: int, other: Fields) -> Fields:
    return [*fields[:at], other[number % len(other)], *fields[at + 1 :]]


DAMAGES: Mapping[str, Damage] = {
    "one bit": _replaced(_flipped),
    "zeros": _replaced(lambda field, _: bytes(len(field))),
    "ones": _replaced(lambda field, _: b"\xff" * len(field)),
    "one more": _replaced(_counted(1, "big")),
    "one less": _replaced(_counted(-1, "big")),
    "one more, little-endian": _replaced(_counted(1, "little")),
    "one less, little-endian": _replaced(_counted(-1, "little")),
    "huge": _replaced(_huge),
    "wrong order": _replaced(lambda field, _: field[::-1]),
    "nothing": _replaced(lambda _, __: b""),
    "longer": _replaced(lambda field, number: field + bytes([number])),
    "much longer": _replaced(lambda field, number: (field * (2 + number))[:MUCH]),
    "not UTF-8": _replaced(lambda field, number: GARBLED[: 1 + number % 4] + field[1:]),
    "cut short": _stopped,
    "twice": lambda fields, at, _, __: [*fields[: at + 1], *fields[at:]],
    "swapped": _swapped,
    "borrowed": _borrowed,
    "spliced": lambda fields, at, number, other: [*fields[:at], *other[number % len(other) :]],
    "another behind it": lambda fields, _, __, other: [*fields, *other],
}
"""In the order from harmless to harmful, which is how a failure is made smaller."""
