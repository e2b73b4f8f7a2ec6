"""gateway.backends.sqlite and its file: what survives, what is refused, and what a bad disk cannot do."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs
from zope.interface import implementer

from backends.driving import Driver, Reactor
from gateway.backends import database, sqlite
from gateway.backends.database import Unusable
from gateway.backends.interface import IFollower
from gateway.backends.memory import MemoryBackend
from gateway.backends.sqlite import SqliteBackend, maker
from gateway.core import commands as q
from gateway.core import idempotence
from gateway.core.commands import Command, Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.idempotence import FORGET_AFTER
from gateway.core.records import CANONICAL, Encoding, Record, RecordBatch, canonical, registry
from gateway.core.replies import CommittedOffsets, Count, Done, Joined, Published, Records

ROOT = Path(__file__).parent.parent.parent
START = 1_700_000_000_000_000
ORDERS = q.Topic("default", "orders")
GROUP = q.Group("g")
ALL = 1 << 40
UNAVAILABLE = Fault.UNAVAILABLE, {}

ODD = Encoding(
    "odd.v1",
    walk=CANONICAL.walk,
    stamp=CANONICAL.stamp,
    cut=CANONICAL.cut,
    sizes=CANONICAL.sizes,
    runs=CANONICAL.runs,
    records=CANONICAL.records,
)

Row = tuple[int, int, Record]


class Files:
    """One data directory, and the backends that were opened on it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "gateway.sqlite3"
        self.now = START
        self.open_: list[Driver] = []

    def open(self, *encodings: Encoding) -> Driver:
        reactor = Reactor()
        backend = SqliteBackend(self.directory, registry(encodings), reactor, lambda: self.now)
        self.open_.append(Driver(backend, reactor))
        return self.open_[-1]

    def close(self) -> None:
        while self.open_:
            self.open_.pop().close()

    def reopen(self, *encodings: Encoding) -> Driver:
        self.close()
        return self.open(*encodings)

    def rows(self, question: str) -> list[Any]:
        """What a stranger reads in the file."""
        stranger = sqlite3.connect(self.file)
        try:
            return stranger.execute(question).fetchall()
        finally:
            stranger.close()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    files = Files(tmp_path / "data")
    yield files
    files.close()


