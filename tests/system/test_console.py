"""`gateway console` and the console of a running gateway, over real sockets and a real terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from system.peers import Lines, Stream
from system.processes import COMMAND, ROOT, STOP_SECONDS, GatewayProcess, environment

SECONDS = 20.0
"""For anything that a console does at once."""

CONSOLE = (sys.executable, "-m", "gateway.cli", "console")
LISTEN = "--console=tcp:0:interface=127.0.0.1"
OURS = re.compile(r"\x1b\[(?:\d*[KDHJ]|[012]?m)")


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path, "pipe", backend="memory", command=(*COMMAND, LISTEN)) as gateway:
        yield gateway


def at(gateway: GatewayProcess) -> str:
    return f"127.0.0.1:{gateway.ports['console']}"


def piped(gateway: GatewayProcess, *lines: str) -> str:
    """What `gateway console` prints that has these lines on its standard input."""
    done = subprocess.run(
        [*CONSOLE, at(gateway)],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        env=environment(ROOT),
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def refused(address: str) -> tuple[int, str]:
    """The exit status of `gateway console ADDRESS`, and what it says."""
    environ = environment(ROOT)
    done = subprocess.run(
        [*CONSOLE, address], capture_output=True, text=True, env=environ, timeout=SECONDS, check=False
    )
    return done.returncode, done.stderr


class Person:
    """Somebody at a terminal that runs `gateway console`."""

    def __init__(self, gateway: GatewayProcess, width: int = 80) -> None:
        self.ours, theirs = pty.openpty()
        self.resize(width)
        self.before = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(
            [*CONSOLE, at(gateway)],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.STDOUT,
            env=environment(ROOT),
            start_new_session=True,
        )
        self._theirs = theirs
        self.seen = ""
        self.wait("gateway> ")

    def resize(self, width: int) -> None:
        termios.tcsetwinsize(self.ours, (24, width))

    def type(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def wait(self, text: str) -> str:
        """Everything up to that text."""
        deadline = time.monotonic() + SECONDS
        while text not in self.seen:
            ready, _, _ = select.select([self.ours], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no {text!r} came, only {self.seen!r}"
            self.seen += OURS.sub("", os.read(self.ours, 65_536).decode())
        found, _, self.seen = self.seen.partition(text)
        return found + text

    def end(self) -> int:
        """Its exit status; the terminal is as it was before."""
        status = self.process.wait(SECONDS)
        assert termios.tcgetattr(self._theirs) == self.before
        return status

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.ours)
        os.close(self._theirs)


@pytest.fixture
def person(gateway: GatewayProcess) -> Iterator[Person]:
    with Lines(gateway.ports["pipe"]) as lines:
        lines.produce("orders", "user1", "created")
    person = Person(gateway)
    yield person
    person.close()


def test_lines_that_are_piped_in_are_answered(gateway: GatewayProcess) -> None:
    with Lines(gateway.ports["pipe"]) as lines:
        lines.produce("orders", "user1", "created")
    listed, mapped = piped(gateway, "topics --json", "map orders user1").split("]\n")
    assert json.loads(f"{listed}]")[0]["records"] == 1
    assert mapped == "key    user1\nvalue  created\n"
    assert piped(gateway) == ""


def test_a_netcat_that_pipes_lines_in_gets_the_answers_and_nothing_else(gateway: GatewayProcess) -> None:
    with Stream(gateway.ports["console"]) as netcat:
        netcat.send(b"listeners --json\nquit\n")
        [listener] = json.loads(netcat.rest())
    assert listener["dialect"] == "pipe"


def test_a_person_edits_completes_and_looks_back(person: Person) -> None:
    person.type("lis\t\r")
    person.wait("LISTENER  DIALECT")
    person.wait("pipe      pipe")
    person.type("map orders user2\x7f1\r")
    person.wait("value  created")
    person.type("\x1b[A\x1b[A\r")
    person.wait("LISTENER  DIALECT")
    person.type("\x10\x10\r")
    person.wait("value  created")
    person.type("quit\r")
    assert person.end() == 0


def test_tables_follow_the_size_of_the_terminal(person: Person) -> None:
    person.type("listeners\r")
    person.wait("(no room for")
    person.resize(160)
    os.kill(person.process.pid, signal.SIGWINCH)
    person.type("listeners\r")
    wide = person.wait("OUT")
    assert "ADDRESS" in wide and "EVER" in wide


def test_frames_are_seen_live_until_a_key_ends_it(gateway: GatewayProcess, person: Person) -> None:
    person.type("tap pipe publish\r")
    person.wait("(Enter or q ends this)")
    with Lines(gateway.ports["pipe"]) as lines:
        lines.produce("orders", "user1", "paid")
    assert "> Publish topic=orders" in person.wait("< Published partition=")
    person.type("q")
    person.wait("gateway> ")


def test_a_gateway_that_dies_gives_the_terminal_back(gateway: GatewayProcess, person: Person) -> None:
    gateway.kill()
    assert person.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_console_that_is_ended_gives_the_terminal_back(person: Person, number: int) -> None:
    person.process.send_signal(number)
    assert person.end() == 128 + number


def test_ctrl_bracket_leaves_whatever_the_gateway_does(gateway: GatewayProcess, person: Person) -> None:
    os.kill(gateway.pid, signal.SIGSTOP)
    try:
        person.type("\x1d")
        assert person.end() == 0
    finally:
        os.kill(gateway.pid, signal.SIGCONT)


def test_drain_from_the_console_ends_the_gateway_with_status_0(gateway: GatewayProcess, person: Person) -> None:
    person.type("drain\r")
    person.wait("Type `drain yes` to do it.")
    person.type("drain yes\r")
    person.wait("The gateway is stopping.")
    assert person.end() == 0
    assert gateway.terminate() == 0


def test_a_console_that_is_not_there_is_a_sentence_and_status_3() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, said = refused(address)
    assert (status, said) == (3, f"gateway console: cannot reach {address}: Connection refused\n")


def test_what_is_no_address_is_a_sentence_and_status_2() -> None:
    assert refused("a:b") == (2, "gateway console: a:b is no HOST:PORT\n")


def test_the_gateway_stops_in_time_with_somebody_at_the_console(gateway: GatewayProcess, person: Person) -> None:
    began = time.monotonic()
    assert gateway.terminate() == 0
    assert time.monotonic() - began < STOP_SECONDS
    person.wait("The gateway is stopping.")
    assert person.end() == 0
