"""Replies as answers, and answers as replies: the two directions of each type side by side.

A record that comes in has no time and no more than a value; what an answer does not say of a topic is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Outcome
from gateway.dialects.dialect import Request
from gateway.dialects.mlog import fields as m
from gateway.dialects.mlog import replication
from gateway.dialects.mlog.coding import JSON
from gateway.dialects.mlog.converting import batches_of, rows_of
from gateway.dialects.mlog.faults import READ_OFFSET
from gateway.dialects.mlog.layout import Message
from gateway.dialects.mlog.replication import Row
from gateway.dialects.mlog.requests import PARTITION
from gateway.dialects.mlog.terms import MAX_PAYLOAD, Asked, MlogTerms

EPOCH = 1
"""OUR: of every leader; nobody else ever leads."""

_ROOM = MAX_PAYLOAD - 64
"""Bytes for records in one answer; the rest is around them."""

_CHUNK = MAX_PAYLOAD - 1024
"""Bytes for a replication batch and what is beside it, a topic's name of 255 bytes escaped to the last."""


# -- writes


def _produced(request: Request, reply: r.Published, asked: Asked, terms: MlogTerms) -> Message:
    return m.ProduceResponse(reply.base)


def _read_produced(request: Request, answer: m.ProduceResponse, terms: MlogTerms) -> r.Published:
    return r.Published(PARTITION, answer.offset, answer.offset)


def _produced_batch(request: Request, reply: r.Published, asked: Asked, terms: MlogTerms) -> Message:
    assert isinstance(request.command, q.Publish), "nothing else is answered so"
    return m.ProduceBatchResponse(reply.base, reply.last, request.command.batch.count)


def _read_produced_batch(request: Request, answer: m.ProduceBatchResponse, terms: MlogTerms) -> r.Published:
    return r.Published(PARTITION, answer.base_offset, answer.last_offset)


# -- reads


def fitting(rows: list[Row], cost: Callable[[int], int], room: int) -> list[Row]:
    """The rows at the front for which there is room; the first is there even if it is too long, and nobody can have it.

    cost: bytes for a value of so many bytes, at the most.
    """
    for at, (_, value) in enumerate(rows):
        room -= cost(len(value))
        if room < 0:
            return rows[: at or 1]
    return rows


def _past_end(reply: r.Records) -> m.RPCErrorResponse:
    """OUR words; a consumer sleeps for half a second when it reads the code."""
    return m.RPCErrorResponse(READ_OFFSET, f"there is nothing at or behind offset {reply.end}")


def _fetched(request: Request, reply: r.Records, asked: Asked, terms: MlogTerms) -> Message:
    rows = rows_of(reply.batches, terms.losses)
    if not rows:
        return _past_end(reply)
    return m.FetchResponse(m.LogEntry(*rows[0]))


def _read_fetched(request: Request, answer: m.FetchResponse, terms: MlogTerms) -> r.Records:
    return _records(request, [answer.entry] if answer.entry else [])


def _fetched_batch(request: Request, reply: r.Records, asked: Asked, terms: MlogTerms) -> Message:
    rows = rows_of(reply.batches, terms.losses)
    if not rows and isinstance(asked.said, m.FetchBatchRequest) and asked.said.replica:
        return _past_end(reply)
    entries: list[m.LogEntry | None] = [m.LogEntry(*row) for row in fitting(rows, asked.coding.cost, _ROOM)]
    return m.FetchBatchResponse(entries or None)


def _read_fetched_batch(request: Request, answer: m.FetchBatchResponse, terms: MlogTerms) -> r.Records:
    return _records(request, answer.entries or [])


def _records(request: Request, entries: Iterable[m.LogEntry | None]) -> r.Records:
    """What came; where the partition ends is not said, so it ends behind the last of them."""
    batches = batches_of([(entry.offset, entry.value or b"") for entry in entries if entry is not None])
    start = request.command.start if isinstance(request.command, q.Fetch | q.Follow) else 0
    end = start if isinstance(start, int) else 0
    return r.Records(PARTITION, 0, batches[-1].end if batches else end, batches)


def _replicated(request: Request, reply: r.Records, asked: Asked, terms: MlogTerms) -> Message:
    assert isinstance(request.command, q.Fetch), "nothing else is answered so"
    room = _CHUNK * 3 // 4 if asked.coding is JSON else _CHUNK
    rows = fitting(rows_of(reply.batches, terms.losses), lambda size: size + replication.RECORD, room)
    chunk = replication.encode(rows)
    ended = not rows or rows[-1][0] + 1 >= reply.end
    return m.ReplicateResponse(str(request.command.topic.name), chunk, ended, reply.end)


def _read_replicated(request: Request, answer: m.ReplicateResponse, terms: MlogTerms) -> r.Records:
    batches = batches_of(replication.decode(answer.raw_chunk) if answer.raw_chunk else [])
    return r.Records(PARTITION, 0, answer.leader_leo, batches)


# -- offsets


def _committed(request: Request, reply: r.Done, asked: Asked, terms: MlogTerms) -> Message:
    return m.CommitOffsetResponse(True)


def _read_committed(request: Request, answer: m.CommitOffsetResponse, terms: MlogTerms) -> r.Done | CommandFailed:
    return r.Done() if answer.success else CommandFailed(Fault.UNAVAILABLE, "the commit did not succeed")


