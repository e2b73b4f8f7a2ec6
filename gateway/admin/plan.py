"""What an operator says of the console and the page."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

DEFAULT_CONSOLE = "tcp:2323:interface=127.0.0.1"
DEFAULT_WEB = "tcp:8080:interface=127.0.0.1"

LONGEST_SECONDS = 7 * 86400.0
"""A week, which is as good as for ever."""

Deadline = Annotated[float, Meta(gt=0, le=LONGEST_SECONDS)]


class ConsolePlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The admin console.  endpoint: of telnet.  ssh: endpoint of SSH, "" = none.

    host_key:        file with the private key of the SSH server.
    authorized_keys: file with the public keys that may log in, a line each.
    idle_seconds:    who types nothing for so long is logged out.
    """

    endpoint: str = DEFAULT_CONSOLE
    ssh: str = ""
    host_key: str = ""
    authorized_keys: str = ""
    idle_seconds: Deadline = 600.0

    def __post_init__(self) -> None:
        """Raises ValueError, with a sentence, for SSH without its keys."""
        if self.ssh and not (self.host_key and self.authorized_keys):
            made = "`ssh-keygen -t ed25519 -N '' -f FILE` makes the first"
            raise ValueError(f'ssh needs host_key = "FILE" and authorized_keys = "FILE"; {made}')


class WebPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Metrics, health and the page."""

    endpoint: str = DEFAULT_WEB
