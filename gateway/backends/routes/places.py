"""Places: which route a reference to a topic goes to, and what the topic is called there.

Every backend numbers its own topics.  What clients see is that number + (the route's number << 24); the route `*` is
number 0, so its numbers are unchanged.  Namespaces are those of the route `*`, with its ids; another route goes by
their names, and gets a namespace of that name when it is needed there.

Names are found at once.  A number has to be looked up once, since a topic whose name another route owns is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

import msgspec
from twisted.internet.defer import Deferred, maybeDeferred

from gateway.backends.interface import IBackend
from gateway.backends.routes.patterns import Patterns
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import DEFAULT_NAMESPACE, DEFAULT_NAMESPACE_ID, Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Reply

R = TypeVar("R", bound=Reply)

NUMBER_BITS = 24
"""Of a topic's number in its own backend."""

_NUMBER = (1 << NUMBER_BITS) - 1

MAX_ROUTES = 256
"""What the high byte of a number tells apart."""

MAX_SEEN = 100_000
"""Topics by number that are known to be their route's own; then all are looked up anew."""


class Place(msgspec.Struct, frozen=True, gc=False):
    """route: number of the backend.  topic: what it is called there.  namespace: by name."""

    route: int
    topic: q.Topic
    namespace: str


class Places:
    """backends: by route number.  patterns: who owns which name."""

    def __init__(self, patterns: Patterns, backends: Sequence[IBackend]) -> None:
        self.patterns = patterns
        self.backends = backends
        self._names: dict[int, str] = {DEFAULT_NAMESPACE_ID: DEFAULT_NAMESPACE}
        self._entered: set[tuple[int, str]] = {(route, DEFAULT_NAMESPACE) for route in range(len(backends))}
        self._seen: set[tuple[int, str, int]] = set()

    def find(self, topic: q.Topic, session: Session) -> Place | Deferred[Place]:
        """Raises, or fails with, CommandFailed: NO_SUCH_NAMESPACE, NO_SUCH_TOPIC."""
        reference, name = topic.namespace, topic.name
        namespace = reference if isinstance(reference, str) else self._names.get(reference)
        if namespace is not None:
            known = self._known(topic, namespace, name)
            if known is not None:
                return known
        return Deferred.fromCoroutine(self._look(topic, session))

    async def namespace(self, reference: int | str, session: Session) -> str:
        """The name of a namespace that there is.  Fails with NO_SUCH_NAMESPACE."""
        if reference in (DEFAULT_NAMESPACE, DEFAULT_NAMESPACE_ID):
            return DEFAULT_NAMESPACE
        described = await self.ask(0, q.DescribeNamespace(reference), r.NamespaceDescription, session)
        if isinstance(reference, int):
            self._names[reference] = described.name
        return described.name

    async def make(self, route: int, namespace: str, session: Session) -> None:
        """Make a namespace there, unless there is one of that name."""
        try:
            await self.ask(route, q.CreateNamespace(namespace), r.NamespaceDescription, session)
        except CommandFailed as failure:
            if failure.fault is not Fault.NAMESPACE_EXISTS:
                raise

    def forget(self, namespace: str) -> None:
        """A namespace is gone, or has turned out to be."""
        self._names = {id: name for id, name in self._names.items() if name != namespace}
        self._entered = {(route, name) for route, name in self._entered if name != namespace}
        self._seen = {seen for seen in self._seen if seen[1] != namespace}

    def shown(self, route: int, topic: r.TopicDescription) -> r.TopicDescription:
        """A topic as clients see it.  Raises CommandFailed(UNSUPPORTED) if its number is too high to be shown."""
        if topic.id >> NUMBER_BITS:
            sentence = (
                f"{topic.name} is number {topic.id} where it is kept; behind routes numbers end at 2^{NUMBER_BITS}"
            )
            raise CommandFailed(Fault.UNSUPPORTED, sentence)
        return msgspec.structs.replace(topic, id=numbered(route, topic.id)) if route else topic

    def owns(self, route: int, namespace: str, topic: str) -> bool:
        """Whether a topic that a route has is its own, or there by accident."""
        return self.patterns.owner(namespace, topic) == route

    async def ask(self, route: int, command: q.Command, kind: type[R], session: Session) -> R:
        """What a route answers."""
        return cast(R, await maybeDeferred(self.backends[route].execute, command, session))

    def _known(self, topic: q.Topic, namespace: str, name: int | str) -> Place | None:
        """Where it is if nothing has to be looked up for it."""
        if isinstance(name, str):
            route = self.patterns.owner(namespace, name)
            return _placed(route, topic, namespace) if not route or (route, namespace) in self._entered else None
        route, number = divmod(name, 1 << NUMBER_BITS)
        return _placed(route, topic, namespace) if (route, namespace, number) in self._seen else None

    async def _look(self, topic: q.Topic, session: Session) -> Place:
        namespace, name = await self.namespace(topic.namespace, session), topic.name
        route = self._route(namespace, name)
        if route:
            await self._enter(route, namespace, session)
        if isinstance(name, int):
            await self._see(route, namespace, name, session)
        return _placed(route, topic, namespace)

    async def _enter(self, route: int, namespace: str, session: Session) -> None:
        """See to it that a route has a namespace that there is."""
        if (route, namespace) not in self._entered:
            await self.make(route, namespace, session)
            self._entered.add((route, namespace))

    def _route(self, namespace: str, name: int | str) -> int:
        if isinstance(name, str):
            return self.patterns.owner(namespace, name)
        route = name >> NUMBER_BITS
        if not 0 <= route < len(self.backends):
            raise CommandFailed(Fault.NO_SUCH_TOPIC, str(name))
        return route

    async def _see(self, route: int, namespace: str, name: int, session: Session) -> None:
        """Whether a route has a topic of that number, as clients see it, and owns its name."""
        number = name & _NUMBER
        lookup = q.DescribeTopic(q.Topic(namespace, number))
        try:
            described = await self.ask(route, lookup, r.TopicDescription, session)
        except CommandFailed as failure:
            if failure.fault is not Fault.NO_SUCH_TOPIC:
                raise
            raise CommandFailed(Fault.NO_SUCH_TOPIC, str(name)) from None
        if not self.owns(route, namespace, described.name):
            raise CommandFailed(Fault.NO_SUCH_TOPIC, str(name))
        if len(self._seen) >= MAX_SEEN:
            self._seen.clear()
        self._seen.add((route, namespace, number))


def numbered(route: int, number: int) -> int:
    """What clients see of a number that a route has given."""
    return number + (route << NUMBER_BITS)


def _placed(route: int, topic: q.Topic, namespace: str) -> Place:
    name = topic.name
    if not route or (isinstance(name, str) and topic.namespace == namespace):
        return Place(route, topic, namespace)
    return Place(route, q.Topic(namespace, name if isinstance(name, str) else name & _NUMBER), namespace)
