"""What executes commands.  Each module here, or dropped into a plugin folder, offers one IBackendMaker."""

from __future__ import annotations

from twisted.plugin import getPlugins

from gateway import backends
from gateway.backends.interface import IBackendMaker


def find_maker(spec: str) -> tuple[IBackendMaker, str]:
    """The maker and the argument of `NAME:ARGUMENT`.  Raises ValueError, with the backends there are."""
    name, _, argument = spec.partition(":")
    makers = {maker.name: maker for maker in getPlugins(IBackendMaker, backends)}
    if name not in makers:
        choices = ", ".join(makers[name].usage for name in sorted(makers))
        raise ValueError(f"there is no backend {name!r}; there are {choices}")
    return makers[name], argument