@pytest.fixture
def small_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything but the newest batch is read from the file."""
    monkeypatch.setattr(sqlite, "TAIL_BYTES", 0)


def publish(*values: bytes, partition: int = 0, topic: q.Topic = ORDERS, **more: Any) -> q.Publish:
    return q.Publish(topic, partition, canonical([Record(value=value) for value in values], "test"), **more)


def numbered(first: int, count: int, epoch: int = 1) -> q.Publish:
    records = [Record(value=b"%d" % at, producer=b"p", epoch=epoch, sequence=at) for at in range(first, first + count)]
    return q.Publish(ORDERS, 0, canonical(records))


def rows_of(outcome: Any) -> list[Row]:
    assert isinstance(outcome, Records), outcome
    return [row for batch in outcome.batches for row in batch.rows()]


def rows(driver: Driver, partition: int = 0, start: q.Start = 0) -> list[Row]:
    return rows_of(driver.ask(q.Fetch(ORDERS, partition, start, max_bytes=ALL)))


def values(driver: Driver, partition: int = 0, start: q.Start = 0) -> list[bytes | None]:
    return [record.value for _, _, record in rows(driver, partition, start)]


def filled(driver: Driver, partitions: int = 3, batches: int = 60) -> dict[int, list[Row]]:
    """A topic with some records; returns them as they were read back."""
    driver.ask(q.CreateTopic(ORDERS, partitions))
    chance = random.Random(7)
    for at in range(batches):
        payloads = [b"record %d.%d " % (at, n) * chance.randint(1, 300) for n in range(chance.randint(1, 4))]
        assert isinstance(driver.ask(publish(*payloads, partition=at % partitions)), Published)
    return {partition: rows(driver, partition) for partition in range(partitions)}


# -- what survives


def test_everything_is_there_after_a_restart(files: Files) -> None:
    first = files.open()
    stored = filled(first)
    first.ask(q.CreateNamespace("sales"))
    first.ask(q.CreateTopic(q.Topic("sales", "empty"), 2, q.TopicSettings(retention_us=5, labels={"a": "b"})))
    first.ask(q.CommitOffsets(ORDERS, GROUP, {0: 3, 2: 1}))
    questions = [
        q.ListNamespaces(),
        q.ListTopics("default"),
        q.ListTopics("sales"),
        q.LatestOffsets(ORDERS),
        q.FetchOffsets(ORDERS, GROUP),
    ]
    answers = [first.ask(question) for question in questions]
    second = files.reopen()
    assert {partition: rows(second, partition) for partition in stored} == stored
    assert [second.ask(question) for question in questions] == answers


def test_times_rise_over_a_restart_though_the_clock_went_back(files: Files) -> None:
    driver = files.open()
    driver.ask(publish(b"a", b"b", create=1))
    files.now -= 1000
    driver = files.reopen()
    driver.ask(publish(b"c"))
    assert [timestamp for _, timestamp, _ in rows(driver)] == [START, START + 1, START + 2]


def test_ids_are_not_given_twice_over_a_restart(files: Files) -> None:
    driver = files.open()
    made = driver.ask(q.CreateTopic(ORDERS, 1))
    driver.ask(q.DeleteTopic(ORDERS))
    driver = files.reopen()
    assert driver.ask(q.CreateTopic(ORDERS, 1)).id == made.id + 1


def test_a_producer_that_sends_again_after_a_restart_is_recognized(files: Files) -> None:
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 1, q.TopicSettings(idempotent=True)))
    driver.ask(numbered(1, 3))
    driver = files.reopen()
    assert driver.ask(numbered(1, 3)) == Published(0, 3, 2, duplicate=True)
    assert driver.ask(numbered(2, 3)) == Published(0, 3, 3)
    assert driver.ask(numbered(9, 1))[0] is Fault.SEQUENCE_GAP
    assert values(driver) == [b"1", b"2", b"3", b"4"]


def test_a_producer_that_was_silent_for_days_is_recognized_after_a_restart(files: Files) -> None:
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 1, q.TopicSettings(idempotent=True)))
    driver.ask(numbered(1, 3))
    files.now += 100 * FORGET_AFTER
    assert files.reopen().ask(numbered(1, 3)) == Published(0, 3, 2, duplicate=True)


def test_of_many_producers_those_that_were_silent_for_long_are_gone_from_the_file(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "MANY", 2)
    monkeypatch.setattr(idempotence, "MANY", 2)
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 2, q.TopicSettings(idempotent=True)))
    for at, producer in enumerate([b"a", b"b", b"c", b"d"]):
        files.now += FORGET_AFTER // 2
        record = Record(producer=producer, epoch=1, sequence=1)
        driver.ask(q.Publish(ORDERS, 0, canonical([record])))
        if at < 2:
            driver.ask(q.Publish(ORDERS, 1, canonical([record])))
    driver = files.reopen()
    known = files.rows("SELECT number, producer FROM producers ORDER BY number, heard")
    assert known == [(1, b"b"), (1, b"c"), (1, b"d"), (2, b"a"), (2, b"b")]
    assert driver.ask(q.Publish(ORDERS, 0, canonical([Record(producer=b"b", epoch=1, sequence=1)]))).duplicate
    assert not driver.ask(q.Publish(ORDERS, 0, canonical([Record(producer=b"a", epoch=1, sequence=1)]))).duplicate


def test_what_was_asked_before_closing_is_stored_and_answered(files: Files) -> None:
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 1))
    begun = [driver.begin(publish(b"%d" % at)) for at in range(100)]
    files.close()
    assert [deferred.result.base for deferred in begun] == list(range(100))
    assert len(values(files.open())) == 100


def test_what_is_asked_behind_closing_is_refused(files: Files) -> None:
    driver = files.open()
    closing = driver.backend.close()
    assert driver.ask(publish(b"late"))[0] is Fault.UNAVAILABLE
    files.open_.clear()
    driver.reactor.wait(closing)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sqlite")]


# -- what is refused


def refused(files: Files) -> str:
    with pytest.raises(Unusable) as caught:
        files.open()
    return str(caught.value)


def test_a_directory_that_another_gateway_uses_is_refused_until_it_stops(files: Files) -> None:
    files.open()
    assert refused(files) == f"{files.directory} is in use by another gateway; stop it or name another directory"
    files.reopen()


def test_a_place_that_is_no_directory_is_refused(files: Files) -> None:
    files.directory.write_text("in the way")
    assert refused(files) == f"cannot use {files.directory} for data: File exists"


def test_a_file_that_is_no_database_is_refused_and_left_alone(files: Files) -> None:
    files.directory.mkdir()
    files.file.write_text("this is not a database, whatever it is called\n" * 50)
    before = files.file.read_bytes()
    assert refused(files) == f"{files.file} cannot be opened: file is not a database"
    assert files.file.read_bytes() == before
    files.file.unlink()
    files.open()


def test_a_file_of_a_later_version_is_refused_and_left_alone(files: Files) -> None:
    filled(files.open(), batches=3)
    files.close()
    files.rows("PRAGMA user_version = 2")
    assert refused(files) == "the data has layout 2, this version reads layout 1"
    files.rows("PRAGMA user_version = 1")
    assert len(values(files.open())) > 0


def test_an_end_that_does_not_fit_the_records_is_refused(files: Files) -> None:
    filled(files.open(), batches=3)
    files.close()
    stranger = sqlite3.connect(files.file, isolation_level=None)
    stranger.execute("UPDATE partitions SET end = end + 1 WHERE idx = 0")
    stranger.close()
    assert "is damaged" in refused(files)


def test_the_plugin_says_it_in_one_sentence(files: Files) -> None:
    files.open()
    with pytest.raises(ValueError, match=r"^[^\n]+ is in use by another gateway; [^\n]+$"):
        maker.make(str(files.directory), registry([]), Reactor())


# -- damage


def flip(path: Path, needle: bytes) -> None:
    """Damage the one place in the file that holds these bytes."""
    content = bytearray(path.read_bytes())
    assert content.count(needle) == 1
    content[content.index(needle)] ^= 1
    path.write_bytes(content)


def test_a_damaged_batch_is_unavailable_and_all_others_are_not(files: Files) -> None:
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 2))
    for at in range(5):
        driver.ask(publish(b"needle-%d-" % at + b"x" * 50, partition=0))
        driver.ask(publish(b"other-%d" % at, partition=1))
    files.close()
    flip(files.file, b"needle-2-")
    driver = files.open()
    assert driver.ask(q.Fetch(ORDERS, 0, 2)) == UNAVAILABLE
    assert [row[0] for row in rows(driver, start=0)] == [0, 1], "up to there all is well"
    assert [row[0] for row in rows(driver, start=3)] == [3, 4]
    assert len(values(driver, 1)) == 5
    assert driver.ask(publish(b"new")) == Published(0, 5, 5)


@pytest.mark.parametrize(
    "damage",
    [
        "timestamp = timestamp + 1",
        "count = count + 1",
        "count = 'x'",
        "encoding = 'odd.v1'",
        "body = 'text'",
    ],
)
def test_a_batch_that_is_not_where_or_what_it_was_is_not_given_out(files: Files, damage: str) -> None:
    driver = files.open()
    driver.ask(publish(b"a", create=1))
    driver.ask(publish(b"b"))
    files.close()
    stranger = sqlite3.connect(files.file, isolation_level=None)
    stranger.execute(f"UPDATE batches SET {damage} WHERE position & 1 = 0")
    stranger.close()
    outcome = files.open(ODD).ask(q.Fetch(ORDERS, 0, 0, max_records=1))
    assert outcome == UNAVAILABLE or rows_of(outcome)[0][2].value == b"b"


def test_batches_that_changed_places_are_not_given_out(files: Files) -> None:
    driver = files.open()
    driver.ask(publish(b"a", create=1))
    driver.ask(publish(b"b"))
    files.close()
    stranger = sqlite3.connect(files.file, isolation_level=None)
    (both,) = stranger.execute("SELECT sum(position) FROM batches").fetchone()
    stranger.execute("UPDATE batches SET position = -position")
    stranger.execute("UPDATE batches SET position = position + ?", (both,))
    stranger.close()
    driver = files.open()
    assert [driver.ask(q.Fetch(ORDERS, 0, offset)) for offset in (0, 1)] == [UNAVAILABLE, UNAVAILABLE]


def test_whatever_is_flipped_or_cut_off_no_record_is_invented(files: Files, tmp_path: Path, small_tail: None) -> None:
    stored = filled(files.open(), batches=30)
    files.close()
    whole = files.file.read_bytes()
    chance = random.Random(11)
    refusals = 0
    for at in range(120):
        broken = bytearray(whole)
        if at % 4:
            broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
        else:
            del broken[chance.randrange(len(broken)) :]
        copy = Files(tmp_path / f"copy {at}")
        copy.directory.mkdir()
        copy.file.write_bytes(broken)
        try:
            driver = copy.open()
        except Unusable:
            refusals += 1
            continue
        for partition, known in stored.items():
            outcome = driver.ask(q.Fetch(ORDERS, partition, 0, max_bytes=ALL))
            assert outcome == UNAVAILABLE or rows_of(outcome) == known[: len(rows_of(outcome))]
        copy.close()
    assert 20 < refusals < 60


def test_a_torn_log_is_read_up_to_its_last_whole_transaction(files: Files, tmp_path: Path) -> None:
    driver = files.open()
    stored = filled(driver, partitions=1, batches=40)[0]
    log = files.directory / "gateway.sqlite3-wal"
    whole, main = log.read_bytes(), files.file.read_bytes()
    lengths = []
    for at in range(0, len(whole), len(whole) // 20):
        copy = Files(tmp_path / f"copy {at}")
        copy.directory.mkdir()
        copy.file.write_bytes(main)
        (copy.directory / log.name).write_bytes(whole[:at])
        driver = copy.open()
        found = driver.ask(q.Fetch(ORDERS, 0, 0, max_bytes=ALL))
        kept = [] if isinstance(found, tuple) else rows_of(found)
        assert kept == stored[: len(kept)]
        if kept:
            assert driver.ask(publish(b"next")).base == len(kept)
        lengths.append(len(kept))
        copy.close()
    assert lengths == sorted(lengths)
    assert 0 < lengths[-1] <= len(stored)


def test_an_encoding_that_is_not_known_any_more_is_unavailable(files: Files) -> None:
    driver = files.open(ODD)
    body = canonical([Record(value=b"odd")]).body
    driver.ask(q.Publish(ORDERS, 0, RecordBatch(ODD, body, 1), create=1))
    driver.ask(publish(b"known"))
    driver = files.reopen()
    assert driver.ask(q.Fetch(ORDERS, 0, 0)) == UNAVAILABLE
    assert values(driver, start=1) == [b"known"]
    assert values(files.reopen(ODD)) == [b"odd", b"known"]


# -- a full disk


class Disk:
    """The writer's connection, told how many pages it may have."""

    def __init__(self, driver: Driver) -> None:
        assert isinstance(driver.backend, SqliteBackend)
        self._connection = driver.backend._writer._connection

    def fill(self) -> None:
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        self._connection.execute(f"PRAGMA max_page_count = {pages}")

    def empty(self) -> None:
        self._connection.execute("PRAGMA max_page_count = 1000000")


