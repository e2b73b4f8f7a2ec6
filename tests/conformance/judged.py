"""Subjects of the kit: listeners of a gateway that runs."""

from __future__ import annotations

import msgspec
from twisted.internet.endpoints import clientFromString

from gateway.conformance.servers import Subject
from gateway.core.commands import Authenticate
from gateway.dialects import load
from system.loops import Loop


def subject(loop: Loop, dialect: str, port: int, **settings: object) -> Subject:
    """A listener on that port of loopback, with those settings."""
    spoken = load(dialect)
    endpoint = clientFromString(loop.reactor, f"tcp:127.0.0.1:{port}")
    login = Authenticate("plain", *spoken.development) if spoken.development else None
    known = msgspec.convert(settings, spoken.settings)
    return Subject(spoken, endpoint, f"{dialect} on {port}", loop.reactor, known, login, guest=login is not None)
