"""A server behind the proxy means by every command what a memory means by it, as far as its dialect can say it."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

import hypothesis.strategies as st
import msgspec
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, rule

from backends.driving import Driver
from backends.loopback import Loopback, Network, remote
from backends.test_contract import START, by_connection, commands, on_orders, queues, tables
from dialects.test_upstream import arrived
from dialects.upstream_commands import usual
from gateway import dialects
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import canonical

HERE_ALONE = (
    *(q.Describe, q.ListSessions, q.DescribeSession, q.ListMemberships, q.FindLeader, q.Authenticate, q.Logout),
    q.Follow,
)
"""What each process answers of itself, and what is not executed."""

OUT_OF_RANGE = (Fault.INVALID_ARGUMENT, {})

NO_RECORDS = (Fault.MALFORMED, {})
"""Some that are drawn have headers as no dialect reads them, of numbers without their width."""


class Proxied(RuleBasedStateMachine):
    """Two clients of a memory; two of a gateway before another memory."""

    dialect: str
    clients = st.integers(0, 1)

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.network = Network()
        self.kept, self.behind = (self.numbered(MemoryBackend(self.network, lambda: self.now)) for _ in range(2))
        self.server = Loopback(self.behind, self.dialect, self.network)
        self.network.servers.append(self.server)
        self.proxy = remote(self.network, self.server, self.dialect)
        self.model = [Driver(self.kept, self.network, q.Session(id)) for id in (1, 2)]
        self.tested = [Driver(self.proxy, self.network, q.Session(id)) for id in (1, 2)]

    def numbered(self, backend: MemoryBackend) -> MemoryBackend:
        counted: Any = backend
        numbers = iter(range(1, 1 << 20))
        counted._grouping._coordinator._suffix = lambda: f"{next(numbers):04d}"
        return backend

    @rule(seconds=st.floats(0.5, 6))
    def fall_silent(self, seconds: float) -> None:
        self.now += int(seconds * 1_000_000)
        self.network.pass_time(seconds)

    def teardown(self) -> None:
        self.proxy.close()
        self.network.settle()


class Native(Proxied):
    """The same in everything, since native says everything."""

    dialect = "native"

    @rule(command=commands | by_connection | usual, client=Proxied.clients)
    def ask(self, command: q.Command, client: int) -> None:
        if isinstance(command, HERE_ALONE):
            return
        if isinstance(command, q.Publish) and not command.batch.origin:  # which the server says, then
            command = msgspec.structs.replace(command, batch=msgspec.structs.replace(command.batch, origin="native"))
        got = self.tested[client].ask(command)
        if got != NO_RECORDS:
            self.compare(got, self.model[client].ask(command))

    @rule(command=tables.map(on_orders) | queues.map(on_orders), client=Proxied.clients)
    def use_a_table(self, command: q.Command, client: int) -> None:
        self.compare(self.tested[client].ask(command), self.model[client].ask(command))

    def compare(self, got: Any, expected: Any) -> None:
        if got == OUT_OF_RANGE:  # which our client says before anybody is asked
            assert isinstance(expected, tuple)
        else:
            assert got == expected


UNSAID = {Fault.UNSUPPORTED, Fault.UNREPRESENTABLE, Fault.TOO_LARGE, Fault.MALFORMED, Fault.INVALID_ARGUMENT}
"""Before anything was done."""

NAMED = st.sampled_from([q.Topic("default", "orders"), q.Topic("default", "logs")])
PARTS = (q.Fetch, q.CommitOffsets, q.Publish)
"""What may have been done in part when it fails."""


class Flat(Proxied):
    """The records, the commits and the fault are the same, and so are replies that the wire says whole."""

    partitions = 2

    def __init__(self) -> None:
        super().__init__()
        spoken = dialects.load(self.dialect)
        assert spoken.upstream is not None
        self.upstream, self.spoken = spoken.upstream, spoken
        for name in ("orders", "logs"):
            for backend in (self.kept, self.behind):
                backend.execute(q.CreateTopic(q.Topic("default", name), self.partitions), q.Session(9))

    @rule(command=usual | tables | queues, topic=NAMED, client=Proxied.clients)
    def ask(self, command: q.Command, topic: q.Topic, client: int) -> None:
        if isinstance(command, HERE_ALONE):
            return
        if getattr(command, "topic", None) is not None and not isinstance(command, q.CreateTopic | q.ListGroups):
            command = msgspec.structs.replace(command, topic=topic)
        got = self.tested[client].ask(command)
        if isinstance(got, tuple) and got[0] in UNSAID:
            self.same_records()
            return
        heard = arrived(self.spoken, command, **self.said)
        composed = isinstance(heard, CommandFailed)
        expected = self.model[client].ask(self.placed(command if composed else self.as_heard(command, heard), got))
        self.compare(type(command), got, expected, composed)
        if composed and isinstance(got, tuple) and isinstance(command, PARTS):
            self.take_over()
        self.same_records()

    said: ClassVar[dict[str, str]] = {}
    """Settings of the dialect as both ends have come to them."""

    def as_heard(self, command: q.Command, heard: Any) -> q.Command:
        """With what holds at the server in fields that the wire does not say."""
        unsaid = set(self.upstream.unsaid.get(type(command), {})) - {"wait", "max_bytes", "max_records"}
        return msgspec.structs.replace(command, **{field: getattr(heard, field) for field in unsaid})

    def placed(self, command: q.Command, got: Any) -> q.Command:
        """With what was for the gateway, or the server, to choose."""
        if isinstance(command, q.Publish) and isinstance(command.to, q.Balanced) and isinstance(got, r.Published):
            before = {(name, at): len(there) for name, at, there, _ in contents(self.kept)}
            longer = [
                at
                for name, at, there, _ in contents(self.behind)
                if name == command.topic.name and len(there) > before.get((name, at), 0)
            ]
            assert len(longer) == 1
            return msgspec.structs.replace(command, to=longer[0])
        return command

    def compare(self, kind: type, got: Any, expected: Any, composed: bool) -> None:
        told = not composed and kind not in self.upstream.unheard
        if isinstance(got, tuple) or isinstance(expected, tuple):
            assert not told or type(got) is type(expected), (got, expected)
        elif isinstance(got, r.Records):
            assert values(got) == values(expected)
        elif told:
            assert unsized(got) == unsized(expected)
        else:
            assert type(got) is type(expected)

    def take_over(self) -> None:
        """What was composed and failed was done in part: both begin anew."""
        for backend in (self.kept, self.behind):
            for name in ("orders", "logs"):
                with contextlib.suppress(CommandFailed):
                    backend.execute(q.DeleteTopic(q.Topic("default", name)), q.Session(9))
                backend.execute(q.CreateTopic(q.Topic("default", name), self.partitions), q.Session(9))

    def same_records(self) -> None:
        assert contents(self.behind) == contents(self.kept)


def unsized(value: Any) -> Any:
    """Without the bytes that records take: they are stored in the encoding that they came in."""
    if isinstance(value, tuple):
        return tuple(map(unsized, value))
    if not isinstance(value, msgspec.Struct):
        return value
    fields = {field: unsized(getattr(value, field)) for field in value.__struct_fields__}
    return type(value), {**fields, "bytes": 0}


def values(records: r.Records) -> list[tuple[int, bytes]]:
    """Offsets and values: what else of a record arrives, the dialect's fidelity says."""
    return [
        (batch.base + at, record.value or b"") for batch in records.batches for at, record in enumerate(batch.records())
    ]