def test_on_a_full_disk_writes_are_refused_reads_go_on_and_nothing_is_lost_when_there_is_room(files: Files) -> None:
    driver = files.open()
    driver.ask(publish(b"before", create=1))
    disk = Disk(driver)
    disk.fill()
    large = b"x" * 100_000
    with capturedLogs() as events:
        assert driver.ask(publish(large)) == UNAVAILABLE
        burst = [driver.begin(publish(large)) for _ in range(5)]
        assert [driver.outcome(write) for write in burst] == [UNAVAILABLE] * 5
    assert any("full" in str(event["error"]) for event in events)
    assert values(driver) == [b"before"]
    disk.empty()
    assert driver.ask(publish(b"after")) == Published(0, 1, 1)
    assert values(files.reopen()) == [b"before", b"after"]


def test_after_a_full_disk_a_producer_goes_on_where_it_was_acknowledged(files: Files) -> None:
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 1, q.TopicSettings(idempotent=True)))
    driver.ask(numbered(1, 2))
    disk = Disk(driver)
    disk.fill()
    assert driver.ask(numbered(3, 20_000)) == UNAVAILABLE
    disk.empty()
    assert driver.ask(numbered(4, 1))[0] is Fault.SEQUENCE_GAP
    assert driver.ask(numbered(3, 1)) == Published(0, 2, 2)


