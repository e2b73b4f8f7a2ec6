"""What a Flux broker keeps of its cluster, for the connections of one listener: brokers, leaders, roles, replicas.

The gateway is one logical node that leads everything, broker 0; what is kept here is shown, and none of it but a
partition's role changes what happens to records.  It is forgotten at a restart, and its size is bounded:

- 1,024 brokers, 10,000 partitions with the role of a follower and 10,000 with a leader of their own; a request for one
  more is refused.
- of 10,000 topics what ADMIN_CREATE_TOPIC said, the replicas of 10,000 partitions, and of 10,000 groups that they have
  their assignor; what was touched longest ago is forgotten for one more.

No clock: `now` is set, in seconds, by whichever session hears the time.  Source: controller.go, raft_store.go and
manager.go of the project; OUR marks what is not so there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Count
from gateway.dialects.pipe.asides import (
    BrokerChange,
    BrokerHeartbeat,
    FenceBroker,
    ReconcileBrokers,
    RegisterBroker,
)
from gateway.dialects.pipe.cluster_requests import MAX_ISR, REPLICATION_FACTOR

OWN = 0
"""The id of this node."""

TERM = 1
"""OUR: nobody else ever leads."""

MIN_ISR = 2
"""Replicas in sync, this node with them, below which a partition shows as under-replicated: Flux's default."""

REPLICA_SECONDS = 10.0
"""How long a replica that says nothing is in sync: Flux's default."""

MAX_BROKERS = 1_024
MAX_KEPT = 10_000

K = TypeVar("K")
V = TypeVar("V")


class Broker:
    """heard: seconds.  epoch: 0 or less = not said."""

    __slots__ = ("epoch", "fenced", "heard", "host", "port")

    def __init__(self, host: str, port: int, epoch: int, heard: float) -> None:
        self.host = host
        self.port = port
        self.epoch = epoch
        self.heard = heard
        self.fenced = False


class Layout:
    """Who has the partitions of a topic.

    partitions: how many there are, as far as is known.
    replicas:   of each partition: brokers 0 to replicas-1.
    leader:     of the partitions that are not in `leaders`, -1 = none.
    leaders:    partition -> its leader and the replicas in sync with it.
    """

    __slots__ = ("leader", "leaders", "partitions", "replicas")

    def __init__(self, partitions: int, replicas: int = REPLICATION_FACTOR) -> None:
        self.partitions = partitions
        self.replicas = replicas
        self.leader = OWN
        self.leaders: dict[int, tuple[int, tuple[int, ...]]] = {}


class Watched:
    """A topic that has followers, or may have.

    partitions: how many it has, as the log last said; until it did, as many as this listener would make.
    turning:    requests for another role that are not answered yet.
    """

    __slots__ = ("followers", "partitions", "turning")

    def __init__(self, partitions: int) -> None:
        self.followers: set[int] = set()
        self.partitions = partitions
        self.turning = 0


