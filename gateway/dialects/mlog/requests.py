"""What a request asks of the gateway: message -> command.  The other way is asking.py.

Raises CommandFailed, with the code and the words for the peer, for what is refused before any backend sees it.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import MAX_RECORDS, Record, RecordBatch, canonical
from gateway.dialects.mlog import faults as f
from gateway.dialects.mlog import fields as m
from gateway.dialects.mlog.terms import MlogTerms

PARTITION = 0
"""The only one this dialect knows; of a topic with more, the first."""

DEFAULT_ID = "default"

NOBODY = "gateway-never-commits"
"""OUR: the id of our client where it reads for none.  The project's server takes offset 0 for "after the last commit",
and this id never commits.  To us who has it is no group, and its 0 is 0."""

MAX_COUNT = 10_000
"""OUR bound on records in one answer; who asks for more reads on behind them."""

BATCH_SIZE = 5_000
"""Records of a ReplicateStream that does not say."""

MAX_BYTES = 3 << 20
"""Of records asked of a backend for one answer: base64 makes 4 MiB of it."""

ACKS = {0: q.Acks.NONE, 1: q.Acks.LEADER, 2: q.Acks.ALL}


def _named(name: str, terms: MlogTerms, code: int = f.TOPIC_REQUIRED, missing: str = "topic is required") -> q.Topic:
    if not name:
        raise f.refused(Fault.INVALID_NAME, missing, code)
    if _too_long(name):
        raise f.refused(Fault.INVALID_NAME, f"topic name is longer than {q.MAX_NAME} bytes", code)
    return q.Topic(terms.namespace, name)


def _created(name: str, terms: MlogTerms) -> q.Topic:
    return _named(name, terms, f.TOPIC_NAME_REQUIRED, "topic name is required")


def _group(id: str) -> q.Group:
    if _too_long(id):
        raise f.refused(Fault.INVALID_NAME, f"id is longer than {q.MAX_NAME} bytes", f.UNKNOWN)
    return q.Group(id or DEFAULT_ID)


def _too_long(name: str) -> bool:
    return 4 * len(name) > q.MAX_NAME and len(name.encode()) > q.MAX_NAME


def _offset(offset: int, code: int = f.READ_OFFSET) -> int:
    if offset > q.MAX_OFFSET:
        raise f.refused(Fault.INVALID_OFFSET, f"offset {offset} is beyond {q.MAX_OFFSET}", code)
    return offset


# -- writing


def _publish(topic: q.Topic, batch: RecordBatch, acks: int) -> q.Publish:
    if acks not in ACKS:
        raise f.refused(Fault.INVALID_ARGUMENT, f"invalid ack mode: {acks}", f.INVALID_ACK_MODE)
    return q.Publish(topic, PARTITION, batch, ACKS[acks])


def _produce(asked: m.ProduceRequest, terms: MlogTerms) -> q.Publish:
    topic = _named(asked.topic, terms)
    if not asked.value:
        raise f.refused(Fault.EMPTY_BATCH, "value is required", f.VALUES_REQUIRED)
    return _publish(topic, canonical([Record(None, asked.value)], "mlog"), asked.acks)


def _produce_batch(asked: m.ProduceBatchRequest, terms: MlogTerms) -> q.Publish:
    topic = _named(asked.topic, terms)
    values = asked.values
    if not values:
        raise f.refused(Fault.EMPTY_BATCH, "values are required", f.VALUES_REQUIRED)
    if len(values) > MAX_RECORDS:
        raise CommandFailed(Fault.TOO_LARGE, f"more than {MAX_RECORDS} values")
    return _publish(topic, canonical([Record(None, value or b"") for value in values], "mlog"), asked.acks)


# -- reading


def _start(asked: m.FetchRequest | m.FetchBatchRequest, terms: MlogTerms) -> tuple[q.Start, q.Group | None]:
    """Where a read begins, and who reads: a replica is nobody, and its 0 is 0."""
    group = _group(asked.id)
    offset = _offset(asked.offset)
    if asked.replica or asked.id == NOBODY:
        return offset, None
    if not offset and terms.fetch_zero_is_committed:
        return q.Next(group), None
    return offset, group


def _fetch(asked: m.FetchRequest, terms: MlogTerms) -> q.Fetch:
    topic = _named(asked.topic, terms)
    start, reader = _start(asked, terms)
    return q.Fetch(topic, PARTITION, start, 1, reader=reader)


def _fetch_batch(asked: m.FetchBatchRequest, terms: MlogTerms) -> q.Fetch:
    topic = _named(asked.topic, terms)
    start, reader = _start(asked, terms)
    return q.Fetch(topic, PARTITION, start, min(asked.max_count or 1, MAX_COUNT), MAX_BYTES, reader=reader)


def _replicate(asked: m.ReplicateRequest, terms: MlogTerms) -> q.Fetch:
    most = min(asked.batch_size or BATCH_SIZE, MAX_COUNT)
    return q.Fetch(_named(asked.topic, terms), PARTITION, _offset(asked.offset), most, MAX_BYTES)


def _follow(asked: m.FetchRequest, terms: MlogTerms) -> q.Follow:
    return q.Follow(_named(asked.topic, terms), PARTITION, _start(asked, terms)[0])


# -- the rest


def _commit(asked: m.CommitOffsetRequest, terms: MlogTerms) -> q.CommitOffsets:
    topic, group = _named(asked.topic, terms), _group(asked.id)
    return q.CommitOffsets(topic, group, {PARTITION: _offset(asked.offset, f.COMMIT_OFFSET)})


def _committed(asked: m.FetchOffsetRequest, terms: MlogTerms) -> q.FetchOffsets:
    return q.FetchOffsets(_named(asked.topic, terms), _group(asked.id), (PARTITION,))


def _create(asked: m.CreateTopicRequest, terms: MlogTerms) -> q.CreateTopic:
    topic = _created(asked.topic, terms)
    if asked.replica_count and terms.strict_replicas:
        text = f"not enough nodes for {asked.replica_count} replicas"
        raise f.refused(Fault.INVALID_ARGUMENT, text, f.NOT_ENOUGH_NODES)
    return q.CreateTopic(topic, 1)


def _delete(asked: m.DeleteTopicRequest, terms: MlogTerms) -> q.DeleteTopic:
    return q.DeleteTopic(_created(asked.topic, terms))


def _topic_leader(asked: m.FindTopicLeaderRequest, terms: MlogTerms) -> q.FindLeader:
    return q.FindLeader(_named(asked.topic, terms))


def _raft_leader(asked: m.FindRaftLeaderRequest, terms: MlogTerms) -> q.FindLeader:
    return q.FindLeader()


def _topics(asked: m.ListTopicsRequest, terms: MlogTerms) -> q.ListTopics:
    return q.ListTopics(terms.namespace)


def _isr(asked: m.ApplyIsrUpdateEventRequest, terms: MlogTerms) -> q.Ping:
    """It is answered, and changes nothing: there are no replicas."""
    return q.Ping()


MEANINGS: dict[int, Callable[..., q.Command]] = {
    m.REPLICATE: _replicate,
    m.PRODUCE: _produce,
    m.PRODUCE_BATCH: _produce_batch,
    m.FETCH: _fetch,
    m.FETCH_BATCH: _fetch_batch,
    m.FETCH_STREAM: _follow,
    m.COMMIT_OFFSET: _commit,
    m.FETCH_OFFSET: _committed,
    m.CREATE_TOPIC: _create,
    m.DELETE_TOPIC: _delete,
    m.FIND_TOPIC_LEADER: _topic_leader,
    m.FIND_RAFT_LEADER: _raft_leader,
    m.LIST_TOPICS: _topics,
    m.APPLY_ISR: _isr,
}
"""Type of the frame -> what its message means."""
