"""Everything a client can mean, whatever it speaks.  Commands hold what was meant, never how it was spelt.

Each docstring names the reply and the faults.  Any command may also fail with UNSUPPORTED, UNAUTHENTICATED,
FORBIDDEN, BUSY, TIMEOUT, UNAVAILABLE or INTERNAL.
"""

from __future__ import annotations

import enum

import msgspec

from gateway.core.records import RecordBatch

DEFAULT_NAMESPACE = "default"
DEFAULT_NAMESPACE_ID = 0xFFFFFFFF
"""So that an Iggy client can create stream 1, as every tutorial does."""

MAX_NAME = 255
"""Bytes of UTF-8 in the name of a namespace, topic or group."""

MAX_OFFSET = (1 << 63) - 1

MAX_PARTITIONS = 100_000
"""Of one topic (Iggy's own limit, the largest of the five)."""


class Session:
    """Who is asking: one connection, for as long as it lives.  Identity is the object; commands stay pure values.

    id:        unique in this process.
    peer:      the client's address, `host:port`.
    principal: who it proved to be, None until then.
    user:      the number of that, 0 until then.
    """

    __slots__ = ("dialect", "id", "listener", "opened", "peer", "principal", "user")

    def __init__(
        self,
        id: int,
        dialect: str = "",
        *,
        listener: str = "",
        peer: str = "",
        principal: str | None = None,
        opened: int = 0,
    ) -> None:
        self.id = id
        self.dialect = dialect
        self.listener = listener
        self.peer = peer
        self.principal = principal
        self.user = 0
        self.opened = opened


