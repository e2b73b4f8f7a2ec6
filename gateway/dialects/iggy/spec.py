"""The Iggy protocol as a grammar: slow, readable, what the fast path is tested against.  The server never loads it.

One grammar a generation, `g0` (the seed) to `g2c`; a table below says what each code carries in it.  What a server of
theirs would refuse although it can read it is not grammar but `complaint`.  Integers are little-endian.
Source: protocol page, sections 1 to 3; codes that are known and not served are no part of it.
"""

from __future__ import annotations

import re
from functools import cache

from construct import (
    Array,
    Bytes,
    Check,
    Computed,
    Const,
    Construct,
    ConstructError,
    Container,
    Error,
    ExprValidator,
    FixedSized,
    Float32l,
    GreedyBytes,
    GreedyRange,
    If,
    IfThenElse,
    Int8ul,
    Int16ul,
    Int32ul,
    Int64ul,
    OneOf,
    Optional,
    PascalString,
    Prefixed,
    Select,
    Struct,
    Switch,
    Tell,
    Terminated,
    this,
)

GENERATIONS = ("g0", "g1a", "g1b_texts", "g1b", "g2a", "g2b", "g2c")
MAX_PAYLOADS = 10 << 20
MAX_HEADERS = 100 << 10
MAX_MESSAGES = 100_000
MAX_OFFSET = 2**63 - 1


def _from(generation: str, first: str) -> bool:
    return GENERATIONS.index(generation) >= GENERATIONS.index(first)


# -- what commands are made of

S8 = PascalString(Int8ul, "utf8")
S32 = PascalString(Int32ul, "utf8")
Int128ul = Bytes(16)  # nobody counts with it
NAME = ExprValidator(S8, lambda name, _: re.fullmatch(r"[\w.\-\s]+", name) is not None)
NUMERIC = Struct("kind" / Const(1, Int8ul), Const(4, Int8ul), "value" / Int32ul)
NAMED = Struct("kind" / Const(2, Int8ul), "value" / ExprValidator(S8, lambda name, _: name != ""))
IDENTIFIER = Select(NUMERIC, NAMED)
NOTHING = Struct(Terminated)
WIDTHS = {3: 1, 4: 1, 5: 2, 6: 4, 7: 8, 8: 16, 9: 1, 10: 2, 11: 4, 12: 8, 13: 16, 14: 4, 15: 8}
"""Bytes of a header value by its kind; 1 and 2, raw and text, have any number of them."""

PARTITIONING = Select(
    Struct("kind" / Const(1, Int8ul), Const(0, Int8ul)),  # in turn
    Struct("kind" / Const(2, Int8ul), Const(4, Int8ul), "partition" / Int32ul),
    Struct("kind" / Const(3, Int8ul), "key" / ExprValidator(Prefixed(Int8ul, GreedyBytes), lambda key, _: key != b"")),
)


def _value(kind: Construct) -> Construct:
    """The bytes of a header's key or value, with their length before them."""
    return Struct(
        "bytes" / Prefixed(Int32ul, GreedyBytes),
        Check(lambda it: 1 <= len(it.bytes) <= 255),
        Check(lambda it: len(it.bytes) == WIDTHS.get(kind(it._), len(it.bytes))),
    )


KIND = ExprValidator(Int8ul, lambda kind, _: 1 <= kind <= 15)
HEADER = Struct("key_kind" / Computed(2), "key" / _value(this.key_kind), "kind" / KIND, "value" / _value(this.kind))
TYPED_HEADER = Struct("key_kind" / KIND, "key" / _value(this.key_kind), "kind" / KIND, "value" / _value(this.kind))


def headers_of(generation: str) -> Construct:
    """All headers of a message; their keys have kinds in g2c only."""
    return Struct("all" / GreedyRange(TYPED_HEADER if generation == "g2c" else HEADER), Terminated)


# -- messages


def sent_message(generation: str, headers: Construct) -> Construct:
    """A message as a client sends it; headers: how those are read."""
    if _from(generation, "g2a"):
        return _later_message(generation, headers)
    return Struct(
        "id" / Int128ul,
        "headers" / Prefixed(Int32ul, headers),
        "payload" / Prefixed(Int32ul, GreedyBytes),
    )


def polled_message(generation: str, headers: Construct) -> Construct:
    """A message as a server sends it; headers: how those are read."""
    if _from(generation, "g2a"):
        return _later_message(generation, headers)
    return Struct(
        "offset" / Int64ul,
        "state" / OneOf(Int8ul, [1, 10, 20, 30]),
        "timestamp" / Int64ul,
        "id" / Int128ul,
        "checksum" / Int32ul,  # CRC-32 of the payload
        "headers" / Prefixed(Int32ul, headers),
        "payload" / Prefixed(Int32ul, GreedyBytes),
    )


