"""Endpoint descriptions, looked at without opening them: whether they are any, and who could come in."""

from __future__ import annotations

import ipaddress

import msgspec
from twisted.internet import endpoints
from twisted.internet.task import Clock

from gateway.net.descriptions import fields, named, unseal

SUCH_AS = "such as tcp:9000, tcp:9000:interface=127.0.0.1, unix:/run/gateway.sock"

_ANY = {"tcp": "0.0.0.0", "tcp6": "::"}
"""Where Twisted listens if no interface is said."""


class Address(msgspec.Struct, frozen=True):
    """Where an endpoint would listen.  host: "" = it is no internet address, or who opens it knows.

    port: 0 = unknown, too.
    """

    kind: str
    host: str = ""
    port: int = 0

    @property
    def exposed(self) -> bool:
        """Other machines could connect, as far as the description tells."""
        if not self.host:
            return False
        try:
            return not ipaddress.ip_address(self.host.strip("[]").partition("%")[0]).is_loopback
        except ValueError:
            return self.host != "localhost"


def address_of(endpoint: str) -> Address:
    """Where a description that `check_endpoint` accepts would listen."""
    sealed = unseal(endpoint)
    kind, *rest = fields(endpoint if sealed is None else sealed.endpoint)
    if kind not in _ANY:
        return Address(kind)
    said = named(rest, ("port", "interface"))
    port = said.get("port", "")
    return Address(kind, said.get("interface") or _ANY[kind], int(port) if port.isascii() and port.isdigit() else 0)


def check_endpoint(endpoint: str) -> None:
    """Raises ValueError, with a sentence, for what no server could listen on.  Nothing is opened."""
    if endpoint.startswith("systemd:"):  # whether it is there only the process finds out that systemd starts
        return
    sealed = unseal(endpoint)
    try:
        endpoints.serverFromString(Clock(), endpoint if sealed is None else sealed.endpoint)
    except (ValueError, TypeError, AssertionError) as error:
        raise ValueError(f"{endpoint!r} is no endpoint; write one {SUCH_AS}") from error
    except Exception:  # files of an endpoint that some plugin knows, which may come to be
        return
    if not 0 <= address_of(endpoint).port <= 0xFFFF:
        raise ValueError(f"a port is a number up to 65535, not {address_of(endpoint).port}")
