"""The state of one node: namespaces, topics, partitions, committed offsets.  Changed only by applying changes.

No clock, no disk, and of the records only what is in tables: `core.decisions` says what a command changes,
`core.views` what it shows, and whoever owns the state keeps the records and stores the changes.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.core import changes as c
from gateway.core import commands as q
from gateway.core.changes import Change
from gateway.core.commands import DEFAULT_NAMESPACE, DEFAULT_NAMESPACE_ID, MAX_OFFSET
from gateway.core.faults import CommandFailed, Fault
from gateway.core.idempotence import Producers
from gateway.core.records import RecordBatch
from gateway.core.tables import Table

ReaderKey = tuple[str, str]
"""(`group` or `consumer`, name)."""


class Partition:
    """The bounds of one log; the records are the backend's."""

    __slots__ = ("bytes", "created", "end", "index", "number", "offsets", "producers", "start", "topic")

    def __init__(self, topic: Topic, number: int, index: int, created: int) -> None:
        self.topic = topic
        self.number = number
        self.index = index
        self.created = created
        self.start = 0
        self.end = 0
        self.bytes = 0
        self.producers = Producers()
        self.offsets: dict[ReaderKey, int] = {}


class Topic:
    """A topic and its partitions.

    timestamp: of its newest record.  turn: batches that were spread over the partitions so far.
    table:     gets all that is appended from when it is put here on; who owns the state puts it.
    """

    __slots__ = ("created", "groups", "id", "name", "namespace", "partitions", "settings", "table", "timestamp", "turn")

    def __init__(self, namespace: Namespace, id: int, name: str, created: int, settings: q.TopicSettings) -> None:
        self.namespace = namespace
        self.id = id
        self.name = name
        self.created = created
        self.settings = settings
        self.partitions: list[Partition] = []
        self.groups: dict[int, Group] = {}
        self.timestamp = 0
        self.turn = 0
        self.table: Table | None = None

    def group(self, reference: int | str) -> Group | None:
        """By name or id; a group that nobody named is called by its id."""
        if isinstance(reference, int):
            found = self.groups.get(reference)
            return self.group(str(reference)) if found is None else found
        return self.namespace.groups.get(reference, {}).get(self.id)

    def reader(self, reader: q.Reader) -> ReaderKey:
        """How committed offsets of a reader are kept."""
        if isinstance(reader, q.Consumer):
            return "consumer", str(reader.name)
        group = self.group(reader.name)
        return "group", str(reader.name) if group is None else group.name

    def partition(self, index: int) -> Partition:
        """Raises CommandFailed(NO_SUCH_PARTITION)."""
        if not 0 <= index < len(self.partitions):
            raise CommandFailed(Fault.NO_SUCH_PARTITION, partition=index, partitions=len(self.partitions))
        return self.partitions[index]


class Group:
    """A consumer group as it is kept: its members are the coordinator's.

    generation: the last one it is known to have come to.
    """

    __slots__ = ("created", "generation", "id", "name", "topic")

    def __init__(self, topic: Topic, id: int, name: str, created: int) -> None:
        self.topic = topic
        self.id = id
        self.name = name
        self.created = created
        self.generation = 0


class Namespace:
    """A namespace and its topics, by name and by id; and its groups, by name and topic id."""

    __slots__ = ("created", "groups", "id", "name", "topic_ids", "topics")

    def __init__(self, id: int, name: str, created: int) -> None:
        self.id = id
        self.name = name
        self.created = created
        self.topics: dict[str, Topic] = {}
        self.topic_ids: dict[int, Topic] = {}
        self.groups: dict[str, dict[int, Group]] = {}


