"""gateway.bench as a whole: real servers and generators in processes of their own, for fractions of a second."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import wire
from capture.recording import Recorded
from gateway.bench import BenchFailed, children, disk, frames, measuring
from gateway.bench.children import Server, serving, stop
from gateway.bench.generator import Job
from gateway.bench.measuring import Terms, measure
from gateway.bench.report import Report, main, run
from gateway.bench.rows import SCENARIOS, rows
from gateway.bench.scenario import Row
from gateway.bench.tally import Marked, Sized
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects import load
from gateway.dialects.dialect import Request
from net.peers import produce

HEARS_NOTHING = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("listening deaf 127.0.0.1:7", "ready", sep="\\n", flush=True)
time.sleep(600)
"""


def row(name: str) -> Row:
    (found,) = (one for one in rows() if one.name == name)
    return found


def test_a_scenario_against_the_raw_echo_counts_what_came_back(tmp_path: Path) -> None:
    sample = measure(row("echo-8x64/echo"), Terms(tmp_path, seconds=0.2))
    assert sample.rate > 0
    assert 0 < min(sample.latencies) < 60e9
    assert not list(tmp_path.iterdir())


def test_one_at_a_time_is_measured_with_load_and_server_on_cores_of_their_own(tmp_path: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))
    (ping_pong,) = (scenario for scenario in SCENARIOS if scenario.name == "cursus-ping-pong")
    kept = {target: measuring._cores(Row(ping_pong, target)) for target in ping_pong.on}
    apart = (cores[0], cores[1]) if len(cores) > 1 else (None, None)
    assert kept == {"sqlite": (None, None), "memory": apart, "remote": apart, "kafka": (None, None)}
    with serving(children.echo(), tmp_path, cores[0]) as server:
        server.ports()
        assert os.sched_getaffinity(server.process) == {cores[0]}


def test_two_generators_share_the_connections(tmp_path: Path) -> None:
    with serving(children.echo(), tmp_path) as server:
        ring = [frames.framed(b"%d" % number) for number in range(10)]
        job = Job(server.ports()["echo"], [ring] * 5, Marked(ring[0][:4]), depth=4, warmup=0.05, seconds=0.1)
        first, second = children.generate(job, generators=2)
    assert first.replies and second.replies
    assert min(first.total, second.total) >= 8  # at least one window on each connection


def test_a_generator_that_is_answered_wrongly_fails_with_the_answer(tmp_path: Path) -> None:
    with serving(children.echo(), tmp_path) as server:
        ring = [frames.framed(b"no such topic")]
        job = Job(server.ports()["echo"], [ring], Sized(len(ring[0]), b"OK"), depth=1, warmup=0.0, seconds=0.05)
        with pytest.raises(BenchFailed, match="no such topic"):
            children.generate(job)


def test_a_server_that_does_not_start_is_a_sentence_with_what_it_said(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no disk left')"]
    with pytest.raises(BenchFailed, match="did not start: no disk left"), serving(command, tmp_path) as server:
        server.ports()


def test_a_server_is_stopped_also_when_the_bench_is_interrupted(tmp_path: Path) -> None:
    started: list[Server] = []
    with pytest.raises(KeyboardInterrupt), serving(children.echo(), tmp_path) as server:
        server.ports()
        started.append(server)
        raise KeyboardInterrupt
    assert not Path(f"/proc/{started[0].process}").exists()


def test_a_child_that_does_not_hear_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", HEARS_NOTHING], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"listening deaf 127.0.0.1:7\n"
        stop(child, 0.05)
    assert child.returncode == -signal.SIGKILL


def test_ports_are_read_by_name(tmp_path: Path) -> None:
    with serving([sys.executable, "-c", HEARS_NOTHING.replace("SIG_IGN", "SIG_DFL")], tmp_path) as server:
        assert server.ports() == {"deaf": 7}


def test_a_report_holds_every_row_and_judges_the_goals_it_can(tmp_path: Path) -> None:
    report = run(rows(("echo-ping-pong", "file")), 2, Terms(tmp_path, seconds=0.05))
    assert [(figure.row, len(figure.rates)) for figure in report.figures] == [
        ("echo-ping-pong/echo", 2),
        ("file-batch/file", 2),
    ]
    assert len(report.disk) == 2
    assert report.goals == []


def test_json_is_the_whole_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "echo-8x64", "--rounds", "1", "--seconds", "0.05", "--dir", str(tmp_path), "--json"]) == 0
    report = msgspec.json.decode(capsys.readouterr().out, type=Report)
    assert (report.rounds, report.figures[0].row) == (1, "echo-8x64/echo")


def test_the_table_shows_row_rate_and_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "file-batch", "--rounds", "1", "--seconds", "0.05", "--dir", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert "file-batch/file" in shown.out
    assert "rec/s" in shown.out
    assert "fdatasync/s" in shown.out
    assert re.search(r"\d cores, CPython 3\.\S+ Twisted \S+ load \d+\.\d before; median of 1 rounds", shown.out)
    assert shown.err == ""  # progress is for terminals