def _later_message(generation: str, headers: Construct) -> Construct:
    return Struct(
        "checksum" / Int64ul,
        "id" / Int128ul,
        "offset" / Int64ul,
        "timestamp" / Int64ul,
        "origin_timestamp" / Int64ul,
        "headers_length" / Int32ul,
        "payload_length" / Int32ul,
        "reserved" / Bytes(8 if generation == "g2c" else 0),
        "payload" / Bytes(this.payload_length),
        "headers" / FixedSized(this.headers_length, headers),
        "end" / Tell,
    )


TARGET = ("stream" / IDENTIFIER, "topic" / IDENTIFIER)
INDEX = Struct(Const(0, Int32ul), "end" / Int32ul, Const(0, Int64ul))
"""Of a message, from the first one's begin."""


def _send(generation: str) -> Construct:
    message = sent_message(generation, headers_of(generation))
    if not _from(generation, "g2a"):
        return Struct(*TARGET, "partitioning" / PARTITIONING, "messages" / GreedyRange(message), Terminated)
    return Struct(
        "metadata" / Prefixed(Int32ul, Struct(*TARGET, "partitioning" / PARTITIONING, "count" / Int32ul, Terminated)),
        "partitioning" / Computed(this.metadata.partitioning),
        "index" / Array(this.metadata.count, INDEX),
        "begin" / Tell,
        "messages" / Array(this.metadata.count, message),
        Check(lambda it: [at.end + it.begin for at in it.index] == [message.end for message in it.messages]),
        Terminated,
    )


# -- requests

VERSION = Struct("version" / S32, "context" / S32)
LOGIN = Struct("user" / S8, "password" / S8, "client" / Select(VERSION, NOTHING))
COMPRESSION = OneOf(Int8ul, [1, 2])


def _partition(generation: str) -> Construct:
    """One that is not there is written as 0, from g2b on with a 0 before it."""
    if _from(generation, "g2b"):
        return Struct("flag" / Int8ul, "number" / Int32ul, "there" / Computed(this.flag == 1))
    return Struct("number" / Int32ul, "there" / Computed(this.number != 0))


def _groups(generation: str) -> dict[int, Construct]:
    name = Struct(*TARGET, "id" / Int32ul, "name" / NAME)
    if generation == "g0":
        name = Struct(*TARGET, "id" / Int32ul)
    if _from(generation, "g2b"):
        name = Struct(*TARGET, "name" / NAME)
    group = Struct(*TARGET, "group" / (Int32ul if generation == "g0" else IDENTIFIER))
    return {601: Struct(*TARGET), 602: name, **dict.fromkeys((600, 603, 604, 605), group)}


def _topics(generation: str) -> dict[int, Construct]:
    later = _from(generation, "g1a")
    create = (
        "stream" / IDENTIFIER,
        *(() if _from(generation, "g2b") else ("id" / Int32ul,)),
        "partitions" / Int32ul,
        *(("compression" / COMPRESSION,) if later else ()),
        "expiry" / (Int64ul if _from(generation, "g1b_texts") else Int32ul),
        *(("size" / Int64ul, "replication" / Int8ul) if later else ()),
        "name" / NAME,
    )
    partitions = Struct(*TARGET, "count" / Int32ul)
    return {
        300: Struct(*TARGET),
        301: Struct("stream" / IDENTIFIER),
        302: Struct(*create),
        303: Struct(*TARGET),
        402: partitions,
        403: partitions,
    }


def _messages(generation: str) -> dict[int, Construct]:
    kind = "kind" / OneOf(Int8ul, [1, 2])
    consumer = Struct(kind, "id" / (Int32ul if generation == "g0" else IDENTIFIER))
    place = ("consumer" / consumer, *TARGET, "partition" / _partition(generation))
    strategy = Struct("kind" / OneOf(Int8ul, [1, 2, 3, 4, 5]), "value" / Int64ul)
    return {
        100: Struct(*place, "strategy" / strategy, "count" / Int32ul, "commit" / Int8ul),
        101: _send(generation),
        120: Struct(*place),
        121: Struct(*place, "offset" / Int64ul),
        **({122: Struct(*place)} if _from(generation, "g1a") else {}),
    }


