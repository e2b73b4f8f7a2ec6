"""Failures in the words of the broker.  errors.py reads them.

A failure is `ERROR: <code>` and then what the code needs, mostly `key=value`.  Codes, their classes and which of them
are worth a retry are the broker's (protocol page, section 2; pkg/protocol/errors.go); codes of ours are marked.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gateway.core.commands import Topic
from gateway.core.faults import CommandFailed, Fact, Fault
from gateway.dialects.cursus.terms import Produced, Spoken
from gateway.dialects.cursus.text import quoted
from gateway.dialects.dialect import Request

CODES: dict[Fault, str] = {
    Fault.MALFORMED: "malformed_input",
    Fault.UNSUPPORTED: "unsupported",  # ours
    Fault.TOO_LARGE: "message_too_large",  # ours
    Fault.UNREPRESENTABLE: "unrepresentable",  # ours
    Fault.INVALID_NAME: "invalid_topic_name",
    Fault.INVALID_ARGUMENT: "invalid_argument",  # ours
    Fault.NO_SUCH_NAMESPACE: "namespace_not_found",  # ours
    Fault.NAMESPACE_EXISTS: "namespace_exists",  # ours
    Fault.NO_SUCH_TOPIC: "topic_not_found",
    Fault.TOPIC_EXISTS: "topic_exists",  # ours: CREATE of an existing topic is fine
    Fault.NO_SUCH_PARTITION: "partition_not_found",
    Fault.FEWER_PARTITIONS: "create_topic_failed",
    Fault.PARTITION_FULL: "partition_full",  # ours
    Fault.EMPTY_BATCH: "broker_error",
    Fault.OFFSET_GONE: "OFFSET_OUT_OF_RANGE",
    Fault.INVALID_OFFSET: "invalid_offset",
    Fault.OFFSET_REGRESSION: "offset_regression",
    Fault.NO_SUCH_OFFSET: "offset_not_found",  # ours: an offset never committed is 0
    Fault.SEQUENCE_GAP: "idempotency_gap",
    Fault.STALE_EPOCH: "stale_producer_epoch",
    Fault.NO_SUCH_GROUP: "group_not_found",
    Fault.GROUP_EXISTS: "group_exists",  # ours: REGISTER_GROUP of an existing group is fine
    Fault.OTHER_TOPIC: "topic_not_assigned_to_group",
    Fault.NOT_A_MEMBER: "member_not_found",
    Fault.STALE_GENERATION: "GEN_MISMATCH",
    Fault.NOT_OWNER: "NOT_OWNER",
    Fault.NOT_A_NUMBER: "not_a_number",  # ours
    Fault.NO_SUCH_SESSION: "session_not_found",  # ours
    Fault.UNAUTHENTICATED: "authentication_required",
    Fault.BAD_CREDENTIALS: "authentication_failed",
    Fault.FORBIDDEN: "NOT_AUTHORIZED_FOR_OPERATION",
    Fault.BUSY: "busy",  # ours
    Fault.TIMEOUT: "timeout",  # ours
    Fault.NOT_LEADER: "NOT_LEADER",
    Fault.UNAVAILABLE: "unavailable",  # ours
    Fault.INTERNAL: "internal_error",  # ours
}

RETRYABLE = ("routing", "availability")
"""Classes whose errors are worth another try."""

CLASSES = {
    "routing": "NOT_LEADER NOT_COORDINATOR NOT_PARTITION_LEADER",
    "availability": "busy timeout unavailable cluster_metadata_unavailable cluster_not_available request_cancelled"
    " coordinator_not_available leader_not_found no_raft_leader offset_manager_not_available router_not_available",
    "fencing": "GEN_MISMATCH NOT_OWNER STALE_LEADER_EPOCH member_not_found producer_fenced stale_producer_epoch"
    " idempotency_gap",
    "conflict": "OFFSET_OUT_OF_RANGE offset_regression topic_not_assigned_to_group topic_exists group_exists"
    " namespace_exists version_conflict",
    "authorization": "NOT_AUTHORIZED_FOR_OPERATION NOT_AUTHORIZED_FOR_TOPIC authentication_failed"
    " authentication_required",
    "validation": "UNSUPPORTED_FEATURE UNSUPPORTED_PROTOCOL_VERSION batch_decode_failed decode_failed unsupported"
    " distribution_not_enabled distribution_required duplicate_partition unknown_command message_too_large"
    " unrepresentable not_a_number",
}
_CLASS = {code: name for name, codes in CLASSES.items() for code in codes.split()}

_UNKNOWN_TO_CLIENTS = {CODES[fault] for fault in (Fault.BUSY, Fault.TIMEOUT, Fault.UNAVAILABLE)}
"""Ours and worth a retry: the class always goes with them, or the Go SDK would take them for the last word."""


def classified(code: str) -> str:
    """The class of an error.  A code that is in no table is judged by its beginning and end, as the broker does."""
    if code in _CLASS:
        return _CLASS[code]
    if code.endswith("_not_found"):
        return "not_found"
    return "validation" if code.startswith(("missing_", "invalid_", "malformed_")) else "internal"


def structured(text: str) -> str:
    """An error with its class and whether it is worth a retry, right after the code, unless it has them already."""
    head, _, rest = text.removeprefix("ERROR: ").partition(" ")
    if rest.startswith("class="):
        return text
    name = classified(head)
    retryable = "true" if name in RETRYABLE else "false"
    return f"ERROR: {head} class={name} retryable={retryable}{' ' if rest else ''}{rest}"


# -- writing


class _Words(msgspec.Struct, frozen=True, gc=False):
    """What follows a code: fields, and a reason to be quoted.  Braces are filled in from `_values`."""

    fields: str = ""
    reason: str = ""
    code: str = ""


_PUBLISH_FAILED = "acks=1 publish failed: sync publish failed: "
_GAP = "idempotency gap for producer {producer}: expected {expected}, got {got}"
_STALE = "stale_producer_epoch producer={producer} current={current} got={got}"

_WORDS = {
    Fault.UNSUPPORTED: _Words("command={word}"),
    Fault.INVALID_NAME: _Words("topic={quoted_topic}", "invalid name"),
    Fault.NO_SUCH_TOPIC: _Words("topic={topic}"),
    Fault.NO_SUCH_PARTITION: _Words("partition={partition}"),
    Fault.FEWER_PARTITIONS: _Words(
        "topic={topic}", "cannot decrease partition count for topic '{topic}': {current} -> {requested}"
    ),
    Fault.EMPTY_BATCH: _Words("", "empty batch messages"),
    Fault.OFFSET_GONE: _Words("requested={requested} earliest={earliest} latest={latest}"),
    Fault.OFFSET_REGRESSION: _Words(
        "", "offset regression group={group} topic={topic} partition={partition} current={current} got={requested}"
    ),
    Fault.SEQUENCE_GAP: _Words("", _PUBLISH_FAILED + _GAP, "broker_error"),
    Fault.STALE_EPOCH: _Words("", _PUBLISH_FAILED + _STALE, "broker_error"),
    Fault.NO_SUCH_GROUP: _Words("group={group}"),
    Fault.OTHER_TOPIC: _Words("expected={expected} actual={actual}"),
    Fault.NOT_A_MEMBER: _Words("member={member} group={group}"),
    Fault.STALE_GENERATION: _Words("current={current} requested={requested} group={group} member={member}"),
    Fault.NOT_OWNER: _Words("partition={partition} member={member} group={group} generation={generation}"),
    Fault.UNAUTHENTICATED: _Words("command={word}"),
    Fault.BAD_CREDENTIALS: _Words("mechanism=PLAIN"),
    Fault.FORBIDDEN: _Words("command={word} permission={permission}"),
    Fault.NOT_LEADER: _Words("LEADER_IS {address}"),
}
_READS = {
    Fault.NO_SUCH_TOPIC: _Words("", "topic '{topic}' does not exist", "command_failed"),
    Fault.NO_SUCH_PARTITION: _Words(
        "", "partition {partition} out of range for topic '{topic}' (0-{highest})", "command_failed"
    ),
    Fault.INVALID_OFFSET: _Words("", "invalid offset value: {start}", "command_failed"),
}
_WORDS_OF = {
    **{(word, fault): words for word in ("CONSUME", "STREAM") for fault, words in _READS.items()},
    ("GROUP_STATUS", Fault.NO_SUCH_GROUP): _Words("", "group '{group}' not found", "group_status_failed"),
    ("CREATE", Fault.INVALID_ARGUMENT): _Words("", "", "invalid_partitions"),
    **{
        (word, Fault.INVALID_NAME): _Words("", "invalid group or member name", "register_group_failed")
        for word in ("JOIN_GROUP", "REGISTER_GROUP", "SUBSCRIBE")
    },
}
"""Of one command alone."""

_REASONED = {Fault.MALFORMED, Fault.TOO_LARGE, Fault.UNREPRESENTABLE, Fault.INVALID_ARGUMENT, Fault.NOT_A_NUMBER}
"""The peer's own doing: it is told why, in the house's words."""

_READ, _WRITE, _ADMIN = "topic.read", "topic.write", "admin"
_PERMISSIONS = {
    **dict.fromkeys(("CREATE", "DELETE"), _ADMIN),
    **dict.fromkeys(("LIST", "CONSUME", "STREAM", "LIST_OFFSETS", "DESCRIBE", "METADATA"), _READ),
    "PUBLISH": _WRITE,
}
"""What the broker would have wanted to see; of all other commands `group`."""


def failure_text(request: Request, failure: CommandFailed, word: str, address: str) -> str:
    """What the peer is told when its command has failed.

    word:    the command, as it was spoken.
    address: ours, `host:port`.
    """
    fault = failure.fault
    words = _WORDS_OF.get((word, fault)) or _WORDS.get(fault) or _Words()
    values = _values(request, failure.facts, word, address)
    parts = [f"ERROR: {words.code or CODES[fault]}", words.fields.format_map(values)]
    reason = words.reason.format_map(values) or (failure.detail if fault in _REASONED else "")
    text = " ".join(part for part in (*parts, f"reason={quoted(reason)}" if reason else "") if part)
    wanted = isinstance(request.context, Spoken) and request.context.structured
    return structured(text) if wanted or CODES[fault] in _UNKNOWN_TO_CLIENTS else text


def refusal_text(failure: CommandFailed, wants_class: bool) -> str:
    """What the peer is told of a frame that is no command: mostly the words that came with the failure."""
    said = failure.detail
    if not said.startswith("ERROR: "):
        reason = f" reason={quoted(said)}" if said and failure.fault in _REASONED else ""
        said = f"ERROR: {CODES[failure.fault]}{reason}"
    return structured(said) if wants_class else said


def ack_error(request: Request, failure: CommandFailed) -> str | None:
    """What the `error` of an ack says of a batch out of sequence; None for other failures."""
    words = {Fault.SEQUENCE_GAP: _GAP, Fault.STALE_EPOCH: _STALE}.get(failure.fault)
    return words and words.format_map(_values(request, failure.facts, "PUBLISH", ""))


def _values(request: Request, facts: Mapping[str, Fact], word: str, address: str) -> dict[str, Fact]:
    """All that a text may name: what the command says, and over it what the backend says."""
    command, said = request.command, request.context
    topic, reader = getattr(command, "topic", None), getattr(command, "reader", None)
    name = str(topic.name) if isinstance(topic, Topic) else ""
    group = getattr(command, "group", None) or getattr(reader, "name", "")
    asked = getattr(command, "generation", None) or getattr(command, "partitions", None)
    start, partition = getattr(command, "start", 0), getattr(command, "to", None)
    partition = getattr(command, "partition", None) if partition is None else partition
    values: dict[str, Fact] = {
        **dict.fromkeys(("current", "expected", "got", "earliest", "latest", "partitions"), 0),
        "topic": name,
        "quoted_topic": quoted(name),
        "actual": name,
        "group": str(group),
        "member": str(getattr(command, "member", "") or ""),
        "generation": getattr(command, "generation", None) or 0,
        "requested": asked if isinstance(asked, int) else 0,
        "partition": partition if isinstance(partition, int) else 0,
        "start": start if isinstance(start, int) else getattr(start, "floor", 0),
        "producer": said.producer.decode("utf-8", "replace") if isinstance(said, Produced) else "",
        "word": word,
        "permission": _PERMISSIONS.get(word, "group"),
        "address": address,
        **facts,
    }
    count = values["partitions"]
    values["highest"] = count - 1 if isinstance(count, int) else 0
    return values
