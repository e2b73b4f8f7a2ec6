"""The generations of the protocol: one table of field layouts each, written as what differs from the one before.

    g0    the seed, 31 August 2023: no login, consumers and groups by number
    g1a   iggy 0.4: login, identifiers everywhere
    g1b   iggy 0.5 and 0.6: the login says a version, limits have 64 bits, creating answers what was made; up to
          0.6.51 as g1b_texts, in which errors have a text as they have in g1a
    g2a   iggy 0.7: batches with an index, a message header of 56 bytes
    g2b   iggy 0.8: no ids of the client's choice, partitions from 0 with a flag
    g2c   iggy 0.9 and 0.10: a message header of 64 bytes, header keys with a kind

Source: protocol page, sections 2 and 3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from gateway.core.records import Encoding
from gateway.dialects.iggy import codes as c
from gateway.dialects.iggy.fields import (
    F32,
    FLAG,
    FLAGGED_PARTITION,
    IDENTIFIER,
    NEVER,
    NUMBER,
    PARTITION,
    TEXT8,
    TEXT32,
    U8,
    U16,
    U32,
    U64,
    Fields,
    expiry,
    partitioning,
    reader,
    shifted,
)
from gateway.dialects.iggy.layout_g0 import IGGY_G0
from gateway.dialects.iggy.layout_g2 import IGGY_G2B, IGGY_G2C

SECOND = 1_000_000

Layouts = Mapping[int, Fields]


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """How things look in answers."""

    stream: Fields
    topic: Fields
    partition: Fields
    group: Fields
    member: Fields
    client: Fields
    membership: Fields
    offset: Fields
    poll: Fields
    stats: Fields
    node: Fields


class Generation(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One generation.

    since:       the first version of the clients' library that speaks it, () = none says so.
    requests:    fields of the payload, by code; of SEND those before the messages.
    first:       the number of partition 0.
    encoding:    how its records are laid out.
    indexed:     SEND has the length of its fields before them, and an index before its messages.
    lowers:      names are changed to lower case, with dots for spaces, when something is made.
    creates:     creating answers with what was made.
    texts:       an error has a text behind its number; clients of that time end if there is none.
    empties:     what is missing is no error to who asks about it, but an answer without payload.
    numbered_groups: groups have no names.
    """

    name: str
    since: tuple[int, ...]
    requests: Layouts
    answers: Answers
    first: int
    encoding: Encoding
    indexed: bool
    lowers: bool
    creates: bool
    texts: bool
    empties: bool
    numbered_groups: bool

    def __repr__(self) -> str:
        return f"<generation {self.name}>"


# -- g0

_stream: Fields = {"stream": IDENTIFIER}
_topic: Fields = {**_stream, "topic": IDENTIFIER}
_expiry32 = expiry(U32, SECOND, 0, (0,))
_poll_tail: Fields = {"kind": U8, "value": U64, "count": U32, "commit": FLAG}


def _offsets(consumer: Fields, partition: Fields) -> dict[int, Fields]:
    """What names a reader and a partition."""
    place: Fields = {**consumer, **_topic, **partition}
    return {
        c.POLL: {**place, **_poll_tail},
        c.GET_OFFSET: place,
        c.STORE_OFFSET: {**place, "offset": U64},
    }


def _groups(group: Fields) -> dict[int, Fields]:
    known: Fields = {**_topic, **group}
    return dict.fromkeys((c.GET_GROUP, c.DELETE_GROUP, c.JOIN_GROUP, c.LEAVE_GROUP), known)


