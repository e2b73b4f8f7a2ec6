"""The commands of brokers and administrators as a server reads their arguments.  cluster_asking.py writes them.

Forms, texts and the order of checks are those of handler.go, controller.go and manager.go of the project, newest stage
(pipe.md, "Commands", gives the table); OUR marks what the project leaves open or does unsafely.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.commands import Command, CreateTopic, Fetch, IfExists, LatestOffsets, ListTopics, Ping
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.pipe.arguments import (
    malformed,
    offset_of,
    partition_of,
    read_integer,
    read_name,
    read_topic,
    wrong_count,
)
from gateway.dialects.pipe.asides import (
    Aside,
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
from gateway.dialects.pipe.terms import PipeTerms
from gateway.dialects.pipe.text import integer

REPLICATION_FACTOR = 3
"""Replicas of a partition where nobody said otherwise: Flux's default, which its clients see."""

MAX_MESSAGES = 100
"""Records in an answer to BROKER_FETCH where it does not say how many."""

MAX_ISR = 64
"""OUR: brokers in one list; the project has no bound, and we keep the lists."""

MAX_HOST = 255
"""OUR: bytes of the host of a broker, as in the domain name system."""

Asked = tuple[Command, Aside]

_USAGE = {
    "REPLICA_FETCH": "<topic> <partition> <replica_id> <offset>",
    "SET_PARTITION_ROLE": "<topic> <partition> <leader|follower>",
    "BROKER_FETCH": "<topic> <partition> <follower_id> <offset> [max_messages]",
    "BROKER_REPLICA_ACK": "<topic> <partition> <follower_id> <acked_offset>",
    "ADMIN_CREATE_TOPIC": "<topic> <partitions> <replication_factor>",
    "ADMIN_REGISTER_BROKER": "<broker_id> <host> <port> [epoch]",
    "ADMIN_BROKER_HEARTBEAT": "<broker_id>",
    "ADMIN_RECONCILE_BROKER_HEALTH": "<timeout_ms>",
    "ADMIN_FENCE_BROKER": "<broker_id>",
    "ADMIN_UNFENCE_BROKER": "<broker_id>",
    "ADMIN_SET_PARTITION_LEADER": "<topic> <partition> <leader_id> <isr_csv>",
    "ADMIN_ELECT_TOPIC_LEADERS": "<topic>",
}


# -- replicas


def _replica_fetch(args: list[bytes], terms: PipeTerms) -> Asked:
    command, replica, offset = _progress("REPLICA_FETCH", ("replica_id", "offset"), args, terms)
    return command, ReplicaFetch(replica, offset)


def _replica_ack(args: list[bytes], terms: PipeTerms) -> Asked:
    command, follower, offset = _progress("BROKER_REPLICA_ACK", ("follower_id", "acked_offset"), args, terms)
    return command, ReplicaAck(follower, offset)


def _progress(verb: str, names: tuple[str, str], args: list[bytes], terms: PipeTerms) -> tuple[LatestOffsets, int, int]:
    """An offset may be below 0, "nothing yet", and beyond the end: it is shown as it came."""
    _count(verb, args, 4)
    partition = read_integer(args[1], "partition")
    replica, offset = read_integer(args[2], names[0]), read_integer(args[3], names[1])
    if not 0 < replica < REPLICATION_FACTOR:
        raise malformed("invalid replica id")
    return LatestOffsets(read_topic(args[0], terms), partition_of(partition)), replica, offset


def _broker_fetch(args: list[bytes], terms: PipeTerms) -> Asked:
    if len(args) != 4 and len(args) != 5:
        raise _usage("BROKER_FETCH")
    partition, follower = read_integer(args[1], "partition"), read_integer(args[2], "follower_id")
    offset = read_integer(args[3], "offset")
    most = MAX_MESSAGES if len(args) == 4 else _max_messages(args[4])
    where = read_topic(args[0], terms), partition_of(partition), offset_of(offset)
    return Fetch(*where, most, terms.consume_max_bytes), BrokerFetch(follower)


def _max_messages(word: bytes) -> int:
    """A bare number is what the project's followers send; pipe.md can be read as `max=100` (OUR: both are taken)."""
    most = read_integer(word[4:] if word[:4].lower() == b"max=" else word, "max_messages")
    if most <= 0:
        raise malformed("max_messages must be > 0")
    return most


def _partition_role(args: list[bytes], terms: PipeTerms) -> Asked:
    _count("SET_PARTITION_ROLE", args, 3)
    partition, topic = read_integer(args[1], "partition"), read_topic(args[0], terms)
    role = args[2].lower()
    if role not in (b"leader", b"follower"):
        raise malformed("invalid role")
    if partition < 0:
        text = f"partition not found: topic={topic.name} partition={partition}"
        raise CommandFailed(Fault.NO_SUCH_PARTITION, text)
    return LatestOffsets(topic, partition), PartitionRole(role == b"follower")


# -- topics


