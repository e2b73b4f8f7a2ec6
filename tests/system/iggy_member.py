"""Run as a process of its own, with one version of apache-iggy and nothing else on its path.

Arguments: host:port, stream, topic, group.  Takes part in the group, has the client store the offset of each message
after it was shown, and says for each, as a line of JSON,

    [offset, payload]       the payload as a text

Ends when its standard input does, and everything is stored that it has shown: the client stores behind its back.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import threading
from datetime import timedelta

import apache_iggy as iggy

BATCH = 20
"""Messages in a poll, few: so that one who ends has some that it did not show."""

PARTITIONS = 10
"""More than there are, whether they are counted from 0 or 1."""

SOON = timedelta(milliseconds=5)


async def show(message: iggy.ReceiveMessage) -> None:
    sys.stdout.write(json.dumps([message.offset(), message.payload().decode()]) + "\n")
    sys.stdout.flush()


async def main(address: str, stream: str, topic: str, group: str) -> None:
    client = iggy.IggyClient(address)
    await client.connect()
    await client.login_user("iggy", "iggy")
    consumer = client.consumer_group(
        group,
        stream,
        topic,
        polling_strategy=iggy.PollingStrategy.Next(),
        batch_length=BATCH,
        auto_commit=iggy.AutoCommit.After(iggy.AutoCommitAfter.ConsumingEachMessage()),
        poll_interval=SOON,
        polling_retry_interval=SOON,
    )
    if inspect.isawaitable(consumer):  # from 0.7.0 on
        consumer = await consumer
    await consumer.consume_messages(show, ending())
    while any(consumer.get_last_stored_offset(at) != consumer.get_last_consumed_offset(at) for at in range(PARTITIONS)):
        await asyncio.sleep(SOON.total_seconds())


def ending() -> asyncio.Event:
    """Set when standard input ends."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()

    def wait() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(event.set)

    threading.Thread(target=wait, daemon=True).start()
    return event


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
    os._exit(0)  # some versions abort now and then when the interpreter ends: their threads still want it
