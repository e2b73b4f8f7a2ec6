"""Readiness and metrics of a store on a disk: sqlite, its threads and its file are real."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs

from backends.driving import Driver, Reactor
from backends.test_sqlite import UNAVAILABLE, Disk, publish
from gateway.admin.metrics import Metrics
from gateway.admin.view import View
from gateway.admin.web_delay import Delay
from gateway.admin.web_watch import Watch
from gateway.backends.sqlite import INSIST_SECONDS, SqliteBackend
from gateway.core.replies import Published
from gateway.net.port import Port

LARGE = b"x" * 100_000


class Store:
    """A sqlite backend that is looked at."""

    def __init__(self, directory: Path) -> None:
        self.reactor = Reactor()
        self.backend = SqliteBackend(directory, {}, self.reactor)
        self.driver = Driver(self.backend, self.reactor)
        view = View(Port(self.backend, self.reactor), self.backend, lambda: [], self.reactor, 0, lambda: None)
        delay = Delay(self.reactor)
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.registry, view, delay)
        self._watch = Watch(view, delay, self.reactor)

    def problem(self) -> str:
        """Why it is not ready, "" = it is."""
        said: str = self.reactor.wait(Deferred.fromCoroutine(self._watch.ready()))
        return said

    def sample(self, name: str) -> float | None:
        return self.registry.get_sample_value(name)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    store.driver.close()


def test_commits_are_counted_with_what_was_in_them(store: Store) -> None:
    store.driver.ask(publish(b"first", create=1))
    for begun in [store.driver.begin(publish(b"more")) for _ in range(200)]:
        assert isinstance(store.driver.outcome(begun), Published)
    commits = store.sample("gateway_commit_seconds_count")
    assert commits is not None and 2 <= commits <= 201
    assert store.sample("gateway_commit_commands_sum") == 201
    assert store.sample("gateway_commit_commands_count") == commits
    total = store.sample("gateway_commit_seconds_sum")
    assert total is not None and total > 0
    assert store.sample("gateway_commit_failures_total") == 0


def test_what_only_looks_is_no_commit(store: Store) -> None:
    store.driver.ask(publish(b"first", create=1))
    before = store.sample("gateway_commit_seconds_count")
    store.problem()
    assert store.sample("gateway_commit_seconds_count") == before == 1


def test_on_a_full_disk_it_is_not_ready_and_when_there_is_room_it_is_again_by_itself(store: Store) -> None:
    store.driver.ask(publish(b"before", create=1))
    assert store.problem() == ""
    disk = Disk(store.driver)
    disk.fill()
    with capturedLogs():
        assert store.driver.ask(publish(LARGE)) == UNAVAILABLE
    assert "full" in store.problem()
    assert store.sample("gateway_commit_failures_total") == 1
    time.sleep(1.5 * INSIST_SECONDS)
    assert "full" in store.problem(), "it was tried again, and is still full"
    disk.empty()
    deadline = time.monotonic() + 10 * INSIST_SECONDS
    while store.problem():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert store.driver.ask(publish(LARGE)) == Published(0, 1, 1)


def test_a_write_that_the_disk_takes_makes_it_ready_at_once(store: Store) -> None:
    store.driver.ask(publish(b"before", create=1))
    disk = Disk(store.driver)
    disk.fill()
    with capturedLogs():
        assert store.driver.ask(publish(LARGE)) == UNAVAILABLE
    disk.empty()
    assert isinstance(store.driver.ask(publish(b"after")), Published)
    assert store.problem() == ""
