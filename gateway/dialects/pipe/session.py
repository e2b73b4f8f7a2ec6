"""The server's half of a pipe connection: its last line, and what its listener's cluster adds to asking and answering.

What is asked of the table of brokers is answered when it is read; what needs the log, when the log has answered.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gateway.core.commands import CreateTopic, JoinGroup, LatestOffsets
from gateway.core.faults import CommandFailed
from gateway.core.records import Encoding
from gateway.core.replies import Count, Joined, Offsets, Outcome, PartitionOffsets, TopicDescription
from gateway.dialects.dialect import Dialect, Request, Settings
from gateway.dialects.pipe.asides import (
    Aside,
    BrokerChange,
    Election,
    Metadata,
    PartitionLeader,
    PartitionRole,
    ReplicaFetch,
    Replication,
)
from gateway.dialects.pipe.cluster import Cluster
from gateway.dialects.pipe.meanings import as_v1
from gateway.dialects.pipe.roles import Roles
from gateway.dialects.pipe.terms import PipeTerms
from gateway.dialects.session import Call, Listener, ServerSession


class PipeListener(Listener):
    """Its connections are PipeSessions, and see one cluster."""

    def __init__(self, dialect: Dialect, settings: Settings, encodings: Mapping[str, Encoding]) -> None:
        super().__init__(dialect, settings, encodings)
        self.cluster = Cluster()

    def session(self, address: str = "127.0.0.1:0") -> PipeSession:
        """See Listener."""
        terms = self.terms(address)
        assert isinstance(terms, PipeTerms), "a pipe listener has PipeTerms"
        return PipeSession(self, terms)


class PipeSession(ServerSession):
    """Serves a last line without LF, and speaks as a broker of its listener's cluster."""

    def __init__(self, listener: PipeListener, terms: PipeTerms) -> None:
        super().__init__(listener, terms)
        self._cluster = listener.cluster
        self._watched = listener.cluster.watched
        self._partitions = terms.partitions
        self._roles = Roles(listener.cluster, terms.partitions)

    def receive(self, data: bytes, now: float) -> list[Call]:
        """See ServerSession."""
        self._cluster.now = now
        return super().receive(data, now)

    @property
    def quiet(self) -> bool:
        """See ServerSession: what all of them share is told the time by whoever is heard next."""
        return not self._frames.pending

    def tick(self, now: float) -> None:
        """See ServerSession."""
        self._cluster.now = now
        super().tick(now)

    def last_words(self, rest: bytes) -> list[Call]:
        """Go's bufio.Scanner gives out what is left at the end of the stream as a line."""
        return self._calls([rest + b"\n"]) if rest else []

    def lost(self) -> None:
        """See ServerSession."""
        self._roles.lost()

    # -- what is asked

    def calls(self, request: Request) -> list[Call]:
        """See ServerSession.  Nearly every request goes through unseen."""
        if request.context is None and not self._watched and type(request.command) is not JoinGroup:
            return [Call(self._ticket(), request)]
        call = Call(self._ticket(), request)
        try:
            return self._asked(call)
        except CommandFailed as failure:
            super().answer(call, failure)
            return []

    def _asked(self, call: Call) -> list[Call]:
        command, aside = call.request.command, _aside(call)
        if isinstance(aside, BrokerChange | Replication | PartitionLeader | PartitionRole | Election):
            self.permit(None if isinstance(aside, Replication) else type(aside).__name__)
        if self._watched:
            self._roles.check(command, aside)
        match command, aside:
            case JoinGroup(), _:
                request = msgspec.structs.replace(call.request, command=self._with_assignor(command))
                return [Call(call.ticket, request)]
            case LatestOffsets(partition=int(partition)), PartitionRole():
                self._roles.asked(call.ticket, str(command.topic.name), partition, aside.follower)
            case _, Replication() | PartitionLeader():  # now, so that indices rise in the order of requests
                return [_beside(call, msgspec.structs.replace(aside, index=self._cluster.next_index()))]
            case _, BrokerChange():
                super().answer(call, self._cluster.change(aside))
                return []
        return [call]

    def _with_assignor(self, command: JoinGroup) -> JoinGroup:
        """A group whose members name no assignor is shared out by turns, as V1 users expect (seed, group.go).

        The core's groups begin with `range`.  To say `round_robin` in every JOIN would undo what another member named,
        a Cursus or native one included, at each rejoin of either.  So it is said until somebody joined through this
        listener; from then on the group keeps the assignor that it has.
        """
        if command.assignor or self._cluster.assigned(str(command.topic.name), str(command.group)):
            return command
        return msgspec.structs.replace(command, assignor="round_robin")

    # -- what is answered

    def answer(self, call: Call, outcome: Outcome) -> None:
        """As ServerSession, in the terms of a V1 server, and with what its cluster makes of it."""
        if call.request.context is not None or isinstance(outcome, CommandFailed) or type(outcome) is Joined:
            try:
                call, outcome = self._told(call, outcome)
            except CommandFailed as failure:
                outcome = failure
        super().answer(call, outcome)

    def _told(self, call: Call, outcome: Outcome) -> tuple[Call, Outcome]:
        """Raises CommandFailed where the cluster cannot keep more."""
        command, aside = call.request.command, _aside(call)
        if isinstance(outcome, CommandFailed):
            outcome = as_v1(command, aside, outcome, self._partitions)
        match command, aside, outcome:
            case JoinGroup(), _, Joined():
                self._cluster.assign(str(command.topic.name), str(command.group))
            case LatestOffsets(partition=int(partition)), PartitionRole(), CommandFailed():
                self._roles.answered(call.ticket, str(command.topic.name), partition)
            case LatestOffsets(partition=int(partition)), Aside(), Offsets():
                self._cluster.counted(str(command.topic.name), outcome.partitions)
                return self._placed(call, str(command.topic.name), partition, outcome)
            case CreateTopic(), Replication(), TopicDescription():
                topic, partitions = str(command.topic.name), len(outcome.partitions)
                self._cluster.create(topic, partitions, aside.replicas)
                self._cluster.counted(topic, partitions)
            case _, Metadata(), _:
                brokers, fenced = self._cluster.shown()
                call = _beside(call, msgspec.structs.replace(aside, brokers=brokers, fenced=fenced))
        return call, outcome

    def _placed(self, call: Call, topic: str, partition: int, outcome: Offsets) -> tuple[Call, Outcome]:
        """There is that partition, and the topic has as many as the outcome says."""
        cluster, aside = self._cluster, _aside(call)
        match aside, outcome.offsets:
            case PartitionRole(), _:
                try:
                    cluster.turn(topic, partition, aside.follower)
                finally:
                    self._roles.answered(call.ticket, topic, partition)
            case PartitionLeader(), _:
                cluster.lead(topic, outcome.partitions, partition, aside.leader, aside.isr)
                return call, Count(aside.index)
            case Election(), _:
                return call, Count(cluster.elect(topic, outcome.partitions))
            case ReplicaFetch(), (PartitionOffsets(end=end), *_):
                isr = cluster.acked(topic, partition, aside.replica, aside.offset, end - 1)
                call = _beside(call, msgspec.structs.replace(aside, isr=isr))
        return call, outcome


def _aside(call: Call) -> Aside | None:
    context = call.request.context
    return context if isinstance(context, Aside) else None


def _beside(call: Call, aside: Aside) -> Call:
    return Call(call.ticket, msgspec.structs.replace(call.request, context=aside))
