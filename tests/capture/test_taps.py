"""What crosses connections of every dialect, as rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.logger import globalLogPublisher

from capture.recording import Recorded, at_once, unpacked
from gateway import dialects
from gateway.capture.opening import open_capture
from gateway.capture.plan import CapturePlan
from gateway.capture.rings import QUIET_SECONDS
from gateway.capture.rows import Capture, Row, captures
from gateway.core import commands as q
from gateway.core.replies import MapValue
from net.peers import Client

ORDERS = q.Topic("default", "orders")

ASKED: dict[str, list[q.Command]] = {
    "cursus": [q.CreateTopic(ORDERS, 2, if_exists=q.IfExists.GROW), q.DescribeTopic(ORDERS)],
    "pipe": [q.CreateTopic(ORDERS, 2, if_exists=q.IfExists.KEEP), q.FetchOffsets(ORDERS, q.Group("g"), (0,))],
    "grid": [q.MapPut(ORDERS, b"k", b"v", create=1), q.MapGet(ORDERS, b"k")],
    "mlog": [q.CreateTopic(ORDERS, 1), q.Fetch(ORDERS, 0, 0)],
    "native": [q.CreateTopic(ORDERS, 1), q.DescribeTopic(ORDERS)],
}


def talk(row: Row) -> tuple[str, str, str]:
    return row.direction, row.kind, row.outcome


@pytest.mark.parametrize("dialect", ASKED)
def test_a_request_and_its_answer_are_rows_with_one_ticket(tmp_path: Path, dialect: str) -> None:
    node = Recorded(tmp_path, dialect)
    client = Client(node)
    outcomes = [client.ask(command) for command in ASKED[dialect]]
    client.peer.lose()
    opened, *rows, closed = node.rows()
    assert (opened.direction, closed.direction) == ("open", "close")
    kinds = [type(command).__name__ for command in ASKED[dialect]]
    assert [talk(row)[0] for row in rows] == ["in", "out"] * len(kinds)
    assert [row.kind for row in rows[::2]] == [row.kind for row in rows[1::2]]
    assert [row.ticket for row in rows] == [ticket for ticket in range(len(kinds)) for _ in range(2)]
    assert {(row.dialect, row.listener, row.connection) for row in rows} == {(dialect, "test", opened.connection)}
    assert {row.place for row in rows} <= {"orders"}
    assert all(row.latency >= 0 and row.time >= opened.time for row in rows)
    assert len(outcomes) == len(kinds) and all(row.frame for row in rows)


def test_every_dialect_is_captured_by_a_test() -> None:
    assert set(ASKED) | {"iggy"} == set(dialects.names()), "iggy is in test_redaction.py, and with its real clients"


def test_small_reads_of_the_grid_are_seen(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "grid")
    client = Client(node)
    client.ask(q.MapPut(ORDERS, b"k", b"v", create=1))
    assert client.ask(q.MapGet(ORDERS, b"k")) == MapValue(b"v")
    assert [row.kind for row in node.rows() if row.direction == "in"] == ["MapPut", "MapGet"]


def test_the_end_of_a_connection_comes_before_what_others_do_then(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "pipe")
    first, second = node.connect(), node.connect()
    first.send(b"V1|1|PRODUCE|orders k:one\n")
    first.lose()
    second.send(b"V1|1|PRODUCE|orders k:two\n")
    third = node.connect()
    second.lose()
    third.send(b"V1|1|PRODUCE|orders k:three\n")
    rows = [(row.direction, row.connection) for row in node.rows()]
    assert rows == [
        ("open", 1),
        ("open", 2),
        ("in", 1),
        ("out", 1),
        ("close", 1),
        ("in", 2),
        ("out", 2),
        ("open", 3),
        ("close", 2),
        ("in", 3),
        ("out", 3),
    ]


def test_a_capture_may_begin_among_connections_that_are_there(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "pipe")
    peers = [node.connect() for _ in range(3)]
    peers[0].send(b"V1|1|PRODUCE|orders k:one\n")
    node.capture.close()
    peers[0].send(b"V1|2|PRODUCE|orders k:two\n")
    plan = CapturePlan(str(tmp_path / "second"))
    second = open_capture(plan, node.port, [node.listening], run=at_once)
    peers[0].send(b"V1|3|PRODUCE|orders k:three\n")
    peers[0].lose()
    second.close()
    rows = [row for file in captures([tmp_path / "second"]) for row in file]
    assert sorted(row.connection for row in rows[:3] if row.direction == "open") == [1, 2, 3]
    assert [(row.direction, row.ticket) for row in rows[3:]] == [("in", 2), ("out", 2), ("close", -1)]


def test_within_a_second_what_was_captured_is_in_a_file(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "pipe")
    node.connect().send(b"V1|1|PRODUCE|orders k:one\n")
    assert not node.files()
    node.clock.advance(1)
    node.capture.journal.finish()
    node.capture.journal.join()
    (path,) = node.files()
    assert [row.direction for row in Capture(path)] == ["open", "in", "out"]


# -- who breaks the protocol


def test_with_faults_alone_only_the_last_frames_of_who_broke_the_protocol_are_kept(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "pipe", {"keep": "faults", "ring_bytes": 4096})
    good, bad = node.connect(), node.connect()
    for number in range(100):
        good.send(b"V1|%d|PRODUCE|orders k:good\n" % number)
        bad.send(b"V1|%d|PRODUCE|orders k:bad\n" % number)
    bad.send(b"nonsense\n")
    good.send(b"V1|1|PRODUCE|orders k:good\n")
    node.capture.close()
    (path,) = node.files()
    assert path.name.startswith("fault-")
    rows = list(Capture(path))
    assert {row.connection for row in rows} == {2} and 3 < len(rows) < 30
    assert rows[-2].frame == b"nonsense\n" and rows[-1].outcome == "MALFORMED"


def test_there_is_at_most_one_file_a_minute(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "pipe", {"keep": "faults"})
    peers = [node.connect() for _ in range(3)]
    for peer in peers:
        peer.send(b"nonsense\nnonsense\n")
    node.clock.advance(QUIET_SECONDS)
    peers[0].send(b"nonsense\n")
    node.capture.close()
    assert len(node.files()) == 2


def test_a_frame_that_has_no_room_in_its_ring_is_cut(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "pipe", {"keep": "faults", "ring_bytes": 4096})
    peer = node.connect()
    peer.send(b"V1|1|PRODUCE|orders k:" + b"x" * 20_000 + b"\n")
    peer.send(b"nonsense\n")
    node.capture.close()
    (path,) = node.files()
    assert len(unpacked(path)) < 10_000


def test_rings_of_many_connections_stay_within_the_bound(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "pipe", {"keep": "faults", "ring_bytes": 16 << 10, "memory_bytes": 1 << 16})
    for _ in range(20):
        peer = node.connect()
        for number in range(100):
            peer.send(b"V1|%d|PRODUCE|orders k:good\n" % number)
    rings = node.capture._rings._rings.values()
    assert sum(ring.size for ring in rings) > 1 << 16
    node.clock.advance(1)
    assert sum(ring.size for ring in rings) <= 1 << 16
    node.capture.close()


def test_with_everything_captured_a_line_in_the_log_says_where_to_look(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "pipe")
    said: list[dict[str, object]] = []
    globalLogPublisher.addObserver(said.append)
    try:
        node.connect().send(b"nonsense\nnonsense\n")
    finally:
        globalLogPublisher.removeObserver(said.append)
    told = [event for event in said if event.get("listener") == "test"]
    assert [event["where"] for event in told] == [f"connection 1 of the capture in {node.directory}"]
    node.capture.close()
