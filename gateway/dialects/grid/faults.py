"""Fault -> status and opcode of the answer that tells it, and back."""

from __future__ import annotations

import re
import struct

from gateway.core.commands import Authenticate, Command
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.grid.terms import GridTerms

_i64 = struct.Struct(">q")

_ADDRESS = re.compile(r"[!-~]{1,255}:([0-9]{1,5})")
"""`host:port`, or `[host]:port`, without white space."""

MAX_TEXT = 1024
"""Characters of a message to the peer."""

CODES: dict[Fault, str] = {
    Fault.MALFORMED: "BAD_REQUEST",
    Fault.UNSUPPORTED: "UNSUPPORTED",
    Fault.TOO_LARGE: "TOO_LARGE",
    Fault.UNREPRESENTABLE: "BAD_REQUEST",
    Fault.INVALID_NAME: "BAD_REQUEST",
    Fault.INVALID_ARGUMENT: "BAD_REQUEST",
    Fault.NO_SUCH_NAMESPACE: "NOT_FOUND",
    Fault.NAMESPACE_EXISTS: "CONDITION_FAILED",
    Fault.NO_SUCH_TOPIC: "NOT_FOUND",
    Fault.TOPIC_EXISTS: "CONDITION_FAILED",
    Fault.NO_SUCH_PARTITION: "NOT_FOUND",
    Fault.FEWER_PARTITIONS: "CONDITION_FAILED",
    Fault.PARTITION_FULL: "TOO_LARGE",
    Fault.EMPTY_BATCH: "BAD_REQUEST",
    Fault.OFFSET_GONE: "SEQUENCE_LOST",
    Fault.INVALID_OFFSET: "BAD_REQUEST",
    Fault.OFFSET_REGRESSION: "CONDITION_FAILED",
    Fault.NO_SUCH_OFFSET: "NOT_FOUND",
    Fault.SEQUENCE_GAP: "CONDITION_FAILED",
    Fault.STALE_EPOCH: "CONDITION_FAILED",
    Fault.NO_SUCH_GROUP: "NOT_FOUND",
    Fault.GROUP_EXISTS: "CONDITION_FAILED",
    Fault.OTHER_TOPIC: "CONDITION_FAILED",
    Fault.NOT_A_MEMBER: "CONDITION_FAILED",
    Fault.STALE_GENERATION: "CONDITION_FAILED",
    Fault.NOT_OWNER: "CONDITION_FAILED",
    Fault.NOT_A_NUMBER: "BAD_REQUEST",
    Fault.NO_SUCH_SESSION: "NOT_FOUND",
    Fault.UNAUTHENTICATED: "UNAUTHORIZED",
    Fault.BAD_CREDENTIALS: "UNAUTHORIZED",
    Fault.FORBIDDEN: "UNAUTHORIZED",
    Fault.BUSY: "BUSY",
    Fault.TIMEOUT: "BUSY",
    Fault.NOT_LEADER: "NOT_LEADER",
    Fault.UNAVAILABLE: "BUSY",
    Fault.INTERNAL: "INTERNAL",
}
"""Names of statuses; their numbers are the listener's."""

_OPCODES = {
    "BUSY": "RESPONSE_SERVER_BUSY",
    "NOT_LEADER": "RESPONSE_REDIRECT",
    "SEQUENCE_LOST": "RESPONSE_SEQUENCE_LOST",
}
"""Statuses that have an answer of their own; of all others it is RESPONSE_ERROR."""

_STATUSES = {opcode: status for status, opcode in _OPCODES.items()}

_MEANT: dict[str, Fault] = {
    "NOT_FOUND": Fault.NO_SUCH_TOPIC,
    "CONDITION_FAILED": Fault.TOPIC_EXISTS,
    "BAD_REQUEST": Fault.INVALID_ARGUMENT,
    "UNAUTHORIZED": Fault.UNAUTHENTICATED,
    "TOO_LARGE": Fault.TOO_LARGE,
    "UNSUPPORTED": Fault.UNSUPPORTED,
    "BUSY": Fault.BUSY,
    "NOT_LEADER": Fault.NOT_LEADER,
    "SEQUENCE_LOST": Fault.OFFSET_GONE,
}


def told(failure: CommandFailed, terms: GridTerms) -> tuple[str, str, bytes]:
    """Opcode, status and value of the answer.  Of INTERNAL nothing is said but what it is."""
    status = CODES[failure.fault]
    opcode = _OPCODES.get(status, "RESPONSE_ERROR")
    if failure.fault is Fault.NOT_LEADER:
        return opcode, status, terms.advertise.encode()
    if failure.fault is Fault.OFFSET_GONE:
        earliest = failure.facts.get("earliest")
        return opcode, status, _i64.pack(earliest) if isinstance(earliest, int) and 0 <= earliest < 1 << 63 else b""
    words = failure.fault.value if failure.fault is Fault.INTERNAL else failure.detail or failure.fault.value
    return opcode, status, words[:MAX_TEXT].encode("utf-8", "replace")


def understood(opcode: str, status: str, value: bytes, command: Command) -> CommandFailed:
    """The failure that an answer tells of; INTERNAL for what this dialect has no name for.

    Its facts: `earliest` of OFFSET_GONE and `leader`, the `host:port` of who leads, of NOT_LEADER; if they are said.
    """
    status = _STATUSES.get(opcode, status)
    words = value.decode("utf-8", "replace")
    fault = _MEANT.get(status, Fault.INTERNAL)
    if fault is Fault.OFFSET_GONE:
        facts = {"earliest": _i64.unpack(value)[0]} if len(value) == _i64.size else {}
        return CommandFailed(fault, "", **facts)
    if fault is Fault.NOT_LEADER and _is_address(words):
        return CommandFailed(fault, words, leader=words)
    if fault is Fault.UNAUTHENTICATED and isinstance(command, Authenticate):
        fault = Fault.BAD_CREDENTIALS
    return CommandFailed(fault, words)


def _is_address(words: str) -> bool:
    found = _ADDRESS.fullmatch(words)
    return found is not None and 0 < int(found[1]) < 1 << 16
