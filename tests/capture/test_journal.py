"""What becomes of rows between the reactor and the files."""

from __future__ import annotations

import stat
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from capture.recording import values
from gateway.capture.journal import CHUNK, REST_EVERY, SHEET, Journal, Source
from gateway.capture.plan import CapturePlan
from gateway.capture.rows import FIELDS, Capture, ListenerSaid, NoCapture, Row, captures
from gateway.capture.sheets import Turns

SOURCE = Source("here", "1.2.3", 7, {"lines": ListenerSaid("pipe", {"namespace": "default"})})


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def seconds(self) -> float:
        return self.now

    def wall(self) -> int:
        return 1_700_000_000_000_000_000 + int(self.now * 1e9)


def journal(directory: Path, time: Time | None = None, **plan: Any) -> Journal:
    time = time or Time()
    return Journal(CapturePlan(str(directory), **plan), SOURCE, time.wall, time.seconds)


def row(number: int, octets: bytes = b"") -> Row:
    return Row(number, 1, "pipe", "lines", "in", octets, number, "Publish", "default", "orders")


def end(journal: Journal) -> None:
    journal.finish()
    journal.join()


def test_a_file_is_read_with_the_public_packages_alone(tmp_path: Path) -> None:
    made = journal(tmp_path)
    made.start()
    for number in range(3):
        made.add(row(number, b"\0\xff"))
    end(made)
    (path,) = tmp_path.iterdir()
    header, *rows = values(path)
    assert header == {
        "format": "gateway-capture",
        "version": 1,
        "gateway": "1.2.3",
        "node": "here",
        "started": 7,
        "opened": 1_700_000_000_000_000,
        "listeners": {"lines": {"dialect": "pipe", "settings": {"namespace": "default"}}},
    }
    (sheet,) = rows
    assert [len(row) for _, row in sheet["rows"]] == [len(FIELDS)] * 3
    assert sheet["rows"][2] == [
        0,
        [2, 1, "pipe", "lines", "in", b"\0\xff", 2, "Publish", "default", "orders", "", 0, "", ""],
    ]
    assert list(captures([tmp_path])[0]) == [row(number, b"\0\xff") for number in range(3)]


def test_only_the_owner_may_read_what_others_sent(tmp_path: Path) -> None:
    made = journal(tmp_path / "new")
    made.start()
    made.add(row(1))
    end(made)
    (path,) = (tmp_path / "new").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_what_does_not_fit_is_dropped_and_a_row_says_how_many(tmp_path: Path) -> None:
    """The thread does not run yet, so that nothing leaves the queue."""
    made = journal(tmp_path, memory_bytes=1 << 20)
    octets = bytes(1 << 16)
    for number in range(100):
        made.add(row(number, octets))
    assert made.dropped > 50
    made.start()
    made.finish()
    made.join()
    rows = list(captures([tmp_path])[0])
    kept = [each for each in rows if each.direction == "in"]
    gaps = [each for each in rows if each.direction == "gap"]
    assert sum(len(each.frame) for each in kept) <= 1 << 20
    assert len(kept) + made.dropped == 100
    assert [each.ticket for each in kept] == list(range(len(kept))), "the first ones, in order"
    assert sum(int(each.note) for each in gaps) <= made.dropped


def test_the_reactor_rests_now_and_then_while_the_queue_is_filling(tmp_path: Path) -> None:
    """The thread does not run yet; about a millisecond passes from row to row."""
    time, rests = Time(), list[float]()
    plan = CapturePlan(str(tmp_path), memory_bytes=1 << 23)
    made = Journal(plan, SOURCE, time.wall, time.seconds, lambda seconds: rests.append(time.now))
    for number in range(100):
        time.now += 1 / 1024
        made.add(row(number, bytes(SHEET + 1)))
        assert not rests or made.waiting > plan.memory_bytes // 4
    assert len(rests) == 4, "each 20 ms, since there are 2 MiB"
    assert min(later - rest for rest, later in pairwise(rests)) > REST_EVERY
    made.start()
    end(made)
    assert made.waiting == 0


def test_what_waits_together_is_written_together_in_order(tmp_path: Path) -> None:
    """The thread does not run yet, so that all of it waits."""
    made = journal(tmp_path)
    written: list[int] = []
    write = made.writer.write

    def counted(chunk: Any) -> None:
        written.append(chunk.rows)
        write(chunk)

    made.writer.write = counted  # type: ignore[method-assign]
    for number in range(8):
        made.add(row(number, bytes(CHUNK)))
    made.add_apart([row(100), row(101)])
    for number in range(8, 40):
        made.add(row(number, bytes(CHUNK)))
    made.start()
    end(made)
    assert written == [8, 2, 16, 16]
    running, apart = (
        [each.ticket for each in rows] for kind in ("capture", "fault") for rows in captures(tmp_path.glob(f"{kind}-*"))
    )
    assert (running, apart) == (list(range(40)), [100, 101])


