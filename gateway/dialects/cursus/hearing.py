"""What an answer says: the client's half.  answers.py writes it.

Brokers of all ages of v1 are understood: the order of fields does not matter, and those not known are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable

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
    TopicSettings,
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
    MemberDescription,
    Offsets,
    Outcome,
    PartitionDescription,
    PartitionOffsets,
    Reply,
    TopicDescription,
    Topics,
)
from gateway.dialects.cursus.acks import read_ack
from gateway.dialects.cursus.batch import MAGIC, read_records
from gateway.dialects.cursus.errors import CONTROL, failure_of
from gateway.dialects.cursus.moments import microseconds
from gateway.dialects.cursus.terms import CursusTerms
from gateway.dialects.cursus.text import fields_of
from gateway.dialects.cursus.topics import HOUR
from gateway.dialects.dialect import Request

_Fields = dict[str, str]


def read_answer(request: Request, frame: bytes, terms: CursusTerms) -> Outcome:
    """A whole reply frame -> what it says to that request.

    Raises CommandFailed(MALFORMED) if it is no answer to it.
    """
    payload, command = frame[4:], request.command
    if payload.startswith(MAGIC):
        if isinstance(command, Fetch):
            return read_records(command, frame)
        raise CommandFailed(Fault.MALFORMED, "a data frame that was not asked for")
    try:
        text = payload.decode().strip()
        if text.startswith("ERROR") or "REBALANCE_REQUIRED" in text.split():
            return failure_of(text)
        if isinstance(command, Follow) and text.startswith(CONTROL):
            return failure_of(text)
        if isinstance(command, Publish):
            return read_ack(command, text)
        if text.startswith("{"):
            return _document(command, text, terms)
        return _answer(command, text, terms)
    except (KeyError, ValueError) as error:  # also what msgspec and UTF-8 say
        raise CommandFailed(Fault.MALFORMED, f"no answer to {type(command).__name__}: {error!r}") from error


def _answer(command: Command, text: str, terms: CursusTerms) -> Reply:
    bare = isinstance(command, FetchOffsets) and text.isdigit()  # brokers before 2026-07-08
    if not bare and text != "OK" and not text.startswith("OK "):
        raise ValueError(text[:80])
    return _READ[type(command)](command, text, fields_of(text), terms)


# -- JSON documents


class _Partition(msgspec.Struct):
    id: int
    leo: int = 0


class _Policy(msgspec.Struct):
    retention_hours: int = 0
    retention_bytes: int = 0
    cleanup_policy: str = "delete"
    partitioner: str = "hash_key"
    auth_policy: str = "open"
    read_acl: list[str] | None = None
    write_acl: list[str] | None = None


class _TopicDocument(msgspec.Struct):
    topic: str
    partitions: list[_Partition] | None = None
    policy: _Policy = msgspec.field(default_factory=_Policy)


class _Member(msgspec.Struct):
    member_id: str
    last_heartbeat: str = ""
    assignments: list[int] | None = None


class _GroupDocument(msgspec.Struct):
    group_name: str
    topic_name: str = ""
    generation: int = 0
    partition_count: int = 0
    members: list[_Member] | None = None
    last_rebalance: str = ""


def _document(command: Command, text: str, terms: CursusTerms) -> Outcome:
    if isinstance(command, DescribeTopic):
        found = msgspec.json.decode(text, type=_TopicDocument)
        partitions = tuple(PartitionDescription(at.id, 0, at.leo, 0, 0) for at in found.partitions or ())
        return TopicDescription(terms.namespace, found.topic, 0, 0, _settings_of(found.policy), partitions)
    if isinstance(command, DescribeGroup):
        return _group(command, msgspec.json.decode(text, type=_GroupDocument), terms)
    raise ValueError("a JSON document")


def _group(command: DescribeGroup, found: _GroupDocument, terms: CursusTerms) -> Outcome:
    if command.topic.name not in ("", found.topic_name):
        return CommandFailed(Fault.NO_SUCH_GROUP, f"{found.group_name} belongs to {found.topic_name}")
    members = tuple(
        MemberDescription(one.member_id, tuple(one.assignments or ()), microseconds(one.last_heartbeat))
        for one in found.members or ()
    )
    return GroupDescription(
        terms.namespace,
        found.topic_name,
        found.group_name,
        0,
        found.generation,
        found.partition_count,
        members,
        microseconds(found.last_rebalance),
    )


def _settings_of(policy: _Policy) -> TopicSettings:
    """What a broker says of every topic, `hash_key` and `open`, is not a label."""
    labels = {
        "partitioner": policy.partitioner if policy.partitioner != "hash_key" else "",
        "auth_policy": policy.auth_policy if policy.auth_policy != "open" else "",
        "read_acl": ",".join(policy.read_acl or ()),
        "write_acl": ",".join(policy.write_acl or ()),
    }
    return TopicSettings(
        retention_us=policy.retention_hours * HOUR,
        retention_bytes=policy.retention_bytes,
        cleanup=policy.cleanup_policy,
        labels={key: value for key, value in labels.items() if value},
    )


# -- lines


def _topic(command: CreateTopic | DescribeTopic, text: str, fields: _Fields, terms: CursusTerms) -> Reply:
    said = {key: value for key, value in fields.items() if key in _Policy.__struct_fields__}
    acls = {key: said.pop(key).split(",") for key in ("read_acl", "write_acl") if said.get(key)}
    policy = msgspec.convert({**{key: value for key, value in said.items() if value}, **acls}, _Policy, strict=False)
    partitions = tuple(PartitionDescription(at, 0, 0, 0, 0) for at in range(_bounded(fields["partitions"])))
    return TopicDescription(terms.namespace, fields["topic"], 0, 0, _settings_of(policy), partitions)


def _bounded(text: str) -> int:
    """A number of partitions; more than a million are none."""
    count = int(text)
    if not 0 <= count <= 1_000_000:
        raise ValueError(f"{count} partitions")
    return count


def _topics(command: ListTopics, text: str, fields: _Fields, terms: CursusTerms) -> Reply:
    names = [name for name in fields["topics"].split(",") if name]
    return Topics(tuple(TopicDescription(terms.namespace, name, 0, 0, TopicSettings(), ()) for name in names))


_ENTRY = re.compile(r"P(\d+):earliest=(\d+):latest=(\d+)(?::[a-z]+=\d+)*")


def _offsets(command: LatestOffsets, text: str, fields: _Fields, terms: CursusTerms) -> Reply:
    found = []
    for entry in fields["offsets"].split(",") if fields["offsets"] else ():
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise ValueError(entry)
        found.append(PartitionOffsets(int(match[1]), int(match[2]), int(match[3])))
    return Offsets(_bounded(fields["partitions"]), tuple(found))


_ASSIGNED = re.compile(r"assignments=\[([0-9, ]*)\]")


def _joined(command: JoinGroup | SyncGroup, text: str, fields: _Fields, terms: CursusTerms) -> Reply:
    """Commas are in the broker's documents, blanks in its answers.  SYNC_GROUP once gave the assignments alone."""
    found = _ASSIGNED.search(text)
    if found is None:
        raise ValueError("no assignments")
    owned = tuple(map(int, found[1].replace(",", " ").split()))
    resumed = fields.get("resumed") == "true"
    if isinstance(command, SyncGroup) and "generation" not in fields:
        return Joined(command.member, command.generation, owned, resumed)
    return Joined(fields["member"], int(fields["generation"]), owned, resumed)


