"""Over a real Kafka every command means what a memory means by it, as far as Kafka can say it.

What is not compared, and why:

- generations: Kafka counts them, from where it likes and by more than one; they are translated, so that what is stale
  for one is stale for the other;
- which of several members owns which partition: Kafka orders them by ids of its own; that all are owned once is;
- times below a millisecond, which Kafka does not keep; the clock here goes on by one for every command;
- when topics, partitions and groups were made, and when members were heard of: Kafka does not say;
- sizes in bytes, which it does not say either, and how many records fit into some (`max_bytes` is a hint, and batches
  end elsewhere);
- ids of namespaces: all examples share one registry, so each takes namespaces, and ids of them, of its own;
- of several things that are wrong with one command, which is said.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import hypothesis.strategies as st
import msgspec
import pytest
from confluent_kafka import TopicPartition
from construct import Int32sl, Pass
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from backends.driving import Driver
from backends.test_contract import START, by_connection, commands, produced, queues, tables
from dialects.upstream_commands import usual
from gateway.backends import kafka as package
from gateway.backends.kafka import offsets as kafka_offsets
from gateway.backends.kafka import tables as kafka_tables
from gateway.backends.kafka.backend import KafkaBackend
from gateway.backends.kafka.polling import Seat
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import CANONICAL, Record, RecordBatch, canonical, registry
from gateway.dialects.iggy.layout_g2 import IGGY_G2C
from gateway.dialects.iggy.spec import sent_message
from system.kafka import Broker
from system.live import LiveReactor

SETTLING_SECONDS = 15.0
"""For a group to be shared out anew; it takes a heartbeat, of 1 s."""

OF_ITS_PROCESS = (q.Describe, q.ListSessions, q.DescribeSession, q.Authenticate, q.Logout, q.Follow)
"""What each process answers of itself, and what is not executed."""

AMONG_OTHERS = {Fault.NO_SUCH_GROUP, Fault.NO_SUCH_PARTITION, Fault.INVALID_OFFSET}
"""What may be wrong at the same time, so that it is open which is said; as what is out of range whatever there is."""

NEVER = 1_000_000
"""A generation that no group comes to here."""

CREATED = q.TopicSettings(cleanup="compact")
"""Of a topic that a MapPut made over Kafka."""


def renames(command: q.AlterTopic) -> bool:
    return command.name is not None and command.name != command.topic.name


UNSUPPORTED: dict[type, Callable[[Any], bool]] = {
    q.DeletePartitions: lambda command: True,
    q.AlterTopic: renames,
    q.MapAdd: lambda command: True,
    q.Take: lambda command: True,
    q.QueueClear: lambda command: True,
    q.MapPut: lambda command: command.only != q.Anyhow(),
    q.MapRemove: lambda command: command.only != q.Anyhow(),
    q.DeleteOffsets: lambda command: isinstance(command.reader, q.Group),
}
"""What the backend declares not to do, by what of a command.  Offsets are not forgotten while a member reads."""

WORDS = {
    q.AlterTopic: "renaming a topic",
    q.CreateTopic: "a topic without partitions",
    q.DeletePartitions: "taking partitions away",
}
"""What its documentation says for a kind, if not its name or that of a condition."""


# -- commands as one example asks them


class Names:
    """What the `default`, `sales` and `ops` of one example are called, and its sessions."""

    _examples = itertools.count(1)

    def __init__(self) -> None:
        number = next(self._examples)
        self.main, self.sales, self.ops = f"e{number}", f"s{number}", f"o{number}"
        self.ids = {self.main: 10 * number + 1000, self.sales: 10 * number + 1001, self.ops: 10 * number + 1002}
        self.sessions = {1: 2 * number + 1, 2: 2 * number + 2}
        self.has_own_times = bool(number % 2)

    def namespace(self, said: int | str) -> int | str:
        known: dict[int | str, int | str] = {"default": self.main, "sales": self.sales, "ops": self.ops}
        known |= {1: self.ids[self.main], 9: self.ids[self.sales]}
        return known.get(said, said)

    def own(self, command: q.Command) -> q.Command:
        """The same command, about what is of this example."""
        changed: dict[str, Any] = {}
        for field in command.__struct_fields__:
            value = getattr(command, field)
            if isinstance(value, q.Topic):
                changed[field] = q.Topic(self.namespace(value.namespace), value.name)
            elif field in _FIELDS:
                changed[field] = _FIELDS[field](self, value)
        if command == q.DeleteNamespace("default"):
            return command  # nobody may
        if isinstance(command, q.CreateNamespace):
            name = str(self.namespace(command.name))
            changed |= {"name": name, "id": 0 if command.id == 0 else self.ids.get(name)}
        found: q.Command = msgspec.structs.replace(command, **changed)
        return found

    def start(self, start: Any) -> Any:
        """Times in milliseconds; over what claims times of its own a search by time is another one in Kafka."""
        if not isinstance(start, q.FromTime):
            return start
        return q.First() if self.has_own_times else q.FromTime(START + (start.timestamp - START) * 1000)

    def batch(self, batch: Any) -> Any:
        if self.has_own_times:
            return batch
        return canonical([msgspec.structs.replace(each, timestamp=0) for each in batch.records()], batch.origin)

    def topic_settings(self, said: q.TopicSettings) -> q.TopicSettings:
        """The time here is long past for the broker, which would delete what is an hour old."""
        return msgspec.structs.replace(said, retention_us=said.retention_us * 1_000_000)


_FIELDS: dict[str, Callable[[Names, Any], Any]] = {
    "namespace": Names.namespace,
    "session": lambda names, value: names.sessions.get(value),
    "start": Names.start,
    "batch": Names.batch,
    "settings": Names.topic_settings,
    "liveness": lambda names, value: q.Heartbeats(300.0) if isinstance(value, q.Heartbeats) else value,
    "wait": lambda names, value: min(value, 0.02),
    "max_bytes": lambda names, value: 1 << 20,
}


ORDERS, LOGS = q.Topic("default", "orders"), q.Topic("default", "logs")
SOME_TOPIC = st.sampled_from([None, ORDERS, ORDERS, LOGS])


def about(command: q.Command, topic: q.Topic | None) -> q.Command:
    """The same, about a topic that is there more often than not."""
    if topic is None or not isinstance(getattr(command, "topic", None), q.Topic):
        return command
    found: q.Command = msgspec.structs.replace(command, topic=topic)
    return found


# -- replies as far as they are compared


def shown(value: Any, *, single: bool) -> Any:
    """A reply without what is not compared.  single: no group has several members."""
    if isinstance(value, tuple):
        return tuple(shown(each, single=single) for each in value)
    if isinstance(value, r.Records):
        return value.partition, value.start, value.end, rows(value)
    if not isinstance(value, msgspec.Struct):
        return value
    unsaid = {"created", "bytes", "heard", "rebalanced", "generation", *(() if single else ("assignment",))}
    fields = {name: getattr(value, name) for name in value.__struct_fields__ if name not in unsaid}
    return type(value), {name: shown(each, single=single) for name, each in fields.items()}


def rows(records: r.Records) -> list[tuple[int, int, Record, str]]:
    """Offset, time in ms, record and dialect."""
    return [
        (offset, timestamp // 1000, record, batch.origin)
        for batch in records.batches
        for offset, timestamp, record in batch.rows()
    ]


def complaint(outcome: tuple[Fault, dict[str, Any]]) -> tuple[Fault, dict[str, Any]]:
    """A fault with what the catalogue says it carries; `actual` is a name here, and there what the topic was called."""
    fault, facts = outcome
    unsaid = {"generation", "member", "actual"} | (
        {"current", "requested"} if fault is Fault.STALE_GENERATION else set()
    )
    return fault, {name: fact for name, fact in facts.items() if name not in unsaid}


# -- the machine


class OverKafka(RuleBasedStateMachine):
    """Two clients of a memory, two of a Kafka; all get the same commands at the same time."""

    tested_backend: ClassVar[KafkaBackend]
    reactor: ClassVar[LiveReactor]
    clock: ClassVar[list[int]]
    clients = st.integers(0, 1)

    def __init__(self) -> None:
        super().__init__()
        self.names = Names()
        self.suffixes = itertools.count(1)
        self.is_sound = True
        self.clock[0] = START
        model: Any = MemoryBackend(self.reactor, lambda: self.clock[0])
        tested: Any = self.tested_backend
        self.kept, self.membership = model, tested._verbs[q.SyncGroup].__self__
        model._grouping._coordinator._suffix = self.membership.roster._suffix = self.suffix
        sessions = self.names.sessions.values()
        self.model = [Driver(model, self.reactor, q.Session(id)) for id in sessions]
        self.tested = [Driver(tested, self.reactor, q.Session(id)) for id in sessions]

    def suffix(self) -> str:
        return f"{next(self.suffixes):04d}"

    @initialize()
    def begin(self) -> None:
        for command in (
            q.CreateNamespace("default"),
            q.CreateNamespace("sales"),
            q.CreateTopic(ORDERS, 2),
            q.CreateTopic(LOGS, 1, q.TopicSettings(idempotent=True)),
        ):
            self.put(command, 0)

    @rule(command=commands | by_connection | usual, topic=SOME_TOPIC, client=clients)
    def ask(self, command: q.Command, topic: q.Topic | None, client: int) -> None:
        self.put(about(command, topic), client)

    @rule(command=usual | commands, topic=st.sampled_from([ORDERS, LOGS]), client=clients)
    def ask_about_what_is_there(self, command: q.Command, topic: q.Topic, client: int) -> None:
        self.put(about(command, topic), client)

    @rule(command=tables | queues, topic=SOME_TOPIC, client=clients)
    def use_a_table(self, command: q.Command, topic: q.Topic | None, client: int) -> None:
        self.put(about(command, topic), client)

    @rule(burst=st.lists(by_connection, min_size=2, max_size=5), client=clients)
    def read_as_a_member(self, burst: list[q.Command], client: int) -> None:
        for command in burst:
            self.put(command, client)

    @rule(burst=st.lists(produced, min_size=2, max_size=5), topic=st.sampled_from([ORDERS, LOGS]), client=clients)
    def publish_without_waiting(self, burst: list[list[Record]], topic: q.Topic, client: int) -> None:
        """Batches are stored in the order they came, and seen by who asks behind them."""
        if self.is_compacted(topic):  # it takes nothing without a key
            return
        self.clock[0] += 1000
        asked = [self.names.own(q.Publish(topic, 0, canonical(records))) for records in burst]
        asked.append(self.names.own(q.Fetch(topic, 0, q.First())))
        begun = [self.tested[client].begin(command) for command in asked]
        for command, deferred in zip(asked, begun, strict=True):
            self.compare(command, self.tested[client].outcome(deferred), self.model[client].ask(command))

    @rule()
    def look(self) -> None:
        """All records, and all that was committed."""
        self.compare_contents()

    def is_compacted(self, topic: q.Topic) -> bool:
        described = self.model[0].ask(self.names.own(q.DescribeTopic(topic)))
        return isinstance(described, r.TopicDescription) and described.settings.cleanup != "delete"

    def put(self, command: q.Command, client: int) -> None:
        """Have both carry it out, if it is one to compare."""
        if isinstance(command, OF_ITS_PROCESS) or not is_legal(command) or (self.is_shared and needs_its_own(command)):
            return
        self.clock[0] += 1000
        command = self.names.own(command)
        number = next(self.suffixes)
        got = self.tested[client].ask(self.translated(command))
        self.suffixes = itertools.count(number + 1)  # both make the same names
        if self.is_declared(command, got):
            return
        self.prepare(command)
        expected = self.model[client].ask(command)
        self.compare(command, got, expected)
        self.settle()

    def prepare(self, command: q.Command) -> None:
        """A topic that is made for a map is compacted over Kafka."""
        if isinstance(command, q.MapPut) and command.create and isinstance(command.topic.name, str):
            session = q.Session(0)
            if command.key and self.model[0].ask(q.DescribeTopic(command.topic)) == (Fault.NO_SUCH_TOPIC, {}):
                self.kept.execute(q.CreateTopic(command.topic, command.create, CREATED), session)

    def is_declared(self, command: q.Command, got: Any) -> bool:
        """Whether that is what Kafka cannot do.  Nothing was done then."""
        if not isinstance(got, tuple):
            return False
        if got[0] is Fault.UNSUPPORTED and type(command) in UNSUPPORTED:
            assert UNSUPPORTED[type(command)](command), command
            return True
        if got[0] is Fault.INVALID_ARGUMENT:
            if isinstance(command, q.CreateTopic):
                return command.partitions == 0  # Kafka has no topics without any
            if isinstance(command, q.Publish):  # nor does it compact what has no key
                return self.is_compacted(command.topic) and not all(record.key for record in command.batch.records())
        return False

    def compare(self, command: q.Command, got: Any, expected: Any) -> None:
        self.is_sound = False
        self._compare(command, got, expected)
        self.is_sound = True

    def _compare(self, command: q.Command, got: Any, expected: Any) -> None:
        if isinstance(got, tuple) or isinstance(expected, tuple):
            assert isinstance(got, tuple) and isinstance(expected, tuple), (command, got, expected)
            said = {got[0], expected[0]}
            if not has_several(command) and not said <= AMONG_OTHERS and Fault.INVALID_ARGUMENT not in said:
                assert complaint(got) == complaint(expected), (command, got, expected)
            return
        if isinstance(got, r.Namespaces):
            got = r.Namespaces(tuple(each for each in got.namespaces if each.name in self.names.ids))
            expected = r.Namespaces(tuple(each for each in expected.namespaces if each.name in self.names.ids))
        if isinstance(got, r.Memberships):
            ids = set(self.names.ids.values())
            got = r.Memberships(tuple(each for each in got.memberships if each.namespace in ids))
        single = not self.is_shared
        assert shown(got, single=single) == shown(expected, single=single), (command, got, expected)

    # -- groups

    @property
    def groups(self) -> Iterator[Any]:
        """Those of the model that have members."""
        return (group for group in self.kept._grouping._coordinator._groups.values() if group.members)

    @property
    def is_shared(self) -> bool:
        """Whether a group has several members: then who owns what is Kafka's to say."""
        return any(len(group.members) > 1 for group in self.groups)

    def party(self, group: Any) -> Any:
        scope = f"{group.topic.namespace.id}/{group.topic.id}"
        return self.membership.roster.party((scope, group.name))

    def settle(self) -> None:
        """Kafka has shared the groups out as the model has: every partition is somebody's, and nobody else's."""

        def is_settled(group: Any) -> bool:
            found = list(self.party(group))
            owned = sorted(at for member in found for at in member.assignment)
            alike = len({member.generation for member in found}) == 1 and all(member.settled for member in found)
            return alike and owned == list(range(len(group.topic.partitions)))

        for group in self.groups:
            assert {member.name for member in self.party(group)} == set(group.members)
            self.reactor.until(lambda group=group: is_settled(group), SETTLING_SECONDS, f"{group.name} is settled")

    def translated(self, command: q.Command) -> q.Command:
        """With Kafka's generation, where the model's is current; else with one that never is."""
        changed: dict[str, Any] = {}
        for field in ("generation", "resume"):
            if (said := getattr(command, field, None)) is not None:
                changed[field] = self.generation(command, said)
        return msgspec.structs.replace(command, **changed)  # type: ignore[no-any-return]

    def generation(self, command: Any, said: int) -> int:
        reference = command.reader.name if isinstance(command, q.CommitOffsets) else command.group
        asked = command.topic.namespace, command.topic.name
        for group in self.groups:
            topic, registered = group.topic, group.topic.group(reference)
            is_it = {asked[0]} <= {topic.namespace.name, topic.namespace.id} and asked[1] in (topic.name, topic.id)
            if is_it and registered is not None and registered.name == group.name and group.generation == said:
                return int(next(iter(self.party(group))).generation)
        return NEVER

    # -- what is there

    def compare_contents(self) -> None:
        namespaces = self.kept._state.namespaces
        for namespace in (namespaces[name] for name in self.names.ids if name in namespaces):
            self.put_as_is(q.ListTopics(namespace.id))
            for topic in list(namespace.topics.values()):
                asked = q.Topic(namespace.id, topic.id)
                for partition in topic.partitions:
                    self.put_as_is(q.Fetch(asked, partition.index, q.First(), max_bytes=1 << 24))
                for kind, name in {key for partition in topic.partitions for key in partition.offsets}:
                    self.put_as_is(q.FetchOffsets(asked, q.Group(name) if kind == "group" else q.Consumer(name)))

    def put_as_is(self, command: q.Command) -> None:
        self.compare(command, self.tested[0].ask(command), self.model[0].ask(command))

    def teardown(self) -> None:
        try:
            if self.is_sound:
                self.compare_contents()
        finally:
            for client in self.tested:
                client.ask(q.EndSession())
            for name in self.names.ids:
                self.tested[0].ask(q.DeleteNamespace(name))


