"""A topic read as a queue: one partition, and what the group `queue` has committed there is what was taken."""

from __future__ import annotations

from collections.abc import Callable

from gateway.core import changes as c
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.changes import Change
from gateway.core.deciding import Decision, new_group
from gateway.core.faults import CommandFailed, Fault
from gateway.core.state import Partition, State, Topic

QUEUE = q.Group("queue")
"""A group as any other: its members and its commits, from whatever dialect, move the same cursor."""


def queue(topic: Topic) -> Partition:
    """The partition that is the queue.  Raises CommandFailed(UNSUPPORTED) if there are several."""
    if len(topic.partitions) > 1:
        raise CommandFailed(Fault.UNSUPPORTED, f"a queue has one partition, {topic.name} has {len(topic.partitions)}")
    return topic.partition(0)


def cursor(partition: Partition) -> int:
    """Offset of the next record to be taken, the end of the partition or beyond it if there is none yet."""
    return max(partition.start, partition.offsets.get(partition.topic.reader(QUEUE), 0))


def waiting(partition: Partition) -> int:
    """How many records were not yet taken."""
    return max(0, partition.end - cursor(partition))


def _advance(state: State, command: q.Advance, now: int) -> Decision:
    partition = queue(state.topic(command.topic))
    if not waiting(partition):
        return r.Count(-1), []
    taken = cursor(partition)
    return r.Count(taken), _moved(state, partition, taken + 1, now)


def _clear(state: State, command: q.QueueClear, now: int) -> Decision:
    partition = queue(state.topic(command.topic))
    count = waiting(partition)
    return r.Count(count), _moved(state, partition, partition.end, now) if count else []


def _moved(state: State, partition: Partition, offset: int, now: int) -> list[Change]:
    topic = partition.topic
    kind, name = topic.reader(QUEUE)
    made = new_group(state, topic, name, 0, now) if topic.group(name) is None else []
    return [*made, c.OffsetSet(partition.number, kind, name, offset)]


QUEUE_DECISIONS: dict[type, Callable[..., Decision]] = {
    q.Advance: _advance,
    q.QueueClear: _clear,
}
"""By command type."""
