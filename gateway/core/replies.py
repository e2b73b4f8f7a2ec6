"""What commands are answered with.  Times are us since the epoch, offsets and partitions 0-based, sizes bytes."""

from __future__ import annotations

import msgspec

from gateway.core.commands import TopicSettings
from gateway.core.faults import CommandFailed
from gateway.core.records import RecordBatch


class Answer(msgspec.Struct, frozen=True, array_like=True, tag_field="kind"):
    """What every reply is: an immutable value, tagged with its class name on the native wire."""


class Done(Answer, frozen=True, gc=False):
    """It is so."""


class Authenticated(Answer, frozen=True, gc=False):
    """Who the session is now; id is a u32."""

    principal: str
    id: int = 0


class ProcessDescription(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The process that a node is, and its machine.

    cpu, machine_cpu:      percent since the last look, of one core and of all.
    memory:                resident.  read and written: bytes, by its own calls.
    system, release, kernel: names and versions, as the machine says them.  running: seconds since it began.
    """

    id: int
    cpu: float
    machine_cpu: float
    memory: int
    machine_memory: int
    free_memory: int
    read: int
    written: int
    host: str
    system: str
    release: str
    kernel: str
    running: int = 0


class NodeDescription(Answer, frozen=True, gc=False):
    """This node; durability is `memory`, `os` or `fsync`.

    sessions and process are said by whoever has the connections.
    """

    node: str
    version: str
    durability: str
    started: int
    namespaces: int
    topics: int
    partitions: int
    records: int
    bytes: int
    groups: int
    sessions: int = 0
    process: ProcessDescription | None = None


class MembershipDescription(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A connection that is a member of a group, all by their ids."""

    session: int
    namespace: int
    topic: int
    group: int


class Memberships(Answer, frozen=True, gc=False):
    """Who is in which groups, for members that live with their connection; by session."""

    memberships: tuple[MembershipDescription, ...]


class SessionDescription(Answer, frozen=True, gc=False):
    """One connection.  user: the number of its principal, 0 = none."""

    id: int
    dialect: str
    listener: str
    peer: str
    principal: str | None
    opened: int
    memberships: tuple[MembershipDescription, ...] = ()
    user: int = 0


class Sessions(Answer, frozen=True):
    """All connections, oldest first."""

    sessions: tuple[SessionDescription, ...]


class PartitionDescription(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One partition: the earliest offset kept, the next to be written, and what is between them."""

    index: int
    start: int
    end: int
    bytes: int
    created: int


class Replica(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What another node keeps of a topic.

    node:    its name there.
    in_sync: it is as far as the leader.
    end:     the next offset it will have.
    """

    node: str
    in_sync: bool = True
    end: int = 0


class TopicDescription(Answer, frozen=True, gc=False):
    """One topic.  The leader of every partition is this node.

    replicas: beside the leader; only an upstream has any.
    """

    namespace: str
    name: str
    id: int
    created: int
    settings: TopicSettings
    partitions: tuple[PartitionDescription, ...]
    replicas: tuple[Replica, ...] = ()


class NamespaceDescription(Answer, frozen=True, gc=False):
    """One namespace.

    contents: its topics by id, where they were asked for.
    """

    id: int
    name: str
    created: int
    topics: int
    records: int
    bytes: int
    contents: tuple[TopicDescription, ...] = ()


class Namespaces(Answer, frozen=True):
    """All namespaces, by id."""

    namespaces: tuple[NamespaceDescription, ...]


class Topics(Answer, frozen=True):
    """The topics of a namespace, by id."""

    topics: tuple[TopicDescription, ...]


class Published(Answer, frozen=True, gc=False):
    """Where a batch went: the offsets of its first and last record.

    duplicate: all of it had been stored before; `last` is then the last offset of the partition.
    """

    partition: int
    base: int
    last: int
    duplicate: bool = False


class Records(Answer, frozen=True):
    """What was read: batches in offset order, and the bounds of the partition at that moment."""

    partition: int
    start: int
    end: int
    batches: tuple[RecordBatch, ...] = ()


class PartitionOffsets(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The earliest offset kept and the next to be written."""

    partition: int
    start: int
    end: int


class Offsets(Answer, frozen=True):
    """Bounds of the partitions asked for, out of `partitions` that there are."""

    partitions: int
    offsets: tuple[PartitionOffsets, ...]


class CommittedOffsets(Answer, frozen=True):
    """partition -> next offset to read; a partition never committed is absent.

    ends: partition -> next offset to be written, for every one that was asked about.
    """

    offsets: dict[int, int]
    ends: dict[int, int] = {}


class MemberDescription(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One member of a group; session is that of a connection-bound member."""

    member: str
    assignment: tuple[int, ...]
    heard: int
    session: int | None = None


class GroupDescription(Answer, frozen=True):
    """One consumer group."""

    namespace: str
    topic: str
    name: str
    id: int
    generation: int
    partitions: int
    members: tuple[MemberDescription, ...] = ()
    rebalanced: int = 0


class Groups(Answer, frozen=True):
    """Consumer groups, by name."""

    groups: tuple[GroupDescription, ...]


class Joined(Answer, frozen=True, gc=False):
    """A membership: the member's id, the generation, and the partitions it owns in it."""

    member: str
    generation: int
    assignment: tuple[int, ...]
    resumed: bool = False


class MapValue(Answer, frozen=True, gc=False):
    """The value of a key, None = it has none."""

    value: bytes | None


class MapChanged(Answer, frozen=True, gc=False):
    """Whether the condition held and the change was made, and the value before it."""

    done: bool
    previous: bytes | None = None


class MapEntries(Answer, frozen=True, gc=False):
    """Keys and values in key order."""

    entries: tuple[tuple[bytes, bytes], ...]


class Count(Answer, frozen=True, gc=False):
    """A number."""

    value: int


class Leader(Answer, frozen=True, gc=False):
    """Where to dial, `host:port`; "" = here, as seen by the client that asks."""

    address: str = ""


Reply = (
    Done
    | Authenticated
    | NodeDescription
    | SessionDescription
    | Sessions
    | Memberships
    | NamespaceDescription
    | Namespaces
    | TopicDescription
    | Topics
    | Published
    | Records
    | Offsets
    | CommittedOffsets
    | GroupDescription
    | Groups
    | Joined
    | MapValue
    | MapChanged
    | MapEntries
    | Count
    | Leader
)

Outcome = Reply | CommandFailed
"""How a command ended; a failure is handed on as a value once it has been caught."""
