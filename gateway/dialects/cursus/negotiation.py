"""NEGOTIATE and PROTOCOL_INFO: the version and the features of v1 that are served."""

from __future__ import annotations

import re

from gateway.core.commands import Ping
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.cursus.terms import Negotiation
from gateway.dialects.cursus.text import Line, atoi, boolean, quoted, refused
from gateway.dialects.dialect import Request

FEATURES = (
    *("idempotent_producer_v1", "offset_resume_v1", "stream_control_v1", "structured_errors_v1"),
    "topic_compaction_v1",
)
"""The broker's, as far as served; event_sourcing_v1 stands for commands that are not."""

STRUCTURED_ERRORS = "structured_errors_v1"

CLASSES = ("authorization", "availability", "conflict", "fencing", "internal", "not_found", "routing", "validation")

_NAME = re.compile("[a-z0-9_]{1,64}")
_MAX_REQUEST, _MAX_NAMES = 4096, 64


def capabilities() -> str:
    """The answer to PROTOCOL_INFO."""
    versions = "min_version=1 max_version=1 default_version=1"
    return f"OK protocol=cursus {versions} features={','.join(FEATURES)} error_classes={','.join(CLASSES)}"


def agreed(negotiation: Negotiation) -> str:
    """The answer to a NEGOTIATE that succeeds."""
    enabled, unsupported = ",".join(negotiation.enabled), ",".join(negotiation.unsupported)
    return f"OK protocol_version=1 enabled={enabled} unsupported={unsupported}"


def negotiate(line: Line) -> Request:
    """Read a NEGOTIATE.  Raises CommandFailed; these texts carry their class whatever was agreed on."""
    version = line.get(b"version")
    if not version:
        raise _refused("missing_protocol_version", "command=NEGOTIATE")
    number = atoi(version.encode())
    if number is None:
        raise _refused("invalid_protocol_version", f"requested={quoted(version)}")
    if number != 1:
        raise _refused("UNSUPPORTED_PROTOCOL_VERSION", f"requested={number} min=1 max=1", Fault.UNSUPPORTED)
    require = boolean(line.get(b"require_features") or "false")
    if require is None:
        raise _refused("invalid_require_features", f"value={quoted(line.get(b'require_features'))}")
    enabled, unsupported = _sorted_out(line.get(b"features"))
    if require and unsupported:
        raise _refused("UNSUPPORTED_FEATURE", f"features={','.join(unsupported)}", Fault.UNSUPPORTED)
    said = require if b"require_features" in line.fields else None
    return Request(
        Ping(),
        None,
        Negotiation(line.word, line.structured, line.get(b"features"), said, tuple(enabled), tuple(unsupported)),
    )


def _refused(code: str, rest: str, fault: Fault = Fault.INVALID_ARGUMENT) -> CommandFailed:
    return refused(f"{code} class=validation retryable=false {rest}", fault)


def _sorted_out(requested: str) -> tuple[list[str], list[str]]:
    """The features asked for that are served, and those that are not, each in alphabetical order."""
    if not requested:
        return [], []
    if requested == "*":
        return list(FEATURES), []
    names = requested.split(",")
    if len(requested) > _MAX_REQUEST:
        raise _bad_features(f"feature request exceeds {_MAX_REQUEST} bytes")
    if len(names) > _MAX_NAMES:
        raise _bad_features(f"feature request exceeds {_MAX_NAMES} entries")
    for name in names:
        if not _NAME.fullmatch(name):
            raise _bad_features(f"invalid feature name {quoted(name)}")
    asked = sorted(set(names))
    return [name for name in asked if name in FEATURES], [name for name in asked if name not in FEATURES]


def _bad_features(reason: str) -> CommandFailed:
    return _refused("invalid_protocol_features", f"reason={quoted(reason)}")
