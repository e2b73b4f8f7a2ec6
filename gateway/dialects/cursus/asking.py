"""A command as the payload of a request frame: the client's half.  commands.py and batch.py read them.

Text goes out as the Java and Python clients send it: in an envelope with the empty topic, CREATE in one with the topic
`admin`; batches bare.  Raises CommandFailed: UNSUPPORTED for what the protocol has no words for, UNREPRESENTABLE for a
name or a number that a line cannot hold.

Not said, since the server has no ear for it: the size of a read in bytes, the time after which a member that is silent
is dropped (10 s), that a commit may go backwards and that a group may have several topics (both are refused, aloud).  A
real broker remembers where each of its
connections reads a partition and heeds the `offset` of the first CONSUME only: read every time on a new connection.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from gateway.core.commands import (
    Authenticate,
    ByKey,
    Command,
    CommitOffsets,
    CreateGroup,
    CreateTopic,
    DeleteTopic,
    DescribeGroup,
    DescribeTopic,
    Fetch,
    FetchOffsets,
    FindLeader,
    Follow,
    Heartbeat,
    Heartbeats,
    IfExists,
    JoinGroup,
    LatestOffsets,
    LeaveGroup,
    ListGroups,
    ListTopics,
    Next,
    Ping,
    Publish,
    SyncGroup,
    TopicSettings,
)
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import MAX_RECORDS, Record
from gateway.dialects.cursus.acks import said_of
from gateway.dialects.cursus.answers import word_of
from gateway.dialects.cursus.batch import SAID, write_batch
from gateway.dialects.cursus.converting import encode
from gateway.dialects.cursus.exchange import DEFAULT_GROUP, DEFAULT_RECORDS
from gateway.dialects.cursus.naming import (
    check_namespace,
    digits,
    group_token,
    name_token,
    on_topic,
    token,
    topic_token,
    unsupported,
    who_words,
)
from gateway.dialects.cursus.terms import Consuming, CursusTerms, Negotiation, Seeking
from gateway.dialects.cursus.text import BLANKS, KEYS
from gateway.dialects.cursus.topics import CLEANUPS, DEFAULT_PARTITIONS, HOUR, LABELS
from gateway.dialects.dialect import Request

MEMBER = "gateway"
"""Who our client says it is where somebody has to be named and nobody looks."""

_MAX_PARTITION = (1 << 31) - 1


def write_request(request: Request, terms: CursusTerms) -> bytes:
    """The payload of the frame that asks."""
    command = request.command
    if isinstance(command, Publish):
        return _published(request, command, terms)
    write = _WRITE.get(type(command))
    if write is None:
        raise unsupported(type(command).__name__)
    word = word_of(request)
    line = " ".join((word, *write(request, command, terms))).encode()
    return (b"\0\5admin" if word == "CREATE" else b"\0\0") + line


# -- records


def _published(request: Request, command: Publish, terms: CursusTerms) -> bytes:
    if command.create:
        raise unsupported("making a topic by writing to it")
    topic_token(command.topic, terms)
    said = said_of(request)
    if isinstance(command.to, int) and said.batched:
        if not 0 <= command.to <= _MAX_PARTITION:
            raise CommandFailed(Fault.UNREPRESENTABLE, f"partition {command.to}")
        return write_batch(command, command.to, said, terms.losses)
    return b"\0\0PUBLISH " + _one_record(command, said.idempotent, terms)


def _one_record(command: Publish, idempotent: bool, terms: CursusTerms) -> bytes:
    """The arguments of a PUBLISH: how to leave the choice of a partition to the server."""
    if command.batch.count != 1:
        raise unsupported("leaving the partition of several records open")
    [record] = command.batch.records()
    key = record.key or b""
    if isinstance(command.to, ByKey) and (command.to.partitioner, command.to.key) != ("fnv1a_64", key):
        raise unsupported("a partition but by FNV-1a-64 of the record's key")
    if key and not isinstance(command.to, int | ByKey):
        raise unsupported("a record with a key but no matter where")
    value = record.value or b""
    if not value or value.strip(BLANKS) != value:
        raise CommandFailed(Fault.UNREPRESENTABLE, "a value that is empty or has blanks at its ends")
    parts = [on_topic(command.topic, terms).encode(), b"producerId=" + _octets(record.producer, "producer id")]
    parts.append(b"acks=" + SAID[command.acks])
    if isinstance(command.to, int):
        parts.append(b"partition=%d" % command.to)
    parts += [b"seqNum=%d" % record.sequence] if record.sequence else []
    parts += [b"epoch=%d" % record.epoch] if record.epoch else []
    parts += [b"key=" + _octets(key, "key")] if key else []
    parts += [b"isIdempotent=true"] if idempotent else []
    encode([(0, record)], command.batch.origin, terms.losses)  # counts what is lost, and refuses what is too long
    _check_plain(record)
    return b" ".join((*parts, b"message=" + value))


def _check_plain(record: Record) -> None:
    if record.event_type or record.schema_version or record.aggregate_version or record.metadata:
        raise CommandFailed(Fault.UNREPRESENTABLE, "an event in a PUBLISH")


def _octets(value: bytes, what: str) -> bytes:
    try:
        return token(value.decode(), what).encode()
    except UnicodeDecodeError:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"a {what} that is no text") from None


def _fetch(request: Request, command: Fetch, terms: CursusTerms) -> list[str]:
    if command.partition is None or command.commit or command.create:
        raise unsupported("a Fetch but of one partition, without commit")
    if not isinstance(command.start, int | Next):
        raise unsupported("a Fetch but from an offset")
    parts = _reading(request, command, command.partition, command.start, terms)
    return [*parts, f"wait_ms={math.ceil(command.wait * 1000)}"] if command.wait else parts


def _follow(request: Request, command: Follow, terms: CursusTerms) -> list[str]:
    """Without a group in the seed's form, which the real broker does not know, and which cannot ask for less."""
    if isinstance(command.start, Next):
        return _reading(request, command, command.partition, command.start, terms)
    if not isinstance(command.start, int) or 0 < command.max_records < DEFAULT_RECORDS:
        raise unsupported("a Follow but from an offset, and without a group in less than 8192 records at a time")
    return _in_order(topic_token(command.topic, terms), digits(command.partition), digits(command.start))


