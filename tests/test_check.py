"""gateway check: what `gateway run` would serve with the same options, or the sentence why it would not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gateway import dialects
from gateway.backends import find_maker
from gateway.configuration import check_exposure, configure, exposures
from gateway.configuration.checking import durability, lines, summary, warnings
from gateway.net.users import new_password, new_token
from gateway.service import Options

PEM = serialization.Encoding.PEM
ROOT = Path(__file__).parent.parent
HASH, (_, DIGEST) = new_password("correct horse", log_n=4).text(), new_token()

FULL = f"""
node = {{ name = "east", advertise = "broker.example.org" }}
backend = {{ spec = "remote:iggy=tcp:10.0.0.5:8090", user = "upstream", password = "canary one" }}

[users.ann]
password = "{HASH}"
tokens = ["{DIGEST.hex()}"]
principals = ["ann.example.org"]

[[access]]
deny = true
command = ["DeleteTopic", "DeletePartitions"]
topic = "orders*"
[[access]]
allow = true
who = "ann"

[limits]
idle_seconds = 90

[listener.public]
dialect = "cursus"
endpoint = "tcp:9000"
auth = "required"
tls = {{ certificate = "server.pem", key = "server.key", client_ca = "ca.pem", client = "optional", plaintext = true }}

[listener.text]
dialect = "pipe"
endpoint = "tcp:9092"
allow = ["10.0.0.0/8"]

[web]
[capture]
directory = "captured"
"""


@pytest.fixture(scope="module")
def pems() -> dict[str, bytes]:
    """A certificate that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    day = datetime(2026, 11, 20, tzinfo=UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, day, day + timedelta(days=9999))
    kept = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    signed = made.sign(key, hashes.SHA256()).public_bytes(PEM)
    return {"server.pem": signed, "server.key": kept, "ca.pem": signed}


@pytest.fixture
def file(tmp_path: Path, pems: dict[str, bytes]) -> Path:
    for name, pem in pems.items():
        (tmp_path / name).write_bytes(pem)
        (tmp_path / name).chmod(0o600)
    return tmp_path / "gateway.toml"


