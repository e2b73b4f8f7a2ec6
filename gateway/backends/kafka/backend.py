"""The backend: which part answers which command."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from gateway.backends.interface import IBackend, IFollower
from gateway.backends.kafka.cluster import COMMAND_SECONDS, Cluster
from gateway.backends.kafka.membership import Membership
from gateway.backends.kafka.offsets import Offsets
from gateway.backends.kafka.producing import Producing
from gateway.backends.kafka.reading import Reading
from gateway.backends.kafka.tables import Tables
from gateway.backends.kafka.topics import Topics
from gateway.backends.wall import microseconds
from gateway.core import commands as q
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding
from gateway.core.replies import Reply

Verb = Callable[..., Reply | Deferred[Reply]]

CLOSE_SECONDS = 3.0
"""For the parts to end what they have begun, before the cluster's own end."""


@implementer(IBackend)
class KafkaBackend:
    """bootstrap: `HOST:PORT[,HOST:PORT...]`.  now: the wall clock in us since the epoch."""

    durability = "replicated"
    _log = Logger()

    def __init__(
        self,
        bootstrap: str,
        encodings: Mapping[str, Encoding],
        reactor: IReactorTime,
        now: Callable[[], int] = microseconds,
    ) -> None:
        self._cluster = Cluster(bootstrap, encodings, reactor, now)
        membership = Membership(self._cluster)
        offsets = Offsets(self._cluster, membership)
        producing = Producing(self._cluster)
        self._reading = Reading(self._cluster, membership, offsets, producing)
        tables = Tables(self._cluster, self._reading, producing, offsets)
        self._closing: tuple[Callable[[], Deferred[None] | None], ...] = (
            tables.close,
            self._reading.close,
            producing.close,
            offsets.close,
            membership.close,
        )
        self._verbs: dict[type, Verb] = {
            **Topics(self._cluster, self.durability).verbs,
            **membership.verbs,
            **offsets.verbs,
            **producing.verbs,
            **self._reading.verbs,
            **tables.verbs,
        }
        self._cluster.start()

    def execute(self, command: q.Command, session: Session) -> Reply | Deferred[Reply]:
        """See IBackend."""
        verb = self._verbs.get(type(command))
        if verb is None:
            raise CommandFailed(Fault.UNSUPPORTED, f"{type(command).__name__} cannot be done over Kafka")
        reply = verb(command, session)
        if not isinstance(reply, Deferred):
            return reply
        return self._cluster.within(reply, COMMAND_SECONDS + getattr(command, "wait", 0.0))

    def follow(
        self, command: q.Follow, session: Session, follower: IFollower
    ) -> IPushProducer | Deferred[IPushProducer]:
        """See IBackend."""
        return self._reading.follow(command, session, follower)

    def close(self) -> Deferred[None]:
        """See IBackend."""
        return Deferred.fromCoroutine(self._close())

    async def _close(self) -> None:
        ending = [self._cluster.within(maybeDeferred(close), CLOSE_SECONDS) for close in self._closing]
        for ended in ending:
            try:
                await ended
            except Exception:  # the others are to be released all the same
                self._log.failure("a part of the backend did not end as it should")
        await self._cluster.close()