def test_topics_that_a_full_disk_did_not_take_are_not_there(files: Files) -> None:
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 1))
    disk = Disk(driver)
    disk.fill()
    other = q.Topic("default", "other")
    assert driver.ask(publish(b"x" * 100_000, topic=other, create=1)) == UNAVAILABLE
    assert driver.ask(q.DescribeTopic(other))[0] is Fault.NO_SUCH_TOPIC
    disk.empty()
    assert driver.ask(publish(b"x", topic=other, create=1)) == Published(0, 0, 0)


LIMITED = """
import resource, sys
from pathlib import Path
from backends.driving import Driver, Reactor
from backends.test_sqlite import Files, publish, values
from gateway.core.faults import Fault
from gateway.core.replies import Published

files = Files(Path(sys.argv[1]))
driver = files.open()
assert driver.ask(publish(b"0" * 1000, create=1)) == Published(0, 0, 0)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
stored = 1
while isinstance(outcome := driver.ask(publish(b"x" * 10_000)), Published):
    assert outcome.base == stored < 100
    stored += 1
assert outcome == (Fault.UNAVAILABLE, {}), outcome
assert len(values(driver)) == stored > 5
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert driver.ask(publish(b"after")) == Published(0, stored, stored)
assert len(values(files.reopen())) == stored + 1
files.close()
print("stored", stored)
"""


def test_files_that_may_not_grow_are_a_full_disk(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LIMITED, str(tmp_path)],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("stored ")


