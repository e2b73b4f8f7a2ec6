"""What is measured of the mlog dialect.  Without correlation ids, requests in flight are answered in order."""

from __future__ import annotations

from gateway.bench.frames import PAYLOAD
from gateway.bench.loads import BATCH, mlog_fetch, mlog_fetch_batch, mlog_produce, mlog_produce_batch
from gateway.bench.scenario import GATEWAY, Scenario

MLOG = (
    Scenario(
        name="mlog-produce",
        about="Produce, one record a request",
        load=mlog_produce,
        port="mlog",
        connections=8,
        depth=64,
        records=1,
        stores=True,
        on=GATEWAY,
        echo="echo-8x64/echo",
    ),
    Scenario(
        name=f"mlog-produce-{BATCH}",
        about=f"ProduceBatch of {BATCH} records of {PAYLOAD} bytes, base64 in JSON",
        load=mlog_produce_batch,
        port="mlog",
        connections=8,
        depth=16,
        records=BATCH,
        stores=True,
        on=GATEWAY,
        echo="echo-batch/echo",
        file="file-batch/file",
    ),
    Scenario(
        name="mlog-fetch",
        about="Fetch, one record a request",
        load=mlog_fetch,
        port="mlog",
        connections=8,
        depth=64,
        records=1,
        on=GATEWAY,
        echo="echo-8x64/echo",
    ),
    Scenario(
        name=f"mlog-fetch-{BATCH}",
        about=f"FetchBatch of {BATCH} records a request",
        load=mlog_fetch_batch,
        port="mlog",
        connections=1,
        depth=4,
        records=BATCH,
        on=GATEWAY,
    ),
)
