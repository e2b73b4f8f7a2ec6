"""Text commands about topics: what their arguments mean.  Source: protocol page, section 2."""

from __future__ import annotations

import re

from gateway.core.commands import (
    Command,
    CreateTopic,
    DeleteTopic,
    DescribeTopic,
    IfExists,
    LatestOffsets,
    ListTopics,
    Topic,
    TopicSettings,
)
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.cursus.terms import Spoken
from gateway.dialects.cursus.text import Line, atoi, quoted, refused
from gateway.dialects.dialect import Request

DEFAULT_PARTITIONS = 4
HOUR = 3_600_000_000
"""us."""

LABELS = ("partitioner", "auth_policy", "read_acl", "write_acl", "replication_factor")
"""Settings of a topic that the house only keeps."""

PARTITIONERS = ("hash_key", "round_robin")
POLICIES = ("open", "deny_write", "deny_read", "acl")
CLEANUPS = {
    "": "delete",
    "delete": "delete",
    "compact": "compact",
    "delete,compact": "delete,compact",
    "compact,delete": "delete,compact",
}

_NAME = re.compile(r"[A-Za-z0-9._=-]{1,249}")


def spoken(line: Line, command: Command) -> Request:
    """A command, and how it was said."""
    return Request(command, None, Spoken(line.word, line.structured))


def topic_of(line: Line) -> Topic:
    """The topic that a line has to name."""
    return Topic(line.namespace, line.need(b"topic"))


def read_create(line: Line) -> Request:
    """A count that is not given is 4, but not for a topic that is there: the broker would make it grow to 4."""
    name = line.get(b"topic")
    if not name:
        raise refused('missing_topic expected="CREATE topic=<name> [partitions=<N>]"')
    _check_name(name)
    count, exists = DEFAULT_PARTITIONS, IfExists.KEEP
    if b"partitions" in line.fields:
        count, exists = _positive(line, b"partitions", "invalid_partitions"), IfExists.GROW
    return spoken(line, CreateTopic(Topic(line.namespace, name), count, _settings(line), exists))


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name in (".", ".."):
        reason = "1 to 249 characters of A-Z a-z 0-9 . _ - = are legal, . and .. are not"
        raise refused(f"invalid_topic_name topic={quoted(name)} reason={quoted(reason)}", Fault.INVALID_NAME)


def _positive(line: Line, key: bytes, code: str) -> int:
    value = atoi(line.fields[key])
    if value is None or value <= 0:
        raise refused(f'{code} reason="must be a positive integer"', Fault.INVALID_ARGUMENT)
    return value


def _settings(line: Line) -> TopicSettings:
    compacting = CLEANUPS.get(line.get(b"cleanup_policy").lower())
    if compacting is None:
        raise _bad_policy(f"invalid cleanup policy {quoted(line.get(b'cleanup_policy'))}")
    settings = TopicSettings(
        retention_us=HOUR * _natural(line, b"retention_hours", _MAX_HOURS),
        retention_bytes=_natural(line, b"retention_bytes", (1 << 63) - 1),
        cleanup=compacting,
        idempotent=line.get(b"idempotent").lower() == "true",
        event_sourcing=line.get(b"event_sourcing").lower() == "true",
        labels=_labels(line),
    )
    if settings.event_sourcing and "compact" in compacting:
        reason = "compaction is not supported for event-sourcing topics"
        raise refused(f"invalid_topic_policy field=cleanup_policy reason={quoted(reason)}", Fault.INVALID_ARGUMENT)
    return settings


_MAX_HOURS = ((1 << 63) - 1) // HOUR


def _natural(line: Line, key: bytes, most: int) -> int:
    text = line.fields.get(key)
    value = atoi(text) if text else 0
    if value is None or value > most:
        raise refused(f"invalid_{key.decode()} value={line.get(key)}", Fault.INVALID_ARGUMENT)
    if value < 0:
        raise _bad_policy(f"{key.decode()} must be >= 0")
    return value


def _labels(line: Line) -> dict[str, str]:
    if b"replication_factor" in line.fields:
        _positive(line, b"replication_factor", "invalid_replication_factor")
    labels = {key: value for key in LABELS if (value := line.get(key.encode()))}
    for key, choices, what in (("partitioner", PARTITIONERS, "partitioner"), ("auth_policy", POLICIES, "auth policy")):
        if key in labels and labels[key].lower() not in choices:
            raise _bad_policy(f"invalid {what} {quoted(labels[key])}")
    return labels


def _bad_policy(reason: str) -> CommandFailed:
    return refused(f"invalid_topic_policy reason={quoted(reason)}", Fault.INVALID_ARGUMENT)


def read_delete(line: Line) -> Request:
    """The topic with all that is in it."""
    name = line.get(b"topic")
    if not name:
        raise refused('missing_topic expected="DELETE topic=<name>"')
    return spoken(line, DeleteTopic(Topic(line.namespace, name)))


def read_list(line: Line) -> Request:
    """`LIST topic=T`, sent by every Java producer, is an unknown command to the broker; Java wants the count."""
    if name := line.get(b"topic"):
        return spoken(line, DescribeTopic(Topic(line.namespace, name)))
    if line.args:
        raise line.unknown()
    return spoken(line, ListTopics(line.namespace))


def read_describe(line: Line) -> Request:
    """As METADATA; its answer is JSON, and says where partitions end."""
    if not line.get(b"topic"):
        raise refused('missing_topic expected="DESCRIBE topic=<name>"')
    return spoken(line, DescribeTopic(topic_of(line)))


def read_metadata(line: Line) -> Request:
    """Partitions, their leaders and the settings."""
    return spoken(line, DescribeTopic(topic_of(line)))


def read_list_offsets(line: Line) -> Request:
    """Where partitions begin and end."""
    topic, partition = topic_of(line), None
    if text := line.fields.get(b"partition"):
        partition = atoi(text)
        if partition is None:
            raise refused("invalid_partition command=LIST_OFFSETS", Fault.INVALID_ARGUMENT)
        if partition < 0:
            raise refused(f"partition_not_found partition={partition}", Fault.NO_SUCH_PARTITION)
    return spoken(line, LatestOffsets(topic, partition))
