"""JSON token by token, into the fields of a message: the slow and exact way that Go reads it.

A key is folded as Go folds it.  null leaves text, numbers and truth as they are and makes slices nil; of a key that
comes again the last value holds, where Go would leave in an array or an object what an earlier one had put there.  No
number is ever a float.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

import msgspec

from gateway.dialects.mlog.layout import RANGES, Field, Kind, M, Message, layout

MAX_VALUES = 130_000
"""OUR bound on members and elements in one payload, so that reading one takes a fraction of a second: a batch of
100,000 values, and some."""

MAX_DEPTH = 64
"""OUR bound on nesting; Go has 10,000.  No message has more than 4."""

Token = tuple[str, str]
"""(group of _TOKEN, text as written)"""

_TOKEN = re.compile(
    r'[ \t\n\r]*+(?:(?P<text>"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+")'
    r"|(?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)"
    r"|(?P<word>true|false|null)|(?P<mark>[\[\]{}:,])|(?P<end>\Z))"
)
_FOLD = {**{upper: upper + 32 for upper in range(65, 91)}, 0x17F: ord("s"), 0x212A: ord("k")}
"""Letters that Go's fold takes for one: ASCII's two cases, the long s and the Kelvin sign."""
_NULL = ("word", "null")
_unescape = msgspec.json.Decoder(str).decode
_LINE_ENDS = str.maketrans("", "", "\r\n")


def read_slowly(payload: bytes, kind: type[M]) -> M:
    """See go_json.read.  Raises ValueError."""
    tokens = _Tokens(payload.decode())
    message = kind(**_members(tokens, tokens.next(), kind, 1))
    if not tokens.at_end():
        raise ValueError("something behind the object")
    return message


def is_object(payload: bytes) -> bool:
    """Whether it is one JSON object, within our bounds, whatever is in it."""
    try:
        tokens = _Tokens(payload.decode())
        first = tokens.next()
        _skip(tokens, first, 0)
    except ValueError:
        return False
    return first == ("mark", "{") and tokens.at_end()


def fold(key: str) -> str:
    """A key as Go compares it."""
    return key.translate(_FOLD)


class _Tokens:
    """What is still to be read; `at` is where the last token ends."""

    def __init__(self, text: str) -> None:
        if text.count(",") + text.count("[") + text.count("{") > MAX_VALUES:  # those in texts count too
            raise ValueError(f"more than {MAX_VALUES} values")
        self.text = text
        self.at = 0

    def next(self) -> Token:
        found = _TOKEN.match(self.text, self.at)
        if found is None or found.lastgroup is None:
            raise ValueError(f"no JSON at character {self.at}")
        self.at = found.end()
        return found.lastgroup, found[found.lastgroup]

    def at_end(self) -> bool:
        found = _TOKEN.match(self.text, self.at)
        return found is not None and found.lastgroup == "end"

    def expect(self, mark: str) -> None:
        if self.next() != ("mark", mark):
            raise ValueError(f"{mark} expected before character {self.at}")

    def items(self, closing: str) -> Iterator[Token]:
        """The first token of each member or element up to the closing mark; what follows it is the caller's to read."""
        token = self.next()
        if token == ("mark", closing):
            return
        while True:
            yield token
            mark = self.next()
            if mark == ("mark", closing):
                return
            if mark != ("mark", ","):
                raise ValueError(f", or {closing} expected before character {self.at}")
            token = self.next()


Values = dict[str, object]
Read = Callable[[_Tokens, Token], object]


def _members(tokens: _Tokens, first: Token, kind: type[Message], depth: int) -> Values:
    """What an object says of a message."""
    if first != ("mark", "{"):
        raise ValueError("not an object")
    fields, known = _folded(kind), Values()
    for key in tokens.items("}"):
        field = fields.get(fold(_text(key)))
        tokens.expect(":")
        token = tokens.next()
        if field is None:
            _skip(tokens, token, depth)
        elif token != _NULL or field.kind is Kind.RAW:
            known[field.attribute] = _value(tokens, token, field, depth)
        elif field.many or field.kind in (Kind.OCTETS, Kind.MESSAGE):
            known[field.attribute] = None
    return known


@cache
def _folded(kind: type[Message]) -> dict[str, Field]:
    return {fold(field.name): field for field in layout(kind)}


def _value(tokens: _Tokens, token: Token, field: Field, depth: int) -> object:
    if not field.many:
        return _one(tokens, token, field, depth)
    if token != ("mark", "["):
        raise ValueError(f"{field.name} is not an array")
    return [field.zero if item == _NULL else _one(tokens, item, field, depth + 1) for item in tokens.items("]")]


def _one(tokens: _Tokens, token: Token, field: Field, depth: int) -> object:
    if field.kind is Kind.MESSAGE:
        assert field.of is not None, "a message is of some class"
        return field.of(**_members(tokens, token, field.of, depth + 1))
    if field.kind is Kind.RAW:
        start = tokens.at - len(token[1])
        _skip(tokens, token, depth)
        return msgspec.Raw(tokens.text[start : tokens.at].encode())
    if field.kind is Kind.OCTETS and token == ("mark", "["):
        return bytes(0 if item == _NULL else _number(item, 0, 255) for item in tokens.items("]"))
    return _READ[field.kind](token)


def _text(token: Token) -> str:
    if token[0] != "text":
        raise ValueError("not a text")
    return token[1][1:-1] if "\\" not in token[1] else _unescape(token[1])


def _octets(token: Token) -> bytes:
    octets: bytes = msgspec.convert(_text(token).translate(_LINE_ENDS), bytes)  # base64, as strict as Go's
    return octets


def _truth(token: Token) -> bool:
    if token[0] != "word" or token[1] == "null":
        raise ValueError("neither true nor false")
    return token[1] == "true"


def _number(token: Token, low: int, high: int) -> int:
    kind, digits = token
    if kind != "number" or not digits.removeprefix("-").isdigit() or len(digits) > 20:
        raise ValueError("not a whole number")
    number = int(digits)
    if not low <= number <= high or (low == 0 and digits[0] == "-"):
        raise ValueError(f"{digits} is not from {low} to {high}")
    return number


def _numbers(low: int, high: int) -> Callable[[Token], int]:
    return lambda token: _number(token, low, high)


_READ: dict[Kind, Callable[[Token], object]] = {
    Kind.TEXT: _text,
    Kind.OCTETS: _octets,
    Kind.BOOL: _truth,
    **{kind: _numbers(low, high) for kind, (low, high) in RANGES.items()},
}


def _skip(tokens: _Tokens, token: Token, depth: int) -> None:
    """A value that nobody wants; it still has to be one."""
    kind, text = token
    if depth >= MAX_DEPTH and text in ("{", "["):
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    if kind == "text":
        _text(token)
    elif token == ("mark", "["):
        for item in tokens.items("]"):
            _skip(tokens, item, depth + 1)
    elif token == ("mark", "{"):
        for key in tokens.items("}"):
            _text(key)
            tokens.expect(":")
            _skip(tokens, tokens.next(), depth + 1)
    elif kind in ("mark", "end"):
        raise ValueError(f"a value expected before character {tokens.at}")
