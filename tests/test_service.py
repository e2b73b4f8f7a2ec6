"""gateway.service: what can be asked for, and a process from its start to its end, by `gateway run` and by `twistd`."""

from __future__ import annotations

import os
import queue
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import IO, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from twisted.internet.testing import MemoryReactorClock
from twisted.python.usage import UsageError

import gateway.backends
import wire
from gateway import dialects
from gateway.configuration import Configuration, parse_listen, user_section
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import registry
from gateway.core.replies import Authenticated, CommittedOffsets, Outcome, Published, Records, SessionDescription
from gateway.dialects import ClientSession, Request
from gateway.net.users import new_password
from gateway.service import ENDPOINTS, GatewayService, Options, add_plugins, find_maker, take_signals
from net.peers import ORDERS, produce

ROOT = Path(__file__).parent.parent
START_SECONDS = 30.0
QUICKLY = 8.0
"""Seconds; less than stopping waits for clients."""

RUN = ("-m", "gateway.cli", "run")
TWISTD = ("-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile=", "gateway")
LOOPBACK = "pipe=tcp:0:interface=127.0.0.1"
PRODUCE = produce(b"k", b"v")
COMMITTED, NOTHING = q.FetchOffsets(ORDERS, q.Group("g"), (0,)), CommittedOffsets({})
BACKENDS = "kafka:HOST:PORT,..., memory, remote:DIALECT=ENDPOINT, routes:PATTERN=SPEC;..., sqlite:DIRECTORY"


# -- options


def parsed(*arguments: str) -> Configuration:
    options = Options()
    options.parseOptions(list(arguments))
    return options.configuration


def complaint(*arguments: str) -> str:
    with pytest.raises(UsageError) as caught:
        parsed(*arguments)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


