"""What our client says to have a command carried out: command -> type and message.  The other way is requests.py.

What the protocol has no words for raises CommandFailed(UNSUPPORTED), a value it cannot carry UNREPRESENTABLE.  A
request that was read from somebody is said again as it was; else nothing is said that the project's server takes for
something else, and upstream.py has what that leaves.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.dialect import Request
from gateway.dialects.mlog import fields as m
from gateway.dialects.mlog.converting import values_of
from gateway.dialects.mlog.layout import M, Message
from gateway.dialects.mlog.requests import BATCH_SIZE, MAX_COUNT, NOBODY, PARTITION
from gateway.dialects.mlog.terms import Asked, MlogTerms

Said = tuple[int, Message]
"""Type of the frame, and what is in it."""

MOST = 500
"""Records our client asks for, however many were wanted: an answer over 4 MiB would end the connection."""

ACKS = {q.Acks.NONE: 0, q.Acks.LEADER: 1, q.Acks.ALL: 2}


def unsupported(what: str) -> CommandFailed:
    """What the protocol cannot say."""
    return CommandFailed(Fault.UNSUPPORTED, f"mlog has no words for {what}")


def said_by(request: Request, terms: MlogTerms) -> Said:
    """What asks for the command; where one has two types, the context of the request chooses."""
    ask = _ASKING.get(type(request.command))
    if ask is None:
        raise unsupported(type(request.command).__name__)
    return ask(request, request.command, terms)


def _name(name: int | str, what: str) -> str:
    if isinstance(name, int):
        raise unsupported(f"a {what} by id")
    if not 1 <= len(name.encode("utf-8", "replace")) <= q.MAX_NAME:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"a {what} has 1 to {q.MAX_NAME} bytes")
    return name


def _topic(topic: q.Topic, terms: MlogTerms) -> str:
    if topic.namespace != terms.namespace:
        raise unsupported("a second namespace")
    return _name(topic.name, "topic")


def _id(reader: q.Reader) -> str:
    if isinstance(reader, q.Consumer):
        raise unsupported("a consumer outside a group")
    if reader.name == NOBODY:
        raise unsupported("a group of the id that stands for none")
    return _name(reader.name, "group")


def _first(partition: int | None) -> None:
    if partition != PARTITION:
        raise unsupported("another partition than the first")


def _said(request: Request, kind: type[M]) -> M | None:
    said = request.context.said if isinstance(request.context, Asked) else None
    return said if isinstance(said, kind) else None


def _type(request: Request, among: tuple[int, ...], otherwise: int) -> int:
    context = request.context
    return context.type if isinstance(context, Asked) and context.type in among else otherwise


# -- writing


def _publish(request: Request, command: q.Publish, terms: MlogTerms) -> Said:
    topic, acks, batch = _topic(command.topic, terms), _acks(request, command), command.batch
    if command.create:
        raise unsupported("making a topic by writing to it")
    if isinstance(command.to, int):
        _first(command.to)
    if not batch.count:
        raise CommandFailed(Fault.EMPTY_BATCH)
    values = values_of(batch, terms.losses)
    if len(values) == 1 and values[0] and _type(request, (m.PRODUCE_BATCH,), m.PRODUCE) == m.PRODUCE:
        return m.PRODUCE, m.ProduceRequest(topic, values[0], acks)
    said = _said(request, m.ProduceBatchRequest)
    if said is not None and [value or b"" for value in said.values or ()] == list(values):
        return m.PRODUCE_BATCH, m.ProduceBatchRequest(topic, said.values, acks)  # null where it was null
    return m.PRODUCE_BATCH, m.ProduceBatchRequest(topic, list(values), acks)


def _acks(request: Request, command: q.Publish) -> int:
    """Acks of 0 are not said but where they were read: the project's server appends, and answers with code 15 (protocol
    page, "Server semantics")."""
    if command.acks is q.Acks.NONE and not isinstance(request.context, Asked):
        return ACKS[q.Acks.LEADER]
    return ACKS[command.acks]


# -- reading


def _place(start: q.Start, reader: q.Reader | None, terms: MlogTerms) -> tuple[str, int]:
    """(id, offset) of a read that begins there.  Offset 0 is after the last commit of the id, so it is NOBODY's."""
    if isinstance(start, q.Next):
        if start.floor or not terms.fetch_zero_is_committed:
            raise unsupported("a lower bound of what comes next, or that at all to a server whose offset 0 is 0")
        return _id(start.reader), 0
    if not isinstance(start, int):
        raise unsupported(f"reading from {type(start).__name__}")
    return (_id(reader) if start and isinstance(reader, q.Group) else NOBODY), _natural(start)


def _fetch(request: Request, command: q.Fetch, terms: MlogTerms) -> Said:
    topic = _topic(command.topic, terms)
    _first(command.partition)
    if command.commit or command.create:
        raise unsupported("a fetch that commits, or makes the topic")
    kind = _type(request, (m.REPLICATE, m.FETCH), m.FETCH_BATCH)
    if kind == m.REPLICATE:
        return kind, _replicate(request, command, topic)
    if kind == m.FETCH and command.max_records == 1:
        return kind, m.FetchRequest(topic, *_read(request, command, m.FetchRequest, terms))
    id, offset, replica = _read(request, command, m.FetchBatchRequest, terms)
    said = _said(request, m.FetchBatchRequest)
    most = MAX_COUNT if isinstance(request.context, Asked) else MOST
    count = 0 if said and said.max_count == 0 else min(command.max_records or MOST, most)
    return m.FETCH_BATCH, m.FetchBatchRequest(topic, id, offset, count, replica)


