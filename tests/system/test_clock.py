"""A wall clock that jumps by hours, back and forth: deadlines do not notice, and times of records still rise."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import wire
from gateway.core import commands as q
from gateway.core.records import Record, canonical
from gateway.core.replies import Joined, Records
from system.peers import Stream
from system.processes import ROOT, GatewayProcess
from system.speaking import Speaking

JUMPING = '''
"""The wall of this process is an hour ahead in one half of each second, and an hour behind in the other."""
import time

_time, _time_ns, _monotonic = time.time, time.time_ns, time.monotonic


def _off():
    return 3600 if _monotonic() % 1.0 < 0.5 else -3600


time.time = lambda: _time() + _off()
time.time_ns = lambda: _time_ns() + _off() * 1_000_000_000
'''
FRAME_SECONDS = 2.0
HOUR = 3600.0
ORDERS = q.Topic("default", "orders")


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    (tmp_path / "sitecustomize.py").write_text(JUMPING)
    imports = Path(f"{tmp_path}{os.pathsep}{ROOT}")
    settings: dict[str, dict[str, float]] = {"native": {}, "cursus": {"frame_seconds": FRAME_SECONDS}}
    with GatewayProcess(tmp_path, "native", "cursus", settings=settings, imports=imports) as gateway:
        yield gateway


def test_deadlines_are_kept_and_times_of_records_rise_while_the_wall_clock_jumps(gateway: GatewayProcess) -> None:
    with Speaking("native", gateway.ports["native"]) as peer, Stream(gateway.ports["cursus"]) as slow:
        joined = peer.ask(q.JoinGroup(ORDERS, "g", "", q.Heartbeats(30.0), create=1))
        assert isinstance(joined, Joined)
        began = time.monotonic()
        slow.send(wire.request("cursus", q.ListTopics("default"))[:-2])
        for number in range(60):
            peer.ask(q.Publish(ORDERS, 0, canonical([Record(value=b"%d" % number)])))
            time.sleep(0.02)
        assert slow.rest() == b""
        assert FRAME_SECONDS <= time.monotonic() - began < FRAME_SECONDS + 10.0, "neither an hour early nor late"
        began = time.monotonic()
        peer.ask(q.Fetch(ORDERS, 0, 60, wait=1.0))
        assert 1.0 <= time.monotonic() - began < 10.0, "nor is a poll that waits"
        assert not isinstance(peer.ask(q.Heartbeat(ORDERS, "g", joined.member, joined.generation)), Exception)
        found = peer.ask(q.Fetch(ORDERS, 0, 0, 100))
    assert isinstance(found, Records)
    times = [timestamp for batch in found.batches for _, timestamp, _ in batch.rows()]
    assert len(times) == 60 and all(earlier < later for earlier, later in pairwise(times))
    assert abs(times[0] / 1e6 - time.time()) > HOUR / 2, "it was the wall that jumped"
