"""What a state shows: the replies of commands that only look."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.queues import queue, waiting
from gateway.core.replies import Reply
from gateway.core.state import Group, Namespace, State, Topic


def answer(state: State, command: q.Command) -> Reply:
    """The reply to a command that only looks.  Raises CommandFailed, UNSUPPORTED for one the state knows nothing of."""
    view = _VIEWS.get(type(command))
    if view is None:
        raise CommandFailed(Fault.UNSUPPORTED, type(command).__name__)
    return view(state, command)


def looks(state: State) -> dict[type, Callable[[q.Command, q.Session], Reply]]:
    """The same by command type, for who looks a command up: of the command and the session that asks."""
    return {kind: _look(state, view) for kind, view in _VIEWS.items()}


def _look(state: State, view: Callable[..., Reply]) -> Callable[[q.Command, q.Session], Reply]:
    return lambda command, session: view(state, command)


def describe_node(state: State, node: str, version: str, durability: str, started: int) -> r.NodeDescription:
    """The node, with what the state counts."""
    namespaces = [describe_namespace(namespace) for namespace in state.namespaces.values()]
    return r.NodeDescription(
        node,
        version,
        durability,
        started,
        namespaces=len(namespaces),
        topics=sum(namespace.topics for namespace in namespaces),
        partitions=len(state.partitions),
        records=sum(namespace.records for namespace in namespaces),
        bytes=sum(namespace.bytes for namespace in namespaces),
        groups=sum(len(named) for namespace in state.namespaces.values() for named in namespace.groups.values()),
    )


def describe_namespace(namespace: Namespace) -> r.NamespaceDescription:
    """A namespace, with what its topics hold."""
    partitions = [partition for topic in namespace.topics.values() for partition in topic.partitions]
    records = sum(partition.end - partition.start for partition in partitions)
    size = sum(partition.bytes for partition in partitions)
    return r.NamespaceDescription(namespace.id, namespace.name, namespace.created, len(namespace.topics), records, size)


def describe_topic(topic: Topic) -> r.TopicDescription:
    """A topic with its partitions."""
    describe = r.PartitionDescription
    partitions = tuple([describe(at.index, at.start, at.end, at.bytes, at.created) for at in topic.partitions])
    return r.TopicDescription(topic.namespace.name, topic.name, topic.id, topic.created, topic.settings, partitions)


def each_topic(state: State) -> Iterator[r.TopicDescription]:
    """All topics of all namespaces, each as it is when it is its turn: who takes them may do other things between.

    Those made meanwhile may be missing, those deleted are.
    """
    for _, namespace in sorted(state.namespace_ids.items()):
        for id in sorted(namespace.topic_ids):
            topic = namespace.topic_ids.get(id)
            if topic is not None:
                yield describe_topic(topic)


def describe_group(group: Group) -> r.GroupDescription:
    """A group without its members, whom the coordinator knows."""
    topic = group.topic
    return r.GroupDescription(
        topic.namespace.name, topic.name, group.name, group.id, group.generation, len(topic.partitions)
    )


def _namespaces(state: State, command: q.ListNamespaces) -> r.Namespaces:
    ids = state.namespace_ids
    return r.Namespaces(tuple(describe_namespace(ids[id]) for id in sorted(ids)))


def _namespace(state: State, command: q.DescribeNamespace) -> r.NamespaceDescription:
    namespace = state.namespace(command.namespace)
    described = describe_namespace(namespace)
    return msgspec.structs.replace(described, contents=_contents(namespace)) if command.contents else described


def _topics(state: State, command: q.ListTopics) -> r.Topics:
    return r.Topics(_contents(state.namespace(command.namespace)))


def _contents(namespace: Namespace) -> tuple[r.TopicDescription, ...]:
    return tuple(describe_topic(namespace.topic_ids[id]) for id in sorted(namespace.topic_ids))


def _topic(state: State, command: q.DescribeTopic) -> r.TopicDescription:
    return describe_topic(state.topic(command.topic))


def _latest_offsets(state: State, command: q.LatestOffsets) -> r.Offsets:
    topic = state.topic(command.topic)
    asked = topic.partitions if command.partition is None else [topic.partition(command.partition)]
    return r.Offsets(len(topic.partitions), tuple(r.PartitionOffsets(at.index, at.start, at.end) for at in asked))


def _committed(state: State, command: q.FetchOffsets) -> r.CommittedOffsets:
    topic = state.topic(command.topic)
    if isinstance(command.reader, q.Group):
        state.group(command.topic, command.reader.name)
    key = topic.reader(command.reader)
    asked = topic.partitions
    if command.partitions is not None:
        asked = [topic.partition(index) for index in command.partitions if index is not None]
    offsets = {at.index: at.offsets[key] for at in asked if key in at.offsets}
    return r.CommittedOffsets(offsets, {at.index: at.end for at in asked})


def _queue_size(state: State, command: q.QueueSize) -> r.Count:
    return r.Count(waiting(queue(state.topic(command.topic))))


def _leader(state: State, command: q.FindLeader) -> r.Leader:
    if command.subject is not None:
        state.topic(command.subject)
    return r.Leader()


def _done(state: State, command: q.Command) -> r.Done:
    return r.Done()


_VIEWS: dict[type, Callable[..., Reply]] = {
    q.Ping: _done,
    q.EndSession: _done,
    q.ListNamespaces: _namespaces,
    q.DescribeNamespace: _namespace,
    q.ListTopics: _topics,
    q.DescribeTopic: _topic,
    q.LatestOffsets: _latest_offsets,
    q.FetchOffsets: _committed,
    q.QueueSize: _queue_size,
    q.FindLeader: _leader,
}
