"""Run as a process of its own, with one version of apache-iggy or iggy-py and nothing else on its path.

Argument: host:port, or none for a version that always dials 127.0.0.1:8090.  Each line of JSON that it hears is a call
of the client, or of the group consumer that it made last; each is answered by a line:

    [method, argument, ...]     ->  ["ok", result] or ["error", type, text]

Arguments are texts and numbers, [text, ...] for messages, [[hex], ...] for messages of octets, and {name: [value]} for
a polling strategy.  Of a message, stream or topic all is told that the version shows of it, a payload in hex.

Two calls are its own: `consumer_group` gives the consumer an auto-commit of none and polls of a thousand messages,
and `consume` has it consume until it has shown so many.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
from datetime import timedelta
from typing import Any

try:
    import apache_iggy as iggy
except ImportError:
    import iggy_py as iggy

OF_A_MESSAGE = ("payload", "offset", "timestamp", "id", "checksum", "length", "state", "partition_id")
OF_A_PLACE = ("id", "name", "messages_count", "topics_count", "partitions_count")
SOON = timedelta(milliseconds=5)


def meant(argument: Any) -> Any:
    """What the client wants for an argument."""
    if isinstance(argument, list):
        return [iggy.SendMessage(bytes.fromhex(each[0]) if isinstance(each, list) else each) for each in argument]
    if isinstance(argument, dict):
        ((name, values),) = argument.items()
        return getattr(iggy.PollingStrategy, name)(*values)
    return argument


def told(result: Any) -> Any:
    """What JSON can say of a result."""
    if isinstance(result, list):
        return [told(each) for each in result]
    if hasattr(result, "payload"):
        shown = {name: getattr(result, name)() for name in OF_A_MESSAGE if hasattr(result, name)}
        shown["payload"] = result.payload().hex()
        return shown | ({"state": str(shown["state"])} if "state" in shown else {})
    if hasattr(result, "messages_count"):
        return {name: getattr(result, name) for name in OF_A_PLACE if hasattr(result, name)}
    return None if result == () else result


class Called:
    """The client, and the consumer that it made last."""

    def __init__(self, address: list[str]) -> None:
        self._client = iggy.IggyClient(*address)
        self._consumer: Any = None

    async def call(self, method: str, *arguments: Any) -> Any:
        """Both kinds of API: one blocks, one is awaited."""
        if method == "consume":
            return await self._consume(*arguments)
        if method == "consumer_group":
            return await self._group(*arguments)
        callee = self._client if hasattr(self._client, method) else self._consumer
        return told(await finished(getattr(callee, method)(*map(meant, arguments))))

    async def _group(self, name: str, stream: str, topic: str) -> None:
        options = {"batch_length": 1000, "poll_interval": SOON, "polling_retry_interval": SOON}
        options |= {"polling_strategy": iggy.PollingStrategy.Next(), "auto_commit": iggy.AutoCommit.Disabled()}
        self._consumer = await finished(self._client.consumer_group(name, stream, topic, **options))

    async def _consume(self, count: int) -> list[Any]:
        found: list[Any] = []
        enough = asyncio.Event()

        async def take(message: Any) -> None:
            found.append(told(message))
            if len(found) == count:
                enough.set()

        await self._consumer.consume_messages(take, enough)
        return found


async def finished(result: Any) -> Any:
    """A result, awaited if the client gives one that must be."""
    return await result if inspect.isawaitable(result) else result


async def main(address: list[str]) -> None:
    client = Called(address)
    for line in sys.stdin:
        try:
            answer = ["ok", await client.call(*json.loads(line))]
        except BaseException as failure:  # a panic of the client is no Exception
            answer = ["error", type(failure).__name__, str(failure)]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
    os._exit(0)  # some versions abort now and then when the interpreter ends: their threads still want it