def is_legal(command: q.Command) -> bool:
    """Whether a dialect could have read it: some that are drawn have headers of numbers without their width."""
    if isinstance(command, q.Publish):
        try:
            CANONICAL.walk(command.batch.body)
        except CommandFailed:
            return False
    return True


def needs_its_own(command: q.Command) -> bool:
    """Whether what a command does depends on which partitions a member owns."""
    match command:
        case q.Fetch():
            return command.partition is None
        case q.CommitOffsets():
            return command.member is not None or None in command.offsets
        case q.FetchOffsets() | q.DeleteOffsets():
            return command.partitions is not None and None in command.partitions
    return False


def has_several(command: q.Command) -> bool:
    """Whether several things may be wrong with it, or with parts of it."""
    match command:
        case q.CommitOffsets():
            return len(command.offsets) > 1
        case q.FetchOffsets() | q.DeleteOffsets():
            return command.partitions is not None and len(command.partitions) > 1
    return False


def test_every_command_means_over_kafka_what_a_memory_means_by_it(kafka: Broker) -> None:
    reactor, clock = LiveReactor(), [START]
    backend = KafkaBackend(kafka.address, registry([]), reactor, lambda: clock[0])
    machine = type("Machine", (OverKafka,), {"tested_backend": backend, "reactor": reactor, "clock": clock})
    few = settings(max_examples=8, stateful_step_count=50, deadline=None, phases=[Phase.generate])
    try:
        run_state_machine_as_test(machine, settings=few)
    finally:
        reactor.wait(backend.close())