def contents(backend: Any) -> list[Any]:
    """All topics with what is in them, and what was committed."""
    found = []
    for topic in backend._state.namespaces["default"].topics.values():
        for at in topic.partitions:
            stored = backend._tail.read(at.number, at.start) or ()
            found.append(
                (
                    topic.name,
                    at.index,
                    [record.value or b"" for batch in stored for record in batch.records()],
                    sorted((str(reader), offset) for reader, offset in at.offsets.items()),
                )
            )
    return found


class Cursus(Flat):
    dialect = "cursus"


class Pipe(Flat):
    """Its server chooses the partition of each record by its key, whatever is asked for."""

    dialect = "pipe"

    def placed(self, command: q.Command, got: Any) -> q.Command:
        if not isinstance(command, q.Publish) or isinstance(command.to, int) or isinstance(got, tuple):
            return command
        *others, last = [
            msgspec.structs.replace(
                command, to=q.ByKey(record.key or b"", "fnv1a_32"), batch=canonical([record], command.batch.origin)
            )
            for record in command.batch.records()
        ]
        for other in others:
            self.model[0].ask(other)
        return last


class Grid(Flat):
    dialect = "grid"


class Mlog(Flat):
    dialect = "mlog"
    partitions = 1


class Iggy(Flat):
    dialect = "iggy"
    said: ClassVar[dict[str, str]] = {"generation": "g2c"}


few = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestNative = Native.TestCase
TestCursus = Cursus.TestCase
TestPipe = Pipe.TestCase
TestGrid = Grid.TestCase
TestMlog = Mlog.TestCase
TestIggy = Iggy.TestCase
for case in (TestNative, TestCursus, TestPipe, TestGrid, TestMlog, TestIggy):
    case.settings = few
