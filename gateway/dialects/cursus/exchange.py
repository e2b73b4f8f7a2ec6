"""CONSUME, STREAM and PUBLISH: what their arguments mean.  Source: protocol page, sections 2 and 4."""

from __future__ import annotations

from gateway.core.commands import Balanced, ByKey, Fetch, Follow, Group, Next, Publish, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import MAX_RECORDS, Record, RecordBatch
from gateway.dialects.cursus.batch import ACKS, MAX_BODY
from gateway.dialects.cursus.converting import encode
from gateway.dialects.cursus.layout import CURSUS_V1
from gateway.dialects.cursus.terms import Consuming, Produced
from gateway.dialects.cursus.text import Line, atoi, parse_offset, parse_uint, quoted, refused, syntax
from gateway.dialects.cursus.topics import topic_of
from gateway.dialects.dialect import Losses, Request

DEFAULT_GROUP = "default-group"
NOBODY = "gateway-never-commits"
"""OUR: the group of our client where it reads for none.  Without `group` the real broker takes DEFAULT_GROUP, whose
commits would have a say in where it reads; a group that never commits has none.  To us who names it has no group."""

DEFAULT_RECORDS = 8192
"""In the answer to a CONSUME, or in a push, without `batch`."""


def read_consume(line: Line) -> Request:
    """Start at the offset, or at the one committed for a named group where that is higher (page, section 4).

    Without `group` the offset counts alone.  To the broker that means `default-group`; but every client names its
    group, and who leaves it out, or uses the seed's form, wants the records it asks for and not those after the last
    commit of strangers.  `autoOffsetReset` has no say: the broker looks at it only where there is no offset, which
    CONSUME always has, and a reader whose offset is gone chooses by itself from the bounds it is told.
    """
    needed = (b"topic", b"partition", b"offset", b"member") if line.keyed else (b"topic", b"partition", b"offset")
    if not all(line.fields.get(key) for key in needed):
        raise refused("invalid_consume_syntax")
    topic, partition, start, most, said = _reading(line)
    return Request(Fetch(topic, partition, start, most, MAX_BODY, _lenient(line, b"wait_ms") / 1000), None, said)


def read_stream(line: Line) -> Request:
    """As CONSUME, but that a stream of the real form has a group, and may leave out an offset of 0 as Python does.

    What the broker does with `autoOffsetReset=latest` and no offset, begin at the end unless something was committed,
    no client asks for: it begins at 0.
    """
    needed = (b"topic", b"partition", b"group") if line.keyed else (b"topic", b"partition", b"offset")
    if not all(line.fields.get(key) for key in needed):
        raise refused("invalid_stream_syntax")
    topic, partition, start, most, said = _reading(line)
    return Request(Follow(topic, partition, start, most), None, said)


def _reading(line: Line) -> tuple[Topic, int, int | Next, int, Consuming]:
    """(topic, partition, start, most records, who asks) of what CONSUME and STREAM have in common."""
    fields = line.fields
    if (isolation := line.get(b"isolation")) not in ("", "read_committed", "read_uncommitted"):
        raise refused(f"invalid_isolation isolation={isolation}", Fault.INVALID_ARGUMENT)
    partition, generation = atoi(fields[b"partition"]), atoi(fields.get(b"generation") or b"-1")
    if partition is None or partition < 0:
        raise _no_read(line, b"partition", Fault.INVALID_ARGUMENT)
    if generation is None:
        raise _no_read(line, b"generation", Fault.INVALID_ARGUMENT)
    offset = parse_offset(fields.get(b"offset") or b"0")
    if offset is None:
        raise _no_read(line, b"offset", Fault.INVALID_OFFSET)
    group = line.get(b"group")
    nobody = group == NOBODY
    start = Next(Group(DEFAULT_GROUP if group == "-" else group), offset) if group and not nobody else offset
    most = min(_lenient(line, b"batch") or DEFAULT_RECORDS, MAX_RECORDS)
    who = line.get(b"member"), generation if b"generation" in fields else None
    said = Consuming(line.word, line.structured, *who, nobody)
    return Topic(line.namespace, line.get(b"topic")), partition, start, most, said


def _no_read(line: Line, key: bytes, fault: Fault) -> CommandFailed:
    reason = f"invalid {key.decode()} value: {line.get(key)}"
    return refused(f"command_failed reason={quoted(reason)}", fault)


def _lenient(line: Line, key: bytes) -> int:
    """A number; 0 for one that is none, as the broker has it."""
    return max(atoi(line.fields.get(key, b"")) or 0, 0)


def read_publish(line: Line) -> Request:
    """One record; where it goes may be left open."""
    topic = topic_of(line)
    if not line.message:
        raise refused("missing_message command=PUBLISH")
    producer, key = line.fields.get(b"producerId", b""), line.fields.get(b"key", b"")
    if not producer:
        raise refused("missing_producer_id command=PUBLISH")
    if (flag := line.get(b"isIdempotent").lower()) not in ("true", "false") and b"isIdempotent" in line.fields:
        raise refused(f"invalid_is_idempotent value={line.get(b'isIdempotent')}", Fault.INVALID_ARGUMENT)
    acks = ACKS.get(line.fields.get(b"acks", b"").lower())
    if acks is None:
        raise refused(f"invalid_acks value={line.get(b'acks')}", Fault.INVALID_ARGUMENT)
    number, epoch = _sequence(line), _epoch(line)
    record = Record(key, line.message, producer=producer, epoch=epoch, sequence=number)
    body = b"".join(encode([(0, record)], "cursus", Losses()))  # a text record has no field that could be lost
    publish = Publish(topic, _place(line, key), RecordBatch(CURSUS_V1, body, 1, origin="cursus"), acks)
    said = line.word, line.structured, producer, epoch, number, number
    return Request(publish, None, Produced(*said, idempotent=flag == "true", batched=False))


def _sequence(line: Line) -> int:
    text = line.fields.get(b"seqNum", b"0")
    value = parse_uint(text)
    if value is None:
        raise refused(f"invalid_seq_num reason={syntax('ParseUint', text)}", Fault.INVALID_ARGUMENT)
    return value


def _epoch(line: Line) -> int:
    text = line.fields.get(b"epoch", b"0")
    value = atoi(text)
    if value is None:
        raise refused(f"invalid_epoch reason={syntax('ParseInt', text)}", Fault.INVALID_ARGUMENT)
    return value


def _place(line: Line, key: bytes) -> int | ByKey | Balanced:
    text = line.fields.get(b"partition", b"-1")
    partition = atoi(text)
    if partition is None:
        raise refused(f"invalid_partition reason={syntax('Atoi', text)}", Fault.INVALID_ARGUMENT)
    if partition >= 0:
        return partition
    return ByKey(key, "fnv1a_64") if key else Balanced()
