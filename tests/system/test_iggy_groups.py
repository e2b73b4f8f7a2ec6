"""Iggy's clients of four versions in consumer groups: who owns what, and who goes on where another has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from system.iggy_processes import (
    APACHE,
    LATEST,
    IggyClient,
    IggyGateway,
    IggyMember,
    Shown,
    committed,
    status,
)
from system.peers import TIMEOUT
from system.processes import GatewayProcess, until
from system.proxied import ways

PARTITIONS = 3
EACH = 500
"""Messages that are written to each partition before a member ends, and as many after."""

ROUNDS = 30
"""Of two consumers that make a group at once: in most of them they meet."""

PAIRS = list(zip(APACHE, (*APACHE[1:], APACHE[0]), strict=True))
"""Who ends, and who stays: the oldest with the latest, too, who number partitions otherwise."""


def pairs(*always: str) -> list[object]:
    """With the way to the gateway.  always: proxies that the latest and the oldest go through in every run."""
    found: list[object] = [pytest.param(*pair, "", id="-".join(pair)) for pair in PAIRS]
    for via in ("iggy", "native"):
        for pair in PAIRS:
            marks = [] if pair == PAIRS[-1] and via in always else [pytest.mark.long]
            found.append(pytest.param(*pair, via, id=f"{'-'.join(pair)}-remote:{via}", marks=marks))
    return found


def memory(directory: Path, via: str = "") -> IggyGateway:
    """Members store every offset: on disk that takes seconds, and only one test needs to be on disk."""
    return IggyGateway(directory, LATEST, "pipe", "cursus", backend="memory", via=via)


def member(gateway: IggyGateway, client: str) -> IggyMember:
    return IggyMember(client, gateway.ports["iggy"], "default", "orders", "g")


def fill(peer: IggyClient, first: int, count: int) -> None:
    """So many to every partition in small batches; in partition p at offset n it is `p.n`."""
    for at in range(first, first + count, 50):
        for partition in range(PARTITIONS):
            peer.send("default", "orders", partition, [f"{partition}.{at + number}" for number in range(50)])


def shared_by(gateway: GatewayProcess, count: int, partitions: int = PARTITIONS) -> bool:
    """Whether the group has so many members, who own all partitions between them."""
    owned = status(gateway, "g").owned
    return len(owned) == count and sorted(at for each in owned for at in each) == list(range(partitions))


def read_to_the_end(gateway: GatewayProcess, members: Sequence[IggyMember], each: int) -> None:
    """Wait until they have shown, and stored, so many messages of each partition."""
    end = dict.fromkeys(range(PARTITIONS), each)
    until(lambda: committed(gateway, "g", "orders") == end, TIMEOUT, f"offsets of {each}")
    until(lambda: sum(one.count for one in members) >= each * PARTITIONS, TIMEOUT, f"{each} messages of each partition")


def place(shown: Shown) -> tuple[int, int]:
    """Partition and offset; what was written there says both."""
    partition, offset = shown.payload.split(".")
    assert int(offset) == shown.offset
    return int(partition), shown.offset


def counted(*members: IggyMember) -> Counter[tuple[int, int]]:
    """How often each message was shown."""
    return Counter(place(shown) for each in members for shown in each.shown)


def written(count: int) -> set[tuple[int, int]]:
    return {(partition, offset) for partition in range(PARTITIONS) for offset in range(count)}


def partitions_of(member: IggyMember) -> set[int]:
    return {place(shown)[0] for shown in member.shown}


def check_in_order(member: IggyMember) -> None:
    for partition in partitions_of(member):
        offsets = [shown.offset for shown in member.shown if place(shown)[0] == partition]
        assert offsets == sorted(set(offsets)), f"{member.client} was given messages of {partition} again"


@contextmanager
def pair(gateway: IggyGateway, first: str, second: str) -> Iterator[tuple[IggyMember, IggyMember]]:
    """Two members, the second of which finds the group there."""
    with member(gateway, first) as a:
        until(lambda: shared_by(gateway, 1), TIMEOUT, "a group of one")
        with member(gateway, second) as b:
            yield a, b


def share(gateway: IggyGateway, peer: IggyClient, *members: IggyMember) -> None:
    """Two of them are in before there is a message; then each of them is given all of what it owns, once."""
    until(lambda: shared_by(gateway, 2), TIMEOUT, "a group of two")
    fill(peer, 0, EACH)
    read_to_the_end(gateway, members, EACH)
    assert counted(*members) == dict.fromkeys(written(EACH), 1)
    assert sorted(len(partitions_of(each)) for each in members) == [1, 2]
    assert len(partitions_of(members[0]) & partitions_of(members[1])) == 0


# -- who makes the group


@pytest.mark.parametrize("via", ways("iggy", long=["native"]))
def test_consumers_that_make_a_group_at_once_are_both_in_it(tmp_path: Path, via: str) -> None:
    """Both find that it is not there; the one that makes it second must be told so by the number that it knows.

    Older ones make it only when they consume.
    """
    with memory(tmp_path, via) as gateway, ExitStack() as stack:
        peers = [stack.enter_context(gateway.client(client)).login() for client in APACHE[2:]]
        peers[0].create_topic("default", "orders", PARTITIONS)
        for number in range(ROUNDS):
            for peer in peers:
                peer.ask("consumer_group", f"g{number}", "default", "orders")
            for peer in peers:
                peer.answer()
            assert sorted(map(len, status(gateway, f"g{number}").owned)) == [1, 2]


@pytest.mark.parametrize("via", ways(long=["iggy", "native"]))
def test_of_more_members_than_partitions_some_get_nothing_until_others_end(tmp_path: Path, via: str) -> None:
    with memory(tmp_path, via) as gateway, gateway.client(LATEST).login() as peer:
        peer.create_topic("default", "orders", PARTITIONS)
        with ExitStack() as stack:
            members = [stack.enter_context(member(gateway, client)) for client in APACHE]
            until(lambda: shared_by(gateway, len(members)), TIMEOUT, "all of them in the group")
            fill(peer, 0, EACH)
            read_to_the_end(gateway, members, EACH)
            assert counted(*members) == dict.fromkeys(written(EACH), 1)
            assert sorted(len(partitions_of(each)) for each in members) == [0, 1, 1, 1]
            idle = next(each for each in members if not each.shown)
            for each in members:
                if each is not idle:
                    each.stop()
            until(lambda: shared_by(gateway, 1), TIMEOUT, "a group of one")
            fill(peer, EACH, EACH)
            read_to_the_end(gateway, members, 2 * EACH)
            assert counted(*members) == dict.fromkeys(written(2 * EACH), 1)
            idle.stop()


# -- who goes on


@pytest.mark.parametrize(("leaving", "staying", "via"), pairs("iggy", "native"))
def test_two_members_share_the_partitions_and_one_takes_over_when_the_other_ends(
    tmp_path: Path, leaving: str, staying: str, via: str
) -> None:
    """It ends in the middle of the second part, and has stored all that it showed."""
    with memory(tmp_path, via) as gateway, gateway.client(LATEST).login() as peer:
        peer.create_topic("default", "orders", PARTITIONS)
        with pair(gateway, leaving, staying) as (a, b):
            share(gateway, peer, a, b)
            before = a.count
            fill(peer, EACH, 100)
            a.wait(before + 5)
            a.stop()
            until(lambda: shared_by(gateway, 1), TIMEOUT, "a group of one")
            fill(peer, EACH + 100, EACH - 100)
            read_to_the_end(gateway, (a, b), 2 * EACH)
            assert counted(a, b) == dict.fromkeys(written(2 * EACH), 1)
            check_in_order(b)
            b.stop()


@pytest.mark.parametrize(("killed", "staying", "via"), pairs())
def test_what_a_member_stored_before_it_was_killed_is_not_delivered_again(
    tmp_path: Path, killed: str, staying: str, via: str
) -> None:
    """The client stores behind its back what it has shown: that which was not stored yet comes twice."""
    with (
        IggyGateway(tmp_path, LATEST, "pipe", "cursus", via=via) as gateway,
        gateway.client(LATEST).login() as peer,
    ):
        peer.create_topic("default", "orders", PARTITIONS)
        with pair(gateway, killed, staying) as (a, b):
            share(gateway, peer, a, b)
            before = a.count
            fill(peer, EACH, 100)
            a.wait(before + 5)
            a.kill()
            stored = committed(gateway, "g", "orders")
            until(lambda: shared_by(gateway, 1), TIMEOUT, "a group of one")
            fill(peer, EACH + 100, EACH - 100)
            read_to_the_end(gateway, (a, b), 2 * EACH)
            found = counted(a, b)
            assert set(found) == written(2 * EACH)
            again = [(partition, offset) for (partition, offset), count in found.items() if count > 1]
            assert [at for at in again if at[1] < stored[at[0]]] == [], f"stored was {stored}"
            check_in_order(b)
            b.stop()


@pytest.mark.long
def test_members_of_all_versions_come_and_go_and_nothing_is_lost(tmp_path: Path) -> None:
    """Whoever is given a partition that another still reads of may be given some of it again."""
    with IggyGateway(tmp_path, LATEST, "pipe", "cursus") as gateway, gateway.client(LATEST).login() as peer:
        peer.create_topic("default", "orders", PARTITIONS)
        with ExitStack() as stack:
            members: list[IggyMember] = []
            for number in range(24):
                fill(peer, number * 100, 100)
                members.append(stack.enter_context(member(gateway, APACHE[number % 4])))
                until(lambda: shared_by(gateway, min(len(members), 3)), TIMEOUT, "the new one in the group")
                if number >= 2:
                    members[number - 2].kill() if number % 3 else members[number - 2].stop()
                    until(lambda: shared_by(gateway, 2), TIMEOUT, "one less")
            read_to_the_end(gateway, members, 24 * 100)
            assert set(counted(*members)) == written(24 * 100)
            for each in members:
                check_in_order(each)
