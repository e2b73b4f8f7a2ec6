"""What an operator may ask for, as values: what each says is in its docstring, and README shows them in a file.

Paths of files and directories count from where the gateway is started.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.admin.plan import ConsolePlan, WebPlan
from gateway.capture.plan import CapturePlan
from gateway.dialects import Dialect, Settings
from gateway.net.access import AccessRule
from gateway.net.addresses import Network
from gateway.net.limits import Limits
from gateway.net.login import Auth
from gateway.net.users import User

DEFAULT_BACKEND = "sqlite:./gateway-data"

ClientCertificates = Literal["none", "optional", "required"]


class Node(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """This process among others.

    name:      what it is called in logs, metrics and on the page.
    advertise: the host that clients are told to dial where a listener has no `advertise` of its own, with the port of
               that listener; "" = the address they came in on.
    """

    name: Annotated[str, Meta(min_length=1, max_length=255)] = "gateway"
    advertise: str = ""


class Backend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a backend has to know that does not belong on a command line: as whom `remote:` logs in.

    user:          None = as whom a fresh server of that kind lets in.
    password_file: where the password is, instead of `password`.
    """

    user: str | None = None
    password: str | None = None
    password_file: str | None = None

    def __repr__(self) -> str:
        return f"Backend(user={self.user!r}, ...)"

    def export(self, environment: MutableMapping[str, str]) -> None:
        """Say it where `remote:` looks, also one inside `routes:` or a plugin.  What is not said is left as it is."""
        if self.user is None:
            return
        environment["GATEWAY_REMOTE_USER"] = self.user
        for name, value in (("PASSWORD", self.password), ("PASSWORD_FILE", self.password_file)):
            environment.pop(f"GATEWAY_REMOTE_{name}", None)
            if value is not None:
                environment[f"GATEWAY_REMOTE_{name}"] = value


class TLS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files in PEM.  certificate: the server's, followed by its chain.

    plaintext: connections without TLS are served too, told apart by their first bytes.  The Java and Go clients of
               Cursus need that: with TLS set they still open some of their connections without it.
    client_ca: certificates of those who sign clients' certificates.
    client:    whether a client shows one: nobody is asked, who has none is let in too, who has none is not.
    """

    certificate: str
    key: str
    plaintext: bool = False
    client_ca: str | None = None
    client: ClientCertificates = "none"

    def __post_init__(self) -> None:
        """Raises ValueError, with a sentence, for what does not go together."""
        if (self.client_ca is None) is not (self.client == "none"):
            raise ValueError('say both client_ca = "FILE" and client = "optional" or "required", or neither')
        if self.plaintext and self.client == "required":
            raise ValueError('with plaintext = true nobody has to show a certificate; say client = "optional"')

    @property
    def files(self) -> dict[str, str]:
        """What has to be there, by key."""
        return {key: path for key in ("certificate", "key", "client_ca") if (path := getattr(self, key)) is not None}


class ListenerPlan(msgspec.Struct, frozen=True):
    """One port to open.  endpoint: a Twisted server endpoint description.  auth: what it asks of who comes in.

    allow: where connections may come from; () = anywhere.
    """

    name: str
    dialect: Dialect
    endpoint: str
    settings: Settings
    tls: TLS | None = None
    auth: Auth = "optional"
    allow: tuple[Network, ...] = ()


class Configuration(msgspec.Struct, frozen=True):
    """A whole process.

    backend:          `NAME` or `NAME:ARGUMENT`.
    users:            who may log in, by id; () = nobody was named.
    backend_settings: what the backend is told beside that.
    access:           in the order in which they are tried.
    principals:       name of a client's certificate -> whose it is, one of `users`.
    console, web, capture: None = there is none.
    insecure:         serve what `exposures` has something against.
    """

    listeners: tuple[ListenerPlan, ...] = ()
    backend: str = DEFAULT_BACKEND
    users: tuple[User, ...] = ()
    node: Node = Node()
    backend_settings: Backend = Backend()
    access: tuple[AccessRule, ...] = ()
    principals: Mapping[str, str] = {}
    limits: Limits = Limits()
    console: ConsolePlan | None = None
    web: WebPlan | None = None
    capture: CapturePlan | None = None
    insecure: bool = False
