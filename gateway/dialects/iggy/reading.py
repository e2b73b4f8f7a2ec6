"""The payload of an answer as a reply.  The other way is showing.py."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import cast

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Outcome, Reply
from gateway.dialects.iggy.fields import NEVER, U32, Fields, read_fields
from gateway.dialects.iggy.generations import SECOND, Generation
from gateway.dialects.iggy.presuming import PRESUMED
from gateway.dialects.iggy.requests import GZIP
from gateway.dialects.iggy.shape import polled

Row = dict[str, int]
"""The numbers of one thing; its texts stand in `name`, `address` and the like, and are taken with `_text`."""

Read = Callable[..., Outcome]

UNREADABLE = (ValueError, IndexError, struct.error)
"""What reading damaged bytes raises; UnicodeDecodeError is a ValueError."""


def reply_of(command: q.Command, payload: bytes, generation: Generation) -> Outcome:
    """What a payload under status 0 says.  Raises CommandFailed(MALFORMED)."""
    read, presume = _READ.get(type(command)), PRESUMED.get(type(command))
    if presume is not None and (read is None or not payload or not generation.creates):
        return presume(command)
    if read is None:
        return r.Done()
    if not payload and generation.empties and (missing := _MISSING.get(type(command))):
        return CommandFailed(missing)
    try:
        found: Outcome = read(_Payload(payload), command, generation)
    except UNREADABLE as error:
        raise CommandFailed(Fault.MALFORMED, f"no answer to {type(command).__name__}: {error}") from error
    return found


_MISSING: dict[type[q.Command], Fault] = {
    q.DescribeNamespace: Fault.NO_SUCH_NAMESPACE,
    q.DescribeTopic: Fault.NO_SUCH_TOPIC,
    q.DescribeGroup: Fault.NO_SUCH_GROUP,
}
"""What an answer without payload says is not there."""


class _Payload:
    """A payload and how far it was read."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.at = 0

    def row(self, fields: Fields) -> Row:
        values, self.at = read_fields(fields, self.octets, self.at)
        return cast(Row, values)

    def rows(self, fields: Fields) -> Iterator[Row]:
        while self.at < len(self.octets):
            yield self.row(fields)

    def numbers(self, count: int) -> tuple[int, ...]:
        end = self.at + 4 * count
        found = struct.unpack_from(f"<{count}I", self.octets, self.at) if end <= len(self.octets) else None
        if found is None:
            raise ValueError("cut short")
        self.at = end
        return found


def _text(row: Row, name: str) -> str:
    return str(row[name])


# -- streams and topics


def _stream(row: Row) -> r.NamespaceDescription:
    return r.NamespaceDescription(
        row["id"], _text(row, "name"), row["created"], row["topics"], row["messages"], row["size"]
    )


def _topic(row: Row, stream: int | str, partitions: tuple[r.PartitionDescription, ...]) -> r.TopicDescription:
    """An answer does not name the stream: it is called what it was asked for as."""
    labels = {
        "compression": "gzip" if row.get("compression") == GZIP else "",
        "max_topic_size": "" if row.get("max_size", NEVER) == NEVER else str(row["max_size"]),
        "replication_factor": "" if row.get("replication", 1) == 1 else str(row["replication"]),
    }
    settings = q.TopicSettings(row["expiry"], labels={key: label for key, label in labels.items() if label})
    return r.TopicDescription(str(stream), _text(row, "name"), row["id"], row["created"], settings, partitions)


def _partition(row: Row) -> r.PartitionDescription:
    """Where a partition begins and ends follows from its newest offset and its number of messages, but that one which
    lost its only message looks as if it never had any."""
    end = row["current"] + 1 if row["messages"] or row["current"] else 0
    return r.PartitionDescription(row["id"], end - row["messages"], end, row["size"], row["created"])


def _read_stream(payload: _Payload, command: q.Command, generation: Generation) -> Reply:
    found = _stream(payload.row(generation.answers.stream))
    topics = tuple(_topic(row, found.name, ()) for row in payload.rows(generation.answers.topic))
    return r.NamespaceDescription(found.id, found.name, found.created, found.topics, found.records, found.bytes, topics)


def _read_streams(payload: _Payload, command: q.Command, generation: Generation) -> Reply:
    return r.Namespaces(tuple(sorted(map(_stream, payload.rows(generation.answers.stream)), key=lambda at: at.id)))


def _read_topic(payload: _Payload, command: q.CreateTopic | q.DescribeTopic, generation: Generation) -> Reply:
    row = payload.row(generation.answers.topic)
    partitions = tuple(map(_partition, payload.rows(generation.answers.partition)))
    return _topic(row, command.topic.namespace, partitions)


def _read_topics(payload: _Payload, command: q.ListTopics, generation: Generation) -> Reply:
    rows = payload.rows(generation.answers.topic)
    topics = [_topic(row, command.namespace, ()) for row in rows]
    return r.Topics(tuple(sorted(topics, key=lambda at: at.id)))


# -- messages and offsets


