"""Combining: what several routes have a part in, put together as one backend would show it.

What a route has and does not own is left out.  An answer about everything needs everybody: while one route cannot
answer, a list fails as that route does, since what is missing from it would look deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar, cast

import msgspec
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.python.failure import Failure

from gateway import __version__
from gateway.backends.routes.places import NUMBER_BITS, Place, Places, numbered
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import DEFAULT_NAMESPACE, Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Reply

Verb = Callable[..., Coroutine[Any, Any, Reply]]
"""Of the command and the session."""

R = TypeVar("R", bound=Reply)
Outcomes = list[tuple[int, R | CommandFailed]]
"""(route, what it answered)."""


class Combining:
    """durability: of all routes together.  started: us since the epoch.

    looks: what is put together here, by command type.
    steps: what goes to one route after the other; whatever its session asks meanwhile has to wait.
    """

    def __init__(self, places: Places, durability: str, started: int) -> None:
        self._places = places
        self._durability = durability
        self._started = started
        self.looks: dict[type, Verb] = {
            q.Describe: self._describe,
            q.ListNamespaces: self._list_namespaces,
            q.DescribeNamespace: self._describe_namespace,
            q.ListTopics: self._list_topics,
            q.ListGroups: self._list_groups,
            q.ListMemberships: self._memberships,
            q.EndSession: self._end,
        }
        self.steps: dict[type, Verb] = {
            q.CreateNamespace: self._create_namespace,
            q.DeleteNamespace: self._delete_namespace,
        }

    async def place_of(self, namespace: int | str, group: str, session: Session) -> Place:
        """The topic that has a group.  Fails with NO_SUCH_GROUP, or as a route does that might have it."""
        name = await self._name(namespace, session)
        outcomes = await self._ask(self._owners(name), q.ListGroups(name), r.Groups, session)
        for route, outcome in [] if _absent(outcomes[0][1]) else outcomes:
            for found in self._own_groups(route, outcome) if isinstance(outcome, r.Groups) else ():
                if found.name == group:
                    return Place(route, q.Topic(name, found.topic), name)
        _all(outcomes)
        raise CommandFailed(Fault.NO_SUCH_GROUP, group)

    # -- what only looks

    async def _describe(self, command: q.Describe, session: Session) -> r.NodeDescription:
        namespaces = await self._whole(session)
        topics = [topic for namespace in namespaces for topic in namespace.contents]
        groups = [len(await self._groups(namespace.name, session)) for namespace in namespaces]
        return r.NodeDescription(
            *("routes", __version__, self._durability, self._started),
            namespaces=len(namespaces),
            topics=len(topics),
            partitions=sum(len(topic.partitions) for topic in topics),
            records=sum(namespace.records for namespace in namespaces),
            bytes=sum(namespace.bytes for namespace in namespaces),
            groups=sum(groups),
        )

    async def _list_namespaces(self, command: q.ListNamespaces, session: Session) -> r.Namespaces:
        return r.Namespaces(tuple(_closed(namespace) for namespace in await self._whole(session)))

    async def _describe_namespace(self, command: q.DescribeNamespace, session: Session) -> r.NamespaceDescription:
        described = await self._namespace(command.namespace, session)
        return described if command.contents else _closed(described)

    async def _list_topics(self, command: q.ListTopics, session: Session) -> r.Topics:
        return r.Topics((await self._namespace(command.namespace, session)).contents)

    async def _list_groups(self, command: q.ListGroups, session: Session) -> r.Groups:
        """Of a whole namespace."""
        found = await self._groups(await self._name(command.namespace, session), session)
        return r.Groups(tuple(sorted(found, key=lambda group: (group.name, group.topic))))

    async def _memberships(self, command: q.ListMemberships, session: Session) -> r.Memberships:
        outcomes = _all(await self._ask(range(len(self._places.backends)), command, r.Memberships, session))
        ids = {name: id for id, name in (await self._ids(0, session)).items()}
        found: list[r.MembershipDescription] = []
        for route, reply in outcomes:
            names = await self._ids(route, session) if reply.memberships else {}
            for at in reply.memberships:
                id = ids.get(names.get(at.namespace, ""))
                if id is not None and not at.topic >> NUMBER_BITS:
                    found.append(r.MembershipDescription(at.session, id, numbered(route, at.topic), at.group))
        return r.Memberships(tuple(sorted(found, key=msgspec.structs.astuple)))

    async def _end(self, command: q.EndSession, session: Session) -> r.Done:
        _all(await self._ask(range(len(self._places.backends)), command, r.Done, session))
        return r.Done()

    # -- what goes to one route after the other

    async def _create_namespace(self, command: q.CreateNamespace, session: Session) -> r.NamespaceDescription:
        """The route `*` comes last, since what it does not have is not there: so one that fails has made nothing."""
        for route in self._owners(command.name)[1:]:
            await self._places.make(route, command.name, session)
        return await self._places.ask(0, command, r.NamespaceDescription, session)

    async def _delete_namespace(self, command: q.DeleteNamespace, session: Session) -> r.Done:
        """The route `*` comes last: until then it can be asked for again, and goes on where it failed."""
        name = await self._places.namespace(command.namespace, session)
        if name != DEFAULT_NAMESPACE:
            for route, contents in await self._contents(name, session):
                await self._empty(route, contents, session)
        try:
            return await self._places.ask(0, command, r.Done, session)
        finally:
            self._places.forget(name)

    async def _empty(self, route: int, contents: r.NamespaceDescription, session: Session) -> None:
        """Take from a route what it owns of a namespace; with it the namespace, if that was all it had."""
        own = [topic for topic in contents.contents if self._places.owns(route, contents.name, topic.name)]
        if len(own) == len(contents.contents):
            if route:
                await self._places.ask(route, q.DeleteNamespace(contents.name), r.Done, session)
        elif not route:
            sentence = f"the store of the route * has topics in {contents.name} that another route hides"
            raise CommandFailed(Fault.UNSUPPORTED, sentence)
        else:
            for topic in own:
                await self._places.ask(route, q.DeleteTopic(q.Topic(contents.name, topic.name)), r.Done, session)

    # -- parts

    def _owners(self, namespace: str) -> list[int]:
        return self._places.patterns.owners(namespace)

    async def _name(self, reference: int | str, session: Session) -> str:
        """What a namespace is called; given by name, there may be none."""
        return reference if isinstance(reference, str) else await self._places.namespace(reference, session)

    async def _whole(self, session: Session) -> list[r.NamespaceDescription]:
        listed = await self._places.ask(0, q.ListNamespaces(), r.Namespaces, session)
        return [await self._namespace(namespace.name, session) for namespace in listed.namespaces]

    async def _namespace(self, reference: int | str, session: Session) -> r.NamespaceDescription:
        """With the topics that each route has and owns, and what these hold."""
        parts = await self._contents(await self._name(reference, session), session)
        topics = sorted((topic for part in parts for topic in self._own_topics(*part)), key=lambda topic: topic.id)
        partitions = [partition for topic in topics for partition in topic.partitions]
        return msgspec.structs.replace(
            parts[0][1],
            topics=len(topics),
            records=sum(partition.end - partition.start for partition in partitions),
            bytes=sum(partition.bytes for partition in partitions),
            contents=tuple(topics),
        )

    async def _contents(self, namespace: str, session: Session) -> list[tuple[int, r.NamespaceDescription]]:
        """What each route has in a namespace, the route `*` first."""
        command = q.DescribeNamespace(namespace, contents=True)
        return _all(await self._ask(self._owners(namespace), command, r.NamespaceDescription, session))

    async def _groups(self, namespace: str, session: Session) -> list[r.GroupDescription]:
        parts = _all(await self._ask(self._owners(namespace), q.ListGroups(namespace), r.Groups, session))
        return [group for route, reply in parts for group in self._own_groups(route, reply)]

    def _own_groups(self, route: int, reply: r.Groups) -> Iterable[r.GroupDescription]:
        return (group for group in reply.groups if self._places.owns(route, group.namespace, group.topic))

    def _own_topics(self, route: int, part: r.NamespaceDescription) -> Iterable[r.TopicDescription]:
        """As clients see them; one whose number is too high to be shown is left out."""
        own = (topic for topic in part.contents if self._places.owns(route, part.name, topic.name))
        return (self._places.shown(route, topic) for topic in own if not topic.id >> NUMBER_BITS)

    async def _ids(self, route: int, session: Session) -> dict[int, str]:
        listed = await self._places.ask(route, q.ListNamespaces(), r.Namespaces, session)
        return {namespace.id: namespace.name for namespace in listed.namespaces}

    async def _ask(self, routes: Iterable[int], command: q.Command, kind: type[R], session: Session) -> Outcomes[R]:
        """What each of them answers; all are asked at once.  One that lacks a namespace has no part in it, if it is
        not the route `*`."""
        asked = {route: maybeDeferred(self._places.backends[route].execute, command, session) for route in routes}
        answers: Deferred[list[tuple[bool, Any]]] = DeferredList(asked.values(), consumeErrors=True)
        outcomes = [(route, _outcome(answer)) for route, (_, answer) in zip(asked, await answers, strict=True)]
        return [(route, outcome) for route, outcome in outcomes if not route or not _absent(outcome)]


def _outcome(answer: Reply | Failure) -> Any:
    """Raises what is no CommandFailed: a defect, to be logged."""
    if not isinstance(answer, Failure):
        return answer
    if not isinstance(answer.value, CommandFailed):
        answer.raiseException()
    return answer.value


def _all(outcomes: Outcomes[R]) -> list[tuple[int, R]]:
    """Raises the first failure among them."""
    for _, outcome in outcomes:
        if isinstance(outcome, CommandFailed):
            raise outcome
    return cast("list[tuple[int, R]]", outcomes)


def _absent(outcome: Reply | CommandFailed) -> bool:
    """Whether a route does not have the namespace, which another has."""
    return isinstance(outcome, CommandFailed) and outcome.fault is Fault.NO_SUCH_NAMESPACE


def _closed(namespace: r.NamespaceDescription) -> r.NamespaceDescription:
    return msgspec.structs.replace(namespace, contents=())
