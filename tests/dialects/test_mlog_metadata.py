"""Metadata events, which the project writes into its Raft log: as golden bytes, and what is none of them."""

from __future__ import annotations

import pytest

from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.mlog import metadata as events
from gateway.dialects.mlog.coding import PROTOBUF

EVENTS: list[tuple[events.Event, str, str]] = [
    (
        events.CreateTopicEvent("orders", 1, "node-1", 1, ["node-2"]),
        '{"event_type":0,"data":{"topic":"orders","replica_count":1,"leader_id":"node-1","leader_epoch":1,'
        '"replicas":["node-2"]}}',
        "121c" + "0a066f7264657273" + "1001" + "1a066e6f64652d31" + "2001" + "2a066e6f64652d32",
    ),
    (
        events.DeleteTopicEvent("orders"),
        '{"event_type":1,"data":{"topic":"orders"}}',
        "0801" + "1208" + "0a066f7264657273",
    ),
    (
        events.LeaderChangeEvent("orders", "node-1", 2),
        '{"event_type":2,"data":{"topic":"orders","leader_id":"node-1","leader_epoch":2}}',
        "0802" + "1212" + "0a066f7264657273" + "12066e6f64652d31" + "1802",
    ),
    (
        events.IsrUpdateEvent("orders", "node-2", True),
        '{"event_type":3,"data":{"topic":"orders","replica_id":"node-2","isr":true}}',
        "0803" + "1212" + "0a066f7264657273" + "12066e6f64652d32" + "1801",
    ),
    (
        events.AddNodeEvent("n", "a:1", "b:2"),
        '{"event_type":4,"data":{"node_id":"n","addr":"a:1","rpc_addr":"b:2"}}',
        "0804" + "120d" + "0a016e" + "1203613a31" + "1a03623a32",
    ),
    (events.RemoveNodeEvent("n"), '{"event_type":5,"data":{"node_id":"n"}}', "0805" + "1203" + "0a016e"),
    (
        events.UpdateNodeEvent("n", False),
        '{"event_type":6,"data":{"node_id":"n","is_healthy":false}}',
        "0806" + "1203" + "0a016e",
    ),
]


@pytest.mark.parametrize(("event", "text", "octets"), EVENTS, ids=[type(event).__name__ for event, _, _ in EVENTS])
def test_a_metadata_event_is_written_as_the_project_writes_it(event: events.Event, text: str, octets: str) -> None:
    assert events.encode_event(event) == text.encode()
    assert events.encode_event(event, PROTOBUF) == bytes.fromhex(octets)
    assert events.decode_event(text.encode()) == event
    assert events.decode_event(bytes.fromhex(octets), PROTOBUF) == event


def test_events_are_read_as_go_reads_them() -> None:
    entry = b' {"Data" : {"TOPIC":"orders", "x":[1]} , "Event_Type":1, "y":0}'
    assert events.decode_event(entry) == events.DeleteTopicEvent("orders")


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        (b'{"event_type":7,"data":{}}', Fault.UNSUPPORTED),
        (b'{"event_type":65536,"data":{}}', Fault.MALFORMED),
        (b'{"event_type":1}', Fault.MALFORMED),
        (b'{"event_type":1,"data":[]}', Fault.MALFORMED),
        (b'{"event_type":1,"data":{"topic":1}}', Fault.MALFORMED),
        (b"", Fault.MALFORMED),
    ],
)
def test_what_is_no_event_is_refused(entry: bytes, fault: Fault) -> None:
    with pytest.raises(CommandFailed) as caught:
        events.decode_event(entry)
    assert caught.value.fault is fault


def test_an_event_of_no_unicode_is_not_written() -> None:
    with pytest.raises(CommandFailed) as caught:
        events.encode_event(events.DeleteTopicEvent("\ud800"))
    assert caught.value.fault is Fault.UNREPRESENTABLE