def _read_records(payload: _Payload, command: q.Fetch, generation: Generation) -> Reply:
    """The answer says no more of a partition than its newest offset, and that as 0 also when it is empty."""
    head = payload.row(generation.answers.poll)
    batches = tuple(polled(generation.encoding, payload.octets[payload.at :]))
    if sum(batch.count for batch in batches) != head["count"]:
        raise ValueError(f"{head['count']} messages were announced")
    end = head["current"] + 1 if head["current"] or batches else 0
    return r.Records(head["partition"], 0, end, batches)


def _read_offset(payload: _Payload, command: q.FetchOffsets, generation: Generation) -> Reply:
    """In generations whose answer cannot say that nothing was stored, 0 is taken for that; and where it may be that
    there are no messages, the newest offset of 0 is.
    """
    if not payload.octets:
        return r.CommittedOffsets({})
    row = payload.row(generation.answers.offset)
    partition, known = row["partition"], bool(row["stored"]) or generation.empties
    end = row["current"] + 1 if row["current"] or known else 0
    return r.CommittedOffsets({partition: row["stored"] + 1} if known else {}, {partition: end})


# -- groups


def _group(row: Row, command: q.Command, members: tuple[r.MemberDescription, ...] = ()) -> r.GroupDescription:
    """The answer names neither stream nor topic; no generation is known to clients."""
    topic = getattr(command, "topic", None)
    place = (topic.namespace, topic.name) if isinstance(topic, q.Topic) else (getattr(command, "namespace", ""), topic)
    name = str(row.get("name", row["id"]))
    return r.GroupDescription(str(place[0]), str(place[1]), name, row["id"], 0, row["partitions"], members)


def _read_group(payload: _Payload, command: q.CreateGroup | q.DescribeGroup, generation: Generation) -> Reply:
    row = payload.row(generation.answers.group)
    members = []
    for member in payload.rows(generation.answers.member):
        owned = tuple(number - generation.first for number in payload.numbers(member["count"]))
        members.append(r.MemberDescription(str(member["id"]), owned, 0, member["id"]))
    return _group(row, command, tuple(members))


def _read_groups(payload: _Payload, command: q.ListGroups, generation: Generation) -> Reply:
    groups = [_group(row, command) for row in payload.rows(generation.answers.group)]
    return r.Groups(tuple(sorted(groups, key=lambda at: at.name)))


# -- clients and the node


def _read_user(payload: _Payload, command: q.Authenticate, generation: Generation) -> Reply:
    return r.Authenticated(command.principal, U32.read(payload.octets, 0)[0])


def _client(row: Row, memberships: tuple[r.MembershipDescription, ...] = ()) -> r.SessionDescription:
    return r.SessionDescription(row["id"], "iggy", "", _text(row, "address"), None, 0, memberships, row.get("user", 0))


def _read_client(payload: _Payload, command: q.Command, generation: Generation) -> Reply:
    row = payload.row(generation.answers.client)
    entries = tuple(
        r.MembershipDescription(row["id"], entry["stream"], entry["topic"], entry["group"])
        for entry in payload.rows(generation.answers.membership)
    )
    return _client(row, entries)


def _read_clients(payload: _Payload, command: q.Command, generation: Generation) -> Reply:
    return r.Sessions(tuple(map(_client, payload.rows(generation.answers.client))))


def _read_stats(payload: _Payload, command: q.Command, generation: Generation) -> Reply:
    row = payload.row(generation.answers.stats)
    process = r.ProcessDescription(
        id=row["process"],
        cpu=row["cpu"],
        machine_cpu=row.get("machine_cpu", 0.0),
        memory=row["memory"],
        machine_memory=row["machine_memory"],
        free_memory=row["free_memory"],
        read=row["read"],
        written=row["written"],
        host=_text(row, "host"),
        system=_text(row, "system"),
        release=_text(row, "release"),
        kernel=_text(row, "kernel"),
        running=row["running"],
    )
    counts = row["streams"], row["topics"], row["partitions"], row["messages"], row["size"], row["groups"]
    version = str(row.get("version", ""))
    return r.NodeDescription("iggy", version, "", row["started"] * SECOND, *counts, row["clients"], process)


def _read_cluster(payload: _Payload, command: q.Command, generation: Generation) -> Reply:
    """The leader among the nodes: role 0."""
    size, at = U32.read(payload.octets, 0)
    _, payload.at = U32.read(payload.octets, at + size)
    for row in payload.rows(generation.answers.node):
        if not row["role"]:
            host = _text(row, "ip")
            return r.Leader(f"[{host}]:{row['tcp']}" if ":" in host else f"{host}:{row['tcp']}")
    raise ValueError("a cluster without a leader")


_READ: dict[type[q.Command], Read] = {
    q.Authenticate: _read_user,
    q.Describe: _read_stats,
    q.FindLeader: _read_cluster,
    q.DescribeSession: _read_client,
    q.ListSessions: _read_clients,
    q.Fetch: _read_records,
    q.FetchOffsets: _read_offset,
    q.DescribeNamespace: _read_stream,
    q.ListNamespaces: _read_streams,
    q.CreateNamespace: _read_stream,
    q.DescribeTopic: _read_topic,
    q.ListTopics: _read_topics,
    q.CreateTopic: _read_topic,
    q.DescribeGroup: _read_group,
    q.ListGroups: _read_groups,
    q.CreateGroup: _read_group,
}
"""Command -> how its answer is read.  Everything else is answered without a payload: it is done, see also PRESUMED."""
