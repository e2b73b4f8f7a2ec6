"""`GATEWAY_*`: what the environment says, over what the file does.

`GATEWAY_` and the key of the file, as in `GATEWAY_LIMITS_IDLE_SECONDS`; some have shorter names.  Blank is not said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.admin.plan import ConsolePlan, WebPlan
from gateway.capture.plan import CapturePlan
from gateway.configuration.lines import Place
from gateway.configuration.plans import Node
from gateway.configuration.told import Said, Told
from gateway.configuration.words import closest, no_such_key
from gateway.logging import VARIABLE as LOG
from gateway.net.limits import Limits

PREFIX = "GATEWAY_"

CONFIG, LISTEN, PLUGINS = "GATEWAY_CONFIG", "GATEWAY_LISTEN", "GATEWAY_PLUGINS"
BESIDE_FILE = (CONFIG, LISTEN, PLUGINS, LOG)
"""What a file cannot say: which file, `DIALECT=ENDPOINT,...` instead of its listeners, a directory with plugins, and
how to log."""

SHORT: dict[Place, str] = {
    ("insecure",): "GATEWAY_INSECURE",
    ("backend", "spec"): "GATEWAY_BACKEND",
    ("backend", "user"): "GATEWAY_REMOTE_USER",
    ("backend", "password"): "GATEWAY_REMOTE_PASSWORD",
    ("backend", "password_file"): "GATEWAY_REMOTE_PASSWORD_FILE",
    ("console", "endpoint"): "GATEWAY_CONSOLE",
    ("web", "endpoint"): "GATEWAY_WEB",
    ("capture", "directory"): "GATEWAY_CAPTURE",
}

_SECTIONS: dict[str, type[msgspec.Struct]] = {
    "node": Node,
    "limits": Limits,
    "console": ConsolePlan,
    "web": WebPlan,
    "capture": CapturePlan,
}

_CLOSED = "GATEWAY_LIMITS_"
"""What begins so is ours alone.  Elsewhere names that we do not know may be another's: Kubernetes says GATEWAY_PORT to
everybody beside a service called `gateway`."""

_ALTERNATIVES: dict[Place, Place] = {
    ("backend", "password"): ("backend", "password_file"),
    ("backend", "password_file"): ("backend", "password"),
}


def _variables() -> dict[str, tuple[Place, Any]]:
    """Name -> where in the file the same would be said, and its type."""
    found: dict[str, tuple[Place, Any]] = {
        name: (place, bool if len(place) == 1 else str) for place, name in SHORT.items()
    }
    for section, struct in _SECTIONS.items():
        for field in msgspec.structs.fields(struct):
            place: Place = (section, field.name)
            if place not in SHORT:
                found[f"{PREFIX}{section}_{field.name}".upper()] = place, field.type
    return found


VARIABLES = _variables()
"""Name -> where in the file the same would be said, and its type."""


def say_environment(told: Told, environment: Mapping[str, str]) -> None:
    """Put what the environment says over the file.  Raises ValueError for a limit that there is not."""
    for name in environment:
        if name.startswith(_CLOSED) and name not in VARIABLES:
            known = [one.removeprefix(_CLOSED) for one in VARIABLES if one.startswith(_CLOSED)]
            raise ValueError(f"{name}: {no_such_key(name.removeprefix(_CLOSED), known)}")
    for name, (place, kind) in VARIABLES.items():
        text = environment.get(name, "")
        if text and (place in SHORT or place[0] in ("node", "limits") or place[0] in told.table):
            other = _ALTERNATIVES.get(place)
            told.say(Said(name, place, _value(text, kind)), [other] if other else [])


def near_misses(environment: Mapping[str, str]) -> list[str]:
    """Sentences about names that look like ours and are not."""
    ours = [name.removeprefix(PREFIX) for name in (*VARIABLES, *BESIDE_FILE)]
    strange = [name.removeprefix(PREFIX) for name in environment if name.startswith(PREFIX)]
    meant = {name: closest(name, ours) for name in strange if name not in ours}
    return [
        f"{PREFIX}{name} in the environment says nothing; did you mean {PREFIX}{known}?"
        for name, known in meant.items()
        if known is not None
    ]


def _value(text: str, kind: Any) -> object:
    """Text as the file would have it; what cannot be converted stays, and is refused like text in the file."""
    match msgspec.inspect.type_info(kind):
        case msgspec.inspect.IntType():
            plain: type = int
        case msgspec.inspect.FloatType():
            plain = float
        case msgspec.inspect.BoolType():
            plain = bool
        case _:
            return text
    try:
        return msgspec.convert(text, plain, strict=False)
    except ValueError:
        return text
