"""A backend made of others: each topic's commands go to the one that owns its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast, get_args

import msgspec
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.internet.interfaces import IPushProducer
from twisted.python.failure import Failure
from zope.interface import implementer

from gateway.backends.interface import IBackend, IFollower
from gateway.backends.routes.combining import Combining, Verb
from gateway.backends.routes.patterns import Patterns
from gateway.backends.routes.places import NUMBER_BITS, Place, Places, numbered
from gateway.backends.routes.turns import Turns
from gateway.backends.wall import microseconds
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import DEFAULT_NAMESPACE, Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Reply

T = TypeVar("T")

_DURABILITIES = ("memory", "os", "fsync", "replicated")
"""Weakest first."""

_TOPICAL = [kind for kind in get_args(q.Command) if "topic" in kind.__struct_fields__ and kind is not q.ListGroups]
"""Commands about one topic."""

_OF_A_GROUP = q.DescribeGroup | q.DeleteGroup | q.SyncGroup | q.Heartbeat | q.LeaveGroup
"""Commands that may leave it to the group which topic they are about."""

Topical = Any
"""One of these: what mypy would have to be told thirty times."""

Told = Reply | Deferred[Reply]


@implementer(IBackend)
class Routes:
    """patterns: who owns which name.  backends: by route number, that of the pattern `*` first.

    now: the wall clock in us since the epoch.
    """

    def __init__(self, patterns: Patterns, backends: Sequence[IBackend], now: Callable[[], int] = microseconds) -> None:
        self._backends = backends
        self.durability = min((backend.durability for backend in backends), key=_strength)
        self.commits = tuple(commits for backend in backends for commits in getattr(backend, "commits", ()))
        self._turns = Turns()
        self._places = Places(patterns, backends)
        self._combining = Combining(self._places, self.durability, now())
        self._verbs: dict[type, Callable[..., Told]] = {
            **dict.fromkeys(_TOPICAL, self._topical),
            **{kind: partial(self._look, verb) for kind, verb in self._combining.looks.items()},
            **{kind: partial(self._step, verb) for kind, verb in self._combining.steps.items()},
            q.CreateTopic: self._create,
            q.AlterTopic: self._alter,
            q.ListGroups: self._list_groups,
            q.FindLeader: self._find_leader,
        }

    def execute(self, command: q.Command, session: Session) -> Told:
        """See IBackend."""
        if self._turns.waits(session):
            return self._turns.wait(session, lambda: self._begin(command, session))
        return self._begin(command, session)

    def follow(
        self, command: q.Follow, session: Session, follower: IFollower
    ) -> IPushProducer | Deferred[IPushProducer]:
        """See IBackend."""

        def begin() -> IPushProducer | Deferred[IPushProducer]:
            return self._placed(command.topic, session, there)

        def there(place: Place) -> IPushProducer | Deferred[IPushProducer]:
            moved = msgspec.structs.replace(command, topic=place.topic)
            return self._backends[place.route].follow(moved, session, follower)

        return self._turns.wait(session, begin) if self._turns.waits(session) else begin()

    def close(self) -> Deferred[None]:
        """See IBackend.  All are closed; then fails if one of them did."""
        closing: list[Deferred[Any]] = [maybeDeferred(backend.close) for backend in self._backends]
        return DeferredList(closing, consumeErrors=True).addCallback(_closed)

    # -- where a command goes

    def _begin(self, command: q.Command, session: Session) -> Told:
        verb = self._verbs.get(type(command))
        return self._backends[0].execute(command, session) if verb is None else verb(command, session)

    def _look(self, verb: Verb, command: q.Command, session: Session) -> Told:
        return Deferred.fromCoroutine(verb(command, session))

    def _step(self, verb: Verb, command: q.Command, session: Session) -> Told:
        return self._turns.hold(session, Deferred.fromCoroutine(verb(command, session)), lambda reply: reply)

    def _topical(self, command: Topical, session: Session) -> Told:
        """Any command about one topic."""
        if not command.topic.name and isinstance(command, _OF_A_GROUP):
            command = msgspec.structs.replace(command, group=str(command.group))  # as it is called everywhere
            found = self._combining.place_of(command.topic.namespace, command.group, session)
            return self._turns.hold(session, Deferred.fromCoroutine(found), partial(self._send, command, session))
        return self._placed(command.topic, session, partial(self._send, command, session))

    def _create(self, command: q.CreateTopic, session: Session) -> Told:
        def there(place: Place) -> Told:
            if command.id is not None and (place.route or command.id >> NUMBER_BITS):
                sentence = f"only topics of the route * can be given a number, and one below 2^{NUMBER_BITS}"
                raise CommandFailed(Fault.INVALID_ARGUMENT, sentence)
            return self._send(command, session, place)

        return self._placed(command.topic, session, there)

    def _alter(self, command: q.AlterTopic, session: Session) -> Told:
        def there(place: Place) -> Told:
            if command.name is not None and not self._places.owns(place.route, place.namespace, command.name):
                raise CommandFailed(Fault.UNSUPPORTED, f"another route owns the name {command.name}")
            return self._send(command, session, place)

        return self._placed(command.topic, session, there)

    def _list_groups(self, command: q.ListGroups, session: Session) -> Told:
        if command.topic is None:
            return self._look(self._combining.looks[q.ListGroups], command, session)

        def there(place: Place) -> Told:
            return self._told(q.ListGroups(place.topic.namespace, place.topic.name), session, place)

        return self._placed(q.Topic(command.namespace, command.topic), session, there)

    def _find_leader(self, command: q.FindLeader, session: Session) -> Told:
        if command.subject is None:
            return self._backends[0].execute(command, session)

        def there(place: Place) -> Told:
            return self._told(q.FindLeader(place.topic), session, place)

        return self._placed(command.subject, session, there)

    # -- on the way there and back

    def _placed(self, topic: q.Topic, session: Session, step: Callable[[Place], T | Deferred[T]]) -> T | Deferred[T]:
        """What a step comes to that wants to know where the topic is."""
        place = self._places.find(topic, session)
        return self._turns.hold(session, place, step) if isinstance(place, Deferred) else step(place)

    def _send(self, command: Topical, session: Session, place: Place) -> Told:
        """Have a command about a topic carried out where that is."""
        if place.topic is not command.topic:
            command = msgspec.structs.replace(command, topic=place.topic)
        told = self._told(command, session, place)
        if not place.route and type(command) not in _DESCRIBED:
            return told
        shown = partial(self._shown, place.route)
        return told.addCallback(shown) if isinstance(told, Deferred) else shown(told)

    def _shown(self, route: int, reply: Reply) -> Reply:
        return self._places.shown(route, reply) if isinstance(reply, r.TopicDescription) else reply

    def _told(self, command: q.Command, session: Session, place: Place) -> Told:
        """What a route answers, for whoever knows the topic by what clients call it."""
        execute = self._backends[place.route].execute
        if not place.route or (place.namespace == DEFAULT_NAMESPACE and isinstance(place.topic.name, str)):
            return execute(command, session)
        answer = cast(Deferred[Reply], maybeDeferred(cast(Any, execute), command, session))
        return answer.addErrback(self._failed, place)

    def _failed(self, failure: Failure, place: Place) -> Failure:
        """A namespace that a route has lost is made there when it is next needed."""
        reason, name = failure.value, place.topic.name
        if isinstance(reason, CommandFailed):
            if reason.fault is Fault.NO_SUCH_NAMESPACE:
                self._places.forget(place.namespace)
            if isinstance(name, int) and reason.facts.get("actual") == str(name):
                reason.facts["actual"] = str(numbered(place.route, name))
        return failure


_DESCRIBED = {q.CreateTopic, q.AlterTopic, q.DescribeTopic, q.CreatePartitions, q.DeletePartitions}


def _closed(ends: list[tuple[bool, Any]]) -> None:
    for ended, result in ends:
        if not ended:
            result.raiseException()


def _strength(durability: str) -> int:
    """What nobody has heard of promises nothing."""
    return _DURABILITIES.index(durability) if durability in _DURABILITIES else -1
