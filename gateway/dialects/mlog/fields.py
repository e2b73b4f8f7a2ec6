"""Every message of mlog and its fields: the one table that both codings, JSON and protobuf, are read and written by.

Nothing here knows what a message means for the gateway.  Source: protocol page, sections 1 and 2.
"""

from __future__ import annotations

from typing import Final

from gateway.dialects.mlog.layout import I32, I64, U32, U64, Message, Octets


class LogEntry(Message, frozen=True, gc=False):
    """A record."""

    offset: U64 = 0
    value: Octets = None


class ReplicateRequest(Message, frozen=True, gc=False):
    """Records from an offset on, for a replica; batch_size 0 = as many as the server likes."""

    topic: str = ""
    offset: U64 = 0
    batch_size: U32 = 0
    replica: str = ""


class ReplicateResponse(Message, frozen=True, gc=False):
    """raw_chunk: a replication batch, nil = none.  leader_leo: the next offset to be written."""

    topic: str = ""
    raw_chunk: Octets = None
    end_of_stream: bool = False
    leader_leo: I64 = 0


class ProduceRequest(Message, frozen=True, gc=False):
    """One record, which is not empty.  acks: 0 none, 1 leader, 2 all."""

    topic: str = ""
    value: Octets = None
    acks: I32 = 0


class ProduceResponse(Message, frozen=True, gc=False):
    """Where it is."""

    offset: U64 = 0


class ProduceBatchRequest(Message, frozen=True, gc=False):
    """Records, at least one; they may be empty."""

    topic: str = ""
    values: list[Octets] | None = None
    acks: I32 = 0


class ProduceBatchResponse(Message, frozen=True, gc=False):
    """Where the first and the last of them are."""

    base_offset: U64 = 0
    last_offset: U64 = 0
    count: U32 = 0


class FetchRequest(Message, frozen=True, gc=False):
    """The record at an offset.  replica: who asks, if it is no consumer."""

    topic: str = ""
    id: str = ""
    offset: U64 = 0
    replica: str = ""


class FetchResponse(Message, frozen=True, gc=False):
    """It, or nil."""

    entry: LogEntry | None = None


class FetchBatchRequest(Message, frozen=True, gc=False):
    """Up to max_count records from an offset on; 0 = 1."""

    topic: str = ""
    id: str = ""
    offset: U64 = 0
    max_count: U32 = 0
    replica: str = ""


class FetchBatchResponse(Message, frozen=True, gc=False):
    """Them, or nil."""

    entries: list[LogEntry | None] | None = None


class CommitOffsetRequest(Message, frozen=True, gc=False):
    """offset: the next to read."""

    topic: str = ""
    id: str = ""
    offset: U64 = 0


class CommitOffsetResponse(Message, frozen=True, gc=False):
    """Always true."""

    success: bool = False


class FetchOffsetRequest(Message, frozen=True, gc=False):
    """What was committed?"""

    topic: str = ""
    id: str = ""


class FetchOffsetResponse(Message, frozen=True, gc=False):
    """The next to read; 0 also where nothing was committed."""

    offset: U64 = 0


class CreateTopicRequest(Message, frozen=True, gc=False):
    """replica_count: beside the leader."""

    topic: str = ""
    replica_count: U32 = 0
    designated: str = ""


class CreateTopicResponse(Message, frozen=True, gc=False):
    """The nodes that have replicas beside the leader."""

    topic: str = ""
    replica_node_ids: list[str] | None = None


class DeleteTopicRequest(Message, frozen=True, gc=False):
    """With all its records."""

    topic: str = ""


class DeleteTopicResponse(Message, frozen=True, gc=False):
    """Its name once more."""

    topic: str = ""


class RPCErrorResponse(Message, frozen=True, gc=False, rename=None):
    """The only one whose keys are lower-case."""

    code: I32 = 0
    message: str = ""


class FindTopicLeaderRequest(Message, frozen=True, gc=False):
    """Whom to ask about a topic?"""

    topic: str = ""


class FindTopicLeaderResponse(Message, frozen=True, gc=False):
    """host:port."""

    leader_addr: str = ""


class FindRaftLeaderRequest(Message, frozen=True, gc=False):
    """Whom to ask for new topics?"""


class FindRaftLeaderResponse(Message, frozen=True, gc=False):
    """host:port."""

    raft_leader_addr: str = ""


class ListTopicsRequest(Message, frozen=True, gc=False):
    """All topics."""


class ReplicaInfo(Message, frozen=True, gc=False):
    """is_isr: it is in sync.  leo: the next offset it will have."""

    node_id: str = ""
    is_isr: bool = False
    leo: I64 = 0


class TopicInfo(Message, frozen=True, gc=False):
    """A topic; its leader is a node id."""

    name: str = ""
    leader: str = ""
    leader_epoch: I64 = 0
    replicas: list[ReplicaInfo] | None = None


class ListTopicsResponse(Message, frozen=True, gc=False):
    """Them; an empty slice where there are none."""

    topics: list[TopicInfo] | None = None


class ApplyIsrUpdateEventRequest(Message, frozen=True, gc=False):
    """A replica is in sync, or no longer."""

    topic: str = ""
    replica: str = ""
    isr: bool = False


class ApplyIsrUpdateEventResponse(Message, frozen=True, gc=False):
    """It is noted."""


MESSAGES: Final[tuple[type[Message], ...]] = (
    ReplicateRequest,
    ReplicateResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceBatchRequest,
    ProduceBatchResponse,
    FetchRequest,
    FetchResponse,
    FetchBatchRequest,
    FetchBatchResponse,
    FetchRequest,  # FetchStream: a number that the project reserves; what it carries is ours
    FetchResponse,
    CommitOffsetRequest,
    CommitOffsetResponse,
    FetchOffsetRequest,
    FetchOffsetResponse,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    RPCErrorResponse,
    FindTopicLeaderRequest,
    FindTopicLeaderResponse,
    FindRaftLeaderRequest,
    FindRaftLeaderResponse,
    ListTopicsRequest,
    ListTopicsResponse,
    ApplyIsrUpdateEventRequest,
    ApplyIsrUpdateEventResponse,
)
"""Type number -> message.  The numbers moved several times before the seed; these are its own, and today's."""

REPLICATE, PRODUCE, PRODUCE_BATCH, FETCH, FETCH_BATCH, FETCH_STREAM, COMMIT_OFFSET, FETCH_OFFSET = range(0, 16, 2)
CREATE_TOPIC, DELETE_TOPIC, RPC_ERROR, FIND_TOPIC_LEADER, FIND_RAFT_LEADER, LIST_TOPICS, APPLY_ISR = (
    *(16, 18, 20),
    *range(21, 28, 2),
)

REQUESTS: Final = frozenset({*range(0, 20, 2), *range(21, 29, 2)})
"""The numbers of requests; the answer to one has the next number, or RPC_ERROR."""
