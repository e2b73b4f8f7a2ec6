"""The process that this node is: what it uses of its machine."""

from __future__ import annotations

import os
import platform

import psutil

from gateway.core.replies import ProcessDescription


class Vitals:
    """Looks at this process.  Percentages are since the last look, the first of them since this was made."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._process.cpu_percent()
        psutil.cpu_percent()
        self._system, self._release = _system()

    def look(self) -> ProcessDescription:
        """The process as it is now; takes well under a millisecond and waits for nothing."""
        machine = psutil.virtual_memory()
        read, written = self._moved()
        return ProcessDescription(
            id=os.getpid(),
            cpu=self._process.cpu_percent(),
            machine_cpu=psutil.cpu_percent(),
            memory=self._process.memory_info().rss,
            machine_memory=machine.total,
            free_memory=machine.available,
            read=read,
            written=written,
            host=platform.node(),
            system=self._system,
            release=self._release,
            kernel=platform.release(),
        )

    def _moved(self) -> tuple[int, int]:
        """Bytes read and written; 0 where the system does not say, as macOS and some containers do not."""
        try:
            moved = self._process.io_counters()
        except (AttributeError, psutil.Error):
            return 0, 0
        return getattr(moved, "read_chars", moved.read_bytes), getattr(moved, "write_chars", moved.write_bytes)


def _system() -> tuple[str, str]:
    """Name and version of the distribution, or of the system where that has no such file."""
    try:
        named = platform.freedesktop_os_release()
    except OSError:
        return platform.system(), platform.version()
    return named["NAME"], named.get("VERSION_ID", "")
