"""The V1 protocol as a grammar: slow, readable, what wire.py is tested against.  The server never loads it.

A request is trimmed section by section, then its arguments are laid out anew as words with one space behind each, and
these are what the grammar of a command reads.  Text is str with lone surrogates for bytes that are not UTF-8, so white
space is found by code point here and by byte pattern in text.py.  Source: pipe.md, section 1.
"""

from __future__ import annotations

import re

from construct import (
    Check,
    Const,
    ConstructError,
    Error,
    ExprAdapter,
    ExprValidator,
    GreedyBytes,
    NullTerminated,
    OneOf,
    Optional,
    RestreamData,
    Select,
    Struct,
    Switch,
    Terminated,
    this,
)

_ODD_SPACES = [0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
WHITE = "\t\n\v\f\r " + "".join(map(chr, _ODD_SPACES))
"""White_Space of Unicode, which is what Go's unicode.IsSpace goes by."""


def _same(text: str, context: object) -> str:
    return text


def _octets(text: str, context: object = None) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _upper(text: str, context: object) -> str:
    """ASCII only, as no command has other letters."""
    return re.sub("[a-z]+", lambda found: found[0].upper(), text)


def _lower(text: str, context: object) -> str:
    return re.sub("[A-Z]+", lambda found: found[0].lower(), text)


def _laid_out(text: str, context: object) -> bytes:
    return _octets("".join(word + " " for word in re.split(f"[{WHITE}]", text) if word))


def _number(text: str, context: object) -> int | None:
    found = re.fullmatch("([+-]?)0*([0-9]{1,19})", text)
    return None if found is None else int(found[1] + found[2])


Text = ExprAdapter(GreedyBytes, lambda octets, _: octets.decode("utf-8", "surrogateescape"), _octets)

# -- arguments

Word = NullTerminated(Text, term=b" ")
Name = ExprValidator(Word, lambda word, _: re.search("[\udc80-\udcff]", word) is None)  # UTF-8
Message = ExprValidator(Word, lambda word, _: ":" in word)
Number = ExprValidator(
    ExprAdapter(Word, _number, lambda number, _: str(number)),
    lambda number, _: number is not None and -(2**63) <= number < 2**63,
)
Natural = ExprValidator(Number, lambda number, _: number >= 0)
Lower = ExprAdapter(Word, _lower, _same)

# -- commands: B where it differs, else D

PRODUCE = Struct(
    "topic" / Name,
    "message" / Message,  # key ":" value, at the first colon
    "acks" / Optional(OneOf(Lower, ["acks=0", "acks=1", "acks=all"])),
    Terminated,
)
CONSUME = Struct("topic" / Name, "partition" / Natural, "offset" / Natural, Terminated)
JOIN = Struct(
    "group" / Name,
    "topic" / Name,
    "consumer_id" / Name,
    "assignor" / Optional(OneOf(Lower, ["assignor=round_robin", "assignor=range"])),
    Terminated,
)
MEMBERSHIP = Struct("group" / Name, "topic" / Name, "consumer_id" / Name, "generation" / Number, Terminated)
COMMIT_B = Struct("group" / Name, "topic" / Name, "partition" / Natural, "offset" / Natural, Terminated)
COMMIT_D = Struct(
    "group" / Name,
    "topic" / Name,
    "consumer_id" / Name,
    "generation" / Number,
    "partition" / Natural,
    "offset" / Natural,
    Terminated,
)
OFFSET = Struct("group" / Name, "topic" / Name, "partition" / Natural, Terminated)

COMMANDS = {
    "PRODUCE": PRODUCE,
    "CONSUME": CONSUME,
    "JOIN": JOIN,
    "SYNC": MEMBERSHIP,
    "HEARTBEAT": MEMBERSHIP,
    "LEAVE": MEMBERSHIP,
    "COMMIT": Select(COMMIT_B, COMMIT_D),
    "OFFSET": OFFSET,
}

# -- lines

Section = ExprAdapter(NullTerminated(Text, term=b"|"), lambda text, _: text.strip(WHITE), _same)
REQUEST_LINE = Struct(
    "version" / Section,
    Check(this.version == "V1"),
    "corr" / Section,
    Check(this.corr != ""),
    "command" / ExprAdapter(Section, _upper, _same),
    "words" / ExprAdapter(Text, _laid_out, lambda words, _: words.rstrip(b" ").decode("utf-8", "surrogateescape")),
    "args" / RestreamData(this.words, Switch(this.command, COMMANDS, default=Error)),
)
REQUEST = Struct("line" / NullTerminated(REQUEST_LINE, term=b"\n"), Terminated)

OK_LINE = Struct(Const(b"V1|"), "corr" / NullTerminated(Text, term=b"|"), Const(b"OK|"), "payload" / Text)
ERR_LINE = Struct(
    Const(b"V1|"),
    "corr" / NullTerminated(Text, term=b"|"),
    Const(b"ERR|"),
    "code"
    / OneOf(
        NullTerminated(Text, term=b"|"),
        ["BAD_REQUEST", "UNKNOWN_COMMAND", "REPLICATION_TIMEOUT", "NOT_LEADER", "GENERATION_MISMATCH"],
    ),
    "message" / Text,
)
REPLY = Struct("line" / NullTerminated(Select(OK_LINE, ERR_LINE), term=b"\n"), Terminated)


def parse_request(frame: bytes) -> object | None:
    """The parts of a request line, None where the grammar refuses it."""
    try:
        line: object = REQUEST.parse(frame).line
    except ConstructError:
        return None
    return line


def parse_reply(frame: bytes) -> object | None:
    """The parts of a reply line, None where the grammar refuses it."""
    try:
        line: object = REPLY.parse(frame).line
    except ConstructError:
        return None
    return line
