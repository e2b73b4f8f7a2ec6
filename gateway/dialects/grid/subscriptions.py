"""TOPIC_SUBSCRIBE where messages are pushed: the topic is made, followed, and only then asked where it ended.

So no message is missed: the Follow begins at or before the sequence that the peer is told, and what is before that is
not shown to it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gateway.core.commands import CreateTopic, Follow, IfExists, LatestOffsets
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import RecordBatch
from gateway.core.replies import Offsets, Outcome, PartitionOffsets
from gateway.dialects.dialect import Request
from gateway.dialects.session import Call


class Step(msgspec.Struct, frozen=True):
    """The context of a call that the peer did not ask for.  follow: the one it is for; None = whatever comes of it."""

    follow: Call | None = None


class Subscription:
    """One that was asked for.

    next:      the first sequence that the peer is to see; None = not known yet.
    told:      the peer knows it.
    cancelled: the peer wants no more.
    waiting:   batches that came before `next` was known.
    """

    __slots__ = ("cancelled", "name", "next", "told", "waiting")

    def __init__(self, name: bytes, first: int | None) -> None:
        self.name = name
        self.next = first
        self.told = False
        self.cancelled = False
        self.waiting: list[RecordBatch] = []


class Subscriptions:
    """Those of one connection, by the ticket of their Follow; of each topic the newest alone goes on."""

    def __init__(self) -> None:
        self._open: dict[int, Subscription] = {}

    def begin(self, call: Call, command: Follow, ticket: Callable[[], int]) -> list[Call]:
        """What to carry out for it."""
        name = str(command.topic.name).encode()
        self.cancel(name)
        first = command.start if isinstance(command.start, int) else None
        self._open[call.ticket] = Subscription(name, first)
        made = Request(CreateTopic(command.topic, 1, if_exists=IfExists.KEEP), None, Step())
        asked = [Call(ticket(), made), call]
        if first is None:
            asked.append(Call(ticket(), Request(LatestOffsets(command.topic, 0), None, Step(call))))
        return asked

    def cancel(self, name: bytes) -> None:
        """The peer wants no more of a topic.  The Follow ends with the next record that there is for it."""
        for subscription in self._open.values():
            subscription.cancelled = subscription.cancelled or subscription.name == name

    def end(self, call: Call) -> Subscription | None:
        """It goes no further."""
        return self._open.pop(call.ticket, None)

    def answer(self, call: Call) -> Offsets | None:
        """What to tell the peer, once: the first sequence that it will see.  None = not known, or told before."""
        subscription = self._open.get(call.ticket)
        if subscription is None or subscription.next is None or subscription.told:
            return None
        subscription.told = True
        return Offsets(1, (PartitionOffsets(0, 0, subscription.next),))

    def placed(self, call: Call, outcome: Outcome) -> list[RecordBatch]:
        """It is known where the topic ended.  What waited for that."""
        subscription = self._open.get(call.ticket)
        if subscription is None:
            return []
        assert isinstance(outcome, Offsets), "LatestOffsets is answered with nothing else"
        subscription.next = max((bounds.end for bounds in outcome.offsets), default=0)
        waiting, subscription.waiting = subscription.waiting, []
        return waiting

    def wanted(self, call: Call, batch: RecordBatch) -> RecordBatch | None:
        """What of a batch is to be shown now.  Raises CommandFailed for a subscription that is over."""
        subscription = self._open.get(call.ticket)
        if subscription is None or subscription.cancelled:
            raise CommandFailed(Fault.UNAVAILABLE, "the subscription is over")
        if subscription.next is None:
            subscription.waiting.append(batch)
            return None
        first = max(0, subscription.next - batch.base)
        return batch.cut(first, batch.count) if first < batch.count else None
