"""What a command of brokers and administrators says beside its Command: the context of its Request.

The core knows no replicas, roles, terms or brokers, and the gateway is one logical node: these are what the protocol
needs for the answer.  Fields with a default are filled in by the session, from the state that its listener keeps.
"""

from __future__ import annotations

import msgspec


class Aside(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """corr: the correlation value as it came, where that is no UTF-8."""

    corr: bytes | None = None


# -- beside LatestOffsets of the one partition


class ReplicaFetch(Aside, frozen=True, gc=False):
    """REPLICA_FETCH: that replica has every record up to `offset`.

    isr: the replicas that are in sync then, this node first.
    """

    replica: int
    offset: int
    isr: tuple[int, ...] = (0,)


class ReplicaAck(ReplicaFetch, frozen=True, gc=False):
    """BROKER_REPLICA_ACK: the same, between brokers."""


class PartitionRole(Aside, frozen=True, gc=False):
    """SET_PARTITION_ROLE.  follower: else leader."""

    follower: bool


class PartitionLeader(Aside, frozen=True, gc=False):
    """ADMIN_SET_PARTITION_LEADER.  leader: a broker, -1 = none."""

    leader: int
    isr: tuple[int, ...]
    index: int = 0


class Election(Aside, frozen=True, gc=False):
    """ADMIN_ELECT_TOPIC_LEADERS, beside LatestOffsets of partition 0, whose answer says how many there are."""


# -- beside the command that says all else


class BrokerFetch(Aside, frozen=True, gc=False):
    """BROKER_FETCH, beside Fetch: who fetches."""

    follower: int


class Replication(Aside, frozen=True, gc=False):
    """ADMIN_CREATE_TOPIC, beside CreateTopic.  replicas: of each partition, brokers 0 to replicas-1."""

    replicas: int
    index: int = 0


class Metadata(Aside, frozen=True, gc=False):
    """ADMIN_GET_METADATA, beside ListTopics.  brokers and those of them that are fenced, by id."""

    brokers: tuple[int, ...] = (0,)
    fenced: tuple[int, ...] = ()


# -- beside Ping: nothing but the table of brokers is asked


class BrokerChange(Aside, frozen=True, gc=False):
    """Answered with Count: the index of the change, or how many changes there were."""


class RegisterBroker(BrokerChange, frozen=True, gc=False):
    """ADMIN_REGISTER_BROKER.  epoch: 0 or less = not said."""

    broker: int
    host: str
    port: int
    epoch: int = 0


class BrokerHeartbeat(BrokerChange, frozen=True, gc=False):
    """ADMIN_BROKER_HEARTBEAT."""

    broker: int


class ReconcileBrokers(BrokerChange, frozen=True, gc=False):
    """ADMIN_RECONCILE_BROKER_HEALTH.  timeout: ms."""

    timeout: int


class FenceBroker(BrokerChange, frozen=True, gc=False):
    """ADMIN_FENCE_BROKER and, with False, ADMIN_UNFENCE_BROKER."""

    broker: int
    fenced: bool
