"""Bytes with blanks: what a case sends, and what it wants to see.

A form, as a case file has it, is one of

    "0000000f 'CREATE' ..*4 {id:4}"    octets: hex, text in single quotes, `..` = any byte, `..*N` = any N,
                                       `{name:N}` = N bytes that are kept under a name; spaces end fields
    { text = "OK offset={n:int}\\n" }   text: `{name:int}` = a number, `{name:word}` = up to white space or a comma,
                                       `{name:time}` = a time of RFC 3339, `{name:text}` = printable UTF-8 up to what
                                       comes behind, `{name:rest}` = all up to that; any other brace is itself
    { frame = "LIST" }                 the same behind its length, a u32be
    { size = "u32le", of = form }      a form behind its length: u8, u16, u32, u64 with be or le
    { length = "u16be", of = form }    such a length alone, of what stands elsewhere
    [form, form]                       one after the other

`{name}` alone stands for what is known under that name: one of the case's own names, or what was kept before.  What is
kept twice has to be the same both times.  Behind `{name:text=}`, and with `=` behind any other kind or count, it has to
be the same whenever the case is played, too, but for the case's own names in it, which are new each time: a server
chooses its words once.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

Form = str | dict[str, object] | list["Form"]
Names = Mapping[str, bytes]


class Exactly(msgspec.Struct, frozen=True, tag="exactly"):
    """These bytes."""

    octets: bytes


class Known(msgspec.Struct, frozen=True, tag="known"):
    """What has that name by now."""

    name: str


class Octets(msgspec.Struct, frozen=True, tag="octets"):
    """So many bytes.  name: under which they are kept, "" = they are nobody's business.  steady: the same each time."""

    count: int
    name: str = ""
    steady: bool = False


class Span(msgspec.Struct, frozen=True, tag="text"):
    """Text of that kind; `name` is what a case's own name may stand for, see `reading`."""

    name: str
    kind: Literal["int", "word", "time", "text", "rest", "name"]
    steady: bool = False


class Sized(msgspec.Struct, frozen=True, tag="sized"):
    """Parts behind their length in bytes."""

    width: int
    order: Literal["big", "little"]
    parts: tuple[Part, ...]


class Length(msgspec.Struct, frozen=True, tag="length"):
    """The length in bytes of parts that stand elsewhere.  It is sent; of what is compared, nobody looks at it."""

    width: int
    order: Literal["big", "little"]
    parts: tuple[Part, ...]


Part = Exactly | Known | Octets | Span | Sized | Length
Pattern = tuple[Part, ...]

_SIZES = {"u8": (1, "big")} | {
    f"u{8 * width}{end}": (width, order) for width in (2, 4, 8) for end, order in (("be", "big"), ("le", "little"))
}
_OCTET_WORDS = re.compile(
    r"""\s+ | \#[^\n]* | (?P<hex>(?:[0-9A-Fa-f]{2})+) | '(?P<text>[^']*)'
      | \.\.(?:\*(?P<any>[0-9]+))? | \{(?P<name>[a-z]\w*)(?::(?P<count>[0-9]+)(?P<steady>=)?)?\}""",
    re.VERBOSE,
)
_BLANK = re.compile(r"\{(?P<name>[a-z]\w*)(?::(?P<kind>int|word|time|text|rest)(?P<steady>=)?)?\}")


# -- reading forms


def pattern(form: Form) -> Pattern:
    """What a form says.  Raises ValueError, with a sentence."""
    if isinstance(form, list):
        return tuple(part for each in form for part in pattern(each))
    if isinstance(form, str):
        return tuple(_octets(form))
    match form:
        case {"text": str(text), **rest} if not rest:
            return tuple(_text(text))
        case {"frame": str(text), **rest} if not rest:
            return (Sized(4, "big", tuple(_text(text))),)
        case {"size": str(size), "of": (str() | dict() | list()) as inner, **rest} if not rest and size in _SIZES:
            width, order = _SIZES[size]
            return (Sized(width, order, pattern(inner)),)  # type: ignore[arg-type]  # big or little
        case {"length": str(size), "of": (str() | dict() | list()) as inner, **rest} if not rest and size in _SIZES:
            width, order = _SIZES[size]
            return (Length(width, order, pattern(inner)),)  # type: ignore[arg-type]  # big or little
    raise ValueError(f"bytes are hex, {{ text = }}, {{ frame = }} or {{ size = , of = }}, not {form}")


def _octets(text: str) -> list[Part]:
    parts: list[Part] = []
    at = 0
    while at < len(text):
        found = _OCTET_WORDS.match(text, at)
        if found is None:
            raise ValueError(f"column {at + 1}: {text[at : at + 20]!r} is no hex, 'text', .. or {{name:N}}")
        at = found.end()
        word = found[0]
        if found["hex"]:
            parts.append(Exactly(bytes.fromhex(found["hex"])))
        elif found["text"] is not None:
            parts.append(Exactly(found["text"].encode()))
        elif found["name"]:
            name, count = found["name"], found["count"]
            parts.append(Octets(int(count), name, found["steady"] is not None) if count else Known(name))
        elif word.startswith(".."):
            parts.append(Octets(int(found["any"] or 1)))
    return parts


def _text(text: str) -> list[Part]:
    parts: list[Part] = []
    at = 0
    for found in _BLANK.finditer(text):
        if found.start() > at:
            parts.append(Exactly(text[at : found.start()].encode()))
        name, kind, steady = found["name"], found["kind"], found["steady"] is not None
        parts.append(Span(name, kind, steady) if kind else Known(name))  # type: ignore[arg-type]  # one of the five
        at = found.end()
    if at < len(text):
        parts.append(Exactly(text[at:].encode()))
    return parts


# -- writing


def fill(parts: Sequence[Part], names: Names) -> list[bytes]:
    """The bytes to send, field by field.  Raises ValueError for a blank that nothing is known of."""
    fields: list[bytes] = []
    for part in parts:
        match part:
            case Exactly(octets=octets):
                fields.append(octets)
            case Sized(width=width, order=order, parts=inner):
                within = fill(inner, names)
                fields += [sum(map(len, within)).to_bytes(width, order), *within]
            case Length(width=width, order=order, parts=inner):
                fields.append(sum(map(len, fill(inner, names))).to_bytes(width, order))
            case Known(name=name) | Octets(name=name) | Span(name=name):
                if name not in names:
                    raise ValueError(f"nothing is known of {{{name}}} that could be sent")
                fields.append(names[name])
    return fields


def blanks_of(parts: Sequence[Part]) -> dict[str, Octets | Span]:
    """The blanks that a form has, by name."""
    found: dict[str, Octets | Span] = {}
    for part in parts:
        match part:
            case Sized(parts=inner):
                found |= blanks_of(inner)
            case Octets(name=name) | Span(name=name):
                found[name] = part
    return found


def named(parts: Sequence[Part], prefix: str) -> Pattern:
    """The same with a name for each blank that has none, so that what it says is kept: `prefix` and a number."""
    numbers = itertools.count(1)

    def walk(some: Sequence[Part]) -> Iterator[Part]:
        for part in some:
            match part:
                case Sized(parts=inner):
                    yield msgspec.structs.replace(part, parts=tuple(walk(inner)))
                case Octets(name=""):
                    yield msgspec.structs.replace(part, name=f"{prefix}{next(numbers)}")
                case _:
                    yield part

    return tuple(walk(parts))
