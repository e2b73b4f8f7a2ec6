"""What is measured of the grid dialect: a map of a thousand keys, written and read one key at a time."""

from __future__ import annotations

from gateway.bench.frames import PAYLOAD
from gateway.bench.loads import grid_get, grid_put
from gateway.bench.scenario import GATEWAY, Scenario

GRID = (
    Scenario(
        name="grid-put",
        about=f"MAP_PUT of {PAYLOAD} bytes",
        load=grid_put,
        port="grid",
        connections=8,
        depth=64,
        records=1,
        stores=True,
        on=GATEWAY,
        echo="echo-8x64/echo",
    ),
    Scenario(
        name="grid-put-ping-pong",
        about="the same, one at a time",
        load=grid_put,
        port="grid",
        connections=1,
        depth=1,
        records=1,
        stores=True,
        apart=True,
        on=GATEWAY,
        echo="echo-ping-pong/echo",
    ),
    Scenario(
        name="grid-get",
        about=f"MAP_GET of {PAYLOAD} bytes",
        load=grid_get,
        port="grid",
        connections=8,
        depth=64,
        on=("sqlite", "captured-sqlite", "memory", "captured", "remote"),
        echo="echo-8x64/echo",
    ),
    Scenario(
        name="grid-get-ping-pong",
        about="the same, one at a time",
        load=grid_get,
        port="grid",
        connections=1,
        depth=1,
        apart=True,
        on=(*GATEWAY, "remote"),
        echo="echo-ping-pong/echo",
    ),
)
