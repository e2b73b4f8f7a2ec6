"""Metadata events: what the project writes into its Raft log, and never to a client.

An envelope of a number and an event, in JSON with snake_case keys, in the later tree in protobuf.
Source: protocol page, "Metadata events"; the later tree's mlog.proto.
"""

from __future__ import annotations

from typing import Final

import msgspec

from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.mlog.coding import JSON, Coding
from gateway.dialects.mlog.layout import I64, U16, U32, Message


class Event(Message, frozen=True, rename=None):
    """What every event is."""


class CreateTopicEvent(Event, frozen=True, gc=False):
    """Type 0."""

    topic: str = ""
    replica_count: U32 = 0
    leader_id: str = ""
    leader_epoch: I64 = 0
    replicas: list[str] | None = None


class DeleteTopicEvent(Event, frozen=True, gc=False):
    """Type 1."""

    topic: str = ""


class LeaderChangeEvent(Event, frozen=True, gc=False):
    """Type 2."""

    topic: str = ""
    leader_id: str = ""
    leader_epoch: I64 = 0


class IsrUpdateEvent(Event, frozen=True, gc=False):
    """Type 3."""

    topic: str = ""
    replica_id: str = ""
    isr: bool = False


class AddNodeEvent(Event, frozen=True, gc=False):
    """Type 4."""

    node_id: str = ""
    addr: str = ""
    rpc_addr: str = ""


class RemoveNodeEvent(Event, frozen=True, gc=False):
    """Type 5."""

    node_id: str = ""


class UpdateNodeEvent(Event, frozen=True, gc=False):
    """Type 6."""

    node_id: str = ""
    is_healthy: bool = False


EVENTS: Final[tuple[type[Event], ...]] = (
    CreateTopicEvent,
    DeleteTopicEvent,
    LeaderChangeEvent,
    IsrUpdateEvent,
    AddNodeEvent,
    RemoveNodeEvent,
    UpdateNodeEvent,
)
"""Number of an event -> event."""


class _Envelope(Event, frozen=True, gc=False):
    event_type: U16 = 0
    event: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="data")


def encode_event(event: Event, coding: Coding = JSON) -> bytes:
    """The envelope with the event in it.  Raises CommandFailed(UNREPRESENTABLE) for text that is no Unicode."""
    try:
        return coding.write(_Envelope(EVENTS.index(type(event)), msgspec.Raw(coding.write(event))))
    except ValueError as error:
        raise CommandFailed(Fault.UNREPRESENTABLE, str(error)) from error


def decode_event(entry: bytes, coding: Coding = JSON) -> Event:
    """The event in an envelope.  Raises CommandFailed(MALFORMED), UNSUPPORTED for a number that no event has."""
    try:
        envelope = coding.read(entry, _Envelope)
        if envelope.event_type >= len(EVENTS):
            raise CommandFailed(Fault.UNSUPPORTED, f"no event has the number {envelope.event_type}")
        return coding.read(bytes(envelope.event), EVENTS[envelope.event_type])
    except ValueError as error:
        raise CommandFailed(Fault.MALFORMED, f"not an event: {error}") from error