def test_after_a_gap_rows_are_kept_again_behind_the_row_that_tells_of_it(tmp_path: Path) -> None:
    made = journal(tmp_path, memory_bytes=1 << 20)
    octets = bytes(SHEET + 1)
    for number in range(10):
        made.add(row(number, octets))
    dropped = made.dropped
    assert dropped
    made.start()
    while not made.writer.taken:
        threading.Event().wait(0.001)
    made.add(row(10))
    made.flush()
    end(made)
    rows = list(captures([tmp_path])[0])
    assert [each.direction for each in rows[-2:]] == ["gap", "in"]
    assert rows[-2].note == str(dropped) and rows[-1].ticket == 10
    assert made.dropped == dropped


def test_files_are_changed_by_size_and_the_oldest_go(tmp_path: Path) -> None:
    made = journal(tmp_path, file_bytes=1 << 16, total_bytes=5 << 16, memory_bytes=1 << 30)
    made.start()
    (tmp_path / "not-ours").write_bytes(bytes(1 << 20))
    for number in range(40):
        made.add(row(number, _noise(number)))
        made.flush()
    end(made)
    files = sorted(tmp_path.glob("capture-*"))
    assert 1 < len(files) <= 4
    assert sum(path.stat().st_size for path in files) <= 5 << 16
    tickets = [each.ticket for file in captures([tmp_path]) for each in file]
    assert tickets == list(range(40 - len(tickets), 40)), "the newest, in order"
    assert (tmp_path / "not-ours").exists()


def _noise(seed: int) -> bytes:
    """20 KiB that cannot be packed."""
    import random

    return random.Random(seed).randbytes(20 << 10)


def test_a_file_that_is_old_enough_is_closed(tmp_path: Path) -> None:
    time = Time()
    made = journal(tmp_path, time, rotate_seconds=10)
    made.start()
    for number in range(4):
        made.add(row(number))
        made.flush()
        while made.writer.written <= number:
            threading.Event().wait(0.001)
        time.now += 6
    end(made)
    assert [[each.ticket for each in file] for file in captures([tmp_path])] == [[0, 1], [2, 3]]


def test_a_directory_that_cannot_be_written_costs_rows_and_nothing_else(tmp_path: Path) -> None:
    """And when there is one again, it goes on."""
    place = tmp_path / "gone"
    place.write_text("in the way")
    made = journal(place)
    made.start()
    made.add(row(1))
    made.flush()
    while not made.writer.failed:
        threading.Event().wait(0.001)
    place.unlink()
    made.add(row(2))
    end(made)
    assert (made.writer.failed, made.writer.written) == (1, 1)
    assert [each.ticket for each in captures([place])[0]] == [2]


# -- files that are not whole, or not ours


def test_a_file_is_readable_up_to_the_frame_that_was_being_written(tmp_path: Path) -> None:
    made = journal(tmp_path)
    made.start()
    for number in range(4):
        made.add(row(number, bytes([number]) * 50))
        made.flush()
    end(made)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    counts = set()
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        try:
            file = Capture(path)
        except NoCapture:
            continue
        rows = list(file)
        assert rows == [row(number, bytes([number]) * 50) for number in range(len(rows))]
        counts.add(len(rows))
    assert counts == {0, 1, 2, 3, 4} and not file.torn


def test_a_sheet_that_does_not_fit_together_is_told_with_a_sentence(tmp_path: Path) -> None:
    made = journal(tmp_path)
    made.start()
    made.add(row(1))
    end(made)
    (path,) = tmp_path.iterdir()
    (sheet,) = Capture(path).sheets()
    damaged = msgspec.structs.replace(sheet, turns=Turns([0, 0], [1], [0]))
    pack = zstandard.ZstdCompressor().compress
    path.write_bytes(pack(msgspec.msgpack.encode(Capture(path).header)) + pack(msgspec.msgpack.encode(damaged)))
    with pytest.raises(NoCapture, match="a sheet that is damaged"):
        list(Capture(path))
    path.write_bytes(pack(msgspec.msgpack.encode(Capture(path).header)) + pack(msgspec.msgpack.encode([1, 2])))
    with pytest.raises(NoCapture, match="what is no sheet"):
        list(Capture(path))


@pytest.mark.parametrize("octets", [b"", b"no capture at all", zstandard.FRAME_HEADER + bytes(20)])
def test_what_is_no_capture_is_refused_with_a_sentence(tmp_path: Path, octets: bytes) -> None:
    path = tmp_path / "x.rows.zst"
    path.write_bytes(octets)
    with pytest.raises(NoCapture, match="is no capture"):
        Capture(path)
    with pytest.raises(NoCapture, match="has no files"):
        captures([tmp_path])
