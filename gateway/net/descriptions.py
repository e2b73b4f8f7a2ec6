"""Endpoint descriptions, taken apart; and what `ssl:` says, for TLS of our own.

Twisted's `ssl:` reads its files once, and waits for ever for the end of a handshake.  Ours (net/security.py) reads them
again at HUP, and hangs up.
"""

from __future__ import annotations

import re

import msgspec
from twisted.internet.endpoints import quoteStringArgument

_FIELD = re.compile(r"(?:[^:\\]|\\.)*", re.DOTALL)

_SSL = ("port", "privateKey", "certKey", "sslmethod", "interface", "backlog", "extraCertChain", "dhParameters")
"""What may stand behind `ssl:`, in the order of those that are not named (Twisted's endpoints, "SSL")."""

_NOT_OURS = {
    "sslmethod": "TLS is 1.2 or newer; leave sslmethod out",
    "extraCertChain": "put the chain into the file of the certificate, behind it, and leave extraCertChain out",
    "dhParameters": "there are none with the ciphers of today; leave dhParameters out",
}


class Sealed(msgspec.Struct, frozen=True):
    """What an `ssl:` endpoint says.  endpoint: where to listen, without TLS.  certificate, key: files in PEM."""

    endpoint: str
    certificate: str
    key: str


def unseal(description: str) -> Sealed | None:
    """None for one of another kind.  Raises ValueError, with a sentence, for what our TLS does not have."""
    kind, *rest = fields(description)
    if kind != "ssl":
        return None
    said = named(rest, _SSL)
    for name in said:
        if name not in _SSL:
            raise ValueError(f"an ssl: endpoint has no {name}")
        if name in _NOT_OURS:
            raise ValueError(_NOT_OURS[name])
    key = said.get("privateKey", "server.pem")
    more = [f"{name}={quoteStringArgument(said[name])}" for name in ("interface", "backlog") if name in said]
    return Sealed(":".join(["tcp", said.get("port", ""), *more]), said.get("certKey", key), key)


def fields(description: str) -> list[str]:
    """What stands between the colons, with its backslashes."""
    found, at = [], 0
    while at <= len(description):
        field = _FIELD.match(description, at)
        assert field is not None, "it may be empty"
        found.append(field[0])
        at = field.end() + 1
    return found


def named(fields: list[str], order: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE by name, and those without a name by the order; without backslashes."""
    plain = [plainly(field) for field in fields if "=" not in field]
    pairs = [field.partition("=") for field in fields if "=" in field]
    return {**dict(zip(order, plain, strict=False)), **{name: plainly(value) for name, _, value in pairs}}


def plainly(text: str) -> str:
    """Without the backslashes that keep colons from ending it."""
    return re.sub(r"\\(.)", r"\1", text)