def test_list_lists_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [one.name for one in rows()]
    every = [one.name for one in rows(kafka=True)]
    assert len(set(every)) == len(every) == sum(len(scenario.on) for scenario in SCENARIOS)
    assert listed == [name for name in every if not name.endswith("/kafka")]


def test_list_lists_what_was_selected_also_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--only", "pipe", "--only", "fetch/memory", "--json"]) == 0
    listed = msgspec.json.decode(capsys.readouterr().out)
    assert [one["row"] for one in listed] == [
        "cursus-fetch/memory",
        "pipe-produce/sqlite",
        "pipe-produce/memory",
        "pipe-offset/memory",
        "mlog-fetch/memory",
    ]


@pytest.mark.parametrize("argv", [["--only", "nosuch"], ["--rounds", "0"], ["--nosuch"], ["stray"]])
def test_nonsense_is_refused_with_code_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert "Error: " in capsys.readouterr().err


def test_a_directory_on_no_disk_is_known(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/vda / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n")
    assert disk.in_memory(Path("/dev/shm/x"), mounts)
    assert not disk.in_memory(Path("/var/tmp"), mounts)
    assert not disk.in_memory(Path("/dev"), mounts)


def test_produce_requests_are_batches_the_dialect_reads_whole() -> None:
    cursus = load("cursus")
    terms = cursus.listener(cursus, cursus.settings(), {}).terms("127.0.0.1:0")
    request = cursus.decode_request(frames.cursus_batch("bench", 3, 100), terms)
    records = request.command.batch.records()  # type: ignore[union-attr]
    assert (request.command.to, len(records)) == (3, 100)  # type: ignore[union-attr]
    assert {len(record.value or b"") for record in records} == {frames.PAYLOAD}
    assert len({record.value for record in records}) == 100


def said_to_iggy(frame: bytes, generation: str) -> q.Command:
    iggy = load("iggy")
    settings = msgspec.convert({"generation": generation}, iggy.settings)
    request = iggy.decode_request(frame, iggy.listener(iggy, settings, {}).terms("127.0.0.1:0"))
    assert isinstance(request, Request)
    return request.command


def test_iggy_clients_log_in_as_the_real_ones_do() -> None:
    logs_in = "a client logs in and says that it is"
    assert frames.iggy_login(frames.IGGY_G2C) == wire.said("iggy", f"{logs_in} 0.10.0: apache-iggy 0.8.0")
    assert frames.iggy_login(frames.IGGY_G1B) == wire.said("iggy", f"{logs_in} 0.6.202: iggy-py 0.4.0")
    assert frames.iggy_ping() == wire.steps("iggy", "IGY-C1.1")[0]


@pytest.mark.parametrize(
    ("frame", "generation"),
    [(frames.iggy_send("bench", 3, 100), "g2c"), (frames.iggy_send_old("bench", 3, 100), "g1b")],
    ids=["g2c", "g1b"],
)
def test_sends_are_batches_the_dialect_reads_whole(frame: bytes, generation: str) -> None:
    command = said_to_iggy(frame, generation)
    assert isinstance(command, q.Publish)
    records = command.batch.records()
    assert (command.topic, command.to, len(records)) == (q.Topic(q.DEFAULT_NAMESPACE, "bench"), 3, 100)
    assert {len(record.value or b"") for record in records} == {frames.PAYLOAD}
    assert len({record.value for record in records}) == 100


def test_a_poll_is_one_by_offset_that_commits_nothing() -> None:
    command = said_to_iggy(frames.iggy_poll("bench", 0, 4200, 100), "g2c")
    assert isinstance(command, q.Fetch)
    place = q.Topic(q.DEFAULT_NAMESPACE, "bench"), 0
    assert (command.topic, command.partition, command.start, command.max_records) == (*place, 4200, 100)
    assert (command.reader, command.commit) == (q.Consumer(0), False)


def said_to(dialect: str, frame: bytes) -> Request:
    """What a dialect with the settings it comes with hears."""
    spoken = load(dialect)
    request = spoken.decode_request(frame, spoken.listener(spoken, spoken.settings(), {}).terms("127.0.0.1:0"))
    assert isinstance(request, Request)
    return request


def test_mlog_requests_are_written_as_go_writes_them() -> None:
    """As our own client does, whose bytes the vectors hold to theirs."""
    for frame in (frames.mlog_fetch("bench", 7), frames.mlog_produce("t"), frames.mlog_produce_batch("t", 2)):
        request = said_to("mlog", frame)
        assert wire.request("mlog", request.command, request.tag, request.context) == frame


def test_mlog_produces_are_batches_the_dialect_reads_whole() -> None:
    single, batch = (
        said_to("mlog", f).command for f in (frames.mlog_produce("t"), frames.mlog_produce_batch("t", 100))
    )
    assert isinstance(single, q.Publish) and isinstance(batch, q.Publish)
    assert (single.batch.count, batch.batch.count) == (1, 100)
    values = {record.value or b"" for record in batch.batch.records()}
    assert (set(map(len, values)), len(values)) == ({frames.PAYLOAD}, 100)


def test_mlog_fetches_are_by_offset() -> None:
    single, batch = (
        said_to("mlog", f).command for f in (frames.mlog_fetch("t", 7), frames.mlog_fetch_batch("t", 9, 100))
    )
    assert isinstance(single, q.Fetch) and isinstance(batch, q.Fetch)
    assert [(ask.start, ask.max_records) for ask in (single, batch)] == [(7, 1), (9, 100)]


def test_grid_requests_are_a_put_and_a_get_of_one_key_with_a_correlation_id_of_its_own() -> None:
    put, get = said_to("grid", frames.grid_put("bench", 42)), said_to("grid", frames.grid_get("bench", 42))
    topic = q.Topic(q.DEFAULT_NAMESPACE, "bench")
    assert isinstance(put.command, q.MapPut)
    assert get.command == q.MapGet(topic, put.command.key)
    assert (put.command.topic, len(put.command.value)) == (topic, frames.PAYLOAD)
    assert put.tag == get.tag != said_to("grid", frames.grid_get("bench", 43)).tag


STORED, FOUND = r.MapChanged(True), r.MapValue(b"record".ljust(frames.PAYLOAD))


@pytest.mark.parametrize(
    ("frame", "marker", "good", "bad"),
    [
        (frames.grid_put("t", 1), frames.GRID_STORED, STORED, []),
        (frames.grid_get("t", 1), frames.GRID_FOUND, FOUND, [r.MapValue(None), r.MapValue(b""), r.MapValue(b"record")]),
    ],
    ids=["put", "get"],
)
def test_a_good_answer_of_the_grid_has_its_marker_once_and_no_other_has_it(
    frame: bytes, marker: bytes, good: r.Reply, bad: list[r.Reply]
) -> None:
    grid, request = load("grid"), said_to("grid", frame)
    terms = grid.listener(grid, grid.settings(), {}).terms("127.0.0.1:0")
    assert grid.encode_reply(request, good, terms).count(marker) == 1
    for outcome in [*bad, *map(CommandFailed, Fault)]:
        assert marker not in grid.encode_reply(request, outcome, terms)


@pytest.mark.parametrize(
    "name",
    [
        "cursus-batch/memory",
        "cursus-batch/sqlite",
        "cursus-batch/captured-sqlite",
        "cursus-single/captured",
        "cursus-single/remote",
        "pipe-produce/memory",
        "iggy-send-100/memory",
        "iggy-send-1000/sqlite",
        "iggy-send-100-g1/memory",
        "mlog-produce/memory",
        "mlog-produce-100/sqlite",
        "grid-put/memory",
        "grid-put/sqlite",
        "grid-put-ping-pong/memory",
    ],
)
def test_produce_rows_count_what_was_stored(name: str, tmp_path: Path) -> None:
    sample = measure(row(name), Terms(tmp_path, seconds=0.3))  # which fails unless all that was acknowledged is there
    assert sample.rate > 0
    assert sample.server_cpu > 0


def test_what_was_acknowledged_and_is_not_stored_is_a_failure() -> None:
    measuring._check_stored(100, 100)
    with pytest.raises(BenchFailed, match="100 records were acknowledged and 99 are stored"):
        measuring._check_stored(99, 100)


def test_what_was_answered_and_is_not_captured_is_a_failure(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "pipe")
    peer = node.connect()
    for number in range(100):
        peer.send(wire.request("pipe", produce(b"k", b"v"), number))
    node.capture.close()
    measuring._check_captured(node.directory, 100)
    with pytest.raises(BenchFailed, match="of 106 requests 100 were captured"):
        measuring._check_captured(node.directory, 106)


@pytest.mark.parametrize(
    "name",
    [
        "cursus-fetch/memory",
        "cursus-fetch/remote",
        "cursus-heartbeat/memory",
        "pipe-offset/memory",
        "iggy-ping/memory",
        "iggy-poll-100/memory",
        "iggy-poll-1000/sqlite",
        "iggy-poll-100-of-cursus/sqlite",
        "iggy-poll-1000-of-cursus/memory",
        "cursus-fetch-of-iggy/memory",
        "mlog-fetch/memory",
        "mlog-fetch-100/sqlite",
        "grid-get/memory",
        "grid-get/sqlite",
        "grid-get/remote",
        "grid-get/captured",
        "grid-get-ping-pong/memory",
    ],
)
def test_rows_that_store_nothing_get_the_answers_they_expect(name: str, tmp_path: Path) -> None:
    assert measure(row(name), Terms(tmp_path, seconds=0.1)).rate > 0