# -- defects


@pytest.mark.parametrize(
    "odd", [q.CreateTopic(q.Topic("default", "\ud800"), 1), q.CommitOffsets(ORDERS, q.Group("\ud800"), {0: 1})]
)
def test_a_name_that_is_no_text_is_refused(files: Files, odd: Command) -> None:
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 1))
    assert driver.ask(odd)[0] is Fault.INVALID_NAME


def test_a_command_that_cannot_be_stored_fails_alone(files: Files) -> None:
    odd = numbered(1, 1, epoch=1 << 63)
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 1, q.TopicSettings(idempotent=True)))
    with capturedLogs() as events:
        burst = [driver.begin(command) for command in (publish(b"a"), odd, publish(b"b"))]
        outcomes = [driver.outcome(deferred) for deferred in burst]
    assert outcomes[1][0] is Fault.INTERNAL
    assert [outcomes[0], outcomes[2]] == [Published(0, 0, 0), Published(0, 1, 1)]
    assert len(events) == 1
    assert values(files.reopen()) == [b"a", b"b"]


def test_a_file_that_cannot_be_opened_for_a_read_is_unavailable(
    files: Files, small_tail: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = files.open()
    driver.ask(publish(b"a", create=1))
    driver.ask(publish(b"b"))

    def fail(path: Path) -> sqlite3.Connection:
        raise Unusable("too many open files")

    monkeypatch.setattr(database, "connect", fail)
    assert driver.ask(q.Fetch(ORDERS, 0, 0)) == UNAVAILABLE
    monkeypatch.undo()
    assert values(driver) == [b"a", b"b"]


# -- reads


def test_reads_from_the_file_are_those_from_memory(files: Files, small_tail: None) -> None:
    reactor = Reactor()
    model = Driver(MemoryBackend(reactor, lambda: files.now), reactor)
    driver = files.open()
    chance = random.Random(3)
    writes: list[Command] = [q.CreateTopic(ORDERS, 2)]
    for _ in range(60):
        payloads = [chance.randbytes(chance.randint(0, 300)) for _ in range(chance.randint(1, 5))]
        writes.append(publish(*payloads, partition=chance.randrange(2)))
    for write in writes:
        files.now += chance.randint(0, 9)
        assert driver.ask(write) == model.ask(write)
    for partition in range(2):
        end = model.ask(q.LatestOffsets(ORDERS, partition)).offsets[0].end
        times = [q.FromTime(START + chance.randint(-5, 500)) for _ in range(30)]
        starts: list[q.Start] = [*range(end + 1), q.First(), q.Last(7), q.Last(end + 1), *times]
        for start in starts:
            fetch = q.Fetch(
                ORDERS,
                partition,
                start,
                max_records=chance.choice([0, 1, 7]),
                max_bytes=chance.choice([1, 500, ALL]),
            )
            assert driver.ask(fetch) == model.ask(fetch)


def test_a_follow_goes_from_the_file_over_to_memory_without_a_gap(files: Files, small_tail: None) -> None:
    @implementer(IFollower)
    class Follower:
        def __init__(self) -> None:
            self.offsets: list[int] = []
            self.enough: Deferred[None] = Deferred()

        def deliver(self, batch: RecordBatch) -> None:
            self.offsets += range(batch.base, batch.end)
            if len(self.offsets) >= 40:
                self.enough.callback(None)

        def ended(self, failure: CommandFailed) -> None:
            self.enough.errback(failure)

    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 1))
    for at in range(20):
        driver.ask(publish(b"%d" % at))
    follower = Follower()
    producer = driver.backend.follow(q.Follow(ORDERS, 0, 0, max_records=3), driver.session, follower)
    driver.reactor.advance(0)
    for at in range(20, 40):
        driver.begin(publish(b"%d" % at))
    driver.reactor.wait(follower.enough)
    assert follower.offsets == list(range(40))
    assert not isinstance(producer, Deferred)
    producer.stopProducing()


def test_a_session_reads_what_it_wrote_without_having_waited_for_it(files: Files) -> None:
    driver = files.open()
    begun = [
        driver.begin(command)
        for command in (
            publish(b"a", create=1),
            q.Fetch(ORDERS, 0, 0),
            q.LatestOffsets(ORDERS),
            q.CommitOffsets(ORDERS, GROUP, {0: 1}),
            q.FetchOffsets(ORDERS, GROUP),
            publish(b"b"),
            q.Fetch(ORDERS, 0, 0),
        )
    ]
    outcomes = [driver.outcome(deferred) for deferred in begun]
    assert rows_of(outcomes[1])[0][2].value == b"a"
    assert outcomes[2].offsets[0].end >= 1
    assert outcomes[4].offsets == {0: 1}
    assert [record.value for _, _, record in rows_of(outcomes[6])] == [b"a", b"b"]