def _offset(request: Request, reply: r.CommittedOffsets, asked: Asked, terms: MlogTerms) -> Message:
    return m.FetchOffsetResponse(reply.offsets.get(PARTITION, 0))


def _read_offset(request: Request, answer: m.FetchOffsetResponse, terms: MlogTerms) -> r.CommittedOffsets:
    """A committed 0 looks as if nothing was committed."""
    return r.CommittedOffsets({PARTITION: answer.offset} if answer.offset else {})


# -- topics


def _created(request: Request, reply: r.TopicDescription, asked: Asked, terms: MlogTerms) -> Message:
    return m.CreateTopicResponse(reply.name, [replica.node for replica in reply.replicas])


def _read_created(request: Request, answer: m.CreateTopicResponse, terms: MlogTerms) -> r.TopicDescription:
    return _described(answer.topic, map(r.Replica, answer.replica_node_ids or []), terms)


def _described(name: str, replicas: Iterable[r.Replica], terms: MlogTerms) -> r.TopicDescription:
    partition = r.PartitionDescription(PARTITION, 0, 0, 0, 0)
    return r.TopicDescription(terms.namespace, name, 0, 0, q.TopicSettings(), (partition,), tuple(replicas))


def _deleted(request: Request, reply: r.Done, asked: Asked, terms: MlogTerms) -> Message:
    assert isinstance(request.command, q.DeleteTopic), "nothing else is answered so"
    return m.DeleteTopicResponse(str(request.command.topic.name))


def _listed(request: Request, reply: r.Topics, asked: Asked, terms: MlogTerms) -> Message:
    return m.ListTopicsResponse([_topic_info(topic, terms) for topic in reply.topics])


def _topic_info(topic: r.TopicDescription, terms: MlogTerms) -> m.TopicInfo:
    replicas = [m.ReplicaInfo(replica.node, replica.in_sync, replica.end) for replica in topic.replicas]
    return m.TopicInfo(topic.name, terms.node_id, EPOCH, replicas)


def _read_listed(request: Request, answer: m.ListTopicsResponse, terms: MlogTerms) -> r.Topics:
    return r.Topics(tuple(_described(at.name, map(_replica, at.replicas or []), terms) for at in answer.topics or []))


def _replica(said: m.ReplicaInfo) -> r.Replica:
    return r.Replica(said.node_id, said.is_isr, said.leo)


# -- leaders


def _topic_leader(request: Request, reply: r.Leader, asked: Asked, terms: MlogTerms) -> Message:
    return m.FindTopicLeaderResponse(reply.address or terms.advertise)


def _read_topic_leader(request: Request, answer: m.FindTopicLeaderResponse, terms: MlogTerms) -> Outcome:
    return _leader(answer.leader_addr)


def _leader(address: str) -> Outcome:
    """An empty address would be ours."""
    return r.Leader(address) if address else CommandFailed(Fault.UNAVAILABLE, "the server does not know who leads")


def _raft_leader(request: Request, reply: r.Leader, asked: Asked, terms: MlogTerms) -> Message:
    return m.FindRaftLeaderResponse(reply.address or terms.advertise)


def _read_raft_leader(request: Request, answer: m.FindRaftLeaderResponse, terms: MlogTerms) -> Outcome:
    return _leader(answer.raft_leader_addr)


def _isr(request: Request, reply: r.Done, asked: Asked, terms: MlogTerms) -> Message:
    return m.ApplyIsrUpdateEventResponse()


def _done(request: Request, answer: Message, terms: MlogTerms) -> r.Done:
    return r.Done()


SHOWN: dict[int, Callable[..., Message]] = {
    m.REPLICATE: _replicated,
    m.PRODUCE: _produced,
    m.PRODUCE_BATCH: _produced_batch,
    m.FETCH: _fetched,
    m.FETCH_BATCH: _fetched_batch,
    m.COMMIT_OFFSET: _committed,
    m.FETCH_OFFSET: _offset,
    m.CREATE_TOPIC: _created,
    m.DELETE_TOPIC: _deleted,
    m.FIND_TOPIC_LEADER: _topic_leader,
    m.FIND_RAFT_LEADER: _raft_leader,
    m.LIST_TOPICS: _listed,
    m.APPLY_ISR: _isr,
}
"""Type of the request -> what answers it, which may be an RPCErrorResponse."""

UNDERSTOOD: dict[int, Callable[..., Outcome]] = {
    m.REPLICATE: _read_replicated,
    m.PRODUCE: _read_produced,
    m.PRODUCE_BATCH: _read_produced_batch,
    m.FETCH: _read_fetched,
    m.FETCH_BATCH: _read_fetched_batch,
    m.FETCH_STREAM: _read_fetched,
    m.COMMIT_OFFSET: _read_committed,
    m.FETCH_OFFSET: _read_offset,
    m.CREATE_TOPIC: _read_created,
    m.DELETE_TOPIC: _done,
    m.FIND_TOPIC_LEADER: _read_topic_leader,
    m.FIND_RAFT_LEADER: _read_raft_leader,
    m.LIST_TOPICS: _read_listed,
    m.APPLY_ISR: _done,
}
"""Type of the request -> what its answer means."""
