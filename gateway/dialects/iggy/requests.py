"""What the fields of a request mean as a command.  The other way is asking.py."""

from __future__ import annotations

from collections.abc import Callable

from gateway.core import commands as q
from gateway.core.commands import Group, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.iggy import codes as c
from gateway.dialects.iggy.fields import MAX_SHORT, NAME, NEVER, Values
from gateway.dialects.iggy.generations import Generation

Meaning = Callable[..., q.Command]

NONE, GZIP = 1, 2
"""Compressions of a topic."""


def refused(fault: Fault, status: int, detail: str = "") -> CommandFailed:
    """A failure that goes out with just this status."""
    return CommandFailed(fault, detail, status=status)


# -- names


def made_name(name: str, generation: Generation, status: int) -> str:
    """The name of something that is to be made.  Raises CommandFailed(INVALID_NAME).

    Servers up to g1a lower it and put dots for spaces, so that two names which differ in that are one; what is made
    under the first then is found by neither spelling but the lowered one.
    """
    made = ".".join(name.lower().split()) if generation.lowers else name
    if not NAME.fullmatch(name) or not 1 <= len(made.encode()) <= MAX_SHORT:
        raise refused(Fault.INVALID_NAME, status, "a name has 1 to 255 bytes: letters, digits, _ . - and spaces")
    return made


def _made_id(values: Values, generation: Generation, status: int) -> int | None:
    """The id that the client chose, None = it left that to us, which it could not in g0."""
    id = values.get("id")
    if not id and generation.numbered_groups:
        raise refused(Fault.INVALID_ARGUMENT, status, "an id is not 0")
    return id or None


def _topic(values: Values) -> Topic:
    return Topic(values["stream"], values["topic"])


# -- service


def _client(values: Values, generation: Generation) -> q.Command:
    return q.DescribeSession(values["session"])


def _login(values: Values, generation: Generation) -> q.Command:
    return q.Authenticate("plain", values["user"], values["password"])


def _login_with_token(values: Values, generation: Generation) -> q.Command:
    return q.Authenticate("token", "", values["token"])


# -- streams and topics


def _create_stream(values: Values, generation: Generation) -> q.Command:
    name = made_name(values["name"], generation, 1013)
    return q.CreateNamespace(name, _made_id(values, generation, 1014))


def labels_of(values: Values) -> dict[str, str]:
    """What only Iggy says of a topic, where it is not left to the server."""
    labels = {
        "compression": "gzip" if values.get("compression") == GZIP else "",
        "max_topic_size": "" if values.get("max_size") in (None, 0, NEVER) else str(values["max_size"]),
        "replication_factor": str(values.get("replication") or ""),
    }
    return {key: label for key, label in labels.items() if label}


def _create_topic(values: Values, generation: Generation) -> q.Command:
    name = made_name(values["name"], generation, 2014)
    if values.get("compression", NONE) not in (NONE, GZIP):
        raise CommandFailed(Fault.MALFORMED, f"no compression: {values['compression']}")
    settings = q.TopicSettings(retention_us=values["expiry"], labels=labels_of(values))
    topic = Topic(values["stream"], name)
    return q.CreateTopic(topic, values["partitions"], settings, id=_made_id(values, generation, 2016))


def _partitions(kind: type[q.CreatePartitions | q.DeletePartitions]) -> Meaning:
    return lambda values, generation: kind(_topic(values), values["count"])


# -- messages and offsets


def _partition(values: Values, generation: Generation) -> int | None:
    """0-based; None = a group's member is to get the next of its own.  Before there were names it always was."""
    said = values["partition"]
    if isinstance(values["reader"], Group):
        return None if generation.numbered_groups else said
    if said is None and generation.first:
        raise CommandFailed(Fault.NO_SUCH_PARTITION, "partitions are numbered from 1")
    return said or 0


def fetch(values: Values, generation: Generation, poll_bytes: int) -> q.Fetch:
    """POLL.  Raises CommandFailed: EMPTY_BATCH, INVALID_OFFSET, NO_SUCH_PARTITION, MALFORMED."""
    count, reader = values["count"], values["reader"]
    if not count:
        raise CommandFailed(Fault.EMPTY_BATCH, "a poll is for one message at least")
    start = _start(values["kind"], values["value"], count, reader)
    partition = _partition(values, generation)
    commit = values["commit"] is True
    return q.Fetch(_topic(values), partition, start, count, poll_bytes, commit=commit, reader=reader)


