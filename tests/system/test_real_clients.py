"""Clients as their projects publish them, in processes of their own, and what others then read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from system.peers import Frames, Lines, Row, batch
from system.processes import ROOT, GatewayProcess, environment
from system.proxied import MaybeProxied, through, ways

CLIENTS = Path(sys.prefix) / "clients"
"""Where `make` puts each version of each client, apart from the others (tests/clients.txt)."""

CURSUS = ("cursus-client==0.1.0", "cursus-client==0.1.1")

RECORDS = 10_000
PARTITIONS = 4
SECONDS = 60.0
"""For one run of a client; it takes two."""


def produce(client: str, gateway: GatewayProcess, topic: str, kind: str) -> int:
    """How many of its records the client says were acknowledged."""
    folder = CLIENTS / client
    assert folder.is_dir(), f"{folder} is not there: run `make .venv/tested`"
    address = f"127.0.0.1:{gateway.ports['cursus']}"
    program = Path(__file__).with_name("cursus_producer.py")
    done = subprocess.run(
        [sys.executable, "-W", "error", program, address, topic, str(PARTITIONS), str(RECORDS), kind],
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return int(done.stdout)


def fnv1a_32(octets: bytes) -> int:
    """The client's own choice of a partition, as its source has it."""
    found = 0x811C9DC5
    for octet in octets:
        found = (found ^ octet) * 0x01000193 & 0xFFFFFFFF
    return found


def check_all_there_once_and_in_order(gateway: GatewayProcess, topic: str) -> None:
    """Over both dialects, from every partition: each record in the partition of its key, each partition in order."""
    expected: dict[int, list[tuple[str, str]]] = {at: [] for at in range(PARTITIONS)}
    for number in range(RECORDS):
        key = f"key{number % 97}"
        expected[fnv1a_32(key.encode()) % PARTITIONS].append((key, f"n-{number}"))
    with Lines(gateway.ports["pipe"]) as lines, Frames(gateway.ports["cursus"]) as frames:
        assert frames.ends(topic) == {at: len(records) for at, records in expected.items()}
        for at, records in expected.items():
            assert lines.read_all(topic, at) == [value for _, value in records]
            rows = frames.read_all(topic, at)
            assert [(row.key, row.value) for row in rows] == records
            assert [row.sequence for row in rows] == list(range(1, len(rows) + 1))
            assert len({row.producer for row in rows}) == 1 and rows[0].producer.startswith("py-")


@pytest.mark.parametrize("kind", ["plain", "idempotent"])
@pytest.mark.parametrize(("client", "via"), through(CURSUS, cursus=CURSUS, native=CURSUS[-1:]))
def test_ten_thousand_records_of_a_real_producer_are_read_in_both_dialects(
    tmp_path: Path, client: str, kind: str, via: str
) -> None:
    with MaybeProxied(tmp_path, "cursus", "pipe", via=via) as gateway:
        assert produce(client, gateway, "orders", kind) == RECORDS
        check_all_there_once_and_in_order(gateway, "orders")
        gateway.kill()
        gateway.start()
        check_all_there_once_and_in_order(gateway, "orders")


@pytest.mark.parametrize("via", ways("cursus", long=["native"]))
def test_a_real_idempotent_producer_writes_to_an_idempotent_topic(tmp_path: Path, via: str) -> None:
    """Not 0.1.0: it takes the second of each record for its epoch, and a new epoch would have to begin at 1."""
    with MaybeProxied(tmp_path, "cursus", "pipe", via=via) as gateway:
        with Frames(gateway.ports["cursus"]) as frames:
            frames.create("orders", PARTITIONS, idempotent=True)
        assert produce("cursus-client==0.1.1", gateway, "orders", "idempotent") == RECORDS
        check_all_there_once_and_in_order(gateway, "orders")
        with Frames(gateway.ports["cursus"]) as frames:
            assert frames.ends("orders")[0] > 0
            again = [row._replace(value="again") for row in frames.consume("orders", 0, 0)[:3]]
            frames.publish(batch("orders", 0, again))
        check_all_there_once_and_in_order(gateway, "orders")


def test_what_v1_produced_a_cursus_reader_gets_with_keys_and_values(tmp_path: Path) -> None:
    sent = [
        *((f"key{number % 13}", f"value:{number}|{number}") for number in range(500)),
        ("", "no-key"),
        ("no-value", ""),
        ("h\u00e9llo", "w\u00f6rld,with,commas"),
        ("k" * 300, "v" * 60_000),
    ]
    with GatewayProcess(tmp_path, "cursus", "pipe") as gateway:
        with Lines(gateway.ports["pipe"]) as lines:
            places = [lines.produce("orders", key, value) for key, value in sent]
        with Frames(gateway.ports["cursus"]) as frames:
            rows = {at: frames.read_all("orders", at) for at in range(3)}
    assert [rows[at][offset] for at, offset in places] == [
        Row(offset, 0, "", key, 0, value) for (key, value), (_, offset) in zip(sent, places, strict=True)
    ]
    assert sum(map(len, rows.values())) == len(sent)
    assert [at for at, _ in places] == [fnv1a_32(key.encode()) % 3 for key, _ in sent]


def test_the_clients_of_the_list_are_there() -> None:
    listed = (ROOT / "tests" / "clients.txt").read_text().split()
    assert listed
    assert {client for client in listed if not (CLIENTS / client).is_dir()} == set()