def _reading(
    request: Request, command: Fetch | Follow, partition: int, start: int | Next, terms: CursusTerms
) -> list[str]:
    group, offset = ([], start) if isinstance(start, int) else ([f"group={group_token(start.reader)}"], start.floor)
    said = request.context if isinstance(request.context, Consuming) else Consuming("")
    parts = [on_topic(command.topic, terms), f"partition={digits(partition)}", f"offset={digits(offset)}", *group]
    parts += [] if said.generation is None else [f"generation={said.generation}"]
    parts.append(f"member={token(said.member or MEMBER, 'member')}")
    if command.max_records != DEFAULT_RECORDS:
        parts.append(f"batch={min(command.max_records or MAX_RECORDS, MAX_RECORDS)}")
    return parts


def _latest(request: Request, command: LatestOffsets, terms: CursusTerms) -> list[str]:
    where = [] if command.partition is None else [f"partition={digits(command.partition)}"]
    return [on_topic(command.topic, terms), *where]


# -- topics


def _create(request: Request, command: CreateTopic, terms: CursusTerms) -> list[str]:
    if command.id is not None:
        raise unsupported("choosing the id of a topic")
    if command.if_exists is IfExists.KEEP and command.partitions == DEFAULT_PARTITIONS:
        return [on_topic(command.topic, terms), *_settings(command.settings)]
    if command.if_exists is not IfExists.GROW:
        raise unsupported("making a topic that must not be there, or must not grow")
    if command.partitions < 1:
        raise CommandFailed(Fault.UNREPRESENTABLE, "a topic without partitions")
    return [on_topic(command.topic, terms), f"partitions={digits(command.partitions)}", *_settings(command.settings)]


def _settings(settings: TopicSettings) -> list[str]:
    if settings.partitioner or settings.labels.keys() - set(LABELS):
        raise CommandFailed(Fault.UNREPRESENTABLE, "a setting that CREATE does not have")
    if settings.retention_us % HOUR or settings.cleanup not in CLEANUPS.values():
        raise CommandFailed(Fault.UNREPRESENTABLE, "a retention that is not in hours, or another cleanup")
    parts = [
        "idempotent=true" if settings.idempotent else "",
        "event_sourcing=true" if settings.event_sourcing else "",
        f"cleanup_policy={settings.cleanup}" if settings.cleanup != "delete" else "",
        f"retention_hours={digits(settings.retention_us // HOUR)}" if settings.retention_us else "",
        f"retention_bytes={digits(settings.retention_bytes)}" if settings.retention_bytes else "",
        *(f"{key}={token(settings.labels[key], key)}" for key in LABELS if key in settings.labels),
    ]
    return [part for part in parts if part]


def _one_topic(request: Request, command: DeleteTopic | DescribeTopic, terms: CursusTerms) -> list[str]:
    return [on_topic(command.topic, terms)]


def _list(request: Request, command: ListTopics, terms: CursusTerms) -> list[str]:
    check_namespace(command.namespace, terms)
    return []


# -- groups


def _join(request: Request, command: JoinGroup, terms: CursusTerms) -> list[str]:
    if command.create or command.assignor or not isinstance(command.liveness, Heartbeats):
        raise unsupported("members by connection, a choice of assignor, or making a topic by joining")
    if command.existing or not command.distinct or command.resume is not None:
        raise unsupported("joining a group that has to be there, or under a name that may be a member's")
    return who_words(command.topic, command.group, command.member, terms)


