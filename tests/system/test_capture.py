"""Real clients are captured and replayed: against a gateway that is new, without a difference; else with the right one.

The clients know nothing of it.  A generation, a member's name, a time or a message's id is another in every run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.capture.opening import FLUSH_SECONDS
from gateway.core import commands as q
from gateway.core.records import Record, canonical
from system.iggy_processes import LATEST, IggyClient, IggyMember
from system.members import RealConsumer
from system.peers import Frames, Lines, Row, batch
from system.processes import COMMAND, ROOT, GatewayProcess, environment, until
from system.speaking import Speaking
from system.test_real_clients import CURSUS, PARTITIONS, produce

CLIENT = CURSUS[-1]
MESSAGES = 2000
SECONDS = 120.0
"""For one replay; it takes four."""


@contextmanager
def gateway(directory: Path, *dialects: str, capture: bool = False) -> Iterator[GatewayProcess]:
    directory.mkdir()
    command = (*COMMAND, *(["--capture=captured"] if capture else []))
    with GatewayProcess(directory, *dialects, command=command) as running:
        yield running
        assert running.terminate() == 0


def call(*arguments: object) -> subprocess.CompletedProcess[str]:
    """`gateway capture` of this checkout."""
    return subprocess.run(
        [sys.executable, "-m", "gateway.cli", "capture", *map(str, arguments)],
        env=environment(ROOT),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def replay(captured: Path, running: GatewayProcess, *options: str) -> subprocess.CompletedProcess[str]:
    targets = [f"--to={dialect}=tcp:127.0.0.1:{port}" for dialect, port in running.ports.items()]
    return call("replay", captured, *targets, "--diff", *options)


def show(captured: Path, *options: str) -> list[dict[str, Any]]:
    said = call("show", captured, "--json", *options)
    assert (said.returncode, said.stderr) == (0, "")
    return [json.loads(line) for line in said.stdout.splitlines()]


# -- Cursus


def cursus_session(running: GatewayProcess) -> None:
    """10,000 records, produced and read by polling and by streaming, by groups that commit."""
    port = running.ports["cursus"]
    sent = produce(CLIENT, running, "orders", "idempotent")
    for mode in ("polling", "streaming"):
        with RealConsumer(CLIENT, f"reader-{mode}", port, f"group-{mode}", "orders", mode) as consumer:
            consumer.wait(sent)
            consumer.stop()


@pytest.fixture(scope="module")
def cursus_capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("cursus") / "source"
    with gateway(directory, "cursus", capture=True) as running:
        cursus_session(running)
    return directory / "captured"


def test_a_real_cursus_client_is_replayed_without_a_difference(tmp_path: Path, cursus_capture: Path) -> None:
    with gateway(tmp_path / "target", "cursus") as target:
        said = replay(cursus_capture, target, "--json")
        assert said.returncode == 0, said.stdout + said.stderr
        report = json.loads(said.stdout)
        with Frames(target.ports["cursus"]) as peer:
            assert sum(peer.ends("orders").values()) == 10_000
    asked = [row for row in show(cursus_capture) if row["direction"] == "in"]
    assert report["requests"] == len(asked) and report["unsent"] == report["missing"] == report["skipped"] == 0
    assert report["records"] == 10_000, "what was streamed was compared, too"
    kinds = {row["kind"] for row in asked}
    assert {"Publish", "Fetch", "Follow", "JoinGroup", "CommitOffsets", "LeaveGroup"} <= kinds


def test_a_replay_names_the_first_answer_that_differs(tmp_path: Path, cursus_capture: Path) -> None:
    """The target has a record that the source had not: the first batch to its partition comes behind it."""
    rows = show(cursus_capture)
    published = next(row for row in rows if row["kind"] == "Publish" and row["direction"] == "in")
    partition = int(published["says"][0].partition("to=")[2].partition(",")[0])
    with gateway(tmp_path / "target", "cursus") as target:
        with Frames(target.ports["cursus"]) as peer:
            peer.create("orders", PARTITIONS)
            peer.publish(batch("orders", partition, [Row(0, 0, "seed", "", 0, "one too many")]))
        said = replay(cursus_capture, target)
        report = json.loads(replay(cursus_capture, target, "--json").stdout)
    assert said.returncode == 1
    place = f"connection {published['connection']} of cursus, request {published['ticket']}, Publish orders, differs:"
    assert place in said.stdout.splitlines(), said.stdout
    assert "  Published.base: 0 was captured, 1 came now" in said.stdout.splitlines()
    assert "captured: Published(" in said.stdout and "now: Published(" in said.stdout
    answer = next(
        row
        for row in rows
        if row["direction"] == "out"
        and (row["connection"], row["ticket"]) == (published["connection"], published["ticket"])
    )
    assert report["difference"]["row"][5] == answer["frame"], "the right frame"


def test_a_target_that_is_not_there_is_status_3(tmp_path: Path, cursus_capture: Path) -> None:
    with gateway(tmp_path / "target", "cursus") as target:
        ports = dict(target.ports)
    said = call("replay", cursus_capture, f"--to=cursus=tcp:127.0.0.1:{ports['cursus']}", "--diff")
    assert said.returncode == 3 and said.stderr.startswith("gateway capture: cannot reach the cursus server")
    assert "Traceback" not in said.stderr


# -- Iggy


def iggy_session(running: GatewayProcess) -> None:
    """A client that writes and polls, is refused, and goes on in a group; its password stays its own."""
    with IggyClient(LATEST, running.ports["iggy"]) as peer:
        peer.login()
        peer.call("create_stream", "shop")
        peer.create_topic("shop", "orders", 10)  # as many as the member below looks at
        for at in range(0, MESSAGES, 500):
            peer.send("shop", "orders", 1, [[(b"%05d" % number).hex()] for number in range(at, at + 500)])
        found = 0
        while more := peer.poll("shop", "orders", 1, {"Next": []}, 333, True):
            found += len(more)
        assert found == MESSAGES
        assert len(peer.poll("shop", "orders", 1, {"Offset": [100]}, 50, False)) == 50
        assert len(peer.poll("shop", "orders", 1, {"Last": []}, 10, False)) == 10
        assert peer.call("get_topic", "shop", "nothing") is None
        peer.call("get_topic", "shop", "orders")
        with IggyClient(LATEST, running.ports["iggy"]) as other:
            other.login()
            other.call("consumer_group", "g", "shop", "orders")
            assert len(other.call("consume", 500)) >= 500
            other.call("store_offset", 499, 1)
            other.stop()
        with IggyMember(LATEST, running.ports["iggy"], "shop", "orders", "h") as member:
            member.wait(MESSAGES)
            member.stop()
        peer.stop()


def test_a_real_iggy_client_is_replayed_without_a_difference(tmp_path: Path) -> None:
    with gateway(tmp_path / "source", "iggy", capture=True) as source:
        iggy_session(source)
    captured = tmp_path / "source" / "captured"
    with gateway(tmp_path / "target", "iggy") as target:
        said = replay(captured, target, "--json")
    assert said.returncode == 0, said.stdout + said.stderr
    report = json.loads(said.stdout)
    rows = show(captured)
    asked = [row for row in rows if row["direction"] == "in"]
    assert report["requests"] == len(asked) and report["unsent"] == report["missing"] == report["skipped"] == 0
    assert {"Authenticate", "Publish", "Fetch", "JoinGroup", "CommitOffsets"} <= {row["kind"] for row in asked}
    logins = [row for row in asked if row["kind"] == "Authenticate"]
    assert logins and {row["note"] for row in logins} == {"the secret was masked"}


# -- all of them together


def mixed_session(running: GatewayProcess) -> None:
    """One topic, that every dialect writes or reads; what one does, another sees."""
    orders = q.Topic("default", "orders")
    with Lines(running.ports["pipe"]) as lines:
        for number in range(50):
            lines.produce("orders", f"k{number % 7}", f"v{number}")
    with Speaking("grid", running.ports["grid"]) as grid:
        grid.ask_all([q.MapPut(q.Topic("default", "map"), b"k%d" % at, b"v", create=1) for at in range(20)])
        grid.ask_all([q.MapGet(q.Topic("default", "map"), b"k%d" % at) for at in range(40)])
    with Speaking("mlog", running.ports["mlog"]) as mlog:
        mlog.ask(q.Fetch(q.Topic("default", "map"), 0, 0, 5))
    with Speaking("native", running.ports["native"]) as native:
        native.ask(q.Publish(orders, 0, canonical([Record(b"k", b"one"), Record(None, b"two")])))
        native.ask_all([q.Fetch(orders, at, 0) for at in range(3)] + [q.DescribeTopic(orders), q.ListTopics("default")])
        native.ask(q.DeleteTopic(orders))
        native.ask(q.Fetch(orders, 0, 0))


def test_several_dialects_are_replayed_together_in_their_order(tmp_path: Path) -> None:
    spoken = ("pipe", "grid", "mlog", "native")
    with gateway(tmp_path / "source", *spoken, capture=True) as source:
        mixed_session(source)
    captured = tmp_path / "source" / "captured"
    with gateway(tmp_path / "target", *spoken) as target:
        said = replay(captured, target)
        assert said.returncode == 0, said.stdout + said.stderr
        again = replay(captured, target)
    assert again.returncode == 1 and "differs:" in again.stdout, "there is a map now that was not there"


def test_what_a_killed_gateway_captured_up_to_its_last_second_is_there(tmp_path: Path) -> None:
    directory = tmp_path / "source"
    directory.mkdir()
    with GatewayProcess(directory, "pipe", command=(*COMMAND, "--capture=captured")) as running:
        with Lines(running.ports["pipe"]) as lines:
            lines.produce("orders", "k", "before")
            written = lambda: list((directory / "captured").glob("*"))  # noqa: E731
            until(written, 5 * FLUSH_SECONDS, "what was captured is in a file")
        running.kill()
    kinds = [(row["direction"], row["kind"]) for row in show(directory / "captured")]
    assert kinds[:3] == [("open", ""), ("in", "Publish"), ("out", "Publish")]
