"""Who may do what, over real sockets: one policy for every dialect, and who may come in at all."""

from __future__ import annotations

import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import dialects
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical
from gateway.core.replies import Authenticated, Outcome
from gateway.net.users import new_password
from system.configured import PROMPT, Configured, about, listener, refusal
from system.iggy_processes import APACHE, LATEST, IggyClient, Refused
from system.peers import Lines
from system.processes import COMMAND, ROOT, environment
from system.speaking import Speaking

NAMES = sorted(about("any"))
SECRET = "correct-horse"
ORDERS, LOGS = q.Topic("default", "orders"), q.Topic("default", "logs")
POLICY = f"""
[users.ann]
password = "{new_password(SECRET, log_n=4).text()}"
[[access]]
deny = true
command = ["DeleteTopic"]
[[access]]
allow = true
who = ["ann"]
topic = ["orders*"]
[[access]]
allow = true
who = ["ann"]
command = ["ListTopics"]
[[access]]
allow = true
who = ["anonymous"]
topic = ["public"]
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Configured]:
    """All dialects, a user and some rules."""
    text = 'backend.spec = "memory"\n' + "".join(listener(name) for name in NAMES) + POLICY
    with Configured(tmp_path_factory.mktemp("access"), text) as gateway:
        yield gateway


def forbidden(outcome: Outcome, name: str) -> bool:
    """Whether it is that dialect's answer to what is not allowed."""
    code = dialects.load(name).faults
    return isinstance(outcome, CommandFailed) and code[outcome.fault] == code[Fault.FORBIDDEN]


@pytest.mark.parametrize("name", NAMES)
def test_who_is_nobody_gets_what_nobody_may_have_and_the_word_of_the_dialect_for_the_rest(
    gateway: Configured, name: str
) -> None:
    with Speaking(name, gateway.ports[name]) as peer:
        assert forbidden(peer.ask(about("orders")[name]), name)
        allowed = peer.ask(about("public")[name])
        assert not isinstance(allowed, CommandFailed) or allowed.fault is not Fault.FORBIDDEN
        assert "allowed" not in str(allowed)


@pytest.mark.parametrize("name", ["cursus", "grid", "iggy", "native"])
def test_who_logs_in_gets_what_his_rules_say_in_every_dialect(gateway: Configured, name: str) -> None:
    with Speaking(name, gateway.ports[name]) as peer:
        proved = peer.ask(q.Authenticate("plain", "ann", SECRET))
        assert isinstance(proved, Authenticated)
        mine, other = peer.ask_all([about("orders1")[name], about("logs")[name]])
        assert not forbidden(mine, name) or (isinstance(mine, CommandFailed) and mine.fault is Fault.NO_SUCH_TOPIC)
        assert forbidden(other, name)


@pytest.mark.parametrize("who", ["ann", None])
def test_what_is_denied_first_is_denied_whatever_else_is_allowed(gateway: Configured, who: str | None) -> None:
    with Speaking("native", gateway.ports["native"]) as peer:
        if who is not None:
            peer.ask(q.Authenticate("plain", who, SECRET))
        outcome = peer.ask(q.DeleteTopic(ORDERS if who else q.Topic("default", "public")))
        assert isinstance(outcome, CommandFailed) and outcome.fault is Fault.FORBIDDEN


def test_a_topic_that_may_not_be_made_is_not_made_by_writing_to_it(gateway: Configured) -> None:
    with Speaking("native", gateway.ports["native"]) as peer:
        batch = canonical([Record(value=b"v")], "test")
        outcome = peer.ask(q.Publish(LOGS, 0, batch, create=1))
        assert isinstance(outcome, CommandFailed) and outcome.fault is Fault.FORBIDDEN
        peer.ask(q.Authenticate("plain", "ann", SECRET))
        listed = peer.ask(q.ListTopics("default"))
        assert LOGS.name not in str(listed)


ONE_TOPIC = f"""
backend.spec = "memory"
[users.ann]
password = "{new_password(SECRET, log_n=4).text()}"
[[access]]
allow = true
who = "ann"
topic = "orders"
[web]
endpoint = "tcp:0:interface=127.0.0.1"
"""


@pytest.mark.parametrize("client", [APACHE[0], LATEST])
def test_who_may_use_one_topic_uses_it_with_iggys_own_clients(tmp_path: Path, client: str) -> None:
    """Nothing that they do besides, such as asking where the leader is at each login, is refused."""
    with Configured(tmp_path, ONE_TOPIC + listener("iggy")) as gateway:
        with IggyClient(client, gateway.ports["iggy"]) as ann:
            ann.call("connect")
            ann.call("login_user", "ann", SECRET)
            ann.create_topic("default", "orders", 1)
            ann.send("default", "orders", 0, ["paid"])
            assert [found["offset"] for found in ann.poll("default", "orders", 0, {"First": []}, 10, False)] == [0]
            assert "FORBIDDEN" not in metrics(gateway)
            with pytest.raises(Refused, match="Unauthorized"):
                ann.send("default", "logs", 0, ["paid"])
            asked = [line for line in metrics(gateway).splitlines() if 'kind="FindLeader"' in line]
            assert (asked != []) is (client == LATEST)
            ann.stop()
        assert gateway.terminate() == 0


def metrics(gateway: Configured) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{gateway.ports['web']}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


# -- where from


def connect(port: int, source: str) -> Lines:
    """From that address of this machine."""
    peer = Lines(port)
    peer.close()
    peer.socket = socket.create_connection(("127.0.0.1", port), 5.0, (source, 0))
    return peer


def test_who_comes_from_elsewhere_than_is_allowed_is_hung_up_on_at_once(tmp_path: Path) -> None:
    text = 'backend.spec = "memory"\n' + listener("pipe", allow='["127.0.0.2", "10.0.0.0/8"]')
    with Configured(tmp_path, text) as gateway:
        with connect(gateway.ports["pipe"], "127.0.0.2") as peer:
            assert peer.produce("t", "k", "v")[1] == 0
        with connect(gateway.ports["pipe"], "127.0.0.1") as peer:
            answer, seconds = refusal(peer)
            assert (answer, seconds < PROMPT) == (b"", True)


# -- beyond loopback

BEYOND = 'backend.spec = "memory"\n[listener.pipe]\ndialect = "pipe"\nendpoint = "tcp:0"\n'
SENTENCE = "listener pipe: tcp:0 is open to other machines, without TLS or a login"


def start(directory: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (directory / "gateway.toml").write_text(text)
    command = [*COMMAND, "--config=gateway.toml", *options]
    return subprocess.run(
        command, cwd=directory, env=environment(ROOT), capture_output=True, text=True, timeout=30, check=False
    )


def test_beyond_loopback_nothing_is_served_without_tls_or_a_login(tmp_path: Path) -> None:
    ended = start(tmp_path, BEYOND)
    assert ended.returncode == 2
    assert SENTENCE in ended.stderr and "--insecure" in ended.stderr
    assert "Traceback" not in ended.stderr and "listening" not in ended.stdout


@pytest.mark.parametrize("allowed", ["the option", "the file"])
def test_who_says_so_serves_it_all_the_same(tmp_path: Path, allowed: str) -> None:
    text = "insecure = true\n" + BEYOND if allowed == "the file" else BEYOND
    with Configured(tmp_path, text, *(["--insecure"] if allowed == "the option" else [])) as gateway:
        assert any(line.startswith("listening pipe 0.0.0.0:") for line in gateway.said)
