"""Bytes held against a pattern: what they say for its blanks, or where they part from it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from gateway.conformance.patterns import Exactly, Known, Length, Names, Octets, Part, Sized, Span

_PRINTABLE = rb"(?:[ -~]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})*?"
_KINDS = {
    "int": rb"-?[0-9]+",
    "word": rb"[^\s,]+",
    "time": rb"[0-9]{4}(?:-[0-9]{2}){2}T[0-9]{2}(?::[0-9]{2}){2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})",
    "text": _PRINTABLE,
    "rest": rb".*?",
    "name": rb"\S{1,255}?",
}


class Unlike(msgspec.Struct, frozen=True):
    """Where bytes part from a pattern.

    at:     the first byte that is another one, from 0; may be the end of what came.
    wanted: what was wanted from there on, as far as that is known, for people.
    """

    at: int
    wanted: str


def compare(parts: Sequence[Part], octets: bytes, names: Names) -> dict[str, bytes] | Unlike:
    """What the bytes say for the blanks, or where they part from the pattern."""
    flat = _flat(parts)
    found = _compiled(flat, names).fullmatch(octets)
    if found is None:
        return _parting(flat, octets, names)
    unlike = _mismeasured(flat, found)
    if unlike is not None:  # blanks side by side can be told apart in more than one way
        found = _compiled(flat, names, _behind(parts, octets, names)).fullmatch(octets)
        if found is None or _mismeasured(flat, found) is not None:
            return unlike
    return {name: value for name, value in found.groupdict().items() if not _OURS.fullmatch(name)}


def _mismeasured(flat: Sequence[_Flat], found: re.Match[bytes]) -> Unlike | None:
    for number, (width, order, inside) in _lengths(flat, found).items():
        if int.from_bytes(found[f"length{number}"], order) != inside:
            wanted = inside.to_bytes(width, order)
            return Unlike(found.start(f"length{number}") + _common(found[f"length{number}"], wanted), wanted.hex(" "))
    return None


def _behind(parts: Sequence[Part], octets: bytes, names: Names) -> dict[int, int]:
    """For each length of which is known where it stands: how many bytes there are behind what it is of."""
    behind: dict[int, int] = {}
    numbers = itertools.count(1)

    def walk(some: Sequence[Part], at: int | None) -> None:
        for part in some:
            if isinstance(part, Sized):
                number, begin = next(numbers), None if at is None else at + part.width
                walk(part.parts, begin)
                at = None if begin is None else begin + int.from_bytes(octets[at:begin], part.order)
                if at is not None:
                    behind[number] = max(0, len(octets) - at)
            elif at is not None:
                size = _size([part], names)
                at = None if size is None else at + size

    walk(parts, 0)
    return behind


Reader = Callable[[bytes], "dict[str, bytes] | None"]


def reading(parts: Sequence[Part], blanks: Mapping[str, Octets | Span]) -> Reader:
    """Compares many frames with one form, of which nothing is known yet: what it says for its names, None = unlike.

    blanks: what stands where a form says a name that an earlier one has kept; any other name is one of the case's own.
    """
    pieces, tail = _pieces(parts, blanks), _tail(parts)

    def read(octets: bytes) -> dict[str, bytes] | None:
        found: dict[str, bytes] = {}
        return found if octets.endswith(tail) and _takes(pieces, octets, found) else None

    return read


def _tail(parts: Sequence[Part]) -> bytes:
    """What it ends with, as far as that is known: a look at it tells most frames that are unlike."""
    tail = b""
    for part in reversed(parts):
        match part:
            case Exactly(octets=octets):
                tail = octets + tail
            case Sized(parts=inner):
                return _tail(inner) + tail
            case _:
                break
    return tail


class _Framed(msgspec.Struct, frozen=True):
    width: int
    order: Literal["big", "little"]
    pieces: tuple[_Piece, ...]


_Piece = re.Pattern[bytes] | _Framed
"""What has a length, or all that stands between such: lengths are looked at first, since a name may be of any."""


def _pieces(parts: Sequence[Part], blanks: Mapping[str, Octets | Span]) -> tuple[_Piece, ...]:
    pieces: list[_Piece] = []
    plain: list[_Flat] = []
    for part in (*parts, None):
        if part is not None and not isinstance(part, Sized):
            plain.append(blanks.get(part.name, Span(part.name, "name")) if isinstance(part, Known) else part)
            continue
        if plain:
            pieces.append(_compiled(plain, {}))
            plain = []
        if part is not None:
            pieces.append(_Framed(part.width, part.order, _pieces(part.parts, blanks)))
    return tuple(pieces)


def _takes(pieces: Sequence[_Piece], octets: bytes, found: dict[str, bytes]) -> bool:
    """found: what was said so far, and what is said here."""
    at = 0
    for number, piece in enumerate(pieces, 1):
        if isinstance(piece, _Framed):
            begin = at + piece.width
            at = begin + int.from_bytes(octets[at:begin], piece.order)
            if not begin <= at <= len(octets) or not _takes(piece.pieces, octets[begin:at], found):
                return False
            continue
        said = piece.fullmatch(octets, at) if number == len(pieces) else piece.match(octets, at)
        if said is None or any(found.get(name, value) != value for name, value in said.groupdict().items()):
            return False
        found |= said.groupdict()
        at = said.end()
    return at == len(octets)


class _Length(msgspec.Struct, frozen=True):
    """The length of what stands up to the _End of that number."""

    number: int
    width: int
    order: Literal["big", "little"]
    parts: tuple[Part, ...]


class _End(msgspec.Struct, frozen=True):
    number: int


_Flat = Exactly | Known | Octets | Span | Length | _Length | _End
_OURS = re.compile("(?:length|end)[0-9]+")


def _flat(parts: Sequence[Part]) -> list[_Flat]:
    flat: list[_Flat] = []
    number = 0

    def add(part: Part) -> None:
        nonlocal number
        if not isinstance(part, Sized):
            flat.append(part)
            return
        mine = number = number + 1
        flat.append(_Length(mine, part.width, part.order, part.parts))
        for each in part.parts:
            add(each)
        flat.append(_End(mine))

    for part in parts:
        add(part)
    return flat


def _compiled(flat: Sequence[_Flat], names: Names, behind: Mapping[int, int] | None = None) -> re.Pattern[bytes]:
    """behind: see _behind; where it is known."""
    kept: set[str] = set()
    return re.compile(b"".join(_expression(part, names, kept, behind or {}) for part in flat), re.DOTALL)


def _expression(part: _Flat, names: Names, kept: set[str], behind: Mapping[int, int]) -> bytes:
    match part:
        case Exactly(octets=octets):
            return re.escape(octets)
        case _Length(number=number, width=width):
            return b"(?P<length%d>.{%d})" % (number, width)
        case _End(number=number):
            return b"(?P<end%d>)" % number + (rb"(?=.{%d}\Z)" % behind[number] if number in behind else b"")
        case Octets(count=count, name="") | Length(width=count):
            return b".{%d}" % count
        case Known(name=name) | Octets(name=name) | Span(name=name):
            if name in names:
                return re.escape(names[name])
            if name in kept:
                return b"(?P=%s)" % name.encode()
            if isinstance(part, Known):
                raise ValueError(f"nothing is known of {{{name}}}")  # noqa: TRY004  # of a case, not of a type
            kept.add(name)
            inner = b".{%d}" % part.count if isinstance(part, Octets) else _KINDS[part.kind]
            return b"(?P<%s>%s)" % (name.encode(), inner)
    raise AssertionError(part)


def _lengths(flat: Sequence[_Flat], found: re.Match[bytes]) -> dict[int, tuple[int, Literal["big", "little"], int]]:
    """number -> width, order, and the bytes that there are."""
    return {
        part.number: (part.width, part.order, found.start(f"end{part.number}") - found.end(f"length{part.number}"))
        for part in flat
        if isinstance(part, _Length)
    }


def _parting(flat: Sequence[_Flat], octets: bytes, names: Names) -> Unlike:
    """The longest beginning of the pattern that fits, and what should have come behind it."""
    for count in range(len(flat), -1, -1):
        found = _compiled(flat[:count], names).match(octets)
        if found is not None:
            break
    assert found is not None, "nothing fits everything"
    if count == len(flat):
        return Unlike(found.end(), "nothing more")
    rest = octets[found.end() :]
    match flat[count]:
        case Exactly(octets=wanted):
            pass
        case Known(name=name) | Octets(name=name) | Span(name=name) if name in names:
            wanted = names[name]
        case part:
            return Unlike(len(octets) if isinstance(part, Octets | Length | _Length) else found.end(), _said(part))
    common = _common(rest, wanted)
    shorter = _mislength(flat[:count], found, names) if common < len(rest) else None
    return shorter or Unlike(found.end() + common, _shown(wanted[common:]))


def _mislength(flat: Sequence[_Flat], found: re.Match[bytes], names: Names) -> Unlike | None:
    """The length that the bytes part behind, where it is already another one: two texts of unlike length, swapped."""
    around: list[_Length] = []
    for part in flat:
        if isinstance(part, _Length):
            around.append(part)
        elif isinstance(part, _End):
            around.pop()
    size = _size(around[-1].parts, {**names, **found.groupdict()}) if around else None
    if size is None:
        return None
    wanted = size.to_bytes(around[-1].width, around[-1].order)
    got = found[f"length{around[-1].number}"]
    return (
        None
        if got == wanted
        else Unlike(found.start(f"length{around[-1].number}") + _common(got, wanted), wanted.hex(" "))
    )


def _size(parts: Sequence[Part], names: Names) -> int | None:
    """Bytes that they take, None where that depends."""
    total = 0
    for part in parts:
        match part:
            case Exactly(octets=octets):
                size: int | None = len(octets)
            case Sized(width=width, parts=inner):
                within = _size(inner, names)
                size = None if within is None else width + within
            case Octets(count=count) | Length(width=count):
                size = count
            case Known(name=name) | Span(name=name):
                size = len(names[name]) if name in names else None
        if size is None:
            return None
        total += size
    return total


def _said(part: _Flat) -> str:
    match part:
        case Octets(count=count):
            return f"{count} bytes"
        case _Length(width=width) | Length(width=width):
            return f"a length of {width} bytes"
        case Span(name=name, kind=kind):
            return f"{{{name}:{kind}}}"
        case _:
            return "what was said before"


def _common(one: bytes, other: bytes) -> int:
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _shown(octets: bytes) -> str:
    return repr(octets.decode()) if octets.isascii() and octets.decode().isprintable() else octets.hex(" ")
