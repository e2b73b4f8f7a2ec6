"""What a write did, as facts.  A backend stores them; applied in order to an empty State they give the same State."""

from __future__ import annotations

import msgspec

from gateway.core.commands import TopicSettings
from gateway.core.records import RecordBatch


class Numbered(msgspec.Struct, frozen=True, gc=False):
    """Ids of this kind were given out up to `value`; none is given twice."""

    kind: str
    value: int


class NamespaceSet(msgspec.Struct, frozen=True, gc=False):
    """A namespace was made."""

    id: int
    name: str
    created: int


class NamespaceDeleted(msgspec.Struct, frozen=True, gc=False):
    """A namespace is gone; its topics went before."""

    id: int


class TopicSet(msgspec.Struct, frozen=True, gc=False):
    """A topic was made, renamed or given other settings."""

    namespace: int
    id: int
    name: str
    created: int
    settings: TopicSettings


class TopicDeleted(msgspec.Struct, frozen=True, gc=False):
    """A topic is gone; its partitions went before."""

    namespace: int
    id: int


class PartitionCreated(msgspec.Struct, frozen=True, gc=False):
    """A partition was added.  Its number is its own among all partitions there ever were."""

    number: int
    namespace: int
    topic: int
    index: int
    created: int


class PartitionDeleted(msgspec.Struct, frozen=True, gc=False):
    """A partition is gone, with its records, its producers and what was committed in it."""

    number: int


class Appended(msgspec.Struct, frozen=True, gc=False):
    """A batch stands at the end of a partition, stamped.

    producers: (id, epoch, last sequence) of each idempotent producer in it.
    """

    number: int
    batch: RecordBatch
    producers: tuple[tuple[bytes, int, int], ...] = ()


class GroupSet(msgspec.Struct, frozen=True, gc=False):
    """A consumer group was made or has come to another generation."""

    namespace: int
    topic: int
    id: int
    name: str
    created: int
    generation: int


class GroupDeleted(msgspec.Struct, frozen=True, gc=False):
    """A consumer group is gone; what it committed went before."""

    namespace: int
    topic: int
    id: int
    name: str


class OffsetSet(msgspec.Struct, frozen=True, gc=False):
    """A reader committed.  kind: `group` or `consumer`."""

    number: int
    kind: str
    reader: str
    offset: int


class OffsetForgotten(msgspec.Struct, frozen=True, gc=False):
    """What a reader committed is gone."""

    number: int
    kind: str
    reader: str


Change = (
    Numbered
    | NamespaceSet
    | NamespaceDeleted
    | TopicSet
    | TopicDeleted
    | PartitionCreated
    | PartitionDeleted
    | Appended
    | GroupSet
    | GroupDeleted
    | OffsetSet
    | OffsetForgotten
)
