"""A gateway in front of another one: `--backend remote:DIALECT=ENDPOINT`, all in processes of their own.

That clients as their projects publish them cannot tell it from a gateway by itself is proved where they are tested:
test_real_clients.py, test_iggy_clients.py, test_groups.py and test_iggy_groups.py.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical
from gateway.core.replies import Outcome
from gateway.dialects import load
from system.iggy_processes import APACHE, LATEST, IggyGateway
from system.ledger import Ledger, stored
from system.members import Book, FrameMember, LineMember
from system.outage import Client, CursusWriter, LineWriter, SpokenReader, SpokenWriter, running
from system.peers import TIMEOUT, Frames, connected
from system.processes import COMMAND, GatewayProcess, until
from system.proxied import MaybeProxied, remote
from system.test_groups import SESSION_SECONDS, finished, flowing, read_by_each, settled
from system.test_iggy_groups import PARTITIONS, counted, fill, member, read_to_the_end, shared_by, written

# -- outages

DEADLINE = 10.0
"""Seconds that the proxy waits for an answer."""

LATE = 1.5
"""More, that it may take until the client has been told."""

RETURN_SECONDS = 2.0
"""From the return of the upstream to the first answer of each client."""

LONGEST_GAP, BUSIEST = 0.25, 0.05
"""Seconds that the reactor of the proxy may stand still, and may compute at a time.  The first should be as little as
the second; the rest is for a machine with more to do.
"""

PROBE = Path(__file__).with_name("reactor_probe")
SPOKEN = ("cursus", "pipe", "grid", "native", "iggy")

CUT_OFF = {
    "cursus": "UNAVAILABLE: ",
    "pipe": "NOT_LEADER: ",
    "grid": "BUSY: ",
    "native": "UNAVAILABLE: ",
    "iggy": "UNAVAILABLE: status 1",
}
"""How each dialect says that something may have been done, or that it cannot be done now."""

TOO_LATE = CUT_OFF | dict.fromkeys(("cursus", "pipe", "native"), "TIMEOUT: ")
"""How each says that there was no answer in time."""


def asking(gateway: GatewayProcess, ledger: Ledger) -> AbstractContextManager[Mapping[Client, str]]:
    """Clients of all dialects, each with the name of its own, that ask all the time."""
    ports = gateway.ports
    clients: dict[Client, str] = {
        CursusWriter("a", ports["cursus"], ledger, 20): "cursus",
        CursusWriter("b", ports["cursus"], ledger, 3): "cursus",
        LineWriter("v", ports["pipe"], ledger): "pipe",
        SpokenWriter("grid", "g", ports["grid"], ledger): "grid",
        SpokenWriter("native", "n", ports["native"], ledger): "native",
        SpokenWriter("iggy", "i", ports["iggy"], ledger): "iggy",
        SpokenReader("native", "r", ports["native"]): "native",
    }
    return running(clients)


def probed(directory: Path) -> MaybeProxied:
    """A proxy whose reactor is looked at."""
    command = (*COMMAND, "--plugins", str(PROBE))
    before = "probe:gaps.json="
    return MaybeProxied(directory, *SPOKEN, via="native", own=SPOKEN, before=before, command=command)


def check_gaps(directory: Path, gateway: MaybeProxied) -> None:
    """The proxy ends in good order, and its reactor has never stood still for long."""
    assert GatewayProcess.terminate(gateway) == 0
    seen = json.loads((directory / "gaps.json").read_text())
    longest, busiest, count = seen["longest"] * 1e3, seen["busiest"] * 1e3, len(seen["over"])
    sys.stderr.write(
        f"the reactor stood still for {longest:.0f} ms at most, {count} times above 50 ms in {seen['looks']} looks,"
        f" and computed for {busiest:.0f} ms at a time\n"
    )
    assert seen["looks"] > 500, seen
    assert (seen["longest"] < LONGEST_GAP, seen["busiest"] < BUSIEST) == (True, True), seen


def check_answers(clients: Mapping[Client, str], refusals: dict[str, str]) -> None:
    """Each was answered in time, and refused in its own dialect's words.

    refusals: dialect -> how one of them begins at least; all begin as such or as what was cut off.
    """
    for client, dialect in clients.items():
        assert client.longest < DEADLINE + LATE, client.name
        known = (CUT_OFF[dialect], TOO_LATE[dialect])
        assert [each for each in client.refusals if not each.startswith(known)] == [], client.name
        if not isinstance(client, SpokenReader):
            assert any(each.startswith(refusals[dialect]) for each in client.refusals), client.name


@pytest.mark.parametrize("seconds", [5, pytest.param(60, marks=pytest.mark.long)])
def test_an_upstream_that_is_killed_costs_answers_and_no_connection_and_no_record(tmp_path: Path, seconds: int) -> None:
    """Under load, with a request of each client on its way; then it is started again."""
    ledger, moment = Ledger(), threading.Event()
    with probed(tmp_path) as gateway:
        upstream = gateway.doing
        with Frames(gateway.ports["cursus"]) as peer:
            peer.create("orders", 1, idempotent=True)
        with asking(gateway, ledger) as clients:
            ledger.wait(1000)
            os.kill(upstream.pid, signal.SIGSTOP)
            until(lambda: all(client.waits() for client in clients), TIMEOUT, "a request of each")
            upstream.kill()
            moment.wait(seconds)
            upstream.start()
            check_return(clients)
            ledger.wait(1000)
        check_answers(clients, CUT_OFF)
        assert ledger.complaints(stored(upstream, 1), once={client.name for client in clients}) == []
        check_gaps(tmp_path, gateway)


@pytest.mark.parametrize("seconds", [11, pytest.param(60, marks=pytest.mark.long)])
def test_an_upstream_that_is_silent_costs_answers_and_no_connection_and_no_record(tmp_path: Path, seconds: int) -> None:
    """Longer than any answer is waited for; then it goes on, and finds what it was asked before."""
    ledger, moment = Ledger(), threading.Event()
    with probed(tmp_path) as gateway:
        upstream = gateway.doing
        with Frames(gateway.ports["cursus"]) as peer:
            peer.create("orders", 1, idempotent=True)
        with asking(gateway, ledger) as clients:
            ledger.wait(1000)
            os.kill(upstream.pid, signal.SIGSTOP)
            moment.wait(seconds)
            os.kill(upstream.pid, signal.SIGCONT)
            check_return(clients)
            ledger.wait(1000)
        check_answers(clients, TOO_LATE)
        assert ledger.complaints(stored(upstream, 1), once={client.name for client in clients}) == []
        check_gaps(tmp_path, gateway)


def check_return(clients: Mapping[Client, str]) -> None:
    """From now on each is answered soon."""
    now = time.monotonic()
    until(lambda: all(client.went_on(now) <= RETURN_SECONDS for client in clients), TIMEOUT, "all go on in time")


# -- groups


def in_front(directory: Path, upstream: GatewayProcess, via: str, *dialects: str) -> GatewayProcess:
    """A proxy before a gateway that others are connected to, too."""
    folder = directory / f"before-{via}"
    folder.mkdir()
    return GatewayProcess(folder, *dialects, backend=remote(upstream, via))


def test_members_before_and_behind_proxies_share_a_group_and_go_on_when_the_proxies_are_killed(tmp_path: Path) -> None:
    """By heartbeats: those in front fall silent, the one behind takes over, and they are back when the proxies are."""
    book = Book()
    with (
        GatewayProcess(tmp_path, "cursus", "pipe", "native") as upstream,
        in_front(tmp_path, upstream, "cursus", "cursus") as one,
        in_front(tmp_path, upstream, "native", "pipe") as other,
    ):
        group = [
            FrameMember("a", book, one.ports["cursus"], "g", "orders"),
            LineMember("b", book, other.ports["pipe"], "g", "orders"),
            FrameMember("c", book, upstream.ports["cursus"], "g", "orders"),
        ]
        with flowing(upstream):
            for each in group:
                each.start()
            until(lambda: settled(*group), TIMEOUT, "a group of three")
            assert [len(each.owned) for each in group] == [2, 2, 2]
            until(read_by_each(book, *group), TIMEOUT, "records for all")
            for proxy in (one, other):
                proxy.kill()
            until(read_by_each(book, group[2]), TIMEOUT, "records for the one behind")
            until(lambda: settled(group[2]), SESSION_SECONDS + TIMEOUT, "a take-over")
            for proxy in (one, other):
                proxy.start()
            until(lambda: settled(*group), TIMEOUT, "a group of three again")
            until(read_by_each(book, *group), TIMEOUT, "records for all again")
        finished(upstream, "g", book, *group)


@pytest.mark.parametrize("via", ["iggy", "native"])
def test_an_iggy_member_before_a_proxy_is_out_of_its_group_when_the_proxy_is_killed(tmp_path: Path, via: str) -> None:
    """By connection: the one behind goes on at once where the other has stored; later others come by the proxy."""
    with (
        IggyGateway(tmp_path, LATEST, "native", "pipe", "cursus", backend="memory") as upstream,
        in_front(tmp_path, upstream, via, "iggy") as proxy,
        upstream.client(LATEST).login() as peer,
    ):
        peer.create_topic("default", "orders", PARTITIONS)
        with member(upstream, APACHE[0]) as behind:
            until(lambda: shared_by(upstream, 1), TIMEOUT, "a group of one")
            with member(proxy, LATEST) as before:
                until(lambda: shared_by(upstream, 2), TIMEOUT, "a group of two")
                fill(peer, 0, 500)
                read_to_the_end(upstream, (before, behind), 500)
                assert counted(before, behind) == dict.fromkeys(written(500), 1)
                assert before.count > 0 and behind.count > 0
                proxy.kill()
                until(lambda: shared_by(upstream, 1), TIMEOUT, "a group of one again")
            fill(peer, 500, 500)
            read_to_the_end(upstream, (before, behind), 1000)
            assert counted(before, behind) == dict.fromkeys(written(1000), 1)
            proxy.start()
            with member(proxy, LATEST) as later:
                until(lambda: shared_by(upstream, 2), TIMEOUT, "a group of two again")
                fill(peer, 1000, 500)
                read_to_the_end(upstream, (before, behind, later), 1500)
                assert counted(before, behind, later) == dict.fromkeys(written(1500), 1)
                assert later.count > 0
                later.stop()
            behind.stop()


# -- each dialect before each

ALL = ("cursus", "pipe", "iggy", "mlog", "grid", "native")
NAMES_NO_PARTITION = {"pipe"}
"""Their servers choose a partition by the key, so what names one is refused."""

HAS_KEYS = {"cursus", "pipe", "grid", "native"}
NEW = q.Heartbeats()


@pytest.mark.parametrize("via", ALL)
def test_what_each_dialect_writes_through_a_proxy_is_there_and_comes_back_through_it(tmp_path: Path, via: str) -> None:
    with MaybeProxied(tmp_path, *ALL, via=via, own=ALL, backend="memory") as gateway:
        upstream = gateway.doing
        with connected("native", upstream.ports["native"]) as direct:
            for dialect in ALL:
                topic = q.Topic("default", f"of-{dialect}")
                assert isinstance(direct.ask(q.CreateTopic(topic, 1)), r.TopicDescription)
                with connected(dialect, gateway.ports[dialect]) as peer:
                    said = peer.ask(publish(dialect, via, topic))
                    if via in NAMES_NO_PARTITION and dialect not in (via, "native"):
                        check_unsupported(dialect, said)
                        expected = []
                    else:
                        assert isinstance(said, r.Published) and (said.partition, said.base) == (0, 0)
                        expected = [(0, b"value")]
                    assert [row[:2] for row in rows(peer.ask(q.Fetch(topic, 0, 0)))] == expected
                key = b"key" if {dialect, via} <= HAS_KEYS else None
                assert rows(direct.ask(q.Fetch(topic, 0, 0))) == [(*row, key) for row in expected]


@pytest.mark.parametrize("via", ALL)
def test_what_an_upstream_has_no_words_for_is_refused_by_every_dialect_and_the_connection_lives(
    tmp_path: Path, via: str
) -> None:
    with MaybeProxied(tmp_path, *ALL, via=via, own=ALL, backend="memory") as gateway:
        topic = q.Topic("default", "orders")
        with connected("native", gateway.doing.ports["native"]) as direct:
            for name, partitions in (("orders", 2), ("other", 1)):
                made = direct.ask(q.CreateTopic(q.Topic("default", name), partitions))
                assert isinstance(made, r.TopicDescription)
        for dialect, command, there in (
            ("grid", q.MapPut(topic, b"key", b"value"), {"grid", "native"}),
            ("native", q.MapPut(topic, b"key", b"value"), {"grid", "native"}),
            ("native", q.AlterTopic(topic, q.TopicSettings(retention_us=1_000_000)), {"native"}),
            ("iggy", q.DeletePartitions(topic, 1), {"iggy", "native"}),
            ("cursus", q.JoinGroup(topic, "g", "a", NEW, distinct=True, exclusive=True), {"cursus", "native"}),
            ("pipe", q.JoinGroup(topic, "h", "a", NEW), {"pipe", "native"}),
            ("mlog", q.DeleteTopic(q.Topic("default", "other")), {"cursus", "iggy", "mlog", "native"}),
        ):
            with connected(dialect, gateway.ports[dialect]) as peer:
                said = peer.ask(command)
                if via in there:
                    assert not isinstance(said, CommandFailed), (dialect, command, said)
                else:
                    check_unsupported(dialect, said)
                assert isinstance(peer.ask(q.Fetch(topic, 0, 0)), r.Records), "the connection lives"


def publish(dialect: str, via: str, topic: q.Topic) -> q.Publish:
    """A record of that dialect, as far as the upstream lets native say where."""
    by_key = dialect == "pipe" or (dialect == "native" and via in NAMES_NO_PARTITION)
    record = Record(key=b"key" if dialect in HAS_KEYS else None, value=b"value")
    return q.Publish(topic, q.ByKey(b"key", "fnv1a_32") if by_key else 0, canonical([record]))


def check_unsupported(dialect: str, said: Outcome) -> None:
    """In that dialect's own words."""
    assert isinstance(said, CommandFailed), said
    faults = load(dialect).faults
    assert faults[said.fault] == faults[Fault.UNSUPPORTED], said


def rows(said: Outcome) -> list[tuple[int, bytes, bytes | None]]:
    """Offset, value and key of what was read."""
    assert isinstance(said, r.Records), said
    return [
        (batch.base + at, record.value or b"", record.key)
        for batch in said.batches
        for at, record in enumerate(batch.records())
    ]
