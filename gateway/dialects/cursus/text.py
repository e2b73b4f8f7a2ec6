"""Text commands as text: lines, arguments, numbers and quoting.  What they mean is in commands.py.

A line is a word and arguments.  Arguments are `key=value` tokens in any order, or, in the form of the seed document
that no client speaks, values in a fixed order.  Source: protocol page, sections 1 and 5.
"""

from __future__ import annotations

import re

from gateway.core.commands import MAX_OFFSET
from gateway.core.faults import CommandFailed, Fault

BLANKS = b"\0 \t\n\v\f\r"
"""What is trimmed from the ends of the text in an envelope."""

KEYS = frozenset(
    b"topic partition partitions offset offsets group member generation batch wait_ms autoOffsetReset isolation"
    b" isolation_level idempotent event_sourcing replication_factor cleanup_policy retention_hours retention_bytes"
    b" partitioner auth_policy read_acl write_acl transactional_id producerId acks seqNum epoch key isIdempotent"
    b" principal token auth_token version features require_features message".split()
)
"""One of these before a `=` makes a line one of key=value arguments."""

POSITIONS: dict[str, tuple[bytes, ...]] = {
    "CREATE": (b"topic", b"partitions"),
    "DELETE": (b"topic",),
    "CONSUME": (b"topic", b"partition", b"offset"),
    "STREAM": (b"topic", b"partition", b"offset"),
    "SUBSCRIBE": (b"topic", b"group"),
    "JOIN_GROUP": (b"topic", b"group", b"member"),
    "LEAVE_GROUP": (b"topic", b"group", b"member"),
    "COMMIT": (b"topic", b"group", b"partition", b"offset"),
    "COMMIT_OFFSET": (b"topic", b"group", b"partition", b"offset"),
    "HEARTBEAT": (b"topic", b"group", b"consumer", b"member", b"generation"),
    "BATCH_COMMIT": (b"topic", b"group", b"member", b"generation", b"offsets"),
    "SYNC_GROUP": (b"topic", b"group", b"member", b"generation"),
}
"""The seed's order of arguments.  Of CREATE's the second may be missing."""

MAX_ARGUMENTS = 1 << 20
"""Bytes of arguments, the message of a text PUBLISH apart: in pieces they take forty times as many."""

CLAIMS = (b"principal", b"auth_token")
"""Who asks, on the line of any command but AUTH, which has words of its own for that."""

MAX_SAID = 1024
"""Of a command that is not known, what is said back of its word and of its arguments."""

_MAX_INT, _MAX_UINT = (1 << 63) - 1, (1 << 64) - 1


def refused(text: str, fault: Fault = Fault.MALFORMED) -> CommandFailed:
    """A request that cannot be served, and the words that say so."""
    return CommandFailed(fault, f"ERROR: {text}")


class Line:
    """One command as it was put, and under which terms.

    fields:  key -> value, UTF-8; of a repeated key the last value.
    args:    all of them, CLAIMS apart.
    message: what follows `message=`, any bytes; None = there is none.
    claims:  the values of CLAIMS, "" for one that is not there; None = there is neither.
    keyed:   the arguments have keys; False = they were taken in the seed's order, or there are none: then the reader
             says what is missing, as the broker does.
    """

    __slots__ = ("args", "claims", "fields", "keyed", "message", "namespace", "structured", "word")

    def __init__(self, word: str, args: bytes, namespace: str = "", structured: bool = False) -> None:
        self.word = word
        self.args = args
        self.namespace = namespace
        self.structured = structured
        self.message: bytes | None = None
        at = args.find(b"message=")  # anywhere: `x_message=` begins the message too
        if at >= 0:
            self.message, args = args[at + 8 :].strip(), args[:at]
        if len(args) > MAX_ARGUMENTS:
            raise refused(f"message_too_large size={len(args)} max={MAX_ARGUMENTS}", Fault.TOO_LARGE)
        if not args.isascii():
            _check_text(args)
        self.fields = dict([token.split(b"=", 1) for token in args.split() if b"=" in token])
        self.keyed = at >= 0 or not KEYS.isdisjoint(self.fields)
        self.claims: tuple[str, str] | None = None
        if (b"principal" in self.fields or b"auth_token" in self.fields) and word != "AUTH":
            self._take_claims(args)
        if not self.keyed and word in POSITIONS and (tokens := args.split()):
            self._take_in_order(tokens)

    def _take_claims(self, args: bytes) -> None:
        principal, token = (self.fields.pop(key, b"").decode() for key in CLAIMS)
        self.claims = principal, token
        others = [token for token in args.split() if not token.startswith((b"principal=", b"auth_token="))]
        self.args = b" ".join((*others, self.args[len(args) :])).strip()

    def _take_in_order(self, tokens: list[bytes]) -> None:
        names = POSITIONS[self.word]
        if len(tokens) != len(names) and not (self.word == "CREATE" and len(tokens) == 1):
            raise self.unknown()
        self.fields = dict(zip(names, tokens, strict=False))

    def unknown(self) -> CommandFailed:
        """No such command, or not in this form."""
        args = _TOKEN.sub(rb"\1***", self.args[:MAX_SAID]).decode("utf-8", "replace")
        said = f"{self.word[:MAX_SAID]} {args}".strip()
        return refused(f"unknown_command command={quoted(said)}", Fault.UNSUPPORTED)

    def get(self, key: bytes) -> str:
        """A value, "" if there is none."""
        return self.fields.get(key, b"").decode()

    def need(self, key: bytes) -> str:
        """A value that has to be there."""
        value = self.fields.get(key)
        if not value:
            raise refused(f"missing_{key.decode()} command={self.word}")
        return value.decode()


