"""Tells systemd how far this process has come: datagrams of NAME=VALUE lines to $NOTIFY_SOCKET, as sd_notify(3) has it.

A protocol of one `sendto` is written here rather than installed: on PyPI, `sdnotify` had its last release in 2017, and
`systemd-python` is built with a C compiler against the headers of libsystemd.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger


class Notifier:
    """What systemd is told; nothing at all where it has not asked.

    environment: of NOTIFY_SOCKET, and of WATCHDOG_USEC and WATCHDOG_PID (sd_watchdog_enabled(3)).
    monotonic:   ns of CLOCK_MONOTONIC, which systemd wants to see in RELOADING.
    """

    _log = Logger()

    def __init__(
        self, environment: Mapping[str, str], clock: IReactorTime, monotonic: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._to = _address(environment.get("NOTIFY_SOCKET", ""))
        self._alive_every = _seconds(environment) / 2 if self._to else 0.0
        self._clock = clock
        self._monotonic = monotonic
        self._watchdog: LoopingCall | None = None

    def ready(self, status: str) -> None:
        """It serves, or goes on as before a reload; from now on a reactor that does not turn is missed.

        status: one line for `systemctl status`.
        """
        self._tell("READY=1", f"STATUS={status}")
        if self._watchdog is None and self._alive_every:
            self._watchdog = LoopingCall(self._tell, "WATCHDOG=1")
            self._watchdog.clock = self._clock
            self._watchdog.start(self._alive_every)

    def reloading(self) -> None:
        """What may change is about to be read again; `ready` says when that is done."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={self._monotonic() // 1000}")

    def stopping(self) -> None:
        """It takes no more.  The watchdog goes on: a process that hangs while it stops is missed, too."""
        self._tell("STOPPING=1", "STATUS=finishing what is in flight")

    def close(self) -> None:
        """Say nothing more."""
        if self._watchdog is not None and self._watchdog.running:
            self._watchdog.stop()

    def _tell(self, *lines: str) -> None:
        if not self._to:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)  # a systemd that does not read must not hold up those that we serve
                sender.sendto("\n".join(lines).encode(), self._to)
        except OSError as error:
            self._log.warn("systemd could not be told {what}: {error}", what=lines[0], error=error)


def _address(name: str) -> str:
    """A path, or an abstract name, which systemd writes with an `@`; "" for what is neither, such as vsock."""
    return name if name.startswith("/") else f"\0{name[1:]}" if name.startswith("@") else ""


def _seconds(environment: Mapping[str, str]) -> float:
    """Silence after which systemd ends this process, 0 = it does not."""
    told = environment.get("WATCHDOG_USEC", "")
    meant = environment.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
    return int(told) / 1e6 if meant and told.isascii() and told.isdigit() else 0.0
