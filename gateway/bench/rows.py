"""What is measured: the table that a new load is added to, and the rows it makes."""

from __future__ import annotations

from gateway.bench import frames
from gateway.bench.control import TOPIC
from gateway.bench.grid_rows import GRID
from gateway.bench.iggy_rows import IGGY
from gateway.bench.loads import (
    BATCH,
    echoed,
    fetch,
    heartbeat,
    pipe_offset,
    pipe_produce,
    poll_group,
    produce,
    stream_group,
)
from gateway.bench.mlog_rows import MLOG
from gateway.bench.scenario import EVERYWHERE, GATEWAY, WATCHED, Row, Scenario

SMALL = frames.framed(b"x" * 32)

SCENARIOS = (
    Scenario(
        name="echo-batch",
        about=f"frames of the size of a batch of {BATCH}",
        load=echoed(frames.cursus_batch(TOPIC, 0, BATCH)),
        port="echo",
        connections=8,
        depth=16,
        records=BATCH,
        on=("echo",),
    ),
    Scenario(
        name="echo-8x64",
        about=f"frames of {len(SMALL)} bytes",
        load=echoed(SMALL),
        port="echo",
        connections=8,
        depth=64,
        on=("echo",),
    ),
    Scenario(
        name="echo-50x64",
        about=f"frames of {len(SMALL)} bytes",
        load=echoed(SMALL),
        port="echo",
        connections=50,
        depth=64,
        on=("echo",),
    ),
    Scenario(
        name="echo-ping-pong",
        about=f"frames of {len(SMALL)} bytes, one at a time",
        load=echoed(SMALL),
        port="echo",
        connections=1,
        depth=1,
        apart=True,
        on=("echo",),
    ),
    Scenario(
        name="file-batch",
        about=f"append of a batch of {BATCH}, then fdatasync, in one process",
        load=produce(BATCH),
        port="",
        connections=1,
        depth=1,
        records=BATCH,
        on=("file",),
    ),
    Scenario(
        name="cursus-batch",
        about=f"produce, batches of {BATCH} records of {frames.PAYLOAD} bytes",
        load=produce(BATCH),
        port="cursus",
        connections=8,
        depth=16,
        records=BATCH,
        stores=True,
        on=WATCHED,
        echo="echo-batch/echo",
        file="file-batch/file",
    ),
    Scenario(
        name="cursus-single",
        about="produce, batches of one record",
        load=produce(1),
        port="cursus",
        connections=8,
        depth=64,
        records=1,
        stores=True,
        on=WATCHED,
        echo="echo-8x64/echo",
    ),
    Scenario(
        name="cursus-ping-pong",
        about="produce, one record, one at a time",
        load=produce(1),
        port="cursus",
        connections=1,
        depth=1,
        records=1,
        stores=True,
        apart=True,
        on=EVERYWHERE,
        echo="echo-ping-pong/echo",
    ),
    Scenario(
        name="cursus-fetch",
        about=f"CONSUME of {BATCH} records a request",
        load=fetch,
        port="cursus",
        connections=1,
        depth=4,
        records=BATCH,
        on=EVERYWHERE,
    ),
    Scenario(
        name="cursus-group-poll",
        about=f"CONSUME of {BATCH} records by a member of a group, and a BATCH_COMMIT",
        load=poll_group,
        port="cursus",
        connections=1,
        depth=4,
        records=BATCH,
        on=GATEWAY,
    ),
    Scenario(
        name="cursus-group-stream",
        about=f"STREAM of four groups while four connections produce batches of {BATCH}: what the streams get",
        load=stream_group,
        port="cursus",
        connections=4,
        depth=16,
        records=BATCH,
        stores=True,
        on=GATEWAY,
    ),
    Scenario(
        name="cursus-heartbeat",
        about="HEARTBEAT of a member of a group",
        load=heartbeat,
        port="cursus",
        connections=50,
        depth=64,
        on=("memory",),
        echo="echo-50x64/echo",
    ),
    Scenario(
        name="pipe-produce",
        about="PRODUCE, one record a line",
        load=pipe_produce,
        port="pipe",
        connections=8,
        depth=64,
        records=1,
        stores=True,
        on=GATEWAY,
        echo="echo-8x64/echo",
    ),
    Scenario(
        name="pipe-offset",
        about="OFFSET, as cheap as a heartbeat",
        load=pipe_offset,
        port="pipe",
        connections=50,
        depth=64,
        on=("memory",),
        echo="echo-50x64/echo",
    ),
    *IGGY,
    *MLOG,
    *GRID,
)


def rows(only: tuple[str, ...] = (), kafka: bool = False) -> list[Row]:
    """Every row, or those whose name has one of these in it.  kafka: there is a broker."""
    every = [Row(scenario, target) for scenario in SCENARIOS for target in scenario.on if kafka or target != "kafka"]
    return [row for row in every if not only or any(part in row.name for part in only)]