_G0_REQUESTS: Layouts = {
    c.PING: {},
    c.GET_STATS: {},
    c.GET_CLUSTER_METADATA: {},
    c.GET_ME: {},
    c.GET_CLIENT: {"session": U32},
    c.GET_CLIENTS: {},
    c.LOGIN: {"user": TEXT8, "password": TEXT8},
    c.LOGIN_WITH_TOKEN: {"token": TEXT8},
    **_offsets({"reader": reader(NUMBER)}, {"partition": PARTITION}),
    c.SEND: {**_topic, "to": partitioning(1, "murmur3")},
    c.GET_STREAM: _stream,
    c.GET_STREAMS: {},
    c.CREATE_STREAM: {"id": U32, "name": TEXT8},
    c.DELETE_STREAM: _stream,
    c.GET_TOPIC: _topic,
    c.GET_TOPICS: _stream,
    c.CREATE_TOPIC: {**_stream, "id": U32, "partitions": U32, "expiry": _expiry32, "name": TEXT8},
    c.DELETE_TOPIC: _topic,
    c.CREATE_PARTITIONS: {**_topic, "count": U32},
    c.DELETE_PARTITIONS: {**_topic, "count": U32},
    c.GET_GROUPS: _topic,
    c.CREATE_GROUP: {**_topic, "id": U32},
    **_groups({"group": NUMBER}),
}

_sizes: Fields = {"size": U64, "messages": U64}
_created: Fields = {"id": U32, "created": U64}
_named: Fields = {"name": TEXT8}
_group: Fields = {"id": U32, "partitions": U32, "members": U32}
_where: Fields = {"transport": U8, "address": TEXT32, "groups": U32}
_memory: Fields = {"memory": U64, "machine_memory": U64, "free_memory": U64}
_times: Fields = {"running": U64, "started": U64}
_ports: Fields = {"tcp": U16, "quic": U16, "http": U16, "websocket": U16}
_counts: Fields = {
    **{"read": U64, "written": U64, "size": U64},
    **{"streams": U32, "topics": U32, "partitions": U32, "segments": U32, "messages": U64},
    **{"clients": U32, "groups": U32},
    **{"host": TEXT32, "system": TEXT32, "release": TEXT32, "kernel": TEXT32},
}


def _partitioned(first: int) -> dict[str, Fields]:
    """Answers that number partitions."""
    number = shifted(first)
    return {
        "partition": {"id": number, "created": U64, "segments": U32, "current": U64, **_sizes},
        "member": {"id": U32, "count": U32},
        "offset": {"partition": number, "current": U64, "stored": U64},
        "poll": {"partition": number, "current": U64, "count": U32},
    }


_G0_ANSWERS = Answers(
    stream={**_created, "topics": U32, **_sizes, **_named},
    topic={**_created, "partitions": U32, "expiry": _expiry32, **_sizes, **_named},
    group=_group,
    client={"id": U32, **_where},
    membership={"group": U32, "topic": U32, "stream": U32},  # as that server writes it; clients read it the other way
    stats={"process": U32, "cpu": F32, **_memory, **_times, **_counts},
    node={"name": TEXT32, "ip": TEXT32, **_ports, "role": U8, "status": U8},
    **_partitioned(1),
)

G0 = Generation(
    name="g0",
    since=(),
    requests=_G0_REQUESTS,
    answers=_G0_ANSWERS,
    first=1,
    encoding=IGGY_G0,
    indexed=False,
    lowers=True,
    creates=False,
    texts=False,
    empties=False,
    numbered_groups=True,
)


# -- the others, each as what it changes


def _after(before: Generation, requests: Layouts, answers: Mapping[str, Fields], **changed: object) -> Generation:
    merged = {**before.requests, **requests}
    shown = msgspec.structs.replace(before.answers, **answers)
    return msgspec.structs.replace(before, requests=merged, answers=shown, **changed)


def _topic_request(ids: Fields, age: Fields) -> Fields:
    count: Fields = {"partitions": U32, "compression": U8}
    return {**_stream, **ids, **count, **age, "max_size": U64, "replication": U8, **_named}


def _topic_answer(age: Fields) -> Fields:
    limits: Fields = {**age, "compression": U8, "max_size": U64, "replication": U8}
    return {**_created, "partitions": U32, **limits, **_sizes, **_named}


