"""What can be said of a load that is measured: a Scenario, and a Row, which is a Scenario on one server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from gateway.bench.control import Control
from gateway.bench.loads import Load

Target = Literal["memory", "sqlite", "captured", "captured-sqlite", "remote", "kafka", "echo", "file"]
"""memory, sqlite: the gateway with that backend.  captured, captured-sqlite: the same, and all that crosses is written
to files.  remote: the gateway before another one with memory, native between them.  kafka: before a broker that
somebody runs.  echo: the reference server.  file: appends of our own, no server."""

GATEWAY: tuple[Target, ...] = ("sqlite", "memory")
"""The gateway with each of its own backends."""

EVERYWHERE: tuple[Target, ...] = (*GATEWAY, "remote", "kafka")
"""And with those that others do the work for."""

WATCHED: tuple[Target, ...] = ("sqlite", "captured-sqlite", "memory", "captured", "remote", "kafka")
"""And with all that crosses written to files: each behind what it is compared with, since machines change."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of load.

    load:    Control, number of connections -> Load; makes topics and groups where it needs them.
    port:    the listener it goes to.
    depth:   requests in flight on each connection.
    records: in each request, 0 = it is requests that are counted.
    stores:  what is acknowledged must be found in the topic afterwards.
    on:      the servers it is measured on; on kafka only where one is named.
    apart:   load and server keep to one core each, where the server has but one thread.
    echo:    the row of the reference under the same load.
    file:    the row of the plain file that durable figures are compared with.
    """

    name: str
    about: str
    load: Callable[[Control, int], Load]
    port: str
    connections: int
    depth: int
    on: tuple[Target, ...]
    records: int = 0
    stores: bool = False
    apart: bool = False
    echo: str = ""
    file: str = ""


class Row(msgspec.Struct, frozen=True):
    """A scenario on one server, called `scenario/server`."""

    scenario: Scenario
    target: Target

    @property
    def name(self) -> str:
        """As it is selected and shown."""
        return f"{self.scenario.name}/{self.target}"

    @property
    def unit(self) -> str:
        """What its rate counts."""
        return "records/s" if self.scenario.records else "requests/s"
