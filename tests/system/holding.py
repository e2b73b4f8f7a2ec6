"""What systemd is to a service, as far as a service can tell: it holds sockets, starts it by the line of its unit, and
hears what it says.

Only processes started here are ended here, by their own handle.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from system.processes import ROOT, START_SECONDS, STOP_SECONDS, environment

UNIT = ROOT / "deploy" / "gateway.service"
SOCKET_UNIT = ROOT / "deploy" / "gateway@.socket"

PROGRAM = Path(sys.executable).with_name("gateway")
"""What stands here for the unit's /opt/gateway/bin/gateway."""

LAUNCH = """
import os, sys
names, held, *command = sys.argv[1:]
for at, number in enumerate(held.split()):
    os.dup2(int(number), 3 + at)  # which makes it inheritable
said = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(held.split())), "LISTEN_FDNAMES": names}
os.execve(command[0], command, os.environ | said)
"""
"""The environment of sd_listen_fds(3), in which a process has to know its own number before it is started."""

ABOVE = 100
"""Descriptors are held above those that the started process finds them at."""


def directives(unit: Path) -> list[tuple[str, str]]:
    """(key, value) of every line of a unit, in order; a key may be there several times."""
    lines = [line.strip() for line in unit.read_text().splitlines()]
    pairs = [line.partition("=") for line in lines if line and line[0] not in "#;["]
    return [(key.strip(), value.strip()) for key, _, value in pairs]


def value_of(unit: Path, key: str) -> str:
    """The value of a key that is there once."""
    [found] = [value for each, value in directives(unit) if each == key]
    return found


def command_line(configuration: Path, program: Path = PROGRAM) -> list[str]:
    """ExecStart of the unit, with this checkout's program and that configuration in the place of those it names."""
    here = {"/opt/gateway/bin/gateway": program, "/etc/gateway/gateway.toml": configuration}
    return [str(here.get(word, word)) for word in shlex.split(value_of(UNIT, "ExecStart"))]


class Service:
    """The gateway's unit, for as long as the block runs.

    directory:  its StateDirectory; `gateway.toml` in it is its configuration, and `log` all that it says.
    sockets:    FileDescriptorName -> what is held for it.
    watchdog:   WatchdogSec, 0 = none.

    messages: what it has notified of, in order: NAME -> value.
    """

    def __init__(self, directory: Path, sockets: Mapping[str, socket.socket], watchdog: float = 0.0) -> None:
        self.messages: list[dict[str, str]] = []
        self.log = directory / "log"
        self._directory = directory
        self._names = ":".join(sockets)
        self._held = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, ABOVE) for each in sockets.values()]
        self._watchdog = watchdog
        self._news = threading.Condition()
        self._hears = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._hears.bind(str(directory / "notify"))
        self._process: subprocess.Popen[bytes] | None = None
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"", str(self._directory / "notify"))
        self._listener.join()
        self._hears.close()
        for number in self._held:
            os.close(number)
        said = self.said()
        if error is not None:
            error.add_note(f"the gateway said:\n{said[-10_000:]}")
            return
        assert "Traceback" not in said, said

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None, "it does not run"
        return self._process.pid

    def said(self) -> str:
        """All that is in its log."""
        return self.log.read_text() if self.log.exists() else ""

    def spawn(self, command: Sequence[str] = (), **more: str) -> subprocess.Popen[bytes]:
        """Start it, and do not wait.  command: in place of the unit's.  more: of its environment."""
        told = {"NOTIFY_SOCKET": str(self._directory / "notify"), **more}
        if self._watchdog:
            told["WATCHDOG_USEC"] = str(int(self._watchdog * 1e6))
        line = command or command_line(self._directory / "gateway.toml")
        held = " ".join(map(str, self._held))
        with self.log.open("ab") as log:  # as StandardError=append: opens it
            self._process = subprocess.Popen(
                [sys.executable, "-c", LAUNCH, self._names, held, *line],
                cwd=self._directory,
                env=environment(**told),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=self._held,
            )
        return self._process

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        heard = self.count("READY")
        process = self.spawn()
        self.wait(lambda: self.count("READY") > heard or process.poll() is not None, "ready")
        assert process.poll() is None, f"it ended with {process.poll()}"

    def signal(self, number: signal.Signals) -> None:
        """To its process."""
        assert self._process is not None, "it does not run"
        self._process.send_signal(number)

    def stop(self) -> int:
        """SIGTERM.  Its exit status; fails if there is none in the time that the gateway promises."""
        assert self._process is not None, "it does not run"
        process, self._process = self._process, None
        process.terminate()
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the gateway had not ended {STOP_SECONDS:g} s after it was told to") from None

    def count(self, name: str) -> int:
        """How often it has notified of that."""
        with self._news:
            return sum(name in message for message in self.messages)

    def wait(self, true: Callable[[], object], what: str, seconds: float = START_SECONDS) -> None:
        """Until it is so; looked at with every message, and often besides."""
        with self._news:
            for _ in range(int(seconds * 100)):
                if true():
                    return
                self._news.wait(0.01)
        raise AssertionError(f"{what}: not within {seconds:g} s")

    def _listen(self) -> None:
        while said := self._hears.recv(65_536).decode():
            with self._news:
                self.messages.append(dict(line.split("=", 1) for line in said.split("\n")))
                self._news.notify_all()


def listening(family: socket.AddressFamily = socket.AF_INET, address: object = ("127.0.0.1", 0)) -> socket.socket:
    """A socket to hold."""
    made = socket.socket(family, socket.SOCK_STREAM)
    made.bind(address)
    made.listen(4096)
    return made
