"""Consumer groups over real sockets: real clients, and members of both dialects in one group.

A member that is silent for 10 s is dropped; no other time is fixed by anything but how long it takes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.replies import Outcome
from gateway.dialects.cursus.terms import Consuming
from system.members import Book, Flow, FrameMember, LineMember, Member, Read, RealConsumer
from system.peers import TIMEOUT, Frames, Lines, Row, Speaking, batch, rows, topic
from system.processes import GatewayProcess, until
from system.proxied import MaybeProxied, through, ways

SESSION_SECONDS = 10.0
"""Until a silent member is dropped."""

RECORDS = 10_000
PARTITIONS = 4
ORDERS = topic("orders")
OLD, NEW = "cursus-client==0.1.0", "cursus-client==0.1.1"


def fill(gateway: GatewayProcess, first: int, count: int) -> set[str]:
    """Records `n-first`, ... in batches of 250 to the partitions of `orders` in turn; made if it is not there."""
    values = [f"n-{number}" for number in range(first, first + count)]
    with Frames(gateway.ports["cursus"]) as peer:
        peer.create("orders", PARTITIONS)
        for at in range(0, count, 250):
            sent = [Row(0, 0, "", "", 0, value) for value in values[at : at + 250]]
            peer.publish(batch("orders", at // 250 % PARTITIONS, sent))
    return set(values)


def places(gateway: GatewayProcess) -> dict[str, tuple[int, int]]:
    """Value -> where it is, for every record of `orders`."""
    with Frames(gateway.ports["cursus"]) as peer:
        return {row.value: (at, row.offset) for at in range(PARTITIONS) for row in peer.read_all("orders", at)}


def ends(gateway: GatewayProcess, name: str = "orders") -> dict[int, int]:
    with Frames(gateway.ports["cursus"]) as peer:
        return peer.ends(name)


def committed(gateway: GatewayProcess, group: str, name: str = "orders") -> dict[int, int]:
    """Partition -> the next offset to read."""
    with Lines(gateway.ports["pipe"]) as lines:
        asked = ends(gateway, name)
        return {at: lines.committed(group, name, at) for at in asked}


# -- real clients


def consumer(gateway: GatewayProcess, client: str, name: str, mode: str, group: str = "g") -> RealConsumer:
    return RealConsumer(client, name, gateway.ports["cursus"], group, "orders", mode)


def values(*consumers: RealConsumer) -> list[str]:
    return [shown.value for each in consumers for shown in each.shown]


MODES = ["polling", "streaming"]


@pytest.mark.parametrize(("mode", "via"), through(MODES, cursus=MODES, native=[]))
def test_a_real_consumer_that_committed_gets_nothing_twice(tmp_path: Path, mode: str, via: str) -> None:
    with MaybeProxied(tmp_path, "cursus", "pipe", via=via) as gateway:
        sent = fill(gateway, 0, RECORDS)
        with consumer(gateway, NEW, "a", mode) as first:
            first.wait(RECORDS)
            until(lambda: committed(gateway, "g") == ends(gateway), TIMEOUT, "its commits")
            assert (len(first.shown), set(values(first))) == (RECORDS, sent)
            first.stop()
        gateway.kill()
        gateway.start()
        more = fill(gateway, RECORDS, 1000)
        with consumer(gateway, NEW, "a", mode) as second:
            until(lambda: committed(gateway, "g") == ends(gateway), TIMEOUT, "the commits of the second")
            assert (len(second.shown), set(values(second))) == (1000, more)


@pytest.mark.parametrize(("mode", "via"), through(MODES, cursus=["polling"], native=[]))
def test_a_real_consumer_of_0_1_0_reads_everything_never_commits_and_so_begins_again(
    tmp_path: Path, mode: str, via: str
) -> None:
    with MaybeProxied(tmp_path, "cursus", "pipe", via=via) as gateway:
        sent = fill(gateway, 0, RECORDS)
        for _ in range(2):
            with consumer(gateway, OLD, "a", mode) as each:
                each.wait(RECORDS)
                assert (len(each.shown), set(values(each))) == (RECORDS, sent)
                each.stop()
            assert committed(gateway, "g") == dict.fromkeys(range(PARTITIONS), 0)


def wrote(book: Book, gateway: GatewayProcess, *consumers: RealConsumer) -> None:
    """Enter into the book what real consumers showed."""
    where = places(gateway)
    for each in consumers:
        for shown in each.shown:
            partition, offset = where[shown.value]
            assert offset == shown.offset
            book.owned(each.name, shown.generation, shown.partitions)
            book.read(Read(each.name, shown.generation, partition, offset))


@pytest.mark.parametrize("via", ways(long=["cursus", "native"]))
def test_two_real_consumers_share_the_partitions_and_one_takes_over_when_the_other_is_killed(
    tmp_path: Path, via: str
) -> None:
    """One polls and one has streams.

    Both join before there is a record: a consumer of 0.1.1 never forgets to commit what it read of a partition that it
    has lost since, and is refused for ever.
    """
    book = Book()
    with MaybeProxied(tmp_path, "cursus", "pipe", via=via) as gateway:
        fill(gateway, 0, 0)
        with consumer(gateway, NEW, "a", "polling") as polling, consumer(gateway, NEW, "b", "streaming") as streaming:
            until(lambda: polling.generation == streaming.generation > 1, TIMEOUT, "one generation")
            generation = streaming.generation
            sent = fill(gateway, 0, 6000)
            polling.wait(500)
            streaming.wait(500)
            streaming.kill()
            reached = committed(gateway, "g")
            sent |= fill(gateway, 6000, 1000)
            until(lambda: committed(gateway, "g") == ends(gateway), SESSION_SECONDS + TIMEOUT, "a take-over")
            until(lambda: polling.generation == generation + 1, TIMEOUT, "one generation more")
            wrote(book, gateway, polling, streaming)
            for partition, following in reached.items():
                book.committed(generation, partition, following)
            assert book.complaints(ends(gateway)) == []
            then = [shown for each in (polling, streaming) for shown in each.shown if shown.generation == generation]
            assert {shown.partitions for shown in then} == {(0, 1), (2, 3)}
            assert set(values(polling, streaming)) == sent
            polling.stop()


@pytest.mark.parametrize("via", ways("cursus", long=["native"]))
def test_a_real_consumer_of_0_1_0_never_learns_that_the_group_has_changed(tmp_path: Path, via: str) -> None:
    """Its heartbeats are refused and it does not mind: it goes on in its generation, and everything is read."""
    book = Book()
    with MaybeProxied(tmp_path, "cursus", "pipe", via=via) as gateway:
        fill(gateway, 0, 1000)
        with consumer(gateway, OLD, "a", "polling") as first, consumer(gateway, OLD, "b", "streaming") as second:
            until(lambda: first.generation and second.generation, TIMEOUT, "two members")
            newer = max(first, second, key=lambda each: each.generation)
            older = first if newer is second else second
            older.wait(1000)
            newer.wait(500)
            sent = fill(gateway, 1000, 1000)
            older.wait(2000)
            newer.wait(1000)
            wrote(book, gateway, first, second)
            assert book.complaints(ends(gateway)) == []
            assert {shown.generation for shown in older.shown} == {1}
            assert {(shown.generation, shown.partitions) for shown in newer.shown} in ({(2, (0, 1))}, {(2, (2, 3))})
            assert set(values(older)) >= sent
            first.stop()
            second.stop()


# -- members of both dialects in one group


def member(kind: type[Member], name: str, book: Book, gateway: GatewayProcess, group: str) -> Member:
    found = kind(name, book, gateway.ports["pipe" if kind is LineMember else "cursus"], group, "orders")
    found.start()
    return found


def settled(*members: Member) -> bool:
    """They own all partitions between them, in one generation."""
    for each in members:
        each.check()
    owned = sorted(partition for each in members for partition in each.owned)
    return owned == list(range(6)) and len({each.generation for each in members}) == 1


@contextmanager
def flowing(gateway: GatewayProcess) -> Iterator[Flow]:
    """Records are written to the six partitions of `orders` all the time."""
    with Frames(gateway.ports["cursus"]) as peer:
        peer.create("orders", 6)
    flow = Flow(gateway.ports["cursus"], "orders", 6)
    flow.start()
    try:
        yield flow
    finally:
        flow.finish()


def read_by_each(book: Book, *members: Member) -> Callable[[], bool]:
    """Whether each of them has read a hundred records more than now."""
    before = [book.count(each.name) for each in members]
    return lambda: all(book.count(each.name) > count + 100 for each, count in zip(members, before, strict=True))


def in_a_later_generation(*members: Member) -> Callable[[], bool]:
    """Whether all of them have gone on to another generation than now."""
    before = max(each.generation for each in members)
    return lambda: min(each.generation for each in members) > before


def finished(gateway: GatewayProcess, group: str, book: Book, *members: Member) -> None:
    """What was written is read and committed to the end; nothing is wrong."""
    until(lambda: committed(gateway, group) == ends(gateway), TIMEOUT, f"the end of {group}")
    for each in members:
        each.finish()
    assert book.complaints(ends(gateway)) == []


def test_a_v1_and_a_cursus_member_share_a_group_and_either_takes_over_when_the_other_falls_silent(
    tmp_path: Path,
) -> None:
    """In two groups at a time: in one the V1 member falls silent, in the other the Cursus member."""
    one, other = Book(), Book()
    with GatewayProcess(tmp_path, "cursus", "pipe") as gateway:
        with flowing(gateway):
            victims = [
                member(LineMember, "a", one, gateway, "one"),
                member(FrameMember, "a", other, gateway, "other"),
            ]
            until(lambda: all(settled(each) for each in victims), TIMEOUT, "groups of one")
            heirs = [
                member(FrameMember, "b", one, gateway, "one"),
                member(LineMember, "b", other, gateway, "other"),
            ]
            groups = list(zip(victims, heirs, strict=True))
            until(lambda: all(settled(*group) for group in groups), TIMEOUT, "groups of two")
            assert [[len(each.owned) for each in group] for group in groups] == [[3, 3], [3, 3]]
            until(read_by_each(one, *groups[0]), TIMEOUT, "records for both")
            until(read_by_each(other, *groups[1]), TIMEOUT, "records for both")
            for victim in victims:
                victim.die()
            gone = time.monotonic()
            until(lambda: all(settled(each) for each in heirs), SESSION_SECONDS + TIMEOUT, "take-overs")
            assert time.monotonic() - gone > SESSION_SECONDS - 1.0, "a silent member is waited for"
            until(read_by_each(one, heirs[0]), TIMEOUT, "records for the heir")
            until(read_by_each(other, heirs[1]), TIMEOUT, "records for the heir")
        finished(gateway, "one", one, heirs[0])
        finished(gateway, "other", other, heirs[1])


@pytest.mark.parametrize("backend", ["memory", "sqlite:records"])
def test_members_come_and_leave_while_records_flow_and_each_is_read_and_committed_once(
    tmp_path: Path, backend: str
) -> None:
    book = Book()
    with GatewayProcess(tmp_path, "cursus", "pipe", backend=backend) as gateway:
        with flowing(gateway):
            group = [member(kind, name, book, gateway, "g") for kind, name in ((LineMember, "a"), (FrameMember, "b"))]
            for kind, name in ((FrameMember, "c"), (LineMember, "d"), (FrameMember, "e"), (LineMember, "f")):
                until(lambda: settled(*group), TIMEOUT, "a settled group")
                until(read_by_each(book, *group), TIMEOUT, "records")
                group.append(member(kind, name, book, gateway, "g"))
                until(lambda: settled(*group), TIMEOUT, "a settled group")
                group.pop(0).leave()
            until(lambda: settled(*group), TIMEOUT, "a settled group")
        finished(gateway, "g", book, *group)


def test_what_was_committed_before_the_gateway_was_killed_is_not_delivered_again(tmp_path: Path) -> None:
    """Nor does a generation ever come twice."""
    book = Book()
    with GatewayProcess(tmp_path, "cursus", "pipe") as gateway:
        with flowing(gateway):
            group = [member(kind, name, book, gateway, "g") for kind, name in ((LineMember, "a"), (FrameMember, "b"))]
            for _ in range(2):
                until(lambda: settled(*group), TIMEOUT, "a settled group")
                until(read_by_each(book, *group), TIMEOUT, "records")
                gateway.kill()
                later = in_a_later_generation(*group)
                gateway.start()
                until(later, TIMEOUT, "a new generation")
            until(read_by_each(book, *group), TIMEOUT, "records")
        finished(gateway, "g", book, *group)


def test_a_member_that_joins_again_under_the_name_it_was_given_is_the_same_one(tmp_path: Path) -> None:
    """Both Python clients join like that; were they others each time, two of them would never settle."""
    with GatewayProcess(tmp_path, "cursus", backend="memory") as gateway, Frames(gateway.ports["cursus"]) as peer:
        peer.create("orders", 2)

        def join(name: str) -> r.Joined:
            return peer.sure(q.JoinGroup(ORDERS, "g", name, q.Heartbeats(), distinct=True), r.Joined)

        a, b = join("a").member, join("b").member
        assert join(a) == r.Joined(a, 2, (0,))
        assert join(b) == r.Joined(b, 2, (1,))
        peer.sure(q.Heartbeat(ORDERS, "g", a, 2), r.Done)
        c = join("a")
        assert (c.generation, c.member != a) == (3, True), "another process with the same name is another"


# -- a connection for every request

CONNECTIONS = 1500
SECONDS = 15.0
"""For so many connections; 500 in each second are promised, and this is five times what that takes."""


def ask_alone(port: int, dialect: str, command: q.Command, context: object = None) -> Outcome:
    """One request on a connection of its own."""
    with Speaking(dialect, port) as peer:
        return peer.ask(command, context)


def turns(dialect: str, group: str, joined: r.Joined) -> list[tuple[q.Command, object, Callable[[Outcome], bool]]]:
    """What a member asks again and again, how it is said, and whether it is answered as it should be."""
    reader, who = q.Group(group), (joined.member, joined.generation)
    said = Consuming("CONSUME", member=who[0], generation=who[1])
    return [
        (q.Heartbeat(ORDERS, group, *who), None, lambda told: told == r.Done()),
        (
            q.Fetch(ORDERS, 0, 0 if dialect == "pipe" else q.Next(reader)),
            None if dialect == "pipe" else said,
            lambda told: isinstance(told, r.Records) and [row.value for row in rows(*told.batches)] == ["v"],
        ),
        (q.CommitOffsets(ORDERS, reader, {0: 0}, *who), None, lambda told: told == r.Done()),
    ]


def come_and_go(gateway: GatewayProcess, dialect: str, group: str, count: int) -> int:
    """A member with that many connections, one after the other.  Returns how many; fails if one was in vain."""
    port = gateway.ports[dialect]
    joined = ask_alone(port, dialect, q.JoinGroup(ORDERS, group, "m", q.Heartbeats(), distinct=dialect == "cursus"))
    assert isinstance(joined, r.Joined), joined
    asked = turns(dialect, group, joined)
    for at in range(count - 1):
        command, said, is_right = asked[at % len(asked)]
        told = ask_alone(port, dialect, command, said)
        assert is_right(told), (command, told)
    return count


def descriptors(gateway: GatewayProcess) -> int:
    return len(os.listdir(f"/proc/{gateway.pid}/fd"))


def test_members_may_come_with_a_new_connection_for_every_request(tmp_path: Path) -> None:
    """Six at a time, three of each dialect."""
    with GatewayProcess(tmp_path, "cursus", "pipe") as gateway, ThreadPoolExecutor(6) as pool:
        with Frames(gateway.ports["cursus"]) as peer:
            peer.create("orders", 1)
            peer.publish(batch("orders", 0, [Row(0, 0, "", "", 0, "v")]))
        before = descriptors(gateway)
        began = time.monotonic()
        coming = [
            pool.submit(come_and_go, gateway, dialect, f"{dialect}{at}", CONNECTIONS // 6)
            for dialect in ("cursus", "pipe")
            for at in range(3)
        ]
        assert sum(each.result() for each in coming) == CONNECTIONS
        assert time.monotonic() - began < SECONDS
        until(lambda: descriptors(gateway) <= before, TIMEOUT, "the end of every connection")
