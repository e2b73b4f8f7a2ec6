"""A gateway that clients may not tell from a proxy: by itself, or in front of another one that does the work."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from types import TracebackType

import pytest

from system.processes import COMMAND, GatewayProcess


def ways(*upstreams: str, long: Collection[str] = ()) -> list[object]:
    """For parametrize("via"): no proxy, and one before a gateway that is spoken to in each of these dialects.

    long: those that are for `make soak` only.
    """
    found: list[object] = [pytest.param("", id="alone")]
    for name in (*upstreams, *long):
        found.append(pytest.param(name, id=f"remote:{name}", marks=[pytest.mark.long] if name in long else []))
    return found


def through(each: Sequence[str], **upstreams: Collection[str]) -> list[object]:
    """For parametrize((..., "via")): each of these with no proxy, and with one before each of the upstreams.

    upstreams: dialect -> those that go through it in every run; the others do in `make soak` only.
    """
    found: list[object] = [pytest.param(one, "", id=one) for one in each]
    for name, always in upstreams.items():
        for one in each:
            marks = [] if one in always else [pytest.mark.long]
            found.append(pytest.param(one, name, id=f"{one}-remote:{name}", marks=marks))
    return found


def remote(upstream: GatewayProcess, via: str) -> str:
    """The backend that has that gateway do the work."""
    return f"remote:{via}=tcp:127.0.0.1:{upstream.ports[via]}"


class MaybeProxied(GatewayProcess):
    """A gateway, or two of them if there is a dialect that they speak with each other.

    dialects: `ports` has a port for each.
    backend:  of the one that does the work.
    via:      the dialect between the two, "" = there is one gateway only.
    own:      the dialects that the one in front listens for, none = the first.  All others are spoken with the one that
              does the work, so that they show what arrived there.
    before:   stands before the backend of the one in front.
    command:  what starts that.

    Both are started, killed and stopped together; `proxied` and `upstream` are there for more.
    """

    def __init__(
        self,
        directory: Path,
        *dialects: str,
        backend: str = "sqlite:records",
        via: str = "",
        own: Collection[str] = (),
        before: str = "",
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.upstream: GatewayProcess | None = None
        if not via:
            super().__init__(directory, *dialects, backend=backend, command=command)
            return
        behind = directory / "upstream"
        behind.mkdir()
        self.upstream = GatewayProcess(behind, *dict.fromkeys((*dialects, via)), backend=backend)
        self._via = via
        self._before = before
        super().__init__(directory, *(own or dialects[:1]), command=command)

    @property
    def doing(self) -> GatewayProcess:
        """The one that does the work."""
        return self.upstream or self

    def spawn(self) -> None:
        """See GatewayProcess."""
        if self.upstream is not None:
            if not self.upstream.runs:
                self.upstream.start()
            self._backend = f"{self._before}{remote(self.upstream, self._via)}"
        super().spawn()

    def wait_ready(self) -> None:
        """See GatewayProcess."""
        super().wait_ready()
        if self.upstream is not None:
            self.ports = self.upstream.ports | self.ports

    def kill_proxy(self) -> None:
        """SIGKILL, to the one in front alone."""
        assert self.upstream is not None, "there is no proxy"
        super().kill()

    def kill(self) -> None:
        """SIGKILL, to both."""
        super().kill()
        if self.upstream is not None:
            self.upstream.kill()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            if self.upstream is not None:
                self.upstream.__exit__(kind, error, trace)