def _offset(command: FetchOffsets, text: str, fields: _Fields, terms: CursusTerms) -> Reply:
    """0 is what was never committed."""
    offset = int(text) if text.isdigit() else int(fields["offset"])
    partitions = command.partitions or ()
    return CommittedOffsets({partition: offset for partition in partitions[:1] if offset and partition is not None})


def _registered(command: CreateGroup, text: str, fields: _Fields, terms: CursusTerms) -> Reply:
    return GroupDescription(terms.namespace, fields["topic"], fields["group"], 0, 0, 0)


def _groups(command: ListGroups, text: str, fields: _Fields, terms: CursusTerms) -> Reply:
    names = [name for name in fields["groups"].split(",") if name]
    return Groups(tuple(GroupDescription(terms.namespace, "", name, 0, 0, 0) for name in names))


def _leader(command: FindLeader, text: str, fields: _Fields, terms: CursusTerms) -> Reply:
    return Leader(f"{fields['host']}:{fields['port']}")


def _authenticated(command: Authenticate, text: str, fields: _Fields, terms: CursusTerms) -> Reply:
    return Authenticated(fields["principal"])


def _done(command: Command, text: str, fields: _Fields, terms: CursusTerms) -> Reply:
    return Done()


_READ: dict[type[Command], Callable[..., Reply]] = {
    Ping: _done,
    Authenticate: _authenticated,
    CreateTopic: _topic,
    DeleteTopic: _done,
    ListTopics: _topics,
    DescribeTopic: _topic,
    LatestOffsets: _offsets,
    CommitOffsets: _done,
    FetchOffsets: _offset,
    CreateGroup: _registered,
    ListGroups: _groups,
    JoinGroup: _joined,
    SyncGroup: _joined,
    Heartbeat: _done,
    LeaveGroup: _done,
    FindLeader: _leader,
}
