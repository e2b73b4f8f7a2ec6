"""Cursus v1 requests as a grammar: slow, readable, what the fast path is tested against.  The server never loads it.

Bytes are laid out with construct; the arguments of text commands are a table of keys, each with what it may hold.
Source: protocol page, sections 1 to 3 and 5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from construct import (
    Array,
    Bytes,
    Check,
    Computed,
    Const,
    ConstructError,
    ExprValidator,
    GreedyBytes,
    GreedyRange,
    IfThenElse,
    Int8ub,
    Int16ub,
    Int32sb,
    Int32ub,
    Int64sb,
    Int64ub,
    PascalString,
    Peek,
    Prefixed,
    Struct,
    Terminated,
    Tunnel,
    this,
)

from gateway import compression
from gateway.core.faults import CommandFailed

# -- batches

Short = Prefixed(Int16ub, GreedyBytes)
Long = Prefixed(Int32ub, GreedyBytes)

RECORD = Struct(
    "offset" / Int64ub,  # 0 from producers
    "sequence" / Int64ub,
    "producer" / Short,
    "key" / Short,
    "epoch" / Int64sb,
    "payload" / Long,
    "event_type" / Short,
    "schema_version" / Int32ub,
    "aggregate_version" / Int64ub,
    "metadata" / Short,
)
RECORDS = Struct("records" / GreedyRange(RECORD), Terminated)
"""The record encoding `cursus.v1`."""

DIGITS = Struct("length" / Int16ub, Check((this.length >= 1) & (this.length <= 10)), "digits" / Bytes(this.length))
SEED_PLACE = Struct(
    "partition" / Prefixed(Int16ub, GreedyBytes),
    "acks" / Prefixed(Int16ub, GreedyBytes),
)
PLACE = Struct("partition" / Int32sb, "acks" / Prefixed(Int8ub, GreedyBytes))

BATCH = Struct(
    Const(b"\xba\x7c"),
    "topic" / PascalString(Int16ub, "utf8"),
    "ahead" / Peek(DIGITS),
    "place"
    / IfThenElse(lambda it: it.ahead is not None and re.fullmatch(rb"[0-9]+", it.ahead.digits), SEED_PLACE, PLACE),
    "partition" / Computed(lambda it: int(it.place.partition)),
    "idempotent" / Int8ub,
    "first" / Int64ub,
    "last" / Int64ub,
    "count" / Int32sb,
    Check(lambda it: 1 <= it.count <= 100_000 and it.partition >= 0),
    Check(lambda it: it.place.acks.lower() in (b"", b"0", b"1", b"-1", b"all")),
    "records" / Array(this.count, RECORD),
    "ignored" / GreedyBytes,
)

# -- the arguments of text commands

Holds = Callable[[bytes], object]


def _text(value: bytes) -> object:
    return value


def _anything(value: bytes) -> object:
    return True


def _match(pattern: bytes) -> Holds:
    return re.compile(pattern, re.DOTALL).fullmatch


def _number(sign: bytes, low: int, high: int) -> Holds:
    """Leading zeros are fine; more than 20 digits are no number of 64 bits."""
    digits = _match(b"(" + sign + b")0*([0-9]{1,20})")

    def holds(value: bytes) -> object:
        found = digits(value)
        return isinstance(found, re.Match) and low <= int(found[1] + found[2]) <= high

    return holds


INT64 = 2**63
INTEGER = _number(b"[+-]?", -INT64, INT64 - 1)
NATURAL = _number(b"[+-]?", 0, INT64 - 1)
POSITIVE = _number(b"[+-]?", 1, INT64 - 1)
HOURS = _number(b"[+-]?", 0, (INT64 - 1) // 3_600_000_000)
UNSIGNED = _number(b"", 0, 2**64 - 1)
OFFSET = _number(b"", 0, INT64 - 1)
NAME = _match(rb"(?!\.{1,2}\Z)[A-Za-z0-9._=-]{1,249}")
CLEANUP = _match(rb"(?i:delete|compact|delete,compact|compact,delete)")
BOOLEAN = _match(rb"1|t|T|TRUE|true|True|0|f|F|FALSE|false|False")
FEATURES = _match(rb"\*|[a-z0-9_]{1,64}(?:,[a-z0-9_]{1,64}){0,63}")
SERVED = {
    *(b"idempotent_producer_v1", b"offset_resume_v1", b"stream_control_v1", b"structured_errors_v1"),
    b"topic_compaction_v1",
}
FITS = _match(rb".{1,65535}")
ENTRY = rb"P?([+-]?[0-9]+):([0-9]+)"

Fields = Mapping[bytes, bytes]


class Form(NamedTuple):
    """One command: keys that must be there and hold something, keys that are looked at if they are there, keys that
    are looked at if they hold something; the seed's order, the keys that it does not need; and what else has to hold.
    """

    must: Mapping[str, Holds] = MappingProxyType({})
    may: Mapping[str, Holds] = MappingProxyType({})
    can: Mapping[str, Holds] = MappingProxyType({})
    order: str = ""
    keyed: tuple[str, ...] = ()
    also: Callable[[Fields], object] = _anything  # type: ignore[assignment]  # it takes anything
    bare: bool = False
    message: bool = False


def _no_compacted_events(fields: Fields) -> bool:
    events = fields.get(b"event_sourcing", b"").lower() == b"true"
    return not (events and b"compact" in fields.get(b"cleanup_policy", b"").lower())


def _entries(fields: Fields) -> bool:
    found = [re.fullmatch(ENTRY, entry) for entry in (fields.get(b"offsets") or fields[b" last"]).split(b",")]
    partitions = [int(entry[1]) for entry in found if entry and NATURAL(entry[1]) and OFFSET(entry[2])]
    return len(partitions) == len(found) == len(set(partitions))


def _agreeable(fields: Fields) -> bool:
    wanted, insists = fields.get(b"features", b""), fields.get(b"require_features", b"")[:1] in (b"1", b"t", b"T")
    unknown = set(wanted.split(b",")) - SERVED - {b"", b"*"}
    return int(fields[b"version"]) == 1 and len(wanted) <= 4096 and not (insists and unknown)


GROUP = {"topic": _text, "group": _text}
MEMBER = {**GROUP, "member": _text}
FENCED = {**MEMBER, "generation": INTEGER}
COMMIT = Form(
    {"topic": _text, "partition": NATURAL, "group": _text, "offset": OFFSET, "member": _text, "generation": INTEGER},
    order="topic group partition offset",
    keyed=("member", "generation"),
)
FORMS = {
    "CREATE": Form(
        {"topic": NAME},
        {"partitions": POSITIVE, "replication_factor": POSITIVE},
        {
            "cleanup_policy": CLEANUP,
            "retention_hours": HOURS,
            "retention_bytes": NATURAL,
            "partitioner": _match(rb"(?i:hash_key|round_robin)"),
            "auth_policy": _match(rb"(?i:open|deny_write|deny_read|acl)"),
        },
        order="topic partitions",
        also=_no_compacted_events,
    ),
    "DELETE": Form({"topic": _text}, order="topic"),
    "LIST": Form(also=lambda fields: not fields[b" last"] or fields.get(b"topic")),
    "PUBLISH": Form(
        {"topic": _text, "producerId": FITS},
        {"isIdempotent": _match(rb"(?i:true|false)"), "seqNum": UNSIGNED, "epoch": INTEGER, "partition": INTEGER},
        {"acks": _match(rb"(?i:0|1|-1|all)"), "key": FITS},
        message=True,
    ),
    "CONSUME": Form(
        {"topic": _text, "partition": NATURAL, "offset": OFFSET, "member": _text},
        {},
        {"generation": INTEGER, "isolation": _match(rb"read_committed|read_uncommitted")},
        order="topic partition offset",
        keyed=("member",),
    ),
    "STREAM": Form(
        {"topic": _text, "partition": NATURAL, "group": _text},
        {},
        {"offset": OFFSET, "generation": INTEGER, "isolation": _match(rb"read_committed|read_uncommitted")},
        order="topic partition offset",
        keyed=("group",),
    ),
    "JOIN_GROUP": Form(MEMBER, can={"generation": INTEGER}, order="topic group member"),
    "SYNC_GROUP": Form(FENCED, order="topic group member generation"),
    "LEAVE_GROUP": Form(MEMBER, can={"generation": INTEGER}, order="topic group member"),
    "HEARTBEAT": Form(FENCED, order="topic group consumer member generation"),
    "COMMIT_OFFSET": COMMIT,
    "COMMIT": COMMIT,
    "BATCH_COMMIT": Form(FENCED, order="topic group member generation offsets", also=_entries),
    "FETCH_OFFSET": Form({"topic": _text, "partition": NATURAL, "group": _text}),
    "LIST_OFFSETS": Form({"topic": _text}, can={"partition": NATURAL}),
    "REGISTER_GROUP": Form(GROUP),
    "SUBSCRIBE": Form(GROUP, order="topic group"),
    "GROUP_STATUS": Form({"group": _text}),
    "LIST_GROUPS": Form(bare=True),
    "DESCRIBE": Form({"topic": _text}),
    "METADATA": Form({"topic": _text}),
    "FIND_COORDINATOR": Form(also=lambda fields: fields.get(b"group") or fields.get(b"transactional_id")),
    "AUTH": Form({"principal": _text, "token": _text}),
    "HELP": Form(bare=True),
    "PROTOCOL_INFO": Form(bare=True),
    "NEGOTIATE": Form({"version": INTEGER}, {}, {"require_features": BOOLEAN, "features": FEATURES}, also=_agreeable),
}
NOT_SERVED = {
    *("APPEND_STREAM", "READ_STREAM", "SAVE_SNAPSHOT", "READ_SNAPSHOT", "STREAM_VERSION", "INIT_PRODUCER_ID"),
    *("BEGIN_TXN", "TXN_PUBLISH", "SEND_OFFSETS_TO_TXN", "END_TXN", "TXN_STATUS"),
    *("LIST_CLUSTER", "CLUSTER_STATUS", "ELECT_LEADER"),
}
NOT_CHECKED = {
    *(b"idempotent", b"event_sourcing", b"read_acl", b"write_acl", b"batch", b"wait_ms", b"autoOffsetReset"),
    *(b"isolation_level", b"offsets", b"transactional_id", b"auth_token", b"message"),
}
KEYS = NOT_CHECKED | {key.encode() for form in FORMS.values() for part in form[:3] for key in part}
"""One of these makes a line one of key=value arguments."""

WHITE = b"[ \\t\\n\\v\\f\\r]"
LINE = re.compile(b"%b*([^ \\t\\n\\v\\f\\r]+)(?:%b+(.*?))?%b*" % (WHITE, WHITE, WHITE), re.DOTALL)


def _words(text: bytes) -> list[bytes]:
    return [word for word in re.split(WHITE + b"+", text) if word]


OPEN = ("HELP", "PROTOCOL_INFO", "NEGOTIATE")
"""Commands on which it is not looked at who asks."""

CLAIM = re.compile(rb"(?:^|%b)(principal|auth_token)=([^ \t\n\v\f\r]*)" % WHITE)


def _unclaimed(word: str, args: bytes) -> tuple[bytes, bool] | None:
    """The arguments without those that say who asks, and whether there were any; None if they say half of it."""
    before, found, message = args.partition(b"message=")
    claims = dict(CLAIM.findall(before)) if word != "AUTH" else {}
    if not claims:
        return args, False
    try:
        before.decode()
    except UnicodeDecodeError:
        return None
    whole = claims.get(b"principal") and claims.get(b"auth_token")
    return (CLAIM.sub(b"", before).strip() + found + message, True) if whole or word in OPEN else None


def _arguments(form: Form, args: bytes, claimed: bool) -> tuple[dict[bytes, bytes], bool] | None:
    """(key -> value, whether they were given with keys), None if they are in no form; ` last` is the last token."""
    before, found, message = args.partition(b"message=")
    try:
        before.decode()
    except UnicodeDecodeError:
        return None
    pairs = re.findall(rb"(?:^|%b)([^ \t\n\v\f\r=]*)=([^ \t\n\v\f\r]*)" % WHITE, before)
    fields = dict(pairs)
    keyed = claimed or bool(found) or bool(KEYS & fields.keys())
    if form.order and not keyed:
        values = _words(args)
        names = form.order.encode().split()
        if len(values) != len(names) and (form.order, len(values)) != ("topic partitions", 1):
            return None
        fields = dict(zip(names, values, strict=False))
    fields[b" last"] = _words(args)[-1] if _words(args) else b""
    fields[b" message"] = re.sub(b"\\A%b+|%b+\\Z" % (WHITE, WHITE), b"", message)
    return fields, keyed


def _accepts(form: Form, args: bytes, claimed: bool) -> bool:
    found = _arguments(form, args, claimed)
    if found is None or (form.bare and args):
        return False
    fields, keyed = found
    for key, holds in form.must.items():
        value = fields.get(key.encode(), b"")
        if (keyed or not form.order or key not in form.keyed) and not (value and holds(value)):
            return False
    may = all(holds(fields[key.encode()]) for key, holds in form.may.items() if key.encode() in fields)
    can = all(holds(fields[key.encode()]) for key, holds in form.can.items() if fields.get(key.encode()))
    return bool(may and can and form.also(fields) and (not form.message or fields[b" message"]))


def _command(text: bytes) -> tuple[str, bytes] | None:
    """(word, arguments) if the first word is a command."""
    found = LINE.fullmatch(text)
    word = found[1].decode("ascii", "replace").upper() if found else ""
    return (word, found[2] or b"") if found and (word in FORMS or word in NOT_SERVED) else None


def _is_served(text: bytes) -> bool:
    word, args = _command(text) or ("", b"")
    rest = _unclaimed(word, args) if word in FORMS else None
    return rest is not None and _accepts(FORMS[word], *rest)


# -- frames

TEXT = ExprValidator(GreedyBytes, lambda text, _: _is_served(text))
ENVELOPE = Struct(
    "topic" / Short, "text" / ExprValidator(GreedyBytes, lambda text, _: _is_served(text.strip(b"\0 \t\n\v\f\r")))
)


def _is_batch(payload: bytes) -> bool:
    length = int.from_bytes(payload[2:4], "big")
    return len(payload) >= 6 and payload[:2] == b"\xba\x7c" and 0 < length <= len(payload) - 2


PAYLOAD = Struct(
    "all" / Peek(GreedyBytes),
    "asked"
    / IfThenElse(
        lambda it: _is_batch(it.all), BATCH, IfThenElse(lambda it: _command(it.all) is not None, TEXT, ENVELOPE)
    ),
)

MOST = 64 << 20
"""Bytes that may come out of a compressed payload."""
COMPRESSORS = [compression.load(name) for name in compression.names()]


class Unpacked(Tunnel):  # type: ignore[misc]  # construct has no types
    """The payload, decompressed if it begins like the output of a compressor."""

    def _decode(self, payload: bytes, context: object, path: str) -> bytes:
        for compressor in COMPRESSORS:
            if compressor.magic and payload.startswith(compressor.magic) and not _is_batch(payload):
                try:
                    return compressor.decompress(payload, MOST)
                except CommandFailed as failure:
                    raise ConstructError(str(failure), path) from failure
        return payload


REQUEST = Struct("payload" / Prefixed(Int32ub, Unpacked(PAYLOAD)), Terminated)


def parse_request(frame: bytes) -> object | None:
    """The parts of a request frame, None where the grammar refuses it."""
    try:
        asked: object = REQUEST.parse(frame).payload.asked
    except ConstructError:
        return None
    return asked


def parse_records(body: bytes) -> list[object] | None:
    """The records of a `cursus.v1` body, None where it is not whole and exact."""
    try:
        records: list[object] = list(RECORDS.parse(body).records)
    except ConstructError:
        return None
    return records