class State:
    """Everything a node knows but the records.

    capacity: records a partition can number; the store's bound.
    numbers:  partitions it can number, over all its life.
    numbered: the highest id given out of each kind.
    """

    def __init__(self, capacity: int = MAX_OFFSET, numbers: int = MAX_OFFSET) -> None:
        self.capacity = capacity
        self.numbers = numbers
        self.namespaces: dict[str, Namespace] = {}
        self.namespace_ids: dict[int, Namespace] = {}
        self.partitions: dict[int, Partition] = {}
        self.numbered: dict[str, int] = {}
        self._appliers: dict[type, Callable[..., None]] = {
            c.Numbered: self._numbered_to,
            c.NamespaceSet: self._namespace_set,
            c.NamespaceDeleted: self._namespace_deleted,
            c.TopicSet: self._topic_set,
            c.TopicDeleted: self._topic_deleted,
            c.PartitionCreated: self._partition_created,
            c.PartitionDeleted: self._partition_deleted,
            c.Appended: self._appended,
            c.GroupSet: self._group_set,
            c.GroupDeleted: self._group_deleted,
            c.OffsetSet: self._offset_set,
            c.OffsetForgotten: self._offset_forgotten,
        }
        self.apply([c.NamespaceSet(DEFAULT_NAMESPACE_ID, DEFAULT_NAMESPACE, 0)])

    def apply(self, changes: list[Change]) -> None:
        """Make the changes so."""
        appliers = self._appliers
        for change in changes:
            appliers[type(change)](change)

    def namespace(self, reference: int | str) -> Namespace:
        """By name or id.  Raises CommandFailed(NO_SUCH_NAMESPACE)."""
        found = self.namespaces.get(reference) if isinstance(reference, str) else self.namespace_ids.get(reference)
        if found is None:
            raise CommandFailed(Fault.NO_SUCH_NAMESPACE, str(reference))
        return found

    def find(self, reference: q.Topic) -> Topic | None:
        """The topic, None if the namespace has none of that name or id.  Raises CommandFailed(NO_SUCH_NAMESPACE)."""
        namespace, name = self.namespace(reference.namespace), reference.name
        return namespace.topics.get(name) if isinstance(name, str) else namespace.topic_ids.get(name)

    def topic(self, reference: q.Topic) -> Topic:
        """By name or id.  Raises CommandFailed(NO_SUCH_NAMESPACE or NO_SUCH_TOPIC)."""
        try:
            return self.namespaces[reference.namespace].topics[reference.name]  # type: ignore[index]  # ids are not found
        except KeyError:
            found = self.find(reference)
        if found is None:
            raise CommandFailed(Fault.NO_SUCH_TOPIC, str(reference.name))
        return found

    def group(self, topic: q.Topic, name: int | str) -> Group:
        """By name or id; the topic "" is whichever one has it.

        Raises CommandFailed(NO_SUCH_GROUP), or OTHER_TOPIC if only another topic has a group of that name.
        """
        named = self.namespace(topic.namespace).groups.get(str(name), {})
        of_any = next(iter(named.values()), None)
        found = self.topic(topic).group(name) if topic.name else of_any
        if found is not None:
            return found
        if of_any is not None:
            raise CommandFailed(Fault.OTHER_TOPIC, "", expected=of_any.topic.name, actual=str(topic.name))
        raise CommandFailed(Fault.NO_SUCH_GROUP, str(name))

    # -- one method a change

    def _numbered_to(self, change: c.Numbered) -> None:
        self.numbered[change.kind] = max(change.value, self.numbered.get(change.kind, 0))

    def _namespace_set(self, change: c.NamespaceSet) -> None:
        namespace = Namespace(change.id, change.name, change.created)
        self.namespaces[change.name] = self.namespace_ids[change.id] = namespace

    def _namespace_deleted(self, change: c.NamespaceDeleted) -> None:
        del self.namespaces[self.namespace_ids.pop(change.id).name]

    def _topic_set(self, change: c.TopicSet) -> None:
        namespace = self.namespace_ids[change.namespace]
        topic = namespace.topic_ids.get(change.id)
        if topic is None:
            topic = namespace.topic_ids[change.id] = Topic(
                namespace, change.id, change.name, change.created, change.settings
            )
        else:
            del namespace.topics[topic.name]
            topic.name, topic.settings = change.name, change.settings
        namespace.topics[change.name] = topic

    def _topic_deleted(self, change: c.TopicDeleted) -> None:
        namespace = self.namespace_ids[change.namespace]
        del namespace.topics[namespace.topic_ids.pop(change.id).name]

    def _partition_created(self, change: c.PartitionCreated) -> None:
        topic = self.namespace_ids[change.namespace].topic_ids[change.topic]
        partition = Partition(topic, change.number, change.index, change.created)
        assert change.index == len(topic.partitions), "partitions come in order"
        topic.partitions.append(partition)
        self.partitions[change.number] = partition

    def _partition_deleted(self, change: c.PartitionDeleted) -> None:
        partition = self.partitions.pop(change.number)
        partition.topic.partitions.remove(partition)
        partition.topic.table = None

    def _appended(self, change: c.Appended) -> None:
        partition, batch = self.partitions[change.number], change.batch
        partition.end = batch.base + batch.count
        partition.bytes += len(batch.body)
        partition.topic.timestamp = batch.timestamp + batch.count - 1
        for producer, epoch, last in change.producers:
            partition.producers.heard(producer, epoch, last, batch.timestamp)
        if partition.topic.table is not None:
            _tabulate(partition.topic, partition.index, batch)

    def _group_set(self, change: c.GroupSet) -> None:
        topic = self.namespace_ids[change.namespace].topic_ids[change.topic]
        group = topic.groups.get(change.id)
        if group is None:
            group = topic.groups[change.id] = Group(topic, change.id, change.name, change.created)
            topic.namespace.groups.setdefault(change.name, {})[topic.id] = group
        group.generation = change.generation

    def _group_deleted(self, change: c.GroupDeleted) -> None:
        topic = self.namespace_ids[change.namespace].topic_ids[change.topic]
        del topic.groups[change.id]
        named = topic.namespace.groups[change.name]
        del named[topic.id]
        if not named:
            del topic.namespace.groups[change.name]

    def _offset_set(self, change: c.OffsetSet) -> None:
        self.partitions[change.number].offsets[change.kind, change.reader] = change.offset

    def _offset_forgotten(self, change: c.OffsetForgotten) -> None:
        del self.partitions[change.number].offsets[change.kind, change.reader]


def _tabulate(topic: Topic, partition: int, batch: RecordBatch) -> None:
    assert topic.table is not None
    try:
        topic.table.add(partition, batch)
    except Exception:  # the batch is there all the same; who asks for the table next learns why there can be none
        topic.table = None
