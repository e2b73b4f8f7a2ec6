"""kill -9 at any moment: what was acknowledged is there, once, and in order."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from system.ledger import Ledger, producers, stored
from system.processes import GatewayProcess


@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.long)])
def test_after_kill_9_every_acknowledged_record_is_there_once_and_in_order(tmp_path: Path, kills: int) -> None:
    chance, ledger, moment = random.Random(kills), Ledger(), threading.Event()
    with GatewayProcess(tmp_path, "cursus", "pipe") as gateway:
        running = producers(ledger, gateway)
        for producer in running:
            producer.start()
        for kill in range(kills):
            early = kill % 5 == 4  # while it starts, and reads back what the last one left
            if not early:
                gateway.wait_ready()
                ledger.wait(chance.randint(1, 300))
            moment.wait(chance.uniform(0, 0.4 if early else 0.03))
            gateway.kill()
            gateway.spawn()
        gateway.wait_ready()
        ledger.wait(1000)
        for producer in running:
            producer.finish()
        assert ledger.complaints(stored(gateway), once=set("abcd")) == []
    assert ledger.count > 300 * len(running)
