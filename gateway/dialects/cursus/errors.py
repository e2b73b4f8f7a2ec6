"""An error in the words of the broker, as a fault with its facts.  faults.py writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gateway.core.faults import CommandFailed, Fact, Fault
from gateway.dialects.cursus.faults import CLASSES, CODES
from gateway.dialects.cursus.text import fields_of

_FAULTS = {code: fault for fault, code in reversed(CODES.items())}
_FAULTS |= {
    code: fault
    for fault, codes in {
        Fault.MALFORMED: "decode_failed batch_decode_failed empty_command",
        Fault.UNSUPPORTED: "unknown_command distribution_not_enabled distribution_required UNSUPPORTED_FEATURE"
        " UNSUPPORTED_PROTOCOL_VERSION missing_generation",
        Fault.INVALID_ARGUMENT: "duplicate_partition",
        Fault.NOT_LEADER: "NOT_COORDINATOR NOT_PARTITION_LEADER STALE_LEADER_EPOCH",
        Fault.STALE_EPOCH: "producer_fenced",
        Fault.STALE_GENERATION: "REBALANCE_REQUIRED",
        Fault.FORBIDDEN: "NOT_AUTHORIZED_FOR_TOPIC",
        Fault.BAD_CREDENTIALS: "invalid_auth",
        Fault.UNAVAILABLE: CLASSES["availability"],
    }.items()
    for code in codes.split()
    if code not in _FAULTS
}
for _code in ("broker_error", "create_topic_failed"):  # catch-alls of the broker: the reason decides, below
    del _FAULTS[_code]

_REASONS = [
    (re.compile(pattern, re.DOTALL), fault)
    for pattern, fault in (
        (
            r"idempotency gap for producer (?P<producer>.*): expected (?P<expected>\d+), got (?P<got>\d+)",
            Fault.SEQUENCE_GAP,
        ),
        (
            r"stale_producer_epoch producer=(?P<producer>.*) current=(?P<current>-?\d+) got=(?P<got>-?\d+)",
            Fault.STALE_EPOCH,
        ),
        (r"idempotency error|first message", Fault.SEQUENCE_GAP),
        (r"producer_fenced|stale_producer_epoch", Fault.STALE_EPOCH),
        (r"empty batch messages", Fault.EMPTY_BATCH),
        (r"topic '.*' does not exist", Fault.NO_SUCH_TOPIC),
        (
            r"partition (?P<partition>-?\d+) out of range for topic '.*' \(0-(?P<highest>-?\d+)\)",
            Fault.NO_SUCH_PARTITION,
        ),
        (r"invalid offset value: ", Fault.INVALID_OFFSET),
        (
            r"cannot decrease partition count for topic '.*': (?P<current>\d+) -> (?P<requested>\d+)",
            Fault.FEWER_PARTITIONS,
        ),
        (
            r"offset regression group=.* partition=(?P<partition>\d+) current=(?P<current>\d+) got=(?P<requested>\d+)",
            Fault.OFFSET_REGRESSION,
        ),
        (r"group '.*' not found", Fault.NO_SUCH_GROUP),
        (r"^missing_topic_or_payload$", Fault.UNSUPPORTED),  # a word in an envelope that the broker does not know
        (r"invalid group or member name", Fault.INVALID_NAME),
    )
]
"""What the reason of an error may say, whatever its code."""

CONTROL = "STREAM_CONTROL"
"""The first word of what is said about a stream among its frames."""

_ENDS = {
    "offset_out_of_range": Fault.OFFSET_GONE,
    "timeout": Fault.TIMEOUT,
    "replaced": Fault.NOT_OWNER,  # the group's other reader has the partition now
    "removed": Fault.NOT_OWNER,
    "stopped": Fault.UNAVAILABLE,
    "error": Fault.UNAVAILABLE,
}
"""Why a stream ended."""

_NUMBERS = ("offset", "partition", "partitions", "requested", "current", "earliest", "latest", "generation", "got")
_NAMES = ("expected", "actual", "member", "producer")


def failure_of(text: str) -> CommandFailed:
    """An error as a fault with its facts; INTERNAL, with the whole text as detail, if its code is not known.

    Brokers of April 2026 have `ERROR code: ...`, which is read too; and so is the end of a stream, of which `reason`
    and the next `offset` are facts.  Who is not the leader says who is: the fact `leader`, `host:port`.
    """
    if text.startswith(CONTROL):
        return _end(text)
    found = re.match(r"ERROR:?\s*(\S+)", text)
    code = found[1].rstrip(":") if found else text.partition(" ")[0]
    fields = fields_of(text)
    by_reason = _failure_by_reason(fields.get("reason", text), text)
    if by_reason is not None:
        return by_reason
    fault = _FAULTS.get(code) or _fault_of_kind(code)
    leader = _leader(text, fields) if fault is Fault.NOT_LEADER else {}
    return CommandFailed(fault, text, **leader, **_facts(fields))


_LEADER_IS = re.compile(r"\bLEADER_IS (\S+:[0-9]{1,5})(?!\S)")


def _leader(text: str, fields: Mapping[str, str]) -> dict[str, Fact]:
    """A partition's leader is said as an address, a coordinator in two fields.  Nobody is said as an empty address."""
    found = _LEADER_IS.search(text)
    if found:
        return {"leader": found[1]}
    host, port = fields.get("host", ""), fields.get("port", "")
    return {"leader": f"{host}:{port}"} if host and re.fullmatch(r"[0-9]{1,5}", port) else {}


def _end(text: str) -> CommandFailed:
    fields = fields_of(text)
    reason = fields.get("reason", "")
    return CommandFailed(_ENDS.get(reason, Fault.INTERNAL), text, reason=reason, **_facts(fields))


def _failure_by_reason(reason: str, text: str) -> CommandFailed | None:
    for pattern, fault in _REASONS:
        if found := pattern.search(reason):
            said = found.groupdict()
            if highest := said.pop("highest", None):
                said["partitions"] = str(int(highest) + 1)
            return CommandFailed(fault, text, **_facts(said))
    return None


def _fault_of_kind(code: str) -> Fault:
    if code.startswith("missing_"):
        return Fault.MALFORMED
    return Fault.INVALID_ARGUMENT if code.startswith("invalid_") else Fault.INTERNAL


def _facts(said: Mapping[str, str]) -> dict[str, Fact]:
    facts: dict[str, Fact] = {name: said[name] for name in _NAMES if name in said}
    facts |= {name: int(said[name]) for name in _NUMBERS if re.fullmatch(r"-?[0-9]{1,20}", said.get(name, ""))}
    if re.fullmatch(r"[0-9]{1,20}", expected := str(facts.get("expected", ""))) and "got" in facts:
        facts["expected"] = int(expected)  # a sequence number; of a group it is the name of a topic
    return facts
