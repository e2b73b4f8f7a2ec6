"""What decisions have in common: names and numbers, the partition for a record, groups."""

from __future__ import annotations

from gateway.core import changes as c
from gateway.core import commands as q
from gateway.core.changes import Change
from gateway.core.commands import MAX_NAME
from gateway.core.faults import CommandFailed, Fault
from gateway.core.partitioners import PARTITIONERS, Partitioner
from gateway.core.replies import Reply
from gateway.core.state import Partition, State, Topic

Decision = tuple[Reply, list[Change]]

MAX_ID = 0xFFFFFFFF


def check_name(name: str) -> None:
    """Raises CommandFailed(INVALID_NAME)."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise CommandFailed(Fault.INVALID_NAME, "a name is Unicode") from None
    if not 1 <= size <= MAX_NAME:
        raise CommandFailed(Fault.INVALID_NAME, f"a name has 1 to {MAX_NAME} bytes")


def new_id(state: State, kind: str, wanted: int | None) -> int:
    """The next free id of that kind, or the one wanted.  Raises CommandFailed(INVALID_ARGUMENT)."""
    id = state.numbered.get(kind, 0) + 1 if wanted is None else wanted
    if not 1 <= id <= MAX_ID:
        raise CommandFailed(Fault.INVALID_ARGUMENT, f"an id is 1 to {MAX_ID}")
    return id


def partitioner(name: str) -> Partitioner:
    """By name.  Raises CommandFailed(INVALID_ARGUMENT)."""
    if name not in PARTITIONERS:
        raise CommandFailed(Fault.INVALID_ARGUMENT, f"partitioners are {', '.join(PARTITIONERS)}")
    return PARTITIONERS[name]


def choose(topic: Topic, to: int | q.ByKey | q.Balanced) -> Partition:
    """Where a batch goes.  Raises CommandFailed(NO_SUCH_PARTITION or INVALID_ARGUMENT)."""
    if isinstance(to, int):
        return topic.partition(to)
    count = len(topic.partitions)
    if not count:
        raise CommandFailed(Fault.NO_SUCH_PARTITION, "the topic has no partitions", partition=0, partitions=0)
    if isinstance(to, q.Balanced):
        topic.turn += 1
        return topic.partitions[(topic.turn - 1) % count]
    return topic.partitions[partitioner(topic.settings.partitioner or to.partitioner)(to.key, count)]


def new_group(
    state: State, topic: Topic, name: str, generation: int, now: int, wanted: int | None = None
) -> list[Change]:
    """What makes a group.  wanted: its id, None = the next free one."""
    kind = f"group:{topic.namespace.id}:{topic.id}"
    id = new_id(state, kind, wanted)
    return [c.Numbered(kind, id), c.GroupSet(topic.namespace.id, topic.id, id, name, now, generation)]
