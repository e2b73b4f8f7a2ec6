"""A gateway in a process of its own: started, waited for, killed, stopped, and started again on what it left.

Only processes started here are ended here, by their own handle.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

ROOT = Path(__file__).parents[2]
"""The checkout."""

START_SECONDS = 30.0
"""From the start of the process to its `ready`."""

STOP_SECONDS = 10.0
"""From SIGTERM to the end of the process: what the gateway itself promises (contract.md, "Signals")."""

MEMORY = 2 << 30
"""Bytes of address space it may have, so that a defect in it costs a test and not the machine."""

COMMAND = (sys.executable, "-m", "gateway.cli", "run")
"""What starts the gateway of this checkout."""

Setting = str | int | float | bool


class GatewayProcess:
    """One gateway on free ports of loopback, for as long as the block runs.

    directory: where it runs, and where its data are.
    dialects:  a listener for each; none = those that the gateway has by itself, on their own ports.
    backend:   as for `--backend`; "" = what the gateway takes by itself.
    settings:  dialect -> settings of its listener; given to the gateway in a configuration file.
    command:   what starts it; the options are added.
    imports:   what stands on PYTHONPATH, None = nothing.

    It is started again on the ports that it found the first time.  Leaving the block kills it if it still runs, and
    fails if it ever logged a traceback.
    """

    def __init__(
        self,
        directory: Path,
        *dialects: str,
        backend: str = "sqlite:records",
        settings: Mapping[str, Mapping[str, Setting]] | None = None,
        command: Sequence[str] = COMMAND,
        imports: Path | None = ROOT,
    ) -> None:
        self.ports: dict[str, int] = {}
        self.log: list[str] = []
        self._directory = directory
        self._listen = dict.fromkeys(dialects, 0)
        self._backend = backend
        self._settings = settings or {}
        self._command = command
        self._environment = environment(imports)
        self._process: subprocess.Popen[str] | None = None
        self._readers: list[threading.Thread] = []
        self._lines: list[str] = []
        self._news = threading.Condition()

    def __enter__(self) -> GatewayProcess:
        try:
            self.start()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and error is not None:
            self._process.kill()
            self._reap(START_SECONDS)
        self.kill()
        said = "\n".join(self.log)
        if error is not None:
            error.add_note(f"the gateway said:\n{said[-10_000:]}")
            return
        assert "Traceback" not in said, f"the gateway logged a defect:\n{said}"

    @property
    def runs(self) -> bool:
        """Whether it was started, and neither killed nor stopped since."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None, "the gateway does not run"
        return self._process.pid

    @property
    def said(self) -> list[str]:
        """What it has said on standard output since its last start."""
        with self._news:
            return list(self._lines)

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self.spawn()
        self.wait_ready()

    def spawn(self) -> None:
        """Start it, and do not wait."""
        assert self._process is None, "the gateway runs already"
        self._lines = []
        self._process = subprocess.Popen(
            [*self._command, *self._options()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._directory,
            env=self._environment,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        resource.prlimit(self._process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
        assert self._process.stdout is not None and self._process.stderr is not None
        self._readers = [
            self._drain(self._process.stdout, self._hear),
            self._drain(self._process.stderr, self.log.append),
        ]

    def wait_ready(self) -> None:
        """Wait for the lines that say what listens where, and for `ready`."""
        process = self._process
        assert process is not None, "the gateway does not run"
        with self._news:
            self._news.wait_for(lambda: "ready" in self._lines or "" in self._lines, START_SECONDS)
            lines = list(self._lines)
        if "ready" not in lines:
            ended = "" in lines and process.wait(START_SECONDS)
            raise AssertionError(f"no `ready`; exit status {ended}; it said {self.log[-5:]}")
        found = [re.fullmatch(r"listening (\w+) 127\.0\.0\.1:(\d+)", line) for line in lines[: lines.index("ready")]]
        self.ports = {match[1]: int(match[2]) for match in found if match}
        self._listen = {name: self.ports[name] for name in self._listen}

    def kill(self) -> None:
        """SIGKILL, if it runs: what it had not made durable is gone.  Fails if it had ended by itself."""
        if self._process is not None:
            self._process.kill()
            status = self._reap(START_SECONDS)
            assert status == -signal.SIGKILL, f"the gateway had ended by itself, with status {status}"

    def terminate(self) -> int:
        """SIGTERM.  Returns the exit status; fails if there is none in time."""
        assert self._process is not None, "the gateway does not run"
        self._process.terminate()
        return self._reap(STOP_SECONDS)

    def resident(self) -> int:
        """Bytes of its memory that are in RAM now."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        assert found is not None, status
        return int(found[1]) * 1024

    def command_line(self) -> str:
        """What it was started with, as `ps` and `pkill -f` see it."""
        return Path(f"/proc/{self.pid}/cmdline").read_text().replace("\0", " ").strip()

    def _options(self) -> list[str]:
        if not self._settings:
            listen = [f"--listen={name}=tcp:{port}:interface=127.0.0.1" for name, port in self._listen.items()]
            return [*listen, *([f"--backend={self._backend}"] if self._backend else [])]
        (self._directory / "gateway.toml").write_text(self._configuration())
        return ["--config=gateway.toml"]

    def _configuration(self) -> str:
        """A TOML file; JSON's spelling of a text, a number or a truth value is TOML's too."""
        lines = ["[backend]", f"spec = {json.dumps(self._backend)}"]
        for name, port in self._listen.items():
            endpoint = json.dumps(f"tcp:{port}:interface=127.0.0.1")
            lines += [f"[listener.{name}]", f"dialect = {json.dumps(name)}", f"endpoint = {endpoint}"]
            lines += [f"{key} = {json.dumps(value)}" for key, value in self._settings.get(name, {}).items()]
        return "\n".join(lines) + "\n"

    def _hear(self, line: str) -> None:
        self.log.append(line)
        with self._news:
            self._lines.append(line)
            self._news.notify_all()

    def _drain(self, stream: IO[str], take: Callable[[str], None]) -> threading.Thread:
        """Read to the end, so that the gateway never waits for us; the end of standard output is heard as ""."""

        def read() -> None:
            with stream:
                for line in stream:
                    take(line.rstrip("\n"))
            if take == self._hear:
                take("")

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread

    def _reap(self, seconds: float) -> int:
        assert self._process is not None
        process, self._process = self._process, None
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the gateway had not ended {seconds:g} s after it was told to") from None
        finally:
            for reader in self._readers:
                reader.join(START_SECONDS)
        return status


def environment(imports: Path | None = None, **more: str) -> dict[str, str]:
    """Ours, with that on PYTHONPATH or nothing."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return ours | ({} if imports is None else {"PYTHONPATH": str(imports)}) | more


def until(true: Callable[[], object], seconds: float, what: str) -> None:
    """Look again and again until it is so; fails when the time is over."""
    deadline = time.monotonic() + seconds
    look = threading.Event()
    while not true():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        look.wait(0.01)
