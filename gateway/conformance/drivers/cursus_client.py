"""Drives cursus-client, which has a producer, a consumer and an event store.

produce   topic, messages, and key, partitions, acks, idempotent, compression, retries, timeout_ms, flush_ms;
          `apart` seconds between the first message and the others, which so come to be in one batch
consume   topic, group, member, mode, and heartbeat_ms, commit_seconds, immediate, commit_batch, reset, seconds
events    topic, do (create, append, read, save, load, version), and key, version, type, payload, partitions
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from typing import Any

from gateway.conformance.drivers import lines

cursus: Any = importlib.import_module("cursus")  # one of several versions, or none where this is only looked at

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else ""


def produce(call: dict[str, Any]) -> object:
    """Sends, waits until it has landed, and tells how much was acknowledged."""
    config = cursus.ProducerConfig(
        topic=call["topic"],
        brokers=[ADDRESS],
        partitions=call.get("partitions", 1),
        acks=cursus.Acks(call.get("acks", "1")),
        idempotent=call.get("idempotent", False),
        linger_ms=20,
        max_retries=call.get("retries", 3),
        write_timeout_ms=call.get("timeout_ms", 5000),
        compression_type=call.get("compression", "none"),
        flush_timeout_ms=call.get("flush_ms", 10_000),
    )
    producer = cursus.Producer(config)
    for number, payload in enumerate(call["messages"]):
        if number == 1:
            time.sleep(call.get("apart", 0.0))
        producer.send(payload, key=call.get("key", ""))
    producer.flush()
    due = time.monotonic() + config.flush_timeout_ms / 1000
    while producer.unique_ack_count < len(call["messages"]) and time.monotonic() < due:
        time.sleep(0.01)  # 0.1.0 takes what is on its way for flushed
    producer.close()
    return producer.unique_ack_count


def consume(call: dict[str, Any]) -> object:
    """Consumes for some seconds, leaves the group, and tells what it was shown."""
    options = {"auto_offset_reset": cursus.AutoOffsetReset(call["reset"])} if "reset" in call else {}
    config = cursus.ConsumerConfig(
        topic=call["topic"],
        brokers=[ADDRESS],
        group_id=call["group"],
        consumer_id=call["member"],
        mode=cursus.ConsumerMode(call.get("mode", "polling")),
        heartbeat_interval_ms=call.get("heartbeat_ms", 3000),
        auto_commit_interval_s=call.get("commit_seconds", 5.0),
        immediate_commit=call.get("immediate", False),
        commit_batch_size=call.get("commit_batch", 100),
        **options,
    )
    shown: list[object] = []
    consumer = cursus.Consumer(config)
    ending = threading.Timer(call.get("seconds", 60.0), consumer.close)
    ending.start()
    try:
        consumer.start(lambda message: shown.append([message.offset, message.payload]))
        ending.join()
    finally:
        ending.cancel()
    return shown


def events(call: dict[str, Any]) -> object:
    """One call of the event store."""
    store = cursus.EventStore(ADDRESS, call["topic"], call.get("producer", "p1"))
    match call["do"]:
        case "create":
            store.create_topic(call.get("partitions", 1))
        case "append":
            event = cursus.Event(call["type"], call["payload"], metadata=call.get("metadata", ""))
            result = store.append(call["key"], call["version"], event)
            return [result.version, result.offset, result.partition]
        case "read":
            return [event.payload for event in store.read_stream(call["key"], call.get("version", 0)).events]
        case "save":
            store.save_snapshot(call["key"], call["version"], call["payload"])
        case "load":
            found = store.read_snapshot(call["key"])
            return found and [found.version, found.payload]
        case "version":
            return store.stream_version(call["key"])
    return None


def wait(call: dict[str, Any]) -> object:
    """Nothing for so many seconds."""
    time.sleep(call["seconds"])
    return None


CALLS = {"produce": produce, "consume": consume, "events": events, "wait": wait}
if hasattr(cursus, "AutoOffsetReset"):
    CALLS["consume_from"] = consume

if __name__ == "__main__":
    lines.introduce("cursus-client", list(CALLS), {})
    lines.serve(lambda call: CALLS[str(call["call"])](call))
