"""A real Kafka in a process of its own: started, waited for, killed, paused, and started again on what it left.

Apache Kafka 4.1.0, KRaft, one node, as Maven Central has it (kafka.pom.xml).  Only processes started here are ended
here, by their own handle.  `make kafka` runs one in the foreground.
"""

from __future__ import annotations

import base64
import ctypes
import hashlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

ROOT = Path(__file__).parents[2]
"""The checkout."""

POM = Path(__file__).with_name("kafka.pom.xml")

CACHE = ROOT / ".venv/kafka"
"""Where the class path is kept; what it names is in Maven's own repository."""

JAVA = 17
"""The oldest that runs this Kafka."""

FETCH_SECONDS = 600.0
"""For Maven to fetch what is not there yet."""

START_SECONDS = 60.0
"""From the start of the process until it answers; 3 to 5 s on two idle cores."""

STOP_SECONDS = 30.0
"""From SIGTERM to the end of the process."""

_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=2
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.min.session.timeout.ms=1000
group.consumer.min.heartbeat.interval.ms=500
num.network.threads=2
num.io.threads=4
log.cleaner.dedupe.buffer.size=8388608
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
controller.quorum.election.timeout.ms=200
controller.quorum.election.backoff.max.ms=100
"""
"""One that was killed may come back as soon as its old session has timed out, of 9 s by itself."""


class Broker:
    """One Kafka on free ports of loopback, for as long as the block runs.

    directory: where its data and its log are; made if absent.
    port:      0 = a free one; it is kept when it starts again.
    """

    def __init__(self, directory: Path, port: int = 0) -> None:
        self.directory = directory
        self.port = port or _free_port()
        self._controller = _free_port()
        self._id = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """`HOST:PORT`, for --backend kafka:HOST:PORT and for native clients."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Broker:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(f"Kafka logged:\n{self.log()[-5000:]}")
        self.kill()

    def start(self) -> None:
        """Start it, on what it left if it ran before, and wait until it answers."""
        self.spawn()
        self.wait_ready()

    def spawn(self) -> None:
        """Start it, and do not wait."""
        assert self._process is None, "Kafka runs already"
        path = class_path()
        configuration = self.directory / "server.properties"
        if not configuration.exists():
            self._format(path, configuration)
        self._process = self._java(path, "kafka.Kafka", str(configuration))

    def wait_ready(self) -> None:
        """Wait until it answers as itself, and coordinates groups."""
        deadline = time.monotonic() + START_SECONDS
        asking = AdminClient({"bootstrap.servers": self.address, "log_level": 0, "reconnect.backoff.max.ms": 100})
        while True:
            assert self._process is not None, "Kafka does not run"
            assert self._process.poll() is None, f"Kafka ended by itself:\n{self.log()[-5000:]}"
            assert time.monotonic() < deadline, f"Kafka does not answer:\n{self.log()[-5000:]}"
            with suppress(KafkaException):
                found = asking.list_topics(timeout=0.5)
                if found.cluster_id == self._id and found.brokers:
                    return self._coordinate(deadline - time.monotonic())

    def restart(self) -> None:
        """Stop it, and start it on the same port and data."""
        self.stop()
        self.start()

    def stop(self) -> None:
        """SIGTERM.  Fails if it has not ended in time."""
        assert self._process is not None, "Kafka does not run"
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"Kafka had not ended {STOP_SECONDS:g} s after it was told to") from None
        self._process = None

    def kill(self) -> None:
        """SIGKILL, if it runs: it says goodbye to nobody."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
            self._process = None

    def pause(self) -> None:
        """SIGSTOP: connections stay, nothing answers."""
        assert self._process is not None, "Kafka does not run"
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        assert self._process is not None, "Kafka does not run"
        self._process.send_signal(signal.SIGCONT)

    def log(self) -> str:
        """What it has logged: warnings and worse."""
        written = self.directory / "kafka.log"
        return written.read_text(errors="replace") if written.exists() else ""

    def wait(self) -> None:
        """Until it ends."""
        if self._process is not None:
            self._process.wait()

    def _format(self, path: str, configuration: Path) -> None:
        data = self.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        configuration.write_text(_PROPERTIES.format(port=self.port, controller=self._controller, data=data))
        told = ("format", f"--cluster-id={self._id}", "--config", str(configuration))  # an id may begin with a dash
        done = self._java(path, "kafka.tools.StorageTool", *told)
        assert done.wait(START_SECONDS) == 0, f"Kafka's storage cannot be made:\n{self.log()[-5000:]}"

    def _java(self, path: str, *what: str) -> subprocess.Popen[bytes]:
        log = self.directory / "kafka.log"
        with log.open("ab") as out:
            return subprocess.Popen(
                ["java", *_JVM, "-cp", path, *what],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                start_new_session=True,  # a Ctrl-C is for us, and we end it
                preexec_fn=_end_with_us,
            )

    def _coordinate(self, seconds: float) -> None:
        """Ask for a group's offsets, so that the topic of all groups' offsets is made now and not under a test."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "made-at-start", "log_level": 0})
        try:
            consumer.committed([TopicPartition("none", 0)], timeout=max(1.0, seconds))
        finally:
            consumer.close()


_LIBC = ctypes.CDLL(None)


def _end_with_us() -> None:
    """In the child: SIGKILL when the process that started it has died, however that was (prctl(2))."""
    pr_set_pdeathsig = 1
    _LIBC.prctl(pr_set_pdeathsig, signal.SIGKILL)


def class_path() -> str:
    """All jars of Kafka, fetched by Maven the first time.  Raises Missing."""
    kept = CACHE / f"classpath-{hashlib.sha256(POM.read_bytes()).hexdigest()[:16]}"
    if kept.exists() and all(Path(jar).exists() for jar in kept.read_text().split(os.pathsep)):
        return kept.read_text()
    _check_java()
    if shutil.which("mvn") is None:
        raise Missing("Maven (mvn), which fetches Kafka, is not installed")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as made:
        written = Path(made) / "classpath"
        command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:build-classpath", f"-Dmdep.outputFile={written}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
        if done.returncode != 0 or not written.exists():
            raise Missing(f"Maven cannot fetch Kafka: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        written.replace(kept)
    return kept.read_text()


class Missing(Exception):
    """What Kafka needs here, and is not there."""


def _check_java() -> None:
    if shutil.which("java") is None:
        raise Missing(f"Java {JAVA} or later is not installed")
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    found = re.search(r'version "(\d+)', said)
    if found is None or int(found[1]) < JAVA:
        raise Missing(f"Kafka needs Java {JAVA} or later, and there is {said.splitlines()[:1]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka for all tests of the run: each takes topics of its own.  Who stops one takes a Broker of his own."""
    require()
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


def require() -> None:
    """Skip where Kafka cannot run; with CI in the environment that is a failure."""
    try:
        _check_java()
        class_path()
    except Missing as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))


def main() -> None:
    """Run one until Ctrl-C, on the port that the first argument says."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="kafka-") as directory:
        try:
            with Broker(Path(directory), port) as broker:
                _say(f"kafka {broker.address}", f"try: .venv/bin/gateway run --backend kafka:{broker.address}")
                broker.wait()
        except KeyboardInterrupt:
            _say("kafka stopped, its data are removed")
        except Missing as missing:
            sys.exit(f"kafka: {missing}")


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