@pytest.mark.parametrize("kind", [*UNSUPPORTED, q.CreateTopic])
def test_what_kafka_cannot_do_is_declared(kind: type) -> None:
    said = " ".join(part.__doc__ or "" for part in (package, kafka_offsets, kafka_tables))
    conditions = [each.__name__ for each in (q.IfAbsent, q.IfPresent, q.IfEquals, q.IfCount)]
    if kind in (q.MapPut, q.MapRemove):
        assert [each for each in conditions if each not in said] == []
    else:
        assert WORDS.get(kind, kind.__name__) in said


# -- what it has found, each by itself


@pytest.fixture(scope="module")
def backend(kafka: Broker) -> Iterator[Driver]:
    reactor = LiveReactor()
    client = Driver(KafkaBackend(kafka.address, registry([IGGY_G2C]), reactor), reactor, q.Session(1))
    yield client
    client.close()


def other(client: Driver) -> Driver:
    """Another connection to the same gateway."""
    return Driver(client.backend, client.reactor, q.Session(2))


def made(client: Driver, partitions: int = 1, **settings: Any) -> q.Topic:
    topic = q.Topic("default", f"found-{next(Names._examples)}")
    assert isinstance(client.ask(q.CreateTopic(topic, partitions, q.TopicSettings(**settings))), r.TopicDescription)
    return topic


