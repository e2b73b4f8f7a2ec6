"""How a command is asked for: its code and the values of its fields.  The other way is requests.py.

Raises CommandFailed: UNSUPPORTED for what the protocol, or this generation of it, has no words for; UNREPRESENTABLE for
a value that its fields cannot hold.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import MAX_RECORDS
from gateway.dialects.iggy import codes as c
from gateway.dialects.iggy.fields import Values, unsupported
from gateway.dialects.iggy.generations import Generation
from gateway.dialects.iggy.requests import GZIP, NONE, labels_of, made_name
from gateway.dialects.iggy.said import Login

Asked = tuple[int, Values]

OUR_VERSIONS = {"g1b_texts": "0.6.31", "g1b": "0.6.202", "g2a": "0.7.0", "g2b": "0.8.0", "g2c": "0.10.0"}
"""What our client says it is where a generation has several versions: the newest of them that was recorded."""

NOBODY = q.Consumer(1)
"""Who reads if nobody said so: the id that the Python clients up to 0.5.0 send."""


def _plain(code: int) -> Callable[..., Asked]:
    return lambda command, generation: (code, {})


def _topic(topic: q.Topic) -> Values:
    return {"stream": topic.namespace, "topic": topic.name}


def _made(name: str, generation: Generation) -> str:
    """A name that a server will not change.  Raises CommandFailed."""
    try:
        made = made_name(name, generation, 0)
    except (CommandFailed, UnicodeEncodeError):
        made = ""
    if not name or made != name:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"a name that an Iggy server would refuse or change: {name!r}")
    return name


def _id(id: int | None, generation: Generation) -> int:
    """0 = the server is to choose one, so nobody can ask for that."""
    if id == 0:
        raise unsupported("the id 0")
    if id is not None and "id" not in generation.requests[c.CREATE_STREAM]:
        raise unsupported("an id of the client's choice")
    if not id and generation.numbered_groups:
        raise unsupported("an id that the server is to choose")
    return id or 0


# -- service


def authenticate(command: q.Authenticate, generation: Generation, login: Login | None) -> Asked:
    """LOGIN, or LOGIN with a token.  login: as it was heard, if it was."""
    if generation.numbered_groups:
        raise unsupported(f"logging in, which came after {generation.name}")
    if command.mechanism == "token" and not command.principal:
        return c.LOGIN_WITH_TOKEN, {"token": command.secret}
    if command.mechanism != "plain":
        raise unsupported(f"logging in by {command.mechanism}")
    said = login or Login(OUR_VERSIONS.get(generation.name))
    values: Values = {"user": command.principal, "password": command.secret}
    if said.version is not None:
        values.update({"version": said.version, "context": said.remark})
    return c.LOGIN, values


def _session(command: q.DescribeSession, generation: Generation) -> Asked:
    return (c.GET_ME, {}) if command.session is None else (c.GET_CLIENT, {"session": command.session})


def _leader(command: q.FindLeader, generation: Generation) -> Asked:
    """Clients ask for it from 0.8 on; servers before that may hang up on a code that they do not know."""
    if command.subject is not None or generation.first:
        raise unsupported("the leader of a topic, nor of a cluster before 0.8")
    return c.GET_CLUSTER_METADATA, {}


# -- streams and topics


def _of_stream(code: int) -> Callable[..., Asked]:
    return lambda command, generation: (code, {"stream": command.namespace})


def _of_topic(code: int) -> Callable[..., Asked]:
    return lambda command, generation: (code, _topic(command.topic))


def _create_stream(command: q.CreateNamespace, generation: Generation) -> Asked:
    return c.CREATE_STREAM, {"id": _id(command.id, generation), "name": _made(command.name, generation)}


def _create_topic(command: q.CreateTopic, generation: Generation) -> Asked:
    settings, name = command.settings, command.topic.name
    limits = settings.labels if "compression" in generation.requests[c.CREATE_TOPIC] else {}
    plain = q.TopicSettings(settings.retention_us, labels=limits)
    if command.if_exists is not q.IfExists.FAIL or settings != plain or not isinstance(name, str):
        raise unsupported("these settings of a topic")
    return c.CREATE_TOPIC, {
        "stream": command.topic.namespace,
        "id": _id(command.id, generation),
        "name": _made(name, generation),
        "partitions": command.partitions,
        "expiry": _age(settings.retention_us, generation),
        **_limits(limits),
    }


def _age(age: int, generation: Generation) -> int:
    """us, if the field can say it: up to 0.4 it counts seconds."""
    field = generation.requests[c.CREATE_TOPIC]["expiry"]
    if field.read(field.write(age), 0)[0] != age:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"an age of {age} us where {generation.name} counts otherwise")
    return age


def _limits(labels: dict[str, str]) -> Values:
    """Only labels that the fields give back as they are."""
    try:
        values: Values = {
            "compression": GZIP if labels.get("compression") == "gzip" else NONE,
            "max_size": int(labels.get("max_topic_size", 0)),
            "replication": int(labels.get("replication_factor", 0)),
        }
    except ValueError:
        raise unsupported("these labels of a topic") from None
    if labels_of(values) != labels:
        raise unsupported("these labels of a topic")
    return values


def _count(code: int) -> Callable[..., Asked]:
    return lambda command, generation: (code, {**_topic(command.topic), "count": command.count})


# -- messages and offsets


def _place(reader: q.Reader, partition: int | None, generation: Generation) -> Values:
    if partition is None and isinstance(reader, q.Consumer):
        raise unsupported("a consumer that does not name its partition")
    if partition is not None and isinstance(reader, q.Group) and generation.numbered_groups:
        raise unsupported("a partition that a group's member names")
    return {"reader": reader, "partition": partition}


def _fetch(command: q.Fetch, generation: Generation) -> Asked:
    reader = command.read_by or NOBODY
    if command.commit and command.read_by is None:
        raise unsupported("a commit for nobody")
    if command.create:
        raise unsupported("making a topic that is polled")
    count = _count_of(command)
    kind, value = _start(command.start, reader)
    place = {**_topic(command.topic), **_place(reader, command.partition, generation)}
    return c.POLL, {**place, "kind": kind, "value": value, "count": count, "commit": command.commit}  # type: ignore[typeddict-item]


def _count_of(command: q.Fetch) -> int:
    """How many messages to ask for.  Of the newest n it is n: the oldest of them alone cannot be asked for."""
    limit = command.max_records or MAX_RECORDS
    if not isinstance(command.start, q.Last):
        return limit
    if not 1 <= command.start.count <= limit:
        raise unsupported("the oldest of the newest messages")
    return command.start.count


def _number(value: int) -> int:
    """An offset or a time.  Raises CommandFailed(UNREPRESENTABLE) for one that no server takes."""
    if not 0 <= value < q.MAX_OFFSET:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"{value} where 0 to 2^63-2 are possible")
    return value


def _start(start: q.Start, reader: q.Reader) -> tuple[int, int]:
    match start:
        case int():
            return 1, _number(start)
        case q.FromTime(timestamp=timestamp):
            return 2, _number(timestamp)
        case q.First():
            return 3, 0
        case q.Last():
            return 4, 0
        case q.Next(reader=who, floor=0) if who == reader:
            return 5, 0
    raise unsupported("that start of a read")


def _one(partitions: tuple[int | None, ...] | None) -> int | None:
    if partitions is None or len(partitions) != 1:
        raise unsupported("the offsets of more than one partition")
    return partitions[0]


def _fetch_offset(command: q.FetchOffsets, generation: Generation) -> Asked:
    place = _place(command.reader, _one(command.partitions), generation)
    return c.GET_OFFSET, {**_topic(command.topic), **place}


def _delete_offset(command: q.DeleteOffsets, generation: Generation) -> Asked:
    place = _place(command.reader, _one(command.partitions), generation)
    return c.DELETE_OFFSET, {**_topic(command.topic), **place}


def _commit(command: q.CommitOffsets, generation: Generation) -> Asked:
    """What is to be read next is stored as what was read last, so there is no way to say 0."""
    partition = _one(tuple(command.offsets))
    after = command.offsets[partition]
    if command.member is not None or command.generation is not None or command.rising or after < 1:
        raise unsupported("a commit with a fence, or of 0")
    place = _place(command.reader, partition, generation)
    return c.STORE_OFFSET, {**_topic(command.topic), **place, "offset": _number(after - 1)}


# -- groups


def _group(topic: q.Topic, group: int | str) -> Values:
    return {**_topic(topic), "group": group}


def _of_group(code: int) -> Callable[..., Asked]:
    return lambda command, generation: (code, _group(command.topic, command.group))


def _create_group(command: q.CreateGroup, generation: Generation) -> Asked:
    if command.if_exists is not q.IfExists.FAIL or command.exclusive:
        raise unsupported("a group that may exist, or that no other topic may have")
    if generation.numbered_groups and command.group != str(command.id):
        raise unsupported("the name of a group")
    name = command.group if generation.numbered_groups else _made(command.group, generation)
    return c.CREATE_GROUP, {**_topic(command.topic), "id": _id(command.id, generation), "name": name}


def _groups(command: q.ListGroups, generation: Generation) -> Asked:
    if command.topic is None:
        raise unsupported("the groups of a stream")
    return c.GET_GROUPS, {"stream": command.namespace, "topic": command.topic}


def _join(command: q.JoinGroup, generation: Generation) -> Asked:
    plain = q.JoinGroup(command.topic, command.group, "", q.WhileConnected(), existing=True)
    if command != plain:
        raise unsupported("a member with a name, heartbeats or an assignor")
    return c.JOIN_GROUP, _group(command.topic, command.group)


def _leave(command: q.LeaveGroup, generation: Generation) -> Asked:
    if command.member or command.generation is not None:
        raise unsupported("another member than the connection")
    return c.LEAVE_GROUP, _group(command.topic, command.group)


ASKING: dict[type[q.Command], Callable[..., Asked]] = {
    q.Ping: _plain(c.PING),
    q.Describe: _plain(c.GET_STATS),
    q.FindLeader: _leader,
    q.DescribeSession: _session,
    q.ListSessions: _plain(c.GET_CLIENTS),
    q.Logout: _plain(c.LOGOUT),
    q.Fetch: _fetch,
    q.FetchOffsets: _fetch_offset,
    q.CommitOffsets: _commit,
    q.DeleteOffsets: _delete_offset,
    q.DescribeNamespace: _of_stream(c.GET_STREAM),
    q.ListNamespaces: _plain(c.GET_STREAMS),
    q.CreateNamespace: _create_stream,
    q.DeleteNamespace: _of_stream(c.DELETE_STREAM),
    q.DescribeTopic: _of_topic(c.GET_TOPIC),
    q.ListTopics: _of_stream(c.GET_TOPICS),
    q.CreateTopic: _create_topic,
    q.DeleteTopic: _of_topic(c.DELETE_TOPIC),
    q.CreatePartitions: _count(c.CREATE_PARTITIONS),
    q.DeletePartitions: _count(c.DELETE_PARTITIONS),
    q.DescribeGroup: _of_group(c.GET_GROUP),
    q.ListGroups: _groups,
    q.CreateGroup: _create_group,
    q.DeleteGroup: _of_group(c.DELETE_GROUP),
    q.JoinGroup: _join,
    q.LeaveGroup: _leave,
}
"""Command -> code and values.  Authenticate and Publish are asked for apart: they need more than the command."""
