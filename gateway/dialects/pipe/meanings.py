"""What a Flux server says where the gateway knows more: its groups, offsets and replicas need no topic to be there."""

from __future__ import annotations

from gateway.core.commands import (
    MAX_NAME,
    Command,
    CommitOffsets,
    Fetch,
    FetchOffsets,
    Heartbeat,
    LatestOffsets,
    LeaveGroup,
    SyncGroup,
)
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import CommittedOffsets, Count, Offsets, Outcome, PartitionOffsets, Records
from gateway.dialects.pipe.asides import Aside, BrokerFetch, Election, PartitionRole, ReplicaFetch


def as_v1(command: Command, aside: Aside | None, failure: CommandFailed, partitions: int) -> Outcome:
    """That failure, or what there is to say instead.  partitions: of a topic made by its first use.

    Source: core/internal/coordinator/group.go (a group of another topic is "group not found"), offset.go (0 for what is
    not in the table), replication/manager.go and broker.go (a topic is there when it is asked for) of the project.
    """
    fault = failure.fault
    if isinstance(command, FetchOffsets):
        return CommittedOffsets({}) if fault in _NOTHING_COMMITTED else failure
    if isinstance(aside, ReplicaFetch | BrokerFetch | PartitionRole):
        return _nothing_yet(command, partitions) if fault is Fault.NO_SUCH_TOPIC else failure
    if isinstance(aside, Election):
        return Count(0) if fault is Fault.NO_SUCH_PARTITION else failure  # a topic without partitions
    fenced = isinstance(command, CommitOffsets) and command.member is not None
    if fenced or isinstance(command, SyncGroup | Heartbeat | LeaveGroup):
        meant = _MEMBERSHIP.get(fault)
        return failure if meant is None else CommandFailed(meant, str(failure))
    return failure


def _nothing_yet(command: Command, partitions: int) -> Outcome:
    """A topic that is not there has no records yet, in as many partitions as its first use will give it.

    OUR: a partition that it will not have is refused, and so is a name that no topic can have: roles are kept by name.
    """
    assert isinstance(command, Fetch | LatestOffsets), "these are asked with one partition"
    partition = command.partition
    if len(str(command.topic.name).encode()) > MAX_NAME:
        return CommandFailed(Fault.INVALID_NAME)
    if partition is None or partition >= partitions:
        return CommandFailed(Fault.NO_SUCH_PARTITION)
    if isinstance(command, Fetch):
        return Records(partition, 0, 0)
    return Offsets(partitions, (PartitionOffsets(partition, 0, 0),))


_NOTHING_COMMITTED = {
    Fault.NO_SUCH_TOPIC,
    Fault.NO_SUCH_PARTITION,
    Fault.NO_SUCH_GROUP,
    Fault.NO_SUCH_OFFSET,
    Fault.OTHER_TOPIC,
}
_MEMBERSHIP = {
    Fault.NO_SUCH_TOPIC: Fault.NO_SUCH_GROUP,
    Fault.OTHER_TOPIC: Fault.NO_SUCH_GROUP,
    Fault.NO_SUCH_PARTITION: Fault.NOT_OWNER,
}
