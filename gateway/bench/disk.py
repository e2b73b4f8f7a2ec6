"""What the disk itself can do: the ceiling of every durable figure."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

PROBE = b"\0" * 512
"""One append of the fdatasync probe."""


def appends(body: bytes, directory: Path, seconds: float) -> tuple[int, list[int]]:
    """Append `body` to a new file, with fdatasync after each, for so long: how many, and the ns of each."""
    took: list[int] = []
    with tempfile.NamedTemporaryFile(dir=directory, prefix="append-") as file:
        descriptor, now = file.fileno(), time.perf_counter_ns()
        until = now + int(seconds * 1e9)
        while now < until:
            os.write(descriptor, body)
            os.fdatasync(descriptor)
            done = time.perf_counter_ns()
            took.append(done - now)
            now = done
    return len(took), took


def sync_rate(directory: Path, seconds: float = 0.25) -> float:
    """Appends of one sector with fdatasync, per second."""
    count, took = appends(PROBE, directory, seconds)
    return count / (sum(took) / 1e9)


def in_memory(directory: Path, mounts: Path = Path("/proc/mounts")) -> bool:
    """Whether the directory lies on a file system without a disk, so that nothing durable can be measured there."""
    place = str(directory.resolve())
    found = [line.split()[1:3] for line in mounts.read_text().splitlines()]
    under = [(len(at), kind) for at, kind in found if place == at or place.startswith(at.rstrip("/") + "/")]
    return max(under, default=(0, ""))[1] in ("tmpfs", "ramfs")
