"""A command as the arguments of a request line: the client's half.  requests.py reads them.

Raises CommandFailed: UNSUPPORTED for what the protocol has no words for, UNREPRESENTABLE for a name or a value that a
line cannot hold.  What is not said although a command has it, and what holds instead, upstream.py declares; limits on
records are kept when the answer is read.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.commands import (
    Acks,
    Balanced,
    ByKey,
    Command,
    CommitOffsets,
    Fetch,
    FetchOffsets,
    Group,
    Heartbeat,
    Heartbeats,
    JoinGroup,
    LeaveGroup,
    Publish,
    Reader,
    SyncGroup,
    Topic,
)
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record
from gateway.dialects.pipe.arguments import unsupported, write_name, write_number, write_topic, write_word
from gateway.dialects.pipe.fidelity import PRODUCED
from gateway.dialects.pipe.requests import AHEAD
from gateway.dialects.pipe.terms import PipeTerms

_ASSIGNORS = ("round_robin", "range")
_ACKS = {Acks.NONE: [b"acks=0"], Acks.LEADER: [], Acks.ALL: [b"acks=all"]}


def _write_publish(command: Publish, terms: PipeTerms) -> list[bytes]:
    if command.batch.count != 1:
        raise unsupported("more or less than one record at a time")
    [record] = command.batch.records()
    key = record.key or b""
    by_key = isinstance(command.to, ByKey) and command.to.key == key
    if not by_key and not isinstance(command.to, Balanced):
        raise unsupported("choosing a partition but by the record's key")
    if b":" in key:
        raise CommandFailed(Fault.UNREPRESENTABLE, "a key with a colon")
    message = write_word(key + b":" + (record.value or b""), "key or value")
    args = [write_topic(command.topic, terms), message, *_ACKS[command.acks]]
    _lose(record, command.batch.origin, terms)
    return args


def _lose(record: Record, origin: str, terms: PipeTerms) -> None:
    """Everything but key and value stays behind."""
    if terms.policy == "reject" and (lost := PRODUCED.of(record)):
        raise CommandFailed(Fault.UNREPRESENTABLE, f"a record with {', '.join(lost)}")
    PRODUCED.count([record], origin, terms.losses)


def _write_fetch(command: Fetch, terms: PipeTerms) -> list[bytes]:
    if command.partition is None or not isinstance(command.start, int) or command.commit:
        raise unsupported("a Fetch but from an offset of a partition")
    return [write_topic(command.topic, terms), write_number(command.partition), write_number(command.start)]


def _write_join(command: JoinGroup, terms: PipeTerms) -> list[bytes]:
    if command.distinct or not isinstance(command.liveness, Heartbeats):
        raise unsupported("members that are not named or live by their connection")
    if command.existing:
        raise unsupported("joining a group only if there is one")
    args = _who(command.topic, command.group, command.member, terms)
    if not command.assignor:
        return args
    if command.assignor not in _ASSIGNORS:
        raise unsupported(f"the assignor {command.assignor}")
    return [*args, b"assignor=" + command.assignor.encode()]


def _write_membership(command: SyncGroup | Heartbeat | LeaveGroup, terms: PipeTerms) -> list[bytes]:
    if command.generation is None:
        raise unsupported("leaving in any generation")
    return [*_who(command.topic, command.group, command.member, terms), _generation(command.generation)]


def _write_commit(command: CommitOffsets, terms: PipeTerms) -> list[bytes]:
    group = _group(command.reader)
    if len(command.offsets) != 1 or command.rising or command.bounded:
        raise unsupported("a commit but of one partition, without a condition")
    [(partition, offset)] = command.offsets.items()
    where = [write_number(partition), write_number(offset)]
    if command.member is None and command.generation is None:
        return [write_name(group, "group"), write_topic(command.topic, terms), *where]
    if command.member is None or command.generation is None:
        raise unsupported("half a fence")
    return [*_who(command.topic, group, command.member, terms), _generation(command.generation), *where]


def _write_offset(command: FetchOffsets, terms: PipeTerms) -> list[bytes]:
    group = _group(command.reader)
    if command.partitions is None or len(command.partitions) != 1:
        raise unsupported("the offsets of more than one partition")
    return [write_name(group, "group"), write_topic(command.topic, terms), write_number(command.partitions[0])]


WRITE: dict[type[Command], tuple[bytes, Callable[..., list[bytes]]]] = {
    Publish: (b"PRODUCE", _write_publish),
    Fetch: (b"CONSUME", _write_fetch),
    JoinGroup: (b"JOIN", _write_join),
    SyncGroup: (b"SYNC", _write_membership),
    Heartbeat: (b"HEARTBEAT", _write_membership),
    LeaveGroup: (b"LEAVE", _write_membership),
    CommitOffsets: (b"COMMIT", _write_commit),
    FetchOffsets: (b"OFFSET", _write_offset),
}
"""Kind of command -> its word, and what writes its arguments."""


def _who(topic: Topic, group: int | str, member: str, terms: PipeTerms) -> list[bytes]:
    return [write_name(group, "group"), write_topic(topic, terms), write_name(member, "consumer_id")]


def _generation(generation: int) -> bytes:
    """As this wire counts.  One below 0 would be read as another."""
    if generation < 0:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"{generation} is no generation")
    return write_number(generation + AHEAD)


def _group(reader: Reader) -> int | str:
    if not isinstance(reader, Group):
        raise unsupported("a consumer outside a group")
    return reader.name
