"""What the drivers of the two Iggy packages have in common: they differ in name, and from version to version in calls.

A call is a method of the client by name, its arguments under `with`: texts and numbers, [text, ...] for messages,
[[hex], ...] for messages of octets, {name: [value, ...]} for a polling strategy.  Named ones are under `named`;
`seconds` in them are times.  Before the first call it connects and logs in, unless that is what is called.

Calls of its own:

    group         makes a consumer of a group: `with` is group, stream, topic
    consume       has that consumer show `count` messages
    send_octets   as send_messages, in versions that do not take texts alone

and what that consumer has itself: store_offset, delete_offset
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from gateway.conformance.drivers import lines

OPENING = ("connect", "login_user", "ping")
USER = ("iggy", "iggy")
METHODS = (
    *OPENING,
    "create_stream",
    "get_stream",
    "create_topic",
    "get_topic",
    "send_messages",
    "poll_messages",
)
SOON = timedelta(milliseconds=5)


class Driver:
    """One client of that module."""

    def __init__(self, iggy: Any, address: list[str]) -> None:
        self._iggy = iggy
        self._client = iggy.IggyClient(*address)
        self._consumer: Any = None
        self._opened = False
        self._loop = asyncio.new_event_loop()

    @property
    def calls(self) -> list[str]:
        """What it can be made to do."""
        named = [name for name in METHODS if hasattr(self._iggy.IggyClient, name)]
        named += ["send_octets"] if self._takes_octets else []
        grouped = ["group", "consume", "store_offset", "delete_offset"]
        return [*named, "wait", *(grouped if hasattr(self._iggy.IggyClient, "consumer_group") else [])]

    @property
    def _takes_octets(self) -> bool:
        try:
            self._iggy.SendMessage(b"any")
        except TypeError:
            return False
        return True

    def call(self, call: Mapping[str, Any]) -> object:
        """Both kinds of API: one blocks, one is awaited."""
        return self._loop.run_until_complete(self._call(str(call["call"]), call))

    async def _call(self, name: str, call: Mapping[str, Any]) -> object:
        opened, self._opened = self._opened, True
        if not opened and name not in OPENING:
            await _finished(self._client.connect())
            await _finished(self._client.login_user(*USER))
        if name == "wait":
            await asyncio.sleep(call["seconds"])
            return None
        if name == "group":
            await self._group(call["with"], call.get("commit", ""))
            return None
        if name == "consume":
            return await self._consume(call["count"])
        name = "send_messages" if name == "send_octets" else name
        callee = self._client if hasattr(self._client, name) else self._consumer
        named = {key: _named(key, value) for key, value in call.get("named", {}).items()}
        return _told(await _finished(getattr(callee, name)(*map(self._meant, call.get("with", [])), **named)))

    def _meant(self, argument: Any) -> Any:
        if isinstance(argument, list):
            return [self._message(each) for each in argument]
        if isinstance(argument, dict):
            ((name, values),) = argument.items()
            return getattr(self._iggy.PollingStrategy, name)(*values)
        return argument

    def _message(self, said: Any) -> Any:
        return self._iggy.SendMessage(bytes.fromhex(said[0]) if isinstance(said, list) else said)

    async def _group(self, place: list[str], commit: str) -> None:
        options: dict[str, Any] = {"batch_length": 10, "poll_interval": SOON, "polling_retry_interval": SOON}
        options["polling_strategy"] = self._iggy.PollingStrategy.Next()
        options["auto_commit"] = self._commits(commit)
        self._consumer = await _finished(self._client.consumer_group(*place, **options))

    def _commits(self, commit: str) -> Any:
        """`each` = after each message it was shown, "" = not by itself."""
        if commit == "each":
            return self._iggy.AutoCommit.After(self._iggy.AutoCommitAfter.ConsumingEachMessage())
        return self._iggy.AutoCommit.Disabled()

    async def _consume(self, count: int) -> list[Any]:
        found: list[Any] = []
        enough = asyncio.Event()

        async def take(message: Any) -> None:
            found.append(_told(message))
            if len(found) == count:
                enough.set()

        await self._consumer.consume_messages(take, enough)
        return found


async def _finished(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


def _named(key: str, value: Any) -> Any:
    return timedelta(seconds=value["seconds"]) if isinstance(value, dict) else value


def _told(result: Any) -> object:
    """What JSON can say of a result."""
    if isinstance(result, list):
        return [_told(each) for each in result]
    if hasattr(result, "payload"):
        return {"offset": result.offset(), "payload": result.payload().hex()}
    if hasattr(result, "name") and hasattr(result, "id"):
        return {"id": result.id, "name": result.name}
    return None


def generation(client: str, version: tuple[int, ...]) -> str:
    """What that version of that package speaks."""
    table: dict[str, list[tuple[tuple[int, ...], str]]] = {
        "apache-iggy": [((0, 7), "g2c"), ((0, 6), "g2b"), ((0, 5), "g2a")],
        "iggy-py": [((0, 2, 3), "g1b"), ((0, 2), "g1a")],
    }
    return next((name for since, name in table[client] if version >= since), "auto")


def main(client: str, iggy: Any) -> None:
    """The program."""
    version = lines.version_of(client)
    fixed = "127.0.0.1:8090" if client == "iggy-py" and version < (0, 2, 5) else ""
    driver = Driver(iggy, [] if fixed else sys.argv[1:2])
    lines.introduce(client, driver.calls, {"generation": generation(client, version)}, fixed)
    lines.serve(driver.call)
