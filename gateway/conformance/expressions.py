"""What a case says in words of the model: a Python literal or a constructor call, read with `ast` and never run."""

from __future__ import annotations

import ast
import enum
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from gateway.core import commands, faults, records, replies
from gateway.core.faults import CommandFailed
from gateway.core.records import Encoding

E = TypeVar("E", bound=enum.Enum)


class _Placed(ValueError):
    """What is wrong with an expression, the column named."""


def evaluate(text: str, encodings: Mapping[str, Encoding]) -> object:
    """The value that an expression stands for.

    It may hold literals, tuples, lists, dicts, negative numbers, members of the enumerations of core (`Fault.BUSY`),
    calls of the Structs of core.commands, replies and records, of CommandFailed and of `canonical`, `hex("00 ff")` for
    bytes and `encoding("msgpack.v1")` for one of `encodings`.  Raises ValueError, naming the column (from 1), for
    anything else.
    """
    try:
        return _value(ast.parse(text.replace("\n", " ").strip(), mode="eval").body, encodings)
    except SyntaxError as error:
        raise ValueError(f"column {error.offset}: {error.msg}") from error


def _value(node: ast.expr, encodings: Mapping[str, Encoding]) -> object:
    try:
        return _read(node, encodings)
    except _Placed:
        raise
    except (TypeError, ValueError) as error:
        raise _Placed(f"column {node.col_offset + 1}: {error}") from error


def _read(node: ast.expr, encodings: Mapping[str, Encoding]) -> object:
    match node:
        case ast.Constant(value=None | bool() | int() | float() | str() | bytes() as value):
            return value
        case ast.Tuple(elts=elements):
            return tuple(_value(element, encodings) for element in elements)
        case ast.List(elts=elements):
            return [_value(element, encodings) for element in elements]
        case ast.Dict(keys=keys, values=values) if None not in keys:
            pairs = zip(keys, values, strict=True)
            return {_value(key, encodings): _value(value, encodings) for key, value in pairs if key}
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Attribute(value=ast.Name(id=name), attr=which) if name in _ENUMS:
            return member(_ENUMS[name], which)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            named = {keyword.arg: _value(keyword.value, encodings) for keyword in keywords if keyword.arg}
            if len(named) == len(keywords):
                return _made(name, [_value(arg, encodings) for arg in args], named, encodings)
    raise ValueError(f"{ast.unparse(node)} is not allowed here")


def _made(name: str, args: list[object], named: dict[str, object], encodings: Mapping[str, Encoding]) -> object:
    match name, args:
        case "hex", [str(text)] if not named:
            return bytes.fromhex(text)
        case "encoding", [str(text)] if not named:
            if text not in encodings:
                raise ValueError(f"there is no record encoding {text!r}, only {', '.join(sorted(encodings))}")
            return encodings[text]
    if name not in _CALLS:
        raise ValueError(f"{name}() is not known here")
    made: object = _CALLS[name](*args, **named)
    return made


def member(members: type[E], name: str) -> E:
    """Of an enumeration.  Raises ValueError."""
    if name not in members.__members__:
        raise ValueError(f"there is no {members.__name__}.{name}")
    return members[name]


_NAMED = [item for module in (commands, replies, records, faults) for item in vars(module).items()]
_ENUMS = {name: value for name, value in _NAMED if isinstance(value, type) and issubclass(value, enum.Enum)}
_CALLS = {
    name: value
    for name, value in _NAMED
    if name == "canonical" or (isinstance(value, type) and issubclass(value, msgspec.Struct | CommandFailed))
}
