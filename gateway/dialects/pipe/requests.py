"""What the arguments of a request line mean: the server's half.  asking.py writes them.

Texts, forms and the order of checks are those of pipe.md, "Commands" and the sections below it.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.commands import (
    Acks,
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
    SyncGroup,
    Topic,
)
from gateway.core.faults import CommandFailed
from gateway.core.records import Record, canonical
from gateway.dialects.pipe.arguments import (
    malformed,
    offset_of,
    partition_of,
    read_integer,
    read_name,
    read_topic,
    wrong_count,
)
from gateway.dialects.pipe.terms import PipeTerms

SESSION_SECONDS = 10.0
"""Until a member that is not heard of is dropped; fixed in the project."""

AHEAD = 1
"""What this wire adds to a generation: Flux begins at 1 and counts the first JOIN, so its clients see 2 first."""

_ACKS = {b"acks=0": Acks.NONE, b"acks=1": Acks.LEADER, b"acks=all": Acks.ALL}
_ASSIGNORS = {b"assignor=round_robin": "round_robin", b"assignor=range": "range"}

_USAGE = {
    "PRODUCE": "<topic> <key>:<value> [acks=0|1|all]",
    "CONSUME": "<topic> <partition> <offset>",
    "JOIN": "<group> <topic> <consumer_id> [assignor=round_robin|range]",
    "SYNC": "<group> <topic> <consumer_id> <generation>",
    "HEARTBEAT": "<group> <topic> <consumer_id> <generation>",
    "LEAVE": "<group> <topic> <consumer_id> <generation>",
    "COMMIT": "<group> <topic> <consumer_id> <generation> <partition> <offset>",
    "OFFSET": "<group> <topic> <partition>",
}


# -- as a server: arguments -> command.  Raises CommandFailed with the text for the peer


def _produce(args: list[bytes], terms: PipeTerms) -> Publish:
    if len(args) != 2 and len(args) != 3:
        raise _usage("PRODUCE")
    key, colon, value = args[1].partition(b":")
    if not colon:
        raise malformed("message must be key:value")
    acks = Acks.LEADER if len(args) == 2 else _acks(args[2])
    batch = canonical([Record(key or None, value)], "pipe")
    return Publish(read_topic(args[0], terms), ByKey(key, "fnv1a_32"), batch, acks, terms.partitions)


def _acks(word: bytes) -> Acks:
    acks = _ACKS.get(word.lower())
    if acks is None:
        raise malformed("invalid ack mode; expected acks=0|1|all")
    return acks


def _consume(args: list[bytes], terms: PipeTerms) -> Fetch:
    if len(args) != 3:
        raise _usage("CONSUME")
    partition, offset = read_integer(args[1], "partition"), read_integer(args[2], "offset")
    return Fetch(
        read_topic(args[0], terms),
        partition_of(partition),
        offset_of(offset),
        terms.consume_max_records,
        terms.consume_max_bytes,
        create=terms.partitions,
    )


def _join(args: list[bytes], terms: PipeTerms) -> JoinGroup:
    if len(args) != 3 and len(args) != 4:
        raise _usage("JOIN")
    assignor = "" if len(args) == 3 else _assignor(args[3])
    group, member = read_name(args[0], "group"), read_name(args[2], "consumer_id")
    topic = read_topic(args[1], terms)
    return JoinGroup(topic, group, member, Heartbeats(SESSION_SECONDS), assignor, create=terms.partitions)


def _assignor(word: bytes) -> str:
    assignor = _ASSIGNORS.get(word.lower())
    if assignor is None:
        raise malformed("invalid assignor; expected assignor=round_robin|range")
    return assignor


def _sync(args: list[bytes], terms: PipeTerms) -> SyncGroup:
    return SyncGroup(*_membership("SYNC", args, terms))


def _heartbeat(args: list[bytes], terms: PipeTerms) -> Heartbeat:
    return Heartbeat(*_membership("HEARTBEAT", args, terms))


def _leave(args: list[bytes], terms: PipeTerms) -> LeaveGroup:
    return LeaveGroup(*_membership("LEAVE", args, terms))


def _membership(verb: str, args: list[bytes], terms: PipeTerms) -> tuple[Topic, str, str, int]:
    if len(args) != 4:
        raise _usage(verb)
    generation = _generation(args[3])
    return read_topic(args[1], terms), read_name(args[0], "group"), read_name(args[2], "consumer_id"), generation


def _commit(args: list[bytes], terms: PipeTerms) -> CommitOffsets:
    """Four arguments are stage B, stored unfenced; six are C and D, fenced by member and generation."""
    if len(args) != 4 and len(args) != 6:
        raise _usage("COMMIT")
    fence = (read_name(args[2], "consumer_id"), _generation(args[3])) if len(args) == 6 else (None, None)
    partition, offset = read_integer(args[-2], "partition"), read_integer(args[-1], "offset")
    offsets: dict[int | None, int] = {partition_of(partition): offset_of(offset)}
    return CommitOffsets(read_topic(args[1], terms), Group(read_name(args[0], "group")), offsets, *fence)


def _offset_of(args: list[bytes], terms: PipeTerms) -> FetchOffsets:
    if len(args) != 3:
        raise _usage("OFFSET")
    partition = partition_of(read_integer(args[2], "partition"))
    return FetchOffsets(read_topic(args[1], terms), Group(read_name(args[0], "group")), (partition,))


READ: dict[bytes, Callable[[list[bytes], PipeTerms], Command]] = {
    b"PRODUCE": _produce,
    b"CONSUME": _consume,
    b"JOIN": _join,
    b"SYNC": _sync,
    b"HEARTBEAT": _heartbeat,
    b"LEAVE": _leave,
    b"COMMIT": _commit,
    b"OFFSET": _offset_of,
}
"""Command, upper case -> what reads its arguments."""


def _usage(verb: str) -> CommandFailed:
    return wrong_count(verb, _USAGE[verb])


def _generation(word: bytes) -> int:
    """In the core's count, where none below 1 was ever current; 0 therefore stands for all of them."""
    return max(0, read_integer(word, "generation") - AHEAD)