def sequence(topic: q.Topic, first: int, count: int = 1) -> q.Publish:
    """Records of one producer."""
    numbers = range(first, first + count)
    return q.Publish(topic, 0, canonical([Record(value=b"v", producer=b"p", sequence=at) for at in numbers]))


def test_a_duplicate_is_told_the_end_as_it_is_in_its_turn(backend: Driver) -> None:
    """Behind batches that are still on their way, and behind what was put into a map."""
    topic = made(backend, idempotent=True)
    burst = [sequence(topic, 1, 2), sequence(topic, 1), sequence(topic, 3, 3), sequence(topic, 2, 2)]
    said = [backend.outcome(begun) for begun in [backend.begin(command) for command in burst]]
    assert said == [
        r.Published(0, 0, 1),
        r.Published(0, 2, 1, duplicate=True),
        r.Published(0, 2, 4),
        r.Published(0, 5, 4, duplicate=True),
    ]
    assert backend.ask(q.MapPut(topic, b"k", b"v")) == r.MapChanged(True)
    assert backend.ask(sequence(topic, 1)) == r.Published(0, 6, 5, duplicate=True)


def test_who_was_told_of_a_record_finds_it_although_the_partition_is_followed(backend: Driver) -> None:
    topic = made(backend)
    for number in range(30):
        end = number * 20
        waits = other(backend).begin(q.Fetch(topic, 0, end, wait=5.0))
        begun = [backend.begin(q.Publish(topic, 0, canonical([Record(value=b"v")]))) for _ in range(20)]
        assert isinstance(backend.outcome(begun[-1]), r.Published)
        found = backend.ask(q.Fetch(topic, 0, 0))
        assert (found.end, sum(each.count for each in found.batches)) == (end + 20, end + 20)
        assert isinstance(backend.outcome(waits), r.Records)


