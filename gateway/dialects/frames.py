"""A byte stream cut into frames, by a function that knows where a frame ends and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.faults import CommandFailed, Fault

Measure = Callable[[bytes | bytearray, int, int], int]
"""measure(held, start, scanned) -> bytes of the frame that begins at `start`, header included; 0 = not yet known.

scanned: how far past `start` earlier calls have looked without finding the end, for dialects with a delimiter.
"""


class FrameBuffer:
    """Bytes in, whole frames out.

    limit: bytes of the longest frame accepted.
    """

    __slots__ = ("_held", "_limit", "_measure", "_scanned")

    def __init__(self, measure: Measure, limit: int) -> None:
        self._measure = measure
        self._limit = limit
        self._held: bytes | bytearray = b""
        self._scanned = 0

    @property
    def pending(self) -> int:
        """Bytes held of a frame that is not whole yet."""
        return len(self._held)

    def feed(self, data: bytes) -> tuple[list[bytes], CommandFailed | None]:
        """The frames that data completes, and TOO_LARGE if what follows them cannot be accepted.

        That is known from the header alone, so a peer cannot make us hold more than limit bytes and one read.
        """
        if not data:
            return [], None
        if self._held:
            assert isinstance(self._held, bytearray)
            self._held += data
            held: bytes | bytearray = self._held
        else:
            held = data
        frames: list[bytes] = []
        start, scanned = 0, self._scanned
        measure, limit, end = self._measure, self._limit, len(held)
        while start < end:
            size = measure(held, start, scanned)
            if size > limit or (not size and end - start >= limit):
                return frames, self._too_large(size or end - start)
            if not size or start + size > end:
                break
            frames.append(held[start : start + size] if held is data else bytes(held[start : start + size]))
            start += size
            scanned = 0
        self._keep(held, start, 0 if size else end - start)
        return frames, None

    def rest(self) -> bytes:
        """What is held when the stream has ended; it is given up."""
        rest, self._held, self._scanned = bytes(self._held), b"", 0
        return rest

    def _keep(self, held: bytes | bytearray, start: int, scanned: int) -> None:
        if held is self._held:
            del self._held[:start]  # type: ignore[union-attr]  # it is the bytearray that was fed
        else:
            self._held = bytearray(held[start:]) if start < len(held) else b""
        self._scanned = scanned

    def _too_large(self, size: int) -> CommandFailed:
        self._held, self._scanned = b"", 0
        return CommandFailed(Fault.TOO_LARGE, f"a frame of {size} bytes, {self._limit} is the limit")
