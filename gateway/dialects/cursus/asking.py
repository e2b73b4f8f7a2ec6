"""A command as the payload of a request frame: the client's half.  commands.py and batch.py read them.

Text goes out as the Java and Python clients send it: in an envelope with the empty topic, CREATE in one with the topic
`admin`; batches bare.  Raises CommandFailed: UNSUPPORTED for what the protocol has no words for, UNREPRESENTABLE for a
name or a number that a line cannot hold.

What is about records is in saying.py; what upstream.py says is not said, is not said here.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.commands import (
    Authenticate,
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
    Ping,
    Publish,
    SyncGroup,
    TopicSettings,
)
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.cursus.answers import word_of
from gateway.dialects.cursus.exchange import DEFAULT_GROUP
from gateway.dialects.cursus.naming import (
    check_namespace,
    claim_words,
    digits,
    group_token,
    in_order,
    name_token,
    on_topic,
    token,
    topic_token,
    unsupported,
    who_words,
)
from gateway.dialects.cursus.saying import fetched, followed, published
from gateway.dialects.cursus.terms import CursusTerms, Negotiation, Seeking
from gateway.dialects.cursus.text import Line
from gateway.dialects.cursus.topics import CLEANUPS, DEFAULT_PARTITIONS, HOUR, LABELS, read_create
from gateway.dialects.dialect import Request


def write_request(request: Request, terms: CursusTerms) -> bytes:
    """The payload of the frame that asks."""
    command = request.command
    if isinstance(command, Publish):
        return published(request, command, terms)
    write = _WRITE.get(type(command))
    if write is None:
        raise unsupported(type(command).__name__)
    word = word_of(request)
    words = write(request, command, terms)
    end = -1 if word == "BATCH_COMMIT" else len(words)  # whose offsets are what the broker finds last
    line = " ".join((word, *words[:end], *claim_words(request), *words[end:])).encode()
    return (b"\0\5admin" if word == "CREATE" else b"\0\0") + line


# -- topics


def _latest(request: Request, command: LatestOffsets, terms: CursusTerms) -> list[str]:
    where = [] if command.partition is None else [f"partition={digits(command.partition)}"]
    return [on_topic(command.topic, terms), *where]


def _create(request: Request, command: CreateTopic, terms: CursusTerms) -> list[str]:
    if command.id is not None:
        raise unsupported("choosing the id of a topic")
    count = [f"partitions={digits(command.partitions)}"]
    if command.if_exists is not IfExists.GROW:
        if request.context is None or (command.if_exists, command.partitions) != (IfExists.KEEP, DEFAULT_PARTITIONS):
            raise unsupported("making a topic that must not be there, or must not grow")
        count = []  # as it was read; the real broker makes such a topic grow to 4 all the same
    words = [on_topic(command.topic, terms), *count, *_settings(command.settings)]
    try:
        read_create(Line("CREATE", " ".join(words).encode()))
    except CommandFailed as refusal:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"what CREATE refuses: {refusal.detail}") from refusal
    return words


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
    if isinstance(command.topic.name, int):
        raise unsupported("a topic by id")
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
        return in_order(topic_token(command.topic, terms), group, *entries[0])
    fence = [f"generation={command.generation}", f"member={token(command.member, 'member')}"]
    if word == "BATCH_COMMIT":
        payload = ",".join(f"P{partition}:{offset}" for partition, offset in entries)
        return [on_topic(command.topic, terms), f"group={group}", *reversed(fence), payload]
    [(partition, offset)] = entries
    return [on_topic(command.topic, terms), f"partition={partition}", f"group={group}", f"offset={offset}", *fence]


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
        raise unsupported("the leader of a topic: each of its partitions has one")
    said = request.context if isinstance(request.context, Seeking) else Seeking("FIND_COORDINATOR", key=DEFAULT_GROUP)
    return [f"{'group' if said.kind == 'group' else 'transactional_id'}={token(said.key, 'key')}"]


_WRITE: dict[type[Command], Callable[..., list[str]]] = {
    Ping: _ping,
    Authenticate: _authenticate,
    CreateTopic: _create,
    DeleteTopic: _one_topic,
    ListTopics: _list,
    DescribeTopic: _one_topic,
    Fetch: fetched,
    Follow: followed,
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

SAYABLE = frozenset({Publish, *_WRITE})
"""Kinds of commands that there are words for."""
