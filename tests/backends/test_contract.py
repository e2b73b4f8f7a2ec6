"""Every backend means the same by every command: a state machine runs each beside `memory`, the model."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, rule

from backends.driving import Driver, Reactor
from gateway.backends.memory import MemoryBackend
from gateway.backends.sqlite import SqliteBackend
from gateway.core import commands as q
from gateway.core.decisions import writes
from gateway.core.faults import CommandFailed
from gateway.core.records import Header, HeaderKind, Record, canonical, registry

START = 1_700_000_000_000_000

names = st.sampled_from(["a", "b", "orders", "x.y"])
namespaces = st.sampled_from(["default", "sales", 1, 9])
partitions = st.integers(-1, 4)
held = st.none() | partitions
"""None = the one that a member was last given."""
readers = st.sampled_from([q.Group("g"), q.Group(7), q.Consumer("g"), q.Consumer(7)])
topics = st.builds(q.Topic, namespaces, st.one_of(names, st.integers(1, 3)))
headers = st.lists(
    st.builds(Header, st.binary(min_size=1, max_size=3), st.binary(max_size=3), st.sampled_from(HeaderKind)), max_size=2
)
keys = st.sampled_from([b"k", b"l", b"m", b""])
values = st.builds(
    Record,
    key=st.none() | keys | st.binary(min_size=1, max_size=4),
    value=st.none() | st.just(b"7") | st.binary(max_size=20),
    headers=headers.map(tuple),
    timestamp=st.sampled_from([0, 0, 0, 1, START + 20, START + 1_000_000]),
    metadata=st.binary(max_size=3),
    expiry=st.sampled_from([0, 0, 0, START + 30]),
)
produced = st.builds(
    lambda producer, epoch, first, count: [
        Record(value=b"%d" % at, producer=producer, epoch=epoch, sequence=at) for at in range(first, first + count)
    ],
    st.sampled_from([b"p", b"q"]),
    st.integers(0, 2),
    st.integers(0, 6),
    st.integers(1, 4),
)
batches = st.one_of(
    st.lists(values, max_size=5), produced, st.tuples(produced, produced).map(lambda two: two[0] + two[1])
)
targets = st.one_of(
    partitions,
    st.builds(q.ByKey, st.binary(max_size=3), st.sampled_from(["fnv1a_32", "xxh32", "none"])),
    st.just(q.Balanced()),
)
starts = st.one_of(
    st.integers(-1, 12),
    st.builds(q.FromTime, st.integers(START - 5, START + 60)),
    st.just(q.First()),
    st.builds(q.Last, st.integers(0, 5)),
    st.builds(q.Next, readers, st.integers(0, 5)),
)
topic_settings = st.builds(
    q.TopicSettings, idempotent=st.booleans(), partitioner=st.sampled_from(["", "xxh32", "nonsense"])
)
groups = st.builds(q.Group, st.sampled_from(["g", "h"]))
group_names = st.sampled_from(["g", "h", ""])
members = st.sampled_from(["m", "n", ""])
conditions = st.sampled_from([q.Anyhow(), q.Anyhow(), q.IfAbsent(), q.IfPresent(), q.IfEquals(b"7"), q.IfCount(0)])
removals = st.sampled_from([q.Anyhow(), q.IfEquals(b"7")])
generations = st.integers(1, 3)
tables = st.one_of(
    st.builds(
        q.MapPut,
        topics,
        keys,
        st.sampled_from([b"7", b"8", b"v", b""]),
        st.sampled_from([0.0, 0.0, 1e-5, 1.0, -1.0]),
        conditions,
        st.sampled_from([0, 0, 2]),
        st.booleans(),
    ),
    st.builds(q.MapAdd, topics, keys, st.sampled_from([1, -3, q.MAX_OFFSET]), st.sampled_from([0, 0, 1])),
    st.builds(q.MapRemove, topics, keys, removals),
    st.builds(q.MapClear, topics),
    st.builds(q.MapGet, topics, keys),
    st.builds(q.MapSize, topics),
    st.builds(
        q.MapScan,
        topics,
        st.none() | keys,
        st.integers(0, 3),
        st.none() | st.lists(keys, max_size=2).map(tuple),
        st.booleans(),
    ),
)
queues = st.one_of(
    st.builds(q.Take, topics),
    st.builds(q.Peek, topics),
    st.builds(q.QueueSize, topics),
    st.builds(q.QueueClear, topics),
    st.builds(q.CommitOffsets, topics, st.just(q.Group("queue")), st.sampled_from([{0: 0}, {0: 2}])),
)
commands = st.one_of(
    tables,
    queues,
    st.builds(q.CreateNamespace, st.sampled_from(["sales", "ops", "", "n" * 256]), st.sampled_from([None, 9, 0])),
    st.builds(q.DeleteNamespace, namespaces),
    st.just(q.ListNamespaces()),
    st.builds(q.DescribeNamespace, namespaces, st.booleans()),
    st.builds(q.CreateTopic, topics, st.integers(-1, 4), topic_settings, st.sampled_from(q.IfExists)),
    st.builds(q.AlterTopic, topics, topic_settings, st.none() | names),
    st.builds(q.DeleteTopic, topics),
    st.builds(q.ListTopics, namespaces),
    st.builds(q.DescribeTopic, topics),
    st.builds(q.CreatePartitions, topics, st.integers(-1, 2)),
    st.builds(q.DeletePartitions, topics, st.integers(-1, 2)),
    st.builds(q.LatestOffsets, topics, st.none() | partitions),
    st.builds(
        lambda topic, to, records, create: q.Publish(topic, to, canonical(records, "test"), create=create),
        topics,
        targets,
        batches,
        st.integers(0, 3),
    ),
    st.builds(
        q.Fetch,
        topics,
        held,
        starts,
        max_records=st.integers(0, 4),
        max_bytes=st.sampled_from([1, 60, 1 << 20]),
        commit=st.booleans(),
        create=st.sampled_from([0, 0, 2]),
        reader=st.none() | readers,
    ),
    st.builds(
        q.CommitOffsets,
        topics,
        readers,
        st.dictionaries(held, st.sampled_from([-1, 0, 1, 3, 1 << 63]), max_size=2),
        rising=st.booleans(),
        bounded=st.booleans(),
    ),
    st.builds(q.FetchOffsets, topics, readers, st.none() | st.lists(held, max_size=2).map(tuple)),
    st.builds(q.DeleteOffsets, topics, readers, st.lists(held, max_size=2).map(tuple)),
    st.builds(q.CommitOffsets, topics, groups, st.sampled_from([{0: 1}, {None: 1}]), members, generations),
    st.builds(
        q.CreateGroup, topics, group_names, st.sampled_from([None, 7]), st.sampled_from(q.IfExists), st.booleans()
    ),
    st.builds(q.DeleteGroup, topics, group_names | st.just(7)),
    st.builds(q.ListGroups, namespaces, st.none() | names),
    st.builds(q.DescribeGroup, topics | st.just(q.Topic("default", "")), group_names | st.just(7)),
    st.builds(
        q.JoinGroup,
        topics,
        group_names | st.just(7),
        members,
        st.sampled_from([q.Heartbeats(10.0), q.WhileConnected()]),
        st.sampled_from(["", "range", "round_robin", "none"]),
        create=st.sampled_from([0, 0, 2]),
        exclusive=st.booleans(),
        existing=st.booleans(),
    ),
    st.builds(q.SyncGroup, topics, group_names, members, generations),
    st.builds(q.Heartbeat, topics, group_names, members, generations),
    st.builds(q.LeaveGroup, topics, group_names, members, st.none() | generations),
    st.builds(q.ListMemberships, st.sampled_from([None, 1, 2])),
    st.builds(q.FindLeader, st.none() | topics),
    st.just(q.Ping()),
    st.just(q.EndSession()),
)


ORDERS = q.Topic("default", "orders")
team = st.builds(q.Group, st.sampled_from(["g", "h", 1]))
by_connection = st.one_of(
    st.builds(q.JoinGroup, st.just(ORDERS), group_names, st.just(""), st.just(q.WhileConnected())),
    st.builds(q.LeaveGroup, st.just(ORDERS), group_names, st.just("")),
    st.builds(q.Fetch, st.just(ORDERS), st.none(), starts, st.just(1), commit=st.booleans(), reader=team),
    st.builds(q.CommitOffsets, st.just(ORDERS), team, st.just({None: 1}), bounded=st.booleans()),
    st.builds(q.FetchOffsets, st.just(ORDERS), team, st.sampled_from([None, (None,), (None, 0)])),
    st.builds(q.DeleteOffsets, st.just(ORDERS), team, st.just((None,))),
    st.builds(lambda to: q.Publish(ORDERS, to, canonical([Record(value=b"v")]), create=3), targets),
    st.builds(q.CreatePartitions, st.just(ORDERS), st.just(1)),
    st.builds(q.ListMemberships, st.sampled_from([None, 1, 2])),
    st.just(q.EndSession()),
)
"""What clients ask whose members live with their connections: mostly in vain if it were drawn among all the others."""


def on_orders(command: q.Command) -> q.Command:
    """The same, about the topic that is there more often than not."""
    changed: q.Command = msgspec.structs.replace(command, topic=ORDERS)
    return changed


def looks_first(command: q.Command) -> bool:
    """Whether what a command does depends on what is visible when its turn comes."""
    match command:
        case q.CommitOffsets():
            return None in command.offsets
        case q.DeleteOffsets():
            return None in command.partitions
    return isinstance(command, q.Fetch | q.JoinGroup | q.Take)


def rebalances(command: q.Command) -> bool:
    """Whether a group may be shared out anew for it: once for each, or once for several that come in one."""
    if isinstance(command, q.CreateTopic):
        return command.if_exists is q.IfExists.GROW
    return isinstance(command, q.CreatePartitions | q.DeletePartitions)


def comparable(burst: list[q.Command]) -> Iterator[q.Command]:
    """What of a burst comes to the same for all who decide writes in the order they came."""
    rebalanced = False
    for command in burst:
        if not looks_first(command) and not (rebalanced and rebalances(command)):
            rebalanced = rebalanced or rebalances(command)
            yield command


class Comparison(RuleBasedStateMachine):
    """Two clients of the model, two of the backend under test; all get the same commands at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.reactor = Reactor()
        self.model = self.clients(MemoryBackend(self.reactor, self.clock))
        self.tested = self.clients(self.open())

    def clock(self) -> int:
        return self.now

    def open(self) -> Any:
        raise NotImplementedError

    def clients(self, backend: Any) -> list[Driver]:
        """Two of them; members that have no name are numbered alike."""
        numbers = itertools.count(1)
        backend._grouping._coordinator._suffix = lambda: f"{next(numbers):04d}"
        return [Driver(backend, self.reactor, q.Session(id)) for id in (1, 2)]

    clients_of_one = st.integers(0, 1)

    @rule(command=commands | by_connection, client=clients_of_one)
    def ask(self, command: q.Command, client: int) -> None:
        assert self.tested[client].ask(command) == self.model[client].ask(command)

    @rule(command=tables.map(on_orders) | queues.map(on_orders), client=clients_of_one)
    def use_a_table(self, command: q.Command, client: int) -> None:
        assert self.tested[client].ask(command) == self.model[client].ask(command)

    @rule(burst=st.lists(by_connection, min_size=2, max_size=6), client=clients_of_one)
    def read_as_a_member(self, burst: list[q.Command], client: int) -> None:
        for command in burst:
            assert self.tested[client].ask(command) == self.model[client].ask(command)

    @rule(burst=st.lists(commands, min_size=2, max_size=8), client=clients_of_one)
    def ask_without_waiting(self, burst: list[q.Command], client: int) -> None:
        """Writes are decided in the order they came.

        What looks first (a fetch, a join, a commit by a member) waits for the writes before it, and may see those after
        it.
        """
        asked = list(comparable(burst))
        begun = [self.tested[client].begin(command) for command in asked]
        expected = [self.model[client].ask(command) for command in asked]
        for command, deferred, outcome in zip(asked, begun, expected, strict=True):
            fenced = isinstance(command, q.CommitOffsets) and command.member is not None
            if writes(command) and not fenced and not rebalances(command):
                assert self.result(deferred) == outcome
            else:
                self.result(deferred)

    @rule(microseconds=st.integers(1, 30))
    def wait(self, microseconds: int) -> None:
        self.now += microseconds

    @rule(seconds=st.floats(0.5, 6))
    def fall_silent(self, seconds: float) -> None:
        self.reactor.advance(seconds)

    def result(self, deferred: Any) -> Any:
        try:
            return self.reactor.wait(deferred)
        except CommandFailed as failure:
            return failure.fault, failure.facts

    def teardown(self) -> None:
        self.tested[0].close()


class Sqlite(Comparison):
    """The file is read back from time to time, and so is everything that is not in memory any more."""

    def open(self) -> SqliteBackend:
        if not hasattr(self, "directory"):
            self.directory = Path(tempfile.mkdtemp())
        return SqliteBackend(self.directory, registry([]), self.reactor, self.clock)

    @rule()
    def restart(self) -> None:
        self.tested[0].close()
        self.tested = self.clients(self.open())
        backend: Any = self.model[0].backend
        for namespace in backend._state.namespaces.values():  # whose turn it was is not kept
            for topic in namespace.topics.values():
                topic.turn = 0
        coordinator = backend._grouping._coordinator  # and who is a member is not either
        coordinator._groups.clear()
        coordinator._sessions.clear()
        self.model = self.clients(backend)

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.directory)


TestSqlite = Sqlite.TestCase
TestSqlite.settings = settings(stateful_step_count=30, report_multiple_bugs=False)
