"""gateway.net.limits: how much one connection or user may take, and what becomes of who wants more."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

import wire
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Done, Reply
from gateway.net.limits import GRACE, MAX_KNOWN, Limits, Rates
from net.peers import Client, Node


class Stuck:
    """A backend that answers when the test says so."""

    durability = "memory"

    def __init__(self) -> None:
        self.asked: list[Deferred[Reply]] = []

    def execute(self, command: q.Command, session: Session) -> Reply | Deferred[Reply]:
        if isinstance(command, q.EndSession):
            return Done()
        self.asked.append(Deferred())
        return self.asked[-1]


def fault_of(outcome: object) -> Fault | None:
    return outcome.fault if isinstance(outcome, CommandFailed) else None


def test_one_connection_more_than_there_may_be_is_turned_away_and_counted() -> None:
    node = Node(MemoryBackend(Clock()), "native", limits=Limits(connections=2))
    first, _ = node.connect(), node.connect()
    assert node.listening.buildProtocol(None) is None
    assert node.listening.meter.turned_away["connections"] == 1
    first.lose()
    assert node.listening.buildProtocol(None) is not None


def test_who_asks_too_often_is_told_that_we_are_busy_and_served_again_later() -> None:
    node = Node(MemoryBackend(Clock()), "native", limits=Limits(requests_per_second=2.0))
    client = Client(node)
    tags = client.begin(*[q.Ping()] * 3)
    client.listen()
    assert [fault_of(client.outcomes[tag]) for tag in tags] == [None, None, Fault.BUSY]
    assert node.listening.meter.turned_away["requests_per_second"] == 1
    node.wait(1.0)
    assert client.ask(q.Ping()) == Done()


def test_a_rate_is_of_a_user_whatever_connections_he_has_and_users_do_not_share_it() -> None:
    rates = Rates(1.0)
    assert [rates.take(who, 0.0) for who in ("ann", "ann", "bob")] == [True, False, True]
    assert [rates.take("ann", at) for at in (0.5, 1.0, 1.5, 100.0, 100.0)] == [False, True, False, True, False]


def test_rates_below_one_a_second_let_the_first_through() -> None:
    rates = Rates(0.1)
    assert [rates.take("ann", at) for at in (0.0, 5.0, 10.0)] == [True, False, True]


def test_of_many_who_ask_the_one_not_seen_for_longest_is_forgotten() -> None:
    rates = Rates(1.0)
    for number in range(MAX_KNOWN + 1):
        assert rates.take(str(number), 0.0)
    assert not rates.take(str(MAX_KNOWN), 0.0)
    assert rates.take("0", 0.0)


def test_silence_ends_a_connection_if_that_was_said_and_is_counted() -> None:
    node = Node(MemoryBackend(Clock()), "native", limits=Limits(idle_seconds=5.0))
    client = Client(node)
    assert client.ask(q.Ping()) == Done()
    node.wait(4.0)
    assert not client.peer.left
    node.wait(3.0)
    assert client.peer.left
    assert node.listening.meter.turned_away["idle_seconds"] == 1


def test_who_waits_for_an_answer_is_not_silent() -> None:
    node = Node(Stuck(), "native", limits=Limits(idle_seconds=2.0))  # type: ignore[arg-type]  # it is all that is asked
    client = Client(node)
    client.begin(q.Ping())
    node.wait(6.0)
    assert not client.peer.left


def test_a_command_that_takes_too_long_fails_and_its_late_end_reaches_nobody() -> None:
    backend = Stuck()
    node = Node(backend, "native", limits=Limits(command_seconds=3.0))  # type: ignore[arg-type]  # likewise
    client = Client(node)
    [tag] = client.begin(q.Ping())
    node.wait(3.0 + GRACE)
    client.listen()
    assert tag not in client.outcomes
    node.wait(2.0)
    client.listen()
    assert fault_of(client.outcomes[tag]) is Fault.TIMEOUT
    backend.asked[0].callback(Done())
    [later] = client.begin(q.Ping())
    backend.asked[1].callback(Done())
    client.listen()
    assert client.outcomes[later] == Done()
    assert node.listening.meter.turned_away["command_seconds"] == 1


def test_what_a_command_says_it_would_wait_is_not_taken_from_it() -> None:
    node = Node(Stuck(), "native", limits=Limits(command_seconds=1.0))  # type: ignore[arg-type]  # likewise
    client = Client(node)
    [tag] = client.begin(q.Take(q.Topic("default", "t"), 20.0))
    node.wait(20.0)
    client.listen()
    assert tag not in client.outcomes
    node.wait(5.0)
    client.listen()
    assert fault_of(client.outcomes[tag]) is Fault.TIMEOUT


def test_what_is_asked_how_it_ended_and_how_long_it_took_is_counted() -> None:
    node = Node(MemoryBackend(Clock()), "native")
    client = Client(node)
    client.ask(q.Ping())
    client.ask(q.DescribeTopic(q.Topic("default", "none")))
    client.peer.send(wire.said("native", "a byte that msgpack never uses is malformed"))
    meter = node.listening.meter
    assert meter.asked == {q.Ping: 1, q.DescribeTopic: 1}
    assert meter.faults == {(q.DescribeTopic, Fault.NO_SUCH_TOPIC): 1}
    assert meter.refused == {Fault.MALFORMED: 1}
    assert sum(meter.latency[q.Ping].counts) == 1
    assert meter.bytes_in > 5 and meter.accepted == 1 and meter.closed == 0
    assert [(seen.kind, seen.fault) for seen in node.port.faults.last()] == [
        ("DescribeTopic", Fault.NO_SUCH_TOPIC),
        ("", Fault.MALFORMED),
    ]
    client.peer.read()
    assert meter.bytes_out > 0


def test_map_reads_that_are_answered_past_the_queue_are_counted_too() -> None:
    node = Node(MemoryBackend(Clock()), "grid")
    client = Client(node)
    users = q.Topic("default", "users")
    client.ask(q.MapPut(users, b"k", b"v", create=1))
    client.ask(q.MapGet(users, b"k"))
    assert [client.outcomes[tag] for tag in client.begin(*[q.MapGet(users, b"k")] * 3) if client.listen() is None]
    assert node.listening.meter.asked[q.MapGet] == 4
