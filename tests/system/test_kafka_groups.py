"""Consumer groups over a real Kafka: members of several gateways and native consumers, and what they commit.

Run as a program it is a gateway with one member, for who wants to kill it: ADDRESS TOPIC.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from twisted.internet.defer import Deferred, gatherResults, maybeDeferred

from gateway.backends.kafka import roster
from gateway.backends.kafka.backend import KafkaBackend
from gateway.backends.kafka.cluster import COMMAND_SECONDS
from gateway.backends.kafka.roster import CONNECTED_SECONDS
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import registry
from system.kafka import Broker, class_path, kafka, require
from system.loops import Loop
from system.processes import until

__all__ = ["kafka"]

TESTS = Path(__file__).parents[1]

PARTITIONS = 6

PATIENCE = 20.0
"""Seconds for a group to settle: a place hears of a new member within 1 s, of a dead process after 6."""

_names = itertools.count()


class Gateway:
    """One gateway's backend."""

    _sessions = itertools.count(1)

    def __init__(self, loop: Loop, address: str) -> None:
        self._loop = loop
        self.backend = loop.call(lambda: KafkaBackend(address, registry([]), loop.reactor))

    def session(self) -> q.Session:
        """A connection."""
        return q.Session(next(self._sessions))

    def ask(self, command: q.Command, session: q.Session | None = None) -> Any:
        """The reply.  Raises CommandFailed."""
        return self._loop.call(self.backend.execute, command, session or self.session())

    def close(self) -> None:
        self._loop.call(self.backend.close)


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop() as loop:
        yield loop


@contextmanager
def gateways(loop: Loop, broker: Broker, count: int) -> Iterator[list[Gateway]]:
    opened = [Gateway(loop, broker.address) for _ in range(count)]
    try:
        yield opened
    finally:
        for gateway in opened:
            gateway.close()


@pytest.fixture
def gateway(loop: Loop, kafka: Broker) -> Iterator[Gateway]:
    with gateways(loop, kafka, 1) as (one,):
        yield one


def new_topic(gateway: Gateway, partitions: int = PARTITIONS) -> q.Topic:
    topic = q.Topic("default", f"orders-{next(_names)}-{time.time_ns()}")
    gateway.ask(q.CreateTopic(topic, partitions))
    return topic


def group_of(topic: q.Topic) -> q.Group:
    """A group that no other test has: in Kafka it would be the same one, whatever topic it reads."""
    return q.Group(f"g-{topic.name}")


def fault(gateway: Gateway, command: q.Command, session: q.Session | None = None) -> CommandFailed:
    with pytest.raises(CommandFailed) as failure:
        gateway.ask(command, session)
    return failure.value


class Client:
    """A member that does as the clients of the dialects do: what is stale makes it join again."""

    def __init__(self, gateway: Gateway, topic: q.Topic, life: q.Heartbeats | q.WhileConnected, name: str = "") -> None:
        self.gateway = gateway
        self.topic = topic
        self.life = life
        self.name = name
        self.session = gateway.session()
        self.joined: r.Joined
        self.join()

    def join(self, resume: int | None = None) -> r.Joined:
        command = q.JoinGroup(self.topic, group_of(self.topic).name, self.name, self.life, resume=resume)
        self.joined = self.gateway.ask(command, self.session)
        self.name = self.joined.member
        return self.joined

    def owned(self) -> set[int]:
        """What it owns now."""
        try:
            self.joined = self.gateway.ask(
                q.SyncGroup(self.topic, group_of(self.topic).name, self.name, self.joined.generation)
            )
        except CommandFailed as failure:
            if failure.fault not in (Fault.STALE_GENERATION, Fault.NOT_A_MEMBER):
                raise
            self.join()
        return set(self.joined.assignment)

    def commit(self, offsets: dict[int | None, int], generation: int | None = None) -> None:
        """Fenced."""
        fence = self.name, self.joined.generation if generation is None else generation
        self.gateway.ask(q.CommitOffsets(self.topic, group_of(self.topic), offsets, *fence), self.session)

    def leave(self) -> None:
        self.gateway.ask(q.LeaveGroup(self.topic, group_of(self.topic).name, self.name), self.session)


