"""A gateway without sockets whose connections are captured into real files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import zstandard
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from gateway import dialects
from gateway.backends import find_maker
from gateway.capture.opening import OpenCapture, open_capture
from gateway.capture.plan import CapturePlan
from gateway.capture.rows import Row, captures
from gateway.core.records import registry
from net.peers import Node


def at_once(work: Callable[[], None]) -> Deferred[None]:
    """Wait here: nothing else has to go on meanwhile."""
    work()
    return succeed(None)


class Recorded(Node):
    """One listener over memory, and a capture in `directory`."""

    def __init__(self, directory: Path, dialect: str, plan: dict[str, Any] | None = None, **said: Any) -> None:
        every = [dialects.load(name) for name in dialects.names()]
        maker, argument = find_maker("memory")
        clock = Clock()
        encodings = registry(encoding for each in every for encoding in each.encodings)
        super().__init__(maker.make(argument, encodings, clock), dialect, clock, **said)
        self.directory = directory / "captured"
        wanted = CapturePlan(str(self.directory), **(plan or {}))
        self.capture: OpenCapture = open_capture(
            wanted, self.port, [self.listening], node="here", started=1_000_000, run=at_once
        )

    def rows(self) -> list[Row]:
        """All that was captured; ends the capture."""
        self.capture.close()
        return [row for file in captures([self.directory]) for row in file]

    def files(self) -> list[Path]:
        """What there is, in order."""
        return sorted(self.directory.iterdir())


def unpacked(path: Path) -> bytes:
    """All of a file that can be read, as it was before it was packed."""
    with path.open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()


def values(path: Path) -> list[Any]:
    """What a reader sees that knows nothing of the gateway: a map and arrays."""
    with path.open("rb") as file:
        plain = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        return list(msgpack.Unpacker(plain, max_buffer_size=0))
