"""Restarts while clients are at it: nothing acknowledged is lost; with sockets that outlive it, nobody is refused."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import wire
from gateway.core import commands as q
from system.holding import Service, listening
from system.ledger import stored
from system.ledger_spoken import DIALECTS, CountingLedger, of_many_dialects
from system.peers import line
from system.processes import GatewayProcess

# -- SIGTERM under load


@pytest.mark.parametrize("restarts", [5, pytest.param(50, marks=pytest.mark.long)])
def test_restarts_under_load_from_five_dialects_lose_nothing_and_end_in_time(tmp_path: Path, restarts: int) -> None:
    """That each ends with 0, and within 10 s, `terminate` sees to."""
    chance, ledger, moment = random.Random(restarts), CountingLedger(), threading.Event()
    with GatewayProcess(tmp_path, *DIALECTS) as gateway:
        running = of_many_dialects(ledger, gateway)
        for producer in running:
            producer.start()
        names = [producer.name for producer in running]
        for _ in range(restarts):
            ledger.wait_each(names, chance.randint(1, 30))
            moment.wait(chance.uniform(0, 0.03))
            assert gateway.terminate() == 0
            gateway.start()
        ledger.wait_each(names, 30)
        for producer in running:
            producer.finish()
        assert ledger.complaints(stored(gateway), once=set("abcd")) == []


# -- sockets that are held

CONFIGURATION = """
backend.spec = "memory"

[listener.text]
dialect = "pipe"
endpoint = "systemd:domain=INET:name=9092"

[listener.frames]
dialect = "cursus"
endpoint = "systemd:domain=INET:name=9000"

[listener.local]
dialect = "native"
endpoint = "systemd:domain=UNIX:name=native"
"""


class Dialer(threading.Thread):
    """Connects, asks one thing, hears the answer and hangs up, again and again.

    refused: connections that there were not.  answered: requests.  cut: those that a stopping gateway had not begun.
    """

    def __init__(self, family: socket.AddressFamily, address: object, request: bytes) -> None:
        super().__init__(daemon=True)
        self.refused: list[OSError] = []
        self.answered = self.cut = 0
        self._place = family, address
        self._request = request
        self._over = threading.Event()

    def run(self) -> None:
        """See Thread."""
        family, address = self._place
        while not self._over.is_set():
            with socket.socket(family, socket.SOCK_STREAM) as peer:
                peer.settimeout(30.0)
                try:
                    peer.connect(address)
                except OSError as error:
                    self.refused.append(error)
                    continue
                self._ask(peer)

    def stop(self) -> None:
        """Fails if it still waits for something."""
        self._over.set()
        self.join(60.0)
        assert not self.is_alive(), "a connection was neither answered nor ended"

    def _ask(self, peer: socket.socket) -> None:
        try:
            peer.sendall(self._request)
            heard = peer.recv(65_536)
        except ConnectionError:
            heard = b""
        self.answered += bool(heard)
        self.cut += not heard


@pytest.mark.parametrize("restarts", [5, pytest.param(20, marks=pytest.mark.long)])
def test_restarts_with_held_sockets_refuse_no_connection(tmp_path: Path, restarts: int) -> None:
    chance, moment = random.Random(restarts), threading.Event()
    (tmp_path / "gateway.toml").write_text(CONFIGURATION)
    path = str(tmp_path / "native.sock")
    with (
        listening() as text,
        listening() as frames,
        listening(socket.AF_UNIX, path) as native,
        Service(tmp_path, {"9092": text, "9000": frames, "native": native}) as service,
    ):
        dialers = [
            *(
                Dialer(socket.AF_INET, text.getsockname(), wire.request("pipe", line("orders", "k", "v")))
                for _ in range(3)
            ),
            *(
                Dialer(socket.AF_INET, frames.getsockname(), wire.request("cursus", q.ListTopics("default")))
                for _ in range(3)
            ),
            *(Dialer(socket.AF_UNIX, path, wire.request("native", q.Ping(), 1)) for _ in range(3)),
        ]
        for dialer in dialers:
            dialer.start()  # before there is a gateway: they wait in the queue of the socket
        for _ in range(restarts):
            service.start()
            reached(service, dialers, 50)
            moment.wait(chance.uniform(0, 0.05))
            assert service.stop() == 0
        service.start()
        reached(service, dialers, 50)
        for dialer in dialers:
            dialer.stop()
        assert service.stop() == 0
    assert [error for dialer in dialers for error in dialer.refused] == []
    assert all(dialer.cut <= restarts for dialer in dialers), "none but those that the end itself met"


def reached(service: Service, dialers: list[Dialer], more: int) -> None:
    """So many more answers to each."""
    wanted = [dialer.answered + more for dialer in dialers]
    done: Callable[[], bool] = lambda: all(  # noqa: E731
        dialer.answered >= count for dialer, count in zip(dialers, wanted, strict=True)
    )
    service.wait(done, "answers to all")