def test_a_member_that_holds_no_partition_is_told_how_many_there_are_now(backend: Driver) -> None:
    topic = made(backend, 2)
    group = q.Group(f"g-{topic.name}")
    assert isinstance(backend.ask(q.JoinGroup(topic, str(group.name), "", q.WhileConnected())), r.Joined)
    assert isinstance(backend.ask(q.CreatePartitions(topic, 1)), r.TopicDescription)
    refused = Fault.NO_SUCH_PARTITION, {"partition": 0, "partitions": 3}
    assert backend.ask(q.CommitOffsets(topic, group, {None: 1})) == refused
    backend.ask(q.EndSession())


def test_a_group_whose_members_read_another_topic_takes_commits(backend: Driver) -> None:
    """Kafka's group is one for all topics, and takes them from members alone."""
    topic, unread = made(backend), made(backend)
    group = q.Group(f"g-{topic.name}")
    assert isinstance(backend.ask(q.JoinGroup(topic, str(group.name), "m", q.Heartbeats(60.0))), r.Joined)
    assert backend.ask(q.CommitOffsets(unread, group, {0: 5})) == r.Done()
    assert backend.ask(q.FetchOffsets(unread, group)) == r.CommittedOffsets({0: 5}, {0: 0})
    assert backend.ask(q.FetchOffsets(topic, group)) == r.CommittedOffsets({}, {0: 0})
    assert backend.ask(q.LeaveGroup(topic, str(group.name), "m")) == r.Done()


