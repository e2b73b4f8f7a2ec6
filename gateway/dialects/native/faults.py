"""Faults travel by their names in core.faults."""

from __future__ import annotations

from gateway.core.faults import CommandFailed, Fact, Fault

CODES: dict[Fault, str] = {fault: fault.name for fault in Fault}


def told(failure: CommandFailed) -> tuple[str, str, dict[str, Fact]]:
    """What the peer may know of a failure: name, detail, facts.  Of INTERNAL nothing but the name."""
    if failure.fault is Fault.INTERNAL:
        return failure.fault.name, "", {}
    return failure.fault.name, failure.detail, failure.facts


def understood(name: str, detail: str, facts: dict[str, Fact]) -> CommandFailed:
    """The failure that `told` was told of.  A name unknown here is INTERNAL, with the name in the detail."""
    if name not in Fault.__members__:
        return CommandFailed(Fault.INTERNAL, f"{name}: {detail}")
    failure = CommandFailed(Fault[name], detail)
    failure.facts.update(facts)  # not as keywords: their names are the peer's choice
    return failure
