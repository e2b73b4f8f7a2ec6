"""The wire languages.  Each subpackage is one dialect and exports DIALECT; adding a folder adds a dialect."""

from __future__ import annotations

import importlib
import pkgutil

from gateway.dialects.dialect import Dialect, Losses, Refusal, Request, Settings, Tag, Terms
from gateway.dialects.session import Call, ClientSession, Listener, ServerSession

__all__ = [
    "Call",
    "ClientSession",
    "Dialect",
    "Listener",
    "Losses",
    "Refusal",
    "Request",
    "ServerSession",
    "Settings",
    "Tag",
    "Terms",
    "load",
    "names",
]


def names() -> list[str]:
    """Every dialect there is, in alphabetical order."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


def load(name: str) -> Dialect:
    """The dialect of that name.  Raises KeyError if there is none."""
    if name not in names():
        raise KeyError(name)
    dialect = importlib.import_module(f"{__name__}.{name}").DIALECT
    assert isinstance(dialect, Dialect), f"gateway/dialects/{name} exports no DIALECT"
    return dialect
