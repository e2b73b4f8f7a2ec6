"""What is wrong with a value, in the words of who wrote it: types as TOML has them, and what was meant, perhaps."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import inspect as types

from gateway.configuration.lines import Place


class Wrong(NamedTuple):
    """place: of what is wrong, beginning where the search for it began."""

    place: Place
    sentence: str


def find_wrong(value: object, wanted: types.Type, place: Place = ()) -> Wrong | None:
    """The first thing in a value that its type has something against: a key, a value, or one that is missing.

    What a type checks beyond its declaration is left for the conversion to find.
    """
    if isinstance(wanted, types.UnionType):
        return _in_union(value, wanted, place)
    if isinstance(wanted, types.StructType) and isinstance(value, Mapping):
        fields = {field.name: field for field in wanted.fields}
        required = {name: field.type for name, field in fields.items() if field.required}
        return _in_table(value, {name: field.type for name, field in fields.items()}, required, place)
    if isinstance(wanted, types.DictType) and isinstance(value, Mapping):
        return _first(find_wrong(one, wanted.value_type, (*place, key)) for key, one in value.items())
    if isinstance(wanted, types.VarTupleType | types.ListType) and isinstance(value, list):
        found = _first(find_wrong(one, wanted.item_type, (*place, at)) for at, one in enumerate(value))
        if found is not None or len(value) >= (wanted.min_length or 0):
            return found
    elif _fits(value, wanted):
        return None
    return Wrong(place, f"wants {describe(wanted)}, not {shown(value, wanted)}")


def describe(wanted: types.Type) -> str:
    """What to write for a type."""
    match wanted:
        case types.BoolType():
            return "true or false"
        case types.IntType() | types.FloatType():
            return f"{'a whole number' if isinstance(wanted, types.IntType) else 'a number'}{_range(wanted)}"
        case types.StrType():
            return f"text in quotes{_length(wanted.min_length, wanted.max_length)}"
        case types.LiteralType():
            return f"one of {', '.join(map(str, wanted.values))}"
        case types.VarTupleType() | types.ListType():
            least = " of one or more" if wanted.min_length else ""
            return f"a list{least} in [ ], each of it {describe(wanted.item_type)}"
        case types.StructType() | types.DictType():
            return "a table"
        case types.UnionType():
            return " or ".join(describe(one) for one in wanted.types if not isinstance(one, types.NoneType))
    return "something else"


def shown(value: object, wanted: types.Type) -> str:
    """A value as it may be said back: text is, only where there are words to choose from; it may be a secret."""
    if isinstance(value, str):
        choices = _choices(wanted)
        said = "text" if value else "empty text"
        near = closest(value, choices)
        return f"{value!r}{'' if near is None else f'; did you mean {near}?'}" if choices else said
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return "a date or time"


def closest(word: str, choices: Iterable[str]) -> str | None:
    """What was meant, perhaps."""
    meant = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(word.lower(), meant, 1)
    return meant[near[0]] if near else None


def suggestion(word: str, choices: Iterable[str]) -> str:
    """`; did you mean X?`, or `; there are X, Y, Z` where nothing is near."""
    known = sorted(choices)
    near = closest(word, known)
    return f"; there are {', '.join(known)}" if near is None else f"; did you mean {near}?"


def no_such_key(key: str, choices: Iterable[str]) -> str:
    """The sentence for a key that is none."""
    return f"there is no such key{suggestion(key, choices)}"


def _first(found: Iterable[Wrong | None]) -> Wrong | None:
    return next((one for one in found if one is not None), None)


def _in_table(
    table: Mapping[str, object], known: Mapping[str, types.Type], required: Mapping[str, types.Type], place: Place
) -> Wrong | None:
    for key, value in table.items():
        if key not in known:
            return Wrong((*place, key), no_such_key(key, known))
        found = find_wrong(value, known[key], (*place, key))
        if found is not None:
            return found
    for key, wanted in required.items():
        if key not in table:
            return Wrong(place, f"{key} is missing; it wants {describe(wanted)}")
    return None


def _in_union(value: object, wanted: types.UnionType, place: Place) -> Wrong | None:
    """Of several types, the one of the same shape says what is wrong."""
    found = [find_wrong(value, one, place) for one in wanted.types]
    if None in found:
        return None
    inner = _first(one for one in found if one is not None and len(one.place) > len(place))
    missing = _first(one for one in found if one is not None and not one.sentence.startswith("wants"))
    return inner or missing or Wrong(place, f"wants {describe(wanted)}, not {shown(value, wanted)}")


def _fits(value: object, wanted: types.Type) -> bool:
    if isinstance(wanted, types.BoolType):
        return isinstance(value, bool)
    if isinstance(wanted, types.IntType):
        return isinstance(value, int) and not isinstance(value, bool) and _within(value, wanted)
    if isinstance(wanted, types.FloatType):
        return isinstance(value, int | float) and not isinstance(value, bool) and _within(value, wanted)
    if isinstance(wanted, types.StrType):
        return isinstance(value, str) and (wanted.min_length or 0) <= len(value) <= (wanted.max_length or len(value))
    if isinstance(wanted, types.LiteralType):
        return value in wanted.values
    containers = (types.StructType, types.DictType, types.VarTupleType, types.ListType, types.NoneType)
    return not isinstance(wanted, containers)


def _within(value: float, wanted: types.IntType | types.FloatType) -> bool:
    """False for nan, which is nowhere."""
    above = (wanted.ge is None or value >= wanted.ge) and (wanted.gt is None or value > wanted.gt)
    return value == value and above and (wanted.le is None or value <= wanted.le)


def _range(wanted: types.IntType | types.FloatType) -> str:
    if wanted.gt is not None:
        return f" above {wanted.gt:.10g}" + ("" if wanted.le is None else f", {wanted.le:.10g} at most")
    if wanted.ge is not None and wanted.le is not None:
        return f" from {wanted.ge:.10g} to {wanted.le:.10g}"
    if wanted.ge is not None:
        return f", {wanted.ge:.10g} or more"
    return "" if wanted.le is None else f", {wanted.le:.10g} at most"


def _length(least: int | None, most: int | None) -> str:
    if most is not None:
        return f" ({least or 0} to {most} characters)"
    return " (not empty)" if least else ""


def _choices(wanted: types.Type) -> list[str]:
    if isinstance(wanted, types.UnionType):
        return [choice for one in wanted.types for choice in _choices(one)]
    return [str(value) for value in wanted.values] if isinstance(wanted, types.LiteralType) else []