def _start(kind: int, value: int, count: int, reader: q.Reader) -> q.Start:
    match kind:
        case 1:
            return _offset(value)
        case 2:
            return q.FromTime(min(value, q.MAX_OFFSET))
        case 3:
            return q.First()
        case 4:
            return q.Last(count)
        case 5:
            return q.Next(reader)
    raise CommandFailed(Fault.MALFORMED, f"no polling strategy: {kind}")


def _offset(value: int) -> int:
    if value >= q.MAX_OFFSET:
        raise CommandFailed(Fault.INVALID_OFFSET, str(value))
    return value


def _get_offset(values: Values, generation: Generation) -> q.Command:
    return q.FetchOffsets(_topic(values), values["reader"], (_partition(values, generation),))


def _store_offset(values: Values, generation: Generation) -> q.Command:
    """What was read last is stored as what is to be read next."""
    after = _offset(values["offset"]) + 1
    place = _topic(values), values["reader"]
    return q.CommitOffsets(*place, {_partition(values, generation): after}, bounded=True)


def _delete_offset(values: Values, generation: Generation) -> q.Command:
    return q.DeleteOffsets(_topic(values), values["reader"], (_partition(values, generation),))


# -- groups


def _create_group(values: Values, generation: Generation) -> q.Command:
    id = _made_id(values, generation, 5003)
    name = str(id) if generation.numbered_groups else made_name(values["name"], generation, 5005)
    return q.CreateGroup(_topic(values), name, id)


def _join(values: Values, generation: Generation) -> q.Command:
    return q.JoinGroup(_topic(values), values["group"], "", q.WhileConnected(), existing=True)


def _of_stream(make: Callable[[int | str], q.Command]) -> Meaning:
    return lambda values, generation: make(values["stream"])


def _of_topic(make: Callable[[Topic], q.Command]) -> Meaning:
    return lambda values, generation: make(_topic(values))


def _of_group(make: Callable[[Topic, int | str], q.Command]) -> Meaning:
    return lambda values, generation: make(_topic(values), values["group"])


def _plain(command: q.Command) -> Meaning:
    return lambda values, generation: command


MEANINGS: dict[int, Meaning] = {
    c.PING: _plain(q.Ping()),
    c.GET_STATS: _plain(q.Describe()),
    c.GET_CLUSTER_METADATA: _plain(q.FindLeader()),
    c.GET_ME: _plain(q.DescribeSession()),
    c.GET_CLIENT: _client,
    c.GET_CLIENTS: _plain(q.ListSessions()),
    c.LOGIN: _login,
    c.LOGIN_WITH_TOKEN: _login_with_token,
    c.LOGOUT: _plain(q.Logout()),
    c.GET_OFFSET: _get_offset,
    c.STORE_OFFSET: _store_offset,
    c.DELETE_OFFSET: _delete_offset,
    c.GET_STREAM: _of_stream(lambda stream: q.DescribeNamespace(stream, contents=True)),
    c.GET_STREAMS: _plain(q.ListNamespaces()),
    c.CREATE_STREAM: _create_stream,
    c.DELETE_STREAM: _of_stream(q.DeleteNamespace),
    c.GET_TOPIC: _of_topic(q.DescribeTopic),
    c.GET_TOPICS: _of_stream(q.ListTopics),
    c.CREATE_TOPIC: _create_topic,
    c.DELETE_TOPIC: _of_topic(q.DeleteTopic),
    c.CREATE_PARTITIONS: _partitions(q.CreatePartitions),
    c.DELETE_PARTITIONS: _partitions(q.DeletePartitions),
    c.GET_GROUP: _of_group(q.DescribeGroup),
    c.GET_GROUPS: _of_topic(lambda topic: q.ListGroups(topic.namespace, topic.name)),
    c.CREATE_GROUP: _create_group,
    c.DELETE_GROUP: _of_group(q.DeleteGroup),
    c.JOIN_GROUP: _join,
    c.LEAVE_GROUP: _of_group(lambda topic, group: q.LeaveGroup(topic, group, "")),
}
"""Code -> the command that the fields mean.  POLL and SEND are read apart: they need more than their fields."""
