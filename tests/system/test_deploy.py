"""The files in deploy/: what systemd reads in them, and that a gateway started by them does what they say."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress

from gateway import dialects
from gateway.configuration import ListenerPlan
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.held import check_held
from system.configured import secured, trusting
from system.holding import PROGRAM, SOCKET_UNIT, UNIT, Service, command_line, listening, value_of
from system.needed import require
from system.peers import Frames, Lines
from system.processes import ROOT, START_SECONDS, STOP_SECONDS, environment, until
from system.speaking import Speaking
from test_service import certificate

HELD = """
backend.spec = "sqlite:./gateway-data"

[listener.text]
dialect = "pipe"
endpoint = "systemd:domain=INET:name=9092"
"""


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


# -- what systemd reads


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    require("systemd-analyze")
    service = tmp_path / UNIT.name
    service.write_text(UNIT.read_text().replace("/opt/gateway/bin/gateway", str(PROGRAM)))
    shutil.copy(SOCKET_UNIT, tmp_path)
    checked = analyze("verify", "--man=no", service, tmp_path / "gateway@9092.socket")
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    service.write_text(service.read_text().replace("WatchdogSec=", "WatchDogSecs="))
    assert "WatchDogSecs" in analyze("verify", "--man=no", service).stderr, "it would have been found"


def test_the_service_may_do_little_besides_what_it_needs() -> None:
    """Of 10, the exposure that systemd reckons; 9.6 is a service that nothing was forbidden."""
    require("systemd-analyze")
    judged = analyze("security", "--offline=true", "--threshold=15", UNIT)
    assert judged.returncode == 0, judged.stdout.splitlines()[-1]


def test_the_system_calls_that_the_unit_allows_are_enough(tmp_path: Path) -> None:
    """Every dialect, the store, TLS, console, page and capture, all under the filter; a refused call would end it."""
    require("systemd-analyze", "libseccomp")
    certificate(tmp_path)
    endpoint = 'endpoint = "tcp:0:interface=127.0.0.1"\n'
    tls = 'tls = { certificate = "server.pem", key = "server.key", client_ca = "server.pem", client = "optional" }\n'
    listeners = [f'[listener.{name}]\ndialect = "{name}"\n{endpoint}' for name in dialects.names()]
    others = f'[web]\n{endpoint}[console]\n{endpoint}[capture]\ndirectory = "captured"\n'
    secure = f'[listener.secure]\ndialect = "pipe"\n{endpoint}{tls}'
    (tmp_path / "gateway.toml").write_text("\n".join([HELD, *listeners, secure, others]))
    with listening() as held, Service(tmp_path, {"9092": held}) as service:
        line = command_line(tmp_path / "gateway.toml")
        service.spawn(
            [sys.executable, "-m", "system.confined", str(UNIT), *line], PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}"
        )
        service.wait(lambda: service.count("READY"), "ready")
        status = Path(f"/proc/{service.pid}/status").read_text()
        assert re.search(r"^Seccomp:\s+2$", status, re.MULTILINE), "there is a filter"
        ports = {
            found[1]: int(found[2])
            for found in re.finditer(r"^listening (\w+) 127\.0\.0\.1:(\d+)$", service.said(), re.MULTILINE)
        }
        with Lines(held.getsockname()[1]) as lines:
            assert lines.produce("orders", "k", "v") == (0, 0)
        for name in ("web", "console"):
            with socket.create_connection(("127.0.0.1", ports[name]), 10) as peer:
                peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                assert peer.recv(65_536)
        with secured(Lines(ports["pipe"]), own(tmp_path)) as lines:
            assert lines.committed("g", "orders", 0) == 0
        service.signal(signal.SIGHUP)
        service.wait(lambda: service.count("READY") == 2, "a reload")
        assert service.stop() == 0


def own(directory: Path) -> ssl.SSLContext:
    """A client with a certificate of its own."""
    return trusting(directory / "server.pem", (directory / "server.pem", directory / "server.key"))


# -- what the gateway tells systemd


def test_the_unit_is_ready_reloads_stops_and_shows_that_it_lives(tmp_path: Path) -> None:
    assert value_of(UNIT, "Type") == "notify" and value_of(UNIT, "ExecReload") == "/bin/kill -HUP $MAINPID"
    (tmp_path / "gateway.toml").write_text(HELD)
    with listening() as held, Service(tmp_path, {"9092": held}, watchdog=0.4) as service:
        service.start()
        assert service.messages[0] == {"READY": "1", "STATUS": "serving text"}
        assert f"listening pipe 127.0.0.1:{held.getsockname()[1]}\n" in service.said()
        with Lines(held.getsockname()[1]) as lines:
            lines.produce("orders", "k", "v")
        service.wait(lambda: service.count("WATCHDOG") >= 3, "signs of life")
        before = time.monotonic_ns() // 1000
        service.signal(signal.SIGHUP)
        service.wait(lambda: service.count("READY") == 2, "a reload")
        [reloading] = [int(each["MONOTONIC_USEC"]) for each in service.messages if "RELOADING" in each]
        assert before <= reloading <= time.monotonic_ns() // 1000
        (tmp_path / "gateway.toml").write_text(f"{HELD}\n[[access]]\nallow = 7\n")
        service.signal(signal.SIGHUP)
        service.wait(lambda: service.count("READY") == 3, "a reload of what is wrong")
        assert "wrong" in [each["STATUS"] for each in service.messages if "READY" in each][-1]
        with Lines(held.getsockname()[1]) as lines:
            assert lines.read_all("orders", 0) == ["v"], "it goes on as before"
        assert service.stop() == 0
        assert service.count("STOPPING") == 1


def test_a_service_that_hangs_shows_no_signs_of_life(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text(HELD)
    with listening() as held, Service(tmp_path, {"9092": held}, watchdog=0.4) as service:
        service.start()
        service.wait(lambda: service.count("WATCHDOG") >= 2, "signs of life")
        service.signal(signal.SIGSTOP)
        until(lambda: re.search(r"^State:\s+T", Path(f"/proc/{service.pid}/status").read_text(), re.M), 5.0, "a stop")
        before = service.count("WATCHDOG")
        with pytest.raises(AssertionError, match="not within"):
            service.wait(lambda: service.count("WATCHDOG") > before + 1, "none", 0.5)
        service.signal(signal.SIGCONT)
        service.wait(lambda: service.count("WATCHDOG") > before + 1, "signs of life again")


# -- sockets that systemd holds


def test_systemd_itself_hands_over_a_socket_by_its_name(tmp_path: Path) -> None:
    require("systemd-socket-activate")
    with listening() as free:
        port = free.getsockname()[1]
    (tmp_path / "gateway.toml").write_text(HELD)
    line = ["systemd-socket-activate", f"--listen=127.0.0.1:{port}", "--fdname=9092"]
    with (tmp_path / "log").open("wb") as log:
        started = subprocess.Popen(
            [*line, f"--setenv=PYTHONPATH={ROOT}", *command_line(tmp_path / "gateway.toml")],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        until(lambda: _dialed(port), START_SECONDS, "a socket of systemd's")
        assert f"listening pipe 127.0.0.1:{port}\n" in (tmp_path / "log").read_text()
        started.terminate()
        assert started.wait(STOP_SECONDS) == 0
    finally:
        started.kill()
        started.wait()


def _dialed(port: int) -> bool:
    """The first connection has the gateway started, and is answered by it."""
    try:
        with Lines(port) as lines:
            return lines.produce("orders", "k", "v") == (0, 0)
    except ConnectionRefusedError:
        return False


@pytest.mark.parametrize("place", ["name=9000", "index=1"])
def test_a_socket_that_was_not_handed_over_ends_the_start_with_a_sentence(tmp_path: Path, place: str) -> None:
    (tmp_path / "gateway.toml").write_text(HELD.replace("name=9092", place))
    with listening() as held, Service(tmp_path, {"9092": held}) as service:
        assert service.spawn().wait(START_SECONDS) == int(value_of(UNIT, "RestartPreventExitStatus"))
        [said] = service.said().splitlines()
    assert said.startswith(
        f"gateway: cannot listen for text on systemd:domain=INET:{place}: whoever started the gateway"
    )
    assert "FileDescriptorName=" in said and service.messages == []


PLAN = ListenerPlan("text", dialects.load("pipe"), "systemd:domain=INET:name=9092", dialects.load("pipe").settings())


@pytest.mark.parametrize("address", [IPv4Address("TCP", "0.0.0.0", 9092), IPv6Address("TCP", "::", 9092)])
def test_a_held_socket_that_is_open_to_other_machines_wants_tls_or_a_login(address: IPv4Address | IPv6Address) -> None:
    with pytest.raises(ValueError, match="is open to other machines, without TLS or a login"):
        check_held(PLAN, address)


@pytest.mark.parametrize(
    "address", [IPv4Address("TCP", "127.0.0.1", 9092), IPv6Address("TCP", "::1", 9092), UNIXAddress(b"/run/a")]
)
def test_a_held_socket_of_this_machine_wants_nothing(address: object) -> None:
    check_held(PLAN, address)  # type: ignore[arg-type]


# -- the log

CANARY = "kanarienvogel-7"
LOGIN = f"""
backend.spec = "memory"
users.ann.password = "scrypt:4:8:1:AAAAAAAAAAAAAAAAAAAAAA==:{"A" * 43}="
listener.native = {{ dialect = "native", endpoint = "tcp:0:interface=127.0.0.1", auth = "required" }}
listener.iggy = {{ dialect = "iggy", endpoint = "tcp:0:interface=127.0.0.1", auth = "required" }}
listener.cursus = {{ dialect = "cursus", endpoint = "tcp:0:interface=127.0.0.1", auth = "required" }}
"""


def test_a_service_logs_lines_of_json_and_no_secret(tmp_path: Path) -> None:
    """Wrong logins, and names that would steer a terminal; in json, for standard error is none."""
    (tmp_path / "gateway.toml").write_text(LOGIN)
    with Service(tmp_path, {}) as service:
        service.start()
        ports = dict(re.findall(r"^listening (\w+) 127\.0\.0\.1:(\d+)$", service.said(), re.MULTILINE))
        for name in ("native", "iggy"):
            with Speaking(name, int(ports[name])) as peer:
                said = peer.ask(q.Authenticate("plain", "a\n\x1b[2Jnn", CANARY))
                assert isinstance(said, CommandFailed) and said.fault is Fault.BAD_CREDENTIALS
        with Frames(int(ports["cursus"])) as frames:
            frames.ask(q.Authenticate("plain", "ann", CANARY))
        service.signal(signal.SIGHUP)
        service.wait(lambda: "read again" in service.said(), "a line")
        assert service.stop() == 0
    said = service.said()
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert len([line for line in lines if "login" in line["message"]]) >= 2
    assert all({"time", "level", "system", "message"} <= line.keys() for line in lines)
    assert CANARY not in said
    assert said.replace("\n", "").isprintable()


def test_a_log_file_can_be_cut_while_it_is_written(tmp_path: Path) -> None:
    """As logrotate's copytruncate does: what follows stands at its beginning."""
    (tmp_path / "gateway.toml").write_text(LOGIN)
    with Service(tmp_path, {}) as service:
        service.start()
        service.signal(signal.SIGHUP)
        service.wait(lambda: "read again" in service.said(), "a line")
        os.truncate(service.log, 0)
        service.signal(signal.SIGHUP)
        service.wait(lambda: "read again" in service.said(), "a line")
        assert json.loads(service.said())["level"] == "info"
        assert service.stop() == 0


