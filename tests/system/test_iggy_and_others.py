"""Iggy's clients and programs that speak other dialects, on the same topics and in the same group."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path

import pytest

from system.iggy_processes import LATEST, IggyGateway, IggyMember, committed, ends, status
from system.members import CLIENTS, Book, FrameMember, LineMember, Read, RealConsumer
from system.peers import TIMEOUT, Frames, Lines, Row, batch
from system.processes import GatewayProcess, environment, until

CURSUS = "cursus-client==0.1.1"
READERS = (LATEST, "iggy-py==0.4.0")
RECORDS = 10_000
SECONDS = 60.0
"""For one run of a producer; it takes two."""

ODD = ["caf\u00e9\u4e16\u754c\U0001f600", "a:b|c=d", "\\\"'", "x" * 60_000]
"""Values that a dialect might do something to.  V1 separates by commas what it reads, and by spaces what it is sent."""


def produce(gateway: GatewayProcess, topic: str, partitions: int) -> None:
    """Have cursus-client write `n-0`, `n-1`, ... under 97 keys."""
    address = f"127.0.0.1:{gateway.ports['cursus']}"
    program = Path(__file__).with_name("cursus_producer.py")
    done = subprocess.run(
        [sys.executable, "-W", "error", program, address, topic, str(partitions), str(RECORDS), "plain"],
        env=environment(CLIENTS / CURSUS),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (done.stdout, done.stderr) == (f"{RECORDS}\n", "")


def read(gateway: IggyGateway, client: str, topic: str, partitions: int) -> dict[int, list[bytes]]:
    """What one of Iggy's clients finds in a topic of the stream `default`: partition -> values."""
    found: dict[int, list[bytes]] = defaultdict(list)
    with gateway.client(client).login() as peer:
        described = peer.call("get_topic", "default", topic)
        for at in range(partitions):
            while more := peer.poll("default", topic, at, {"Offset": [len(found[at])]}, 1000, False):
                assert [each["offset"] for each in more] == list(range(len(found[at]), len(found[at]) + len(more)))
                found[at] += [bytes.fromhex(each["payload"]) for each in more]
        assert described["messages_count"] == sum(map(len, found.values()))
        peer.stop()
    return found


def test_what_an_iggy_client_produced_is_read_by_cursus_client_and_by_v1_lines(tmp_path: Path) -> None:
    values = [*ODD, "with hw=7", "\ttab", *(f"n-{number}" for number in range(1000))]
    with IggyGateway(tmp_path, LATEST, "cursus", "pipe") as gateway:
        with gateway.client(LATEST).login() as peer:
            peer.create_topic("default", "orders", 3)
            for at in range(3):
                peer.send("default", "orders", at, values)
            peer.stop()
        with Lines(gateway.ports["pipe"]) as lines:
            assert [lines.read_all("orders", at) for at in range(3)] == [values] * 3
        with RealConsumer(CURSUS, "a", gateway.ports["cursus"], "g", "orders", "polling") as consumer:
            consumer.wait(3 * len(values))
            shown = [(each.offset, each.value) for each in consumer.shown]
            assert sorted(shown) == sorted(list(enumerate(values)) * 3)
            until(lambda: committed(gateway, "g", "orders") == ends(gateway, "orders"), TIMEOUT, "its commits")
            consumer.stop()


@pytest.mark.parametrize("client", READERS)
def test_what_cursus_client_and_v1_lines_produced_is_read_by_iggy_clients(tmp_path: Path, client: str) -> None:
    with IggyGateway(tmp_path, client, "cursus", "pipe") as gateway:
        produce(gateway, "orders", 3)
        with Lines(gateway.ports["pipe"]) as lines:
            sent = [*ODD, "", "w,i,t,h"]
            places = [lines.produce("orders", f"key{at}", value) for at, value in enumerate(sent)]
        with Frames(gateway.ports["cursus"]) as frames:
            expected = [[row.value for row in frames.read_all("orders", at)] for at in range(3)]
        found = read(gateway, client, "orders", 3)
        assert [found[partition][offset].decode() for partition, offset in places] == sent
        assert [[value.decode() for value in found[at]] for at in range(3)] == expected
        numbers = sorted(int(value[2:]) for at in range(3) for value in found[at] if value.startswith(b"n-"))
        assert numbers == list(range(RECORDS))


