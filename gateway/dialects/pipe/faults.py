"""Fault -> the code and the words of an ERR line, and back.

The codes are all that the project has (pipe.md, "Error codes"); faults it never knew share one that makes its SDKs do
the right thing: NOT_LEADER is tried again, GENERATION_MISMATCH joins again, BAD_REQUEST reaches the caller.
"""

from __future__ import annotations

from gateway.core.faults import CommandFailed, Fault

BAD_REQUEST = "BAD_REQUEST"

CODES: dict[Fault, str] = {
    **dict.fromkeys(Fault, BAD_REQUEST),
    Fault.UNSUPPORTED: "UNKNOWN_COMMAND",
    Fault.TIMEOUT: "REPLICATION_TIMEOUT",
    Fault.NOT_LEADER: "NOT_LEADER",
    Fault.UNAVAILABLE: "NOT_LEADER",
    Fault.BUSY: "NOT_LEADER",
    Fault.NO_SUCH_GROUP: "GENERATION_MISMATCH",
    Fault.STALE_GENERATION: "GENERATION_MISMATCH",
    Fault.NOT_A_MEMBER: "GENERATION_MISMATCH",
    Fault.NOT_OWNER: "GENERATION_MISMATCH",
}

_NO_LEADER = "partition leader unavailable on this broker"

WORDS: dict[Fault, str] = {
    **{fault: fault.value for fault in Fault},
    Fault.UNSUPPORTED: "unsupported command",
    Fault.TOO_LARGE: "line too long",
    Fault.NO_SUCH_PARTITION: "invalid partition",
    Fault.INVALID_OFFSET: "invalid offset",
    Fault.NO_SUCH_GROUP: "group not found",
    Fault.STALE_GENERATION: "stale generation",
    Fault.NOT_A_MEMBER: "unknown member",
    Fault.NOT_OWNER: "partition not assigned to member",
    Fault.TIMEOUT: "acks=all timeout",
    Fault.NOT_LEADER: _NO_LEADER,
    Fault.UNAVAILABLE: _NO_LEADER,
    Fault.BUSY: _NO_LEADER,
    Fault.INTERNAL: "internal error",
}
"""One line each; what a backend says beyond them is for the log."""

_FAULTS = {(CODES[fault], WORDS[fault]): fault for fault in reversed(Fault)} | {
    ("NOT_LEADER", _NO_LEADER): Fault.NOT_LEADER
}
_KINDS = {
    BAD_REQUEST: Fault.INVALID_ARGUMENT,
    "UNKNOWN_COMMAND": Fault.UNSUPPORTED,
    "REPLICATION_TIMEOUT": Fault.TIMEOUT,
    "NOT_LEADER": Fault.NOT_LEADER,
    "GENERATION_MISMATCH": Fault.STALE_GENERATION,
}


def failure_of(code: str, words: str) -> CommandFailed:
    """What an ERR line of a server means; INTERNAL, with the code in its detail, if the code is none of the five."""
    fault = _FAULTS.get((code, words)) or _KINDS.get(code)
    if fault is None:
        return CommandFailed(Fault.INTERNAL, f"{code}: {words}")
    return CommandFailed(fault, words)
