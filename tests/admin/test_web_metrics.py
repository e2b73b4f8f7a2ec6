"""gateway.admin.metrics: what an operator reads of a process, and how much of it there can be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.task import Clock

from admin.looking import STARTED, Looking
from gateway.admin.metrics import METRICS, MOST, OTHER
from gateway.admin.view import AT_A_TIME
from gateway.admin.web_watch import MAX_GROUPS
from gateway.backends.commits import Commits
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.records import Record, canonical
from gateway.net.meters import BOUNDS
from gateway.net.tapping import Journaled
from net.peers import Client, Node

HERE = {"listener": "test", "dialect": "native"}
HUGE = 100_000
MOST_SERIES = 1_000
"""Whatever clients do to a gateway of two listeners."""


@pytest.fixture
def nodes() -> list[Node]:
    clock = Clock()
    first = Node(MemoryBackend(clock, lambda: STARTED), "native", clock)
    second = Node(first.port.backend, "pipe", clock)
    second.port, second.listening.name = first.port, "text"
    second.listening.port = first.port
    return [first, second]


@pytest.fixture
def looking(nodes: list[Node]) -> Iterator[Looking]:
    looking = Looking(*nodes)
    yield looking
    looking.close()


def topic(name: object) -> q.Topic:
    return q.Topic("default", str(name))


def publish(name: object, count: int) -> q.Publish:
    return q.Publish(topic(name), 0, canonical([Record(None, b"v")] * count), create=1)


def series(looking: Looking) -> list[tuple[str, dict[str, str], float]]:
    """Every line, as Prometheus reads it."""
    text = looking.get("/metrics").text
    return [
        (each.name, each.labels, each.value)
        for family in text_string_to_metric_families(text)
        for each in family.samples
    ]


def test_every_metric_is_shown_once_there_is_something_to_show(looking: Looking, nodes: list[Node]) -> None:
    client = Client(nodes[0])
    client.ask(publish("orders", 3))
    client.ask(q.CommitOffsets(topic("orders"), q.Group("billing"), {0: 1}))
    client.ask(q.Fetch(topic("nowhere"), 0, 0))
    nodes[1].connect().send(b"nonsense\n")
    nodes[0].listening.meter.turned_away["connections"] += 1
    commits = Commits(lambda: 0.0)
    commits.took(-0.003, 5)
    nodes[0].port.backend.commits = (commits,)  # type: ignore[attr-defined]
    nodes[0].port.taps.journals.append(lambda: Journaled(1, 2, 3, 4))
    looking.get("/metrics")
    looking.clock.advance(1)
    shown = {name for name, _, _ in series(looking)}
    for metric in METRICS:
        name = f"gateway_{metric.name}"
        assert shown & {name, f"{name}_total", f"{name}_bucket"}, f"{name} is missing"
    assert {name for name in shown if not name.startswith("gateway_")} == set()


def test_commands_and_faults_are_counted_by_listener_dialect_and_kind(looking: Looking, nodes: list[Node]) -> None:
    client = Client(nodes[0])
    for _ in range(3):
        client.ask(q.Fetch(topic("nowhere"), 0, 0))
    assert looking.sample("gateway_commands_total", **HERE, kind="Fetch") == 3
    assert looking.sample("gateway_faults_total", **HERE, kind="Fetch", fault="NO_SUCH_TOPIC") == 3
    assert looking.sample("gateway_connections", **HERE) == 1
    client.peer.lose()
    assert looking.sample("gateway_connections", **HERE) == 0
    assert (looking.sample("gateway_accepted_total", **HERE), looking.sample("gateway_closed_total", **HERE)) == (1, 1)
    assert looking.sample("gateway_received_bytes_total", **HERE) == nodes[0].listening.meter.bytes_in > 0
    assert looking.sample("gateway_sent_bytes_total", **HERE) == nodes[0].listening.meter.bytes_out > 0


def test_a_histogram_counts_upward_and_ends_with_all(looking: Looking, nodes: list[Node]) -> None:
    for seconds in (0.00001, 0.003, 0.003, 7.0, 60.0):
        nodes[0].listening.meter.took(q.Publish, seconds)
    labels = {**HERE, "kind": "Publish"}
    rows = [
        (labels["le"], value) for name, labels, value in series(looking) if name == "gateway_command_seconds_bucket"
    ]
    assert [float(bound) for bound, _ in rows] == [*BOUNDS, float("inf")]
    assert [value for _, value in rows] == sorted(value for _, value in rows)
    assert looking.sample("gateway_command_seconds_bucket", **labels, le="0.0025") == 1
    assert looking.sample("gateway_command_seconds_bucket", **labels, le="0.005") == 3
    assert looking.sample("gateway_command_seconds_count", **labels) == 5
    assert looking.sample("gateway_command_seconds_sum", **labels) == pytest.approx(67.00601)


def test_commits_of_several_stores_are_added_up(looking: Looking, nodes: list[Node]) -> None:
    first, second = Commits(lambda: 0.0), Commits(lambda: 0.0)
    first.took(-0.002, 1)
    first.refused("full")
    second.took(-0.004, 300)
    nodes[0].port.backend.commits = (first, second)  # type: ignore[attr-defined]
    assert looking.sample("gateway_commit_seconds_count") == 2
    assert looking.sample("gateway_commit_seconds_sum") == pytest.approx(0.006)
    assert looking.sample("gateway_commit_commands_sum") == 301
    assert looking.sample("gateway_commit_commands_bucket", le="256") == 1
    assert looking.sample("gateway_commit_commands_bucket", le="512") == 2
    assert looking.sample("gateway_commit_failures_total") == 1
    assert looking.sample("gateway_ready") == 0


def test_a_store_that_counts_no_commits_has_none(looking: Looking) -> None:
    assert not [name for name, _, _ in series(looking) if name.startswith("gateway_commit")]


def test_a_late_reactor_is_measured_and_its_worst_is_known_for_a_minute(looking: Looking) -> None:
    looking.clock.advance(0.1)
    looking.clock.advance(0.4)  # 0.3 late
    looking.clock.advance(0.1)
    assert looking.sample("gateway_reactor_delay_worst_seconds") == pytest.approx(0.3)
    assert looking.sample("gateway_reactor_delay_seconds_count") == 3
    assert looking.sample("gateway_reactor_delay_seconds_sum") == pytest.approx(0.3)
    assert looking.get("/state.json").json["delay"] == pytest.approx(0.3)
    looking.clock.pump([0.1] * 590)
    assert looking.get("/state.json").json["delay"] == pytest.approx(0.0)
    assert looking.sample("gateway_reactor_delay_worst_seconds") == pytest.approx(0.3)
    looking.clock.pump([0.1] * 20)
    assert looking.sample("gateway_reactor_delay_worst_seconds") == pytest.approx(0.0)


def test_the_busiest_topics_have_series_and_the_rest_one_together(looking: Looking, nodes: list[Node]) -> None:
    client = Client(nodes[0])
    for at in range(MOST + 30):
        client.ask(publish(at, 1))
    client.ask(publish(OTHER, 1))
    looking.get("/metrics")
    for at in range(MOST + 30):
        client.ask(publish(at, at + 1))
    client.ask(publish(OTHER, 500))
    looking.clock.advance(1)
    shown = {
        (labels["namespace"], labels["topic"]): value
        for name, labels, value in series(looking)
        if name == "gateway_topic_records_per_second"
    }
    assert len(shown) == MOST + 1
    assert shown["default", OTHER] == 500, "a topic of that name is not the rest"
    assert sum(shown.values()) == 500 + sum(range(1, MOST + 31))
    assert shown["default", str(MOST + 29)] == MOST + 30 and ("default", "0") not in shown


def test_the_groups_furthest_behind_have_series_and_the_rest_one_together(looking: Looking, nodes: list[Node]) -> None:
    client = Client(nodes[0])
    client.ask(publish("orders", 100))
    for at in range(MOST + 10):
        client.ask(q.CommitOffsets(topic("orders"), q.Group(f"group{at}"), {0: 100 - at}))
    client.ask(q.CreateGroup(topic("orders"), "never"))
    shown = {labels["group"]: value for name, labels, value in series(looking) if name == "gateway_group_lag"}
    assert len(shown) == MOST + 1 and "never" not in shown
    assert shown[f"group{MOST + 9}"] == MOST + 9
    assert shown[OTHER] == sum(range(10))


def test_of_very_many_groups_a_bounded_number_is_asked_about(looking: Looking, nodes: list[Node]) -> None:
    client = Client(nodes[0])
    client.ask(publish("orders", 10))
    for at in range(MAX_GROUPS + 200):
        client.ask(q.CommitOffsets(topic("orders"), q.Group(f"group{at}"), {0: 9}))
    assert looking.sample("gateway_groups") == MAX_GROUPS + 200
    stored = looking.get("/state.json").json["stored"]
    assert (stored["looked_at"], stored["lag"]) == (MAX_GROUPS, MAX_GROUPS)


def test_labels_hold_what_clients_named(looking: Looking, nodes: list[Node]) -> None:
    name = 'a"b\\c\nd{e="f"} 1\n# TYPE g gauge'
    client = Client(nodes[0])
    client.ask(publish(name, 1))
    looking.get("/metrics")
    looking.clock.advance(1)
    shown = [labels["topic"] for name, labels, _ in series(looking) if name == "gateway_topic_records_per_second"]
    assert shown == [name]


def test_a_hundred_thousand_topics_do_not_make_a_hundred_thousand_series(looking: Looking, nodes: list[Node]) -> None:
    client = Client(nodes[0])
    for at in range(HUGE):
        nodes[0].port.backend.execute(q.CreateTopic(topic(at), 1), client.peer.connection.who)
    for at in range(100):
        client.ask(publish(at, 1))
        client.ask(q.CommitOffsets(topic(at), q.Group(f"group{at}"), {0: 0}))
    looking.get("/metrics")
    looking.clock.advance(1)
    began = time.monotonic()
    found = series(looking)
    took = time.monotonic() - began
    assert looking.sample("gateway_topics") == HUGE
    assert len(found) < MOST_SERIES, f"{len(found)} series"
    assert len(looking.get("/metrics").body) < 200_000
    assert len(looking.get("/state.json").body) < 100_000
    assert took < 10.0, f"{took:.1f} s"


def test_looking_at_very_many_topics_leaves_others_their_turn(looking: Looking, nodes: list[Node]) -> None:
    backend, who = nodes[0].port.backend, Client(nodes[0]).peer.connection.who
    for at in range(3 * AT_A_TIME):
        backend.execute(q.CreateTopic(topic(at), 1), who)
    turns = [0]

    def counted(topics: Callable[[], Iterator[r.TopicDescription]] = backend.topics) -> Iterator[r.TopicDescription]:  # type: ignore[attr-defined]
        for each in topics():
            turns[-1] += 1
            yield each

    def turn() -> None:
        turns.append(0)
        if len(turns) < 10:
            looking.clock.callLater(0, turn)

    backend.topics = counted  # type: ignore[attr-defined]
    looking.clock.callLater(0, turn)
    browser = looking.begin("/metrics")
    looking.clock.advance(0)
    assert f"gateway_topics {3 * AT_A_TIME:.1f}" in browser.read().decode()
    assert [many for many in turns if many] == [AT_A_TIME] * 3


def test_closing_takes_all_of_them_out_of_the_registry(nodes: list[Node]) -> None:
    looking = Looking(*nodes)
    looking.close()
    assert list(looking.registry.collect()) == []
