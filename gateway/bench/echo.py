"""The reference: the least a Twisted server can do with framed requests.  `python -m gateway.bench.echo`.

4-byte big-endian lengths, all whole frames of a read found in one loop, one write per read (2.8 M small frames a second
in design/performance.md).  What the gateway adds to it is what the gateway costs.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from typing import cast

from twisted.internet import endpoints, reactor
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IListeningPort, IReactorTCP, ITCPTransport
from twisted.internet.protocol import Factory, Protocol

_length_at = struct.Struct(">I").unpack_from


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


class Echo(Protocol):
    """Sends every whole frame back."""

    _held = b""

    def connectionMade(self) -> None:
        """A connection begins; small writes are not to wait for acknowledgements."""
        cast(ITCPTransport, self.transport).setTcpNoDelay(True)

    def dataReceived(self, data: bytes) -> None:
        """Some of the stream."""
        if self._held:
            data = self._held + data
        replies, at, end = [], 0, len(data)
        while end - at >= 4:
            stop = at + 4 + _length_at(data, at)[0]
            if stop > end:
                break
            replies.append(data[at:stop])
            at = stop
        self._held = data[at:]
        if replies:
            cast(ITCPTransport, self.transport).write(b"".join(replies))


def serve() -> None:
    """Listen on a free port of loopback, say which, and echo until told to end by a signal."""
    _keep_freed_memory()
    endpoint = endpoints.TCP4ServerEndpoint(cast(IReactorTCP, reactor), 0, interface="127.0.0.1")
    endpoint.listen(Factory.forProtocol(Echo)).addCallbacks(_announce, _give_up)
    reactor.run()


def _keep_freed_memory() -> None:
    """As the gateway does (design/performance.md, rule 2), so that big frames are compared on the same terms."""
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_THRESHOLD, 64 << 20)
    libc.mallopt(_M_TRIM_THRESHOLD, 256 << 20)


def _announce(port: IListeningPort) -> None:
    address = cast(IPv4Address, port.getHost())
    sys.stdout.write(f"listening echo {address.host}:{address.port}\nready\n")
    sys.stdout.flush()


def _give_up(failure: object) -> None:
    sys.stderr.write(f"the echo cannot listen: {failure}\n")
    reactor.stop()


if __name__ == "__main__":
    serve()