def polling(gateway: Gateway, topic: q.Topic) -> Client:
    return Client(gateway, topic, q.Heartbeats(30.0), "c")


def connected(gateway: Gateway, topic: q.Topic) -> Client:
    return Client(gateway, topic, q.WhileConnected())


class Native:
    """A consumer that has never heard of a gateway, with the settings of librdkafka's default; it polls in a thread."""

    def __init__(self, broker: Broker, topic: q.Topic, **more: object) -> None:
        self._told: dict[str, Any] = {"bootstrap.servers": broker.address, "enable.auto.commit": False}
        self._told |= {"group.id": group_of(topic).name, **more}
        self._topic = str(topic.name)
        self._owned: set[int] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Native:
        self._thread.start()
        return self

    def __exit__(self, *of: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)

    def owned(self) -> set[int]:
        return set(self._owned)

    def _run(self) -> None:
        consumer = Consumer(self._told)
        consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked)
        while not self._stop.is_set():
            consumer.poll(0.05)
        consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._owned = {at.partition for at in partitions}

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._owned = set()


_JAVA = """\
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;

public class Native {
    public static void main(String[] told) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", told[0]);
        settings.put("group.id", told[2]);
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(List.of(told[1]));
        Set<TopicPartition> owned = null;
        while (System.in.available() == 0) {
            consumer.poll(java.time.Duration.ofMillis(50));
            if (!consumer.assignment().equals(owned)) {
                owned = Set.copyOf(consumer.assignment());
                System.out.println(String.join(" ", owned.stream().map(at -> "" + at.partition()).toList()));
            }
        }
        consumer.close();
    }
}
"""