def _requests(generation: str) -> dict[int, Construct]:
    stream = Struct("stream" / IDENTIFIER)
    numbered = Struct("id" / Int32ul, "name" / NAME)
    return {
        **dict.fromkeys((1, 10, 12, 20, 22, 201), NOTHING),
        **({39: NOTHING} if _from(generation, "g1a") else {}),
        21: Struct("client" / Int32ul, Terminated),
        38: LOGIN,
        44: Struct("token" / S8),
        200: stream,
        202: Struct("name" / NAME) if _from(generation, "g2b") else numbered,
        203: stream,
        **_topics(generation),
        **_messages(generation),
        **_groups(generation),
    }


@cache
def _request(generation: str) -> Construct:
    payload = Switch(this.code, _requests(generation), default=Error)
    return Struct(
        "length" / Int32ul,
        Check(this.length >= 4),
        "code" / Int32ul,
        "generation" / Computed(generation),
        "payload" / FixedSized(this.length - 4, payload),  # more than the last field is no matter
        Terminated,
    )


FRAME = Prefixed(Int32ul, GreedyBytes)
"""A code and what comes with it, whatever they are, behind their length."""


def parse_grammar(frame: bytes, generation: str = "g0") -> Container | None:
    """The parts of a request frame, None where the grammar refuses it."""
    try:
        return _request(generation).parse(frame)
    except ConstructError:
        return None


def parse_request(frame: bytes, generation: str = "g0") -> Container | None:
    """The parts of a request frame that is carried out: the grammar reads it, and there is no complaint."""
    request = parse_grammar(frame, generation)
    return None if request is None or complaint(request) is not None else request


# -- what is read and refused all the same


def _lowered(name: str) -> str:
    """What the servers up to g1a made of a name."""
    return ".".join(name.lower().split())


def _place(request: Container) -> str | None:
    """Why there can be no such place in the log: a partition counted from 1, an offset of 63 bits."""
    asked = request.payload
    if asked.consumer.kind == 1 and not asked.partition.there and not _from(request.generation, "g2b"):
        return "a consumer without a partition"
    from_offset = request.code == 100 and asked.strategy.kind == 1
    offset = asked.strategy.value if from_offset else asked.get("offset", 0)
    return None if offset < MAX_OFFSET else "an offset that nothing has"


def _sent(request: Container) -> str | None:
    messages = request.payload.messages
    if request.payload.partitioning.get("partition") == 0 and not _from(request.generation, "g2b"):
        return "a partition 0"
    values = sum(len(header.value.bytes) for message in messages for header in message.headers.all)
    payloads = sum(len(message.payload) for message in messages)
    if not 1 <= len(messages) <= MAX_MESSAGES:
        return "no message, or too many"
    if values > MAX_HEADERS:
        return "too many bytes of headers"
    if payloads > MAX_PAYLOADS:
        return "too many bytes of payload"
    return None if payloads else "nothing but empty payloads"


def _made(request: Container) -> str | None:
    asked = request.payload
    if request.generation == "g0" and asked.id == 0:
        return "an id of 0"
    if (
        not _from(request.generation, "g1b_texts")
        and "name" in asked
        and not 1 <= len(_lowered(asked.name).encode()) <= 255
    ):
        return "a name of which nothing is left, or too much"
    return None


def complaint(request: Container) -> str | None:
    """What is wrong with a request that the grammar reads, None = nothing.  How many partitions there may be is not
    said here: that is known where they are kept.
    """
    match request.code:
        case 100 if not request.payload.count:
            return "no messages wanted"
        case 101:
            return _sent(request)
        case 100 | 120 | 121 | 122:
            return _place(request)
        case 202 | 302 | 602:
            return _made(request)
    return None


# -- replies

STREAM = (
    "id" / Int32ul,
    "created_at" / Int64ul,
    "topics_count" / Int32ul,
    "size" / Int64ul,
    "messages" / Int64ul,
    "name" / S8,
)
PARTITION = Struct(
    "id" / Int32ul,
    "created_at" / Int64ul,
    "segments_count" / Int32ul,
    "current_offset" / Int64ul,
    "size" / Int64ul,
    "messages" / Int64ul,
)
MEMBER = Struct("id" / Int32ul, "count" / Int32ul, "partitions" / Array(this.count, Int32ul))
MEMBERSHIP = Struct("stream" / Int32ul, "topic" / Int32ul, "group" / Int32ul)
STORED = Struct("partition" / Int32ul, "current_offset" / Int64ul, "stored_offset" / Int64ul)
NODE = Struct(
    "name" / S32,
    "ip" / S32,
    "ports" / Array(4, Int16ul),  # tcp, quic, http, websocket
    "role" / OneOf(Int8ul, [0, 1]),
    "status" / Int8ul,
)
CLUSTER = Struct("name" / S32, "count" / Int32ul, "nodes" / Array(this.count, NODE))
SERVER = Struct("version" / S32, "semver" / Int32ul, "count" / Int32ul, "caches" / Array(this.count, Bytes(32)))
MACHINE = Struct("threads" / Int32ul, "free_disk" / Int64ul, "total_disk" / Int64ul)


