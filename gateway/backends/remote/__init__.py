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

import msgspec
from twisted.internet import endpoints
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint
from twisted.plugin import IPlugin
from zope.interface import implementer

from gateway import dialects
from gateway.backends.interface import IBackend, IBackendMaker
from gateway.backends.remote.backend import RemoteBackend
from gateway.backends.remote.ways import Way
from gateway.core.commands import Authenticate
from gateway.core.records import Encoding
from gateway.dialects import Dialect, Settings

USAGE = "remote:DIALECT=ENDPOINT, such as remote:cursus=tcp:127.0.0.1:9000"
USER, PASSWORD, PASSWORD_FILE = "GATEWAY_REMOTE_USER", "GATEWAY_REMOTE_PASSWORD", "GATEWAY_REMOTE_PASSWORD_FILE"
"""Of the environment: whom to log in as, and the password or where it is."""

_DIALED = re.compile(r"(?P<kind>tcp|tls):(?:[^:=\\]|\\.)+:[0-9]+(?P<rest>:.*)?")
"""An endpoint of which the same can be said with another host and port."""

_SPEC = re.compile(r"(?P<dialect>\w+)(?:\[(?P<settings>[^\]]*)\])?=(?P<endpoint>.+)")


@implementer(IPlugin, IBackendMaker)
class _Maker:
    name = "remote"
    usage = "remote:DIALECT=ENDPOINT"

    def make(self, argument: str, encodings: Mapping[str, Encoding], reactor: IReactorTime) -> IBackend:
        """See IBackendMaker."""
        found = _SPEC.fullmatch(argument)
        if found is None:
            raise ValueError(f"remote wants {USAGE}, not {argument!r}")
        dialect = _dialect(found["dialect"])
        settings = _settings(dialect, found["settings"] or "")
        try:
            endpoint = endpoints.clientFromString(reactor, found["endpoint"])
        except (ValueError, TypeError) as error:
            raise ValueError(f"{found['endpoint']!r} is no client endpoint such as tcp:127.0.0.1:9000") from error
        login, reach = _login(dialect, os.environ), _reach(found["endpoint"], reactor)
        way = Way(dialect, settings, encodings, reactor, random.random, login, reach)
        return RemoteBackend(way, endpoint, found["endpoint"])


def _dialect(name: str) -> Dialect:
    try:
        dialect = dialects.load(name)
    except KeyError:
        raise ValueError(f"there is no dialect {name!r}; there are {', '.join(dialects.names())}") from None
    if dialect.upstream is None:
        raise ValueError(f"the dialect {name} does not say what its servers can be asked, so nothing can be proxied")
    return dialect


def _settings(dialect: Dialect, text: str) -> Settings:
    """`name=value,...` as the settings that a listener of the dialect would have."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    unknown = [name for name, _, _ in pairs if name not in dialect.settings.__struct_fields__]
    if unknown:
        choices = ", ".join(sorted(dialect.settings.__struct_fields__))
        raise ValueError(f"{dialect.name} has no setting {unknown[0]!r}; there are {choices}")
    try:
        return msgspec.convert({name: value for name, _, value in pairs}, dialect.settings, strict=False)
    except ValueError as error:
        raise ValueError(f"{dialect.name}[{text}]: {error}") from error


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
