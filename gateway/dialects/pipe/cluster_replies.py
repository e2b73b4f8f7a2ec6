"""What answers the commands of brokers and administrators: written as a server, read as a client.

Names and order of the fields are those of pipe.md, "Commands".  What a reply of the core has no place for (replicas in
sync, terms) is shown to V1 clients and passed over by ours; what this wire does not say reads as 0 or as nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gateway.core.commands import MAX_PARTITIONS, Command, CreateTopic, Fetch, LatestOffsets, TopicSettings
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import (
    Count,
    Offsets,
    PartitionDescription,
    PartitionOffsets,
    Records,
    Reply,
    TopicDescription,
    Topics,
)
from gateway.dialects.pipe.asides import (
    Aside,
    BrokerChange,
    BrokerFetch,
    BrokerHeartbeat,
    Election,
    FenceBroker,
    Metadata,
    PartitionLeader,
    PartitionRole,
    ReconcileBrokers,
    RegisterBroker,
    ReplicaAck,
    ReplicaFetch,
    Replication,
)
from gateway.dialects.pipe.cluster import MIN_ISR, TERM
from gateway.dialects.pipe.faults import CODES, WORDS
from gateway.dialects.pipe.replies import read_number, read_records, write_records
from gateway.dialects.pipe.terms import PipeTerms
from gateway.dialects.pipe.text import integer, words

# -- as a server


def write_failure(command: Command, aside: Aside, failure: CommandFailed) -> bytes:
    """What stands behind `ERR|`.

    The session's own words come as the detail of INVALID_ARGUMENT, as those of a backend do: the peer's own doing.
    """
    said = WORDS[failure.fault]
    if failure.fault is Fault.INVALID_ARGUMENT:
        said = " ".join(failure.detail.split()) or said
    elif isinstance(aside, PartitionRole | PartitionLeader | Election) and isinstance(command, LatestOffsets):
        said = _not_found(command, failure.fault) or said
    return f"{CODES[failure.fault]}|{said}".encode("utf-8", "replace")


def _not_found(command: LatestOffsets, fault: Fault) -> str:
    """These commands name what they did not find."""
    if fault is Fault.NO_SUCH_TOPIC:
        return f"topic not found: {command.topic.name}"
    if fault is Fault.NO_SUCH_PARTITION:
        return f"partition not found: topic={command.topic.name} partition={command.partition}"
    return ""


def write_payload(command: Command, aside: Aside, reply: Reply, terms: PipeTerms) -> bytes:
    """What stands behind `OK|`.  Raises CommandFailed as replies.write_payload does."""
    match command, aside, reply:
        case LatestOffsets(), _, Offsets(offsets=(PartitionOffsets(end=end), *_)):
            return _about_partition(command, aside, end - 1)
        case Fetch(), BrokerFetch(), Records():
            where = _where(command.topic.name, command.partition)
            records = write_records(reply.batches, terms)  # a follower of the project reads up to the first space
            return b"%b follower=%d hw=%d records=%b" % (where, aside.follower, reply.end - 1, records)
        case CreateTopic(), Replication(), TopicDescription():
            made = len(reply.partitions), aside.replicas, TERM, aside.index
            return b"topic=%b partitions=%d replication_factor=%d term=%d index=%d" % (_text(command.topic.name), *made)
        case _, Metadata(), Topics():
            return _metadata(aside, reply)
        case LatestOffsets(), PartitionLeader() | Election(), Count():
            return _changed_topic(command, aside, reply.value)
        case _, BrokerChange(), Count():
            return _changed_broker(aside, reply.value)
    raise CommandFailed(Fault.INTERNAL, f"{type(reply).__name__} is no answer to {type(aside).__name__}")


def _about_partition(command: LatestOffsets, aside: Aside, last: int) -> bytes:
    """last: the highest offset there is, -1 = none."""
    where = _where(command.topic.name, command.partition)
    match aside:
        case PartitionRole():
            return b"%b role=%b hw=%d" % (where, b"follower" if aside.follower else b"leader", last)
        case ReplicaAck():
            return b"%b follower=%d %b" % (where, aside.replica, _progress(aside, last))
        case ReplicaFetch():
            return b"replica=%d %b" % (aside.replica, _progress(aside, last))
    raise CommandFailed(Fault.INTERNAL, f"{type(aside).__name__} is not answered with offsets")


def _progress(aside: ReplicaFetch, last: int) -> bytes:
    """The offset as the replica said it, even beyond the end, as the project does."""
    short = b"true" if len(aside.isr) < MIN_ISR else b"false"
    return b"acked_offset=%d hw=%d isr=%b under_replicated=%b" % (aside.offset, last, _list(aside.isr), short)


def _changed_topic(command: LatestOffsets, aside: PartitionLeader | Election, value: int) -> bytes:
    if isinstance(aside, Election):
        return b"topic=%b elected_changes=%d" % (_text(command.topic.name), value)
    where = _where(command.topic.name, command.partition)
    return b"%b leader=%d isr=%b term=%d index=%d" % (where, aside.leader, _list(aside.isr), TERM, value)


def _changed_broker(aside: BrokerChange, value: int) -> bytes:
    match aside:
        case ReconcileBrokers():
            return b"reconciled=%d" % value
        case RegisterBroker():
            said = b"broker_id=%d host=%b port=%d" % (aside.broker, aside.host.encode(), aside.port)
        case BrokerHeartbeat():
            said = b"broker_id=%d heartbeat=ok" % aside.broker
        case FenceBroker():
            said = b"broker_id=%d fenced=%b" % (aside.broker, b"true" if aside.fenced else b"false")
        case _:
            raise CommandFailed(Fault.INTERNAL, f"{type(aside).__name__} is no change of a broker")
    return b"%b term=%d index=%d" % (said, TERM, value)


def _metadata(aside: Metadata, reply: Topics) -> bytes:
    """Sorted, without the names that cannot stand in a list."""
    names = sorted(topic.name for topic in reply.topics if _listed(topic.name))
    said = b" ".join(map(_text, names)), _list(aside.brokers), _list(aside.fenced)
    return b"topics=[%b] brokers=%b fenced=%b" % said


def _listed(name: str) -> bool:
    """OUR: words without brackets, since readers look for the first `]`, and for the first `brokers=[`."""
    return words(name.encode()) == [name.encode()] and not {"[", "]"} & set(name)


# -- as a client


def read_payload(command: Command, aside: Aside, payload: bytes, terms: PipeTerms) -> Reply:
    """What an OK line says in answer to that command.  Raises CommandFailed(MALFORMED)."""
    return _READ[type(aside)](command, aside, payload, terms)


def _offsets(command: LatestOffsets, aside: Aside, payload: bytes, terms: PipeTerms) -> Offsets:
    """How many partitions there are is not said: at least as many as reach to this one."""
    partition = command.partition or 0
    return Offsets(partition + 1, (PartitionOffsets(partition, 0, _mark(payload) + 1),))


def _records(command: Fetch, aside: Aside, payload: bytes, terms: PipeTerms) -> Records:
    head, found, text = payload.partition(b" records=")
    if not found:
        raise CommandFailed(Fault.MALFORMED, "the answer says no records")
    return read_records(command, text, _mark(head), terms)


def _created(command: CreateTopic, aside: Aside, payload: bytes, terms: PipeTerms) -> TopicDescription:
    count = read_number(payload, b"partitions")
    if count > MAX_PARTITIONS:
        raise CommandFailed(Fault.MALFORMED, "no topic has so many partitions")
    made = tuple(PartitionDescription(index, 0, 0, 0, 0) for index in range(count))
    return _described(str(command.topic.name), terms, made)


def _topics(command: Command, aside: Aside, payload: bytes, terms: PipeTerms) -> Topics:
    found = _TOPICS.match(payload)
    if found is None:
        raise CommandFailed(Fault.MALFORMED, "the answer says no list of topics")
    try:
        names = [name.decode() for name in words(found[1])]
    except UnicodeDecodeError:
        raise CommandFailed(Fault.MALFORMED, "a topic whose name is no UTF-8") from None
    return Topics(tuple(_described(name, terms) for name in names))


_TOPICS = re.compile(rb"topics=\[(.*)\] brokers=\[[0-9 ]*\](?: |$)", re.DOTALL)


def _described(name: str, terms: PipeTerms, made: tuple[PartitionDescription, ...] = ()) -> TopicDescription:
    return TopicDescription(terms.namespace, name, 0, 0, TopicSettings(), made)


def _counted(field: bytes) -> Callable[[Command, Aside, bytes, PipeTerms], Count]:
    return lambda command, aside, payload, terms: Count(read_number(payload, field))


_READ: dict[type, Callable[..., Reply]] = {
    ReplicaFetch: _offsets,
    ReplicaAck: _offsets,
    PartitionRole: _offsets,
    BrokerFetch: _records,
    Replication: _created,
    Metadata: _topics,
    PartitionLeader: _counted(b"index"),
    Election: _counted(b"elected_changes"),
    RegisterBroker: _counted(b"index"),
    BrokerHeartbeat: _counted(b"index"),
    FenceBroker: _counted(b"index"),
    ReconcileBrokers: _counted(b"reconciled"),
}


def _mark(payload: bytes) -> int:
    """The highest offset there is, -1 = none."""
    for field in payload.split(b" "):
        if field.startswith(b"hw="):
            value = integer(field[3:])
            if value is not None and value >= -1:
                return value
    raise CommandFailed(Fault.MALFORMED, "the answer says no hw")


# -- text


def _where(topic: int | str, partition: int | None) -> bytes:
    return b"topic=%b partition=%d" % (_text(topic), partition or 0)


def _text(name: int | str) -> bytes:
    return str(name).encode()


def _list(numbers: tuple[int, ...]) -> bytes:
    return b"[%b]" % b" ".join(b"%d" % number for number in numbers)
