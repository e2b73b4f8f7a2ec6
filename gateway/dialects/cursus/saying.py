"""PUBLISH, CONSUME and STREAM as our client says them; exchange.py and batch.py read them.

A request that was read from somebody is said again as it was; else nothing is said that a real broker takes for
something else.  A broker remembers where each of its connections reads a partition and heeds the `offset` of the first
CONSUME only, and even that only where its group has committed nothing (protocol page, section 4): who reads from an
offset does so on a new connection, as NOBODY.
"""

from __future__ import annotations

import math

import msgspec

from gateway.core.commands import Acks, ByKey, Fetch, Follow, Next, Publish
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import MAX_RECORDS, Record
from gateway.dialects.cursus.acks import said_of
from gateway.dialects.cursus.batch import SAID, write_batch
from gateway.dialects.cursus.converting import encode
from gateway.dialects.cursus.exchange import DEFAULT_RECORDS, NOBODY
from gateway.dialects.cursus.naming import (
    claim_words,
    digits,
    group_token,
    in_order,
    on_topic,
    token,
    topic_token,
    unsupported,
)
from gateway.dialects.cursus.terms import Consuming, CursusTerms, Produced
from gateway.dialects.cursus.text import BLANKS
from gateway.dialects.dialect import Request

MEMBER = "gateway"
"""Who our client says it is where somebody has to be named and nobody looks."""

_MAX_PARTITION = (1 << 31) - 1


def published(request: Request, command: Publish, terms: CursusTerms) -> bytes:
    """The payload of a batch or a PUBLISH."""
    if command.create:
        raise unsupported("making a topic by writing to it")
    if not command.batch.count:
        raise CommandFailed(Fault.EMPTY_BATCH)
    topic_token(command.topic, terms)
    said = said_of(request)
    if not isinstance(request.context, Produced):
        command = _safe(command)
    if isinstance(command.to, int) and said.batched:
        if not 0 <= command.to <= _MAX_PARTITION:
            raise CommandFailed(Fault.UNREPRESENTABLE, f"partition {command.to}")
        return write_batch(command, command.to, said, terms.losses)
    return b"\0\0PUBLISH " + _one_record(command, said.idempotent, claim_words(request), terms)


def _safe(command: Publish) -> Publish:
    """As it may be said to any broker.

    Without acks it is said as with them: the real broker answers that without offsets, and corrupts the log of a
    partition that is written to in both ways (protocol page, section 10).
    """
    if not isinstance(command.to, int):
        raise unsupported("leaving the partition open, since the answer does not say which it was")
    return msgspec.structs.replace(command, acks=Acks.LEADER) if command.acks is Acks.NONE else command


def _one_record(command: Publish, idempotent: bool, claims: list[str], terms: CursusTerms) -> bytes:
    """The arguments of a PUBLISH: how to leave the choice of a partition to the server."""
    if command.batch.count != 1:
        raise unsupported("leaving the partition of several records open")
    [record] = command.batch.records()
    key = record.key or b""
    if isinstance(command.to, ByKey) and (command.to.partitioner, command.to.key) != ("fnv1a_64", key):
        raise unsupported("a partition but by FNV-1a-64 of the record's key")
    if key and not isinstance(command.to, int | ByKey):
        raise unsupported("a record with a key but no matter where")
    value = record.value or b""
    if not value or value.strip(BLANKS) != value:
        raise CommandFailed(Fault.UNREPRESENTABLE, "a value that is empty or has blanks at its ends")
    parts = [on_topic(command.topic, terms).encode(), b"producerId=" + _octets(record.producer, "producer id")]
    parts.append(b"acks=" + SAID[command.acks])
    if isinstance(command.to, int):
        parts.append(b"partition=%d" % command.to)
    parts += [b"seqNum=%d" % record.sequence] if record.sequence else []
    parts += [b"epoch=%d" % record.epoch] if record.epoch else []
    parts += [b"key=" + _octets(key, "key")] if key else []
    parts += [b"isIdempotent=true"] if idempotent else []
    parts += [word.encode() for word in claims]
    encode([(0, record)], command.batch.origin, terms.losses)  # counts what is lost, and refuses what is too long
    _check_plain(record)
    return b" ".join((*parts, b"message=" + value))


def _check_plain(record: Record) -> None:
    if record.event_type or record.schema_version or record.aggregate_version or record.metadata:
        raise CommandFailed(Fault.UNREPRESENTABLE, "an event in a PUBLISH")


def _octets(value: bytes, what: str) -> bytes:
    try:
        return token(value.decode(), what).encode()
    except UnicodeDecodeError:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"a {what} that is no text") from None


def fetched(request: Request, command: Fetch, terms: CursusTerms) -> list[str]:
    """The arguments of a CONSUME."""
    if command.partition is None or command.commit or command.create:
        raise unsupported("a Fetch but of one partition, without commit")
    if not isinstance(command.start, int | Next):
        raise unsupported("a Fetch but from an offset")
    parts = _reading(request, command, command.partition, command.start, terms)
    return [*parts, f"wait_ms={math.ceil(command.wait * 1000)}"] if command.wait else parts


def followed(request: Request, command: Follow, terms: CursusTerms) -> list[str]:
    """The arguments of a STREAM.

    Without a group only as it was read in the seed's form, which the real broker does not know; and NOBODY cannot
    follow, since the next one who does would end his stream.
    """
    said = request.context if isinstance(request.context, Consuming) else None
    if isinstance(command.start, Next) or (isinstance(command.start, int) and said is not None and said.nobody):
        return _reading(request, command, command.partition, command.start, terms)
    if not isinstance(command.start, int) or said is None:
        raise unsupported("a Follow but for a group")
    return in_order(topic_token(command.topic, terms), digits(command.partition), digits(command.start))


def _reading(
    request: Request, command: Fetch | Follow, partition: int, start: int | Next, terms: CursusTerms
) -> list[str]:
    said = request.context if isinstance(request.context, Consuming) else None
    group, offset = _place(start, said)
    said = said or Consuming("")
    parts = [on_topic(command.topic, terms), f"partition={digits(partition)}", f"offset={digits(offset)}", *group]
    parts += [] if said.generation is None else [f"generation={said.generation}"]
    parts.append(f"member={token(said.member or MEMBER, 'member')}")
    if command.max_records != DEFAULT_RECORDS:
        parts.append(f"batch={min(command.max_records or MAX_RECORDS, MAX_RECORDS)}")
    return parts


def _place(start: int | Next, said: Consuming | None) -> tuple[list[str], int]:
    """The argument that names the group, and the offset."""
    if isinstance(start, int):
        return [f"group={NOBODY}"] if said is None or said.nobody else [], start
    if said is None and start.floor:  # to the real broker what was committed counts, be it lower or higher
        raise unsupported("a lower bound of what comes next")
    group = group_token(start.reader)
    if group == NOBODY:
        raise unsupported("a group of the name that stands for none")
    return [f"group={group}"], start.floor
