"""What has to be said on a connection before anything can be measured on it, such as a login."""

from __future__ import annotations

import socket
from contextlib import suppress

import msgspec

from gateway.bench import BenchFailed
from gateway.bench.tally import Sized


class Opening(msgspec.Struct, frozen=True):
    """Said first on every connection, once; nothing else is until the answer is there."""

    request: bytes
    answer: Sized

    def say(self, sock: socket.socket) -> None:
        """Say it on a blocking socket and take the answer.  Raises BenchFailed for another answer, or for none."""
        sock.sendall(self.request)
        held = bytearray()
        with suppress(TimeoutError):
            while len(held) < self.answer.size and (more := sock.recv(self.answer.size - len(held))):
                held += more
        if len(held) < self.answer.size or not held.startswith(self.answer.head):
            raise BenchFailed(f"{self.request!r} was not answered as expected; the server sent {bytes(held)!r}")
