"""What our client says of something that is done and of which the answer tells nothing: what was asked for.

SEND, JOIN and the making of partitions are answered without a payload in every generation, the making of anything else
up to 0.4 and by some servers of 0.5 and 0.6.  Numbers that nobody knows are 0: ids, times, offsets, generations.
Source: protocol page, sections 2 and 3.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import MAX_PARTITIONS
from gateway.core.replies import Reply


def _id(name: int | str | None) -> int:
    return name if isinstance(name, int) else 0


def _namespace(command: q.CreateNamespace) -> Reply:
    return r.NamespaceDescription(_id(command.id), command.name, 0, 0, 0, 0)


def _topic(command: q.CreateTopic) -> Reply:
    """With its partitions, which are empty."""
    count = min(command.partitions, MAX_PARTITIONS)
    partitions = tuple(r.PartitionDescription(index, 0, 0, 0, 0) for index in range(count))
    return _described(command.topic, _id(command.id), command.settings, partitions)


def _partitioned(command: q.CreatePartitions | q.DeletePartitions) -> Reply:
    """Without partitions: how many there are now nobody says."""
    return _described(command.topic, _id(command.topic.name))


def _described(
    topic: q.Topic,
    id: int,
    settings: q.TopicSettings = q.TopicSettings(),  # noqa: B008  # frozen
    partitions: tuple[r.PartitionDescription, ...] = (),
) -> Reply:
    return r.TopicDescription(str(topic.namespace), str(topic.name), id, 0, settings, partitions)


def _published(command: q.Publish) -> Reply:
    return r.Published(command.to if isinstance(command.to, int) else 0, 0, 0)


def _group(command: q.CreateGroup) -> Reply:
    topic = command.topic
    return r.GroupDescription(str(topic.namespace), str(topic.name), command.group, _id(command.id), 0, 0)


def _joined(command: q.JoinGroup) -> Reply:
    return r.Joined(command.member, 0, ())


PRESUMED: dict[type[q.Command], Callable[..., Reply]] = {
    q.CreateNamespace: _namespace,
    q.CreateTopic: _topic,
    q.CreatePartitions: _partitioned,
    q.DeletePartitions: _partitioned,
    q.Publish: _published,
    q.CreateGroup: _group,
    q.JoinGroup: _joined,
}
"""Command -> the reply that it names, where the answer has no payload."""