class Cluster:
    """index: of the last change.  brokers: by id, this node among them from the start.

    watched: topics by name; empty as long as nobody gives a partition another role.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.index = 1  # this node's own registration
        self.brokers: dict[int, Broker] = {OWN: Broker("", 0, 0, 0.0)}  # its address is the listener's
        self.layouts: dict[str, Layout] = {}
        self.watched: dict[str, Watched] = {}
        self._acks: dict[tuple[str, int], dict[int, tuple[int, float]]] = {}
        self._assigned: dict[tuple[str, str], None] = {}
        self._followers = 0
        self._leaders = 0
        self._changes: dict[type, Callable[..., Count]] = {
            RegisterBroker: self._register,
            BrokerHeartbeat: self._hear,
            FenceBroker: self._fence,
            ReconcileBrokers: self._reconcile,
        }

    def next_index(self) -> int:
        """The index of one more change."""
        self.index += 1
        return self.index

    # -- brokers

    def change(self, change: BrokerChange) -> Count:
        """Carry out what is asked of the table of brokers alone.  Raises CommandFailed with the text for the peer."""
        return self._changes[type(change)](change)

    def shown(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids of the brokers and of those that are fenced, sorted."""
        brokers = tuple(sorted(self.brokers))
        return brokers, tuple(broker for broker in brokers if self.brokers[broker].fenced)

    def _register(self, change: RegisterBroker) -> Count:
        if change.broker not in self.brokers and len(self.brokers) >= MAX_BROKERS:
            raise refused("too many brokers")
        self.brokers[change.broker] = Broker(change.host, change.port, change.epoch, self.now)
        return Count(self.next_index())

    def _hear(self, change: BrokerHeartbeat) -> Count:
        """Who says that he lives is not fenced either."""
        broker = self._broker(change.broker)
        broker.heard, broker.fenced = self.now, False
        return Count(self.next_index())

    def _fence(self, change: FenceBroker) -> Count:
        self._broker(change.broker).fenced = change.fenced
        return Count(self.next_index())

    def _reconcile(self, change: ReconcileBrokers) -> Count:
        """Fence who was not heard of for so long, and nobody else."""
        since = self.now - change.timeout / 1000
        self.brokers[OWN].heard = self.now  # a Flux broker tells itself every second
        changed = [broker for broker in self.brokers.values() if broker.fenced is not (broker.heard < since)]
        for broker in changed:
            broker.fenced = not broker.fenced
        self.index += len(changed)
        return Count(len(changed))

    def _broker(self, broker: int) -> Broker:
        if broker not in self.brokers:
            raise refused(f"broker not found: {broker}")
        return self.brokers[broker]

    # -- leaders

    def create(self, topic: str, partitions: int, replicas: int) -> None:
        """OUR: a topic begins with this node as the leader of everything, in the project it begins without leaders."""
        self._leaders -= len(self._layout(topic, partitions).leaders)
        self._save(topic, Layout(partitions, replicas))

    def lead(self, topic: str, partitions: int, partition: int, leader: int, isr: tuple[int, ...]) -> None:
        """A partition has that leader.  An empty isr = as it was.  Raises CommandFailed if there are too many."""
        layout = self._layout(topic, partitions)
        before = layout.leaders.get(partition)
        if before is None:
            if self._leaders >= MAX_KEPT:
                raise refused("too many partitions with a leader of their own")
            self._leaders += 1
        layout.leaders[partition] = leader, isr or (() if before is None else before[1])
        self._save(topic, layout)

    def elect(self, topic: str, partitions: int) -> int:
        """Partitions whose leader is unknown or fenced are led by their first replica that is not, -1 if there is none.

        Returns how many that changed.
        """
        layout = self._layout(topic, partitions)
        able = [broker for broker in sorted(self.brokers) if broker < layout.replicas and self._may_lead(broker)]
        winner = able[0] if able else -1
        changed = 0
        for partition, (leader, isr) in layout.leaders.items():
            if partition < partitions and leader != winner and not self._may_lead(leader):
                layout.leaders[partition] = winner, tuple(able[:MAX_ISR]) or isr
                changed += 1
        if layout.leader != winner and not self._may_lead(layout.leader):
            layout.leader = winner
            changed += partitions - sum(partition < partitions for partition in layout.leaders)
        if changed:
            self._save(topic, layout)
        self.index += changed
        return changed

    def _layout(self, topic: str, partitions: int) -> Layout:
        found = self.layouts.get(topic)
        return Layout(partitions) if found is None else found

    def _save(self, topic: str, layout: Layout) -> None:
        gone = _keep(self.layouts, topic, layout)
        if gone is not None:
            self._leaders -= len(gone.leaders)

    def _may_lead(self, broker: int) -> bool:
        return broker in self.brokers and not self.brokers[broker].fenced

    # -- roles

    def watch(self, topic: str, partitions: int) -> None:
        """A partition of the topic may get another role.  partitions: of a topic made by its first use."""
        if topic not in self.watched:
            layout = self.layouts.get(topic)
            self.watched[topic] = Watched(partitions if layout is None else layout.partitions)
        self.watched[topic].turning += 1

    def unwatch(self, topic: str) -> None:
        """What `watch` was called for is over."""
        watched = self.watched[topic]
        watched.turning -= 1
        self._settle(topic, watched)

    def turn(self, topic: str, partition: int, follower: bool) -> None:
        """A partition has that role.  Raises CommandFailed if there are too many followers."""
        watched = self.watched.get(topic)
        if watched is None or follower is (partition in watched.followers):
            return
        if follower and self._followers >= MAX_KEPT:
            raise refused("too many partitions with a role")
        if follower:
            watched.followers.add(partition)
            self._followers += 1
        else:
            watched.followers.discard(partition)
            self._followers -= 1
            self._settle(topic, watched)

    def counted(self, topic: str, partitions: int) -> None:
        """The log has said how many partitions a topic has."""
        if topic in self.watched:
            self.watched[topic].partitions = partitions
        if topic in self.layouts:
            self.layouts[topic].partitions = partitions

    def _settle(self, topic: str, watched: Watched) -> None:
        if not watched.turning and not watched.followers:
            del self.watched[topic]

    # -- replicas

    def acked(self, topic: str, partition: int, replica: int, offset: int, last: int) -> tuple[int, ...]:
        """A replica has every record up to `offset`; `last` is the last there is, -1 = none.

        Returns the replicas that are in sync: those that lack nothing and were heard of within 10 s.
        """
        acks = self._acks.pop((topic, partition), {})
        acks[replica] = max(min(offset, last), acks.get(replica, (-1, 0.0))[0]), self.now
        _keep(self._acks, (topic, partition), acks)
        return (
            OWN,
            *sorted(
                other for other, (has, heard) in acks.items() if has >= last and self.now - heard <= REPLICA_SECONDS
            ),
        )

    # -- groups

    def assign(self, topic: str, group: str) -> None:
        """A member joined through this listener: the group has its assignor."""
        _keep(self._assigned, (topic, group), None)

    def assigned(self, topic: str, group: str) -> bool:
        """Whether `assign` was called for it."""
        return (topic, group) in self._assigned


def refused(text: str) -> CommandFailed:
    """What the state that is kept here does not allow, in the words for the peer."""
    return CommandFailed(Fault.INVALID_ARGUMENT, text)


def _keep(kept: dict[K, V], key: K, value: V) -> V | None:
    """The newest, at the end; the oldest goes if there are too many, and is returned."""
    kept.pop(key, None)
    gone = kept.pop(next(iter(kept))) if len(kept) >= MAX_KEPT else None
    kept[key] = value
    return gone