def _read(
    request: Request, command: q.Fetch, kind: type[m.FetchRequest] | type[m.FetchBatchRequest], terms: MlogTerms
) -> tuple[str, int, str]:
    """(id, offset, replica), as it was said where that means the same."""
    said = _said(request, kind)
    assert said is None or isinstance(said, m.FetchRequest | m.FetchBatchRequest), "no other was asked for"
    if said is not None and said.offset == command.start and (said.replica or not terms.fetch_zero_is_committed):
        return said.id, said.offset, said.replica
    return *_place(command.start, command.reader, terms), ""


def _replicate(request: Request, command: q.Fetch, topic: str) -> m.ReplicateRequest:
    said = _said(request, m.ReplicateRequest) or m.ReplicateRequest()
    if not isinstance(command.start, int):
        raise unsupported("a replica that does not say where it is")
    size = 0 if not said.batch_size and command.max_records == BATCH_SIZE else command.max_records
    return m.ReplicateRequest(topic, command.start, min(size, MAX_COUNT), said.replica)


def _follow(request: Request, command: q.Follow, terms: MlogTerms) -> Said:
    if not terms.fetch_stream:
        raise unsupported("following")
    topic = _topic(command.topic, terms)
    _first(command.partition)
    said = _said(request, m.FetchRequest)
    if said is not None and said.offset == command.start:
        return m.FETCH_STREAM, m.FetchRequest(topic, said.id, said.offset, said.replica)
    return m.FETCH_STREAM, m.FetchRequest(topic, *_place(command.start, None, terms))


# -- offsets


def _commit(request: Request, command: q.CommitOffsets, terms: MlogTerms) -> Said:
    topic, id = _topic(command.topic, terms), _id(command.reader)
    if command.member is not None or command.generation is not None or command.rising or command.bounded:
        raise unsupported("a commit with conditions")
    if list(command.offsets) != [PARTITION]:
        raise unsupported("a commit that is not of the first partition alone")
    return m.COMMIT_OFFSET, m.CommitOffsetRequest(topic, id, _natural(command.offsets[PARTITION]))


def _natural(offset: int) -> int:
    if not 0 <= offset <= q.MAX_OFFSET:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"offset {offset}")
    return offset


def _committed(request: Request, command: q.FetchOffsets, terms: MlogTerms) -> Said:
    if command.partitions not in (None, (PARTITION,)):
        raise unsupported("the offsets of other partitions")
    return m.FETCH_OFFSET, m.FetchOffsetRequest(_topic(command.topic, terms), _id(command.reader))


# -- topics


def _create(request: Request, command: q.CreateTopic, terms: MlogTerms) -> Said:
    topic = _topic(command.topic, terms)
    if command.partitions != 1 or command.settings != q.TopicSettings():
        raise unsupported("a topic with more than a name")
    if command.if_exists is not q.IfExists.FAIL or command.id is not None:
        raise unsupported("a topic that may exist or has an id")
    said = _said(request, m.CreateTopicRequest) or m.CreateTopicRequest()
    return m.CREATE_TOPIC, m.CreateTopicRequest(topic, said.replica_count, said.designated)


def _delete(request: Request, command: q.DeleteTopic, terms: MlogTerms) -> Said:
    return m.DELETE_TOPIC, m.DeleteTopicRequest(_topic(command.topic, terms))


def _leader(request: Request, command: q.FindLeader, terms: MlogTerms) -> Said:
    if command.subject is None:
        return m.FIND_RAFT_LEADER, m.FindRaftLeaderRequest()
    return m.FIND_TOPIC_LEADER, m.FindTopicLeaderRequest(_topic(command.subject, terms))


def _topics(request: Request, command: q.ListTopics, terms: MlogTerms) -> Said:
    if command.namespace != terms.namespace:
        raise unsupported("a second namespace")
    return m.LIST_TOPICS, m.ListTopicsRequest()


def _isr(request: Request, command: q.Ping, terms: MlogTerms) -> Said:
    """Only what was said so already; there is no other way to ask whether somebody is there."""
    said = _said(request, m.ApplyIsrUpdateEventRequest)
    if said is None:
        raise unsupported("Ping")
    return m.APPLY_ISR, said


_ASKING: dict[type[q.Command], Callable[..., Said]] = {
    q.Ping: _isr,
    q.Publish: _publish,
    q.Fetch: _fetch,
    q.Follow: _follow,
    q.CommitOffsets: _commit,
    q.FetchOffsets: _committed,
    q.CreateTopic: _create,
    q.DeleteTopic: _delete,
    q.FindLeader: _leader,
    q.ListTopics: _topics,
}

SAYABLE = frozenset(_ASKING) - {q.Ping}
"""Kinds of commands that there are words for.  Ping is none: the project's server never answers what a replica says."""
