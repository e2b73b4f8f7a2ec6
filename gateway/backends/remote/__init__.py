"""`remote:DIALECT=ENDPOINT`: a server that speaks one of the dialects does the work; this gateway translates.

docs/backends.md says what each kind of server can be asked, made from what the dialects declare of themselves.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from twisted.internet import endpoints
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint
from twisted.plugin import IPlugin
from zope.interface import implementer

from gateway.backends.interface import IBackend, IBackendMaker
from gateway.backends.remote.backend import RemoteBackend
from gateway.backends.remote.ways import Way
from gateway.core.commands import Authenticate
from gateway.core.records import Encoding
from gateway.dialects import Dialect
from gateway.dialects.spelling import spoken_at

USER, PASSWORD, PASSWORD_FILE = "GATEWAY_REMOTE_USER", "GATEWAY_REMOTE_PASSWORD", "GATEWAY_REMOTE_PASSWORD_FILE"
"""Of the environment: whom to log in as, and the password or where it is."""

_DIALED = re.compile(r"(?P<kind>tcp|tls):(?:[^:=\\]|\\.)+:[0-9]+(?P<rest>:.*)?")
"""An endpoint of which the same can be said with another host and port."""


@implementer(IPlugin, IBackendMaker)
class _Maker:
    name = "remote"
    usage = "remote:DIALECT=ENDPOINT"

    def make(self, argument: str, encodings: Mapping[str, Encoding], reactor: IReactorTime) -> IBackend:
        """See IBackendMaker."""
        spoken = spoken_at(argument)
        try:
            endpoint = endpoints.clientFromString(reactor, spoken.endpoint)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{spoken.endpoint!r} is no client endpoint such as tcp:127.0.0.1:9000") from error
        login, reach = _login(spoken.dialect, os.environ), _reach(spoken.endpoint, reactor)
        way = Way(spoken.dialect, spoken.settings, encodings, reactor, random.random, login, reach)
        return RemoteBackend(way, endpoint, spoken.endpoint)


def _reach(endpoint: str, reactor: IReactorTime) -> Callable[[str, int], IStreamClientEndpoint] | None:
    """How other servers are dialed that this one names: in the same way, TLS included, for we log in there too."""
    found = _DIALED.fullmatch(endpoint)
    if found is None:
        return None
    kind, rest = found["kind"], found["rest"] or ""

    def reach(host: str, port: int) -> IStreamClientEndpoint:
        said = f"{kind}:{endpoints.quoteStringArgument(host)}:{port}{rest}"
        return cast(IStreamClientEndpoint, endpoints.clientFromString(reactor, said))

    return reach


def _login(dialect: Dialect, environment: Mapping[str, str]) -> Authenticate | None:
    """Whom to log in as: who the environment names, else whom a fresh server of that kind lets in, else nobody."""
    user = environment.get(USER)
    if user is not None:
        return Authenticate("plain", user, _password(environment))
    if dialect.development is None or dialect.upstream is None or not dialect.upstream.login:
        return None
    return Authenticate("plain", *dialect.development)


def _password(environment: Mapping[str, str]) -> str:
    path = environment.get(PASSWORD_FILE)
    if path is None:
        return environment.get(PASSWORD, "")
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ValueError(f"{PASSWORD_FILE}: {path} cannot be read: {error}") from error


maker = cast(IBackendMaker, _Maker())