def check(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **environment}
    return subprocess.run(
        [sys.executable, "-m", "gateway.cli", "check", *arguments],
        cwd=directory, env=known, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def odd(text: str, file: Path, **environment: str) -> list[str]:
    """What `gateway check` warns of, without a process."""
    file.write_text(text)
    return warnings(configure(str(file), environment), environment)


def test_it_says_what_would_be_served_and_no_secret(file: Path) -> None:
    file.write_text(FULL)
    done = check(file.parent, "--config", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "node      east  advertise broker.example.org",
        "backend   remote:iggy=tcp:10.0.0.5:8090, durability upstream",
        "listener  public  cursus  tcp:9000  auth required  tls server.pem, plaintext too, "
        "client certificates optional",
        "listener  text    pipe    tcp:9092  auth optional  no tls"
        "                                                       from 10.0.0.0/8",
        "users     1",
        "access    deny   who *    command DeleteTopic DeletePartitions  topic orders*",
        "access    allow  who ann  command *                             topic *",
        "limits    connections 10000  in_flight 1024  buffered_bytes 16777216  requests_per_second 0  "
        "frame_seconds 10  idle_seconds 90  command_seconds 10",
        "console   none",
        "web       endpoint tcp:8080:interface=127.0.0.1",
        "capture   directory captured  keep all  file_bytes 67108864  total_bytes 1073741824  rotate_seconds 3600  "
        "memory_bytes 67108864  ring_bytes 16384",
    ]
    for secret in ("canary", HASH[8:], DIGEST.hex()):
        assert secret not in done.stdout + check(file.parent, "--config", str(file), "--json").stdout


def test_it_says_so_to_programs_too(file: Path) -> None:
    file.write_text(FULL)
    done = check(file.parent, "--json", "-c", str(file), "--backend", "memory")
    told: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert told["backend"] == {"spec": "memory", "durability": "memory"}
    public, text = told["listeners"]
    assert (public["host"], public["port"], public["auth"], public["tls"]["client"]) == (
        *("0.0.0.0", 9000, "required", "optional"),
    )
    assert public["settings"]["advertise"] == "broker.example.org:9000"
    assert (text["tls"], text["allow"]) == (None, ["10.0.0.0/8"])
    assert told["access"][0] == {
        **{"allow": False, "who": ["*"], "command": ["DeleteTopic", "DeletePartitions"], "topic": ["orders*"]}
    }
    assert (told["users"], told["limits"]["idle_seconds"], told["console"]) == (1, 90, None)
    assert told["warnings"] == [
        "backend: user and password are for remote:, which memory is not",
    ]


def test_it_opens_nothing_and_makes_nothing(file: Path) -> None:
    """Not even a port that is taken, or a data directory."""
    done = check(
        file.parent,
        "--backend",
        "sqlite:records",
        "--capture",
        "captured",
        "--listen",
        "pipe=tcp:1:interface=127.0.0.1",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in file.parent.iterdir()) == ["ca.pem", "server.key", "server.pem"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "\n[limits]\nidle_second = 3",
            "{file}:3 limits.idle_second: there is no such key; did you mean idle_seconds?",
        ),
        ("backend.spec = 'mongo:x'", "there is no backend 'mongo'; there are "),
        (
            "[listener.x]\ndialect = 'pipe'\nendpoint = 'tcp:9092'",
            "listener x: tcp:9092 is open to other machines, without TLS or a login; give it tls, ",
        ),
        (
            "[listener.x]\ndialect = 'pipe'\ntls = { certificate = 'none.pem', key = 'server.key' }",
            "{file}:3 listener.x.tls.certificate: none.pem: No such file or directory; it has to be there when",
        ),
        (
            "[listener.x]\ndialect = 'pipe'\ntls = { certificate = 'server.key', key = 'server.pem' }",
            "{file}:3 listener.x.tls: server.key and server.pem cannot be used for TLS: ",
        ),
        (
            "[backend]\nuser = 'u'\npassword_file = 'none'",
            "{file}:3 backend.password_file: none: No such file or directory; it has to be there when",
        ),
    ],
)
def test_what_would_not_be_served_is_a_sentence_and_status_2(file: Path, text: str, sentence: str) -> None:
    file.write_text(text)
    done = check(file.parent, "--config", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"gateway check: {sentence.format(file=file)}")
    assert done.stderr.count("\n") == 1


def test_what_the_environment_says_counts(file: Path) -> None:
    file.write_text("[backend]\nspec = 'memory'")
    done = check(file.parent, "--json", GATEWAY_CONFIG=str(file), GATEWAY_LIMITS_CONNECTIONS="7")
    told = json.loads(done.stdout)
    assert (told["backend"]["spec"], told["limits"]["connections"]) == ("memory", 7)
    assert [one["dialect"] for one in told["listeners"]] == dialects.names()


@pytest.mark.parametrize(
    ("spec", "stated"), [("memory", "memory"), ("sqlite:x", "fsync"), ("remote:pipe=tcp:h:1", "upstream")]
)
def test_durability_is_said_where_the_backend_says_it_of_all_its_kind(spec: str, stated: str) -> None:
    assert durability(find_maker(spec)[0]) == stated


def test_a_backend_that_does_not_know_before_it_is_made_is_shown_without(file: Path) -> None:
    told = configure(None, {"GATEWAY_BACKEND": "routes:*=memory"})
    assert "backend   routes:*=memory" in lines(told, {})


# -- what other machines could get at


OPEN = "[listener.x]\ndialect = 'cursus'\n"
TLS = "tls = { certificate = 'c', key = 'k' }\n"
USERS = f"[users.ann]\npassword = '{HASH}'\n"


