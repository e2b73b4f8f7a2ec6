"""What Kafka calls our topics, groups and consumers.  Pure: names in, names out, or INVALID_NAME.

Topics of the namespace `default` keep their names; `orders` of `sales` is Kafka's `sales.orders`.  A topic with a dot
is one of the namespace before the first dot if that namespace is registered, else one of `default`.  So two topics
never share a name as long as no name of `default` begins with a registered namespace and a dot, which is refused here;
groups and consumers go by the same rule.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

from gateway.core.commands import DEFAULT_NAMESPACE
from gateway.core.faults import CommandFailed, Fault

MAX_TOPIC = 249
"""Characters of a topic's name (org.apache.kafka.common.internals.Topic)."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]+")

RESERVED = "gw"
"""No namespace: what it would hold is what the gateway calls things in Kafka."""

CONSUMER = f"{RESERVED}.consumer."
"""Begins the group.id of a single consumer."""

HIDDEN = "__"
"""Begins the names of topics that are Kafka's own, or the gateway's."""


def topic_name(namespace: str, name: str, namespaces: Container[str]) -> str:
    """Kafka's name of a topic.  namespaces: those registered.  Raises CommandFailed(INVALID_NAME)."""
    whole = _within(namespace, name, namespaces)
    if not _TOPIC.fullmatch(name) or whole in (".", ".."):
        raise CommandFailed(Fault.INVALID_NAME, f"in Kafka a topic's name is of A-Z a-z 0-9 . _ -, not {name!r}")
    if len(whole) > MAX_TOPIC:
        raise CommandFailed(Fault.INVALID_NAME, f"in Kafka a topic's name, {whole!r}, has up to {MAX_TOPIC} characters")
    if whole.startswith(HIDDEN):
        raise CommandFailed(Fault.INVALID_NAME, f"topics that begin with {HIDDEN} are Kafka's own")
    return whole


def split_topic(kafka: str, namespaces: Container[str]) -> tuple[str, str] | None:
    """Namespace and name of Kafka's topic; None = it is hidden."""
    if kafka.startswith(HIDDEN):
        return None
    before, _, after = kafka.partition(".")
    return (before, after) if after and _named(before, namespaces) else (DEFAULT_NAMESPACE, kafka)


def check_namespace(name: str) -> None:
    """Whether topics of a namespace of that name can be Kafka's.  Raises CommandFailed(INVALID_NAME)."""
    if not _TOPIC.fullmatch(name) or "." in name:
        raise CommandFailed(Fault.INVALID_NAME, f"in Kafka a namespace is named with A-Z a-z 0-9 _ -, not {name!r}")
    if name == RESERVED or name.startswith(HIDDEN):
        raise CommandFailed(Fault.INVALID_NAME, f"{RESERVED} and what begins with {HIDDEN} are no namespaces")
    if len(name) > MAX_TOPIC - 2:
        raise CommandFailed(Fault.INVALID_NAME, f"a namespace in Kafka has up to {MAX_TOPIC - 2} characters")


def check_free(namespace: str, names: Iterable[str]) -> None:
    """Whether none of those names in `default` would come to lie in a new namespace.  Raises INVALID_NAME."""
    for name in names:
        if name.startswith(f"{namespace}.") and name != f"{namespace}.":
            raise CommandFailed(Fault.INVALID_NAME, f"{name!r} exists in {DEFAULT_NAMESPACE}, and would be in it")


def check_apart(kafka: str, topics: Iterable[str]) -> None:
    """Kafka counts dots and underscores as one in the names of its metrics, and refuses what meets there."""
    flat = kafka.replace(".", "_")
    for other in topics:
        if other != kafka and other.replace(".", "_") == flat:
            raise CommandFailed(Fault.INVALID_NAME, f"Kafka cannot tell {kafka!r} from its topic {other!r}")


def group_id(namespace: str, name: str, namespaces: Container[str]) -> str:
    """Kafka's group.id of a group.  Raises CommandFailed(INVALID_NAME)."""
    if name.startswith((CONSUMER, HIDDEN)):
        raise CommandFailed(Fault.INVALID_NAME, f"groups that begin with {CONSUMER} or {HIDDEN} are the gateway's own")
    return _within(namespace, name, namespaces)


def consumer_id(namespace: str, name: str, namespaces: Container[str]) -> str:
    """Kafka's group.id of a single consumer.  Raises CommandFailed(INVALID_NAME)."""
    return _within(namespace, f"{CONSUMER}{name}", namespaces)


def split_group(kafka: str, namespaces: Container[str]) -> tuple[str, str] | None:
    """Namespace and name of Kafka's group; None = a single consumer, or hidden."""
    before, _, after = kafka.partition(".")
    namespace, name = (before, after) if after and _named(before, namespaces) else (DEFAULT_NAMESPACE, kafka)
    return None if name.startswith((CONSUMER, HIDDEN)) else (namespace, name)


def _within(namespace: str, name: str, namespaces: Container[str]) -> str:
    """What a namespace makes of a name."""
    if not name:
        raise CommandFailed(Fault.INVALID_NAME, "a name has at least one character")
    if namespace != DEFAULT_NAMESPACE:
        return f"{namespace}.{name}"
    before, _, after = name.partition(".")
    if after and _named(before, namespaces):
        raise CommandFailed(Fault.INVALID_NAME, f"what begins with {before}. is in the namespace {before}")
    return name


def _named(before: str, namespaces: Container[str]) -> bool:
    return before != DEFAULT_NAMESPACE and before in namespaces
