"""Maps, counters and queues of the grid over real sockets, and the same topics as other dialects see them.

What the grid says is laid out by its specification wherever our own client half is not what is tested with.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from dialects.grid_frames import NAMES, frame, i32, i64
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.records import Record, canonical
from gateway.dialects.grid import spec
from gateway.dialects.grid.terms import Asked
from system.iggy_processes import LATEST, IggyGateway
from system.members import CLIENTS
from system.peers import TIMEOUT, Frames, Lines, Stream, rows, topic
from system.processes import GatewayProcess, environment, until
from system.speaking import Speaking

MEMORY, SQLITE = "memory", "sqlite:records"
BACKENDS = (MEMORY, SQLITE)
CURSUS = "cursus-client==0.1.1"

OK, NOT_FOUND, CONDITION_FAILED = 0, 1, 2
BUSY = 8


class Said(NamedTuple):
    """An answer of the grid."""

    status: int
    value: bytes


class Grid(Stream):
    """Frames of the grid by its specification."""

    def ask(self, operation: str, name: str, key: bytes = b"", value: bytes = b"", sender: bytes | None = None) -> Said:
        """The answer to one operation."""
        self.begin(operation, name, key, value, sender)
        return self.answer()

    def begin(
        self, operation: str, name: str, key: bytes = b"", value: bytes = b"", sender: bytes | None = None
    ) -> None:
        """Send it."""
        self.send(frame(operation, 7, name.encode(), key, value, sender=sender))

    def answer(self) -> Said:
        """The next one; RESPONSE_OK, or RESPONSE_SERVER_BUSY."""
        head = spec.HEADER.parse(self.exactly(spec.HEADER.sizeof()))
        said = NAMES[head.opcode]
        assert (head.correlation, head.flags, head.key_length, head.name_length, head.version) == (7, 0, 0, 0, 2)
        assert said == "RESPONSE_OK" or (said, head.status) == ("RESPONSE_SERVER_BUSY", BUSY), head
        return Said(head.status, self.exactly(head.length))


# -- one record, five dialects

KEYED = 970
"""Records of cursus-client, under 97 keys."""


class Views(NamedTuple):
    """What clients find.

    users, notes: who -> the values of each partition.  maps: what the grid has for a key.  keyed: a whole map.
    """

    users: dict[str, list[list[str]]]
    notes: dict[str, list[list[str]]]
    maps: dict[str, Said]
    keyed: dict[str, str]


def produce_with_cursus_client(gateway: GatewayProcess) -> None:
    """`n-0`, `n-1`, ... under the keys key0 to key96 in turn."""
    program = Path(__file__).with_name("cursus_producer.py")
    address = f"127.0.0.1:{gateway.ports['cursus']}"
    done = subprocess.run(
        [sys.executable, "-W", "error", program, address, "keyed", "3", str(KEYED), "plain"],
        env=environment(CLIENTS / CURSUS),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert (done.stdout, done.stderr) == (f"{KEYED}\n", "")


def write(gateway: GatewayProcess) -> None:
    """To `users` with V1 and the grid, to `notes` with mlog and the grid, to `keyed` with cursus-client."""
    ports = gateway.ports
    with Lines(ports["pipe"]) as lines, Grid(ports["grid"]) as grid:
        lines.produce("users", "user1", "created")
        lines.produce("users", "user1", "paid")
        assert grid.ask("MAP_PUT", "users", b"user2", b"by hand") == (OK, b"")
        assert grid.ask("MAP_PUT", "users", b"user3", b"not for long") == (OK, b"")
        assert grid.ask("MAP_DELETE", "users", b"user3") == (OK, b"")
    with Speaking("grid", ports["grid"]) as ours, Speaking("mlog", ports["mlog"]) as writer:
        writer.sure(q.CreateTopic(topic("notes"), 1), r.TopicDescription)
        for at, value in enumerate((b"without a key", b"nor this")):
            said = writer.ask(q.Publish(topic("notes"), 0, canonical([Record(value=value)])))
            assert said == r.Published(0, at, at)
        assert ours.ask(q.MapPut(topic("notes"), b"k", b"with one")) == r.MapChanged(True)
        assert ours.ask(q.MapRemove(topic("notes"), b"k")) == r.MapChanged(True, b"with one")
    produce_with_cursus_client(gateway)


def look(gateway: IggyGateway) -> Views:
    ports = gateway.ports
    with Lines(ports["pipe"]) as lines, Frames(ports["cursus"]) as frames:
        users = {"pipe": [lines.read_all("users", at) for at in range(3)]}
        users["cursus"] = [[row.value for row in frames.read_all("users", at)] for at in range(3)]
        notes = {"pipe": [lines.read_all("notes", 0)]}
        notes["cursus"] = [[row.value for row in frames.read_all("notes", 0)]]
    with Speaking("mlog", ports["mlog"]) as logs:
        found = logs.sure(q.Fetch(topic("notes"), 0, 0, 100), r.Records)
        notes["mlog"] = [[row.value for each in found.batches for row in rows(each)]]
    with gateway.client(LATEST).login() as iggy:
        for name, seen, partitions in (("users", users, 3), ("notes", notes, 1)):
            polls = [iggy.poll("default", name, at, {"Offset": [0]}, 100, False) for at in range(partitions)]
            seen["iggy"] = [[bytes.fromhex(each["payload"]).decode() for each in poll] for poll in polls]
        iggy.stop()
    with Grid(ports["grid"]) as grid:
        maps = {key: grid.ask("MAP_GET", "users", key.encode()) for key in ("user1", "user2", "user3", "user4")}
        maps["k"] = grid.ask("MAP_GET", "notes", b"k")
    with Speaking("grid", ports["grid"]) as ours:
        entries = ours.ask(q.MapScan(topic("keyed")))
        assert isinstance(entries, r.MapEntries)
    return Views(users, notes, maps, {key.decode(): value.decode() for key, value in entries.entries})


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_map_is_the_topic_of_its_name_and_the_other_way_round(tmp_path: Path, backend: str) -> None:
    """A remove is an empty value to who reads the log, and nothing to who asks the map; after a crash, too."""
    with IggyGateway(tmp_path, LATEST, "pipe", "cursus", "grid", "mlog", backend=backend) as gateway:
        write(gateway)
        found = look(gateway)
        assert set(found.users) == {"pipe", "cursus", "iggy"}
        for seen in found.users.values():
            assert seen == found.users["pipe"]
            in_order = [[value for value in values if value in ("created", "paid")] for values in seen]
            assert sorted(in_order) == [[], [], ["created", "paid"]]
            every = sorted(value for values in seen for value in values)
            assert every == ["", "by hand", "created", "not for long", "paid"]
        notes = [["without a key", "nor this", "with one", ""]]
        assert found.notes == {"pipe": notes, "cursus": notes, "mlog": notes, "iggy": notes}
        assert found.maps == {
            "user1": (OK, b"paid"),
            "user2": (OK, b"by hand"),
            "user3": (NOT_FOUND, b""),
            "user4": (NOT_FOUND, b""),
            "k": (NOT_FOUND, b""),
        }
        assert found.keyed == {f"key{at % 97}": f"n-{at}" for at in range(KEYED - 97, KEYED)}
        if backend == SQLITE:
            gateway.kill()
            gateway.start()
            assert look(gateway) == found


# -- races

RACES = 10_000
"""Updates in all, of two clients."""


class Race:
    """Two threads that each do something many times; what goes wrong in one is raised at the end."""

    def __init__(self, *runners: Callable[[], list[int]]) -> None:
        self.found: list[list[int]] = [[] for _ in runners]
        self._failures: list[BaseException] = []
        self._together = threading.Barrier(len(runners))
        self._threads = [threading.Thread(target=self._run, args=pair) for pair in enumerate(runners)]

    def run(self) -> None:
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()
        for failure in self._failures:
            raise failure

    def _run(self, at: int, runner: Callable[[], list[int]]) -> None:
        try:
            self._together.wait(TIMEOUT)
            self.found[at] = runner()
        except BaseException as failure:
            self._failures.append(failure)


def race(one: Callable[[], bool], another: Callable[[], bool]) -> list[int]:
    """How often each was refused while each of them did half of all updates."""

    def updates(update: Callable[[], bool]) -> list[int]:
        done = refused = 0
        while done < RACES // 2:
            if update():
                done += 1
            else:
                refused += 1
        return [refused]

    both = Race(lambda: updates(one), lambda: updates(another))
    both.run()
    return [refused for [refused] in both.found]


def items(*octets: bytes) -> bytes:
    """Each behind its length."""
    return b"".join(spec.ITEM.build({"length": len(each), "octets": each}) for each in octets)


def swap_by_hand(peer: Grid) -> bool:
    """Read, and replace by the next number if it is still what was read."""
    old = peer.ask("MAP_GET", "race", b"n").value
    new = b"%d" % (int(old) + 1)
    said = peer.ask("MAP_REPLACE_CAS", "race", b"n", items(old, new))
    assert said in ((OK, b"\1"), (CONDITION_FAILED, b"\0"))
    return said.status == OK


def swap(peer: Speaking) -> bool:
    read = peer.ask(q.MapGet(topic("race"), b"n"))
    assert isinstance(read, r.MapValue) and read.value is not None
    put = q.MapPut(topic("race"), b"n", b"%d" % (int(read.value) + 1), only=q.IfEquals(read.value))
    changed = peer.ask(put)
    assert isinstance(changed, r.MapChanged)
    return changed.done


def count_by_hand(peer: Grid) -> bool:
    """The same with a counter."""
    old = spec.Int64sb.parse(peer.ask("COUNTER_GET", "counted").value)
    said = peer.ask("COUNTER_CAS", "counted", b"", i64(old) + i64(old + 1))
    assert said in ((OK, b"\1"), (CONDITION_FAILED, b"\0"))
    return said.status == OK


def count(peer: Speaking) -> bool:
    read = peer.ask(q.MapGet(topic("counted"), b"counted"), Asked(opcode="COUNTER_GET", keyed=False))
    assert isinstance(read, r.MapValue) and read.value is not None
    old = int(read.value)
    put = q.MapPut(topic("counted"), b"counted", b"%d" % (old + 1), only=q.IfCount(old), create=1)
    changed = peer.ask(put, Asked(opcode="COUNTER_CAS"))
    assert isinstance(changed, r.MapChanged)
    return changed.done


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_clients_that_race_for_compare_and_set_lose_no_update(tmp_path: Path, backend: str) -> None:
    with GatewayProcess(tmp_path, "grid", "pipe", backend=backend) as gateway:
        port = gateway.ports["grid"]
        with Grid(port) as by_hand, Speaking("grid", port) as ours:
            assert by_hand.ask("MAP_PUT", "race", b"n", b"0") == (OK, b"")
            refused = race(lambda: swap_by_hand(by_hand), lambda: swap(ours))
            assert by_hand.ask("MAP_GET", "race", b"n") == (OK, b"%d" % RACES)
            assert sum(refused) > 0, "they did not race"
        with Lines(gateway.ports["pipe"]) as lines:
            assert lines.read_all("race", 0) == [*map(str, range(RACES + 1))], "each update is a record"


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_clients_that_race_for_a_counter_lose_no_update(tmp_path: Path, backend: str) -> None:
    with GatewayProcess(tmp_path, "grid", "pipe", backend=backend) as gateway:
        port = gateway.ports["grid"]
        with Grid(port) as by_hand, Speaking("grid", port) as ours:
            refused = race(lambda: count_by_hand(by_hand), lambda: count(ours))
            assert by_hand.ask("COUNTER_GET", "counted") == (OK, i64(RACES))
            assert sum(refused) > 0, "they did not race"
        with Lines(gateway.ports["pipe"]) as lines:
            assert lines.read_all("counted", 0) == [*map(str, range(1, RACES + 1))], "anybody can read it"


def increments_by_hand(port: int) -> list[int]:
    """What the counter was after each; all are sent before an answer is read."""
    with Grid(port) as peer:
        sent = threading.Thread(target=lambda: [peer.begin("COUNTER_INCREMENT", "steps") for _ in range(RACES // 2)])
        sent.start()
        found = [spec.Int64sb.parse(peer.answer().value) for _ in range(RACES // 2)]
        sent.join()
    return found


def increments(port: int) -> list[int]:
    add = q.MapAdd(topic("steps"), b"steps", 1, create=1)
    found = []
    with Speaking("grid", port) as peer:
        for _ in range(RACES // 2 // 100):
            for outcome in peer.ask_all([add] * 100, Asked(opcode="COUNTER_INCREMENT", keyed=False)):
                assert isinstance(outcome, r.Count), outcome
                found.append(outcome.value)
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_counter_gives_each_number_once(tmp_path: Path, backend: str) -> None:
    with GatewayProcess(tmp_path, "grid", backend=backend) as gateway:
        port = gateway.ports["grid"]
        both = Race(lambda: increments_by_hand(port), lambda: increments(port))
        both.run()
        assert all(found == sorted(found) for found in both.found)
        assert sorted([*both.found[0], *both.found[1]]) == [*range(1, RACES + 1)]


# -- queues

ITEMS = 2000


def take_by_hand(port: int) -> list[int]:
    """Until there is nothing more."""
    found = []
    with Grid(port) as peer:
        while (said := peer.ask("QUEUE_POLL", "jobs")).status == OK:
            found.append(int(said.value))
    assert said == (NOT_FOUND, b"")
    return found


def take(port: int) -> list[int]:
    found = []
    with Speaking("grid", port) as peer:
        while True:
            records = peer.ask(q.Take(topic("jobs")))
            assert isinstance(records, r.Records), records
            if not records.batches:
                return found
            [record] = records.batches[0].records()
            found.append(int(record.value or b""))


class Cut:
    """A taker whose connection is cut with a request on the way, which it repeats on another one.

    lost: it was told that the first attempt may have been carried out.
    """

    def __init__(self, port: int) -> None:
        self.lost = False
        self._port = port

    def take(self) -> list[int]:
        with Grid(self._port) as peer:
            found = [int(peer.ask("QUEUE_POLL", "jobs", sender=b"cut:%d" % at).value) for at in range(20)]
            peer.begin("QUEUE_POLL", "jobs", sender=b"cut:20")
        with Grid(self._port) as peer:
            said = peer.ask("QUEUE_POLL", "jobs", sender=b"cut:20")
            self.lost = said.status == BUSY
            assert self.lost or said.status == OK
            again = [] if self.lost else [peer.ask("QUEUE_POLL", "jobs", sender=b"cut:20")]
            assert again in ([], [said]), "a repetition takes nothing"
        return [*found, *([] if self.lost else [int(said.value)]), *take_by_hand(self._port)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_item_of_a_queue_goes_to_one_taker(tmp_path: Path, backend: str) -> None:
    """And one that was under way to a connection that was cut, to that one or to nobody."""
    with GatewayProcess(tmp_path, "grid", backend=backend) as gateway:
        port = gateway.ports["grid"]
        with Grid(port) as peer:
            for at in range(ITEMS):
                peer.begin("QUEUE_OFFER", "jobs", value=b"%d" % at)
            assert {peer.answer() for _ in range(ITEMS)} == {(OK, b"\1")}
        cut = Cut(port)
        takers = Race(cut.take, lambda: take_by_hand(port), lambda: take(port), lambda: take(port))
        takers.run()
        assert all(found == sorted(found) for found in takers.found)
        times = Counter(item for found in takers.found for item in found)
        assert set(times.values()) == {1}
        assert len(times) == ITEMS - cut.lost
        with Grid(port) as peer:
            assert peer.ask("QUEUE_SIZE", "jobs") == (OK, bytes(4))


# -- time

TTL = 1.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_value_with_a_time_to_live_goes_by_itself_and_stays_in_the_log(tmp_path: Path, backend: str) -> None:
    with GatewayProcess(tmp_path, "grid", "pipe", backend=backend) as gateway:
        with Grid(gateway.ports["grid"]) as grid:
            grid.ask("MAP_PUT", "cache", b"kept", b"as well")
            began = time.monotonic()
            grid.ask("MAP_PUT_WITH_TTL", "cache", b"long", i64(3_600_000) + b"an hour")
            grid.ask("MAP_PUT_WITH_TTL", "cache", b"short", i64(round(TTL * 1000)) + b"a second")
            said = grid.ask("MAP_GET", "cache", b"short")
            assert said == (OK, b"a second") or time.monotonic() - began > TTL
        if backend == SQLITE:
            gateway.kill()
            gateway.start()
        with Grid(gateway.ports["grid"]) as grid:
            until(lambda: grid.ask("MAP_GET", "cache", b"short") == (NOT_FOUND, b""), 20 * TTL, "its end")
            assert time.monotonic() - began >= TTL
            assert grid.ask("MAP_GET", "cache", b"long") == (OK, b"an hour")
            assert grid.ask("MAP_GET", "cache", b"kept") == (OK, b"as well")
            entries = i32(2) + items(b"kept", b"as well", b"long", b"an hour")
            assert grid.ask("MAP_GET_ALL", "cache") == (OK, entries)
        with Lines(gateway.ports["pipe"]) as lines:
            assert lines.read_all("cache", 0) == ["as well", "an hour", "a second"]