class Java:
    """A consumer of Kafka's own client for Java with all its defaults; a line to it ends it."""

    def __init__(self, broker: Broker, topic: q.Topic, directory: Path) -> None:
        source = directory / "Native.java"
        source.write_text(_JAVA)
        self._told = ["java", "-cp", class_path(), str(source), broker.address, str(topic.name), group_of(topic).name]
        self._owned: set[int] = set()
        self._process: subprocess.Popen[str]
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Java:
        self._process = subprocess.Popen(
            self._told, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._thread.start()
        return self

    def __exit__(self, *of: object) -> None:
        try:
            self._process.communicate("\n", timeout=PATIENCE)
        finally:
            self._process.kill()
            self._process.wait(PATIENCE)
            self._thread.join(PATIENCE)

    def owned(self) -> set[int]:
        return set(self._owned)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._owned = {int(at) for at in line.split()}


def settled(*members: Client | Native | Java, partitions: int = PARTITIONS, each: int | None = None) -> list[set[int]]:
    """What each owns, once no partition is without an owner; none ever has two."""
    shares: list[set[int]] = []

    def is_settled() -> bool:
        shares[:] = [member.owned() for member in members]
        whole = sorted(itertools.chain(*shares)) == list(range(partitions))
        return whole and (each is None or all(len(share) == each for share in shares))

    until(is_settled, PATIENCE, "one owner for each partition")
    return shares


# -- sharing


def test_members_of_two_gateways_and_a_native_consumer_divide_the_partitions(loop: Loop, kafka: Broker) -> None:
    with gateways(loop, kafka, 2) as (one, other):
        topic = new_topic(one)
        a, b, c = polling(one, topic), connected(one, topic), polling(other, topic)
        settled(a, b, c, each=2)
        assert a.joined.generation == b.joined.generation == c.joined.generation > 0
        with Native(kafka, topic) as native:
            until(lambda: bool(native.owned()), PATIENCE, "its share")
            shares = settled(a, b, c, native)
            assert sorted(map(len, shares)) == [1, 1, 2, 2]
            described = one.ask(q.DescribeGroup(topic, group_of(topic).name))
            assert sorted(at for member in described.members for at in member.assignment) == list(range(PARTITIONS))
            assert len(described.members) == 4
        settled(a, b, c, each=2)


def test_a_consumer_of_java_with_its_defaults_shares_a_group(gateway: Gateway, kafka: Broker, tmp_path: Path) -> None:
    """It offers `range,cooperative-sticky`."""
    topic = new_topic(gateway)
    member = polling(gateway, topic)
    with Java(kafka, topic, tmp_path) as java:
        settled(member, java, each=3)
    settled(member)


def test_a_group_that_offers_only_what_we_do_not_cannot_be_joined(gateway: Gateway, kafka: Broker) -> None:
    topic = new_topic(gateway)
    with Native(kafka, topic, **{"partition.assignment.strategy": "cooperative-sticky"}) as native:
        until(lambda: len(native.owned()) == PARTITIONS, PATIENCE, "its partitions")
        refused = fault(gateway, q.JoinGroup(topic, group_of(topic).name, "", q.WhileConnected()))
        assert refused.fault is Fault.UNAVAILABLE
        assert "into the group" in refused.detail


def test_a_killed_process_frees_its_partitions(gateway: Gateway, kafka: Broker) -> None:
    topic = new_topic(gateway)
    told = [sys.executable, "-m", "system.test_kafka_groups", kafka.address, str(topic.name)]
    with subprocess.Popen(told, stdout=subprocess.PIPE, text=True, cwd=TESTS) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "joined\n"
            member = polling(gateway, topic)
            until(lambda: len(member.owned()) == 3, PATIENCE, "half of the partitions")
        finally:
            process.kill()
    settled(member)


def test_a_member_that_is_silent_loses_its_partitions(gateway: Gateway, kafka: Broker) -> None:
    topic = new_topic(gateway)
    silent = Client(gateway, topic, q.Heartbeats(2.0), "silent")
    member = polling(gateway, topic)
    settled(silent, member, each=3)
    settled(member)
    gone = fault(gateway, q.Heartbeat(topic, group_of(topic).name, silent.name, silent.joined.generation))
    assert (gone.fault, gone.facts) == (Fault.NOT_A_MEMBER, {"member": "silent"})


def test_a_member_that_is_heard_of_stays(gateway: Gateway) -> None:
    topic = new_topic(gateway)
    member = Client(gateway, topic, q.Heartbeats(1.0), "c")
    deadline = time.monotonic() + 2.5
    while time.monotonic() < deadline:
        gateway.ask(q.Heartbeat(topic, group_of(topic).name, "c", member.joined.generation))
    assert member.owned() == set(range(PARTITIONS))


def test_connection_bound_members_leave_with_their_session(gateway: Gateway) -> None:
    topic = new_topic(gateway)
    gone, member = connected(gateway, topic), connected(gateway, topic)
    settled(gone, member, each=3)
    shown = gateway.ask(q.ListMemberships(gone.session.id)).memberships
    assert [at.session for at in shown] == [gone.session.id]
    gateway.ask(q.EndSession(), gone.session)
    settled(member)
    assert gateway.ask(q.ListMemberships(gone.session.id)).memberships == ()


def test_a_session_that_ends_while_it_joins_leaves_nobody_behind(gateway: Gateway, loop: Loop) -> None:
    topic = new_topic(gateway)
    session = gateway.session()

    def join_and_go() -> None:
        joining = gateway.backend.execute(q.JoinGroup(topic, group_of(topic).name, "", q.WhileConnected()), session)
        assert isinstance(joining, Deferred)
        joining.addErrback(lambda failure: failure.trap(CommandFailed))
        gateway.backend.execute(q.EndSession(), session)

    loop.call(join_and_go)
    member = connected(gateway, topic)
    settled(member)
    assert len(gateway.ask(q.DescribeGroup(topic, group_of(topic).name)).members) == 1


def test_new_partitions_are_shared_out(gateway: Gateway) -> None:
    topic = new_topic(gateway, 2)
    a, b = polling(gateway, topic), connected(gateway, topic)
    settled(a, b, partitions=2)
    gateway.ask(q.CreatePartitions(topic, 2))
    settled(a, b, partitions=4, each=2)


# -- names, joining again


def test_who_joins_again_under_its_name_is_the_same_and_learns_where_it_stands(gateway: Gateway) -> None:
    topic = new_topic(gateway)
    member = Client(gateway, topic, q.Heartbeats(30.0), "c")
    before = member.joined
    assert member.join() == before
    assert member.join(resume=before.generation) == r.Joined("c", before.generation, before.assignment, True)
    assert len(gateway.ask(q.DescribeGroup(topic, group_of(topic).name)).members) == 1
    other = Client(gateway, topic, q.Heartbeats(30.0), "d")
    settled(member, other, each=3)
    stale = fault(gateway, q.SyncGroup(topic, group_of(topic).name, "c", before.generation))
    assert stale.fault is Fault.STALE_GENERATION
    assert stale.facts == {
        "current": member.joined.generation,
        "requested": before.generation,
        "member": "c",
    }


def test_a_connection_without_a_name_has_one_member(gateway: Gateway) -> None:
    topic = new_topic(gateway)
    member = connected(gateway, topic)
    member.name = ""
    first = member.joined
    assert member.join() == first


def test_distinct_members_of_one_name_are_two(gateway: Gateway) -> None:
    topic = new_topic(gateway)
    joins = q.JoinGroup(topic, group_of(topic).name, "c", q.Heartbeats(30.0), distinct=True)
    names = {gateway.ask(joins).member, gateway.ask(joins).member}
    assert len(names) == 2
    assert {name.rpartition("-")[0] for name in names} == {"c"}


def test_joining_refuses_what_it_must(gateway: Gateway) -> None:
    topic, other = new_topic(gateway), new_topic(gateway)
    name = f"exclusive-{time.time_ns()}"
    life = q.Heartbeats(30.0)
    missing = q.Topic("default", "never-made")
    assert fault(gateway, q.JoinGroup(missing, name, "c", life)).fault is Fault.NO_SUCH_TOPIC
    assert fault(gateway, q.JoinGroup(topic, name, "c", life, existing=True)).fault is Fault.NO_SUCH_GROUP
    assert fault(gateway, q.JoinGroup(topic, name, "c", life, "sticky")).fault is Fault.INVALID_ARGUMENT
    assert fault(gateway, q.JoinGroup(topic, "", "c", life)).fault is Fault.INVALID_NAME
    gateway.ask(q.CreateGroup(other, name))
    taken = fault(gateway, q.JoinGroup(topic, name, "c", life, exclusive=True))
    assert (taken.fault, taken.facts) == (Fault.OTHER_TOPIC, {"expected": other.name, "actual": topic.name})
    assert fault(gateway, q.Heartbeat(topic, name, "c", 1)).fault is Fault.OTHER_TOPIC
    assert fault(gateway, q.Heartbeat(other, name, "c", 1)).fault is Fault.NOT_A_MEMBER
    assert fault(gateway, q.LeaveGroup(other, name, "c")).fault is Fault.NOT_A_MEMBER


def test_a_process_has_so_many_members_and_no_more(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster, "MAX_MEMBERS", 1)
    topic = new_topic(gateway)
    member = connected(gateway, topic)
    assert fault(gateway, q.JoinGroup(topic, "another", "c", q.Heartbeats(30.0))).fault is Fault.BUSY
    assert member.join() == member.joined
    member.leave()
    polling(gateway, topic)


# -- outages


def test_an_outage_is_said_in_time_and_over_soon_after_the_broker_is_back(loop: Loop, tmp_path: Path) -> None:
    """A broker that is frozen keeps its connections, and answers nothing.

    It is so for longer than the session of a member, which then enters the group as another one: if the group waited
    for the old one until its session is over, that would take CONNECTED_SECONDS.
    """
    require()
    with Broker(tmp_path) as broker, gateways(loop, broker, 1) as (gateway,):
        topic = new_topic(gateway)
        member = connected(gateway, topic)
        settled(member)
        member.commit({0: 1})
        broker.pause()
        try:
            for refused in (
                q.CommitOffsets(topic, group_of(topic), {0: 2}, member.name, member.joined.generation),
                q.JoinGroup(topic, group_of(topic).name, "another", q.Heartbeats(30.0)),
                q.FetchOffsets(topic, group_of(topic)),
            ):
                begun = time.monotonic()
                assert fault(gateway, refused).fault in (Fault.TIMEOUT, Fault.UNAVAILABLE, Fault.STALE_GENERATION)
                assert time.monotonic() - begun < COMMAND_SECONDS + 1
        finally:
            broker.resume()
        back = time.monotonic()
        settled(member)
        assert time.monotonic() - back < CONNECTED_SECONDS / 2
        member.commit({0: 3})
        assert committed(gateway, topic) == {0: 3}


# -- offsets


def committed(gateway: Gateway, topic: q.Topic, reader: q.Reader | None = None) -> dict[int, int]:
    offsets: dict[int, int] = gateway.ask(q.FetchOffsets(topic, reader or group_of(topic))).offsets
    return offsets


def test_commits_carry_over_to_the_next_owner_and_to_native_consumers(loop: Loop, kafka: Broker) -> None:
    with gateways(loop, kafka, 2) as (one, other):
        topic = new_topic(one)
        member = polling(one, topic)
        assert member.owned() == set(range(PARTITIONS))
        member.commit({0: 5, 3: 7})
        next = polling(other, topic)
        settled(member, next, each=3)
        assert committed(other, topic) == {0: 5, 3: 7}
        member.leave()
        settled(next)
        next.commit({3: 8})
        with native_consumer(kafka, group_of(topic)) as native:
            at = native.committed([TopicPartition(str(topic.name), 3), TopicPartition(str(topic.name), 1)], 10)
            assert [where.offset for where in at] == [8, -1001]


def test_what_was_committed_before_partitions_were_handed_over_is_seen_by_the_next_owner(
    loop: Loop, kafka: Broker
) -> None:
    """A member commits as fast as it can while others come: what was accepted last is what the next owner finds."""
    with gateways(loop, kafka, 2) as (one, other):
        topic = new_topic(one)
        member = polling(one, topic)
        member.owned()
        accepted: dict[int, int] = {}
        stale = threading.Event()

        def commit() -> None:
            for at in itertools.count(1):
                try:
                    member.commit(dict.fromkeys(range(PARTITIONS), at))
                except CommandFailed as failure:
                    assert failure.fault is Fault.STALE_GENERATION
                    return stale.set()
                accepted.update(dict.fromkeys(range(PARTITIONS), at))

        committing = threading.Thread(target=commit)
        committing.start()
        next = polling(other, topic)
        found = committed(other, topic)
        assert next.owned()
        assert stale.wait(PATIENCE)
        committing.join()
        assert len(accepted) == PARTITIONS
        assert found == accepted == committed(other, topic)


def test_a_fenced_commit_is_refused_but_for_its_owner_in_its_generation(gateway: Gateway) -> None:
    topic = new_topic(gateway)
    a, b = polling(gateway, topic), connected(gateway, topic)
    settled(a, b, each=3)
    generation = a.joined.generation
    lost = min(b.owned())
    own = min(a.owned())
    a.commit({own: 1})
    asked = topic, group_of(topic)
    refused = fault(gateway, q.CommitOffsets(*asked, {own: 2}, "c", generation - 1))
    assert refused.fault is Fault.STALE_GENERATION
    assert refused.facts == {"current": generation, "requested": generation - 1, "member": "c"}
    foreign = fault(gateway, q.CommitOffsets(*asked, {own: 2, lost: 2}, "c", generation))
    assert foreign.fault is Fault.NOT_OWNER
    assert foreign.facts == {"partition": lost, "generation": generation, "member": "c"}
    assert fault(gateway, q.CommitOffsets(*asked, {own: 2}, "nobody", generation)).fault is Fault.NOT_A_MEMBER
    b.leave()
    settled(a)
    gone_by = q.CommitOffsets(*asked, {own: 2}, "c", generation)
    assert fault(gateway, gone_by).fault is Fault.STALE_GENERATION
    assert committed(gateway, topic) == {own: 1}


def test_a_commit_without_a_member_goes_through_one_that_is_here_or_is_refused(loop: Loop, kafka: Broker) -> None:
    with gateways(loop, kafka, 2) as (one, other):
        topic = new_topic(one)
        commit = q.CommitOffsets(topic, group_of(topic), {2: 4})
        one.ask(commit)
        member = polling(one, topic)
        one.ask(q.CommitOffsets(topic, group_of(topic), {2: 9, 4: 1}))
        assert committed(other, topic) == {2: 9, 4: 1}
        refused = fault(other, commit)
        assert refused.fault is Fault.NOT_OWNER
        assert refused.facts == {"partition": 2, "generation": 0}
        member.leave()
        other.ask(commit)
        assert committed(one, topic) == {2: 4, 4: 1}


def test_single_consumers_are_apart_from_groups(gateway: Gateway) -> None:
    topic = new_topic(gateway)
    gateway.ask(q.CommitOffsets(topic, q.Consumer("g"), {0: 3}))
    gateway.ask(q.CommitOffsets(topic, q.Consumer(7), {0: 4}))
    gateway.ask(q.CommitOffsets(topic, group_of(topic), {0: 5}))
    assert committed(gateway, topic, q.Consumer("g")) == {0: 3}
    assert committed(gateway, topic, q.Consumer(7)) == {0: 4}
    assert committed(gateway, topic) == {0: 5}
    assert committed(gateway, topic, q.Consumer("nobody")) == {}


def test_commits_of_one_connection_are_kept_in_their_order(gateway: Gateway, loop: Loop) -> None:
    topic = new_topic(gateway)

    def burst() -> Deferred[Any]:
        commits = (q.CommitOffsets(topic, group_of(topic), {0: at}) for at in range(1, 2000))
        return gatherResults([maybeDeferred(gateway.backend.execute, commit, session) for commit in commits])

    session = gateway.session()
    loop.call(burst)
    assert committed(gateway, topic) == {0: 1999}
    member = connected(gateway, topic)
    loop.call(burst)
    assert committed(gateway, topic) == {0: 1999}
    member.leave()


def test_commits_are_checked(gateway: Gateway) -> None:
    topic = new_topic(gateway, 2)
    asked = topic, group_of(topic)
    gateway.ask(q.CommitOffsets(*asked, {0: 5}))
    falling = fault(gateway, q.CommitOffsets(*asked, {0: 4}, rising=True))
    assert falling.fault is Fault.OFFSET_REGRESSION
    assert falling.facts == {"partition": 0, "current": 5, "requested": 4}
    gateway.ask(q.CommitOffsets(*asked, {0: 6, 1: 1}, rising=True))
    assert fault(gateway, q.CommitOffsets(*asked, {0: -1})).fault is Fault.INVALID_OFFSET
    assert fault(gateway, q.CommitOffsets(*asked, {0: 1}, bounded=True)).fault is Fault.INVALID_OFFSET
    gateway.ask(q.CommitOffsets(*asked, {1: 0}, bounded=True))
    missing = fault(gateway, q.CommitOffsets(*asked, {1: 1, 2: 1}))
    assert (missing.fault, missing.facts) == (Fault.NO_SUCH_PARTITION, {"partition": 2, "partitions": 2})
    assert committed(gateway, topic) == {0: 6, 1: 0}
    missing = fault(gateway, q.FetchOffsets(*asked, (0, 2)))
    assert missing.fault is Fault.NO_SUCH_PARTITION
    assert fault(gateway, q.FetchOffsets(topic, q.Group("nobody"))).fault is Fault.NO_SUCH_GROUP


def test_ends_come_with_offsets(gateway: Gateway, kafka: Broker) -> None:
    topic = new_topic(gateway, 2)
    produce(kafka, topic, 1, 3)
    gateway.ask(q.CommitOffsets(topic, group_of(topic), {1: 3}, bounded=True))
    found = gateway.ask(q.FetchOffsets(topic, group_of(topic), (1,)))
    assert found == r.CommittedOffsets({1: 3}, {1: 3})
    assert gateway.ask(q.FetchOffsets(topic, group_of(topic))) == r.CommittedOffsets({1: 3}, {0: 0, 1: 3})
    assert fault(gateway, q.CommitOffsets(topic, group_of(topic), {1: 4}, bounded=True)).fault is Fault.INVALID_OFFSET


def test_offsets_are_forgotten_one_by_one_but_not_while_members_read(gateway: Gateway) -> None:
    topic = new_topic(gateway)
    readers: tuple[q.Reader, ...] = (group_of(topic), q.Consumer(f"c-{topic.name}"))
    for reader in readers:
        gateway.ask(q.CommitOffsets(topic, reader, {0: 1, 1: 2}))
        missing = fault(gateway, q.DeleteOffsets(topic, reader, (1, 2)))
        assert missing.fault is Fault.NO_SUCH_OFFSET
        gateway.ask(q.DeleteOffsets(topic, reader, (1,)))
        assert committed(gateway, topic, reader) == {0: 1}
    connected(gateway, topic)
    assert fault(gateway, q.DeleteOffsets(topic, group_of(topic), (0,))).fault is Fault.UNSUPPORTED
    assert committed(gateway, topic) == {0: 1}


def test_the_partition_that_was_given_last_can_be_meant(gateway: Gateway, kafka: Broker) -> None:
    topic = new_topic(gateway, 2)
    for at in range(2):
        produce(kafka, topic, at, 3)
    member = connected(gateway, topic)
    reads = q.Fetch(topic, None, q.Next(group_of(topic)), max_records=1)
    nothing = fault(gateway, q.CommitOffsets(topic, group_of(topic), {None: 1}), member.session)
    assert nothing.fault is Fault.NO_SUCH_PARTITION
    for turn in (0, 1, 0):
        assert gateway.ask(reads, member.session).partition == turn
        gateway.ask(q.CommitOffsets(topic, group_of(topic), {None: turn + 1}, bounded=True), member.session)
    assert committed(gateway, topic) == {0: 1, 1: 2}
    assert gateway.ask(q.FetchOffsets(topic, group_of(topic), (None,)), member.session).offsets == {0: 1}
    assert fault(gateway, reads).fault is Fault.NOT_A_MEMBER
    unknown = q.Fetch(topic, None, q.Next(q.Group("nobody")))
    assert fault(gateway, unknown, member.session).fault is Fault.NO_SUCH_GROUP


# -- groups of native programs, groups as things


@contextmanager
def native_consumer(broker: Broker, group: q.Group) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group.name, "enable.auto.commit": False})
    try:
        yield consumer
    finally:
        consumer.close()