def _create_topic(args: list[bytes], terms: PipeTerms) -> Asked:
    """OUR: a topic that is there stays as it is.  The project puts the new metadata in its place, leaders unknown."""
    _count("ADMIN_CREATE_TOPIC", args, 3)
    partitions, replicas = read_integer(args[1], "partitions"), read_integer(args[2], "replication_factor")
    if partitions <= 0:
        raise malformed("partitions must be > 0")
    if replicas <= 0:
        raise malformed("replication factor must be > 0")
    return CreateTopic(read_topic(args[0], terms), partitions, if_exists=IfExists.KEEP), Replication(replicas)


def _partition_leader(args: list[bytes], terms: PipeTerms) -> Asked:
    _count("ADMIN_SET_PARTITION_LEADER", args, 4)
    partition, leader = read_integer(args[1], "partition"), read_integer(args[2], "leader_id")
    isr = _isr(args[3])
    if partition < 0:
        raise malformed("partition must be >= 0")
    if leader < -1:
        raise malformed("leader id must be >= -1")
    return LatestOffsets(read_topic(args[0], terms), partition), PartitionLeader(leader, isr)


def _isr(word: bytes) -> tuple[int, ...]:
    """Numbers with commas between them; empty ones do not count."""
    isr = [integer(number) for number in word.split(b",") if number]
    found = tuple(number for number in isr if number is not None)
    if len(found) != len(isr):
        raise malformed("invalid integer list")
    if len(found) > MAX_ISR:
        raise malformed(f"isr has at most {MAX_ISR} brokers")
    return found


def _elect(args: list[bytes], terms: PipeTerms) -> Asked:
    _count("ADMIN_ELECT_TOPIC_LEADERS", args, 1)
    return LatestOffsets(read_topic(args[0], terms), 0), Election()


def _metadata(args: list[bytes], terms: PipeTerms) -> Asked:
    if args:
        raise malformed("ADMIN_GET_METADATA requires no args")
    return ListTopics(terms.namespace), Metadata()


# -- brokers


def _register(args: list[bytes], terms: PipeTerms) -> Asked:
    if len(args) != 3 and len(args) != 4:
        raise _usage("ADMIN_REGISTER_BROKER")
    broker, port = read_integer(args[0], "broker_id"), read_integer(args[2], "port")
    epoch = read_integer(args[3], "epoch") if len(args) == 4 else 0
    _broker_id(broker)
    if port <= 0:
        raise malformed("broker port must be > 0")
    if len(args[1]) > MAX_HOST:
        raise malformed("broker host is too long")
    return Ping(), RegisterBroker(broker, read_name(args[1], "host"), port, epoch)


def _heartbeat(args: list[bytes], terms: PipeTerms) -> Asked:
    _count("ADMIN_BROKER_HEARTBEAT", args, 1)
    broker = read_integer(args[0], "broker_id")
    if broker < 0:
        raise malformed("invalid broker heartbeat command")
    return Ping(), BrokerHeartbeat(broker)


def _reconcile(args: list[bytes], terms: PipeTerms) -> Asked:
    _count("ADMIN_RECONCILE_BROKER_HEALTH", args, 1)
    timeout = read_integer(args[0], "timeout_ms")
    if timeout <= 0:
        raise malformed("timeout must be > 0")
    return Ping(), ReconcileBrokers(timeout)


def _fence(args: list[bytes], terms: PipeTerms) -> Asked:
    return Ping(), FenceBroker(_fenced("ADMIN_FENCE_BROKER", args), True)


def _unfence(args: list[bytes], terms: PipeTerms) -> Asked:
    return Ping(), FenceBroker(_fenced("ADMIN_UNFENCE_BROKER", args), False)


def _fenced(verb: str, args: list[bytes]) -> int:
    _count(verb, args, 1)
    return _broker_id(read_integer(args[0], "broker_id"))


def _broker_id(broker: int) -> int:
    if broker < 0:
        raise malformed("broker id must be >= 0")
    return broker


READ: dict[bytes, Callable[[list[bytes], PipeTerms], Asked]] = {
    b"REPLICA_FETCH": _replica_fetch,
    b"SET_PARTITION_ROLE": _partition_role,
    b"BROKER_FETCH": _broker_fetch,
    b"BROKER_REPLICA_ACK": _replica_ack,
    b"ADMIN_CREATE_TOPIC": _create_topic,
    b"ADMIN_REGISTER_BROKER": _register,
    b"ADMIN_BROKER_HEARTBEAT": _heartbeat,
    b"ADMIN_RECONCILE_BROKER_HEALTH": _reconcile,
    b"ADMIN_FENCE_BROKER": _fence,
    b"ADMIN_UNFENCE_BROKER": _unfence,
    b"ADMIN_SET_PARTITION_LEADER": _partition_leader,
    b"ADMIN_ELECT_TOPIC_LEADERS": _elect,
    b"ADMIN_GET_METADATA": _metadata,
}
"""Command, upper case -> what reads its arguments."""


def _usage(verb: str) -> CommandFailed:
    return wrong_count(verb, _USAGE[verb])


def _count(verb: str, args: list[bytes], count: int) -> None:
    if len(args) != count:
        raise _usage(verb)
