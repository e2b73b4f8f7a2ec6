"""What a connection follows: records that a backend pushes, from their begin to their end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.python.failure import Failure
from zope.interface import implementer

from gateway.backends.interface import IBackend, IFollower
from gateway.core import commands as q
from gateway.core.faults import CommandFailed
from gateway.core.records import RecordBatch
from gateway.dialects import Call

if TYPE_CHECKING:
    from gateway.net.server import Connection


class Follows:
    """Every Follow of one connection.

    producers: what delivers to each, by ticket; None = it has not begun yet.
    """

    def __init__(self, connection: Connection, backend: IBackend) -> None:
        self.producers: dict[int, IPushProducer | None] = {}
        self._connection = connection
        self._backend = backend

    def begin(self, call: Call, command: q.Follow) -> None:
        """Take one up.  Raises what the backend does."""
        self.producers[call.ticket] = None
        try:
            begun = self._backend.follow(command, self._connection.who, _Follower(self, call))
        except Exception:
            del self.producers[call.ticket]
            raise
        if isinstance(begun, Deferred):
            begun.addCallbacks(self._begun, self._not_begun, callbackArgs=(call,), errbackArgs=(call,))
        else:
            self._begun(begun, call)

    def pause(self) -> None:
        """The peer does not read."""
        for producer in self._delivering():
            producer.pauseProducing()

    def resume(self) -> None:
        """The peer reads again, maybe not for long."""
        producers, connection = self.producers, self._connection
        for ticket in list(producers):
            if not connection.peer_full and ticket in producers:
                producer = producers[ticket] = producers.pop(ticket)  # behind those that had no turn yet
                if producer is not None:
                    producer.resumeProducing()

    def stop(self) -> None:
        """The peer wants no more."""
        stopping = self._delivering()
        self.producers.clear()
        for producer in stopping:
            producer.stopProducing()

    def deliver(self, call: Call, batch: RecordBatch) -> None:
        """Records for a Follow."""
        if call.ticket not in self.producers:
            return
        try:
            self._connection.push(call, batch)
        except Exception:
            self._cut(call, self._connection.reason(call, Failure()))

    def end(self, call: Call, failure: CommandFailed) -> None:
        """A Follow goes no further."""
        if self.producers.pop(call.ticket, self) is not self:
            self._connection.ended(call, failure)

    def _begun(self, producer: IPushProducer, call: Call) -> None:
        if call.ticket not in self.producers:  # the peer went away meanwhile
            producer.stopProducing()
            return
        self.producers[call.ticket] = producer
        self._connection.begun(call)
        if self._connection.peer_full:
            producer.pauseProducing()

    def _not_begun(self, failure: Failure, call: Call) -> None:
        if self.producers.pop(call.ticket, self) is not self:
            self._connection.not_begun(call, failure)

    def _cut(self, call: Call, failure: CommandFailed) -> None:
        producer = self.producers.get(call.ticket)
        if producer is not None:
            producer.stopProducing()
        self.end(call, failure)

    def _delivering(self) -> list[IPushProducer]:
        return [producer for producer in self.producers.values() if producer is not None]


@implementer(IFollower)
class _Follower:
    """What a Follow of one connection delivers to."""

    def __init__(self, follows: Follows, call: Call) -> None:
        self._follows = follows
        self._call = call

    def deliver(self, batch: RecordBatch) -> None:
        """See IFollower."""
        self._follows.deliver(self._call, batch)

    def ended(self, failure: CommandFailed) -> None:
        """See IFollower."""
        self._follows.end(self._call, failure)