def produce(broker: Broker, topic: q.Topic, partition: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    for at in range(count):
        producer.produce(str(topic.name), b"%d" % at, partition=partition)
    assert producer.flush(PATIENCE) == 0
    producer.close()


def native_commit(broker: Broker, group: str, topic: q.Topic, partition: int, offset: int) -> None:
    at = TopicPartition(str(topic.name), partition, offset)
    admin = AdminClient({"bootstrap.servers": broker.address})
    done = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [at])])
    assert done[group].result(PATIENCE).topic_partitions[0].error is None


def test_a_group_of_native_consumers_is_seen_with_its_offsets_and_members(loop: Loop, kafka: Broker) -> None:
    with gateways(loop, kafka, 2) as (one, other):
        topic = new_topic(one)
        name = f"natives-{time.time_ns()}"
        assert fault(one, q.DescribeGroup(topic, name)).fault is Fault.NO_SUCH_GROUP
        native_commit(kafka, name, topic, 1, 11)
        assert committed(one, topic, q.Group(name)) == {1: 11}
        listed = {group.name: group for group in other.ask(q.ListGroups("default", topic.name)).groups}
        described = one.ask(q.DescribeGroup(topic, name))
        assert listed == {name: described}
        assert described.members == ()
        assert other.ask(q.DescribeGroup(topic, described.id)) == described
        with Native(kafka, topic, **{"group.id": name}) as native:
            until(lambda: len(native.owned()) == PARTITIONS, PATIENCE, "its partitions")
            (seen,) = other.ask(q.DescribeGroup(topic, name)).members
            assert seen.assignment == tuple(range(PARTITIONS))
            assert seen.session is None


