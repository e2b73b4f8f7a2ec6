"""Iggy's clients as their project publishes them, each in a process of its own, and the gateway that they talk to."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

from gateway.core import commands as q
from gateway.core.replies import GroupDescription
from system.members import CLIENTS
from system.peers import TIMEOUT, Frames, Lines, topic
from system.processes import GatewayProcess, environment
from system.proxied import MaybeProxied

APACHE = tuple(f"apache-iggy==0.{version}.0" for version in (5, 6, 7, 8))
LATEST = APACHE[-1]
OLDEST = "iggy-py==0.2.2"
CLIENTS_OF_IGGY = (*APACHE, OLDEST, "iggy-py==0.2.6", "iggy-py==0.4.0")

PORT = 8090
"""Iggy's own; the oldest client knows no other."""

COUNTS_FROM_0 = APACHE[1:]
"""They number partitions from 0, all others from 1."""

TAKES_OCTETS = APACHE[1:]
"""They send octets, all others text only."""


class Refused(Exception):
    """What a client raised: the name of the exception and its text."""


class _Program:
    """One of our programs in a process, with a client on its path.  Leaving the block kills it."""

    def __init__(self, program: str, client: str, *arguments: str) -> None:
        folder = CLIENTS / client
        assert folder.is_dir(), f"{folder} is not there: run `make .venv/tested`"
        self.client = client
        self._said: list[str] = []
        self._heard = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", Path(__file__).with_name(program), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(folder),
            text=True,
        )
        self._complaints: list[str] = []
        assert self._process.stdout is not None and self._process.stderr is not None
        self._readers = [
            self._drain(self._process.stdout, self._hear),
            self._drain(self._process.stderr, self._complaints.append),
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._end()
        if error is not None:
            error.add_note(f"{self.client} said on standard error:\n{''.join(self._complaints)[-5000:]}")

    def stop(self) -> None:
        """Have it end in good order; fails if it had anything to complain of."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        status = self._process.wait(TIMEOUT)
        self._end()
        assert (status, self._complaints) == (0, [])

    def kill(self) -> None:
        """SIGKILL.  Fails if it had ended by itself."""
        self._process.kill()
        assert self._process.wait(TIMEOUT) == -signal.SIGKILL
        self._end()

    def _end(self) -> None:
        assert self._process.stdin is not None
        self._process.wait(TIMEOUT)
        for reader in self._readers:
            reader.join(TIMEOUT)
        self._process.stdin.close()

    def _hear(self, line: str) -> None:
        with self._heard:
            self._said.append(line)
            self._heard.notify_all()

    def _wait(self, count: int) -> str:
        """The line of that number, counted from 1."""
        with self._heard:
            there = self._heard.wait_for(lambda: len(self._said) >= count or self._process.poll() is not None, TIMEOUT)
            assert there and len(self._said) >= count, f"{self.client} said {len(self._said)} lines, not {count}"
            return self._said[count - 1]

    def _drain(self, stream: IO[str], take: Callable[[str], None]) -> threading.Thread:
        def read() -> None:
            with stream:
                for line in stream:
                    if line.endswith("\n"):  # else it was killed in the middle of it
                        take(line)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread


class IggyClient(_Program):
    """A client that is told what to call, see iggy_client.py.

    port: None = the version dials Iggy's own port and no other.  Partitions are numbered from 0 here.
    """

    def __init__(self, client: str, port: int) -> None:
        super().__init__("iggy_client.py", client, *([] if client == OLDEST else [f"127.0.0.1:{port}"]))
        self._asked = 0
        self._first = 0 if client in COUNTS_FROM_0 else 1

    def call(self, method: str, *arguments: object) -> Any:
        """The result; raises Refused where the client raised."""
        self.ask(method, *arguments)
        return self.answer()

    def ask(self, method: str, *arguments: object) -> None:
        """Have it called, and do not wait."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([method, *arguments]) + "\n")
        self._process.stdin.flush()
        self._asked += 1

    def answer(self) -> Any:
        """The result of what was asked last."""
        word, *answer = json.loads(self._wait(self._asked))
        if word == "error":
            raise Refused(": ".join(answer))
        return answer[0]

    def login(self, password: str = "iggy") -> Self:
        """Connect as the user that its users try first."""
        self.call("connect")
        self.call("login_user", "iggy", password)
        return self

    def create_topic(self, stream: str, topic: str, partitions: int) -> None:
        """The oldest one wants to know how it is compressed."""
        self.call("create_topic", stream, topic, partitions, *(["none"] if self.client == OLDEST else []))

    def send(self, stream: str, topic: str, partition: int, payloads: list[str] | list[list[str]]) -> None:
        """One batch; a payload is a text, or a list of its octets in hex."""
        self.call("send_messages", stream, topic, partition + self._first, payloads)

    def poll(
        self, stream: str, topic: str, partition: int, strategy: dict[str, list[int]], count: int, commit: bool
    ) -> list[dict[str, Any]]:
        """The messages of one poll.  The oldest one has no strategy but Next."""
        place = [stream, topic, partition + self._first]
        assert self.client != OLDEST or strategy == {"Next": []}
        found = self.call("poll_messages", *place, *([strategy] if self.client != OLDEST else []), count, commit)
        assert isinstance(found, list)
        return found

    def place(self, partition: int) -> int:
        """How it numbers that partition."""
        return partition + self._first


class Shown(NamedTuple):
    """A message as a member showed it."""

    offset: int
    payload: str


class IggyMember(_Program):
    """A member of a consumer group, see iggy_member.py."""

    def __init__(self, client: str, port: int, stream: str, topic: str, group: str) -> None:
        super().__init__("iggy_member.py", client, f"127.0.0.1:{port}", stream, topic, group)

    @property
    def shown(self) -> list[Shown]:
        """The messages so far."""
        with self._heard:
            return [Shown(*json.loads(line)) for line in self._said]

    @property
    def count(self) -> int:
        """Of the messages so far."""
        with self._heard:
            return len(self._said)

    def wait(self, count: int) -> None:
        """Until it has shown so many messages."""
        self._wait(count)


class IggyGateway(MaybeProxied):
    """A gateway that speaks Iggy, and other dialects besides.

    client: who is to connect; for the oldest one it listens on Iggy's own port.
    """

    def __init__(
        self, directory: Path, client: str, *dialects: str, backend: str = "sqlite:records", via: str = ""
    ) -> None:
        super().__init__(directory, "iggy", *dialects, backend=backend, via=via)
        if client == OLDEST:
            check_free(PORT)
            self._listen["iggy"] = PORT

    def client(self, client: str) -> IggyClient:
        """One that is not connected yet."""
        return IggyClient(client, self.ports["iggy"])


def check_free(port: int) -> None:
    """Fails with a sentence if something listens there already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise AssertionError(f"{OLDEST} dials 127.0.0.1:{port} only, and that is taken: {error}") from None


# -- what other dialects see of it


class Status(NamedTuple):
    """A group as Cursus describes it.  owned: the partitions of each member."""

    generation: int
    owned: list[list[int]]


def status(gateway: GatewayProcess, group: str) -> Status:
    """Of a group in the namespace `default`; nothing if it is not there."""
    with Frames(gateway.ports["cursus"]) as peer:
        found = peer.ask(q.DescribeGroup(topic(""), group))
    if not isinstance(found, GroupDescription):
        return Status(0, [])
    return Status(found.generation, [list(each.assignment) for each in found.members])


def ends(gateway: GatewayProcess, name: str) -> dict[int, int]:
    """Partition -> the offset that is written next."""
    with Frames(gateway.ports["cursus"]) as peer:
        return peer.ends(name)


def committed(gateway: GatewayProcess, group: str, name: str) -> dict[int, int]:
    """Partition -> the next offset to read."""
    asked = ends(gateway, name)
    with Lines(gateway.ports["pipe"]) as lines:
        return {at: lines.committed(group, name, at) for at in asked}