def test_a_session_that_never_stops_writing_is_not_kept_from_reading(files: Files) -> None:
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 1))
    order: list[str] = []
    done: Deferred[None] = Deferred()

    def write(at: int) -> None:
        deferred = driver.begin(publish(b"%d" % at))
        deferred.addCallback(lambda reply: wrote(at))

    def wrote(at: int) -> None:
        order.append(f"write {at}")
        write(at + 1) if at < 5 else done.callback(None)

    write(0)
    driver.begin(q.Fetch(ORDERS, 0, 0)).addCallback(lambda reply: order.append("read"))
    driver.reactor.wait(done)
    assert order[:2] == ["write 0", "read"]


def test_another_session_does_not_see_what_is_not_on_disk(files: Files) -> None:
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 1))
    other = Driver(driver.backend, driver.reactor, Session(2))
    begun = driver.begin(publish(b"a"))
    assert other.begin(q.Fetch(ORDERS, 0, 0)).result == Records(0, 0, 0)
    driver.reactor.wait(begun)
    assert values(other) == [b"a"]


def test_a_wait_is_over_when_the_record_is_on_disk(files: Files) -> None:
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 1))
    other = Driver(driver.backend, driver.reactor, Session(2))
    waiting = other.begin(q.Fetch(ORDERS, 0, q.Next(GROUP), wait=10.0, commit=True))
    published = driver.begin(publish(b"a"))
    assert [record.value for _, _, record in rows_of(driver.reactor.wait(waiting))] == [b"a"]
    assert published.called
    assert other.ask(q.FetchOffsets(ORDERS, GROUP)).offsets == {0: 1}
    assert driver.reactor.getDelayedCalls() == []


def test_a_read_behind_a_write_can_be_given_up(files: Files) -> None:
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 1))
    written = driver.begin(publish(b"a"))
    reading = driver.begin(q.Fetch(ORDERS, 0, 0))
    reading.addErrback(lambda failure: None)
    with capturedLogs() as events:
        reading.cancel()
        driver.reactor.wait(written)
    assert events == []


# -- what is deleted


def test_what_is_deleted_leaves_the_file_a_little_at_a_time(files: Files) -> None:
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 2, q.TopicSettings(idempotent=True)))
    begun = [driver.begin(publish(b"x", partition=at % 2)) for at in range(600)]
    begun += [driver.begin(numbered(1, 2)), driver.begin(q.CommitOffsets(ORDERS, GROUP, {0: 1, 1: 1}))]
    for deferred in begun:
        driver.reactor.wait(deferred)
    assert files.rows("SELECT count(*) FROM batches") == [(601,)]
    driver.ask(q.DeleteTopic(ORDERS))
    other = q.Topic("default", "other")
    for at in range(8):  # the writer removes some after each transaction
        driver.ask(publish(b"%d" % at, topic=other, create=1))
    files.close()
    counts = [
        files.rows(f"SELECT count(*) FROM {table}") for table in ("batches", "producers", "offsets", "partitions")
    ]
    assert counts == [[(8,)], [(0,)], [(0,)], [(1,)]]


def test_what_was_deleted_just_before_a_restart_is_removed_after_it(files: Files) -> None:
    driver = files.open()
    driver.ask(publish(b"x", create=1))
    files.close()
    stranger = sqlite3.connect(files.file, isolation_level=None)
    stranger.execute("UPDATE partitions SET gone = 1")
    stranger.execute("DELETE FROM topics")
    stranger.close()
    driver = files.open()
    assert driver.ask(q.Fetch(ORDERS, 0, 0))[0] is Fault.NO_SUCH_TOPIC
    files.close()
    assert files.rows("SELECT count(*) FROM batches") == [(0,)]


def test_a_topic_that_is_made_again_has_nothing_of_the_old_one(files: Files) -> None:
    driver = files.open()
    driver.ask(publish(b"old", create=1))
    driver.ask(q.CommitOffsets(ORDERS, GROUP, {0: 1}))
    driver.ask(q.CommitOffsets(ORDERS, q.Consumer("c"), {0: 1}))
    driver.ask(q.DeleteTopic(ORDERS))
    driver.ask(publish(b"new", create=1))
    for _ in range(2):
        assert values(driver) == [b"new"]
        assert driver.ask(q.FetchOffsets(ORDERS, GROUP))[0] is Fault.NO_SUCH_GROUP
        assert driver.ask(q.FetchOffsets(ORDERS, q.Consumer("c"))).offsets == {}
        driver = files.reopen()


