"""Who may do what: a backend that asks its rules before it lets a command through to another.

Rules are about commands and names, so one policy holds for every dialect.  What a command does beside its own meaning
needs its own permission: a topic that it would make is not made, a commit behind a read is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from gateway.backends.interface import IBackend, IFollower
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import RecordBatch
from gateway.core.replies import Reply

EVERYBODY = ("*",)
ANONYMOUS = "anonymous"

OPEN = frozenset({q.Ping, q.Authenticate, q.Logout, q.EndSession, q.DescribeSession})
"""What nobody is refused."""

MAX_KNOWN = 10_000
"""Decisions that are kept: who, which command, which topic."""

T = TypeVar("T")


class AccessRule(msgspec.Struct, frozen=True):
    """One `[[access]]`.  The first rule that fits decides; what none fits is refused.

    who:     users; `*` = everybody, `anonymous` = who has not logged in.
    command: names of commands (Publish, Fetch, ...); `*` = every command.
    topic:   patterns, NAME or PREFIX*; those of other namespaces than `default` are NAMESPACE/NAME.  A command that is
             about no topic fits `*` alone, one about a namespace also NAMESPACE/*.
    """

    allow: bool
    who: tuple[str, ...] = EVERYBODY
    command: tuple[str, ...] = EVERYBODY
    topic: tuple[str, ...] = EVERYBODY


def fits(pattern: str, name: str) -> bool:
    """In a time that grows with the name alone: there is one star, at the end."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def touches(pattern: str, prefix: str) -> bool:
    """Whether a pattern fits some name that begins so."""
    plain = pattern.removesuffix("*")
    return plain.startswith(prefix) or (pattern.endswith("*") and prefix.startswith(plain))


class Policy:
    """rules: in the order in which they are tried; () = everything is allowed."""

    def __init__(self, rules: Iterable[AccessRule]) -> None:
        self._rules = tuple(rules)
        self._known: dict[tuple[str, str, str], bool] = {}
        self.by_topic = any(rule.topic != EVERYBODY for rule in self._rules)

    def allows(self, who: str | None, command: str, name: str) -> bool:
        """name: of the topic, "" = it is about none."""
        asked = who or ANONYMOUS, command, name
        known = self._known.get(asked)
        if known is None:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            known = self._known[asked] = self._decide(who, command, lambda rule: any(fits(p, name) for p in rule.topic))
        return known

    def allows_all(self, who: str | None, command: str, prefix: str) -> bool:
        """Whether it is allowed for every name that begins so, as far as the rules tell."""
        fit = f"{prefix}*"

        def about(rule: AccessRule) -> bool:
            if rule.allow:
                return any(fits(pattern, fit) for pattern in rule.topic)
            return any(touches(pattern, prefix) for pattern in rule.topic)

        return self._decide(who, command, about)

    def _decide(self, who: str | None, command: str, about: Callable[[AccessRule], bool]) -> bool:
        for rule in self._rules:
            if _is(who, rule.who) and (rule.command == EVERYBODY or command in rule.command) and about(rule):
                return rule.allow
        return not self._rules


def _is(who: str | None, named: tuple[str, ...]) -> bool:
    return named == EVERYBODY or "*" in named or (ANONYMOUS if who is None else who) in named


def _is_whereabouts(command: q.Command, session: Session) -> bool:
    """Somebody who has logged in asks where this node is: he knows, or he would not be here.  Iggy's clients of 0.8 ask
    at every login, and those of Cursus before they join a group (FIND_COORDINATOR); a rule about a topic fits neither.
    """
    return isinstance(command, q.FindLeader) and command.subject is None and session.principal is not None


@implementer(IBackend)
class Guarded:
    """backend: who carries out what is allowed, and is `behind`.  policy: may be replaced at any time."""

    def __init__(self, backend: IBackend, policy: Policy) -> None:
        self.behind = self._backend = backend
        self.policy = policy
        self.durability = backend.durability
        self.immediate: bool = getattr(backend, "immediate", False)
        self.bursts: object = getattr(backend, "bursts", None)

    def execute(self, command: q.Command, session: Session) -> Reply | Deferred[Reply]:
        """See IBackend.  Fails with FORBIDDEN."""
        if type(command) in OPEN or _is_whereabouts(command, session):
            return self._backend.execute(command, session)
        if isinstance(command, q.DescribeGroup) and not command.topic.name:
            return self._described(command, session)
        return self._named(command, session, lambda name: self._through(command, session, name))

    def follow(
        self, command: q.Follow, session: Session, follower: IFollower
    ) -> IPushProducer | Deferred[IPushProducer]:
        """See IBackend.  Fails with FORBIDDEN, and ends with it when a later policy is asked about the next records."""

        def begin(name: str) -> IPushProducer | Deferred[IPushProducer]:
            def check() -> None:
                self._check(type(command).__name__, session, name, _said(command))

            check()
            checked = _Checked(follower, check)
            begun = self._backend.follow(command, session, checked)
            return begun.addCallback(checked.begun) if isinstance(begun, Deferred) else checked.begun(begun)

        return self._named(command, session, begin)

    def close(self) -> Deferred[None] | None:
        """See IBackend."""
        return self._backend.close()

    def _through(self, command: q.Command, session: Session, name: str) -> Reply | Deferred[Reply]:
        kind, said = type(command).__name__, _said(command)
        if isinstance(command, q.DeleteNamespace):
            self._check_all(kind, session, name)
        else:
            self._check(kind, session, name, said)
        if isinstance(command, q.AlterTopic) and command.name is not None:
            self._check(kind, session, name[: name.rfind("/") + 1] + command.name, command.name)
        if getattr(command, "commit", False):
            self._check("CommitOffsets", session, name, said)
        if getattr(command, "create", 0) and not self.policy.allows(session.principal, "CreateTopic", name):
            command = msgspec.structs.replace(command, create=0)
        return self._backend.execute(command, session)

    def permit(self, what: str, session: Session) -> None:
        """Raises CommandFailed(FORBIDDEN) for something that is about no topic and not carried out by a backend.

        what: the name of a command, or of what is none; that is allowed to who may do everything.
        """
        self._check(what, session, "")

    def _check(self, kind: str, session: Session, name: str, said: str = "") -> None:
        """said: the name as the peer gave it; what it did not say, it is not told."""
        if not self.policy.allows(session.principal, kind, name):
            raise CommandFailed(Fault.FORBIDDEN, f"{kind} of {said!r}" if said else kind)

    def _check_all(self, kind: str, session: Session, prefix: str) -> None:
        if not self.policy.allows_all(session.principal, kind, prefix):
            raise CommandFailed(Fault.FORBIDDEN, kind)

    # -- names

    def _named(self, command: q.Command, session: Session, go_on: Callable[[str], T | Deferred[T]]) -> T | Deferred[T]:
        """Go on with the name that rules know it by; a number is looked up only where names matter."""
        topic = getattr(command, "topic", None)
        if isinstance(command, q.FindLeader):
            topic = command.subject
        if not isinstance(topic, q.Topic):
            return self._in_namespace(command, session, go_on)
        if isinstance(topic.name, str) and isinstance(topic.namespace, str):
            return go_on(_name(topic.namespace, topic.name))
        if not self.policy.by_topic:
            return go_on(str(topic.name))
        if isinstance(command, q.CreateTopic):
            found = self._backend.execute(q.DescribeNamespace(topic.namespace), session)
            return _then(found, lambda reply: go_on(_name(_of(r.NamespaceDescription, reply).name, str(topic.name))))
        found = self._backend.execute(q.DescribeTopic(topic), session)
        return _then(found, lambda reply: go_on(_named(_of(r.TopicDescription, reply))))

    def _in_namespace(
        self, command: q.Command, session: Session, go_on: Callable[[str], T | Deferred[T]]
    ) -> T | Deferred[T]:
        namespace = getattr(command, "namespace", None)
        if isinstance(command, q.CreateNamespace):
            namespace = command.name
        if namespace is None:
            return go_on("")
        if isinstance(namespace, str) or not self.policy.by_topic:
            return go_on(_name(str(namespace), ""))
        found = self._backend.execute(q.DescribeNamespace(namespace), session)
        return _then(found, lambda reply: go_on(_name(_of(r.NamespaceDescription, reply).name, "")))

    def _described(self, command: q.DescribeGroup, session: Session) -> Reply | Deferred[Reply]:
        """Of a group whose topic nobody named: which that is, the answer says, and then it is asked."""

        def check(reply: Reply) -> Reply:
            group = _of(r.GroupDescription, reply)
            self._check("DescribeGroup", session, _name(group.namespace, group.topic))
            return reply

        return _then(self._backend.execute(command, session), check)


@implementer(IFollower)
class _Checked:
    """A follower that gets records for as long as it may.  check: raises CommandFailed when it may not."""

    def __init__(self, follower: IFollower, check: Callable[[], None]) -> None:
        self._follower = follower
        self._check = check
        self._producer: IPushProducer | None = None
        self._over = False

    def begun(self, producer: IPushProducer) -> IPushProducer:
        """That is what delivers."""
        self._producer = producer
        return producer

    def deliver(self, batch: RecordBatch) -> None:
        """See IFollower."""
        if self._over:
            return
        try:
            self._check()
        except CommandFailed as failure:
            if self._producer is not None:
                self._producer.stopProducing()
            self.ended(failure)
        else:
            self._follower.deliver(batch)

    def ended(self, failure: CommandFailed) -> None:
        """See IFollower."""
        if not self._over:
            self._over = True
            self._follower.ended(failure)


def _said(command: q.Command) -> str:
    """The topic that a command is about as it says it, name or number; "" for one that is about none."""
    topic = command.subject if isinstance(command, q.FindLeader) else getattr(command, "topic", None)
    return str(topic.name) if isinstance(topic, q.Topic) else ""


def _name(namespace: str, name: str) -> str:
    return name if namespace == q.DEFAULT_NAMESPACE else f"{namespace}/{name}"


def _named(topic: r.TopicDescription) -> str:
    return _name(topic.namespace, topic.name)


R = TypeVar("R", bound=r.Answer)


def _of(kind: type[R], reply: Reply) -> R:
    assert isinstance(reply, kind), f"a {kind.__name__} was asked for"
    return reply


def _then(value: Reply | Deferred[Reply], step: Callable[[Reply], T | Deferred[T]]) -> T | Deferred[T]:
    return value.addCallback(step) if isinstance(value, Deferred) else step(value)
