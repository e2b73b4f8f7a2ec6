"""Kafka stops while clients of several dialects write and read: what it costs them, and what not.

One that is frozen (SIGSTOP) keeps its connections and says nothing; one that is stopped (SIGTERM) hangs up, and is
started again on what it left.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from system import processes
from system.kafka import Broker, require
from system.ledger import Ledger, stored
from system.outage import Client, CursusWriter, LineWriter, SpokenReader, SpokenWriter, running
from system.peers import TIMEOUT, Frames
from system.processes import COMMAND, GatewayProcess, until

DEADLINE = 10.0
"""Seconds of any command."""

LATE = 1.5
"""More, that it may take until the client has been told."""

RETURN_SECONDS = 2.0
"""From the return of Kafka to the first answer of each client."""

LONGEST_GAP, WORTH_TELLING = 0.25, 0.05
"""Seconds that the reactor may stand still: the second is what is promised, the rest for a machine with more to do."""

PROBE = Path(__file__).with_name("reactor_probe")

REFUSALS = {
    "cursus": ("UNAVAILABLE: ", "TIMEOUT: "),
    "pipe": ("NOT_LEADER: ", "TIMEOUT: "),
    "iggy": ("UNAVAILABLE: status ", "TIMEOUT: status "),
    "native": ("UNAVAILABLE: ", "TIMEOUT: "),
}
"""How each dialect says that something may have been done, or that there was no answer in time."""


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of librdkafka has some threads, and each of them 8 MiB of address space for its stack."""
    monkeypatch.setattr(processes, "MEMORY", 16 << 30)


def asking(gateway: GatewayProcess, ledger: Ledger) -> AbstractContextManager[Mapping[Client, str]]:
    """Clients that ask all the time, each with its dialect."""
    ports = gateway.ports
    clients: dict[Client, str] = {
        CursusWriter("a", ports["cursus"], ledger, 20): "cursus",
        CursusWriter("b", ports["cursus"], ledger, 3): "cursus",
        LineWriter("v", ports["pipe"], ledger): "pipe",
        SpokenWriter("iggy", "i", ports["iggy"], ledger): "iggy",
        SpokenReader("native", "r", ports["native"]): "native",
    }
    return running(clients)


def freeze(broker: Broker) -> Callable[[], None]:
    broker.pause()
    return broker.resume


def stop(broker: Broker) -> Callable[[], None]:
    broker.stop()
    return broker.start


@pytest.mark.parametrize("seconds", [5, pytest.param(60, marks=pytest.mark.long)])
@pytest.mark.parametrize("gone", [freeze, stop])
def test_a_kafka_that_is_gone_costs_answers_and_no_connection_and_no_record(
    tmp_path: Path, gone: Callable[[Broker], Callable[[], None]], seconds: int
) -> None:
    """Under load, with a request of each client on its way."""
    require()
    ledger, moment = Ledger(), threading.Event()
    command = (*COMMAND, "--plugins", str(PROBE))
    with Broker(tmp_path / "kafka") as broker:
        spec = f"probe:gaps.json=kafka:{broker.address}"
        with GatewayProcess(tmp_path, "cursus", "pipe", "iggy", "native", backend=spec, command=command) as gateway:
            with Frames(gateway.ports["cursus"]) as peer:
                peer.create("orders", 1, idempotent=True)
            with asking(gateway, ledger) as clients:
                ledger.wait(500)
                come_back = gone(broker)
                moment.wait(seconds)
                come_back()
                returned = time.monotonic()
                until(lambda: all(client.went_on(returned) < TIMEOUT for client in clients), TIMEOUT, "all go on")
                ledger.wait(500)
            check_answers(clients, returned, is_long=seconds > DEADLINE)
            assert ledger.complaints(stored(gateway, 1), once={client.name for client in clients}) == []
            check_gaps(tmp_path, gateway)


def check_answers(clients: Mapping[Client, str], returned: float, is_long: bool) -> None:
    """Each was answered in time, if refused then in its own dialect's words, and went on soon.

    is_long: none can have been answered but with a refusal.
    """
    for client, dialect in clients.items():
        after, count = client.went_on(returned), len(client.refusals)
        sys.stderr.write(
            f"{client.name} ({dialect}): went on after {after:.2f} s, waited {client.longest:.2f} s at most,"
            f" {count} refusals of {len(client.told)} answers\n"
        )
    for client, dialect in clients.items():
        assert client.longest < DEADLINE + LATE, client.name
        assert [each for each in client.refusals if not each.startswith(REFUSALS[dialect])] == [], client.name
        assert client.went_on(returned) <= RETURN_SECONDS, client.name
        assert client.refusals or not is_long, client.name


def check_gaps(directory: Path, gateway: GatewayProcess) -> None:
    """The gateway ends in good order, and its reactor has never stood still for long."""
    assert gateway.terminate() == 0
    seen = json.loads((directory / "gaps.json").read_text())
    longest, busiest, over = seen["longest"], seen["busiest"], len(seen["over"])
    sys.stderr.write(
        f"the reactor stood still for {longest * 1e3:.0f} ms at most, {over} times above {WORTH_TELLING * 1e3:.0f} ms"
        f" in {seen['looks']} looks, and computed for {busiest * 1e3:.0f} ms at a time\n"
    )
    assert seen["looks"] > 500, seen
    assert longest < LONGEST_GAP, seen
