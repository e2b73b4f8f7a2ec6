"""Listening sockets that whoever started us holds, systemd above all: `systemd:domain=INET:name=9000` and the like.

They outlive this process: who connects while there is none waits in the kernel's queue until the next one accepts.
"""

from __future__ import annotations

from typing import cast

import msgspec
from twisted.internet import endpoints, unix
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress, IListeningPort, IReactorTime, IStreamServerEndpoint

from gateway.configuration import Configuration, ListenerPlan, check_exposure

KIND = "systemd:"
SUCH_AS = (
    "whoever started the gateway handed it no such socket; with systemd it is one of a socket unit whose "
    "FileDescriptorName= is that name, as in systemd:domain=INET:name=9000"
)


def server_endpoint(clock: IReactorTime, description: str) -> IStreamServerEndpoint:
    """What to listen with.  Raises LookupError, with a sentence, for a socket we were not given; else as Twisted."""
    try:
        return cast(IStreamServerEndpoint, endpoints.serverFromString(clock, description))
    except (LookupError, AttributeError) as error:
        if not description.startswith(KIND):
            raise
        raise LookupError(SUCH_AS) from error


def check_held(plan: ListenerPlan, address: IAddress) -> None:
    """Raises ValueError for a held socket by which other machines could come in without TLS or a login.

    Of other endpoints the configuration itself could say so before they were opened.
    """
    if plan.endpoint.startswith(KIND) and isinstance(address, IPv4Address | IPv6Address):
        opened = f"tcp:{address.port}:interface={endpoints.quoteStringArgument(address.host)}"
        check_exposure(Configuration((msgspec.structs.replace(plan, endpoint=opened),)))


def stop_accepting(plan: ListenerPlan, port: IListeningPort) -> Deferred[None]:
    """Fires when nobody is let in by it any more.

    A unix socket that is held is only read no longer: to close it Twisted would remove its path, which is the holder's.
    """
    if plan.endpoint.startswith(KIND) and isinstance(port, unix.Port):
        port.stopReading()
        return succeed(None)
    return port.stopListening() or succeed(None)
