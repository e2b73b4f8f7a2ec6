"""gateway.net.metrics: what an operator reads of what was lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from twisted.internet.testing import MemoryReactorClock

from gateway.backends.memory import MemoryBackend
from gateway.configuration import Configuration, parse_listen
from gateway.core import commands as q
from gateway.core.records import Record, canonical
from gateway.net.metrics import COUNTED, register
from gateway.service import GatewayService
from net.peers import Client, Node

ORDERS = q.Topic("default", "orders")


def seen(registry: CollectorRegistry) -> Callable[[str, str, str], float | None]:
    def total(origin: str, to: str, field: str) -> float | None:
        labels = {"from": origin, "to": to, "field": field}
        return registry.get_sample_value("gateway_translation_loss_total", labels)

    return total


@pytest.fixture
def nodes() -> list[Node]:
    """Two listeners of V1 and one that writes, on one backend."""
    first = Node(MemoryBackend(MemoryReactorClock()), "native")
    return [first, *(Node(first.port.backend, "pipe", first.clock) for _ in range(2))]


def write(node: Node, record: Record, origin: str = "") -> None:
    publish = q.Publish(ORDERS, 0, canonical([record], origin), create=1)
    assert not isinstance(Client(node).ask(publish), Exception)


def test_losses_of_all_listeners_are_added_up_under_who_wrote_and_who_read(nodes: list[Node]) -> None:
    registry = CollectorRegistry()
    register(registry, [node.listening.listener for node in nodes])
    total = seen(registry)
    write(nodes[0], Record(b"k", b"a\nb"))
    assert total("native", "pipe", "key") is None
    for node in nodes[1:]:
        Client(node).ask(q.Fetch(ORDERS, 0, 0))
    assert total("native", "pipe", "key") == 2
    assert total("native", "pipe", "value") == 2
    assert total("native", "pipe", "headers") is None
    Client(nodes[1]).ask(q.Fetch(ORDERS, 0, 0))
    assert total("native", "pipe", "key") == 3
    assert b'gateway_translation_loss_total{field="key",from="native",to="pipe"} 3.0' in generate_latest(registry)


def test_a_label_that_nobody_knows_is_a_question_mark(nodes: list[Node]) -> None:
    registry = CollectorRegistry()
    register(registry, [node.listening.listener for node in nodes])
    for name in ("esperanto", "volapük", "cursus"):
        write(nodes[0], Record(b"k", b"v"), name)
    nodes[0].listening.listener.losses["native", "nobody", "color"] += 7
    Client(nodes[1]).ask(q.Fetch(ORDERS, 0, 0))
    total = seen(registry)
    assert (total("?", "pipe", "key"), total("cursus", "pipe", "key")) == (2, 1)
    assert total("native", "?", "?") == 7


def test_what_a_map_wrote_has_a_name(nodes: list[Node]) -> None:
    registry = CollectorRegistry()
    register(registry, [node.listening.listener for node in nodes])
    Client(nodes[0]).ask(q.MapPut(ORDERS, b"k", b"v", create=1))
    Client(nodes[0]).ask(q.MapRemove(ORDERS, b"k"))
    Client(nodes[1]).ask(q.Fetch(ORDERS, 0, 0))
    total = seen(registry)
    assert (total("table", "pipe", "key"), total("table", "pipe", "tombstone")) == (2, 1)


def test_the_names_of_fields_fit_a_label() -> None:
    assert all(field.isidentifier() and field.islower() for field in COUNTED)


def test_the_service_counts_what_its_listeners_lose() -> None:
    clock = MemoryReactorClock()
    service = GatewayService(Configuration(parse_listen(["native=tcp:1", "pipe=tcp:2"]), "memory"), clock)
    service.privilegedStartService()
    nodes = []
    for _, factory, *_ in clock.tcpServers:
        node = Node(MemoryBackend(clock) if not nodes else nodes[0].port.backend, factory.listener.dialect, clock)
        node.listening, factory.port = factory, node.port
        nodes.append(node)
    write(nodes[0], Record(b"k", b"v"))
    Client(nodes[1]).ask(q.Fetch(ORDERS, 0, 0))
    assert seen(service.metrics)("native", "pipe", "key") == 1