def test_a_topic_deleted_under_a_read_of_the_file_is_no_defect(files: Files, small_tail: None) -> None:
    driver = files.open()
    for at in range(5):
        driver.ask(publish(b"%d" % at, create=1))
    other = Driver(driver.backend, driver.reactor, Session(2))
    reads = [other.begin(q.Fetch(ORDERS, 0, start)) for start in (0, q.FromTime(START), q.FromTime(START - 1))]
    driver.ask(q.DeleteTopic(ORDERS))
    for outcome in map(other.outcome, reads):
        assert isinstance(outcome, Records) or outcome[0] is Fault.NO_SUCH_TOPIC


# -- copies


def test_a_copy_of_a_closed_directory_is_as_good(files: Files, tmp_path: Path) -> None:
    stored = filled(files.open())
    files.close()
    copy = Files(tmp_path / "copy")
    shutil.copytree(files.directory, copy.directory)
    driver = copy.open()
    assert {partition: rows(driver, partition) for partition in stored} == stored
    copy.close()


# -- the order of what one session asks


def pipelined(driver: Driver, *commands: Command) -> list[Any]:
    """What each is answered, of commands that are all asked before any answer."""
    return [driver.outcome(deferred) for deferred in [driver.begin(command) for command in commands]]


MINE = q.JoinGroup(ORDERS, "g", "", q.WhileConnected())
READ = q.Fetch(ORDERS, None, 0, reader=GROUP)
HELD = q.FetchOffsets(ORDERS, GROUP, (None,))


def commit_held(offset: int) -> q.CommitOffsets:
    return q.CommitOffsets(ORDERS, GROUP, {None: offset}, bounded=True)


def test_a_commit_behind_a_fetch_and_a_write_is_of_the_partition_that_was_fetched(files: Files) -> None:
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 3))
    driver.ask(MINE)
    answers = pipelined(
        driver,
        *(publish(b"a", partition=partition) for partition in range(3)),
        *(READ, commit_held(1), READ, HELD, READ, publish(b"b", partition=2), commit_held(1), HELD),
    )
    assert [answers[at].partition for at in (3, 5, 7)] == [0, 1, 2]
    assert all(rows_of(answers[at]) for at in (3, 5, 7))
    assert answers[4] == answers[9] == Done()
    assert answers[6] == CommittedOffsets({}, {1: 1})
    assert answers[10].offsets == {2: 1}
    assert driver.ask(q.FetchOffsets(ORDERS, GROUP)).offsets == {0: 1, 2: 1}


def test_what_was_asked_first_looks_first_also_where_it_waits_for_more_than_one_write(files: Files) -> None:
    """The fetch has to wait for the join before it, which writes; the commit came behind a write of before that."""
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 2))
    for _ in range(20):
        answers = pipelined(driver, publish(b"a"), MINE, READ, publish(b"b"), commit_held(1), HELD, q.EndSession())
        assert (answers[2].partition, answers[4], answers[5].offsets) == (0, Done(), {0: 1})
        assert driver.ask(q.ListMemberships()).memberships == ()


def test_what_is_asked_together_is_answered_as_if_it_were_asked_in_turn(files: Files) -> None:
    driver = files.open()
    look, remove, again = q.LatestOffsets(ORDERS), q.DeleteTopic(ORDERS), q.CreateTopic(ORDERS, 2)
    for _ in range(20):
        driver.ask(q.CreateTopic(ORDERS, 1))
        asked = [publish(b"a"), look, publish(b"b"), look, remove, again, publish(b"c"), look]
        answers = pipelined(driver, *asked)
        ends = [[at.end for at in answers[place].offsets] for place in (1, 3, 7)]
        assert ends == [[1], [2], [1, 0]]
        assert (answers[4], answers[5].partitions[0].end, answers[6].base) == (Done(), 0, 0)
        driver.ask(remove)


def test_what_is_taken_is_there_for_who_asked_before_and_gone_for_who_asks_behind(files: Files) -> None:
    driver = files.open()
    for _ in range(20):
        driver.ask(q.CreateTopic(ORDERS, 1))
        peek, take, size = q.Peek(ORDERS), q.Take(ORDERS), q.QueueSize(ORDERS)
        answers = pipelined(driver, publish(b"a"), peek, take, size, publish(b"b"), size, take, size)
        assert [rows_of(answers[place])[0][2].value for place in (1, 2, 6)] == [b"a", b"a", b"b"]
        assert [answers[place] for place in (3, 5, 7)] == [Count(0), Count(1), Count(0)]
        driver.ask(q.DeleteTopic(ORDERS))