def test_producers_of_three_dialects_write_one_topic_and_a_consumer_of_each_reads_all_of_it(tmp_path: Path) -> None:
    """All at the same time; each writes in its own order."""
    with IggyGateway(tmp_path, LATEST, "cursus", "pipe") as gateway:
        with Frames(gateway.ports["cursus"]) as frames:
            frames.create("orders", 1)
        writer = threading.Thread(target=produce, args=(gateway, "orders", 1))
        writer.start()
        with gateway.client(LATEST).login() as peer, Lines(gateway.ports["pipe"]) as lines:
            for at in range(100):
                peer.send("default", "orders", 0, [f"i-{at * 10 + each}" for each in range(10)])
                for each in range(10):
                    lines.produce("orders", "key", f"v-{at * 10 + each}")
            writer.join()
            peer.stop()
            by_lines = lines.read_all("orders", 0)
        by_iggy = [value.decode() for value in read(gateway, LATEST, "orders", 1)[0]]
        with RealConsumer(CURSUS, "a", gateway.ports["cursus"], "g", "orders", "polling") as consumer:
            consumer.wait(len(by_lines))
            by_cursus = [each.value for each in sorted(consumer.shown, key=lambda shown: shown.offset)]
            consumer.stop()
    assert by_lines == by_iggy == by_cursus
    for who, count in (("n-", RECORDS), ("i-", 1000), ("v-", 1000)):
        numbers = [int(value[2:]) for value in by_lines if value.startswith(who)]
        assert sorted(numbers) == list(range(count)), who
        assert who == "n-" or numbers == sorted(numbers), "what waits for its answer keeps its order"


# -- a group with a member of each dialect

PARTITIONS = 6


def write(gateway: GatewayProcess, first: int, count: int) -> None:
    """So many records to each partition; in partition p at offset n it is `p.n`."""
    with Frames(gateway.ports["cursus"]) as peer:
        for start in range(first, first + count, 100):
            for partition in range(PARTITIONS):
                sent = [Row(0, 0, "", "", 0, f"{partition}.{start + at}") for at in range(100)]
                peer.publish(batch("orders", partition, sent))


def settled(gateway: GatewayProcess, count: int, *members: FrameMember | LineMember) -> bool:
    """The group has so many members, and these know what they own in its generation."""
    for each in members:
        each.check()
    found = status(gateway, "g")
    owned = {tuple(sorted(each)) for each in found.owned}
    known = all(each.generation == found.generation and tuple(each.owned) in owned for each in members)
    return known and len(found.owned) == count and sum(map(len, owned)) == PARTITIONS


def enter(book: Book, iggy: IggyMember, generation: int, partitions: set[int]) -> None:
    """What Iggy's member showed; it is told no generation."""
    book.owned("iggy", generation, partitions)
    for shown in iggy.shown:
        partition, offset = map(int, shown.payload.split("."))
        assert offset == shown.offset
        book.read(Read("iggy", generation, partition, offset))


def test_a_group_with_a_member_of_each_dialect_hands_each_record_to_one_of_them(tmp_path: Path) -> None:
    """And when Iggy's ends, the others go on where it was."""
    book = Book()
    with IggyGateway(tmp_path, LATEST, "cursus", "pipe") as gateway:
        with Frames(gateway.ports["cursus"]) as peer:
            peer.create("orders", PARTITIONS)
        line = LineMember("line", book, gateway.ports["pipe"], "g", "orders")
        frame = FrameMember("frame", book, gateway.ports["cursus"], "g", "orders")
        with IggyMember(LATEST, gateway.ports["iggy"], "default", "orders", "g") as iggy:
            line.start()
            frame.start()
            until(lambda: settled(gateway, 3, line, frame), TIMEOUT, "a group of three")
            generation = line.generation
            write(gateway, 0, 1000)
            until(lambda: committed(gateway, "g", "orders") == ends(gateway, "orders"), TIMEOUT, "the end")
            iggy.wait(2000)
            enter(book, iggy, generation, set(range(PARTITIONS)) - {*line.owned, *frame.owned})
            assert {name: book.count(name) for name in ("line", "frame", "iggy")} == {
                "line": 2000,
                "frame": 2000,
                "iggy": 2000,
            }
            assert book.complaints(ends(gateway, "orders")) == []
            iggy.stop()
            until(lambda: settled(gateway, 2, line, frame), TIMEOUT, "a group of two")
            write(gateway, 1000, 100)
            until(lambda: committed(gateway, "g", "orders") == ends(gateway, "orders"), TIMEOUT, "the end")
        line.finish()
        frame.finish()
        assert (book.count("iggy"), book.count("line", "frame")) == (2000, 4000 + 600)
        assert book.complaints(ends(gateway, "orders")) == []