def test_a_commit_of_nothing_is_answered_and_holds_up_nobody(backend: Driver) -> None:
    topic = made(backend)
    group = q.Group(f"g-{topic.name}")
    assert isinstance(backend.ask(q.JoinGroup(topic, str(group.name), "m", q.Heartbeats(60.0))), r.Joined)
    assert backend.ask(q.CommitOffsets(topic, group, {})) == r.Done()
    assert backend.ask(q.CommitOffsets(topic, group, {0: 1})) == r.Done()
    assert backend.ask(q.LeaveGroup(topic, str(group.name), "m")) == r.Done()


def test_messages_of_iggy_without_an_id_get_one_each(backend: Driver) -> None:
    topic = made(backend)
    nothing = dict.fromkeys(("checksum", "id", "offset", "timestamp", "origin_timestamp", "headers_length"), 0)
    sent = {**nothing, "payload_length": 4, "reserved": bytes(8), "payload": b"same", "headers": None}
    body = b"\0" + 3 * bytes(sent_message("g2c", Pass).build(sent))
    for _ in range(2):
        said = backend.ask(q.Publish(topic, 0, RecordBatch(IGGY_G2C, body, 3, origin="iggy")))
        assert isinstance(said, r.Published), said
    ids = {record.id for batch in backend.ask(q.Fetch(topic, 0, 0)).batches for record in batch.records()}
    assert len(ids) == 6 and b"" not in ids


def test_who_is_not_in_a_group_yet_is_not_shown_in_it(backend: Driver) -> None:
    """While the second is let in the first may have all, or not all is owned; never one of two has all."""
    topic = made(backend, 3)
    name = f"g-{topic.name}"
    assert isinstance(backend.ask(q.JoinGroup(topic, name, "", q.WhileConnected())), r.Joined)
    joining, joined = other(backend).begin(q.JoinGroup(topic, name, "", q.WhileConnected())), []
    joining.addBoth(joined.append)
    while not joined:
        owned = [member.assignment for member in backend.ask(q.DescribeGroup(topic, name)).members]
        assert owned == [(0, 1, 2)] or (0, 1, 2) not in owned, owned
    for client in (backend, other(backend)):
        client.ask(q.EndSession())


class Rejoined:
    """What a place asks of its Consumer when the group has settled: this one is in generation 4 whenever it asks."""

    def assign(self, partitions: list[Any]) -> None:
        assert partitions == []

    def consumer_group_metadata(self) -> bytes:
        return b"CGMDv2:" + bytes(Int32sl.build(4))

    def memberid(self) -> str:
        return "id"


def test_a_place_that_comes_back_to_its_generation_is_in_the_one_that_the_others_are_in() -> None:
    """The broker lets one who joins again, while nothing has changed, into the generation that there is.

    When that happens is up to two clients that hear of a change by themselves: the machine above came across it.
    """
    told: list[tuple[Any, ...]] = []
    seat: Any = Seat({}, "orders", lambda call, *args: told.append(args))
    seat._told = SimpleNamespace(assigned=None, revoked=None)
    for _ in range(2):
        seat._assigned(Rejoined(), [TopicPartition("orders", 1)])
        seat._revoked(Rejoined(), [])
    assert told == [(4, (1,)), (), (4, (1,)), ()]
