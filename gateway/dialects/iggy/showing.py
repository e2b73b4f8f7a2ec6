"""Replies as the payload of an answer.  The other way is reading.py."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.replies import Reply
from gateway.dialects.iggy.converting import messages_of
from gateway.dialects.iggy.fields import MAX_SHORT, NEVER, U32, encoded, write_fields
from gateway.dialects.iggy.generations import SECOND, Generation
from gateway.dialects.iggy.requests import GZIP, NONE
from gateway.dialects.iggy.said import IggyTerms

Shown = Callable[..., bytes]

TCP = 1
"""The transport of every client: we listen for no other."""

MAX_U32 = 0xFFFFFFFF


def payload_of(command: q.Command, reply: Reply, generation: Generation, terms: IggyTerms) -> bytes:
    """What answers that command.  Raises CommandFailed(UNREPRESENTABLE) for a name of more than 255 bytes."""
    if isinstance(command, _CREATING) and not generation.creates:
        return b""
    show = _SHOWN.get((type(command), type(reply)))
    return b"" if show is None else show(command, reply, generation, terms)


_CREATING = (q.CreateNamespace, q.CreateTopic, q.CreateGroup)


def _many(shown: Iterable[bytes]) -> bytes:
    return b"".join(shown)


# -- streams and topics


def _stream(at: r.NamespaceDescription, generation: Generation) -> bytes:
    values = {"id": at.id, "created": at.created, "topics": at.topics, "size": at.bytes, "messages": at.records}
    return write_fields(generation.answers.stream, {**values, "name": at.name})


def _topic(at: r.TopicDescription, generation: Generation) -> bytes:
    labels = at.settings.labels
    limits = {
        "expiry": at.settings.retention_us,
        "compression": GZIP if labels.get("compression") == "gzip" else NONE,
        "max_size": _labeled(labels, "max_topic_size", NEVER),
        "replication": _labeled(labels, "replication_factor", 1) & MAX_SHORT,
    }
    sizes = {
        "size": sum(partition.bytes for partition in at.partitions),
        "messages": sum(partition.end - partition.start for partition in at.partitions),
    }
    values = {"id": at.id, "created": at.created, "partitions": len(at.partitions), **limits, **sizes, "name": at.name}
    return write_fields(generation.answers.topic, values)


def _labeled(labels: dict[str, str], name: str, unset: int) -> int:
    """A number kept as a label, which another dialect may have set to anything."""
    label = labels.get(name, "")
    return int(label) if label.isascii() and label.isdigit() and int(label) <= NEVER else unset


def _partition(at: r.PartitionDescription, generation: Generation) -> bytes:
    values = {"id": at.index, "created": at.created, "segments": 1, "current": max(0, at.end - 1)}
    sizes = {"size": at.bytes, "messages": at.end - at.start}
    return write_fields(generation.answers.partition, {**values, **sizes})


def _stream_whole(command: q.Command, at: r.NamespaceDescription, generation: Generation, terms: IggyTerms) -> bytes:
    return _stream(at, generation) + _many(_topic(topic, generation) for topic in at.contents)


def _streams(command: q.Command, reply: r.Namespaces, generation: Generation, terms: IggyTerms) -> bytes:
    return _many(_stream(at, generation) for at in reply.namespaces)


def _topic_whole(command: q.Command, at: r.TopicDescription, generation: Generation, terms: IggyTerms) -> bytes:
    return _topic(at, generation) + _many(_partition(partition, generation) for partition in at.partitions)


def _topics(command: q.Command, reply: r.Topics, generation: Generation, terms: IggyTerms) -> bytes:
    return _many(_topic(at, generation) for at in reply.topics)


# -- messages and offsets


def _records(command: q.Command, reply: r.Records, generation: Generation, terms: IggyTerms) -> bytes:
    count = sum([batch.count for batch in reply.batches])
    head = {"partition": reply.partition, "current": max(0, reply.end - 1), "count": count}
    bodies = [messages_of(batch, generation.encoding, terms.losses, terms.policy) for batch in reply.batches]
    return write_fields(generation.answers.poll, head) + b"".join(bodies)


def _offset(command: q.Command, reply: r.CommittedOffsets, generation: Generation, terms: IggyTerms) -> bytes:
    """Of the one partition that was asked about; a committed 0 looks as if nothing was stored."""
    partition, end = next(iter(reply.ends.items()), (0, 0))
    after = reply.offsets.get(partition, 0)
    if not after and generation.empties:
        return b""
    values = {"partition": partition, "current": max(0, end - 1), "stored": max(0, after - 1)}
    return write_fields(generation.answers.offset, values)


# -- groups


def _group(at: r.GroupDescription, generation: Generation) -> bytes:
    values = {"id": at.id, "partitions": at.partitions, "members": len(at.members), "name": at.name}
    return write_fields(generation.answers.group, values)


def _member(at: r.MemberDescription, generation: Generation) -> bytes:
    """A member that lives by heartbeats is of another dialect; it gets a number that its name gives."""
    id = zlib.crc32(encoded(at.member)) if at.session is None else at.session & MAX_U32
    head = write_fields(generation.answers.member, {"id": id, "count": len(at.assignment)})
    return head + _many(U32.write(partition + generation.first) for partition in at.assignment)


def _group_whole(command: q.Command, at: r.GroupDescription, generation: Generation, terms: IggyTerms) -> bytes:
    return _group(at, generation) + _many(_member(member, generation) for member in at.members)


def _groups(command: q.Command, reply: r.Groups, generation: Generation, terms: IggyTerms) -> bytes:
    return _many(_group(at, generation) for at in reply.groups)


# -- clients and the node


def _authenticated(command: q.Command, reply: r.Authenticated, generation: Generation, terms: IggyTerms) -> bytes:
    return U32.write(reply.id)


def _client(at: r.SessionDescription, generation: Generation) -> bytes:
    who = {"id": at.id & MAX_U32, "user": at.user}
    where = {"transport": TCP, "address": at.peer, "groups": len(at.memberships)}
    return write_fields(generation.answers.client, {**who, **where})


def _client_whole(command: q.Command, at: r.SessionDescription, generation: Generation, terms: IggyTerms) -> bytes:
    layout = generation.answers.membership
    entries = ({"stream": of.namespace, "topic": of.topic, "group": of.group} for of in at.memberships)
    return _client(at, generation) + _many(write_fields(layout, entry) for entry in entries)


def _clients(command: q.Command, reply: r.Sessions, generation: Generation, terms: IggyTerms) -> bytes:
    return _many(_client(at, generation) for at in reply.sessions)


_NO_PROCESS = r.ProcessDescription(0, 0.0, 0.0, 0, 0, 0, 0, 0, "", "", "", "")


def _stats(command: q.Command, at: r.NodeDescription, generation: Generation, terms: IggyTerms) -> bytes:
    process = at.process or _NO_PROCESS
    machine = {name: getattr(process, name) for name in process.__struct_fields__}
    counts = {name: min(getattr(at, name), MAX_U32) for name in ("topics", "partitions", "groups")}
    values = {
        **machine,
        **counts,
        "process": process.id,
        "started": at.started // SECOND,
        "size": at.bytes,
        "streams": at.namespaces,
        "segments": counts["partitions"],
        "messages": at.records,
        "clients": at.sessions,
        "version": at.version,
        "semver": _semver(at.version),
        **dict.fromkeys(("caches", "threads", "free_disk", "disk"), 0),
    }
    return write_fields(generation.answers.stats, values)


def _semver(version: str) -> int:
    """1.2.3 as 1002003."""
    parts = [int(part) for part in version.split(".")[:3] if part.isdigit()]
    return sum(part * 1000**place for place, part in enumerate(reversed(parts)))


def _cluster(command: q.Command, reply: r.Leader, generation: Generation, terms: IggyTerms) -> bytes:
    """A cluster of one node, healthy and its leader."""
    host, _, port = (reply.address or terms.advertise).rpartition(":")
    node = {"name": NODE, "ip": host.strip("[]"), "tcp": int(port) if port.isdigit() else 0}
    others = dict.fromkeys(("quic", "http", "websocket", "role", "status"), 0)
    name = encoded(NODE)
    return U32.write(len(name)) + name + U32.write(1) + write_fields(generation.answers.node, {**node, **others})


NODE = "gateway"
"""What the cluster and its only node are called."""

_SHOWN: dict[tuple[type[q.Command], type[Reply]], Shown] = {
    (q.Authenticate, r.Authenticated): _authenticated,
    (q.Describe, r.NodeDescription): _stats,
    (q.FindLeader, r.Leader): _cluster,
    (q.DescribeSession, r.SessionDescription): _client_whole,
    (q.ListSessions, r.Sessions): _clients,
    (q.Fetch, r.Records): _records,
    (q.FetchOffsets, r.CommittedOffsets): _offset,
    (q.DescribeNamespace, r.NamespaceDescription): _stream_whole,
    (q.ListNamespaces, r.Namespaces): _streams,
    (q.CreateNamespace, r.NamespaceDescription): _stream_whole,
    (q.DescribeTopic, r.TopicDescription): _topic_whole,
    (q.ListTopics, r.Topics): _topics,
    (q.CreateTopic, r.TopicDescription): _topic_whole,
    (q.DescribeGroup, r.GroupDescription): _group_whole,
    (q.ListGroups, r.Groups): _groups,
    (q.CreateGroup, r.GroupDescription): _group_whole,
}
"""Command and reply -> payload.  Everything else is answered without one."""
