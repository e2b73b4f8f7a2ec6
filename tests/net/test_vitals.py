"""gateway.net.vitals: what is said of this process is true."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from gateway.net.vitals import Vitals

MIB = 1 << 20


def test_the_process_and_its_machine_are_described() -> None:
    seen = Vitals().look()
    assert seen.id == os.getpid()
    assert (seen.host, seen.kernel) == (platform.node(), platform.release())
    assert seen.machine_memory == psutil.virtual_memory().total
    assert MIB < seen.memory < seen.machine_memory
    assert 0 < seen.free_memory < seen.machine_memory
    assert seen.system and isinstance(seen.release, str)


def test_percentages_are_since_the_last_look() -> None:
    vitals = Vitals()
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    busy = vitals.look()
    assert 0 < busy.cpu <= 100 * psutil.cpu_count()
    assert 0 < busy.machine_cpu <= 100
    vitals.look()


def test_what_the_process_reads_and_writes_is_counted(tmp_path: Path) -> None:
    vitals = Vitals()
    before = vitals.look()
    file = tmp_path / "some"
    file.write_bytes(b"x" * MIB)
    file.read_bytes()
    after = vitals.look()
    assert after.read - before.read >= MIB
    assert after.written - before.written >= MIB


@pytest.mark.parametrize("error", [AttributeError, psutil.AccessDenied])
def test_where_the_system_does_not_say_nothing_was_read_or_written(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def refused(process: Any) -> None:
        raise error

    monkeypatch.setattr(psutil.Process, "io_counters", refused)
    seen = Vitals().look()
    assert (seen.read, seen.written) == (0, 0)


def test_where_calls_are_not_counted_what_reached_the_disk_is(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = SimpleNamespace(read_bytes=7, write_bytes=9)
    monkeypatch.setattr(psutil.Process, "io_counters", lambda process: moved)
    seen = Vitals().look()
    assert (seen.read, seen.written) == (7, 9)


def test_a_system_without_a_name_for_its_distribution_says_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> dict[str, str]:
        raise OSError

    monkeypatch.setattr(platform, "freedesktop_os_release", none)
    seen = Vitals().look()
    assert (seen.system, seen.release) == (platform.system(), platform.version())


def test_the_distribution_is_said_by_its_name_and_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"NAME": "Debian", "VERSION_ID": "13"})
    seen = Vitals().look()
    assert (seen.system, seen.release) == ("Debian", "13")
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"NAME": "Arch Linux"})
    assert Vitals().look().release == ""
