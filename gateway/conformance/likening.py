"""Commands and replies beside those of a case: what stands in them for the case's names, and where they part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from gateway.core.records import RecordBatch


def bound(plain: object, value: object, stand_ins: Mapping[object, str]) -> dict[str, bytes] | None:
    """What the names are if both say the same but for them, None if they do not.

    plain: says stand-ins where the other says what a name is.  stand_ins: as text and as octets, and their names.
    """
    batch = getattr(plain, "batch", None)
    if batch is not None and batch != getattr(value, "batch", None):
        return None  # as nearly always, where records are written
    names: dict[str, bytes] = {}
    return names if _bind(plain, value, stand_ins, names) else None


def _bind(plain: object, value: object, stand_ins: Mapping[object, str], names: dict[str, bytes]) -> bool:
    if isinstance(plain, str | bytes) and plain in stand_ins:
        if type(value) is not type(plain) or not value:
            return False
        octets = value.encode() if isinstance(value, str) else bytes(value)
        return names.setdefault(stand_ins[plain], octets) == octets
    if type(plain) is not type(value):
        return False
    match plain:
        case RecordBatch():
            return plain == value
        case msgspec.Struct():
            return all(_bind(getattr(plain, at), getattr(value, at), stand_ins, names) for at in _fields(plain))
        case tuple() | list():
            pairs = zip(plain, _items(value), strict=False)
            return len(plain) == len(_items(value)) and all(_bind(*pair, stand_ins, names) for pair in pairs)
    return plain == value


def _items(value: object) -> Sequence[object]:
    assert isinstance(value, tuple | list), "it is what the other is"
    return value


def _fields(value: msgspec.Struct) -> tuple[str, ...]:
    return value.__struct_fields__


ESSENTIAL = object()
"""Which records there are: whatever comes next depends on it."""


def parted(said: object, value: object) -> Iterator[object]:
    """What `said` says and the other does not: numbers, texts and octets, and ESSENTIAL."""
    match said, value:
        case RecordBatch(), RecordBatch():
            if said.count != value.count or (said.count and said.base != value.base):
                yield ESSENTIAL
        case msgspec.Struct(), _ if type(said) is type(value):
            for at in _fields(said):
                yield from parted(getattr(said, at), getattr(value, at))
        case (tuple(), tuple()) | (list(), list()) if len(_items(said)) == len(_items(value)):
            for one, other in zip(_items(said), _items(value), strict=True):
                yield from parted(one, other)
        case _ if said != value:
            yield from leaves(said)


def leaves(value: object) -> Iterator[object]:
    """Numbers, texts and octets in it; ESSENTIAL where it should have more than it has."""
    match value:
        case RecordBatch():
            yield ESSENTIAL
        case msgspec.Struct():
            for at in _fields(value):
                yield from leaves(getattr(value, at))
        case dict():
            yield from (leaf for pair in value.items() for each in pair for leaf in leaves(each))
        case tuple() | list() | frozenset():
            yield from (leaf for each in value for leaf in leaves(each)) if value else (ESSENTIAL,)
        case _:
            yield value
