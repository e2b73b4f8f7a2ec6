"""What the arguments of a text command mean: the server's half.  asking.py writes them.

Texts, forms and the order of checks are those of the protocol page, section 2; section 5 says what is accepted besides.
Every reader raises CommandFailed with the words for the peer.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gateway.core.commands import (
    Authenticate,
    CommitOffsets,
    CreateGroup,
    DescribeGroup,
    FetchOffsets,
    FindLeader,
    Group,
    Heartbeat,
    Heartbeats,
    IfExists,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    Ping,
    SyncGroup,
    Topic,
)
from gateway.core.faults import Fault
from gateway.dialects.cursus.exchange import read_consume, read_publish, read_stream
from gateway.dialects.cursus.negotiation import negotiate
from gateway.dialects.cursus.terms import Seeking, Spoken
from gateway.dialects.cursus.text import Line, atoi, parse_offset, quoted, refused
from gateway.dialects.cursus.topics import (
    read_create,
    read_delete,
    read_describe,
    read_list,
    read_list_offsets,
    read_metadata,
    spoken,
    topic_of,
)
from gateway.dialects.dialect import Request

SESSION_SECONDS = 10.0
"""Until a member that is not heard of is dropped."""

Reader = Callable[[Line], Request]


# -- groups


def _join(line: Line) -> Request:
    """With a generation it is a member that goes on after a reconnect, and fails where SYNC_GROUP would."""
    topic, group, member = topic_of(line), line.need(b"group"), line.need(b"member")
    if line.fields.get(b"generation"):
        return spoken(line, SyncGroup(topic, group, member, _generation(line)))
    life = Heartbeats(SESSION_SECONDS)
    return spoken(line, JoinGroup(topic, group, member, life, distinct=True, exclusive=True))


def _generation(line: Line) -> int:
    line.need(b"generation")
    value = atoi(line.fields[b"generation"])
    if value is None:
        raise refused(f"invalid_generation command={line.word}", Fault.INVALID_ARGUMENT)
    return value


def _sync(line: Line) -> Request:
    who = topic_of(line), line.need(b"group"), line.need(b"member")
    return spoken(line, SyncGroup(*who, _generation(line)))


def _heartbeat(line: Line) -> Request:
    who = topic_of(line), line.need(b"group"), line.need(b"member")
    return spoken(line, Heartbeat(*who, _generation(line)))


def _leave(line: Line) -> Request:
    """Java and Python never send their generation, and to the broker of today never leave."""
    who = topic_of(line), line.need(b"group"), line.need(b"member")
    return spoken(line, LeaveGroup(*who, _generation(line) if line.fields.get(b"generation") else None))


def _register(line: Line) -> Request:
    return spoken(line, CreateGroup(topic_of(line), line.need(b"group"), if_exists=IfExists.KEEP, exclusive=True))


def _group_status(line: Line) -> Request:
    return spoken(line, DescribeGroup(Topic(line.namespace, ""), line.need(b"group")))


def _list_groups(line: Line) -> Request:
    return spoken(_bare(line), ListGroups(line.namespace))


# -- offsets


def _commit(line: Line) -> Request:
    """The seed's form has no member and is not fenced."""
    topic, partition = topic_of(line), _partition(line)
    group, offset = Group(line.need(b"group")), _offset(line)
    member, generation = (line.need(b"member"), _generation(line)) if line.keyed else (None, None)
    return spoken(line, CommitOffsets(topic, group, {partition: offset}, member, generation, rising=True))


def _partition(line: Line) -> int:
    line.need(b"partition")
    value = atoi(line.fields[b"partition"])
    if value is None or value < 0:
        raise refused("invalid_partition", Fault.INVALID_ARGUMENT)
    return value


def _offset(line: Line) -> int:
    line.need(b"offset")
    value = parse_offset(line.fields[b"offset"])
    if value is None:
        raise refused("invalid_offset", Fault.INVALID_OFFSET)
    return value


def _batch_commit(line: Line) -> Request:
    """The offsets are the last token, as all clients send them, or the field `offsets`, as Wire v2 has it."""
    topic, group, member = topic_of(line), line.need(b"group"), line.need(b"member")
    generation = _generation(line)
    entries = line.fields.get(b"offsets") or line.args.split()[-1]
    offsets: dict[int | None, int] = {}
    for entry in entries.split(b","):
        partition, offset = _entry(entry)
        if partition in offsets:
            where = f"partition={partition} group={group} topic={topic.name}"
            raise refused(f"duplicate_partition {where}", Fault.INVALID_ARGUMENT)
        offsets[partition] = offset
    return spoken(line, CommitOffsets(topic, Group(group), offsets, member, generation, rising=True))


