"""A password, a token and the keys of certificates are where they were said and nowhere else: a process, searched."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import wire
from gateway.core import commands as q
from gateway.core.faults import CommandFailed
from gateway.dialects.cursus.terms import Spoken
from gateway.net.users import new_password
from net.certificates import Authority
from system.configured import Configured, listener, secured, trusting
from system.peers import Stream
from system.processes import ROOT, environment
from system.speaking import Speaking

PASSWORD = wire.CANARY
TOKEN = "Canary-of-a-token-19be0d55c2a84e63a1f07b2d"
PLUMAGE = "Canary"
LOGINS = {
    "cursus": [q.Authenticate("plain", "ann", PASSWORD)],
    "grid": [q.Authenticate("plain", "ann", PASSWORD)],
    "iggy": [q.Authenticate("plain", "ann", PASSWORD), q.Authenticate("token", "", TOKEN)],
    "native": [q.Authenticate("plain", "ann", PASSWORD), q.Authenticate("token", "", TOKEN)],
}


class Birds(list[str]):
    """Whatever would be a secret in sight."""

    def __init__(self, directory: Path) -> None:
        keys = [path.read_text().split("-----")[2].split() for path in directory.glob("*.key")]
        super().__init__([PLUMAGE, *(line for lines in keys for line in lines[:2])])


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Configured]:
    """Everything that can show something is on."""
    authority = Authority(tmp_path)
    authority.sign("gateway")
    authority.sign("client-ann")
    tls = f'{{ certificate = "{tmp_path}/gateway.pem", key = "{tmp_path}/gateway.key", client_ca = "{authority.pem}"'
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    user = f'[users.ann]\npassword = "{new_password(PASSWORD, log_n=4).text()}"\ntokens = ["{digest}"]\n'
    shown = 'console.endpoint = "tcp:0:interface=127.0.0.1"\nweb.endpoint = "tcp:0:interface=127.0.0.1"\n'
    text = f'backend.spec = "memory"\ncapture.directory = "{tmp_path}/captured"\n{shown}'
    text += "".join(listener(name, auth='"required"') for name in LOGINS if name != "native")
    text += listener("native", auth='"required"', tls=tls + ', client = "optional" }')
    with Configured(tmp_path, text + user) as gateway:
        yield gateway


def log_in(gateway: Configured, authority: Path, key: tuple[Path, Path]) -> None:
    """Right and wrong, in every dialect that has a login; one wrong in each, which costs nobody a wait."""
    context = trusting(authority, key)
    for name, claims in LOGINS.items():
        for claim in claims:
            wrong = q.Authenticate(claim.mechanism, claim.principal, claim.secret + "x")
            for said in (claim, wrong, claim):
                with Speaking(name, gateway.ports[name]) as peer:
                    outcome = (secured(peer, context) if name == "native" else peer).ask(said)
                assert isinstance(outcome, CommandFailed) is (said is wrong)
    with Stream(gateway.ports["cursus"]) as peer:
        peer.send(b"".join(wire.secrets("cursus")))
        peer.finish()
        assert PASSWORD.encode() not in peer.rest(), "not even to who said it"
    with Speaking("cursus", gateway.ports["cursus"]) as peer:
        for secret in (PASSWORD + "x", PASSWORD):
            in_line = Spoken("LIST", proof=q.Authenticate("plain", "ann", secret))
            assert isinstance(peer.ask(q.ListTopics("default"), in_line), CommandFailed) is (secret != PASSWORD)


def console(port: int) -> str:
    """What a session of it shows, the login included."""
    with Stream(port) as peer:
        for line in ("ann", PASSWORD, "faults", "faults --json", "sessions", "listeners", "losses", "metrics", "quit"):
            peer.send(f"{line}\r\n".encode())
        return peer.rest().decode("utf-8", "replace")


def fetched(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def test_a_secret_is_in_no_log_page_metric_console_or_capture(gateway: Configured, tmp_path: Path) -> None:
    log_in(gateway, tmp_path / "authority.pem", (tmp_path / "client-ann.pem", tmp_path / "client-ann.key"))
    seen = {path: fetched(gateway.ports["web"], path) for path in ("/", "/metrics", "/version")}
    seen["console"] = console(gateway.ports["console"])
    assert "BAD_CREDENTIALS" in seen["console"], "it shows what failed"
    assert gateway.terminate() == 0
    seen["log"] = "\n".join(gateway.log)
    assert "a login as 'ann' was refused" in seen["log"]
    files = sorted((tmp_path / "captured").iterdir())
    assert files
    for options in ((), ("--json",)):
        command = [sys.executable, "-m", "gateway.cli", "capture", "show", *options, *map(str, files)]
        shown = subprocess.run(
            command, env=environment(ROOT), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
        )
        seen[f"capture {options}"] = shown.stdout + shown.stderr
        assert "Authenticate" in shown.stdout, "it shows that somebody logged in"
    for where, text in seen.items():
        assert [bird for bird in Birds(tmp_path) if bird in text] == [], where
