"""What is measured of the Iggy dialect, and of reading in one dialect what another wrote."""

from __future__ import annotations

from gateway.bench.frames import IGGY_G1B, PAYLOAD
from gateway.bench.loads import BATCH, fetch_of_iggy, iggy_ping, iggy_poll, iggy_poll_of_cursus, iggy_send
from gateway.bench.scenario import GATEWAY, Scenario

MANY = 1_000
"""Messages of a big request."""

IGGY = (
    Scenario(
        name=f"iggy-send-{BATCH}",
        about=f"SEND of {BATCH} messages of {PAYLOAD} bytes by clients of 0.10",
        load=iggy_send(BATCH),
        port="iggy",
        connections=8,
        depth=16,
        records=BATCH,
        stores=True,
        on=GATEWAY,
        echo="echo-batch/echo",
        file="file-batch/file",
    ),
    Scenario(
        name=f"iggy-send-{MANY}",
        about=f"SEND of {MANY} messages",
        load=iggy_send(MANY),
        port="iggy",
        connections=8,
        depth=4,
        records=MANY,
        stores=True,
        on=GATEWAY,
    ),
    Scenario(
        name=f"iggy-send-{BATCH}-g1",
        about=f"SEND of {BATCH} messages by clients of 0.6, in the layout before the index",
        load=iggy_send(BATCH, IGGY_G1B),
        port="iggy",
        connections=8,
        depth=16,
        records=BATCH,
        stores=True,
        on=("memory",),
        echo="echo-batch/echo",
    ),
    Scenario(
        name=f"iggy-poll-{BATCH}",
        about=f"POLL of {BATCH} messages a request, as they were sent",
        load=iggy_poll(BATCH),
        port="iggy",
        connections=1,
        depth=4,
        records=BATCH,
        on=GATEWAY,
    ),
    Scenario(
        name=f"iggy-poll-{MANY}",
        about=f"POLL of {MANY} messages a request, which were sent {BATCH} at a time",
        load=iggy_poll(MANY),
        port="iggy",
        connections=1,
        depth=4,
        records=MANY,
        on=GATEWAY,
    ),
    Scenario(
        name=f"iggy-poll-{BATCH}-of-cursus",
        about=f"the same as iggy-poll-{BATCH}, of batches that Cursus wrote",
        load=iggy_poll_of_cursus(BATCH),
        port="iggy",
        connections=1,
        depth=4,
        records=BATCH,
        on=GATEWAY,
    ),
    Scenario(
        name=f"iggy-poll-{MANY}-of-cursus",
        about=f"the same as iggy-poll-{MANY}, of batches that Cursus wrote",
        load=iggy_poll_of_cursus(MANY),
        port="iggy",
        connections=1,
        depth=4,
        records=MANY,
        on=GATEWAY,
    ),
    Scenario(
        name="cursus-fetch-of-iggy",
        about=f"the same as cursus-fetch, of batches of {BATCH} that Iggy wrote",
        load=fetch_of_iggy,
        port="cursus",
        connections=1,
        depth=4,
        records=BATCH,
        on=GATEWAY,
    ),
    Scenario(
        name="iggy-ping",
        about="PING",
        load=iggy_ping,
        port="iggy",
        connections=50,
        depth=64,
        on=("memory",),
        echo="echo-50x64/echo",
    ),
)