def _stats(generation: str) -> Construct:
    """104 bytes and four texts in the seed, more and more behind and between them later."""
    later = _from(generation, "g1a")
    return Struct(
        "process_id" / Int32ul,
        "cpu_usage" / Float32l,
        *(("total_cpu_usage" / Float32l,) if later else ()),
        "memory" / Array(3, Int64ul),  # used, of all, free
        "run_time" / Int64ul,
        "start_time" / Int64ul,  # seconds, both
        "bytes" / Array(3, Int64ul),  # read, written, in messages
        "counts" / Array(4, Int32ul),  # streams, topics, partitions, segments
        "messages" / Int64ul,
        "clients" / Int32ul,
        "groups" / Int32ul,
        "texts" / Array(4, S32),  # host, system, its version, the kernel's
        *(("server" / Optional(SERVER), "machine" / If(this.server, Optional(MACHINE))) if later else ()),
        Terminated,
    )


def _topic(generation: str) -> tuple[Construct, ...]:
    return (
        "id" / Int32ul,
        "created_at" / Int64ul,
        "partitions_count" / Int32ul,
        "expiry" / (Int64ul if _from(generation, "g1b_texts") else Int32ul),
        *(("compression" / COMPRESSION, "max" / Int64ul, "replication" / Int8ul) if generation != "g0" else ()),
        "size" / Int64ul,
        "messages" / Int64ul,
        "name" / S8,
    )


def _polled(generation: str) -> Construct:
    return Struct(
        "partition" / Int32ul,
        "current_offset" / Int64ul,
        "count" / Int32ul,
        "messages" / Array(this.count, polled_message(generation, headers_of(generation))),
        Terminated,
    )


def _all(parts: Construct) -> Construct:
    return Struct("all" / GreedyRange(parts), Terminated)


def _replies(generation: str) -> dict[int, Construct]:
    seed, tells = generation == "g0", _from(generation, "g1b_texts")
    topic, named = _topic(generation), () if seed else ("name" / S8,)
    group = ("id" / Int32ul, "partitions_count" / Int32ul, "members_count" / Int32ul, *named)
    who = ("id" / Int32ul, *(() if seed else ("user_id" / Int32ul,)))
    client = (*who, "transport" / OneOf(Int8ul, [1, 2]), "address" / S32, "groups_count" / Int32ul)
    stream_whole = Struct(*STREAM, "topics" / Array(this.topics_count, Struct(*topic)), Terminated)
    topic_whole = Struct(*topic, "partitions" / Array(this.partitions_count, PARTITION), Terminated)
    group_whole = Struct(*group, "members" / Array(this.members_count, MEMBER), Terminated)
    client_whole = Struct(*client, "groups" / Array(this.groups_count, MEMBERSHIP), Terminated)
    missing = (Struct(Terminated),) if tells else ()  # what it is about is not there
    done = {202: stream_whole, 302: topic_whole, 602: group_whole}
    return {
        **dict.fromkeys((1, 39, 101, 121, 122, 203, 303, 402, 403, 603, 604, 605), NOTHING),
        **(done if tells else dict.fromkeys(done, NOTHING)),
        10: _stats(generation),
        12: Struct("cluster" / CLUSTER, Terminated),
        **dict.fromkeys((20, 21), Select(client_whole, *missing)),
        22: _all(Struct(*client)),
        **dict.fromkeys((38, 44), Struct("user" / Int32ul, Terminated)),
        100: _polled(generation),
        120: Select(Struct("offset" / STORED, Terminated), *missing),
        200: Select(stream_whole, *missing),
        201: _all(Struct(*STREAM)),
        300: Select(topic_whole, *missing),
        301: _all(Struct(*topic)),
        600: Select(group_whole, *missing),
        601: _all(Struct(*group)),
    }


@cache
def _reply(code: int, generation: str) -> Construct:
    failed = Struct("text" / S32, Terminated) if generation in ("g1a", "g1b_texts") else NOTHING
    answer = IfThenElse(this.status == 0, _replies(generation).get(code, Error), failed)
    return Struct("status" / Int32ul, "payload" / Prefixed(Int32ul, answer), Terminated)


def parse_response(frame: bytes, code: int, generation: str = "g0") -> Container | None:
    """The parts of a reply frame to a request of that code, None where the grammar refuses it."""
    try:
        return _reply(code, generation).parse(frame)
    except ConstructError:
        return None