class Verb(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", gc=False):
    """What every command is: an immutable value, tagged with its class name on the native wire."""


# -- references


class Topic(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A topic by namespace and name; either may be given as its u32 id instead."""

    namespace: int | str
    name: int | str


class Group(msgspec.Struct, frozen=True, array_like=True, tag="group", gc=False):
    """The consumer group of that name (or u32 id), shared by all dialects."""

    name: int | str


class Consumer(msgspec.Struct, frozen=True, array_like=True, tag="consumer", gc=False):
    """A single consumer: a space of committed offsets of its own, apart from groups."""

    name: int | str


Reader = Group | Consumer


# -- service


class Ping(Verb, frozen=True):
    """Are you there?  Answered by Done."""


class Authenticate(Verb, frozen=True):
    """Prove who is asking.  Answered by Authenticated; fails with BAD_CREDENTIALS.

    mechanism: `plain` or `token`.  The secret never enters a log: see __repr__.
    """

    mechanism: str
    principal: str
    secret: str

    def __repr__(self) -> str:
        return f"Authenticate({self.mechanism!r}, {self.principal!r}, ...)"


class Logout(Verb, frozen=True):
    """Be nobody again, as before Authenticate.  Answered by Done."""


class Describe(Verb, frozen=True):
    """What is this node?  Answered by NodeDescription."""


class ListSessions(Verb, frozen=True):
    """Who is connected?  Answered by Sessions."""


class DescribeSession(Verb, frozen=True):
    """One session, None = the one that asks.  Answered by SessionDescription; fails with NO_SUCH_SESSION."""

    session: int | None = None


class ListMemberships(Verb, frozen=True):
    """Which connections are members of which groups?  Answered by Memberships.  session: only of this one."""

    session: int | None = None


class EndSession(Verb, frozen=True):
    """The session that asks is gone: take its connection-bound members out of their groups.  Answered by Done."""


# -- namespaces and topics


class CreateNamespace(Verb, frozen=True):
    """Answered by NamespaceDescription; fails with NAMESPACE_EXISTS, INVALID_NAME.

    id: u32, None = the next free one from 1.
    """

    name: str
    id: int | None = None


class DeleteNamespace(Verb, frozen=True):
    """With every topic and group in it.  Answered by Done; fails with NO_SUCH_NAMESPACE."""

    namespace: int | str


class ListNamespaces(Verb, frozen=True):
    """Answered by Namespaces."""


class DescribeNamespace(Verb, frozen=True):
    """Answered by NamespaceDescription; fails with NO_SUCH_NAMESPACE.

    contents: with its topics.
    """

    namespace: int | str
    contents: bool = False


class TopicSettings(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """How a topic behaves.

    retention_us:    age in us after which records may go, 0 = never.
    retention_bytes: size of a partition above which its oldest records may go, 0 = never.
    cleanup:         `delete`, `compact` or `delete,compact`.
    idempotent:      records of one producer are checked for gaps and duplicates.
    event_sourcing:  the topic takes versioned aggregates.
    partitioner:     name in core.partitioners for all dialects, "" = each dialect's own.
    labels:          settings of one dialect that the model only keeps, e.g. Cursus access lists.
    """

    retention_us: int = 0
    retention_bytes: int = 0
    cleanup: str = "delete"
    idempotent: bool = False
    event_sourcing: bool = False
    partitioner: str = ""
    labels: dict[str, str] = {}


class IfExists(enum.Enum):
    """What creating something that exists means."""

    FAIL = "fail"
    KEEP = "keep"
    """Fine, nothing changes."""
    GROW = "grow"
    """Fine; partitions are added up to the count asked for, fewer is FEWER_PARTITIONS."""


class CreateTopic(Verb, frozen=True):
    """Answered by TopicDescription; fails with TOPIC_EXISTS, FEWER_PARTITIONS, INVALID_NAME, INVALID_ARGUMENT,
    NO_SUCH_NAMESPACE.

    topic:      by name.
    partitions: 0..MAX_PARTITIONS.
    id:         u32, None = the next free one from 1.
    """

    topic: Topic
    partitions: int
    settings: TopicSettings = TopicSettings()
    if_exists: IfExists = IfExists.FAIL
    id: int | None = None


class AlterTopic(Verb, frozen=True):
    """New settings, and a new name if one is given.  Answered by TopicDescription."""

    topic: Topic
    settings: TopicSettings
    name: str | None = None


class DeleteTopic(Verb, frozen=True):
    """With its records, offsets and groups.  Answered by Done; fails with NO_SUCH_TOPIC."""

    topic: Topic


class ListTopics(Verb, frozen=True):
    """All topics of a namespace.  Answered by Topics; fails with NO_SUCH_NAMESPACE."""

    namespace: int | str


class DescribeTopic(Verb, frozen=True):
    """Answered by TopicDescription; fails with NO_SUCH_TOPIC."""

    topic: Topic


class CreatePartitions(Verb, frozen=True):
    """Add `count` partitions.  Answered by TopicDescription; fails with NO_SUCH_TOPIC, INVALID_ARGUMENT."""

    topic: Topic
    count: int


class DeletePartitions(Verb, frozen=True):
    """Remove the `count` highest partitions with their records.  Answered by TopicDescription."""

    topic: Topic
    count: int


# -- the log


class ByKey(msgspec.Struct, frozen=True, array_like=True, tag="key", gc=False):
    """The partition that the key hashes to; `partitioner` is used unless the topic names one."""

    key: bytes
    partitioner: str


class Balanced(msgspec.Struct, frozen=True, array_like=True, tag="balanced", gc=False):
    """The partitions in turn, one step a batch."""


class Acks(enum.IntEnum):
    """When a write is answered."""

    NONE = 0
    """The client does not wait; the answer may come before the record is durable, the record is never dropped."""
    LEADER = 1
    ALL = -1


class Publish(Verb, frozen=True):
    """Append a batch to one partition.  Answered by Published.

    to:     partition index, or how to choose one.
    create: partitions of a new topic if there is none of that name, 0 = do not create it.

    Fails with NO_SUCH_TOPIC, NO_SUCH_PARTITION, EMPTY_BATCH, SEQUENCE_GAP, STALE_EPOCH, PARTITION_FULL, TOO_LARGE.
    """

    topic: Topic
    to: int | ByKey | Balanced
    batch: RecordBatch
    acks: Acks = Acks.LEADER
    create: int = 0


class FromTime(msgspec.Struct, frozen=True, array_like=True, tag="time", gc=False):
    """The first record at or after that time, us since the epoch."""

    timestamp: int


class First(msgspec.Struct, frozen=True, array_like=True, tag="first", gc=False):
    """The earliest record kept."""


class Last(msgspec.Struct, frozen=True, array_like=True, tag="last", gc=False):
    """The newest `count` records."""

    count: int


class Next(msgspec.Struct, frozen=True, array_like=True, tag="next", gc=False):
    """The committed offset of the reader, or `floor` where that is higher or nothing was committed."""

    reader: Reader
    floor: int = 0


Start = int | FromTime | First | Last | Next


class Fetch(Verb, frozen=True):
    """Read records of one partition, oldest first.  Answered by Records.

    partition:   0-based; None = the next one in turn of those assigned to this session in the group that reads.
    start:       first record wanted; an offset at or after the end means "none yet", not a fault.
    max_records: 0 = no limit.
    max_bytes:   of record bodies, a hint: one record is returned even if longer.
    wait:        seconds to wait for the first record, 0 = answer at once.
    commit:      store the offset after the last record for the reader before answering.
    create:      as for Publish.
    reader:      who reads, for `commit` and a partition of None; None = the reader of `start`.

    Fails with NO_SUCH_TOPIC, NO_SUCH_PARTITION, OFFSET_GONE, INVALID_OFFSET, NO_SUCH_GROUP, NOT_A_MEMBER.
    """

    topic: Topic
    partition: int | None
    start: Start
    max_records: int = 0
    max_bytes: int = 1 << 20
    wait: float = 0.0
    commit: bool = False
    create: int = 0
    reader: Reader | None = None

    @property
    def read_by(self) -> Reader | None:
        """Who reads, if that was said."""
        return self.start.reader if self.reader is None and isinstance(self.start, Next) else self.reader


class Follow(Verb, frozen=True):
    """Have the records of one partition pushed, from `start` on, until told to stop.  Fails as Fetch does.

    max_records: the most in one push, 0 = no limit.
    """

    topic: Topic
    partition: int
    start: Start
    max_records: int = 0
    max_bytes: int = 1 << 20


class LatestOffsets(Verb, frozen=True):
    """Where partitions start and end; None = all of the topic.  Answered by Offsets."""

    topic: Topic
    partition: int | None = None


# -- committed offsets.  A partition of None is the one that this session's member of the group was last given by a
# Fetch without a partition: NOT_A_MEMBER if it is none, NO_SUCH_PARTITION if it was given none or has lost it since.


class CommitOffsets(Verb, frozen=True):
    """Store where a reader goes on, all partitions or none.  Answered by Done.

    offsets:    partition -> next offset to read.
    generation: with `member`, the commit is fenced: refused unless both are current and the partitions assigned.
    rising:     refuse an offset below the committed one.
    bounded:    refuse an offset behind the end of its partition, as INVALID_OFFSET.

    Fails with NO_SUCH_TOPIC, NO_SUCH_PARTITION, INVALID_OFFSET, OFFSET_REGRESSION, NO_SUCH_GROUP, NOT_A_MEMBER,
    STALE_GENERATION, NOT_OWNER, OTHER_TOPIC.
    """

    topic: Topic
    reader: Reader
    offsets: dict[int | None, int]
    member: str | None = None
    generation: int | None = None
    rising: bool = False
    bounded: bool = False


class FetchOffsets(Verb, frozen=True):
    """What a reader committed; None = every partition.  Answered by CommittedOffsets."""

    topic: Topic
    reader: Reader
    partitions: tuple[int | None, ...] | None = None


class DeleteOffsets(Verb, frozen=True):
    """Forget what a reader committed.  Answered by Done; fails with NO_SUCH_OFFSET."""

    topic: Topic
    reader: Reader
    partitions: tuple[int | None, ...]


# -- consumer groups


class CreateGroup(Verb, frozen=True):
    """Answered by GroupDescription; fails with GROUP_EXISTS, NO_SUCH_TOPIC, INVALID_NAME, OTHER_TOPIC.

    id:        u32, None = the next free one of the topic from 1.
    exclusive: no other topic of the namespace may have a group of that name.
    """

    topic: Topic
    group: str
    id: int | None = None
    if_exists: IfExists = IfExists.FAIL
    exclusive: bool = False


class DeleteGroup(Verb, frozen=True):
    """With its offsets.  Answered by Done; fails with NO_SUCH_GROUP."""

    topic: Topic
    group: int | str


class Regenerate(Verb, frozen=True):
    """The group has come to this generation.  A backend says so to its own store; no dialect has words for it.

    Answered by Done; fails with NO_SUCH_TOPIC, INVALID_NAME.
    """

    topic: Topic
    group: str
    generation: int


class ListGroups(Verb, frozen=True):
    """The groups of a namespace, or of one topic.  Answered by Groups."""

    namespace: int | str
    topic: int | str | None = None


class DescribeGroup(Verb, frozen=True):
    """Answered by GroupDescription; fails with NO_SUCH_GROUP.  topic.name "" = the one topic that has the group."""

    topic: Topic
    group: int | str


class Heartbeats(msgspec.Struct, frozen=True, array_like=True, tag="heartbeats", gc=False):
    """The member lives as long as it is heard of within `timeout` seconds."""

    timeout: float = 10.0


class WhileConnected(msgspec.Struct, frozen=True, array_like=True, tag="connected", gc=False):
    """The member lives as long as its session."""


class JoinGroup(Verb, frozen=True):
    """Become, or stay, a member.  Answered by Joined.

    member:   the name it wants; "" = one is made, or found again if the session has a connection-bound member there.
    distinct: a new member is made at each join, named `member-NNNN`; one that gives such a name is itself again.
    resume:   a generation in which `member` was already known, None = no.
    assignor: `range` or `round_robin`, "" = the group's own.
    create:   as for Publish.
    exclusive: as for CreateGroup.
    existing: a group that does not exist is NO_SUCH_GROUP; else it is made.

    Fails with NO_SUCH_TOPIC, NO_SUCH_GROUP, OTHER_TOPIC, INVALID_NAME, INVALID_ARGUMENT.
    """

    topic: Topic
    group: int | str
    member: str
    liveness: Heartbeats | WhileConnected
    assignor: str = ""
    distinct: bool = False
    resume: int | None = None
    create: int = 0
    exclusive: bool = False
    existing: bool = False


class SyncGroup(Verb, frozen=True):
    """What is assigned to me?  Answered by Joined; fails with NO_SUCH_GROUP, NOT_A_MEMBER, STALE_GENERATION."""

    topic: Topic
    group: int | str
    member: str
    generation: int


class Heartbeat(Verb, frozen=True):
    """I live.  Answered by Done; fails as SyncGroup does."""

    topic: Topic
    group: int | str
    member: str
    generation: int


class LeaveGroup(Verb, frozen=True):
    """Answered by Done; fails with NO_SUCH_GROUP, NOT_A_MEMBER, STALE_GENERATION.

    member:     "" = the connection-bound one of this session.
    generation: None = do not check it.
    """

    topic: Topic
    group: int | str
    member: str
    generation: int | None = None


# -- tables over the log


class Anyhow(msgspec.Struct, frozen=True, array_like=True, tag="anyhow", gc=False):
    """No condition."""


class IfAbsent(msgspec.Struct, frozen=True, array_like=True, tag="absent", gc=False):
    """Only where the key has no value."""


class IfPresent(msgspec.Struct, frozen=True, array_like=True, tag="present", gc=False):
    """Only where the key has a value."""


class IfEquals(msgspec.Struct, frozen=True, array_like=True, tag="equals", gc=False):
    """Only where the key has exactly this value: compare and set."""

    value: bytes


class IfCount(msgspec.Struct, frozen=True, array_like=True, tag="count", gc=False):
    """Only where the counter has this value; a missing one has 0.  What is no counter fails with NOT_A_NUMBER."""

    value: int


class MapPut(Verb, frozen=True):
    """Append a keyed record if the condition holds.  Answered by MapChanged; fails with INVALID_ARGUMENT for no key.

    Without a condition nobody looks what is there: a record that claims a later time for itself stays the latest one.

    ttl:      seconds until tables no longer show it, 0 = never; at most 2^32-1.
    create:   as for Publish.
    previous: the answer says what was there before; a condition that does not hold always says it.
    """

    topic: Topic
    key: bytes
    value: bytes
    ttl: float = 0.0
    only: Anyhow | IfAbsent | IfPresent | IfEquals | IfCount = Anyhow()
    create: int = 0
    previous: bool = False


class MapGet(Verb, frozen=True):
    """The latest value of a key.  Answered by MapValue."""

    topic: Topic
    key: bytes


class MapRemove(Verb, frozen=True):
    """Append a tombstone if the key has a value and the condition holds.  Answered by MapChanged, with that value."""

    topic: Topic
    key: bytes
    only: Anyhow | IfEquals = Anyhow()


class MapSize(Verb, frozen=True):
    """How many keys have a value.  Answered by Count."""

    topic: Topic


class MapScan(Verb, frozen=True):
    """Keys with their values in key order, after `after`.  Answered by MapEntries.

    keys:   only these, None = all.
    limit:  0 = as many as there are.
    values: False = keys alone, values come as empty.
    """

    topic: Topic
    after: bytes | None = None
    limit: int = 0
    keys: tuple[bytes, ...] | None = None
    values: bool = True


class MapClear(Verb, frozen=True):
    """Remove every key.  Answered by Count: how many there were."""

    topic: Topic


class MapAdd(Verb, frozen=True):
    """Add to a counter, missing = 0.  Answered by Count: its new value; fails with NOT_A_NUMBER.

    A counter is decimal ASCII from -2^63 to 2^63-1, in the one way to write it; it lives no longer for being added to.
    create: as for Publish.
    """

    topic: Topic
    key: bytes
    delta: int
    create: int = 0


# A queue is a topic of one partition (UNSUPPORTED with more), and what the group `queue` has committed there.


class Take(Verb, frozen=True):
    """The next record of a queue, taken: fetched and committed in one step.  Answered by Records (none or one).

    wait: seconds to wait for one, 0 = answer at once.
    """

    topic: Topic
    wait: float = 0.0


class Peek(Verb, frozen=True):
    """The next record of a queue, left there.  Answered by Records (none or one)."""

    topic: Topic


class QueueSize(Verb, frozen=True):
    """Records not yet taken.  Answered by Count."""

    topic: Topic


class QueueClear(Verb, frozen=True):
    """Take all there are, unread.  Answered by Count: how many there were."""

    topic: Topic


class Advance(Verb, frozen=True):
    """The next offset of a queue is taken.  A backend says so to its own store; no dialect has words for it.

    Answered by Count: that offset, -1 = there is none.
    """

    topic: Topic


# -- cluster


class FindLeader(Verb, frozen=True):
    """Who leads a topic, coordinates a group, or leads at all?  Answered by Leader; fails with NO_SUCH_TOPIC."""

    subject: Topic | None = None


Command = (
    Ping
    | Authenticate
    | Logout
    | Describe
    | ListSessions
    | DescribeSession
    | ListMemberships
    | EndSession
    | CreateNamespace
    | DeleteNamespace
    | ListNamespaces
    | DescribeNamespace
    | CreateTopic
    | AlterTopic
    | DeleteTopic
    | ListTopics
    | DescribeTopic
    | CreatePartitions
    | DeletePartitions
    | Publish
    | Fetch
    | Follow
    | LatestOffsets
    | CommitOffsets
    | FetchOffsets
    | DeleteOffsets
    | CreateGroup
    | DeleteGroup
    | ListGroups
    | DescribeGroup
    | JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | MapPut
    | MapGet
    | MapRemove
    | MapSize
    | MapScan
    | MapClear
    | MapAdd
    | Take
    | Peek
    | QueueSize
    | QueueClear
    | FindLeader
)

Written = Command | Regenerate | Advance
"""What a store may be told."""
