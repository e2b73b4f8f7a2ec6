"""What crosses a connection, in a line: a command or an outcome with what it says, and never a secret."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from enum import Enum
from itertools import islice
from typing import TypeVar

import msgspec

from gateway.admin.shown import ELLIPSIS, harmless, octets, size, topic_name, word
from gateway.core import commands as q
from gateway.core.faults import CommandFailed
from gateway.core.records import RecordBatch
from gateway.core.replies import Outcome
from gateway.dialects import Refusal, Request

MASKED = "***"
SECRET = frozenset({"secret", "password", "token", "credentials"})
"""Fields whose value nobody sees."""

LONGEST = 60
"""Characters of one value."""

MOST = 8
"""Of several values."""

T = TypeVar("T")

DEEPEST = 3
"""Structs within structs that are looked into."""


def asked(request: Request | Refusal) -> str:
    """A frame that came in."""
    if isinstance(request, Refusal):
        return f"no command: {failed(request.failure)}"
    return said(request.command)


def ended(outcome: Outcome) -> str:
    """What it was answered."""
    return failed(outcome) if isinstance(outcome, CommandFailed) else said(outcome)


def failed(failure: CommandFailed) -> str:
    """The fault, and what was said about it."""
    return f"{failure.fault.name} {harmless(failure.detail or failure.fault.value)}"


def said(value: msgspec.Struct) -> str:
    """The name of a command or reply, and each of its fields that is not as it is by default."""
    return " ".join([type(value).__name__, *_fields(value, 0)])


def topic_of(request: Request | Refusal) -> q.Topic | None:
    """The topic that a command is about."""
    found = None if isinstance(request, Refusal) else getattr(request.command, "topic", None)
    return found if isinstance(found, q.Topic) else None


def kind_of(request: Request | Refusal) -> str:
    """The name of a command, "" for what is none."""
    return "" if isinstance(request, Refusal) else type(request.command).__name__


def _fields(value: msgspec.Struct, depth: int) -> list[str]:
    shown = []
    for field in msgspec.structs.fields(value):
        held = getattr(value, field.name)
        if field.name in SECRET:
            shown.append(f"{field.name}={MASKED}")
        elif field.default is msgspec.NODEFAULT or held != field.default:
            shown.append(f"{field.name}={_value(held, depth)}")
    return shown


def _value(value: object, depth: int) -> str:
    match value:
        case q.Topic():
            return topic_name(value.namespace, value.name)
        case q.Group() | q.Consumer():
            return _value(value.name, depth)
        case RecordBatch():
            return f"{value.count} records, {size(len(value.body))}"
        case Enum():
            return value.name.lower()
        case bytes():
            return _short(octets(value[: LONGEST + 1]))
        case str():
            return _short(word(value[: LONGEST + 1]))
        case msgspec.Struct():
            inner = " ".join(_fields(value, depth + 1)) if depth < DEEPEST else "..."
            return type(value).__name__ + (f"({inner})" if inner else "")
        case dict():
            return _several(
                [f"{_value(key, depth)}: {_value(each, depth)}" for key, each in _few(value.items())], value
            )
        case list() | tuple() | frozenset() | set():
            return _several([_value(each, depth) for each in _few(value)], value)
        case _:
            return harmless(str(value))


def _few(values: Iterable[T]) -> Iterator[T]:
    return islice(values, MOST)


def _several(shown: list[str], value: Sized) -> str:
    more = len(value) - len(shown)
    return f"[{', '.join(shown)}{f', and {more} more' if more else ''}]"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + ELLIPSIS