def _membership(request: Request, command: SyncGroup | Heartbeat | LeaveGroup, terms: CursusTerms) -> list[str]:
    who = who_words(command.topic, command.group, command.member, terms)
    return who if command.generation is None else [*who, f"generation={command.generation}"]


def _register(request: Request, command: CreateGroup, terms: CursusTerms) -> list[str]:
    if command.id is not None or command.if_exists is not IfExists.KEEP:
        raise unsupported("a group with an id, or one that must not be there")
    return [on_topic(command.topic, terms), f"group={token(command.group, 'group')}"]


def _groups(request: Request, command: ListGroups, terms: CursusTerms) -> list[str]:
    check_namespace(command.namespace, terms)
    if command.topic is not None:
        raise unsupported("the groups of one topic")
    return []


def _status(request: Request, command: DescribeGroup, terms: CursusTerms) -> list[str]:
    """A topic is not said: a Cursus group has one, and it is compared with the answer's."""
    check_namespace(command.topic.namespace, terms)
    return [f"group={name_token(command.group, 'group')}"]


# -- offsets


def _commit(request: Request, command: CommitOffsets, terms: CursusTerms) -> list[str]:
    group, word = group_token(command.reader), word_of(request)
    entries = [(digits(partition), digits(offset)) for partition, offset in command.offsets.items()]
    if (command.member is None) is not (command.generation is None) or not entries:
        raise unsupported("half a fence, or a commit of nothing")
    if command.bounded:
        raise unsupported("a commit that must not be behind the end")
    if word != "BATCH_COMMIT" and len(entries) != 1:
        raise unsupported("a commit of several partitions without a member")
    if command.member is None:  # the seed's form, which the real broker does not know
        return _in_order(topic_token(command.topic, terms), group, *entries[0])
    fence = [f"generation={command.generation}", f"member={token(command.member, 'member')}"]
    if word == "BATCH_COMMIT":
        payload = ",".join(f"P{partition}:{offset}" for partition, offset in entries)
        return [on_topic(command.topic, terms), f"group={group}", *reversed(fence), payload]
    [(partition, offset)] = entries
    return [on_topic(command.topic, terms), f"partition={partition}", f"group={group}", f"offset={offset}", *fence]


def _in_order(*values: str) -> list[str]:
    if any(value.partition("=")[0].encode() in KEYS and "=" in value for value in values):
        raise CommandFailed(Fault.UNREPRESENTABLE, "a name that looks like an argument")
    return list(values)


def _fetch_offset(request: Request, command: FetchOffsets, terms: CursusTerms) -> list[str]:
    if command.partitions is None or len(command.partitions) != 1:
        raise unsupported("the offsets of more than one partition")
    group = f"group={group_token(command.reader)}"
    return [on_topic(command.topic, terms), f"partition={digits(command.partitions[0])}", group]


# -- service


def _ping(request: Request, command: Ping, terms: CursusTerms) -> list[str]:
    if not isinstance(request.context, Negotiation):
        return []
    said = request.context
    parts = ["version=1"]
    parts += [f"features={token(said.features, 'feature')}"] if said.features else []
    return parts if said.require is None else [*parts, f"require_features={'true' if said.require else 'false'}"]


def _authenticate(request: Request, command: Authenticate, terms: CursusTerms) -> list[str]:
    if command.mechanism != "plain":
        raise unsupported(f"the mechanism {command.mechanism}")
    return [f"principal={token(command.principal, 'principal')}", f"token={token(command.secret, 'token')}"]


def _coordinator(request: Request, command: FindLeader, terms: CursusTerms) -> list[str]:
    if command.subject is not None:
        raise unsupported("the leader of a topic apart from its METADATA")
    said = request.context if isinstance(request.context, Seeking) else Seeking("FIND_COORDINATOR", key=DEFAULT_GROUP)
    return [f"{'group' if said.kind == 'group' else 'transactional_id'}={token(said.key, 'key')}"]


_WRITE: dict[type[Command], Callable[..., list[str]]] = {
    Ping: _ping,
    Authenticate: _authenticate,
    CreateTopic: _create,
    DeleteTopic: _one_topic,
    ListTopics: _list,
    DescribeTopic: _one_topic,
    Fetch: _fetch,
    Follow: _follow,
    LatestOffsets: _latest,
    CommitOffsets: _commit,
    FetchOffsets: _fetch_offset,
    CreateGroup: _register,
    ListGroups: _groups,
    DescribeGroup: _status,
    JoinGroup: _join,
    SyncGroup: _membership,
    Heartbeat: _membership,
    LeaveGroup: _membership,
    FindLeader: _coordinator,
}
