"""A gateway with something to show: clients of five dialects that write, read, fall behind and make mistakes."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from gateway.core import commands as q
from gateway.core.records import Header, Record, canonical
from system.peers import Lines
from system.speaking import Speaking

TOPICS = {"orders": 240, "payments": 90, "clicks": 520, "sensors/kitchen": 35, "audit": 14}
"""Records a second, about."""

READERS = {
    ("orders", "billing"): 1.0,
    ("orders", "search-index"): 0.82,
    ("clicks", "warehouse"): 0.97,
    ("audit", "archive"): 1.0,
}
"""Topic and group -> which part of the records it manages to read."""

TICK = 0.1


class Busy:
    """Keeps the gateway on these ports busy, for as long as the block runs."""

    def __init__(self, ports: dict[str, int]) -> None:
        self._ports = ports
        self._over = threading.Event()
        self._failed: list[BaseException] = []
        jobs = (self._write_batches, self._write_lines, self._put, self._commit, self._stumble, self._idle)
        self._threads = [threading.Thread(target=self._guarded, args=(job,), daemon=True) for job in jobs]

    def __enter__(self) -> Busy:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(30)
        assert not self._failed, self._failed

    def _guarded(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            self._failed.append(error)

    def _turns(self, seconds: float = TICK) -> bool:
        return not self._over.wait(seconds)

    def _write_batches(self) -> None:
        with Speaking("native", self._ports["native"]) as client:
            turn = 0
            while self._turns():
                turn += 1
                for name, speed in TOPICS.items():
                    swing = 1 + 0.45 * math.sin(turn / (9 + len(name))) + 0.2 * math.sin(turn / 3.1)
                    records = [
                        Record(b"user%d" % at, b"seen\nand counted" * 6, (Header(b"trace", b"1"),))
                        for at in range(int(speed * TICK * swing))
                    ]
                    if records:
                        client.ask(q.Publish(q.Topic("default", name), turn % 3, canonical(records), create=3))

    def _write_lines(self) -> None:
        with Lines(self._ports["pipe"]) as client:
            at = 0
            while self._turns(0.03):
                at += 1
                client.produce("signups", f"user{at}", "hello")
                client.consume("signups", 0, at // 3)
                if not at % 100:
                    client.ask(q.Fetch(q.Topic("default", "orders"), 0, 0))

    def _put(self) -> None:
        with Speaking("grid", self._ports["grid"]) as client:
            at = 0
            while self._turns(0.02):
                at += 1
                users = q.Topic("default", "users")
                client.ask(q.MapPut(users, b"user%d" % (at % 50), b"seen %d times" % at, create=1))
                client.ask(q.MapGet(users, b"user%d" % (at % 50)))

    def _commit(self) -> None:
        with Speaking("native", self._ports["native"]) as client:
            while self._turns(0.5):
                for (name, group), part in READERS.items():
                    topic = q.Topic("default", name)
                    client.ask(q.JoinGroup(topic, group, f"{group}-1", q.Heartbeats(30.0), create=3))
                    ends = client.ask(q.LatestOffsets(topic)).offsets
                    client.ask(
                        q.CommitOffsets(topic, q.Group(group), {at.partition: int(at.end * part) for at in ends})
                    )

    def _stumble(self) -> None:
        with Speaking("iggy", self._ports["iggy"]) as client, Speaking("native", self._ports["native"]) as native:
            while self._turns(6.0):
                client.ask(q.Authenticate("plain", "iggy", "wrong"))
                native.ask(q.Fetch(q.Topic("default", "invoices"), 0, 0))
                native.ask(q.MapAdd(q.Topic("default", "users"), b"user1", 1))

    def _idle(self) -> None:
        with Speaking("cursus", self._ports["cursus"]), Speaking("mlog", self._ports["mlog"]):
            self._over.wait()


def wait(seconds: float) -> None:
    """Let it be busy."""
    time.sleep(seconds)
