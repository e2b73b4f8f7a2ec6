"""Where peers and ports are: how that is shown, and whether it is this machine."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network

from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.interfaces import IAddress

Network = IPv4Network | IPv6Network


def shown(address: IAddress) -> str:
    """`host:port` or `[host]:port` of an internet address, whatever else describes another."""
    if isinstance(address, IPv6Address):
        return f"[{address.host}]:{address.port}"
    if isinstance(address, IPv4Address):
        return f"{address.host}:{address.port}"
    name: bytes | None = getattr(address, "name", None)
    return os.fsdecode(name) if name else "local"


def is_loopback(address: IAddress) -> bool:
    """Whether nobody but this machine can have that address: 127.0.0.0/8, ::1, or a unix socket."""
    if isinstance(address, UNIXAddress):
        return True
    if not isinstance(address, IPv4Address | IPv6Address):
        return False
    found = ipaddress.ip_address(address.host)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None  # IPv4 that came in on `::`
    return (mapped or found).is_loopback


def is_within(address: IAddress | None, networks: Iterable[Network]) -> bool:
    """Whether it is in one of them; a unix socket is, since the file's permissions say who may use it."""
    if not isinstance(address, IPv4Address | IPv6Address):
        return True
    found = ipaddress.ip_address(address.host)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return any((mapped or found) in network for network in networks)
