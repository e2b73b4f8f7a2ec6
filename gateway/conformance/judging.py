"""One request of a client, judged: whether our own client would have said the same in the same bytes.

Pure; knows no file of a capture and nothing of Spark.  A frame is judged by what its dialect makes of it, and put to
the cases beside the dialect that are about the same: the same command, said in the same way.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from functools import cache
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from gateway import dialects
from gateway.conformance.vectors import Case, load
from gateway.core.commands import Authenticate
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding, RecordBatch, registry
from gateway.dialects import Dialect, Refusal, Request, Terms

Verdict = Literal["PASS", "LENIENT", "FAIL", "INFO"]

BROKEN = frozenset({Fault.MALFORMED, Fault.TOO_LARGE})
"""What is the client's own doing: its bytes are no request."""

SECRET = "it holds a secret, which is not judged"


class Judgment(msgspec.Struct, frozen=True):
    """What is to be said of a request.

    verdict: `PASS`     it is what our own client sends for the same command, to the byte.
             `LENIENT`  it is understood, though we would have said it in other bytes.
             `FAIL`     it is no request of its dialect.
             `INFO`     that cannot be judged.
    shape:   what kind of request it is, see `shape`.
    why:     a sentence on anything but a PASS.
    """

    verdict: Verdict
    shape: str
    why: str = ""


def judge(dialect: Dialect, frame: bytes, request: Request | Refusal, terms: Terms) -> Judgment:
    """One request frame, and what the dialect made of it.  terms: those it was read by."""
    said = shape(request)
    if isinstance(request, Refusal):
        verdict: Verdict = "FAIL" if request.failure.fault in BROKEN else "INFO"
        return Judgment(verdict, said, str(request.failure))
    if isinstance(request.command, Authenticate):
        return Judgment("INFO", said, SECRET)
    try:
        ours = dialect.encode_request(request, terms)
    except CommandFailed as failure:
        return Judgment("INFO", said, f"our own client does not say this: {failure}")
    except Exception as error:  # peers may be anything, and what the encoder cannot take is a finding, not our end
        return Judgment("INFO", said, f"our own client cannot say this: {error!r}")
    return Judgment("PASS", said) if ours == frame else Judgment("LENIENT", said, _differs(frame, ours))


def _differs(frame: bytes, ours: bytes) -> str:
    pairs = zip(frame, ours, strict=False)
    at = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(frame), len(ours)))
    return f"from byte {at} on our own client says {_some(ours, at)}, not {_some(frame, at)}"


def _some(octets: bytes, at: int) -> str:
    return octets[at : at + 8].hex(" ") + (" ..." if len(octets) > at + 8 else "") or "nothing"


# -- what requests have in common

UNTOLD = frozenset({"topic", "settings"})
"""Fields that every command of a kind has: only what is chosen in them is told."""


_VALUE = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9]+")
LONGEST = 100
"""Letters of what is told of a refusal, whose sentence may have words of the client in it."""


def shape(request: Request | Refusal) -> str:
    """The command, with its choices but without its values: `Fetch(start=Next(reader=Group), commit)`.

    Of a refusal the fault, and the sentence without values: `refused MALFORMED: ~ bytes are no length`.
    """
    if isinstance(request, Refusal):
        said = _VALUE.sub("~", request.failure.detail)[:LONGEST]
        return f"refused {request.failure.fault.name}{f': {said}' if said else ''}"
    return _shape(request.command)


def _shape(value: msgspec.Struct) -> str:
    parts = [part for name in value.__struct_fields__ if (part := _choice(name, getattr(value, name)))]
    return f"{type(value).__name__}({', '.join(parts)})" if parts else type(value).__name__


def _choice(name: str, value: object) -> str:
    """What a field says of the kind of a request; "" = nothing."""
    match value:
        case RecordBatch():
            return f"{value.encoding.name}, {'one record' if value.count == 1 else 'several records'}"
        case enum.Enum():
            return f"{name}={value.name}"
        case bool():
            return name if value else ""
        case msgspec.Struct():
            said = _shape(value)
            return "" if name in UNTOLD and said == type(value).__name__ else f"{name}={said}"
    return ""


# -- the cases that there are


@cache
def exercised(name: str) -> Mapping[str, tuple[str, ...]]:
    """Shape -> the ids of the cases of that dialect which are about it, in their order; nothing of a dialect without.

    Raises BadCase.
    """
    if name not in dialects.names():
        return {}
    encodings = registry(encoding for each in dialects.names() for encoding in dialects.load(each).encodings)
    found: dict[str, list[str]] = {}
    for case in load(name):
        for said in dict.fromkeys(_shapes(case, dialects.load(name), encodings)):
            found.setdefault(said, []).append(case_id(case))
    return {said: tuple(ids) for said, ids in found.items()}


def case_id(case: Case) -> str:
    """What a case is called among those of all dialects' files: `iggy/login/a client logs in`."""
    path = PurePosixPath(case.file)
    return f"{path.parts[0]}/{path.stem}/{case.name}"


def _shapes(case: Case, dialect: Dialect, encodings: Mapping[str, Encoding]) -> list[str]:
    if case.refusal is not None:
        terms = dialect.open(msgspec.convert(case.settings, dialect.settings), encodings).terms(case.advertise)
        return [shape(dialect.decode_request(case.when, terms))]
    return [_shape(command) for command in case.commands(encodings) if isinstance(command, msgspec.Struct)]
