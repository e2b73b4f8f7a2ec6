"""What a command that succeeded is answered with: the server's half.  hearing.py reads it.

Every text is the broker's, to the order of its fields and the blanks in its lists: clients find what they want by
regular expression.  Source: protocol page, section 2.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import cast

import msgspec

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
    JoinGroup,
    LatestOffsets,
    LeaveGroup,
    ListGroups,
    ListTopics,
    Ping,
    Publish,
    SyncGroup,
)
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import (
    Authenticated,
    CommittedOffsets,
    Done,
    GroupDescription,
    Groups,
    Joined,
    Leader,
    Offsets,
    Reply,
    TopicDescription,
    Topics,
)
from gateway.dialects.cursus.moments import moment
from gateway.dialects.cursus.negotiation import agreed, capabilities
from gateway.dialects.cursus.terms import CursusTerms, Negotiation, Seeking, Spoken
from gateway.dialects.cursus.topics import HOUR
from gateway.dialects.dialect import Request

_HELP = (
    "CREATE,DELETE,LIST,PUBLISH,CONSUME,STREAM,JOIN_GROUP,SYNC_GROUP,LEAVE_GROUP,HEARTBEAT,COMMIT_OFFSET,"
    "BATCH_COMMIT,FETCH_OFFSET,LIST_OFFSETS,REGISTER_GROUP,SUBSCRIBE,GROUP_STATUS,LIST_GROUPS,DESCRIBE,METADATA,FIND_COORDINATOR,"
    "AUTH,PROTOCOL_INFO,NEGOTIATE,HELP"
)
"""The broker's order, without what is not served."""

WORDS: dict[type[Command], str] = {
    Ping: "HELP",
    Authenticate: "AUTH",
    CreateTopic: "CREATE",
    DeleteTopic: "DELETE",
    ListTopics: "LIST",
    DescribeTopic: "DESCRIBE",
    Publish: "PUBLISH",
    Fetch: "CONSUME",
    Follow: "STREAM",
    LatestOffsets: "LIST_OFFSETS",
    CommitOffsets: "COMMIT_OFFSET",
    FetchOffsets: "FETCH_OFFSET",
    CreateGroup: "REGISTER_GROUP",
    ListGroups: "LIST_GROUPS",
    DescribeGroup: "GROUP_STATUS",
    JoinGroup: "JOIN_GROUP",
    SyncGroup: "SYNC_GROUP",
    Heartbeat: "HEARTBEAT",
    LeaveGroup: "LEAVE_GROUP",
    FindLeader: "FIND_COORDINATOR",
}
"""How a command is said where the request does not tell: of several words the one that says most."""


def word_of(request: Request) -> str:
    """The word of a command, as it was spoken or as our client speaks it."""
    if isinstance(request.context, Spoken):
        return request.context.word
    command = request.command
    if isinstance(command, CommitOffsets):
        return "COMMIT" if command.member is None else "BATCH_COMMIT" if len(command.offsets) > 1 else "COMMIT_OFFSET"
    return WORDS.get(type(command), type(command).__name__)


def write_answer(request: Request, reply: Reply, terms: CursusTerms) -> bytes:
    """The payload of the frame that answers a command other than Publish and Fetch.

    Raises CommandFailed: UNREPRESENTABLE for what the wire cannot carry, INTERNAL for a reply that is none to it.
    """
    command = request.command
    writer = _WRITE.get((type(command), type(reply)))
    if writer is None:
        raise CommandFailed(Fault.INTERNAL, f"{type(reply).__name__} answers no {type(command).__name__}")
    return writer(request, reply, terms).encode("utf-8", "replace")


# -- words from elsewhere


def expressible(name: str) -> bool:
    """Whether a name can stand in a list and in a command of this wire."""
    return bool(name) and name.isprintable() and not any(part in name for part in (" ", ",", "message="))


