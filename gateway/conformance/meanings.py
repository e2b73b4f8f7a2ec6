"""What a request of a client is, put beside the form that a case awaits: another kind, the same, or not the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

import msgspec

from gateway.conformance.cases import Expect
from gateway.conformance.comparing import Unlike, compare
from gateway.conformance.patterns import Known, Octets, Part, Pattern, Sized, Span, fill
from gateway.core.commands import Command
from gateway.core.faults import CommandFailed
from gateway.dialects import Dialect, Refusal, Request, Terms

_WORDS = {"int": b"1", "word": b"w", "time": b"w", "text": b"w", "rest": b"w"}
"""What stands for a blank, so that a form can be read as a request."""


class Heard(msgspec.Struct, frozen=True):
    """A request.  link: the connection it came on.  terms: those it was read by."""

    link: int
    frame: bytes
    request: Request | Refusal
    terms: Terms

    @property
    def kind(self) -> str:
        """See kind_of."""
        return kind_of(self.request)

    @property
    def why(self) -> str:
        """Why it is none, if it is none."""
        return str(self.request.failure) if isinstance(self.request, Refusal) else ""


def kind_of(request: Request | Refusal) -> str:
    """The command's name, or `refused FAULT` of what our decoder does not take."""
    if isinstance(request, Refusal):
        return f"refused {request.failure.fault.name}"
    return type(request.command).__name__


def awaited_kind(step: Expect, names: Mapping[str, bytes], dialect: Dialect, terms: Terms) -> str:
    """What kind of request the step waits for.  terms: those of the connection that it may come on."""
    if step.kind:
        return step.kind
    return kind_of(dialect.decode_request(filled(step.form, names), terms))


def filled(form: Pattern, names: Mapping[str, bytes]) -> bytes:
    """The form with something in every blank."""
    return b"".join(fill(form, {**_stand_ins(form), **names}))


def _stand_ins(parts: Sequence[Part]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for part in parts:
        match part:
            case Sized(parts=inner):
                found |= _stand_ins(inner)
            case Octets(count=count, name=name):
                found[name] = b"\1" * count
            case Span(name=name, kind=kind):
                found[name] = _WORDS[kind]
            case Known(name=name):
                found.setdefault(name, b"w")
    return found


def same_meaning(
    form: Pattern, frame: bytes, request: Request, names: Mapping[str, bytes], dialect: Dialect, terms: Terms
) -> dict[str, bytes] | None:
    """What the blanks of the form are where the frame says the same in other bytes, None where it does not.

    It does if the form, with its blanks filled, is read as the same command; or if our own client says this command
    in the bytes of the form.
    """
    plain = dialect.decode_request(filled(form, names), terms)
    if isinstance(plain, Request) and plain.command == request.command:
        return {}
    ours = _ours(request, dialect, terms)
    said = None if ours is None else compare(form, ours, names)
    return said if isinstance(said, dict) else None


def _ours(request: Request, dialect: Dialect, terms: Terms) -> bytes | None:
    command: Command = request.command
    try:
        return dialect.encode_request(Request(command, request.tag, request.context), terms)
    except CommandFailed:
        return None


def parting(form: Pattern, frame: bytes, behind: bytes, names: Mapping[str, bytes]) -> Unlike | None:
    """Where a frame parts from the form, None if it does not.  behind: what came after the frame.

    A length that is too small cuts the frame short; then the length is what is wrong, not the end.
    """
    unlike = compare(form, frame, names)
    if not isinstance(unlike, Unlike):
        return None
    whole = compare(form, frame + behind, names) if behind and unlike.at >= len(frame) else unlike
    return whole if isinstance(whole, Unlike) and whole.at < unlike.at else unlike


def likeness(wanted: bytes, frame: bytes) -> float:
    """From 0 to 1."""
    return SequenceMatcher(None, wanted, frame, autojunk=False).ratio() if frame else 0.0