def test_groups_are_made_shown_and_deleted_with_their_offsets(gateway: Gateway) -> None:
    topic, other = new_topic(gateway), new_topic(gateway)
    name = f"made-{time.time_ns()}"
    made = gateway.ask(q.CreateGroup(topic, name, 7))
    assert made == r.GroupDescription("default", str(topic.name), name, 7, 0, PARTITIONS)
    assert fault(gateway, q.CreateGroup(topic, name)).facts == {"taken": "name"}
    assert fault(gateway, q.CreateGroup(topic, "another", 7)).facts == {"taken": "id"}
    assert gateway.ask(q.CreateGroup(topic, name, if_exists=q.IfExists.KEEP)) == made
    elsewhere = fault(gateway, q.CreateGroup(other, name, exclusive=True))
    assert elsewhere.fault is Fault.OTHER_TOPIC
    assert gateway.ask(q.DescribeGroup(q.Topic("default", ""), name)) == made
    gateway.ask(q.CommitOffsets(topic, q.Group(7), {0: 1}))
    gateway.ask(q.CommitOffsets(other, q.Group(name), {0: 2}))
    member = gateway.session()
    gateway.ask(q.JoinGroup(topic, 7, "", q.WhileConnected(), existing=True), member)
    gateway.ask(q.DeleteGroup(topic, name))
    assert gateway.ask(q.ListMemberships(member.id)).memberships == ()
    assert fault(gateway, q.DescribeGroup(topic, name)).fault is Fault.OTHER_TOPIC
    assert [group.name for group in gateway.ask(q.ListGroups("default", topic.name)).groups] == []
    assert committed(gateway, other, q.Group(name)) == {0: 2}
    gateway.ask(q.CreateGroup(topic, name))
    assert committed(gateway, topic, q.Group(name)) == {}


def test_a_group_with_members_elsewhere_is_not_deleted(loop: Loop, kafka: Broker) -> None:
    with gateways(loop, kafka, 2) as (one, other):
        topic = new_topic(one)
        polling(other, topic)
        assert fault(one, q.DeleteGroup(topic, group_of(topic).name)).fault is Fault.UNAVAILABLE


# -- a gateway to be killed


def main(address: str, name: str) -> None:
    """Join, say so, and stay a member."""
    topic = q.Topic("default", name)
    with Loop() as loop:
        member = Client(Gateway(loop, address), topic, q.Heartbeats(6.0), "killed")
        sys.stdout.write("joined\n")
        sys.stdout.flush()
        while True:
            member.owned()
            time.sleep(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
