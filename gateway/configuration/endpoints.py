"""Endpoint descriptions, looked at without opening them: whether they are any, and who could come in."""

from __future__ import annotations

import ipaddress
import re

import msgspec
from twisted.internet import endpoints
from twisted.internet.task import Clock

SUCH_AS = "such as tcp:9000, tcp:9000:interface=127.0.0.1, unix:/run/gateway.sock"

_FIELD = re.compile(r"(?:[^:\\]|\\.)*", re.DOTALL)
_ANY = {"tcp": "0.0.0.0", "ssl": "0.0.0.0", "tcp6": "::"}
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

    @property
    def tls(self) -> bool:
        """The endpoint itself speaks TLS."""
        return self.kind == "ssl"


def address_of(endpoint: str) -> Address:
    """Where a description that `check_endpoint` accepts would listen."""
    kind, *fields = _fields(endpoint)
    named = {name: value for name, equals, value in (field.partition("=") for field in fields) if equals}
    positional = [field for field in fields if "=" not in field]
    if kind not in _ANY:
        return Address(kind)
    port = named.get("port", positional[0] if positional else "")
    host = named.get("interface", positional[1] if len(positional) > 1 else "")
    return Address(kind, _plain(host) or _ANY[kind], int(port) if port.isascii() and port.isdigit() else 0)


def check_endpoint(endpoint: str) -> None:
    """Raises ValueError, with a sentence, for what no server could listen on.  Nothing is opened."""
    if endpoint.startswith("systemd:"):  # whether it is there only the process finds out that systemd starts
        return
    try:
        endpoints.serverFromString(Clock(), endpoint)
    except (ValueError, TypeError, AssertionError) as error:
        raise ValueError(f"{endpoint!r} is no endpoint; write one {SUCH_AS}") from error
    except Exception:  # files of an ssl: endpoint, which may come to be
        return
    if not 0 <= address_of(endpoint).port <= 0xFFFF:
        raise ValueError(f"a port is a number up to 65535, not {address_of(endpoint).port}")


def _fields(endpoint: str) -> list[str]:
    fields, at = [], 0
    while at <= len(endpoint):
        found = _FIELD.match(endpoint, at)
        assert found is not None, "it may be empty"
        fields.append(found[0])
        at = found.end() + 1
    return fields


def _plain(text: str) -> str:
    """Without the backslashes that keep colons from ending it."""
    return re.sub(r"\\(.)", r"\1", text)