_TOKEN = re.compile(rb"(token=)\S+")
"""What is not said back, to nobody."""


def _check_text(octets: bytes) -> None:
    try:
        octets.decode()
    except UnicodeDecodeError:
        raise refused('decode_failed reason="invalid UTF-8"') from None


# -- numbers, as Go's strconv reads them: a sign is fine, blanks and underscores are not


def atoi(text: bytes) -> int | None:
    """An int64, None if it is none."""
    digits = text[1:] if text[:1] in (b"+", b"-") else text
    value = _digits(digits)
    if value is None:
        return None
    value = -value if text[:1] == b"-" else value
    return value if -_MAX_INT - 1 <= value <= _MAX_INT else None


def parse_uint(text: bytes) -> int | None:
    """A u64, None if it is none."""
    value = _digits(text)
    return value if value is not None and value <= _MAX_UINT else None


def parse_offset(text: bytes) -> int | None:
    """A u64 that the house can count to, None if it is none."""
    value = parse_uint(text)
    return value if value is not None and value <= MAX_OFFSET else None


def _digits(text: bytes) -> int | None:
    if not text.isdigit() or (len(text) > 20 and len(text.lstrip(b"0")) > 20):
        return None
    return int(text[-20:])


def syntax(function: str, text: bytes) -> str:
    """What Go says of a number that it cannot read."""
    digits = text if function == "ParseUint" else text.removeprefix(text[:1] if text[:1] in (b"+", b"-") else b"")
    what = "value out of range" if digits.isdigit() else "invalid syntax"
    return quoted(f"strconv.{function}: parsing {quoted(text.decode())}: {what}")


def boolean(text: str) -> bool | None:
    """As strconv.ParseBool; None if it is none."""
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    return False if text in ("0", "f", "F", "FALSE", "false", "False") else None


# -- Go's %q

_ESCAPES = {char: f"\\{letter}" for char, letter in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)}
_MEANT = {escape[1]: char for char, escape in _ESCAPES.items()}
_ESCAPED = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))", re.DOTALL)


def quoted(text: str) -> str:
    """The text in quotes, as Go prints it with %q."""
    if text.isprintable() and "\\" not in text and '"' not in text:
        return f'"{text}"'
    return f'"{"".join(map(_shown, text))}"'


def _shown(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def unquoted(text: str) -> str:
    """What `quoted` was given; a text without quotes stays as it is."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    return _ESCAPED.sub(_meant, text[1:-1])


def _meant(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    if code is None:
        return _MEANT.get(found[4], found[4])
    number = int(code, 16)
    return chr(number) if number < 0x110000 else "\ufffd"


_FIELD = re.compile(r'([A-Za-z_]+)=("(?:[^"\\]|\\.)*"|\S*)')


def fields_of(text: str) -> dict[str, str]:
    """The `key=value` tokens of an answer, quotes taken off; of a repeated key the first, as every client reads it."""
    found: dict[str, str] = {}
    for key, value in _FIELD.findall(text):
        found.setdefault(key, unquoted(value))
    return found
