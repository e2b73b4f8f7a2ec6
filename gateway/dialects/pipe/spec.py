"""The V1 protocol as a grammar: slow, readable, what wire.py is tested against.  The server never loads it.

A request is trimmed section by section, then its arguments are laid out anew as words with one space behind each, and
these are what the grammar of a command reads.  Text is str with lone surrogates for bytes that are not UTF-8, so white
space is found by code point here and by byte pattern in text.py.  Source: pipe.md, section 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable

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


def _most(text: str, context: object) -> int | None:
    return _number(re.sub("^[Mm][Aa][Xx]=", "", text), context)


def _from(least: int) -> Callable[[int | None, object], bool]:
    """A 64-bit number that is not below it."""
    return lambda number, context: number is not None and least <= number < 2**63


def _numbers(text: str, context: object) -> list[int | None]:
    return [_number(number, context) for number in text.split(",") if number]


def _commas(numbers: list[int], context: object) -> str:
    return ",".join(map(str, numbers)) or ","


def _all_numbers(numbers: list[int | None], context: object) -> bool:
    return len(numbers) <= 64 and all(_from(-(2**63))(number, context) for number in numbers)


Text = ExprAdapter(GreedyBytes, lambda octets, _: octets.decode("utf-8", "surrogateescape"), _octets)

# -- arguments

Word = NullTerminated(Text, term=b" ")
Name = ExprValidator(Word, lambda word, _: re.search("[\udc80-\udcff]", word) is None)  # UTF-8
Message = ExprValidator(Word, lambda word, _: ":" in word)
AnyNumber = ExprAdapter(Word, _number, lambda number, _: str(number))
Number = ExprValidator(AnyNumber, _from(-(2**63)))
Natural = ExprValidator(AnyNumber, _from(0))
Positive = ExprValidator(AnyNumber, _from(1))
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

# -- commands of brokers and administrators: stage D

PROGRESS = Struct(
    "topic" / Name,
    "partition" / Natural,
    "replica" / OneOf(Number, [1, 2]),  # of three; 0 is the node itself
    "offset" / Number,
    Terminated,
)
ROLE = Struct("topic" / Name, "partition" / Natural, "role" / OneOf(Lower, ["leader", "follower"]), Terminated)
BROKER_FETCH = Struct(
    "topic" / Name,
    "partition" / Natural,
    "follower" / Number,
    "offset" / Natural,
    "max_messages" / Optional(ExprValidator(ExprAdapter(Word, _most, lambda most, _: str(most)), _from(1))),
    Terminated,
)
CREATE_TOPIC = Struct("topic" / Name, "partitions" / Positive, "replication_factor" / Positive, Terminated)
LEADER = Struct(
    "topic" / Name,
    "partition" / Natural,
    "leader" / ExprValidator(AnyNumber, _from(-1)),
    "isr" / ExprValidator(ExprAdapter(Word, _numbers, _commas), _all_numbers),
    Terminated,
)
REGISTER = Struct(
    "broker" / Natural,
    "host" / ExprValidator(Name, lambda host, _: len(_octets(host)) <= 255),
    "port" / Positive,
    "epoch" / Optional(Number),
    Terminated,
)
BROKER = Struct("broker" / Natural, Terminated)

COMMANDS = {
    "PRODUCE": PRODUCE,
    "CONSUME": CONSUME,
    "JOIN": JOIN,
    "SYNC": MEMBERSHIP,
    "HEARTBEAT": MEMBERSHIP,
    "LEAVE": MEMBERSHIP,
    "COMMIT": Select(COMMIT_B, COMMIT_D),
    "OFFSET": OFFSET,
    "REPLICA_FETCH": PROGRESS,
    "BROKER_REPLICA_ACK": PROGRESS,
    "BROKER_FETCH": BROKER_FETCH,
    "SET_PARTITION_ROLE": ROLE,
    "ADMIN_CREATE_TOPIC": CREATE_TOPIC,
    "ADMIN_SET_PARTITION_LEADER": LEADER,
    "ADMIN_ELECT_TOPIC_LEADERS": Struct("topic" / Name, Terminated),
    "ADMIN_GET_METADATA": Struct(Terminated),
    "ADMIN_REGISTER_BROKER": REGISTER,
    "ADMIN_BROKER_HEARTBEAT": BROKER,
    "ADMIN_FENCE_BROKER": BROKER,
    "ADMIN_UNFENCE_BROKER": BROKER,
    "ADMIN_RECONCILE_BROKER_HEALTH": Struct("timeout_ms" / Positive, Terminated),
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