@pytest.mark.parametrize(
    ("options", "more", "form"),
    [([], {}, "text"), (["--log-format", "json"], {}, "json"), ([], {"GATEWAY_LOG": "json"}, "json")],
)
def test_on_a_terminal_the_log_is_text_unless_told_otherwise(
    tmp_path: Path, options: list[str], more: dict[str, str], form: str
) -> None:
    (tmp_path / "gateway.toml").write_text(LOGIN)
    ours, theirs = pty.openpty()
    try:
        started = subprocess.Popen(
            [PROGRAM, "run", "--config", "gateway.toml", *options],
            cwd=tmp_path,
            env=environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
        )
        with started:
            assert started.stdout is not None
            try:
                for line in started.stdout:
                    if line == b"ready\n":
                        break
                started.send_signal(signal.SIGHUP)
                said = os.read(ours, 65_536).decode()
                started.terminate()
                started.stdout.read()
                started.wait(STOP_SECONDS)
            finally:
                started.kill()  # which does nothing to one that has ended
    finally:
        os.close(ours)
        os.close(theirs)
    assert started.returncode == 0
    if form == "json":
        assert json.loads(said)["system"] == "gateway.service.GatewayService"
    else:
        assert re.match(r"\d{4}-\d\d-\d\dT\S+ \[gateway\.service\.GatewayService#info\] certificates, ", said)


def test_another_log_format_is_refused_in_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [PROGRAM, "run", "--log-format", "xml"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (2, "gateway run: --log-format is text or json, not 'xml'\n")


def test_twistd_logs_lines_of_json_with_our_observer(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text(LOGIN)
    twistd = [PROGRAM.with_name("twistd"), "-n", "--pidfile=", "--logger=gateway.logging.json_lines"]
    started = subprocess.Popen(
        [*twistd, "gateway", "--config", "gateway.toml"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with started:
        assert started.stdout is not None and started.stderr is not None
        for line in started.stdout:
            if line == "ready\n":
                break
        started.send_signal(signal.SIGHUP)
        line = next(line for line in started.stderr if "read again" in line)
        started.terminate()
        started.communicate(timeout=STOP_SECONDS)
    assert json.loads(line)["system"] == "gateway.service.GatewayService"
    assert started.returncode == 0
