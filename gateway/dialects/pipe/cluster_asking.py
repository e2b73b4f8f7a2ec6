"""The commands of brokers and administrators as a client asks them: arguments.  cluster_requests.py reads them.

Raises CommandFailed as asking.py does.  The command and what stands beside it go together; CreateTopic and ListTopics
need nothing beside them.  A Flux broker that has a topic of that name forgets who leads its partitions when it is
created again, so CreateTopic is for new topics there.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.commands import (
    Command,
    CreateTopic,
    Fetch,
    IfExists,
    LatestOffsets,
    ListTopics,
    Ping,
    TopicSettings,
)
from gateway.dialects.pipe.arguments import unsupported, write_integer, write_name, write_number, write_topic
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
from gateway.dialects.pipe.cluster_requests import MAX_MESSAGES, REPLICATION_FACTOR
from gateway.dialects.pipe.terms import PipeTerms


def beside(command: Command, context: object) -> Aside | None:
    """What stands beside a command that is asked; None where it is not one of brokers and administrators."""
    return context if isinstance(context, Aside) else PLAIN.get(type(command))


PLAIN: dict[type[Command], Aside] = {CreateTopic: Replication(REPLICATION_FACTOR), ListTopics: Metadata()}
"""Kinds of commands that can be asked with nothing beside them -> what is taken to stand there."""


def ask(command: Command, aside: Aside, terms: PipeTerms) -> tuple[bytes, list[bytes]]:
    """The word of the command and its arguments."""
    verb, kind, write = _WRITE[type(aside)]
    if type(command) is not kind:
        raise unsupported(f"{type(command).__name__} as {verb.decode()}")
    if isinstance(aside, FenceBroker) and not aside.fenced:
        verb = b"ADMIN_UNFENCE_BROKER"
    return verb, write(command, aside, terms)


def _progress(command: LatestOffsets, aside: ReplicaFetch, terms: PipeTerms) -> list[bytes]:
    return [*_partition(command, terms), write_number(aside.replica), write_integer(aside.offset)]


def _broker_fetch(command: Fetch, aside: BrokerFetch, terms: PipeTerms) -> list[bytes]:
    if command.partition is None or not isinstance(command.start, int) or command.commit or not command.max_records:
        raise unsupported("a broker that fetches but some records from an offset of a partition")
    where = [write_topic(command.topic, terms), write_number(command.partition)]
    most = [] if command.max_records == MAX_MESSAGES else [write_number(command.max_records)]
    return [*where, write_integer(aside.follower), write_number(command.start), *most]


def _role(command: LatestOffsets, aside: PartitionRole, terms: PipeTerms) -> list[bytes]:
    return [*_partition(command, terms), b"follower" if aside.follower else b"leader"]


def _create_topic(command: CreateTopic, aside: Replication, terms: PipeTerms) -> list[bytes]:
    if command.if_exists is not IfExists.KEEP or command.id is not None or not command.partitions:
        raise unsupported("a topic that must be new, has a chosen id or has no partitions")
    if command.settings != TopicSettings():
        raise unsupported("the settings of a topic")
    return [write_topic(command.topic, terms), write_number(command.partitions), write_number(aside.replicas)]


def _leader(command: LatestOffsets, aside: PartitionLeader, terms: PipeTerms) -> list[bytes]:
    isr = b",".join(map(write_integer, aside.isr)) or b","  # a word that says nobody
    return [*_partition(command, terms), write_integer(aside.leader), isr]


def _elect(command: LatestOffsets, aside: Election, terms: PipeTerms) -> list[bytes]:
    return [write_topic(command.topic, terms)]


def _metadata(command: ListTopics, aside: Metadata, terms: PipeTerms) -> list[bytes]:
    if command.namespace != terms.namespace:
        raise unsupported("a second namespace")
    return []


def _register(command: Ping, aside: RegisterBroker, terms: PipeTerms) -> list[bytes]:
    epoch = [write_integer(aside.epoch)] if aside.epoch else []
    return [write_number(aside.broker), write_name(aside.host, "host"), write_number(aside.port), *epoch]


def _broker(command: Ping, aside: BrokerHeartbeat | FenceBroker, terms: PipeTerms) -> list[bytes]:
    return [write_number(aside.broker)]


def _reconcile(command: Ping, aside: ReconcileBrokers, terms: PipeTerms) -> list[bytes]:
    return [write_number(aside.timeout)]


_WRITE: dict[type, tuple[bytes, type, Callable[..., list[bytes]]]] = {
    ReplicaFetch: (b"REPLICA_FETCH", LatestOffsets, _progress),
    ReplicaAck: (b"BROKER_REPLICA_ACK", LatestOffsets, _progress),
    BrokerFetch: (b"BROKER_FETCH", Fetch, _broker_fetch),
    PartitionRole: (b"SET_PARTITION_ROLE", LatestOffsets, _role),
    Replication: (b"ADMIN_CREATE_TOPIC", CreateTopic, _create_topic),
    PartitionLeader: (b"ADMIN_SET_PARTITION_LEADER", LatestOffsets, _leader),
    Election: (b"ADMIN_ELECT_TOPIC_LEADERS", LatestOffsets, _elect),
    Metadata: (b"ADMIN_GET_METADATA", ListTopics, _metadata),
    RegisterBroker: (b"ADMIN_REGISTER_BROKER", Ping, _register),
    BrokerHeartbeat: (b"ADMIN_BROKER_HEARTBEAT", Ping, _broker),
    ReconcileBrokers: (b"ADMIN_RECONCILE_BROKER_HEALTH", Ping, _reconcile),
    FenceBroker: (b"ADMIN_FENCE_BROKER", Ping, _broker),
}
"""What stands beside a command -> the word for both, the command it goes with, and what writes the arguments."""


def _partition(command: LatestOffsets, terms: PipeTerms) -> list[bytes]:
    if command.partition is None:
        raise unsupported("every partition at once")
    return [write_topic(command.topic, terms), write_number(command.partition)]
