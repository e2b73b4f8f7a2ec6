"""Which partitions this node was told to follow, as one connection sees it.

A role that is asked for holds at once for what the same connection asks behind it, so that many lines in one piece mean
what they would mean one by one.  For the others it holds when the log has said that there is such a partition.
"""

from __future__ import annotations

from gateway.core.commands import ByKey, Command, Fetch, LatestOffsets, Publish
from gateway.core.faults import CommandFailed, Fault
from gateway.core.partitioners import PARTITIONERS
from gateway.dialects.pipe.asides import Aside, BrokerFetch, ReplicaFetch
from gateway.dialects.pipe.cluster import Cluster, refused


class Roles:
    """partitions: of a topic made by its first use."""

    def __init__(self, cluster: Cluster, partitions: int) -> None:
        self._cluster = cluster
        self._partitions = partitions
        self._turning: dict[tuple[str, int], tuple[int, bool]] = {}

    def asked(self, ticket: int, topic: str, partition: int, follower: bool) -> None:
        """A role is asked for; `answered` follows, or `lost`."""
        if (topic, partition) not in self._turning:
            self._cluster.watch(topic, self._partitions)
        self._turning[topic, partition] = ticket, follower

    def answered(self, ticket: int, topic: str, partition: int) -> None:
        """It holds for all now, or for nobody."""
        if self._turning.get((topic, partition), (-1, False))[0] == ticket:  # else another was asked for since
            del self._turning[topic, partition]
            self._cluster.unwatch(topic)

    def lost(self) -> None:
        """The connection is gone."""
        for topic, _ in self._turning:
            self._cluster.unwatch(topic)
        self._turning.clear()

    def check(self, command: Command, aside: Aside | None) -> None:
        """Raises CommandFailed for what only the leader of a partition does.  Called while topics are watched."""
        match command, aside:
            case Publish(to=ByKey() as to), _:
                if self._follows(command.topic.name, self._partition_of(command, to)):
                    raise CommandFailed(Fault.NOT_LEADER)
            case Fetch(partition=int(partition)), BrokerFetch():
                if self._follows(command.topic.name, partition):
                    raise CommandFailed(Fault.NOT_LEADER)
            case LatestOffsets(partition=int(partition)), ReplicaFetch():
                if self._follows(command.topic.name, partition):
                    raise refused("partition is not leader")

    def _partition_of(self, command: Publish, to: ByKey) -> int:
        """Where the backend will put the key: it takes the same hash, modulo the count that the log last said.

        Wrong for a topic to which another dialect gave a partitioner of its own, or more partitions since.
        """
        watched = self._cluster.watched.get(str(command.topic.name))
        return -1 if watched is None else PARTITIONERS[to.partitioner](to.key, watched.partitions)

    def _follows(self, topic: int | str, partition: int) -> bool:
        name = str(topic)
        turning = self._turning.get((name, partition))
        if turning is not None:
            return turning[1]
        watched = self._cluster.watched.get(name)
        return watched is not None and partition in watched.followers