@pytest.fixture
def no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found with `--plugins` is forgotten after the test."""
    monkeypatch.setattr(gateway.backends, "__path__", list(gateway.backends.__path__))
    monkeypatch.setattr(dialects, "__path__", list(dialects.__path__))


def test_without_options_all_dialects_listen_and_records_are_kept_on_disk() -> None:
    told = parsed()
    assert [plan.name for plan in told.listeners] == dialects.names()
    assert told.backend == "sqlite:./gateway-data"


def test_the_command_line_goes_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text("backend.spec = 'sqlite:there'\n[listener.x]\ndialect = 'native'\n")
    assert [plan.name for plan in parsed("--config", str(file)).listeners] == ["x"]
    assert parsed("--config", str(file)).backend == "sqlite:there"
    both = parsed("--config", str(file), "--listen", LOOPBACK, "--backend", "memory")
    assert ([plan.name for plan in both.listeners], both.backend) == (["pipe"], "memory")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--backend", "mongo:x"), f"there is no backend 'mongo'; there are {BACKENDS}"),
        (("--backend", ""), f"there is no backend ''; there are {BACKENDS}"),
        (("--listen", "smtp=tcp:25"), f"there is no dialect 'smtp'; there are {', '.join(dialects.names())}"),
        (("--listen", "tcp:25"), "--listen wants DIALECT=ENDPOINT, such as cursus=tcp:9000, not 'tcp:25'"),
        (("--config", "/nowhere.toml"), "/nowhere.toml: No such file or directory"),
        (("--plugins", "/nowhere"), "/nowhere has none of the folders backends, dialects, compression"),
        (("--nonsense",), "option --nonsense not recognized"),
        (("nonsense",), "Wrong number of arguments."),
    ],
)
def test_what_cannot_be_asked_for_is_refused_in_a_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    assert complaint(*arguments) == sentence


def test_a_backend_is_told_by_name_and_argument() -> None:
    maker, argument = find_maker("sqlite:/var/lib/a:b")
    assert (maker.name, argument) == ("sqlite", "/var/lib/a:b")


# -- ports, without opening one


@pytest.mark.parametrize("endpoint", ["", "9092", "tcp", "tcp:http", "tcp:0:intreface=x", "carrier:pigeon"])
def test_an_endpoint_that_is_none_ends_the_start_with_a_sentence(
    endpoint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    service = GatewayService(Configuration(parse_listen([f"pipe={endpoint}"]), "memory"), MemoryReactorClock())
    with pytest.raises(SystemExit) as caught:
        service.privilegedStartService()
    assert caught.value.code == 2
    expected = f"gateway: cannot listen for pipe on {endpoint}: that is no endpoint such as {ENDPOINTS}\n"
    assert capfd.readouterr().err == expected


def test_the_first_signal_stops_and_any_other_hurries_however_quickly_it_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Running:
        """A reactor that does what signals ask for when it comes to it."""

        def __init__(self) -> None:
            self.calls: list[Any] = []

        def __conform__(self, interface: object) -> Running:
            return self

        def callFromThread(self, call: Any) -> None:
            self.calls.append(call)

        def stop(self) -> None:
            done.append("stop")

        def addSystemEventTrigger(self, phase: str, event: str, call: Any) -> None:
            ended.append(call)

    class Service:
        def hurry(self) -> None:
            done.append("hurry")

    done: list[str] = []
    ended: list[Any] = []
    caught: dict[int, Any] = {}
    monkeypatch.setattr(signal, "signal", caught.__setitem__)
    running: Any = Running()
    service: Any = Service()
    take_signals(running, service)
    frame: FrameType | None = None
    caught[signal.SIGTERM](signal.SIGTERM, frame)
    caught[signal.SIGINT](signal.SIGINT, frame)
    assert done == []
    for call in running.calls:
        call()
    assert done == ["stop", "hurry"]
    for call in ended:
        call()
    assert set(caught.values()) == {signal.SIG_IGN}, "to the end"


# -- a process


class Child:
    """A gateway in a process of its own; what it says is read as it comes."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.stopped = False
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=directory,
            env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.complaints: list[str] = []
        assert self._process.stdout is not None and self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=(self._process.stdout, self._lines.put), daemon=True),
            threading.Thread(target=self._read, args=(self._process.stderr, self._complain), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def lines(self) -> list[str]:
        """What it says up to `ready`."""
        said: list[str] = []
        deadline = time.monotonic() + START_SECONDS
        while "ready" not in said:
            line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            assert line is not None, f"it ended: {self.complaints}"
            said.append(line)
        return said

    def rest(self) -> list[str]:
        """What it said before it ended."""
        return [line for line in iter(lambda: self._lines.get(timeout=START_SECONDS), None)]

    def ports(self) -> list[int]:
        """Of its listeners, once it is ready."""
        return [int(line.rpartition(":")[2]) for line in self.lines() if line.startswith("listening ")]

    def signal(self, *signals: signal.Signals) -> None:
        for number in signals:
            self._process.send_signal(number)

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def end(self, seconds: float = START_SECONDS) -> int:
        """Its exit status."""
        status = self._process.wait(seconds)
        for reader in self._readers:
            reader.join(START_SECONDS)
        return status

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.end()

    def _complain(self, line: str | None) -> None:
        if line is not None:
            self.complaints.append(line)

    @staticmethod
    def _read(stream: IO[str], take: Any) -> None:
        with stream:
            for line in stream:
                take(line.rstrip("\n"))
        take(None)


@contextmanager
def child(directory: Path, *arguments: str) -> Iterator[Child]:
    started = Child(directory, *arguments)
    try:
        yield started
    finally:
        started.close()


def told(port: int, *commands: q.Command, dialect: str = "pipe", secure: ssl.SSLContext | None = None) -> list[Outcome]:
    """What a client is answered that asks all of these at once."""
    spoken = dialects.load(dialect)
    session = ClientSession(spoken, spoken.terms(spoken.settings(), registry([])))
    for tag, command in enumerate(commands, 1):
        session.ask(Request(command, tag))
    outcomes: dict[Any, Any] = {}
    with socket.create_connection(("127.0.0.1", port), START_SECONDS) as plain:
        stream = plain if secure is None else secure.wrap_socket(plain, server_hostname="localhost")
        with stream:
            stream.sendall(session.take())
            while len(outcomes) < len(commands):
                octets = stream.recv(65_536)
                if not octets:
                    raise EOFError
                outcomes |= {request.tag: outcome for request, outcome in session.receive(octets)}
    return [outcomes[tag] for tag in range(1, len(commands) + 1)]


def sentences(complaints: list[str]) -> list[str]:
    """What was said on standard error besides the log."""
    return [line for line in complaints if not line.startswith("{")]


@pytest.mark.parametrize("command", [RUN, TWISTD], ids=["run", "twistd"])
def test_a_gateway_says_what_listens_where_serves_and_ends_well_at_a_signal(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with child(tmp_path, *command, "--listen", LOOPBACK, "--listen", "pipe=tcp:0:interface=127.0.0.1") as started:
            said = started.lines()
            ours = [line for line in said if not line[:4].isdigit()]
            assert ours[0] == "storing in sqlite:./gateway-data, durability fsync"
            assert [line.rpartition(":")[0] for line in ours[1:3]] == ["listening pipe 127.0.0.1"] * 2
            assert ours[3:] == ["ready"]
            ports = [int(line.rpartition(":")[2]) for line in ours[1:3]]
            assert isinstance(told(ports[0], PRODUCE)[0], Published)
            assert told(ports[1], COMMITTED) == [NOTHING]
            started.signal(number)
            assert started.end() == 0
            assert "Traceback" not in "".join(started.complaints)
    assert (tmp_path / "gateway-data/gateway.sqlite3").exists()


def test_what_was_stored_before_a_signal_is_there_after_a_start(tmp_path: Path) -> None:
    answers = []
    for _ in range(2):
        with child(tmp_path, *RUN, "--listen", LOOPBACK) as started:
            (port,) = started.ports()
            answers += told(port, PRODUCE)
            started.signal(signal.SIGTERM)
            assert started.end() == 0
    assert [answer.base for answer in answers if isinstance(answer, Published)] == [0, 1]


@pytest.mark.parametrize("command", [RUN, TWISTD], ids=["run", "twistd"])
def test_two_signals_at_once_end_a_gateway_whose_client_does_not_read(tmp_path: Path, command: tuple[str, ...]) -> None:
    with child(tmp_path, *command, "--listen", LOOPBACK, "--backend", "memory") as started:
        (port,) = started.ports()
        told(port, produce(b"k", b"x" * 60_000))
        with socket.create_connection(("127.0.0.1", port), START_SECONDS) as client:
            for partition in range(3):
                client.sendall(wire.request("pipe", q.Fetch(ORDERS, partition, 0), 1) * 1000)
            client.recv(1)
            before = time.monotonic()
            started.signal(signal.SIGTERM, signal.SIGINT)
            assert started.end() == 0
            assert time.monotonic() - before < QUICKLY
        assert "Traceback" not in "".join(started.complaints)


@pytest.mark.parametrize("command", [RUN, TWISTD], ids=["run", "twistd"])
def test_signals_that_come_again_and_again_to_the_very_end_do_not_change_its_status(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    with child(tmp_path, *command, "--listen", LOOPBACK, "--backend", "memory") as started:
        started.ports()
        while started.running:
            started.signal(signal.SIGTERM, signal.SIGHUP)
            time.sleep(0.0005)
        assert started.end() == 0
        assert "Traceback" not in "".join(started.complaints)


@pytest.mark.parametrize("command", [RUN, TWISTD], ids=["run", "twistd"])
def test_a_port_in_use_ends_the_start_with_a_sentence(tmp_path: Path, command: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"tcp:{taken.getsockname()[1]}:interface=127.0.0.1"
        with child(tmp_path, *command, "--listen", f"pipe={endpoint}", "--backend", "memory") as started:
            assert started.end() == 2
            (sentence,) = sentences(started.complaints)
    assert sentence.startswith(f"gateway: cannot listen for pipe on {endpoint}: ")
    assert "in use" in sentence


def test_a_directory_in_use_ends_the_start_with_a_sentence(tmp_path: Path) -> None:
    with child(tmp_path, *RUN, "--listen", LOOPBACK) as first:
        first.lines()
        with child(tmp_path, *RUN, "--listen", LOOPBACK) as second:
            assert second.end() == 2
            assert sentences(second.complaints) == [
                "gateway: gateway-data is in use by another gateway; stop it or name another directory"
            ]


@pytest.mark.parametrize("command", [RUN, TWISTD], ids=["run", "twistd"])
def test_options_that_cannot_be_end_the_start_with_a_sentence(tmp_path: Path, command: tuple[str, ...]) -> None:
    """The exit status is ours to say with `gateway run` only: twistd's is 1."""
    with child(tmp_path, *command, "--backend", "mongo") as started:
        status = started.end()
        said = [*started.rest(), *started.complaints]
    assert said[-1].endswith(f": there is no backend 'mongo'; there are {BACKENDS}")
    assert "Traceback" not in "".join(said)
    assert status == (2 if command is RUN else 1)


# -- users

SECRET = "correct horse"
GUARDED = f"""
    backend.spec = "memory"
    {user_section("ann", new_password(SECRET, log_n=4), [])}
    [listener.front]
    dialect = "native"
    endpoint = "tcp:0:interface=127.0.0.1"
    auth = "required"
    """


@pytest.mark.parametrize("command", [RUN, TWISTD], ids=["run", "twistd"])
def test_users_of_the_file_alone_get_in_where_a_login_is_required(tmp_path: Path, command: tuple[str, ...]) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(GUARDED)
    with child(tmp_path, *command, "--config", str(file)) as started:
        lines = started.lines()
        (port,) = [int(line.rpartition(":")[2]) for line in lines if line.startswith("listening ")]
        right, mine = told(port, q.Authenticate("plain", "ann", SECRET), q.DescribeSession(), dialect="native")
        assert right == Authenticated("ann", 1)
        assert isinstance(mine, SessionDescription)
        assert (mine.listener, mine.principal) == ("front", "ann")
        wrong, shut = told(port, q.Authenticate("plain", "ann", f"{SECRET}!"), q.DescribeSession(), dialect="native")
        assert isinstance(wrong, CommandFailed) and wrong.fault is Fault.BAD_CREDENTIALS
        assert isinstance(shut, CommandFailed) and shut.fault is Fault.UNAUTHENTICATED
        started.signal(signal.SIGTERM)
        assert started.end() == 0
    said = "\n".join([*lines, *started.rest(), *started.complaints])
    assert said.count(" on front: refused, it has not logged in") == 1
    assert "horse" not in said and "Traceback" not in said


DEVELOPED = """
import msgspec

from gateway.dialects import load

DIALECT = msgspec.structs.replace(load("native"), name="toy", port=1, development=("me", "mine"))
"""
LOG_IN = "toy: log in as me / mine, from this machine only; name users in [users.NAME] for others"


@pytest.mark.parametrize(
    ("users", "auth", "said"),
    [("", "optional", True), ("", "required", True), ("", "none", False), (GUARDED, "optional", False)],
)
def test_who_may_log_in_while_nobody_was_named_is_said_at_the_start(
    tmp_path: Path, users: str, auth: str, said: bool
) -> None:
    dialect = tmp_path / "plugins/dialects/toy/__init__.py"
    dialect.parent.mkdir(parents=True)
    dialect.write_text(DEVELOPED)
    listener = "dialect = 'toy'\nendpoint = 'tcp:0:interface=127.0.0.1'\n"
    file = tmp_path / "gateway.toml"
    file.write_text(f"{users}\n[listener.one]\n{listener}auth = '{auth}'\n[listener.two]\n{listener}auth = '{auth}'\n")
    arguments = ("--config", str(file), "--plugins", str(tmp_path / "plugins"), "--backend", "memory")
    with child(tmp_path, *RUN, *arguments) as started:
        lines = started.lines()
        assert lines.count(LOG_IN) == int(said)
        assert lines[-1] == "ready"
        port = next(int(line.rpartition(":")[2]) for line in lines if line.startswith("listening toy"))
        (outcome,) = told(port, q.Authenticate("plain", "me", "mine"), dialect="native")
        assert outcome == Authenticated("me", 1) or (users and isinstance(outcome, CommandFailed))


# -- TLS


def certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate for localhost that signed itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = directory / "server.pem", directory / "server.key"
    paths[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


def tls_configuration(directory: Path, certificate: Path, key: Path, plaintext: str = "false") -> Path:
    file = directory / "gateway.toml"
    file.write_text(
        f"""
        backend.spec = "memory"
        [listener.secure]
        dialect = "pipe"
        endpoint = "tcp:0:interface=127.0.0.1"
        tls = {{ certificate = "{certificate}", key = "{key}", plaintext = {plaintext} }}
        """
    )
    return file


def test_a_listener_with_tls_serves_who_speaks_it_and_nobody_else(tmp_path: Path) -> None:
    signed, key = certificate(tmp_path)
    with child(tmp_path, *RUN, "--config", str(tls_configuration(tmp_path, signed, key))) as started:
        (port,) = started.ports()
        secure = ssl.create_default_context(cafile=str(signed))
        answers = told(port, PRODUCE, *[COMMITTED] * 3000, secure=secure)
        assert isinstance(answers[0], Published)
        assert answers[1:] == [NOTHING] * 3000
        with pytest.raises((EOFError, ConnectionResetError)):
            told(port, COMMITTED)
        old = ssl.create_default_context(cafile=str(signed))
        with pytest.deprecated_call():
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(ssl.SSLError):
            told(port, COMMITTED, secure=old)
        started.signal(signal.SIGTERM)
        assert started.end() == 0
        assert "Traceback" not in "".join(started.complaints)


def test_a_port_serves_both_tls_and_plaintext_when_told_to(tmp_path: Path) -> None:
    signed, key = certificate(tmp_path)
    with child(tmp_path, *RUN, "--config", str(tls_configuration(tmp_path, signed, key, "true"))) as started:
        (port,) = started.ports()
        secure = ssl.create_default_context(cafile=str(signed))
        assert told(port, PRODUCE, secure=secure) == [Published(0, 0, 0)]
        (records,) = told(port, q.Fetch(ORDERS, 0, 0))
        assert isinstance(records, Records) and records.end == 1
        started.signal(signal.SIGTERM)
        assert started.end() == 0
        assert "Traceback" not in "".join(started.complaints)


def test_a_certificate_that_is_not_there_ends_the_start_with_a_sentence(tmp_path: Path) -> None:
    file = tls_configuration(tmp_path, tmp_path / "none.pem", tmp_path / "none.key")
    with child(tmp_path, *RUN, "--config", str(file)) as started:
        assert started.end() == 2
        (sentence,) = sentences(started.complaints)
    assert sentence.startswith("gateway: cannot listen for secure on tcp:0:interface=127.0.0.1: ")
    assert sentence.endswith("none.pem: No such file or directory")


# -- plugins

TINY = """
from twisted.plugin import IPlugin
from zope.interface import implementer

from gateway.backends.interface import IBackendMaker
from gateway.backends.memory import MemoryBackend


class Tiny(MemoryBackend):
    durability = "os"


@implementer(IPlugin, IBackendMaker)
class Maker:
    name = "tiny"
    usage = "tiny:SIZE"

    def make(self, argument, encodings, reactor):
        if not argument.isdigit():
            raise ValueError(f"tiny wants a size, not {argument!r}")
        return Tiny(reactor)


maker = Maker()
"""

TOY = """
import msgspec

from gateway.dialects import load

DIALECT = msgspec.structs.replace(load("pipe"), name="toy", port=1)
"""


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    for name, text in {"backends/tiny.py": TINY, "dialects/toy/__init__.py": TOY}.items():
        path = tmp_path / "plugins" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return tmp_path / "plugins"


def test_backends_and_dialects_of_a_directory_are_served_like_ours(tmp_path: Path, plugins: Path) -> None:
    arguments = ("--plugins", str(plugins), "--backend", "tiny:3", "--listen", "toy=tcp:0:interface=127.0.0.1")
    with child(tmp_path, *RUN, *arguments) as started:
        said = started.lines()
        assert said[0] == "storing in tiny:3, durability os"
        assert said[1].startswith("listening toy 127.0.0.1:")
        (answer,) = told(int(said[1].rpartition(":")[2]), PRODUCE)
        assert isinstance(answer, Published)


def test_what_a_plugin_refuses_ends_the_start_with_its_sentence(tmp_path: Path, plugins: Path) -> None:
    arguments = ("--plugins", str(plugins), "--backend", "tiny:big", "--listen", LOOPBACK)
    with child(tmp_path, *RUN, *arguments) as started:
        assert started.end() == 2
        assert sentences(started.complaints) == ["gateway: tiny wants a size, not 'big'"]


def test_plugins_are_among_the_choices(plugins: Path, no_plugins: None) -> None:
    add_plugins(plugins)
    add_plugins(plugins)
    assert dialects.names().count("toy") == 1
    assert complaint("--backend", "mongo") == f"there is no backend 'mongo'; there are {BACKENDS}, tiny:SIZE"


def test_deadlines_run_on_a_clock_that_does_not_jump_with_the_wall() -> None:
    code = (
        "import time; from twisted.internet import reactor; from gateway.service import Options, makeService;"
        "o = Options({}); o.parseOptions(['--backend', 'memory', '--listen', 'pipe=tcp:0:interface=127.0.0.1']);"
        "makeService(o); print(abs(reactor.seconds() - time.monotonic()) < 1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "True"
