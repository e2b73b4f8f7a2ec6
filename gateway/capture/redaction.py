"""What must not come into a file: secrets that clients say.

A frame that was read as a login is made anew, with asterisks for the secret.  A frame that may hold a secret and was
not read as a login is left out.  Which those are, each dialect's own mask knows; of a dialect that has none here, such
as a plugin's, everything is left out that is no request.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from gateway.core.commands import Authenticate
from gateway.core.faults import CommandFailed
from gateway.dialects import Refusal, Request, Terms
from gateway.dialects.cursus.terms import CursusTerms, Produced
from gateway.dialects.cursus.unpacking import by_magic, unpacked
from gateway.dialects.grid.terms import GridTerms
from gateway.dialects.iggy import codes

MASKED = "the secret was masked"
LEFT_OUT = "left out, it may hold a secret"

Kept = tuple[bytes, str]
"""The bytes as they may be kept, and a note."""

Mask = Callable[[bytes, Request | Refusal], Kept | None]
"""What to keep of a frame that is no login; None = all of it."""


class Masks(msgspec.Struct, frozen=True):
    """What one listener's frames have to go through, None = nothing.

    requests, refusals: by what came of the frame.  answers: the bytes that say that something failed.
    """

    requests: Mask | None = None
    refusals: Mask | None = None
    answers: Callable[[bytes], Kept | None] | None = None


class Redaction:
    """Of one listener.  terms: fresh ones, for making frames."""

    def __init__(self, dialect: str, encode: Callable[[Request, Terms], bytes], terms: Terms) -> None:
        self._encode = encode
        self._terms = terms
        self.masks = MASKS[dialect](terms) if dialect in MASKS else Masks(refusals=_left_out)

    def login(self, request: Request) -> Kept:
        """What to keep of the frame of an Authenticate."""
        command = request.command
        assert isinstance(command, Authenticate), "nothing else logs in"
        octets = command.secret.encode("utf-8", "surrogatepass")
        masked = msgspec.structs.replace(command, secret="*" * len(octets))
        try:
            return self._encode(Request(masked, request.tag, request.context), self._terms), MASKED
        except CommandFailed:
            return b"", LEFT_OUT


def _left_out(frame: bytes, request: Request | Refusal) -> Kept | None:
    return b"", LEFT_OUT


def _nothing(terms: Terms) -> Masks:
    return Masks()


# -- Cursus: `token` and `auth_token` may stand on any line, and an error may say the line back

_TOKEN = re.compile(rb"(token\s*=\s*)([^\s\"]+)", re.IGNORECASE)
_AUTH = re.compile(rb"(?:^|[\0\s])AUTH(?:\s|$)", re.IGNORECASE)


def _masked(text: bytes) -> bytes:
    return _TOKEN.sub(lambda found: found[1] + b"*" * len(found[2]), text)


def _echoed(answer: bytes) -> Kept | None:
    masked = _masked(answer)
    return None if masked == answer else (masked, MASKED)


def _cursus(terms: Terms) -> Masks:
    assert isinstance(terms, CursusTerms), "a Cursus listener has CursusTerms"

    def mask(frame: bytes, request: Request | Refusal) -> Kept | None:
        context = request.context
        if type(context) is Produced and context.batched:
            return None
        if frame.startswith(terms.unpacking.magics, 4) or (terms.unpacking.named is not None and _is_packed(frame)):
            return _packed(frame, terms)
        if type(request) is Refusal and _AUTH.search(frame, 4):
            return b"", LEFT_OUT
        head, message, rest = (frame, b"", b"") if type(request) is Refusal else frame.partition(b"message=")
        masked = _masked(head)
        return None if masked == head else (masked + message + rest, MASKED)

    return Masks(mask, mask, _echoed)


def _is_packed(frame: bytes) -> bool:
    """What is no text may be the output of an algorithm that has no magic."""
    return not frame[4:].strip(b"\0").isascii()


def _packed(frame: bytes, terms: CursusTerms) -> Kept | None:
    """A frame that is no batch, and compressed: kept if it can be seen that there is no secret in it."""
    try:
        text = unpacked(by_magic(terms.unpacking, frame[4:]), frame[4:], terms.limit)
    except (CommandFailed, StopIteration):
        return b"", LEFT_OUT
    return (b"", LEFT_OUT) if _TOKEN.search(text) or _AUTH.search(text) else None


# -- Iggy: codes say what holds a secret, served or not

_CREATE_USER, _CHANGE_PASSWORD = 33, 37
_SECRET = {code.to_bytes(4, "little") for code in (codes.LOGIN, codes.LOGIN_WITH_TOKEN, _CREATE_USER, _CHANGE_PASSWORD)}


def _iggy(terms: Terms) -> Masks:
    return Masks(refusals=lambda frame, request: (b"", LEFT_OUT) if frame[4:8] in _SECRET else None)


# -- the grid, native


def _grid(terms: Terms) -> Masks:
    assert isinstance(terms, GridTerms), "a grid connection has GridTerms"
    auth = terms.opcodes.code["AUTH"]
    return Masks(refusals=lambda frame, request: (b"", LEFT_OUT) if frame[1:2] == bytes((auth,)) else None)


def _native(terms: Terms) -> Masks:
    word = Authenticate.__name__.encode()
    return Masks(refusals=lambda frame, request: (b"", LEFT_OUT) if word in frame else None)


MASKS: dict[str, Callable[[Terms], Masks]] = {
    "cursus": _cursus,
    "iggy": _iggy,
    "grid": _grid,
    "native": _native,
    "pipe": _nothing,
    "mlog": _nothing,
}
"""Dialect -> what its frames go through.  V1 and mlog have no login."""