def test_what_is_asked_from_inside_an_answer_stands_behind_what_was_asked_before(files: Files) -> None:
    """As a connection does that may not have more under way: with an answer it goes on to the next command."""
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 2))
    driver.ask(MINE)
    behind: list[Deferred[Any]] = []
    written = driver.begin(publish(b"a"))
    written.addCallback(lambda reply: behind.append(driver.begin(commit_held(1))))
    first, second = driver.begin(READ), driver.begin(READ)
    second.addCallback(lambda reply: behind.append(driver.begin(HELD)))
    for begun in (written, first, second):
        driver.reactor.wait(begun)
    done, held = (driver.outcome(each) for each in behind)
    assert done == (Fault.INVALID_OFFSET, {}), "of partition 1, in which there is nothing"
    assert held == CommittedOffsets({}, {1: 0})


def test_a_fenced_commit_of_what_is_held_waits_for_the_fetch_before_it(files: Files) -> None:
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 2))
    joined = driver.ask(q.JoinGroup(ORDERS, "g", "a", q.WhileConnected()))
    assert driver.ask(READ).partition == 0
    fenced = q.CommitOffsets(ORDERS, GROUP, {None: 1}, "a", joined.generation)
    answers = pipelined(driver, publish(b"a", partition=1), READ, fenced)
    assert (answers[1].partition, answers[2]) == (1, Done())
    assert driver.ask(q.FetchOffsets(ORDERS, GROUP)).offsets == {1: 1}


def test_commits_are_not_held_up_by_what_waits_to_read(files: Files) -> None:
    """Fenced commits that may be made at once are, and who waits for what was before them does not wait for them."""
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 1))
    joined = driver.ask(q.JoinGroup(ORDERS, "g", "a", q.WhileConnected()))
    order: list[str] = []
    done: Deferred[None] = Deferred()

    def commit(at: int) -> None:
        fenced = q.CommitOffsets(ORDERS, GROUP, {0: at}, "a", joined.generation)
        driver.begin(fenced).addCallback(lambda reply: committed(at))

    def committed(at: int) -> None:
        order.append(f"commit {at}")
        commit(at + 1) if at < 5 else done.callback(None)

    commit(0)
    driver.begin(HELD).addErrback(lambda failure: order.append("read"))
    driver.reactor.wait(done)
    assert order[:2] == ["commit 0", "read"]


def test_what_stands_behind_a_join_that_makes_its_topic_finds_the_group(files: Files) -> None:
    driver = files.open()
    join = q.JoinGroup(ORDERS, "g", "", q.WhileConnected(), create=2)
    described = pipelined(driver, q.CreateNamespace("n"), join, q.DescribeGroup(ORDERS, "g"))[2]
    assert [member.assignment for member in described.members] == [(0, 1)]


def test_a_session_whose_line_is_empty_waits_for_nothing(files: Files) -> None:
    driver = files.open()
    pipelined(driver, q.CreateTopic(ORDERS, 1), MINE, READ, commit_held(0))
    assert driver.begin(q.Ping()).called
    backend = driver.backend
    assert isinstance(backend, SqliteBackend)
    assert (backend._lines, backend._newest) == ({}, {})


def test_what_stands_behind_a_read_that_writes_sees_what_it_wrote(files: Files) -> None:
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 1))
    member = q.JoinGroup(ORDERS, "g", "a", q.Heartbeats(10.0))
    commit = q.CommitOffsets(ORDERS, q.Group("g"), {0: 1}, "a", 1)
    asked = (publish(b"a"), member, q.Heartbeat(ORDERS, "g", "a", 1), commit, q.FetchOffsets(ORDERS, q.Group("g")))
    assert pipelined(driver, *asked)[1:] == [Joined("a", 1, (0,)), Done(), Done(), CommittedOffsets({0: 1}, {0: 1})]


def test_partitions_beyond_what_positions_can_hold_are_refused(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MAX_PARTITION_NUMBER", 2)
    driver = files.open()
    driver.ask(q.CreateTopic(ORDERS, 2))
    assert driver.ask(q.CreatePartitions(ORDERS, 1))[0] is Fault.INVALID_ARGUMENT
    other = q.Topic("default", "other")
    assert driver.ask(q.CreateTopic(other, 1))[0] is Fault.INVALID_ARGUMENT
    assert driver.ask(publish(b"a", topic=other, create=1))[0] is Fault.INVALID_ARGUMENT
    assert len(driver.ask(q.ListTopics("default")).topics) == 1, "nothing was made of it"
    assert driver.ask(publish(b"a")) == Published(0, 0, 0)
