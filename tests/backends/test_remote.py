"""gateway.backends.remote: what a client can rely on while the server behind comes, goes, moves and falls silent."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from backends.loopback import Loopback, Network, encodings, remote
from gateway import dialects
from gateway.backends import remote as maker_module
from gateway.backends.interface import IBackend, IFollower
from gateway.backends.memory import MemoryBackend
from gateway.backends.remote import lanes, leaders, links
from gateway.backends.remote.backend import RemoteBackend
from gateway.backends.remote.ways import Way
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical

ORDERS = q.Topic("default", "orders")
SIX = dialects.names()
START = 1_700_000_000_000_000


@implementer(IBackend)
class Behind:
    """What is behind the server: a memory, of which kinds can be held back, refused or told to be elsewhere.

    asked:  every command and by which session.  holds: kinds that are not answered; held: those, with their sessions.
    fails:  kind -> how it fails.  found: who FindLeader says leads, None = this one.
    """

    durability = "memory"

    def __init__(self, network: Network) -> None:
        self.memory = MemoryBackend(network, lambda: START)
        self.asked: list[tuple[q.Command, q.Session]] = []
        self.holds: set[type] = set()
        self.held: list[tuple[Deferred[Any], q.Command, q.Session]] = []
        self.fails: dict[type, CommandFailed] = {}
        self.found: str | None = None

    def execute(self, command: q.Command, session: q.Session) -> Any:
        self.asked.append((command, session))
        if type(command) in self.fails:
            raise self.fails[type(command)]
        if type(command) is q.FindLeader and self.found is not None:
            return r.Leader(self.found)
        if type(command) in self.holds:
            held: Deferred[Any] = Deferred()
            self.held.append((held, command, session))
            return held
        return self.memory.execute(command, session)

    def follow(self, command: q.Follow, session: q.Session, follower: IFollower) -> Any:
        self.asked.append((command, session))
        if q.Follow in self.fails:
            raise self.fails[q.Follow]
        return self.memory.follow(command, session, follower)

    def close(self) -> None:
        """See IBackend."""

    def release(self) -> None:
        held, self.held, self.holds = self.held, [], set()
        for waiting, command, session in held:
            if not waiting.called:
                self.memory_answer(waiting, command, session)

    def memory_answer(self, waiting: Deferred[Any], command: q.Command, session: q.Session) -> None:
        maybeDeferred(self.memory.execute, command, session).addBoth(waiting.callback)

    def heard(self, kind: type) -> list[Any]:
        """What was asked of a kind, in order."""
        return [command for command, _ in self.asked if type(command) is kind]

    def values(self, topic: q.Topic = ORDERS, partition: int = 0) -> list[bytes | None]:
        """What is stored."""
        answer = self.memory.execute(q.Fetch(topic, partition, 0), q.Session(99))
        assert isinstance(answer, r.Records)
        return [record.value for batch in answer.batches for record in batch.records()]


class House:
    """A gateway before one server, or more; and one client of it."""

    def __init__(self, dialect: str = "native", random: Callable[[], float] = lambda: 0.5, **said: Any) -> None:
        self.network = Network()
        self.dialect, self.said, self.random = dialect, said, random
        self.servers: dict[int, Loopback] = {}
        self.server, self.behind = self.serve(1, **said)
        self.proxy = remote(self.network, self.server, dialect, random, **said)
        self.one, self.two = q.Session(1), q.Session(2)
        self.make(self.behind)

    def serve(self, port: int, **said: Any) -> tuple[Loopback, Behind]:
        """One more server, to be dialed as `server:PORT`."""
        behind = Behind(self.network)
        server = Loopback(behind, self.dialect, self.network, **said)
        self.network.servers.append(server)
        self.servers[port] = server
        self.make(behind)
        return server, behind

    def make(self, behind: Behind, partitions: int = 1) -> None:
        with contextlib.suppress(CommandFailed):
            behind.memory.execute(q.CreateTopic(ORDERS, partitions), q.Session(99))

    def among_many(self) -> House:
        """The same, following leaders."""
        self.proxy.close()
        self.network.settle()
        spoken = dialects.load(self.dialect)
        way = Way(spoken, spoken.settings(**self.said), encodings(), self.network, self.random, None, self.reach)
        self.proxy = RemoteBackend(way, self.server, self.dialect)
        return self

    def reach(self, host: str, port: int) -> Any:
        assert host == "server"
        return self.servers[port]

    def begin(self, command: q.Command, session: q.Session | None = None) -> Answer:
        return Answer(maybeDeferred(self.proxy.execute, command, session or self.one))

    def ask(self, command: q.Command, session: q.Session | None = None) -> Any:
        """Its reply, or the failure; time passes if it must."""
        try:
            return self.network.wait(maybeDeferred(self.proxy.execute, command, session or self.one))
        except CommandFailed as failure:
            return failure

    def settle(self) -> None:
        self.network.settle()

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.05)):
            self.network.pass_time(0.05)

    def down(self) -> None:
        self.server.stop()
        self.server.ends.clear()

    def connections(self) -> int:
        return len(self.server.ends)

    def follow(self, command: q.Follow) -> Reader:
        reader = Reader()
        reader.begin(self.proxy.follow(command, self.one, reader))
        self.settle()
        return reader


class Answer:
    """What comes of a command, as soon as it does."""

    def __init__(self, begun: Deferred[Any]) -> None:
        self.begun = begun
        self.reply: Any = None
        self.failure: Any = None
        self.times = 0
        begun.addCallbacks(self._replied, self._failed)

    def _replied(self, reply: Any) -> None:
        self.reply, self.times = reply, self.times + 1

    def _failed(self, failure: Any) -> None:
        self.failure, self.times = failure.value, self.times + 1

    @property
    def fault(self) -> Fault | None:
        return self.failure.fault if isinstance(self.failure, CommandFailed) else None


class Reader:
    """What is followed."""

    def __init__(self) -> None:
        self.values: list[tuple[int, bytes | None]] = []
        self.failure: CommandFailed | None = None
        self.refused: Any = None
        self.producer: Any = None
        self.then: Callable[[], None] = lambda: None

    def begin(self, producer: Any) -> None:
        maybeDeferred(lambda: producer).addCallbacks(self._begun, self._refused)

    def _begun(self, producer: IPushProducer) -> None:
        self.producer = producer

    def _refused(self, failure: Any) -> None:
        self.refused = failure.value

    def deliver(self, batch: RecordBatch) -> None:
        self.values += [(batch.base + at, record.value) for at, record in enumerate(batch.records())]
        self.then()

    def ended(self, failure: CommandFailed) -> None:
        assert self.failure is None, "told twice"
        self.failure = failure


def publish(*values: bytes, topic: q.Topic = ORDERS, to: int | q.ByKey = 0) -> q.Publish:
    return q.Publish(topic, to, canonical([Record(value=value) for value in values]))


def keyed(*values: bytes) -> q.Publish:
    """As V1 says it: to where the key belongs."""
    return q.Publish(ORDERS, q.ByKey(b"k", "fnv1a_32"), canonical([Record(b"k", value) for value in values]))


def said_in(dialect: str, value: bytes) -> q.Publish:
    return keyed(value) if dialect == "pipe" else publish(value)


def numbered(first: int, last: int) -> list[tuple[int, bytes]]:
    return [(at, b"%d" % at) for at in range(first, last)]


JOIN = q.JoinGroup(ORDERS, "g", "", q.WhileConnected(), existing=True)
GROUP = q.CreateGroup(ORDERS, "g")


def members(behind: Behind) -> int:
    described = behind.memory.execute(q.DescribeGroup(ORDERS, "g"), q.Session(99))
    assert isinstance(described, r.GroupDescription)
    return len(described.members)


# -- order and answers


@pytest.mark.parametrize("dialect", SIX)
def test_a_server_of_every_dialect_answers_ping(dialect: str) -> None:
    house = House(dialect)
    assert house.ask(q.Ping()) == r.Done()
    house.down()
    assert house.ask(q.Ping()).fault is Fault.UNAVAILABLE


@pytest.mark.parametrize("dialect", SIX)
def test_pipelined_commands_of_a_session_keep_their_order(dialect: str) -> None:
    house = House(dialect)
    answers = [house.begin(said_in(dialect, b"%d" % at)) for at in range(50)]
    house.pass_time(0.5)
    assert [answer.times for answer in answers] == [1] * 50
    assert house.behind.values() == [b"%d" % at for at in range(50)]


def test_answers_of_a_tagged_server_may_overtake_each_other() -> None:
    house = House("native")
    house.behind.holds.add(q.LatestOffsets)
    late, soon = house.begin(q.LatestOffsets(ORDERS)), house.begin(q.ListTopics("default"))
    house.settle()
    assert isinstance(soon.reply, r.Topics)
    assert late.times == 0
    house.behind.release()
    house.settle()
    assert isinstance(late.reply, r.Offsets)


def test_answers_of_an_untagged_server_come_in_the_order_they_were_asked_for() -> None:
    house = House("cursus")
    house.behind.holds.add(q.ListTopics)
    late, soon = house.begin(q.ListTopics("default")), house.begin(q.DescribeTopic(ORDERS))
    house.settle()
    assert (late.times, soon.times) == (0, 0)
    house.behind.release()
    house.settle()
    assert isinstance(late.reply, r.Topics)
    assert isinstance(soon.reply, r.TopicDescription)


def test_what_one_session_holds_up_does_not_hold_up_one_on_another_connection() -> None:
    house = House("cursus")
    house.behind.holds.add(q.ListTopics)
    house.begin(q.ListTopics("default"), house.one)
    answered = house.begin(q.DescribeTopic(ORDERS), house.two)
    house.settle()
    assert isinstance(answered.reply, r.TopicDescription)


@pytest.mark.parametrize("dialect", SIX)
@pytest.mark.parametrize("size", [1, 7])
def test_wherever_bytes_are_split_the_outcomes_are_the_same(dialect: str, size: int) -> None:
    house = House(dialect)
    house.server.size = size
    answers = [house.begin(said_in(dialect, b"%d" % at)) for at in range(3)]
    missing = house.begin(q.Fetch(q.Topic("default", "missing"), 0, 0))
    read = house.begin(q.Fetch(ORDERS, 0, 0, 10))
    house.pass_time(1)
    assert [answer.times for answer in answers] == [1, 1, 1]
    assert [record.value for batch in read.reply.batches for record in batch.records()] == [b"0", b"1", b"2"]
    assert missing.times == 1


# -- lost connections


def test_reads_that_a_lost_connection_left_unanswered_are_asked_again() -> None:
    house = House("native")
    house.behind.holds.add(q.ListTopics)
    answers = [house.begin(q.ListTopics("default")) for _ in range(3)]
    house.settle()
    house.behind.holds.clear()
    house.server.ends[0].cut()
    house.pass_time(1)
    assert [type(answer.reply) for answer in answers] == [r.Topics] * 3
    assert len(house.behind.heard(q.ListTopics)) == 6


def test_a_publish_that_may_have_been_done_fails_and_is_never_sent_twice() -> None:
    house = House("native")
    house.behind.holds.add(q.Publish)
    answer = house.begin(publish(b"a"))
    house.settle()
    house.behind.release()  # it is stored, but the answer is lost
    house.server.ends[0].cut()
    house.pass_time(12)
    assert answer.fault is Fault.UNAVAILABLE
    assert "may have been done" in answer.failure.detail
    assert len(house.behind.heard(q.Publish)) == 1
    assert house.behind.values() == [b"a"]


def test_what_was_not_sent_yet_when_the_connection_is_lost_is_sent_on_the_next_a_publish_too() -> None:
    house = House("native")
    house.ask(q.Ping())
    house.behind.holds.add(q.ListTopics)
    house.begin(q.ListTopics("default"))
    answer = house.begin(publish(b"a"))  # behind another, so it leaves in the next turn
    house.server.ends[0].cut()
    house.pass_time(1)
    assert isinstance(answer.reply, r.Published)
    assert house.behind.values() == [b"a"]


def test_repeatable_is_nothing_that_changes_anything() -> None:
    house = House("native")
    joined = q.JoinGroup(ORDERS, "g", "", q.Heartbeats())
    changing = [publish(b"a"), joined, q.CommitOffsets(ORDERS, q.Group("g"), {0: 0}), q.MapAdd(ORDERS, b"k", 1)]
    for command in changing:
        house.behind.holds = {type(command)}
        answer = house.begin(command)
        house.settle()
        house.server.ends[0].cut()
        house.pass_time(1)
        assert answer.fault is Fault.UNAVAILABLE
        assert len(house.behind.heard(type(command))) == 1


def test_a_lost_connection_while_greeting_fails_nobody() -> None:
    house = House("native")
    house.begin(q.Ping())  # connects; the hello is on its way
    waiting = house.begin(publish(b"a"))
    house.server.ends[0].cut()
    house.pass_time(1)
    assert isinstance(waiting.reply, r.Published)
    assert house.behind.values() == [b"a"]
    assert len(house.behind.heard(q.Ping)) == 1  # the greeting is said anew, not asked again as a question


def test_what_waits_for_a_connection_is_sent_in_order_once_it_is_there() -> None:
    house = House("native")
    house.down()
    answers = [house.begin(publish(b"%d" % at)) for at in range(5)]
    house.pass_time(5)
    assert [answer.times for answer in answers] == [0] * 5
    house.server.up = True
    house.pass_time(1.1)
    assert [answer.reply.base for answer in answers] == [0, 1, 2, 3, 4]
    assert house.behind.values() == [b"%d" % at for at in range(5)]


def test_what_waits_for_a_connection_fails_at_its_deadline() -> None:
    house = House("native")
    house.down()
    answer = house.begin(publish(b"a"))
    house.pass_time(9.9)
    assert answer.times == 0
    house.pass_time(0.5)
    assert answer.fault is Fault.UNAVAILABLE
    assert "may have been done" not in answer.failure.detail
    house.server.up = True
    house.pass_time(3)
    assert house.behind.values() == []


def test_a_server_that_is_down_for_long_is_not_waited_for() -> None:
    house = House("native")
    house.down()
    house.ask(q.Ping())
    house.pass_time(1)
    answer = house.begin(q.Ping())
    assert answer.fault is Fault.UNAVAILABLE


@pytest.mark.parametrize("random", [0.01, 0.5, 0.999])
def test_traffic_flows_within_two_seconds_of_a_return_though_nobody_asked_meanwhile(random: float) -> None:
    house = House("native", lambda: random)
    house.ask(q.Ping())
    house.down()
    house.pass_time(60)
    assert house.begin(q.Ping()).fault is Fault.UNAVAILABLE
    house.server.up = True
    house.pass_time(2)
    answer = house.begin(publish(b"a"))
    house.settle()
    assert isinstance(answer.reply, r.Published)


def test_pauses_between_attempts_are_drawn_below_a_bound_that_doubles_to_one_second() -> None:
    draws: list[float] = []

    def random() -> float:
        draws.append(1.0)
        return 1.0

    house = House("native", random)
    house.down()
    begun: list[float] = []
    connect = house.server.connect

    def noted(factory: Any) -> Any:
        begun.append(house.network.seconds())
        return connect(factory)

    house.server.connect = noted  # type: ignore[method-assign]
    house.begin(q.Ping())
    for _ in range(600):
        house.network.pass_time(0.01)
    pauses = [later - sooner for sooner, later in itertools.pairwise(begun)]
    assert pauses[:8] == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0], abs=0.011)
    assert len(draws) == len(begun)


def test_an_attempt_that_nobody_answers_is_given_up_and_made_again() -> None:
    house = House("native")
    attempts: list[Deferred[Any]] = []
    connect = house.server.connect

    def silent(factory: Any) -> Deferred[Any]:
        attempts.append(Deferred())
        return attempts[-1]

    house.server.connect = silent  # type: ignore[method-assign]
    answer = house.begin(publish(b"a"))
    house.pass_time(4)
    assert len(attempts) > 1
    assert all(attempt.called for attempt in attempts[:-1])
    house.server.connect = connect  # type: ignore[method-assign]
    house.pass_time(2)
    assert isinstance(answer.reply, r.Published)


# -- silence and nonsense


@pytest.mark.parametrize("dialect", ["native", "cursus"])
def test_a_silent_server_is_hung_up_on_at_the_deadline_and_everybody_on_it_is_told(dialect: str) -> None:
    house = House(dialect)
    house.behind.holds = {q.ListTopics, q.Publish}
    asked = house.begin(q.ListTopics("default"))
    house.settle()
    house.pass_time(5)
    later = house.begin(publish(b"a"))
    house.pass_time(5.3)
    assert asked.fault is Fault.TIMEOUT
    assert later.fault is Fault.UNAVAILABLE
    assert "may have been done" in later.failure.detail
    house.behind.holds.clear()
    house.pass_time(1)
    assert house.ask(q.Ping()) == r.Done()


def test_a_late_answer_is_not_taken_for_that_to_another_command() -> None:
    house = House("native")
    house.behind.holds = {q.ListTopics}
    late = house.begin(q.ListTopics("default"))
    for _ in range(21):
        house.pass_time(0.5)
        assert house.ask(q.Ping()) == r.Done()
    assert late.fault is Fault.TIMEOUT
    answer = house.begin(q.LatestOffsets(ORDERS))
    house.behind.release()
    house.settle()
    assert isinstance(answer.reply, r.Offsets)
    assert late.times == 1


def test_a_server_that_owes_an_answer_for_twice_the_deadline_is_hung_up_on() -> None:
    house = House("native")
    house.behind.holds = {q.ListTopics}
    house.begin(q.ListTopics("default"))
    house.settle()
    [end] = house.server.ends
    for _ in range(41):
        house.pass_time(0.5)
        house.begin(q.Ping())
    assert end.over
    assert house.ask(q.Ping()) == r.Done()


def test_a_server_that_cannot_be_understood_leaves_a_publish_unknown_and_is_hung_up_on() -> None:
    house = House("native")
    house.ask(q.Ping())
    house.behind.holds = {q.Publish}
    answer = house.begin(publish(b"a"))
    house.settle()
    [end] = house.server.ends
    end.protocol.dataReceived(b"\xff" * 64)
    assert answer.fault is Fault.UNAVAILABLE
    assert "may have been done" in answer.failure.detail
    house.behind.holds.clear()
    house.pass_time(1)
    assert end.over
    assert house.ask(q.Ping()) == r.Done()


def test_a_composed_command_has_one_deadline_for_all_its_steps() -> None:
    house = House("pipe")
    house.behind.holds = {q.Publish}
    answer = house.begin(keyed(*[b"x"] * 5))
    for _ in range(3):  # each step takes 4 s
        assert answer.times == 0
        house.pass_time(4)
        for waiting, command, session in house.behind.held:
            if not waiting.called:
                house.behind.memory_answer(waiting, command, session)
    assert answer.fault is Fault.UNAVAILABLE
    assert "2 of 5 were stored" in answer.failure.detail


def test_who_cancels_is_told_so_and_the_answer_hits_nobody() -> None:
    house = House("native")
    house.behind.holds = {q.Publish}
    answer = house.begin(publish(b"a"))
    house.settle()
    answer.begun.cancel()
    assert isinstance(answer.failure, CancelledError)
    house.behind.release()
    assert house.ask(q.Ping()) == r.Done()
    assert house.behind.values() == [b"a"]


def test_a_canceled_wait_at_a_server_that_cannot_wait_leaves_nothing() -> None:
    house = House("iggy")
    answer = house.begin(q.Fetch(ORDERS, 0, 0, wait=30))
    house.pass_time(0.5)
    answer.begun.cancel()
    assert isinstance(answer.failure, CancelledError)
    asked = len(house.behind.asked)
    house.pass_time(1)
    assert len(house.behind.asked) == asked


def test_a_wait_at_a_server_that_answers_at_once_ends_with_the_first_record() -> None:
    house = House("iggy")
    answer = house.begin(q.Fetch(ORDERS, 0, 0, wait=30))
    house.pass_time(20)
    assert answer.times == 0
    house.ask(publish(b"a"), house.two)
    house.pass_time(0.3)
    assert answer.reply.batches[0].records()[0].value == b"a"


# -- bounds


def test_more_requests_than_a_connection_takes_are_refused_as_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MAX_ASKED", 10)
    house = House("native")
    house.ask(q.Ping())
    house.behind.holds = {q.ListTopics}
    answers = [house.begin(q.ListTopics("default")) for _ in range(15)]
    house.settle()
    assert [answer.fault for answer in answers[10:]] == [Fault.BUSY] * 5
    house.behind.release()
    house.settle()
    assert all(isinstance(answer.reply, r.Topics) for answer in answers[:10])
    house.down()
    waiting = [house.begin(q.ListTopics("default")) for _ in range(15)]
    assert [answer.fault for answer in waiting[10:]] == [Fault.BUSY] * 5


def test_more_bytes_of_records_than_a_connection_takes_are_refused_as_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MAX_HELD", 2500)
    house = House("native")
    house.ask(q.Ping())
    house.behind.holds = {q.Publish}
    answers = [house.begin(publish(b"x" * 1000)) for _ in range(3)]
    assert answers[2].fault is Fault.BUSY
    house.behind.release()
    house.settle()
    house.behind.release()
    house.settle()
    assert isinstance(house.ask(publish(b"y")), r.Published)


def test_sessions_leave_nothing_behind_whenever_they_end() -> None:
    house = House("pipe")
    house.behind.holds = {q.Publish}
    answer = house.begin(keyed(b"a", b"b", b"c"))  # one by one, so it goes on when its session has ended
    plain = house.begin(keyed(b"z"), house.two)
    house.settle()
    house.begin(q.EndSession(), house.one)
    house.begin(q.EndSession(), house.two)
    house.behind.release()
    house.pass_time(1)
    assert isinstance(answer.reply, r.Published)
    assert isinstance(plain.reply, r.Published)
    assert not house.proxy._running
    assert not house.proxy._ended
    assert not house.proxy._first._lanes


def test_a_read_composed_for_a_session_that_has_ended_leaves_no_connection() -> None:
    house = House("cursus")
    house.ask(q.Ping())
    house.behind.holds = {q.LatestOffsets, q.DescribeTopic}
    answer = house.begin(q.Fetch(ORDERS, 0, q.First()))
    house.settle()
    house.begin(q.EndSession())
    house.behind.release()
    house.pass_time(1)
    assert isinstance(answer.reply, r.Records)
    assert house.connections() == 1
    assert not house.proxy._first._lanes


# -- connections of one's own


@pytest.mark.parametrize("dialect", ["iggy", "native"])
def test_a_member_that_lives_with_its_connection_has_one_of_its_own_and_leaves_with_its_session(dialect: str) -> None:
    house = House(dialect)
    house.behind.memory.execute(GROUP, q.Session(99))
    assert isinstance(house.ask(JOIN), r.Joined)
    assert isinstance(house.ask(JOIN, house.two), r.Joined)
    assert members(house.behind) == 2
    assert house.connections() >= 2
    house.ask(q.EndSession())
    house.pass_time(0.5)
    assert members(house.behind) == 1


@pytest.mark.parametrize("dialect", ["iggy", "native"])
def test_a_member_joins_again_after_a_lost_connection_without_being_asked(dialect: str) -> None:
    house = House(dialect)
    house.behind.memory.execute(GROUP, q.Session(99))
    house.ask(JOIN)
    house.down()
    house.settle()
    assert members(house.behind) == 0
    house.server.up = True
    house.pass_time(2)
    assert members(house.behind) == 1


@pytest.mark.parametrize("dialect", ["iggy", "native"])
def test_who_has_left_does_not_join_again(dialect: str) -> None:
    house = House(dialect)
    house.behind.memory.execute(GROUP, q.Session(99))
    house.ask(JOIN)
    number = house.behind.memory.execute(q.DescribeGroup(ORDERS, "g"), q.Session(99))
    assert isinstance(number, r.GroupDescription)
    left = house.ask(q.LeaveGroup(ORDERS, number.id if dialect == "iggy" else "g", ""))
    assert left == r.Done()
    house.down()
    house.server.up = True
    house.pass_time(2)
    assert members(house.behind) == 0


def test_who_was_about_to_leave_when_the_connection_was_lost_does_not_join_again() -> None:
    house = House("native")
    house.behind.memory.execute(GROUP, q.Session(99))
    house.ask(JOIN)
    house.behind.holds = {q.LeaveGroup}
    answer = house.begin(q.LeaveGroup(ORDERS, "g", ""))
    house.settle()
    house.down()
    house.server.up = True
    house.pass_time(2)
    assert answer.fault is Fault.UNAVAILABLE
    assert members(house.behind) == 0


def test_a_member_whose_group_is_gone_does_not_keep_its_session_from_the_server() -> None:
    house = House("native")
    house.behind.memory.execute(GROUP, q.Session(99))
    house.ask(JOIN)
    house.down()
    house.behind.memory.execute(q.DeleteGroup(ORDERS, "g"), q.Session(99))
    house.server.up = True
    house.pass_time(2)
    assert house.ask(q.Ping()) == r.Done()
    assert house.ask(q.SyncGroup(ORDERS, "g", "m", 1)).fault in (Fault.NO_SUCH_GROUP, Fault.NOT_A_MEMBER)


def test_a_session_keeps_its_order_across_the_move_to_a_connection_of_its_own() -> None:
    house = House("iggy")
    house.behind.memory.execute(GROUP, q.Session(99))
    house.ask(q.Ping())
    house.behind.holds = {q.Publish}
    house.begin(publish(b"a"))
    house.begin(JOIN)
    house.begin(publish(b"b"))
    house.settle()
    assert house.behind.heard(q.JoinGroup) == []
    assert len(house.behind.heard(q.Publish)) == 1
    house.behind.release()
    house.pass_time(0.5)
    assert house.behind.values() == [b"a", b"b"]
    kinds = [type(command) for command, _ in house.behind.asked if isinstance(command, q.Publish | q.JoinGroup)]
    assert kinds == [q.Publish, q.JoinGroup, q.Publish]


def test_a_long_wait_at_a_tagged_server_does_not_keep_its_session_from_joining() -> None:
    house = House("native")
    house.behind.memory.execute(GROUP, q.Session(99))
    waiting = house.begin(q.Fetch(ORDERS, 0, 0, wait=60))
    joined = house.begin(JOIN)
    house.settle()
    assert isinstance(joined.reply, r.Joined)
    assert waiting.times == 0


def test_what_a_session_asked_before_it_ended_is_still_done() -> None:
    house = House("iggy")
    house.behind.memory.execute(GROUP, q.Session(99))
    house.ask(JOIN)
    house.behind.holds = {q.Publish}
    for value in (b"a", b"b", b"c"):
        house.begin(publish(value))
    house.begin(q.EndSession())
    for _ in range(3):
        house.pass_time(0.5)
        house.behind.memory_answer(*house.behind.held.pop(0))
    house.pass_time(1)
    assert house.behind.values() == [b"a", b"b", b"c"]
    assert members(house.behind) == 0


def test_who_has_ended_does_not_join_again_while_his_last_answers_are_waited_for() -> None:
    house = House("native")
    house.behind.memory.execute(GROUP, q.Session(99))
    house.ask(JOIN)
    house.behind.holds = {q.ListTopics}
    answer = house.begin(q.ListTopics("default"))
    house.settle()
    house.begin(q.EndSession())
    house.behind.holds = set()
    for end in list(house.server.ends):
        end.cut()
    house.pass_time(1)
    assert isinstance(answer.reply, r.Topics)
    assert len(house.behind.heard(q.JoinGroup)) == 1
    assert house.connections() == 0


def test_a_wait_at_an_untagged_server_holds_up_nobody_its_own_session_neither() -> None:
    house = House("cursus")
    house.behind.memory.execute(q.CreatePartitions(ORDERS, 1), q.Session(99))
    waits = [house.begin(q.Fetch(ORDERS, partition, 0, wait=30)) for partition in (0, 1)]
    house.settle()
    own, other = house.begin(q.DescribeTopic(ORDERS)), house.begin(q.DescribeTopic(ORDERS), q.Session(5))
    house.settle()
    assert isinstance(own.reply, r.TopicDescription)
    assert isinstance(other.reply, r.TopicDescription)
    house.pass_time(12)
    assert [wait.times for wait in waits] == [0, 0]
    stored = house.ask(publish(b"a", to=1))
    assert isinstance(stored, r.Published)
    house.pass_time(1)
    assert [wait.times for wait in waits] == [0, 1]


def test_a_read_that_goes_back_uses_a_new_connection_where_servers_remember() -> None:
    house = House("cursus")
    house.ask(publish(b"a", b"b", b"c"))
    sessions = []
    for start in (0, 2, 3, 1):
        assert house.ask(q.Fetch(ORDERS, 0, start, 2)).batches or start == 3
        [asker] = {session for command, session in house.behind.asked[-1:]}
        sessions.append(asker)
    first, second, third, back = sessions
    assert first is second
    assert second is third
    assert back is not first
    house.pass_time(0.5)
    assert house.connections() == 2


def test_reads_of_one_session_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "MAX_READING", 3)
    house = House("cursus")
    waits = [house.begin(q.Fetch(ORDERS, 0, 0, wait=30)) for _ in range(6)]
    house.settle()
    assert [wait.fault for wait in waits] == [None] * 4 + [Fault.BUSY] * 2
    house.ask(q.EndSession())
    for wait in waits[:4]:
        wait.begun.cancel()
    house.pass_time(0.5)
    assert house.connections() == 0


def test_a_session_reads_what_it_has_written_though_it_reads_elsewhere() -> None:
    house = House("cursus")
    house.ask(q.Ping())
    house.begin(publish(b"a"))
    read = house.begin(q.Fetch(ORDERS, 0, 0))
    house.settle()
    assert [record.value for batch in read.reply.batches for record in batch.records()] == [b"a"]


@pytest.mark.parametrize("dialect", ["cursus", "iggy", "native"])
def test_a_group_that_has_committed_nothing_reads_from_where_it_is_told_to(dialect: str) -> None:
    house = House(dialect)
    house.ask(publish(b"a", b"b"))
    read = house.ask(q.Fetch(ORDERS, 0, q.Next(q.Group("nobody"), 1)))
    assert [record.value for batch in read.batches for record in batch.records()] == [b"b"]


def test_heartbeats_of_a_group_are_carried_through() -> None:
    house = House("pipe")
    joined = house.ask(q.JoinGroup(ORDERS, "g", "m", q.Heartbeats(10.0)))
    assert isinstance(joined, r.Joined)
    for _ in range(6):
        house.pass_time(3)
        assert house.ask(q.Heartbeat(ORDERS, "g", joined.member, joined.generation)) == r.Done()
    assert members(house.behind) == 1


# -- leaders


def moved(leader: str | None = None) -> CommandFailed:
    return CommandFailed(Fault.NOT_LEADER) if leader is None else CommandFailed(Fault.NOT_LEADER, leader=leader)


def test_a_redirect_with_an_address_is_followed_and_kept_in_mind() -> None:
    house = House("native").among_many()
    _, leads = house.serve(2)
    house.behind.fails[q.Publish] = moved("server:2")
    assert isinstance(house.ask(publish(b"a")), r.Published)
    assert isinstance(house.ask(publish(b"b")), r.Published)
    assert leads.values() == [b"a", b"b"]
    assert len(house.behind.heard(q.Publish)) == 1


def test_a_redirect_without_an_address_asks_who_leads() -> None:
    house = House("native").among_many()
    _, leads = house.serve(2)
    house.behind.fails[q.Publish] = moved()
    house.behind.found = "server:2"
    assert isinstance(house.ask(publish(b"a")), r.Published)
    assert leads.values() == [b"a"]


def test_mlog_s_leader_is_found_by_asking() -> None:
    house = House("mlog").among_many()
    _, leads = house.serve(2)
    house.behind.fails[q.Publish] = moved()
    house.behind.found = "server:2"
    assert isinstance(house.ask(publish(b"a")), r.Published)
    assert leads.values() == [b"a"]


@pytest.mark.parametrize("leader", ["", "nonsense", "server:", "server:99999", "a b:1", ":1"])
def test_a_leader_that_cannot_be_dialed_leaves_the_failure_as_it_is(leader: str) -> None:
    house = House("native").among_many()
    house.behind.fails[q.Publish] = moved(leader)
    house.behind.found = leader
    assert house.ask(publish(b"a")).fault is Fault.NOT_LEADER


def test_redirects_that_go_round_end() -> None:
    house = House("native").among_many()
    _, other = house.serve(2)
    house.behind.fails[q.Publish] = moved("server:2")
    other.fails[q.Publish] = moved("server:1")
    answer = house.begin(publish(b"a"))
    house.pass_time(1)
    assert answer.fault is Fault.NOT_LEADER
    assert len(house.behind.heard(q.Publish)) + len(other.heard(q.Publish)) <= 5


def test_a_leader_that_is_gone_is_looked_for_again() -> None:
    house = House("native").among_many()
    second, _ = house.serve(2)
    _, leads = house.serve(3)
    house.behind.fails[q.Publish] = moved("server:2")
    house.ask(publish(b"a"))
    second.stop()
    house.behind.fails[q.Publish] = moved("server:3")
    house.settle()
    assert isinstance(house.ask(publish(b"b")), r.Published)
    assert leads.values() == [b"b"]


def test_a_leader_that_is_gone_for_good_costs_no_more_than_the_deadline() -> None:
    house = House("native").among_many()
    second, _ = house.serve(2)
    second.up = False
    house.behind.fails[q.Publish] = moved("server:2")
    answer = house.begin(publish(b"a"))
    house.pass_time(10.5)
    assert answer.fault in (Fault.UNAVAILABLE, Fault.NOT_LEADER)
    del house.behind.fails[q.Publish]
    assert isinstance(house.ask(publish(b"b")), r.Published)


def test_a_publish_that_a_leader_may_have_done_is_not_asked_of_another_server() -> None:
    house = House("native").among_many()
    second, leads = house.serve(2)
    house.behind.fails[q.Publish] = moved("server:2")
    house.ask(publish(b"a"))
    del house.behind.fails[q.Publish]
    leads.holds = {q.Publish}
    answer = house.begin(publish(b"b"))
    house.settle()
    second.stop()
    house.pass_time(12)
    assert answer.fault is Fault.UNAVAILABLE
    assert house.behind.values() == []


def test_a_leader_that_knows_the_topic_no_more_is_not_asked_again() -> None:
    house = House("native").among_many()
    _, leads = house.serve(2)
    house.behind.fails[q.Publish] = moved("server:2")
    house.ask(publish(b"a"))
    del house.behind.fails[q.Publish]
    leads.memory.execute(q.DeleteTopic(ORDERS), q.Session(99))
    assert isinstance(house.ask(publish(b"b")), r.Published)
    assert house.behind.values() == [b"b"]


def test_reads_members_and_order_are_the_same_at_a_leader() -> None:
    house = House("native").among_many()
    _, leads = house.serve(2)
    leads.memory.execute(GROUP, q.Session(99))
    for kind in (q.JoinGroup, q.Publish, q.Fetch):
        house.behind.fails[kind] = moved("server:2")
    house.ask(JOIN)
    house.ask(JOIN, house.two)
    assert members(leads) == 2
    house.ask(q.EndSession())
    house.pass_time(0.5)
    assert members(leads) == 1


def test_servers_that_lead_nothing_any_more_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaders, "MAX_SERVERS", 3)
    house = House("native").among_many()
    for port in range(2, 12):
        house.serve(port)
        house.behind.fails[q.Publish] = moved(f"server:{port}")
        topic = q.Topic("default", f"t{port}")
        for server in house.servers.values():
            server.port.backend.memory.execute(q.CreateTopic(topic, 1, if_exists=q.IfExists.KEEP), q.Session(99))
        house.ask(publish(b"a", topic=topic))
        house.pass_time(0.5)
        assert len(house.proxy._leaders._servers) <= 3
    del house.behind.fails[q.Publish]
    assert isinstance(house.ask(publish(b"a")), r.Published)


# -- topics that are made on the way


@pytest.mark.parametrize("dialect", ["iggy", "mlog"])
def test_a_topic_is_made_on_a_server_that_only_makes_what_is_new(dialect: str) -> None:
    house = House(dialect)
    new = q.Topic("default", "new")
    published = house.ask(msgspec.structs.replace(publish(b"a", topic=new), create=1))
    assert isinstance(published, r.Published)
    [topic] = [
        at for at in house.behind.memory.execute(q.ListTopics("default"), q.Session(99)).topics if at.name == "new"
    ]
    kept = house.ask(q.CreateTopic(new, 1, if_exists=q.IfExists.KEEP))
    assert isinstance(kept, r.TopicDescription) and len(topic.partitions) == 1


@pytest.mark.parametrize("dialect", ["pipe", "iggy", "mlog", "grid"])
@pytest.mark.parametrize("if_exists", q.IfExists)
def test_what_no_server_of_that_kind_can_make_is_refused(dialect: str, if_exists: q.IfExists) -> None:
    command = q.CreateTopic(q.Topic("default", "new"), 1, q.TopicSettings(idempotent=True), if_exists)
    failure = House(dialect).ask(command)
    assert isinstance(failure, CommandFailed) and failure.fault is Fault.UNSUPPORTED


# -- following


FOLLOWED = [
    ("native", {}, q.Follow(ORDERS, 0, 0)),
    ("cursus", {}, q.Follow(ORDERS, 0, q.Next(q.Group("g")))),
    ("mlog", {"fetch_stream": True}, q.Follow(ORDERS, 0, 0)),
    ("cursus", {}, q.Follow(ORDERS, 0, 0)),
    ("iggy", {}, q.Follow(ORDERS, 0, 0)),
    ("grid", {}, q.Follow(ORDERS, 0, 0)),
    ("pipe", {}, q.Follow(ORDERS, 0, 0)),
    ("mlog", {}, q.Follow(ORDERS, 0, 0)),
]
PUSHES = 3
"""The first of them push."""


@pytest.mark.parametrize(("dialect", "said", "command"), FOLLOWED)
def test_what_is_followed_comes_in_order_before_and_after(dialect: str, said: Any, command: q.Follow) -> None:
    house = House(dialect, **said)
    for at in range(3):
        house.behind.memory.execute(publish(b"%d" % at), q.Session(99))
    reader = house.follow(command)
    house.pass_time(0.5)
    assert reader.values == numbered(0, 3)
    for at in range(3, 6):
        house.behind.memory.execute(publish(b"%d" % at), q.Session(99))
        house.pass_time(0.3)
    assert reader.values == numbered(0, 6)
    pushed = bool(house.behind.heard(q.Follow))
    assert pushed is ((dialect, said, command) in FOLLOWED[:PUSHES])
    reader.producer.stopProducing()
    house.pass_time(0.5)
    house.behind.memory.execute(publish(b"6"), q.Session(99))
    house.pass_time(0.5)
    assert reader.values == numbered(0, 6)
    assert reader.failure is None
    assert not house.proxy._follows


@pytest.mark.parametrize(("dialect", "said", "command"), FOLLOWED)
def test_what_is_followed_is_taken_up_after_a_lost_connection(dialect: str, said: Any, command: q.Follow) -> None:
    house = House(dialect, **said)
    reader = house.follow(command)
    at = 0
    for _ in range(3):
        for _ in range(4):
            house.behind.memory.execute(publish(b"%d" % at), q.Session(99))
            at += 1
        house.pass_time(0.3)
        house.down()
        for _ in range(2):
            house.behind.memory.execute(publish(b"%d" % at), q.Session(99))
            at += 1
        house.pass_time(1)
        house.server.up = True
        house.pass_time(2.5)
        assert reader.values == numbered(0, at)
    assert reader.failure is None


@pytest.mark.parametrize(("dialect", "said", "command"), FOLLOWED)
def test_what_is_followed_ends_when_the_server_is_gone(dialect: str, said: Any, command: q.Follow) -> None:
    house = House(dialect, **said)
    reader = house.follow(command)
    house.pass_time(0.5)
    house.down()
    house.pass_time(22)
    assert reader.failure is not None
    assert reader.failure.fault is Fault.UNAVAILABLE
    assert not house.proxy._follows


@pytest.mark.parametrize(("dialect", "said", "command"), FOLLOWED)
def test_whoever_does_not_read_gets_no_more_until_he_does(dialect: str, said: Any, command: q.Follow) -> None:
    house = House(dialect, **said)
    reader = house.follow(command)
    house.pass_time(0.5)
    reader.producer.pauseProducing()
    house.pass_time(6)
    reader.values.clear()
    for at in range(3):
        house.behind.memory.execute(publish(b"%d" % at), q.Session(99))
    house.pass_time(12)
    assert reader.values == []
    reader.producer.resumeProducing()
    house.pass_time(1)
    assert reader.values == numbered(0, 3)


@pytest.mark.parametrize(("dialect", "said", "command"), FOLLOWED)
def test_who_is_stopped_while_records_are_delivered_gets_no_more(dialect: str, said: Any, command: q.Follow) -> None:
    house = House(dialect, **said)
    reader = house.follow(command)
    house.pass_time(0.5)
    reader.then = lambda: reader.producer.stopProducing()
    for at in range(3):
        house.behind.memory.execute(publish(b"%d" % at), q.Session(99))
    house.pass_time(1)
    assert reader.values
    seen = len(reader.values)
    house.behind.memory.execute(publish(b"3"), q.Session(99))
    house.pass_time(1)
    assert len(reader.values) == seen
    assert not house.proxy._follows
    assert not house.proxy._running


@pytest.mark.parametrize("dialect", ["native", "cursus", "iggy"])
def test_following_what_is_not_there_fails_as_reading_it_does(dialect: str) -> None:
    house = House(dialect)
    missing = q.Follow(q.Topic("default", "missing"), 0, 0)
    reader = house.follow(missing)
    house.pass_time(0.5)
    assert reader.refused.fault is Fault.NO_SUCH_TOPIC
    assert reader.producer is None
    assert not house.proxy._follows


def test_following_from_the_end_misses_nothing_while_the_connection_is_lost() -> None:
    house = House("native")
    house.behind.memory.execute(publish(b"0", b"1"), q.Session(99))
    reader = house.follow(q.Follow(ORDERS, 0, q.Last(1)))
    house.settle()
    assert reader.values == [(1, b"1")]
    quiet = house.follow(q.Follow(ORDERS, 0, q.Last(0)))
    house.down()
    house.behind.memory.execute(publish(b"2"), q.Session(99))
    house.server.up = True
    house.pass_time(3)
    assert quiet.values == [(2, b"2")]


def test_a_stream_is_followed_to_who_leads_the_topic() -> None:
    house = House("native").among_many()
    _, leads = house.serve(2)
    for kind in (q.Fetch, q.Follow):
        house.behind.fails[kind] = moved("server:2")
    leads.memory.execute(publish(b"0"), q.Session(99))
    reader = house.follow(q.Follow(ORDERS, 0, 0))
    house.settle()
    assert reader.values == numbered(0, 1)


def test_a_stream_that_is_always_refused_ends() -> None:
    house = House("native")
    house.behind.fails[q.Follow] = CommandFailed(Fault.BUSY)
    reader = house.follow(q.Follow(ORDERS, 0, 0))
    house.pass_time(15)
    assert reader.failure is not None
    assert reader.failure.fault is Fault.BUSY


# -- logging in


def iggy_with(password: str) -> House:
    house = House("iggy")
    house.proxy.close()
    spoken = dialects.load("iggy")
    login = q.Authenticate("plain", "iggy", password)
    way = Way(spoken, spoken.settings(**house.said), encodings(), house.network, lambda: 0.5, login)
    house.proxy = RemoteBackend(way, house.server, "iggy")
    house.settle()
    return house


def test_a_wrong_password_is_a_clear_failure_and_not_said_again_and_again() -> None:
    house = iggy_with("wrong")
    attempts: list[float] = []
    connect = house.server.connect

    def noted(factory: Any) -> Any:
        attempts.append(house.network.seconds())
        return connect(factory)

    house.server.connect = noted  # type: ignore[method-assign]
    answer = house.begin(publish(b"a"))
    house.pass_time(1)
    assert answer.fault is Fault.UNAVAILABLE
    assert "BAD_CREDENTIALS" in answer.failure.detail
    assert "wrong" not in answer.failure.detail.replace("is wrong", "")
    house.pass_time(60)
    assert len(attempts) == 1
    for _ in range(100):
        house.begin(publish(b"a"))
        house.network.pass_time(0.1)
    assert len(attempts) < 60


def test_a_right_password_lets_in_again_after_a_wrong_one_was_mended() -> None:
    house = iggy_with("iggy")
    assert isinstance(house.ask(publish(b"a")), r.Published)
    house.down()
    house.server.up = True
    house.pass_time(1)
    assert isinstance(house.ask(publish(b"b")), r.Published)


# -- the end


@pytest.mark.parametrize("dialect", SIX)
@pytest.mark.parametrize("up", [True, False])
def test_closing_tells_every_waiter_and_leaves_nothing(dialect: str, up: bool) -> None:
    house = House(dialect)
    if up:
        house.ask(q.Ping())
    else:
        house.down()
    house.behind.holds = {q.Publish, q.Fetch, q.Take, q.ListTopics}
    commands = [publish(b"a"), publish(b"b", b"c"), q.Fetch(ORDERS, 0, 0, wait=30), q.ListTopics("default")]
    answers = [house.begin(command) for command in commands]
    reader = Reader()
    reader.begin(house.proxy.follow(q.Follow(ORDERS, 0, 0), house.two, reader))
    house.pass_time(0.5)
    house.proxy.close()
    assert all(answer.times == 1 for answer in answers)
    assert all(answer.fault in (Fault.UNAVAILABLE, Fault.UNSUPPORTED) for answer in answers)
    assert reader.refused is not None or reader.failure is not None
    house.settle()
    assert house.connections() == 0
    house.network.advance(0)
    assert house.network.getDelayedCalls() == []
    house.proxy.close()


def test_closing_in_the_middle_of_a_wait_leaves_no_timer() -> None:
    house = House("iggy")
    answer = house.begin(q.Fetch(ORDERS, 0, 0, wait=30))
    reader = house.follow(q.Follow(ORDERS, 0, 0))
    house.pass_time(0.37)
    house.proxy.close()
    assert answer.fault is Fault.UNAVAILABLE
    assert reader.failure is not None
    house.settle()
    assert house.network.getDelayedCalls() == []


def test_who_asks_after_the_end_is_refused_and_nothing_is_dialed() -> None:
    house = House("native")
    house.proxy.close()
    house.behind.memory.execute(GROUP, q.Session(99))
    for command in (publish(b"a"), JOIN, q.Ping()):
        assert house.begin(command).fault is Fault.UNAVAILABLE
    assert house.connections() == 0
    assert house.network.getDelayedCalls() == []


def test_who_asks_again_when_he_is_told_of_a_failure_is_answered_too() -> None:
    house = House("native")
    house.ask(q.Ping())
    house.behind.holds = {q.Publish}
    second: list[Answer] = []
    first = maybeDeferred(house.proxy.execute, publish(b"a"), house.one)
    first.addErrback(lambda failure: second.append(house.begin(q.ListTopics("default"))))
    house.settle()
    house.server.ends[0].cut()
    house.pass_time(1)
    assert isinstance(second[0].reply, r.Topics)


class Log:
    def __init__(self, logged: list[str]) -> None:
        self.failure = logged.append


def test_a_defect_while_looking_at_deadlines_does_not_end_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House("native")
    logged: list[str] = []
    monkeypatch.setattr(RemoteBackend, "_log", Log(logged))
    house.down()
    answer = house.begin(q.Ping())
    sweep = house.proxy._leaders.sweep
    monkeypatch.setattr(house.proxy._leaders, "sweep", lambda now: 1 / 0)
    house.pass_time(1)
    assert logged
    monkeypatch.setattr(house.proxy._leaders, "sweep", sweep)
    house.pass_time(10)
    assert answer.fault is Fault.UNAVAILABLE


# -- the maker


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], RemoteBackend]]:
    backends: list[Any] = []
    for name in (maker_module.USER, maker_module.PASSWORD, maker_module.PASSWORD_FILE):
        monkeypatch.delenv(name, raising=False)

    def make(argument: str) -> RemoteBackend:
        backends.append(maker_module.maker.make(argument, encodings(), Network()))
        return backends[-1]

    yield make
    for backend in backends:
        backend.close()


@pytest.mark.parametrize("dialect", SIX)
def test_a_specification_names_a_dialect_and_an_endpoint(made: Any, dialect: str) -> None:
    backend = made(f"{dialect}=tcp:127.0.0.1:9000")
    assert backend._way.dialect.name == dialect
    assert (backend._way.login is None) is (dialect != "iggy")


def test_settings_of_the_dialect_stand_in_brackets(made: Any) -> None:
    backend = made("mlog[fetch_stream=true,node_id=7,namespace=sales]=tcp:127.0.0.1:9000")
    settings = backend._way.settings
    assert (settings.fetch_stream, str(settings.node_id), settings.namespace) == (True, "7", "sales")


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("", "DIALECT=ENDPOINT is wanted"),
        ("cursus", "DIALECT=ENDPOINT is wanted"),
        ("cursus=", "DIALECT=ENDPOINT is wanted"),
        ("gopher=tcp:127.0.0.1:70", "there is no dialect 'gopher'; there are cursus, grid"),
        ("cursus=nowhere", "'nowhere' is no client endpoint such as tcp:127.0.0.1:9000"),
        ("cursus=carrier:pigeon", "'carrier:pigeon' is no client endpoint"),
        ("cursus=tcp:127.0.0.1:port", "'tcp:127.0.0.1:port' is no client endpoint"),
        ("cursus[color=red]=tcp:127.0.0.1:9000", "cursus has no setting 'color'; there are advertise"),
        ("cursus[max_frame=many]=tcp:127.0.0.1:9000", "cursus\\[max_frame=many\\]: "),
    ],
)
def test_what_cannot_be_made_is_said_in_a_sentence(made: Any, argument: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        made(argument)


def test_a_dialect_that_does_not_say_what_it_can_be_asked_is_refused(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import msgspec

    mute = msgspec.structs.replace(dialects.load("pipe"), upstream=None)
    monkeypatch.setattr(dialects, "load", lambda name: mute)
    with pytest.raises(ValueError, match="the dialect pipe does not say what its servers can be asked"):
        made("pipe=tcp:127.0.0.1:9000")


def test_who_to_log_in_as_comes_from_the_environment(made: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv(maker_module.USER, "ann")
    monkeypatch.setenv(maker_module.PASSWORD, "secret")
    assert made("iggy=tcp:127.0.0.1:1")._way.login == q.Authenticate("plain", "ann", "secret")
    kept = tmp_path / "password"
    kept.write_text("kept\n")
    monkeypatch.setenv(maker_module.PASSWORD_FILE, os.fspath(kept))
    assert made("cursus=tcp:127.0.0.1:1")._way.login == q.Authenticate("plain", "ann", "kept")
    monkeypatch.setenv(maker_module.PASSWORD_FILE, os.fspath(tmp_path / "none"))
    with pytest.raises(ValueError, match="cannot be read"):
        made("cursus=tcp:127.0.0.1:1")


@pytest.mark.parametrize(
    ("endpoint", "dialed"),
    [
        ("tcp:127.0.0.1:9000", True),
        ("tcp:127.0.0.1:9000:timeout=5", True),
        ("tcp:\\:\\:1:9000", True),
        ("tcp:host=127.0.0.1:port=9000", False),
        ("unix:/tmp/none", False),
    ],
)
def test_leaders_are_dialed_as_the_first_server_is_or_not_at_all(made: Any, endpoint: str, dialed: bool) -> None:
    reach = made(f"native={endpoint}")._way.reach
    assert (reach is not None) is dialed
    if dialed:
        there = reach("::1", 1234)
        assert (there._host, there._port) == ("::1", 1234)
