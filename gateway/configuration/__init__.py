"""What an operator asked for: the file, the environment, the defaults, and nothing that opens a socket."""

from __future__ import annotations

from gateway.admin.plan import ConsolePlan, WebPlan
from gateway.capture.plan import CapturePlan
from gateway.configuration.exposure import check_exposure, exposures
from gateway.configuration.listening import default_listeners, find_dialect, parse_listen
from gateway.configuration.people import user_section
from gateway.configuration.plans import (
    DEFAULT_BACKEND,
    TLS,
    Backend,
    Configuration,
    ListenerPlan,
    Node,
)
from gateway.configuration.reading import configure, read_configuration
from gateway.configuration.told import Said
from gateway.net.access import AccessRule
from gateway.net.addresses import Network
from gateway.net.limits import Limits

__all__ = [
    "DEFAULT_BACKEND",
    "TLS",
    "AccessRule",
    "Backend",
    "CapturePlan",
    "Configuration",
    "ConsolePlan",
    "Limits",
    "ListenerPlan",
    "Network",
    "Node",
    "Said",
    "WebPlan",
    "check_exposure",
    "configure",
    "default_listeners",
    "exposures",
    "find_dialect",
    "parse_listen",
    "read_configuration",
    "user_section",
]