@pytest.mark.parametrize(
    "text",
    [
        f"{OPEN}endpoint = 'tcp:9000'",
        f"{OPEN}endpoint = 'tcp:9000:interface=10.0.0.1'",
        f"{OPEN}endpoint = 'tcp:port=9000:interface=0.0.0.0'",
        f"{OPEN}endpoint = 'tcp:9000:10.0.0.1'",
        f"{OPEN}endpoint = 'tcp6:9000'",
        f"{OPEN}endpoint = 'tcp6:9000:interface=fd00\\\\:\\\\:1'".replace("'tcp6", '"tcp6').replace(":1'", ':1"'),
        f"{OPEN}endpoint = 'tcp:9000'\ntls = {{ certificate = 'c', key = 'k', plaintext = true }}",
        f"{USERS}{OPEN}endpoint = 'tcp:9000'",
    ],
)
def test_what_other_machines_may_do_without_tls_or_login_is_not_served(file: Path, text: str) -> None:
    file.write_text(text)
    told = configure(str(file), {})
    (sentence,) = exposures(told)
    assert sentence.startswith("listener x: tcp") and sentence.endswith("or say --insecure")
    with pytest.raises(ValueError) as caught:
        check_exposure(told)
    assert str(caught.value) == sentence
    insecure = configure(str(file), {"GATEWAY_INSECURE": "true"})
    check_exposure(insecure)
    assert warnings(insecure, {}) == [sentence]
    options = Options({})
    options.parseOptions(["--config", str(file), "--insecure", "--backend", "memory"])
    assert options.configuration.insecure


@pytest.mark.parametrize(
    "text",
    [
        OPEN,
        f"{OPEN}endpoint = 'tcp:9000:interface=127.1.2.3'",
        f"{OPEN}endpoint = 'tcp:9000:interface=localhost'",
        f'{OPEN}endpoint = "tcp6:9000:interface=\\\\:\\\\:1"',
        f"{OPEN}endpoint = 'unix:/run/x'",
        f"{OPEN}endpoint = 'systemd:domain=INET:name=x'",
        f"{OPEN}endpoint = 'tcp:9000'\n{TLS}",
        f"{OPEN}endpoint = 'ssl:9000:privateKey=none.key:certKey=none.pem'",
        f"{OPEN}endpoint = 'tcp:9000'\nallow = ['10.0.0.0/8']",
        f"{USERS}{OPEN}endpoint = 'tcp:9000'\nauth = 'required'",
        "[web]\nendpoint = 'tcp:8080'",
        f"{USERS}[console]\nendpoint = 'tcp:2323'",
    ],
)
def test_loopback_tls_a_login_or_known_addresses_are_served(file: Path, text: str) -> None:
    file.write_text(text)
    check_exposure(configure(str(file), {}))


def test_a_console_for_other_machines_needs_users(file: Path) -> None:
    file.write_text("[console]\nendpoint = 'tcp:2323'")
    with pytest.raises(ValueError, match=r"^console: tcp:2323 is open to other machines, and there are no users"):
        check_exposure(configure(str(file), {}))


# -- what is allowed, and perhaps not meant


def test_ordinary_configurations_are_not_warned_of(file: Path) -> None:
    assert odd(f"{USERS}{OPEN}auth = 'required'", file) == []


def test_a_variable_that_is_almost_ours_is_warned_of(file: Path) -> None:
    assert odd(OPEN, file, GATEWAY_BACKND="memory", GATEWAY_PORT="tcp://10.0.0.1:9000") == [
        "GATEWAY_BACKND in the environment says nothing; did you mean GATEWAY_BACKEND?"
    ]


def test_certificates_that_name_nobody_are_warned_of(file: Path) -> None:
    tls = "tls = { certificate = 'c', key = 'k', client_ca = 'a', client = 'required' }\n"
    assert odd(f"{OPEN}{tls}", file) == [
        "listener x: certificates of clients are asked for, and no user has principals; so they name nobody"
    ]
    assert odd(f"{OPEN}{TLS}[users.ann]\nprincipals = ['a']", file) == [
        "users have principals, and no listener asks for certificates (client, client_ca)"
    ]


def test_a_port_that_nobody_knows_is_warned_of(file: Path) -> None:
    assert odd(f"node.advertise = 'broker'\n{OPEN}endpoint = 'unix:/run/x'", file) == [
        "listener x: [node] advertise needs a port that is known; give the listener its own advertise"
    ]


def test_a_key_that_everybody_can_read_is_warned_of(file: Path) -> None:
    key = file.parent / "server.key"
    text = f"{OPEN}tls = {{ certificate = 'c', key = '{key}' }}"
    assert odd(text, file) == []
    key.chmod(0o644)
    assert odd(text, file) == [f"{key} can be read by everybody on this machine; chmod 600 {key}"]


def test_summary_is_plain_enough_for_json(file: Path) -> None:
    """Of every dialect, with all its settings."""
    assert json.loads(json.dumps(summary(configure(None, {}), {})))["console"]["endpoint"].startswith("tcp:2323")
