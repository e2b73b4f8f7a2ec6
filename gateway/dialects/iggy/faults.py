"""What Iggy calls things that go wrong: numbers, which kept their meaning over the generations but for a few.

Source: protocol page, section 2.
"""

from __future__ import annotations

from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fact, Fault
from gateway.dialects.dialect import Refusal, Request
from gateway.dialects.iggy.generations import Generation

CODES: dict[Fault, int] = {
    Fault.MALFORMED: 3,
    Fault.UNSUPPORTED: 5,
    Fault.TOO_LARGE: 4022,
    Fault.UNREPRESENTABLE: 4,
    Fault.INVALID_NAME: 1013,
    Fault.INVALID_ARGUMENT: 3,
    Fault.NO_SUCH_NAMESPACE: 1009,
    Fault.NAMESPACE_EXISTS: 1012,
    Fault.NO_SUCH_TOPIC: 2010,
    Fault.TOPIC_EXISTS: 2013,
    Fault.NO_SUCH_PARTITION: 3007,
    Fault.FEWER_PARTITIONS: 3,
    Fault.PARTITION_FULL: 3009,
    Fault.EMPTY_BATCH: 4009,
    Fault.INVALID_OFFSET: 4100,
    Fault.OFFSET_GONE: 4100,
    Fault.OFFSET_REGRESSION: 4100,
    Fault.NO_SUCH_OFFSET: 3021,
    Fault.SEQUENCE_GAP: 4010,
    Fault.STALE_EPOCH: 4010,
    Fault.NO_SUCH_GROUP: 5000,
    Fault.GROUP_EXISTS: 5001,
    Fault.OTHER_TOPIC: 5000,
    Fault.NOT_A_MEMBER: 5002,
    Fault.STALE_GENERATION: 5002,
    Fault.NOT_OWNER: 5002,
    Fault.NOT_A_NUMBER: 1,
    Fault.NO_SUCH_SESSION: 100,
    Fault.UNAUTHENTICATED: 40,
    Fault.BAD_CREDENTIALS: 42,
    Fault.FORBIDDEN: 41,
    Fault.BUSY: 1,
    Fault.TIMEOUT: 1,
    Fault.NOT_LEADER: 1,
    Fault.UNAVAILABLE: 1,
    Fault.INTERNAL: 1,
}
"""What a fault is where nothing more is known of it."""

_MEANT: dict[int, Fault] = {
    **{code: fault for fault, code in reversed(CODES.items())},
    1: Fault.UNAVAILABLE,
    1010: Fault.NO_SUCH_NAMESPACE,
    1011: Fault.NAMESPACE_EXISTS,
    1014: Fault.INVALID_ARGUMENT,
    2011: Fault.NO_SUCH_TOPIC,
    2012: Fault.TOPIC_EXISTS,
    2014: Fault.INVALID_NAME,
    2015: Fault.INVALID_ARGUMENT,
    2016: Fault.INVALID_ARGUMENT,
    3008: Fault.NO_SUCH_PARTITION,
    4017: Fault.TOO_LARGE,
    4024: Fault.EMPTY_BATCH,
    5003: Fault.INVALID_NAME,
}

_MEANT_LATER = _MEANT | {
    5002: Fault.INVALID_ARGUMENT,
    5003: Fault.NO_SUCH_GROUP,
    5004: Fault.GROUP_EXISTS,
    5005: Fault.INVALID_NAME,
    5006: Fault.NOT_A_MEMBER,
}
"""From g1a on groups have names, and errors of their own about them (asked of clients 0.3 to 0.10)."""

_TAKEN = {1011: "id", 1012: "name", 2012: "id", 2013: "name", 5001: "id", 5004: "name"}
"""What of something is there already."""

_INVALID: dict[Fault, dict[type[q.Command], int]] = {
    Fault.INVALID_NAME: {q.CreateTopic: 2014},
    Fault.INVALID_ARGUMENT: {
        q.CreateNamespace: 1014,
        q.CreateTopic: 2015,
        q.CreatePartitions: 2015,
        q.DeletePartitions: 2015,
    },
}


def status_of(failure: CommandFailed, request: Request | Refusal, generation: Generation) -> int:
    """The number that is sent for a failure."""
    said = failure.facts.get("status")
    if isinstance(said, int):
        return said
    if isinstance(request, Request):
        return _status(failure, request.command, generation)
    return CODES[failure.fault]


def failure_of(status: int, generation: Generation, text: str = "") -> CommandFailed:
    """What a status that is not 0 means."""
    meant = _MEANT if generation.numbered_groups else _MEANT_LATER
    facts: dict[str, Fact] = {"status": status}
    if status in _TAKEN:
        facts["taken"] = _TAKEN[status]
    return CommandFailed(meant.get(status, Fault.UNAVAILABLE), text or f"status {status}", **facts)


def _status(failure: CommandFailed, command: q.Command, generation: Generation) -> int:
    fault, facts = failure.fault, failure.facts
    match fault:
        case Fault.NO_SUCH_NAMESPACE:
            return 1010 if _names_stream(command) else 1009
        case Fault.NO_SUCH_TOPIC:
            return 2011 if _names_topic(command) else 2010
        case Fault.NAMESPACE_EXISTS if facts.get("taken") == "id" and generation.first:
            return 1011
        case Fault.TOPIC_EXISTS if facts.get("taken") == "id" and generation.first:
            return 2012
        case Fault.NO_SUCH_PARTITION if facts.get("partitions") == 0:
            return 3008
        case Fault.INVALID_NAME if isinstance(command, q.CreateGroup):
            return 5003 if generation.numbered_groups else 5005
    if not generation.numbered_groups and fault in _GROUPS:
        return _GROUPS[fault][_by_name(failure, command, generation)]
    return _INVALID.get(fault, {}).get(type(command), CODES[fault])


_GROUPS = {
    Fault.NO_SUCH_GROUP: (5000, 5003),
    Fault.OTHER_TOPIC: (5000, 5003),
    Fault.GROUP_EXISTS: (5001, 5004),
    Fault.NOT_A_MEMBER: (5006, 5006),
    Fault.STALE_GENERATION: (5006, 5006),
    Fault.NOT_OWNER: (5006, 5006),
}
"""From g1a on: what it is of a group by id, and by name."""


def _by_name(failure: CommandFailed, command: q.Command, generation: Generation) -> bool:
    """Whether a group is meant by its name; clients that choose no ids know of no id that is taken."""
    if failure.fault is Fault.GROUP_EXISTS:
        return failure.facts.get("taken") != "id" or not generation.first
    reader = getattr(command, "reader", None)
    return isinstance(getattr(command, "group", reader.name if isinstance(reader, q.Group) else 0), str)


def _names_stream(command: q.Command) -> bool:
    """Whether it names its stream by text."""
    topic = getattr(command, "topic", None)
    return isinstance(topic.namespace if isinstance(topic, q.Topic) else getattr(command, "namespace", 0), str)


def _names_topic(command: q.Command) -> bool:
    topic = getattr(command, "topic", None)
    return isinstance(topic.name if isinstance(topic, q.Topic) else topic, str)