def _entry(entry: bytes) -> tuple[int, int]:
    """`P0:3`, or `0:3` as cursus-client 0.1.0 writes it for Java and Python."""
    shown = quoted(entry.decode("utf-8", "replace"))
    parts = entry.split(b":")
    if len(parts) != 2:
        raise refused(f"invalid_batch_commit_entry entry={shown}")
    partition, offset = atoi(parts[0].removeprefix(b"P")), parse_offset(parts[1])
    if partition is None or partition < 0:
        raise refused(f"invalid_partition entry={shown}", Fault.INVALID_ARGUMENT)
    if offset is None:
        raise refused(f"invalid_offset entry={shown}", Fault.INVALID_OFFSET)
    return partition, offset


def _fetch_offset(line: Line) -> Request:
    topic, partition = topic_of(line), _partition(line)
    return spoken(line, FetchOffsets(topic, Group(line.need(b"group")), (partition,)))


# -- service


def _authenticate(line: Line) -> Request:
    principal, token = line.get(b"principal"), line.get(b"token")
    if not principal or not token:
        raise refused("invalid_auth command=AUTH", Fault.BAD_CREDENTIALS)
    return spoken(line, Authenticate("plain", principal, token))


def _find_coordinator(line: Line) -> Request:
    for key, kind in ((b"group", "group"), (b"transactional_id", "transaction")):
        if value := line.get(key):
            return Request(FindLeader(), None, Seeking(line.word, line.structured, value, kind))
    raise refused("missing_coordinator_key command=FIND_COORDINATOR")


def _ping(line: Line) -> Request:
    return spoken(_bare(line), Ping())


def _bare(line: Line) -> Line:
    if line.args:
        raise line.unknown()
    return line


def _no_cluster(line: Line) -> Request:
    if line.word == "LIST_CLUSTER":
        raise refused("distribution_not_enabled", Fault.UNSUPPORTED)
    raise refused(f"distribution_required command={line.word}", Fault.UNSUPPORTED)


def _not_served(line: Line) -> Request:
    raise refused(f"unsupported command={line.word}", Fault.UNSUPPORTED)


READ: dict[str, Reader] = {
    "CREATE": read_create,
    "DELETE": read_delete,
    "LIST": read_list,
    "PUBLISH": read_publish,
    "CONSUME": read_consume,
    "STREAM": read_stream,
    "JOIN_GROUP": _join,
    "SYNC_GROUP": _sync,
    "LEAVE_GROUP": _leave,
    "HEARTBEAT": _heartbeat,
    "COMMIT_OFFSET": _commit,
    "COMMIT": _commit,
    "BATCH_COMMIT": _batch_commit,
    "FETCH_OFFSET": _fetch_offset,
    "LIST_OFFSETS": read_list_offsets,
    "REGISTER_GROUP": _register,
    "SUBSCRIBE": _register,
    "GROUP_STATUS": _group_status,
    "LIST_GROUPS": _list_groups,
    "DESCRIBE": read_describe,
    "METADATA": read_metadata,
    "FIND_COORDINATOR": _find_coordinator,
    "AUTH": _authenticate,
    "HELP": _ping,
    "PROTOCOL_INFO": _ping,
    "NEGOTIATE": negotiate,
    "LIST_CLUSTER": _no_cluster,
    "CLUSTER_STATUS": _no_cluster,
    "ELECT_LEADER": _no_cluster,
    **dict.fromkeys(
        (
            *("APPEND_STREAM", "READ_STREAM", "SAVE_SNAPSHOT", "READ_SNAPSHOT", "STREAM_VERSION"),
            *("INIT_PRODUCER_ID", "BEGIN_TXN", "TXN_PUBLISH", "SEND_OFFSETS_TO_TXN", "END_TXN", "TXN_STATUS"),
        ),
        _not_served,
    ),
}
"""Command word -> what reads its arguments."""

OPEN = frozenset({"HELP", "PROTOCOL_INFO", "NEGOTIATE"})
"""What the broker asks nobody's name for: there it does not look who says it is whom."""


def read_command(word: bytes, args: bytes, namespace: str, structured: bool) -> Request | None:
    """A line that has been cut at its first blank, None if the word is no command.  Raises CommandFailed."""
    name = word.upper().decode("ascii", "replace")
    reader = READ.get(name)
    if reader is None:
        return None
    line = Line(name, args, namespace, structured)
    request = reader(line)
    return request if line.claims is None or name in OPEN else _claimed(request, *line.claims)


def _claimed(request: Request, principal: str, token: str) -> Request:
    """The request of who says in its line who it is; half of that is none.

    Source: pkg/controller/auth.go of the broker, authenticateInline.
    """
    if not principal or not token:
        raise refused("invalid_auth reason=principal_and_auth_token_required", Fault.BAD_CREDENTIALS)
    assert isinstance(request.context, Spoken), "every command was put somehow"
    context = msgspec.structs.replace(request.context, proof=Authenticate("plain", principal, token))
    return msgspec.structs.replace(request, context=context)
