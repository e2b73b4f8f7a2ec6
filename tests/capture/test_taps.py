"""What crosses connections of every dialect, as rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from twisted.logger import globalLogPublisher

import wire
from capture.recording import Recorded, at_once, unpacked
from gateway import dialects
from gateway.admin.metrics import Metrics
from gateway.admin.view import View
from gateway.admin.web_delay import Delay
from gateway.capture.opening import open_capture
from gateway.capture.plan import CapturePlan
from gateway.capture.rings import QUIET_SECONDS
from gateway.capture.rows import Capture, Row, captures
from gateway.core import commands as q
from gateway.core.records import Record, canonical
from gateway.core.replies import MapValue, Outcome
from gateway.dialects import Refusal, Request
from gateway.dialects.frames import FrameBuffer
from gateway.dialects.grid.session import GridSession
from gateway.dialects.native.session import hello
from net.peers import ORDERS, Client, produce

ASKED: dict[str, list[q.Command]] = {
    "cursus": [q.CreateTopic(ORDERS, 2, if_exists=q.IfExists.GROW), q.DescribeTopic(ORDERS)],
    "pipe": [q.CreateTopic(ORDERS, 2, if_exists=q.IfExists.KEEP), q.FetchOffsets(ORDERS, q.Group("g"), (0,))],
    "grid": [q.MapPut(ORDERS, b"k", b"v", create=1), q.MapGet(ORDERS, b"k")],
    "mlog": [q.CreateTopic(ORDERS, 1), q.Fetch(ORDERS, 0, 0)],
    "native": [q.CreateTopic(ORDERS, 1), q.DescribeTopic(ORDERS)],
}


def line(number: int, value: bytes) -> bytes:
    """A record that a V1 client sends."""
    return wire.request("pipe", produce(b"k", value), number)


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


def burst(node: Recorded, keys: int) -> tuple[list[bytes], list[bytes]]:
    """So many MAP_GETs in one read, of a map whose name was heard before, and then what is no frame.

    What was asked and what was answered.
    """
    grid = dialects.load("grid")
    terms = node.listening.listener.terms("127.0.0.1:0")
    asked = [grid.encode_request(Request(q.MapGet(ORDERS, b"k%d" % at), at), terms) for at in range(keys)]
    peer = node.connect()
    peer.send(grid.encode_request(Request(q.MapSize(ORDERS), 99), terms))
    peer.wire.read()
    peer.send(b"".join(asked))
    frames, _ = FrameBuffer(grid.measure_reply, 1 << 20).feed(peer.wire.read())
    peer.send(b"\0" * 100)
    return asked, frames


@pytest.mark.parametrize("keep", ["all", "faults"])
def test_small_reads_take_the_short_way_and_are_captured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: str
) -> None:
    node = Recorded(tmp_path, "grid", {"keep": keep})
    client = Client(node)
    for at in range(5):
        client.ask(q.MapPut(ORDERS, b"k%d" % at, b"v", create=1))
    called: list[Request] = []
    usual = GridSession.calls
    monkeypatch.setattr(GridSession, "calls", lambda *call: called.append(call[1]) or usual(*call))
    asked, told = burst(node, 5)
    node.capture.close()
    rows = [row for path in node.files() for row in Capture(path) if row.kind == "MapGet"]
    found = {way: [row for row in rows if row.direction == way] for way in ("in", "out")}
    assert len(told) == 5
    assert [type(request.command) for request in called] == [q.MapSize]
    assert [(row.frame, row.ticket) for row in found["in"]] == [(frame, at) for at, frame in enumerate(asked, 1)]
    assert [(row.frame, row.ticket) for row in found["out"]] == [(frame, at) for at, frame in enumerate(told, 1)]
    assert {(row.topic, row.outcome) for row in found["out"]} == {("orders", "MapValue")}


def test_a_look_at_the_console_sees_small_reads_beside_a_capture(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "grid")
    Client(node).ask(q.MapPut(ORDERS, b"k1", b"v", create=1))
    seen = Seen()
    node.port.taps.add(lambda who: True, lambda who: seen)
    asked, _ = burst(node, 3)
    assert seen.heard_of[1:4] == asked
    assert [row.frame for row in node.rows() if row.kind == "MapGet" and row.direction == "in"] == asked


class Seen:
    """A tap that knows nothing of bursts."""

    def __init__(self) -> None:
        self.heard_of: list[bytes] = []

    def heard(self, ticket: int, frame: bytes, request: Request | Refusal) -> None:
        self.heard_of.append(frame)

    def answered(self, ticket: int, request: Request | Refusal, outcome: Outcome, data: bytes) -> None:
        pass

    def said(self, data: bytes) -> None:
        pass


def test_the_answer_to_a_native_hello_is_seen(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "native")
    native = dialects.load("native")
    terms = native.open(native.settings(), node.listening.listener.encodings).terms("127.0.0.1:0")
    node.connect().send(native.encode_request(hello(terms), terms))
    assert [talk(row) for row in node.rows()][1:] == [("in", "Ping", ""), ("out", "Ping", "Done")]


def test_the_end_of_a_connection_comes_before_what_others_do_then(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "pipe")
    first, second = node.connect(), node.connect()
    first.send(line(1, b"one"))
    first.lose()
    second.send(line(1, b"two"))
    third = node.connect()
    second.lose()
    third.send(line(1, b"three"))
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
    peers[0].send(line(1, b"one"))
    node.capture.close()
    peers[0].send(line(2, b"two"))
    plan = CapturePlan(str(tmp_path / "second"))
    second = open_capture(plan, node.port, [node.listening], run=at_once)
    peers[0].send(line(3, b"three"))
    peers[0].lose()
    second.close()
    rows = [row for file in captures([tmp_path / "second"]) for row in file]
    assert sorted(row.connection for row in rows[:3] if row.direction == "open") == [1, 2, 3]
    assert [(row.direction, row.ticket) for row in rows[3:]] == [("in", 2), ("out", 2), ("close", -1)]


def test_within_a_second_what_was_captured_is_in_a_file(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "pipe")
    node.connect().send(line(1, b"one"))
    assert not node.files()
    node.clock.advance(1)
    node.capture.journal.finish()
    node.capture.journal.join()
    (path,) = node.files()
    assert [row.direction for row in Capture(path)] == ["open", "in", "out"]


def test_what_becomes_of_rows_is_counted_for_the_metrics(tmp_path: Path) -> None:
    node, registry = Recorded(tmp_path, "native", {"memory_bytes": 1 << 16}), CollectorRegistry()
    view = View(node.port, node.port.backend, lambda: [(node.listening, "h:1")], node.clock, 0, lambda: None)
    metrics, client = Metrics(registry, view, Delay(node.clock)), Client(node)
    for size in (10, 1 << 17, 10):
        client.ask(q.Publish(ORDERS, 0, canonical([Record(None, bytes(size))]), create=1))
    rows, octets = node.rows(), node.files()[0].stat().st_size
    (gap,) = (row for row in rows if row.direction == "gap")
    names = "rows", "rows_dropped", "rows_failed", "bytes"
    counted = [registry.get_sample_value(f"gateway_captured_{name}_total") for name in names]
    assert counted == [len(rows) - 1, int(gap.note), 0, octets]
    assert int(gap.note) >= 1
    metrics.close()


# -- who breaks the protocol


def test_with_faults_alone_only_the_last_frames_of_who_broke_the_protocol_are_kept(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "pipe", {"keep": "faults", "ring_bytes": 4096})
    good, bad = node.connect(), node.connect()
    for number in range(100):
        good.send(line(number, b"good"))
        bad.send(line(number, b"bad"))
    bad.send(b"nonsense\n")
    good.send(line(1, b"good"))
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
    peer.send(line(1, b"x" * 20_000))
    peer.send(b"nonsense\n")
    node.capture.close()
    (path,) = node.files()
    assert len(unpacked(path)) < 10_000


def test_rings_of_many_connections_stay_within_the_bound(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "pipe", {"keep": "faults", "ring_bytes": 16 << 10, "memory_bytes": 1 << 16})
    for _ in range(20):
        peer = node.connect()
        for number in range(100):
            peer.send(line(number, b"good"))
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