_expiry64: Fields = {"expiry": expiry(U64, 1, NEVER, (0, NEVER))}
"""0 would be the default of the server, which here is never too; of others nobody knows what theirs is."""

_consumer: Fields = {"reader": reader(IDENTIFIER)}
_g1_offsets = _offsets(_consumer, {"partition": PARTITION})

G1A = _after(
    G0,
    {
        c.LOGOUT: {},
        **_g1_offsets,
        c.DELETE_OFFSET: _g1_offsets[c.GET_OFFSET],
        c.SEND: {**_topic, "to": partitioning(1, "xxh32_from_1")},
        c.CREATE_TOPIC: _topic_request({"id": U32}, {"expiry": _expiry32}),
        c.CREATE_GROUP: {**_topic, "id": U32, **_named},
        **_groups({"group": IDENTIFIER}),
    },
    {
        "topic": _topic_answer({"expiry": _expiry32}),
        "group": {**_group, **_named},
        "client": {"id": U32, "user": U32, **_where},
        "membership": {"stream": U32, "topic": U32, "group": U32},
        "stats": {"process": U32, "cpu": F32, "machine_cpu": F32, **_memory, **_times, **_counts},
    },
    name="g1a",
    texts=True,
    numbered_groups=False,
)

_version: Fields = {"version": TEXT32, "semver": U32}
_machine: Fields = {"caches": U32, "threads": U32, "free_disk": U64, "disk": U64}

G1B = _after(
    G1A,
    {
        c.LOGIN: {"user": TEXT8, "password": TEXT8, "version": TEXT32, "context": TEXT32},
        c.CREATE_TOPIC: _topic_request({"id": U32}, _expiry64),
    },
    {
        "topic": _topic_answer(_expiry64),
        "stats": {**G1A.answers.stats, **_version, **_machine},
    },
    name="g1b",
    since=(0, 6, 52),
    lowers=False,
    creates=True,
    texts=False,
    empties=True,
)

G1B_TEXTS = msgspec.structs.replace(G1B, name="g1b_texts", since=(0, 5), texts=True)

G2A = _after(G1B, {}, {}, name="g2a", since=(0, 7), encoding=IGGY_G2B, indexed=True)

_g2_offsets = _offsets(_consumer, {"partition": FLAGGED_PARTITION})

G2B = _after(
    G2A,
    {
        **_g2_offsets,
        c.DELETE_OFFSET: _g2_offsets[c.GET_OFFSET],
        c.SEND: {**_topic, "to": partitioning(0, "xxh32")},
        c.CREATE_STREAM: _named,
        c.CREATE_TOPIC: _topic_request({}, _expiry64),
        c.CREATE_GROUP: {**_topic, **_named},
    },
    _partitioned(0),
    name="g2b",
    since=(0, 8),
    first=0,
)

G2C = _after(G2B, {}, {}, name="g2c", since=(0, 9), encoding=IGGY_G2C)

GENERATIONS = {generation.name: generation for generation in (G0, G1A, G1B_TEXTS, G1B, G2A, G2B, G2C)}

NEWEST = G2C
"""What our client speaks unless it is told otherwise."""

NEXT = (0, 11)
"""The version from which on the framing is another."""

AFTER_LOGIN = (G2C, G1B, G2A, G2B, G1A)
"""What a client that logged in may be, the likeliest first."""


def spoken_by(version: str) -> tuple[Generation, ...]:
    """What a client library that says this version may speak: one generation, or all that say one if nobody knows."""
    said = _VERSION.match(version)
    number = tuple(map(int, said.groups())) if said else ()
    if G1B_TEXTS.since <= number < NEXT:
        return (max((at for at in GENERATIONS.values() if at.since <= number), key=lambda at: at.since),)
    return tuple(at for at in AFTER_LOGIN if "version" in at.requests[c.LOGIN])


_VERSION = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})(?![0-9])")
