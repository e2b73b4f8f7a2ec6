"""Bytes of a dialect for tests, none of them written down here: from its codec, from a vector by its name, or from a
case by its id.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from gateway.conformance import cases, vectors
from gateway.conformance.patterns import fill
from gateway.core.commands import Command
from gateway.core.records import registry
from gateway.core.replies import Outcome
from gateway.dialects import Refusal, Request, Terms, load

CANARY = "Canary-of-a-password-7f3a"
"""The secret of the vectors that have one, well put and badly."""


@cache
def _vectors(dialect: str) -> dict[str, vectors.Case]:
    return {case.name: case for case in vectors.load(dialect)}


def terms(dialect: str, **settings: Any) -> Terms:
    """What a listener with those settings goes by."""
    spoken = load(dialect)
    return spoken.open(spoken.settings(**settings), registry(spoken.encodings)).terms("localhost:9000")


def request(dialect: str, command: Command, tag: Any = None, context: object = None, **settings: Any) -> bytes:
    """The frame in which a client of the dialect asks for that."""
    return load(dialect).encode_request(Request(command, tag, context), terms(dialect, **settings))


def reply(dialect: str, asked: Request | Refusal, outcome: Outcome, **settings: Any) -> bytes:
    """The frame in which a server of the dialect answers that."""
    return load(dialect).encode_reply(asked, outcome, terms(dialect, **settings))


def said(dialect: str, name: str) -> bytes:
    """What a client says in the vector of that name."""
    return _vectors(dialect)[name].when


def told(dialect: str, name: str) -> bytes:
    """What a client is told in the vector of that name."""
    answer = _vectors(dialect)[name].then
    assert answer is not None, f"{name}: this vector has no reply"
    return answer


def secrets(dialect: str) -> list[bytes]:
    """What is said in the vectors that have CANARY in them."""
    return [case.when for case in _vectors(dialect).values() if CANARY.encode() in case.when]


def steps(dialect: str, id: str, /, **names: str) -> list[bytes]:
    """What is sent and awaited in the case of that id, one after the other.  names: what its blanks are filled with."""
    [case] = [case for case in cases.load(dialect) if case.id == id]
    known = {name: text.encode() for name, text in (case.names | names).items()}
    crossing = [step for step in case.steps if isinstance(step, cases.Send | cases.Expect)]
    return [b"".join(fill(step.form, known)) for step in crossing]
