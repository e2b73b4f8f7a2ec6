"""Which numbers a command may hold, worked out from the types of its fields.

The model's integers are unbounded in Python and 64 bits wide in msgpack; what is beyond these limits would fail deep in
a backend, as a defect of ours.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Iterator
from operator import attrgetter

import msgspec

from gateway.core.commands import MAX_OFFSET

MAX_ID = 0xFFFFFFFF
"""Of namespaces, topics and groups."""

MAX_SECONDS = 0xFFFFFFFF

_SIGNED = dict.fromkeys(("delta", "value"), (-MAX_OFFSET - 1, MAX_OFFSET))
"""Counters, and what is added to them."""

_Limits = tuple[str, int, int]


def out_of_range(value: msgspec.Struct) -> str | None:
    """A sentence on the first number beyond its limits in a command, or in a value that is part of one; None = none."""
    values, limits = _rules(type(value))
    for number, (name, low, high) in zip(values(value), limits, strict=False):
        if number.__class__ is str:
            continue  # a name, where an id could have been
        if number.__class__ is int:
            if not low <= number <= high:
                return f"{name} is {number}, not {low}..{high}"
        elif not _inside(number, low, high):
            return f"{name} is {number}, numbers in it are {low}..{high}"
    return None


def _inside(value: object, low: int, high: int) -> bool:
    match value:
        case int() | float():
            return low <= value <= high  # never true of NaN
        case tuple():
            return all(_inside(item, low, high) for item in value)
        case dict():
            return _inside(tuple(value), low, high) and _inside(tuple(value.values()), low, high)
        case msgspec.Struct():
            return out_of_range(value) is None
    return True


@functools.cache
def _rules(kind: type[msgspec.Struct]) -> tuple[Callable[[msgspec.Struct], tuple[object, ...]], tuple[_Limits, ...]]:
    limits = tuple(_limits(kind))
    if not limits:
        return lambda value: (), ()
    names = [name for name, _, _ in limits]
    return attrgetter(*names, names[0]), limits  # one more than needed: of a single name attrgetter gives no tuple


def _limits(kind: type[msgspec.Struct], prefix: str = "") -> Iterator[_Limits]:
    for name, hint in typing.get_type_hints(kind).items():
        members = set(_members(hint))
        if len(members) == 1 and isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            yield from _limits(hint, f"{prefix}{name}.")
        elif {int, str} <= members or name == "id":
            yield prefix + name, 0, MAX_ID
        elif float in members:
            yield prefix + name, 0, MAX_SECONDS
        elif int in members:
            yield prefix + name, *_SIGNED.get(name, (0, MAX_OFFSET))
        elif any(isinstance(member, type) and issubclass(member, msgspec.Struct) for member in members):
            yield prefix + name, 0, MAX_OFFSET


def _members(hint: object) -> Iterator[object]:
    """The types that a value of this type is made of, each alternative and what a container holds."""
    arguments = typing.get_args(hint)
    if not arguments:
        yield hint
    for argument in arguments:
        yield from _members(argument)
