"""gateway.notify: what systemd hears, at a socket of its kind and by a clock of ours."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher

from gateway.notify import Notifier


class Listening:
    """A notification socket."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.setblocking(False)

    def heard(self) -> list[list[str]]:
        """What was said since the last look: the lines of each message."""
        found: list[list[str]] = []
        try:
            while True:
                found.append(self._socket.recv(4096).decode().split("\n"))
        except BlockingIOError:
            return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Listening]:
    listening = Listening(str(tmp_path / "notify"))
    yield listening
    listening.close()


def test_systemd_hears_of_the_start_of_a_reload_and_of_the_stop(tmp_path: Path, systemd: Listening) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")}, Clock(), lambda: 12_345_678)
    assert systemd.heard() == []
    notifier.ready("serving pipe")
    assert systemd.heard() == [["READY=1", "STATUS=serving pipe"]]
    notifier.reloading()
    notifier.ready("serving pipe")
    assert systemd.heard() == [["RELOADING=1", "MONOTONIC_USEC=12345"], ["READY=1", "STATUS=serving pipe"]]
    notifier.stopping()
    assert [lines[0] for lines in systemd.heard()] == ["STOPPING=1"]


def test_the_watchdog_hears_twice_in_its_time_from_ready_to_the_end(tmp_path: Path, systemd: Listening) -> None:
    clock = Clock()
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "30000000"}
    notifier = Notifier(environment | {"WATCHDOG_PID": str(os.getpid())}, clock)
    clock.advance(60)
    assert systemd.heard() == [], "it is not ready"
    notifier.ready("")
    notifier.ready("")
    assert systemd.heard().count(["WATCHDOG=1"]) == 1
    clock.pump([15, 15])
    assert systemd.heard() == [["WATCHDOG=1"]] * 2
    notifier.stopping()
    clock.advance(15)
    assert systemd.heard()[1:] == [["WATCHDOG=1"]], "who hangs while stopping is missed, too"
    notifier.close()
    notifier.close()
    clock.advance(60)
    assert systemd.heard() == []


@pytest.mark.parametrize(
    "watchdog",
    [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}],
)
def test_without_a_watchdog_of_ours_there_is_no_clockwork(
    tmp_path: Path, systemd: Listening, watchdog: dict[str, str]
) -> None:
    clock = Clock()
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")} | watchdog, clock).ready("")
    assert clock.getDelayedCalls() == []
    assert len(systemd.heard()) == 1


def test_an_abstract_name_begins_with_an_at_sign() -> None:
    name = f"gateway-test-{os.getpid()}"
    listening = Listening(f"\0{name}")
    Notifier({"NOTIFY_SOCKET": f"@{name}"}, Clock()).stopping()
    assert len(listening.heard()) == 1
    listening.close()


@pytest.mark.parametrize("name", ["", "vsock:2:1", "notify"])
def test_who_is_not_started_by_systemd_says_nothing_and_has_no_clockwork(name: str) -> None:
    clock = Clock()
    notifier = Notifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1000000"}, clock)
    notifier.ready("")
    notifier.stopping()
    assert clock.getDelayedCalls() == []


def test_a_systemd_that_does_not_hear_is_told_of_in_the_log_and_hinders_nobody(
    tmp_path: Path, systemd: Listening
) -> None:
    logged: list[str] = []
    observer = lambda event: logged.append(str(event.get("error")))  # noqa: E731
    globalLogPublisher.addObserver(observer)
    try:
        Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")}, Clock()).stopping()
        assert len(logged) == 1 and "No such file" in logged[0]
        full = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")}, Clock())
        for _ in range(10_000):
            if len(logged) == 1:
                full.stopping()
        assert len(logged) == 2 and "unavailable" in logged[1], "its queue was full, and nobody waited"
    finally:
        globalLogPublisher.removeObserver(observer)
