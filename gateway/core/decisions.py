"""What writing commands mean: given a state and the time, a reply and the changes that make it true."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gateway.core import changes as c
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.changes import Change
from gateway.core.commands import DEFAULT_NAMESPACE_ID, MAX_OFFSET, MAX_PARTITIONS, Written
from gateway.core.deciding import Decision, check_name, choose, new_group, new_id, partitioner
from gateway.core.faults import CommandFailed, Fault
from gateway.core.queues import QUEUE_DECISIONS
from gateway.core.records import RecordBatch
from gateway.core.state import Partition, State, Topic
from gateway.core.table_decisions import TABLE_DECISIONS
from gateway.core.views import describe_group, describe_topic


def writes(command: q.Command) -> bool:
    """Whether `perform` is for this command."""
    return type(command) in _DECIDE


def perform(state: State, command: Written, now: int) -> Decision:
    """Carry out a writing command on the state.  now: us since the epoch.

    A table that `table_decisions.untabled` asks for has to be there before.  Returns the reply and the changes, already
    applied.  Raises CommandFailed, and then nothing has changed.
    """
    try:
        reply, changes = _DECIDE[type(command)](state, command, now)
    except CommandFailed as failure:
        if failure.fault is not Fault.NO_SUCH_TOPIC or not getattr(command, "create", 0):
            raise
        return _perform_in_new_topic(state, command, now)
    state.apply(changes)
    return reply, changes


# -- namespaces


def _create_namespace(state: State, command: q.CreateNamespace, now: int) -> Decision:
    check_name(command.name)
    if command.id in state.namespace_ids:
        raise CommandFailed(Fault.NAMESPACE_EXISTS, f"id {command.id}", taken="id")
    if command.name in state.namespaces:
        raise CommandFailed(Fault.NAMESPACE_EXISTS, command.name, taken="name")
    id = new_id(state, "namespace", command.id)
    changes: list[Change] = [c.Numbered("namespace", id), c.NamespaceSet(id, command.name, now)]
    return r.NamespaceDescription(id, command.name, now, 0, 0, 0), changes


def _delete_namespace(state: State, command: q.DeleteNamespace, now: int) -> Decision:
    namespace = state.namespace(command.namespace)
    if namespace.id == DEFAULT_NAMESPACE_ID:
        raise CommandFailed(Fault.INVALID_ARGUMENT, "the default namespace stays")
    changes = [change for topic in namespace.topics.values() for change in _topic_end(topic)]
    return r.Done(), [*changes, c.NamespaceDeleted(namespace.id)]


# -- topics


def _perform_in_new_topic(state: State, command: Written, now: int) -> Decision:
    """The topic that a command may create is made; what there is to refuse without it was refused before."""
    assert isinstance(command, q.Publish | q.MapPut | q.MapAdd), "what may create a topic"
    if isinstance(command, q.Publish):
        _check_new(command)
    made = perform(state, q.CreateTopic(command.topic, command.create), now)[1]
    reply, changes = perform(state, msgspec.structs.replace(command, create=0), now)
    return reply, made + changes


def _check_new(command: q.Publish) -> None:
    if isinstance(command.to, int) and not 0 <= command.to < command.create:
        raise CommandFailed(Fault.NO_SUCH_PARTITION, partition=command.to, partitions=command.create)
    if isinstance(command.to, q.ByKey):
        partitioner(command.to.partitioner)


def _create_topic(state: State, command: q.CreateTopic, now: int) -> Decision:
    namespace = state.namespace(command.topic.namespace)
    topic = state.find(command.topic)
    if topic is not None:
        return _existing_topic(state, command, topic, now)
    if command.id in namespace.topic_ids:
        raise CommandFailed(Fault.TOPIC_EXISTS, f"id {command.id}", taken="id")
    name = command.topic.name
    if not isinstance(name, str):
        raise CommandFailed(Fault.NO_SUCH_TOPIC, str(name))
    check_name(name)
    if not 0 <= command.partitions <= MAX_PARTITIONS:
        raise CommandFailed(Fault.INVALID_ARGUMENT, f"a topic has 0 to {MAX_PARTITIONS} partitions")
    _check_settings(command.settings)
    kind = f"topic:{namespace.id}"
    id = new_id(state, kind, command.id)
    made = _new_partitions(state, namespace.id, id, 0, command.partitions, now)
    reply = r.TopicDescription(namespace.name, name, id, now, command.settings, _described(made))
    return reply, [c.Numbered(kind, id), c.TopicSet(namespace.id, id, name, now, command.settings), *made]


def _existing_topic(state: State, command: q.CreateTopic, topic: Topic, now: int) -> Decision:
    current = len(topic.partitions)
    if command.if_exists is q.IfExists.FAIL:
        raise CommandFailed(Fault.TOPIC_EXISTS, topic.name, taken="name")
    if command.if_exists is q.IfExists.KEEP or command.partitions == current:
        return describe_topic(topic), []
    if command.partitions < current:
        raise CommandFailed(Fault.FEWER_PARTITIONS, current=current, requested=command.partitions)
    return _grow(state, topic, command.partitions - current, now)


def _alter_topic(state: State, command: q.AlterTopic, now: int) -> Decision:
    topic = state.topic(command.topic)
    name = topic.name if command.name is None else command.name
    check_name(name)
    _check_settings(command.settings)
    if topic.namespace.topics.get(name, topic) is not topic:
        raise CommandFailed(Fault.TOPIC_EXISTS, name, taken="name")
    described = describe_topic(topic)
    reply = r.TopicDescription(
        described.namespace, name, topic.id, topic.created, command.settings, described.partitions
    )
    return reply, [c.TopicSet(topic.namespace.id, topic.id, name, topic.created, command.settings)]


def _delete_topic(state: State, command: q.DeleteTopic, now: int) -> Decision:
    return r.Done(), _topic_end(state.topic(command.topic))


def _topic_end(topic: Topic) -> list[Change]:
    namespace = topic.namespace.id
    groups: list[Change] = [
        c.GroupDeleted(namespace, topic.id, group.id, group.name) for group in topic.groups.values()
    ]
    gone: list[Change] = [c.PartitionDeleted(partition.number) for partition in reversed(topic.partitions)]
    return [*groups, *gone, c.TopicDeleted(namespace, topic.id)]


# -- partitions


def _create_partitions(state: State, command: q.CreatePartitions, now: int) -> Decision:
    if command.count < 1:
        raise CommandFailed(Fault.INVALID_ARGUMENT, "at least one partition")
    return _grow(state, state.topic(command.topic), command.count, now)


def _grow(state: State, topic: Topic, count: int, now: int) -> Decision:
    if len(topic.partitions) + count > MAX_PARTITIONS:
        raise CommandFailed(Fault.INVALID_ARGUMENT, f"a topic has at most {MAX_PARTITIONS} partitions")
    changes = _new_partitions(state, topic.namespace.id, topic.id, len(topic.partitions), count, now)
    described = describe_topic(topic)
    return _with_partitions(described, described.partitions + _described(changes)), changes


def _delete_partitions(state: State, command: q.DeletePartitions, now: int) -> Decision:
    topic = state.topic(command.topic)
    if command.count < 1:
        raise CommandFailed(Fault.INVALID_ARGUMENT, "at least one partition")
    kept = max(0, len(topic.partitions) - command.count)
    changes: list[Change] = [c.PartitionDeleted(gone.number) for gone in reversed(topic.partitions[kept:])]
    described = describe_topic(topic)
    return _with_partitions(described, described.partitions[:kept]), changes


def _new_partitions(state: State, namespace: int, topic: int, first: int, count: int, now: int) -> list[Change]:
    number = state.numbered.get("partition", 0) + 1
    if number + count - 1 > state.numbers:
        raise CommandFailed(Fault.INVALID_ARGUMENT, f"the store numbers {state.numbers} partitions over all its life")
    made: list[Change] = [c.PartitionCreated(number + at, namespace, topic, first + at, now) for at in range(count)]
    return [*made, c.Numbered("partition", number + count - 1)]


def _described(changes: list[Change]) -> tuple[r.PartitionDescription, ...]:
    made = [change for change in changes if isinstance(change, c.PartitionCreated)]
    return tuple(r.PartitionDescription(at.index, 0, 0, 0, at.created) for at in made)


def _with_partitions(topic: r.TopicDescription, partitions: tuple[r.PartitionDescription, ...]) -> r.TopicDescription:
    return r.TopicDescription(topic.namespace, topic.name, topic.id, topic.created, topic.settings, partitions)


# -- the log


def _publish(state: State, command: q.Publish, now: int) -> Decision:
    batch = command.batch
    if not batch.count:
        raise CommandFailed(Fault.EMPTY_BATCH)
    partition = choose(state.topic(command.topic), command.to)
    if partition.end + batch.count > state.capacity:
        raise CommandFailed(Fault.PARTITION_FULL, f"{state.capacity} records")
    if partition.topic.settings.idempotent:
        return _append_new(partition, batch, now)
    stamped = batch.appended(partition.end, max(now, partition.topic.timestamp + 1))
    return r.Published(partition.index, stamped.base, stamped.end - 1), [c.Appended(partition.number, stamped)]


def _append_new(partition: Partition, batch: RecordBatch, now: int) -> Decision:
    """Append what the producers did not send before."""
    ranges, producers = partition.producers.admit(batch.encoding.runs(batch.body))
    known = tuple((producer, epoch, last) for producer, (epoch, last) in producers.items())
    base = end = partition.end
    timestamp = max(now, partition.topic.timestamp + 1)
    changes: list[Change] = []
    for first, last in ranges:
        stamped = batch.cut(first, last).appended(end, timestamp + end - base)
        changes.append(c.Appended(partition.number, stamped, known))
        end = stamped.end
    return r.Published(partition.index, base, end - 1, duplicate=not changes), changes


# -- consumer groups


def check_exclusive(topic: Topic, name: str) -> None:
    """Whether no other topic has a group of that name.  Raises CommandFailed(OTHER_TOPIC)."""
    for group in topic.namespace.groups.get(name, {}).values():
        if group.topic is not topic:
            raise CommandFailed(Fault.OTHER_TOPIC, "", expected=group.topic.name, actual=topic.name)


def _create_group(state: State, command: q.CreateGroup, now: int) -> Decision:
    topic = state.topic(command.topic)
    check_name(command.group)
    if command.exclusive:
        check_exclusive(topic, command.group)
    group = topic.group(command.group)
    if group is None and command.id in topic.groups:
        raise CommandFailed(Fault.GROUP_EXISTS, f"id {command.id}", taken="id")
    if group is not None and command.if_exists is q.IfExists.FAIL:
        raise CommandFailed(Fault.GROUP_EXISTS, command.group, taken="name")
    if group is not None:
        return describe_group(group), []
    changes = new_group(state, topic, command.group, 0, now, command.id)
    made = changes[-1]
    assert isinstance(made, c.GroupSet), "that is what was asked for"
    reply = r.GroupDescription(topic.namespace.name, topic.name, made.name, made.id, 0, len(topic.partitions))
    return reply, changes


def _delete_group(state: State, command: q.DeleteGroup, now: int) -> Decision:
    group = state.group(command.topic, command.group)
    topic, key = group.topic, ("group", group.name)
    committed = [partition for partition in topic.partitions if key in partition.offsets]
    forgotten: list[Change] = [c.OffsetForgotten(partition.number, *key) for partition in committed]
    return r.Done(), [*forgotten, c.GroupDeleted(topic.namespace.id, topic.id, group.id, group.name)]


def _regenerate(state: State, command: q.Regenerate, now: int) -> Decision:
    topic = state.topic(command.topic)
    group = topic.group(command.group)
    if group is None:
        check_name(command.group)
        return r.Done(), new_group(state, topic, command.group, command.generation, now)
    generation = max(command.generation, group.generation)
    change = c.GroupSet(topic.namespace.id, topic.id, group.id, group.name, group.created, generation)
    return r.Done(), [change] if generation != group.generation else []


# -- committed offsets


def _commit_offsets(state: State, command: q.CommitOffsets, now: int) -> Decision:
    topic = state.topic(command.topic)
    key = topic.reader(command.reader)
    assert command.member is None, "a fence is the coordinator's to look at"
    changes: list[Change] = []
    if isinstance(command.reader, q.Group) and topic.group(key[1]) is None:
        check_name(key[1])
        changes = new_group(state, topic, key[1], 0, now)
    for index, offset in command.offsets.items():
        partition = topic.partition(_named(index))
        current = partition.offsets.get(key, 0)
        if not 0 <= offset <= (partition.end if command.bounded else MAX_OFFSET):
            raise CommandFailed(Fault.INVALID_OFFSET, str(offset))
        if command.rising and offset < current:
            raise CommandFailed(Fault.OFFSET_REGRESSION, partition=partition.index, current=current, requested=offset)
        changes.append(c.OffsetSet(partition.number, *key, offset))
    return r.Done(), changes


def _delete_offsets(state: State, command: q.DeleteOffsets, now: int) -> Decision:
    topic = state.topic(command.topic)
    key = topic.reader(command.reader)
    partitions = [topic.partition(_named(index)) for index in dict.fromkeys(command.partitions)]
    for partition in partitions:
        if key not in partition.offsets:
            raise CommandFailed(Fault.NO_SUCH_OFFSET, f"partition {partition.index}")
    return r.Done(), [c.OffsetForgotten(partition.number, *key) for partition in partitions]


def _named(index: int | None) -> int:
    assert index is not None, "whoever knows the members says which partition that is"
    return index


def _check_settings(settings: q.TopicSettings) -> None:
    if settings.partitioner:
        partitioner(settings.partitioner)


_DECIDE: dict[type, Callable[..., Decision]] = {
    q.CreateNamespace: _create_namespace,
    q.DeleteNamespace: _delete_namespace,
    q.CreateTopic: _create_topic,
    q.AlterTopic: _alter_topic,
    q.DeleteTopic: _delete_topic,
    q.CreatePartitions: _create_partitions,
    q.DeletePartitions: _delete_partitions,
    q.Publish: _publish,
    q.CreateGroup: _create_group,
    q.DeleteGroup: _delete_group,
    q.Regenerate: _regenerate,
    q.CommitOffsets: _commit_offsets,
    q.DeleteOffsets: _delete_offsets,
    **TABLE_DECISIONS,
    **QUEUE_DECISIONS,
}