def _word(text: str, terms: CursusTerms) -> str:
    """A value that another dialect may have put blanks into, as one word."""
    if text.isprintable() and " " not in text:
        return text
    if terms.policy == "reject":
        raise CommandFailed(Fault.UNREPRESENTABLE, "a value with blanks")
    kept = [char if char.isprintable() and char != " " else None for char in text]
    if terms.policy == "replace":
        return "".join(char or "_" for char in kept)
    return "".join(char or f"\\u{ord(old):04x}" for char, old in zip(kept, text, strict=True))


# -- topics


def _policy(topic: TopicDescription, terms: CursusTerms) -> str:
    settings, labels = topic.settings, topic.settings.labels
    return " ".join(
        (
            f"cleanup_policy={settings.cleanup}",
            f"partitioner={_word(labels.get('partitioner', 'hash_key'), terms)}",
            f"auth_policy={_word(labels.get('auth_policy', 'open'), terms)}",
            f"read_acl={_word(labels.get('read_acl', ''), terms)}",
            f"write_acl={_word(labels.get('write_acl', ''), terms)}",
            f"retention_hours={_hours(settings.retention_us)}",
            f"retention_bytes={settings.retention_bytes}",
        )
    )


def _hours(us: int) -> int:
    """Begun hours, so that a short retention does not look like none."""
    return -(-us // HOUR)


def _topic(request: Request, reply: TopicDescription, terms: CursusTerms) -> str:
    count = len(reply.partitions)
    match word_of(request):
        case "LIST":
            return f"OK topic={_word(reply.name, terms)} partitions={count}"
        case "METADATA":
            leaders, epochs = ",".join([terms.advertise] * count), ",".join(["0"] * count)
            placed = f"partitions={count} leaders={leaders} epochs={epochs}"
            return f"OK topic={_word(reply.name, terms)} {placed} {_policy(reply, terms)}"
        case "DESCRIBE":
            return _described(reply, terms.advertise)
    return f"OK topic={_word(reply.name, terms)} partitions={count} {_policy(reply, terms)}"


def _described(topic: TopicDescription, address: str) -> str:
    settings, labels = topic.settings, topic.settings.labels
    policy: dict[str, object] = {
        "retention_hours": _hours(settings.retention_us),
        "retention_bytes": settings.retention_bytes,
        "cleanup_policy": settings.cleanup,
        "partitioner": labels.get("partitioner", "hash_key"),
        "auth_policy": labels.get("auth_policy", "open"),
        "read_acl": [name for name in labels.get("read_acl", "").split(",") if name],
        "write_acl": [name for name in labels.get("write_acl", "").split(",") if name],
    }
    here = [address]
    described = {
        "status": "OK",
        "topic": topic.name,
        "partitions": [
            {"id": at.index, "leader": address, "replicas": here, "isr": here, "leo": at.end, "hwm": at.end}
            for at in topic.partitions
        ],
        "policy": {key: value for key, value in policy.items() if value},
    }
    return json.dumps(described, indent=2, ensure_ascii=False)


def _topics(request: Request, reply: Topics, terms: CursusTerms) -> str:
    names = [topic.name for topic in reply.topics if expressible(topic.name)]
    return f"OK count={len(names)} topics={','.join(names)}"


def _deleted(request: Request, reply: Done, terms: CursusTerms) -> str:
    return f"OK topic={cast(DeleteTopic, request.command).topic.name} deleted=true"


def _offsets(request: Request, reply: Offsets, terms: CursusTerms) -> str:
    entries = [f"P{at.partition}:earliest={at.start}:latest={at.end}:leo={at.end}:hwm={at.end}" for at in reply.offsets]
    name = cast(LatestOffsets, request.command).topic.name
    return f"OK topic={name} partitions={len(entries)} offsets={','.join(entries)}"


# -- groups


def _joined(request: Request, reply: Joined, terms: CursusTerms) -> str:
    """Blanks in the brackets, and after them nothing: Java's regular expression wants the whole answer like this.

    But for who joins in a generation, and so has only come back.
    """
    owned = " ".join(map(str, reply.assignment))
    again = " resumed=true" if isinstance(request.command, SyncGroup) and word_of(request) == "JOIN_GROUP" else ""
    return f"OK generation={reply.generation} member={_word(reply.member, terms)} assignments=[{owned}]{again}"


def _alive(request: Request, reply: Done, terms: CursusTerms) -> str:
    command = cast(Heartbeat, request.command)
    return f"OK member={command.member} generation={command.generation}"


def _left(request: Request, reply: Done, terms: CursusTerms) -> str:
    command = cast(LeaveGroup, request.command)
    return f"OK group={command.group} member={command.member} left=true"


def _committed(request: Request, reply: Done, terms: CursusTerms) -> str:
    count = len(cast(CommitOffsets, request.command).offsets)
    return f"OK batched={count}" if word_of(request) == "BATCH_COMMIT" else "OK"


def _offset(request: Request, reply: CommittedOffsets, terms: CursusTerms) -> str:
    """What was never committed is 0 on this wire."""
    partitions = cast(FetchOffsets, request.command).partitions or ()
    return f"OK offset={next((reply.offsets[at] for at in partitions if at in reply.offsets), 0)}"


def _registered(request: Request, reply: GroupDescription, terms: CursusTerms) -> str:
    command = cast(CreateGroup, request.command)
    done = "subscribed" if word_of(request) == "SUBSCRIBE" else "registered"
    return f"OK group={command.group} topic={command.topic.name} {done}=true"


def _groups(request: Request, reply: Groups, terms: CursusTerms) -> str:
    names = dict.fromkeys(group.name for group in reply.groups if expressible(group.name))
    return f"OK count={len(names)} groups={','.join(names)}"


def _status(request: Request, reply: GroupDescription, terms: CursusTerms) -> str:
    members = [
        {"member_id": one.member, "last_heartbeat": moment(one.heard), "assignments": list(one.assignment)}
        for one in reply.members
    ]
    status = {
        "status": "OK",
        "group_name": reply.name,
        "topic_name": reply.topic,
        "state": "Stable" if members else "Dead",
        "generation": reply.generation,
        "member_count": len(members),
        "partition_count": reply.partitions,
        "members": members,
        "last_rebalance": moment(reply.rebalanced),
    }
    return msgspec.json.encode(status).decode()


# -- service


def _pong(request: Request, reply: Done, terms: CursusTerms) -> str:
    if isinstance(request.context, Negotiation):
        return agreed(request.context)
    return capabilities() if word_of(request) == "PROTOCOL_INFO" else f"OK commands={_HELP}"


def _authenticated(request: Request, reply: Authenticated, terms: CursusTerms) -> str:
    return f"OK principal={cast(Authenticate, request.command).principal} authenticated=true"


def _coordinator(request: Request, reply: Leader, terms: CursusTerms) -> str:
    host, _, port = (reply.address or terms.advertise).rpartition(":")
    kind = request.context.kind if isinstance(request.context, Seeking) else "group"
    return f"OK coordinator_id=standalone coordinator_type={kind} host={host} port={port}"


_WRITE: dict[tuple[type, type], Callable[..., str]] = {
    (Ping, Done): _pong,
    (Authenticate, Authenticated): _authenticated,
    (CreateTopic, TopicDescription): _topic,
    (DeleteTopic, Done): _deleted,
    (ListTopics, Topics): _topics,
    (DescribeTopic, TopicDescription): _topic,
    (LatestOffsets, Offsets): _offsets,
    (CommitOffsets, Done): _committed,
    (FetchOffsets, CommittedOffsets): _offset,
    (CreateGroup, GroupDescription): _registered,
    (ListGroups, Groups): _groups,
    (DescribeGroup, GroupDescription): _status,
    (JoinGroup, Joined): _joined,
    (SyncGroup, Joined): _joined,
    (Heartbeat, Done): _alive,
    (LeaveGroup, Done): _left,
    (FindLeader, Leader): _coordinator,
}
